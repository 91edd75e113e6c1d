package engine

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/engine/runtime"
	"github.com/torchlette/torchlette/ir"
)

// force runs what the values and the first effects entries of the log need. The
// engine's lock is held. Values that cannot be computed become failed leaves, which
// is no error of force: see failures.go.
func (e *Engine) force(values []uint32, effects int) *ir.Error {
	if err := e.poisoned(); err != nil {
		return err
	}
	done, err := e.resume()
	if err != nil {
		return e.fail(err)
	}
	effects = max(effects-done, 0)
	err = e.runWindow(values, effects)
	var adm *runtime.ErrAdmission
	if err == nil || !errors.As(err, &adm) {
		return e.fail(err)
	}
	for _, pl := range e.runtime.Devices {
		if t := pl.Pool.Trim(); t != nil {
			return e.fail(t)
		}
	}
	return e.fail(e.inParts(values, effects))
}

func isStore(k lazy.EffectKind) bool { return k == lazy.StoreSemantic || k == lazy.StoreMaterialize }

func asError(err error) *ir.Error {
	var x *ir.Error
	if errors.As(err, &x) {
		return x
	}
	return ir.Errorf(ir.ErrKernelExecution, "%s", err.Error())
}

// fail classes an execution failure: what may have run in part poisons the engine.
func (e *Engine) fail(err error) *ir.Error {
	if err == nil {
		return nil
	}
	x := asError(err)
	switch x.Code {
	case ir.ErrDeviceLost, ir.ErrKernelExecution, ir.ErrInternal:
		if e.poison == nil {
			e.poison = x
		}
	}
	return x
}

// window collects, plans and runs one window, and commits it.
func (e *Engine) runWindow(values []uint32, effects int) error {
	t0 := time.Now()
	for {
		if !e.window.Collect(values, effects) {
			e.window.Clear()
			e.truncate(effects)
			return nil
		}
		if !e.readsFailure() {
			break
		}
		e.window.Clear()
		e.spread(nil)
		effects = e.ready(effects, math.MaxUint64)
	}
	w := e.window
	p := e.cache.Find(&w.Program)
	e.stats.keyNanos += int64(time.Since(t0))
	if err := e.checkLost(); err != nil {
		w.Clear()
		return err
	}
	e.stats.windows++
	if p == nil {
		var err error
		if p, err = e.build(); err != nil {
			w.Clear()
			return err
		}
	} else {
		e.stats.replayed++
	}
	p.Runs++
	w.Clear()
	t1 := time.Now()
	ext := make([]uint32, len(w.Ext))
	for i, id := range w.Ext {
		ext[i] = e.session.Graph.Node(id).Store
	}
	e.setDeadline(t1)
	res, err := e.runPlan(p, ext)
	return e.settle(p, res, err, t1)
}

// runPlan runs the plan of the collected window. A panic is its error: it poisons the engine, for the run may have
// written to some of its buffers.
func (e *Engine) runPlan(p *compile.Plan, ext []uint32) (res []uint32, err error) {
	defer recovered(&err)
	return e.runtime.Run(p, ext, e.window.Program.Offsets, e.window.Program.Scalars, nil)
}

// resumePlan goes on with the plan that has stopped, like runPlan.
func (e *Engine) resumePlan() (res []uint32, err error) {
	defer recovered(&err)
	return e.runtime.Resume()
}

// build makes, prepares and caches the plan of the collected window. Whatever fails here, a panic too, has run
// nothing.
func (e *Engine) build() (*compile.Plan, error) {
	p, err := e.makePlan()
	if err != nil {
		return nil, &runtime.ErrAdmission{Err: err}
	}
	p.Cause = e.cache.MissReason(&e.window.Program)
	e.cache.Add(p)
	e.stats.built++
	return p, nil
}

// proved gives g as its text form gives it back. It panics unless g is well formed and nothing is lost.
func proved(g *program.Program) *program.Program {
	if err := g.Verify(); err != nil {
		panic(fmt.Sprintf("BUG: %v in\n%s", err, g))
	}
	text := g.String()
	again, err := program.Parse(text)
	if err != nil || !again.Same(g) || again.String() != text || !slices.Equal(again.Offsets, g.Offsets) ||
		!slices.Equal(again.Scalars, g.Scalars) {
		panic(fmt.Sprintf("BUG: the text form loses something (%v): it is\n%s\nand was\n%s", err, again, text))
	}
	return again
}

// lost is the error of reading a leaf without a value: one that failed, or a placeholder.
func (e *Engine) lost(value uint32) *ir.Error {
	if f := e.session.Graph.Failure(value); f != nil {
		return told(f)
	}
	if n := e.session.Graph.Node(value); n.Op == ir.OpLeaf && n.Store == 0 {
		return &ir.Error{Code: ir.ErrRuntime, SourceLoc: n.SourceLoc,
			Msg: "a tensor is read while a function of it is captured: it has no value yet"}
	}
	return nil
}

// checkLost refuses a window that reads a placeholder.
func (e *Engine) checkLost() *ir.Error {
	for _, id := range e.window.Ext {
		if err := e.lost(id); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) makePlan() (p *compile.Plan, err error) {
	defer recovered(&err)
	for _, id := range e.window.Nodes {
		if err := e.ensureDevice(ir.AvalOf(e.session.Graph.Node(id).Aval).Device); err != nil {
			return nil, err
		}
	}
	g := &e.window.Program
	if e.verify {
		g = proved(g)
	}
	b := compile.Builder{Program: g, Caps: e.caps, TileFuser: e.tileFuser, Lowered: &e.cache.Lowered, Debug: e.debug,
		Trap: e.passTrap}
	if p, err = b.Build(); err != nil {
		return nil, err
	}
	return p, e.runtime.Prepare(p)
}

// commit makes the results leaves, persists versions and drops the effects that ran.
func (e *Engine) commit(p *compile.Plan, res []uint32) {
	g := e.session.Graph
	for _, r := range p.Results {
		g.Retain(e.window.Nodes[r.Local])
	}
	for i, r := range p.Results {
		g.Realize(e.window.Nodes[r.Local], res[i])
	}
	e.truncate(e.window.Effects)
	for _, r := range p.Results {
		g.Release(e.window.Nodes[r.Local])
	}
	g.CompactPending()
	e.forgetWalks()
	e.session.PendingBytes = 0
	e.autoFlushAt = autoFlushNodes
	if n := len(g.Pending); n > autoFlushNodes/2 {
		e.autoFlushAt = n + autoFlushNodes/2
	}
}

// truncate commits and removes the first n effects.
func (e *Engine) truncate(n int) {
	if n == 0 {
		return
	}
	s := e.session
	for i := 0; i < n; i++ {
		ef := s.Effects[i]
		switch ef.Kind {
		case lazy.StoreSemantic, lazy.StoreMaterialize:
			l := s.Loc(ef.Loc)
			l.Version++
			l.HasValue = true
			old := l.Committed
			l.Committed = ef.Value // the effect's reference moves to the loc
			s.Graph.Release(old)
		case lazy.Commit:
			if b := s.Base(ef.Base); b.Gen == ef.Gen {
				b.Committed++
			}
		}
	}
	s.Effects = append(s.Effects[:0], s.Effects[n:]...)
	s.TokenBase += uint64(n)
}

// remember keeps what a later fault's event number means.
func (e *Engine) remember() {
	ops := make([]uint16, 0, len(e.window.Nodes))
	attrs := make([]uint32, 0, len(e.window.Nodes))
	checks := false
	for _, id := range e.window.Nodes {
		o := e.session.Graph.Node(id).Op
		if p := op.PrimAt(o); p != nil && p.MayFail() {
			checks = true
		}
		ops = append(ops, o)
		attrs = append(attrs, e.session.Graph.Node(id).Attr)
	}
	if !checks {
		return
	}
	if len(e.recentWindows) >= 64 {
		e.recentWindows = append(e.recentWindows[:0], e.recentWindows[1:]...)
	}
	e.recentWindows = append(e.recentWindows, ranWindow{sourceLocs: append([]uint32(nil), e.window.Program.SourceLocs...),
		ops: ops, attrs: attrs})
}

// takeFault raises a data error found by a kernel that has run.
func (e *Engine) takeFault() *ir.Error {
	f, ok, err := e.runtime.TakeFault()
	if err != nil {
		return e.fail(err)
	}
	if !ok {
		e.recentWindows = e.recentWindows[:0]
		return nil
	}
	e.stats.faults++
	x := ir.Errorf(ir.ErrIndex, "index %d is out of bounds", f.Element)
	for _, r := range e.recentWindows {
		i := int(f.Event) - 1
		if i < 0 || i >= len(r.ops) {
			continue
		}
		if p := op.PrimAt(r.ops[i]); p != nil && p.MayFail() {
			if p.DataError != nil {
				x = p.DataError(ir.AttrOf(r.attrs[i]), f.Element)
			} else {
				x.Msg = p.Name + ": " + x.Msg
			}
			x.SourceLoc = r.sourceLocs[i]
			break
		}
	}
	e.recentWindows = e.recentWindows[:0]
	return x
}

// netPrefix gives the pending nodes up to the threshold. Those past it, of which there are some when calls come in
// batches, wait: where a loop's windows are cut must not depend on the batches.
func (e *Engine) netPrefix() []ir.PendingRef {
	g := e.session.Graph
	limit := uint64(math.MaxUint64)
	if len(g.Pending) > e.autoFlushAt {
		limit = g.Pending[e.autoFlushAt-1].Seq
	}
	g.CompactPending()
	n := len(g.Pending)
	for n > 0 && g.Pending[n-1].Seq > limit {
		n--
	}
	return g.Pending[:max(n, min(1, len(g.Pending)))]
}

// net is the safety net: it runs a prefix of the pending nodes, cut at the last node
// recorded at the source location of the first, so that a loop's windows are alike.
func (e *Engine) autoFlush() { e.netOf(threadID()) }

// netOf is net for thread owner.
func (e *Engine) netOf(owner int64) {
	g := e.session.Graph
	pending := e.netPrefix()
	if len(g.Pending) == 0 {
		e.session.PendingBytes = 0
		return
	}
	if len(pending) < autoFlushNodes*3/4 && e.session.PendingBytes <= e.byteBudget/2 {
		e.autoFlushAt = autoFlushNodes
		if len(g.Pending) > autoFlushNodes/2 {
			e.autoFlushAt = len(g.Pending) + autoFlushNodes/2
		}
		return
	}
	if e.inBackward > 0 || e.poison != nil || !e.lock.tryAcquire(owner) {
		e.autoFlushAt = len(g.Pending) + autoFlushNodes/4
		return
	}
	defer e.lock.release()
	e.inNet = true
	defer func() { e.inNet = false }()
	if err := e.netRun(pending); err != nil {
		e.raiseLater(err)
	}
}

// netRun is net within both locks.
func (e *Engine) netRun(pending []ir.PendingRef) *ir.Error {
	g := e.session.Graph
	if e.held != nil {
		if err := e.force(nil, 0); err != nil {
			return err
		}
		if pending = e.netPrefix(); len(g.Pending) == 0 {
			return nil
		}
	}
	cut := len(pending)
	first := g.Node(pending[0].ID).SourceLoc
	for i := len(pending) - 1; i > 0; i-- {
		if g.Node(pending[i].ID).SourceLoc == first {
			cut = i
			break
		}
	}
	if cut < 64 {
		cut = len(pending)
	}
	values := make([]uint32, 0, cut)
	for _, p := range pending[:cut] {
		values = append(values, p.ID)
	}
	last := pending[cut-1].Seq
	effects := 0
	for effects < len(e.session.Effects) {
		ef := &e.session.Effects[effects]
		if isStore(ef.Kind) && g.Node(ef.Value).Seq > last {
			break
		}
		effects++
	}
	return e.force(values, effects)
}

// raiseLater keeps an error of a window that nobody asked for until the next boundary. An interrupt is none: its values
// are pending.
func (e *Engine) raiseLater(err *ir.Error) {
	if e.pendingError == nil && err.Code != ir.ErrInterrupted {
		e.pendingError = err
	}
}
