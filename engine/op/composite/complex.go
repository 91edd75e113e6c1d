package composite

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// registerComplexParts registers the operators that make, take apart and conjugate complex tensors. Others need no
// entry of their own: what primitives do to complex operands is in engine/op/prim.
func registerComplexParts() {
	op.Register(op.Def{
		Sig: "angle(Tensor self) -> Tensor", Doc: "The argument of complex elements; of real ones pi where an element is " +
			"negative, 0 elsewhere; NaN stays.", Out: true,
		Samples: anyReal(),
		Eval: func(a *op.Args) []op.Val {
			b, x := a.B, floating(a.B, a.Val())
			if x.DType().IsComplex() {
				return a.Ret(argument(b, x))
			}
			// A step of Sign: the gradient is zero and not absent.
			y := prim.Mul(b, prim.Relu(b, prim.Neg(b, prim.Sign(b, x))), op.FloatVal(math.Pi))
			return a.Ret(prim.Where(b, prim.IsNaN(b, x), x, y))
		},
	})
	sameType("sgn", "-1, 0 or 1 by the sign of each element; a complex element divided by its absolute value.", nil,
		sign, anyReal()...)
	forms := func(name, doc string, where op.Where, f unaryEmit) {
		op.Register(op.Def{Sig: name + "(Tensor self) -> Tensor", Doc: doc, View: true, Where: where,
			Samples: samples("T(3,4)", "I(3;0,5)", "B(2)"),
			Eval:    func(a *op.Args) []op.Val { return a.Ret(f(a.B, a.Val())) }})
	}
	forms("conj", "The complex conjugate, computed; a real tensor itself.", op.Function|op.Method, prim.Conj)
	for _, name := range []string{"resolve_conj", "resolve_neg"} {
		forms(name, "The tensor itself: nothing is conjugated or negated later.", op.Function|op.Method, same)
	}
	forms("real", "The real part, a view; a real tensor itself.", op.Function, realPart)
	forms("imag", "The imaginary part of a complex tensor, a view.", op.Function, func(b op.Builder, x op.Val) op.Val {
		if !x.DType().IsComplex() {
			fail(ir.ErrType, "imag is not implemented for tensors with non-complex dtypes.")
		}
		return prim.Imag(b, x)
	})
	part := op.DefNamed("imag")
	part.Samples, part.ErrorSamples = nil, samples("T(3)")
	unary("conj_physical", "The complex conjugate; a copy of a real tensor.", nil, func(b op.Builder, x op.Val) op.Val {
		if x.DType().IsComplex() {
			return prim.Conj(b, x)
		}
		return prim.Copy(b, x)
	}, anyReal()...)
	op.Register(op.Def{
		Sig: "isreal(Tensor self) -> Tensor", Doc: "Whether the imaginary part is 0.", Samples: samples("T(3,4)",
			"I(3;0,5)"), NoGrad: "the result is boolean",
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			if x.DType().IsComplex() {
				return a.Ret(prim.Eq(a.B, prim.Imag(a.B, x), op.IntVal(0)))
			}
			return a.Ret(prim.Fill(a.B, op.BoolVal(true), ir.Bool, x.Device(), x.Shape()))
		},
	})
	registerPairs()
}

// realPart is the real part of a complex tensor, and a real tensor itself.
func realPart(b op.Builder, x op.Val) op.Val {
	if x.DType().IsComplex() {
		return prim.Real(b, x)
	}
	return x
}

func sign(b op.Builder, x op.Val) op.Val {
	if x.DType() == ir.Bool {
		return prim.Copy(b, x)
	}
	return prim.Sign(b, x)
}

// argument is the angle of complex elements; its gradient at 0 is 0.
func argument(b op.Builder, x op.Val) op.Val {
	re, im := prim.Real(b, x), prim.Imag(b, x)
	zero := prim.Eq(b, x, op.IntVal(0))
	safe := prim.Where(b, zero, b.Detach(re), re) // signs of zeros count
	y := prim.Special(b, op.FnAtan2, im, safe)
	return prim.Where(b, zero, b.Detach(y), y)
}

func registerPairs() {
	op.Register(op.Def{
		Sig: "complex(Tensor real, Tensor imag) -> Tensor", Doc: "The complex tensor with these parts.",
		Where: op.Function, Out: true, ExactOut: true, Samples: samples("T(3,4), T(4)", "T(), T()"),
		ErrorSamples: samples("T(3), I(3;0,5)", "I(3;0,5), I(3;0,5)"),
		Eval: func(a *op.Args) []op.Val {
			x, y := a.Val(), a.Val()
			sameParts(&x, &y)
			align(a.B, ir.InvalidDType, &x, &y)
			return a.Ret(prim.MakeComplex(a.B, x, y))
		},
	})
	op.Register(op.Def{
		Sig: "polar(Tensor abs, Tensor angle) -> Tensor", Doc: "The complex tensor of polar coordinates.",
		Where: op.Function, Out: true, Samples: samples("T(3,4;0.1,2), T(4)", "T(;0.1,2), T()"),
		ErrorSamples: samples("T(3), I(3;0,5)"),
		Eval: func(a *op.Args) []op.Val {
			x, y, b := a.Val(), a.Val(), a.B
			sameParts(&x, &y)
			align(b, ir.InvalidDType, &x, &y)
			return a.Ret(prim.MakeComplex(b, prim.Mul(b, x, prim.Cos(b, y)), prim.Mul(b, x, prim.Sin(b, y))))
		},
	})
	op.Register(op.Def{
		Sig: "view_as_real(Tensor self) -> Tensor", Doc: "Real and imaginary part as a new last dim of size 2, a view.",
		Where: op.Function, View: true, ErrorSamples: samples("T(3)"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			if !x.DType().IsComplex() {
				fail(ir.ErrType, "view_as_real is only supported for complex tensors")
			}
			y := op.PairsOf(a.B, x)
			return a.Ret(a.B.View(y, y.L(), y.Offset, op.ViewOp{Kind: op.ViewReshape}))
		},
	})
	op.Register(op.Def{
		Sig: "view_as_complex(Tensor self) -> Tensor", Doc: "The last dim, of size 2, as real and imaginary part, a view.",
		Where: op.Function, View: true, Samples: samples("T(3,2)", "T(2)"), ErrorSamples: samples("T(3)", "T()", "I(2;0,5)"),
		ReadsOffset: true,
		Eval:        func(a *op.Args) []op.Val { return a.Ret(viewAsComplex(a.B, a.Val())) },
	})
}

// sameParts raises PyTorch's errors for the parts of a complex tensor.
func sameParts(x, y *op.Val) {
	if x.DType().Complex() == ir.InvalidDType || y.DType().Complex() == ir.InvalidDType || x.DType().IsComplex() {
		fail(ir.ErrNotImplemented, "Expected both inputs to be Half, Float or Double tensors but got %s and %s",
			typeName(x.DType()), typeName(y.DType()))
	}
	if x.DType() != y.DType() {
		fail(ir.ErrRuntime, "Expected object of scalar type %s but got scalar type %s for second argument",
			typeName(x.DType()), typeName(y.DType()))
	}
}

func viewAsComplex(b op.Builder, x op.Val) op.Val {
	l, n := x.L(), x.L().Rank()-1
	switch {
	case x.DType() != ir.F32 && x.DType() != ir.F64:
		fail(ir.ErrNotImplemented, "view_as_complex is only supported for half, float and double tensors, but got a "+
			"tensor of scalar type: %s", typeName(x.DType()))
	case n < 0:
		fail(ir.ErrRuntime, "Input tensor must have one or more dimensions")
	case l.Shape[n] != 2:
		fail(ir.ErrRuntime, "Tensor must have a last dimension of size 2")
	case l.Stride[n] != 1:
		fail(ir.ErrRuntime, "Tensor must have a last dimension with stride 1")
	case x.Offset%2 != 0:
		fail(ir.ErrRuntime, "Tensor must have a storage_offset divisible by 2")
	}
	to, ok := ir.ComplexLayout(l)
	if !ok {
		fail(ir.ErrRuntime, "Tensor must have a stride divisible by 2 for all but last dimension")
	}
	x = b.View(x, l, x.Offset, op.ViewOp{Kind: op.ViewReshape})
	return b.View(x, to, x.Offset, op.ViewOp{Kind: op.ViewPair})
}

// flatPairs views complex elements as numbers: the last dim has twice the size.
func flatPairs(b op.Builder, x op.Val) op.Val {
	y := op.PairsOf(b, x)
	n := len(y.Shape()) - 1
	if n == 0 {
		fail(ir.ErrRuntime, "self.dim() cannot be 0 to view %s as %s (different element sizes)", typeName(x.DType()),
			typeName(y.DType()))
	}
	if y.L().Stride[n-1] != 2 && y.Shape()[n-1] != 1 {
		fail(ir.ErrRuntime, "self.stride(-1) must be 1 to view %s as %s (different element sizes), but got %d",
			typeName(x.DType()), typeName(y.DType()), x.L().Stride[n-1])
	}
	shape := append(slices.Clone(y.Shape()[:n-1]), 2*y.Shape()[n-1])
	return prim.Reshape(b, y, shape)
}

// pairedView views numbers as complex elements: the last dim has half the size.
func pairedView(b op.Builder, x op.Val) op.Val {
	l, n := x.L(), x.L().Rank()-1
	d := x.DType()
	switch {
	case n < 0:
		fail(ir.ErrRuntime, "self.dim() cannot be 0 to view %s as %s (different element sizes)", typeName(d),
			typeName(d.Complex()))
	case l.Stride[n] != 1 && l.Shape[n] != 1:
		fail(ir.ErrRuntime, "self.stride(-1) must be 1 to view %s as %s (different element sizes), but got %d", typeName(d),
			typeName(d.Complex()), l.Stride[n])
	case l.Shape[n]%2 != 0:
		fail(ir.ErrRuntime, "self.size(-1) must be divisible by 2 to view %s as %s (different element sizes), but got %d",
			typeName(d), typeName(d.Complex()), l.Shape[n])
	}
	return viewAsComplex(b, prim.Reshape(b, x, append(slices.Clone(l.Shape[:n]), l.Shape[n]/2, 2)))
}
