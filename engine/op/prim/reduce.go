package prim

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

func registerReducePrims() {
	registerSums()
	registerExtremaOver()
	registerMoments()
}

// keep gives a reduced tensor the reduced dims back, with size 1.
func keep(b op.Builder, g op.Val, dims, shape []int64) op.Val {
	kept := slices.Clone(shape)
	for _, d := range dims {
		if len(shape) > 0 {
			kept[ir.WrapDim(d, len(shape))] = 1
		}
	}
	return Reshape(b, g, kept)
}

// spread broadcasts a reduced tensor over the dims that were reduced.
func spread(b op.Builder, g op.Val, dims, shape []int64) op.Val {
	return Expand(b, keep(b, g, dims, shape), shape)
}

// count is the number of elements that a reduction of shape over dims combines into one.
func count(dims, shape []int64) int64 {
	n := int64(1)
	for _, d := range dims {
		if len(shape) > 0 {
			n *= shape[ir.WrapDim(d, len(shape))]
		}
	}
	return n
}

func registerSums() {
	pSum = op.RegisterPrim(op.Prim{Name: "sum", Doc: "sum over dims", NIn: 1, Infer: reduceInfer("sum", numbers, true),
		VJP: func(c *op.VJPCall) []op.Val {
			return []op.Val{spread(c.B, c.Cot[0], c.Attr, c.In[0].Shape())}
		}})
	pSumSquares = op.RegisterPrim(op.Prim{Name: "sum_squares", Doc: "sum of squares over dims", NIn: 1, SaveIn: 1,
		Infer: reduceInfer("sum_squares", floats, true),
		VJP: func(c *op.VJPCall) []op.Val {
			g := spread(c.B, Mul(c.B, c.Cot[0], num(2)), c.Attr, c.In[0].Shape())
			return []op.Val{Mul(c.B, g, c.In[0])}
		}})
	pProd = op.RegisterPrim(op.Prim{Name: "prod", Doc: "product over dims", NIn: 1, SaveIn: 1, Infer: reduceInfer("prod",
		numbers, true),
		VJP: func(c *op.VJPCall) []op.Val {
			x := c.In[0]
			others := othersByCount
			if n := count(c.Attr, x.Shape()); c.B.NeedsGrad(x) && n <= maxPairwiseProd {
				others = othersPairwise
			}
			return []op.Val{Mul(c.B, spread(c.B, c.Cot[0], c.Attr, x.Shape()), others(c.B, x, c.Attr))}
		}})
}

// maxPairwiseProd is the largest reduced size for which the gradient of a product can itself be differentiated at
// zeros: its memory is quadratic in that size.
const maxPairwiseProd = 512

// othersByCount is, for each element, the product of the others: without zeros the product divided by the element; with
// one zero not 0 there only; with more zeros 0.
func othersByCount(b op.Builder, x op.Val, dims []int64) op.Val {
	zero := Eq(b, x, num(0))
	filled := Where(b, zero, num(1), x)
	shape := x.Shape()
	p := spread(b, Prod(b, filled, dims), dims, shape)
	zeros := spread(b, Sum(b, Cast(b, zero, x.DType()), dims), dims, shape)
	atZero := Where(b, Eq(b, zeros, num(1)), p, num(0))
	elsewhere := Where(b, Eq(b, zeros, num(0)), Div(b, p, filled), num(0))
	return Where(b, zero, atZero, elsewhere)
}

// othersPairwise is the same by n products of n factors, the element's own replaced by 1. It is differentiable at
// zeros.
func othersPairwise(b op.Builder, x op.Val, dims []int64) op.Val {
	shape := x.Shape()
	r := len(shape)
	if r == 0 {
		return OnesLike(b, x)
	}
	mask := make([]bool, r)
	for _, d := range dims {
		mask[ir.WrapDim(d, r)] = true
	}
	var perm, outer []int64
	for i, m := range mask {
		if !m {
			perm, outer = append(perm, int64(i)), append(outer, shape[i])
		}
	}
	for i, m := range mask {
		if m {
			perm = append(perm, int64(i))
		}
	}
	n := count(dims, shape)
	moved := Permute(b, x, perm)
	o := len(outer)
	rows := Reshape(b, moved, append(slices.Clone(outer), n))
	pairs := Expand(b, Unsqueeze(b, rows, int64(o)), append(slices.Clone(outer), n, n))
	own := Tri(b, Tri(b, OnesLike(b, pairs), 0, true), 0, false)
	others := Prod(b, Where(b, Ne(b, own, num(0)), num(1), pairs), []int64{int64(o + 1)})
	inverse := make([]int64, r)
	for i, p := range perm {
		inverse[p] = int64(i)
	}
	return Permute(b, Reshape(b, others, moved.Shape()), inverse)
}

// The variants of extrema, and of clip: the first attribute. Where the result is NaN, the NaN of the operand share
// the gradient of max_all and min_all, and the gradient of amax and amin is NaN for every element.
const (
	largest int64 = iota
	least
	largestOfAll
	leastOfAll
)

// Larger is the variant of clip that keeps the larger of two, and that of extremum which is amax.
const Larger = largest

func registerExtremaOver() {
	names, args := []string{"amax", "amin", "max_all", "min_all"}, []string{"argmax", "argmin"}
	dims := []string{"max_dim", "min_dim"}
	pExtremum = op.RegisterPrim(op.Prim{Name: "extremum", Doc: "maximum or minimum over dims; ties share the gradient",
		NIn: 1, SaveIn: 1, SaveOut: 1, Variants: names,
		Infer: func(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
			return reduceInfer(names[attr[0]], all, false)(in, attr[1:], out)
		},
		VJP: func(c *op.VJPCall) []op.Val {
			b, x, dims := c.B, c.In[0], c.Attr[1:]
			shape := x.Shape()
			own := Eq(b, x, spread(b, c.Out[0], dims, shape))
			if c.Attr[0] >= largestOfAll {
				own = BitwiseOr(b, own, IsNaN(b, x)) // one NaN makes the result NaN
			}
			tie := Cast(b, own, x.DType())
			each := Div(b, c.Cot[0], Sum(b, tie, dims))
			return []op.Val{Mul(b, tie, spread(b, each, dims, shape))}
		}})
	pArgExtremum = op.RegisterPrim(op.Prim{Name: "arg_extremum", Doc: "first index of the maximum or minimum along a dim",
		NIn: 1, NoVJP: noTape, Variants: args,
		Infer: func(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
			return dimInfer(args[attr[0]], false)(in, attr[1:], out)
		}})
	pExtremumDim = op.RegisterPrim(op.Prim{Name: "extremum_dim", Doc: "maximum or minimum along a dim and its first index",
		NIn: 1, SaveOut: 2, Variants: dims,
		Infer: func(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
			return dimInfer([...]string{"max", "min"}[attr[0]], true)(in, attr[1:], out)
		}, VJP: chosen})
}

// chosen passes the cotangent to the index that was taken.
func chosen(c *op.VJPCall) []op.Val {
	shape := c.In[0].Shape()
	if c.Cot[0].Kind == op.None {
		return make([]op.Val, 1)
	}
	if len(shape) == 0 {
		return []op.Val{c.Cot[0]}
	}
	d := c.Attr[1:]
	g, i := keep(c.B, c.Cot[0], d, shape), keep(c.B, c.Out[1], d, shape)
	return []op.Val{Scatter(c.B, Zeros(c.B, g.DType(), g.Device(), shape), i, g, d[0])}
}

func registerMoments() {
	pVar = op.RegisterPrim(op.Prim{Name: "var", Doc: "variance and mean over dims", NIn: 2, SaveIn: 3, SaveOut: 2,
		Infer: func(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
			out, err := reduceInfer("var", floats, true)(in, attr, out)
			if err != nil {
				return nil, err
			}
			return append(out, out[len(out)-1]), nil
		},
		VJP: varVJP})
}

// varVJP: dvar/dx is 2*(x-mean)/(n-correction), and dmean/dx is 1/n.
func varVJP(c *op.VJPCall) []op.Val {
	b, x := c.B, c.In[0]
	shape := x.Shape()
	n := float64(count(c.Attr, shape))
	var dx op.Val
	if c.Cot[0].Kind != op.None {
		scale := math.Inf(1)
		if dof := n - c.In[1].Float(); dof > 0 {
			scale = 2 / dof
		}
		centred := Sub(b, x, spread(b, c.Out[1], c.Attr, shape))
		dx = Mul(b, centred, spread(b, Mul(b, c.Cot[0], num(scale)), c.Attr, shape))
	}
	if c.Cot[1].Kind != op.None {
		dx = sumCot(b, dx, spread(b, Mul(b, c.Cot[1], num(1/n)), c.Attr, shape))
	}
	return []op.Val{dx, {}}
}

// sumCot adds two cotangents, either of which may be absent.
func sumCot(b op.Builder, x, y op.Val) op.Val {
	switch {
	case x.Kind == op.None:
		return y
	case y.Kind == op.None:
		return x
	}
	return Add(b, x, y)
}
