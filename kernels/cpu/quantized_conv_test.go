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

func newConv(t *testing.T, r *rand.Rand, q launch.QuantizedConv, s convShape) *convCase {
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
	put(q.X, s.batch*s.groups*s.channels*s.size*s.size, func(int64) uint64 { return uint64(r.IntN(256)) })
	// Bytes of words beyond the channels are zeros, as the definition has it.
	put(ir.I32, panels*words*16, func(i int64) (bits uint64) {
		count := s.taps*s.taps - i/16%words*4
		if !launch.EachAlone(s.channels, s.outputs) {
			count = s.channels - i/16%((s.channels+3)/4)*4
		}
		for k := range min(4, count) {
			bits |= uint64(r.IntN(256)) << (8 * k)
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
	c.want = make([]byte, s.batch*s.groups*s.outputs*out*out*int64(q.Y.Size()))
	_, err := c.q.Interpret(c.params, append(append([][]byte{}, c.bufs...), c.want))
	require.NoError(t, err)
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
		{1, 1, 12, 33, 8, 1, 1, 0, 1, true}, {2, 1, 7, 5, 4, 1, 1, 0, 1, true}, {1, 2, 8, 16, 6, 3, 1, 1, 1, true},
	} {
		for _, q := range []launch.QuantizedConv{{X: ir.U8, Y: ir.U8}, {X: ir.I8, Y: ir.I8}, {X: ir.U8, Y: ir.F32}} {
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
