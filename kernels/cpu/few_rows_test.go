package cpu_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/kerneltest"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

func floats32(v ...float64) []byte {
	b := make([]byte, 4*len(v))
	for i, x := range v {
		loopir.StoreBits(ir.F32, b, int64(i), ir.EncodeFloat(ir.F32, x))
	}
	return b
}

// lost returns n numbers: 2^24, 31 ones, -2^24, and zeros. In order, 2^24 absorbs each one, so the sum is 0. Partial
// sums of every 8th, 16th or 32nd element keep most of the ones.
func lost(n int) []float64 {
	v := make([]float64, n)
	for i := range 32 {
		v[i] = 1
	}
	v[0], v[32] = 1<<24, -1<<24
	return v
}

func ones(n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = 1
	}
	return v
}

// A product of one row with contiguous columns is a dot product in lanes: tiles would add its terms in order.
func TestProductsOfOneRowAreDots(t *testing.T) {
	const k, n = 64, 5
	g := &launch.Gemm{Type: ir.F32, AUnit: 'k', BUnit: 'k'}
	bufs := [][]byte{floats32(lost(k)...), floats32(ones(k * n)...), make([]byte, 4*n)}
	for _, isa := range instructionSets() {
		d := newDevice(t, cpu.Options{ISA: isa, Threads: 1})
		got := runGemm(t, d, g, sizes(1, n, k, k, 1, 0, 1, k, 0), bufs)
		for i := range int64(n) {
			assert.Greater(t, ir.DecodeFloat(ir.F32, loopir.LoadBits(ir.F32, got, i)), 20.0, isa)
		}
	}
}

// attendOnce attends from one row to n keys of 64 columns, which a mask of bools selects, and values of one column.
func attendOnce(t *testing.T, isa string, q, keys, values []float64, mask []byte) float64 {
	n := int64(len(values))
	c := &kerneltest.AttentionCase{Attention: &launch.Attention{Type: ir.F32, Mask: ir.Bool},
		Bufs: [][]byte{floats32(q...), floats32(keys...), floats32(values...), mask, make([]byte, 4), make([]byte, 4)}}
	c.Params = sizes(1, 1, 1, 1, n, 64, 1)
	c.Params = append(c.Params, ir.EncodeFloat(ir.F32, 0.125))
	c.Params = append(c.Params, sizes(0, 0, 64, 1, 0, 0, 0, 64, 1, 0, 0, 0, 1, 1, 0, 0, 0, n, 1, 0)...)
	runAttention(t, newDevice(t, cpu.Options{ISA: isa, Threads: 1}), c)
	return ir.DecodeFloat(ir.F32, loopir.LoadBits(ir.F32, c.Bufs[4], 0))
}

// Attention of few rows multiplies them with keys in place, in lanes: tiles would give both keys the same score, and
// the mean of the values.
func TestAttentionOfFewRowsIsDots(t *testing.T) {
	for _, isa := range instructionSets() {
		got := attendOnce(t, isa, lost(64), append(ones(64), make([]float64, 64)...), []float64{1, 0}, []byte{1, 1})
		assert.Greater(t, got, 0.9, isa)
	}
}

// Attention of few rows reads no key or value that a mask excludes at the beginning and at the end of a block of keys,
// as the places of a cache that have no token yet.
func TestAttentionOfFewRowsReadsWhatIsSeen(t *testing.T) {
	const n, first, end = 300, 140, 170
	mask, values, keys := make([]byte, n), make([]float64, n), make([]float64, 64*n)
	for i := range values {
		values[i] = math.NaN()
		if i >= first && i < end {
			mask[i], values[i] = 1, float64(i)
		}
	}
	mask[first+3], values[first+3] = 0, 5 // between keys that are seen
	sum, count := 0.0, 0.0
	for i, m := range mask {
		if m != 0 {
			sum, count = sum+values[i], count+1
		}
	}
	for _, isa := range instructionSets() {
		require.InDelta(t, sum/count, attendOnce(t, isa, ones(64), keys, values, mask), 1e-3, isa)
	}
}
