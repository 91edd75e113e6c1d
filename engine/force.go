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
// engine's lock is held. On an admission failure the window is split at its stores;
// when that fails too it is rolled back.
func (e *Engine) force(values []uint32, effects int) *ir.Error {
	if err := e.poisoned(); err != nil {
		return err
	}
	err := e.runWindow(values, effects)
	var adm *runtime.ErrAdmission
	if err == nil || !errors.As(err, &adm) {
		return e.fail(err)
	}
	for _, pl := range e.runtime.Devices {
		if t := pl.Pool.Trim(); t != nil {
			return e.fail(t)
		}
	}
	if err = e.split(values, effects); err == nil {
		return nil
	}
	if !errors.As(err, &adm) {
		return e.fail(err)
	}
	cause := asError(adm.Err)
	e.rollback(values, cause)
	return cause
}

// split runs the window store by store.
func (e *Engine) split(values []uint32, effects int) error {
	for effects > 0 {
		k := 0
		for k < effects && !isStore(e.session.Effects[k].Kind) {
			k++
		}
		if k == effects {
			break
		}
		// The store's commit follows it in the log.
		k++
		for k < effects && e.session.Effects[k].Kind == lazy.Commit {
			k++
		}
		if err := e.runWindow(nil, k); err != nil {
			return err
		}
		effects -= k
	}
	return e.runWindow(values, effects)
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
	if !e.window.Collect(values, effects) {
		e.window.Clear()
		e.truncate(effects)
		return nil
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
	res, err := e.runtime.Run(p, ext, w.Program.Offsets, w.Program.Scalars, nil)
	took := time.Since(t1)
	p.RunTime += took
	e.stats.runNanos += int64(took)
	if err != nil {
		return err
	}
	e.remember()
	e.noteTimings()
	e.stats.executed += int64(len(w.Nodes))
	e.stats.inPlace += int64(p.InPlace)
	e.stats.through += int64(p.Through)
	e.commit(p, res)
	return nil
}

// build makes, prepares and caches the plan of the collected window.
func (e *Engine) build() (*compile.Plan, error) {
	for _, id := range e.window.Nodes {
		if err := e.ensureDevice(ir.AvalOf(e.session.Graph.Node(id).Aval).Device); err != nil {
			return nil, &runtime.ErrAdmission{Err: err}
		}
	}
	g := &e.window.Program
	if e.verify {
		g = proved(g)
	}
	b := compile.Builder{Program: g, Caps: e.caps, TileFuser: e.tileFuser, Lowered: &e.cache.Lowered, Debug: e.debug}
	p, err := b.Build()
	if err != nil {
		return nil, &runtime.ErrAdmission{Err: err}
	}
	if err := e.runtime.Prepare(p); err != nil {
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

// lost is the error of reading a leaf without a value: one that was lost, or a placeholder.
func (e *Engine) lost(n *ir.Node) *ir.Error {
	if n.Attr == ir.Placeholder {
		return &ir.Error{Code: ir.ErrRuntime, SourceLoc: n.SourceLoc,
			Msg: "a tensor is read while a function of it is captured: it has no value yet"}
	}
	return &ir.Error{Code: ir.ErrValueLost, SourceLoc: n.SourceLoc,
		Msg: "this value was never computed, because an earlier execution failed: " + e.lostCause}
}

// checkLost refuses a window that reads a value that was never computed.
func (e *Engine) checkLost() *ir.Error {
	for _, id := range e.window.Ext {
		if n := e.session.Graph.Node(id); n.Store == 0 {
			return e.lost(n)
		}
	}
	return nil
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

// rollback drops every pending effect: bases keep their last committed version, and
// what was never computed is lost.
func (e *Engine) rollback(values []uint32, cause *ir.Error) {
	s := e.session
	e.lostCause = cause.Msg
	n := len(s.Effects)
	e.window.Collect(values, n)
	nodes := append([]uint32(nil), e.window.Nodes...)
	e.window.Clear()
	for _, id := range nodes {
		s.Graph.Retain(id)
	}
	for i := 0; i < n; i++ {
		ef := &s.Effects[i]
		if !isStore(ef.Kind) {
			continue
		}
		b, l := s.Base(ef.Base), s.Loc(ef.Loc)
		if l.Committed != 0 && b.Value != l.Committed {
			s.Graph.Retain(l.Committed)
			s.Graph.Release(b.Value)
			b.Value = l.Committed
		}
		s.Graph.Release(ef.Value)
	}
	s.TokenBase += uint64(n)
	s.Effects = s.Effects[:0]
	for i := len(nodes) - 1; i >= 0; i-- {
		if s.Graph.Node(nodes[i]).Op != ir.OpLeaf {
			s.Graph.Realize(nodes[i], 0)
		}
	}
	for _, id := range nodes {
		s.Graph.Release(id)
	}
	s.Graph.CompactPending()
	s.PendingBytes = 0
}

// remember keeps what a later fault's event number means.
func (e *Engine) remember() {
	ops := make([]uint16, 0, len(e.window.Nodes))
	attrs := make([]uint32, 0, len(e.window.Nodes))
	checks := false
	for _, id := range e.window.Nodes {
		o := e.session.Graph.Node(id).Op
		if o < ir.OpProj && op.PrimOf(op.PrimID(o)).MayFail() {
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
		if i := int(f.Event) - 1; i >= 0 && i < len(r.ops) && r.ops[i] < ir.OpProj && r.ops[i] != ir.OpFree &&
			op.PrimOf(op.PrimID(r.ops[i])).MayFail() {
			p := op.PrimOf(op.PrimID(r.ops[i]))
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
func (e *Engine) autoFlush() {
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
	if e.inBackward > 0 || e.poison != nil || !e.lock.tryAcquire(threadID()) {
		e.autoFlushAt = len(g.Pending) + autoFlushNodes/4
		return
	}
	defer e.lock.release()
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
	if err := e.force(values, effects); err != nil && e.pendingError == nil {
		e.pendingError = err
	}
}
