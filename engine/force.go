package engine

import (
	"errors"
	"math"
	"time"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/engine/runtime"
	"github.com/torchlette/torchlette/ir"
)

// force runs the work that the values and the first effects entries of the log need. The caller holds the engine's
// lock. A value that cannot be computed becomes a failed leaf and is no error of force: see failures.go.
func (e *Engine) force(values []uint32, effects int) *ir.Error {
	if err := e.failures.poisoned(); err != nil {
		return err
	}
	done, err := e.resume()
	if err != nil {
		return e.failures.fail(err)
	}
	effects = max(effects-done, 0)
	err = e.runWindow(values, effects)
	var adm *runtime.ErrAdmission
	if err == nil || !errors.As(err, &adm) {
		return e.failures.fail(err)
	}
	if err := e.runtime.Trim(); err != nil {
		return e.failures.fail(err)
	}
	return e.failures.fail(e.inParts(values, effects))
}

// runWindow collects, plans and runs one window, and commits it.
func (e *Engine) runWindow(values []uint32, effects int) error {
	t0 := time.Now()
	w, ok := e.planner.collect(values, effects)
	for ok && e.readsFailure(w) {
		w.Clear()
		e.spread(causes{})
		effects = e.ready(effects, math.MaxUint64)
		w, ok = e.planner.collect(values, effects)
	}
	if !ok {
		w.Clear()
		e.session.CommitEffects(effects)
		return nil
	}
	p := e.planner.find()
	if p != nil && p.Slow && e.waiter.pausable {
		w.Clear()
		return errPaused
	}
	key := time.Since(t0)
	e.stats.keyNanos += int64(key)
	if err := e.checkLost(w.Ext); err != nil {
		w.Clear()
		return err
	}
	e.stats.windows++
	built := p == nil
	if e.planner.steady = !built; built {
		var err error
		if p, err = e.build(); err != nil {
			w.Clear()
			return err
		}
	} else {
		p = e.fused(p)
		e.stats.replayed++
	}
	p.Runs++
	e.windows.begin(e, t0, key, p, built, e.whyForced(values))
	w.Clear()
	t1 := time.Now()
	e.windows.current.Build = int64(t1.Sub(t0) - key)
	ext := make([]uint32, len(w.Ext))
	for i, id := range w.Ext {
		ext[i] = e.graph.Node(id).Store
	}
	e.runtime.Deadline = e.waiter.deadline(t1)
	e.copyBehind(p, w.Nodes)
	res, err := e.runPlan(p, ext, &w.Program)
	e.keepCopy()
	err = e.settle(p, res, err, t1)
	p.Slow = errors.Is(err, errPaused) || time.Since(t1) > pauseAfter
	return err
}

// runPlan runs the plan of program g. A panic becomes an error that poisons the engine, because the run may have
// written to some buffers.
func (e *Engine) runPlan(p *compile.Plan, ext []uint32, g *program.Program) (res []uint32, err error) {
	defer recovered(&err)
	return e.runtime.Run(p, ext, g.Offsets, g.Scalars, nil)
}

// resumePlan continues the stopped plan; it is otherwise runPlan.
func (e *Engine) resumePlan() (res []uint32, err error) {
	defer recovered(&err)
	return e.runtime.Resume()
}

// checkLost refuses a window that reads a placeholder.
func (e *Engine) checkLost(inputs []uint32) *ir.Error {
	for _, id := range inputs {
		if err := e.lost(id); err != nil {
			return err
		}
	}
	return nil
}

// commit turns the results of the window that ran into leaves and commits its effects.
func (e *Engine) commit(p *compile.Plan, res []uint32) {
	g, w := e.graph, e.planner.collected()
	for _, r := range p.Results {
		g.Retain(w.Nodes[r.Local])
	}
	for i, r := range p.Results {
		g.Realize(w.Nodes[r.Local], res[i])
	}
	e.session.CommitEffects(w.Effects)
	for _, r := range p.Results {
		g.Release(w.Nodes[r.Local])
	}
	g.CompactPending()
	e.failures.forgetWalks(g)
	e.session.CountPendingBytes()
	e.net.after(len(g.Pending))
}
