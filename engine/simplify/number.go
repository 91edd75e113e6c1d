package simplify

import (
	"math"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Numbers replaces constants of one element by numbers, in arithmetic and limits of float32 and float64: ONNX files
// have the numbers of a formula as tensors, some behind a conversion. A power with such an exponent becomes products,
// or a square root, as in the operator pow. contents gives the elements of a constant input, nil where the host cannot
// read them.
func Numbers(p *program.Program, args int, contents func(input int) []byte) *program.Program {
	s := newSearch(p, args)
	at := map[int]int{} // by node: the operand that is a constant of one element
	value := map[int]float64{}
	for i := range p.Nodes {
		if j, v, ok := s.number(i, contents); ok {
			at[i], value[i] = j, v
		}
	}
	if len(at) == 0 {
		return p
	}
	return rewritten(p, func(c *copier, i int) {
		j, ok := at[i]
		switch {
		case !ok:
			c.node(i)
		case j == 1 && s.is(i, prim.Known.Pow) && c.power(i, value[i]):
		default:
			c.numbered(i, j, value[i])
		}
	})
}

// number finds the operand of node i that is a constant of one element, and its value. The other operand is a tensor
// that is not constant.
func (s *search) number(i int, contents func(input int) []byte) (j int, v float64, ok bool) {
	p, k := s.p, &prim.Known
	d := ir.AvalOf(p.Nodes[i].Aval).DType
	if !p.Nodes[i].IsPrim() || d != ir.F32 && d != ir.F64 || len(p.OperandsOf(i)) != 2 {
		return 0, 0, false
	}
	switch p.Prim(i).ID {
	case k.Add, k.Clip, k.Sub, k.Mul, k.Div, k.Pow:
	default:
		return 0, 0, false
	}
	for j = range 2 {
		c, other := operand(p, i, j), operand(p, i, 1-j)
		if c.ref == 0 || other.ref == 0 || s.fixed(other) {
			continue
		}
		if p.Aval(c.ref).DType != d || p.Aval(other.ref).DType != d {
			continue
		}
		if v, ok = s.element(c, contents); ok {
			return j, v, true
		}
	}
	return 0, 0, false
}

// element is the value of a constant of one element, which may be converted from other dtypes.
func (s *search) element(c view, contents func(input int) []byte) (v float64, ok bool) {
	av := s.p.Aval(c.ref)
	d := av.DType
	switch {
	case av.Layout.Numel != 1 || !s.fixed(c):
		return 0, false
	case c.ref.IsInput():
		data := contents(c.ref.Index())
		if len(data) < d.Size() {
			return 0, false
		}
		return decoded(d, bitsOf(data[:d.Size()]))
	case s.is(c.ref.Index(), prim.Known.Fill) && operand(s.p, c.ref.Index(), 0).ref == 0:
		i := c.ref.Index()
		return decoded(s.p.ScalarTypes(i)[0], s.p.ScalarsOf(i)[0])
	case s.is(c.ref.Index(), prim.Known.Cast) && (d == ir.F32 || d == ir.F64):
		v, ok = s.element(operand(s.p, c.ref.Index(), 0), contents)
		return ir.DecodeFloat(d, ir.EncodeFloat(d, v)), ok
	}
	return 0, false
}

// decoded is the value of an element, if float64 can represent it.
func decoded(d ir.DType, bits uint64) (v float64, ok bool) {
	switch d {
	case ir.F32, ir.F64, ir.I32, ir.U8, ir.U16:
		return ir.DecodeFloat(d, bits), true
	case ir.I8:
		return float64(int8(bits)), true
	case ir.I16:
		return float64(int16(bits)), true
	case ir.F16:
		return float64(loopir.HalfToFloat(uint16(bits))), true
	case ir.BF16:
		return float64(math.Float32frombits(uint32(bits) << 16)), true
	case ir.I64:
		v = float64(int64(bits))
		return v, math.Abs(v) < 1<<53
	}
	return 0, false
}

// bitsOf reads a little-endian number.
func bitsOf(data []byte) (bits uint64) {
	for k, b := range data {
		bits |= uint64(b) << (8 * k)
	}
	return bits
}

// numbered copies node i with a number as operand j.
func (c *copier) numbered(i, j int, v float64) {
	c.node(i)
	q := c.to
	x := &q.Nodes[len(q.Nodes)-1]
	at := int(x.Edge) + j
	q.Edges[at], q.Offsets[at] = program.Edge{}, 0
	q.Scalars = append(q.Scalars, ir.EncodeFloat(ir.AvalOf(x.Aval).DType, v))
}

// power copies node i, a power, as the primitives that the operator pow records for this exponent. It reports false if
// that is a power.
func (c *copier) power(i int, e float64) bool {
	p := c.from
	x, av := operand(p, i, 0), ir.AvalOf(p.Nodes[i].Aval)
	x.ref = c.refs[x.ref]
	emit := func(primitive op.PrimID, in ...view) view {
		c.add(primitive, nil, 1, av, i, in)
		return view{ref: program.NodeRef(len(c.to.Nodes) - 1), layout: av.Layout}
	}
	switch e {
	case -0.5:
		emit(prim.Known.Rsqrt, x)
	case 0.5:
		emit(prim.Known.Sqrt, x)
	case 2:
		emit(prim.Known.Mul, x, x)
	case 3:
		emit(prim.Known.Mul, emit(prim.Known.Mul, x, x), x)
	default:
		return false
	}
	c.refs[program.NodeRef(i)] = program.NodeRef(len(c.to.Nodes) - 1)
	return true
}
