package prim

import (
	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/engine/op"
)

func init() {
	registerSoftmax()
	registerScans()
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
	pSoftmax = op.RegisterPrim(op.Prim{Name: "softmax", Doc: "exp(x) normalised along a dim", NIn: 1, SaveOut: 1, InPlace: own, Infer: rowInfer("softmax", floats),
		VJP: func(c *op.VJPCall) []op.Val {
			return []op.Val{SoftmaxGrad(c.B, c.Cot[0], c.Out[0], c.Attr[0])}
		}})
	pLogSoftmax = op.RegisterPrim(op.Prim{Name: "log_softmax", Doc: "logarithm of softmax", NIn: 1, SaveOut: 1, InPlace: own, Infer: rowInfer("log_softmax", floats),
		VJP: func(c *op.VJPCall) []op.Val {
			return []op.Val{LogSoftmaxGrad(c.B, c.Cot[0], c.Out[0], c.Attr[0])}
		}})
	either := [][2]int{{0, 0}, {0, 1}}
	pSoftmaxGrad = op.RegisterPrim(op.Prim{Name: "softmax_grad", Doc: "y*(gy - sum(gy*y))", NIn: 2, SaveIn: 3, InPlace: either,
		Infer: rowInfer("softmax_grad", floats), VJP: softmaxGradVJP})
	pLogSoftmaxGrad = op.RegisterPrim(op.Prim{Name: "log_softmax_grad", Doc: "gy - exp(y)*sum(gy)", NIn: 2, SaveIn: 3, InPlace: either,
		Infer: rowInfer("log_softmax_grad", floats), VJP: logSoftmaxGradVJP})
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

func registerScans() {
	pCumsum = op.RegisterPrim(op.Prim{Name: "cumsum", Doc: "running sum along a dim", NIn: 1, InPlace: [][2]int{{0, 0}}, Infer: rowInfer("cumsum", numbers),
		VJP: func(c *op.VJPCall) []op.Val {
			// The sum from an element on: all, less those up to it, with it.
			b, g, dim := c.B, c.Cot[0], c.Attr[0]
			return []op.Val{Add(b, Sub(b, sumSpread(b, g, dim), Cumsum(b, g, dim)), g)}
		}})
	pTopk = op.RegisterPrim(op.Prim{Name: "topk", Doc: "the k largest or smallest along a dim, sorted", NIn: 1, SaveOut: 2,
		Infer: func(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
			x := in[0]
			d, err := checkDim(attr[1], len(x.Shape()))
			if err != nil {
				return nil, err
			}
			shape := append([]int64{}, x.Shape()...)
			n := int64(1)
			if len(shape) > 0 {
				n = shape[d]
			}
			if attr[0] < 0 || attr[0] > n {
				return nil, ir.Errorf(ir.ErrRuntime, "selected index k out of range")
			}
			if len(shape) > 0 {
				shape[d] = attr[0]
			}
			return append(out, op.OutSpec{DType: x.DType(), Shape: shape}, op.OutSpec{DType: ir.I64, Shape: shape}), nil
		},
		VJP: func(c *op.VJPCall) []op.Val {
			g, shape := c.Cot[0], c.In[0].Shape()
			if g.Kind == op.None || len(shape) == 0 {
				return []op.Val{g}
			}
			return []op.Val{Scatter(c.B, Zeros(c.B, g.DType(), g.Device(), shape), c.Out[1], g, c.Attr[1])}
		}})
}
