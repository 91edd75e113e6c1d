package prim

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

var pBatchNorm, pBatchNormGrad op.PrimID

func registerBatchnormPrims() {
	pBatchNorm = op.RegisterPrim(op.Prim{Name: "batch_norm", Doc: "(x-mean)*rstd*w+b with the statistics of each " +
		"channel, which is dim 1", NIn: -1,
		SaveIn: 1 | 2, SaveOut: 2 | 4, InPlace: [][2]int{{0, 0}}, Infer: batchNormInfer, VJP: batchNormVJP})
	pBatchNormGrad = op.RegisterPrim(op.Prim{Name: "batch_norm_grad", Doc: "cotangents of batch_norm's x, weight and bias",
		NIn:    -1,
		SaveIn: 31, InPlace: [][2]int{{0, 0}, {0, 1}}, VJP: batchNormGradVJP,
		Infer: func(in []op.Val, _ []int64, out []op.OutSpec) ([]op.OutSpec, error) {
			x := op.OutSpec{DType: in[1].DType(), Shape: in[1].Shape()}
			channel := op.OutSpec{DType: x.DType.ComputeType(), Shape: in[2].Shape()}
			return append(out, x, channel, channel), nil
		}})
}

// BatchNorm normalizes x [N, C, ...] by the mean and variance of each channel (Ioffe and Szegedy, 2015). w and b [C]
// may have Kind None. mean and the biased variance [C] are in x's compute type.
func BatchNorm(b op.Builder, x, w, bias, eps op.Val) (y, mean, variance op.Val) {
	in := []op.Val{x}
	for _, v := range []op.Val{w, bias} {
		if v.IsTensor() {
			in = append(in, v)
		}
	}
	o := b.EmitN(pBatchNorm, []int64{flag(w.IsTensor()), flag(bias.IsTensor())}, append(in, eps)...)
	return o[0], o[1], o[3]
}

// BatchNormGrad returns the cotangents of x, of the weight and of the bias, the last two in the compute type.
func BatchNormGrad(b op.Builder, gy, x, mean, rstd, w op.Val) (dx, dw, db op.Val) {
	in := []op.Val{gy, x, mean, rstd}
	if w.IsTensor() {
		in = append(in, w)
	}
	o := b.EmitN(pBatchNormGrad, []int64{flag(w.IsTensor())}, in...)
	return o[0], o[1], o[2]
}

func batchNormInfer(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
	x := in[0]
	if !x.DType().IsFloat() {
		return nil, notImplemented("batch_norm", x.DType())
	}
	if len(x.Shape()) < 2 {
		return nil, ir.Errorf(ir.ErrRuntime, "batch_norm: got %d dims, want at least 2", len(x.Shape()))
	}
	channel := x.Shape()[1:2]
	for _, p := range in[1 : 1+attr[0]+attr[1]] {
		if !slices.Equal(p.Shape(), channel) {
			return nil, ir.Errorf(ir.ErrRuntime, "batch_norm: weight and bias: got shape %s, want %s", ir.ShapeString(p.Shape()),
				ir.ShapeString(channel))
		}
	}
	stat := op.OutSpec{DType: x.DType().ComputeType(), Shape: channel}
	return append(out, op.OutSpec{DType: x.DType(), Shape: x.Shape()}, stat, stat, stat), nil // y, mean, rstd, variance
}

// channels computes over channels in the compute type.
func channels(b op.Builder, x op.Val) rows {
	r := rows{b: b, shape: x.Shape(), d: x.DType().ComputeType()}
	for i, n := range r.shape {
		if i != 1 {
			r.dims = append(r.dims, int64(i))
			if r.n == 0 {
				r.n = 1
			}
			r.n *= float64(n)
		}
	}
	return r
}

func batchNormVJP(c *op.VJPCall) []op.Val {
	b, x := c.B, c.In[0]
	out := make([]op.Val, len(c.In))
	var w op.Val
	if c.Attr[0] != 0 {
		w = c.In[1]
	}
	if gy := c.Cot[0]; gy.Kind != op.None {
		dx, dw, db := BatchNormGrad(b, gy, x, c.Out[1], c.Out[2], w)
		out[0] = dx
		if c.Attr[0] != 0 {
			out[1] = Cast(b, dw, w.DType())
		}
		if c.Attr[1] != 0 {
			out[1+c.Attr[0]] = Cast(b, db, c.In[1+c.Attr[0]].DType())
		}
	}
	if c.Need[0] {
		r := channels(b, x)
		out[0] = sumCot(b, out[0], statsCot(r, x, c.Out[1], c.Out[2], c.Cot[1], c.Cot[2]))
		if g := c.Cot[3]; g.Kind != op.None {
			centred := Sub(b, r.wide(x), r.spread(c.Out[1]))
			out[0] = sumCot(b, out[0], Cast(b, Mul(b, r.spread(Mul(b, g, num(2/r.n))), centred), x.DType()))
		}
	}
	return out
}

// batchNormGradVJP differentiates, with xhat = (x-mean)*rstd, gw = gy*w, m the mean of a channel,
//
//	dx = rstd*(gw - m(gw) - xhat*m(gw*xhat)),  dw = sum(gy*xhat),  db = sum(gy),
//
// with x, mean and rstd as independent variables, as in layerNormGradVJP.
func batchNormGradVJP(c *op.VJPCall) []op.Val {
	b := c.B
	r := channels(b, c.In[1])
	gy, rstd := r.wide(c.In[0]), r.spread(c.In[3])
	centred := Sub(b, r.wide(c.In[1]), r.spread(c.In[2]))
	xhat := Mul(b, centred, rstd)
	out := make([]op.Val, len(c.In))
	var dgy, dxhat, drstd op.Val
	if c.Cot[0].Kind != op.None {
		h, gw, w := r.wide(c.Cot[0]), gy, op.Val{}
		if len(c.In) > 4 {
			w = r.spread(r.wide(c.In[4]))
			gw = Mul(b, gy, w)
		}
		hr := Mul(b, h, rstd)
		mhx, mgx := r.mean(Mul(b, hr, xhat)), r.mean(Mul(b, gw, xhat))
		dgw := Sub(b, Sub(b, hr, r.mean(hr)), Mul(b, xhat, mhx))
		dxhat = Neg(b, Add(b, Mul(b, hr, mgx), Mul(b, gw, mhx)))
		drstd = Mul(b, h, Sub(b, Sub(b, gw, r.mean(gw)), Mul(b, xhat, mgx)))
		dgy = dgw
		if w.IsTensor() {
			dgy = Mul(b, dgw, w)
			out[4] = Cast(b, r.sum(Mul(b, dgw, gy)), c.In[4].DType())
		}
	}
	if h := c.Cot[1]; h.Kind != op.None {
		wide := r.spread(h)
		dgy = sumCot(b, dgy, Mul(b, wide, xhat))
		dxhat = sumCot(b, dxhat, Mul(b, wide, gy))
	}
	if h := c.Cot[2]; h.Kind != op.None {
		dgy = sumCot(b, dgy, r.spread(h))
	}
	if dgy.Kind != op.None {
		out[0] = Cast(b, dgy, c.In[0].DType())
	}
	if dxhat.Kind != op.None {
		dxr := Mul(b, dxhat, rstd)
		out[1] = Cast(b, dxr, c.In[1].DType())
		out[2] = Neg(b, r.sum(dxr))
		out[3] = r.sum(sumCot(b, drstd, Mul(b, dxhat, centred)))
	}
	return out
}
