package lower

import (
	"math"
	mathbits "math/bits"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// roots is a kernel that computes with complex numbers and roots of unity.
type roots struct {
	*kernel
	d ir.DType // of the parts
}

type complexExpr struct{ re, im int }

func (k *roots) number(v float64) int { return k.Float(k.d, v) }

func (k *roots) plus(a, b complexExpr) complexExpr {
	return complexExpr{k.Add(a.re, b.re), k.Add(a.im, b.im)}
}

func (k *roots) minus(a, b complexExpr) complexExpr {
	return complexExpr{k.Sub(a.re, b.re), k.Sub(a.im, b.im)}
}

func (k *roots) times(a, b complexExpr) complexExpr {
	return complexExpr{k.Sub(k.Mul(a.re, b.re), k.Mul(a.im, b.im)), k.Add(k.Mul(a.re, b.im), k.Mul(a.im, b.re))}
}

// scaled multiplies by a number, which is a parameter, so that the text does not depend on it.
func (k *roots) scaled(a complexExpr, v float64) complexExpr {
	if v == 1 {
		return a
	}
	k.params = append(k.params, device.Const(int64(ir.EncodeFloat(k.d, v))))
	s := k.Param(k.Scalar(k.d))
	return complexExpr{k.Mul(a.re, s), k.Mul(a.im, s)}
}

// within is v where element j is one of n, else 0.
func (k *roots) within(j int, n int64, v complexExpr) complexExpr {
	inside := k.Lt(j, k.size(n))
	return complexExpr{k.Select(inside, v.re, k.number(0)), k.Select(inside, v.im, k.number(0))}
}

// take reads element e of n of a side, which begins at base.
func (k *roots) take(x *arg, from side, base, e int, n int64) complexExpr {
	second := -1
	if from.half {
		mirror := k.Sub(k.size(n), e)
		second = k.Lt(k.size(n/2), e)
		e = k.Min(e, mirror)
	}
	at := k.Add(base, k.Mul(e, k.size(from.step)))
	v := complexExpr{re: k.Cast(k.d, k.LoadAt(x.kbuf, at)), im: k.number(0)}
	if !from.real {
		v.im = k.Cast(k.d, k.LoadAt(x.kbuf, k.Add(at, k.I64(1))))
	}
	if from.half { // an element that is its own conjugate is real
		own := k.Or(k.Eq(e, k.I64(0)), k.Eq(k.Add(e, e), k.size(n)))
		v.im = k.Select(own, k.number(0), k.Select(second, k.Neg(v.im), v.im))
	}
	if from.exchange {
		v.re, v.im = v.im, v.re
	}
	return v
}

// give stores element e of n of a side.
func (k *roots) give(y *arg, to side, base, e int, n int64, v complexExpr) {
	if to.exchange {
		v.re, v.im = v.im, v.re
	}
	guard := -1
	if to.half {
		guard = k.Le(e, k.size(n/2))
	}
	at := k.Add(base, k.Mul(e, k.size(to.step)))
	k.StoreAt(guard, y.kbuf, at, k.Cast(y.dtype, v.re), loopir.Set)
	if !to.real {
		k.StoreAt(guard, y.kbuf, k.Add(at, k.I64(1)), k.Cast(y.dtype, v.im), loopir.Set)
	}
}

// dft is the transform of a few numbers: halves where their count is even, else the definition, on sums and differences
// of the elements j and r - j.
func (k *roots) dft(v []complexExpr) []complexExpr {
	r := len(v)
	if r == 1 {
		return v
	}
	out := make([]complexExpr, r)
	if r%2 == 0 {
		var half [2][]complexExpr
		for j, x := range v {
			half[j%2] = append(half[j%2], x)
		}
		even, odd := k.dft(half[0]), k.dft(half[1])
		for j := range even {
			o := k.timesRoot(odd[j], int64(j), int64(r))
			out[j], out[j+r/2] = k.plus(even[j], o), k.minus(even[j], o)
		}
		return out
	}
	out[0] = v[0]
	sum, difference := make([]complexExpr, r), make([]complexExpr, r)
	for j := 1; j <= r/2; j++ {
		sum[j], difference[j] = k.plus(v[j], v[r-j]), k.minus(v[j], v[r-j])
		out[0] = k.plus(out[0], sum[j])
	}
	for l := 1; l <= r/2; l++ {
		c, s := v[0], complexExpr{}
		for j := 1; j <= r/2; j++ {
			re, im := launch.RootOfUnity(int64(j*l%r), int64(r))
			c = complexExpr{k.Fma(sum[j].re, k.number(re), c.re), k.Fma(sum[j].im, k.number(re), c.im)}
			if w := k.number(-im); j == 1 {
				s = complexExpr{k.Mul(difference[j].re, w), k.Mul(difference[j].im, w)}
			} else {
				s = complexExpr{k.Fma(difference[j].re, w, s.re), k.Fma(difference[j].im, w, s.im)}
			}
		}
		out[l] = complexExpr{k.Add(c.re, s.im), k.Sub(c.im, s.re)}
		out[r-l] = complexExpr{k.Sub(c.re, s.im), k.Add(c.im, s.re)}
	}
	return out
}

// timesRoot is v exp(-2 pi i j / r) with j below r/2.
func (k *roots) timesRoot(v complexExpr, j, r int64) complexExpr {
	switch {
	case j == 0:
		return v
	case 4*j == r:
		return complexExpr{v.im, k.Neg(v.re)}
	}
	re, im := launch.RootOfUnity(j, r)
	return k.times(v, complexExpr{k.number(re), k.number(im)})
}

// turn multiplies element j by exp(-2 pi i p j / n): powers of the first root, each a product of two lower ones.
func (k *roots) turn(v []complexExpr, p, n int) {
	power := make([]complexExpr, len(v))
	for j := 1; j < len(v); j++ {
		if j == 1 {
			power[1] = k.root(p, n)
		} else {
			power[j] = k.times(power[j/2], power[j-j/2])
		}
		v[j] = k.times(v[j], power[j])
	}
}

// root is exp(-2 pi i e / n) for 0 <= e < n. The angle is reduced to an eighth of a turn in integers. Polynomials are
// as exact as the dtype; the sine of a GPU need not be.
func (k *roots) root(e, n int) complexExpr {
	eighths := k.Mul(e, k.I64(8))
	octant := k.Div(eighths, n)
	rest := k.Sub(eighths, k.Mul(octant, n))
	rest = k.Select(k.Eq(k.Rem(octant, k.I64(2)), k.I64(0)), rest, k.Sub(n, rest))
	x := k.Mul(k.Div(k.Cast(k.d, rest), k.Cast(k.d, n)), k.number(math.Pi/4))
	s, c := k.Mul(x, k.series(x, 1)), k.series(x, 0)
	swap := k.Le(k.I64(2), k.Rem(k.Add(octant, k.I64(1)), k.I64(4)))
	c, s = k.Select(swap, s, c), k.Select(swap, c, s)
	left := k.And(k.Le(k.I64(2), octant), k.Le(octant, k.I64(5)))
	return complexExpr{k.Select(left, k.Neg(c), c), k.Select(k.Lt(octant, k.I64(4)), k.Neg(s), s)}
}

// series is Taylor's of the cosine, or with first 1 of sin(x)/x, for x up to pi/4.
func (k *roots) series(x, first int) int {
	terms := 5
	if k.d == ir.F64 {
		terms = 10
	}
	square, coefficients := k.Mul(x, x), make([]float64, terms)
	f := 1.0
	for i := range coefficients {
		if i > 0 {
			f *= -float64((2*i + first - 1) * (2*i + first))
		}
		coefficients[i] = 1 / f
	}
	sum := k.number(coefficients[terms-1])
	for i := terms - 2; i >= 0; i-- {
		sum = k.Fma(sum, square, k.number(coefficients[i]))
	}
	return sum
}

// chirp is exp(-i pi j j / n). The square is reduced modulo 2n digit by digit, so that 32 bits hold it.
func (k *roots) chirp(j int, n int64) complexExpr {
	size := mathbits.Len64(uint64(2 * n))
	digit := max(30-size, 1)
	period, sum := k.size(2*n), k.I64(0)
	for i := (size - 1) / digit; i >= 0; i-- {
		d := k.Rem(k.Div(j, k.I64(1<<(i*digit))), k.I64(1<<digit))
		sum = k.Rem(k.Add(k.Mul(sum, k.I64(1<<digit)), k.Mul(j, d)), period)
	}
	return k.root(sum, period)
}
