package composite

import (
	"fmt"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// sections cuts dim d of x into parts of the given sizes.
func sections(b op.Builder, x op.Val, d int, sizes []int64) []op.Val {
	out := make([]op.Val, len(sizes))
	at := int64(0)
	for i, n := range sizes {
		out[i] = prim.Slice(b, x, int64(d), at, at+n, 1)
		at += n
	}
	return out
}

// pieces are sizes of n each that cover total; the last may be smaller.
func pieces(total, n int64) []int64 {
	if total == 0 {
		return []int64{0}
	}
	var out []int64
	for ; total > 0; total -= n {
		out = append(out, min(n, total))
	}
	return out
}

// mostParts bounds the tensors that one call makes: a greater number is a mistake, or exceeds any memory.
const mostParts = 1 << 24

func checkParts(name string, n int64) {
	if n > mostParts {
		fail(ir.ErrRuntime, "%s: a call makes at most %d tensors, got %d", name, mostParts, n)
	}
}

// splitDim wraps the dim of an operator that cuts a tensor.
func splitDim(name string, x op.Val, dim int64) int {
	if len(x.Shape()) == 0 {
		fail(ir.ErrRuntime, "%s expects at least a 1-dimensional tensor", name)
	}
	return ir.WrapDim(dim, len(x.Shape()))
}

func splitSizes(b op.Builder, x op.Val, sizes []int64, dim int64) []op.Val {
	d := splitDim("split_with_sizes", x, dim)
	total := int64(0)
	for _, n := range sizes {
		if n < 0 {
			fail(ir.ErrRuntime, "split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes=%s",
				ir.ShapeString(sizes))
		}
		total += n
	}
	if n := x.Shape()[d]; total != n {
		fail(ir.ErrRuntime, "split_with_sizes expects split_sizes to sum exactly to %d (input tensor's size at dimension "+
			"%d), but got split_sizes=%s", n, d, ir.ShapeString(sizes))
	}
	return sections(b, x, d, sizes)
}

// registerDimSplits registers hsplit, vsplit and dsplit: tensor_split along one dim, in equal parts.
func registerDimSplits() {
	for i, name := range []string{"vsplit", "hsplit", "dsplit"} {
		dim := func(x op.Val) int {
			rank, least := len(x.Shape()), []int{2, 1, 3}[i]
			if rank < least {
				fail(ir.ErrRuntime, "torch.%s requires a tensor with at least %d dimension, but got a tensor with %d dimensions!",
					name, least, rank)
			}
			return min(i, rank-1)
		}
		viewDef(name+"(Tensor self, int sections) -> Tensor[]", fmt.Sprintf("Equal parts along dim %d.", i), nil,
			func(a *op.Args) []op.Val {
				x, n := a.Val(), a.Int()
				d := dim(x)
				if n <= 0 || x.Shape()[d]%n != 0 {
					fail(ir.ErrRuntime, "torch.%s attempted to split along dimension %d, but the size of the dimension %d is not "+
						"divisible by the split_size %d!", name, d, x.Shape()[d], n)
				}
				checkParts(name, n)
				return sections(a.B, x, d, slices.Repeat([]int64{x.Shape()[d] / n}, int(n)))
			}, samples("T(4,4,4), 2"), sample("T(3,3,3), 2"), sample("T(), 1"), sample("T(4,4,4), 0"))
		viewDef(name+".indices(Tensor self, int[] indices) -> Tensor[]", fmt.Sprintf("Parts along dim %d, cut at indices.",
			i), nil, func(a *op.Args) []op.Val {
			x := a.Val()
			cuts, _ := a.IntList()
			return cutAt(a.B, x, dim(x), cuts)
		}, samples("T(4,4,4), (1,3)", "T(4,4,4), (3,-3)"), sample("T(), (1,)"))
	}
}

// cutAt cuts dim d of x at the given positions, which count as those of slices.
func cutAt(b op.Builder, x op.Val, d int, cuts []int64) []op.Val {
	start, out := int64(0), make([]op.Val, 0, len(cuts)+1)
	for _, end := range cuts {
		out = append(out, prim.Slice(b, x, int64(d), start, end, 1))
		start = end
	}
	return append(out, prim.Slice(b, x, int64(d), start, x.Shape()[d], 1))
}

func registerSplits() {
	registerDimSplits()
	viewDef("split(Tensor self, int split_size, int dim=0) -> Tensor[]", "Parts of one size along a dim.",
		[]string{"unsafe_split"}, func(a *op.Args) []op.Val {
			x, n, dim := a.Val(), a.Int(), a.Int()
			d := splitDim("split", x, dim)
			size := x.Shape()[d]
			if n < 0 {
				fail(ir.ErrRuntime, "split expects split_size be non-negative, but got split_size=%d", n)
			}
			if n == 0 && size != 0 {
				fail(ir.ErrRuntime, "split_size can only be 0 if dimension size is 0, but got dimension size of %d", size)
			}
			checkParts("split", size/max(n, 1))
			return sections(a.B, x, d, pieces(size, max(n, 1)))
		}, samples("T(5,2), 2", "T(2,6), 3, 1", "T(0,2), 2"), sample("T(3), -1"), sample("T(3), 0"))
	sizes := func(a *op.Args) []op.Val {
		x := a.Val()
		list, _ := a.IntList()
		return splitSizes(a.B, x, list, a.Int())
	}
	viewDef("split.sizes(Tensor self, int[] split_size, int dim=0) -> Tensor[]", "Parts of given sizes along a dim.", nil,
		sizes, samples("T(5,2), [2,3]", "T(2,6), [1,0,5], -1"), sample("T(3), [1,1]"))
	viewDef("split_with_sizes(Tensor self, int[] split_sizes, int dim=0) -> Tensor[]", "Parts of given sizes along a dim.",
		[]string{"unsafe_split_with_sizes"}, sizes, samples("T(5,2), [2,3]"), sample("T(3), [1,1]"))
	viewDef("chunk(Tensor self, int chunks, int dim=0) -> Tensor[]", "At most that many parts of equal size along a dim.",
		[]string{"unsafe_chunk"}, func(a *op.Args) []op.Val {
			x, n, dim := a.Val(), a.Int(), a.Int()
			d := splitDim("chunk", x, dim)
			if n <= 0 {
				fail(ir.ErrRuntime, "chunk expects `chunks` to be greater than 0, got: %d", n)
			}
			size := x.Shape()[d]
			if size == 0 {
				checkParts("chunk", n)
				return sections(a.B, x, d, make([]int64, n))
			}
			return sections(a.B, x, d, pieces(size, (size-1)/n+1))
		}, samples("T(5,2), 2", "T(2,7), 3, 1", "T(3), 5", "T(0), 3"), sample("T(3), 0"))
	viewDef("tensor_split(Tensor self, int indices_or_sections, int dim=0) -> Tensor[]",
		"Parts along a dim whose sizes differ by at most one.", nil, func(a *op.Args) []op.Val {
			x, n, dim := a.Val(), a.Int(), a.Int()
			d := splitDim("tensor_split", x, dim)
			if n <= 0 {
				fail(ir.ErrRuntime, "number of sections must be larger than 0, got %d", n)
			}
			checkParts("tensor_split", n)
			list := make([]int64, n)
			for i := range list {
				if list[i] = x.Shape()[d] / n; int64(i) < x.Shape()[d]%n {
					list[i]++
				}
			}
			return sections(a.B, x, d, list)
		}, samples("T(7), 3", "T(2,5), 2, 1"), sample("T(3), 0"))
	viewDef("tensor_split.indices(Tensor self, int[] indices_or_sections, int dim=0) -> Tensor[]",
		"Parts along a dim, cut at indices.", nil, func(a *op.Args) []op.Val {
			x := a.Val()
			cuts, _ := a.IntList()
			d := splitDim("tensor_split", x, a.Int())
			return cutAt(a.B, x, d, cuts)
		}, samples("T(7), (2,5)", "T(3), (1,9)", "T(2,5), (2,), 1"))
	viewDef("unbind(Tensor self, int dim=0) -> Tensor[]", "The slices along a dim, which goes.", nil,
		func(a *op.Args) []op.Val {
			x, dim := a.Val(), a.Int()
			if len(x.Shape()) == 0 {
				fail(ir.ErrIndex, "Dimension specified as %d but tensor has no dimensions", dim)
			}
			d := ir.WrapDim(dim, len(x.Shape()))
			checkParts("unbind", x.Shape()[d])
			out := make([]op.Val, x.Shape()[d])
			for i := range out {
				out[i] = prim.Select(a.B, x, int64(d), int64(i))
			}
			return out
		}, samples("T(3,2)", "T(2,3), 1", "T(0,2)"), sample("T(3), 1"), sample("T()"))
}
