package composite

import (
	"math"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

func registerCompareOps() {
	for _, m := range []struct {
		name, alias, doc string
		f                binaryEmit
	}{
		{"eq", "", "self == other", prim.Eq},
		{"ne", "not_equal", "self != other", prim.Ne},
		{"lt", "less", "self < other", prim.Lt},
		{"le", "less_equal", "self <= other", prim.Le},
		{"gt", "greater", "self > other", prim.Gt},
		{"ge", "greater_equal", "self >= other", prim.Ge},
	} {
		var aliases []string
		if m.alias != "" {
			aliases = []string{m.alias}
		}
		op.Register(op.Def{
			Sig: m.name + "(Tensor self, Operand other) -> Tensor", Doc: m.doc + ", elementwise.", Aliases: aliases,
			InPlace: true, Out: true, NoGrad: "the result is boolean",
			Samples: samples("T(3,4), T(4)", "I(6;0,3), I(6;0,3)", "I(6;0,3), 1", "I(6;0,3), 1.5", "T(3), 0", "B(3), B(3)",
				"T(), T(3)", "T(0,3), T(3)", "I(3;0,3), T(3)"),
			ErrorSamples: samples("T(3), T(4)"),
			Eval: func(a *op.Args) []op.Val {
				x, y := a.Val(), a.Val()
				promote(a.B, &x, &y)
				return a.Ret(m.f(a.B, x, y))
			},
		})
	}
	op.Register(op.Def{
		Sig: "where(Tensor condition, Operand self, Operand other) -> Tensor",
		Doc: "self where the condition holds, other elsewhere.", Out: true,
		Samples: samples("B(3,4), T(3,4), T(4)", "B(3,1), T(4), 0.0", "B(3), 1, 2", "B(3), 1.0, 2", "B(3), I(3;0,5), 1.5",
			"B(3), T(3), I(3;0,5)", "B(), T(3), T(3)", "B(3), T(), T()"),
		ErrorSamples: samples("I(3;0,2), T(3), T(3)", "B(3), T(4), T(4)"),
		Eval:         func(a *op.Args) []op.Val { return a.Ret(where(a.B, a.Val(), a.Val(), a.Val())) },
	})
	op.Register(op.Def{
		Sig: "masked_fill(Tensor self, Tensor mask, Operand value) -> Tensor",
		Doc: "value where the mask holds, self elsewhere.", InPlace: true, Expands: true,
		Samples: samples("T(3,4), B(3,4), 2.5", "T(3,4), B(4), -1", "I(3;0,5), B(3), 1.5", "T(3), B(3), torch.ones(())",
			"T(3,4), B(3,1), float('-inf')"),
		ErrorSamples: samples("T(3,4), B(3), 1.0", "T(3), I(3;0,2), 1.0", "T(3), B(3), T(3)"),
		Eval:         func(a *op.Args) []op.Val { return a.Ret(maskedFill(a.B, a.Val(), a.Val(), a.Val())) },
	})
	registerClamp()
	op.Register(op.Def{
		Sig: "isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor",
		Doc: "Whether |self - other| <= atol + rtol * |other|, elementwise.", NoGrad: "the result is boolean",
		Eval: evalIsclose,
		Samples: samples("T(3), T(3)", "T(3), T(3), 0.5, 0.5", "I(5;0,3), I(5;0,3)",
			"torch.tensor([1.0, float('nan'), float('inf')]), torch.tensor([1.0, float('nan'), float('inf')]) | equal_nan=True"),
		ErrorSamples: samples("T(3), I(3;0,3)"),
	})
}

func where(b op.Builder, cond, x, y op.Val) op.Val {
	if cond.DType() == ir.U8 { // PyTorch still takes uint8 masks
		cond = prim.Cast(b, cond, ir.Bool)
	}
	if cond.DType() != ir.Bool {
		fail(ir.ErrRuntime, "where expected condition to be a boolean tensor, but got a tensor with dtype %s",
			typeName(cond.DType()))
	}
	d := resultType(b, x, y)
	if x.IsScalar() && y.IsScalar() {
		x = prim.Fill(b, x, d, cond.Device(), nil)
	}
	refuseOverflow(x, d)
	refuseOverflow(y, d)
	x, y = cast(b, x, d), cast(b, y, d)
	align(b, ir.InvalidDType, &cond, &x, &y)
	return prim.Where(b, cond, x, y)
}

func maskedFill(b op.Builder, x, mask, value op.Val) op.Val {
	if mask.DType() != ir.Bool {
		fail(ir.ErrRuntime, "masked_fill_ only supports boolean masks, but got mask with dtype %s", mask.DType().CName())
	}
	if r := len(value.Shape()); r > 0 {
		fail(ir.ErrRuntime, "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with %d dimension(s).",
			r)
	}
	value.Number = value.IsTensor() && value.DType().IsComplex()
	value = asType(b, value, x.DType())
	align(b, ir.InvalidDType, &mask, &x, &value)
	return prim.Where(b, mask, value, x)
}

// asType converts a value that is stored into a tensor of dtype d: a tensor by a cast, a number by truncation, as
// assignment does.
func asType(b op.Builder, v op.Val, d ir.DType) op.Val {
	if v.Number && !d.IsComplex() {
		fail(ir.ErrRuntime, "value cannot be converted to type %s without overflow", d.CName())
	}
	if v.IsTensor() {
		v = cast(b, v, d)
		v.Number = false
		return v
	}
	refuseOverflow(v, d)
	switch {
	case d == ir.Bool:
		return op.BoolVal(v.Float() != 0)
	case d.IsInt() && v.Kind == op.ScalarFloat:
		return op.IntVal(int64(v.Float()))
	}
	return v
}

// refuseOverflow raises PyTorch's error for a number that dtype d cannot hold.
func refuseOverflow(v op.Val, d ir.DType) {
	f := v.Float()
	name, fits := "", true
	switch d {
	case ir.U8: // negative numbers wrap
		name, fits = "uint8_t", f >= -math.MaxUint8 && f <= math.MaxUint8
	case ir.U16: // negative numbers wrap
		name, fits = "uint16_t", f >= -math.MaxUint16 && f <= math.MaxUint16
	case ir.I8, ir.I16:
		lo, hi := ir.Limits(d)
		name, fits = d.String()+"_t", f >= float64(lo) && f <= float64(hi)
	case ir.I32:
		name, fits = "int", f >= math.MinInt32 && f <= math.MaxInt32
	case ir.U32:
		name, fits = "unsigned int", f >= -math.MaxUint32 && f <= math.MaxUint32
	case ir.U64:
		name, fits = "uint64_t", v.Kind != op.ScalarFloat || f > -1<<64 && f < 1<<64
	case ir.I64:
		name, fits = "int64_t", v.Kind != op.ScalarFloat || f >= math.MinInt64 && f < math.MaxInt64
	case ir.F16, ir.BF16, ir.F32:
		name, fits = d.CName(), math.IsInf(f, 0) || f != f || math.Abs(f) <= prim.Largest(d)
	}
	if v.IsScalar() && !fits {
		fail(ir.ErrRuntime, "value cannot be converted to type %s without overflow", name)
	}
}

// bound limits integers by a number of their dtype. A bound that holds for all numbers of the dtype is dropped.
func bound(v op.Val, d ir.DType, upper bool) op.Val {
	if !d.IsInt() || !v.IsScalar() {
		return v
	}
	least, most := ir.Limits(d)
	f, lo, hi := v.Float(), float64(least), ir.DecodeFloat(d, uint64(most))
	switch {
	case upper && f >= hi, !upper && f <= lo:
		return op.Val{}
	case f < lo, f > hi:
		fail(ir.ErrRuntime, "Clamp value %g is outside the representable range of %s", f, typeName(d))
	}
	return v
}

// clampNumbers is clamp by numbers: gradients pass at the bounds.
func clampNumbers(b op.Builder, x, lo, hi op.Val) op.Val {
	lo, hi = bound(lo, x.DType(), false), bound(hi, x.DType(), true)
	if lo.Kind == op.None && hi.Kind == op.None {
		return prim.Copy(b, x)
	}
	grad := b.NeedsGrad(x)
	if lo.Kind != op.None {
		if grad {
			x = prim.Where(b, prim.Lt(b, x, lo), lo, x)
		} else {
			x = prim.Maximum(b, x, lo)
		}
	}
	if hi.Kind != op.None {
		if grad {
			x = prim.Where(b, prim.Gt(b, x, hi), hi, x)
		} else {
			x = prim.Minimum(b, x, hi)
		}
	}
	return x
}

// clamp limits x by numbers or tensors; each bound may be None. Where a bound is in force the gradient is the bound's;
// at the bound itself it is x's.
func clamp(b op.Builder, x, lo, hi op.Val) op.Val {
	d := resultType(b, x, lo, hi)
	if !lo.IsTensor() && !hi.IsTensor() {
		return clampNumbers(b, cast(b, x, d), lo, hi)
	}
	vals := []*op.Val{&x}
	for _, v := range []*op.Val{&lo, &hi} {
		if v.Kind != op.None {
			vals = append(vals, v)
		}
	}
	align(b, d, vals...)
	if lo.Kind != op.None {
		x = prim.Where(b, pastBound(b, prim.Lt, x, lo), lo, x)
	}
	if hi.Kind != op.None {
		x = prim.Where(b, pastBound(b, prim.Gt, x, hi), hi, x)
	}
	return x
}

// pastBound is true where x is beyond the bound, and where the bound is NaN, which wins.
func pastBound(b op.Builder, cmp binaryEmit, x, bound op.Val) op.Val {
	past := cmp(b, x, bound)
	if bound.IsTensor() && bound.DType().IsFloat() {
		past = prim.BitwiseOr(b, past, prim.IsNaN(b, bound))
	}
	return past
}

func registerClamp() {
	op.Register(op.Def{
		Sig: "clamp(Tensor self, Operand? min=None, Operand? max=None) -> Tensor", Doc: "self limited to [min, max].",
		Aliases: []string{"clip"},
		InPlace: true, Out: true,
		Samples: samples("T(3,4), -0.5, 0.5", "T(3), 0.0", "T(3) | max=0.25", "I(5;-9,9), -2, 3", "I(5;-9,9), 0.5",
			"T(3,4), T(4), T(3,1;1,2)", "T(3) | min=T(3)", "T(3), 2.0, 1.0"),
		ErrorSamples: samples("T(3)"),
		Eval: func(a *op.Args) []op.Val {
			x, lo, hi := a.Val(), a.Val(), a.Val()
			if lo.Kind == op.None && hi.Kind == op.None {
				fail(ir.ErrRuntime, "torch.clamp: At least one of 'min' or 'max' must not be None")
			}
			return a.Ret(clamp(a.B, x, lo, hi))
		},
	})
	op.Register(op.Def{
		Sig: "clamp_min(Tensor self, Operand min) -> Tensor", Doc: "self, not below min.", InPlace: true, Out: true,
		Samples: samples("T(3,4), -0.5", "T(3), T(3)", "I(5;-9,9), 2"),
		Eval:    func(a *op.Args) []op.Val { return a.Ret(clamp(a.B, a.Val(), a.Val(), op.Val{})) },
	})
	op.Register(op.Def{
		Sig: "clamp_max(Tensor self, Operand max) -> Tensor", Doc: "self, not above max.", InPlace: true, Out: true,
		Samples: samples("T(3,4), 0.5", "T(3), T(3)", "I(5;-9,9), 2"),
		Eval: func(a *op.Args) []op.Val {
			x, hi := a.Val(), a.Val()
			return a.Ret(clamp(a.B, x, op.Val{}, hi))
		},
	})
}

func evalIsclose(a *op.Args) []op.Val {
	x, y, b := a.Val(), a.Val(), a.B
	if x.DType() != y.DType() {
		fail(ir.ErrRuntime, "%s did not match %s", typeName(x.DType()), typeName(y.DType()))
	}
	rtol, atol, equalNaN := a.Float(), a.Float(), a.Bool()
	if rtol < 0 || atol < 0 {
		fail(ir.ErrRuntime, "isclose: rtol and atol must be greater than or equal to zero, but got %g and %g", rtol, atol)
	}
	align(b, x.DType(), &x, &y)
	near := prim.Eq(b, x, y)
	if equalNaN && x.DType().IsInexact() {
		near = prim.BitwiseOr(b, near, prim.BitwiseAnd(b, prim.IsNaN(b, x), prim.IsNaN(b, y)))
	}
	if rtol == 0 && atol == 0 {
		return a.Ret(near)
	}
	x, y = floating(b, x), floating(b, y)
	allowed := prim.Add(b, prim.Mul(b, prim.Abs(b, y), op.FloatVal(rtol)), op.FloatVal(atol))
	diff := prim.Abs(b, prim.Sub(b, x, y))
	finite := prim.Lt(b, prim.Abs(b, y), op.FloatVal(inf))
	return a.Ret(prim.BitwiseOr(b, near, prim.BitwiseAnd(b, finite, prim.Le(b, diff, allowed))))
}
