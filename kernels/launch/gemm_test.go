package launch_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/kerneltest"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// of gives elements of type t with these values.
func of(t ir.DType, v ...float64) []byte {
	b := make([]byte, len(v)*t.Size())
	for i, x := range v {
		bits := ir.EncodeInt(t.ComputeType(), int64(x))
		if t.IsFloat() {
			bits = ir.EncodeFloat(t.ComputeType(), x)
		}
		loopir.StoreBits(t, b, int64(i), bits)
	}
	return b
}

// values reads elements of type t.
func values(t ir.DType, b []byte) []float64 {
	v := make([]float64, len(b)/t.Size())
	for i := range v {
		bits := loopir.LoadBits(t, b, int64(i))
		if t.IsFloat() {
			v[i] = ir.DecodeFloat(t.ComputeType(), bits)
		} else {
			v[i] = float64(int64(loopir.CastBits(t.ComputeType(), ir.I64, bits)))
		}
	}
	return v
}

// Products worked by hand. The parameters are those that Gemm lists.
func TestReferenceOfProducts(t *testing.T) {
	const f32, i32, half = ir.F32, ir.I32, ir.F16
	dims := launch.Gemm{Type: f32, KDims: 2, NDims: 2}
	for _, tc := range []struct {
		name   string
		gemm   launch.Gemm
		params []uint64
		in     [][]float64
		want   []float64
		sums   []float64
	}{
		{"rows by columns", launch.Gemm{Type: f32}, []uint64{2, 2, 3, 3, 1, 0, 2, 1, 0},
			[][]float64{{1, 2, 3, 4, 5, 6}, {1, 0, 0, 1, 2, 2}}, []float64{7, 8, 16, 17}, nil},
		{"transposed operands at offsets", launch.Gemm{Type: f32}, []uint64{2, 2, 3, 1, 2, 1, 1, 3, 2},
			[][]float64{{9, 1, 4, 2, 5, 3, 6}, {9, 9, 1, 0, 2, 0, 1, 2}}, []float64{7, 8, 16, 17}, nil},
		{"integers wrap", launch.Gemm{Type: i32}, []uint64{1, 1, 2, 2, 1, 0, 1, 1, 0},
			[][]float64{{1 << 30, 1}, {4, 5}}, []float64{5}, nil},
		{"bias", launch.Gemm{Type: f32, Bias: true}, []uint64{1, 2, 1, 1, 1, 0, 2, 1, 0, 2, 1},
			[][]float64{{3}, {1, 2}, {9, 10, 9, 20}}, []float64{13, 26}, nil},
		{"batch with a shared operand", launch.Gemm{Type: f32, Batch: 1}, []uint64{2, 1, 1, 2, 2, 2, 1, 0, 0, 1, 1, 0},
			[][]float64{{1, 2, 3, 4}, {10, 1}}, []float64{12, 34}, nil},
		{"result in columns", launch.Gemm{Type: f32, CStrided: true}, []uint64{2, 2, 1, 1, 1, 0, 2, 1, 0, 1, 2, 0},
			[][]float64{{1, 2}, {10, 20}}, []float64{10, 20, 20, 40}, nil},
		{"row sums of a", launch.Gemm{Type: f32, Sums: 'a'}, []uint64{2, 1, 2, 2, 1, 0, 1, 1, 0},
			[][]float64{{1, 2, 3, 4}, {1, 1}}, []float64{3, 7}, []float64{3, 7}},
		{"column sums of b", launch.Gemm{Type: f32, Sums: 'b'}, []uint64{1, 2, 2, 2, 1, 0, 2, 1, 0},
			[][]float64{{1, 1}, {1, 2, 3, 4}}, []float64{4, 6}, []float64{4, 6}},
		{"sums in half round once", launch.Gemm{Type: half}, []uint64{1, 1, 3, 3, 1, 0, 1, 1, 0},
			[][]float64{{2048, 1, 1}, {1, 1, 1}}, []float64{2050}, nil},
		// Columns are the 2x2 windows of a 3x3 image, the depth runs over a window: a convolution by [1 2; 3 4].
		{"windows", dims, append([]uint64{1, 4, 4, 4, 0, 0, 0, 0, 0},
			2, 2, 2, 1, 3, 1, // depth: sizes, strides of a and of b
			2, 2, 3, 1), // columns: sizes, strides of b
			[][]float64{{1, 2, 3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9}}, []float64{37, 47, 67, 77}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var bufs [][]byte
			for _, v := range tc.in {
				bufs = append(bufs, of(tc.gemm.Type, v...))
			}
			bufs = append(bufs, make([]byte, len(tc.want)*tc.gemm.Type.Size()))
			if tc.sums != nil {
				bufs = append(bufs, make([]byte, len(tc.sums)*tc.gemm.Type.Size()))
			}
			require.NoError(t, launch.InterpretGemm(&tc.gemm, tc.params, bufs))
			require.Equal(t, tc.want, values(tc.gemm.Type, bufs[len(tc.in)]))
			if tc.sums != nil {
				require.Equal(t, tc.sums, values(tc.gemm.Type, bufs[len(tc.in)+1]))
			}
		})
	}
}

// An epilogue sees the product as a store has rounded it, so that C has the bits of a map that runs afterwards.
func TestEpiloguesSeeTheRoundedProduct(t *testing.T) {
	const half = ir.F16
	b, c, x, finish := launch.NewEpilogue(half, half)
	g := &launch.Gemm{Type: half, Epilogue: finish(b.Sub(c, x[0]))}
	bufs := [][]byte{of(half, 1, 1), of(half, 2048, 1), of(half, 2048), make([]byte, 2)}
	_, err := g.Interpret([]uint64{1, 1, 2, 2, 1, 0, 1, 1, 0}, bufs)
	require.NoError(t, err)
	require.Equal(t, []float64{0}, values(half, bufs[3]), "2049 is no half: it is stored as 2048")
}

func TestProductsRefuseWhatIsNoEpilogue(t *testing.T) {
	first := func(k *loopir.Kernel) *loopir.Store { return &k.Stages[0].Stores[0] }
	for _, tc := range []struct {
		name  string
		spoil func(k *loopir.Kernel)
		want  string // "" for a correct one
	}{
		{"as it is", func(*loopir.Kernel) {}, ""},
		{"two dims", func(k *loopir.Kernel) { k.Outer = 2 }, "no map over one dim"},
		{"two stores", func(k *loopir.Kernel) {
			k.Stages[0].Stores = append(k.Stages[0].Stores, *first(k))
		}, "writes an operand, or stores a result"},
		{"another type", func(k *loopir.Kernel) { k.Bufs[0].Type = ir.F16 }, "does not begin with a buffer of float32"},
		{"C only written", func(k *loopir.Kernel) { k.Bufs[0].Access = loopir.Write }, "does not begin"},
		{"operand written", func(k *loopir.Kernel) { k.Bufs[1].Access = loopir.ReadWrite }, "writes an operand"},
		{"strided operand", func(k *loopir.Kernel) { k.Access[1] = loopir.Access{Buf: 1, Offset: -1, Stride: []int{0}} },
			"other elements than its own"},
		{"operand at an offset", func(k *loopir.Kernel) { k.Access[1].Offset = 0 }, "other elements than its own"},
		{"place of the element", func(k *loopir.Kernel) { k.Exprs[0].Op = loopir.OpIndex }, "depends on where"},
		{"guarded store", func(k *loopir.Kernel) { first(k).Guard = 0 }, "does not store C"},
		{"store elsewhere", func(k *loopir.Kernel) { first(k).Access = 1 }, "does not store C"},
		{"combining store", func(k *loopir.Kernel) { first(k).Mode = loopir.Add }, "does not store C"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := &launch.Gemm{Type: ir.F32, Epilogue: kerneltest.Epilogue(ir.F32, 1, true)}
			tc.spoil(g.Epilogue)
			if tc.want == "" {
				require.NoError(t, g.CheckEpilogue())
				return
			}
			require.ErrorContains(t, g.CheckEpilogue(), tc.want)
			_, err := g.Interpret([]uint64{1, 1, 1, 1, 1, 0, 1, 1, 0}, make([][]byte, 4))
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// The order is stable in both directions, NaN is above all numbers, and the zeros are equal.
func TestReferenceOfSorts(t *testing.T) {
	nan := []byte{0, 0, 0xc0, 0x7f}
	x := append(append(of(ir.F32, 2, -1), nan...), of(ir.F32, 2, 0)...)
	zero := of(ir.F32, 0)
	zero[3] = 0x80
	x = append(append(x, zero...), of(ir.F32, 3)...)
	for _, tc := range []struct {
		descending bool
		keep       uint64
		want       []float64
	}{
		{false, 7, []float64{1, 4, 5, 0, 3, 6, 2}},
		{true, 7, []float64{2, 6, 0, 3, 4, 5, 1}},
		{true, 3, []float64{2, 6, 0}},
	} {
		s := &launch.Sort{Type: ir.F32, Descending: tc.descending}
		bufs := [][]byte{x, make([]byte, 4*tc.keep), make([]byte, 8*tc.keep)}
		_, err := s.Interpret([]uint64{1, 7, 1, tc.keep, 7, 1, 1, 0}, bufs)
		require.NoError(t, err)
		require.Equal(t, tc.want, values(ir.I64, bufs[2]))
		for i, place := range tc.want {
			require.Equal(t, x[4*int(place):4*int(place)+4], bufs[1][4*i:4*i+4], "the value at each kept place")
		}
	}
	// Columns of a 2x3 matrix: the strides of the operand decide, the results are dense.
	s := &launch.Sort{Type: ir.I32}
	bufs := [][]byte{of(ir.I32, 5, 1, 4, 2, 3, 0), make([]byte, 24), make([]byte, 48)}
	_, err := s.Interpret([]uint64{1, 2, 3, 2, 6, 3, 1, 0}, bufs)
	require.NoError(t, err)
	require.Equal(t, []float64{2, 1, 0, 5, 3, 4}, values(ir.I32, bufs[1]))
	require.Equal(t, []float64{1, 0, 1, 0, 1, 0}, values(ir.I64, bufs[2]))
}
