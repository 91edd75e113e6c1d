package prim

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// setFoldRules gives rules to the primitives that have a batch or channels of their own, which the batch of vmap joins.
func setFoldRules() {
	batchFirst := func(int) int { return 0 }
	channels := func(rank int) int { return min(rank-1, 1) }
	beforeLast := func(rank int) int { return rank - 2 }
	op.SetBatch(pAttention, op.BatchFold, batchAttention(batchFold(batchFirst, nil)))
	op.SetBatch(pAttentionGrad, op.BatchFold, batchAttention(batchFold(batchFirst, nil)))
	op.SetBatch(pBatchNorm, op.BatchFold, batchFold(channels, nil))
	op.SetBatch(pBatchNormGrad, op.BatchFold, batchFold(channels, nil))
	op.SetBatch(pConv, op.BatchFold, batchConv)
	op.SetBatch(pConvWeightGrad, op.BatchFold, batchConvWeightGrad)
	op.SetBatch(pCell, op.BatchFold, batchFold(beforeLast, nil))
	op.SetBatch(pCellGrad, op.BatchFold, batchFold(beforeLast, nil))
	op.SetBatch(pRecurrence, op.BatchFold, batchFold(beforeLast, func(c *op.BatchCall) []int {
		if c.Attr[2] != 0 {
			return []int{1, len(c.In) - 1}
		}
		return []int{1}
	}))
	weights := func(c *op.BatchCall) (list []int) {
		for i := 1; i < len(c.In); i++ {
			list = append(list, i)
		}
		return list
	}
	op.SetBatch(pQuantizedProduct, op.BatchFold, batchFold(batchFirst, weights))
	op.SetBatch(pQuantizedConv, op.BatchFold, batchFold(batchFirst, weights))
	op.SetBatch(pConvLast, op.BatchFold, batchFold(batchFirst, func(c *op.BatchCall) []int { return []int{1, 2} }))
	op.SetBatch(pRecurrenceGrad, op.BatchFold, batchFold(beforeLast, func(*op.BatchCall) []int { return []int{1} }))
}

// foldInto joins the n batch dims of v with dim d of an element.
func foldInto(b op.Builder, v op.Val, n, d int) op.Val {
	s := v.Shape()
	perm := make([]int64, 0, len(s))
	for i := range d {
		perm = append(perm, int64(n+i))
	}
	for i := range n {
		perm = append(perm, int64(i))
	}
	for i := n + d; i < len(s); i++ {
		perm = append(perm, int64(i))
	}
	shape := slices.Concat(s[n:n+d], []int64{ir.Numel(s[:n]) * s[n+d]}, s[n+d+1:])
	return Reshape(b, Permute(b, v, perm), shape)
}

// unfold takes the batch of the given sizes out of dim d of v, to the front.
func unfold(b op.Builder, v op.Val, sizes []int64, d int) op.Val {
	s, n := v.Shape(), len(sizes)
	v = Reshape(b, v, slices.Concat(s[:d], sizes, []int64{s[d] / ir.Numel(sizes)}, s[d+1:]))
	perm := make([]int64, 0, len(s)+n)
	for i := range n {
		perm = append(perm, int64(d+i))
	}
	for i := range len(s) + n {
		if i < d || i >= d+n {
			perm = append(perm, int64(i))
		}
	}
	return Permute(b, v, perm)
}

// batchFold joins the batch with the dim that at names by rank, in all operands and results. Operands that take names
// have no such dim; with a batch there, the primitive is recorded for each element.
func batchFold(at func(rank int) int, takes func(c *op.BatchCall) []int) op.Batch {
	return func(c *op.BatchCall) []op.Val {
		n := len(c.Sizes)
		var apart []int
		if takes != nil {
			apart = takes(c)
		}
		in := slices.Clone(c.In)
		for i, v := range c.In {
			switch {
			case slices.Contains(apart, i):
				if c.Batched[i] {
					return BatchLoop(c)
				}
			case v.IsTensor():
				in[i] = foldInto(c.B, whole(c, i), n, at(len(v.Shape())-batchRank(c, i)))
			}
		}
		out := c.B.EmitN(c.Prim.ID, c.Attr, in...)
		for k := range out {
			out[k] = unfold(c.B, out[k], c.Sizes, at(len(c.Out[k].Shape)))
		}
		return out
	}
}

// batchRank is the number of batch dims that operand i has.
func batchRank(c *op.BatchCall, i int) int {
	if c.Batched[i] {
		return len(c.Sizes)
	}
	return 0
}

// batchAttention: a mask that the heads' batch shares has a batch of 1, which is expanded before it joins that of vmap.
// Where the gradient of such a mask is wanted, each element is computed apart.
func batchAttention(fold op.Batch) op.Batch {
	return func(c *op.BatchCall) []op.Val {
		if c.Attr[1] == 0 {
			return fold(c)
		}
		at, grad := 3, c.Prim.ID == pAttentionGrad
		if grad {
			at = 6
		}
		n := batchRank(c, at)
		s := slices.Clone(c.In[at].Shape())
		if want := c.In[0].Shape()[batchRank(c, 0)]; s[n] != want {
			if grad && c.Attr[3] != 0 {
				return BatchLoop(c)
			}
			s[n] = want
			in := slices.Clone(c.In)
			in[at] = Expand(c.B, in[at], s)
			wide := *c
			wide.In = in
			return fold(&wide)
		}
		return fold(c)
	}
}

// batchConv joins a batch of inputs with theirs, and a batch of weights with the channels, in groups.
func batchConv(c *op.BatchCall) []op.Val {
	b, n := c.B, len(c.Sizes)
	win, rest := op.WindowsOf(c.Attr)
	groups := rest[0]
	switch {
	case !c.Batched[1]:
		return []op.Val{unfold(b, Conv(b, foldInto(b, c.In[0], n, 0), c.In[1], win, groups), c.Sizes, 0)}
	case !c.Batched[0] && groups == 1:
		return []op.Val{unfold(b, Conv(b, c.In[0], foldInto(b, c.In[1], n, 0), win, 1), c.Sizes, 1)}
	}
	x, w := foldInto(b, whole(c, 0), n, 1), foldInto(b, c.In[1], n, 0)
	return []op.Val{unfold(b, Conv(b, x, w, win, groups*c.Count()), c.Sizes, 1)}
}

// batchConvWeightGrad joins the batch with the channels, in groups where both operands have it.
func batchConvWeightGrad(c *op.BatchCall) []op.Val {
	b, n := c.B, len(c.Sizes)
	win, rest := op.WindowsOf(c.Attr)
	groups := rest[0]
	switch {
	case !c.Batched[0] && groups == 1:
		return []op.Val{unfold(b, ConvWeightGrad(b, c.In[0], foldInto(b, c.In[1], n, 1), win, 1), c.Sizes, 0)}
	case !c.Batched[1] && groups == 1:
		return []op.Val{unfold(b, ConvWeightGrad(b, foldInto(b, c.In[0], n, 1), c.In[1], win, 1), c.Sizes, 1)}
	}
	x, g := foldInto(b, whole(c, 0), n, 1), foldInto(b, whole(c, 1), n, 1)
	return []op.Val{unfold(b, ConvWeightGrad(b, x, g, win, groups*c.Count()), c.Sizes, 0)}
}
