package cpu_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// quantizedCase is a product with its operands, each of which begins at element 3, and the result of the definition.
type quantizedCase struct {
	q      launch.Quantized
	params []uint64
	bufs   [][]byte
	want   []byte
}

func newQuantized(t *testing.T, r *rand.Rand, q launch.Quantized, m, n, k int64) *quantizedCase {
	const skipped = 3
	panels := (n + launch.PanelWidth - 1) / launch.PanelWidth
	c := &quantizedCase{q: q, params: []uint64{uint64(m), uint64(n), uint64(k), uint64(k + 5)}}
	put := func(d ir.DType, count int64, bits func() uint64) {
		buf := make([]byte, (count+skipped)*int64(d.Size()))
		for i := range count + skipped {
			loopir.StoreBits(d, buf, i, bits())
		}
		c.bufs = append(c.bufs, buf)
	}
	number := func(d ir.DType) func() uint64 { return func() uint64 { return ir.EncodeFloat(d, r.NormFloat64()) } }
	put(ir.F32, m*(k+5), number(ir.F32))
	put(ir.I32, panels*q.Words(k)*launch.PanelWidth, func() uint64 { return uint64(r.Uint32()) })
	put(q.ScaleType(), panels*q.Groups(k)*launch.PanelWidth, number(q.ScaleType()))
	if q.Offset {
		put(ir.BF16, panels*q.Groups(k)*launch.PanelWidth, number(ir.BF16))
	}
	if q.Bias {
		put(ir.F32, n, number(ir.F32))
	}
	for range launch.QuantizedParams - 4 {
		c.params = append(c.params, skipped)
	}
	c.want = make([]byte, m*n*4)
	_, err := c.q.Interpret(c.params, append(append([][]byte{}, c.bufs...), c.want))
	require.NoError(t, err)
	return c
}

func (c *quantizedCase) run(t *testing.T, d *cpu.Device) []byte {
	t.Helper()
	return runLaunch(t, d, &c.q, c.params, c.bufs, len(c.want))
}

// runLaunch runs a launch over these buffers and a result of so many bytes, and returns the result.
func runLaunch(t *testing.T, d *cpu.Device, op launch.Op, params []uint64, bufs [][]byte, bytes int) []byte {
	t.Helper()
	step, bind := device.Step{Op: op}, device.Binding{}
	got := make([]byte, bytes)
	for i, b := range append(append([][]byte{}, bufs...), got) {
		x, err := d.Alloc(int64(len(b)))
		require.NoError(t, err)
		defer d.Free(x)
		require.NoError(t, d.Upload(x, ir.Bool, 0, b))
		bind.Bufs, step.Bufs = append(bind.Bufs, x), append(step.Bufs, i)
	}
	for _, v := range params {
		step.Params = append(step.Params, device.Const(int64(v)))
	}
	p, err := d.Build([]device.Step{step}, len(bind.Bufs))
	require.NoError(t, err)
	defer p.Release()
	_, err = d.Run(p, &bind)
	require.NoError(t, err)
	require.NoError(t, d.Read(bind.Bufs[len(bind.Bufs)-1], ir.Bool, 0, got))
	return got
}

// TestQuantizedProductsAreThoseOfTheDefinition takes sizes beside those of panels, words, groups and tiles of rows. The
// sums of int8 are exact: all instruction sets and numbers of threads give the same bits.
func TestQuantizedProductsAreThoseOfTheDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	var cases []*quantizedCase
	for _, s := range [][3]int64{{1, 1, 1}, {1, 16, 64}, {3, 17, 70}, {1, 50, 333}, {12, 40, 129}, {7, 90, 72},
		{2, 70, 40}, {37, 33, 200}, {130, 19, 65}, {2, 5, 0}} {
		for _, q := range []launch.Quantized{{Bits: 8}, {Bits: 8, Dynamic: true}, {Bits: 8, Bias: true, Dynamic: true},
			{Bits: 4, Group: 32}, {Bits: 4, Group: 32, Offset: true, Bias: true}, {Bits: 4, Group: 128, Offset: true},
			{Bits: 4, Group: 32, Dynamic: true}, {Bits: 4, Group: 128, Offset: true, Dynamic: true, Bias: true}} {
			if q.Bits == 8 {
				q.Group = 1 << 40
			}
			cases = append(cases, newQuantized(t, r, q, s[0], s[1], s[2]))
		}
	}
	exact := make([][]byte, len(cases))
	for _, isa := range []string{"plain", "neon", "avx2", "avx2_vnni", "avx512", "avx512_vnni", "amx"} {
		t.Run(isa, func(t *testing.T) {
			one, three := devicesOf(t, isa)
			for i, c := range cases {
				got := c.run(t, one)
				closeTo(t, ir.F32, c.want, got, 1e-5, true)
				require.Equal(t, got, c.run(t, three), fmt.Sprintf("%+v %v", c.q, c.params))
				if c.q.Dynamic && c.q.Bits == 8 && !c.q.Bias {
					if exact[i] == nil {
						exact[i] = got
					}
					require.Equal(t, exact[i], got, fmt.Sprintf("%+v %v", c.q, c.params))
				}
			}
		})
	}
}

// TestRowsThatAreNotFiniteHaveNoIntegers: their results are NaN, those of other rows are right; tiny rows count as 0.
func TestRowsThatAreNotFiniteHaveNoIntegers(t *testing.T) {
	for _, q := range []launch.Quantized{{Bits: 8, Group: 1 << 40, Dynamic: true}, {Bits: 4, Group: 32, Dynamic: true},
		{Bits: 4, Group: 64, Dynamic: true, Offset: true}} {
		for _, isa := range []string{"plain", "neon", "avx2", "avx512_vnni"} {
			t.Run(fmt.Sprint(isa, q.Bits, q.Group), func(t *testing.T) {
				one, _ := devicesOf(t, isa)
				rowsThatAreNotFinite(t, one, q)
			})
		}
	}
}

func rowsThatAreNotFinite(t *testing.T, d *cpu.Device, q launch.Quantized) {
	c := newQuantized(t, rand.New(rand.NewPCG(1, 2)), q, 4, 20, 64)
	for row, v := range []float64{math.Inf(-1), math.NaN()} {
		loopir.StoreBits(ir.F32, c.bufs[0], 3+int64(row)*69+7, ir.EncodeFloat(ir.F32, v))
	}
	for k := range int64(64) {
		loopir.StoreBits(ir.F32, c.bufs[0], 3+2*69+k, 1)
	}
	_, err := c.q.Interpret(c.params, append(append([][]byte{}, c.bufs...), c.want))
	require.NoError(t, err)
	got := c.run(t, d)
	for i := range int64(80) {
		x := ir.DecodeFloat(ir.F32, loopir.LoadBits(ir.F32, got, i))
		switch {
		case i < 40:
			require.True(t, math.IsNaN(x))
		case i < 60:
			require.Zero(t, x)
		default:
			require.InDelta(t, ir.DecodeFloat(ir.F32, loopir.LoadBits(ir.F32, c.want, i)), x, 1e-3)
		}
	}
}

// TestRowsOfFewAreSplitIntoPlanes: integers of 20 bits have exact sums in planes of int8, where sums of floats have
// lost bits before they cancel. So have those whose lower digits are all -128, the most that 16 bits must hold. Rows
// with numbers that planes do not hold are multiplied as floats.
func TestRowsOfFewAreSplitIntoPlanes(t *testing.T) {
	const k, n = 64, 70
	bytes, halves := launch.Quantized{Bits: 8, Group: 1 << 40}, launch.Quantized{Bits: 4, Group: 32}
	wide := launch.Quantized{Bits: 4, Group: 128}
	for _, tc := range []struct {
		q      launch.Quantized
		lowest bool
		word   uint64 // of weights
	}{
		{bytes, false, 0x77777777}, {halves, false, 0x77777777},
		{bytes, true, 0x77777777}, {wide, true, 0x77777777}, {wide, true, 0x88888888},
	} {
		c := newQuantized(t, rand.New(rand.NewPCG(3, 4)), tc.q, 3, n, k)
		x := func(row, i int64, v float64) {
			loopir.StoreBits(ir.F32, c.bufs[0], 3+row*(k+5)+i, ir.EncodeFloat(ir.F32, v))
		}
		for i := range int64(len(c.bufs[1]) / 4) {
			loopir.StoreBits(ir.I32, c.bufs[1], i, tc.word)
		}
		scale := tc.q.ScaleType()
		for i := range int64(len(c.bufs[2]) / scale.Size()) {
			loopir.StoreBits(scale, c.bufs[2], i, ir.EncodeFloat(scale, 1))
		}
		for i := range int64(k) {
			sign := 1.0
			if i%32 >= 16 {
				sign = -1
			}
			v := sign * float64(1<<19+i*i+1)
			if tc.lowest {
				v = [2]float64{-128*256 - 128, 1 << 22}[max(0, 1-i%32)]
			}
			x(0, i, v)
			x(1, i, 0)
			x(2, i, float64(i)*0x1p-130)
		}
		x(1, 40, math.Inf(1))
		_, err := c.q.Interpret(c.params, append(append([][]byte{}, c.bufs...), c.want))
		require.NoError(t, err)
		for _, isa := range []string{"avx2", "avx512", "avx512_vnni", "amx"} {
			t.Run(isa, func(t *testing.T) {
				one, _ := devicesOf(t, isa)
				got := c.run(t, one)
				closeTo(t, ir.F32, c.want[n*4:], got[n*4:], 1e-5, true)
				require.Equal(t, c.want[:n*4], got[:n*4])
			})
		}
	}
}
