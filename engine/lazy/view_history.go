package lazy

import (
	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// tapeOf gives the tape edge of a handle: its own, or, once its group's history has
// moved on, the view of the group's newest history.
func (s *Session) tapeOf(h *Handle) uint32 {
	if h.Group == 0 {
		return h.Tape
	}
	g := &s.groups[h.Group]
	if h.TapeV == g.Version {
		return h.Tape
	}
	edge := g.Tape
	if edge != 0 && (h.Layout != g.Root || h.Offset != g.RootOff) {
		b := &s.bases[h.Base]
		root := op.Val{Kind: op.Tensor, Value: b.Value, Aval: b.Aval, Layout: g.Root, Offset: g.RootOff, Tape: edge}
		out := root
		out.Layout, out.Offset = h.Layout, h.Offset
		from := s.Tape.From
		s.Tape.From = autograd.Source{} // whichever call it is that asks
		n := s.Tape.RecordView(op.ViewOp{Kind: op.ViewStrided}, s.SourceLoc, root, out)
		s.Tape.From = from
		edge = autograd.Edge(n, 0)
	} else {
		s.Tape.Retain(edge)
	}
	s.Tape.Release(h.Tape)
	h.Tape, h.TapeV = edge, g.Version
	return edge
}

// shareGroup puts h in a group (made when needed) and returns it.
func (s *Session) shareGroup(h *Handle) uint32 {
	if h.Group == 0 {
		id := take(&s.groups, &s.freeG)
		s.Tape.Retain(h.Tape)
		s.groups[id] = Group{Refs: 1, Tape: h.Tape, Root: h.Layout, RootOff: h.Offset, Leaf: h.Flags&FlagLeafGrad != 0}
		h.Group, h.TapeV = id, 0
	}
	return h.Group
}

// Resolve reads a handle as an operand. Reading a loc is an ordered load.
func (s *Session) Resolve(hd uint64) (v op.Val, err *ir.Error) {
	err = s.ResolveTo(hd, &v)
	return v, err
}

// ResolveTo is Resolve into v, which is zero.
func (s *Session) ResolveTo(hd uint64, v *op.Val) *ir.Error {
	h, err := s.Handle(hd)
	if err != nil {
		return err
	}
	b := &s.bases[h.Base]
	if b.Binding != SSA {
		s.load(h.Base)
	}
	v.Kind, v.Value, v.Aval, v.Layout, v.Offset, v.Base = op.Tensor, b.Value, b.Aval, h.Layout, h.Offset, h.Base
	v.Tape = s.tapeOf(h)
	return nil
}

// load is loc_load: it takes a fresh token.
func (s *Session) load(base uint32) {
	// Consecutive loads are one event to anyone who can observe: only stores move versions.
	if n := len(s.Effects); n > 0 && s.Effects[n-1].Kind == Load {
		return
	}
	s.log(Effect{Kind: Load, Base: base, Loc: s.bases[base].Loc})
}

// Wrap makes handles of results. A result that still names a base is an alias of it:
// a view, or an operand handed through; src are the operands' handles.
func (s *Session) Wrap(v *op.Val, src []uint64) uint64 {
	if v.Base != 0 {
		return s.alias(v, src)
	}
	base := s.NewBase(v.Value)
	hd := s.NewHandle(base, v.Layout, v.Offset, 0)
	h := &s.handles[uint32(hd)]
	if v.Tape != 0 {
		s.Tape.Retain(v.Tape)
		h.Tape = v.Tape
		s.Tape.AdoptOutput(v.Tape, base)
	}
	return hd
}

func (s *Session) alias(v *op.Val, src []uint64) uint64 {
	from := -1
	for i, x := range src {
		if h, err := s.Handle(x); err == nil && h.Base == v.Base {
			from = i
			break
		}
	}
	hd := s.NewHandle(v.Base, v.Layout, v.Offset, 0)
	h := &s.handles[uint32(hd)]
	if from < 0 {
		s.Tape.Retain(v.Tape)
		h.Tape = v.Tape
		return hd
	}
	f, _ := s.Handle(src[from])
	if h.Writes = f.Writes; v.OwnWrites {
		h.Writes = new(uint64)
	}
	if v.Detached || v.Tape == 0 && s.tapeOf(f) != 0 {
		return hd // detached: a history of its own
	}
	g := s.shareGroup(f)
	s.groups[g].Refs++
	h.Flags |= FlagView
	h.Group, h.TapeV = g, s.groups[g].Version
	s.Tape.Retain(v.Tape)
	h.Tape = v.Tape
	return hd
}

// OwnsStep reports that handle hd, alone or as the only one of its group, keeps the step of edge e: its own step, or
// one before in-place operations on it.
func (s *Session) OwnsStep(hd uint64, e uint32) bool {
	h, err := s.Handle(hd)
	if err != nil {
		return false
	}
	own, at := int32(1), h.Tape
	if h.Group != 0 {
		if g := &s.groups[h.Group]; g.Refs == 1 && g.Tape>>4 == at>>4 {
			own++
		}
	}
	for ; at != 0 && s.Tape.Node(at).Refs == own; own = 1 {
		if at>>4 == e>>4 {
			return true
		}
		in := s.Tape.Node(at).In
		if len(in) == 0 {
			return false
		}
		at = in[0].Val.Tape
	}
	return false
}

// RequiresGrad reports whether a handle is on the tape.
func (s *Session) RequiresGrad(h *Handle) bool { return s.tapeOf(h) != 0 }

// IsLeaf reports a handle without a recorded history.
func (s *Session) IsLeaf(h *Handle) bool {
	e := s.tapeOf(h)
	return e == 0 || s.Tape.Node(e).Kind == autograd.KindLeaf
}

// SetRequiresGrad makes a leaf require grad, or no longer.
func (s *Session) SetRequiresGrad(hd uint64, on bool) *ir.Error {
	h, err := s.Handle(hd)
	if err != nil {
		return err
	}
	e := s.tapeOf(h)
	if !s.IsLeaf(h) {
		if on {
			return nil
		}
		return ir.Errorf(ir.ErrRuntime, "you can only change requires_grad flags of leaf variables. If you want to use a "+
			"computed variable in a subgraph that doesn't require differentiation use var_no_grad = var.detach().")
	}
	if (e != 0) == on {
		return nil
	}
	if !on {
		h.Flags &^= FlagLeafGrad
		h.Tape = 0
		if h.Group != 0 {
			h.TapeV = s.groups[h.Group].Version
			s.groups[h.Group].Leaf = false
		}
		s.Tape.Release(e)
		return nil
	}
	b := &s.bases[h.Base]
	if d := ir.AvalOf(b.Aval).DType; !d.IsFloat() {
		return ir.Errorf(ir.ErrRuntime, "only Tensors of floating point and complex dtype can require gradients")
	}
	v := op.Val{Kind: op.Tensor, Value: b.Value, Aval: b.Aval, Layout: h.Layout, Offset: h.Offset}
	h.Tape = autograd.Edge(s.Tape.RecordLeaf(hd, v), 0)
	h.Flags |= FlagLeafGrad
	if h.Group != 0 {
		h.TapeV = s.groups[h.Group].Version
		s.groups[h.Group].Leaf = true
	}
	return nil
}

// RetainGrad asks a non-leaf to keep its grad.
func (s *Session) RetainGrad(hd uint64) *ir.Error {
	h, err := s.Handle(hd)
	if err != nil {
		return err
	}
	e := s.tapeOf(h)
	if e == 0 {
		return ir.Errorf(ir.ErrRuntime, "can't retain_grad on Tensor that has requires_grad=False")
	}
	if s.IsLeaf(h) || h.Flags&FlagRetain != 0 {
		return nil
	}
	h.Flags |= FlagRetain
	n := s.Tape.Node(e)
	n.Retain = append(n.Retain, autograd.Retain{Out: int(e & 15), Handle: hd})
	return nil
}
