package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
)

// A layer norm as files of ONNX write it, with its exponent and its epsilon as tensors, is one primitive.
func TestSessionsFindNorms(t *testing.T) {
	for _, off := range [][]string{nil, {"find_norms"}, {"fold_numbers"}} {
		r := newSessionRig(t, true)
		r.e.planner.debug.Off = off
		two, eps := r.floats(nil, 2), r.floats(nil, 0.25)
		p := &primProgram{in: []SessionPort{port("x", 2, 4)}, out: []SessionPort{port("y", 2, 4)},
			f: func(s *lazy.Session, x []op.Val) []op.Val {
				mean := func(v op.Val) op.Val {
					return prim.Reshape(s, prim.Div(s, prim.Sum(s, v, []int64{1}), op.FloatVal(4)), []int64{2, 1})
				}
				wide := func(v op.Val) op.Val { return prim.Expand(s, v, []int64{2, 4}) }
				c := prim.Sub(s, x[0], wide(mean(x[0])))
				v := prim.Add(s, mean(prim.Pow(s, c, wide(r.val(two)))), prim.Expand(s, r.val(eps), []int64{2, 1}))
				return []op.Val{prim.Div(s, c, wide(prim.Sqrt(s, v)))}
			}}
		s, err := r.e.newSession(p, SessionOptions{})
		require.Nil(t, err)
		y := runSession(t, s, value("x", []float32{1, 2, 3, 4, 10, 10, 10, 10}, 2, 4))
		assert.InDeltaSlice(t, []float32{-1.224745, -0.408248, 0.408248, 1.224745, 0, 0, 0, 0}, y, 1e-5)
		found := map[op.PrimID]bool{}
		plan := s.shapes[0].plan.Plan.Program
		for i := range plan.Nodes {
			found[op.PrimID(plan.Nodes[i].Op)] = true
		}
		assert.Equal(t, off == nil, found[prim.Known.LayerNorm], off)
		assert.Equal(t, len(off) == 1 && off[0] == "fold_numbers", found[prim.Known.Pow], off)
		s.Close()
	}
}

// A number that a file computes from constants is one by the time of the second search.
func TestNumbersThatAreComputedAreFound(t *testing.T) {
	for i, off := range [][]string{nil, nil, {"fold_numbers"}} {
		r := newSessionRig(t, i == 0) // or a device whose memory the host cannot read
		r.e.planner.debug.Off = off
		four := r.floats(nil, 4)
		p := &primProgram{in: []SessionPort{port("x", 2, 2)}, out: []SessionPort{port("y", 2, 2)},
			f: func(s *lazy.Session, x []op.Val) []op.Val {
				return []op.Val{prim.Pow(s, x[0], prim.Expand(s, prim.Sqrt(s, r.val(four)), []int64{2, 2}))}
			}}
		s, err := r.e.newSession(p, SessionOptions{})
		require.Nil(t, err)
		y := runSession(t, s, value("x", []float32{1, 2, 3, 4}, 2, 2))
		assert.InDeltaSlice(t, []float32{1, 4, 9, 16}, y, 1e-5)
		plan := s.shapes[0].plan.Plan.Program
		assert.Equal(t, off != nil, plan.Prim(0).ID == prim.Known.Pow, "%v\n%s", off, plan)
		s.Close()
	}
}
