package lower_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/optest"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

var indexed = [][]int64{{}, {5}, {2, 3}, {3, 1, 4}, {2, 3, 2, 2}}

// shorter is an index shape: k along dim, and the last other dim one less where that is possible.
func shorter(shape []int64, dim, k int64) []int64 {
	s := slices.Clone(shape)
	for d := len(s) - 1; d >= 0; d-- {
		if int64(d) != dim && s[d] > 1 {
			s[d]--
			break
		}
	}
	if len(s) > 0 {
		s[dim] = k
	}
	return s
}

// moved is the row-major number, in shape, of index at with j along dim.
func moved(at, shape []int64, dim int64, j float64) int64 {
	if len(shape) == 0 {
		return 0
	}
	at = slices.Clone(at)
	at[dim] = int64(j)
	return ravel(at, shape)
}

func TestGatherAndScatter(t *testing.T) {
	everyLayout(t, indexed, func(t *testing.T, e *optest.Eager, shape []int64, place placer) {
		for _, d := range []ir.DType{ir.F32, ir.I64} {
			x := place(0, d, source(-9, 9, true))
			for dim := range int64(max(len(shape), 1)) {
				size := int64(1)
				if len(shape) > 0 {
					size = shape[dim]
				}
				for p := range placements {
					is := shorter(shape, dim, 3)
					i := placements[p].place(e, []ir.DType{ir.I64, ir.I32}[p%2], is, source(0, float64(size-1), true))
					src := placements[(p+1)%len(placements)].place(e, d, is, source(-20, 20, true))
					xv, iv, sv := e.Floats(x), e.Floats(i), e.Floats(src)
					got := make([]float64, len(iv))
					added, set := slices.Clone(xv), slices.Clone(xv)
					filled, high, low := slices.Clone(xv), slices.Clone(xv), slices.Clone(xv)
					for n, j := range iv {
						to := moved(unravel(int64(n), is), shape, dim, j)
						got[n] = xv[to]
						added[to] += sv[n]
						set[to] = sv[n]
						filled[to] = -77
						high[to], low[to] = max(high[to], sv[n]), min(low[to], sv[n])
					}
					mode := func(m loopir.StoreMode) []int64 { return []int64{dim, int64(m)} }
					near(t, d, got, e.Floats(emit(e, "gather", mode(0)[:1], x, i)[0]))
					near(t, d, added, e.Floats(emit(e, "scatter", mode(loopir.Add), x, i, src)[0]))
					// the interpreter goes in order: last wins
					near(t, d, set, e.Floats(emit(e, "scatter", mode(loopir.Set), x, i, src)[0]))
					near(t, d, added, e.Floats(emit(e, "scatter", append(mode(loopir.Add), op.Deterministic), x, i, src)[0]))
					near(t, d, set, e.Floats(emit(e, "scatter", append(mode(loopir.Set), op.Deterministic), x, i, src)[0]))
					near(t, d, filled, e.Floats(emit(e, "scatter", mode(loopir.Set), x, i, op.IntVal(-77))[0]))
					near(t, d, high, e.Floats(emit(e, "scatter_reduce", mode(loopir.Maximize), x, i, src)[0]))
					near(t, d, low, e.Floats(emit(e, "scatter_reduce", mode(loopir.Minimize), x, i, src)[0]))
				}
			}
		}
	})
}

func TestIndexSelectAndAdd(t *testing.T) {
	everyLayout(t, indexed, func(t *testing.T, e *optest.Eager, shape []int64, place placer) {
		x := place(0, ir.F32, source(-9, 9, true))
		for dim := range int64(max(len(shape), 1)) {
			size, count := int64(1), int64(4)
			if len(shape) > 0 {
				size = shape[dim]
			} else {
				count = 1
			}
			i := placements[dim%4].place(e, ir.I64, []int64{count}, source(0, float64(size-1), true))
			os := slices.Clone(shape)
			if len(os) > 0 {
				os[dim] = count
			}
			src := placements[2].place(e, ir.F32, os, source(10, 20, true))
			xv, iv, sv := e.Floats(x), e.Floats(i), e.Floats(src)
			got := make([]float64, ir.Numel(os))
			added := slices.Clone(xv)
			for n := range got {
				at := unravel(int64(n), os)
				j := 0.0
				if len(os) > 0 {
					j = iv[at[dim]]
				}
				to := moved(at, shape, dim, j)
				got[n] = xv[to]
				added[to] += sv[n]
			}
			near(t, ir.F32, got, e.Floats(emit(e, "index_select", []int64{dim}, x, i)[0]))
			near(t, ir.F32, added, e.Floats(prim.IndexAdd(e, x, i, src, dim)))
		}
	})
}

// TestBoolScatterAdd: a sum of bools is their or, as in PyTorch.
func TestBoolScatterAdd(t *testing.T) {
	e := optest.New()
	x := e.Tensor(ir.Bool, []int64{4}, 0, 1, 0, 1)
	i, src := e.Tensor(ir.I64, []int64{3}, 0, 1, 2), e.Tensor(ir.Bool, []int64{3}, 1, 0, 0)
	want := []float64{1, 1, 0, 1}
	near(t, ir.Bool, want, e.Floats(prim.ScatterAdd(e, x, i, src, 0)))
	for _, stride := range []int64{0, 1} {
		l := ir.InternLayout([]int64{3}, []int64{stride})
		near(t, ir.Bool, want, e.Floats(emit(e, "strided_scatter_add", []int64{int64(l.ID)}, x, src, op.IntVal(0))[0]))
	}
}

func TestBadIndicesFault(t *testing.T) {
	for _, bad := range []float64{-1, 3, 1 << 40} {
		for name, with := range map[string]bool{"gather": false, "index_select": false, "scatter": true,
			"scatter_reduce": true} {
			e := optest.New()
			in := []op.Val{e.Tensor(ir.F32, []int64{3}, 1, 2, 3), e.Tensor(ir.I64, []int64{2}, 0, bad)}
			if with {
				in = append(in, e.Tensor(ir.F32, []int64{2}, 4, 5))
			}
			var got *ir.Error
			func() {
				defer func() { got, _ = recover().(*ir.Error) }()
				emit(e, name, []int64{0, int64(loopir.Maximize)}, in...)
			}()
			require.NotNil(t, got, "%s at %v", name, bad)
			require.Equal(t, ir.ErrIndex, got.Code)
		}
	}
	e := optest.New()
	_, err := op.PrimNamed("gather").Infer([]op.Val{e.Tensor(ir.F32, []int64{0}), e.Tensor(ir.I64, []int64{1}, 0)},
		[]int64{0}, nil)
	require.ErrorContains(t, err, "out of range")
}

func TestCat(t *testing.T) {
	everyLayout(t, [][]int64{{5}, {2, 3}, {3, 1, 4}, {2, 0, 3}}, func(t *testing.T, e *optest.Eager, shape []int64,
		place placer) {
		for dim := range int64(len(shape)) {
			var in []op.Val
			os := slices.Clone(shape)
			os[dim] = 0
			for i, n := range []int64{shape[dim], 0, 2, 1} {
				s := slices.Clone(shape)
				s[dim] = n
				os[dim] += n
				in = append(in, placements[i].place(e, ir.F32, s, source(float64(10*i), float64(10*i+9), true)))
			}
			in = append(in, in[0])
			os[dim] += shape[dim]
			want := make([]float64, ir.Numel(os))
			for n := range want {
				at := unravel(int64(n), os)
				for _, x := range in {
					if at[dim] < x.Shape()[dim] {
						want[n] = e.Floats(x)[ravel(at, x.Shape())]
						break
					}
					at[dim] -= x.Shape()[dim]
				}
			}
			y := emit(e, "cat", []int64{dim}, in...)[0]
			require.Equal(t, os, y.Shape())
			near(t, ir.F32, want, e.Floats(y))
		}
	})
}

func TestStridedScatter(t *testing.T) {
	base := []int64{4, 6}
	views := []struct {
		shape, stride []int64
		offset        int64
	}{
		{[]int64{2, 3}, []int64{12, 2}, 1}, {[]int64{6, 2}, []int64{1, 6}, 6}, {[]int64{24}, []int64{1}, 0}, {nil, nil, 7},
		{[]int64{3, 3}, []int64{2, 1}, 4}, {[]int64{0, 2}, []int64{6, 1}, 0}, {[]int64{2, 3}, []int64{0, 1}, 2},
	}
	for _, c := range views {
		for p := range placements {
			e := optest.New()
			x := placements[p].place(e, ir.F32, base, source(-9, 9, true))
			l := ir.InternLayout(c.shape, c.stride)
			v := placements[(p+1)%len(placements)].place(e, ir.F32, c.shape, source(10, 50, true))
			set, added := e.Floats(x), e.Floats(x)
			for n, a := range e.Floats(v) {
				to := c.offset + l.Element(unravel(int64(n), c.shape))
				set[to] = a
				added[to] += a
			}
			attr, off := []int64{int64(l.ID)}, op.IntVal(c.offset)
			if !l.Overlap {
				near(t, ir.F32, set, e.Floats(emit(e, "strided_scatter", attr, x, v, off)[0]), c)
			}
			near(t, ir.F32, added, e.Floats(emit(e, "strided_scatter_add", attr, x, v, off)[0]), c)
			near(t, ir.F32, added, e.Floats(emit(e, "strided_scatter_add", append(attr, op.Deterministic), x, v, off)[0]), c)
		}
	}
}

// TestScattersInPlace puts output 0 in the buffer of the base: no copy is launched.
func TestScattersInPlace(t *testing.T) {
	l := ir.InternLayout([]int64{2}, []int64{2})
	cases := map[string]struct {
		attr    []int64
		in      []lower.Operand
		scalars []uint64
		want    []float64
	}{
		"scatter": {[]int64{0, int64(loopir.Set)}, []lower.Operand{f32At(4, 0), i64At(2, 1), f32At(2, 2)}, nil,
			[]float64{1, 20, 3, 10}},
		"scatter_reduce": {[]int64{0, int64(loopir.Multiply)}, []lower.Operand{f32At(4, 0), i64At(2, 1), f32At(2, 2)},
			nil, []float64{1, 40, 3, 40}},
		"strided_scatter": {[]int64{int64(l.ID)}, []lower.Operand{f32At(4, 0), f32At(2, 2),
			{Scalar: true, DType: ir.I64}}, []uint64{1}, []float64{1, 10, 3, 20}},
		"strided_scatter_add": {[]int64{int64(l.ID)}, []lower.Operand{f32At(4, 0), f32At(2, 2),
			{Scalar: true, DType: ir.I64}}, []uint64{1}, []float64{1, 12, 3, 24}},
	}
	for name, c := range cases {
		n := &lower.Node{Prim: op.PrimNamed(name), Attr: c.attr, In: c.in,
			Out: []lower.Output{{DType: ir.F32, Layout: ir.DenseLayout([]int64{4}), Buf: 0}}, Bufs: 3}
		bufs := [][]byte{optest.Encode(ir.F32, []float64{1, 2, 3, 4}), optest.Encode(ir.I64, []float64{3, 1}),
			optest.Encode(ir.F32, []float64{10, 20})}
		_, err := optest.Run(n, bufs, make([]int64, 4), c.scalars)
		require.NoError(t, err)
		require.Equal(t, c.want, optest.Decode(ir.F32, bufs[0], ir.DenseLayout([]int64{4}), 0), name)
		res, err := lower.Lower(n)
		require.NoError(t, err)
		require.Len(t, res.Launches, 1, name)
	}
}

func f32At(n int64, buf int) lower.Operand {
	return lower.Operand{DType: ir.F32, Layout: ir.DenseLayout([]int64{n}), Buf: buf}
}

func i64At(n int64, buf int) lower.Operand {
	return lower.Operand{DType: ir.I64, Layout: ir.DenseLayout([]int64{n}), Buf: buf}
}
