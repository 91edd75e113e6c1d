package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// turn is rotary positions of heads of four elements.
func turn() *primProgram {
	return &primProgram{in: []SessionPort{port("x", 2, 4), port("cos", 2, 4), port("sin", 2, 4)},
		out: []SessionPort{port("y", 2, 4)},
		f: func(s *lazy.Session, x []op.Val) []op.Val {
			half := func(i int64) op.Val { return prim.Slice(s, x[0], 1, 2*i, 2*i+2, 1) }
			other := prim.Cat(s, []op.Val{prim.Neg(s, half(1)), half(0)}, 1)
			return []op.Val{prim.Add(s, prim.Mul(s, x[0], x[1]), prim.Mul(s, other, x[2]))}
		}}
}

var turned = [3]SessionValue{
	value("x", []float32{1, 2, 3, 4, 5, 6, 7, 8}, 2, 4),
	value("cos", []float32{1, 2, 3, 4, 1, 2, 3, 4}, 2, 4),
	value("sin", []float32{5, 6, 7, 8, 5, 6, 7, 8}, 2, 4),
}

// Rotary positions as PyTorch's models write them, x cos + cat(-x2, x1) sin, are one step of a session.
func TestSessionsTurnPairsInOneStep(t *testing.T) {
	for i, off := range [][]string{nil, nil, {"move_cats"}} {
		r := newSessionRig(t, i == 0)
		r.e.planner.debug.Off = off
		s, err := r.e.newSession(turn(), SessionOptions{})
		require.Nil(t, err)
		y := runSession(t, s, turned[0], turned[1], turned[2])
		assert.Equal(t, []float32{1 - 15, 4 - 24, 9 + 7, 16 + 16, 5 - 35, 12 - 48, 21 + 35, 32 + 48}, y)
		steps := 0
		for _, g := range s.shapes[0].plan.Plan.Segments {
			steps += len(g.Steps)
		}
		assert.Equal(t, off == nil, steps == 1, "%d steps", steps)
		s.Close()
	}
}

// Members of a session's group read a view once: a rotation loads both halves of the value and of its two tables, and
// stores two halves.
func TestSessionsLoadAViewOnce(t *testing.T) {
	r := newSessionRig(t, true)
	s, err := r.e.newSession(turn(), SessionOptions{})
	require.Nil(t, err)
	runSession(t, s, turned[0], turned[1], turned[2])
	k, ok := s.shapes[0].plan.Plan.Segments[0].Steps[0].Op.(*loopir.Kernel)
	require.True(t, ok)
	assert.Len(t, k.Access, 6+2)
	s.Close()
}
