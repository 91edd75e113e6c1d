package simplify

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// wholeSums finds the exact sums that node i converts to floats: those of MatMulInteger or ConvInteger, which are sums
// of products of parts. The result stands for node i.
func (s *search) wholeSums(i int, contents func(input int) []byte) *integers {
	p := s.p
	if !s.is(i, prim.Known.Cast) || ir.AvalOf(p.Nodes[i].Aval).DType != ir.F32 {
		return nil
	}
	sum, ok := s.onlyInOrder(i, 0)
	if !ok || ir.AvalOf(p.Nodes[sum].Aval).DType != ir.I32 {
		return nil
	}
	parts := s.parts(sum, nil)
	if len(parts) == 0 {
		return nil
	}
	at := parts[0]
	x, w, ok := s.joined(parts)
	if !ok || !x.ref.IsNode() || !w.ref.IsNode() || !s.fixed(w) || s.fixed(x) || w.layout.Numel == 0 ||
		w.layout.Numel != p.Aval(w.ref).Layout.Numel {
		return nil
	}
	f := &integers{product: i, whole: true, step: 1, least: math.Inf(-1), most: math.Inf(1),
		shape: ir.AvalOf(p.Nodes[i].Aval).Shape()}
	f.DType = ir.F32
	q, zero, ok := s.less(w.ref.Index())
	if !ok || !f.wholeElements(s, x) || !f.numbersOf(s, q, zero, contents) {
		return nil
	}
	if zero.ref == 0 {
		zero.layout = ir.InternLayout(q.layout.Shape, make([]int64, q.layout.Rank()))
	}
	if s.is(at, prim.Known.Conv) {
		ok = f.convolution(p, at, w, q, zero)
	} else {
		ok = f.rows(p, at, w, q, zero) && f.shaped(p.Aval(f.x.ref))
	}
	if !ok {
		return nil
	}
	if f.Shifted {
		f.shift = f.scale
	}
	f.scale = view{}
	return f
}

// parts appends the products whose sum is node i; nil if i is something else.
func (s *search) parts(i int, list []int) []int {
	p := s.p
	switch {
	case s.is(i, prim.Known.Add) && len(p.OperandsOf(i)) == 2:
		for j := range 2 {
			at, ok := s.onlyInOrder(i, j)
			if !ok {
				return nil
			}
			if list = s.parts(at, list); list == nil {
				return nil
			}
		}
		return list
	case s.is(i, prim.Known.Cast) && ir.AvalOf(p.Nodes[i].Aval).DType == ir.I32:
		at, ok := s.onlyInOrder(i, 0)
		matmul := ok && s.is(at, prim.Known.Matmul) && p.Attrs(at)[0] == 0
		if !matmul && (!ok || !s.is(at, prim.Known.Conv)) || ir.AvalOf(p.Nodes[at].Aval).DType != ir.F32 {
			return nil
		}
		return append(list, at)
	}
	return nil
}

// onlyInOrder returns the node of operand j of node i, if the operand is all of its elements in order, perhaps of
// another shape, and has no other reader.
func (s *search) onlyInOrder(i, j int) (node int, ok bool) {
	v := operand(s.p, i, j)
	if !v.ref.IsNode() || s.uses[v.ref.Index()] != 1 || v.offset != 0 || v.layout.Numel != s.p.Aval(v.ref).Layout.Numel {
		return 0, false
	}
	return v.ref.Index(), inOrder(v.layout)
}

// inOrder reports a view whose elements lie beside each other, the last dim first.
func inOrder(l *ir.Layout) bool { return sameSteps(l, ir.DenseLayout(l.Shape)) }

// joined finds the two operands whose terms are split between the products, if their parts follow each other.
func (s *search) joined(products []int) (x, w view, ok bool) {
	x, w = operand(s.p, products[0], 0), operand(s.p, products[0], 1)
	if len(products) == 1 {
		return x, w, x.ref != 0 && w.ref != 0
	}
	terms := [2]int{1, 0} // the dim of terms in each operand
	if s.is(products[0], prim.Known.Conv) {
		terms = [2]int{1, 1}
		if _, rest := op.WindowsOf(s.p.Attrs(products[0])); rest[0] != 1 {
			return x, w, false
		}
	} else if x.ref == 0 || w.ref == 0 || x.layout.Rank() != 2 || w.layout.Rank() != 2 {
		return x, w, false
	}
	all := [2]view{x, w}
	for j := range 2 {
		n := int64(0)
		d, first := terms[j], all[j]
		if first.ref == 0 {
			return x, w, false
		}
		for _, at := range products {
			v := operand(s.p, at, j)
			if v.ref != first.ref || !sameSteps(v.layout, first.layout) ||
				v.offset != first.offset+n*first.layout.Stride[d] || s.p.Nodes[at].Op != s.p.Nodes[products[0]].Op {
				return x, w, false
			}
			n += v.layout.Shape[d]
		}
		shape, stride := slices.Clone(first.layout.Shape), slices.Clone(first.layout.Stride)
		shape[d] = n
		for k, dense := range ir.DenseLayout(shape).Stride {
			if shape[k] == 1 {
				stride[k] = dense
			}
		}
		all[j].layout = ir.InternLayout(shape, stride)
	}
	return all[0], all[1], true
}

// sameSteps reports equal strides, but for dims of one place.
func sameSteps(a, b *ir.Layout) bool {
	for d := range a.Shape {
		if a.Stride[d] != b.Stride[d] && (a.Shape[d] > 1 || b.Shape[d] > 1) {
			return false
		}
	}
	return a.Rank() == b.Rank()
}

// less matches node i with numbers of 8 bits as floats, less a zero where that is a value: numbers and zero have the
// shape of i.
func (s *search) less(i int) (q, zero view, ok bool) {
	p := s.p
	if s.is(i, prim.Known.Sub) && len(p.OperandsOf(i)) == 2 {
		zero = operand(p, i, 1)
		x := operand(p, i, 0)
		if !zero.ref.IsNode() || !s.is(zero.ref.Index(), prim.Known.Cast) || !p.Whole(zero.ref.Index(), 0) ||
			!x.ref.IsNode() || !p.Whole(i, 0) {
			return q, zero, false
		}
		zero.ref, i = operand(p, zero.ref.Index(), 0).ref, x.ref.Index()
	}
	if !s.is(i, prim.Known.Cast) || !p.Whole(i, 0) {
		return q, zero, false
	}
	q = operand(p, i, 0)
	d := p.Aval(q.ref).DType
	return q, zero, d == ir.I8 || d == ir.U8
}

// wholeElements finds the numbers of 8 bits whose differences from a zero x reads.
func (f *integers) wholeElements(s *search, x view) bool {
	at := x.ref.Index()
	if zero, ok := s.combinedWith(at, prim.Known.Sub); ok {
		if zero != math.Trunc(zero) || math.Abs(zero) > 255 || !s.p.Whole(at, 0) || !operand(s.p, at, 0).ref.IsNode() {
			return false
		}
		f.ZeroX, at = int64(zero), operand(s.p, at, 0).ref.Index()
	}
	q, zero, ok := s.less(at)
	if !ok {
		return false
	}
	if zero.ref != 0 {
		if s.p.Aval(zero.ref).Layout.Numel != 1 || s.p.Aval(zero.ref).DType != s.p.Aval(q.ref).DType {
			return false
		}
		f.zeroX, f.Dynamic = view{ref: zero.ref}, true
	}
	f.x = view{ref: q.ref, layout: x.layout, offset: x.offset}
	return true
}

// numbersOf notes how weights q are stored: int8, or uint8 less 128, and whether zeros other than these remain.
func (f *integers) numbersOf(s *search, q, zero view, contents func(input int) []byte) bool {
	d := s.p.Aval(q.ref).DType
	low, high, known := s.extremes(q, contents)
	switch {
	case d == ir.I8:
		f.Narrow = known && low >= -64 && high <= 64
	case known && high <= 128:
		f.zero, f.Narrow = 64, true
	default:
		f.zero = 128
	}
	if zero.ref == 0 {
		f.Shifted = f.zero != 0
		return !f.Shifted
	}
	all, ok := s.zeroPoint(zero, contents)
	f.Shifted = !ok || all != f.zero
	return s.p.Aval(zero.ref).DType == d && s.fixed(zero)
}

// extremes are the least and the greatest of constant numbers of 8 bits, where the host can read them.
func (s *search) extremes(q view, contents func(input int) []byte) (low, high int64, ok bool) {
	if !q.ref.IsInput() || q.ref.Index() < s.args {
		return 0, 0, false
	}
	data := contents(q.ref.Index())
	if len(data) == 0 {
		return 0, 0, false
	}
	sign := byte(0)
	if s.p.Aval(q.ref).DType == ir.I8 {
		sign = 128
	}
	least, most := byte(255), byte(0)
	for _, b := range data {
		least, most = min(least, b^sign), max(most, b^sign)
	}
	return int64(least) - int64(sign), int64(most) - int64(sign), true
}

// shaped undoes the flattening of x to a matrix of rows, so that x has as many dims as the result. It reports false if
// x is not its elements in order.
func (f *integers) shaped(x *ir.Aval) bool {
	if len(f.shape) == 2 {
		return true
	}
	last := len(f.shape) - 1
	if f.x.offset != 0 || x.Layout.Rank() != len(f.shape) || !inOrder(x.Layout) || !inOrder(f.x.layout) ||
		f.x.layout.Numel != x.Layout.Numel || !slices.Equal(x.Shape()[:last], f.shape[:last]) {
		return false
	}
	f.x.layout = x.Layout
	return true
}

// wholeFactor finds the sums to which node i applies a factor or a bias, with i as their last node; nil for none.
func (s *search) wholeFactor(i int, products map[int]*integers) *integers {
	mul := s.is(i, prim.Known.Mul)
	if !mul && !s.is(i, prim.Known.Add) || len(s.p.OperandsOf(i)) != 2 {
		return nil
	}
	for j := range 2 {
		at, ok := s.only(i, j)
		v := operand(s.p, i, 1-j)
		if !ok || v.ref == 0 || products[at] == nil || s.p.Nodes[at].Aval != s.p.Nodes[i].Aval {
			continue
		}
		f := *products[at]
		if !f.whole || f.biased || mul && f.scaled {
			continue
		}
		if mul && s.factor(&f, v) || !mul && s.fixed(v) && f.perOutput(v) {
			if !mul {
				f.bias, f.biased = f.ofOutputs(v, f.dimOfOutputs()), true
			}
			f.product = at
			return &f
		}
	}
	return nil
}

// dimOfOutputs is the dim of the result.
func (f *integers) dimOfOutputs() int {
	if f.Rows {
		return len(f.shape) - 1
	}
	return 1
}

// perOutput reports a view of the result's shape that differs between outputs only.
func (f *integers) perOutput(v view) bool {
	for d, n := range v.layout.Shape {
		if d != f.dimOfOutputs() && n > 1 && v.layout.Stride[d] != 0 {
			return false
		}
	}
	return v.layout.Rank() == len(f.shape)
}

// factor notes the factor v of sums f: an element, constants of outputs, or their product.
func (s *search) factor(f *integers, v view) bool {
	p, d := s.p, f.dimOfOutputs()
	if !f.perOutput(v) || p.Aval(v.ref).DType != ir.F32 {
		return false
	}
	step := func(u view) bool { return u.ref != 0 && p.Aval(u.ref).Layout.Numel == 1 }
	f.scaled = true
	if s.fixed(v) {
		f.scale = f.ofOutputs(v, d)
		return true
	}
	f.Dynamic = true
	if v.ref.IsNode() && s.is(v.ref.Index(), prim.Known.Mul) && len(p.OperandsOf(v.ref.Index())) == 2 {
		for j := range 2 {
			a, b := operand(p, v.ref.Index(), j), operand(p, v.ref.Index(), 1-j)
			switch {
			case !step(a) || s.fixed(a):
			case b.ref == 0:
				f.step, f.stepX = ir.DecodeFloat(ir.F32, p.ScalarsOf(v.ref.Index())[0]), view{ref: a.ref}
				return true
			case s.fixed(b) && p.Aval(b.ref).Layout.Numel == 1:
				f.scale, f.stepX = view{ref: b.ref, layout: ir.InternLayout([]int64{f.Groups, f.Outputs}, []int64{0, 0}),
					offset: 0}, view{ref: a.ref}
				return true
			case s.fixed(b) && b.layout.Rank() == 1 && v.layout.Stride[d] == 1 && v.offset == 0:
				b.layout = ir.InternLayout([]int64{f.Groups, f.Outputs}, []int64{f.Outputs * b.layout.Stride[0],
					b.layout.Stride[0]})
				f.scale, f.stepX = b, view{ref: a.ref}
				return true
			}
		}
	}
	if step(v) {
		f.stepX = view{ref: v.ref}
		return true
	}
	return false
}
