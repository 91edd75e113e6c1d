package engine

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
)

// Sessions keep the channels of a position beside each other in a network of depthwise convolutions; results are those
// of planes.
func TestSessionsKeepChannelsLast(t *testing.T) {
	const channels, outputs, size = 18, 5, 7
	numbers := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(i*37%101)/101 - 0.5
		}
		return x
	}
	windows := func(taps, lo int64) op.Windows {
		one := []int64{1, 1}
		return op.Windows{Kernel: []int64{taps, taps}, Stride: one, Lo: []int64{lo, lo}, Dilation: one, Base: one,
			Out: []int64{size, size}}
	}
	var want []float32
	for _, off := range [][]string{{"channels_last"}, nil, {"fold_constants"}} {
		r := newSessionRig(t, true)
		r.e.planner.debug.Off = off
		first, each, bias := r.floats([]int64{channels, 3, 3, 3}, numbers(channels*27)...),
			r.floats([]int64{channels, 1, 3, 3}, numbers(channels*9)...), r.floats([]int64{1, channels, 1, 1},
				numbers(channels)...)
		mixed := r.floats([]int64{channels, channels, 1, 1}, numbers(channels*channels)...)
		last := r.floats([]int64{outputs, channels, 1, 1}, numbers(outputs*channels)...)
		p := &primProgram{in: []SessionPort{port("x", 2, 3, size, size)},
			out: []SessionPort{port("y", 2, outputs, size, size)}, f: func(s *lazy.Session, x []op.Val) []op.Val {
				shape := []int64{2, channels, size, size}
				y := prim.Conv(s, x[0], r.val(first), windows(3, 1), 1)
				y = prim.Relu(s, prim.Add(s, y, prim.Expand(s, r.val(bias), shape)))
				z := prim.Minimum(s, prim.Conv(s, y, r.val(each), windows(3, 1), channels), op.FloatVal(0.25))
				y = prim.Add(s, prim.Conv(s, z, r.val(mixed), windows(1, 0), 1), y)
				return []op.Val{prim.Conv(s, y, r.val(last), windows(1, 0), 1)}
			}}
		s, err := r.e.newSession(p, SessionOptions{})
		require.Nil(t, err)
		got := runSession(t, s, value("x", numbers(2*3*size*size), 2, 3, size, size))
		if want == nil {
			want = got
		}
		assert.InDeltaSlice(t, want, got, 1e-5, off)
		found := convolutionsLast(s)
		assert.Equal(t, map[bool]int{true: 4}[off == nil], found, off)
		s.Close()
	}
}

// Sessions keep channels last in a network of 3x3 convolutions, a pool and a residual. Results are those of planes.
func TestSessionsKeepChannelsLastAroundWinograd(t *testing.T) {
	const channels, size, half = 20, 24, 12
	numbers := func(n int, scale float32) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = scale * (float32(i*37%101)/101 - 0.5)
		}
		return x
	}
	windows := func(taps, step, lo, out int64) op.Windows {
		return op.Windows{Kernel: []int64{taps, taps}, Stride: []int64{step, step}, Lo: []int64{lo, lo},
			Dilation: []int64{1, 1}, Base: []int64{1, 1}, Out: []int64{out, out}}
	}
	var want []float32
	for _, off := range [][]string{{"channels_last"}, {"pack_weights"}, nil} {
		r := newSessionRig(t, true)
		r.e.planner.debug.Off = off
		first := r.floats([]int64{channels, 3, 7, 7}, numbers(channels*147, 0.2)...)
		square := r.floats([]int64{channels, channels, 3, 3}, numbers(channels*channels*9, 0.2)...)
		p := &primProgram{in: []SessionPort{port("x", 2, 3, size, size)},
			out: []SessionPort{port("y", 2, channels, half/2, half/2)}, f: func(s *lazy.Session, x []op.Val) []op.Val {
				y := prim.Relu(s, prim.Conv(s, x[0], r.val(first), windows(7, 1, 3, size), 1))
				y, _ = prim.WindowMax(s, y, windows(3, 2, 1, half))
				z := prim.Relu(s, prim.Conv(s, y, r.val(square), windows(3, 1, 1, half), 1))
				y = prim.Relu(s, prim.Add(s, prim.Conv(s, z, r.val(square), windows(3, 1, 1, half), 1), y))
				return []op.Val{prim.Conv(s, y, r.val(square), windows(3, 2, 1, half/2), 1)}
			}}
		s, err := r.e.newSession(p, SessionOptions{})
		require.Nil(t, err)
		got := runSession(t, s, value("x", numbers(2*3*size*size, 1), 2, 3, size, size))
		if want == nil {
			want = got
		}
		assert.InDeltaSlice(t, want, got, 1e-5, off)
		found := convolutionsLast(s)
		assert.Equal(t, map[bool]int{true: 4}[!slices.Contains(off, "channels_last")], found, off)
		s.Close()
	}
}

// convolutionsLast is the number of convolutions of a session's plan whose channels come last.
func convolutionsLast(s *InferenceSession) (found int) {
	plan := s.shapes[0].plan.Plan.Program
	for i := range plan.Nodes {
		if op.PrimID(plan.Nodes[i].Op) == prim.Known.ConvLast {
			found++
		}
	}
	return found
}
