package composite

import (
	"math"
	"strings"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

type unaryEmit = func(b op.Builder, x op.Val) op.Val

// unary registers name(self) with in-place and out= forms, as most entries are.
func unary(name, doc string, aliases []string, f unaryEmit, s ...op.Sample) {
	op.Register(unaryDef(name, doc, aliases, f, s))
}

// sameType is unary for results of self's dtype, which out= must have too.
func sameType(name, doc string, aliases []string, f unaryEmit, s ...op.Sample) {
	d := unaryDef(name, doc, aliases, f, s)
	d.ExactOut = true
	op.Register(d)
}

func unaryDef(name, doc string, aliases []string, f unaryEmit, s []op.Sample) op.Def {
	return op.Def{
		Sig: name + "(Tensor self) -> Tensor", Doc: doc, Aliases: aliases, Where: places(aliases), InPlace: true, Out: true,
		Samples: s,
		Eval:    func(a *op.Args) []op.Val { return a.Ret(f(a.B, a.Val())) },
	}
}

// places adds torch.special to the usual places for an operator that has an alias there.
func places(aliases []string) op.Where {
	w := op.Function | op.Method
	for _, a := range aliases {
		if strings.HasPrefix(a, "special_") {
			w |= op.Special
		}
	}
	return w
}

// inFloat computes integers in the default dtype.
func inFloat(f unaryEmit) unaryEmit {
	return func(b op.Builder, x op.Val) op.Val { return f(b, floating(b, x)) }
}

// keepInt copies integers, refuses bools and applies f to floats.
func keepInt(name string, f unaryEmit) unaryEmit {
	return func(b op.Builder, x op.Val) op.Val {
		switch {
		case x.DType().IsInexact():
			return f(b, x)
		case x.DType() == ir.Bool:
			unsupported(name, ir.Bool)
		}
		return prim.Copy(b, x)
	}
}

// numeric refuses bools.
func numeric(name string, f unaryEmit) unaryEmit {
	return func(b op.Builder, x op.Val) op.Val {
		if x.DType() == ir.Bool {
			unsupported(name, ir.Bool)
		}
		return f(b, x)
	}
}

func positive() []op.Sample {
	return samples("T(3,4;0.1,3)", "T(;0.5,2)", "T(0)", "I(5;1,6)")
}

func anyReal() []op.Sample { return samples("T(3,4)", "T()", "T(2,0)", "I(5;-3,4)") }

func scaled(f unaryEmit, c float64) unaryEmit {
	return func(b op.Builder, x op.Val) op.Val { return prim.Mul(b, f(b, x), op.FloatVal(c)) }
}

func registerUnaryOps() {
	sameType("abs", "The absolute value of each element.", []string{"absolute"}, numeric("abs_cpu", prim.Abs),
		anyReal()...)
	sameType("neg", "The negative of each element.", []string{"negative"}, negate, anyReal()...)
	unary("exp", "e raised to each element.", nil, inFloat(prim.Exp), anyReal()...)
	unary("exp2", "2 raised to each element.", []string{"special_exp2"}, inFloat(func(b op.Builder, x op.Val) op.Val {
		return prim.Pow(b, op.FloatVal(2), x)
	}), anyReal()...)
	unary("expm1", "exp(x) - 1, precise near zero.", []string{"special_expm1"}, inFloat(prim.Expm1), anyReal()...)
	unary("log", "The natural logarithm.", nil, inFloat(prim.Log), positive()...)
	unary("log1p", "log(1 + x), precise near zero.", []string{"special_log1p"}, inFloat(prim.Log1p), positive()...)
	unary("log2", "The logarithm to base 2.", nil, inFloat(fn(op.FnLog2)), positive()...)
	unary("log10", "The logarithm to base 10.", nil, inFloat(fn(op.FnLog10)), positive()...)
	unary("sqrt", "The square root.", nil, inFloat(prim.Sqrt), positive()...)
	unary("rsqrt", "The reciprocal of the square root.", nil, inFloat(prim.Rsqrt), positive()...)
	unary("square", "The square of each element.", nil, func(b op.Builder, x op.Val) op.Val {
		if x.DType() == ir.Bool {
			x = prim.Cast(b, x, ir.I64)
		}
		return prim.Mul(b, x, x)
	}, anyReal()...)
	unary("reciprocal", "1 / x.", nil, inFloat(prim.Reciprocal), positive()...)
	unary("sin", "The sine.", nil, inFloat(prim.Sin), anyReal()...)
	unary("cos", "The cosine.", nil, inFloat(prim.Cos), anyReal()...)
	unary("tan", "The tangent.", nil, inFloat(prim.Tan), samples("T(3,4;-1.2,1.2)", "T(;-1,1)", "I(5;-3,4)")...)
	unary("tanh", "The hyperbolic tangent.", nil, inFloat(prim.Tanh), anyReal()...)
	unary("sinh", "The hyperbolic sine.", nil, inFloat(sinh), anyReal()...)
	unary("cosh", "The hyperbolic cosine.", nil, inFloat(cosh), anyReal()...)
	unary("erf", "The error function.", []string{"special_erf"}, inFloat(prim.Erf), anyReal()...)
	unary("sigmoid", "1 / (1 + exp(-x)).", []string{"special_expit"}, inFloat(prim.Sigmoid), anyReal()...)
	sameType("floor", "The largest integer not above each element.", nil, keepInt("floor_vml_cpu", prim.Floor),
		anyReal()...)
	sameType("ceil", "The smallest integer not below each element.", nil, keepInt("ceil_vml_cpu", prim.Ceil), anyReal()...)
	sameType("trunc", "The integer part of each element.", []string{"fix"}, keepInt("trunc_vml_cpu", prim.Trunc),
		anyReal()...)
	sameType("round", "The nearest integer, halves to even.", []string{"special_round"},
		keepInt("round_vml_cpu", prim.Round), anyReal()...)
	op.Register(op.Def{
		Sig: "round.decimals(Tensor self, *, int decimals) -> Tensor", Doc: "The nearest number of that many decimals.",
		Aliases: []string{"special_round"}, Where: places([]string{"special_round"}), InPlace: true, Out: true,
		Eval:    evalRoundDecimals,
		Samples: samples("T(3,4) | decimals=2", "T(3) | decimals=0", "T(3;-500,500) | decimals=-1"),
	})
	sameType("frac", "The fractional part, with the sign of the element.", nil, func(b op.Builder, x op.Val) op.Val {
		needFloat("frac_cpu", x)
		return prim.Sub(b, x, prim.Trunc(b, x))
	}, samples("T(3,4)", "T()")...)
	sameType("sign", "-1, 0 or 1 by the sign of each element.", nil, func(b op.Builder, x op.Val) op.Val {
		if x.DType().IsComplex() {
			fail(ir.ErrRuntime, "Unlike NumPy, torch.sign doesn't allow complex tensors. Use torch.sgn instead.")
		}
		return sign(b, x)
	}, anyReal()...)
	unary("deg2rad", "Degrees to radians.", nil, inFloat(scaled(same, math.Pi/180)), anyReal()...)
	unary("rad2deg", "Radians to degrees.", nil, inFloat(scaled(same, 180/math.Pi)), anyReal()...)
	unary("logical_not", "not, elementwise; numbers count as x != 0.", nil, func(b op.Builder, x op.Val) op.Val {
		return prim.LogicalNot(b, truth(b, x))
	}, samples("B(3,4)", "T(3)", "I(4;0,2)")...)
	sameType("bitwise_not", "The complement of each bit; of bools, not.", nil, func(b op.Builder, x op.Val) op.Val {
		switch {
		case x.DType().IsInexact():
			unsupported("bitwise_not_cpu", x.DType())
		case x.DType() == ir.Bool:
			return prim.LogicalNot(b, x)
		}
		return prim.BitwiseNot(b, x)
	}, samples("B(3,4)", "I(4;-5,6)")...)
	registerPredicates()
	registerUnaryWithNumbers()
}

func same(_ op.Builder, x op.Val) op.Val { return x }

func negate(b op.Builder, x op.Val) op.Val {
	if x.DType() == ir.Bool {
		fail(ir.ErrNotImplemented, "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to "+
			"invert a mask, use the `~` or `logical_not()` operator instead.")
	}
	return prim.Neg(b, x)
}

// sinh is (exp(x) - exp(-x)) / 2 for |x| >= 1. Below, where that cancels, it is (u + u/(u+1)) / 2 with u = expm1(x).
func sinh(b op.Builder, x op.Val) op.Val {
	if x.DType().IsComplex() { // -i sin(ix)
		return prim.Neg(b, prim.TimesI(b, prim.Sin(b, prim.TimesI(b, x))))
	}
	narrow := widen(b, x.DType(), &x)
	large := prim.Ge(b, prim.Abs(b, x), op.FloatVal(1))
	far := prim.Sub(b, prim.Exp(b, x), prim.Exp(b, prim.Neg(b, x)))
	u := prim.Expm1(b, prim.Where(b, large, op.FloatVal(0), x))
	near := prim.Add(b, u, prim.Div(b, u, prim.Add(b, u, op.FloatVal(1))))
	return narrow(prim.Mul(b, prim.Where(b, large, far, near), op.FloatVal(0.5)))
}

func cosh(b op.Builder, x op.Val) op.Val {
	if x.DType().IsComplex() {
		return prim.Cos(b, prim.TimesI(b, x))
	}
	narrow := widen(b, x.DType(), &x)
	return narrow(prim.Mul(b, prim.Add(b, prim.Exp(b, x), prim.Exp(b, prim.Neg(b, x))), op.FloatVal(0.5)))
}

func evalRoundDecimals(a *op.Args) []op.Val {
	x, k := a.Val(), a.Int()
	if !x.DType().IsInexact() {
		return a.Ret(keepInt("round_vml_cpu", same)(a.B, x))
	}
	if k == 0 {
		return a.Ret(prim.Round(a.B, x))
	}
	b := a.B
	narrow := widen(b, x.DType(), &x)
	c := op.FloatVal(math.Pow(10, math.Abs(float64(k))))
	if k > 0 {
		return a.Ret(narrow(prim.Div(b, prim.Round(b, prim.Mul(b, x, c)), c)))
	}
	return a.Ret(narrow(prim.Mul(b, prim.Round(b, prim.Div(b, x, c)), c)))
}

// truth is x != 0 as bool.
func truth(b op.Builder, x op.Val) op.Val {
	if x.DType() == ir.Bool {
		return x
	}
	return prim.Cast(b, x, ir.Bool)
}

func registerPredicates() {
	predicate := func(name, doc string, f unaryEmit, out, ofInt bool) {
		op.Register(op.Def{
			Sig: name + "(Tensor self) -> Tensor", Doc: doc, Out: out,
			Samples: samples("T(3,4)", "torch.tensor([1.0, float('nan'), float('inf'), -float('inf')])", "I(4;-2,3)"),
			Eval: func(a *op.Args) []op.Val {
				x := a.Val()
				if !x.DType().IsInexact() {
					return a.Ret(prim.Fill(a.B, op.BoolVal(ofInt), ir.Bool, x.Device(), x.Shape()))
				}
				return a.Ret(f(a.B, x))
			},
			NoGrad: "the result is boolean",
		})
	}
	predicate("isnan", "Whether each element is NaN.", prim.IsNaN, false, false)
	predicate("isinf", "Whether each element is infinite.", prim.IsInf, false, false)
	predicate("isfinite", "Whether each element is finite.", func(b op.Builder, x op.Val) op.Val {
		return prim.Lt(b, prim.Abs(b, x), op.FloatVal(math.Inf(1)))
	}, false, true)
	predicate("isposinf", "Whether each element is +inf.", func(b op.Builder, x op.Val) op.Val {
		return prim.Eq(b, x, op.FloatVal(math.Inf(1)))
	}, true, false)
	predicate("isneginf", "Whether each element is -inf.", func(b op.Builder, x op.Val) op.Val {
		return prim.Eq(b, x, op.FloatVal(math.Inf(-1)))
	}, true, false)
}

func registerUnaryWithNumbers() {
	op.Register(op.Def{
		Sig: "positive(Tensor self) -> Tensor", Doc: "The tensor itself.", View: true,
		Samples: samples("T(3,4)", "I(3;0,5)"), ErrorSamples: samples("B(3)"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			if x.DType() == ir.Bool {
				fail(ir.ErrNotImplemented, "The `+` operator, on a bool tensor is not supported.")
			}
			return a.Ret(x)
		},
	})
	op.Register(op.Def{
		Sig: "nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor",
		Doc: "NaN and infinities replaced by numbers.", InPlace: true, Out: true, ExactOut: true, Eval: evalNaNToNum,
		Samples: samples("torch.tensor([1.0, float('nan'), float('inf'), -float('inf')])", "T(3) | nan=1.0", "I(3;0,5)",
			"torch.tensor([1.0, float('nan'), float('inf'), -float('inf')]), 1.0, 2.0, 3.0"),
	})
	op.Register(op.Def{
		Sig: "logit(Tensor self, float? eps=None) -> Tensor", Doc: "log(x / (1 - x)), x clamped to [eps, 1 - eps] if given.",
		Aliases: []string{"special_logit"}, Where: places([]string{"special_logit"}), InPlace: true, Out: true,
		Samples: samples("T(3,4;0.1,0.9)", "T(3;0,1), 0.2", "T(3;0.3,0.6) | eps=1e-6", "T(5;0,1), 0.6"),
		Eval: func(a *op.Args) []op.Val {
			x, eps := floating(a.B, a.Val()), a.Scalar()
			if eps.Kind != op.None {
				// For eps above 1/2 the lower bound wins.
				lo, hi := eps, op.FloatVal(1-eps.Float())
				x = prim.Where(a.B, prim.Lt(a.B, x, lo), lo, prim.Where(a.B, prim.Gt(a.B, x, hi), hi, x))
			}
			return a.Ret(prim.Log(a.B, prim.Div(a.B, x, prim.Add(a.B, prim.Neg(a.B, x), op.FloatVal(1)))))
		},
	})
}

func evalNaNToNum(a *op.Args) []op.Val {
	x, nan, pos, neg := a.Val(), a.Scalar(), a.Scalar(), a.Scalar()
	b := a.B
	if !x.DType().IsInexact() {
		return a.Ret(prim.Copy(b, x))
	}
	if nan.Kind == op.None {
		nan = op.FloatVal(0)
	}
	if pos.Kind == op.None {
		pos = op.FloatVal(prim.Largest(x.DType()))
	}
	if neg.Kind == op.None {
		neg = op.FloatVal(-prim.Largest(x.DType()))
	}
	y := prim.Where(b, prim.IsNaN(b, x), nan, x)
	y = prim.Where(b, prim.Eq(b, x, op.FloatVal(math.Inf(1))), pos, y)
	return a.Ret(prim.Where(b, prim.Eq(b, x, op.FloatVal(math.Inf(-1))), neg, y))
}
