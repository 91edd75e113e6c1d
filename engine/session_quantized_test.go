package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// A weight that DequantizeLinear makes of int8 stays in 8 bits, packed once. Whole numbers and scales that are powers
// of two have exact sums.
func TestSessionsKeepWeightsOfInt8(t *testing.T) {
	const terms, outputs = 70, 20
	numbers, scales := make([]float32, terms*outputs), make([]float32, outputs)
	for i := range numbers {
		numbers[i] = float32(i*37%255) - 127
	}
	for i := range scales {
		scales[i] = 1 / float32(int(1)<<(i%4))
	}
	x := make([]float32, 2*terms)
	for i := range x {
		x[i] = float32(i%9) - 4
	}
	want := make([]float32, 2*outputs)
	for i := range want {
		for k := range terms {
			want[i] += x[i/outputs*terms+k] * numbers[k*outputs+i%outputs]
		}
		want[i] *= scales[i%outputs]
	}
	for _, off := range [][]string{nil, {"keep_quantized"}, {"fold_constants"}} {
		r := newSessionRig(t, true)
		r.e.planner.debug.Off = off
		w, scale, zero := r.floats([]int64{terms, outputs}, numbers...), r.floats([]int64{1, outputs}, scales...),
			r.floats([]int64{1, outputs}, make([]float32, outputs)...)
		p := &primProgram{in: []SessionPort{port("x", 2, terms)}, out: []SessionPort{port("y", 2, outputs)},
			f: func(s *lazy.Session, x []op.Val) []op.Val {
				wide := func(v op.Val) op.Val { return prim.Expand(s, v, []int64{terms, outputs}) }
				number := prim.Cast(s, prim.Cast(s, r.val(w), ir.I8), ir.F32)
				weight := prim.Mul(s, prim.Sub(s, number, wide(r.val(zero))), wide(r.val(scale)))
				return []op.Val{prim.Matmul(s, x[0], weight, op.Val{})}
			}}
		s, err := r.e.newSession(p, SessionOptions{})
		require.Nil(t, err)
		assert.Equal(t, want, runSession(t, s, value("x", x, 2, terms)), off)
		plan, found := s.shapes[0].plan.Plan.Program, false
		for i := range plan.Nodes {
			found = found || op.PrimID(plan.Nodes[i].Op) == prim.Known.QuantizedProduct
		}
		assert.Equal(t, off == nil, found, off)
		if found {
			assert.Len(t, plan.Nodes, 1, "words and scales are made once")
		}
		s.Close()
	}
}
