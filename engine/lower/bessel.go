package lower

import (
	"math"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// besselI is exp(-a) I_n(a) for a >= 0, without a factor a below 8. near and far are its series up to 8 and beyond.
func besselI(k *kernel, t ir.DType, a int, near, far []float64) int {
	lo := series(k, t, a, 0, 8, near)
	hi := k.Div(series(k, t, k.Div(k.Float(t, 8), a), 0, 1, far), k.Un(loopir.OpSqrt, a))
	return k.Select(k.Le(a, k.Float(t, 8)), lo, hi)
}

func besselI0e(k *kernel, t ir.DType, x []int) int {
	return besselI(k, t, k.Abs(x[0]), i0Near, i0Far)
}

// timesExp multiplies by exp(|x|) in halves: the product is finite for larger x than exp is.
func timesExp(f body) body {
	return func(k *kernel, t ir.DType, x []int) int {
		half := k.Un(loopir.OpExp, k.Mul(k.Float(t, 0.5), k.Abs(x[0])))
		return k.Mul(k.Mul(f(k, t, x), half), half)
	}
}

func besselI1e(k *kernel, t ir.DType, x []int) int {
	a := k.Abs(x[0])
	y := besselI(k, t, a, i1Near, i1Far)
	y = k.Select(k.Le(a, k.Float(t, 8)), k.Mul(a, y), y)
	return k.Select(k.Lt(x[0], k.Float(t, 0)), k.Neg(y), y)
}

// besselJY are the functions J and Y of one order. Up to 8 they are series in x^2, without a factor x and the singular
// part. From 8 on they are sqrt(2/(pi x)) times sums of cosine and sine, whose factors are series in (8/x)^2: Hankel's
// form, Abramowitz and Stegun 9.2.5 and 9.2.6.
type besselJY struct {
	order              float64 // 0 or 1
	first0, second0    []float64
	cosineFar, sineFar []float64
}

var (
	besselJ0 = besselJY{0, j0Near, y0Near, bessel0Cosine, bessel0Sine}
	besselJ1 = besselJY{1, j1Near, y1Near, bessel1Cosine, bessel1Sine}
)

// near is J(a) for a up to 8.
func (f besselJY) near(k *kernel, t ir.DType, a int) int {
	y := series(k, t, k.Mul(a, a), 0, 64, f.first0)
	if f.order == 1 {
		y = k.Mul(a, y)
	}
	return y
}

// far is J(a) and Y(a) for a from 8 on. With b = a - (2 order + 1) pi/4, sqrt(2) cos(b) and sqrt(2) sin(b) are sums of
// cos(a) and sin(a), so that no digits are lost in a - b.
func (f besselJY) far(k *kernel, t ir.DType, a int) (first, second int) {
	cos, sin := k.Un(loopir.OpCos, a), k.Un(loopir.OpSin, a)
	c, s := k.Add(cos, sin), k.Sub(sin, cos)
	if f.order == 1 {
		c, s = s, k.Neg(c)
	}
	r := k.Div(k.Float(t, 8), a)
	square := k.Mul(r, r)
	p, q := series(k, t, square, 0, 1, f.cosineFar), k.Mul(r, series(k, t, square, 0, 1, f.sineFar))
	scale := k.Un(loopir.OpSqrt, k.Div(k.Float(t, 1/math.Pi), a))
	return k.Mul(scale, k.Sub(k.Mul(p, c), k.Mul(q, s))), k.Mul(scale, k.Add(k.Mul(p, s), k.Mul(q, c)))
}

func (f besselJY) first(k *kernel, t ir.DType, x int) int {
	a := k.Abs(x)
	far, _ := f.far(k, t, a)
	y := k.Select(k.Le(a, k.Float(t, 8)), f.near(k, t, a), far)
	if f.order == 1 {
		y = k.Select(k.Lt(x, k.Float(t, 0)), k.Neg(y), y)
	}
	return y
}

// second is Y(x): NaN below 0 and -inf at 0.
func (f besselJY) second(k *kernel, t ir.DType, x int) int {
	singular := k.Mul(k.Un(loopir.OpLog, x), f.near(k, t, x))
	regular := series(k, t, k.Mul(x, x), 0, 64, f.second0)
	if f.order == 1 {
		singular = k.Sub(singular, k.Div(k.Float(t, 1), x))
		regular = k.Mul(x, regular)
	}
	near := k.Fma(k.Float(t, 2/math.Pi), singular, regular)
	_, far := f.far(k, t, x)
	y := k.Select(k.Le(x, k.Float(t, 8)), near, far)
	y = k.Select(k.Eq(x, k.Float(t, 0)), k.Float(t, math.Inf(-1)), y)
	return k.Select(k.Lt(x, k.Float(t, 0)), k.Float(t, math.NaN()), y)
}

// besselK is exp(x) K(x): near for x up to 2, and beyond a series in 2/x with the coefficients far.
func besselK(k *kernel, t ir.DType, x, near int, far []float64) int {
	two, zero := k.Float(t, 2), k.Float(t, 0)
	hi := k.Div(series(k, t, k.Div(two, x), 0, 1, far), k.Un(loopir.OpSqrt, x))
	y := k.Select(k.Le(x, two), k.Mul(k.Un(loopir.OpExp, x), near), hi)
	y = k.Select(k.Eq(x, zero), k.Float(t, math.Inf(1)), y)
	return k.Select(k.Lt(x, zero), k.Float(t, math.NaN()), y)
}

func besselK0e(k *kernel, t ir.DType, x []int) int {
	singular := k.Mul(k.Un(loopir.OpLog, x[0]), timesExp(besselI0e)(k, t, x))
	return besselK(k, t, x[0], k.Sub(series(k, t, k.Mul(x[0], x[0]), 0, 4, k0Near), singular), k0Far)
}

func besselK1e(k *kernel, t ir.DType, x []int) int {
	singular := k.Mul(k.Un(loopir.OpLog, x[0]), timesExp(besselI1e)(k, t, x))
	regular := k.Div(series(k, t, k.Mul(x[0], x[0]), 0, 4, k1Near), x[0])
	return besselK(k, t, x[0], k.Add(regular, singular), k1Far)
}

// timesExpNeg multiplies by exp(-x).
func timesExpNeg(f body) body {
	return func(k *kernel, t ir.DType, x []int) int { return k.Mul(k.Un(loopir.OpExp, k.Neg(x[0])), f(k, t, x)) }
}

// airy is Ai(x): a series for x in [-5, 2], and beyond the asymptotic forms of Abramowitz and Stegun 10.4.59 and
// 10.4.60 with b = 2/3 |x|^(3/2), whose factors are series in 1/b and 1/b^2.
func airy(k *kernel, t ir.DType, v []int) int {
	x, a := v[0], k.Abs(v[0])
	root := k.Un(loopir.OpSqrt, a)
	quarter := k.Un(loopir.OpSqrt, root)
	b := k.Mul(k.Float(t, 2./3), k.Mul(a, root))
	reach := func(at float64) int { return k.Div(k.Float(t, 2./3*at*math.Sqrt(at)), b) }
	right := k.Div(k.Mul(k.Un(loopir.OpExp, k.Neg(b)), series(k, t, reach(2), 0, 1, airyRight)), quarter)
	r := reach(5)
	square := k.Mul(r, r)
	cos, sin := k.Un(loopir.OpCos, b), k.Un(loopir.OpSin, b) // of b + pi/4: (cos - sin)/sqrt(2) and (sin + cos)/sqrt(2)
	left := k.Mul(series(k, t, square, 0, 1, airySine), k.Add(sin, cos))
	left = k.Sub(left, k.Mul(k.Mul(r, series(k, t, square, 0, 1, airyCosine)), k.Sub(cos, sin)))
	left = k.Div(k.Mul(left, k.Float(t, math.Sqrt(0.5/math.Pi))), quarter)
	y := k.Select(k.Lt(x, k.Float(t, -5)), left, series(k, t, x, -5, 2, airyNear))
	return k.Select(k.Gt(x, k.Float(t, 2)), right, y)
}
