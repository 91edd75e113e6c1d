package engine

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

func bytesOf(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// The plan of a convolution with batch norm multiplies nothing but its weights, and the values stay.
func TestSessionsScaleWeights(t *testing.T) {
	counting := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32((i*7+3)%11)/11 - 0.4
		}
		return x
	}
	win, _ := op.WindowsOf([]int64{2, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 4, 4, 1})
	var values [2][]float32
	for off := range 2 {
		r := newSessionRig(t, true)
		if off == 1 {
			r.e.planner.debug.Off = []string{"fold_scales"}
		}
		w := r.data(ir.F32, []int64{3, 2, 1, 1}, bytesOf(counting(6)))
		factor := r.data(ir.F32, []int64{1, 3, 1, 1}, bytesOf([]float32{2, -0.5, 3}))
		p := &primProgram{in: []SessionPort{port("x", 1, 2, 4, 4)}, out: []SessionPort{port("y", 1, 3, 4, 4)},
			f: func(s *lazy.Session, x []op.Val) []op.Val {
				return []op.Val{prim.Mul(s, prim.Conv(s, x[0], r.val(w), win, 1), prim.Expand(s, r.val(factor), []int64{1, 3, 4, 4}))}
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
