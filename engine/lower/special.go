package lower

import (
	"math"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

func init() {
	rules := map[string]lowering{}
	for f, body := range specialBodies {
		rules[f.String()] = mapping(f.String(), body)
	}
	for _, f := range []op.Fn{op.FnIgamma, op.FnIgammac} {
		rules[f.String()] = func(p *program) { lowerGamma(p, f) }
	}
	register(rules)
}

var specialBodies = map[op.Fn]body{
	op.FnAcos:          acos,
	op.FnAiry:          airy,
	op.FnAsin:          asin,
	op.FnAtan:          atan,
	op.FnAtan2:         atan2,
	op.FnAcosh:         acosh,
	op.FnAsinh:         asinh,
	op.FnAtanh:         atanh,
	op.FnBesselJ0:      func(k *kernel, t ir.DType, x []int) int { return besselJ0.first(k, t, x[0]) },
	op.FnBesselJ1:      func(k *kernel, t ir.DType, x []int) int { return besselJ1.first(k, t, x[0]) },
	op.FnBesselK0:      timesExpNeg(besselK0e),
	op.FnBesselK0e:     besselK0e,
	op.FnBesselK1:      timesExpNeg(besselK1e),
	op.FnBesselK1e:     besselK1e,
	op.FnBesselY0:      func(k *kernel, t ir.DType, x []int) int { return besselJ0.second(k, t, x[0]) },
	op.FnBesselY1:      func(k *kernel, t ir.DType, x []int) int { return besselJ1.second(k, t, x[0]) },
	op.FnCopysign:      func(k *kernel, t ir.DType, x []int) int { return copysign(k, t, x[0], x[1]) },
	op.FnDigamma:       digamma,
	op.FnErf:           unaryOp(loopir.OpErf),
	op.FnErfc:          erfc,
	op.FnErfcx:         func(k *kernel, t ir.DType, x []int) int { return erfcx(k, t, x[0]) },
	op.FnErfinv:        erfinv,
	op.FnFrexpExponent: func(k *kernel, t ir.DType, x []int) int { e, _ := frexp(k, t, x[0]); return e },
	op.FnFrexpMantissa: func(k *kernel, t ir.DType, x []int) int { _, m := frexp(k, t, x[0]); return m },
	op.FnExpm1:         expm1,
	op.FnFmod:          binaryOp(loopir.OpRem),
	op.FnGcd:           gcd,
	op.FnI0:            timesExp(besselI0e),
	op.FnI0e:           besselI0e,
	op.FnI1:            timesExp(besselI1e),
	op.FnI1e:           besselI1e,
	op.FnLgamma:        func(k *kernel, t ir.DType, x []int) int { return lgamma(k, t, x[0]) },
	op.FnLog10: logBase(math.Ln10, 1233./(1<<12), 330985980542./(1<<40), log10of2-1233./(1<<12),
		log10of2-330985980542./(1<<40)),
	op.FnLog1p:     log1p,
	op.FnLog2:      logBase(math.Ln2, 1, 1, 0, 0),
	op.FnLogNdtr:   logNdtr,
	op.FnNdtri:     ndtri,
	op.FnNextafter: nextafter,
	op.FnTan: func(k *kernel, _ ir.DType, x []int) int {
		return k.Div(k.Un(loopir.OpSin, x[0]), k.Un(loopir.OpCos, x[0]))
	},
	op.FnZeta: zeta,
}

// bits describes a float dtype: the integer dtype of its width, and the number of its fraction bits.
func bits(t ir.DType) (asInt ir.DType, fraction int64) {
	if t == ir.F64 {
		return ir.I64, 52
	}
	return ir.I32, 23
}

// negative is the sign bit, of zeros too.
func negative(k *kernel, t ir.DType, x int) int {
	asInt, _ := bits(t)
	return k.Lt(k.Bitcast(asInt, x), k.Int(asInt, 0))
}

func copysign(k *kernel, t ir.DType, x, y int) int {
	a := k.Abs(x)
	return k.Select(negative(k, t, y), k.Neg(a), a)
}

// firstQuadrant is the angle of the point (x, y), both >= 0.
func firstQuadrant(k *kernel, t ir.DType, y, x int) int {
	hi, lo := k.Max(x, y), k.Min(x, y)
	r := k.Div(lo, hi)
	// Two zeros and two infinities included.
	r = k.Select(k.Eq(lo, hi), k.Select(k.Eq(hi, k.Float(t, 0)), hi, k.Float(t, 1)), r)
	near := k.Le(r, k.Float(t, math.Sqrt2-1))
	one := k.Float(t, 1)
	s := k.Select(near, r, k.Div(k.Sub(r, one), k.Add(r, one)))
	a := k.Mul(s, series(k, t, k.Mul(s, s), 0, 3-2*math.Sqrt2, atanSeries))
	a = k.Select(near, a, k.Add(k.Float(t, math.Pi/4), a))
	return k.Select(k.Gt(y, x), k.Sub(k.Float(t, math.Pi/2), a), a)
}

// series is the Chebyshev sum of a function on [lo, hi].
func series(k *kernel, t ir.DType, x int, lo, hi float64, c []float64) int {
	return chebyshev(k, t, k.Fma(x, k.Float(t, 2/(hi-lo)), k.Float(t, -(hi+lo)/(hi-lo))), c)
}

func atan(k *kernel, t ir.DType, x []int) int {
	return copysign(k, t, firstQuadrant(k, t, k.Abs(x[0]), k.Float(t, 1)), x[0])
}

func atan2(k *kernel, t ir.DType, v []int) int {
	y, x := v[0], v[1]
	a := firstQuadrant(k, t, k.Abs(y), k.Abs(x))
	a = k.Select(negative(k, t, x), k.Sub(k.Float(t, math.Pi), a), a)
	nan := k.Add(x, y)
	return k.Select(k.Un(loopir.OpIsNaN, nan), k.Select(oppositeInfinities(k, t, x, y), copysign(k, t, a, y), nan),
		copysign(k, t, a, y))
}

// oppositeInfinities reports infinities of oppositeInfinities sign, whose sum is NaN though no operand is.
func oppositeInfinities(k *kernel, t ir.DType, x, y int) int {
	inf := k.Float(t, math.Inf(1))
	return k.And(k.Eq(k.Abs(x), inf), k.Eq(k.Abs(y), inf))
}

// sqrt1MinusSquare is sqrt(1-x^2).
func sqrt1MinusSquare(k *kernel, t ir.DType, x int) int {
	one := k.Float(t, 1)
	return k.Un(loopir.OpSqrt, k.Mul(k.Sub(one, x), k.Add(one, x)))
}

func asin(k *kernel, t ir.DType, x []int) int {
	leg := sqrt1MinusSquare(k, t, x[0])
	a := firstQuadrant(k, t, k.Abs(x[0]), leg)
	return k.Select(k.Un(loopir.OpIsNaN, leg), leg, copysign(k, t, a, x[0]))
}

func acos(k *kernel, t ir.DType, x []int) int {
	leg := sqrt1MinusSquare(k, t, x[0])
	a := firstQuadrant(k, t, leg, k.Abs(x[0]))
	a = k.Select(k.Lt(x[0], k.Float(t, 0)), k.Sub(k.Float(t, math.Pi), a), a)
	return k.Select(k.Un(loopir.OpIsNaN, leg), leg, a)
}

// past is the x beyond which adding 1 to x^2 does not change it.
func past(k *kernel, t ir.DType, x int) int {
	if t == ir.F64 {
		return k.Gt(x, k.Float(t, 1e9))
	}
	return k.Gt(x, k.Float(t, 1e5))
}

// logTwice is log(2x).
func logTwice(k *kernel, t ir.DType, x int) int {
	return k.Add(k.Un(loopir.OpLog, x), k.Float(t, math.Ln2))
}

// asinh is log1p(x + x^2/(1 + sqrt(1 + x^2))) of |x|, with the sign of x.
func asinh(k *kernel, t ir.DType, x []int) int {
	a, one := k.Abs(x[0]), k.Float(t, 1)
	s := k.Mul(a, a)
	y := log1p(k, t, []int{k.Add(a, k.Div(s, k.Add(one, k.Un(loopir.OpSqrt, k.Add(one, s)))))})
	return copysign(k, t, k.Select(past(k, t, a), logTwice(k, t, a), y), x[0])
}

// acosh is log1p(u + sqrt(u(u+2))) with u = x-1.
func acosh(k *kernel, t ir.DType, x []int) int {
	u := k.Sub(x[0], k.Float(t, 1))
	y := log1p(k, t, []int{k.Add(u, k.Un(loopir.OpSqrt, k.Mul(u, k.Add(u, k.Float(t, 2)))))})
	y = k.Select(past(k, t, x[0]), logTwice(k, t, x[0]), y)
	return k.Select(k.Lt(u, k.Float(t, 0)), k.Float(t, math.NaN()), y)
}

// atanh is log1p(2x/(1-x))/2 of |x|, with the sign of x.
func atanh(k *kernel, t ir.DType, x []int) int {
	a := k.Abs(x[0])
	y := k.Mul(k.Float(t, 0.5), log1p(k, t, []int{k.Div(k.Add(a, a), k.Sub(k.Float(t, 1), a))}))
	return k.Select(k.Un(loopir.OpIsNaN, y), y, copysign(k, t, y, x[0]))
}

// frexp takes the exponent from the bits; denormals are scaled first. 0, infinities and NaN are their own mantissas,
// with exponent 0.
func frexp(k *kernel, t ir.DType, x int) (exponent, mantissa int) {
	asInt, fraction := bits(t)
	bias, scale := int64(126), int64(24)
	if t == ir.F64 {
		bias, scale = 1022, 54
	}
	tiny := k.Lt(k.Abs(x), k.Float(t, math.Ldexp(1, int(1-bias))))
	i := k.Bitcast(asInt, k.Select(tiny, k.Mul(x, k.Float(t, math.Ldexp(1, int(scale)))), x))
	field := k.Int(asInt, (2*bias+3)<<fraction)
	e := k.Bin(loopir.OpShr, k.And(i, field), k.Int(asInt, fraction))
	e = k.Sub(e, k.Select(tiny, k.Int(asInt, bias+scale), k.Int(asInt, bias)))
	m := k.Bitcast(t, k.Or(k.And(i, k.Un(loopir.OpNot, field)), k.Int(asInt, bias<<fraction)))
	zero := k.Float(t, 0)
	plain := k.And(k.Ne(x, zero), k.Lt(k.Abs(x), k.Float(t, math.Inf(1))))
	return k.Select(plain, k.Cast(t, e), zero), k.Select(plain, m, x)
}

// nextafter steps the bits, which order the numbers of one sign. Half types are computed in float32, whose bits begin
// with theirs; below 2^-14 the numbers of float16 are 2^-24 apart.
func nextafter(k *kernel, t ir.DType, v []int) int {
	asInt, _ := bits(t)
	x, y, zero := v[0], v[1], k.Float(t, 0)
	half := k.body
	step := k.Int(asInt, map[ir.DType]int64{ir.F32: 1, ir.F64: 1, ir.BF16: 1 << 16, ir.F16: 1 << 13}[half])
	i := k.Bitcast(asInt, x)
	away := k.Un(loopir.OpNot, k.Xor(k.Lt(x, y), k.Gt(x, zero)))
	moved := k.Bitcast(t, k.Select(away, k.Add(i, step), k.Sub(i, step)))
	least := k.Bitcast(t, step)
	if half == ir.F16 {
		least = k.Float(t, math.Ldexp(1, -24))
		a, normal, inf := k.Abs(x), k.Float(t, math.Ldexp(1, -14)), k.Float(t, math.Inf(1))
		subnormal := k.Or(k.Lt(a, normal), k.And(k.Eq(a, normal), k.Un(loopir.OpNot, away)))
		moved = k.Select(subnormal, copysign(k, t, k.Select(away, k.Add(a, least), k.Sub(a, least)), x), moved)
		moved = k.Select(k.Eq(a, inf), copysign(k, t, k.Float(t, 65504), x), moved)
	}
	moved = k.Select(k.Eq(x, zero), copysign(k, t, least, y), moved)
	moved = k.Select(k.Eq(x, y), y, moved)
	nan := k.Select(k.Un(loopir.OpIsNaN, x), x, y)
	return k.Select(k.Un(loopir.OpIsNaN, nan), nan, moved)
}

// gcd is Euclid's algorithm, unrolled to the most steps that two numbers of the dtype need: those of neighbouring
// Fibonacci numbers (Lame's theorem). The remainder by 0 is 0.
func gcd(k *kernel, t ir.DType, x []int) int {
	steps := 46
	if t == ir.I64 || t == ir.U64 {
		steps = 93
	}
	a, b, zero := k.Abs(x[0]), k.Abs(x[1]), k.Int(t, 0)
	for range steps {
		a, b = k.Select(k.Eq(b, zero), a, b), k.Rem(a, b)
	}
	return k.Select(k.Eq(b, zero), a, b)
}

const log10of2 = math.Ln2 / math.Ln10

// logBase splits x = m 2^e with m in [sqrt(1/2), sqrt(2)), so that powers of the base have whole logarithms. The
// logarithm of 2 has two parts for float32 and for float64: the head has few bits, so that e times it is exact.
func logBase(ln, head32, head64, rest32, rest64 float64) body {
	return func(k *kernel, t ir.DType, x []int) int {
		head, rest := head32, rest32
		if t == ir.F64 {
			head, rest = head64, rest64
		}
		e, m := frexp(k, t, x[0])
		low := k.And(k.Lt(m, k.Float(t, math.Sqrt2/2)), k.Gt(m, k.Float(t, 0)))
		e, m = k.Select(low, k.Sub(e, k.Float(t, 1)), e), k.Select(low, k.Add(m, m), m)
		fraction := k.Div(k.Un(loopir.OpLog, m), k.Float(t, ln))
		return k.Fma(e, k.Float(t, head), k.Fma(e, k.Float(t, rest), fraction))
	}
}
