package launch

import (
	"fmt"
	"math"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// QuantizedConv is a convolution of 8-bit elements with int8 weights, in groups of channels. Its sums of products are
// exact: t = sum of w (x - zero of x), where padding counts 0. A result is scale t + bias, float32, or that rounded
// half to even, plus the zero of y, within limits.
//
// Weights are two's complement fields of 32-bit words, the first term in the lowest bits, in panels of PanelWidth
// outputs. A group has panels [taps, channels/4, PanelWidth]: a tap's channels fill words. If each group has one
// channel and one output, outputs of PanelWidth groups make a panel [taps/4, PanelWidth]. Words are filled up with
// zeros. Scale, bias and sums, the sum of each output's weights, are as long as all panels have outputs.
//
// Parameters are numbered below; buffers are x, weights, scale, bias, sums, those that the fields add, and the result.
// Strides are in elements.
type QuantizedConv struct {
	X, Y ir.DType // int8 or uint8; Y may be float32
	// Dynamic: the zero of x is an element of X's dtype, and a float32 multiplies all scales. Y is float32.
	Dynamic bool
	// Shifted: weights are less an int32 for each output, which is as long as all panels have outputs.
	Shifted bool
	// Narrow: the weights in words are between -64 and 64, so that sums of two products have 16 bits.
	Narrow bool
}

// Parameters of QuantizedConv: sizes (channels and outputs of one group), windows, zeros, limits of the result, strides
// of x and of the result, offsets of the operands.
const (
	ConvBatch = iota
	ConvGroups
	ConvChannels
	ConvOutputs
	ConvHigh
	ConvWide
	ConvOutHigh
	ConvOutWide
	ConvTapsHigh
	ConvTapsWide
	ConvStepHigh
	ConvStepWide
	ConvTop
	ConvLeft
	ConvGapHigh
	ConvGapWide
	ConvZeroX
	ConvZeroY
	ConvLeast
	ConvMost
	ConvStrideX // batch, channel, high, wide
	ConvStrideY = ConvStrideX + 4
	ConvOffsets = ConvStrideY + 4 // x, weights, scale, bias, sums, zero and step of x, shifts
	ConvParams  = ConvOffsets + 8
)

// Label implements Op.
func (*QuantizedConv) Label() string { return "convolution_int8" }

// Buffers implements Op.
func (q *QuantizedConv) Buffers() []loopir.Buf {
	var list []loopir.Buf
	types := []ir.DType{q.X, ir.I32, ir.F32, ir.F32, ir.I32}
	if q.Dynamic {
		types = append(types, q.X, ir.F32)
	}
	if q.Shifted {
		types = append(types, ir.I32)
	}
	for _, t := range types {
		list = append(list, loopir.Buf{Type: t, Access: loopir.Read})
	}
	return append(list, loopir.Buf{Type: q.Y, Access: loopir.Write})
}

// sizesStridesOffsets returns n parameters: sizes, from number strides on strides, from number offsets on offsets.
func sizesStridesOffsets(strides, offsets, n int) []loopir.Param {
	list := make([]loopir.Param, n)
	for i := range list {
		list[i] = loopir.Param{Kind: loopir.Size, Type: ir.I64}
		switch {
		case i >= offsets:
			list[i].Kind = loopir.Offset
		case i >= strides:
			list[i].Kind = loopir.Stride
		}
	}
	return list
}

// Parameters implements Op.
func (*QuantizedConv) Parameters() []loopir.Param {
	return sizesStridesOffsets(ConvZeroX, ConvOffsets, ConvParams)
}

// Key implements Op.
func (q *QuantizedConv) Key() string { return fmt.Sprintf("quantized_conv%+v", *q) }

// Cost implements Op.
func (q *QuantizedConv) Cost(params []uint64, width *loopir.Widths) loopir.Cost {
	at := func(i int) int64 { return int64(params[i]) }
	places, outputs := at(ConvBatch)*at(ConvOutHigh)*at(ConvOutWide), at(ConvGroups)*at(ConvOutputs)
	terms := at(ConvChannels) * at(ConvTapsHigh) * at(ConvTapsWide)
	return loopir.Cost{Flops: 2 * places * outputs * terms, Bytes: outputs*terms + places*outputs*int64(width[q.Y]) +
		at(ConvBatch)*at(ConvGroups)*at(ConvChannels)*at(ConvHigh)*at(ConvWide)}
}

// Numbers of operands that may be absent.
const (
	convZero = 5 + iota
	convStep
	convShifts
)

// EachAlone reports that outputs of several groups make a panel.
func EachAlone(channels, outputs int64) bool { return channels == 1 && outputs == 1 }

// convRun reads the operands of a run.
type convRun struct {
	*QuantizedConv
	bufs [][]byte
	p    []int64
	zero int64   // of x
	step float64 // of all scales
	err  error
}

// load reads element i of operand b, which is buffer b if no operand before it is absent.
func (r *convRun) load(t ir.DType, b int, i int64) uint64 {
	i += r.p[ConvOffsets+b]
	if b == convShifts && !r.Dynamic {
		b -= 2
	}
	if err := loopir.Inside(t, r.bufs[b], i); err != nil {
		r.err = fmt.Errorf("%s: operand %d: %w", r.Label(), b, err)
		return 0
	}
	return loopir.LoadBits(t, r.bufs[b], i)
}

// panel is the place of output o of group g among those of all panels.
func (r *convRun) panel(g, o int64) int64 {
	if EachAlone(r.p[ConvChannels], r.p[ConvOutputs]) {
		return g
	}
	return g*((r.p[ConvOutputs]+PanelWidth-1)/PanelWidth*PanelWidth) + o
}

// weight is the weight of channel c of group g at this tap, for output o.
func (r *convRun) weight(g, o, tap, c int64) int64 {
	taps, words := r.p[ConvTapsHigh]*r.p[ConvTapsWide], (r.p[ConvChannels]+3)/4
	n, word, field := r.panel(g, o), tap*words+c/4, c%4
	if EachAlone(r.p[ConvChannels], r.p[ConvOutputs]) {
		taps, words, word, field = (taps+3)/4, 1, tap/4, tap%4
	}
	bits := uint32(r.load(ir.I32, 1, (n/PanelWidth*taps*words+word)*PanelWidth+n%PanelWidth))
	w := int64(int8(bits >> (8 * field)))
	if r.Shifted {
		w -= int64(int32(r.load(ir.I32, convShifts, n)))
	}
	return w
}

// element is an element of 8 bits.
func (r *convRun) element(bits uint64) int64 {
	if r.X == ir.I8 {
		return int64(int8(bits))
	}
	return int64(uint8(bits))
}

// sum is the exact sum of output o of group g at a position.
func (r *convRun) sum(n, g, o, y, x int64) (total int64) {
	p := r.p
	for tap := range p[ConvTapsHigh] * p[ConvTapsWide] {
		h := y*p[ConvStepHigh] - p[ConvTop] + tap/p[ConvTapsWide]*p[ConvGapHigh]
		w := x*p[ConvStepWide] - p[ConvLeft] + tap%p[ConvTapsWide]*p[ConvGapWide]
		if h < 0 || h >= p[ConvHigh] || w < 0 || w >= p[ConvWide] {
			continue
		}
		for c := range p[ConvChannels] {
			bits := r.load(r.X, 0, n*p[ConvStrideX]+(g*p[ConvChannels]+c)*p[ConvStrideX+1]+h*p[ConvStrideX+2]+
				w*p[ConvStrideX+3])
			total += r.weight(g, o, tap, c) * (r.element(bits) - r.zero)
		}
	}
	return total
}

// Interpret implements Op.
func (q *QuantizedConv) Interpret(params []uint64, bufs [][]byte) (loopir.Fault, error) {
	if err := CheckArguments(q, params, bufs); err != nil {
		return loopir.Fault{}, err
	}
	r := convRun{QuantizedConv: q, bufs: bufs}
	for _, v := range params {
		r.p = append(r.p, int64(v))
	}
	p, out := r.p, bufs[len(bufs)-1]
	if r.zero, r.step = p[ConvZeroX], 1; q.Dynamic {
		r.zero, r.step = r.element(r.load(q.X, convZero, 0)), ir.DecodeFloat(ir.F32, r.load(ir.F32, convStep, 0))
	}
	outputs, wide := p[ConvGroups]*p[ConvOutputs], p[ConvOutWide]
	for i := range p[ConvBatch] * outputs * p[ConvOutHigh] * wide {
		x, y, o, n := i%wide, i/wide%p[ConvOutHigh], i/wide/p[ConvOutHigh]%outputs, i/wide/p[ConvOutHigh]/outputs
		g := o / p[ConvOutputs]
		at := r.panel(g, o%p[ConvOutputs])
		float := func(b int) float64 { return ir.DecodeFloat(ir.F32, r.load(ir.F32, b, at)) }
		v := float64(r.sum(n, g, o%p[ConvOutputs], y, x))*float(2)*r.step + float(3)
		to := n*p[ConvStrideY] + o*p[ConvStrideY+1] + y*p[ConvStrideY+2] + x*p[ConvStrideY+3]
		if err := loopir.Inside(q.Y, out, to); err != nil {
			return loopir.Fault{}, fmt.Errorf("%s: result: %w", q.Label(), err)
		}
		if q.Y == ir.F32 {
			loopir.StoreBits(q.Y, out, to, ir.EncodeFloat(ir.F32, v))
			continue
		}
		whole := min(max(math.RoundToEven(v)+float64(p[ConvZeroY]), float64(p[ConvLeast])), float64(p[ConvMost]))
		loopir.StoreBits(q.Y, out, to, uint64(uint8(int64(whole))))
	}
	return loopir.Fault{}, r.err
}
