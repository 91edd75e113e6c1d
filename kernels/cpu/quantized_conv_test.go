package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// convCase is a convolution of 8-bit elements with its operands, each of which begins at element 3, and the result of
// the definition.
type convCase struct {
	q      launch.QuantizedConv
	params []uint64
	bufs   [][]byte
	want   []byte
}

// convShape are the sizes of a case: channels and outputs of a group, a square picture and windows.
type convShape struct {
	batch, groups, channels, outputs, size, taps, step, before, gap int64
	last                                                            bool // channels come last, in x and in the result
}

// newConv returns a case of random numbers.
func newConv(t *testing.T, r *rand.Rand, q launch.QuantizedConv, s convShape) *convCase {
	byteOf := func() uint64 { return uint64(r.IntN(256)) }
	weight := byteOf
	if q.Narrow { // extremes, mostly
		byteOf = func() uint64 { return uint64([]int{0, 255, 255, r.IntN(256)}[r.IntN(4)]) }
		weight = func() uint64 { return uint64(uint8([]int{64, -64, 64, r.IntN(129) - 64}[r.IntN(4)])) }
	}
	c := newOperands(r, q, s, byteOf, weight)
	_, err := c.q.Interpret(c.params, append(append([][]byte{}, c.bufs...), c.want))
	require.NoError(t, err)
	return c
}

// newOperands returns a case with these elements and weights, without the definition's result.
func newOperands(r *rand.Rand, q launch.QuantizedConv, s convShape, element, weight func() uint64) *convCase {
	const skipped = 3
	out := (s.size+2*s.before-(s.taps-1)*s.gap-1)/s.step + 1
	c := &convCase{q: q}
	least, most := ir.Limits(ir.U8)
	if q.Y == ir.I8 {
		least, most = ir.Limits(ir.I8)
	}
	zeroX, zeroY := int64(7), least+9
	strides := func(channels, size int64) []int64 {
		if s.last {
			return []int64{size * size * channels, 1, size * channels, channels}
		}
		return []int64{channels * size * size, size * size, size, 1}
	}
	for _, v := range append(append([]int64{s.batch, s.groups, s.channels, s.outputs, s.size, s.size, out, out, s.taps,
		s.taps, s.step, s.step, s.before, s.before, s.gap, s.gap, zeroX, zeroY, least + 2, most - 3},
		strides(s.groups*s.channels, s.size)...), strides(s.groups*s.outputs, out)...) {
		c.params = append(c.params, uint64(v))
	}
	panels, words := s.groups*((s.outputs+15)/16), s.taps*s.taps*((s.channels+3)/4)
	if launch.EachAlone(s.channels, s.outputs) {
		panels, words = (s.groups+15)/16, (s.taps*s.taps+3)/4
	}
	put := func(d ir.DType, count int64, bits func(i int64) uint64) {
		buf := make([]byte, (count+skipped)*int64(d.Size()))
		for i := range count {
			loopir.StoreBits(d, buf, i+skipped, bits(i))
		}
		c.bufs, c.params = append(c.bufs, buf), append(c.params, skipped)
	}
	number := func(scale float64) func(int64) uint64 {
		return func(int64) uint64 { return ir.EncodeFloat(ir.F32, scale*r.NormFloat64()) }
	}
	put(q.X, s.batch*s.groups*s.channels*s.size*s.size, func(int64) uint64 { return element() })
	// Bytes of words beyond the channels are zeros, as the definition has it.
	put(ir.I32, panels*words*16, func(i int64) (bits uint64) {
		count := s.taps*s.taps - i/16%words*4
		if !launch.EachAlone(s.channels, s.outputs) {
			count = s.channels - i/16%((s.channels+3)/4)*4
		}
		for k := range min(4, count) {
			bits |= weight() << (8 * k)
		}
		return bits
	})
	put(ir.F32, panels*16, number(1.0/1024))
	put(ir.F32, panels*16, number(8))
	c.bufs, c.params = append(c.bufs, nil), append(c.params, 0)
	sums := make([]byte, panels*16*4)
	for i := range panels * words * 16 {
		word := uint32(loopir.LoadBits(ir.I32, c.bufs[1], i+skipped))
		at := i/(words*16)*16 + i%16
		total := int32(loopir.LoadBits(ir.I32, sums, at))
		for k := range 4 {
			total += int32(int8(word >> (8 * k)))
		}
		loopir.StoreBits(ir.I32, sums, at, uint64(uint32(total)))
	}
	c.bufs[4] = sums
	if q.Dynamic {
		put(q.X, 1, func(int64) uint64 { return 131 })
		put(ir.F32, 1, func(int64) uint64 { return ir.EncodeFloat(ir.F32, 1.37) })
	} else {
		c.params = append(c.params, 0, 0)
	}
	if q.Shifted {
		put(ir.I32, panels*16, func(i int64) uint64 { return uint64(uint32(i*37%511 - 255)) })
	} else {
		c.params = append(c.params, 0)
	}
	c.want = make([]byte, s.batch*s.groups*s.outputs*out*out*int64(q.Y.Size()))
	return c
}

func (c *convCase) run(t *testing.T, d *cpu.Device) []byte {
	t.Helper()
	return runLaunch(t, d, &c.q, c.params, c.bufs, len(c.want))
}

// TestQuantizedConvolutionsAreThoseOfTheDefinition takes sizes beside those of words, panels, tiles and blocks. All
// instruction sets and numbers of threads give the same bits. The definition rounds once where they round twice: by a
// step at a half.
func TestQuantizedConvolutionsAreThoseOfTheDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	var cases []*convCase
	for _, s := range []convShape{
		{1, 1, 16, 32, 9, 1, 1, 0, 1, false}, {2, 1, 3, 20, 11, 3, 2, 1, 1, false}, {1, 1, 33, 17, 6, 3, 1, 1, 2, false},
		{1, 1, 8, 40, 17, 3, 1, 1, 1, false}, {1, 20, 1, 1, 18, 3, 1, 1, 1, false}, {2, 33, 1, 1, 7, 5, 2, 2, 1, false},
		{1, 4, 5, 3, 6, 3, 1, 0, 1, false}, {1, 3, 1, 2, 5, 2, 1, 0, 1, false}, {1, 1, 64, 48, 5, 1, 2, 0, 1, false},
		{1, 1, 12, 33, 8, 1, 1, 0, 1, true}, {2, 1, 7, 5, 4, 1, 1, 0, 1, true},
		{1, 1, 70, 40, 1, 1, 1, 0, 1, true}, {1, 2, 8, 16, 6, 3, 1, 1, 1, true},
	} {
		for _, q := range []launch.QuantizedConv{{X: ir.U8, Y: ir.U8}, {X: ir.I8, Y: ir.I8}, {X: ir.U8, Y: ir.F32},
			{X: ir.I8, Y: ir.F32, Dynamic: true}, {X: ir.U8, Y: ir.F32, Dynamic: true, Shifted: true},
			{X: ir.I8, Y: ir.U8, Shifted: true}, {X: ir.U8, Y: ir.F32, Dynamic: true, Narrow: true}} {
			cases = append(cases, newConv(t, r, q, s))
		}
	}
	exact := make([][]byte, len(cases))
	for _, isa := range []string{"plain", "neon", "avx2", "avx2_vnni", "avx512", "avx512_vnni", "amx"} {
		t.Run(isa, func(t *testing.T) {
			one, three := devicesOf(t, isa)
			for i, c := range cases {
				name := fmt.Sprintf("%+v %v", c.q, c.params)
				got := c.run(t, one)
				if c.q.Y == ir.F32 {
					closeTo(t, ir.F32, c.want, got, 1e-5, true)
				} else {
					for k := range got {
						require.Contains(t, []uint8{0, 1, 255}, got[k]-c.want[k], name)
					}
				}
				require.Equal(t, got, c.run(t, three), name)
				if exact[i] == nil {
					exact[i] = got
				}
				require.Equal(t, exact[i], got, name)
			}
		})
	}
}

// packed runs c with constant weights, and returns the result and the bytes of packs.
func (c *convCase) packed(t *testing.T, d *cpu.Device) (got []byte, bytes int64) {
	t.Helper()
	return runPacked(t, d, &c.q, c.params, c.bufs, len(c.want))
}

// winogradCases returns cases that Winograd's filtering computes: odd and even sizes, sizes beside those of panels,
// vectors, tiles and blocks, pictures wider than a block, several images, and the greatest sums. It does not compute
// others.
func winogradCases() (cases, others []*convCase) {
	r := rand.New(rand.NewPCG(15, 16))
	random := func() uint64 { return uint64(r.IntN(256)) }
	for _, s := range []convShape{
		{1, 1, 16, 16, 12, 3, 1, 1, 1, false}, {2, 1, 20, 40, 9, 3, 1, 1, 1, false}, {3, 1, 33, 17, 5, 3, 1, 0, 1, true},
		{1, 1, 130, 50, 7, 3, 1, 1, 1, false}, {1, 1, 310, 20, 99, 3, 1, 2, 1, true}, {1, 1, 300, 24, 21, 3, 1, 1, 1, true},
	} {
		for _, q := range []launch.QuantizedConv{{X: ir.U8, Y: ir.U8}, {X: ir.I8, Y: ir.I8}, {X: ir.U8, Y: ir.F32}} {
			cases = append(cases, newOperands(r, q, s, random, random))
		}
	}
	most, least := func() uint64 { return 255 }, func() uint64 { return 128 }
	deep := convShape{1, 1, 1800, 16, 5, 3, 1, 1, 1, false}
	cases = append(cases, newOperands(r, launch.QuantizedConv{X: ir.U8, Y: ir.F32}, deep, most, least))
	for _, s := range []convShape{
		{1, 1, 16, 16, 12, 3, 2, 1, 1, false}, {1, 1, 16, 16, 12, 3, 1, 1, 2, false}, {1, 1, 16, 16, 12, 1, 1, 0, 1, false},
		{1, 1, 15, 16, 12, 3, 1, 1, 1, false}, {1, 1, 16, 15, 12, 3, 1, 1, 1, false}, {1, 2, 16, 16, 6, 3, 1, 1, 1, false},
		{1, 1, 16, 16, 2, 3, 1, 1, 1, false}, {1, 20, 1, 1, 18, 3, 1, 1, 1, false}, {1, 1, 1801, 16, 5, 3, 1, 1, 1, false},
	} {
		others = append(others, newOperands(r, launch.QuantizedConv{X: ir.U8, Y: ir.U8}, s, random, random))
	}
	like := convShape{1, 1, 16, 16, 12, 3, 1, 1, 1, false}
	others = append(others, newOperands(r, launch.QuantizedConv{X: ir.U8, Y: ir.F32, Shifted: true}, like, random, random))
	return cases, others
}

// TestQuantizedConvolutionsByWinogradAreExact requires the bits of the tiles without vectors, whatever the number of
// threads. No instruction set that multiplies bytes has factors.
func TestQuantizedConvolutionsByWinogradAreExact(t *testing.T) {
	cases, others := winogradCases()
	plain, _ := devicesOf(t, "plain")
	for _, isa := range []string{"avx2", "avx2_vnni", "avx512", "avx512_vnni"} {
		t.Run(isa, func(t *testing.T) {
			one, three := devicesOf(t, isa)
			for _, c := range cases {
				want := c.run(t, plain)
				got, bytes := c.packed(t, one)
				require.Equal(t, want, got, "%+v %v", c.q, c.params)
				again, _ := c.packed(t, three)
				require.Equal(t, want, again, "%+v %v: threads", c.q, c.params)
				whole := func(i int) int64 { return int64(c.params[i]+15) / 16 * 16 }
				factors := 2 * 16 * whole(launch.ConvOutputs) * whole(launch.ConvChannels)
				if isa == "avx2" || isa == "avx512" {
					require.Equal(t, factors, bytes, "16 factors of each weight")
				} else {
					require.Zero(t, bytes)
				}
			}
			for _, c := range others {
				got, bytes := c.packed(t, one)
				require.Zero(t, bytes, c.params)
				require.Equal(t, c.run(t, plain), got, c.params)
			}
		})
	}
}
