package composite

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// maxHeadWidth is the widest head that the attention kernels hold in registers.
const maxHeadWidth = 256

// fuses reports that the attention primitive computes this call. Stored weights are used for float64, wide heads,
// operands that broadcast, empty ones, and wrong calls. The shapes have at least four dims.
func fuses(q, k, v, mask op.Val, gqa bool) bool {
	qs, ks, vs := fourDims(q.Shape()), fourDims(k.Shape()), fourDims(v.Shape())
	n := len(qs)
	if q.DType() == ir.F64 || len(ks) != n || len(vs) != n || q.L().Numel == 0 || k.L().Numel == 0 || v.L().Numel == 0 {
		return false
	}
	batch := slices.Equal(qs[:n-3], ks[:n-3]) && slices.Equal(qs[:n-3], vs[:n-3])
	if !batch || qs[n-1] != ks[n-1] || max(qs[n-1], vs[n-1]) > maxHeadWidth || ks[n-2] != vs[n-2] {
		return false
	}
	if !gqa && (ks[n-3] != qs[n-3] || vs[n-3] != qs[n-3]) {
		return false
	}
	if !mask.IsTensor() {
		return true
	}
	scores, m := append(slices.Clone(qs[:n-1]), ks[n-2]), mask.Shape()
	if len(m) > len(q.Shape()) {
		return false
	}
	for i, size := range m {
		if want := scores[n-len(m)+i]; size != want && size != 1 {
			return false
		}
	}
	return true
}

// fourDims puts ones before a shape of fewer than four dims.
func fourDims(s []int64) []int64 {
	return slices.Concat([]int64{1, 1, 1, 1}[:max(4-len(s), 0)], s)
}

// fusedAttention is attention by one primitive. The result is in memory as [batch, query, head, column], so that the
// usual transpose and reshape after it are views.
func fusedAttention(b op.Builder, q, k, v, mask, scale op.Val, causal bool, drop prim.Dropping) op.Val {
	narrow := func(y op.Val) op.Val { return y }
	if q.DType() == ir.BF16 {
		narrow = widen(b, q.DType(), &q, &k, &v, &mask)
	}
	full := q.Shape()
	scores := append(slices.Clone(full[:len(full)-1]), k.Shape()[len(k.Shape())-2])
	if heads := k.Shape(); len(heads) > 2 && heads[len(heads)-3] != v.Shape()[len(heads)-3] { // groups of different sizes
		k, v = prim.RepeatHeads(b, k, full[len(full)-3]), prim.RepeatHeads(b, v, full[len(full)-3])
	}
	q, k, v = flatBatch(b, q), flatBatch(b, k), flatBatch(b, v)
	if mask.IsTensor() {
		mask = maskOfFour(b, mask, scores)
	}
	y := prim.Permute(b, prim.Attention(b, q, k, v, mask, scale, causal, drop), []int64{0, 2, 1, 3})
	full = append(slices.Clone(full[:len(full)-1]), y.Shape()[3])
	return narrow(prim.Reshape(b, y, full))
}

// flatBatch gives x the dims [batch, head, row, column].
func flatBatch(b op.Builder, x op.Val) op.Val {
	s := fourDims(x.Shape())
	n := len(s)
	return prim.Reshape(b, x, append([]int64{ir.Numel(s[:n-3])}, s[n-3:]...))
}

// maskOfFour gives four dims to a mask that broadcasts to the scores, 1 where all share it. Of several batch dims a
// mask must have all or none.
func maskOfFour(b op.Builder, mask op.Val, scores []int64) op.Val {
	s := slices.Clone(mask.Shape())
	for len(s) < max(len(scores), 4) {
		s = slices.Insert(s, 0, 1)
	}
	mask = prim.Reshape(b, mask, s)
	if batch := s[:len(s)-3]; len(batch) > 1 && ir.Numel(batch) > 1 {
		mask = prim.Expand(b, mask, append(slices.Clone(scores[:len(batch)]), s[len(batch):]...))
	}
	return flatBatch(b, mask)
}
