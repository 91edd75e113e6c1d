package launch

import (
	"fmt"
	"math"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// ConvLast is a convolution of float32 pictures whose channels come last, x[batch, high, wide, channels] with any
// strides, to a dense y[batch, out high, out wide, outputs]. A result is its sum, plus bias, plus an element of add,
// which has y's layout, within least and most.
//
// Weights are panels [taps*channels, PanelWidth] of outputs, filled up with zeros; bias is as long as all panels have
// outputs. Alone: an output reads the channel of its number only, and weights are [taps, channels]. There are then at
// least PanelWidth channels, and no add. Windows have at most ConvLastTaps taps.
//
// Parameters are numbered below; buffers are x, weights, bias, perhaps add, and the result.
type ConvLast struct{ Alone, Add bool }

// ConvLastTaps is the greatest number of taps.
const ConvLastTaps = 64

// Parameters of ConvLast: sizes, windows, the bits of the limits as float32, strides of x, offsets of the operands.
const (
	LastBatch = iota
	LastChannels
	LastOutputs
	LastHigh
	LastWide
	LastOutHigh
	LastOutWide
	LastTapsHigh
	LastTapsWide
	LastStepHigh
	LastStepWide
	LastTop
	LastLeft
	LastGapHigh
	LastGapWide
	LastLeast
	LastMost
	LastStrideX // batch, high, wide, channel
	LastOffsets = LastStrideX + 4
	LastParams  = LastOffsets + 4 // x, weights, bias, add
)

// Label implements Op.
func (*ConvLast) Label() string { return "convolution_last" }

// Buffers implements Op.
func (c *ConvLast) Buffers() []loopir.Buf {
	list := make([]loopir.Buf, 4, 5)
	if c.Add {
		list = list[:5]
	}
	for i := range list {
		list[i] = loopir.Buf{Type: ir.F32, Access: loopir.Read}
	}
	list[len(list)-1].Access = loopir.Write
	return list
}

// Parameters implements Op.
func (*ConvLast) Parameters() []loopir.Param {
	return sizesStridesOffsets(LastLeast, LastOffsets, LastParams)
}

// Key implements Op.
func (c *ConvLast) Key() string { return fmt.Sprintf("conv_last%+v", *c) }

// Cost implements Op.
func (c *ConvLast) Cost(params []uint64, _ *loopir.Widths) loopir.Cost {
	at := func(i int) int64 { return int64(params[i]) }
	terms := at(LastTapsHigh) * at(LastTapsWide) * at(LastChannels)
	if c.Alone {
		terms /= max(1, at(LastChannels))
	}
	places := at(LastBatch) * at(LastOutHigh) * at(LastOutWide)
	return loopir.Cost{Flops: 2 * places * at(LastOutputs) * terms, Bytes: 4 * (places*at(LastOutputs) +
		at(LastOutputs)*terms + at(LastBatch)*at(LastHigh)*at(LastWide)*at(LastChannels))}
}

// lastRun reads the operands of a run.
type lastRun struct {
	*ConvLast
	bufs [][]byte
	p    []int64
	err  error
}

func (r *lastRun) load(b int, i int64) float64 {
	i += r.p[LastOffsets+b]
	if err := loopir.Inside(ir.F32, r.bufs[b], i); err != nil {
		r.err = fmt.Errorf("%s: operand %d: %w", r.Label(), b, err)
		return 0
	}
	return ir.DecodeFloat(ir.F32, loopir.LoadBits(ir.F32, r.bufs[b], i))
}

// sum is the sum of output o at a position.
func (r *lastRun) sum(n, y, x, o int64) (total float64) {
	p := r.p
	taps, channels := p[LastTapsHigh]*p[LastTapsWide], p[LastChannels]
	for tap := range taps {
		h := y*p[LastStepHigh] - p[LastTop] + tap/p[LastTapsWide]*p[LastGapHigh]
		w := x*p[LastStepWide] - p[LastLeft] + tap%p[LastTapsWide]*p[LastGapWide]
		if h < 0 || h >= p[LastHigh] || w < 0 || w >= p[LastWide] {
			continue
		}
		element := func(c int64) float64 {
			return r.load(0, n*p[LastStrideX]+h*p[LastStrideX+1]+w*p[LastStrideX+2]+c*p[LastStrideX+3])
		}
		if r.Alone {
			total += element(o) * r.load(1, tap*channels+o)
			continue
		}
		for c := range channels {
			total += element(c) * r.load(1, (o/PanelWidth*taps*channels+tap*channels+c)*PanelWidth+o%PanelWidth)
		}
	}
	return total
}

// Interpret implements Op.
func (c *ConvLast) Interpret(params []uint64, bufs [][]byte) (loopir.Fault, error) {
	if err := CheckArguments(c, params, bufs); err != nil {
		return loopir.Fault{}, err
	}
	r := lastRun{ConvLast: c, bufs: bufs}
	for _, v := range params {
		r.p = append(r.p, int64(v))
	}
	p, out := r.p, bufs[len(bufs)-1]
	limit := func(i int) float64 { return float64(math.Float32frombits(uint32(params[i]))) }
	for i := range p[LastBatch] * p[LastOutHigh] * p[LastOutWide] * p[LastOutputs] {
		o, at := i%p[LastOutputs], i/p[LastOutputs]
		x, y, n := at%p[LastOutWide], at/p[LastOutWide]%p[LastOutHigh], at/p[LastOutWide]/p[LastOutHigh]
		v := r.sum(n, y, x, o) + r.load(2, o)
		if c.Add {
			v += r.load(3, i)
		}
		if v < limit(LastLeast) {
			v = limit(LastLeast)
		}
		if v > limit(LastMost) {
			v = limit(LastMost)
		}
		if err := loopir.Inside(ir.F32, out, i); err != nil {
			return loopir.Fault{}, fmt.Errorf("%s: result: %w", c.Label(), err)
		}
		loopir.StoreBits(ir.F32, out, i, ir.EncodeFloat(ir.F32, v))
	}
	return loopir.Fault{}, r.err
}
