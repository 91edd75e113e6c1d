package composite

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// registerVmapOps registers the operators at the ends of a vmap: they turn a dim into the hidden dim of a level, and
// back. Levels count from 1, the outermost.
func registerVmapOps() {
	op.Register(op.Def{
		Sig: "_vmap_in(Tensor self, int dim, int level) -> Tensor", Where: op.Hidden, View: true,
		Doc:     "One element of self along a dim, for all of them: the dim is hidden from operators.",
		Samples: samples("T(3,4), 1, 1"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			dim := ir.WrapDim(a.Int(), len(x.Shape()))
			return a.Ret(hideDim(a.B, x, dim, a.Int()))
		},
	})
	op.Register(op.Def{
		Sig: "_vmap_out(Tensor self, int dim, int level, int size) -> Tensor", Where: op.Hidden, View: true,
		Doc:     "The hidden dim of a level as dim of self, which is expanded where it has no such level.",
		Samples: samples("T(3,4), 1, 1, 2"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			dim, level, size := ir.WrapDim(a.Int(), len(x.Shape())+1), a.Int(), a.Int()
			return a.Ret(showDim(a.B, x, dim, level, size))
		},
	})
	op.Register(op.Def{
		Sig: "_vmap_spread(Tensor self, int level, int size) -> Tensor", Where: op.Hidden, View: true,
		Doc:     "Self with a level, whose elements are all equal where it had none.",
		Samples: samples("T(3,4), 1, 2"),
		Eval: func(a *op.Args) []op.Val {
			x, level, size := a.Val(), a.Int(), a.Int()
			if slices.ContainsFunc(x.L().Hidden, func(h ir.HiddenDim) bool { return h.Level == level }) {
				return a.Ret(x)
			}
			return a.Ret(hideDim(a.B, prim.Expand(a.B, x, slices.Concat([]int64{size}, x.Shape())), 0, level))
		},
	})
}

// hideDim turns a dim into the hidden dim of a level that x lacks.
func hideDim(b op.Builder, x op.Val, dim int, level int64) op.Val {
	if x.DType().IsComplex() {
		return prim.AsComplex(b, hideDim(b, op.PairsOf(b, x), dim, level))
	}
	l := x.L()
	n := len(l.Hidden)
	at := 0 // the place of the level among those of x
	for at < n && l.Hidden[at].Level < level {
		at++
	}
	hidden := slices.Insert(slices.Clone(l.Hidden), at, ir.HiddenDim{Level: level, Size: l.Shape[dim],
		Stride: l.Stride[dim]})
	to := ir.InternHidden(hidden, slices.Delete(slices.Clone(l.Shape), dim, dim+1),
		slices.Delete(slices.Clone(l.Stride), dim, dim+1))
	perm := make([]int64, 0, n+len(l.Shape))
	for i := range n {
		perm = append(perm, int64(i))
	}
	perm = slices.Insert(perm, at, int64(n+dim))
	for i := range l.Shape {
		if i != dim {
			perm = append(perm, int64(n+i))
		}
	}
	return b.View(x, to, x.Offset, op.ViewOp{Kind: op.ViewPermute, Dims: perm, Whole: true})
}

// showDim is the inverse of hideDim.
func showDim(b op.Builder, x op.Val, dim int, level, size int64) op.Val {
	if x.DType().IsComplex() {
		return prim.AsComplex(b, showDim(b, op.PairsOf(b, x), dim, level, size))
	}
	if f, ok := b.(op.Forward); ok {
		x = f.Settled(x, []ir.HiddenDim{{Level: level, Size: size}})
	}
	l := x.L()
	at := slices.IndexFunc(l.Hidden, func(h ir.HiddenDim) bool { return h.Level == level })
	if at < 0 {
		x = prim.Unsqueeze(b, x, int64(dim))
		shape := slices.Clone(x.Shape())
		shape[dim] = size
		return prim.Expand(b, x, shape)
	}
	h := l.Hidden[at]
	n := len(l.Hidden)
	to := ir.InternHidden(slices.Delete(slices.Clone(l.Hidden), at, at+1),
		slices.Insert(slices.Clone(l.Shape), dim, h.Size), slices.Insert(slices.Clone(l.Stride), dim, h.Stride))
	perm := make([]int64, 0, n+len(l.Shape))
	for i := range n {
		if i != at {
			perm = append(perm, int64(i))
		}
	}
	for i := range l.Shape {
		if i == dim {
			perm = append(perm, int64(at))
		}
		perm = append(perm, int64(n+i))
	}
	if dim == len(l.Shape) {
		perm = append(perm, int64(at))
	}
	return b.View(x, to, x.Offset, op.ViewOp{Kind: op.ViewPermute, Dims: perm, Whole: true})
}

// likeBatch gives v, made for x, the batch of x: each element has numbers of its own, which may be written to.
func likeBatch(b op.Builder, v, x op.Val) op.Val {
	hidden := slices.Clone(x.L().Hidden)
	if hidden == nil {
		return v
	}
	if v.DType().IsComplex() {
		return prim.AsComplex(b, likeBatch(b, op.PairsOf(b, v), x))
	}
	for i := range hidden {
		hidden[i].Stride = 0
	}
	l := v.L()
	step := op.ViewOp{Kind: op.ViewExpand, Whole: true}
	return prim.Copy(b, b.View(v, ir.InternHidden(hidden, l.Shape, l.Stride), v.Offset, step))
}
