package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
)

// The plan of a convolution with batch norm multiplies nothing but its weights, and the values stay.
func TestSessionsScaleWeights(t *testing.T) {
	counting := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32((i*7+3)%11)/11 - 0.4
		}
		return x
	}
	one := []int64{1, 1}
	win := op.Windows{Kernel: one, Stride: one, Lo: []int64{0, 0}, Dilation: one, Base: one, Out: []int64{4, 4}}
	var values [2][]float32
	for off := range 2 {
		r := newSessionRig(t, true)
		if off == 1 {
			r.e.planner.debug.Off = []string{"fold_scales"}
		}
		w := r.floats([]int64{3, 2, 1, 1}, counting(6)...)
		factor := r.floats([]int64{1, 3, 1, 1}, 2, -0.5, 3)
		p := &primProgram{in: []SessionPort{port("x", 1, 2, 4, 4)}, out: []SessionPort{port("y", 1, 3, 4, 4)},
			f: func(s *lazy.Session, x []op.Val) []op.Val {
				y := prim.Conv(s, x[0], r.val(w), win, 1)
				return []op.Val{prim.Mul(s, y, prim.Expand(s, r.val(factor), y.Shape()))}
			}}
		s, err := r.e.newSession(p, SessionOptions{})
		require.Nil(t, err)
		values[off] = runSession(t, s, value("x", counting(32), 1, 2, 4, 4))
		text := s.shapes[0].plan.Plan.Program.String()
		if off == 1 {
			assert.Contains(t, text, "mul")
		} else {
			assert.NotContains(t, text, "mul")
		}
	}
	assert.InDeltaSlice(t, values[1], values[0], 1e-6)
}
