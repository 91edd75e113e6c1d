package cpu_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// ulps64 is the distance of got from want, in units in the last place of want.
func ulps64(got, want float64) float64 {
	if got == want && math.Signbit(got) == math.Signbit(want) || math.IsNaN(got) && math.IsNaN(want) {
		return 0
	}
	if math.IsInf(want, 0) || math.IsInf(got, 0) || math.IsNaN(got) || math.IsNaN(want) {
		return math.Inf(1)
	}
	_, e := math.Frexp(want)
	return math.Abs(got-want) / math.Ldexp(1, max(e-53, -1074))
}

// doubles are numbers of any size up to limit, and special ones.
func doubles(n int, limit float64) []float64 {
	v := []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 1e-300, 1, -1,
		-750, 1e300, -1e300, 1e7, 22, 6, 0.75}
	for len(v) < n {
		v = append(v, limit*(2*rng.Float64()-1)*math.Exp2(-30*rng.Float64()*rng.Float64()))
	}
	return v
}

// unary64 is a map of an operation over numbers.
func unary64(op loopir.Op, in []float64) launchOne {
	n := int64(len(in))
	b := loopir.NewBuilder("unary", 1, 0)
	x := b.Load(b.Linear(b.Buf(ir.F64, loopir.Read), -1))
	out := b.Linear(b.Buf(ir.F64, loopir.Write), -1)
	b.Map()
	b.Store(out, b.Un(op, x))
	l := launchOne{k: b.Kernel(), par: sizes(n), bufs: [][]byte{make([]byte, 8*n), make([]byte, 8*n)}}
	for i, v := range in {
		loopir.StoreBits(ir.F64, l.bufs[0], int64(i), math.Float64bits(v))
	}
	return l
}

// The bounds that kern_math64.h states, and one ulp more for the functions of Go that they are compared with.
func TestMath64Accuracy(t *testing.T) {
	for _, c := range []struct {
		op           loopir.Op
		f            func(float64) float64
		limit, bound float64
	}{
		{loopir.OpExp, math.Exp, 700, 1.1}, {loopir.OpLog, math.Log, 1e10, 1}, {loopir.OpTanh, math.Tanh, 25, 2.6},
		{loopir.OpErf, math.Erf, 7, 1.5}, {loopir.OpSin, math.Sin, 1e5, 0.8}, {loopir.OpCos, math.Cos, 1e5, 0.8},
	} {
		in := doubles(50_000, c.limit)
		l := unary64(c.op, in)
		each(t, func(t *testing.T, d *cpu.Device) {
			got, _, _ := run(t, d, l)
			for i, v := range in {
				y := math.Float64frombits(loopir.LoadBits(ir.F64, got[1], int64(i)))
				require.LessOrEqual(t, ulps64(y, c.f(v)), c.bound+1, "%v of %v: %v, want %v", c.op, v, y, c.f(v))
			}
		})
	}
}

// Doubles next to multiples of pi/2, where the result is what the reduction keeps, and denormal numbers. The functions
// of Go are inexact there.
func TestMath64EdgesAreExact(t *testing.T) {
	for _, c := range []struct {
		op      loopir.Op
		x, want float64
	}{
		{loopir.OpCos, math.Pi / 2, 6.123233995736766e-17}, {loopir.OpSin, math.Pi, 1.2246467991473532e-16},
		{loopir.OpSin, -2 * math.Pi, 2.4492935982947064e-16}, {loopir.OpCos, 3 * math.Pi / 2, -1.8369701987210297e-16},
		{loopir.OpLog, 5e-324, -744.4400719213812}, {loopir.OpTanh, 5e-324, 5e-324}, {loopir.OpExp, -745, 5e-324},
		{loopir.OpExp, 709.7, 1.6549840276802644e+308},
	} {
		l := unary64(c.op, []float64{c.x})
		each(t, func(t *testing.T, d *cpu.Device) {
			got, _, _ := run(t, d, l)
			require.InEpsilon(t, c.want, math.Float64frombits(loopir.LoadBits(ir.F64, got[1], 0)), 3e-16)
		})
	}
}
