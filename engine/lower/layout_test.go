package lower_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/optest"
	"github.com/torchlette/torchlette/ir"
)

// A placement places a tensor of a shape in memory.
type placement struct {
	name  string
	place func(e *optest.Eager, d ir.DType, shape []int64, next func() float64) op.Val
}

func draw(n int64, next func() float64) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = next()
	}
	return v
}

func reversed(v []int64) []int64 {
	r := slices.Clone(v)
	slices.Reverse(r)
	return r
}

// doubled is the dense storage of a view that takes every second element of each dim, beginning with the second.
func doubled(shape []int64) (storage, stride []int64, offset int64) {
	for _, n := range shape {
		storage = append(storage, 2*n+1)
	}
	stride = ir.DenseStrides(storage)
	for i := range stride {
		offset += stride[i]
		stride[i] *= 2
	}
	return storage, stride, offset
}

var placements = []placement{
	{"contiguous", func(e *optest.Eager, d ir.DType, shape []int64, next func() float64) op.Val {
		return e.Tensor(d, shape, draw(ir.Numel(shape), next)...)
	}},
	{"transposed", func(e *optest.Eager, d ir.DType, shape []int64, next func() float64) op.Val {
		x := e.Tensor(d, reversed(shape), draw(ir.Numel(shape), next)...)
		return e.View(x, ir.InternLayout(shape, reversed(x.L().Stride)), 0, op.ViewOp{})
	}},
	{"strided", func(e *optest.Eager, d ir.DType, shape []int64, next func() float64) op.Val {
		storage, stride, offset := doubled(shape)
		x := e.Tensor(d, storage, draw(ir.Numel(storage), next)...)
		return e.View(x, ir.InternLayout(shape, stride), offset, op.ViewOp{})
	}},
	{"offset", func(e *optest.Eager, d ir.DType, shape []int64, next func() float64) op.Val {
		x := e.Tensor(d, []int64{ir.Numel(shape) + 5}, draw(ir.Numel(shape)+5, next)...)
		return e.View(x, ir.DenseLayout(shape), 5, op.ViewOp{})
	}},
	{"broadcast", func(e *optest.Eager, d ir.DType, shape []int64, next func() float64) op.Val {
		stride := ir.DenseStrides(shape)
		if len(stride) > 0 {
			stride[0] = 0
		}
		x := e.Tensor(d, []int64{ir.Numel(shape) + 1}, draw(ir.Numel(shape)+1, next)...)
		return e.View(x, ir.InternLayout(shape, stride), 1, op.ViewOp{})
	}},
}

// source returns scrambled numbers in [lo, hi]; whole rounds them.
func source(lo, hi float64, whole bool) func() float64 {
	i := 0
	return func() float64 {
		i++
		x := lo + (hi-lo)*math.Mod(float64(i)*0.7548776662466927, 1)
		if whole {
			x = math.Round(x)
		}
		return x
	}
}

var shapes = [][]int64{{}, {1}, {5}, {2, 3}, {3, 1, 4}, {2, 3, 2, 2}, {0}, {2, 0, 3}}

// everyLayout runs f on tensors of every shape and placement. Operands have different placements.
func everyLayout(t *testing.T, shapes [][]int64, f func(t *testing.T, e *optest.Eager, shape []int64,
	place func(i int, d ir.DType, next func() float64) op.Val)) {
	t.Helper()
	for _, shape := range shapes {
		for p := range placements {
			t.Run(fmt.Sprintf("%v/%s", shape, placements[p].name), func(t *testing.T) {
				e := optest.New()
				f(t, e, shape, func(i int, d ir.DType, next func() float64) op.Val {
					return placements[(p+i)%len(placements)].place(e, d, shape, next)
				})
			})
		}
	}
}

// near compares with a tolerance of d's precision.
func near(t *testing.T, d ir.DType, want, got []float64, msg ...any) {
	t.Helper()
	tol := map[ir.DType]float64{ir.F64: 1e-12, ir.F32: 2e-6, ir.F16: 2e-3, ir.BF16: 1e-2}[d]
	require.Len(t, got, len(want), msg...)
	for i := range want {
		w, g := want[i], got[i]
		if w == g || math.IsNaN(w) && math.IsNaN(g) {
			continue
		}
		require.InDelta(t, w, g, tol*math.Max(1, math.Abs(w)), "element %d of %v, got %v: %v", i, want, got, msg)
	}
}

// emit runs a primitive or a variant by name; attr are the attributes without the variant.
func emit(e *optest.Eager, name string, attr []int64, in ...op.Val) []op.Val {
	p, attr := called(name, attr)
	return e.EmitN(p.ID, attr, in...)
}

func called(name string, attr []int64) (*op.Prim, []int64) {
	for _, p := range op.Prims() {
		if m := slices.Index(p.Variants, name); m >= 0 {
			return p, slices.Insert(slices.Clone(attr), p.VariantAt, int64(m))
		}
	}
	return op.PrimNamed(name), attr
}

// unravel gives the index of row-major element n.
func unravel(n int64, shape []int64) []int64 {
	idx := make([]int64, len(shape))
	for d := len(shape) - 1; d >= 0; d-- {
		idx[d] = n % shape[d]
		n /= shape[d]
	}
	return idx
}

// ravel gives the row-major number of an index.
func ravel(idx, shape []int64) int64 {
	n := int64(0)
	for d := range shape {
		n = n*shape[d] + idx[d]
	}
	return n
}

// groups returns, for each element that a reduction over dims leaves, the row-major numbers of the elements that it
// combines, in order.
func groups(shape, dims []int64) (out [][]int64, kept []int64) {
	gone := make([]bool, len(shape))
	for _, d := range dims {
		if len(shape) > 0 {
			gone[(d+int64(len(shape)))%int64(len(shape))] = true
		}
	}
	for d, n := range shape {
		if !gone[d] {
			kept = append(kept, n)
		}
	}
	out = make([][]int64, ir.Numel(kept))
	for n := range ir.Numel(shape) {
		var k []int64
		for d, i := range unravel(n, shape) {
			if !gone[d] {
				k = append(k, i)
			}
		}
		g := ravel(k, kept)
		out[g] = append(out[g], n)
	}
	return out, kept
}
