package lower

import (
	"math"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// expSquare is exp(sign*x^2) for |x| at most 30. The square has two parts, the first exact, since an absolute error of
// the exponent is a relative error of the result.
func expSquare(k *kernel, t ir.DType, x int, sign float64) int {
	asInt, _ := bits(t)
	mask := int64(-1 << 12)
	if t == ir.F64 {
		mask = -1 << 27
	}
	hi := k.Bitcast(t, k.And(k.Bitcast(asInt, x), k.Int(asInt, mask)))
	s := k.Float(t, sign)
	rest := k.Mul(k.Sub(x, hi), k.Add(x, hi))
	return k.Mul(k.Un(loopir.OpExp, k.Mul(s, k.Mul(hi, hi))), k.Un(loopir.OpExp, k.Mul(s, rest)))
}

// erfcxAbove is erfcx(x) = exp(x^2) erfc(x) for x >= 0 (Shepherd and Laframboise, 1981).
func erfcxAbove(k *kernel, t ir.DType, x int) int {
	one, c := k.Float(t, 1), k.Float(t, 3.75)
	u := k.Sub(one, k.Div(k.Add(c, c), k.Add(x, c)))
	return k.Div(chebyshev(k, t, u, erfcxSeries), k.Add(one, k.Add(x, x)))
}

// clampedAbs is |x|, at most 30: beyond, erfc and exp(-x^2) are 0 in every dtype.
func clampedAbs(k *kernel, t ir.DType, x int) int { return k.Min(k.Abs(x), k.Float(t, 30)) }

func erfc(k *kernel, t ir.DType, x []int) int {
	a := clampedAbs(k, t, x[0])
	tail := k.Mul(erfcxAbove(k, t, a), expSquare(k, t, a, -1))
	tail = k.Select(k.Lt(x[0], k.Float(t, 0)), k.Sub(k.Float(t, 2), tail), tail)
	return k.Select(k.Lt(a, k.Float(t, 0.5)), k.Sub(k.Float(t, 1), k.Un(loopir.OpErf, x[0])), tail)
}

// erfcx of a negative x is 2 exp(x^2) - erfcx(-x).
func erfcx(k *kernel, t ir.DType, x int) int {
	above := erfcxAbove(k, t, k.Abs(x))
	reflection := k.Mul(k.Float(t, 2), expSquare(k, t, clampedAbs(k, t, x), 1))
	return k.Select(k.Lt(x, k.Float(t, 0)), k.Sub(reflection, above), above)
}

// logNdtr is log(Phi(x)). Below -1 it uses erfcx, which does not underflow.
func logNdtr(k *kernel, t ir.DType, x []int) int {
	half := k.Float(t, 0.5)
	z := k.Mul(x[0], k.Float(t, math.Sqrt2/2))
	low := k.Sub(k.Un(loopir.OpLog, k.Mul(half, erfcxAbove(k, t, k.Abs(z)))), k.Mul(z, z))
	high := log1p(k, t, []int{k.Mul(k.Float(t, -0.5), erfc(k, t, []int{z}))})
	return k.Select(k.Lt(x[0], k.Float(t, -1)), low, high)
}

// quantile is the x with upper tail probability y of the normal distribution, for y up to 1/8.
func quantile(k *kernel, t ir.DType, y int) int {
	s := k.Un(loopir.OpSqrt, k.Mul(k.Float(t, -2), k.Un(loopir.OpLog, y)))
	near := series(k, t, s, 2, 6.5, normalTail)
	far := series(k, t, s, 6.5, 39, normalFarTail)
	return k.Select(k.Eq(y, k.Float(t, 0)), k.Float(t, math.Inf(1)), k.Select(k.Lt(s, k.Float(t, 6.5)), near, far))
}

// erfinvCentral is erfinv(v) for |v| up to 3/4.
func erfinvCentral(k *kernel, t ir.DType, v int) int {
	return k.Mul(v, series(k, t, k.Mul(v, v), 0, 0.5625, erfinvMiddle))
}

func erfinv(k *kernel, t ir.DType, x []int) int {
	a := k.Abs(x[0])
	y := k.Mul(k.Float(t, 0.5), k.Sub(k.Float(t, 1), a))
	tail := k.Mul(k.Float(t, math.Sqrt2/2), quantile(k, t, y))
	tail = k.Select(k.Un(loopir.OpIsNaN, tail), tail, copysign(k, t, tail, x[0]))
	return k.Select(k.Le(a, k.Float(t, 0.75)), erfinvCentral(k, t, x[0]), tail)
}

func ndtri(k *kernel, t ir.DType, x []int) int {
	p, one := x[0], k.Float(t, 1)
	v := k.Sub(k.Add(p, p), one)
	low := k.Lt(v, k.Float(t, 0))
	tail := quantile(k, t, k.Select(low, p, k.Sub(one, p)))
	tail = k.Select(low, k.Neg(tail), tail)
	return k.Select(k.Le(k.Abs(v), k.Float(t, 0.75)), k.Mul(k.Float(t, math.Sqrt2), erfinvCentral(k, t, v)), tail)
}
