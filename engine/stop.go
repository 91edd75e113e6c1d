package engine

import (
	"errors"
	"time"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// A run can be stopped between any two steps. What then becomes of the window follows from whether the run has written
// to a buffer that was there before it (a store in place):
//
//   - It has not: the run is given up. All its values are pending as before, and a later read computes them anew.
//   - It has: to run a step again would update a buffer twice. The window is held, and goes on from the very place
//     where it stopped before anything else runs.
//
// A pause holds the window in both cases.

// heldWindow is a window whose run has stopped, with a reference to all that it reads and makes.
type heldWindow struct {
	w *lazy.Window
	p *compile.Plan
}

var (
	// errPaused ends a run that has had the caller's thread for long: the caller makes a job of it.
	errPaused = ir.Errorf(ir.ErrInterrupted, "the run is paused")
	// errBusyDevice ends a read that has waited for a device for its whole slice.
	errBusyDevice  = ir.Errorf(ir.ErrInterrupted, "the device is busy")
	errInterrupted = ir.Errorf(ir.ErrInterrupted, "interrupted")
)

// settle ends a run of plan p that gave res and err: it commits the window, or holds or gives up a run that was
// stopped.
func (e *Engine) settle(p *compile.Plan, res []uint32, err error, began time.Time) error {
	for errors.Is(err, device.ErrStopped) {
		if err = e.stopped(p); err == nil {
			res, err = e.resumePlan()
		}
	}
	took := time.Since(began)
	p.RunTime += took
	e.stats.runNanos += int64(took)
	if err != nil {
		return err
	}
	w := e.planner.window
	e.failures.remember(e.graph, w)
	e.noteTimings(w, p)
	e.stats.executed += int64(len(w.Nodes))
	e.stats.inPlace += int64(p.InPlace)
	e.stats.through += int64(p.Through)
	e.commit(p, res)
	return nil
}

// stopped decides what becomes of a run that has stopped; nil: it is to go on at once.
func (e *Engine) stopped(p *compile.Plan) error {
	if e.waiter.interrupted() {
		e.failures.remember(e.graph, e.planner.window) // a data error that it has found is raised at the next boundary
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

// dropWindow ends what keepWindow began.
func (e *Engine) dropWindow(h *heldWindow) {
	g := e.graph
	for _, list := range [][]uint32{h.w.Nodes, h.w.Ext} {
		for i := len(list) - 1; i >= 0; i-- {
			g.Release(list[i])
		}
	}
	g.CompactPending()
}

// resume runs what is left of the held window, if there is one, and gives the number of effects that it has committed.
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
