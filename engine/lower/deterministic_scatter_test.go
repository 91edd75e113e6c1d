package lower_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/optest"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// TestOrderedScatter: many elements go to few places, along each dim, with an index that is constant along some dims.
func TestOrderedScatter(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, d := range []ir.DType{ir.F32, ir.F16} {
		for dim := range 3 {
			for seed := range 6 {
				shape, is := []int64{4, 3, 5}, []int64{4, 3, 5}
				is[dim] = []int64{1, 7, 40}[seed%3]
				e := optest.New()
				x := e.Tensor(d, shape, random(r, shape, 2)...)
				flat := append([]int64{}, is...)
				if seed > 2 { // one index for all
					flat = []int64{1, 1, 1}
					flat[dim] = is[dim]
				}
				index := make([]float64, ir.Numel(flat))
				for k := range index {
					index[k] = float64(r.Int64N(shape[dim]))
				}
				base := e.Tensor(ir.I64, flat, index...)
				strides := ir.DenseStrides(flat)
				for k := range flat {
					if flat[k] != is[k] {
						strides[k] = 0
					}
				}
				i := e.View(base, ir.InternLayout(is, strides), 0, op.ViewOp{Kind: op.ViewExpand})
				src := e.Tensor(d, is, random(r, is, 1)...)
				for _, mode := range []loopir.StoreMode{loopir.Set, loopir.Add, loopir.Multiply} {
					name := "scatter"
					if mode == loopir.Multiply {
						name = "scatter_reduce"
					}
					attr := []int64{int64(dim), int64(mode)}
					want := e.Floats(emit(e, name, attr, x, i, src)[0])
					got := e.Floats(emit(e, name, append(attr, op.Deterministic), x, i, src)[0])
					tol := map[ir.DType]float64{ir.F32: 1e-5, ir.F16: 5e-2}[d]
					for k := range want {
						require.InDelta(t, want[k], got[k], tol*(1+max(want[k], -want[k])), "%v dim %d mode %d", d, dim, mode)
					}
				}
			}
		}
	}
}

func random(r *rand.Rand, shape []int64, scale float64) []float64 {
	v := make([]float64, ir.Numel(shape))
	for k := range v {
		v[k] = scale * (r.Float64() - 0.5)
	}
	return v
}

// TestOrderedStoresUseNoAtomics, except for sums that are the same in every order, and on a device that keeps the
// order.
func TestOrderedStoresUseNoAtomics(t *testing.T) {
	l := ir.InternLayout([]int64{3}, []int64{0})
	number := lower.Operand{Scalar: true, DType: ir.I64}
	for _, c := range []struct {
		name    string
		attr    []int64
		d       ir.DType
		inOrder bool
		atomics bool
	}{
		{"scatter", []int64{0, int64(loopir.Add)}, ir.F32, false, true},
		{"scatter", []int64{0, int64(loopir.Add), op.Deterministic}, ir.F32, false, false},
		{"scatter", []int64{0, int64(loopir.Add), op.Deterministic}, ir.F32, true, true},
		{"scatter", []int64{0, int64(loopir.Add), op.Deterministic}, ir.I32, false, true},
		{"scatter_reduce", []int64{0, int64(loopir.Multiply), op.Deterministic}, ir.F16, false, false},
		{"scatter_reduce", []int64{0, int64(loopir.Maximize), op.Deterministic}, ir.F32, false, true},
		{"strided_scatter_add", []int64{int64(l.ID)}, ir.F32, false, true},
		{"strided_scatter_add", []int64{int64(l.ID), op.Deterministic}, ir.F32, false, false},
	} {
		of := func(n int64, buf int) lower.Operand {
			return lower.Operand{DType: c.d, Layout: ir.DenseLayout([]int64{n}), Buf: buf}
		}
		in := []lower.Operand{of(4, 0), i64At(3, 1), of(3, 2)}
		if c.name == "strided_scatter_add" {
			in = []lower.Operand{of(4, 0), of(3, 2), number}
		}
		n := &lower.Node{Prim: op.PrimNamed(c.name), Attr: c.attr, In: in,
			Out: []lower.Output{{DType: c.d, Layout: ir.DenseLayout([]int64{4}), Buf: 0}}, Bufs: 3, InOrder: c.inOrder}
		res, err := lower.Lower(n)
		require.NoError(t, err)
		atomics := false
		for _, step := range res.Launches {
			for _, b := range step.Op.Buffers() {
				atomics = atomics || b.Access == loopir.Atomic
			}
		}
		require.Equal(t, c.atomics, atomics, "%+v", c)
	}
}
