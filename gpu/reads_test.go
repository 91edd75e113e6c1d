package gpu_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/gpu"
	"github.com/torchlette/torchlette/gpu/fake"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/loopir"
)

func float(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }

// incremented makes a buffer of n zeros, and what adds 1 to them.
func incremented(t *testing.T, dev *gpu.Device, n int) (device.Buffer, func() device.Fence) {
	t.Helper()
	p, err := dev.Build([]device.Step{increment(n)}, 1)
	require.NoError(t, err)
	b := zeros(t, dev, n)
	return b, func() device.Fence {
		f, err := dev.Run(p, &device.Binding{Bufs: []device.Buffer{b}})
		require.NoError(t, err)
		return f
	}
}

// A read that began has the elements of that moment, from the middle of a buffer too, and does not wait for later runs.
func TestAReadAheadWaitsForTheRunsBeforeIt(t *testing.T) {
	d := fake.New()
	d.Lag = 4
	dev := open(t, d, gpu.Options{})
	b, run := incremented(t, dev, 8)
	run()
	first, err := dev.StartRead(b, ir.F32, 1, 2)
	require.NoError(t, err)
	run()
	second, err := dev.StartRead(b, ir.F32, 7, 1)
	require.NoError(t, err)
	var last device.Fence
	for range 20 {
		last = run()
	}
	two, one := make([]byte, 8), make([]byte, 4)
	require.NoError(t, first.Finish(two, nil))
	require.Equal(t, []float32{1, 1}, []float32{float(two), float(two[4:])})
	require.False(t, dev.Done(last), "it waits for its own submission alone")
	require.NoError(t, second.Finish(one, nil))
	require.Equal(t, float32(2), float(one))
	require.NoError(t, dev.Read(b, ir.F32, 0, one))
	require.Equal(t, float32(22), float(one))
}

// An interrupted read goes on. A dropped one gives its buffer back, and closing the device ends those under way.
func TestReadsAheadEnd(t *testing.T) {
	d := fake.New()
	d.Lag = 3
	dev := open(t, d, gpu.Options{})
	b, run := incremented(t, dev, 4)
	run()
	got := make([]byte, 4)
	for range 50 {
		r, err := dev.StartRead(b, ir.F32, 0, 1)
		require.NoError(t, err)
		r.Drop()
		require.NoError(t, dev.Read(b, ir.F32, 0, got))
	}
	require.LessOrEqual(t, dev.Stats()["readback_bytes"], int64(2*4096), "dropped buffers are used again")
	r, err := dev.StartRead(b, ir.F32, 0, 1)
	require.NoError(t, err)
	require.NoError(t, r.Finish(got, func() bool { return true }), "a short wait polls no interrupt")
	require.Equal(t, float32(1), float(got))
	large, err := dev.Alloc(64 << 20)
	require.NoError(t, err)
	r, err = dev.StartRead(large, ir.F32, 0, 16<<20)
	require.NoError(t, err)
	require.Nil(t, r, "it takes several pieces")
	_, err = dev.StartRead(b, ir.F32, 0, 1)
	require.NoError(t, err)
	dev.Free(b)
	dev.Free(large)
	dev.Close()
	require.Zero(t, d.Live.Buffers)
}

// picking reads element i of n at a checked index.
func picking(n int) device.Step {
	b := loopir.NewBuilder("pick", 1, 0)
	i, to := b.Linear(b.Buf(ir.I32, loopir.Read), -1), b.Linear(b.Buf(ir.F32, loopir.Write), -1)
	b.Map()
	b.Store(to, b.Cast(ir.F32, b.InBounds(b.Cast(ir.I64, b.Load(i)), b.I64(int64(n)))))
	return device.Step{Op: b.Kernel(), Bufs: []int{0, 1}, Params: []device.Param{device.Const(1)}, Event: 5}
}

// A fault is told once, although several reads under way have it, and although the device is asked for it between.
func TestAFaultOfReadsAheadIsToldOnce(t *testing.T) {
	dev := open(t, fake.New(), gpu.Options{})
	p, err := dev.Build([]device.Step{picking(3)}, 2)
	require.NoError(t, err)
	index, to := zeros(t, dev, 1), zeros(t, dev, 1)
	word := make([]byte, 4)
	run := func(i uint32) device.PendingRead {
		binary.LittleEndian.PutUint32(word, i)
		require.NoError(t, dev.Upload(index, ir.I32, 0, word))
		_, err := dev.Run(p, &device.Binding{Bufs: []device.Buffer{index, to}})
		require.NoError(t, err)
		r, err := dev.StartRead(to, ir.F32, 0, 1)
		require.NoError(t, err)
		return r
	}
	known := func(want bool) {
		t.Helper()
		f, found := dev.TakeKnownFault()
		require.Equal(t, want, found)
		if want {
			require.Equal(t, device.Fault{Event: 5, Element: 9}, f)
		}
	}
	first, second, third := run(1), run(9), run(2)
	require.NoError(t, first.Finish(word, nil))
	known(false)
	require.NoError(t, second.Finish(word, nil))
	known(true)
	require.NoError(t, third.Finish(word, nil))
	known(false)
	_, found, err := dev.TakeFault()
	require.NoError(t, err)
	require.False(t, found)
	first = run(9)
	_, found, err = dev.TakeFault()
	require.NoError(t, err)
	require.True(t, found)
	require.NoError(t, first.Finish(word, nil))
	known(false)
	run(9).Drop()
	_, found, err = dev.TakeFault()
	require.NoError(t, err)
	require.True(t, found, "a dropped read has not told it")
}

// A device at work gets a program in larger parts, since it does not wait for the first one.
func TestABusyDeviceGetsFewerSubmissions(t *testing.T) {
	d := fake.New()
	d.Lag = 50
	dev := open(t, d, gpu.Options{})
	var steps []device.Step
	for i := range 80 {
		steps = append(steps, towards(8, float64(i%5)))
	}
	p, err := dev.Build(steps, 1)
	require.NoError(t, err)
	b := zeros(t, dev, 8)
	require.NoError(t, dev.Wait(dev.Submitted(), 1e9, nil))
	for _, want := range []int{2, 1} {
		before := d.Calls.Submit
		_, err = dev.Run(p, &device.Binding{Bufs: []device.Buffer{b}})
		require.NoError(t, err)
		require.Equal(t, want, d.Calls.Submit-before)
	}
}
