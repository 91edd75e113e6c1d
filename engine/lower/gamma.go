package lower

import (
	"math"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// binet is log(gamma(a)) - ((a-1/2)log(a) - a + log(2 pi)/2) for a from 3 on: the remainder of Stirling's formula
// (Abramowitz and Stegun 6.1.40).
func binet(k *kernel, t ir.DType, a int) int {
	r := k.Div(k.Float(t, 1), a)
	return k.Mul(r, series(k, t, k.Mul(r, r), 0, 1.0/9, binetSeries))
}

// lgammaAbove is log(gamma(a)) for a >= 0, to the dtype's relative precision near its zeros 1 and 2 too.
func lgammaAbove(k *kernel, t ir.DType, a int) int {
	one := k.Float(t, 1)
	log := k.Un(loopir.OpLog, a)
	below := k.Lt(a, one)
	z := k.Select(below, a, k.Sub(a, one)) // gamma(a) = gamma(a+1)/a
	near := k.Mul(k.Mul(z, k.Sub(z, one)), chebyshev(k, t, k.Sub(z, one), lgammaSeries))
	near = k.Select(below, k.Sub(near, log), near)
	stirling := k.Mul(k.Sub(a, k.Float(t, 0.5)), k.Sub(log, one))
	far := k.Add(k.Add(stirling, k.Float(t, (math.Log(2*math.Pi)-1)/2)), binet(k, t, a))
	return k.Select(k.Lt(a, k.Float(t, 3)), near, far)
}

// sinPi is |sin(pi x)|, from the distance to the nearest integer.
func sinPi(k *kernel, t ir.DType, x int) int {
	r := k.Sub(x, k.Un(loopir.OpRound, x))
	return k.Un(loopir.OpSin, k.Mul(k.Float(t, math.Pi), r))
}

// lgamma of a negative x is log(pi / (|x| |sin(pi x)|)) - lgamma(|x|) (Abramowitz and Stegun 6.1.17).
func lgamma(k *kernel, t ir.DType, x int) int {
	a := k.Abs(x)
	above := lgammaAbove(k, t, a)
	product := k.Un(loopir.OpLog, k.Mul(a, k.Abs(sinPi(k, t, a))))
	below := k.Sub(k.Sub(k.Float(t, math.Log(math.Pi)), product), above)
	below = k.Select(k.Eq(a, k.Float(t, math.Inf(1))), a, below)
	reflected := k.And(k.Lt(x, k.Float(t, 0)), k.Gt(a, k.Float(t, 1e-10))) // nearer to 0 both are -log|x|
	return k.Select(reflected, below, above)
}

// digamma is log(x) - 1/(2x) - r^2 f(r^2) with r = 1/x for x from 6 on (Abramowitz and Stegun 6.3.18). Smaller
// arguments are shifted by 6 (6.3.6); negative ones are reflected: digamma(x) = digamma(1-x) - pi/tan(pi x) (6.3.7).
func digamma(k *kernel, t ir.DType, v []int) int {
	x, one, zero := v[0], k.Float(t, 1), k.Float(t, 0)
	negative := k.Lt(x, zero)
	z := k.Select(negative, k.Sub(one, x), x)
	shifted := k.Lt(z, k.Float(t, 6))
	sum := k.Div(one, z)
	for i := 1; i < 6; i++ {
		sum = k.Add(sum, k.Div(one, k.Add(z, k.Float(t, float64(i)))))
	}
	w := k.Select(shifted, k.Add(z, k.Float(t, 6)), z)
	r := k.Div(one, w)
	square := k.Mul(r, r)
	y := k.Sub(k.Un(loopir.OpLog, w), k.Mul(k.Float(t, 0.5), r))
	y = k.Sub(y, k.Mul(square, series(k, t, square, 0, 1.0/36, digammaSeries)))
	y = k.Select(shifted, k.Sub(y, sum), y)
	angle := k.Mul(k.Float(t, math.Pi), k.Sub(x, k.Un(loopir.OpRound, x)))
	cotangent := k.Div(k.Un(loopir.OpCos, angle), k.Un(loopir.OpSin, angle))
	y = k.Select(negative, k.Sub(y, k.Mul(k.Float(t, math.Pi), cotangent)), y)
	whole := k.And(negative, k.Eq(x, k.Un(loopir.OpTrunc, x)))
	y = k.Select(whole, k.Float(t, math.NaN()), y)
	return k.Select(k.Eq(x, zero), k.Neg(k.Div(one, x)), y)
}

// bernoulli are B(2j)/(2j)! for j = 1 to 12.
var bernoulli = []float64{1. / 12, -1. / 720, 1. / 30240, -1. / 1209600, 1. / 47900160, -691. / 1307674368000,
	1. / 74724249600, -3617. / 10670622842880000, 43867. / 5109094217170944000, -174611. / 802857662698291200000,
	77683. / 14101100039391805440000,
	-236364091. / 1693824136731743669452800000}

// zetaAbove is the sum of (q+i)^-s over i >= 0 for q > 0 and s > 1: ten terms, then the Euler-Maclaurin formula at w =
// q+10.
func zetaAbove(k *kernel, t ir.DType, s, q int) int {
	const terms = 10
	minus := k.Neg(s)
	w := k.Add(q, k.Float(t, terms))
	n := len(bernoulli)
	if t != ir.F64 {
		n = 5
	}
	r := k.Div(k.Float(t, 1), w)
	correction := k.Float(t, bernoulli[n-1])
	for j := n - 1; j > 0; j-- {
		grow := k.Mul(k.Mul(k.Add(s, k.Float(t, float64(2*j-1))), r), k.Mul(k.Add(s, k.Float(t, float64(2*j))), r))
		correction = k.Fma(correction, grow, k.Float(t, bernoulli[j-1]))
	}
	integral := k.Div(w, k.Sub(s, k.Float(t, 1)))
	tail := k.Add(k.Add(integral, k.Float(t, 0.5)), k.Mul(k.Mul(correction, s), r))
	last, zero := k.Pow(w, minus), k.Float(t, 0)
	sum := k.Select(k.Eq(last, zero), zero, k.Mul(last, tail)) // for large s the tail overflows where its factor is 0
	for i := terms - 1; i >= 0; i-- {
		sum = k.Add(sum, k.Pow(k.Add(q, k.Float(t, float64(i))), minus))
	}
	return sum
}

// zeta is Hurwitz's zeta(s, q). For q < 0, with r = q - floor(q), the terms below 0 are those of two other sums:
// zeta(s, r) + (-1)^s (zeta(s, 1-r) - zeta(s, 1-q)).
func zeta(k *kernel, t ir.DType, v []int) int {
	s, q := v[0], v[1]
	zero, one, nan := k.Float(t, 0), k.Float(t, 1), k.Float(t, math.NaN())
	floor, ceil := k.Un(loopir.OpFloor, q), k.Un(loopir.OpCeil, q)
	below := k.Le(q, zero)
	y := zetaAbove(k, t, s, k.Select(below, k.Sub(q, floor), q))
	other := k.Sub(zetaAbove(k, t, s, k.Sub(ceil, q)), zetaAbove(k, t, s, k.Sub(one, q)))
	half := k.Mul(s, k.Float(t, 0.5))
	other = k.Select(k.Eq(half, k.Un(loopir.OpFloor, half)), other, k.Neg(other))
	reflected := k.Select(k.Eq(s, k.Un(loopir.OpFloor, s)), k.Add(y, other), nan)
	reflected = k.Select(k.Eq(q, floor), k.Float(t, math.Inf(1)), reflected)
	y = k.Select(below, reflected, y)
	return k.Select(k.Eq(s, one), k.Float(t, math.Inf(1)), k.Select(k.Lt(s, one), nan, y))
}

// lowerGamma computes the regularized incomplete gamma functions, P (igamma) or Q (igammac), from integrals whose
// integrand decreases from the start. With E = x^a exp(-x), and c = a, or a+1 for a below 1:
//
//	P(c, x) = E/gamma(c) int_0^inf exp(-(c-x)v - x(exp(-v)-1+v)) dv   for x <= c
//	Q(c, x) = E/gamma(c) int_0^inf exp(-(x-c)v - x(exp(v)-1-v)) dv    for x > c
//	P(a, x) = P(a+1, x) + E/gamma(a+1)
//
// The last line is Abramowitz and Stegun 6.5.21. The integrals are trapezoidal sums after v = exp(u - exp(-u))
// (Takahasi and Mori, 1974), an inner dim of the kernel.
func lowerGamma(p *program, f op.Fn) {
	n := p.n
	if n.Out[0].Layout.Numel == 0 {
		return
	}
	t := n.Out[0].DType.ComputeType()
	nodes, bound := int64(48), 3.4
	if t == ir.F64 {
		nodes, bound = 100, 4
	}
	s := split{outer: n.Out[0].Layout.Shape, inner: []int64{nodes}}
	a, x, a1, x1, out := s.row(p.in(0)), s.row(p.in(1)), s.once(p.in(0)), s.once(p.in(1)), s.once(p.out(0))
	k := p.kernel(f.String()+"_"+n.Out[0].DType.String(), s.outer, s.inner, 0, a, x, a1, x1, out)
	k.Each()
	one, xv := k.Float(t, 1), k.load(x)
	c := atLeastOne(k, t, k.load(a))
	lower := k.Le(xv, c)
	apart := k.Abs(k.Sub(c, xv))
	step := 2 * bound / float64(nodes-1)
	u := k.Fma(k.Cast(t, k.Index(k.outer)), k.Float(t, step), k.Float(t, -bound))
	e := k.Un(loopir.OpExp, k.Neg(u))
	at := k.Div(k.Un(loopir.OpExp, k.Sub(u, e)), k.Add(apart, k.Un(loopir.OpSqrt, xv)))
	curve := expBeyondLine(k, t, k.Select(lower, k.Neg(at), at))
	value := k.Un(loopir.OpExp, k.Neg(k.Add(k.Mul(apart, at), k.Mul(xv, curve))))
	sum := k.Dot(value, k.Mul(at, k.Add(one, e)))
	k.Map()
	k.store(out, gammaOf(k, t, f, k.load(a1), k.load(x1), k.Mul(k.Acc(sum), k.Float(t, step))))
	k.launch()
}

// expBeyondLine is exp(x)-1-x, by its series where that cancels.
func expBeyondLine(k *kernel, t ir.DType, x int) int {
	terms := 8
	if t == ir.F64 {
		terms = 15
	}
	c := make([]float64, terms)
	f := 1.0
	for i := range c {
		f *= float64(i + 2)
		c[i] = 1 / f
	}
	near := k.Mul(k.Mul(x, x), polynomial(k, t, x, c))
	far := k.Sub(k.Sub(k.Un(loopir.OpExp, x), k.Float(t, 1)), x)
	return k.Select(k.Lt(k.Abs(x), k.Float(t, 0.5)), near, far)
}

// atLeastOne is a, or a+1 for a below 1.
func atLeastOne(k *kernel, t ir.DType, a int) int {
	return k.Select(k.Lt(a, k.Float(t, 1)), k.Add(a, k.Float(t, 1)), a)
}

// gammaOf combines the integral with its factor, and sets the values at the ends of the domain.
func gammaOf(k *kernel, t ir.DType, f op.Fn, a, x, integral int) int {
	c := atLeastOne(k, t, a)
	zero, one, inf := k.Float(t, 0), k.Float(t, 1), k.Float(t, math.Inf(1))
	small := k.Lt(a, one)
	near := k.Un(loopir.OpExp, k.Sub(k.Sub(k.Mul(c, k.Un(loopir.OpLog, x)), x), lgammaAbove(k, t, c)))
	// From 3 on by Stirling's formula around x = c, so that no large terms cancel.
	mu := k.Div(k.Sub(x, c), c)
	far := k.Un(loopir.OpExp, k.Sub(k.Mul(c, k.Sub(log1p(k, t, []int{mu}), mu)), binet(k, t, c)))
	far = k.Mul(far, k.Un(loopir.OpSqrt, k.Mul(c, k.Float(t, 1/(2*math.Pi)))))
	factor := k.Select(k.Lt(c, k.Float(t, 3)), near, far)
	direct := k.Mul(factor, integral)
	p := k.Select(k.Le(x, c), direct, k.Sub(one, direct))
	q := k.Select(k.Le(x, c), k.Sub(one, direct), direct)
	shift := k.Select(small, k.Div(factor, x), zero)
	y, atZero, atInf := k.Add(p, shift), zero, one
	if f == op.FnIgammac {
		y, atZero, atInf = k.Sub(q, shift), one, zero
	}
	y = k.Select(k.Or(k.Eq(x, inf), k.Eq(a, zero)), atInf, y)
	y = k.Select(k.Or(k.Eq(x, zero), k.Eq(a, inf)), atZero, y)
	wrong := k.Or(k.Lt(a, zero), k.Lt(x, zero))
	wrong = k.Or(wrong, k.Or(k.Un(loopir.OpIsNaN, a), k.Un(loopir.OpIsNaN, x)))
	wrong = k.Or(wrong, k.Or(k.And(k.Eq(a, zero), k.Eq(x, zero)), k.And(k.Eq(a, inf), k.Eq(x, inf))))
	return k.Select(wrong, k.Float(t, math.NaN()), y)
}
