package engine

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// Windows with padding, of which the border alone is written for rows of 33 elements, have the values of windows over a
// value with that border. Whole numbers are summed in any order; the first session leaves numbers in the memory.
func TestPaddingHasTheValuesOfABorder(t *testing.T) {
	r := newSessionRig(t, true)
	r.e.planner.debug.Off = []string{"fold_pads"}
	weights := make([]float32, 4*3*3)
	for i := range weights {
		weights[i] = float32(i%7) - 3
	}
	w := r.floats([]int64{4, 1, 3, 3}, weights...)
	x := make([]float32, 4*9*33)
	for i := range x {
		x[i] = float32(i*5%11) - 15
	}
	windows := func(pad, stride int64) op.Windows {
		two := func(a, b int64) []int64 { return []int64{a, b} }
		return op.Windows{Kernel: two(3, 3), Stride: two(stride, stride), Lo: two(pad, pad), Dilation: two(1, 1),
			Base: two(1, 1), Out: two(8/stride+1, 32/stride+1)}
	}
	for _, c := range []struct {
		border float64
		f      func(s *lazy.Session, x op.Val, w op.Windows) op.Val
	}{
		{0, func(s *lazy.Session, x op.Val, win op.Windows) op.Val { return prim.Conv(s, x, r.val(w), win, 4) }},
		{0, func(s *lazy.Session, x op.Val, win op.Windows) op.Val { return prim.WindowSum(s, x, win) }},
		{math.Inf(-1), func(s *lazy.Session, x op.Val, win op.Windows) op.Val {
			y, _ := prim.WindowMax(s, x, win)
			return y
		}},
	} {
		for _, stride := range []int64{1, 2} {
			var y [2][]float32
			for bordered := range y {
				p := &primProgram{in: []SessionPort{port("x", 1, 4, 9, 33)},
					out: []SessionPort{port("y", 1, 4, 8/stride+1, 32/stride+1)},
					f: func(s *lazy.Session, in []op.Val) []op.Val {
						x, pad := in[0], int64(1)
						if bordered == 1 {
							full := prim.Fill(s, op.FloatVal(c.border), ir.F32, ir.CPU, []int64{1, 4, 11, 35})
							x = prim.StridedScatter(s, full, x, ir.InternLayout(x.Shape(), []int64{1540, 385, 35, 1}), 36)
							pad = 0
						}
						return []op.Val{c.f(s, x, windows(pad, stride))}
					}}
				s, err := r.e.newSession(p, SessionOptions{Threads: 1})
				require.Nil(t, err)
				y[bordered] = runSession(t, s, value("x", x, 1, 4, 9, 33))
				s.Close()
			}
			assert.Equal(t, y[1], y[0])
			assert.NotZero(t, y[0][5])
		}
	}
}

// Sessions make the border of a pool padding of its windows.
func TestSessionsFoldPadsOfPools(t *testing.T) {
	two := func(n int64) []int64 { return []int64{n, n} }
	win := op.Windows{Kernel: two(3), Stride: two(2), Lo: two(0), Dilation: two(1), Base: two(1), Out: two(2)}
	largest := func(s *lazy.Session, x op.Val) op.Val {
		y, _ := prim.WindowMax(s, x, win)
		return y
	}
	for name, c := range map[string]struct {
		border float64
		pool   func(s *lazy.Session, x op.Val) op.Val
		want   []float32
	}{
		"greatest elements": {math.Inf(-1), largest, []float32{-11, -9, -3, -1}},
		"after relu":        {0, largest, []float32{0, 0, 0, 0}},
		"sums": {0, func(s *lazy.Session, x op.Val) op.Val { return prim.WindowSum(s, x, win) },
			[]float32{-54, -72, -45, -54}},
	} {
		for _, off := range [][]string{nil, {"fold_pads"}} {
			r := newSessionRig(t, true)
			r.e.planner.debug.Off = off
			p := &primProgram{in: []SessionPort{port("x", 1, 4, 4)}, out: []SessionPort{port("y", 1, 2, 2)},
				f: func(s *lazy.Session, x []op.Val) []op.Val {
					v := x[0]
					if name == "after relu" {
						v = prim.Relu(s, v)
					}
					full := prim.Fill(s, op.FloatVal(c.border), ir.F32, ir.CPU, []int64{1, 6, 6})
					return []op.Val{c.pool(s, prim.StridedScatter(s, full, v, ir.InternLayout(v.Shape(), []int64{36, 6, 1}), 7))}
				}}
			s, err := r.e.newSession(p, SessionOptions{})
			require.Nil(t, err)
			x := make([]float32, 16)
			for i := range x {
				x[i] = float32(i) - 16
			}
			assert.Equal(t, c.want, runSession(t, s, value("x", x, 1, 4, 4)), name)
			scatters := false
			plan := s.shapes[0].plan.Plan.Program
			for i := range plan.Nodes {
				scatters = scatters || op.PrimID(plan.Nodes[i].Op) == prim.Known.StridedScatter
			}
			assert.Equal(t, off != nil, scatters, name)
			s.Close()
		}
	}
}
