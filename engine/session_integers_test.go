package engine

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// A convolution of what DequantizeLinear makes, with a quantized result, is one step on integers. Scales are powers of
// two, so that floats round nowhere but to the result, and both evaluations have the same bits.
func TestSessionsConvolveNumbersOf8BitsAsIntegers(t *testing.T) {
	const channels, outputs, size, taps = 5, 18, 6, 3
	numbers, x := make([]float32, outputs*channels*taps*taps), make([]float32, channels*size*size)
	for i := range numbers {
		numbers[i] = float32(i*37%255) - 127
	}
	for i := range x {
		x[i] = float32(i*29%64) / 4
	}
	var want []float32
	for _, off := range [][]string{{"keep_integers"}, nil, {"fold_constants"}} {
		r := newSessionRig(t, true)
		r.e.planner.debug.Off = off
		w, scale, bias := r.floats([]int64{outputs, channels, taps, taps}, numbers...),
			r.floats([]int64{1}, 1.0/64), r.floats([]int64{1, outputs, 1, 1}, numbers[:outputs]...)
		win := op.Windows{Kernel: []int64{taps, taps}, Stride: []int64{1, 1}, Lo: []int64{1, 1}, Dilation: []int64{1, 1},
			Base: []int64{1, 1}, Out: []int64{size, size}}
		quantized := func(s *lazy.Session, v op.Val, step, zero float64) op.Val {
			v = prim.Add(s, prim.Round(s, prim.Div(s, v, op.FloatVal(step))), op.FloatVal(zero))
			v = prim.Minimum(s, prim.Maximum(s, v, op.FloatVal(0)), op.FloatVal(255))
			v = prim.Cast(s, prim.Cast(s, prim.Cast(s, v, ir.I32), ir.U8), ir.F32)
			return prim.Mul(s, prim.Sub(s, v, op.FloatVal(zero)), op.FloatVal(step))
		}
		p := &primProgram{in: []SessionPort{port("x", 1, channels, size, size)},
			out: []SessionPort{port("y", 1, outputs, size, size)}, f: func(s *lazy.Session, x []op.Val) []op.Val {
				weight := prim.Mul(s, prim.Cast(s, prim.Cast(s, r.val(w), ir.I8), ir.F32),
					prim.Expand(s, r.val(scale), []int64{outputs, channels, taps, taps}))
				y := prim.Conv(s, quantized(s, x[0], 0.25, 9), weight, win, 1)
				y = prim.Relu(s, prim.Add(s, y, prim.Expand(s, r.val(bias), []int64{1, outputs, size, size})))
				return []op.Val{quantized(s, y, 0.5, 3)}
			}}
		s, err := r.e.newSession(p, SessionOptions{})
		require.Nil(t, err)
		got := runSession(t, s, value("x", x, 1, channels, size, size))
		if want == nil {
			want = got
			assert.Greater(t, slices.Max(want), float32(20))
		}
		assert.Equal(t, want, got, off)
		plan, found := s.shapes[0].plan.Plan.Program, false
		for i := range plan.Nodes {
			found = found || op.PrimID(plan.Nodes[i].Op) == prim.Known.QuantizedConv
		}
		assert.Equal(t, off == nil, found, off)
		s.Close()
	}
}
