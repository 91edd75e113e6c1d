package prim

import (
	"math"

	"github.com/torchlette/torchlette/engine/op"
)

// Complex functions at infinities and NaN, as annex G of the C standard has them: formulas of the parts give NaN there,
// of 0 * inf and of the sine of an infinity. Only values that are NaN, or of an infinite operand, are replaced, by
// values without a gradient.

func detached(b op.Builder, x parts) parts { return parts{b.Detach(x.re), b.Detach(x.im)} }

// orZero is y, and zero where y is NaN and zero is 0.
func orZero(b op.Builder, y, zero op.Val) op.Val {
	return Where(b, BitwiseAnd(b, IsNaN(b, y), Eq(b, zero, num(0))), zero, y)
}

// oddTimes is size * t, a function of x times one of the angle: 0 where the product is NaN and t is 0, or size is 0
// because x is 0 or infinite.
func oddTimes(b op.Builder, x, size, t op.Val) op.Val {
	e := detached(b, parts{size, t})
	exact := BitwiseAnd(b, Eq(b, e.re, num(0)), BitwiseOr(b, Eq(b, x, num(0)), IsInf(b, x)))
	y := orZero(b, Mul(b, size, t), e.im)
	return Where(b, BitwiseAnd(b, IsNaN(b, y), exact), e.re, y)
}

// evenTimes is also size where x is infinite and the angle is infinite or NaN, so that the product is NaN.
func evenTimes(b op.Builder, x, size, t op.Val) op.Val {
	y := oddTimes(b, x, size, t)
	return Where(b, BitwiseAnd(b, IsNaN(b, y), IsInf(b, x)), b.Detach(size), y)
}

// atInfinity is far where a part of x is infinite, else y.
func atInfinity(b op.Builder, x, far, y parts) parts {
	infinite := BitwiseOr(b, IsInf(b, x.re), IsInf(b, x.im))
	return parts{Where(b, infinite, far.re, y.re), Where(b, infinite, far.im, y.im)}
}

// rightAngle is y, and half of pi where y is NaN and x is imaginary.
func rightAngle(b op.Builder, y op.Val, x parts) op.Val {
	return Where(b, BitwiseAnd(b, IsNaN(b, y), Eq(b, x.re, num(0))), num(math.Pi/2), y)
}

func infinities(b op.Builder, x op.Val) op.Val {
	return Fill(b, num(infinity), x.DType(), x.Device(), x.Shape())
}

func tanhEdges(b op.Builder, x, y parts) parts {
	e := detached(b, x)
	far := IsInf(b, x.re)
	re := Where(b, far, direction(b, e.re), orZero(b, y.re, e.re))
	return parts{re, Where(b, far, num(0), orZero(b, y.im, e.im))}
}

func asinEdges(b op.Builder, x, y parts) parts {
	e := detached(b, x)
	below := BitwiseOr(b, Lt(b, e.im, num(0)), Lt(b, Div(b, num(1), e.im), num(0))) // -0 counts
	far := parts{atan2(b, e.re, Abs(b, e.im)), Where(b, below, num(-infinity), infinities(b, e.im))}
	return atInfinity(b, x, far, parts{orZero(b, y.re, e.re), y.im})
}

func acosEdges(b op.Builder, x, y parts) parts {
	e := detached(b, x)
	far := parts{atan2(b, Abs(b, e.im), e.re), Mul(b, direction(b, e.im), num(-infinity))}
	return atInfinity(b, x, far, parts{rightAngle(b, y.re, e), y.im})
}

func acoshEdges(b op.Builder, x, y parts) parts {
	e := detached(b, x)
	far := parts{infinities(b, e.re), atan2(b, e.im, e.re)}
	return atInfinity(b, x, far, parts{y.re, rightAngle(b, y.im, e)})
}

func atanhEdges(b op.Builder, x, y parts) parts {
	e := detached(b, x)
	angle := Where(b, IsNaN(b, e.im), e.im, Mul(b, direction(b, e.im), num(math.Pi/2)))
	far := parts{Mul(b, direction(b, e.re), num(0)), angle}
	return atInfinity(b, x, far, parts{orZero(b, y.re, e.re), y.im})
}
