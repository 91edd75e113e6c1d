package autograd

import (
	"cmp"
	"slices"
	"strings"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// place names saved value i, operands before results, of the step at an edge.
type place struct {
	edge uint32
	i    int
}

// saved returns saved value i of n; operands come before results.
func (n *Node) saved(i int) *Saved {
	if i < len(n.In) {
		return &n.In[i]
	}
	return &n.Out[i-len(n.In)]
}

// savedName returns PyTorch's name of saved value i of the step at edge e, "" for none.
func (t *Tape) savedName(e uint32, i int) string {
	n := t.Node(e)
	names, ok := op.SavedNames(t.Name(e))
	if !ok && n.Kind == KindPrim && op.PrimOf(n.Prim).Elementwise {
		names = "self other|result"
	}
	in, out, _ := strings.Cut(names, "|")
	list := strings.Fields(in)
	if i >= len(n.In) {
		i -= len(n.In)
		list = strings.Fields(out)
	}
	if i >= len(list) {
		return ""
	}
	return list[i]
}

// order lists the saved values of the step at edge e for which pass holds, in PyTorch's order: operands by name, then
// results.
func (t *Tape) order(e uint32, pass func(s *Saved) bool) []int {
	n := t.Node(e)
	var list []int
	for i := range len(n.In) + len(n.Out) {
		if pass(n.saved(i)) {
			list = append(list, i)
		}
	}
	slices.SortStableFunc(list, func(a, b int) int {
		if x, y := a >= len(n.In), b >= len(n.In); x != y {
			return cmp.Compare(a, b)
		}
		return cmp.Compare(t.savedName(e, a), t.savedName(e, b))
	})
	return list
}

func isHeld(s *Saved) bool { return s.Held }

// await queues the values that step n saves for their pack hooks.
func (t *Tape) await(id uint32, n *Node) {
	for _, i := range t.order(Edge(id, 0), isHeld) {
		t.pending = append(t.pending, place{Edge(id, 0), i})
		n.Refs++
	}
}

// Awaits reports that values wait for their pack hooks.
func (t *Tape) Awaits() bool { return len(t.pending) > 0 }

// unexpanded returns operand v of step n as it was before the step's call broadcast it. One with hidden dims and a
// history stays: views of those are of the whole batch.
func (t *Tape) unexpanded(n *Node, v op.Val) op.Val {
	if v.Tape != 0 {
		if p := t.Node(v.Tape); v.L().Hidden == nil && p.Kind == KindView && p.View.Kind == op.ViewExpand &&
			p.From.Call != 0 && p.From.Call == n.From.Call {
			v.Layout, v.Tape = p.In[0].Val.Layout, p.In[0].Val.Tape
		}
		return v
	}
	l := v.L()
	shape, stride := slices.Clone(l.Shape), l.Stride
	for len(shape) > 0 && stride[0] == 0 {
		shape, stride = shape[1:], stride[1:]
	}
	for i := range shape {
		if stride[i] == 0 {
			shape[i] = min(shape[i], 1)
		}
	}
	v.Layout = ir.InternHidden(l.Hidden, shape, stride).ID
	return v
}

// NextPackHook takes the next value that waits for its pack hook, and the step's reference to it; id names the hook
// from now on. v is the value as saved, compact the value before the step's call broadcast it. An operand keeps its
// history. A result loses it, because the history holds the step and the step holds the hook, which would be a cycle.
// ok is false if no value waits.
func (t *Tape) NextPackHook(id uint64) (v, compact op.Val, ok bool) {
	for len(t.pending) > 0 && !ok {
		p := t.pending[0]
		t.pending = t.pending[1:]
		n := t.Node(p.edge)
		if s := n.saved(p.i); s.Held && n.Refs > 1 {
			v, ok = s.Val, true
			if p.i >= len(n.In) {
				v.Tape, v.Base = 0, 0
			} else if gen, commits := t.Bases.Commit(v.Base); gen != s.BaseGen || commits != s.Commit {
				v.Base = 0
			}
			compact = t.unexpanded(n, v)
			s.Held, s.Hook, s.Val.Value, n.Packed = false, id, 0, true
		}
		t.Release(p.edge)
	}
	return v, compact, ok
}

// SkipPackHooks leaves the waiting values in their steps.
func (t *Tape) SkipPackHooks() {
	for _, p := range t.pending {
		t.Release(p.edge)
	}
	t.pending = nil
}

// SavedState says how a step keeps a value.
type SavedState uint32

// The states.
const (
	SavedEnd    SavedState = iota // there is no such value
	NotSaved                      // the gradient rule does not read it
	SavedHeld                     // by the step
	SavedPacked                   // by a hook
	SavedFreed                    // it was saved, and a walk has freed it
)

// SavedValue describes value i, operands before results, of the step at edge e. A value that the rule never reads has
// no name. A function of several steps shows no values.
func (t *Tape) SavedValue(e uint32, i int) (state SavedState, name string, hook uint64) {
	n := t.Node(e)
	if i < 0 || n.Kind != KindPrim || i >= len(n.In)+len(n.Out) {
		return SavedEnd, "", 0
	}
	for k := range n.In {
		if p := n.In[k].Val.Tape; p != 0 && n.From.Call != 0 && t.Node(p).From.Call == n.From.Call &&
			t.Node(p).Kind == KindPrim {
			return SavedEnd, "", 0
		}
	}
	s, p := n.saved(i), op.PrimOf(n.Prim)
	reads := p.SaveIn
	if i >= len(n.In) {
		reads = p.SaveOut << len(n.In)
	}
	if reads>>i&1 != 0 && s.Val.IsTensor() {
		name = t.savedName(e, i)
	}
	switch {
	case s.Held:
		return SavedHeld, name, 0
	case s.Hook != 0:
		return SavedPacked, name, s.Hook
	case n.Freed:
		return SavedFreed, name, 0
	}
	return NotSaved, name, 0
}

// ReadSaved returns held value i of the step at edge e.
func (t *Tape) ReadSaved(e uint32, i int) (op.Val, error) {
	n := t.Node(e)
	s := n.saved(i)
	if err := t.check(s, t.HistoryOf(e, i), n.SourceLoc); err != nil {
		return op.Val{}, err
	}
	v := s.Val
	if i < len(n.In) {
		v = t.unexpanded(n, v)
	}
	v.Base, v.Tape = 0, t.HistoryOf(e, i)
	return v, nil
}

// Repack queues held value i of the step at edge e for its pack hook.
func (t *Tape) Repack(e uint32, i int) {
	t.pending = append(t.pending, place{e, i})
	t.Retain(e)
}

// HistoryOf returns the edge of the step that made value i of the step at edge e; for i < 0, the edge of result -1-i.
func (t *Tape) HistoryOf(e uint32, i int) uint32 {
	n := t.Node(e)
	if i >= len(n.In) {
		i = len(n.In) - 1 - i
	}
	if i < 0 {
		return Edge(e>>EdgeBits, -1-i)
	}
	return t.unexpanded(n, n.In[i].Val).Tape
}

// ResultOf returns result i of the step at edge e, without its elements; ok is false if there is none.
func (t *Tape) ResultOf(e uint32, i int) (v op.Val, ok bool) {
	n := t.Node(e)
	if i < 0 || i >= len(n.Out) {
		return v, false
	}
	return n.Out[i].Val, true
}

// unpack stops the walk for each packed value of the current step in turn.
func (s *Walk) unpack(n *Node) (ev Event, more bool) {
	if s.packed == nil {
		s.packed = s.t.order(Edge(s.cur, 0), func(v *Saved) bool { return v.Hook != 0 })
		s.unpacked = make([]op.Val, len(n.In)+len(n.Out))
	}
	if len(s.packed) == 0 {
		return Event{}, false
	}
	s.asked = Unpack
	return Event{Kind: Unpack, Hook: n.saved(s.packed[0]).Hook}, true
}

// unpackedAs takes the value that a hook returned for the current packed value.
func (s *Walk) unpackedAs(v op.Val) error {
	i := s.packed[0]
	s.packed = s.packed[1:]
	want := s.t.nodes[s.cur].saved(i).Val
	if !v.IsTensor() {
		return ir.Errorf(ir.ErrRuntime, "saved_tensors_hooks: a saved tensor of shape %s has no unpack hook any more",
			ir.ShapeString(want.Shape()))
	}
	l, ok := ir.ExpandBatch(v.L(), want.Shape())
	if !ok || v.DType() != want.DType() {
		return ir.Errorf(ir.ErrRuntime, "saved_tensors_hooks: unpack_hook returned another tensor than was packed: got %s "+
			"of shape %s, want %s of shape %s",
			v.DType(), ir.ShapeString(v.Shape()), want.DType(), ir.ShapeString(want.Shape()))
	}
	if v.Device() != want.Device() {
		return ir.Errorf(ir.ErrRuntime,
			"saved_tensors_hooks: unpack_hook returned a tensor on another device than was packed")
	}
	v.Layout, v.Tape, v.Base = l.ID, want.Tape, 0
	s.unpacked[i] = s.hold(v)
	return nil
}

// dropUnpacked releases the values that hooks returned for the current step.
func (s *Walk) dropUnpacked() {
	for _, v := range s.unpacked {
		s.drop(v)
	}
	s.packed, s.unpacked = nil, nil
}

// check compares the commit count of a saved value with the count of its base. producer is the edge of the step that
// made the value, sourceLoc the line of the checked step.
func (t *Tape) check(v *Saved, producer, sourceLoc uint32) error {
	if !v.Held || v.Val.Base == 0 {
		return nil
	}
	gen, commits := t.Bases.Commit(v.Val.Base)
	if gen != v.BaseGen || commits == v.Commit {
		return nil
	}
	return t.modified(v, producer, commits, sourceLoc)
}

// value returns a saved value for a rule. It clears a base that was freed since, because another tensor may have its
// number.
func (t *Tape) value(v *Saved) op.Val {
	val := v.Val
	if val.Base != 0 {
		if gen, _ := t.Bases.Commit(val.Base); gen != v.BaseGen {
			val.Base = 0
		}
	}
	return val
}
