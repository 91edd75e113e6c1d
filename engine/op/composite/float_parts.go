package composite

import (
	"math"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

func registerBitsOps() {
	mismatch := sample("T(3), T(4)")
	registerSigns(mismatch)
	registerExponents(mismatch)
	registerIntegers(mismatch)
}

// signbit is the sign bit of a float, set for -0 too.
func signbit(b op.Builder, x op.Val) op.Val {
	one := prim.Fill(b, op.FloatVal(1), x.DType(), x.Device(), x.Shape())
	return prim.Lt(b, prim.Special(b, op.FnCopysign, one, x), op.FloatVal(0))
}

func registerSigns(mismatch op.Sample) {
	op.Register(op.Def{
		Sig: "signbit(Tensor self) -> Tensor", Doc: "Whether the sign bit is set; of integers, whether they are negative.",
		Out: true, ExactOut: true, NoGrad: "the result is boolean",
		Samples: samples("T(3,4)", "I(3;-2,3)", "B(3)", "torch.tensor([0.0, -0.0, float('inf'), -float('inf')])"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			switch {
			case x.DType().IsFloat():
				return a.Ret(signbit(a.B, x))
			case x.DType() == ir.Bool:
				return a.Ret(prim.Fill(a.B, op.BoolVal(false), ir.Bool, x.Device(), x.Shape()))
			}
			return a.Ret(prim.Lt(a.B, x, op.IntVal(0)))
		},
	})
	op.Register(op.Def{
		Sig: "copysign(Tensor self, Operand other) -> Tensor", Doc: "|self| with the sign of other.", InPlace: true,
		Out: true, ErrorSamples: []op.Sample{mismatch},
		Samples: samples("T(3,4), T(4)", "T(3), -0.0", "I(3;-3,4), -2", "T(3), torch.tensor([0.0, -0.0, -1.0])",
			"B(3), T(3)"),
		Eval: func(a *op.Args) []op.Val { return a.Ret(fn2(op.FnCopysign)(a.B, a.Val(), a.Val())) },
	})
	op.Register(op.Def{
		Sig: "nextafter(Tensor self, Tensor other) -> Tensor", Doc: "The next number of the dtype after self towards other.",
		InPlace: true, Out: true,
		Samples:      samples("T(3,4), T(4)", "T(3), T(3)", "torch.tensor([0.0, -0.0, 1.0]), torch.tensor([1.0, -1.0, 1.0])"),
		ErrorSamples: []op.Sample{mismatch, sample("I(3;0,4), I(3;0,4)")},
		Eval: func(a *op.Args) []op.Val {
			x, y, b := a.Val(), a.Val(), a.B
			if d := promote(b, &x, &y); !d.IsFloat() {
				unsupported("nextafter_cpu", d)
			}
			return a.Ret(prim.Special(b, op.FnNextafter, x, y))
		},
	})
	op.Register(op.Def{
		Sig: "heaviside(Tensor self, Tensor values) -> Tensor", Doc: "0 where self is negative, values where it is 0, 1 " +
			"where it is positive.", InPlace: true, Out: true, ExactOut: true,
		Samples: samples("T(3,4), T(4)", "I(4;-1,2), I(4;0,9)", "torch.zeros(3), T(3)"), ErrorSamples: []op.Sample{mismatch,
			sample("T(3), I(3;0,4)")},
		NoGrad: "PyTorch has no derivative of it", Eval: evalHeaviside,
	})
	for _, m := range []struct {
		name, doc string
		f         binaryEmit
		wins      binaryEmit
	}{{"fmax", "larger", prim.Maximum, prim.Ge}, {"fmin", "smaller", prim.Minimum, prim.Le}} {
		op.Register(op.Def{
			Sig: m.name + "(Tensor self, Tensor other) -> Tensor", Doc: "The " + m.doc +
				" of two elements; a number wins against NaN.", Out: true,
			Samples: samples("T(3,4), T(4)", "I(3;0,5), T(3)", "I(3;0,5), I(3;0,5)", "B(3), B(3)",
				"torch.tensor([1.0, float('nan')]), torch.tensor([float('nan'), 1.0])"),
			ErrorSamples: []op.Sample{mismatch},
			Eval: func(a *op.Args) []op.Val {
				x, y, b := a.Val(), a.Val(), a.B
				if !promote(b, &x, &y).IsFloat() {
					return a.Ret(m.f(b, x, y))
				}
				return a.Ret(prim.Where(b, prim.BitwiseOr(b, m.wins(b, x, y), prim.IsNaN(b, y)), x, y))
			},
		})
	}
}

func evalHeaviside(a *op.Args) []op.Val {
	x, v, b := a.Val(), a.Val(), a.B
	if x.DType() != v.DType() {
		fail(ir.ErrRuntime, "heaviside is not yet implemented for tensors with different dtypes.")
	}
	d := x.DType()
	align(b, d, &x, &v)
	x, v = b.Detach(x), b.Detach(v)
	return a.Ret(prim.Where(b, prim.Eq(b, x, op.IntVal(0)), v, prim.Cast(b, prim.Gt(b, x, op.IntVal(0)), d)))
}

func registerExponents(mismatch op.Sample) {
	op.Register(op.Def{
		Sig: "ldexp(Tensor self, Tensor other) -> Tensor", Doc: "self * 2**other.", InPlace: true, Out: true,
		ErrorSamples: []op.Sample{mismatch},
		Samples:      samples("T(3,4), I(4;-5,6)", "T(3), T(3)", "I(3;0,5), I(3;0,5)"),
		Eval: func(a *op.Args) []op.Val {
			x, y, b := a.Val(), a.Val(), a.B
			// The power has the dtype of 2 as a 0-dim tensor of self's dtype, raised to other.
			if !y.DType().IsFloat() {
				y = prim.Cast(b, y, floatType(b, x.DType()))
			}
			return a.Ret(multiply(b, x, prim.Pow(b, op.FloatVal(2), y)))
		},
	})
	op.Register(op.Def{
		Sig: "frexp(Tensor self) -> (Tensor mantissa, Tensor exponent)",
		Doc: "self = mantissa * 2**exponent with |mantissa| in [0.5, 1); the exponents are int32.", Out: true,
		Samples: samples("T(3,4)", "torch.tensor([0.0, -0.0, 1e-40, 4.0, -0.75])"), ErrorSamples: samples("I(3;0,5)"),
		Eval: func(a *op.Args) []op.Val {
			x, b := a.Val(), a.B
			if !x.DType().IsFloat() {
				fail(ir.ErrRuntime, "torch.frexp() only supports floating-point dtypes")
			}
			return a.Ret(prim.Special(b, op.FnFrexpMantissa, x), prim.Cast(b, prim.Special(b, op.FnFrexpExponent, b.Detach(x)),
				ir.I32))
		},
	})
	op.Register(op.Def{
		Sig: "float_power(Operand self, Operand exponent) -> Tensor",
		Doc: "self raised to the exponent in float64, on the CPU.", InPlace: true, Out: true, ExactOut: true,
		Samples:      samples("T(3,4;0.1,3), T(4)", "T(3;0.1,3), 2", "I(3;1,5), -1", "2, T(3)", "I(3;1,5), I(3;0,3)"),
		ErrorSamples: []op.Sample{mismatch},
		Eval: func(a *op.Args) []op.Val {
			x, y, b := a.Val(), a.Val(), a.B
			align(b, ir.InvalidDType, &x, &y)
			d := ir.F64
			if x.DType().IsComplex() || y.DType().IsComplex() {
				d = ir.C128
			}
			return a.Ret(power(b, cast(b, x, d), cast(b, y, d)))
		},
	})
	op.Register(op.Def{
		Sig: "logaddexp2(Tensor self, Tensor other) -> Tensor", Doc: "log2(2**self + 2**other), without overflow.", Out: true,
		Samples: samples("T(3,4), T(4)", "T(3;-900,900), T(3;-900,900)"), ErrorSamples: []op.Sample{mismatch},
		Eval: func(a *op.Args) []op.Val { return a.Ret(logAddExp(a.B, a.Val(), a.Val(), math.Ln2)) },
	})
}

func registerIntegers(mismatch op.Sample) {
	arithmetic("bitwise_left_shift", "self * 2**other of integers; bits beyond the type are lost.", nil, leftShift,
		samples("I(4;-5,6), I(4;0,5)", "I(2,3;0,9), I(3;0,70)", "I(3;0,9), 3", "2, I(3;0,5)", "I(3;-5,6), -1"),
		sample("T(3), T(3)"), mismatch)
	arithmetic("bitwise_right_shift", "self / 2**other of integers, rounded down.", nil, rightShift,
		samples("I(4;-99,99), I(4;0,5)", "I(2,3;0,9), I(3;0,70)", "I(3;-9,9), 3", "-99, I(3;0,5)", "I(3;-5,6), -1"),
		sample("T(3), T(3)"), mismatch)
	for _, m := range []struct {
		name, doc string
		f         binaryEmit
	}{{"gcd", "The greatest common divisor.", gcd}, {"lcm", "The least common multiple.", lcm}} {
		op.Register(op.Def{
			Sig: m.name + "(Tensor self, Tensor other) -> Tensor", Doc: m.doc, InPlace: true, Out: true,
			Samples:      samples("I(4;-99,99), I(4;-99,99)", "I(2,3;0,9), I(3;0,9)", "I(3;0,1), I(3;0,3)"),
			ErrorSamples: []op.Sample{mismatch, sample("T(3), T(3)")},
			Eval: func(a *op.Args) []op.Val {
				x, y, b := a.Val(), a.Val(), a.B
				if d := promote(b, &x, &y); !d.IsInt() {
					unsupported(m.name+"_cpu", d)
				}
				return a.Ret(m.f(b, x, y))
			},
		})
	}
}

func gcd(b op.Builder, x, y op.Val) op.Val { return prim.Special(b, op.FnGcd, x, y) }

func lcm(b op.Builder, x, y op.Val) op.Val {
	g := gcd(b, x, y)
	g = prim.Where(b, prim.Eq(b, g, op.IntVal(0)), op.IntVal(1), g)
	return prim.Abs(b, prim.Mul(b, prim.FloorDivide(b, x, g), y))
}

// counts aligns the operands of a shift, and returns where the count is below the dtype's width.
func counts(b op.Builder, name string, x, y *op.Val) (d ir.DType, within op.Val) {
	if d = promote(b, x, y); !d.IsInt() {
		unsupported(name+"_cpu", d)
	}
	if !y.IsTensor() {
		*y = prim.Fill(b, *y, d, x.Device(), x.Shape())
	}
	width := op.IntVal(int64(8*d.Size()) - 1)
	return d, prim.BitwiseAnd(b, prim.Ge(b, *y, op.IntVal(0)), prim.Lt(b, *y, width))
}

// leftShift multiplies: 2**n wraps to the sign bit and then to 0.
func leftShift(b op.Builder, x, y op.Val) op.Val {
	counts(b, "lshift", &x, &y)
	return prim.Mul(b, prim.Pow(b, op.IntVal(2), y), x)
}

func rightShift(b op.Builder, x, y op.Val) op.Val {
	d, within := counts(b, "rshift", &x, &y)
	n := prim.Where(b, within, y, op.IntVal(0))
	power := prim.Pow(b, op.IntVal(2), n)
	if !x.IsTensor() {
		x = prim.Fill(b, x, d, y.Device(), y.Shape())
	}
	all := prim.Neg(b, prim.Cast(b, prim.Lt(b, x, op.IntVal(0)), d))
	return prim.Where(b, within, prim.FloorDivide(b, x, power), all)
}
