package prim

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

func registerLayernormPrims() {
	pLayerNorm = op.RegisterPrim(op.Prim{Name: "layer_norm", Doc: "(x-mean)*rstd*w+b over the last dims, or x*rstd*w " +
		"about a mean of 0", NIn: -1,
		SaveIn: 1 | 2, SaveOut: 2 | 4, InPlace: [][2]int{{0, 0}}, Infer: layerNormInfer, VJP: layerNormVJP})
	pLayerNormGrad = op.RegisterPrim(op.Prim{Name: "layer_norm_grad", Doc: "cotangent of layer_norm's x", NIn: -1,
		SaveIn: 31, InPlace: [][2]int{{0, 0}, {0, 1}}, Infer: layerNormGradInfer, VJP: layerNormGradVJP})
	pLayerNormGradWB = op.RegisterPrim(op.Prim{Name: "layer_norm_grad_wb", Doc: "cotangents of layer_norm's weight and " +
		"bias", NIn: 4,
		SaveIn: 15, VJP: layerNormGradWBVJP,
		Infer: func(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
			s := op.OutSpec{DType: in[1].DType(), Shape: inner(in[1], attr)}
			return append(out, s, s), nil
		}})
}

// outer and inner split the shape of x into row dims and normalized dims.
func outer(x op.Val, attr []int64) []int64 { return x.Shape()[:len(x.Shape())-int(attr[0])] }
func inner(x op.Val, attr []int64) []int64 { return x.Shape()[len(x.Shape())-int(attr[0]):] }

func innerDims(x op.Val, attr []int64) []int64 {
	var d []int64
	for i := len(outer(x, attr)); i < len(x.Shape()); i++ {
		d = append(d, int64(i))
	}
	return d
}

func layerNormInfer(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
	x := in[0]
	if !x.DType().IsFloat() {
		return nil, notImplemented("LayerNormKernelImpl", x.DType())
	}
	if n := int(attr[0]); n < 1 || n > len(x.Shape()) {
		return nil, ir.Errorf(ir.ErrRuntime, "layer_norm: the number of normalized dims is wrong: got %d, want 1 to %d", n,
			len(x.Shape()))
	}
	for i, name := range []string{"weight", "bias"} {
		if attr[1+i] == 0 {
			continue
		}
		k := 1
		if i == 1 && attr[1] != 0 {
			k = 2
		}
		if p := in[k]; !slices.Equal(p.Shape(), inner(x, attr)) || p.DType() != x.DType() {
			return nil, ir.Errorf(ir.ErrRuntime, "Expected %s to be of same shape as normalized_shape, but got %s of shape %s "+
				"and normalized_shape = %s",
				name, name, ir.ShapeString(p.Shape()), ir.ShapeString(inner(x, attr)))
		}
	}
	stat := op.OutSpec{DType: x.DType().ComputeType(), Shape: outer(x, attr)}
	return append(out, op.OutSpec{DType: x.DType(), Shape: x.Shape()}, stat, stat), nil
}

func layerNormGradInfer(in []op.Val, _ []int64, out []op.OutSpec) ([]op.OutSpec, error) {
	s, err := elementwise("layer_norm_grad", floats, in[:2])
	return append(out, s), err
}

func layerNormVJP(c *op.VJPCall) []op.Val {
	b, x, mean, rstd, n := c.B, c.In[0], c.Out[1], c.Out[2], int(c.Attr[0])
	hasW, hasB := c.Attr[1] != 0, c.Attr[2] != 0
	out := make([]op.Val, len(c.In))
	var w op.Val
	if hasW {
		w = c.In[1]
	}
	if gy := c.Cot[0]; gy.Kind != op.None {
		k := 1
		if hasW {
			k = 2
		}
		if hasW && c.Need[1] {
			dw, db := LayerNormGradWB(b, gy, x, mean, rstd, n)
			out[1] = dw
			if hasB && c.Need[2] {
				out[2] = db
			}
		} else if hasB && c.Need[k] {
			out[k] = sumRows(b, gy, c.Attr)
		}
		if c.Need[0] { // last, so that what reads it follows it: one kernel may do both
			out[0] = LayerNormGrad(b, gy, x, mean, rstd, w, n, c.Attr[3] != 0)
		}
	}
	if c.Need[0] {
		gm := c.Cot[1]
		if c.Attr[3] != 0 { // the mean is the number 0
			gm = op.Val{}
		}
		out[0] = sumCot(b, out[0], statsCot(rowsOf(b, x, c.Attr), x, mean, rstd, gm, c.Cot[2]))
	}
	return out
}

// sumRows sums over the row dims.
func sumRows(b op.Builder, g op.Val, attr []int64) op.Val {
	var d []int64
	for i := range outer(g, attr) {
		d = append(d, int64(i))
	}
	return Sum(b, g, d)
}

// statsCot is the part of x's cotangent that comes through the cotangents gm and gr of its rows' mean and rstd. These
// exist only where a gradient is differentiated again.
func statsCot(r rows, x, mean, rstd, gm, gr op.Val) op.Val {
	b := r.b
	var dx op.Val
	if gm.Kind != op.None {
		dx = r.spread(Mul(b, gm, num(1/r.n)))
	}
	if gr.Kind != op.None {
		slope := Mul(b, Mul(b, gr, num(-1/r.n)), Mul(b, rstd, Mul(b, rstd, rstd)))
		dx = sumCot(b, dx, Mul(b, r.spread(slope), Sub(b, r.wide(x), r.spread(mean))))
	}
	if dx.Kind == op.None {
		return dx
	}
	return Cast(b, dx, x.DType())
}

// rows computes over rows in the compute type.
type rows struct {
	b     op.Builder
	shape []int64
	dims  []int64 // the normalized dims
	n     float64 // elements of a row
	d     ir.DType
}

func rowsOf(b op.Builder, x op.Val, attr []int64) rows {
	return rows{b: b, shape: x.Shape(), dims: innerDims(x, attr), n: float64(ir.Numel(inner(x, attr))),
		d: x.DType().ComputeType()}
}

func (r rows) wide(v op.Val) op.Val { return Cast(r.b, v, r.d) }

// spread broadcasts one value for each row over the row.
func (r rows) spread(v op.Val) op.Val { return spread(r.b, v, r.dims, r.shape) }

func (r rows) sum(v op.Val) op.Val { return Sum(r.b, v, r.dims) }

// mean is each row's mean, broadcast over the row.
func (r rows) mean(v op.Val) op.Val { return r.spread(Mul(r.b, r.sum(v), num(1/r.n))) }

// layerNormGradVJP differentiates, with xhat = (x-mean)*rstd, gw = gy*w,
//
//	dx = rstd*(gw - m(gw) - xhat*m(gw*xhat)),  m the row mean, m(gw) only where x is centred,
//
// with x, mean and rstd as independent variables: mean and rstd are outputs of layer_norm, whose VJP carries their
// cotangents on to x.
func layerNormGradVJP(c *op.VJPCall) []op.Val {
	b := c.B
	r := rowsOf(b, c.In[1], c.Attr)
	h, gy, x := r.wide(c.Cot[0]), r.wide(c.In[0]), r.wide(c.In[1])
	rstd := r.spread(c.In[3])
	centred := Sub(b, x, r.spread(c.In[2]))
	xhat := Mul(b, centred, rstd)
	gw, w := gy, op.Val{}
	if len(c.In) > 4 {
		w = Expand(b, r.wide(c.In[4]), r.shape)
		gw = Mul(b, gy, w)
	}
	hr := Mul(b, h, rstd)
	mhx := r.mean(Mul(b, hr, xhat))
	mgx := r.mean(Mul(b, gw, xhat))
	centre := func(v op.Val) op.Val {
		if c.Attr[2] != 0 {
			return v
		}
		return Sub(b, v, r.mean(v))
	}
	dgw := Sub(b, centre(hr), Mul(b, xhat, mhx))
	dxhat := Neg(b, Add(b, Mul(b, hr, mgx), Mul(b, gw, mhx)))
	out := make([]op.Val, len(c.In))
	out[0] = dgw
	if w.IsTensor() {
		out[0] = Mul(b, dgw, w)
		if c.Need[4] {
			out[4] = Cast(b, sumRows(b, Mul(b, dgw, gy), c.Attr), c.In[4].DType())
		}
	}
	out[0] = Cast(b, out[0], c.In[0].DType())
	dxr := Mul(b, dxhat, rstd)
	out[1] = Cast(b, dxr, c.In[1].DType())
	out[2] = Neg(b, r.sum(dxr))
	direct := Mul(b, h, Sub(b, centre(gw), Mul(b, xhat, mgx)))
	out[3] = r.sum(Add(b, direct, Mul(b, dxhat, centred)))
	return out
}

// layerNormGradWBVJP differentiates dw = sum(gy*(x-mean)*rstd) and db = sum(gy) over rows.
func layerNormGradWBVJP(c *op.VJPCall) []op.Val {
	b := c.B
	r := rowsOf(b, c.In[1], c.Attr)
	out := make([]op.Val, 4)
	var dgy op.Val
	if h := c.Cot[0]; h.Kind != op.None {
		hw := Expand(b, r.wide(h), r.shape)
		gy, rstd := r.wide(c.In[0]), r.spread(c.In[3])
		centred := Sub(b, r.wide(c.In[1]), r.spread(c.In[2]))
		dgy = Mul(b, hw, Mul(b, centred, rstd))
		hg := Mul(b, hw, gy)
		dxr := Mul(b, hg, rstd)
		out[1] = Cast(b, dxr, c.In[1].DType())
		out[2] = Neg(b, r.sum(dxr))
		out[3] = r.sum(Mul(b, hg, centred))
	}
	if h := c.Cot[1]; h.Kind != op.None {
		dgy = sumCot(b, dgy, Expand(b, r.wide(h), r.shape))
	}
	if dgy.Kind != op.None {
		out[0] = Cast(b, dgy, c.In[0].DType())
	}
	return out
}
