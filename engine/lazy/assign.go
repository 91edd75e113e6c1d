package lazy

import (
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// Assign stores result v of an in-place call of d in handle hd. hd is operand t of in.
func (s *Session) Assign(d *op.Def, hd uint64, v op.Val, in []op.Val, t int) *ir.Error {
	self := &in[t]
	if v.SameView(self) && v.Tape == self.Tape {
		return s.selfCopy(hd)
	}
	if err := d.CheckInPlace(&v, in, t); err != nil {
		return err
	}
	v = prim.Cast(s, v, self.DType())
	switch {
	case d.Overwrites && s.taped(*self) && s.taped(v):
		// Backward walks the overwritten history with zeros, as in PyTorch.
		v = prim.Overwrite(s, *self, v)
	case v.Base != 0 && v.Tape != 0:
		// v is an operand as it is. Its history is not the target's.
		v = s.View(v, v.L(), v.Offset, op.ViewOp{Kind: op.ViewReshape})
	}
	return s.StoreThrough(hd, v)
}

// AssignOut stores result v of a call of d in its out= tensor hd. A tensor of another shape gets storage of its own, as
// in PyTorch. in holds the operands.
func (s *Session) AssignOut(d *op.Def, hd uint64, v op.Val, in []op.Val) *ir.Error {
	var to op.Val
	if err := s.ResolveTo(hd, &to); err != nil {
		return err
	}
	if err := d.CheckCast(v.DType(), to.DType()); err != nil {
		return err
	}
	if d.OutApart {
		if err := op.CheckApart(&to, in); err != nil {
			return err
		}
	}
	v = prim.Cast(s, v, to.DType())
	if !ir.SameShape(v.Shape(), to.Shape()) {
		v = prim.Owned(s, v)
		n := s.Wrap(&v, nil)
		defer s.Release(n)
		return s.SetData(hd, n)
	}
	if err := op.CheckOverlap(&to, in, -1); err != nil {
		return err
	}
	return s.StoreThrough(hd, v)
}

// selfCopy copies a tensor to its own elements in place. As in PyTorch it checks leaves and counts a commit, but it
// stores nothing.
func (s *Session) selfCopy(hd uint64) *ir.Error {
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
