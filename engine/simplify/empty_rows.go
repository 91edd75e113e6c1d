package simplify

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// weights finds the softmax whose value operand 0 of product i is, and the scores, which nothing else reads. Rows whose
// scores are all -inf may be set to 0, as in PyTorch's decomposition of attention, or elements that are NaN, as in its
// ONNX files: the primitive does so itself. empty reports that they are.
func (s *search) weights(i int) (softmax, scores int, empty, ok bool) {
	softmax, ok = s.onlySource(i, 0)
	readers := 1
	if choice := softmax; ok && s.is(choice, prim.Known.Where) {
		empty = true
		if softmax, ok = s.emptyRows(choice); ok {
			readers = 2
		} else {
			softmax, ok = s.guarded(choice)
		}
	}
	if !ok || !s.is(softmax, prim.Known.Softmax) || s.p.Attrs(softmax)[1] != 0 || !s.p.Whole(softmax, 0) {
		return 0, 0, false, false
	}
	r := operand(s.p, softmax, 0).ref
	return softmax, r.Index(), empty, r.IsNode() && s.uses[r.Index()] == readers
}

// guarded is the node whose value node i chooses, except 0 where it is NaN.
func (s *search) guarded(i int) (node int, ok bool) {
	test, x := operand(s.p, i, 0), operand(s.p, i, 2)
	if v, found := s.choice(i, 1); !found || v != 0 || !test.ref.IsNode() || !x.ref.IsNode() {
		return 0, false
	}
	at := test.ref.Index()
	return x.ref.Index(), s.is(at, prim.Known.IsNaN) && s.uses[at] == 1 && s.uses[x.ref.Index()] == 2 && s.p.Whole(i, 0) &&
		s.p.Whole(i, 2) && s.p.Whole(at, 0) && operand(s.p, at, 0).ref == x.ref
}

// onlySource is only, behind copies: PyTorch's decomposition of a dropout that drops nothing is one.
func (s *search) onlySource(i, j int) (node int, ok bool) {
	node, ok = s.only(i, j)
	for ok && s.is(node, prim.Known.Copy) {
		node, ok = s.only(node, 0)
	}
	return node, ok
}

// emptyRows finds the softmax in node i, a choice between its value and 0, which rows have whose scores are all -inf.
func (s *search) emptyRows(i int) (softmax int, ok bool) {
	p := s.p
	zero, empty := operand(p, i, 1), operand(p, i, 0)
	softmax, ok = s.onlySource(i, 2)
	if !ok || !s.fillsZero(zero) || !empty.ref.IsNode() || empty.offset != 0 || empty.layout.Rank() == 0 {
		return 0, false
	}
	last := empty.layout.Rank() - 1
	eachRow := append(slices.Clone(ir.DenseLayout(empty.layout.Shape[:last]).Stride), 0)
	for d, n := range empty.layout.Shape {
		if n != 1 && empty.layout.Stride[d] != eachRow[d] {
			return 0, false
		}
	}
	some, first := s.comparedWith(empty.ref, 0)
	if !first || !s.is(some.Index(), prim.Known.Extremum) || !p.Whole(some.Index(), 0) ||
		!slices.Equal(p.Attrs(some.Index()), []int64{prim.Larger, int64(last)}) {
		return 0, false
	}
	hidden, second := s.comparedWith(operand(p, some.Index(), 0).ref, 0)
	scores, third := s.comparedWith(hidden, math.Inf(-1))
	return softmax, second && third && scores == operand(p, softmax, 0).ref
}

// fillsZero reports zeros that a fill makes.
func (s *search) fillsZero(v view) bool {
	if !v.ref.IsNode() || !s.is(v.ref.Index(), prim.Known.Fill) {
		return false
	}
	n := v.ref.Index()
	return operand(s.p, n, 0).ref == 0 && ir.DecodeFloat(s.p.ScalarTypes(n)[0], s.p.ScalarsOf(n)[0]) == 0
}

// comparedWith returns the value that r, a node with one reader, tells whether its elements are equal to a number.
func (s *search) comparedWith(r program.Ref, number float64) (of program.Ref, ok bool) {
	if !r.IsNode() || !s.is(r.Index(), prim.Known.Compare) || s.uses[r.Index()] != 1 {
		return 0, false
	}
	i := r.Index()
	if s.p.Attrs(i)[0] != prim.CompareEq || operand(s.p, i, 1).ref != 0 || !s.p.Whole(i, 0) {
		return 0, false
	}
	of = operand(s.p, i, 0).ref
	n := ir.DecodeFloat(s.p.ScalarTypes(i)[1], s.p.ScalarsOf(i)[0])
	return of, of.IsNode() && n == number
}

// unscale lets v, an operand of the attention f, read what a multiplication by a number reads, if nothing else reads
// the product. It returns the number, 1 if there is none.
func (s *search) unscale(v *view, f *found) float64 {
	if !v.ref.IsNode() || !s.is(v.ref.Index(), prim.Known.Mul) || s.uses[v.ref.Index()] != 1 || v.offset != 0 ||
		!v.divided(f.batch, f.heads) {
		return 1
	}
	i := v.ref.Index()
	for j := range 2 {
		number, x := s.numberOf(i, 1-j), operand(s.p, i, j)
		if number == 0 {
			continue
		}
		if l, ok := translated(v.layout, ir.AvalOf(s.p.Nodes[i].Aval).Layout, x.layout.Stride); ok {
			*v = s.uncopied(view{ref: x.ref, layout: l, offset: x.offset}, f)
			return number
		}
	}
	return 1
}
