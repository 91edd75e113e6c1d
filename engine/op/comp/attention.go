package comp

import (
	"slices"

	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
)

// maxHeadWidth is the widest head that the attention kernels hold in registers.
const maxHeadWidth = 256

// fuses reports that the attention primitive computes this call: what it leaves to stored
// weights are f64, dropout, masks that require grad, wide heads, more than two leading dims,
// groups that differ between keys and values, empty operands, and calls that are wrong.
func fuses(b op.Builder, q, k, v, mask op.Val, gqa bool) bool {
	if q.DType() == ir.F64 || mask.IsTensor() && b.NeedsGrad(mask) || len(q.Shape()) > 4 || len(k.Shape()) > 4 || len(v.Shape()) > 4 {
		return false
	}
	qs, ks, vs := fourDims(q.Shape()), fourDims(k.Shape()), fourDims(v.Shape())
	for _, n := range slices.Concat(qs, ks, vs) {
		if n == 0 {
			return false
		}
	}
	if qs[3] != ks[3] || max(qs[3], vs[3]) > maxHeadWidth || ks[2] != vs[2] || ks[1] != vs[1] || ks[0] != qs[0] || vs[0] != qs[0] {
		return false
	}
	if ks[1] != qs[1] && !gqa {
		return false
	}
	if !mask.IsTensor() {
		return true
	}
	scores := []int64{qs[0], qs[1], qs[2], ks[2]}
	m := mask.Shape()
	if len(m) > len(q.Shape()) {
		return false
	}
	for i, n := range m {
		if want := scores[4-len(m)+i]; n != want && n != 1 {
			return false
		}
	}
	return true
}

// fourDims puts ones before a shape of two to four dims.
func fourDims(s []int64) []int64 {
	return slices.Concat([]int64{1, 1}[:4-len(s)], s)
}

// fusedAttention is attention by one primitive. The result lies in memory as [batch, query, head,
// column], so that the transpose and reshape that usually follow are views.
func fusedAttention(b op.Builder, q, k, v, mask, scale op.Val, causal bool) op.Val {
	narrow := func(y op.Val) op.Val { return y }
	if q.DType() == ir.BF16 {
		narrow = widen(b, q.DType(), &q, &k, &v, &mask)
	}
	r := len(q.Shape())
	four := func(x op.Val) op.Val {
		for len(x.Shape()) < 4 {
			x = prim.Unsqueeze(b, x, 0)
		}
		return x
	}
	q, k, v = four(q), four(k), four(v)
	if mask.IsTensor() {
		s := q.Shape()
		mask = prim.Expand(b, mask, []int64{s[0], s[1], s[2], k.Shape()[2]})
	}
	y := prim.Permute(b, prim.Attention(b, q, k, v, mask, scale, causal), []int64{0, 2, 1, 3})
	return narrow(prim.Squeeze(b, y, []int64{0, 1}[:4-r]))
}
