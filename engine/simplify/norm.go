package simplify

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// normalized is x divided by its standard deviation, or by its root mean square, over its last dims, written out.
type normalized struct {
	x    view
	dims int
	rms  bool // about 0, not about the mean
	eps  float64
}

// Norms replaces normalization on float32 that is written out by the primitive. The pattern over the last dims is the
// mean, the difference, its mean square, the addition of a number, a square root, and a quotient; without the mean it
// is root mean square normalization. A weight and a bias stay as they are. Intermediate values have no other readers.
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
		f := at[i]
		if f == nil {
			c.node(i)
			return
		}
		rms := int64(0)
		if f.rms {
			rms = 1
		}
		f.x.ref = c.refs[f.x.ref]
		c.add(prim.Known.LayerNorm, []int64{int64(f.dims), 0, 0, rms}, 3, ir.AvalOf(p.Nodes[i].Aval), i, []view{f.x},
			ir.EncodeFloat(ir.F32, f.eps))
		c.refs[program.NodeRef(i)] = program.NodeRef(len(c.to.Nodes) - 1)
	})
	out, _ := Prune(g, len(p.Inputs))
	return out
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
		sum, eps := s.plus(root)
		mean, dims := s.mean(sum, av)
		if mean < 0 {
			continue
		}
		square, ok := s.only(mean, 0)
		if !ok || !s.is(square, prim.Known.Mul) {
			continue
		}
		c := operand(p, i, 1-j)
		if operand(p, square, 0) != c || operand(p, square, 1) != c || !s.perRow(operand(p, i, j), av, dims) {
			continue
		}
		if x, ok := s.centred(c, dims); ok {
			return &normalized{x: x, dims: dims, eps: eps}
		}
		return &normalized{x: c, dims: dims, rms: true, eps: eps}
	}
	return nil
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
	}
	return -1, 0
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
	over, shape := s.p.Attrs(at), av.Shape()
	first := len(shape) - len(over)
	if slices.Contains(shape, 0) {
		return -1, 0
	}
	for k, d := range over {
		if d != int64(first+k) {
			return -1, 0
		}
	}
	if first < 1 || len(over) == 0 || !slices.Equal(operand(s.p, at, 0).layout.Shape, shape) ||
		s.numberOf(i, 1) != float64(ir.Numel(shape[first:])) {
		return -1, 0
	}
	return at, len(over)
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

// centred finds x if c is x minus its mean over the last dims. c has three readers: the two operands of its square, and
// the quotient.
func (s *search) centred(c view, dims int) (x view, ok bool) {
	p := s.p
	if !c.ref.IsNode() || !s.is(c.ref.Index(), prim.Known.Sub) || s.uses[c.ref.Index()] != 3 {
		return x, false
	}
	i := c.ref.Index()
	av := ir.AvalOf(p.Nodes[i].Aval)
	at, ok := s.sole(i, 1)
	if !ok || !c.layout.IsWhole(c.offset, av.Layout) || !slices.Equal(c.layout.Shape, av.Shape()) {
		return x, false
	}
	sum, over := s.mean(at, av)
	if sum < 0 || over != dims || !s.perRow(operand(p, i, 1), av, dims) {
		return x, false
	}
	x = operand(p, i, 0)
	return x, x == operand(p, sum, 0)
}
