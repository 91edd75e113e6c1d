package engine

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/device"
)

// chainLength is long enough for the CPU to run maps tile by tile.
const chainLength = 20_000

// newCPURig makes a rig on the CPU, which fuses neighbouring maps into chains, and a tensor of v.
func newCPURig(t *testing.T, v func(i int) float32) (*rig, T) {
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	d, err := cpu.New(cpu.Options{Threads: 2})
	require.NoError(t, err)
	r := &rig{t: t}
	r.e = New(Config{Open: func(ir.DeviceID) (device.Device, error) { return d, nil }})
	r.e.planner.verify = true
	r.e.planner.debug.Off = []string{"fuse"} // which makes one kernel of a chain
	x := make([]float32, chainLength)
	for i := range x {
		x[i] = v(i)
	}
	return r, r.floats(nil, x...)
}

// peak returns the peak of bytes in use since the last call, in tensors of chainLength floats.
func (r *rig) peak() float64 {
	p := r.e.runtime.Devices[0].Pool
	defer p.ResetPeak()
	return float64(p.Peak) / (4 * chainLength)
}

func TestIntermediatesOfAChainHaveNoBuffer(t *testing.T) {
	r, x := newCPURig(t, func(i int) float32 { return float32(i % 97) })
	for range 3 { // builds the plan, then replays it
		r.peak()
		a := r.do("mul", x, 2.0)
		b := r.do("add", a, x)
		c := r.do("mul", b, a)
		d := r.do("sub", c, b)
		r.drop(a, b, c)
		y := r.read(d)
		assert.InDelta(t, 2, r.peak(), 0.2, "the operand and the result")
		for i, v := range y {
			f := float32(i % 97)
			require.Equal(t, 6*f*f-3*f, v)
		}
		r.drop(d)
	}
	a := r.do("mul", x, 2.0)
	d := r.do("add", a, x)
	r.peak()
	assert.Equal(t, float32(9), r.read(d)[3])
	assert.InDelta(t, 3, r.peak(), 0.3, "an intermediate that is held has one")
	assert.Equal(t, float32(6), r.read(a)[3])
}

// The chain has three maps while each value has its own buffer. If the last map wrote into the buffer from which the
// first one reads every second element, the chain would have two maps, and the third map's operand would need memory.
// The plan would then fail, and the engine would fall back to smaller windows.
func TestAChainThatSharedBuffersWouldPartSharesNone(t *testing.T) {
	r, x := newCPURig(t, func(i int) float32 { return float32(i % 89) })
	twice := r.do("cat", []T{x, x}, 0)
	even := r.do("as_strided", twice, []int64{chainLength}, []int64{2})
	a := r.do("mul", even, 2.0)
	b := r.do("add", a, 1.0)
	c := r.do("double", b)
	s := r.do("float", r.do("sum", c))
	r.drop(twice, even, a, b, c)
	want := float32(0)
	for i := range chainLength {
		want += 2*float32((2*i%chainLength)%89) + 1
	}
	windows := r.e.stats.windows
	assert.Equal(t, []float32{want}, r.read(s))
	assert.Equal(t, windows+1, r.e.stats.windows, "the plan of the whole window runs")
}
