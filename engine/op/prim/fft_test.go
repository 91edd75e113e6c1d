package prim_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/optest"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

func TestFourierGradients(t *testing.T) {
	for kind := prim.FFTForward; kind <= prim.FFTAllOfReals; kind++ {
		for _, n := range []int64{1, 4, 5} {
			shape := []int64{2, n, 2}
			switch kind {
			case prim.FFTOfReals, prim.FFTAllOfReals:
				shape = []int64{2, n}
			case prim.FFTToReals:
				shape[1] = n/2 + 1
			}
			v := make([]float64, ir.Numel(shape))
			for i := range v {
				v[i] = math.Cos(float64(3 * i))
			}
			optest.CheckGrad(t, prim.ViewVJP, func(b op.Builder, x []op.Val) op.Val {
				y := prim.FFT(b, x[0], kind, 1, n, 0.3)
				return prim.Mul(b, y, y)
			}, true, optest.Input{Shape: shape, V: v})
		}
	}
}

func TestFourierNeedsFloats(t *testing.T) {
	e := optest.New()
	require.PanicsWithError(t, "Unsupported dtype Half", func() {
		prim.FFT(e, e.Tensor(ir.F16, []int64{4}, 1, 2, 3, 4), prim.FFTOfReals, 0, 4, 1)
	})
}

// TestFourierShapes: complex numbers are pairs along a last dim, which the transformed dim is not.
func TestFourierShapes(t *testing.T) {
	e := optest.New()
	zeros := func(shape ...int64) op.Val { return prim.Zeros(e, ir.F32, ir.CPU, shape) }
	for kind, c := range map[int64]struct {
		in, out []int64
		n       int64
	}{
		prim.FFTForward:    {[]int64{3, 5, 2}, []int64{3, 5, 2}, 5},
		prim.FFTInverse:    {[]int64{3, 5, 2}, []int64{3, 5, 2}, 5},
		prim.FFTOfReals:    {[]int64{3, 5}, []int64{3, 3, 2}, 5},
		prim.FFTToReals:    {[]int64{3, 3, 2}, []int64{3, 4}, 4},
		prim.FFTAllOfReals: {[]int64{3, 5}, []int64{3, 5, 2}, 5},
	} {
		require.Equal(t, c.out, prim.FFT(e, zeros(c.in...), kind, 1, c.n, 1).Shape())
		require.Panics(t, func() { prim.FFT(e, zeros(c.in...), kind, 1, c.n+2, 1) }, "another length")
		require.Panics(t, func() { prim.FFT(e, zeros(c.in...), kind, 2, c.n, 1) }, "no such dim")
	}
	require.Panics(t, func() { prim.FFT(e, zeros(3, 5), prim.FFTForward, 0, 3, 1) }, "no pairs")
}
