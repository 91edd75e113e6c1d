package launch_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/kerneltest"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Rows are normalized before they are multiplied, wherever they lie; worked by hand.
func TestReferenceOfNormalizedProducts(t *testing.T) {
	for _, tc := range []struct {
		name   string
		gemm   launch.Gemm
		norm   *loopir.Kernel
		params []uint64
		in     [][]float64 // A, B
		more   [][]float64 // weight, bias
		want   []float64
	}{
		{"about the mean", launch.Gemm{Type: ir.F32}, kerneltest.Norm(ir.F32, true, false, false),
			[]uint64{2, 1, 2, 2, 1, 0, 1, 1, 0}, [][]float64{{1, 3, 9, 5}, {10, 1}}, nil, []float64{-9, 9}},
		{"about zero, with weight and bias", launch.Gemm{Type: ir.F32}, kerneltest.Norm(ir.F32, false, true, true),
			[]uint64{1, 2, 2, 2, 1, 0, 2, 1, 0}, [][]float64{{4, -4}, {1, 0, 0, 1}}, [][]float64{{2, 3}, {10, 20}},
			[]float64{12, 17}},
		{"of a batch, with gaps", launch.Gemm{Type: ir.F32, Batch: 1}, kerneltest.Norm(ir.F32, true, true, false),
			[]uint64{2, 1, 1, 2, 4, 9, 2, 1, 2, 1, 1, 0}, [][]float64{{0, 7, 0, 9, 0, 5, 0, 3}, {1, 10, 2, 20}},
			[][]float64{{1, 2}}, []float64{19, -38}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.gemm.Prologue = tc.norm
			l := tc.gemm.Layout()
			params := append(tc.params, 2, ir.EncodeFloat(ir.F32, 0))
			bufs := [][]byte{of(ir.F32, tc.in[0]...), of(ir.F32, tc.in[1]...), make([]byte, 4*len(tc.want))}
			for _, v := range tc.more {
				bufs = append(bufs, of(ir.F32, v...))
			}
			before := append([]byte{}, bufs[0]...)
			require.NoError(t, launch.InterpretGemm(&tc.gemm, params, bufs))
			assert.InDeltaSlice(t, tc.want, values(ir.F32, bufs[l.BufC]), 1e-5)
			assert.Equal(t, before, bufs[0], "A stays as it is")
		})
	}
}

// An element is rounded between the norm and the product, as a store would: the difference of two of them shows it.
func TestANormOfHalvesIsRounded(t *testing.T) {
	c := kerneltest.GemmNormOfHalves()
	require.NoError(t, launch.InterpretGemm(c.Gemm, c.Params, c.Bufs))
	y := func(w float64) float64 {
		return values(ir.F16, of(ir.F16, values(ir.F16, of(ir.F16, w))[0]/math.Sqrt(3)))[0]
	}
	want := y(0.6665) - y(0.6655)
	assert.NotZero(t, want)
	assert.Equal(t, []float64{want}, values(ir.F16, c.Bufs[2]))
}

func TestProloguesOfOtherFormsAreRefused(t *testing.T) {
	norm := kerneltest.Norm(ir.F32, true, true, false)
	changed := func(f func(k *loopir.Kernel)) *loopir.Kernel {
		k := *norm
		k.Bufs, k.Access = append([]loopir.Buf{}, k.Bufs...), append([]loopir.Access{}, k.Access...)
		k.Params, k.Stages = append([]loopir.Param{}, k.Params...), append([]loopir.Stage{}, k.Stages...)
		f(&k)
		return &k
	}
	require.NoError(t, (&launch.Gemm{Type: ir.F32, Prologue: norm}).CheckPrologue())
	for want, g := range map[string]*launch.Gemm{
		"2 dims of K":         {Type: ir.F32, Prologue: norm, KDims: 2, NDims: 1},
		"does not work rows":  {Type: ir.F32, Prologue: kerneltest.Epilogue(ir.F32, 1, false)},
		"no row of A":         {Type: ir.F16, Prologue: norm},
		"a stride or an offs": {Type: ir.F32, Prologue: changed(func(k *loopir.Kernel) { k.Params[2].Kind = loopir.Offset })},
		"other elements": {Type: ir.F32, Prologue: changed(func(k *loopir.Kernel) {
			k.Access[1].Stride = []int{loopir.Unit, loopir.Broadcast}
		})},
		"store each element": {Type: ir.F32, Prologue: changed(func(k *loopir.Kernel) { k.Stages[2].Stores = nil })},
	} {
		require.ErrorContains(t, g.CheckPrologue(), want)
	}
}
