package cpu_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
)

// sortInput is n elements of 32 or 64 bits in which nothing, few values, or the order of values repeats. Odd ones are
// both zeros, infinities and NaN of several bits.
func sortInput(r *rand.Rand, d ir.DType, n int64, pattern string) []byte {
	x := make([]byte, n*int64(d.Size()))
	for i := range n {
		v := r.NormFloat64() * 1e6
		switch pattern {
		case "few":
			v = float64(r.IntN(3) - 1)
		case "one":
			v = 7
		case "falling":
			v = float64(n - i)
		case "odd":
			if r.IntN(2) == 0 {
				v = []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN()}[r.IntN(5)]
			}
		}
		at := x[i*int64(d.Size()):]
		switch d {
		case ir.F32:
			bits := math.Float32bits(float32(v))
			if v != v {
				bits = 0x7fc00000 | r.Uint32()&0x800fffff
			}
			binary.LittleEndian.PutUint32(at, bits)
		case ir.F64:
			bits := math.Float64bits(v)
			if v != v {
				bits = 0x7ff8<<48 | r.Uint64()&0x800000ffffffffff
			}
			binary.LittleEndian.PutUint64(at, bits)
		case ir.I64:
			binary.LittleEndian.PutUint64(at, uint64(int64(v)<<20))
		default:
			binary.LittleEndian.PutUint32(at, uint32(int32(v)))
		}
	}
	return x
}

// sortedValues runs a sort of rows x of n elements that are inner apart, and gives the bits of the values.
func sortedValues(t *testing.T, d *cpu.Device, s *launch.Sort, x []byte, n, inner int64) []byte {
	t.Helper()
	l := s.Layout()
	count := int64(len(x) / s.Type.Size())
	step, bind := device.Step{Op: s, Params: make([]device.Param, len(l.Params))}, device.Binding{}
	for _, p := range [][2]int64{{int64(l.Outer), count / n / inner}, {int64(l.N), n}, {int64(l.Inner), inner},
		{int64(l.Keep), n}, {int64(l.StrideOuter), n * inner}, {int64(l.Step), inner}, {int64(l.StrideLast), 1},
		{int64(l.Offset), 0}} {
		step.Params[p[0]] = device.Const(p[1])
	}
	for i, b := range l.Bufs {
		numel := count
		if i == l.Room {
			numel *= launch.SortWords(s.Type)
		}
		buf, err := d.Alloc(numel * int64(b.Type.Size()))
		require.NoError(t, err)
		defer d.Free(buf)
		step.Bufs, bind.Bufs = append(step.Bufs, i), append(bind.Bufs, buf)
	}
	require.NoError(t, d.Upload(bind.Bufs[l.X], s.Type, 0, x))
	p, err := d.Build([]device.Step{step}, len(l.Bufs))
	require.NoError(t, err)
	defer p.Release()
	_, err = d.Run(p, &bind)
	require.NoError(t, err)
	got := make([]byte, len(x))
	require.NoError(t, d.Read(bind.Bufs[l.Values], s.Type, 0, got))
	return got
}

// Values alone are those that a sort with positions gives, bit by bit: -0 and 0 in the order of the row, and NaN.
func TestSortOfValuesAlone(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, isa := range instructionSets() {
		dev, err := cpu.New(cpu.Options{ISA: isa, Threads: 3})
		require.NoError(t, err)
		for _, size := range [][3]int64{{3, 1, 1}, {2, 40, 1}, {2, 300, 2}, {3, 1500, 1}, {1, 50000, 1}, {1, 33000, 2}} {
			for _, d := range []ir.DType{ir.F32, ir.F64, ir.I32, ir.I64} {
				for _, pattern := range []string{"random", "few", "one", "falling", "odd"} {
					x := sortInput(r, d, size[0]*size[1]*size[2], pattern)
					s := launch.Sort{Type: d, Descending: r.IntN(2) == 0, Room: size[1] > launch.SortBlock}
					want := sortedValues(t, dev, &s, x, size[1], size[2])
					s.Alone = true
					require.Equal(t, want, sortedValues(t, dev, &s, x, size[1], size[2]), fmt.Sprint(isa, size, d, pattern))
				}
			}
		}
		dev.Close()
	}
}
