package engine

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/reference"
)

// Tests that ci/ablate names: each fails if its mechanism is switched off.

// The two windows differ only in a static attribute; ops and shapes are the same.
func TestStaticAttributesAreInTheKey(t *testing.T) {
	r := newRig(t)
	x := r.floats([]int64{2, 2}, 1, 2, 3, 4)
	assert.Equal(t, []float32{4, 6}, r.read(r.do("sum.dim", x, []int64{0})))
	assert.Equal(t, []float32{3, 7}, r.read(r.do("sum.dim", x, []int64{1})))
	assert.Equal(t, int64(2), r.stat("plans_built"))
}

// A plan must keep the results that are live outside.
func TestLivenessOutsideIsInTheKey(t *testing.T) {
	r := newRig(t)
	x := r.floats(nil, 1, 2)
	run := func(keep bool) {
		mid := r.do("mul", x, 2.0)
		out := r.do("add", mid, 1.0)
		if !keep {
			r.drop(mid)
		}
		assert.Equal(t, []float32{3, 5}, r.read(out))
		if keep {
			assert.Equal(t, []float32{2, 4}, r.read(mid))
			r.drop(mid)
		}
		r.drop(out)
	}
	run(false)
	run(true)
	run(false)
	assert.Equal(t, int64(2), r.stat("plans_built"))
	assert.Equal(t, r.stat("nodes_recorded"), r.stat("nodes_executed"), "each node runs once")
}

// The gradients of both operands of an add are one value behind two bases: a write through one base must not be visible
// through the other.
func TestAValueBehindTwoBasesIsNotWrittenOver(t *testing.T) {
	r := newRig(t)
	a, b := r.grad(r.floats(nil, 1, 2)), r.grad(r.floats(nil, 3, 4))
	h := r.do("add", a, b)
	y := r.do("mul", h, h)
	require.Nil(t, r.backward(r.do("sum", y), 0))
	assert.Equal(t, []float32{8, 12}, r.gradOf(a))
	var o Out
	_, err := r.e.Grad(uint64(a), &o)
	require.Nil(t, err)
	r.inplace("add", T(o.Handle), 100.0)
	assert.Equal(t, []float32{108, 112}, r.gradOf(a))
	assert.Zero(t, r.stat("stores_in_place"), "b.grad holds the old version")
	assert.Equal(t, []float32{8, 12}, r.gradOf(b))
}

// A number is a slot, so one plan serves all its values.
func TestNumbersAreNotInTheKey(t *testing.T) {
	r := newRig(t)
	x := r.floats(nil, 1, 2)
	for i := 1; i <= 5; i++ {
		y := r.do("mul", x, float64(i))
		assert.Equal(t, []float32{float32(i), 2 * float32(i)}, r.read(y))
		r.drop(y)
	}
	assert.Equal(t, int64(1), r.stat("plans_built"))
}

// fenced notes the last submission that used each buffer, and reports a buffer that is freed while that submission is
// in flight.
type fenced struct {
	*reference.Device
	last  map[device.Buffer]device.Fence
	early int
}

func (f *fenced) Run(p device.Program, b *device.Binding) (device.Fence, error) {
	fence, err := f.Device.Run(p, b)
	for _, x := range b.Bufs {
		f.last[x] = fence
	}
	return fence, err
}

func (f *fenced) Free(b device.Buffer) {
	if !f.Done(f.last[b]) {
		f.early++
	}
	f.Device.Free(b)
}

func TestNoBufferIsFreedBeforeItsFence(t *testing.T) {
	d := &fenced{Device: reference.New(), last: map[device.Buffer]device.Fence{}}
	d.Lag = true
	r := &rig{t: t, dev: d.Device}
	r.e = New(Config{Open: func(ir.DeviceID) (device.Device, error) { return d, nil }})
	// Windows of growing sizes: each evicts buffers that the previous one has just released.
	for n := int64(64); n <= 4096; n *= 2 {
		x := r.floats([]int64{n}, make([]float32, n)...)
		r.inplace("add", x, 1.0)
		y := r.do("mul", x, 3.0)
		z := r.do("add", y, x)
		r.inplace("add", z, 1.0)
		require.Nil(t, r.e.Flush())
		r.drop(x, y, z)
	}
	require.Nil(t, r.step())
	assert.Zero(t, d.early, "buffers freed while in flight")
}

func TestHandlesReleasedWhileTheEngineIsLockedAreDrainedLater(t *testing.T) {
	r := newRig(t)
	x := r.floats(nil, 1, 2)
	y := r.do("add", x, 1.0)
	r.e.mu.Lock() // a call is running, as when Python collects garbage inside one
	r.e.Release([]uint64{uint64(y)})
	held := r.e.session.LiveHandles()
	r.e.mu.Unlock()
	assert.Equal(t, 2, held, "the finalizer changes nothing while the engine is locked")
	r.drop(x)
	assert.Zero(t, r.stat("live_handles"))
	assert.Zero(t, r.stat("live_nodes"))
}

// noting keeps the kernels of its steps.
type noting struct {
	*reference.Device
	kernels map[launch.Op]int
}

func (n *noting) Build(steps []device.Step, slots int) (device.Program, error) {
	for _, s := range steps {
		n.kernels[s.Op]++
	}
	return n.Device.Build(steps, slots)
}

func TestLikeNodesOfAllWindowsHaveOneKernel(t *testing.T) {
	d := &noting{reference.New(), map[launch.Op]int{}}
	r := &rig{t: t, dev: d.Device}
	r.e = New(Config{Open: func(ir.DeviceID) (device.Device, error) { return d, nil }})
	r.e.planner.debug.Off = []string{"fuse"} // which makes one kernel of several nodes
	x, w := r.floats(nil, 1, 2), r.floats(nil, 1.5, 0.5)
	var values [][]float32
	for _, layers := range []int{3, 20, 21} {
		y := r.do("mul", x, w)
		for range layers {
			z := r.do("mul", y, w)
			r.drop(y)
			y = z
		}
		values = append(values, r.read(y))
		r.drop(y)
	}
	assert.EqualValues(t, 3, r.stat("plans_built"), "each number of layers is another plan")
	steps := 0
	for _, n := range d.kernels {
		steps += n
	}
	assert.Equal(t, 3+20+21+3, steps)
	assert.LessOrEqual(t, len(d.kernels), 2, "a result of its own, and one in the operand's place")
	assert.InDelta(t, math.Pow(1.5, 21), values[1][0], 1e-3)
}

func TestTheProductOfAWeightsGradientMakesThatOfTheBias(t *testing.T) {
	d := &noting{reference.New(), map[launch.Op]int{}}
	r := &rig{t: t, dev: d.Device}
	r.e = New(Config{Open: func(ir.DeviceID) (device.Device, error) { return d, nil }})
	x := r.floats([]int64{3, 2}, 1, 2, 3, 4, 5, 6)
	w, b := r.grad(r.floats([]int64{2, 2}, 1, 0, 2, 1)), r.grad(r.floats(nil, 1, -1))
	y := r.do("linear", x, w, b)
	require.Nil(t, r.backward(r.do("sum", r.do("mul", y, y)), 0))
	require.Nil(t, r.step())
	assert.Equal(t, []float32{88, 112, 210, 264}, r.gradOf(w))
	assert.Equal(t, []float32{24, 54}, r.gradOf(b))
	for k := range d.kernels {
		assert.False(t, k != nil && strings.HasPrefix(k.Label(), "sum"), "a kernel of its own")
	}
}

func TestAWeightIsCastOnceForAWindow(t *testing.T) {
	d := &noting{reference.New(), map[launch.Op]int{}}
	r := &rig{t: t, dev: d.Device}
	r.e = New(Config{Open: func(ir.DeviceID) (device.Device, error) { return d, nil }})
	w := r.grad(r.floats([]int64{2, 2}, 1, 2, 3, 4))
	casts := func() (n int) {
		for k, times := range d.kernels {
			if k != nil && strings.HasPrefix(k.Label(), "cast_float32") {
				n += times
			}
		}
		return n
	}
	old := r.e.SetMode(ModeAutocastCPU, int64(ir.BF16))
	var h T
	for range 6 { // the rule, its capture, replays of the trace
		y := r.do("matmul", w, w)
		if h != 0 {
			z := r.do("add", h, y)
			r.drop(h, y)
			y = z
		}
		h = y
	}
	sum := r.do("sum", h)
	r.e.SetMode(ModeAutocastCPU, old)
	require.Nil(t, r.backward(sum, 0))
	require.Nil(t, r.step())
	assert.Equal(t, 1, casts())
	assert.Equal(t, []float32{42, 66, 54, 78}, r.gradOf(w))
}

// The zeros that an optimizer's state begins with are overwritten by the first update, so they take no memory.
func TestAVersionMadeAndReplacedInOneWindowTakesNoMemory(t *testing.T) {
	r := newRig(t)
	const n = 1 << 18
	require.Nil(t, r.realize(r.floats(nil, 1))) // opens the device
	var values [2][]float32
	for i, look := range []bool{false, true} {
		state := r.do("zeros", []int64{n})
		old := state
		if look {
			old = r.do("mul", state, 1.0) // a reader is no obstacle
		}
		r.inplace("add", state, 2.0)
		r.e.runtime.ResetPeak()
		before := r.e.runtime.Devices[0].Pool.Live
		require.Nil(t, r.realize(state))
		peak := r.e.runtime.Devices[0].Pool.Peak - before
		if !look {
			assert.LessOrEqual(t, peak, int64(4*n+1024))
		}
		values[i] = r.read(state)[:2]
		r.drop(state)
		if look {
			assert.Equal(t, []float32{0, 0}, r.read(old)[:2])
			r.drop(old)
		}
	}
	assert.Equal(t, [2][]float32{{2, 2}, {2, 2}}, values)
}
