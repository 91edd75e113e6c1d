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

// failures knows what could not be computed, and whom to tell.
//
// A window that cannot begin, for want of memory or because an operator has no plan, has changed nothing. The operator
// at fault is searched for, and everything else runs: see parts.go. The results of that operator, and what depends on
// them, become failed leaves: reading one raises the operator's error. A tensor that a failed value was to be written
// to keeps the value that it had before the operator at fault was called. Somebody is told once of the lost write: who
// reads the tensor, or calls Flush or MarkStep. The gradients of a backward walk fail together, also those that do not
// depend on a failed value: an update of some of the parameters would be none.
//
// A failure after the begin of a window may have left buffers half written: it poisons the engine.
type failures struct {
	poison *ir.Error
	undone []lazy.LostWrite
	faults []*ir.Failure // since the last Flush or MarkStep
	walks  []walked
	recent []ranWindow
	// pending is an error of a window that nobody asked for, raised at the next boundary.
	pending *ir.Error
}

// walked are nodes that a backward walk has recorded: those after from, up to to.
type walked struct{ walk, from, to uint64 }

// ranWindow remembers what a fault's event number meant.
type ranWindow struct {
	sourceLocs []uint32
	ops        []uint16
	attrs      []uint32
}

// maxRecent windows are remembered.
const maxRecent = 64

func asError(err error) *ir.Error {
	var x *ir.Error
	if errors.As(err, &x) {
		return x
	}
	return ir.Errorf(ir.ErrKernelExecution, "%s", err.Error())
}

// fail classes an execution failure: what may have run in part poisons the engine.
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

// poisoned is the error of calls after a failure that poisons, nil before.
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

// raiseLater keeps an error, which may be nil, until the next boundary. An interrupt is no error: its values are
// pending.
func (f *failures) raiseLater(err *ir.Error) {
	if err != nil && f.pending == nil && err.Code != ir.ErrInterrupted {
		f.pending = err
	}
}

// raise gives the error that was kept, once.
func (f *failures) raise() *ir.Error {
	x := f.pending
	f.pending = nil
	return x
}

// recordedBy notes the nodes since from as those of a walk.
func (f *failures) recordedBy(walk uint64, g *ir.Graph, from uint64) {
	if to := g.Seq(); to > from {
		f.walks = append(f.walks, walked{walk, from, to})
	}
}

// forgetWalks drops what is known of walks whose nodes are no longer pending.
func (f *failures) forgetWalks(g *ir.Graph) {
	f.walks = slices.DeleteFunc(f.walks, func(w walked) bool {
		i, _ := slices.BinarySearchFunc(g.Pending, w.from+1, func(p ir.PendingRef, seq uint64) int {
			return cmp.Compare(p.Seq, seq)
		})
		return i == len(g.Pending) || g.Pending[i].Seq > w.to
	})
}

// walkOf gives the walk that recorded a node, 0 for none.
func (f *failures) walkOf(seq uint64) uint64 {
	for _, w := range f.walks {
		if w.from < seq && seq <= w.to {
			return w.walk
		}
	}
	return 0
}

// causes says why values fail that are not failed leaves yet.
type causes map[uint32]*ir.Failure

// of gives the failure of a value, nil for none.
func (c causes) of(g *ir.Graph, value uint32) *ir.Failure {
	if f := c[value]; f != nil {
		return f
	}
	return g.Failure(value)
}

// dependents completes why with every pending node that depends on a failed one, and with the nodes of walks that have
// one of these. It lists the failing nodes in record order.
func (f *failures) dependents(g *ir.Graph, why causes) (failed []uint32) {
	walks := map[uint64]*ir.Failure{}
	for known := -1; known < len(walks); { // a walk's earlier nodes are met once more
		known = len(walks)
		failed = f.pass(g, why, walks)
	}
	return failed
}

// pass is one pass of dependents over the pending nodes; walks gets the walks that recorded a failing one.
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

// barrier is the record time after which a window of the safety net writes nothing: that of a failure of which nobody
// was told. The rest of an update may depend on it.
func (f *failures) barrier() uint64 {
	first := uint64(math.MaxUint64)
	for _, x := range f.faults {
		if !x.Told {
			first = min(first, x.Seq)
		}
	}
	return first
}

// told is the error of a failure, for the user.
func told(f *ir.Failure) *ir.Error {
	f.Told = true
	return f.Err
}

// lostWrite gives the error of a lost write to a base of which nobody was told.
func (f *failures) lostWrite(base, gen uint32) *ir.Error {
	for _, u := range f.undone {
		if u.Base == base && u.Gen == gen && !u.Why.Told {
			return told(u.Why)
		}
	}
	return nil
}

// raiseLostWrites gives the error of the first lost write of which nobody was told, and forgets all of them.
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

// remember keeps what a later fault's event number means in a window that has run.
func (f *failures) remember(g *ir.Graph, w *lazy.Window) {
	r := ranWindow{ops: make([]uint16, 0, len(w.Nodes)), attrs: make([]uint32, 0, len(w.Nodes))}
	checks := false
	for _, id := range w.Nodes {
		n := g.Node(id)
		p := op.Of(n)
		checks = checks || p != nil && p.MayFail()
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
}

// explain makes an error of a data error that a kernel has found, at the line that recorded the kernel's node.
func (f *failures) explain(fault device.Fault) *ir.Error {
	x := ir.Errorf(ir.ErrIndex, "index %d is out of bounds", fault.Element)
	for i := range f.recent {
		if f.recent[i].explain(fault, &x) {
			break
		}
	}
	return x
}

// explain completes the error of a fault, if one of the window's nodes can have made it.
func (r *ranWindow) explain(fault device.Fault, x **ir.Error) bool {
	i := int(fault.Event) - 1
	if i < 0 || i >= len(r.ops) {
		return false
	}
	p := op.PrimAt(r.ops[i])
	if p == nil || !p.MayFail() {
		return false
	}
	if p.DataError != nil {
		*x = p.DataError(ir.AttrOf(r.attrs[i]), fault.Element)
	} else {
		(*x).Msg = p.Name + ": " + (*x).Msg
	}
	(*x).SourceLoc = r.sourceLocs[i]
	return true
}

// takeFault raises a data error found by a kernel that has run.
func (e *Engine) takeFault() *ir.Error {
	fault, found, err := e.runtime.TakeFault()
	if err != nil {
		return e.failures.fail(err)
	}
	var x *ir.Error
	if found {
		e.stats.faults++
		x = e.failures.explain(fault)
	}
	e.failures.recent = e.failures.recent[:0]
	return x
}

// lost is the error of reading a leaf without a value: one that failed, or a placeholder.
func (e *Engine) lost(value uint32) *ir.Error {
	if f := e.graph.Failure(value); f != nil {
		return told(f)
	}
	if n := e.graph.Node(value); n.Op == ir.OpLeaf && n.Store == 0 {
		return &ir.Error{Code: ir.ErrRuntime, SourceLoc: n.SourceLoc,
			Msg: "a tensor is read while a function of it is captured: it has no value yet"}
	}
	return nil
}

// lostWriteTo gives the error of a lost write to a base of which nobody was told.
func (e *Engine) lostWriteTo(base uint32) *ir.Error {
	return e.failures.lostWrite(base, e.session.Generation(base))
}

// spread makes failed leaves of the nodes in why and of what fails with them, and undoes the writes of failed values.
func (e *Engine) spread(why causes) {
	g := e.graph
	failed := e.failures.dependents(g, why)
	for _, id := range failed {
		g.Retain(id)
	}
	for _, id := range slices.Backward(failed) { // projections come after their node
		g.Fail(id, why[id])
	}
	lost := e.session.UndoStores(func(value uint32) *ir.Failure { return why.of(g, value) })
	e.failures.undone = append(e.failures.undone, lost...)
	for _, id := range failed {
		g.Release(id)
	}
	g.CompactPending()
	e.failures.forgetWalks(g)
	e.session.SetPendingBytes(0)
}
