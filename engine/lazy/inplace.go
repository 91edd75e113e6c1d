package lazy

import (
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// StoreThrough writes value (of the handle's dtype and shape) through the view of
// handle hd: the functional update, then base_store. It moves the history when
// taping is on.
func (s *Session) StoreThrough(hd uint64, value op.Val) *ir.Error {
	h, err := s.Handle(hd)
	if err != nil {
		return err
	}
	tape := s.tapeOf(h)
	if err := s.mayMutate(h, tape); err != nil {
		return err
	}
	b := s.bases.at(h.Base)
	whole := b.of(h.Layout, h.Offset).IsWhole()
	if !whole && h.Group == 0 && b.Pins == 1 && tape != 0 {
		// A lone non-dense result: nobody can see its strides change.
		s.replace(hd, value)
		return nil
	}
	newVal := value
	grad := s.taping && (value.Tape != 0 || tape != 0 || (h.Group != 0 && s.groups.at(h.Group).tape != 0))
	if !whole || !value.IsWhole() || (grad && value.Tape == 0) {
		base := b.whole()
		if grad {
			base = s.recordedBase(h, tape, base)
		}
		newVal = prim.StridedScatter(s, base, value, ir.LayoutOf(h.Layout), h.Offset)
	}
	if grad {
		s.moveHistory(h, newVal, whole)
	}
	s.baseStore(h.Base, newVal.Value)
	s.countAside(h)
	if grad && newVal.Tape != 0 {
		s.tape.AdoptOutput(newVal.Tape, h.Base)
	}
	return nil
}

// replace gives a handle without aliases a new dense value in place of its base. The new base goes on with the
// versions of the old one, and with its commits that are still to run.
func (s *Session) replace(hd uint64, value op.Val) {
	h, _ := s.Handle(hd)
	old, tape := h.Base, h.Tape
	if s.taping {
		tape = value.Tape // else the write is none of the history's
	}
	base := s.NewBase(value.Value)
	s.tape.Retain(tape)
	s.tape.Release(h.Tape)
	h.Base, h.Layout, h.Offset, h.Tape = base, value.Layout, value.Offset, tape
	b, was := s.bases.at(base), s.bases.at(old)
	b.Pins, b.Scheduled, b.Committed, b.Aside = 1, was.Scheduled+1, was.Committed, was.Aside
	for i := len(s.effects.list) - 1; i >= 0 && was.Committed < was.Scheduled; i-- {
		if e := &s.effects.list[i]; e.Kind == Commit && e.Base == old && e.Gen == was.Gen {
			e.Base, e.Gen, e.Loc = base, b.Gen, 0
			was.Committed++
		}
	}
	s.log(Effect{Kind: Commit, Base: base, Mut: s.effects.nextMut()})
	s.countAside(h)
	was.Pins = 0
	s.dropBase(old)
}

// mayMutate refuses what PyTorch refuses.
func (s *Session) mayMutate(h *Handle, tape uint32) *ir.Error {
	if err := s.mayWrite(h, tape); err != nil {
		return err
	}
	if ir.LayoutOf(h.Layout).Overlap {
		return ir.Errorf(ir.ErrRuntime, "unsupported operation: more than one element of the written-to tensor refers to a "+
			"single memory location. Please clone() the tensor before performing the operation.")
	}
	return nil
}

// SelfCopy is an in-place copy of a tensor to its own elements: the check of leaves and a
// commit, as in PyTorch, but no store.
func (s *Session) SelfCopy(hd uint64) *ir.Error {
	h, err := s.Handle(hd)
	if err != nil {
		return err
	}
	if err := s.mayWrite(h, s.tapeOf(h)); err != nil {
		return err
	}
	s.bases.at(h.Base).Scheduled++
	s.log(Effect{Kind: Commit, Base: h.Base, Mut: s.effects.nextMut()})
	s.countAside(h)
	return nil
}

// mayWrite refuses leaves that require grad, and what a fence is before.
func (s *Session) mayWrite(h *Handle, tape uint32) *ir.Error {
	if err := s.refuseLeaf(h, tape); err != nil || s.fence == nil {
		return err
	}
	return s.fence.Refuse(h.Base, false)
}

func (s *Session) refuseLeaf(h *Handle, tape uint32) *ir.Error {
	if s.GradMode && s.taping {
		if h.Flags&FlagLeafGrad != 0 {
			return ir.Errorf(ir.ErrRuntime, "a leaf Variable that requires grad is being used in an in-place operation.")
		}
		if h.Group != 0 && s.groups.at(h.Group).leaf && tape != 0 {
			return ir.Errorf(ir.ErrRuntime, "a view of a leaf Variable that requires grad is being used in an in-place "+
				"operation.")
		}
	}
	return nil
}

// as views a whole dense value in another shape of the same size.
func (s *Session) as(v op.Val, l ir.LayoutID) op.Val {
	if v.Layout == l {
		return v
	}
	return s.View(v, ir.LayoutOf(l), 0, op.ViewOp{Kind: op.ViewReshape})
}

// of gives the view of a base's newest value.
func (b *Base) of(l ir.LayoutID, offset int64) op.Val {
	return op.Val{Kind: op.Tensor, Value: b.Value, Aval: b.Aval, Layout: l, Offset: offset}
}

// whole gives all of a base's newest value.
func (b *Base) whole() op.Val { return b.of(ir.AvalOf(b.Aval).Layout.ID, 0) }

// recordedBase is base with the history of the group's root, or of a lone handle, whose edge
// is tape. A root that is part of the base only is written into it: the other elements have no history.
func (s *Session) recordedBase(h *Handle, tape uint32, base op.Val) op.Val {
	root := base
	root.Layout, root.Offset, root.Tape = h.Layout, h.Offset, tape
	if h.Group != 0 {
		g := s.groups.at(h.Group)
		root.Layout, root.Offset, root.Tape = g.root, g.rootOff, g.tape
	}
	if root.Tape == 0 {
		return base
	}
	if !root.IsWhole() {
		return prim.StridedScatter(s, base, root, root.L(), root.Offset)
	}
	base.Tape = s.as(root, base.Layout).Tape
	return base
}

// moveHistory makes v, the base's new value, the history of the group (or of the lone
// handle) of h, in the shape of its root.
func (s *Session) moveHistory(h *Handle, v op.Val, whole bool) {
	if h.Group == 0 && whole {
		edge := s.as(v, h.Layout).Tape
		s.tape.Retain(edge)
		s.tape.Release(h.Tape)
		h.Tape = edge
		return
	}
	id := s.shareGroup(h)
	b, g := s.bases.at(h.Base), s.groups.at(id)
	if !b.of(g.root, g.rootOff).IsWhole() {
		g.root, g.rootOff = b.whole().Layout, 0
	}
	edge := s.as(v, g.root).Tape
	s.tape.Retain(edge)
	s.tape.Release(g.tape)
	g.tape = edge
	g.version++
	if whole && h.Layout == g.root {
		s.tape.Release(h.Tape)
		s.tape.Retain(edge)
		h.Tape, h.TapeV = edge, g.version
	}
}

// baseStore writes a base: value becomes the base's newest version, an
// ordered semantic store and its base_commit are logged. An SSA base moves to a
// pending loc whose initialiser is this very store.
func (s *Session) baseStore(id, value uint32) {
	b := s.bases.at(id)
	if b.Binding == SSA {
		b.LogicalVersion++
		s.bindLoc(id, TensorState)
	}
	l := s.bases.loc(b.Loc)
	l.Logical++
	prev := b.Value
	s.graph.Retain(value)
	s.graph.Retain(value) // one for the effect, one for the base
	tok := s.log(Effect{Kind: StoreSemantic, Base: id, Loc: b.Loc, Value: value, Prev: prev,
		PrevSeq: s.graph.Node(prev).Seq, Mut: s.effects.nextMut()})
	if b.Binding == PendingLoc && b.InitTok == 0 {
		b.InitTok = tok
	}
	b.Value = value
	b.Scheduled++
	s.log(Effect{Kind: Commit, Base: id, Loc: b.Loc, Mut: s.effects.muts})
	// The former version stays only for those who refer to it: the loc's committed
	// value and recorded consumers.
	s.graph.Release(prev)
}

// bindLoc moves an SSA base to a pending loc. When its present value is already
// stored, that value is the loc's committed one.
func (s *Session) bindLoc(id uint32, role Role) {
	l := s.bases.bind(id, role, s.effects.token())
	l.Committed = s.bases.at(id).Value
	s.graph.Retain(l.Committed)
}

// Materialize gives a fresh SSA base a loc of the given role whose initialiser is its
// present value (loc_store with kind materialize): the grad slots' first value.
func (s *Session) Materialize(id uint32, role Role) {
	b := s.bases.at(id)
	if b.Binding != SSA {
		return
	}
	s.bases.bind(id, role, s.effects.token())
	s.graph.Retain(b.Value)
	b.InitTok = s.log(Effect{Kind: StoreMaterialize, Base: id, Loc: b.Loc, Value: b.Value})
}

// SetData implements tensor.data = src: the handle becomes an alias of src's base.
func (s *Session) SetData(hd, src uint64) *ir.Error {
	h, err := s.Handle(hd)
	if err != nil {
		return err
	}
	o, err := s.Handle(src)
	if err != nil {
		return err
	}
	if h.Base == o.Base && h.Layout == o.Layout && h.Offset == o.Offset {
		return nil
	}
	if s.fence != nil {
		if err := s.fence.Refuse(h.Base, true); err != nil {
			return err
		}
	}
	old := h.Base
	h.Base, h.Layout, h.Offset = o.Base, o.Layout, o.Offset
	s.bases.at(h.Base).Pins++
	if h.Group != 0 {
		tape := s.tapeOf(h)
		s.tape.Retain(tape)
		g := h.Group
		s.tape.Release(h.Tape)
		h.Group, h.Tape = 0, tape
		s.dropGroup(g)
	}
	if b := s.bases.at(old); b.Pins == 1 {
		b.Pins = 0
		s.dropBase(old)
	} else {
		b.Pins--
	}
	return nil
}
