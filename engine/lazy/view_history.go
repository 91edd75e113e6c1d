package lazy

import (
	"slices"

	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// group is the history that a tensor and its views share; a detached alias has another group over the same base.
type group struct {
	refs    int32
	version uint32
	tape    uint32 // edge of the root view's value, owned
	root    ir.LayoutID
	rootOff int64
	leaf    bool // the root is a leaf that requires grad
}

// groups is the table of shared histories. Entry 0 is unused.
type groups struct {
	list []group
	free []uint32
}

func (t *groups) at(id uint32) *group { return &t.list[id] }

// tapeOf returns a handle's tape edge. If the group's history has moved on, it records a view of the group's newest
// history.
func (s *Session) tapeOf(h *Handle) uint32 {
	if h.Group == 0 {
		return h.Tape
	}
	g := s.groups.at(h.Group)
	if h.TapeV == g.version {
		return h.Tape
	}
	edge := g.tape
	if edge != 0 && (h.Layout != g.root || h.Offset != g.rootOff) {
		b := s.bases.at(h.Base)
		root := b.of(ir.LayoutOf(g.root).Whole().ID, g.rootOff)
		root.Tape = edge
		out := root
		out.Layout, out.Offset = ir.LayoutOf(h.Layout).Whole().ID, h.Offset
		from := s.tape.From
		s.tape.From = autograd.Source{} // the step belongs to no call
		n := s.tape.RecordView(op.ViewOp{Kind: op.ViewStrided}, s.SourceLoc, root, out, false)
		s.tape.From = from
		edge = autograd.Edge(n, 0)
	} else {
		s.tape.Retain(edge)
	}
	s.tape.Release(h.Tape)
	h.Tape, h.TapeV = edge, g.version
	return edge
}

func (s *Session) dropGroup(id uint32) {
	if id == 0 {
		return
	}
	g := s.groups.at(id)
	if g.refs--; g.refs == 0 {
		t := g.tape
		*g = group{}
		s.groups.free = append(s.groups.free, id)
		s.tape.Release(t)
	}
}

// shareGroup puts h in a group, made if needed, and returns the group.
func (s *Session) shareGroup(h *Handle) uint32 {
	if h.Group == 0 {
		id := take(&s.groups.list, &s.groups.free)
		s.tape.Retain(h.Tape)
		*s.groups.at(id) = group{refs: 1, tape: h.Tape, root: h.Layout, rootOff: h.Offset, leaf: h.Flags&FlagLeafGrad != 0}
		h.Group, h.TapeV = id, 0
	}
	return h.Group
}

// Resolve returns a handle's value as an operand. Reading a loc is an ordered load.
func (s *Session) Resolve(hd uint64) (v op.Val, err *ir.Error) {
	err = s.ResolveTo(hd, &v)
	return v, err
}

// ResolveTo is Resolve into v, which must be zero.
func (s *Session) ResolveTo(hd uint64, v *op.Val) *ir.Error {
	h, err := s.Handle(hd)
	if err != nil {
		return err
	}
	b := s.bases.at(h.Base)
	if b.Binding != SSA {
		s.load(h.Base)
	}
	v.Kind, v.Value, v.Aval, v.Layout, v.Offset, v.Base = op.Tensor, b.Value, b.Aval, h.Layout, h.Offset, h.Base
	v.Severed = h.Flags&FlagSevered != 0
	v.Tape = s.tapeOf(h)
	return nil
}

// load logs a loc_load with a fresh token.
func (s *Session) load(base uint32) {
	// Consecutive loads need one entry, because only stores change versions.
	if n := len(s.effects.list); n > 0 && s.effects.list[n-1].Kind == Load {
		return
	}
	s.log(Effect{Kind: Load, Base: base, Loc: s.bases.at(base).Loc})
}

// Wrap makes handles of results. A result with a base is an alias: a view, or an operand returned as it is. src holds
// the operands' handles.
func (s *Session) Wrap(v *op.Val, src []uint64) uint64 {
	// The values of a body have no tangents while it is traced, but may get some where it runs.
	severed := v.Severed && (s.hasTangents(v.Value) || s.trace != nil && s.trace.body)
	if v.Base != 0 {
		hd := s.alias(v, src)
		if severed {
			s.handles.list[uint32(hd)].Flags |= FlagSevered
		}
		return hd
	}
	if severed {
		*v = prim.Copy(s, *v)
	}
	base := s.NewBase(v.Value)
	hd := s.NewHandle(base, v.Layout, v.Offset, 0)
	h := &s.handles.list[uint32(hd)]
	if v.Tape != 0 {
		s.tape.Retain(v.Tape)
		h.Tape = v.Tape
		s.tape.AdoptOutput(v.Tape, base)
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
	h := &s.handles.list[uint32(hd)]
	if from < 0 {
		s.tape.Retain(v.Tape)
		h.Tape = v.Tape
		return hd
	}
	f, _ := s.Handle(src[from])
	s.shareWrites(h, f, v.OwnWrites)
	if v.Detached || v.Tape == 0 && s.tapeOf(f) != 0 {
		return hd // detached: it has its own history
	}
	g := s.shareGroup(f)
	s.groups.at(g).refs++
	h.Flags |= FlagView
	h.Group, h.TapeV = g, s.groups.at(g).version
	s.tape.Retain(v.Tape)
	h.Tape = v.Tape
	return hd
}

// OwnsStep reports that handle hd, alone or as the only member of its group, keeps the step at edge e: its own step, or
// one before its in-place operations.
func (s *Session) OwnsStep(hd uint64, e uint32) bool {
	h, err := s.Handle(hd)
	if err != nil {
		return false
	}
	own, at := int32(1), h.Tape
	if h.Group != 0 {
		if g := s.groups.at(h.Group); g.refs == 1 && g.tape>>autograd.EdgeBits == at>>autograd.EdgeBits {
			own++
		}
	}
	for ; at != 0 && s.tape.Node(at).Refs == own; own = 1 {
		if at>>autograd.EdgeBits == e>>autograd.EdgeBits {
			return true
		}
		in := s.tape.Node(at).In
		if len(in) == 0 {
			return false
		}
		at = in[0].Val.Tape
	}
	return false
}

// RequiresGrad reports that a handle is on the tape.
func (s *Session) RequiresGrad(h *Handle) bool { return s.tapeOf(h) != 0 }

// IsLeaf reports that a handle has no recorded history.
func (s *Session) IsLeaf(h *Handle) bool {
	e := s.tapeOf(h)
	return e == 0 || s.tape.Node(e).Kind == autograd.KindLeaf
}

// SetRequiresGrad sets or clears requires_grad of a leaf.
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
			h.TapeV = s.groups.at(h.Group).version
			s.groups.at(h.Group).leaf = false
		}
		s.tape.Release(e)
		return nil
	}
	b := s.bases.at(h.Base)
	if d := ir.AvalOf(b.Aval).DType; !d.IsFloat() {
		return ir.Errorf(ir.ErrRuntime, "only Tensors of floating point dtype can require gradients")
	}
	h.Tape = autograd.Edge(s.tape.RecordLeaf(hd, Pairs(b.of(h.Layout, h.Offset))), 0)
	h.Flags |= FlagLeafGrad
	if h.Group != 0 {
		h.TapeV = s.groups.at(h.Group).version
		s.groups.at(h.Group).leaf = true
	}
	return nil
}

// RetainGrad makes a non-leaf keep its grad.
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
	n := s.tape.Node(e)
	n.Retain = append(n.Retain, autograd.Retain{Out: autograd.Output(e), Handle: hd})
	return nil
}

// dropRetained ends RetainGrad for the step at edge e.
func (s *Session) dropRetained(h *Handle, hd uint64, e uint32) {
	h.Flags &^= FlagRetain
	n := s.tape.Node(e)
	n.Retain = slices.DeleteFunc(n.Retain, func(r autograd.Retain) bool { return r.Handle == hd })
}
