package kerneltest

import (
	"math/rand/v2"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Norm makes a prologue of a product of dtype t: a layer norm, or with centre false a division by the root mean square,
// with a weight and a bias or without. Its parameters are K again and a float32 to add to the variance.
func Norm(t ir.DType, centre, weight, bias bool) *loopir.Kernel {
	var vectors []ir.DType
	for _, has := range []bool{weight, bias} {
		if has {
			vectors = append(vectors, t)
		}
	}
	b, x, v, finish := launch.NewPrologue(t, vectors...)
	ct := t.ComputeType()
	n, eps := b.Cast(ct, b.Param(b.Size())), b.Param(b.Scalar(ir.F32))
	if centre {
		b.Each()
		x = b.Sub(x, b.Div(b.Acc(b.Reduce(loopir.Sum, x)), n))
	}
	b.Each()
	variance := b.Div(b.Acc(b.Dot(x, x)), n)
	y := b.Div(x, b.Un(loopir.OpSqrt, b.Add(variance, eps)))
	if weight {
		y, v = b.Mul(y, v[0]), v[1:]
	}
	if bias {
		y = b.Add(y, v[0])
	}
	return finish(y)
}

// RandomGemmNorm is a [RandomGemm] of m rows, at most four, and at most one batch dim, with a [Norm] before it.
func RandomGemmNorm(r *rand.Rand, t ir.DType, m, n, k int64, aligned bool) *GemmCase {
	c := RandomGemm(r, t, m, n, k, aligned)
	for l := c.Gemm.Layout(); c.Gemm.Batch > 1 || c.Params[l.M] > 4; l = c.Gemm.Layout() {
		c = RandomGemm(r, t, m, n, k, aligned)
	}
	k = int64(c.Params[c.Gemm.Layout().K])
	c.Gemm.Prologue = Norm(t, r.IntN(2) == 0, r.IntN(3) > 0, r.IntN(2) == 0)
	c.Params = append(c.Params, uint64(k), ir.EncodeFloat(ir.F32, 1e-3))
	gen := &gen{r: r, b: loopir.NewBuilder("gemm", 0, 0), bufs: c.Bufs}
	for range c.Gemm.Layout().BufVectors {
		gen.fill(t, k)
	}
	c.Bufs = gen.bufs
	return c
}

// GemmNormOfHalves is a product of float16 of one element: the difference of two elements of a norm, which are 0.6665
// and 0.6655 over the root of 3. It shows whether they are rounded.
func GemmNormOfHalves() *GemmCase {
	halves := func(v ...float64) []byte {
		b := make([]byte, 2*len(v))
		for i, x := range v {
			loopir.StoreBits(ir.F16, b, int64(i), ir.EncodeFloat(ir.F32, x))
		}
		return b
	}
	return &GemmCase{Gemm: &launch.Gemm{Type: ir.F16, AUnit: 'k', BUnit: 'k', Prologue: Norm(ir.F16, false, true, false)},
		Params: []uint64{1, 1, 2, 2, 1, 0, 1, 1, 0, 2, ir.EncodeFloat(ir.F32, 2)},
		Bufs:   [][]byte{halves(1, 1), halves(1, -1), make([]byte, 2), halves(0.6665, 0.6655)}}
}
