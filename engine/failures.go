package engine

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/runtime"
	"github.com/torchlette/torchlette/ir"
)

// A window that cannot begin, for want of memory or because an operator has no plan, has changed nothing. The
// operator at fault is searched for, and everything else runs. The results of that operator, and what depends on
// them, become failed leaves: reading one raises the operator's error. A tensor that a failed value was to be
// written to keeps the value that it had before the operator at fault was called; somebody is told once of the
// lost write: who reads the tensor, or calls Flush or MarkStep. The gradients of a backward walk fail together, also
// those that do not depend on a failed value: an update of some of the parameters would be none.

// undone is a tensor that lost a write.
type undone struct {
	base, gen uint32
	why       *ir.Failure
}

// walked are nodes that a backward walk has recorded: those after from, up to to.
type walked struct{ session, from, to uint64 }

// recordedBy notes the nodes since from as those of a walk.
func (e *Engine) recordedBy(session, from uint64) {
	if to := e.session.Graph.Seq(); to > from {
		e.walks = append(e.walks, walked{session, from, to})
	}
}

// forgetWalks drops what is known of walks whose nodes are no longer pending.
func (e *Engine) forgetWalks() {
	pending := e.session.Graph.Pending
	e.walks = slices.DeleteFunc(e.walks, func(w walked) bool {
		i, _ := slices.BinarySearchFunc(pending, w.from+1, func(p ir.PendingRef, seq uint64) int {
			return cmp.Compare(p.Seq, seq)
		})
		return i == len(pending) || pending[i].Seq > w.to
	})
}

// walkOf gives the walk that recorded a node, 0 for none.
func (e *Engine) walkOf(seq uint64) uint64 {
	for _, w := range e.walks {
		if w.from < seq && seq <= w.to {
			return w.session
		}
	}
	return 0
}

// inParts runs the window of the values and the first effects entries of the log in parts, in record order. Parts
// that do not fit are halved, down to one operator, which then fails.
func (e *Engine) inParts(values []uint32, effects int) error {
	w := e.window
	w.Strict = true
	defer func() { w.Strict = false }()
	w.Collect(values, effects)
	nodes := slices.DeleteFunc(slices.Clone(w.Nodes),
		func(id uint32) bool { return e.session.Graph.Node(id).Op == ir.OpProj })
	w.Clear()
	left := effects
	if err := e.part(nodes, &left); err != nil {
		return err
	}
	return e.runWindow(values, e.ready(left, math.MaxUint64))
}

// part runs those of the nodes that are still pending, and the effects that are ready then, of which *effects are left.
func (e *Engine) part(nodes []uint32, effects *int) error {
	g := e.session.Graph
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(id uint32) bool {
		o := g.Node(id).Op
		return o == ir.OpLeaf || o == ir.OpFree
	})
	if len(nodes) == 0 {
		return nil
	}
	k := e.ready(*effects, g.Node(nodes[len(nodes)-1]).Seq)
	err := e.runWindow(nodes, k)
	if err == nil {
		*effects -= k
		return nil
	}
	var adm *runtime.ErrAdmission
	if !errors.As(err, &adm) {
		return err
	}
	if cause := asError(adm.Err); len(nodes) == 1 || cause.Code == ir.ErrDeviceLost {
		return e.blame(nodes[0], cause)
	}
	half := len(nodes) / 2
	if err := e.part(nodes[:half], effects); err != nil {
		return err
	}
	return e.part(nodes[half:], effects)
}

// ready counts the first entries of the log, limit at most, whose values are computed or were recorded up to seq.
// The safety net, which may run in the middle of an update, writes nothing that follows a failure of which nobody was
// told: the rest of the update may depend on it.
func (e *Engine) ready(limit int, seq uint64) int {
	fault := uint64(math.MaxUint64)
	for _, f := range e.faults {
		if e.inNet && !f.Told {
			fault = min(fault, f.Seq)
		}
	}
	for i := 0; i < limit; i++ {
		ef := &e.session.Effects[i]
		if !isStore(ef.Kind) {
			continue
		}
		if n := e.session.Graph.Node(ef.Value); n.Op != ir.OpLeaf && n.Seq > seq || n.Seq > fault {
			return i
		}
	}
	return limit
}

// blame lets a node fail. A lost device is no fault of an operator: it is given back.
func (e *Engine) blame(id uint32, cause *ir.Error) error {
	if cause.Code == ir.ErrDeviceLost {
		return cause
	}
	n := e.session.Graph.Node(id)
	err := *cause
	if err.SourceLoc == 0 {
		err.SourceLoc = n.SourceLoc
	}
	f := &ir.Failure{Err: &err, Seq: n.Seq}
	e.faults = append(e.faults, f)
	e.spread(map[uint32]*ir.Failure{id: f})
	return nil
}

// readsFailure reports that the collected window reads a failed leaf.
func (e *Engine) readsFailure() bool {
	return slices.ContainsFunc(e.window.Ext, func(id uint32) bool { return e.session.Graph.Failure(id) != nil })
}

// spread makes failed leaves of the nodes in why, of every pending node that depends on a failed one, and of the
// nodes of walks that have one of these.
func (e *Engine) spread(why map[uint32]*ir.Failure) {
	g := e.session.Graph
	if why == nil {
		why = map[uint32]*ir.Failure{}
	}
	var failed []uint32
	walks := map[uint64]*ir.Failure{}
	for known := -1; known < len(walks); { // a walk's earlier nodes are met once more
		known = len(walks)
		failed = e.dependents(why, walks)
	}
	for _, id := range failed {
		g.Retain(id)
	}
	for _, id := range slices.Backward(failed) { // projections come after their node
		g.Fail(id, why[id])
	}
	e.undoStores(why)
	for _, id := range failed {
		g.Release(id)
	}
	g.CompactPending()
	e.forgetWalks()
	e.session.PendingBytes = 0
}

// dependents completes why, and lists its pending nodes in record order; walks gets the walks that recorded one.
func (e *Engine) dependents(why map[uint32]*ir.Failure, walks map[uint64]*ir.Failure) (failed []uint32) {
	g := e.session.Graph
	for _, p := range g.Pending {
		n := g.Node(p.ID)
		if n.Seq != p.Seq || n.Op == ir.OpLeaf {
			continue
		}
		f, walk := why[p.ID], e.walkOf(n.Seq)
		if f == nil {
			f = walks[walk]
		}
		for _, in := range g.Edges(n) {
			if f == nil && in.Value != 0 {
				f = e.failureOf(in.Value, why)
			}
		}
		if f == nil {
			continue
		}
		why[p.ID] = f
		failed = append(failed, p.ID)
		if walk != 0 && walks[walk] == nil {
			walks[walk] = f
		}
	}
	return failed
}

func (e *Engine) failureOf(value uint32, why map[uint32]*ir.Failure) *ir.Failure {
	if f := why[value]; f != nil {
		return f
	}
	return e.session.Graph.Failure(value)
}

// lostWrite is what is known of the stores to one loc of which some fail.
type lostWrite struct {
	last int // of the failing stores: index in the log
	why  *ir.Failure
	kept uint32 // the value that the tensor goes back to
	cut  bool   // stores from here to the last failing one are undone
}

// undoStores takes failed stores out of the log. Those before a failed one, back to the operator at fault, belong to
// the same update and go too; a later one that does not fail stays.
func (e *Engine) undoStores(why map[uint32]*ir.Failure) {
	s := e.session
	lost := map[uint32]*lostWrite{}
	for i := range s.Effects {
		ef := &s.Effects[i]
		if !isStore(ef.Kind) {
			continue
		}
		f := e.failureOf(ef.Value, why)
		if f == nil {
			continue
		}
		l := lost[ef.Loc]
		if l == nil {
			l = &lostWrite{why: f, kept: s.Loc(ef.Loc).Committed}
			lost[ef.Loc] = l
		}
		if l.last = i; f.Seq < l.why.Seq {
			l.why = f
		}
	}
	if len(lost) == 0 {
		return
	}
	for i := range s.Effects {
		if ef := &s.Effects[i]; isStore(ef.Kind) && lost[ef.Loc] != nil {
			e.undoStore(i, ef, lost[ef.Loc])
		}
	}
}

// undoStore decides over store i of a loc that lost a write.
func (e *Engine) undoStore(i int, ef *lazy.Effect, l *lostWrite) {
	g, b := e.session.Graph, e.session.Base(ef.Base)
	if i > l.last {
		ef.Prev, ef.PrevSeq = 0, 0 // it may have been undone
		return
	}
	if n := g.Node(ef.Value); !l.cut && i < l.last && g.Failure(ef.Value) == nil && n.Seq < l.why.Seq {
		l.kept = ef.Value
		return
	}
	l.cut = true
	if i == l.last {
		e.undone = append(e.undone, undone{ef.Base, ef.Gen, l.why})
		if b.Value == ef.Value && l.kept != 0 { // no later store
			g.Retain(l.kept)
			b.Value = l.kept
			g.Release(ef.Value)
		}
	}
	v := ef.Value
	ef.Kind, ef.Value, ef.Prev = lazy.Dropped, 0, 0
	g.Release(v)
}

// told is the error of a failure, for the user.
func told(f *ir.Failure) *ir.Error {
	f.Told = true
	return f.Err
}

// lostWriteTo gives the error of a lost write to a base of which nobody was told.
func (e *Engine) lostWriteTo(base uint32) *ir.Error {
	for _, u := range e.undone {
		if u.base == base && u.gen == e.session.Base(base).Gen && !u.why.Told {
			return told(u.why)
		}
	}
	return nil
}

// raiseLostWrites gives the error of the first lost write of which nobody was told, and forgets all of them.
func (e *Engine) raiseLostWrites() (err *ir.Error) {
	for _, u := range e.undone {
		if !u.why.Told && err == nil {
			err = u.why.Err
		}
		u.why.Told = true
	}
	e.undone, e.faults = e.undone[:0], e.faults[:0]
	return err
}
