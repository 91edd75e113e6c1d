package prim

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

func registerLossPrims() {
	pCrossEntropy = op.RegisterPrim(op.Prim{Name: "cross_entropy", IndexInput: 1, IgnoredIndex: 1,
		Doc: "-log(probability) of a class along a dim, 0 where it is the ignored one; whether it is not; the maximum and " +
			"log(sum(exp(x-maximum)))", NIn: 2,
		SaveIn: 3, SaveOut: 4 | 8, Infer: crossEntropyInfer, VJP: crossEntropyVJP,
		DataError: func(_ []int64, class int64) *ir.Error {
			return ir.Errorf(ir.ErrIndex, "Target %d is out of bounds.", class)
		}})
	pCrossEntropyGrad = op.RegisterPrim(op.Prim{Name: "cross_entropy_grad", Doc: "cotangent of cross_entropy's x: " +
		"g*(softmax(x) - onehot), 0 where the class is ignored", NIn: 5,
		SaveIn: 31, InPlace: [][2]int{{0, 1}}, VJP: crossEntropyGradVJP,
		Infer: func(in []op.Val, _ []int64, out []op.OutSpec) ([]op.OutSpec, error) {
			return append(out, op.OutSpec{DType: in[1].DType(), Shape: in[1].Shape()}), nil
		}})
}

func crossEntropyInfer(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
	x, t := in[0], in[1]
	if !x.DType().IsFloat() {
		return nil, notImplemented("log_softmax_lastdim_kernel_impl", x.DType())
	}
	if err := checkIndexType("cross_entropy", "int32/int64", t); err != nil {
		return nil, err
	}
	d, err := ir.CheckDim(attr[0], len(x.Shape()))
	if err != nil {
		return nil, err
	}
	if rows := slices.Delete(slices.Clone(x.Shape()), d, d+1); !slices.Equal(t.Shape(), rows) {
		return nil, ir.Errorf(ir.ErrRuntime, "cross_entropy: the target's shape is wrong: got %s, want %s",
			ir.ShapeString(t.Shape()), ir.ShapeString(rows))
	}
	if err := checkNotEmpty(ir.ErrIndex, x, t, d); err != nil {
		return nil, err
	}
	stat := op.OutSpec{DType: x.DType().ComputeType(), Shape: t.Shape()}
	loss := op.OutSpec{DType: x.DType(), Shape: t.Shape()}
	return append(out, loss, loss, stat, stat), nil
}

// crossEntropyVJP: the statistics have cotangents only where a gradient is differentiated again. These enter as their
// sum, the log-sum-exp, whose cotangent comes through logsum.
func crossEntropyVJP(c *op.VJPCall) []op.Val {
	b, x, t, top, logsum := c.B, c.In[0], c.In[1], c.Out[2], c.Out[3]
	dim := c.Attr[:1]
	var dx op.Val
	if g := c.Cot[0]; g.Kind != op.None {
		dx = b.Emit(pCrossEntropyGrad, c.Attr, g, x, t, top, logsum)
	}
	if g := c.Cot[3]; g.Kind != op.None {
		s := spread(b, g, dim, x.Shape())
		dx = sumCot(b, dx, Cast(b, Mul(b, s, probability(b, x, top, logsum, dim)), x.DType()))
	}
	return []op.Val{dx, {}}
}

// probability is softmax(x) in the compute type, from the statistics.
func probability(b op.Builder, x, top, logsum op.Val, dim []int64) op.Val {
	wide := Cast(b, x, x.DType().ComputeType())
	centred := Sub(b, wide, spread(b, top, dim, x.Shape()))
	return Exp(b, Sub(b, centred, spread(b, logsum, dim, x.Shape())))
}

// crossEntropyGradVJP differentiates g*(p - onehot) with p = exp(x - top - logsum), over the rows whose class is not
// ignored.
func crossEntropyGradVJP(c *op.VJPCall) []op.Val {
	b, g, x, t := c.B, c.In[0], c.In[1], c.In[2]
	shape, dim := x.Shape(), c.Attr[:1]
	wide := x.DType().ComputeType()
	valid, zero := Ne(b, t, op.IntVal(c.Attr[1])), op.FloatVal(0)
	h := Cast(b, c.Cot[0], wide)
	hp := Mul(b, h, probability(b, x, c.In[3], c.In[4], dim))
	sum := Sum(b, hp, dim)
	out := make([]op.Val, len(c.In))
	if c.Need[0] {
		class := Where(b, valid, t, op.IntVal(0))
		at := Reshape(b, Gather(b, h, keep(b, class, dim, shape), c.Attr[0]), t.Shape())
		out[0] = Cast(b, Where(b, valid, Sub(b, sum, at), zero), g.DType())
	}
	g = Where(b, valid, Cast(b, g, wide), zero)
	if c.Need[1] {
		out[1] = Cast(b, Mul(b, hp, spread(b, g, dim, shape)), x.DType())
	}
	if c.Need[4] {
		out[4] = Neg(b, Mul(b, sum, g))
	}
	return out
}

// CrossEntropy returns -log(probability) of class t along dim in the softmax of x, 0 where t is ignore; and a count
// without gradient: 0 where t is ignore, else 1.
func CrossEntropy(b op.Builder, x, t op.Val, dim, ignore int64) (loss, count op.Val) {
	o := b.EmitN(pCrossEntropy, []int64{dim, ignore}, x, t)
	return o[0], b.Detach(o[1])
}
