package simplify

import (
	"math"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// QuantizedConvs computes convolutions and matrix products in integers if both operands come from DequantizeLinear of
// ONNX. The input has 8 bits with a scale and a zero point. The weights are int8, or uint8 with the zero point 128,
// with one scale or one for each output. If QuantizeLinear follows, perhaps after a bias and limits such as a relu's,
// the same launch rounds the result. Scales and zero points are numbers already ([Numbers]).
//
// So does it with MatMulInteger and ConvInteger whose weights are constant and whose sums become floats. The zero point
// of the input may be a value, as DynamicQuantizeLinear makes it, and so may the factor of the sums (wholeSums).
//
// The sums are exact, so results differ from those of floats by rounding only: by one step if they are rounded to 8
// bits.
func QuantizedConvs(p *program.Program, args int, contents func(input int) []byte) *program.Program {
	s := newSearch(p, args)
	at := map[int]*integers{}
	for i := range p.Nodes {
		if f := s.integers(i, contents); f != nil {
			at[i] = f
		} else if f := s.wholeSums(i, contents); f != nil {
			at[i] = f
		} else if f := s.wholeFactor(i, at); f != nil {
			delete(at, f.product)
			f.product, at[i] = i, f
		}
	}
	if len(at) == 0 {
		return p
	}
	for i := range p.Nodes {
		if f := s.rounded(i, at); f != nil {
			delete(at, f.product)
			at[i] = f
		}
	}
	g := rewritten(p, func(c *copier, i int) {
		if f := at[i]; f != nil {
			c.integers(i, f)
			return
		}
		c.node(i)
	})
	out, _ := Prune(g, len(p.Inputs))
	return out
}

// integers is a convolution, or a product of rows, of numbers of 8 bits.
type integers struct {
	prim.QuantizedConv
	product int
	x       view    // elements
	step    float64 // the scale of x
	numbers view    // [groups, outputs, high, wide, channels]
	zero    int64   // of the numbers
	scale   view    // [groups, outputs]; ref 0: ones
	bias    view    // [groups, outputs]; ref 0: none
	// Of sums of whole numbers: the zero of x, ref 0 for ZeroX; what multiplies scales, ref 0 for 1; the zeros of the
	// numbers [groups, outputs], read if Shifted; and whether f is such sums, with a factor, with a bias.
	zeroX, stepX, shift   view
	whole, scaled, biased bool
	shape                 []int64 // of the result
	// least and most are limits of the result before it is rounded by stepY.
	least, most, stepY float64
}

// integers finds the integer operands of product i, nil for none.
func (s *search) integers(i int, contents func(input int) []byte) *integers {
	p := s.p
	conv := s.is(i, prim.Known.Conv)
	if !conv && !s.is(i, prim.Known.Matmul) || ir.AvalOf(p.Nodes[i].Aval).DType != ir.F32 {
		return nil
	}
	x, w := operand(p, i, 0), operand(p, i, 1)
	if !x.ref.IsNode() || !w.ref.IsNode() || !s.fixed(w) || s.fixed(x) || w.layout.Numel == 0 ||
		w.layout.Numel != p.Aval(w.ref).Layout.Numel || !p.Whole(i, 0) && !conv || !p.Whole(i, 1) && conv {
		return nil
	}
	f := &integers{shape: ir.AvalOf(p.Nodes[i].Aval).Shape(), product: i, least: math.Inf(-1), most: math.Inf(1)}
	q, scale, zero, ok := s.scaledNumbers(w.ref.Index(), contents)
	if !ok || !f.elements(s, x) {
		return nil
	}
	if d := p.Aval(q.ref).DType; !(d == ir.I8 && zero == 0) && !(d == ir.U8 && zero == 128) {
		return nil
	}
	f.zero, f.DType = zero, ir.F32
	if conv {
		ok = f.convolution(p, i, w, q, scale)
	} else {
		ok = f.rows(p, i, w, q, scale)
	}
	if !ok {
		return nil
	}
	return f
}

// elements finds the numbers of 8 bits that x reads.
func (f *integers) elements(s *search, x view) bool {
	p, at := s.p, x.ref.Index()
	step, ok := s.combinedWith(at, prim.Known.Mul)
	if !ok || !p.Whole(at, 0) || !operand(p, at, 0).ref.IsNode() {
		return false
	}
	at = operand(p, at, 0).ref.Index()
	if zero, ok := s.combinedWith(at, prim.Known.Sub); ok {
		if !p.Whole(at, 0) || !operand(p, at, 0).ref.IsNode() || zero != math.Trunc(zero) || math.Abs(zero) > 255 {
			return false
		}
		f.ZeroX, at = int64(zero), operand(p, at, 0).ref.Index()
	}
	if !s.is(at, prim.Known.Cast) || !p.Whole(at, 0) {
		return false
	}
	q := operand(p, at, 0)
	d := p.Aval(q.ref).DType
	f.x, f.step = view{ref: q.ref, layout: x.layout, offset: x.offset}, step
	return (d == ir.I8 || d == ir.U8) && step > 0 && !math.IsInf(step, 0)
}

// combinedWith is the number that is the second operand of node i, of this primitive.
func (s *search) combinedWith(i int, primitive op.PrimID) (v float64, ok bool) {
	p := s.p
	if !s.is(i, primitive) || len(p.OperandsOf(i)) != 2 || operand(p, i, 1).ref != 0 || operand(p, i, 0).ref == 0 {
		return 0, false
	}
	return ir.DecodeFloat(ir.AvalOf(p.Nodes[i].Aval).DType, p.ScalarsOf(i)[0]), true
}

// convolution notes the windows of convolution i and views its weights, numbers q and their scales, by groups.
func (f *integers) convolution(p *program.Program, i int, w, q, scale view) bool {
	win, rest := op.WindowsOf(p.Attrs(i))
	l := scale.layout
	if len(win.Kernel) != 2 || win.Base[0] != 1 || win.Base[1] != 1 || l.Rank() != 4 {
		return false
	}
	for d := 1; d < 4; d++ {
		if l.Shape[d] > 1 && l.Stride[d] != 0 {
			return false
		}
	}
	shape, stride := w.layout.Shape, q.layout.Stride
	f.Windows, f.Groups, f.Outputs = win, rest[0], shape[0]/rest[0]
	f.numbers = view{ref: q.ref, offset: q.offset, layout: ir.InternLayout([]int64{f.Groups, f.Outputs, shape[2],
		shape[3], shape[1]}, []int64{f.Outputs * stride[0], stride[0], stride[2], stride[3], stride[1]})}
	f.scale = f.ofOutputs(view{ref: scale.ref, layout: l, offset: scale.offset}, 0)
	return true
}

// ofOutputs views what differs along a dim by group and output.
func (f *integers) ofOutputs(v view, dim int) view {
	step := v.layout.Stride[dim]
	if v.layout.Shape[dim] == 1 {
		step = 0
	}
	v.layout = ir.InternLayout([]int64{f.Groups, f.Outputs}, []int64{f.Outputs * step, step})
	return v
}

// rows notes the weights of product i of rows: windows have one element, and there is one group.
func (f *integers) rows(p *program.Program, i int, w, q, scale view) bool {
	if f.x.layout.Rank() != 2 || w.layout.Rank() != 2 || scale.layout.Rank() != 2 {
		return false
	}
	d := outputsFirst(w, q, scale)
	if d == nil {
		return false
	}
	outputs, terms := d.numbers.layout.Shape[0], d.numbers.layout.Shape[1]
	one, none := []int64{1, 1}, []int64{0, 0}
	f.Windows = op.Windows{Kernel: one, Stride: one, Lo: none, Dilation: one, Base: one, Out: []int64{
		f.x.layout.Shape[0], 1}}
	f.Groups, f.Outputs, f.Rows = 1, outputs, true
	stride := d.numbers.layout.Stride
	f.numbers = d.numbers
	f.numbers.layout = ir.InternLayout([]int64{1, outputs, 1, 1, terms}, []int64{0, stride[0], 0, 0, stride[1]})
	f.scale = f.ofOutputs(d.scale, 0)
	if p.Attrs(i)[0] != 0 {
		f.bias = f.ofOutputs(operand(p, i, 2), 0)
	}
	return true
}

// rounded finds the product whose result QuantizeLinear rounds, with node i as its last node; nil for none.
func (s *search) rounded(i int, products map[int]*integers) *integers {
	p := s.p
	d := ir.AvalOf(p.Nodes[i].Aval).DType
	if !s.is(i, prim.Known.Cast) || d != ir.I8 && d != ir.U8 {
		return nil
	}
	at, ok := s.only(i, 0)
	if !ok || !s.is(at, prim.Known.Cast) || ir.AvalOf(p.Nodes[at].Aval).DType != ir.I32 {
		return nil
	}
	f := integers{least: math.Inf(-1), most: math.Inf(1)}
	least, most := f.least, f.most
	at, ok = s.only(at, 0)
	for ; ok && s.limit(at, &least, &most); at, ok = s.only(at, 0) {
	}
	zero := 0.0
	if v, found := s.combinedWith(at, prim.Known.Add); ok && found {
		zero = v
		at, ok = s.only(at, 0)
	}
	if !ok || !s.is(at, prim.Known.Step) || p.Attrs(at)[0] != prim.StepRound {
		return nil
	}
	if at, ok = s.only(at, 0); !ok {
		return nil
	}
	step, found := s.combinedWith(at, prim.Known.Div)
	if !found || !(step > 0) || math.IsInf(step, 0) || zero != math.Trunc(zero) || math.Abs(zero) > 255 {
		return nil
	}
	at, ok = s.only(at, 0)
	for ; ok && s.limit(at, &f.least, &f.most); at, ok = s.only(at, 0) {
	}
	if !ok {
		return nil
	}
	bias := view{}
	if conv, j := s.channelwise(at, prim.Known.Add); conv >= 0 {
		bias, at = operand(p, at, j), conv
	}
	of := products[at]
	if of == nil || of.whole || of.DType != ir.F32 || s.uses[at] != 1 || bias.ref != 0 && of.bias.ref != 0 {
		return nil
	}
	f.least, f.most = max(least, math.RoundToEven(f.least/step)+zero), min(most, math.RoundToEven(f.most/step)+zero)
	low, high := ir.Limits(d)
	if !(f.least >= float64(low)) || !(f.most <= float64(high)) || f.least > f.most {
		return nil
	}
	r := *of
	r.DType, r.ZeroY, r.Least, r.Most, r.stepY = d, int64(zero), int64(f.least), int64(f.most), step
	if bias.ref != 0 {
		r.bias = r.ofOutputs(bias, 1)
	}
	return &r
}

// limit reports that node i clips its operand, and narrows the limits accordingly.
func (s *search) limit(i int, least, most *float64) bool {
	if s.is(i, prim.Known.Relu) {
		*least = max(*least, 0)
		return true
	}
	v, ok := s.combinedWith(i, prim.Known.Clip)
	switch {
	case !ok || math.IsNaN(v):
		return false
	case s.p.Attrs(i)[0] == prim.Larger:
		*least = max(*least, v)
	default:
		*most = min(*most, v)
	}
	return true
}

// integers copies product f in the place of node i.
func (c *copier) integers(i int, f *integers) {
	e := c.emitter(i)
	known := func(v view) view {
		v.ref = c.refs[v.ref]
		return v
	}
	shape := f.numbers.layout.Shape // groups, outputs, high, wide, channels
	words, outputs := f.Panels(shape[4])
	width := words[1] * 4 // bytes of an output
	channels := width / (shape[2] * shape[3])
	group := words[0] / f.Groups * prim.QuantizedPanel // outputs from a group to the next
	if shape[1] == 1 && shape[4] == 1 {
		group, channels = 1, 1
	}
	numbers := e.node(prim.Known.Cast, []int64{int64(ir.I32)}, ir.I32, shape, []view{known(f.numbers)})
	if f.zero != 0 {
		numbers = e.node(prim.Known.Sub, nil, ir.I32, shape, []view{numbers}, float64(f.zero))
	}
	rows := e.within(numbers, ir.I32, []int64{words[0] * prim.QuantizedPanel, width}, []int64{group * width, width,
		shape[3] * channels, channels, 1})
	ofOutputs := func(v view, d ir.DType) view { return e.within(v, d, outputs, []int64{group, 1}) }
	each := shape[:2]
	scale := e.filled(ir.F32, each, f.step)
	if f.scale.ref != 0 {
		scale = e.node(prim.Known.Mul, nil, ir.F32, each, []view{known(f.scale)}, f.step)
	}
	if f.stepY != 0 {
		scale = e.node(prim.Known.Div, nil, ir.F32, each, []view{scale}, f.stepY)
	}
	bias := known(f.bias)
	switch {
	case bias.ref == 0: // zeros that only constants decide
		bias = e.filled(ir.F32, each, 0)
	case f.stepY != 0:
		bias = e.node(prim.Known.Div, nil, ir.F32, each, []view{bias}, f.stepY)
	}
	sums := e.node(prim.Known.Sum, []int64{2, 3, 4}, ir.I32, each, []view{numbers})
	in := []view{known(f.x), e.words(rows, words[0], width), ofOutputs(scale, ir.F32), ofOutputs(bias, ir.F32),
		ofOutputs(sums, ir.I32)}
	if f.Dynamic {
		in = append(in, e.oneOr(known(f.zeroX), c.from.Aval(f.x.ref).DType, float64(f.ZeroX)),
			e.oneOr(known(f.stepX), ir.F32, 1))
	}
	if f.Shifted {
		shift := e.node(prim.Known.Cast, []int64{int64(ir.I32)}, ir.I32, each, []view{known(f.shift)})
		if f.zero != 0 {
			shift = e.node(prim.Known.Sub, nil, ir.I32, each, []view{shift}, float64(f.zero))
		}
		in = append(in, ofOutputs(shift, ir.I32))
	}
	e.node(prim.Known.QuantizedConv, f.Attr(), f.DType, f.shape, in)
	c.refs[program.NodeRef(i)] = program.NodeRef(len(c.to.Nodes) - 1)
}
