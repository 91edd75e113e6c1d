package kirtest

import (
	"math/rand/v2"

	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/kernels/kir"
)

// GemmCase is a product with a launch.
type GemmCase struct {
	Gemm   *kir.Gemm
	Params []uint64
	Bufs   [][]byte
}

// Copy gives a case with its own buffers.
func (c *GemmCase) Copy() *GemmCase {
	d := *c
	d.Bufs = (&Case{Bufs: c.Bufs}).Copy().Bufs
	return &d
}

// RandomGemm is a product of about m x n x k with random stride orders, batch,
// bias and activation; aligned rounds everything up to multiples of four.
func RandomGemm(r *rand.Rand, t ir.DType, m, n, k int64, aligned bool) *GemmCase {
	if aligned {
		m, n, k = (m+3)&^3, (n+3)&^3, (k+3)&^3
	}
	g := &kir.Gemm{Type: t, Batch: r.IntN(3), Bias: r.IntN(2) == 0, CStrided: r.IntN(4) == 0}
	g.Act = kir.Activation(r.IntN(5))
	if !t.IsFloat() {
		g.Act = []kir.Activation{kir.ActNone, kir.ActRelu}[r.IntN(2)]
	}
	gen := &gen{r: r, b: kir.NewBuilder("gemm", 0, 0)}
	c := &GemmCase{Gemm: g}
	batch := make([]int64, g.Batch)
	for i := range batch {
		batch[i] = int64(1 + r.IntN(3))
		c.Params = append(c.Params, uint64(batch[i]))
	}
	c.Params = append(c.Params, uint64(m), uint64(n), uint64(k))
	offset := func() int64 {
		if aligned {
			return 4 * int64(r.IntN(2))
		}
		return int64(r.IntN(3))
	}
	// matrix appends strides of a rows x cols matrix with the rows or the columns contiguous.
	matrix := func(rows, cols int64, transposed, broadcast bool, order func(row, col int64) []uint64) int64 {
		rs, cs := cols, int64(1)
		if transposed {
			rs, cs = 1, rows
		}
		step := rows * cols
		strides := make([]uint64, len(batch))
		for i := len(batch) - 1; i >= 0; i-- {
			if broadcast && r.IntN(2) == 0 {
				continue
			}
			strides[i] = uint64(step)
			step *= batch[i]
		}
		off := offset()
		c.Params = append(c.Params, strides...)
		c.Params = append(c.Params, order(rs, cs)...)
		c.Params = append(c.Params, uint64(off))
		return step + off
	}
	rowCol := func(row, col int64) []uint64 { return []uint64{uint64(row), uint64(col)} }
	at, bt := r.IntN(2) == 0, r.IntN(2) == 0
	g.AUnit, g.BUnit = 'k', 'n'
	if at {
		g.AUnit = 'm'
	}
	if bt {
		g.BUnit = 'k'
	}
	gen.fill(t, matrix(m, k, at, true, rowCol))
	gen.fill(t, matrix(k, n, bt, true, rowCol))
	if g.Bias {
		c.Params = append(c.Params, 1, 2)
		gen.fill(t, n+2)
	}
	size := m * n
	for _, b := range batch {
		size *= b
	}
	if g.CStrided {
		size = matrix(m, n, r.IntN(2) == 0, false, rowCol)
	}
	gen.buffer(t, kir.Write, size)
	c.Bufs = gen.bufs
	if t.IsFloat() && !at && r.IntN(4) == 0 {
		g.AUnit = 0 // the text may not know
	}
	return c
}

// fill adds an operand of small values, so that sums are well conditioned.
func (g *gen) fill(t ir.DType, n int64) {
	data := make([]byte, n*int64(t.Size()))
	for i := range n {
		v := ir.EncodeInt(t, int64(g.r.IntN(9)-4))
		if t.IsFloat() {
			v = ir.EncodeFloat(t, g.r.Float64()-0.5)
		}
		kir.StoreBits(t, data, i, v)
	}
	g.bufs = append(g.bufs, data)
}
