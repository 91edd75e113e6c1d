package prim_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/optest"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// The elements of an expanded tensor share memory, yet each has a gradient of its own.
func TestViewsOfAnExpandedTensorHaveAGradientForEachElement(t *testing.T) {
	rows := ir.InternLayout([]int64{3, 3}, []int64{0, 1})
	all := ir.InternLayout([]int64{3, 3}, []int64{0, 0})
	for _, layout := range []*ir.Layout{rows, all} {
		for name, c := range map[string]struct {
			view func(b op.Builder, x op.Val) op.Val
			want []float64
		}{
			"select": {func(b op.Builder, x op.Val) op.Val { return prim.Select(b, x, 0, 1) },
				[]float64{0, 0, 0, 1, 2, 3, 0, 0, 0}},
			"select of columns": {func(b op.Builder, x op.Val) op.Val { return prim.Select(b, x, 1, -1) },
				[]float64{0, 0, 1, 0, 0, 2, 0, 0, 3}},
			"slice": {func(b op.Builder, x op.Val) op.Val { return prim.Slice(b, x, 0, 0, 3, 2) },
				[]float64{1, 2, 3, 0, 0, 0, 4, 5, 6}},
			"transpose": {func(b op.Builder, x op.Val) op.Val { return prim.Transpose(b, x, 0, 1) },
				[]float64{1, 4, 7, 2, 5, 8, 3, 6, 9}},
		} {
			e := optest.New()
			e.ViewVJP = prim.ViewVJP
			x := e.Tensor(ir.F64, []int64{3}, 1, 2, 3)
			x.Layout = layout.ID
			x = e.Watch(x)
			out := c.view(e, x)
			cot := make([]float64, out.L().Numel)
			for i := range cot {
				cot[i] = float64(i + 1)
			}
			got := e.Backward(out, e.Tensor(ir.F64, out.Shape(), cot...), false, x)[0]
			assert.Equal(t, c.want, e.Floats(got), name)
		}
	}
}
