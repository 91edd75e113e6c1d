package composite

import (
	"math"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// activation registers a function of nn.functional; sig is its parameter list after the input.
func activation(name, params, doc string, inPlace bool, f func(a *op.Args, x op.Val) op.Val, s ...op.Sample) {
	op.Register(op.Def{
		Sig: name + "(Tensor input" + params + ") -> Tensor", Doc: doc, Where: op.Functional | alsoAt[name], InPlace: inPlace,
		Out: withOut[name], Samples: s,
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			if plainHalf[name] {
				return a.Ret(f(a, x))
			}
			narrow := widen(a.B, x.DType(), &x)
			return a.Ret(narrow(f(a, x)))
		},
	})
}

// withOut are the functions of nn.functional that take out= in PyTorch.
var withOut = map[string]bool{"gelu": true, "softplus": true, "logsigmoid": true, "softshrink": true,
	"hardshrink": true}

// alsoAt are the functions of nn.functional that PyTorch has in other places too.
var alsoAt = map[string]op.Where{"celu": op.Function, "selu": op.Function, "threshold": op.Function,
	"hardshrink": op.Function | op.Method}

// plainHalf are the functions that need no wider type for halves: one primitive, or steps that PyTorch rounds one by
// one too.
var plainHalf = map[string]bool{"gelu": true, "silu": true, "softsign": true, "tanhshrink": true}

// ofFloat adapts an emit function that PyTorch defines for floats only.
func ofFloat(kernel string, f unaryEmit) func(a *op.Args, x op.Val) op.Val {
	return func(a *op.Args, x op.Val) op.Val {
		needFloat(kernel, x)
		return f(a.B, x)
	}
}

// ofAny adapts an emit function; integers are computed in the default dtype.
func ofAny(f unaryEmit) func(a *op.Args, x op.Val) op.Val {
	return func(a *op.Args, x op.Val) op.Val { return f(a.B, floating(a.B, x)) }
}

func acts() []op.Sample { return samples("T(3,4)", "T()", "T(2,0)") }

func registerActivationOps() {
	op.Register(op.Def{
		Sig: "relu(Tensor self) -> Tensor", Doc: "max(x, 0).", Where: op.Function | op.Method | op.Functional, InPlace: true,
		Samples: samples("T(3,4)", "T()", "T(2,0)", "I(5;-3,4)"), ErrorSamples: samples("B(3)"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			if x.DType() == ir.Bool {
				fail(ir.ErrNotImplemented, "Boolean inputs not supported for relu")
			}
			return a.Ret(prim.Relu(a.B, x))
		},
	})
	activation("gelu", ", *, str(none|tanh) approximate='none'", "x * Phi(x), Phi exact or by its tanh approximation.",
		false, func(a *op.Args, x op.Val) op.Val {
			needFloat("GeluKernelImpl", x)
			if a.Int() == 1 {
				return prim.GeluTanh(a.B, x)
			}
			return prim.Gelu(a.B, x)
		}, samples("T(3,4)", "T(3,4) | approximate='tanh'", "T()", "T(2,0)")...)
	activation("silu", "", "x * sigmoid(x).", false, ofFloat("silu_cpu", prim.Silu), acts()...)
	activation("leaky_relu", ", Scalar negative_slope=0.01", "x where positive, negative_slope * x elsewhere.", true,
		evalLeakyReLU, samples("T(3,4)", "T(3), 0.2", "T(4) | negative_slope=1.5")...)
	activation("elu", ", Scalar alpha=1.0", "x where positive, alpha * (exp(x) - 1) elsewhere.", true,
		func(a *op.Args, x op.Val) op.Val {
			return elu(a.B, x, a.Scalar().Float(), 1, 1)
		}, samples("T(3,4)", "T(3), 0.5", "T(3;-90,90)")...)
	activation("celu", ", Scalar alpha=1.0", "max(0, x) + min(0, alpha * (exp(x / alpha) - 1)).", true,
		func(a *op.Args, x op.Val) op.Val {
			alpha := a.Scalar().Float()
			if alpha == 0 {
				fail(ir.ErrRuntime, "ZeroDivisionError: alpha cannot be 0 for CELU")
			}
			return elu(a.B, x, alpha, 1, 1/alpha)
		}, samples("T(3,4)", "T(3), 0.5")...)
	activation("selu", "", "Scaled elu of self-normalising networks.", true, func(a *op.Args, x op.Val) op.Val {
		// The constants of Klambauer et al., Self-Normalizing Neural Networks, 2017, with PyTorch's digits.
		return elu(a.B, x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1)
	}, acts()...)
	registerBoundedActivations()
	registerSmoothActivations()
	registerShrinkingActivations()
	op.Register(op.Def{
		Sig: "prelu(Tensor self, Tensor weight) -> Tensor",
		Doc: "x where positive, weight * x elsewhere; one weight or one " +
			"a channel.",
		Where: op.Function | op.Method | op.Functional, Eval: evalPReLU,
		Samples: samples("T(3,4), T(4)", "T(3,4), T(1)", "T(2,3,4), T(3)", "T(3), T(1)"),
	})
}

// registerBoundedActivations registers the piecewise linear activations, and softplus.
func registerBoundedActivations() {
	activation("softplus", ", Scalar beta=1.0, Scalar threshold=20.0",
		"log(1 + exp(beta x)) / beta; x above the threshold.", false, evalSoftplus, samples("T(3,4)", "T(4;-30,30)",
			"T(3), 2.0, 1.0")...)
	activation("hardtanh", ", Scalar min_val=-1.0, Scalar max_val=1.0",
		"x clamped, without gradient at and beyond the bounds.", true, func(a *op.Args, x op.Val) op.Val {
			lo, hi := a.Scalar(), a.Scalar()
			return hardtanh(a.B, x, lo, hi)
		}, samples("T(3,4)", "T(4), -0.5, 0.25", "I(4;-3,4), -1, 2")...)
	activation("relu6", "", "min(max(x, 0), 6).", false, func(a *op.Args, x op.Val) op.Val {
		return hardtanh(a.B, x, op.FloatVal(0), op.FloatVal(6))
	}, samples("T(3,4;-3,9)", "T()")...)
	activation("hardsigmoid", "", "relu6(x + 3) / 6.", false, ofFloat("hardsigmoid_cpu", hardsigmoid),
		samples("T(3,4;-5,5)")...)
	activation("hardswish", "", "x * relu6(x + 3) / 6.", false,
		ofFloat("hardswish_cpu", func(b op.Builder, x op.Val) op.Val {
			return prim.Mul(b, x, hardsigmoid(b, x))
		}), samples("T(3,4;-5,5)")...)
}

func registerSmoothActivations() {
	activation("mish", "", "x * tanh(softplus(x)).", false, ofFloat("mish_cpu", func(b op.Builder, x op.Val) op.Val {
		return prim.Mul(b, x, prim.Tanh(b, softplus(b, x, 1, 20)))
	}), acts()...)
	activation("logsigmoid", "", "log(sigmoid(x)), without overflow.", false, ofFloat("log_sigmoid_cpu", logSigmoid),
		samples("T(3,4)", "T(4;-90,90)")...)
	activation("softsign", "", "x / (1 + |x|).", false, ofAny(func(b op.Builder, x op.Val) op.Val {
		return prim.Div(b, x, prim.Add(b, prim.Abs(b, x), op.FloatVal(1)))
	}), acts()...)
}

func registerShrinkingActivations() {
	activation("tanhshrink", "", "x - tanh(x).", false, ofAny(func(b op.Builder, x op.Val) op.Val {
		return prim.Sub(b, x, prim.Tanh(b, x))
	}), acts()...)
	activation("softshrink", ", Scalar lambd=0.5", "x moved towards 0 by lambd, 0 within it.", false, evalSoftshrink,
		samples("T(3,4)", "T(3), 0.1")...)
	activation("hardshrink", ", Scalar lambd=0.5", "x, 0 where |x| <= lambd.", false, func(a *op.Args, x op.Val) op.Val {
		l := a.Scalar()
		x = prim.Flat(a.B, x)
		return prim.Where(a.B, prim.Le(a.B, prim.Abs(a.B, x), l), op.FloatVal(0), x)
	}, samples("T(3,4)", "T(3), 0.1")...)
	activation("threshold", ", Scalar threshold, Scalar value", "x above the threshold, value elsewhere.", true,
		func(a *op.Args, x op.Val) op.Val {
			t, v := a.Scalar(), a.Scalar()
			x = prim.Flat(a.B, x)
			return prim.Where(a.B, prim.Le(a.B, x, t), v, x)
		}, samples("T(3,4), 0.1, 20.0")...)
	activation("glu", ", int dim=-1", "The first half times the sigmoid of the second.", false, evalGLU,
		samples("T(3,4)", "T(4,3), 0")...)
}

func evalLeakyReLU(a *op.Args, x op.Val) op.Val {
	needFloat("leaky_relu_cpu", x)
	x = prim.Flat(a.B, x)
	return prim.Where(a.B, prim.Gt(a.B, x, op.FloatVal(0)), x, prim.Mul(a.B, x, a.Scalar()))
}

// elu is scale*x for x > 0 and scale*alpha*(exp(x*inner)-1) elsewhere (Clevert, Unterthiner and Hochreiter, 2016). The
// exponent sees 0 where x > 0, so that its gradient there is 0 times a finite number.
func elu(b op.Builder, x op.Val, alpha, scale, inner float64) op.Val {
	needFloat("elu_cpu", x)
	pos := prim.Gt(b, x, op.FloatVal(0))
	e := prim.Where(b, pos, op.FloatVal(0), x)
	if inner != 1 {
		e = prim.Mul(b, e, op.FloatVal(inner))
	}
	e = prim.Expm1(b, e)
	if c := alpha * scale; c != 1 {
		e = prim.Mul(b, e, op.FloatVal(c))
	}
	if scale != 1 {
		x = prim.Mul(b, x, op.FloatVal(scale))
	}
	return prim.Where(b, pos, x, e)
}

func evalSoftplus(a *op.Args, x op.Val) op.Val {
	needFloat("softplus_cpu", x)
	beta, threshold := a.Scalar().Float(), a.Scalar().Float()
	return softplus(a.B, x, beta, threshold)
}

func softplus(b op.Builder, x op.Val, beta, threshold float64) op.Val {
	z := x
	if beta != 1 {
		z = prim.Mul(b, x, op.FloatVal(beta))
	}
	linear := prim.Gt(b, z, op.FloatVal(threshold))
	s := prim.Log1p(b, prim.Exp(b, prim.Where(b, linear, op.FloatVal(0), z)))
	if beta != 1 {
		s = prim.Div(b, s, op.FloatVal(beta))
	}
	return prim.Where(b, linear, x, s)
}

// logSigmoid is min(x, 0) - log1p(exp(-|x|)). PyTorch's gradient of 1/2 at 0 comes from writing x below 0 as x/2 -
// |x|/2.
func logSigmoid(b op.Builder, x op.Val) op.Val {
	n := prim.Abs(b, x)
	low := prim.Mul(b, prim.Sub(b, x, n), op.FloatVal(0.5))
	return prim.Sub(b, low, prim.Log1p(b, prim.Exp(b, prim.Neg(b, n))))
}

func hardtanh(b op.Builder, x, lo, hi op.Val) op.Val {
	if x.DType() == ir.Bool {
		fail(ir.ErrRuntime, "Bool inputs not supported for hardtanh")
	}
	if lo.Float() > hi.Float() {
		fail(ir.ErrValue, "min_val cannot be greater than max_val")
	}
	x = prim.Flat(b, x)
	y := prim.Where(b, prim.Ge(b, x, hi), hi, x)
	return prim.Where(b, prim.Le(b, x, lo), lo, y)
}

func hardsigmoid(b op.Builder, x op.Val) op.Val {
	shifted := prim.Add(b, x, op.FloatVal(3))
	return prim.Div(b, hardtanh(b, shifted, op.FloatVal(0), op.FloatVal(6)), op.FloatVal(6))
}

func evalSoftshrink(a *op.Args, x op.Val) op.Val {
	needFloat("softshrink_cpu", x)
	l := a.Scalar().Float()
	if l < 0 || math.IsNaN(l) {
		fail(ir.ErrRuntime, "lambda must be greater or equal to 0, but found to be %g.", l)
	}
	b := a.B
	x = prim.Flat(b, x)
	y := prim.Where(b, prim.Lt(b, x, op.FloatVal(-l)), prim.Add(b, x, op.FloatVal(l)), op.FloatVal(0))
	return prim.Where(b, prim.Gt(b, x, op.FloatVal(l)), prim.Sub(b, x, op.FloatVal(l)), y)
}

func evalGLU(a *op.Args, x op.Val) op.Val {
	if len(x.Shape()) == 0 {
		fail(ir.ErrRuntime, "glu does not support 0-dimensional tensors")
	}
	d := ir.WrapDim(a.Int(), len(x.Shape()))
	n := x.Shape()[d]
	if n%2 != 0 {
		fail(ir.ErrRuntime, "Halving dimension must be even, but dimension %d is size %d", d, n)
	}
	left, right := prim.Slice(a.B, x, int64(d), 0, n/2, 1), prim.Slice(a.B, x, int64(d), n/2, n, 1)
	return prim.Mul(a.B, left, prim.Sigmoid(a.B, right))
}

func evalPReLU(a *op.Args) []op.Val {
	x, w := a.Val(), a.Val()
	needFloat("prelu_cpu", x)
	if x.DType() != w.DType() {
		fail(ir.ErrRuntime, "prelu: Type promoting not supported. Got %s and %s", typeName(x.DType()), typeName(w.DType()))
	}
	if r := len(w.Shape()); r > 1 {
		fail(ir.ErrRuntime, "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = %d", r)
	}
	shape := x.Shape()
	if n := w.L().Numel; n != 1 {
		channels := int64(1)
		if len(shape) > 1 {
			channels = shape[1]
		}
		if n != channels {
			fail(ir.ErrRuntime, "Mismatch of parameter numbers and input channel size. Found parameter numbers = %d and "+
				"channel size = %d.", n, channels)
		}
		along := make([]int64, len(shape))
		for i := range along {
			along[i] = 1
		}
		along[1] = n
		w = prim.Reshape(a.B, w, along)
	} else {
		w = prim.Reshape(a.B, w, nil)
	}
	x = prim.Flat(a.B, x)
	neg := prim.Mul(a.B, x, expand(a.B, w, shape))
	return a.Ret(prim.Where(a.B, prim.Gt(a.B, x, op.FloatVal(0)), x, neg))
}
