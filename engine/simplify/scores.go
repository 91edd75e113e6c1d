package simplify

import (
	"math"

	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// maskedScore is the greatest number that hides a key: the softmax of float32 then has 0 for it, unless all scores of
// the row are almost as small.
const maskedScore = -1e4

// step takes what node i does to the scores, from the softmax backwards. It returns the operand with the scores, -1 if
// attention does nothing of the kind.
func (f *found) step(s *search, i int) int {
	switch {
	case s.is(i, prim.Known.Where):
		return f.chosen(s, i)
	case s.is(i, prim.Known.Add), s.is(i, prim.Known.Sub):
		return f.summed(s, i)
	case s.is(i, prim.Known.Mul), s.is(i, prim.Known.Div):
		return f.scaled(s, i)
	}
	return -1
}

// chosen takes the mask of a choice between scores and a number.
func (f *found) chosen(s *search, i int) int {
	cond := operand(s.p, i, 0)
	if f.mask.ref != 0 || cond.ref == 0 || !(s.fixed(cond) || f.empty) || s.p.Aval(cond.ref).DType != ir.Bool {
		return -1
	}
	for j, kind := range [3]maskKind{1: hides, 2: shows} {
		if j == 0 {
			continue // the condition
		}
		v, ok := s.choice(i, j)
		v *= f.scale // that of the steps behind the choice
		if !ok || operand(s.p, i, 3-j).ref == 0 || !(v <= maskedScore) {
			continue
		}
		if math.IsInf(v, -1) || s.leavesKeys(cond, kind) {
			f.mask, f.kind = cond, kind
			return 3 - j
		}
	}
	return -1
}

// choice returns the number that is operand j of a choice, also as a constant.
func (s *search) choice(i, j int) (v float64, ok bool) {
	if c := operand(s.p, i, j); c.ref != 0 {
		return s.element(c, s.contents)
	}
	return ir.DecodeFloat(s.p.ScalarTypes(i)[j], s.p.ScalarsOf(i)[0]), true
}

// leavesKeys reports that a constant mask leaves each query a key.
func (s *search) leavesKeys(m view, kind maskKind) bool {
	if !m.ref.IsInput() {
		return false
	}
	data := s.contents(m.ref.Index())
	if data == nil {
		return false
	}
	n := m.layout.Rank() - 1
	for _, at := range places(ir.InternLayout(m.layout.Shape[:n], m.layout.Stride[:n])) {
		left := false
		for k := range m.layout.Shape[n] {
			left = left || (data[m.offset+at+k*m.layout.Stride[n]] != 0) == (kind == shows)
		}
		if !left {
			return false
		}
	}
	return true
}

// summed takes a mask that is added to the scores, or subtracted from them.
func (f *found) summed(s *search, i int) int {
	if f.mask.ref != 0 || f.scale != 1 {
		return -1
	}
	sub := s.is(i, prim.Known.Sub)
	for _, j := range []int{1, 0} {
		m := operand(s.p, i, j)
		if sub && j == 0 || m.ref == 0 || operand(s.p, i, 1-j).ref == 0 {
			continue
		}
		if (s.fixed(m) || f.empty) && s.p.Aval(m.ref).DType == ir.F32 {
			f.mask, f.kind = m, added
			if sub {
				f.kind = subtracted
			}
			return 1 - j
		}
	}
	return -1
}

// scaled takes the number that scores are multiplied with, or divided by.
func (f *found) scaled(s *search, i int) int {
	div := s.is(i, prim.Known.Div)
	for _, j := range []int{1, 0} {
		c := s.numberOf(i, j)
		switch {
		case c == 0 || div && j == 0:
		case div:
			f.scale /= c
			return 0
		default:
			f.scale *= c
			return 1 - j
		}
	}
	return -1
}
