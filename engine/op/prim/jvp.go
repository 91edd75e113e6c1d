package prim

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// setJVPRules sets the JVP rules. The tangents of the other primitives are derived from their gradient rules.
func setJVPRules() {
	for _, p := range op.Prims() {
		if p.Elementwise && p.VJP != nil && p.ID != pCast {
			op.SetJVP(p.ID, op.JVPMap, mapJVP)
		}
	}
	for id, operands := range map[op.PrimID]uint32{pCast: 1, pSum: 1, pToDevice: 1, pGather: 1, pIndexSelect: 1,
		pWindowSum: 1, pFFT: 1, pCat: math.MaxUint32, pStridedScatter: 3, pStridedScatterAdd: 3, pScatter: 5} {
		op.SetJVP(id, op.JVPLinear, linearJVP(operands))
	}
	for _, id := range []op.PrimID{pConv, pConvWeightGrad} {
		op.SetJVP(id, op.JVPProduct, productJVP)
	}
	for id, rule := range map[op.PrimID]op.JVP{pMatmul: matmulJVP, pSoftmax: softmaxJVP, pSoftmaxGrad: softmaxGradJVP,
		pLayerNorm: layerNormJVP, pVar: varJVP, pSumSquares: sumSquaresJVP, pScan: scanJVP, pSort: sortJVP, pLoop: loopJVP,
		pExtremumDim: extremumDimJVP} {
		op.SetJVP(id, op.JVPRule, rule)
	}
}

// mapJVP: the Jacobian of an elementwise map by an operand is diagonal, so it is its own transpose.
func mapJVP(c *op.JVPCall) []op.Val {
	var sum op.Val
	for i, t := range c.Tan {
		if t.Kind == op.None {
			continue
		}
		need := make([]bool, len(c.In))
		need[i] = true
		part := c.Prim.VJP(&op.VJPCall{B: c.B, Attr: c.Attr, In: c.In, Out: c.Out, Cot: []op.Val{t}, Need: need})[i]
		sum = sumCot(c.B, sum, part)
	}
	return []op.Val{sum}
}

// linearJVP records the primitive on the tangents of the operands in a bit mask. It is linear in all of them together.
func linearJVP(operands uint32) op.JVP {
	return func(c *op.JVPCall) []op.Val {
		in := slices.Clone(c.In)
		for i, t := range c.Tan {
			switch {
			case operands>>min(i, 31)&1 == 0:
			case t.IsTensor():
				in[i] = t
			case in[i].IsTensor():
				in[i] = ZerosLike(c.B, in[i])
			default:
				in[i] = num(0)
			}
		}
		return []op.Val{c.B.Emit(c.Prim.ID, c.Attr, in...)}
	}
}

// productJVP records the primitive once for each operand with a tangent.
func productJVP(c *op.JVPCall) []op.Val {
	var sum op.Val
	for i, t := range c.Tan {
		if t.IsTensor() {
			in := slices.Clone(c.In)
			in[i] = t
			sum = sumCot(c.B, sum, c.B.Emit(c.Prim.ID, c.Attr, in...))
		}
	}
	return []op.Val{sum}
}

// matmulJVP is productJVP of the factors, plus the tangent of the bias.
func matmulJVP(c *op.JVPCall) []op.Val {
	b, product := c.B, []int64{0}
	var sum op.Val
	if t := c.Tan[0]; t.IsTensor() {
		sum = b.Emit(pMatmul, product, t, c.In[1])
	}
	if t := c.Tan[1]; t.IsTensor() {
		sum = sumCot(b, sum, b.Emit(pMatmul, product, c.In[0], t))
	}
	if len(c.Tan) > 2 && c.Tan[2].IsTensor() {
		sum = sumCot(b, sum, Expand(b, c.Tan[2], c.Out[0].Shape()))
	}
	return []op.Val{sum}
}

// softmaxJVP: the Jacobian of softmax is symmetric. That of its logarithm is 1 - softmax, the same for all rows.
func softmaxJVP(c *op.JVPCall) []op.Val {
	b, t, y, dim := c.B, c.Tan[0], c.Out[0], c.Attr[0]
	if c.Attr[1] == 0 {
		return []op.Val{SoftmaxGrad(b, t, y, dim)}
	}
	return []op.Val{Sub(b, t, sumSpread(b, Mul(b, t, Exp(b, y)), dim))}
}

// softmaxGradJVP: softmax_grad is linear in its cotangent.
func softmaxGradJVP(c *op.JVPCall) []op.Val {
	b, gy, y, dim := c.B, c.In[0], c.In[1], c.Attr[0]
	var sum op.Val
	if t := c.Tan[0]; t.IsTensor() {
		sum = b.Emit(pSoftmaxGrad, c.Attr, t, y)
	}
	t := c.Tan[1]
	if !t.IsTensor() {
		return []op.Val{sum}
	}
	var part op.Val
	if c.Attr[1] != 0 {
		part = Neg(b, Mul(b, Mul(b, Exp(b, y), t), sumSpread(b, gy, dim)))
	} else {
		part = Sub(b, Mul(b, t, Sub(b, gy, sumSpread(b, Mul(b, gy, y), dim))), Mul(b, y, sumSpread(b, Mul(b, gy, t), dim)))
	}
	return []op.Val{sumCot(b, sum, part)}
}

// layerNormJVP: the Jacobian of the normalized rows is symmetric.
func layerNormJVP(c *op.JVPCall) []op.Val {
	b, x, mean, rstd, rms := c.B, c.In[0], c.Out[1], c.Out[2], c.Attr[3] != 0
	r := rowsOf(b, x, c.Attr)
	over := func(w op.Val) op.Val { return Expand(b, w, x.Shape()) }
	var w, ty, tm, tr op.Val
	next := 1
	if c.Attr[1] != 0 {
		w, next = c.In[1], 2
		if t := c.Tan[1]; t.IsTensor() {
			xhat := Cast(b, Mul(b, Sub(b, r.wide(x), r.spread(mean)), r.spread(rstd)), x.DType())
			ty = Mul(b, xhat, over(t))
		}
	}
	if c.Attr[2] != 0 && c.Tan[next].IsTensor() {
		ty = sumCot(b, ty, over(c.Tan[next]))
	}
	if t := c.Tan[0]; t.IsTensor() {
		part := LayerNormGrad(b, t, x, mean, rstd, op.Val{}, int(c.Attr[0]), rms)
		if w.IsTensor() {
			part = Mul(b, part, over(w))
		}
		ty = sumCot(b, ty, part)
		wide := r.wide(t)
		if !rms {
			tm = Mul(b, r.sum(wide), num(1/r.n))
		}
		slope := Mul(b, Mul(b, rstd, Mul(b, rstd, rstd)), num(-1/r.n))
		tr = Mul(b, slope, r.sum(Mul(b, wide, Sub(b, r.wide(x), r.spread(mean)))))
	}
	return []op.Val{ty, tm, tr}
}

// varJVP is varVJP transposed.
func varJVP(c *op.JVPCall) []op.Val {
	b, x, t := c.B, c.In[0], c.Tan[0]
	shape := x.Shape()
	n := float64(count(c.Attr, shape))
	scale := math.Inf(1)
	if dof := n - c.In[1].Float(); dof > 0 {
		scale = 2 / dof
	}
	centred := Sub(b, x, spread(b, c.Out[1], c.Attr, shape))
	return []op.Val{Mul(b, Sum(b, Mul(b, centred, t), c.Attr), num(scale)), Mul(b, Sum(b, t, c.Attr), num(1/n))}
}

func sumSquaresJVP(c *op.JVPCall) []op.Val {
	b := c.B
	return []op.Val{Sum(b, Mul(b, Mul(b, c.Tan[0], num(2)), c.In[0]), c.Attr)}
}

// scanJVP covers running sums, which are linear, and running logarithms of sums of exponentials, whose gradient rule
// takes logarithms of its cotangent, so that it has no derivative by it.
func scanJVP(c *op.JVPCall) []op.Val {
	b, t, dim := c.B, c.Tan[0], c.Attr[0]
	switch c.Attr[1] {
	case ScanSum:
		return []op.Val{Scan(b, t, dim, ScanSum)}
	case ScanLogSum:
		part := func(sign op.Val) op.Val {
			sum := Scan(b, Add(b, signedLog(b, sign), c.In[0]), dim, ScanLogSum)
			return Exp(b, Sub(b, sum, c.Out[0]))
		}
		return []op.Val{Sub(b, part(t), part(Neg(b, t)))}
	}
	return nil
}

// sortJVP takes the tangents of the elements in their order.
func sortJVP(c *op.JVPCall) []op.Val {
	if len(c.In[0].Shape()) == 0 {
		return []op.Val{c.Tan[0], {}}
	}
	return []op.Val{Gather(c.B, c.Tan[0], c.Out[1], int64(ir.WrapDim(c.Attr[1], len(c.In[0].Shape())))), {}}
}

// extremumDimJVP takes the tangents at the indices that were taken.
func extremumDimJVP(c *op.JVPCall) []op.Val {
	shape := c.In[0].Shape()
	if len(shape) == 0 {
		return []op.Val{c.Tan[0], {}}
	}
	d := int64(ir.WrapDim(c.Attr[1], len(shape)))
	t := Gather(c.B, c.Tan[0], keep(c.B, c.Out[1], []int64{d}, shape), d)
	return []op.Val{Reshape(c.B, t, c.Out[0].Shape()), {}}
}
