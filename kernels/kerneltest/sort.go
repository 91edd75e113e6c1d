package kerneltest

import (
	"math"
	"math/rand/v2"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// SortCase is a sort with data.
type SortCase struct {
	Sort   *launch.Sort
	Params []uint64
	Bufs   [][]byte
}

// RandomSort makes a sort of rows of n elements with random strides, many equal elements, and for floats NaN,
// infinities and both zeros. alone is the field of the sort.
func RandomSort(r *rand.Rand, t ir.DType, outer, n, inner, keep int64, alone bool) *SortCase {
	c := &SortCase{Sort: &launch.Sort{Type: t, Descending: r.IntN(2) == 0, Alone: alone, Room: n > launch.SortBlock}}
	strides := []int64{n * inner, inner, 1}
	if r.IntN(2) == 0 {
		strides = []int64{1, outer, outer * n}
	}
	offset := int64(r.IntN(5))
	for _, p := range append([]int64{outer, n, inner, keep}, append(strides, offset)...) {
		c.Params = append(c.Params, uint64(p))
	}
	total := outer * n * inner
	x := make([]byte, (total+offset)*int64(t.Size()))
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1)}
	spread := 1 + r.Int64N(2*n)
	// Of i64: values that need more than 32 bits, and small ranges far from 0.
	wide, from := r.IntN(2) == 0, r.Int64()-r.Int64()
	for i := range total + offset {
		v := r.Int64N(2*spread+1) - spread
		bits := ir.EncodeInt(t.ComputeType(), v)
		switch {
		case t == ir.Bool:
			bits = uint64(v & 1)
		case t == ir.I64 && wide && r.IntN(2) == 0:
			bits = uint64(v << 33)
		case t == ir.I64 && !wide:
			bits = uint64(from + v)
		case t.IsFloat():
			bits = ir.EncodeFloat(t.ComputeType(), float64(v)/16)
			if r.IntN(8) == 0 {
				bits = ir.EncodeFloat(t.ComputeType(), odd[r.IntN(len(odd))])
			}
		}
		loopir.StoreBits(t, x, i, bits)
	}
	results := outer * keep * inner
	c.Bufs = [][]byte{x, make([]byte, results*int64(t.Size()))}
	if !alone {
		c.Bufs = append(c.Bufs, make([]byte, results*8))
	}
	if c.Sort.Room {
		c.Bufs = append(c.Bufs, make([]byte, 4*launch.SortWords(t)*total))
	}
	return c
}

// Want is the interpreter's results: values, and indices where the sort has them.
func (c *SortCase) Want() (values, indices []byte, err error) {
	l := c.Sort.Layout()
	bufs := make([][]byte, len(c.Bufs))
	bufs[l.X], bufs[l.Values] = c.Bufs[l.X], make([]byte, len(c.Bufs[l.Values]))
	if l.Indices >= 0 {
		indices = make([]byte, len(c.Bufs[l.Indices]))
		bufs[l.Indices] = indices
	}
	err = launch.InterpretSort(c.Sort, c.Params, bufs)
	return bufs[l.Values], indices, err
}
