package prim

import (
	"math"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

const (
	saveX  = 1 << 0
	saveY  = 1 << 1
	noTape = op.NotDifferentiable("its result is no float")
)

func num(f float64) op.Val { return op.FloatVal(f) }

// unaryRule gives the cotangent of x from the cotangent g of y = f(x).
type unaryRule func(b op.Builder, g, x, y op.Val) op.Val

func unary(name, doc string, a accepts, saveIn, saveOut uint32, rule unaryRule) op.PrimID {
	return op.RegisterPrim(op.Prim{Name: name, Doc: doc, NIn: 1, Elementwise: true, SaveIn: saveIn, SaveOut: saveOut,
		Infer: mapInfer(name, a, ir.InvalidDType),
		VJP: func(c *op.VJPCall) []op.Val {
			return []op.Val{rule(c.B, c.Cot[0], c.In[0], c.Out[0])}
		}})
}

func registerUnaryPrims() {
	registerArithmetic()
	registerExponential()
	registerTrigonometric()
	registerActivations()
	pIsNaN = op.RegisterPrim(op.Prim{Name: "isnan", Doc: "x is NaN", NIn: 1, Elementwise: true, NoVJP: noTape,
		Infer: mapInfer("isnan", all, ir.Bool)})
}

// The variants of step. StepRound rounds half to even.
const (
	stepFloor int64 = iota
	stepCeil
	StepRound
	stepTrunc
	stepSign
)

func registerArithmetic() {
	pNeg = unary("neg", "-x", numbers, 0, 0, func(b op.Builder, g, _, _ op.Val) op.Val { return Neg(b, g) })
	pAbs = unary("abs", "|x|", all, saveX, 0, func(b op.Builder, g, x, _ op.Val) op.Val { return Mul(b, g, Sign(b, x)) })
	steps := []string{"floor", "ceil", "round", "trunc", "sign"}
	pStep = op.RegisterPrim(op.Prim{Name: "step", Doc: "x rounded down, up, half to even or toward zero; its sign: " +
		"functions without slope", NIn: 1, Elementwise: true, Variants: steps,
		Infer: func(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
			a := numbers
			if attr[0] == stepSign {
				a = all
			}
			return mapInfer(steps[attr[0]], a, ir.InvalidDType)(in, attr, out)
		},
		VJP: func(c *op.VJPCall) []op.Val { return []op.Val{ZerosLike(c.B, c.Cot[0])} }})
	pCopy = unary("copy", "a dense copy", all, 0, 0, func(_ op.Builder, g, _, _ op.Val) op.Val { return g })
}

func registerExponential() {
	pExp = unary("exp", "e**x", floats, 0, 1, func(b op.Builder, g, _, y op.Val) op.Val { return Mul(b, g, y) })
	pLog = unary("log", "natural logarithm", floats, saveX, 0, func(b op.Builder, g, x, _ op.Val) op.Val {
		return Div(b, g,
			x)
	})
	pSqrt = unary("sqrt", "square root", floats, 0, 1, func(b op.Builder, g, _, y op.Val) op.Val {
		return Div(b, g, Mul(b, y, num(2)))
	})
	pRsqrt = unary("rsqrt", "1/sqrt(x)", floats, 0, 1, func(b op.Builder, g, _, y op.Val) op.Val {
		return Mul(b, Mul(b, g, num(-0.5)), Mul(b, y, Mul(b, y, y)))
	})
}

func registerTrigonometric() {
	pSin = unary("sin", "sine", floats, saveX, 0, func(b op.Builder, g, x, _ op.Val) op.Val {
		return Mul(b, g,
			Cos(b, x))
	})
	pCos = unary("cos", "cosine", floats, saveX, 0, func(b op.Builder, g, x, _ op.Val) op.Val {
		return Neg(b,
			Mul(b, g, Sin(b, x)))
	})
	pTanh = unary("tanh", "hyperbolic tangent", floats, 0, 1, func(b op.Builder, g, _, y op.Val) op.Val {
		return Mul(b, g, Sub(b, num(1), Mul(b, y, y)))
	})
}

// flat is 0 for each element of x. Where the gradient of a gradient is recorded it depends on x, with derivative 0: so
// the second derivative of a piecewise linear network is 0, as in PyTorch, rather than a missing path.
func flat(b op.Builder, x op.Val) op.Val {
	if !b.NeedsGrad(x) {
		return num(0)
	}
	sign := Sign(b, x)
	return Sub(b, sign, b.Detach(sign))
}

func registerActivations() {
	pSigmoid = unary("sigmoid", "1/(1+exp(-x))", floats, 0, 1, func(b op.Builder, g, _, y op.Val) op.Val {
		return Mul(b, g, Mul(b, Sub(b, num(1), y), y))
	})
	pRelu = unary("relu", "max(x, 0); its derivative at 0 is 0", numbers, 0, 1, func(b op.Builder, g, _, y op.Val) op.Val {
		return Where(b, Le(b, y, num(0)), flat(b, y), g)
	})
	pSilu = unary("silu", "x*sigmoid(x)", floats, saveX, 0, func(b op.Builder, g, x, _ op.Val) op.Val {
		s := Sigmoid(b, x)
		return Mul(b, g, Mul(b, s, Add(b, Mul(b, x, Sub(b, num(1), s)), num(1))))
	})
	gelus := []string{"gelu", "gelu_tanh"}
	pGelu = op.RegisterPrim(op.Prim{Name: "gelu", Doc: "x*Phi(x), by erf or approximated by tanh", NIn: 1,
		Elementwise: true, SaveIn: saveX, Variants: gelus,
		Infer: variantInfer(gelus, floats, ir.InvalidDType),
		VJP:   func(c *op.VJPCall) []op.Val { return []op.Val{c.B.Emit(pGeluGrad, c.Attr, c.In[0], c.Cot[0])} }})
	grads := []string{"gelu_grad", "gelu_tanh_grad"}
	pGeluGrad = op.RegisterPrim(op.Prim{Name: "gelu_grad", Doc: "gy times gelu's derivative at x", NIn: 2,
		Elementwise: true, SaveIn: 3, Variants: grads,
		Infer: variantInfer(grads, floats, ir.InvalidDType), VJP: geluGradVJP})
}

func geluGradVJP(c *op.VJPCall) []op.Val {
	second := geluSecond
	if c.Attr[0] == geluTanh {
		second = geluTanhSecond
	}
	var out [2]op.Val
	if c.Need[0] {
		out[0] = Mul(c.B, Mul(c.B, c.Cot[0], c.In[1]), second(c.B, c.In[0]))
	}
	if c.Need[1] {
		out[1] = c.B.Emit(pGeluGrad, c.Attr, c.In[0], c.Cot[0])
	}
	return out[:]
}

// The variants of gelu and of its derivative.
const (
	geluErf int64 = iota
	geluTanh
)

// geluSecond is the second derivative of x*Phi(x): phi(x)*(2-x^2).
func geluSecond(b op.Builder, x op.Val) op.Val {
	x2 := Mul(b, x, x)
	phi := Mul(b, Exp(b, Mul(b, x2, num(-0.5))), num(1/math.Sqrt(2*math.Pi)))
	return Mul(b, phi, Sub(b, num(2), x2))
}

// geluTanhSecond is the second derivative of x/2*(1+tanh(u)), u = k*(x+c*x^3).
func geluTanhSecond(b op.Builder, x op.Val) op.Val {
	k, c := math.Sqrt(2/math.Pi), 0.044715
	x2 := Mul(b, x, x)
	u := Mul(b, Mul(b, x, num(k)), Add(b, Mul(b, x2, num(c)), num(1)))
	u1 := Add(b, Mul(b, x2, num(3*k*c)), num(k))
	u2 := Mul(b, x, num(6*k*c))
	t := Tanh(b, u)
	curve := Sub(b, u2, Mul(b, Mul(b, t, num(2)), Mul(b, u1, u1)))
	return Mul(b, Sub(b, num(1), Mul(b, t, t)), Add(b, u1, Mul(b, Mul(b, x, num(0.5)), curve)))
}
