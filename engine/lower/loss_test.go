package lower_test

import (
	"math"
	"testing"

	"github.com/torchlette/torchlette/engine/op/optest"
	"github.com/torchlette/torchlette/ir"
)

// TestCrossEntropy compares the loss, its count, its statistics and its gradient with log(softmax). The last row's
// class is the ignored one, which is no class of x.
func TestCrossEntropy(t *testing.T) {
	const ignore = -100
	everyLayout(t, [][]int64{{5}, {2, 3}, {3, 1, 4}, {2, 3, 2, 2}, {0, 3}}, func(t *testing.T, e *optest.Eager,
		shape []int64, place placer) {
		x := place(0, ir.F64, source(-3, 3, false))
		xs := e.Floats(x)
		for dim, classes := range shape {
			if classes == 0 {
				continue
			}
			rows := append(append([]int64{}, shape[:dim]...), shape[dim+1:]...)
			n, after := ir.Numel(rows), ir.Numel(shape[dim+1:])
			var class, grad, loss, count, lse []float64
			dx := make([]float64, len(xs))
			for r := range n {
				at := func(c int64) int64 { return (r/after*classes+c)*after + r%after }
				target, g := r*2%classes, 0.5+float64(r)
				sum := 0.0
				for c := range classes {
					sum += math.Exp(xs[at(c)])
				}
				lse = append(lse, math.Log(sum))
				grad = append(grad, g)
				if r == n-1 && n > 1 {
					class, loss, count = append(class, ignore), append(loss, 0), append(count, 0)
					continue
				}
				for c := range classes {
					dx[at(c)] = g * math.Exp(xs[at(c)]) / sum
				}
				dx[at(target)] -= g
				class = append(class, float64(target))
				loss, count = append(loss, math.Log(sum)-xs[at(target)]), append(count, 1)
			}
			i := e.Tensor(ir.I64, rows, class...)
			attr := []int64{int64(dim), ignore}
			out := emit(e, "cross_entropy", attr, x, i)
			near(t, ir.F64, loss, e.Floats(out[0]), "loss", dim)
			near(t, ir.F64, count, e.Floats(out[1]), "count", dim)
			top, logsum := e.Floats(out[2]), e.Floats(out[3])
			for r := range top {
				top[r] += logsum[r]
			}
			near(t, ir.F64, lse, top, "statistics", dim)
			g := e.Tensor(ir.F64, rows, grad...)
			near(t, ir.F64, dx, e.Floats(emit(e, "cross_entropy_grad", attr, g, x, i, out[2], out[3])[0]), "gradient", dim)
		}
	})
}
