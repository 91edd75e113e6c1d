package kerneltest

import (
	"math/rand/v2"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// AttentionCase is a pass of attention with a launch.
type AttentionCase struct {
	Attention *launch.Attention
	Params    []uint64
	Bufs      [][]byte
}

// Copy returns the case with buffers of its own.
func (c *AttentionCase) Copy() *AttentionCase {
	d := *c
	d.Bufs = (&Case{Bufs: c.Bufs}).Copy().Bufs
	return &d
}

// AttentionSize is the sizes of a case.
type AttentionSize struct {
	Batch, Heads, Group, Queries, Keys, Width, WidthV int64
	Aligned                                           bool // strides and offsets are multiples of four, columns contiguous
}

// RandomAttention is a case of the given pass with random stride orders. Its row statistics are those that the forward
// pass computes from the operands.
func RandomAttention(r *rand.Rand, t ir.DType, pass launch.AttentionPass, n AttentionSize) *AttentionCase {
	a := &launch.Attention{Type: t, Pass: pass, Causal: r.IntN(2) == 0}
	switch {
	case pass == launch.AttentionGradMask:
		a.Mask = []ir.DType{ir.F32, t}[r.IntN(2)]
		for d := range a.Sum {
			a.Sum[d] = r.IntN(3) == 0
		}
	case r.IntN(2) == 0:
		a.Mask = []ir.DType{ir.Bool, ir.F32, t}[r.IntN(3)]
	}
	a.Dropout = r.IntN(2) == 0
	ct := t.ComputeType()
	c := &AttentionCase{Attention: a}
	add := func(v ...int64) {
		for _, x := range v {
			c.Params = append(c.Params, uint64(x))
		}
	}
	add(n.Batch, n.Heads, n.Heads/n.Group, n.Queries, n.Keys, n.Width, n.WidthV)
	c.Params = append(c.Params, ir.EncodeFloat(ct, 0.1+r.Float64()))
	if a.Dropout {
		c.Params = append(c.Params, r.Uint64(), r.Uint64(), ir.EncodeFloat(ct, 0.75*r.Float64()))
	}
	shared := n.Heads / n.Group
	operand := func(d ir.DType, heads, rows, cols int64, broadcast bool) {
		strides, size := n.strides(r, []int64{n.Batch, heads, rows, cols}, broadcast)
		add(strides...)
		c.Bufs = append(c.Bufs, attentionValues(r, d, size))
	}
	operand(t, n.Heads, n.Queries, n.Width, false)
	operand(t, shared, n.Keys, n.Width, false)
	operand(t, shared, n.Keys, n.WidthV, false)
	if a.Mask != ir.InvalidDType {
		operand(a.Mask, n.Heads, n.Queries, n.Keys, true)
	}
	results := func(t ir.DType, sizes ...int64) {
		for _, size := range sizes {
			c.Bufs = append(c.Bufs, poisoned(t, n.Batch*size))
		}
	}
	rows := n.Heads * n.Queries
	if pass == launch.AttentionForward {
		results(t, rows*n.WidthV)
		results(ct, rows)
		return c
	}
	// The forward pass over the same operands gives lse; delta may be anything.
	f := *a
	f.Pass, f.Sum = launch.AttentionForward, [4]bool{}
	forward := &AttentionCase{Attention: &f, Params: append([]uint64(nil), c.Params...), Bufs: append([][]byte(nil),
		c.Bufs...)}
	forward.Bufs = append(forward.Bufs, make([]byte, n.Batch*rows*n.WidthV*int64(t.Size())),
		make([]byte, n.Batch*rows*int64(ct.Size())))
	if err := launch.InterpretAttention(&f, forward.Params, forward.Bufs); err != nil {
		panic("BUG: kerneltest: " + err.Error())
	}
	operand(t, n.Heads, n.Queries, n.WidthV, true)
	stats, lse := attentionValues(r, ct, 2*n.Batch*rows), forward.Bufs[len(forward.Bufs)-1]
	for i := range n.Batch * rows {
		loopir.StoreBits(ct, stats, 2*i, loopir.LoadBits(ct, lse, i))
	}
	c.Bufs = append(c.Bufs, stats)
	switch pass {
	case launch.AttentionGradQ:
		results(t, rows*n.Width)
	case launch.AttentionGradMask:
		size := []int64{n.Batch, n.Heads, n.Queries, n.Keys}
		for d, s := range a.Sum {
			if s {
				size[d] = 1
			}
		}
		c.Bufs = append(c.Bufs, poisoned(a.Mask, ir.Numel(size)))
	default:
		results(t, shared*n.Keys*n.Width, shared*n.Keys*n.WidthV)
	}
	return c
}

// RandomAppend is a case of the forward pass that first stores new rows of keys and values; place is their number.
func RandomAppend(r *rand.Rand, t ir.DType, n AttentionSize, place int64) *AttentionCase {
	c := RandomAttention(r, t, launch.AttentionForward, n)
	for c.Attention.Dropout {
		c = RandomAttention(r, t, launch.AttentionForward, n)
	}
	results := c.Bufs[len(c.Bufs)-2:]
	c.Bufs = c.Bufs[: len(c.Bufs)-2 : len(c.Bufs)-2]
	c.Attention.Append = true
	for _, cols := range []int64{n.Width, n.WidthV} {
		strides, size := n.strides(r, []int64{n.Batch, n.Heads / n.Group, 1, cols}, false)
		for _, s := range strides {
			c.Params = append(c.Params, uint64(s))
		}
		c.Bufs = append(c.Bufs, attentionValues(r, t, size))
	}
	offset := r.Int64N(3)
	places := make([]byte, 8*(offset+1))
	loopir.StoreBits(ir.I64, places, offset, uint64(place))
	c.Params = append(c.Params, uint64(offset))
	c.Bufs = append(append(c.Bufs, places), results...)
	return c
}

// poisoned is a result of n elements that no kernel has written.
func poisoned(t ir.DType, n int64) []byte {
	b := make([]byte, n*int64(t.Size()))
	for i := range b {
		b[i] = 0xA5
	}
	return b
}

// strides draws an order of the dims, gaps, with broadcast also strides of 0, and an offset.
func (n AttentionSize) strides(r *rand.Rand, shape []int64, broadcast bool) (strides []int64, size int64) {
	order := r.Perm(4)
	step := int64(1)
	if n.Aligned {
		order = append(r.Perm(3), 3)
	}
	strides = make([]int64, 5)
	for i := 3; i >= 0; i-- {
		d := order[i]
		if broadcast && r.IntN(4) == 0 {
			continue
		}
		strides[d] = step
		step *= shape[d]
		if step += int64(r.IntN(3)); n.Aligned {
			step = (step + 3) &^ 3
		}
	}
	offset := 4 * int64(r.IntN(2))
	if !n.Aligned {
		offset = int64(r.IntN(3))
	}
	strides[4] = offset
	return strides, step + offset
}

func attentionValues(r *rand.Rand, t ir.DType, n int64) []byte {
	data := make([]byte, n*int64(t.Size()))
	for i := range n {
		if t == ir.Bool {
			data[i] = byte(min(1, r.IntN(4)))
			continue
		}
		loopir.StoreBits(t, data, i, ir.EncodeFloat(t, r.Float64()*2-1))
	}
	return data
}
