package lower_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/optest"
	"github.com/torchlette/torchlette/ir"
)

// An overflowed step keeps every bit of the parameter and of its state, though the gradient is infinite or NaN. If the
// overflow operand is 0, the step gives the same bits as a step without this operand.
func TestAnOverflowedStepWritesNothing(t *testing.T) {
	w, g := []float64{1, -2, 0.5}, []float64{0.3, 0.1, -0.2}
	bad := []float64{math.Inf(1), math.NaN(), 0}
	state := [][]float64{{0.05, 0, -0.1}, {0.2, 0.01, 0.3}, {0.1, 0.5, 0.3}}
	adam := []float64{0.01, 0.9, 0.99, 1e-8, 0.02, 0.271, 0.0297, 0.1, 0.01}
	for _, tc := range []struct {
		name, prim string
		attr       []int64 // without the last: whether the step can overflow
		states     int
		numbers    []float64
		bias       int // numbers[bias:bias+2] are tensors where the step can overflow
	}{
		{"sgd", "sgd_step", []int64{0, 0, 0}, 0, []float64{0.1, 0, 0, 0.01, 0}, -1},
		{"sgd with momentum", "sgd_step", []int64{0, 1, 1}, 1, []float64{0.1, 0.9, 0.2, 0.01, 0}, -1},
		{"the first step of nesterov", "sgd_step", []int64{1, 0, 1}, 1, []float64{0.1, 0.9, 0, 0.01, 1}, -1},
		{"adam", "adam_step", []int64{0, 0, 0}, 2, adam, 5},
		{"adamw", "adam_step", []int64{1, 0, 1}, 2, adam, 5},
		{"amsgrad", "adam_step", []int64{1, 1, 0}, 3, adam, 5},
	} {
		run := func(g []float64, overflow float64) [][]float64 {
			e := optest.New()
			in := []op.Val{e.Tensor(ir.F64, []int64{3}, w...), e.Tensor(ir.F64, []int64{3}, g...)}
			for _, s := range state[:tc.states] {
				in = append(in, e.Tensor(ir.F64, []int64{3}, s...))
			}
			wide := func(x float64) op.Val {
				return e.View(e.Tensor(ir.F64, nil, x), ir.InternLayout([]int64{3}, []int64{0}), 0, op.ViewOp{})
			}
			numbers, can := tc.numbers, int64(0)
			if overflow >= 0 {
				can = 1
				in = append(in, wide(overflow))
				if b := tc.bias; b >= 0 {
					in = append(in, wide(numbers[b]), wide(numbers[b+1]))
					numbers = append(append([]float64{}, numbers[:b]...), numbers[b+2:]...)
				}
			}
			for _, x := range numbers {
				in = append(in, op.FloatVal(x))
			}
			var out [][]float64
			for _, y := range emit(e, tc.prim, append(append([]int64{}, tc.attr...), can), in...) {
				out = append(out, e.Floats(y))
			}
			return out
		}
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, append([][]float64{w}, state[:tc.states]...), run(bad, 1))
			assert.Equal(t, run(g, -1), run(g, 0))
		})
	}
}
