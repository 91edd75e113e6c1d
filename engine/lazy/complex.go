package lazy

import (
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// Complex tensors are views of real values: see ir.ComplexLayout. Rules of operators see complex elements; primitives,
// the tape, gradients and bases see pairs of numbers.

// viewComplex is View of a complex operand, or to a complex layout. A plain layout describes complex elements, and
// offset counts them from v's.
func (s *Session) viewComplex(v op.Val, l *ir.Layout, offset int64, step op.ViewOp) op.Val {
	if step.Kind == op.ViewPair {
		v.Layout = l.ID
		return v
	}
	if !l.ID.IsComplex() {
		offset = v.Offset + 2*(offset-v.Offset)
	}
	out := s.View(Pairs(v), ir.PairLayout(l), offset, step.OfPairs())
	return s.Complex(out)
}

// Pairs names the complex elements of v as pairs of numbers, outside of rules; other values stay as they are.
func Pairs(v op.Val) op.Val {
	if v.Layout.IsComplex() {
		v.Layout = v.L().Pairs().ID
	}
	return v
}

// Complex names the pairs of numbers of v as complex elements, outside of rules. Pairs that are not adjacent, as a
// gradient may have them, are copied.
func (s *Session) Complex(v op.Val) op.Val {
	l, ok := ir.ComplexLayout(v.L())
	if !ok {
		v = prim.Copy(s, v)
		l, _ = ir.ComplexLayout(v.L())
	}
	v.Layout = l.ID
	return v
}

// Like hides the first dims of whole value v as the layout of a tensor hides them, and names complex elements.
func (s *Session) Like(v op.Val, l *ir.Layout) op.Val {
	v = s.Hide(Pairs(v), l.Hidden)
	if l.ID.IsComplex() {
		v = s.Complex(v)
	}
	return v
}
