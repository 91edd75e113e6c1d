package simplify

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// normalized is x divided by its standard deviation, or by its root mean square, over its last dims, written out.
type normalized struct {
	x      view
	weight view // multiplies the dividend; ref 0: none
	dims   int
	rms    bool // about 0, not about the mean
	eps    float64
}

// Norms replaces normalization on float32 that is written out by the primitive. The pattern over the last dims is the
// mean, the difference, its mean square, the addition of a number, a square root, and a quotient; without the mean it
// is root mean square normalization. The primitive of the variance may have made the mean square, and the difference
// may be computed twice, and multiplied by a weight before the division. Other weights and biases stay as they are.
// Results change by rounding.
func Norms(p *program.Program, args int) *program.Program {
	s := newSearch(p, args)
	at := map[int]*normalized{}
	for i := range p.Nodes {
		if f := s.norm(i); f != nil {
			at[i] = f
		}
	}
	if len(at) == 0 {
		return p
	}
	g := rewritten(p, func(c *copier, i int) {
		if f := at[i]; f != nil {
			c.norm(i, f)
		} else {
			c.node(i)
		}
	})
	out, _ := Prune(g, len(p.Inputs))
	return out
}

// norm adds the primitive in the place of node i.
func (c *copier) norm(i int, f *normalized) {
	rms := int64(0)
	if f.rms {
		rms = 1
	}
	av := ir.AvalOf(c.from.Nodes[i].Aval)
	f.x.ref = c.refs[f.x.ref]
	c.add(prim.Known.LayerNorm, []int64{int64(f.dims), 0, 0, rms}, 3, av, i, []view{f.x}, ir.EncodeFloat(ir.F32, f.eps))
	y := program.NodeRef(len(c.to.Nodes) - 1)
	if f.weight.ref != 0 {
		f.weight.ref = c.refs[f.weight.ref]
		c.add(prim.Known.Mul, nil, 1, av, i, []view{f.weight, {ref: y, layout: av.Layout}})
		y = program.NodeRef(len(c.to.Nodes) - 1)
	}
	c.refs[program.NodeRef(i)] = y
}

// norm finds the normalization that node i ends, nil for none.
func (s *search) norm(i int) *normalized {
	p := s.p
	av := ir.AvalOf(p.Nodes[i].Aval)
	if av.DType != ir.F32 || len(p.OperandsOf(i)) != 2 || s.constant[i] {
		return nil
	}
	for j := range 2 {
		root, ok := s.root(i, j)
		if !ok {
			continue
		}
		variance, eps := s.plus(root)
		f := s.divided(variance, i, 1-j, av)
		if f != nil && s.perRow(operand(p, i, j), av, f.dims) {
			f.eps = eps
			return f
		}
	}
	return nil
}

// divided finds the value that is divided by the root of a variance: operand j of node i, or what a weight multiplies
// there.
func (s *search) divided(variance, i, j int, av *ir.Aval) *normalized {
	if f := s.deviation(variance, operand(s.p, i, j), av); f != nil {
		return f
	}
	at, ok := s.only(i, j)
	if !ok || !s.is(at, prim.Known.Mul) || s.p.Nodes[at].Aval != av.ID {
		return nil
	}
	for k := range 2 {
		weight := operand(s.p, at, 1-k)
		if f := s.deviation(variance, operand(s.p, at, k), av); f != nil && weight.ref != 0 {
			f.weight = weight
			return f
		}
	}
	return nil
}

// deviation finds what a variance is of, if c is that minus its mean, or if the variance is about 0 and of c.
func (s *search) deviation(variance int, c view, av *ir.Aval) *normalized {
	p := s.p
	if variance < 0 || c.ref == 0 {
		return nil
	}
	if s.is(variance, prim.Known.Var) {
		of, dims := operand(p, variance, 0), s.lastDims(variance, av)
		if x, ok := s.centred(c, dims); ok && x == of && s.biased(variance) {
			return &normalized{x: x, dims: dims}
		}
		return nil
	}
	mean, dims := s.mean(variance, av)
	if mean < 0 {
		return nil
	}
	square, ok := s.only(mean, 0)
	if !ok || !s.is(square, prim.Known.Mul) || operand(p, square, 0) != operand(p, square, 1) ||
		!s.same(operand(p, square, 0), c, 4) {
		return nil
	}
	if x, ok := s.centred(c, dims); ok {
		return &normalized{x: x, dims: dims}
	}
	return &normalized{x: c, dims: dims, rms: true}
}

// biased reports a variance that divides by the number of elements.
func (s *search) biased(variance int) bool {
	return operand(s.p, variance, 1).ref == 0 && s.numberOf(variance, 1) == 0
}

// same reports views of equal values: of one node, or of nodes that compute the same from the same.
func (s *search) same(a, b view, depth int) bool {
	if a == b {
		return true
	}
	if a.layout != b.layout || a.offset != b.offset || !a.ref.IsNode() || !b.ref.IsNode() || depth == 0 {
		return false
	}
	i, j := a.ref.Index(), b.ref.Index()
	x, y := s.p.Nodes[i], s.p.Nodes[j]
	if !s.is(i, prim.Known.Sub) && !s.is(i, prim.Known.Div) && !s.is(i, prim.Known.Sum) || x.Op != y.Op ||
		x.Attr != y.Attr || x.Aval != y.Aval || x.Operands != y.Operands ||
		!slices.Equal(s.p.ScalarsOf(i), s.p.ScalarsOf(j)) {
		return false
	}
	for k := range s.p.OperandsOf(i) {
		if !s.same(operand(s.p, i, k), operand(s.p, j, k), depth-1) {
			return false
		}
	}
	return true
}

// root finds the node under the square root by which node i divides with operand j: c/sqrt(v), c*rsqrt(v) or
// c*(1/sqrt(v)).
func (s *search) root(i, j int) (node int, ok bool) {
	at, ok := s.sole(i, j)
	if !ok {
		return 0, false
	}
	switch {
	case s.is(i, prim.Known.Div) && j == 1 && s.is(at, prim.Known.Sqrt):
	case s.is(i, prim.Known.Mul) && s.is(at, prim.Known.Rsqrt):
	case s.is(i, prim.Known.Mul) && s.is(at, prim.Known.Div) && s.numberOf(at, 0) == 1:
		if at, ok = s.only(at, 1); !ok || !s.is(at, prim.Known.Sqrt) {
			return 0, false
		}
	default:
		return 0, false
	}
	return s.only(at, 0)
}

// sole returns the node that operand j of node i views, if it has no other reader.
func (s *search) sole(i, j int) (node int, ok bool) {
	v := operand(s.p, i, j)
	if !v.ref.IsNode() || v.layout == nil || v.offset != 0 || s.uses[v.ref.Index()] != 1 {
		return 0, false
	}
	return v.ref.Index(), true
}

// numberOf returns the number that is operand j of node i of two operands, 0 for a tensor.
func (s *search) numberOf(i, j int) float64 {
	if operand(s.p, i, j).ref != 0 || operand(s.p, i, 1-j).ref == 0 {
		return 0
	}
	return ir.DecodeFloat(s.p.ScalarTypes(i)[j], s.p.ScalarsOf(i)[0])
}

// plus takes the positive number that node i adds to the node that it returns; -1 for none.
func (s *search) plus(i int) (node int, number float64) {
	for j := range 2 {
		if !s.is(i, prim.Known.Add) || s.numberOf(i, j) <= 0 {
			continue
		}
		if at, ok := s.only(i, 1-j); ok {
			return at, s.numberOf(i, j)
		}
		if at, ok := s.alone(i, 1-j); ok {
			return at, s.numberOf(i, j)
		}
	}
	return -1, 0
}

// alone returns the variance of operand j of node i, if only its mean has other readers.
func (s *search) alone(i, j int) (node int, ok bool) {
	v := operand(s.p, i, j)
	if !v.ref.IsNode() || !s.is(v.ref.Index(), prim.Known.Var) || !s.p.Whole(i, j) {
		return 0, false
	}
	readers := s.uses[v.ref.Index()]
	for k := range s.p.Nodes {
		if s.isMeanOf(k, v.ref.Index()) {
			readers--
		}
	}
	return v.ref.Index(), readers == 1
}

// isMeanOf reports that node k is the second result of a variance: the mean.
func (s *search) isMeanOf(k, variance int) bool {
	return s.p.Nodes[k].Op == ir.OpProj && s.p.OperandsOf(k)[0].Value == program.NodeRef(variance)
}

// mean finds the sum over the last dims of a value like av, if node i is a mean. sum is -1 if it is none.
func (s *search) mean(i int, av *ir.Aval) (sum, dims int) {
	if i < 0 || !s.is(i, prim.Known.Div) {
		return -1, 0
	}
	at, ok := s.only(i, 0)
	if !ok || !s.is(at, prim.Known.Sum) {
		return -1, 0
	}
	if dims = s.lastDims(at, av); dims == 0 {
		return -1, 0
	}
	shape := av.Shape()
	if s.numberOf(i, 1) != float64(ir.Numel(shape[len(shape)-dims:])) {
		return -1, 0
	}
	return at, dims
}

// lastDims returns the number of dims that a reduction of a value like av is over, if these are the last ones, and else
// 0.
func (s *search) lastDims(i int, av *ir.Aval) int {
	over, shape := s.p.Attrs(i), av.Shape()
	first := len(shape) - len(over)
	if slices.Contains(shape, 0) {
		return 0
	}
	for k, d := range over {
		if d != int64(first+k) {
			return 0
		}
	}
	if first < 1 || !slices.Equal(operand(s.p, i, 0).layout.Shape, shape) {
		return 0
	}
	return len(over)
}

// perRow reports a view that has one element of a dense value for each row of the last dims of av.
func (s *search) perRow(v view, av *ir.Aval, dims int) bool {
	rows := len(av.Shape()) - dims
	dense := ir.DenseStrides(av.Shape()[:rows])
	for d, n := range av.Shape() {
		want := int64(0)
		if d < rows {
			want = dense[d]
		}
		if n != 1 && v.layout.Stride[d] != want {
			return false
		}
	}
	return v.offset == 0
}

// centred finds x if c is x minus its mean over the last dims.
func (s *search) centred(c view, dims int) (x view, ok bool) {
	p := s.p
	if dims == 0 || !c.ref.IsNode() || !s.is(c.ref.Index(), prim.Known.Sub) {
		return x, false
	}
	i := c.ref.Index()
	av := ir.AvalOf(p.Nodes[i].Aval)
	m := operand(p, i, 1)
	if !m.ref.IsNode() || !c.layout.IsWhole(c.offset, av.Layout) || !slices.Equal(c.layout.Shape, av.Shape()) ||
		!s.perRow(m, av, dims) {
		return x, false
	}
	x = operand(p, i, 0)
	of, over := s.averaged(m.ref.Index(), av)
	return x, over == dims && x == of
}

// averaged finds the value whose mean over the last dims node i is. dims is 0 if it is none.
func (s *search) averaged(i int, av *ir.Aval) (of view, dims int) {
	if s.p.Nodes[i].Op == ir.OpProj {
		at := s.p.OperandsOf(i)[0].Value.Index()
		if !s.is(at, prim.Known.Var) {
			return of, 0
		}
		return operand(s.p, at, 0), s.lastDims(at, av)
	}
	sum, dims := s.mean(i, av)
	if sum < 0 {
		return of, 0
	}
	return operand(s.p, sum, 0), dims
}
