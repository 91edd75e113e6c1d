package composite

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

type binaryEmit = func(b op.Builder, x, y op.Val) op.Val

// twoOperands are the cases of broadcasting and promotion that every binary operator meets.
func twoOperands() []op.Sample {
	return samples("T(3,4), T(3,4)", "T(3,4), T(4)", "T(3,1), T(1,4)", "T(2,3), 2.5", "T(2,3), 3", "T(), T(3)",
		"I(4;1,6), I(4;1,6)", "I(3;1,6), 2", "I(3;1,6), 2.5", "I(3;1,6), T(3)", "T(0,3), T(3)", "2.5, T(3)")
}

func positiveOperands() []op.Sample {
	return samples("T(3,4), T(3,4;0.5,3)", "T(3,4), T(4;0.5,3)", "T(2,3), 2.5", "T(2,3), -3", "I(4;-9,9), I(4;1,6)",
		"I(3;-9,9), 2", "I(3;1,6), 2.5", "T(), T(3;1,2)", "7, T(3;1,2)")
}

// tensorFirst drops the samples whose first operand is a number.
func tensorFirst(s []op.Sample) []op.Sample {
	return slices.DeleteFunc(s, func(x op.Sample) bool { return x.Args[0] >= '0' && x.Args[0] <= '9' })
}

// arithmetic registers name(self, other) in the promoted dtype.
func arithmetic(name, doc string, aliases []string, f binaryEmit, s []op.Sample, errs ...op.Sample) {
	op.Register(op.Def{
		Sig: name + "(Operand self, Operand other) -> Tensor", Doc: doc, Aliases: aliases, InPlace: true, Out: true,
		Samples: s, ErrorSamples: errs,
		Eval: func(a *op.Args) []op.Val { return a.Ret(f(a.B, a.Val(), a.Val())) },
	})
}

func registerBinaryOps() {
	mismatch := sample("T(3), T(4)")
	op.Register(op.Def{
		Sig: "add(Operand self, Operand other, *, Scalar alpha=1) -> Tensor", Doc: "self + alpha * other.", InPlace: true,
		Out: true,
		Samples: append(twoOperands(), samples("B(3), B(3)", "B(3), I(3;0,5)", "T(3), T(3) | alpha=2.5",
			"I(3;0,9), I(3;0,9) | alpha=3")...),
		ErrorSamples: []op.Sample{mismatch, sample("I(3;0,9), I(3;0,9) | alpha=1.5")},
		Eval: func(a *op.Args) []op.Val {
			x, y, alpha := a.Val(), a.Val(), a.Scalar()
			d := promote(a.B, &x, &y)
			if y = scale(a.B, d, y, alpha); d == ir.Bool {
				return a.Ret(prim.BitwiseOr(a.B, x, y))
			}
			return a.Ret(prim.Add(a.B, x, y))
		},
	})
	op.Register(op.Def{
		Sig: "sub(Operand self, Operand other, *, Scalar alpha=1) -> Tensor", Doc: "self - alpha * other.",
		Aliases: []string{"subtract"},
		InPlace: true, Out: true,
		Samples:      append(twoOperands(), sample("T(3), T(3) | alpha=2.5")),
		ErrorSamples: []op.Sample{mismatch, sample("B(3), B(3)"), sample("T(3), True")},
		Eval: func(a *op.Args) []op.Val {
			return a.Ret(subtract(a.B, a.Val(), a.Val(), a.Scalar()))
		},
	})
	registerQuotients(mismatch)
	for _, m := range []struct {
		name       string
		f, ofBools binaryEmit
	}{{"maximum", prim.Maximum, prim.BitwiseOr}, {"minimum", prim.Minimum, prim.BitwiseAnd}} {
		op.Register(op.Def{
			Sig: m.name + "(Tensor self, Tensor other) -> Tensor", Doc: "The elementwise " + m.name + "; NaN wins.", Out: true,
			Samples: samples("T(3,4), T(3,4)", "T(3,4), T(4)", "I(3;0,5), T(3)", "I(3;0,5), I(3;0,5)", "B(3), B(3)",
				"T(3), torch.zeros(())"),
			ErrorSamples: []op.Sample{mismatch},
			Eval:         func(a *op.Args) []op.Val { return a.Ret(extremum(a.B, m.f, m.ofBools, a.Val(), a.Val())) },
		})
	}
	registerBitwise(mismatch)
	registerMixed(mismatch)
	for _, name := range []string{"add", "sub", "mul", "div", "true_divide", "floor_divide"} {
		op.DefNamed(name).ScalarOverload = true
	}
}

// registerQuotients registers rsub, products, quotients and powers.
func registerQuotients(mismatch op.Sample) {
	op.Register(op.Def{
		Sig: "rsub(Tensor self, Operand other, *, Scalar alpha=1) -> Tensor", Doc: "other - alpha * self.",
		Where:   op.Function,
		Samples: tensorFirst(twoOperands()), ErrorSamples: []op.Sample{mismatch},
		Eval: func(a *op.Args) []op.Val {
			x, y := a.Val(), a.Val()
			return a.Ret(subtract(a.B, y, x, a.Scalar()))
		},
	})
	arithmetic("mul", "self * other.", []string{"multiply"}, multiply, append(twoOperands(), sample("B(3), B(3)")),
		mismatch)
	op.Register(op.Def{
		Sig: "div(Operand self, Operand other, *, str(trunc|floor)? rounding_mode=None) -> Tensor",
		Doc: "self / other; rounding_mode rounds towards zero or down.", Aliases: []string{"divide"}, InPlace: true,
		Out: true,
		Samples: append(positiveOperands(), samples("B(3), I(3;1,5)", "T(3), T(3;1,2) | rounding_mode='trunc'",
			"I(5;-9,9), I(5;1,4) | rounding_mode='trunc'", "T(5), 0.5 | rounding_mode='floor'",
			"I(5;-9,9), 4 | rounding_mode='floor'", "T(3), 0.0")...),
		ErrorSamples: []op.Sample{mismatch},
		Eval: func(a *op.Args) []op.Val {
			return a.Ret(divide(a.B, a.Val(), a.Val(), a.Int()))
		},
	})
	op.Register(op.Def{
		Sig: "true_divide(Operand self, Operand other) -> Tensor", Doc: "self / other.", InPlace: true, Out: true,
		Samples: positiveOperands(), ErrorSamples: []op.Sample{mismatch},
		Eval: func(a *op.Args) []op.Val { return a.Ret(divide(a.B, a.Val(), a.Val(), -1)) },
	})
	arithmetic("floor_divide", "The floor of self / other.", nil, floorDivide, positiveOperands(), mismatch)
	arithmetic("remainder", "self modulo other, with the sign of other.", nil, remainder, positiveOperands(), mismatch)
	op.Register(op.Def{
		Sig: "fmod(Tensor self, Operand other) -> Tensor", Doc: "self modulo other, with the sign of self.", InPlace: true,
		Out:     true,
		Samples: tensorFirst(positiveOperands()), ErrorSamples: []op.Sample{mismatch},
		Eval: func(a *op.Args) []op.Val { return a.Ret(fmod(a.B, a.Val(), a.Val())) },
	})
	op.Register(op.Def{
		Sig: "pow(Operand self, Operand exponent) -> Tensor", Doc: "self raised to the exponent.", InPlace: true, Out: true,
		Samples: samples("T(3,4;0.1,3), T(3,4)", "T(4), 2", "T(4), 3", "T(4;0.1,3), 0.5", "T(4;0.1,3), -0.5", "T(4;1,2), -1",
			"T(4;0.1,3), 1.7", "T(4), 0", "I(4;1,5), 2", "I(4;1,5), I(4;0,4)", "2.5, T(3)", "2, I(4;0,5)", "I(3;1,4), 0.5",
			"T(3), 1", "T(4), 4"),
		ErrorSamples: samples("I(3;1,4), -1", "T(3), T(4)", "B(3), B(3)"),
		Eval:         func(a *op.Args) []op.Val { return a.Ret(power(a.B, a.Val(), a.Val())) },
	})
}

// scale multiplies an operand by alpha of add and sub.
func scale(b op.Builder, d ir.DType, y, alpha op.Val) op.Val {
	if alpha.Kind == op.ScalarBool && d != ir.Bool {
		fail(ir.ErrRuntime, "Boolean alpha only supported for Boolean results.")
	}
	if alpha.Kind == op.ScalarFloat && !d.IsInexact() {
		fail(ir.ErrRuntime, "For integral input tensors, argument alpha must not be a floating point number.")
	}
	if alpha.IsTensor() {
		return timesNumber(b, y, alpha, d)
	}
	if alpha.Float() == 1 {
		return y
	}
	if d == ir.Bool {
		if alpha.Float() == 0 {
			return op.BoolVal(false)
		}
		return y
	}
	if y.IsScalar() {
		if y.Kind == op.ScalarFloat || alpha.Kind == op.ScalarFloat {
			return op.FloatVal(y.Float() * alpha.Float())
		}
		return op.IntVal(int64(y.Bits()) * int64(alpha.Bits()))
	}
	return prim.Mul(b, y, alpha)
}

// timesNumber multiplies an operand of an operation in dtype d by a complex number.
func timesNumber(b op.Builder, y, factor op.Val, d ir.DType) op.Val {
	if !d.IsComplex() {
		fail(ir.ErrRuntime, "For non-complex input tensors, argument alpha must not be a complex number.")
	}
	if y.IsScalar() {
		return prim.Mul(b, cast(b, factor, d), y)
	}
	return prim.Mul(b, cast(b, y, d), expand(b, cast(b, factor, d), y.Shape()))
}

// times multiplies by a number that is first cast to v's dtype, as in PyTorch's kernels of addcmul and addmm.
func times(b op.Builder, v, factor op.Val) op.Val {
	factor = asType(b, factor, v.DType())
	if factor.IsTensor() {
		return prim.Mul(b, v, expand(b, factor, v.Shape()))
	}
	if factor.Float() == 1 {
		return v
	}
	return prim.Mul(b, v, factor)
}

func isBool(b op.Builder, v op.Val) bool {
	return v.Kind == op.ScalarBool || (v.IsTensor() && v.DType() == ir.Bool)
}

func subtract(b op.Builder, x, y, alpha op.Val) op.Val {
	if xb, yb := isBool(b, x), isBool(b, y); xb && yb {
		fail(ir.ErrNotImplemented, "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "+
			"`logical_xor()` operator instead.")
	} else if xb || yb {
		fail(ir.ErrNotImplemented, "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying "+
			"to invert a mask, use the `~` or `logical_not()` operator instead.")
	}
	d := promote(b, &x, &y)
	return prim.Sub(b, x, scale(b, d, y, alpha))
}

func multiply(b op.Builder, x, y op.Val) op.Val {
	if promote(b, &x, &y) == ir.Bool {
		return prim.BitwiseAnd(b, x, y)
	}
	return prim.Mul(b, x, y)
}

// divide is div; mode -1 is true division, 0 trunc, 1 floor.
func divide(b op.Builder, x, y op.Val, mode int64) op.Val {
	switch mode {
	case 1:
		return floorDivide(b, x, y)
	case 0:
		d := promote(b, &x, &y)
		if d == ir.Bool {
			unsupported("div_trunc_cpu", d)
		}
		if d.IsInexact() {
			return prim.Trunc(b, prim.Div(b, x, y))
		}
		refuseZero(y)
		return truncDivide(b, x, y)
	}
	if x.IsTensor() && y.IsTensor() && x.Aval == y.Aval && x.Layout == y.Layout && x.DType().IsInexact() {
		return prim.Div(b, x, y)
	}
	align(b, floatType(b, resultType(b, x, y)), &x, &y)
	return prim.Div(b, x, y)
}

// truncDivide of integers is the floor quotient, plus one where that was rounded away from zero: where there is a
// remainder and the signs differ.
func truncDivide(b op.Builder, x, y op.Val) op.Val {
	q, r := prim.FloorDivide(b, x, y), prim.Remainder(b, x, y)
	zero := op.IntVal(0)
	inexact := prim.Ne(b, r, zero)
	up := prim.BitwiseAnd(b, inexact, prim.Lt(b, q, zero))
	return prim.Add(b, q, prim.Cast(b, up, q.DType()))
}

func refuseZero(y op.Val) {
	if y.IsScalar() && y.Kind != op.ScalarFloat && y.Bits() == 0 {
		fail(ir.ErrRuntime, "ZeroDivisionError")
	}
}

func floorDivide(b op.Builder, x, y op.Val) op.Val {
	d := promote(b, &x, &y)
	if d == ir.Bool {
		unsupported("div_floor_cpu", d)
	}
	if !d.IsInexact() {
		refuseZero(y)
	}
	return prim.FloorDivide(b, x, y)
}

func remainder(b op.Builder, x, y op.Val) op.Val {
	d := promote(b, &x, &y)
	if d == ir.Bool {
		unsupported("remainder_cpu", d)
	}
	if !d.IsInexact() {
		refuseZero(y)
	}
	return prim.Remainder(b, x, y)
}

func fmod(b op.Builder, x, y op.Val) op.Val {
	d := promote(b, &x, &y)
	if d == ir.Bool {
		unsupported("fmod_cpu", d)
	}
	if !d.IsInexact() {
		refuseZero(y)
	}
	return prim.Special(b, op.FnFmod, x, y)
}

func power(b op.Builder, x, e op.Val) op.Val {
	d := resultType(b, x, e)
	if d == ir.Bool {
		if !e.IsScalar() || !x.IsTensor() {
			unsupported("pow", d)
		}
		if e.Float() == 0 {
			return prim.OnesLike(b, x)
		}
		return prim.Copy(b, x)
	}
	if !e.IsScalar() || !x.IsTensor() {
		align(b, d, &x, &e)
		return prim.Pow(b, x, e)
	}
	p := e.Float()
	if !d.IsInexact() && p < 0 {
		fail(ir.ErrRuntime, "Integers to negative integer powers are not allowed.")
	}
	x = cast(b, x, d)
	switch {
	case p == 1:
		return prim.Copy(b, x)
	case p == 2:
		return prim.Mul(b, x, x)
	case p == 3:
		return prim.Mul(b, prim.Mul(b, x, x), x)
	case p == 0.5:
		return prim.Sqrt(b, x)
	case p == -0.5:
		return prim.Rsqrt(b, x)
	case p == -1:
		return prim.Reciprocal(b, x)
	}
	return prim.Pow(b, x, e)
}

// extremum is maximum or minimum; of bools it is or, or and.
func extremum(b op.Builder, f, ofBools binaryEmit, x, y op.Val) op.Val {
	if promote(b, &x, &y) == ir.Bool {
		return ofBools(b, x, y)
	}
	return f(b, x, y)
}

func registerBitwise(mismatch op.Sample) {
	for _, m := range []struct {
		name string
		f    binaryEmit
	}{{"bitwise_and", prim.BitwiseAnd}, {"bitwise_or", prim.BitwiseOr}, {"bitwise_xor", prim.BitwiseXor}} {
		arithmetic(m.name, "The "+m.name[len("bitwise_"):]+" of the bits; of bools, the logical one.", nil,
			func(b op.Builder, x, y op.Val) op.Val {
				if d := promote(b, &x, &y); d.IsInexact() {
					unsupported(m.name+"_cpu", d)
				}
				return m.f(b, x, y)
			}, samples("I(4;-5,6), I(4;-5,6)", "I(2,3;0,9), I(3;0,9)", "B(4), B(4)", "I(3;0,9), 3", "B(3), True"),
			sample("T(3), T(3)"), mismatch)
		logical := "logical" + m.name[len("bitwise"):]
		op.Register(op.Def{
			Sig: logical + "(Tensor self, Tensor other) -> Tensor", Doc: m.name[len("bitwise_"):] +
				", elementwise; numbers count as x != 0.",
			InPlace: true, Out: true, ErrorSamples: []op.Sample{mismatch},
			Samples: samples("B(3,4), B(4)", "I(4;0,2), I(4;0,2)", "T(3), B(3)", "T(3), I(3;0,2)"),
			Eval: func(a *op.Args) []op.Val {
				x, y := a.Val(), a.Val()
				x, y = truth(a.B, x), truth(a.B, y)
				align(a.B, ir.Bool, &x, &y)
				return a.Ret(m.f(a.B, x, y))
			},
		})
	}
}

func registerMixed(mismatch op.Sample) {
	op.Register(op.Def{
		Sig:     "addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
		Doc:     "self + value * tensor1 * tensor2.",
		InPlace: true, Out: true, Samples: samples("T(3,4), T(4), T(3,1)", "T(3), T(3), T(3) | value=0.5"),
		Eval: func(a *op.Args) []op.Val {
			x, y, z := a.Val(), a.Val(), a.Val()
			d := resultType(a.B, x, y, z)
			if d == ir.Bool {
				unsupported("addcmul_cpu_out", d)
			}
			align(a.B, d, &x, &y, &z)
			narrow := widen(a.B, d, &x, &y, &z)
			return a.Ret(narrow(prim.Add(a.B, x, times(a.B, prim.Mul(a.B, y, z), a.Scalar()))))
		},
	})
	op.Register(op.Def{
		Sig:     "addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
		Doc:     "self + value * tensor1 / tensor2.",
		InPlace: true, Out: true, Samples: samples("T(3,4), T(4), T(3,1;1,2)", "T(3), T(3), T(3;1,2) | value=0.5"),
		ErrorSamples: samples("I(3;0,5), I(3;0,5), I(3;1,5)"),
		Eval: func(a *op.Args) []op.Val {
			x, y, z := a.Val(), a.Val(), a.Val()
			if !y.DType().IsInexact() && !z.DType().IsInexact() {
				fail(ir.ErrRuntime, "Integer division with addcdiv is no longer supported, and in a future release addcdiv will "+
					"perform a true division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + "+
					"value * torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / "+
					"tensor2) for float inputs. The future addcdiv behavior is just the latter implementation: (input + value * "+
					"tensor1 / tensor2), for all dtypes.")
			}
			d := resultType(a.B, x, y, z)
			align(a.B, d, &x, &y, &z)
			narrow := widen(a.B, d, &x, &y, &z)
			return a.Ret(narrow(prim.Add(a.B, x, times(a.B, prim.Div(a.B, y, z), a.Scalar()))))
		},
	})
	op.Register(op.Def{
		Sig: "lerp(Tensor self, Tensor end, Operand weight) -> Tensor", Doc: "self + weight * (end - self).", InPlace: true,
		Out:          true,
		Samples:      samples("T(3,4), T(4), 0.3", "T(3), T(3), T(3;0,1)", "T(3), T(3), 0.75"),
		ErrorSamples: []op.Sample{sample("T(3), I(3;0,5), 0.5")},
		Eval:         evalLerp,
	})
	op.Register(op.Def{
		Sig: "logaddexp(Tensor self, Tensor other) -> Tensor", Doc: "log(exp(self) + exp(other)), without overflow.",
		Out:     true,
		Samples: samples("T(3,4), T(4)", "T(3;-90,90), T(3;-90,90)"), ErrorSamples: []op.Sample{mismatch},
		Eval: func(a *op.Args) []op.Val { return a.Ret(logAddExp(a.B, a.Val(), a.Val(), 1)) },
	})
	op.Register(op.Def{
		Sig: "xlogy(Operand self, Operand other) -> Tensor", Doc: "self * log(other), 0 where self is 0.", InPlace: true,
		Out:     true,
		Aliases: []string{"special_xlogy"}, Where: op.Function | op.Method | op.Special,
		Samples: samples("T(3,4), T(4;0.1,2)", "0.0, T(3;0,2)", "T(3), 2.0", "I(3;0,3), I(3;1,4)"),
		Eval:    func(a *op.Args) []op.Val { return a.Ret(xlogy(a.B, a.Val(), a.Val())) },
	})
	op.Register(op.Def{
		Sig: "special_xlog1py(Operand self, Operand other) -> Tensor", Doc: "self * log1p(other), 0 where self is 0.",
		Where: op.Special, Out: true,
		Samples: samples("T(3,4), T(4;-0.9,2)", "0.0, T(3;0,2)", "T(3), 2.0", "I(3;0,3), I(3;1,4)"),
		Eval:    func(a *op.Args) []op.Val { return a.Ret(timesLog(a.B, a.Val(), a.Val(), prim.Log1p, math.Log1p)) },
	})
	op.Register(op.Def{
		Sig: "hypot(Tensor self, Tensor other) -> Tensor", Doc: "sqrt(self**2 + other**2), without overflow.", InPlace: true,
		Out:     true,
		Samples: samples("T(3,4), T(4)", "T(3), T(3)"), Eval: evalHypot,
	})
}

func evalLerp(a *op.Args) []op.Val {
	x, y, w, b := a.Val(), a.Val(), a.Val(), a.B
	if x.DType() != y.DType() {
		fail(ir.ErrRuntime, "expected dtype %s for `end` but got dtype %s", x.DType().CName(), y.DType().CName())
	}
	if w.IsTensor() && !w.Number && w.DType() != x.DType() {
		fail(ir.ErrRuntime, "expected dtype %s for `weight` but got dtype %s", x.DType().CName(), w.DType().CName())
	}
	needFloat("lerp_kernel_scalar", x)
	if w = numberAs(b, w, x.DType()); w.IsTensor() && x.DType().IsComplex() {
		align(b, x.DType(), &x, &y, &w)
		return a.Ret(complexLerp(b, x, y, w))
	}
	align(b, x.DType(), &x, &y, &w)
	narrow := widen(b, x.DType(), &x, &y, &w)
	return a.Ret(narrow(lerp(b, x, y, w)))
}

// numberAs casts a complex number to the dtype of an operation.
func numberAs(b op.Builder, v op.Val, d ir.DType) op.Val {
	if v.Number {
		return asType(b, v, d)
	}
	return v
}

func complexLerp(b op.Builder, x, y, w op.Val) op.Val {
	diff := prim.Sub(b, y, x)
	low := prim.Add(b, x, prim.Mul(b, diff, w))
	high := prim.Sub(b, y, prim.Mul(b, diff, prim.Sub(b, prim.OnesLike(b, w), w)))
	return prim.Where(b, prim.Lt(b, prim.Abs(b, w), op.FloatVal(0.5)), low, high)
}

func lerp(b op.Builder, x, y, w op.Val) op.Val {
	diff := prim.Sub(b, y, x)
	if w.IsScalar() && math.Abs(w.Float()) < 0.5 {
		return prim.Add(b, x, prim.Mul(b, diff, w))
	}
	// Beyond a half it counts from the end, so that weight 1 is exact.
	if w.IsScalar() {
		return prim.Sub(b, y, prim.Mul(b, diff, op.FloatVal(1-w.Float())))
	}
	low := prim.Add(b, x, prim.Mul(b, diff, w))
	high := prim.Sub(b, y, prim.Mul(b, diff, prim.Add(b, prim.Neg(b, w), op.FloatVal(1))))
	return prim.Where(b, prim.Lt(b, prim.Abs(b, w), op.FloatVal(0.5)), low, high)
}

// logAddExp is log(exp(ln x) + exp(ln y)) / ln, with ln the logarithm of the base.
func logAddExp(b op.Builder, x, y op.Val, ln float64) op.Val {
	d := resultType(b, x, y)
	if !d.IsInexact() || d.IsComplex() && ln != 1 {
		unsupported("logaddexp_cpu", d)
	}
	align(b, d, &x, &y)
	if d.IsComplex() {
		return prim.LogAddExp(b, x, y)
	}
	narrow := widen(b, d, &x, &y)
	most := prim.Maximum(b, x, y)
	m := b.Detach(most)
	infinite := prim.IsInf(b, m)
	m = prim.Where(b, infinite, op.FloatVal(0), m)
	// Beside infinity the other operand does not count. There the sum, whose gradient is infinity over infinity, sees 0.
	beside := prim.BitwiseAnd(b, infinite, prim.Ne(b, x, y))
	part := func(v op.Val) op.Val {
		return prim.Exp(b, affine(b, prim.Sub(b, prim.Where(b, beside, op.FloatVal(0), v), m), ln, 0))
	}
	sum := prim.Add(b, affine(b, prim.Log(b, prim.Add(b, part(x), part(y))), 1/ln, 0), m)
	return narrow(prim.Where(b, beside, most, sum))
}

func xlogy(b op.Builder, x, y op.Val) op.Val { return timesLog(b, x, y, prim.Log, math.Log) }

// timesLog is x*log(y), and 0 where x is 0 and y is not NaN; ofNumber is log of a number.
func timesLog(b op.Builder, x, y op.Val, log unaryEmit, ofNumber func(float64) float64) op.Val {
	d := floatType(b, resultType(b, x, y))
	align(b, d, &x, &y)
	narrow := widen(b, d, &x, &y)
	if x.IsScalar() {
		if x.Float() == 0 {
			return narrow(prim.Where(b, prim.IsNaN(b, y), y, op.FloatVal(0)))
		}
		return narrow(prim.Mul(b, log(b, y), x))
	}
	zero := prim.Eq(b, x, op.FloatVal(0))
	if y.IsScalar() {
		return narrow(prim.Where(b, zero, op.FloatVal(0), prim.Mul(b, x, op.FloatVal(ofNumber(y.Float())))))
	}
	// The logarithm sees 1 where x is 0, so that no gradient is 0 times infinity.
	safe := prim.Where(b, zero, op.FloatVal(1), y)
	return narrow(prim.Where(b, prim.IsNaN(b, y), y, prim.Mul(b, x, log(b, safe))))
}

func evalHypot(a *op.Args) []op.Val {
	x, y, b := a.Val(), a.Val(), a.B
	d := promote(b, &x, &y)
	if !d.IsInexact() {
		unsupported("hypot_cpu", d)
	}
	narrow := widen(b, d, &x, &y)
	m := b.Detach(prim.Maximum(b, prim.Abs(b, x), prim.Abs(b, y)))
	infinite := prim.BitwiseOr(b, prim.IsInf(b, x), prim.IsInf(b, y)) // an infinity wins against NaN
	m = prim.Where(b, prim.BitwiseOr(b, prim.Eq(b, m, op.FloatVal(0)), prim.IsInf(b, m)), op.FloatVal(1), m)
	p, q := prim.Div(b, x, m), prim.Div(b, y, m)
	r := prim.Mul(b, prim.Sqrt(b, prim.Add(b, prim.Mul(b, p, p), prim.Mul(b, q, q))), m)
	return a.Ret(narrow(prim.Where(b, infinite, op.FloatVal(math.Inf(1)), r)))
}
