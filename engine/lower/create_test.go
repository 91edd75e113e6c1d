package lower_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/optest"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

func creation(d ir.DType, shape ...int64) []int64 {
	return append([]int64{int64(d), 0}, shape...)
}

func TestFillAndIota(t *testing.T) {
	for d := ir.Bool; d < ir.NumStored; d++ {
		e := optest.New()
		for _, shape := range shapes {
			want := mapped(func(float64) float64 { return 1 }, make([]float64, ir.Numel(shape)))
			near(t, d, want, e.Floats(emit(e, "fill", creation(d, shape...), op.IntVal(1))[0]))
		}
		if d == ir.Bool {
			continue
		}
		near(t, d, []float64{3, 5, 7, 9}, e.Floats(emit(e, "iota", creation(d, 4), op.IntVal(3), op.IntVal(2))[0]))
		require.Zero(t, emit(e, "iota", creation(d, 0), op.IntVal(3), op.IntVal(2))[0].L().Numel)
	}
	e := optest.New()
	near(t, ir.F32, []float64{1, 0.75, 0.5}, e.Floats(emit(e, "iota", creation(ir.F32, 3), op.FloatVal(1),
		op.FloatVal(-0.25))[0]))
}

// words gives the Philox word of each of n elements.
func words(n, seed, drawOffset int64) []uint32 {
	var out []uint32
	for b := int64(0); int64(len(out)) < n; b++ {
		w := loopir.Philox([4]uint32{uint32(b), uint32(b >> 32), uint32(drawOffset), uint32(drawOffset >> 32)},
			[2]uint32{uint32(seed), uint32(seed >> 32)})
		out = append(out, w[:]...)
	}
	return out[:n]
}

func TestRandom(t *testing.T) {
	const seed, drawOffset = int64(0x123456789abcdef), int64(77)
	in := []op.Val{op.IntVal(seed), op.IntVal(drawOffset)}
	for _, n := range []int64{0, 1, 3, 4, 5, 64, 1001} {
		e := optest.New()
		w := words(n+3, seed, drawOffset)
		uniform, normal, whole := make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range n {
			uniform[i] = float64(w[i]>>8) / (1 << 24)
			j := i / 2 * 2
			r := math.Sqrt(-2 * math.Log(1-float64(w[j]>>8)/(1<<24)))
			angle := 2 * math.Pi * float64(w[j+1]>>8) / (1 << 24)
			normal[i] = r * []float64{math.Cos(angle), math.Sin(angle)}[i%2]
			whole[i] = -5 + float64(w[i]%12)
		}
		require.Equal(t, uniform, e.Floats(emit(e, "rand_uniform", creation(ir.F32, n), in...)[0]))
		require.InDeltaSlice(t, normal, e.Floats(emit(e, "rand_normal", creation(ir.F32, n), in...)[0]), 5e-6)
		require.Equal(t, whole, e.Floats(emit(e, "rand_int", creation(ir.I64, n), append(in, op.IntVal(-5),
			op.IntVal(7))...)[0]))
		for _, d := range []ir.DType{ir.F16, ir.BF16, ir.F64} {
			for _, u := range e.Floats(emit(e, "rand_uniform", creation(d, n), in...)[0]) {
				require.True(t, u >= 0 && u < 1, "%v: %v", d, u)
			}
		}
	}
	e := optest.New()
	x := e.Floats(emit(e, "rand_normal", creation(ir.F64, 20000), in...)[0])
	mean := total(x) / 20000
	require.InDelta(t, 0, mean, 0.03)
	require.InDelta(t, 1, total(mapped(func(v float64) float64 { return v * v }, x))/20000, 0.04)
}

func TestDropout(t *testing.T) {
	everyLayout(t, shapes, func(t *testing.T, e *optest.Eager, shape []int64, place placer) {
		x := place(0, ir.F32, source(1, 2, false))
		w := words(ir.Numel(shape), 11, 12)
		want := e.Floats(x)
		for i := range want {
			if float64(w[i]>>8)/(1<<24) < 0.25 {
				want[i] = 0
			} else {
				want[i] /= 0.75
			}
		}
		near(t, ir.F32, want, e.Floats(emit(e, "dropout", nil, x, op.IntVal(11), op.IntVal(12), op.FloatVal(0.25))[0]))
	})
}
