package cpu_test

import (
	"math"
	"math/big"
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

// powOf is a kernel of x to the power y, with numbers in place of nil.
func powOf(t ir.DType, base, exponent *float64, x, y []float64) launchOne {
	n, w := int64(max(len(x), len(y))), int64(t.Size())
	b := loopir.NewBuilder("pow", 1, 0)
	l := launchOne{}
	side := func(number *float64, in []float64) int {
		if number != nil {
			return b.Float(t, *number)
		}
		l.bufs = append(l.bufs, make([]byte, w*n))
		for i, v := range in {
			loopir.StoreBits(t, l.bufs[len(l.bufs)-1], int64(i), ir.EncodeFloat(t, v))
		}
		return b.Load(b.Linear(b.Buf(t, loopir.Read), -1))
	}
	p, q := side(base, x), side(exponent, y)
	out := b.Linear(b.Buf(t, loopir.Write), -1)
	b.Map()
	b.Store(out, b.Pow(p, q))
	l.k, l.par, l.bufs = b.Kernel(), sizes(n), append(l.bufs, make([]byte, w*n))
	return l
}

// results are the numbers that a launch of powOf stores.
func results(t *testing.T, d *cpu.Device, dt ir.DType, l launchOne) []float64 {
	got, _, _ := run(t, d, l)
	last := got[len(got)-1]
	v := make([]float64, len(last)/dt.Size())
	for i := range v {
		v[i] = ir.DecodeFloat(dt, loopir.LoadBits(dt, last, int64(i)))
	}
	return v
}

// eighthPower is x to the power n/8, rounded once.
func eighthPower(x float64, n int) float64 {
	r, f := big.NewFloat(1).SetPrec(200), big.NewFloat(x).SetPrec(200)
	for e := max(n, -n); e > 0; e >>= 1 {
		if e&1 == 1 {
			r.Mul(r, f)
		}
		f.Mul(f, f)
	}
	for range 3 {
		r.Sqrt(r)
	}
	if n < 0 {
		r.Quo(big.NewFloat(1), r)
	}
	v, _ := r.Float64()
	return v
}

// Errors are within the bound in kern_math64.h. Exponents are multiples of 1/8, for which the expected power is exact
// but for one rounding.
func TestPow64Accuracy(t *testing.T) {
	var x, y, want []float64
	for i := range 3000 {
		v, n := math.Exp(3*rng.NormFloat64()), rng.IntN(160)-80
		switch {
		case i < 1000: // near 1, where the logarithm loses digits unless it keeps two parts
			v, n = 1+1e-3*rng.NormFloat64(), rng.IntN(2_000_000)-1_000_000
		case i < 1500:
			v, n = math.Ldexp(1+rng.Float64(), rng.IntN(2000)-1040), rng.IntN(16)-8
		}
		x, y, want = append(x, v), append(y, float64(n)/8), append(want, eighthPower(v, n))
	}
	l := powOf(ir.F64, nil, nil, x, y)
	each(t, func(t *testing.T, d *cpu.Device) {
		for i, v := range results(t, d, ir.F64, l) {
			require.LessOrEqual(t, ulps64(v, want[i]), 1.0, "%v ^ %v: %v, want %v", x[i], y[i], v, want[i])
		}
	})
}

// sameBits says that two numbers have equal bits, or are both NaN.
func sameBits(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || math.IsNaN(a) && math.IsNaN(b)
}

// Every pair of special numbers has the result of IEEE 754, beside neighbours that have none; negative bases take whole
// exponents. A number in place of a tensor gives the same bits.
func TestPowOfSpecialNumbers(t *testing.T) {
	special := []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), 2, -2, 3, -3, 0.5, -0.5,
		2.5, 1e300, -1e300, 1e-300, 5e-324, 4503599627370497, 9007199254740992, -9007199254740991}
	for _, dt := range []ir.DType{ir.F32, ir.F64} {
		as := func(v float64) float64 { return ir.DecodeFloat(dt, ir.EncodeFloat(dt, v)) }
		var x, y []float64
		for _, a := range special {
			for _, b := range special {
				x, y = append(x, as(a), 1.5), append(y, as(b), 1.25)
			}
		}
		each(t, func(t *testing.T, d *cpu.Device) {
			got := results(t, d, dt, powOf(dt, nil, nil, x, y))
			for i, v := range got {
				want := as(math.Pow(x[i], y[i]))
				near := want != 0 && math.Abs(v/want-1) < 3e-7
				require.True(t, near || sameBits(v, want), "%v: %v ^ %v: %v, want %v", dt, x[i], y[i], v, want)
			}
			for i := range special {
				base, exponent := x[2*i*len(special)], y[2*i]
				of := results(t, d, dt, powOf(dt, &base, nil, nil, y))
				to := results(t, d, dt, powOf(dt, nil, &exponent, x, nil))
				for j := range x {
					require.True(t, !sameBits(x[j], base) || sameBits(got[j], of[j]), "%v ^ %v", base, y[j])
					require.True(t, !sameBits(y[j], exponent) || sameBits(got[j], to[j]), "%v ^ %v", x[j], exponent)
				}
			}
		})
	}
}

// A base of 2 has a form of its own, with the bits of any other base.
func TestWholePowersOfTwoAreExact(t *testing.T) {
	two := 2.0
	for dt, least := range map[ir.DType]int{ir.F32: -149, ir.F64: -1074} {
		var y, want []float64
		for n := least - 3; n < 130; n++ {
			y, want = append(y, float64(n)), append(want, ir.DecodeFloat(dt, ir.EncodeFloat(dt, math.Ldexp(1, n))))
		}
		l := powOf(dt, &two, nil, nil, y)
		each(t, func(t *testing.T, d *cpu.Device) { require.Equal(t, want, results(t, d, dt, l)) })
		x := make([]float64, 1000)
		y = make([]float64, len(x))
		for i := range x {
			x[i], y[i] = 2, float64(-least)*(2*rng.Float64()-1)
		}
		of, other := powOf(dt, &two, nil, nil, y), powOf(dt, nil, nil, x, y)
		each(t, func(t *testing.T, d *cpu.Device) { require.Equal(t, results(t, d, dt, other), results(t, d, dt, of)) })
	}
}
