package optest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// Func computes one float64 result from float64 inputs.
type Func func(b op.Builder, x []op.Val) op.Val

// Input is the shape and elements of an argument of a Func.
type Input struct {
	Shape []int64
	V     []float64
}

const gradStep = 1e-5

// CheckGrad compares the gradient of f with central differences; with second, the gradient of that gradient too. views
// is prim.ViewVJP. Steps of 1e-5 in float64 leave errors of about 1e-9 for functions with a moderate third derivative.
func CheckGrad(t *testing.T, views ViewRule, f Func, second bool, inputs ...Input) {
	t.Helper()
	check(t, "gradient", views, f, inputs)
	if !second {
		return
	}
	for i := range inputs {
		check(t, "second gradient", views, gradientOf(f, i), inputs)
	}
}

// gradientOf is the cotangent of input i under a fixed, uneven cotangent of f's result.
func gradientOf(f Func, i int) Func {
	return func(b op.Builder, x []op.Val) op.Val {
		e := b.(*Eager)
		y := f(b, x)
		g := e.Backward(y, weights(e, y), true, x[i])[0]
		if g.Kind == op.None {
			return e.Tensor(ir.F64, x[i].Shape(), make([]float64, x[i].L().Numel)...)
		}
		return g
	}
}

// weights is a cotangent that differs at every element of y.
func weights(e *Eager, y op.Val) op.Val {
	w := make([]float64, y.L().Numel)
	for i := range w {
		w[i] = 0.5 + math.Mod(float64(i)*0.7548776662, 1)
	}
	return e.Tensor(y.DType(), y.Shape(), w...)
}

func check(t *testing.T, what string, views ViewRule, f Func, inputs []Input) {
	t.Helper()
	eval := func(in []Input) (e *Eager, x []op.Val, y op.Val) {
		e = New()
		e.Default, e.ViewVJP = ir.F64, views
		for _, a := range in {
			x = append(x, e.Watch(e.Tensor(ir.F64, a.Shape, a.V...)))
		}
		return e, x, f(e, x)
	}
	loss := func(in []Input) float64 {
		e, _, y := eval(in)
		w := e.Floats(weights(e, y))
		s := 0.0
		for i, v := range e.Floats(y) {
			s += v * w[i]
		}
		return s
	}
	e, x, y := eval(inputs)
	var got []op.Val
	if y.Tape == 0 {
		got = make([]op.Val, len(x))
	} else {
		got = e.Backward(y, weights(e, y), false, x...)
	}
	if what == "gradient" { // later steps may have no further derivative
		checkTangents(t, e)
	}
	for i, a := range inputs {
		have := make([]float64, len(a.V))
		if got[i].Kind != op.None {
			require.True(t, ir.SameShape(a.Shape, got[i].Shape()), "%s: shape %v for input %d of shape %v", what,
				got[i].Shape(), i, a.Shape)
			have = e.Floats(got[i])
		}
		for j := range a.V {
			moved := append([]Input(nil), inputs...)
			at := func(d float64) float64 {
				v := append([]float64(nil), a.V...)
				v[j] += d
				moved[i].V = v
				return loss(moved)
			}
			want := (at(gradStep) - at(-gradStep)) / (2 * gradStep)
			require.InDelta(t, want, have[j], 1e-6*math.Max(1, math.Abs(want)), "%s: input %d, element %d", what, i, j)
		}
	}
}
