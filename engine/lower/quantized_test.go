package lower_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/optest"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// TestLoopKernelsMultiplyQuantizedWeightsAsTheLaunchDoes compares the kernels of devices without launch.Quantized with
// the launch, whose reference is the definition: sizes beside panels, words and groups, rows apart, zero rows.
func TestLoopKernelsMultiplyQuantizedWeightsAsTheLaunchDoes(t *testing.T) {
	for _, c := range []struct {
		bits, group   int64
		offset, bias  bool
		dynamic       bool
		rows, n, k    int64
		scale, toward float64
	}{
		{bits: 8, group: 70, rows: 3, n: 19, k: 70, bias: true},
		{bits: 8, group: 70, rows: 3, n: 19, k: 70, dynamic: true, bias: true},
		{bits: 4, group: 32, rows: 2, n: 5, k: 75},
		{bits: 4, group: 32, rows: 2, n: 33, k: 64, offset: true, bias: true},
		{bits: 4, group: 128, rows: 1, n: 16, k: 31, offset: true},
		{bits: 4, group: 32, rows: 3, n: 19, k: 75, dynamic: true, bias: true},
		{bits: 4, group: 128, rows: 2, n: 16, k: 31, dynamic: true, offset: true},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			panels, words, groups, table := (c.n+15)/16, (c.k+7)/8, (c.k+c.group-1)/c.group, ir.BF16
			if c.bits == 8 {
				words, table = (c.k+63)/64*16, ir.F32
			}
			wave := func(n int64, f, size float64) (v []float64) {
				for i := range n {
					v = append(v, math.Trunc(math.Sin(float64(i*i)*f+1)*size))
				}
				return v
			}
			var got [2][]float64
			for i := range got {
				e := optest.New()
				e.Quantized = i == 0
				x := e.Tensor(ir.F32, []int64{c.k, c.rows + 1}, wave(c.k*(c.rows+1), 0.3, 9)...)
				x = prim.Permute(e, x, []int64{1, 0})
				w := e.Tensor(ir.I32, []int64{panels, words, 16}, wave(panels*words*16, 0.7, 2e9)...)
				scale := e.Tensor(table, []int64{panels, groups, 16}, wave(panels*groups*16, 0.9, 5)...)
				var offset, bias op.Val
				if c.offset {
					offset = e.Tensor(table, []int64{panels, groups, 16}, wave(panels*groups*16, 0.2, 7)...)
				}
				if c.bias {
					bias = e.Tensor(ir.F32, []int64{c.n}, wave(c.n, 0.1, 6)...)
				}
				q := prim.Quantized{Bits: c.bits, Group: c.group, Outputs: c.n, Dynamic: c.dynamic}
				got[i] = e.Floats(prim.QuantizedProduct(e, q, x, w, scale, offset, bias))
			}
			assert.InEpsilonSlice(t, add(got[0], 1e6), add(got[1], 1e6), 1e-6)
		})
	}
}

func add(v []float64, x float64) (out []float64) {
	for _, y := range v {
		out = append(out, y+x)
	}
	return out
}
