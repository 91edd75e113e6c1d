package lower_test

import (
	"math"
	"testing"

	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/engine/op/optest"
)

// TestCrossEntropy compares the loss, its statistics and its gradient with log(softmax).
func TestCrossEntropy(t *testing.T) {
	everyLayout(t, [][]int64{{5}, {2, 3}, {3, 1, 4}, {2, 3, 2, 2}, {0, 3}}, func(t *testing.T, e *optest.Eager, shape []int64, place placer) {
		x := place(0, ir.F64, source(-3, 3, false))
		xs := e.Floats(x)
		for dim, classes := range shape {
			if classes == 0 {
				continue
			}
			rows := append(append([]int64{}, shape[:dim]...), shape[dim+1:]...)
			n, after := ir.Numel(rows), ir.Numel(shape[dim+1:])
			var class, grad, logp, lse []float64
			dx := make([]float64, len(xs))
			for r := range n {
				at := func(c int64) int64 { return (r/after*classes+c)*after + r%after }
				target, g := r*2%classes, 0.5+float64(r)
				sum := 0.0
				for c := range classes {
					sum += math.Exp(xs[at(c)])
				}
				for c := range classes {
					dx[at(c)] = -g * math.Exp(xs[at(c)]) / sum
				}
				dx[at(target)] += g
				class, grad = append(class, float64(target)), append(grad, g)
				logp, lse = append(logp, xs[at(target)]-math.Log(sum)), append(lse, math.Log(sum))
			}
			i := e.Tensor(ir.I64, rows, class...)
			out := emit(e, "cross_entropy", []int64{int64(dim)}, x, i)
			near(t, ir.F64, logp, e.Floats(out[0]), "log probability", dim)
			top, logsum := e.Floats(out[1]), e.Floats(out[2])
			for r := range top {
				top[r] += logsum[r]
			}
			near(t, ir.F64, lse, top, "statistics", dim)
			g := e.Tensor(ir.F64, rows, grad...)
			near(t, ir.F64, dx, e.Floats(emit(e, "cross_entropy_grad", []int64{int64(dim)}, g, x, i, out[1], out[2])[0]), "gradient", dim)
		}
	})
}
