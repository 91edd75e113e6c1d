package cpu_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// ulps is the distance of got from the exact want, in units in the last place of f32 at want.
func ulps(got float32, want float64) float64 {
	w := float32(want)
	if got == w || math.IsNaN(float64(got)) && math.IsNaN(want) {
		return 0
	}
	if math.IsInf(float64(w), 0) || math.IsInf(float64(got), 0) || math.IsNaN(float64(got)) {
		return math.Inf(1)
	}
	_, e := math.Frexp(want)
	return math.Abs(float64(got)-want) / math.Ldexp(1, max(e-24, -149))
}

// everyNth returns the bits of every nth float, special ones included.
func everyNth(n int) []byte {
	var v []uint32
	for b := uint64(0); b < 1<<32; b += uint64(n) {
		v = append(v, uint32(b))
	}
	for _, x := range []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), 88.72284, 88.8,
		-87.4, -103.9, -104.1, 0.625, 0.93, 1.1754942e-38, 1e-45, math.Pi, 1e6, 3e38} {
		v = append(v, math.Float32bits(float32(x)))
	}
	out := make([]byte, 4*len(v))
	for i, b := range v {
		loopir.StoreBits(ir.F32, out, int64(i), uint64(b))
	}
	return out
}

// The bounds that kern_math.h states, over a sample of all floats. Without fused multiply-add, as in the plain build,
// reductions of the argument round once more.
func TestMathAccuracy(t *testing.T) {
	in := everyNth(4391)
	n := int64(len(in) / 4)
	for _, c := range []struct {
		op    loopir.Op
		f     func(float64) float64
		bound float64
	}{
		{loopir.OpExp, math.Exp, 1.1}, {loopir.OpLog, math.Log, 1.0}, {loopir.OpTanh, math.Tanh, 1.4},
		{loopir.OpErf, math.Erf, 1.2},
		{loopir.OpSin, math.Sin, 0.57}, {loopir.OpCos, math.Cos, 0.57}, {loopir.OpSqrt, math.Sqrt, 0.5},
	} {
		l := unaryMap(n, un(c.op))
		l.bufs[0] = in
		each(t, func(t *testing.T, d *cpu.Device) {
			if d.Threads() > 1 {
				return
			}
			out, _, _ := run(t, d, l)
			worst, at := 0.0, float32(0)
			for i := range n {
				x := math.Float32frombits(uint32(loopir.LoadBits(ir.F32, in, i)))
				y := math.Float32frombits(uint32(loopir.LoadBits(ir.F32, out[1], i)))
				if u := ulps(y, c.f(float64(x))); u > worst {
					worst, at = u, x
				}
			}
			bound := c.bound
			if d.Caps().Backend == "plain" {
				bound += 0.5
			}
			t.Logf("%v: %.3f ulp at %v", c.op, worst, at)
			require.LessOrEqual(t, worst, bound, "%v at %v", c.op, at)
		})
	}
}

func TestPowAccuracy(t *testing.T) {
	n := int64(200000)
	x, y := make([]byte, 4*n), make([]byte, 4*n)
	for i := range n {
		a, b := float32(math.Exp(8*rng.NormFloat64())), float32(6*rng.NormFloat64())
		if i < 2000 { // signs, zeros, infinities: a block of these goes to the C library
			v := []float32{0, -0.5, -2, 1, float32(math.Inf(1)), float32(math.Inf(-1)), 3, -3, float32(math.NaN()),
				float32(math.Copysign(0, -1))}
			a, b = v[rng.IntN(len(v))], v[rng.IntN(len(v))]
		}
		loopir.StoreBits(ir.F32, x, i, uint64(math.Float32bits(a)))
		loopir.StoreBits(ir.F32, y, i, uint64(math.Float32bits(b)))
	}
	b := loopir.NewBuilder("pow", 1, 0)
	p, q := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1)), b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1))
	out := b.Linear(b.Buf(ir.F32, loopir.Write), -1)
	b.Map()
	b.Store(out, b.Pow(p, q))
	l := launchOne{k: b.Kernel(), par: sizes(n), bufs: [][]byte{x, y, make([]byte, 4*n)}}
	each(t, func(t *testing.T, d *cpu.Device) {
		got, _, _ := run(t, d, l)
		for i := range n {
			a, b := loopir.LoadBits(ir.F32, x, i), loopir.LoadBits(ir.F32, y, i)
			want := math.Pow(ir.DecodeFloat(ir.F32, a), ir.DecodeFloat(ir.F32, b))
			g := math.Float32frombits(uint32(loopir.LoadBits(ir.F32, got[2], i)))
			require.LessOrEqual(t, ulps(g, want), 0.51+boolFloat(i < 3000), "%v ^ %v", ir.DecodeFloat(ir.F32, a),
				ir.DecodeFloat(ir.F32, b))
		}
	})
}

func boolFloat(b bool) float64 { return float64(boolInt(b)) }
