package prim

import (
	"math"

	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/engine/op"
)

const (
	saveX  = 1 << 0
	saveY  = 1 << 1
	noTape = op.NotDifferentiable("its result is no float")
)

func num(f float64) op.Val { return op.FloatVal(f) }

// unaryRule gives the cotangent of x from that of y = f(x).
type unaryRule func(b op.Builder, g, x, y op.Val) op.Val

func unary(name, doc string, a accepts, saveIn, saveOut uint32, rule unaryRule) op.PrimID {
	return op.RegisterPrim(op.Prim{Name: name, Doc: doc, NIn: 1, Elementwise: true, SaveIn: saveIn, SaveOut: saveOut,
		Infer: mapInfer(name, a, ir.InvalidDType),
		VJP: func(c *op.VJPCall) []op.Val {
			return []op.Val{rule(c.B, c.Cot[0], c.In[0], c.Out[0])}
		}})
}

func init() {
	registerArithmetic()
	registerExponential()
	registerTrigonometric()
	registerActivations()
	registerLogical()
}

func stepwise(b op.Builder, g, _, _ op.Val) op.Val { return ZerosLike(b, g) }

func registerArithmetic() {
	pNeg = unary("neg", "-x", numbers, 0, 0, func(b op.Builder, g, _, _ op.Val) op.Val { return Neg(b, g) })
	pAbs = unary("abs", "|x|", all, saveX, 0, func(b op.Builder, g, x, _ op.Val) op.Val { return Mul(b, g, Sign(b, x)) })
	pSign = unary("sign", "-1, 0 or 1", all, 0, 0, stepwise)
	pFloor = unary("floor", "round down", numbers, 0, 0, stepwise)
	pCeil = unary("ceil", "round up", numbers, 0, 0, stepwise)
	pRound = unary("round", "round half to even", numbers, 0, 0, stepwise)
	pTrunc = unary("trunc", "round toward zero", numbers, 0, 0, stepwise)
	pCopy = unary("copy", "a dense copy", all, 0, 0, func(_ op.Builder, g, _, _ op.Val) op.Val { return g })
	pReciprocal = unary("reciprocal", "1/x", floats, 0, 1, func(b op.Builder, g, _, y op.Val) op.Val {
		return Neg(b, Mul(b, g, Mul(b, y, y)))
	})
}

func registerExponential() {
	pExp = unary("exp", "e**x", floats, 0, 1, func(b op.Builder, g, _, y op.Val) op.Val { return Mul(b, g, y) })
	pExpm1 = unary("expm1", "e**x - 1, exact near 0", floats, 0, 1, func(b op.Builder, g, _, y op.Val) op.Val {
		return Mul(b, g, Add(b, y, num(1)))
	})
	pLog = unary("log", "natural logarithm", floats, saveX, 0, func(b op.Builder, g, x, _ op.Val) op.Val { return Div(b, g, x) })
	pLog1p = unary("log1p", "log(1+x), exact near 0", floats, saveX, 0, func(b op.Builder, g, x, _ op.Val) op.Val {
		return Div(b, g, Add(b, x, num(1)))
	})
	pSqrt = unary("sqrt", "square root", floats, 0, 1, func(b op.Builder, g, _, y op.Val) op.Val {
		return Div(b, g, Mul(b, y, num(2)))
	})
	pRsqrt = unary("rsqrt", "1/sqrt(x)", floats, 0, 1, func(b op.Builder, g, _, y op.Val) op.Val {
		return Mul(b, Mul(b, g, num(-0.5)), Mul(b, y, Mul(b, y, y)))
	})
}

func registerTrigonometric() {
	pSin = unary("sin", "sine", floats, saveX, 0, func(b op.Builder, g, x, _ op.Val) op.Val { return Mul(b, g, Cos(b, x)) })
	pCos = unary("cos", "cosine", floats, saveX, 0, func(b op.Builder, g, x, _ op.Val) op.Val { return Neg(b, Mul(b, g, Sin(b, x))) })
	pTan = unary("tan", "tangent", floats, 0, 1, func(b op.Builder, g, _, y op.Val) op.Val {
		return Mul(b, g, Add(b, Mul(b, y, y), num(1)))
	})
	pTanh = unary("tanh", "hyperbolic tangent", floats, 0, 1, func(b op.Builder, g, _, y op.Val) op.Val {
		return Mul(b, g, Sub(b, num(1), Mul(b, y, y)))
	})
	pErf = unary("erf", "error function", floats, saveX, 0, func(b op.Builder, g, x, _ op.Val) op.Val {
		return Mul(b, g, Mul(b, Exp(b, Neg(b, Mul(b, x, x))), num(2/math.Sqrt(math.Pi))))
	})
}

func registerActivations() {
	pSigmoid = unary("sigmoid", "1/(1+exp(-x))", floats, 0, 1, func(b op.Builder, g, _, y op.Val) op.Val {
		return Mul(b, g, Mul(b, Sub(b, num(1), y), y))
	})
	pRelu = unary("relu", "max(x, 0); its derivative at 0 is 0", numbers, 0, 1, func(b op.Builder, g, _, y op.Val) op.Val {
		return Where(b, Le(b, y, num(0)), num(0), g)
	})
	pSilu = unary("silu", "x*sigmoid(x)", floats, saveX, 0, func(b op.Builder, g, x, _ op.Val) op.Val {
		s := Sigmoid(b, x)
		return Mul(b, g, Mul(b, s, Add(b, Mul(b, x, Sub(b, num(1), s)), num(1))))
	})
	pGelu = unary("gelu", "x*Phi(x) by erf", floats, saveX, 0, func(b op.Builder, g, x, _ op.Val) op.Val { return GeluGrad(b, x, g) })
	pGeluTanh = unary("gelu_tanh", "x*Phi(x), approximated by tanh", floats, saveX, 0, func(b op.Builder, g, x, _ op.Val) op.Val {
		return GeluTanhGrad(b, x, g)
	})
	pGeluGrad = geluGrad("gelu_grad", GeluGrad, func(b op.Builder, x op.Val) op.Val {
		// d2/dx2 of x*Phi(x) is phi(x)*(2-x^2).
		x2 := Mul(b, x, x)
		phi := Mul(b, Exp(b, Mul(b, x2, num(-0.5))), num(1/math.Sqrt(2*math.Pi)))
		return Mul(b, phi, Sub(b, num(2), x2))
	})
	pGeluTanhGrad = geluGrad("gelu_tanh_grad", GeluTanhGrad, geluTanhSecond)
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

// geluGrad registers gy times an activation's derivative; second is the second derivative.
func geluGrad(name string, self func(b op.Builder, x, gy op.Val) op.Val, second func(b op.Builder, x op.Val) op.Val) op.PrimID {
	return op.RegisterPrim(op.Prim{Name: name, Doc: "gy times the activation's derivative at x", NIn: 2, Elementwise: true, SaveIn: 3,
		Infer: mapInfer(name, floats, ir.InvalidDType),
		VJP: func(c *op.VJPCall) []op.Val {
			var out [2]op.Val
			if c.Need[0] {
				out[0] = Mul(c.B, Mul(c.B, c.Cot[0], c.In[1]), second(c.B, c.In[0]))
			}
			if c.Need[1] {
				out[1] = self(c.B, c.In[0], c.Cot[0])
			}
			return out[:]
		}})
}

func registerLogical() {
	plain := func(name, doc string, a accepts, result ir.DType) op.PrimID {
		return op.RegisterPrim(op.Prim{Name: name, Doc: doc, NIn: 1, Elementwise: true, NoVJP: noTape, Infer: mapInfer(name, a, result)})
	}
	pLogicalNot = plain("logical_not", "x == 0", all, ir.Bool)
	pBitwiseNot = plain("bitwise_not", "complement of the bits", logical, ir.InvalidDType)
	pIsNaN = plain("isnan", "x is NaN", all, ir.Bool)
}
