package prim

import (
	"math"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

var pSpecial op.PrimID

// Special is a function of the table, of one or two operands of one shape and dtype.
func Special(b op.Builder, f op.Fn, in ...op.Val) op.Val {
	return b.Emit(pSpecial, []int64{int64(f)}, in...)
}

func registerSpecialPrims() {
	pSpecial = op.RegisterPrim(op.Prim{Name: "special", Doc: "the special function that the attribute names", NIn: -1,
		Elementwise: true, SaveIn: saveX | saveY,
		Variants: op.FnNames(),
		Infer: func(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
			f := op.Fn(attr[0])
			if len(in) != f.Arity() {
				return nil, ir.Errorf(ir.ErrInternal, "BUG: %v: %d operands, want %d", f, len(in), f.Arity())
			}
			a := floats
			if f == op.FnGcd || f == op.FnFmod {
				a = numbers
			}
			s, err := elementwise(f.String(), a, in)
			return append(out, s), err
		},
		VJP: func(c *op.VJPCall) []op.Val {
			f := op.Fn(c.Attr[0])
			out := make([]op.Val, len(c.In))
			switch {
			case f.Arity() == 1:
				out[0] = derivatives[f](c.B, c.Cot[0], c.In[0])
			default:
				partials[f](c, out)
			}
			return out
		}})
}

// over is the rule of a function whose derivative is 1/f.
func over(f func(b op.Builder, x op.Val) op.Val) func(b op.Builder, g, x op.Val) op.Val {
	return func(b op.Builder, g, x op.Val) op.Val { return Div(b, g, f(b, x)) }
}

// times is the rule of a function whose derivative is f.
func times(f func(b op.Builder, x op.Val) op.Val) func(b op.Builder, g, x op.Val) op.Val {
	return func(b op.Builder, g, x op.Val) op.Val { return Mul(b, g, f(b, x)) }
}

// quadratic is c + k*x^2.
func quadratic(b op.Builder, x op.Val, c, k float64) op.Val {
	return Add(b, Mul(b, Mul(b, x, x), num(k)), num(c))
}

// bell is c*exp(k*x^2).
func bell(b op.Builder, x op.Val, c, k float64) op.Val {
	return Mul(b, Exp(b, Mul(b, Mul(b, x, x), num(k))), num(c))
}

// derivatives has the cotangent of x for each function of one argument.
var derivatives = map[op.Fn]func(b op.Builder, g, x op.Val) op.Val{
	op.FnAcos:     times(func(b op.Builder, x op.Val) op.Val { return Neg(b, Rsqrt(b, quadratic(b, x, 1, -1))) }),
	op.FnAsin:     times(func(b op.Builder, x op.Val) op.Val { return Rsqrt(b, quadratic(b, x, 1, -1)) }),
	op.FnAcosh:    times(func(b op.Builder, x op.Val) op.Val { return Rsqrt(b, quadratic(b, x, -1, 1)) }),
	op.FnAsinh:    times(func(b op.Builder, x op.Val) op.Val { return Rsqrt(b, quadratic(b, x, 1, 1)) }),
	op.FnAtan:     over(func(b op.Builder, x op.Val) op.Val { return quadratic(b, x, 1, 1) }),
	op.FnAtanh:    over(func(b op.Builder, x op.Val) op.Val { return quadratic(b, x, 1, -1) }),
	op.FnBesselJ0: times(func(b op.Builder, x op.Val) op.Val { return Neg(b, Special(b, op.FnBesselJ1, x)) }),
	op.FnBesselJ1: times(func(b op.Builder, x op.Val) op.Val {
		return Sub(b, Special(b, op.FnBesselJ0, x), overArgument(b, op.FnBesselJ1, x))
	}),
	op.FnBesselY0: times(func(b op.Builder, x op.Val) op.Val { return Neg(b, Special(b, op.FnBesselY1, x)) }),
	op.FnBesselY1: times(func(b op.Builder, x op.Val) op.Val {
		return Sub(b, Special(b, op.FnBesselY0, x), Div(b, Special(b, op.FnBesselY1, x), x))
	}),
	op.FnBesselK0: times(func(b op.Builder, x op.Val) op.Val { return Neg(b, Special(b, op.FnBesselK1, x)) }),
	op.FnBesselK1: times(func(b op.Builder, x op.Val) op.Val {
		return Neg(b, Add(b, Special(b, op.FnBesselK0, x), Div(b, Special(b, op.FnBesselK1, x), x)))
	}),
	op.FnBesselK0e: times(func(b op.Builder, x op.Val) op.Val {
		return Sub(b, Special(b, op.FnBesselK0e, x), Special(b, op.FnBesselK1e, x))
	}),
	op.FnBesselK1e: times(func(b op.Builder, x op.Val) op.Val {
		y := Special(b, op.FnBesselK1e, x)
		return Sub(b, Sub(b, y, Special(b, op.FnBesselK0e, x)), Div(b, y, x))
	}),
	op.FnAiry: func(op.Builder, op.Val, op.Val) op.Val { refuse("special_airy_ai"); return op.Val{} },
	op.FnLgamma: times(func(b op.Builder, x op.Val) op.Val {
		return Special(b, op.FnDigamma, x)
	}),
	op.FnDigamma: times(func(b op.Builder, x op.Val) op.Val {
		return Special(b, op.FnZeta, Fill(b, num(2), x.DType(), x.Device(), x.Shape()), x)
	}),
	op.FnLog2:  over(func(b op.Builder, x op.Val) op.Val { return Mul(b, x, num(math.Ln2)) }),
	op.FnLog10: over(func(b op.Builder, x op.Val) op.Val { return Mul(b, x, num(math.Ln10)) }),
	op.FnErf:   times(func(b op.Builder, x op.Val) op.Val { return bell(b, x, 2/math.Sqrt(math.Pi), -1) }),
	op.FnExpm1: times(Exp),
	op.FnLog1p: over(func(b op.Builder, x op.Val) op.Val { return Add(b, x, num(1)) }),
	op.FnTan: times(func(b op.Builder, x op.Val) op.Val {
		return quadratic(b, Tan(b, x), 1, 1)
	}),
	op.FnErfc: times(func(b op.Builder, x op.Val) op.Val { return bell(b, x, -2/math.Sqrt(math.Pi), -1) }),
	op.FnErfcx: times(func(b op.Builder, x op.Val) op.Val {
		return Sub(b, Mul(b, Mul(b, x, num(2)), Special(b, op.FnErfcx, x)), num(2/math.Sqrt(math.Pi)))
	}),
	op.FnErfinv: times(func(b op.Builder, x op.Val) op.Val {
		return bell(b, Special(b, op.FnErfinv, x), math.Sqrt(math.Pi)/2, 1)
	}),
	op.FnNdtri: times(func(b op.Builder, x op.Val) op.Val {
		return bell(b, Special(b, op.FnNdtri, x), math.Sqrt(2*math.Pi), 0.5)
	}),
	op.FnLogNdtr: over(func(b op.Builder, x op.Val) op.Val {
		return Mul(b, Special(b, op.FnErfcx, Mul(b, x, num(-math.Sqrt2/2))), num(math.Sqrt(math.Pi/2)))
	}),
	op.FnI0: times(func(b op.Builder, x op.Val) op.Val { return Special(b, op.FnI1, x) }),
	op.FnI1: times(func(b op.Builder, x op.Val) op.Val {
		return Sub(b, Special(b, op.FnI0, x), overArgument(b, op.FnI1, x))
	}),
	op.FnI0e: times(func(b op.Builder, x op.Val) op.Val {
		return Sub(b, Special(b, op.FnI1e, x), Mul(b, Sign(b, x), Special(b, op.FnI0e, x)))
	}),
	op.FnI1e: times(besselI1eSlope),
	op.FnFrexpMantissa: times(func(b op.Builder, x op.Val) op.Val {
		return Pow(b, num(2), Neg(b, Special(b, op.FnFrexpExponent, x)))
	}),
	op.FnFrexpExponent: func(b op.Builder, g, _ op.Val) op.Val { return ZerosLike(b, g) },
}

// overArgument is f(x)/x, and its limit 1/2 at 0.
func overArgument(b op.Builder, f op.Fn, x op.Val) op.Val {
	zero := Eq(b, x, num(0))
	return Where(b, zero, num(0.5), Div(b, Special(b, f, x), Where(b, zero, num(1), x)))
}

// besselI1eSlope is i0e - i1e*(sign(x) + 1/x), and its limit 1/2 at 0.
func besselI1eSlope(b op.Builder, x op.Val) op.Val {
	zero := Eq(b, x, num(0))
	safe := Where(b, zero, num(1), x)
	y := Mul(b, Special(b, op.FnI1e, x), Add(b, Sign(b, x), Reciprocal(b, safe)))
	return Where(b, zero, num(0.5), Sub(b, Special(b, op.FnI0e, x), y))
}

// partials has the cotangents of functions of two arguments; each is computed only where it is wanted.
var partials = map[op.Fn]func(c *op.VJPCall, out []op.Val){
	op.FnAtan2: func(c *op.VJPCall, out []op.Val) {
		b, y, x := c.B, c.In[0], c.In[1]
		g := Div(b, c.Cot[0], Add(b, Mul(b, x, x), Mul(b, y, y)))
		if c.Need[0] {
			out[0] = Mul(b, g, x)
		}
		if c.Need[1] {
			out[1] = Neg(b, Mul(b, g, y))
		}
	},
	op.FnCopysign: func(c *op.VJPCall, out []op.Val) {
		b, x, y := c.B, c.In[0], c.In[1]
		if c.Need[0] {
			out[0] = Mul(b, c.Cot[0], Mul(b, Sign(b, x), Special(b, op.FnCopysign, OnesLike(b, x), y)))
		}
		if c.Need[1] {
			out[1] = ZerosLike(b, c.Cot[0])
		}
	},
	op.FnFmod: func(c *op.VJPCall, out []op.Val) {
		b := c.B
		out[0] = c.Cot[0]
		if c.Need[1] {
			out[1] = Neg(b, Mul(b, c.Cot[0], Trunc(b, Div(b, c.In[0], c.In[1]))))
		}
	},
	op.FnNextafter: func(c *op.VJPCall, out []op.Val) {
		same := Eq(c.B, c.In[0], c.In[1])
		if c.Need[0] {
			out[0] = Where(c.B, same, num(0), c.Cot[0])
		}
		if c.Need[1] {
			out[1] = Where(c.B, same, c.Cot[0], num(0))
		}
	},
	op.FnIgamma:  func(c *op.VJPCall, out []op.Val) { gammaPartials(c, out, 1) },
	op.FnIgammac: func(c *op.VJPCall, out []op.Val) { gammaPartials(c, out, -1) },
	op.FnZeta: func(c *op.VJPCall, out []op.Val) {
		b, s, q := c.B, c.In[0], c.In[1]
		if c.Need[0] {
			refuse("zeta")
		}
		out[1] = Mul(b, Mul(b, c.Cot[0], Neg(b, s)), Special(b, op.FnZeta, Add(b, s, num(1)), q))
	},
	op.FnGcd: func(c *op.VJPCall, out []op.Val) { panic("BUG: gcd of floats") },
}

func refuse(name string) {
	panic(ir.Errorf(ir.ErrNotImplemented, "the derivative for '%s' is not implemented.", name))
}

// gammaPartials: d/dx of the lower regularized gamma function is x^(a-1) exp(-x) / gamma(a) (Abramowitz and Stegun
// 6.5.25).
func gammaPartials(c *op.VJPCall, out []op.Val, sign float64) {
	b, a, x := c.B, c.In[0], c.In[1]
	if c.Need[0] {
		refuse(op.Fn(c.Attr[0]).String() + ": input")
	}
	power := Mul(b, Sub(b, a, num(1)), Log(b, x))
	density := Exp(b, Sub(b, Sub(b, power, x), Special(b, op.FnLgamma, a)))
	out[1] = Mul(b, c.Cot[0], Mul(b, density, num(sign)))
}
