package cpu_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// lastShape are the sizes of a convolution whose channels come last: a square picture, windows of high x wide taps.
type lastShape struct {
	batch, channels, outputs, size, high, wide, step, before, gap int64
	first                                                         bool // the channels of x come first
}

// lastCase is such a convolution with its operands, each of which begins at element 5, and the result of the
// definition.
type lastCase struct {
	q      launch.ConvLast
	params []uint64
	bufs   [][]byte
	want   []byte
}

func newLast(t *testing.T, r *rand.Rand, q launch.ConvLast, s lastShape) *lastCase {
	const skipped = 5
	out := func(taps int64) int64 { return (s.size+2*s.before-(taps-1)*s.gap-1)/s.step + 1 }
	high, wide := out(s.high), out(s.wide)
	c := &lastCase{q: q}
	bits := func(v float64) int64 { return int64(math.Float32bits(float32(v))) }
	strides := []int64{s.size * s.size * s.channels, s.size * s.channels, s.channels, 1}
	if s.first {
		strides = []int64{s.size * s.size * s.channels, s.size, 1, s.size * s.size}
	}
	for _, v := range append([]int64{s.batch, s.channels, s.outputs, s.size, s.size, high, wide, s.high, s.wide, s.step,
		s.step, s.before, s.before, s.gap, s.gap, bits(-1), bits(2)}, strides...) {
		c.params = append(c.params, uint64(v))
	}
	taps, panels := s.high*s.wide, (s.outputs+15)/16
	weights := panels * taps * s.channels * 16
	if q.Alone {
		weights = taps * s.channels
	}
	results := s.batch * high * wide * s.outputs
	sizes := []int64{s.batch * s.size * s.size * s.channels, weights, panels * 16, results}
	for b, n := range sizes {
		c.params = append(c.params, skipped)
		if b == 3 && !q.Add {
			break
		}
		buf := make([]byte, 4*(n+skipped))
		for i := range n {
			loopir.StoreBits(ir.F32, buf, i+skipped, ir.EncodeFloat(ir.F32, r.NormFloat64()))
		}
		c.bufs = append(c.bufs, buf)
	}
	loopir.StoreBits(ir.F32, c.bufs[0], skipped, ir.EncodeFloat(ir.F32, math.NaN()))
	c.want = make([]byte, 4*results)
	_, err := c.q.Interpret(c.params, append(append([][]byte{}, c.bufs...), c.want))
	require.NoError(t, err)
	return c
}

func (c *lastCase) run(t *testing.T, d *cpu.Device) []byte {
	t.Helper()
	return runLaunch(t, d, &c.q, c.params, c.bufs, len(c.want))
}

// TestConvolutionsOfLastChannelsAreThoseOfTheDefinition takes sizes beside those of panels, tiles, blocks and vectors,
// sums in parts, and pictures that are copied. Limits leave NaN as it is. Numbers of threads give the same bits.
func TestConvolutionsOfLastChannelsAreThoseOfTheDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	var cases []*lastCase
	for _, s := range []lastShape{
		{1, 16, 32, 9, 1, 1, 1, 0, 1, false}, {2, 20, 72, 5, 1, 1, 2, 0, 1, false}, {1, 33, 17, 16, 1, 1, 1, 0, 1, false},
		{1, 600, 50, 3, 1, 1, 1, 0, 1, false}, {1, 70, 100, 5, 3, 3, 1, 1, 1, false}, {1, 3, 5, 11, 3, 2, 2, 1, 1, true},
		{2, 3, 40, 9, 7, 7, 2, 3, 1, true}, {1, 2, 16, 8, 3, 3, 1, 2, 2, true}, {1, 4, 16, 6, 2, 2, 1, 0, 1, false},
		{1, 1, 20, 7, 3, 3, 1, 1, 1, true},
	} {
		cases = append(cases, newLast(t, r, launch.ConvLast{}, s), newLast(t, r, launch.ConvLast{Add: true}, s))
	}
	for _, s := range []lastShape{
		{1, 16, 16, 7, 3, 3, 1, 1, 1, false}, {2, 35, 35, 8, 3, 3, 2, 1, 1, false}, {1, 20, 20, 3, 3, 3, 1, 1, 1, false},
		{1, 24, 24, 9, 5, 4, 1, 2, 2, false}, {1, 17, 17, 6, 3, 3, 1, 1, 1, true}, {1, 32, 32, 2, 2, 2, 1, 0, 1, false},
	} {
		cases = append(cases, newLast(t, r, launch.ConvLast{Alone: true}, s))
	}
	for _, isa := range []string{"plain", "neon", "avx2", "avx512"} {
		t.Run(isa, func(t *testing.T) {
			one, three := devicesOf(t, isa)
			for _, c := range cases {
				name := fmt.Sprintf("%+v %v", c.q, c.params)
				got := c.run(t, one)
				for i := range int64(len(got) / 4) {
					want, v := ir.DecodeFloat(ir.F32, loopir.LoadBits(ir.F32, c.want, i)),
						ir.DecodeFloat(ir.F32, loopir.LoadBits(ir.F32, got, i))
					require.Equal(t, math.IsNaN(want), math.IsNaN(v), "%s: element %d", name, i)
					require.False(t, math.Abs(want-v) > 1e-4, "%s: element %d: got %v, want %v", name, i, v, want)
				}
				require.Equal(t, got, c.run(t, three), name)
			}
		})
	}
}
