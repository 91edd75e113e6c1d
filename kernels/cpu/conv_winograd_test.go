package cpu_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// runPacked runs a launch with constant weights, its second operand, and returns the result and the bytes of packs.
func runPacked(t *testing.T, d *cpu.Device, q launch.Op, params []uint64, bufs [][]byte, size int) (got []byte,
	bytes int64) {
	t.Helper()
	got = make([]byte, size)
	step, bind := device.Step{Op: q}, device.Binding{}
	for i, b := range append(append([][]byte{}, bufs...), got) {
		w := d.NewWindow()
		w.Set(unsafe.Pointer(unsafe.SliceData(b)), int64(len(b)))
		step.Bufs, bind.Bufs = append(step.Bufs, i), append(bind.Bufs, w)
	}
	for _, v := range params {
		step.Params = append(step.Params, device.Const(int64(v)))
	}
	p, err := d.Build([]device.Step{step}, len(bind.Bufs))
	require.NoError(t, err)
	defer p.Release()
	bytes = d.Packed()
	require.NoError(t, d.Pack(p, &bind, &constants{bind: &bind, slots: []int{1}}))
	bytes = d.Packed() - bytes
	_, err = d.Run(p, &bind)
	require.NoError(t, err)
	return got, bytes
}

// packed runs c with constant weights, and returns the result and the bytes of packs.
func (c *lastCase) packed(t *testing.T, d *cpu.Device) (got []byte, bytes int64) {
	t.Helper()
	return runPacked(t, d, &c.q, c.params, c.bufs, len(c.want))
}

// withoutNaN gives the case a number in place of the NaN.
func (c *lastCase) withoutNaN(t *testing.T) *lastCase {
	t.Helper()
	loopir.StoreBits(ir.F32, c.bufs[0], int64(c.params[launch.LastOffsets]), ir.EncodeFloat(ir.F32, 0.5))
	_, err := c.q.Interpret(c.params, append(append([][]byte{}, c.bufs...), c.want))
	require.NoError(t, err)
	return c
}

// TestConvolutionsByWinogradAreThoseOfTheDefinition takes odd and even sizes, sizes beside those of panels and vectors,
// sums in parts, several blocks and images. A NaN with padding of one before it reaches its own square, all of which it
// reaches by the definition too. Numbers of threads give the same bits. Other convolutions have no factors.
func TestConvolutionsByWinogradAreThoseOfTheDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	var cases, others []*lastCase
	for _, s := range []lastShape{
		{1, 16, 16, 12, 3, 3, 1, 1, 1, false}, {2, 20, 72, 9, 3, 3, 1, 1, 1, false}, {3, 16, 24, 5, 3, 3, 1, 1, 1, false},
		{1, 520, 50, 4, 3, 3, 1, 1, 1, false}, {1, 64, 100, 33, 3, 3, 1, 1, 1, false},
	} {
		cases = append(cases, newLast(t, r, launch.ConvLast{}, s), newLast(t, r, launch.ConvLast{Add: true}, s))
	}
	for _, s := range []lastShape{{1, 33, 17, 11, 3, 3, 1, 0, 1, false}, {1, 17, 40, 12, 3, 3, 1, 2, 1, false}} {
		cases = append(cases, newLast(t, r, launch.ConvLast{Add: true}, s).withoutNaN(t))
	}
	for _, s := range []lastShape{
		{1, 16, 16, 24, 3, 3, 2, 1, 1, false}, {1, 16, 16, 12, 3, 3, 1, 1, 2, false}, {1, 16, 16, 12, 3, 2, 1, 1, 1, false},
		{1, 15, 16, 12, 3, 3, 1, 1, 1, false}, {1, 16, 15, 12, 3, 3, 1, 1, 1, false}, {1, 16, 16, 12, 3, 3, 1, 1, 1, true},
		{1, 16, 16, 2, 3, 3, 1, 1, 1, false},
	} {
		others = append(others, newLast(t, r, launch.ConvLast{}, s))
	}
	others = append(others, newLast(t, r, launch.ConvLast{Alone: true}, lastShape{1, 16, 16, 12, 3, 3, 1, 1, 1, false}))
	for _, isa := range []string{"plain", "neon", "avx2", "avx512"} {
		t.Run(isa, func(t *testing.T) {
			one, three := devicesOf(t, isa)
			for _, c := range cases {
				got, bytes := c.packed(t, one)
				require.Equal(t, int64(4*16)*int64((c.params[launch.LastOutputs]+15)/16*16*c.params[launch.LastChannels]),
					bytes, "16 factors of each weight")
				for i := range int64(len(got) / 4) {
					want, v := ir.DecodeFloat(ir.F32, loopir.LoadBits(ir.F32, c.want, i)),
						ir.DecodeFloat(ir.F32, loopir.LoadBits(ir.F32, got, i))
					require.Equal(t, math.IsNaN(want), math.IsNaN(v), "%v: element %d", c.params, i)
					require.False(t, math.Abs(want-v) > 3e-4, "%v: element %d: got %v, want %v", c.params, i, v, want)
				}
				assert.NotEqual(t, c.run(t, one), got, "sums of other products, which are rounded otherwise")
				again, _ := c.packed(t, three)
				require.Equal(t, got, again, "%v: threads", c.params)
			}
			for _, c := range others {
				got, bytes := c.packed(t, one)
				assert.Zero(t, bytes, c.params)
				assert.Equal(t, c.run(t, one), got, c.params)
			}
		})
	}
}
