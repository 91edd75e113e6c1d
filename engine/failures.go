package engine

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// failures keeps the errors of values that could not be computed, and reports each once.
//
// A window that fails before its first step (out of memory, or an operator without a plan) has changed nothing. The
// engine then finds the operator at fault and runs everything else: see parts.go. The results of that operator, and all
// values that depend on them, become failed leaves: reading one raises the operator's error. If a failed value was to
// be written to a tensor, the tensor keeps its value from before the operator's call. The lost write is reported once:
// by a read of the tensor, Flush or MarkStep. All gradients of a backward walk fail together, including those
// independent of the failed value, because an optimizer must not update a part of the parameters.
//
// A window that fails after its first step may have left buffers half written: the engine is poisoned.
type failures struct {
	poison *ir.Error
	undone []lazy.LostWrite
	faults []*ir.Failure // since the last Flush or MarkStep
	walks  []walked
	recent []ranWindow
	noted  uint64 // how many windows were ever added to recent
	// pending is the error of a window that ran unasked. The next boundary raises it.
	pending *ir.Error
}

// walked is a range of nodes that a backward walk recorded: Seq above from, up to to.
type walked struct{ walk, from, to uint64 }

// ranWindow maps the event numbers of a window that ran to its nodes, for faults that are found later.
type ranWindow struct {
	sourceLocs []uint32
	ops        []uint16
	attrs      []uint32
	sizes      []int64 // by node: of the dim that indices are into; nil where no node takes indices
}

// maxRecent is how many windows are remembered.
const maxRecent = 64

func asError(err error) *ir.Error {
	var x *ir.Error
	if errors.As(err, &x) {
		return x
	}
	return ir.Errorf(ir.ErrKernelExecution, "%s", err.Error())
}

// fail classifies an execution failure. One after the first step poisons the engine.
func (f *failures) fail(err error) *ir.Error {
	if err == nil {
		return nil
	}
	x := asError(err)
	switch x.Code {
	case ir.ErrDeviceLost, ir.ErrKernelExecution, ir.ErrInternal:
		if f.poison == nil {
			f.poison = x
		}
	}
	return x
}

// poisoned returns the error that all calls raise once the engine is poisoned, else nil.
func (f *failures) poisoned() *ir.Error {
	if f.poison == nil {
		return nil
	}
	return poisonedBy(f.poison)
}

func poisonedBy(x *ir.Error) *ir.Error {
	return ir.Errorf(ir.ErrPoisoned, "the engine is poisoned since an earlier failure: %s (call torchlette.reset() to "+
		"start anew)", x.Msg)
}

// raiseLater keeps an error (or nil) for the next boundary. An interrupt is dropped: its values stay pending.
func (f *failures) raiseLater(err *ir.Error) {
	if err != nil && f.pending == nil && err.Code != ir.ErrInterrupted {
		f.pending = err
	}
}

// raise returns the kept error once.
func (f *failures) raise() *ir.Error {
	x := f.pending
	f.pending = nil
	return x
}

// recordedBy notes that a walk recorded the nodes after from.
func (f *failures) recordedBy(walk uint64, g *ir.Graph, from uint64) {
	if to := g.Seq(); to > from {
		f.walks = append(f.walks, walked{walk, from, to})
	}
}

// forgetWalks drops the ranges of walks without pending nodes.
func (f *failures) forgetWalks(g *ir.Graph) {
	f.walks = slices.DeleteFunc(f.walks, func(w walked) bool {
		i, _ := slices.BinarySearchFunc(g.Pending, w.from+1, func(p ir.PendingRef, seq uint64) int {
			return cmp.Compare(p.Seq, seq)
		})
		return i == len(g.Pending) || g.Pending[i].Seq > w.to
	})
}

// walkOf returns the walk that recorded a node, 0 for none.
func (f *failures) walkOf(seq uint64) uint64 {
	for _, w := range f.walks {
		if w.from < seq && seq <= w.to {
			return w.walk
		}
	}
	return 0
}

// causes maps pending values to the failures that they will inherit.
type causes map[uint32]*ir.Failure

// of returns the failure of a value, nil for none.
func (c causes) of(g *ir.Graph, value uint32) *ir.Failure {
	if f := c[value]; f != nil {
		return f
	}
	return g.Failure(value)
}

// dependents adds to why every pending node that depends on a failed one, and all nodes of walks that recorded a failed
// one. It lists the failed nodes in record order.
func (f *failures) dependents(g *ir.Graph, why causes) (failed []uint32) {
	walks := map[uint64]*ir.Failure{}
	for known := -1; known < len(walks); { // repeat: a walk that fails takes its earlier nodes with it
		known = len(walks)
		failed = f.pass(g, why, walks)
	}
	return failed
}

// pass runs one pass of dependents over the pending nodes. It adds to walks each walk that recorded a failed node.
func (f *failures) pass(g *ir.Graph, why causes, walks map[uint64]*ir.Failure) (failed []uint32) {
	for _, p := range g.Pending {
		n := g.Node(p.ID)
		if n.Seq != p.Seq || n.Op == ir.OpLeaf {
			continue
		}
		x, walk := why[p.ID], f.walkOf(n.Seq)
		if x == nil {
			x = walks[walk]
		}
		for _, in := range g.Edges(n) {
			if x == nil && in.Value != 0 {
				x = why.of(g, in.Value)
			}
		}
		if x == nil {
			continue
		}
		why[p.ID] = x
		failed = append(failed, p.ID)
		if walk != 0 && walks[walk] == nil {
			walks[walk] = x
		}
	}
	return failed
}

// barrier returns the Seq of the first unreported failure. Windows of the safety net write nothing recorded later,
// because it may depend on that failure.
func (f *failures) barrier() uint64 {
	first := uint64(math.MaxUint64)
	for _, x := range f.faults {
		if !x.Told {
			first = min(first, x.Seq)
		}
	}
	return first
}

// told marks a failure as reported and returns its error.
func told(f *ir.Failure) *ir.Error {
	f.Told = true
	return f.Err
}

// lostWrite returns the error of an unreported lost write to a base, nil for none.
func (f *failures) lostWrite(base, gen uint32) *ir.Error {
	for _, u := range f.undone {
		if u.Base == base && u.Gen == gen && !u.Why.Told {
			return told(u.Why)
		}
	}
	return nil
}

// raiseLostWrites returns the error of the first unreported lost write and forgets all of them.
func (f *failures) raiseLostWrites() (err *ir.Error) {
	for _, u := range f.undone {
		if !u.Why.Told && err == nil {
			err = u.Why.Err
		}
		u.Why.Told = true
	}
	f.undone, f.faults = f.undone[:0], f.faults[:0]
	return err
}

// remember keeps the event numbers of a window that ran, to explain later faults.
func (f *failures) remember(g *ir.Graph, w *lazy.Window) {
	r := ranWindow{ops: make([]uint16, 0, len(w.Nodes)), attrs: make([]uint32, 0, len(w.Nodes))}
	checks := false
	for i, id := range w.Nodes {
		n := g.Node(id)
		p := op.Of(n)
		checks = checks || p != nil && p.MayFail()
		if p != nil && p.IndexInput > 0 {
			if r.sizes == nil {
				r.sizes = make([]int64, len(w.Nodes))
			}
			r.sizes[i] = op.IndexedSize(g.Edges(n)[0].Layout, ir.AttrOf(n.Attr))
		}
		r.ops, r.attrs = append(r.ops, n.Op), append(r.attrs, n.Attr)
	}
	if !checks {
		return
	}
	if len(f.recent) >= maxRecent {
		f.recent = append(f.recent[:0], f.recent[1:]...)
	}
	r.sourceLocs = slices.Clone(w.Program.SourceLocs)
	f.recent = append(f.recent, r)
	f.noted++
}

// explain turns a data error found by a kernel into an error at the line that recorded the kernel's node.
func (f *failures) explain(fault device.Fault) *ir.Error {
	x := ir.Errorf(ir.ErrIndex, "index %d is out of bounds", fault.Element)
	for i := range f.recent {
		if f.recent[i].explain(fault, &x) {
			break
		}
	}
	return x
}

// explain fills in the error of a fault and reports true, if a node of this window can raise it.
func (r *ranWindow) explain(fault device.Fault, x **ir.Error) bool {
	i := int(fault.Event) - 1
	if i < 0 || i >= len(r.ops) {
		return false
	}
	p := op.PrimAt(r.ops[i])
	if p == nil || !p.MayFail() {
		return false
	}
	size := int64(0)
	if r.sizes != nil {
		size = r.sizes[i]
	}
	*x = p.Refusal(ir.AttrOf(r.attrs[i]), fault.Element, size)
	(*x).SourceLoc = r.sourceLocs[i]
	return true
}

// takeFault returns the error of a data error that a kernel found, nil for none.
func (e *Engine) takeFault() *ir.Error {
	fault, found, err := e.runtime.TakeFault()
	if err != nil {
		return e.failures.fail(err)
	}
	x := e.explainFault(fault, found)
	e.failures.recent = e.failures.recent[:0]
	return x
}

// explainFault counts a fault that was found, and makes its error.
func (e *Engine) explainFault(fault device.Fault, found bool) *ir.Error {
	if !found {
		return nil
	}
	e.stats.faults++
	return e.failures.explain(fault)
}

// takeKnownFault is takeFault of what reads have brought to the host, without waiting. The windows before number
// `before` have run without another fault.
func (e *Engine) takeKnownFault(before uint64) *ir.Error {
	x := e.explainFault(e.runtime.TakeKnownFault())
	f := &e.failures
	if n := len(f.recent) - int(f.noted-before); n > 0 {
		f.recent = append(f.recent[:0], f.recent[n:]...)
	}
	return x
}

// lost returns the error of reading a leaf without a value: a failed one, or a placeholder.
func (e *Engine) lost(value uint32) *ir.Error {
	if f := e.graph.Failure(value); f != nil {
		return told(f)
	}
	if n := e.graph.Node(value); n.Op == ir.OpLeaf && n.Store == 0 {
		if ir.AvalOf(n.Aval).Device == ir.Meta {
			return ir.NoData()
		}
		return &ir.Error{Code: ir.ErrRuntime, SourceLoc: n.SourceLoc,
			Msg: "a tensor is read while a function of it is captured: it has no value yet"}
	}
	return nil
}

// lostWriteTo returns the error of an unreported lost write to a base, nil for none.
func (e *Engine) lostWriteTo(base uint32) *ir.Error {
	return e.failures.lostWrite(base, e.session.Generation(base))
}

// spread makes failed leaves of the nodes in why and of their dependents, and undoes the writes of failed values.
func (e *Engine) spread(why causes) {
	g := e.graph
	failed := e.failures.dependents(g, why)
	for _, id := range failed {
		g.Retain(id)
	}
	for _, id := range slices.Backward(failed) { // backward, because projections follow their node
		g.Fail(id, why[id])
	}
	lost := e.session.UndoStores(func(value uint32) *ir.Failure { return why.of(g, value) })
	e.failures.undone = append(e.failures.undone, lost...)
	for _, id := range failed {
		g.Release(id)
	}
	g.CompactPending()
	e.failures.forgetWalks(g)
	e.session.CountPendingBytes()
}
