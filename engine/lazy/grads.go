package lazy

import (
	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// Grad returns the internal handle of a grad, 0 for None.
func (s *Session) Grad(hd uint64) (uint64, *ir.Error) {
	h, err := s.Handle(hd)
	if err != nil {
		return 0, err
	}
	s.noteGrad(hd, h.Grad, false)
	return h.Grad, nil
}

// SetGrad makes the grad of hd an alias of g, or None.
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
		a, b := ir.AvalOf(s.bases.at(h.Base).Aval), ir.AvalOf(s.bases.at(o.Base).Aval)
		if a.DType != b.DType || h.Layout.IsComplex() != o.Layout.IsComplex() {
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
	if !s.noteGrad(hd, old, true) {
		s.Release(old)
	}
	return nil
}

// dup makes an internal handle with the view and history of hd.
func (s *Session) dup(hd uint64) uint64 {
	o, _ := s.Handle(hd)
	tape := s.tapeOf(o)
	n := s.NewHandle(o.Base, o.Layout, o.Offset, FlagInternal)
	o, _ = s.Handle(hd)
	h := &s.handles.list[uint32(n)]
	s.tape.Retain(tape)
	h.Tape = tape
	h.Flags |= o.Flags & FlagLeafGrad
	return n
}

// Dup makes a user handle with the view and history of hd: the result of p.grad.
func (s *Session) Dup(hd uint64) uint64 {
	n := s.dup(hd)
	h := &s.handles.list[uint32(n)]
	h.Flags &^= FlagInternal
	return n
}

// accumulate adds a gradient to a leaf's grad. The first gradient becomes the value by a materialize store; later ones
// are added in place.
func (s *Session) accumulate(hd uint64, cot op.Val, create bool) {
	h, err := s.Handle(hd)
	if err != nil {
		return // the leaf's handle is gone, so nothing can read the grad
	}
	like := ir.LayoutOf(h.Layout)
	cot = s.Like(cot, like)
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
	old, cot = Pairs(old), Pairs(cot)
	if create {
		// Like PyTorch, add out of place, so that the former grad keeps its history.
		s.setNewGrad(hd, s.Like(autograd.AddCotangents(s.graph, s, old, cot), like), create)
		return
	}
	s.noteGrad(hd, g, false)
	old.Tape = 0
	sum := autograd.AddCotangents(s.graph, s, old, cot)
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
	gh := &s.handles.list[uint32(g)]
	s.tape.Retain(cot.Tape)
	gh.Tape = cot.Tape
	s.Materialize(base, GradState)
	h, _ := s.Handle(hd)
	old := h.Grad
	h.Grad = g
	if !s.noteGrad(hd, old, true) {
		s.Release(old)
	}
}

// GradSink stores a backward walk's results in handles. Grads are dense, as in PyTorch.
type GradSink struct {
	Session *Session
	Create  bool // grads keep their histories
}

// Accumulate implements autograd.Sink.
func (k GradSink) Accumulate(hd uint64, cot op.Val) {
	k.Session.accumulate(hd, k.Session.dense(cot), k.Create)
}

// SetRetained implements autograd.Sink. It adds to the grad of an earlier walk, out of place.
func (k GradSink) SetRetained(hd uint64, cot op.Val) {
	s := k.Session
	h, err := s.Handle(hd)
	if err != nil {
		return
	}
	if cot = s.dense(cot); h.Layout.IsComplex() {
		cot = s.Complex(cot)
	}
	if h.Grad != 0 {
		if old, err := s.Resolve(h.Grad); err == nil {
			if !k.Create {
				old.Tape = 0
			}
			cot = s.Like(autograd.AddCotangents(s.graph, s, Pairs(old), Pairs(cot)), ir.LayoutOf(h.Layout))
		}
	}
	s.setNewGrad(hd, cot, k.Create)
}

// dense copies a cotangent that is a view.
func (s *Session) dense(v op.Val) op.Val {
	if v.IsWhole() {
		return v
	}
	return prim.Copy(s, v)
}
