package prim

import (
	"github.com/torchlette/torchlette/engine/op"
)

func registerRowsPrims() {
	registerSoftmax()
}

func sumSpread(b op.Builder, x op.Val, dim int64) op.Val {
	d := []int64{dim}
	if len(x.Shape()) == 0 {
		return x
	}
	return spread(b, Sum(b, x, d), d, x.Shape())
}

func registerSoftmax() {
	own := [][2]int{{0, 0}}
	pSoftmax = op.RegisterPrim(op.Prim{Name: "softmax", Doc: "exp(x) normalised along a dim, or its logarithm", NIn: 1,
		SaveOut: 1, InPlace: own, Infer: rowInfer("softmax", floats),
		VJP: func(c *op.VJPCall) []op.Val {
			if c.Attr[1] != 0 {
				return []op.Val{LogSoftmaxGrad(c.B, c.Cot[0], c.Out[0], c.Attr[0])}
			}
			return []op.Val{SoftmaxGrad(c.B, c.Cot[0], c.Out[0], c.Attr[0])}
		}})
	either := [][2]int{{0, 0}, {0, 1}}
	pSoftmaxGrad = op.RegisterPrim(op.Prim{Name: "softmax_grad", Doc: "y*(gy - sum(gy*y)), or of the logarithm gy - " +
		"exp(y)*sum(gy)", NIn: 2, SaveIn: 3, InPlace: either,
		Infer: rowInfer("softmax_grad", floats), VJP: func(c *op.VJPCall) []op.Val {
			if c.Attr[1] != 0 {
				return logSoftmaxGradVJP(c)
			}
			return softmaxGradVJP(c)
		}})
}

func softmaxGradVJP(c *op.VJPCall) []op.Val {
	b, h, gy, y, dim := c.B, c.Cot[0], c.In[0], c.In[1], c.Attr[0]
	var out [2]op.Val
	if c.Need[0] {
		out[0] = SoftmaxGrad(b, h, y, dim) // the Jacobian is symmetric
	}
	if c.Need[1] {
		s := sumSpread(b, Mul(b, gy, y), dim)
		out[1] = Sub(b, Mul(b, h, Sub(b, gy, s)), Mul(b, gy, sumSpread(b, Mul(b, h, y), dim)))
	}
	return out[:]
}

func logSoftmaxGradVJP(c *op.VJPCall) []op.Val {
	b, h, gy, dim := c.B, c.Cot[0], c.In[0], c.Attr[0]
	hp := Mul(b, h, Exp(b, c.In[1]))
	var out [2]op.Val
	if c.Need[0] {
		out[0] = Sub(b, h, sumSpread(b, hp, dim))
	}
	if c.Need[1] {
		out[1] = Neg(b, Mul(b, hp, sumSpread(b, gy, dim)))
	}
	return out[:]
}
