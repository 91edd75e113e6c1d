package prim

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// setBatchRules gives each primitive its batching rule. Rules see the batch as the first dims of the batched operands,
// and record with the primitives of one program; gradients come from the step of the unbatched primitive.
func setBatchRules() {
	for _, p := range op.Prims() {
		if p.Elementwise && p.ID != pDropout {
			op.SetBatch(p.ID, op.BatchSame, batchSame)
		}
	}
	for _, id := range []op.PrimID{pCholesky, pLUFactor, pLUPermutation, pLinearSolve, pTriangularSolve, pQR, pEigh, pSVD,
		pPinv, pMatrixExp, pLDLFactor, pLDLSolve, pEig} {
		op.SetBatch(id, op.BatchSame, batchFactor)
	}
	for _, id := range []op.PrimID{pSearch, pWindowSum, pWindowMax} {
		op.SetBatch(id, op.BatchSame, batchSame)
	}
	op.SetBatch(pToDevice, op.BatchSame, batchDevice)
	op.SetBatch(pSGDStep, op.BatchSame, batchStep)
	op.SetBatch(pAdamStep, op.BatchSame, batchStep)
	for id, dims := range map[op.PrimID][2]int{ // the attributes that are dims: from, to; to 0: all that follow
		pSum: {0, 0}, pSumSquares: {0, 0}, pProd: {0, 0}, pVar: {0, 0}, pExtremum: {1, 0}, pArgExtremum: {1, 2},
		pExtremumDim: {1, 2}, pSoftmax: {0, 1}, pSoftmaxGrad: {0, 1}, pScan: {0, 1}, pFFT: {1, 2}, pSort: {1, 2},
		pCat:    {0, 1},
		pGather: {0, 1}, pScatter: {0, 1}, pScatterReduce: {0, 1}, pCrossEntropy: {0, 1}, pCrossEntropyGrad: {0, 1},
	} {
		op.SetBatch(id, op.BatchDims, batchDims(dims[0], dims[1], id != pCrossEntropy && id != pCrossEntropyGrad))
	}
	op.SetBatch(pIndexSelect, op.BatchIndex, batchIndexSelect)
	op.SetBatch(pMatmul, op.BatchSplit, batchMatmul)
	op.SetBatch(pLayerNorm, op.BatchSplit, batchLayerNorm)
	op.SetBatch(pLayerNormGrad, op.BatchSplit, batchLayerNormGrad)
	op.SetBatch(pLayerNormGradWB, op.BatchSplit, batchLayerNormGradWB)
	op.SetBatch(pStridedScatter, op.BatchLayout, batchStridedScatter)
	op.SetBatch(pStridedScatterAdd, op.BatchLayout, batchStridedScatter)
	setFoldRules()
	op.SetBatch(pDropout, op.BatchDraw, batchSame)
	op.SetBatch(pRandom, op.BatchDraw, nil)
	op.SetBatch(pLoop, op.BatchProgram, batchLoopBody)
	op.SetBatch(pFill, op.BatchConstant, nil)
	op.SetBatch(pIota, op.BatchConstant, nil)
}

// whole returns operand i with the batch dims, expanded where the operand has no batch.
func whole(c *op.BatchCall, i int) op.Val {
	if c.Batched[i] || !c.In[i].IsTensor() {
		return c.In[i]
	}
	return spreadBatch(c, c.In[i])
}

// spreadBatch expands a value that is equal for all elements of the batch.
func spreadBatch(c *op.BatchCall, v op.Val) op.Val {
	return Expand(c.B, v, slices.Concat(c.Sizes, v.Shape()))
}

// wholes returns all operands with the batch dims.
func wholes(c *op.BatchCall) []op.Val {
	in := make([]op.Val, len(c.In))
	for i := range in {
		in[i] = whole(c, i)
	}
	return in
}

func batchSame(c *op.BatchCall) []op.Val { return c.B.EmitN(c.Prim.ID, c.Attr, wholes(c)...) }

func batchDevice(c *op.BatchCall) []op.Val {
	return c.B.EmitN(c.Prim.ID, c.Attr, Contiguous(c.B, c.In[0]))
}

// batchFactor marks that there are several matrices: the error then names the one that failed.
func batchFactor(c *op.BatchCall) []op.Val {
	attr := slices.Clone(c.Attr)
	attr[1] |= 1
	return c.B.EmitN(c.Prim.ID, attr, wholes(c)...)
}

// batchStep: an optimizer's step is elementwise in its tensors of the parameter's shape; the rest are numbers.
func batchStep(c *op.BatchCall) []op.Val {
	n := 2 + int(c.Attr[2])
	if c.Prim.ID == pAdamStep {
		n = 4 + int(c.Attr[1])
	}
	if slices.Contains(c.Batched[n:], true) {
		return BatchLoop(c)
	}
	in := slices.Clone(c.In)
	for i := range n {
		in[i] = whole(c, i)
	}
	return c.B.EmitN(c.Prim.ID, c.Attr, in...)
}

// batchDims moves the dims that attributes from to to name behind the batch dims. rows: operands without dims count as
// rows of one element.
func batchDims(from, to int, rows bool) op.Batch {
	return func(c *op.BatchCall) []op.Val {
		in := wholes(c)
		n, rank := len(c.Sizes), 0
		for i, v := range in {
			if !v.IsTensor() {
				continue
			}
			if rows && len(v.Shape()) == n {
				in[i] = Unsqueeze(c.B, v, -1)
			}
			rank = max(rank, len(in[i].Shape())-n)
		}
		return c.B.EmitN(c.Prim.ID, behind(c.Attr, from, to, rank, n), in...)
	}
}

// behind adds n to the attributes from to to, which are dims of a tensor of that rank.
func behind(attr []int64, from, to, rank, n int) []int64 {
	attr = slices.Clone(attr)
	if to == 0 {
		to = len(attr)
	}
	for i := from; i < to; i++ {
		attr[i] = int64(ir.WrapDim(attr[i], rank) + n)
	}
	return attr
}

// batchIndexSelect: an index with a batch names other slices for each element, which a gather takes.
func batchIndexSelect(c *op.BatchCall) []op.Val {
	b, n, x := c.B, len(c.Sizes), whole(c, 0)
	if len(x.Shape()) == n {
		x = Unsqueeze(b, x, -1)
	}
	rank := len(x.Shape()) - n
	d := ir.WrapDim(c.Attr[0], rank) + n
	if !c.Batched[1] {
		return c.B.EmitN(c.Prim.ID, []int64{int64(d)}, x, c.In[1])
	}
	shape := slices.Clone(x.Shape())
	ones := slices.Clone(c.Sizes)
	for range rank {
		ones = append(ones, 1)
	}
	shape[d] = ir.Numel(c.In[1].Shape()[n:])
	ones[d] = shape[d]
	return []op.Val{Gather(b, x, Expand(b, Reshape(b, c.In[1], ones), shape), int64(d))}
}

// batchMatmul multiplies one large matrix where only one operand has a batch, and elementwise where the depth is 1.
func batchMatmul(c *op.BatchCall) []op.Val {
	b, x, y := c.B, c.In[0], c.In[1]
	var bias, later op.Val
	if c.Attr[0] != 0 {
		if bias = c.In[2]; c.Batched[2] {
			bias, later = op.Val{}, Unsqueeze(b, c.In[2], -2)
		}
	}
	n, rank := len(c.Sizes), len(c.Out[0].Shape)
	shape := slices.Concat(c.Sizes, c.Out[0].Shape)
	var z op.Val
	switch {
	case !c.Batched[0] && !c.Batched[1]:
		z = spreadBatch(c, Matmul(b, x, y, bias))
	case rank == 2 && !c.Batched[1]:
		s := x.Shape()
		z = Reshape(b, Matmul(b, Reshape(b, x, []int64{ir.Numel(s[:n+1]), s[n+1]}), y, bias), shape)
	case rank == 2 && !c.Batched[0] && !bias.IsTensor():
		y = Transpose(b, y, -1, -2)
		s := y.Shape()
		z = Matmul(b, Reshape(b, y, []int64{ir.Numel(s[:n+1]), s[n+1]}), Transpose(b, x, -1, -2), op.Val{})
		z = Transpose(b, Reshape(b, z, slices.Concat(c.Sizes, []int64{shape[n+1], shape[n]})), -1, -2)
	default:
		x, y = whole(c, 0), whole(c, 1)
		if s := x.Shape(); s[len(s)-1] == 1 && !bias.IsTensor() {
			z = Mul(b, Expand(b, x, shape), Expand(b, y, shape))
		} else {
			z = Matmul(b, x, y, bias)
		}
	}
	if later.IsTensor() {
		for range rank - 2 {
			later = Unsqueeze(b, later, int64(n))
		}
		z = Add(b, z, Expand(b, later, shape))
	}
	return []op.Val{z}
}

// overRows views a batched value of the normalized dims as one of x's shape.
func overRows(c *op.BatchCall, w op.Val, shape []int64) op.Val {
	n := len(c.Sizes)
	for len(w.Shape()) < len(shape) {
		w = Unsqueeze(c.B, w, int64(n))
	}
	return Expand(c.B, w, shape)
}

// batchLayerNorm applies a weight or bias with a batch after the primitive.
func batchLayerNorm(c *op.BatchCall) []op.Val {
	b, at := c.B, 1
	attr, in := slices.Clone(c.Attr), []op.Val{whole(c, 0)}
	shape := in[0].Shape()
	split := slices.Contains(c.Batched[1:], true)
	var after []func(y op.Val) op.Val
	for k, apply := range []func(b op.Builder, y, p op.Val) op.Val{Mul, Add} {
		if c.Attr[1+k] == 0 {
			continue
		}
		if p := whole(c, at); split {
			attr[1+k] = 0
			after = append(after, func(y op.Val) op.Val { return apply(b, y, overRows(c, p, shape)) })
		} else {
			in = append(in, c.In[at])
		}
		at++
	}
	out := b.EmitN(pLayerNorm, attr, append(in, c.In[at])...)
	for _, f := range after {
		out[0] = f(out[0])
	}
	return out
}

// batchLayerNormGrad multiplies the cotangent by a weight with a batch before the primitive.
func batchLayerNormGrad(c *op.BatchCall) []op.Val {
	in := []op.Val{whole(c, 0), whole(c, 1), whole(c, 2), whole(c, 3)}
	if c.Attr[1] == 0 || !c.Batched[4] {
		return c.B.EmitN(pLayerNormGrad, c.Attr, append(in, c.In[4:]...)...)
	}
	attr := slices.Clone(c.Attr)
	attr[1] = 0
	in[0] = Mul(c.B, in[0], overRows(c, c.In[4], in[0].Shape()))
	return c.B.EmitN(pLayerNormGrad, attr, in...)
}

// batchLayerNormGradWB sums over the rows of each element.
func batchLayerNormGradWB(c *op.BatchCall) []op.Val {
	b, gy, x := c.B, whole(c, 0), whole(c, 1)
	n, d := len(c.Sizes), x.DType()
	var dims []int64
	for i := n; i < len(x.Shape())-int(c.Attr[0]); i++ {
		dims = append(dims, int64(i))
	}
	t := d.ComputeType()
	wide := func(v op.Val) op.Val { return Cast(b, v, t) }
	stat := func(i int) op.Val {
		v := whole(c, i)
		for len(v.Shape()) < len(x.Shape()) {
			v = Unsqueeze(b, v, -1)
		}
		return Expand(b, wide(v), x.Shape())
	}
	g := wide(gy)
	xhat := Mul(b, Sub(b, wide(x), stat(2)), stat(3))
	return []op.Val{Cast(b, Sum(b, Mul(b, g, xhat), dims), d), Cast(b, Sum(b, g, dims), d)}
}

// batchStridedScatter: the view of one element repeats for each element of the dense base.
func batchStridedScatter(c *op.BatchCall) []op.Val {
	base, value := Contiguous(c.B, whole(c, 0)), whole(c, 1)
	l, n := ir.LayoutOf(ir.LayoutID(c.Attr[0])), len(c.Sizes)
	strides := ir.DenseStrides(base.Shape())[:n:n]
	full := ir.InternLayout(slices.Concat(c.Sizes, l.Shape), append(strides, l.Stride...))
	return c.B.EmitN(c.Prim.ID, []int64{int64(full.ID)}, base, value, c.In[2])
}

// BatchLoop records the primitive for each element of the batch and joins the results.
func BatchLoop(c *op.BatchCall) []op.Val {
	b, n := c.B, len(c.Sizes)
	columns := make([][]op.Val, len(c.Out))
	index := make([]int64, n)
	for range c.Count() {
		in := slices.Clone(c.In)
		for i := range in {
			for _, k := range index {
				if c.Batched[i] {
					in[i] = Select(b, in[i], 0, k)
				}
			}
		}
		for k, v := range b.EmitN(c.Prim.ID, c.Attr, in...) {
			columns[k] = append(columns[k], Unsqueeze(b, v, 0))
		}
		for d := n - 1; d >= 0; d-- {
			if index[d]++; index[d] < c.Sizes[d] {
				break
			}
			index[d] = 0
		}
	}
	out := make([]op.Val, len(columns))
	for k, rows := range columns {
		out[k] = Reshape(b, Cat(b, rows, 0), slices.Concat(c.Sizes, c.Out[k].Shape))
	}
	return out
}
