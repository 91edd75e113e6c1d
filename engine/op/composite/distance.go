package composite

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// Distances between vectors.

// manyRows is the number of rows from which PyTorch computes Euclidean distances from products of the vectors.
const manyRows = 25

// distances is the p-norm of the difference of each row of x and each row of y, as [..., rows of x, rows of y].
func distances(b op.Builder, x, y op.Val, p float64, products bool) op.Val {
	s, t := x.Shape(), y.Shape()
	lead := ir.BroadcastShape(leading(x), leading(y))
	m, n, k := s[len(s)-2], t[len(t)-2], s[len(s)-1]
	x, y = expand(b, x, slices.Concat(lead, []int64{m, k})), expand(b, y, slices.Concat(lead, []int64{n, k}))
	out := slices.Concat(lead, []int64{m, n})
	if p == 2 && products && ir.Numel(out) > 0 {
		last := []int64{int64(len(lead) + 1)}
		xx, yy := prim.Unsqueeze(b, prim.SumSquares(b, x, last), -1), prim.Unsqueeze(b, prim.SumSquares(b, y, last), -2)
		xy := prim.Mul(b, matrix(b, x, mT(b, y), none), op.FloatVal(2))
		d := prim.Sub(b, prim.Add(b, prim.Expand(b, xx, out), prim.Expand(b, yy, out)), xy)
		return sqrtFinite(b, clampNumbers(b, d, op.FloatVal(0), none))
	}
	full := slices.Concat(out, []int64{k})
	d := prim.Sub(b, prim.Expand(b, prim.Unsqueeze(b, x, -2), full), prim.Expand(b, prim.Unsqueeze(b, y, -3), full))
	if k == 0 {
		p = 1 // no elements: every norm is 0
	}
	last := dimMask([]int64{-1}, len(full))
	if math.IsInf(p, 1) && b.NeedsGrad(d) {
		return largest(b, d, last)
	}
	return vectorNorm(b, d, p, last, false)
}

// largest is the largest size over the marked dims. Each element of that size gets the whole gradient, as in PyTorch's
// distances; a norm divides it among them.
func largest(b op.Builder, x op.Val, mask []bool) op.Val {
	size := prim.Abs(b, x)
	known := b.Detach(size)
	top := reduceDims(b, prim.Amax, known, mask, true)
	is := prim.BitwiseAnd(b, prim.Eq(b, known, expand(b, top, x.Shape())), prim.Lt(b, known, op.FloatVal(math.Inf(1))))
	zero := prim.Where(b, is, prim.Sub(b, size, known), op.FloatVal(0)) // with a gradient
	y := reduceDims(b, prim.Sum, zero, mask, false)
	return prim.Add(b, prim.Reshape(b, top, y.Shape()), y)
}

func registerDistanceOps() {
	op.Register(op.Def{
		Sig: "cdist(Tensor x1, Tensor x2, float p=2, " +
			"str(use_mm_for_euclid_dist_if_necessary|use_mm_for_euclid_dist|donot_use_mm_for_euclid_dist)? compute_mode=None) " +
			"-> Tensor",
		Doc: "The p-norm distances between the rows of two matrices.", Where: op.Function,
		Samples: samples("T(3,4), T(2,4)", "T(2,3,4), T(2,2,4), 1", "T(3,4), T(2,4), float('inf')", "T(3,4), T(2,4), 3",
			"T(3,4), T(2,4), 0", "T(30,4), T(30,4)", "T(3,4), T(2,4), 2, 'use_mm_for_euclid_dist'"),
		ErrorSamples: samples("T(3), T(3)", "T(3,4), T(3,5)", "T(3,4), T(3,4), -1", "I(3,4;0,5), I(3,4;0,5)"),
		Eval: func(a *op.Args) []op.Val {
			x, y, p, mode := a.Val(), a.Val(), a.Float(), a.Int()
			s, t := x.Shape(), y.Shape()
			if len(s) < 2 || len(t) < 2 {
				fail(ir.ErrRuntime, "cdist only supports at least 2D tensors, X1 got: %dD, X2 got: %dD", len(s), len(t))
			}
			if s[len(s)-1] != t[len(t)-1] {
				fail(ir.ErrRuntime, "X1 and X2 must have the same number of columns. X1: %d X2: %d", s[len(s)-1], t[len(t)-1])
			}
			if !x.DType().IsFloat() || !y.DType().IsFloat() || p < 0 || math.IsNaN(p) {
				fail(ir.ErrRuntime, "cdist only supports floating-point dtypes and non-negative p values: got %s, %s and p=%v",
					typeName(x.DType()), typeName(y.DType()), p)
			}
			d := resultType(a.B, x, y)
			x, y = cast(a.B, x, d), cast(a.B, y, d)
			narrow := widen(a.B, d, &x, &y)
			products := mode == 1 || mode <= 0 && (s[len(s)-2] > manyRows || t[len(t)-2] > manyRows)
			return a.Ret(narrow(distances(a.B, x, y, p, products)))
		},
	})
	op.Register(op.Def{
		Sig: "pdist(Tensor self, float p=2) -> Tensor",
		Doc: "The p-norm distances between the pairs of rows i < j, in order.", Where: op.Function | op.Functional,
		NoGrad:  "it has a gradient, but PyTorch's own crashes where there are no rows",
		Samples: samples("T(4,3)", "T(4,3), 1", "T(3,2), float('inf')", "T(1,3)"), ErrorSamples: samples("T(3)", "T(3,4), -1",
			"I(3,4;0,5)"), Eval: evalPdist,
	})
	op.Register(op.Def{
		Sig:   "pairwise_distance(Tensor x1, Tensor x2, float p=2, float eps=1e-06, bool keepdim=False) -> Tensor",
		Doc:   "The p-norm of x1 - x2 + eps over the last dim.",
		Where: op.Function | op.Functional, Samples: samples("T(3,4), T(3,4)", "T(3,4), T(4), 1",
			"T(3,4), T(3,4), 2, 1e-6, True"), ErrorSamples: samples("T(3), T(4)"),
		Eval: func(a *op.Args) []op.Val {
			x, y, p, eps, b := a.Val(), a.Val(), a.Float(), a.Scalar(), a.B
			promote(b, &x, &y)
			x, y = floating(b, x), floating(b, y)
			narrow := widen(b, x.DType(), &x, &y)
			d := prim.Add(b, prim.Sub(b, x, y), eps)
			return a.Ret(narrow(vectorNorm(b, d, p, dimMask([]int64{-1}, len(d.Shape())), a.Bool())))
		},
	})
	op.Register(op.Def{
		Sig: "renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor",
		Doc: "The slices along dim scaled down to a p-norm of at most maxnorm.", InPlace: true, Out: true,
		Samples:      samples("T(3,4), 2, 0, 1", "T(2,3,4), 1, -1, 2.5", "T(3,4), float('inf'), 1, 0.5"),
		ErrorSamples: samples("T(3), 2, 0, 1", "T(3,4), -1, 0, 1", "T(3,4), 2, 0, -1"),
		Eval: func(a *op.Args) []op.Val {
			x, p, dim, most, b := a.Val(), a.Scalar().Float(), a.Int(), a.Scalar(), a.B
			if len(x.Shape()) < 2 {
				fail(ir.ErrRuntime, "renorm: input needs at least 2 dimensions, got %d dimensions", len(x.Shape()))
			}
			if p <= 0 || most.Float() < 0 {
				fail(ir.ErrRuntime, "renorm: expected a positive p and a non-negative maxnorm: got %v and %v", p, most.Float())
			}
			mask := all(x)
			mask[ir.WrapDim(dim, len(x.Shape()))] = false
			narrow := widen(b, x.DType(), &x)
			n := vectorNorm(b, x, p, mask, true)
			scale := prim.Div(b, most, prim.Add(b, n, op.FloatVal(1e-7)))
			scale = prim.Where(b, prim.Gt(b, n, most), scale, op.FloatVal(1))
			return a.Ret(narrow(prim.Mul(b, x, expand(b, scale, x.Shape()))))
		},
	})
}

// evalPdist computes the distances of all pairs. It scatters those above the diagonal to their places, and the others
// to one more place at the end, which it drops.
func evalPdist(a *op.Args) []op.Val {
	x, p, b := a.Val(), a.Float(), a.B
	if len(x.Shape()) != 2 {
		fail(ir.ErrRuntime, "pdist only supports 2D tensors, got: %dD", len(x.Shape()))
	}
	if !x.DType().IsFloat() || p < 0 {
		fail(ir.ErrRuntime, "pdist only supports floating-point dtypes and non-negative p values: got %s and p=%v",
			typeName(x.DType()), p)
	}
	n := x.Shape()[0]
	count := n * (n - 1) / 2
	if count == 0 {
		return a.Ret(noneOf(b, x))
	}
	ones := prim.Fill(b, op.IntVal(1), ir.I64, x.Device(), []int64{n, n})
	above := prim.Reshape(b, prim.Tri(b, ones, 1, true), []int64{n * n})
	place := prim.Sub(b, prim.Cumsum(b, above, 0), op.IntVal(1))
	place = prim.Where(b, prim.Ne(b, above, op.IntVal(0)), place, op.IntVal(count))
	narrow := widen(b, x.DType(), &x)
	d := prim.Reshape(b, distances(b, x, x, p, false), []int64{n * n})
	room := prim.Zeros(b, d.DType(), d.Device(), []int64{count + 1})
	return a.Ret(narrow(prim.Slice(b, prim.Scatter(b, room, place, d, 0), 0, 0, count, 1)))
}
