package engine

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/torchlette/torchlette/engine/exec"
	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/engine/live"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/plan"
	"github.com/torchlette/torchlette/engine/program"
)

// force runs what the values and the first effects entries of the log need. The
// engine's lock is held. On an admission failure the window is split at its stores;
// when that fails too it is rolled back.
func (e *Engine) force(values []uint32, effects int) *ir.Error {
	if err := e.poisoned(); err != nil {
		return err
	}
	err := e.window(values, effects)
	var adm *exec.ErrAdmission
	if err == nil || !errors.As(err, &adm) {
		return e.fail(err)
	}
	for _, pl := range e.x.Places {
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
		for k < effects && !isStore(e.s.Effects[k].Kind) {
			k++
		}
		if k == effects {
			break
		}
		// The store's commit follows it in the log.
		k++
		for k < effects && e.s.Effects[k].Kind == live.Commit {
			k++
		}
		if err := e.window(nil, k); err != nil {
			return err
		}
		effects -= k
	}
	return e.window(values, effects)
}

func isStore(k live.EffectKind) bool { return k == live.StoreSemantic || k == live.StoreMaterialize }

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
func (e *Engine) window(values []uint32, effects int) error {
	t0 := time.Now()
	if !e.w.Collect(values, effects) {
		e.w.Clear()
		e.truncate(effects)
		return nil
	}
	w := e.w
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
		ext[i] = e.s.G.Node(id).Store
	}
	res, err := e.x.Run(p, ext, w.Program.Offsets, w.Program.Scalars, nil)
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
func (e *Engine) build() (*plan.Plan, error) {
	for _, id := range e.w.Nodes {
		if err := e.ensureDevice(ir.AvalOf(e.s.G.Node(id).Aval).Device); err != nil {
			return nil, &exec.ErrAdmission{Err: err}
		}
	}
	g := &e.w.Program
	if e.verify {
		g = proved(g)
	}
	b := plan.Builder{Program: g, Caps: e.caps, Chainer: e.chainer, Lowered: &e.cache.Lowered, Debug: e.debug}
	p, err := b.Build()
	if err != nil {
		return nil, &exec.ErrAdmission{Err: err}
	}
	if err := e.x.Prepare(p); err != nil {
		return nil, &exec.ErrAdmission{Err: err}
	}
	p.Cause = e.cache.Cause(&e.w.Program)
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
		return &ir.Error{Code: ir.ErrRuntime, Site: n.Site, Msg: "a tensor is read while a function of it is captured: it has no value yet"}
	}
	return &ir.Error{Code: ir.ErrValueLost, Site: n.Site, Msg: "this value was never computed, because an earlier execution failed: " + e.lostCause}
}

// checkLost refuses a window that reads a value that was never computed.
func (e *Engine) checkLost() *ir.Error {
	for _, id := range e.w.Ext {
		if n := e.s.G.Node(id); n.Store == 0 {
			return e.lost(n)
		}
	}
	return nil
}

// commit makes the results leaves, persists versions and drops the effects that ran.
func (e *Engine) commit(p *plan.Plan, res []uint32) {
	g := e.s.G
	for _, r := range p.Results {
		g.Retain(e.w.Nodes[r.Local])
	}
	for i, r := range p.Results {
		g.Realize(e.w.Nodes[r.Local], res[i])
	}
	e.truncate(e.w.Effects)
	for _, r := range p.Results {
		g.Release(e.w.Nodes[r.Local])
	}
	g.CompactPending()
	e.s.PendingBytes = 0
	e.netAt = netNodes
	if n := len(g.Pending); n > netNodes/2 {
		e.netAt = n + netNodes/2
	}
}

// truncate commits and removes the first n effects.
func (e *Engine) truncate(n int) {
	if n == 0 {
		return
	}
	s := e.s
	for i := 0; i < n; i++ {
		ef := s.Effects[i]
		switch ef.Kind {
		case live.StoreSemantic, live.StoreMaterialize:
			l := s.Loc(ef.Loc)
			l.Version++
			l.HasValue = true
			old := l.Committed
			l.Committed = ef.Value // the effect's reference moves to the loc
			s.G.Release(old)
		case live.Commit:
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
	s := e.s
	e.lostCause = cause.Msg
	n := len(s.Effects)
	e.w.Collect(values, n)
	nodes := append([]uint32(nil), e.w.Nodes...)
	e.w.Clear()
	for _, id := range nodes {
		s.G.Retain(id)
	}
	for i := 0; i < n; i++ {
		ef := &s.Effects[i]
		if !isStore(ef.Kind) {
			continue
		}
		b, l := s.Base(ef.Base), s.Loc(ef.Loc)
		if l.Committed != 0 && b.Value != l.Committed {
			s.G.Retain(l.Committed)
			s.G.Release(b.Value)
			b.Value = l.Committed
		}
		s.G.Release(ef.Value)
	}
	s.TokenBase += uint64(n)
	s.Effects = s.Effects[:0]
	for i := len(nodes) - 1; i >= 0; i-- {
		if s.G.Node(nodes[i]).Op != ir.OpLeaf {
			s.G.Realize(nodes[i], 0)
		}
	}
	for _, id := range nodes {
		s.G.Release(id)
	}
	s.G.CompactPending()
	s.PendingBytes = 0
}

// remember keeps what a later fault's event number means.
func (e *Engine) remember() {
	ops := make([]uint16, 0, len(e.w.Nodes))
	attrs := make([]uint32, 0, len(e.w.Nodes))
	checks := false
	for _, id := range e.w.Nodes {
		o := e.s.G.Node(id).Op
		if o < ir.OpProj && op.PrimOf(op.PrimID(o)).Faults() {
			checks = true
		}
		ops = append(ops, o)
		attrs = append(attrs, e.s.G.Node(id).Attr)
	}
	if !checks {
		return
	}
	if len(e.recent) >= 64 {
		e.recent = append(e.recent[:0], e.recent[1:]...)
	}
	e.recent = append(e.recent, ranWindow{sites: append([]uint32(nil), e.w.Program.Sites...), ops: ops, attrs: attrs})
}

// takeFault raises a data error found by a kernel that has run.
func (e *Engine) takeFault() *ir.Error {
	f, ok, err := e.x.TakeFault()
	if err != nil {
		return e.fail(err)
	}
	if !ok {
		e.recent = e.recent[:0]
		return nil
	}
	e.stats.faults++
	x := ir.Errorf(ir.ErrIndex, "index %d is out of bounds", f.Element)
	for _, r := range e.recent {
		if i := int(f.Event) - 1; i >= 0 && i < len(r.ops) && r.ops[i] < ir.OpProj && r.ops[i] != ir.OpFree && op.PrimOf(op.PrimID(r.ops[i])).Faults() {
			p := op.PrimOf(op.PrimID(r.ops[i]))
			if p.DataError != nil {
				x = p.DataError(ir.AttrOf(r.attrs[i]), f.Element)
			} else {
				x.Msg = p.Name + ": " + x.Msg
			}
			x.Site = r.sites[i]
			break
		}
	}
	e.recent = e.recent[:0]
	return x
}

// netPrefix gives the pending nodes up to the threshold. Those past it, of which there are some when calls come in
// batches, wait: where a loop's windows are cut must not depend on the batches.
func (e *Engine) netPrefix() []ir.PendingRef {
	g := e.s.G
	limit := uint64(math.MaxUint64)
	if len(g.Pending) > e.netAt {
		limit = g.Pending[e.netAt-1].Seq
	}
	g.CompactPending()
	n := len(g.Pending)
	for n > 0 && g.Pending[n-1].Seq > limit {
		n--
	}
	return g.Pending[:max(n, min(1, len(g.Pending)))]
}

// net is the safety net: it runs a prefix of the pending nodes, cut at the last node
// recorded at the call site of the first, so that a loop's windows are alike.
func (e *Engine) net() {
	g := e.s.G
	pending := e.netPrefix()
	if len(g.Pending) == 0 {
		e.s.PendingBytes = 0
		return
	}
	if len(pending) < netNodes*3/4 && e.s.PendingBytes <= e.byteBudget/2 {
		e.netAt = netNodes
		if len(g.Pending) > netNodes/2 {
			e.netAt = len(g.Pending) + netNodes/2
		}
		return
	}
	if e.inBackward > 0 || e.poison != nil || !e.lock.tryAcquire(threadID()) {
		e.netAt = len(g.Pending) + netNodes/4
		return
	}
	defer e.lock.release()
	cut := len(pending)
	first := g.Node(pending[0].ID).Site
	for i := len(pending) - 1; i > 0; i-- {
		if g.Node(pending[i].ID).Site == first {
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
	for effects < len(e.s.Effects) {
		ef := &e.s.Effects[effects]
		if isStore(ef.Kind) && g.Node(ef.Value).Seq > last {
			break
		}
		effects++
	}
	if err := e.force(values, effects); err != nil && e.deferred == nil {
		e.deferred = err
	}
}
