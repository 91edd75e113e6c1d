package lazy

import (
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// StoreThrough writes value, of the handle's dtype and shape, through the view of handle hd: a functional update, then
// base_store. While taping it moves the history too.
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
	if value, err = s.batchLike(Pairs(value), h); err != nil {
		return err
	}
	if s.taping && h.Flags&FlagRetain != 0 {
		s.dropRetained(h, hd, tape)
		defer s.RetainGrad(hd) // of what is written
	}
	whole := b.of(h.Layout, h.Offset).IsWhole()
	if !whole && h.Group == 0 && b.Pins == 1 && tape != 0 && s.exports.byBase[h.Base] == nil {
		// The handle has no aliases and is not dense: nobody can observe that its strides change.
		s.replace(hd, s.stored(h, b.Value, value))
		return nil
	}
	newVal := value
	grad := s.taping && (value.Tape != 0 || tape != 0 || (h.Group != 0 && s.groups.at(h.Group).tape != 0))
	if !whole || !value.IsWhole() || (grad && value.Tape == 0) {
		base := b.whole()
		base.Severed = h.Flags&FlagSevered != 0
		if grad {
			base = s.recordedBase(h, tape, base)
		}
		newVal = prim.StridedScatter(s, base, value, ir.LayoutOf(h.Layout).Whole(), h.Offset)
	}
	if s.tangents.levels != nil {
		newVal = s.stored(h, b.Value, newVal)
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

// batchLike returns value, which is to be written to h, with the hidden dims of h as its first dims.
func (s *Session) batchLike(value op.Val, h *Handle) (op.Val, *ir.Error) {
	own, given := ir.LayoutOf(h.Layout).Hidden, value.L().Hidden
	for _, b := range given {
		if !hasLevel(own, b) {
			return value, ir.Errorf(ir.ErrRuntime, "vmap: inplace arithmetic(self, *extra_args) is not possible because there "+
				"exists a Tensor `other` in extra_args that has more elements than `self`. This happened due to `other` being "+
				"vmapped over but `self` not being vmapped over in a vmap. Please try to use out-of-place operators instead of "+
				"inplace arithmetic. If said operator is being called inside the PyTorch framework, please file a bug report "+
				"instead.")
		}
	}
	return s.Reveal(value, own), nil
}

// replace replaces the base of a handle without aliases by a new base with a dense value. The new base takes over the
// versions of the old one and its pending commits.
func (s *Session) replace(hd uint64, value op.Val) {
	h, _ := s.Handle(hd)
	if s.taping { // otherwise the history ignores the write
		s.tape.Move(&h.Tape, value.Tape)
	}
	old, base := h.Base, s.NewBase(value.Value)
	h.Base, h.Layout, h.Offset = base, s.Like(value, ir.LayoutOf(h.Layout)).Layout, value.Offset
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

// mayMutate returns PyTorch's error for a mutation that PyTorch refuses, else nil.
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

// mayWrite refuses writes to leaves that require grad, and writes that a fence refuses.
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

// as reshapes a whole dense value to layout l of the same size.
func (s *Session) as(v op.Val, l ir.LayoutID) op.Val {
	if v.Layout == l {
		return v
	}
	return s.View(v, ir.LayoutOf(l), 0, op.ViewOp{Kind: op.ViewReshape})
}

// of returns a view of the base's newest value.
func (b *Base) of(l ir.LayoutID, offset int64) op.Val {
	return op.Val{Kind: op.Tensor, Value: b.Value, Aval: b.Aval, Layout: l, Offset: offset}
}

// whole returns all of the base's newest value.
func (b *Base) whole() op.Val { return b.of(ir.AvalOf(b.Aval).Layout.ID, 0) }

// recordedBase returns base with the history of the group's root or, for a lone handle, with history tape. If the root
// is only a part of the base, it is written into base, and the other elements have no history.
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
	root.Layout = root.L().Whole().ID
	if !root.IsWhole() {
		return prim.StridedScatter(s, base, root, root.L(), root.Offset)
	}
	base.Tape = s.as(root, base.Layout).Tape
	return base
}

// moveHistory makes v, the base's new value, the history of h's group or of the lone handle h, in the shape of the
// root.
func (s *Session) moveHistory(h *Handle, v op.Val, whole bool) {
	s.keepHistory(h.Base)
	if h.Group == 0 && whole {
		s.tape.Move(&h.Tape, s.as(v, h.Layout).Tape)
		return
	}
	id := s.shareGroup(h)
	b, g := s.bases.at(h.Base), s.groups.at(id)
	if !b.of(g.root, g.rootOff).IsWhole() {
		g.root, g.rootOff = b.whole().Layout, 0
	}
	s.tape.Move(&g.tape, s.as(v, g.root).Tape)
	g.version++
	if whole && h.Layout == g.root {
		s.tape.Move(&h.Tape, g.tape)
		h.TapeV = g.version
	}
}

// baseStore writes a base: value becomes its newest version, and the log gets an ordered semantic store and its
// base_commit. An SSA base becomes a pending loc, with this store as initialiser.
func (s *Session) baseStore(id, value uint32) {
	if len(s.exports.byStore) > 0 {
		value = s.private(value)
		s.noteWrite(id)
	}
	b := s.bases.at(id)
	if ir.AvalOf(b.Aval).Device == ir.Meta { // there is no memory to order stores to
		s.graph.Retain(value)
		s.graph.Release(b.Value)
		b.Value = value
		b.Scheduled++
		b.Committed++
		return
	}
	if b.Binding == SSA {
		b.LogicalVersion++
		s.bindLoc(id, TensorState)
	}
	l := s.bases.loc(b.Loc)
	l.Logical++
	prev := b.Value
	s.graph.Retain(value)
	s.graph.Retain(value) // one reference for the effect, one for the base
	tok := s.log(Effect{Kind: StoreSemantic, Base: id, Loc: b.Loc, Value: value, Prev: prev,
		PrevSeq: s.graph.Node(prev).Seq, Mut: s.effects.nextMut()})
	if b.Binding == PendingLoc && b.InitTok == 0 {
		b.InitTok = tok
	}
	b.Value = value
	b.Scheduled++
	s.log(Effect{Kind: Commit, Base: id, Loc: b.Loc, Mut: s.effects.muts})
	// The loc's committed value and recorded consumers hold their own references to the former version.
	s.graph.Release(prev)
}

// bindLoc turns an SSA base into a pending loc. If the base's value is already stored, it becomes the loc's committed
// value.
func (s *Session) bindLoc(id uint32, role Role) {
	l := s.bases.bind(id, role, s.effects.token())
	l.Committed = s.bases.at(id).Value
	s.graph.Retain(l.Committed)
}

// Materialize turns a new SSA base into a loc with the given role. Its initialiser stores the present value (loc_store,
// kind materialize): the first value of a grad slot.
func (s *Session) Materialize(id uint32, role Role) {
	b := s.bases.at(id)
	if b.Binding != SSA || ir.AvalOf(b.Aval).Device == ir.Meta {
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
	if h.Group != 0 { // the handle leaves the group with the history that it has there
		s.tapeOf(h)
		g := h.Group
		h.Group = 0
		s.dropGroup(g)
	}
	old := h.Base
	if len(s.exports.byBase) > 0 {
		s.countHandle(uint32(hd), old, -1)
		s.countHandle(uint32(hd), o.Base, 1)
	}
	h.Base, h.Layout, h.Offset = o.Base, o.Layout, o.Offset
	h.Flags = h.Flags&^FlagSevered | o.Flags&FlagSevered
	s.bases.at(h.Base).Pins++
	if b := s.bases.at(old); b.Pins == 1 {
		b.Pins = 0
		s.dropBase(old)
	} else {
		b.Pins--
	}
	return nil
}
