package engine

import (
	"errors"
	"time"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// A run can be stopped between any two steps. The fate of its window depends on whether the run has overwritten an
// older buffer (a store in place):
//
//   - If not, the run is given up: all its values stay pending, and a later read computes them.
//   - If so, the window is held, because a second run would update a buffer twice. It continues where it stopped before
//     anything else runs.
//
// A pause holds the window in both cases.

// heldWindow is a stopped window with references to all its nodes and inputs.
type heldWindow struct {
	w *lazy.Window
	p *compile.Plan
}

var (
	// errPaused ends a run that has kept its caller's thread too long: the caller continues it as a job.
	errPaused = ir.Errorf(ir.ErrInterrupted, "the run is paused")
	// errBusyDevice ends a read that has waited for a device for its whole slice.
	errBusyDevice  = ir.Errorf(ir.ErrInterrupted, "the device is busy")
	errInterrupted = ir.Errorf(ir.ErrInterrupted, "interrupted")
)

// settle ends a run of plan p with its results or error: it commits the window, or holds or gives up a stopped run.
func (e *Engine) settle(p *compile.Plan, res []uint32, err error, began time.Time) error {
	for errors.Is(err, device.ErrStopped) {
		if err = e.stopped(p); err == nil {
			res, err = e.resumePlan()
		}
	}
	took := time.Since(began)
	p.RunTime += took
	e.stats.runNanos += int64(took)
	e.windows.current.Run += int64(took)
	if err != nil {
		return err
	}
	w := e.planner.collected()
	e.failures.remember(e.graph, w)
	e.noteWindow(w, p, began.Add(took))
	e.noteTimings(w, p)
	e.stats.executed += int64(len(w.Nodes))
	e.stats.inPlace += int64(p.InPlace)
	e.stats.through += int64(p.Through)
	e.commit(p, res)
	return nil
}

// stopped handles a stopped run; nil means that the run continues at once.
func (e *Engine) stopped(p *compile.Plan) error {
	if e.waiter.interrupted() {
		e.failures.remember(e.graph, e.planner.collected()) // the next boundary raises a data error found so far
		if !e.runtime.Overwrote() {
			e.runtime.GiveUp()
			return errInterrupted
		}
		e.keepWindow(p)
		return errInterrupted
	}
	if !e.waiter.pausable {
		return nil
	}
	e.keepWindow(p)
	return errPaused
}

// keepWindow holds the collected window until resume.
func (e *Engine) keepWindow(p *compile.Plan) {
	w := e.planner.swap(lazy.NewWindow(e.session))
	for _, list := range [][]uint32{w.Nodes, w.Ext} {
		for _, id := range list {
			e.graph.Retain(id)
		}
	}
	e.waiter.held = &heldWindow{w: w, p: p}
}

// dropWindow releases the references that keepWindow took.
func (e *Engine) dropWindow(h *heldWindow) {
	g := e.graph
	for _, list := range [][]uint32{h.w.Nodes, h.w.Ext} {
		for i := len(list) - 1; i >= 0; i-- {
			g.Release(list[i])
		}
	}
	g.CompactPending()
}

// resume runs the rest of the held window, if there is one, and returns the number of effects committed.
func (e *Engine) resume() (effects int, err error) {
	h := e.waiter.held
	if h == nil {
		return 0, nil
	}
	e.waiter.held = nil
	e.planner.swap(h.w)
	began := time.Now()
	e.runtime.Deadline = e.waiter.deadline(began)
	res, err := e.resumePlan()
	effects = h.w.Effects
	err = e.settle(h.p, res, err, began)
	e.dropWindow(h)
	if err != nil {
		return 0, err
	}
	return effects, nil
}
