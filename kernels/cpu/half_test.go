package cpu_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/kerneltest"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// castMap copies n elements of one dtype to another, by the conversions of half.h.
func castMap(from, to ir.DType, in []byte, n int64) launchOne {
	b := loopir.NewBuilder("cast", 1, 0)
	x := b.Load(b.Linear(b.Buf(from, loopir.Read), -1))
	out := b.Linear(b.Buf(to, loopir.Write), -1)
	b.Map()
	b.Store(out, b.Cast(to, x))
	return launchOne{k: b.Kernel(), par: sizes(n), bufs: [][]byte{in, make([]byte, n*int64(to.Size()))}}
}

// allHalves gives every value of a dtype of 16 bits.
func allHalves() []byte {
	out := make([]byte, 2<<16)
	for i := range 1 << 16 {
		out[2*i], out[2*i+1] = byte(i), byte(i>>8)
	}
	return out
}

// widened gives v as a float, by Go's conversion.
func widened(half ir.DType, v int) uint32 {
	return uint32(loopir.LoadBits(half, []byte{byte(v), byte(v >> 8)}, 0))
}

// betweenHalves gives, for every value of a dtype of 16 bits, the float that it is, the tie between it and the next
// value away from zero, and the floats beside the tie.
func betweenHalves(half ir.DType) []byte {
	var bits []uint32
	for v := range 1 << 16 {
		low, high := widened(half, v), widened(half, v+1)
		bits = append(bits, low)
		f, g := math.Float32frombits(low), math.Float32frombits(high)
		switch {
		case math.IsNaN(float64(f)) || math.IsInf(float64(f), 0):
			continue
		case math.IsInf(float64(g), 0): // the tie before the first value that is out of range
			g = f + (f - math.Float32frombits(widened(half, v-1)))
			if math.IsInf(float64(g), 0) {
				continue
			}
		}
		tie := math.Float32bits(float32((float64(f) + float64(g)) / 2))
		bits = append(bits, tie-1, tie, tie+1)
	}
	out := make([]byte, 4*len(bits))
	for i, b := range bits {
		loopir.StoreBits(ir.F32, out, int64(i), uint64(b))
	}
	return out
}

// The kernels convert in C, the reference in Go, and the Python extension by the kernels' header.
func TestHalvesConvertTheSameInCAndGo(t *testing.T) {
	isNaN := func(b uint64) bool { return b&0x7fffffff > 0x7f800000 }
	for _, half := range []ir.DType{ir.F16, ir.BF16} {
		in := betweenHalves(half)
		n := int64(len(in) / 4)
		require.Greater(t, n, int64(250000))
		wide, narrow := castMap(half, ir.F32, allHalves(), 1<<16), castMap(ir.F32, half, in, n)
		each(t, func(t *testing.T, d *cpu.Device) {
			out, _, _ := run(t, d, wide)
			for i := range int64(1 << 16) {
				got, want := loopir.LoadBits(ir.F32, out[1], i), loopir.LoadBits(half, wide.bufs[0], i)
				if got != want && !(isNaN(got) && isNaN(want)) {
					require.Equal(t, want, got, "%v %#04x to float", half, i)
				}
			}
			out, _, _ = run(t, d, narrow)
			want := make([]byte, 2)
			for i := range n {
				bits := loopir.LoadBits(ir.F32, in, i)
				loopir.StoreBits(half, want, 0, bits)
				got := out[1][2*i : 2*i+2]
				if (got[0] != want[0] || got[1] != want[1]) &&
					!(isNaN(bits) && isNaN(loopir.LoadBits(half, got, 0))) {
					require.Equal(t, want, got, "float %#08x to %v", bits, half)
				}
			}
		})
	}
}

// Products of 16-bit floats beside the reference: tails of every dim, operands whose rows or columns are contiguous,
// biases, epilogues, batches, a C with strides. The threads do not show in the bits.
func TestProductsOfHalves(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	var cases []*kerneltest.GemmCase
	var want [][]byte
	for _, s := range [][3]int64{{1, 1, 1}, {3, 5, 7}, {1, 70, 64}, {70, 1, 33}, {33, 65, 31}, {40, 70, 64},
		{100, 33, 300}, {17, 200, 545}, {130, 20, 96}, {4, 4, 0}, {14, 32, 2}, {47, 31, 16},
		{1, 1100, 300}, {1, 70, 1500}, {1300, 1, 40}, {1, 4200, 20}} {
		for _, dt := range []ir.DType{ir.BF16, ir.BF16, ir.BF16, ir.F16} {
			c := kerneltest.RandomGemm(r, dt, s[0], s[1], s[2], false)
			bufs := copies(c.Bufs)
			require.NoError(t, launch.InterpretGemm(c.Gemm, c.Params, bufs))
			cases, want = append(cases, c), append(want, written(c.Gemm, bufs))
		}
	}
	for _, isa := range []string{"plain", "neon", "avx2", "avx512", "avx512_bf16", "amx"} {
		t.Run(isa, func(t *testing.T) {
			one, three := devicesOf(t, isa)
			for i, c := range cases {
				dt, what := c.Gemm.Type, fmt.Sprintf("%v %v", c.Gemm.Type, c.Params)
				got := runGemm(t, one, c.Gemm, c.Params, c.Bufs)
				same(t, dt, want[i], got, map[ir.DType]float64{ir.F16: 3e-3, ir.BF16: 2e-2}[dt], what)
				require.Equal(t, got, runGemm(t, three, c.Gemm, c.Params, c.Bufs), what)
			}
		})
	}
}
