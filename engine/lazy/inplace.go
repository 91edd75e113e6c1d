package lazy

import (
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// ScatterRule records base with value written at a view: prim.StridedScatter.
type ScatterRule func(b op.Builder, base, value op.Val, l *ir.Layout, offset int64) op.Val

// StoreThrough writes value (of the handle's dtype and shape) through the view of
// handle hd: the functional update, then base_store. It moves the history when
// taping is on.
func (s *Session) StoreThrough(hd uint64, value op.Val, scatter ScatterRule) *ir.Error {
	h, err := s.Handle(hd)
	if err != nil {
		return err
	}
	tape := s.tapeOf(h)
	if err := s.mayMutate(h, tape); err != nil {
		return err
	}
	b := &s.bases[h.Base]
	l := ir.LayoutOf(h.Layout)
	av := ir.AvalOf(b.Aval)
	whole := isWhole(l, h.Offset, av)
	if !whole && h.Group == 0 && b.Pins == 1 && tape != 0 {
		// A lone non-dense result: nobody can see its strides change.
		s.replace(hd, value)
		return nil
	}
	newVal := value
	grad := s.taping && (value.Tape != 0 || tape != 0 || (h.Group != 0 && s.groups[h.Group].Tape != 0))
	fresh := value.L().Dense && value.Offset == 0 && value.L().Numel == ir.AvalOf(value.Aval).Layout.Numel
	if !whole || !fresh || (grad && value.Tape == 0) {
		base := op.Val{Kind: op.Tensor, Value: b.Value, Aval: b.Aval, Layout: av.Layout.ID}
		if grad {
			base = s.recordedBase(h, tape, base, scatter)
		}
		newVal = scatter(s, base, value, l, h.Offset)
	}
	if grad {
		s.moveHistory(h, newVal, whole)
	}
	s.baseStore(h.Base, newVal.Value)
	s.countAside(h)
	if grad && newVal.Tape != 0 {
		s.Tape.AdoptOutput(newVal.Tape, h.Base)
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
	s.Tape.Retain(tape)
	s.Tape.Release(h.Tape)
	h.Base, h.Layout, h.Offset, h.Tape = base, value.Layout, value.Offset, tape
	b, was := &s.bases[base], &s.bases[old]
	b.Pins, b.Scheduled, b.Committed, b.Aside = 1, was.Scheduled+1, was.Committed, was.Aside
	for i := len(s.Effects) - 1; i >= 0 && was.Committed < was.Scheduled; i-- {
		if e := &s.Effects[i]; e.Kind == Commit && e.Base == old && e.Gen == was.Gen {
			e.Base, e.Gen, e.Loc = base, b.Gen, 0
			was.Committed++
		}
	}
	s.log(Effect{Kind: Commit, Base: base, Mut: s.nextMut()})
	s.countAside(h)
	was.Pins = 0
	s.dropBase(old)
}

// countAside counts the write that was logged last for h alone, if h was made by .data.
func (s *Session) countAside(h *Handle) {
	if h.Writes != nil {
		*h.Writes++
		s.bases[h.Base].Aside++
		s.Effects[len(s.Effects)-1].Aside = true
	}
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
	s.bases[h.Base].Scheduled++
	s.log(Effect{Kind: Commit, Base: h.Base, Mut: s.nextMut()})
	s.countAside(h)
	return nil
}

// mayWrite refuses leaves that require grad, and what a fence is before.
func (s *Session) mayWrite(h *Handle, tape uint32) *ir.Error {
	if err := s.refuseLeaf(h, tape); err != nil || s.fenced == nil {
		return err
	}
	return s.fenced(h.Base, false)
}

func (s *Session) refuseLeaf(h *Handle, tape uint32) *ir.Error {
	if s.GradMode && s.taping {
		if h.Flags&FlagLeafGrad != 0 {
			return ir.Errorf(ir.ErrRuntime, "a leaf Variable that requires grad is being used in an in-place operation.")
		}
		if h.Group != 0 && s.groups[h.Group].Leaf && tape != 0 {
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

// isWhole reports a layout that walks all of a dense base in order.
func isWhole(l *ir.Layout, off int64, av *ir.Aval) bool {
	return l.Dense && l.Numel == av.Layout.Numel && off == 0
}

// recordedBase is base with the history of the group's root, or of a lone handle, whose edge
// is tape. A root that is part of the base only is written into it: the other elements have no history.
func (s *Session) recordedBase(h *Handle, tape uint32, base op.Val, scatter ScatterRule) op.Val {
	root := base
	root.Layout, root.Offset, root.Tape = h.Layout, h.Offset, tape
	if h.Group != 0 {
		g := &s.groups[h.Group]
		root.Layout, root.Offset, root.Tape = g.Root, g.RootOff, g.Tape
	}
	if root.Tape == 0 {
		return base
	}
	if !isWhole(root.L(), root.Offset, ir.AvalOf(base.Aval)) {
		return scatter(s, base, root, root.L(), root.Offset)
	}
	base.Tape = s.as(root, base.Layout).Tape
	return base
}

// moveHistory makes v, the base's new value, the history of the group (or of the lone
// handle) of h, in the shape of its root.
func (s *Session) moveHistory(h *Handle, v op.Val, whole bool) {
	if h.Group == 0 && whole {
		edge := s.as(v, h.Layout).Tape
		s.Tape.Retain(edge)
		s.Tape.Release(h.Tape)
		h.Tape = edge
		return
	}
	id := s.shareGroup(h)
	av := ir.AvalOf(s.bases[h.Base].Aval)
	g := &s.groups[id]
	if !isWhole(ir.LayoutOf(g.Root), g.RootOff, av) {
		g.Root, g.RootOff = av.Layout.ID, 0
	}
	edge := s.as(v, g.Root).Tape
	s.Tape.Retain(edge)
	s.Tape.Release(g.Tape)
	g.Tape = edge
	g.Version++
	if whole && h.Layout == g.Root {
		s.Tape.Release(h.Tape)
		s.Tape.Retain(edge)
		h.Tape, h.TapeV = edge, g.Version
	}
}

// baseStore writes a base: value becomes the base's newest version, an
// ordered semantic store and its base_commit are logged. An SSA base moves to a
// pending loc whose initialiser is this very store.
func (s *Session) baseStore(id, value uint32) {
	b := &s.bases[id]
	if b.Binding == SSA {
		b.LogicalVersion++
		s.bindLoc(id, TensorState)
	}
	l := &s.locs[b.Loc]
	l.Logical++
	prev := b.Value
	s.Graph.Retain(value)
	s.Graph.Retain(value) // one for the effect, one for the base
	tok := s.log(Effect{Kind: StoreSemantic, Base: id, Loc: b.Loc, Value: value, Prev: prev,
		PrevSeq: s.Graph.Node(prev).Seq, Mut: s.nextMut()})
	if b.Binding == PendingLoc && b.InitTok == 0 {
		b.InitTok = tok
	}
	b.Value = value
	b.Scheduled++
	s.log(Effect{Kind: Commit, Base: id, Loc: b.Loc, Mut: s.muts})
	// The former version stays only for those who refer to it: the loc's committed
	// value and recorded consumers.
	s.Graph.Release(prev)
}

func (s *Session) nextMut() uint64 {
	s.muts++
	return s.muts
}

// bindLoc moves an SSA base to a pending loc. When its present value is already
// stored, that value is the loc's committed one.
func (s *Session) bindLoc(id uint32, role Role) {
	loc := s.newLoc(id, role)
	b := &s.bases[id]
	b.Loc, b.Binding = loc, PendingLoc
	b.BindingVersion++
	s.locs[loc].Committed = b.Value
	s.Graph.Retain(b.Value)
}

// Materialize gives a fresh SSA base a loc of the given role whose initialiser is its
// present value (loc_store with kind materialize): the grad slots' first value.
func (s *Session) Materialize(id uint32, role Role) {
	b := &s.bases[id]
	if b.Binding != SSA {
		return
	}
	loc := s.newLoc(id, role)
	b = &s.bases[id]
	b.Loc, b.Binding = loc, PendingLoc
	b.BindingVersion++
	s.Graph.Retain(b.Value)
	b.InitTok = s.log(Effect{Kind: StoreMaterialize, Base: id, Loc: loc, Value: b.Value})
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
	if s.fenced != nil {
		if err := s.fenced(h.Base, true); err != nil {
			return err
		}
	}
	old := h.Base
	h.Base, h.Layout, h.Offset = o.Base, o.Layout, o.Offset
	s.bases[h.Base].Pins++
	if h.Group != 0 {
		tape := s.tapeOf(h)
		s.Tape.Retain(tape)
		g := h.Group
		s.Tape.Release(h.Tape)
		h.Group, h.Tape = 0, tape
		s.dropGroup(g)
	}
	if b := &s.bases[old]; b.Pins == 1 {
		b.Pins = 0
		s.dropBase(old)
	} else {
		b.Pins--
	}
	return nil
}

// Grad gives the internal handle of a grad, 0 for None.
func (s *Session) Grad(hd uint64) (uint64, *ir.Error) {
	h, err := s.Handle(hd)
	if err != nil {
		return 0, err
	}
	return h.Grad, nil
}

// SetGrad replaces the grad of hd by an alias of g, or by None.
func (s *Session) SetGrad(hd, g uint64) *ir.Error {
	h, err := s.Handle(hd)
	if err != nil {
		return err
	}
	var alias uint64
	if g != 0 {
		o, err := s.Handle(g)
		if err != nil {
			return err
		}
		if want, got := ir.LayoutOf(h.Layout), ir.LayoutOf(o.Layout); want.Contig != got.Contig {
			return ir.Errorf(ir.ErrRuntime, "assigned grad has data of a different size")
		}
		a, b := ir.AvalOf(s.bases[h.Base].Aval), ir.AvalOf(s.bases[o.Base].Aval)
		if a.DType != b.DType {
			return ir.Errorf(ir.ErrRuntime, "assigned grad has data of a different type")
		}
		if a.Device != b.Device {
			return ir.Errorf(ir.ErrRuntime, "assigned grad has data located on a different device")
		}
		alias = s.dup(g)
	}
	h, _ = s.Handle(hd)
	old := h.Grad
	h.Grad = alias
	if old != 0 {
		s.Release(old)
	}
	return nil
}

// dup makes an internal handle of the same view and history as hd.
func (s *Session) dup(hd uint64) uint64 {
	o, _ := s.Handle(hd)
	tape := s.tapeOf(o)
	n := s.NewHandle(o.Base, o.Layout, o.Offset, FlagInternal)
	o, _ = s.Handle(hd)
	h := &s.handles[uint32(n)]
	s.Tape.Retain(tape)
	h.Tape = tape
	h.Flags |= o.Flags & FlagLeafGrad
	return n
}

// Dup is dup for the user: the result of p.grad.
func (s *Session) Dup(hd uint64) uint64 {
	n := s.dup(hd)
	h := &s.handles[uint32(n)]
	h.Flags &^= FlagInternal
	return n
}

// Accumulate implements autograd.Sink for leaves: the first gradient becomes the
// slot's value by a materialize store; later ones are added in place.
func (s *Session) accumulate(hd uint64, cot op.Val, add func(x, y op.Val) op.Val, create bool) {
	h, err := s.Handle(hd)
	if err != nil {
		return // the leaf's handle is gone: nothing can read the grad
	}
	if h.Grad == 0 {
		s.setNewGrad(hd, cot, create)
		return
	}
	g := h.Grad
	old, err := s.Resolve(g)
	if err != nil {
		s.setNewGrad(hd, cot, create)
		return
	}
	if create {
		// PyTorch adds out of place here, so that the former grad keeps its history.
		s.setNewGrad(hd, add(old, cot), create)
		return
	}
	old.Tape = 0
	sum := add(old, cot)
	gh, _ := s.Handle(g)
	s.baseStore(gh.Base, sum.Value)
}

func (s *Session) setNewGrad(hd uint64, cot op.Val, create bool) {
	if !create {
		cot.Tape = 0
	}
	cot.Base = 0
	base := s.NewBase(cot.Value)
	g := s.NewHandle(base, cot.Layout, cot.Offset, FlagInternal)
	gh := &s.handles[uint32(g)]
	s.Tape.Retain(cot.Tape)
	gh.Tape = cot.Tape
	s.Materialize(base, GradState)
	h, _ := s.Handle(hd)
	old := h.Grad
	h.Grad = g
	if old != 0 {
		s.Release(old)
	}
}

// GradSink delivers a backward walk's results to handles.
type GradSink struct {
	S   *Session
	Add func(x, y op.Val) op.Val
	// Dense copies a cotangent that is a view: grads are dense, as PyTorch's are.
	Dense  func(v op.Val) op.Val
	Create bool
}

// Accumulate implements autograd.Sink.
func (k GradSink) Accumulate(hd uint64, cot op.Val) {
	k.S.accumulate(hd, k.Dense(cot), k.Add, k.Create)
}

// SetRetained implements autograd.Sink.
func (k GradSink) SetRetained(hd uint64, cot op.Val) {
	if _, err := k.S.Handle(hd); err == nil {
		k.S.setNewGrad(hd, k.Dense(cot), k.Create)
	}
}

// Promote is steps 1 to 3 of mark_step: a pending loc with a committed value becomes
// a loc; an SSA base whose value is stored is left alone, for its leaf is as strong a
// hold as a loc's. No base is forced.
func (s *Session) Promote() {
	for i := range s.bases {
		b := &s.bases[i]
		if b.Pins == 0 {
			continue
		}
		if b.Binding == PendingLoc && s.locs[b.Loc].HasValue {
			b.Binding = LocBound
			b.BindingVersion++
		}
	}
}
