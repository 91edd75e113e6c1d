package prim

import (
	"math"

	"github.com/torchlette/torchlette/engine/op"
)

// Functions of a complex variable, made of functions of its real and imaginary part. Formulas multiply a part by its
// sign, 1 at zero, where an absolute value would do: the derivative of abs at zero is 0, which is wrong on the axes.

var (
	infinity = math.Inf(1)
	halfRoot = math.Sqrt(0.5)
)

// direction is -1 where x is negative, else 1.
func direction(b op.Builder, x op.Val) op.Val {
	return Where(b, Lt(b, x, num(0)), num(-1), Fill(b, num(1), x.DType(), x.Device(), x.Shape()))
}

func realSinh(b op.Builder, x op.Val) op.Val {
	near := Lt(b, Abs(b, x), num(1))
	u := Expm1(b, Where(b, near, x, num(0)))
	small := Add(b, u, Div(b, u, Add(b, u, num(1))))
	return Mul(b, Where(b, near, small, Sub(b, Exp(b, x), Exp(b, Neg(b, x)))), num(0.5))
}

func realCosh(b op.Builder, x op.Val) op.Val {
	return Mul(b, Add(b, Exp(b, x), Exp(b, Neg(b, x))), num(0.5))
}

func atan2(b op.Builder, y, x op.Val) op.Val { return Special(b, op.FnAtan2, y, x) }

// unaryParts makes a complex rule of a function of the parts.
func unaryParts(f func(b op.Builder, x parts) parts) op.Complex {
	return func(c *op.ComplexCall) []op.Val {
		y := f(c.B, split(c.B, c.In[0]))
		return joined(c.B, y.re, y.im)
	}
}

var (
	complexExp     = unaryParts(expOf)
	complexLog     = unaryParts(logOf)
	complexSqrt    = unaryParts(sqrtOf)
	complexRsqrt   = unaryParts(func(b op.Builder, x parts) parts { return inverse(b, sqrtOf(b, x)) })
	complexSin     = unaryParts(sinOf)
	complexCos     = unaryParts(cosOf)
	complexTanh    = unaryParts(tanhOf)
	complexSigmoid = unaryParts(func(b op.Builder, x parts) parts {
		t := tanhOf(b, parts{Mul(b, x.re, num(0.5)), Mul(b, x.im, num(0.5))})
		return parts{Mul(b, Add(b, t.re, num(1)), num(0.5)), Mul(b, t.im, num(0.5))}
	})
)

func inverse(b op.Builder, x parts) parts {
	re, im := quotient(b, parts{re: num(1)}, x)
	return parts{re, im}
}

func expOf(b op.Builder, x parts) parts {
	r := Exp(b, x.re)
	return parts{evenTimes(b, x.re, r, Cos(b, x.im)), oddTimes(b, x.re, r, Sin(b, x.im))}
}

func logOf(b op.Builder, x parts) parts {
	return parts{Log(b, modulus(b, x)), atan2(b, x.im, x.re)}
}

// sqrtOf takes the root of |x| + |re|, which has no cancellation; the other part follows from im.
func sqrtOf(b op.Builder, x parts) parts {
	up, right := direction(b, x.im), direction(b, x.re)
	twice := Add(b, modulus(b, x), Mul(b, right, x.re))
	zero := Eq(b, twice, num(0))
	t := Sqrt(b, Mul(b, Where(b, zero, num(1), twice), num(0.5)))
	other := Div(b, x.im, Mul(b, t, num(2)))
	t = Where(b, zero, Sqrt(b, twice), t)
	positive := Gt(b, right, num(0))
	return parts{Where(b, positive, t, Mul(b, up, other)), Where(b, positive, other, Mul(b, up, t))}
}

func sinOf(b op.Builder, x parts) parts {
	return parts{oddTimes(b, x.im, realCosh(b, x.im), Sin(b, x.re)), evenTimes(b, x.im, realSinh(b, x.im), Cos(b, x.re))}
}

func cosOf(b op.Builder, x parts) parts {
	re := evenTimes(b, x.im, realCosh(b, x.im), Cos(b, x.re))
	return parts{re, Neg(b, oddTimes(b, x.im, realSinh(b, x.im), Sin(b, x.re)))}
}

// tanhOf is (t + i tan y) / (1 + i t tan y), t = tanh x, with both sides multiplied by cos y.
func tanhOf(b op.Builder, x parts) parts {
	t, s, c := Tanh(b, x.re), Sin(b, x.im), Cos(b, x.im)
	t2 := Mul(b, t, t)
	d := Add(b, Mul(b, c, c), Mul(b, t2, Mul(b, s, s)))
	return tanhEdges(b, x, parts{Div(b, t, d), Div(b, Mul(b, Mul(b, s, c), Sub(b, num(1), t2)), d)})
}

func timesI(b op.Builder, x parts) parts { return parts{Neg(b, x.im), x.re} }

func overI(b op.Builder, x parts) parts { return parts{x.im, Neg(b, x.re)} }

func plus(b op.Builder, x parts, re float64) parts { return parts{Add(b, x.re, num(re)), x.im} }

func minusFrom(b op.Builder, re float64, x parts) parts {
	return parts{Sub(b, num(re), x.re), Neg(b, x.im)}
}

// The inverse functions are Kahan's, "Branch cuts for complex elementary functions" (1987).
func asinOf(b op.Builder, x parts) parts {
	p, q := sqrtOf(b, minusFrom(b, 1, x)), sqrtOf(b, plus(b, x, 1))
	re, _ := product(b, p, q)
	im := Sub(b, Mul(b, p.re, q.im), Mul(b, p.im, q.re))
	return asinEdges(b, x, parts{atan2(b, x.re, re), Special(b, op.FnAsinh, im)})
}

func acosOf(b op.Builder, x parts) parts {
	p, q := sqrtOf(b, minusFrom(b, 1, x)), sqrtOf(b, plus(b, x, 1))
	im := Sub(b, Mul(b, q.re, p.im), Mul(b, q.im, p.re))
	return acosEdges(b, x, parts{Mul(b, atan2(b, p.re, q.re), num(2)), Special(b, op.FnAsinh, im)})
}

func acoshOf(b op.Builder, x parts) parts {
	p, q := sqrtOf(b, plus(b, x, -1)), sqrtOf(b, plus(b, x, 1))
	re := Add(b, Mul(b, p.re, q.re), Mul(b, p.im, q.im))
	return acoshEdges(b, x, parts{Special(b, op.FnAsinh, re), Mul(b, atan2(b, p.im, q.re), num(2))})
}

func atanhOf(b op.Builder, x parts) parts {
	p, q := logOf(b, plus(b, x, 1)), logOf(b, minusFrom(b, 1, x))
	return atanhEdges(b, x, parts{Mul(b, Sub(b, p.re, q.re), num(0.5)), Mul(b, Sub(b, p.im, q.im), num(0.5))})
}

// log1pOf is exact near 0: log|1+x| is log1p(2a + a^2 + b^2)/2.
func log1pOf(b op.Builder, x parts) parts {
	far := logOf(b, plus(b, x, 1))
	near := Lt(b, Maximum(b, Abs(b, x.re), Abs(b, x.im)), num(0.5))
	p, q := Where(b, near, x.re, num(0)), Where(b, near, x.im, num(0))
	s := Add(b, Mul(b, p, Add(b, p, num(2))), Mul(b, q, q))
	return parts{Where(b, near, Mul(b, Log1p(b, s), num(0.5)), far.re), far.im}
}

func expm1Of(b op.Builder, x parts) parts {
	half := Sin(b, Mul(b, x.im, num(0.5)))
	size := Expm1(b, x.re)
	re := Sub(b, Mul(b, size, Cos(b, x.im)), Mul(b, Mul(b, half, half), num(2)))
	re = Where(b, BitwiseAnd(b, IsNaN(b, re), IsInf(b, x.re)), b.Detach(size), re)
	return parts{re, oddTimes(b, x.re, Exp(b, x.re), Sin(b, x.im))}
}

func scaledLog(base float64) func(b op.Builder, x parts) parts {
	return func(b op.Builder, x parts) parts {
		y := logOf(b, x)
		return parts{Mul(b, y.re, num(1/math.Log(base))), Mul(b, y.im, num(1/math.Log(base)))}
	}
}

var complexFunctions = map[op.Fn]func(b op.Builder, x parts) parts{
	op.FnAsin: asinOf, op.FnAcos: acosOf, op.FnAcosh: acoshOf, op.FnAtanh: atanhOf, op.FnLog1p: log1pOf,
	op.FnExpm1: expm1Of, op.FnLog2: scaledLog(2), op.FnLog10: scaledLog(10),
	op.FnAsinh: func(b op.Builder, x parts) parts { return timesI(b, asinOf(b, overI(b, x))) },
	op.FnAtan:  func(b op.Builder, x parts) parts { return overI(b, atanhOf(b, timesI(b, x))) },
	op.FnTan:   func(b op.Builder, x parts) parts { return overI(b, tanhOf(b, timesI(b, x))) },
}

func complexSpecial(c *op.ComplexCall) []op.Val {
	f := complexFunctions[op.Fn(c.Attr[0])]
	if f == nil {
		return undefined(c)
	}
	return unaryParts(f)(c)
}

// LogAddExp is log(exp(x) + exp(y)) of complex operands: the one of larger real part, plus log1p of a quotient.
func LogAddExp(b op.Builder, x, y op.Val) op.Val {
	first := Ge(b, Real(b, x), Real(b, y))
	large, small := Where(b, first, x, y), Where(b, first, y, x)
	finite := Lt(b, Abs(b, Real(b, large)), num(infinity))
	rest := Log1p(b, Exp(b, Where(b, finite, Sub(b, small, large), num(0))))
	return Where(b, finite, Add(b, large, rest), large)
}

// complexPow is r^a exp(-b t) at the angle a t + b log r, of a base (r, t) in polar form and an exponent a + bi. 0 to
// the power 0 is 1, and 0 to another power is 0.
func complexPow(c *op.ComplexCall) []op.Val {
	b, x, y := c.B, c.In[0], c.In[1]
	if x.IsScalar() {
		x = Fill(b, x, y.DType(), y.Device(), y.Shape())
	}
	x = Cast(b, x, x.DType().Complex())
	zero := Eq(b, x, op.IntVal(0))
	base := split(b, Where(b, zero, Fill(b, num(1), x.DType(), x.Device(), x.Shape()), x))
	r, t, e := modulus(b, base), atan2(b, base.im, base.re), split(b, y)
	size, angle := Pow(b, r, e.re), Mul(b, t, e.re)
	if e.im.Kind != op.None {
		size = Mul(b, size, Exp(b, Neg(b, Mul(b, t, e.im))))
		angle = Add(b, angle, Mul(b, Log(b, r), e.im))
	}
	z := joined(b, Mul(b, size, Cos(b, angle)), Mul(b, size, Sin(b, angle)))[0]
	one := Fill(b, op.IntVal(1), z.DType(), z.Device(), z.Shape())
	atZero := one
	if y.IsTensor() {
		atZero = Where(b, Eq(b, y, op.IntVal(0)), one, op.IntVal(0))
	} else if y.Float() != 0 {
		atZero = ZerosLike(b, z)
	}
	return []op.Val{Where(b, zero, atZero, z)}
}
