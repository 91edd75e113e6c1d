package simplify

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// maxQuantizedRows is the largest number of rows for which a product with int8 weights is as fast as one with packed
// floats, with AVX2 and with AVX-512. It reads a quarter of the bytes, and converts them for each tile of rows.
const maxQuantizedRows = 16

// wholeRow is a group that is longer than any row of a weight.
const wholeRow = 1 << 40

// Quantized keeps int8 weights in 8 bits if the program only dequantizes them for a product of few rows, as
// DequantizeLinear of ONNX does. The product becomes the primitive that multiplies its sums by the scales. The weight
// has one scale, or one for each output, and its zero points are zeros.
func Quantized(p *program.Program, args int, contents func(input int) []byte) *program.Program {
	s := newSearch(p, args)
	at := map[int]*dequantized{}
	for i := range p.Nodes {
		if f := s.dequantized(i, contents); f != nil {
			at[i] = f
		}
	}
	if len(at) == 0 {
		return p
	}
	return rewritten(p, func(c *copier, i int) {
		if f := at[i]; f != nil {
			c.quantized(i, f)
			return
		}
		c.node(i)
	})
}

// dequantized are the weights of a product: numbers [outputs, terms], and scales [outputs].
type dequantized struct{ numbers, scale view }

// dequantized finds the weights of product i, nil for others.
func (s *search) dequantized(i int, contents func(input int) []byte) *dequantized {
	p := s.p
	if !s.is(i, prim.Known.Matmul) || ir.AvalOf(p.Nodes[i].Aval).DType != ir.F32 {
		return nil
	}
	x, w := operand(p, i, 0), operand(p, i, 1)
	if x.ref == 0 || s.fixed(x) || x.layout.Rank() != 2 || x.layout.Shape[0] > maxQuantizedRows || !w.ref.IsNode() {
		return nil
	}
	q, scale, zero, ok := s.scaledNumbers(w.ref.Index(), contents)
	if !ok || !s.fixed(w) || w.layout.Numel == 0 || w.layout.Numel != p.Aval(w.ref).Layout.Numel || zero != 0 ||
		p.Aval(q.ref).DType != ir.I8 || scale.layout.Rank() != 2 {
		return nil
	}
	return outputsFirst(w, q, scale)
}

// outputsFirst reads the numbers q and their scales as w, the product's operand [terms, outputs], reads the weight; nil
// where scales differ between terms.
func outputsFirst(w, q, scale view) *dequantized {
	terms, outputs := w.layout.Shape[0], w.layout.Shape[1]
	turned := slices.Equal(w.layout.Stride, []int64{1, terms})
	if w.offset != 0 || !turned && !slices.Equal(w.layout.Stride, []int64{outputs, 1}) {
		return nil
	}
	out, in := 1, 0 // of the weight as it is stored: the dims of outputs and of terms
	if turned {
		out, in = 0, 1
	}
	if scale.layout.Shape[in] > 1 && scale.layout.Stride[in] != 0 {
		return nil
	}
	step := scale.layout.Stride[out]
	if outputs == 1 {
		step = 0
	}
	stride := []int64{q.layout.Stride[out], q.layout.Stride[in]}
	return &dequantized{
		numbers: view{ref: q.ref, layout: ir.InternLayout([]int64{outputs, terms}, stride), offset: q.offset},
		scale:   view{ref: scale.ref, layout: ir.InternLayout([]int64{outputs}, []int64{step}), offset: scale.offset},
	}
}

// scaledNumbers matches node m with the form of DequantizeLinear: (numbers of 8 bits - one zero point) * scale. Numbers
// and scale have the shape of m.
func (s *search) scaledNumbers(m int, contents func(input int) []byte) (q, scale view, zero int64, ok bool) {
	p := s.p
	if !s.is(m, prim.Known.Mul) || len(p.OperandsOf(m)) != 2 {
		return q, scale, 0, false
	}
	a, scale := operand(p, m, 0), operand(p, m, 1)
	if a.ref == 0 || scale.ref == 0 || !p.Whole(m, 0) {
		return q, scale, 0, false
	}
	if a.ref.IsNode() && s.is(a.ref.Index(), prim.Known.Sub) {
		z := operand(p, a.ref.Index(), 1)
		if z.ref == 0 || !p.Whole(a.ref.Index(), 0) {
			return q, scale, 0, false
		}
		if zero, ok = s.zeroPoint(z, contents); !ok {
			return q, scale, 0, false
		}
		a = operand(p, a.ref.Index(), 0)
	}
	if !a.ref.IsNode() || !s.is(a.ref.Index(), prim.Known.Cast) || !p.Whole(a.ref.Index(), 0) {
		return q, scale, 0, false
	}
	return operand(p, a.ref.Index(), 0), scale, zero, true
}

// zeroPoint is the 8-bit number that all elements of z equal; z may be behind a conversion.
func (s *search) zeroPoint(z view, contents func(input int) []byte) (zero int64, ok bool) {
	for z.ref.IsNode() && s.is(z.ref.Index(), prim.Known.Cast) {
		z = operand(s.p, z.ref.Index(), 0)
	}
	if !z.ref.IsInput() || z.ref.Index() < s.args {
		return 0, false
	}
	data := contents(z.ref.Index())
	if len(data) == 0 || slices.ContainsFunc(data, func(b byte) bool { return b != data[0] }) {
		return 0, false
	}
	if data[0] == 0 {
		return 0, true
	}
	switch s.p.Aval(z.ref).DType {
	case ir.U8:
		return int64(data[0]), true
	case ir.I8:
		return int64(int8(data[0])), true
	}
	return 0, false
}

// quantized copies product i with weights of 8 bits in panels: 16 outputs whose words of four terms lie beside each
// other (launch.Quantized).
func (c *copier) quantized(i int, f *dequantized) {
	const panel, padding = prim.QuantizedPanel, 64
	shape := f.numbers.layout.Shape
	outputs, terms := shape[0], shape[1]
	panels, width := (outputs+panel-1)/panel, (terms+padding-1)/padding*padding
	e := c.emitter(i)
	f.numbers.ref, f.scale.ref = c.refs[f.numbers.ref], c.refs[f.scale.ref]
	numbers := e.node(prim.Known.Cast, []int64{int64(ir.I32)}, ir.I32, shape, []view{f.numbers})
	word := e.words(e.within(numbers, ir.I32, []int64{panels * panel, width}, []int64{width, 1}), panels, width)
	scale := e.within(f.scale, ir.F32, []int64{panels * panel}, []int64{1})
	scale.layout = ir.DenseLayout([]int64{panels, 1, panel})
	x := operand(c.from, i, 0)
	x.ref = c.refs[x.ref]
	in := []view{x, word, scale}
	biased := c.from.Attrs(i)[0]
	if biased != 0 {
		bias := operand(c.from, i, 2)
		bias.ref = c.refs[bias.ref]
		in = append(in, bias)
	}
	e.node(prim.Known.QuantizedProduct, []int64{8, wholeRow, outputs, 0, biased, 0}, ir.F32,
		[]int64{x.layout.Shape[0], outputs}, in)
	c.refs[program.NodeRef(i)] = program.NodeRef(len(c.to.Nodes) - 1)
}

// emitter adds nodes in the place of node from.
type emitter struct {
	c    *copier
	from int
	dev  ir.DeviceID
}

func (c *copier) emitter(from int) *emitter {
	return &emitter{c: c, from: from, dev: ir.AvalOf(c.from.Nodes[from].Aval).Device}
}

// node adds a node with a dense result of this dtype and shape; numbers are its last operands.
func (e *emitter) node(id op.PrimID, attr []int64, d ir.DType, shape []int64, in []view, number ...float64) view {
	var bits []uint64
	for _, n := range number {
		if id == prim.Known.StridedScatter {
			bits = append(bits, uint64(n))
		} else {
			bits = append(bits, ir.EncodeFloat(d, n))
		}
	}
	l := ir.DenseLayout(shape)
	e.c.add(id, attr, 1, ir.InternAval(d, e.dev, l), e.from, in, bits...)
	return view{ref: program.NodeRef(len(e.c.to.Nodes) - 1), layout: l}
}

// filled has this number everywhere.
func (e *emitter) filled(d ir.DType, shape []int64, number float64) view {
	return e.node(prim.Known.Fill, append([]int64{int64(d), int64(e.dev)}, shape...), d, shape, nil, number)
}

// oneOr is v, one element, or this number in its place if v is absent.
func (e *emitter) oneOr(v view, d ir.DType, number float64) view {
	if v.ref == 0 {
		return e.filled(d, []int64{1}, number)
	}
	v.layout = ir.DenseLayout([]int64{1})
	return v
}

// within writes v among zeros of this shape, with these strides.
func (e *emitter) within(v view, d ir.DType, shape, stride []int64) view {
	zeros := e.filled(d, shape, 0)
	target := ir.InternLayout(v.layout.Shape, stride)
	return e.node(prim.Known.StridedScatter, []int64{int64(target.ID)}, d, shape, []view{zeros, v}, 0)
}

// words packs panels of int32 numbers of 8 bits, which lie outputs first, width terms each.
func (e *emitter) words(numbers view, panels, width int64) (word view) {
	const panel = prim.QuantizedPanel
	bytes := e.node(prim.Known.Bitwise, []int64{0}, ir.I32, []int64{panels * panel, width}, []view{numbers}, 255)
	words := []int64{panels, width / 4, panel}
	for j := range int64(4) {
		v := bytes
		v.layout, v.offset = ir.InternLayout(words, []int64{panel * width, 4, width}), j
		if j == 0 {
			word = v
			continue
		}
		v = e.node(prim.Known.Mul, nil, ir.I32, words, []view{v}, float64(int64(1)<<(8*j)))
		word = e.node(prim.Known.Add, nil, ir.I32, words, []view{word, v})
	}
	return word
}
