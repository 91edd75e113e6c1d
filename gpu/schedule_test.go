package gpu_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/device"
	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/gpu"
	"github.com/torchlette/torchlette/gpu/fake"
	"github.com/torchlette/torchlette/kernels/kir"
)

// put copies n floats from slot 0 of the step to offset to of slot 1.
func put(n int, to int64, src, dst int) device.Step {
	b := kir.NewBuilder("put", 1, 0)
	x := b.Load(b.Linear(b.Buf(ir.F32, kir.Read), -1))
	out := b.Linear(b.Buf(ir.F32, kir.Write), b.Offset())
	b.Map()
	b.Store(out, x)
	return device.Step{Kind: device.RunKernel, Kernel: b.Kernel(), Bufs: []int{src, dst}, Params: []device.Param{device.Const(int64(n)), device.Const(to)}}
}

// checkedStep reads slot 0 at an index from slot 1, into slot 2.
func checkedStep(event uint32, slots ...int) device.Step {
	b := kir.NewBuilder("lookup", 1, 0)
	i := b.Load(b.Linear(b.Buf(ir.I32, kir.Read), -1))
	table := b.Buf(ir.F32, kir.Read)
	out := b.Linear(b.Buf(ir.F32, kir.Write), -1)
	b.Map()
	b.Store(out, b.LoadAt(table, b.InBounds(b.Cast(ir.I64, i), b.I64(2))))
	return device.Step{Kind: device.RunKernel, Kernel: b.Kernel(), Bufs: slots, Params: []device.Param{device.Const(4)}, Event: event}
}

// dispatches builds steps and counts the dispatches of a run.
func dispatches(t *testing.T, o gpu.Options, steps []device.Step, slots int) (n int64, dev *gpu.Device, bind *device.Binding) {
	t.Helper()
	dev = open(t, fake.New(), o)
	p, err := dev.Build(steps, slots)
	require.NoError(t, err)
	bind = &device.Binding{}
	for range slots {
		bind.Bufs = append(bind.Bufs, zeros(t, dev, 64))
	}
	_, err = dev.Run(p, bind)
	require.NoError(t, err)
	return dev.Stats()["dispatches"], dev, bind
}

// on is st over other slots.
func on(st device.Step, slots ...int) device.Step {
	st.Bufs = slots
	return st
}

func TestMergedDispatches(t *testing.T) {
	var independent, chain, pairs, side []device.Step
	for i := range 10 {
		independent = append(independent, on(increment(4+4*i), i))
		chain = append(chain, on(increment(8), 0))
		pairs = append(pairs, on(increment(8), i), on(other(8), i)) // each pair in order, pairs in any
		side = append(side, put(4, 4*int64(i), i, 10))
	}
	over := append(side, put(8, 6, 0, 10))
	for _, c := range []struct {
		name  string
		o     gpu.Options
		steps []device.Step
		want  int64
	}{
		{"independent", gpu.Options{}, independent, 2}, // 8 and 2
		{"at most four", gpu.Options{Merge: 4}, independent, 3},
		{"off", gpu.Options{Merge: 1}, independent, 10},
		{"few buffers", gpu.Options{MaxStorageBuffers: 5}, independent, 3}, // 4, 4, 2
		{"core", gpu.Options{Core: true}, independent, 2},
		{"chain", gpu.Options{}, chain, 10},
		{"pairs", gpu.Options{}, pairs, 4},
		{"side by side", gpu.Options{}, side, 2},
		{"overlapping", gpu.Options{}, over, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, _, _ := dispatches(t, c.o, c.steps, 11)
			assert.Equal(t, c.want, n)
		})
	}
}

// TestChecksKeepTheirOrder: of two failed checks the first in program order is reported.
func TestChecksKeepTheirOrder(t *testing.T) {
	d := fake.New()
	dev := open(t, d, gpu.Options{})
	p, err := dev.Build([]device.Step{on(increment(4), 3), checkedStep(5, 0, 1, 3), checkedStep(6, 0, 1, 4)}, 5)
	require.NoError(t, err)
	bind := &device.Binding{}
	for range 5 {
		bind.Bufs = append(bind.Bufs, zeros(t, dev, 4))
	}
	require.NoError(t, dev.Upload(bind.Bufs[0], ir.I32, 0, []byte{9, 0, 0, 0}))
	_, err = dev.Run(p, bind)
	require.NoError(t, err)
	f, found, err := dev.TakeFault()
	require.NoError(t, err)
	require.True(t, found)
	assert.Equal(t, device.Fault{Event: 5, Element: 9}, f)
}

// TestUniformBufferIsFilledWhenItChanges: a replay with equal scalars copies no parameters.
func TestUniformBufferIsFilledWhenItChanges(t *testing.T) {
	b := kir.NewBuilder("scale", 1, 0)
	by := b.Scalar(ir.F32)
	at := b.Linear(b.Buf(ir.F32, kir.ReadWrite), -1)
	b.Map()
	b.Store(at, b.Add(b.Load(at), b.Param(by)))
	d := fake.New()
	dev := open(t, d, gpu.Options{Core: true})
	p, err := dev.Build([]device.Step{{Kind: device.RunKernel, Kernel: b.Kernel(), Bufs: []int{0}, Params: []device.Param{device.Const(1), {Offset: -1, Scalar: 0}}}}, 1)
	require.NoError(t, err)
	bind := &device.Binding{Bufs: []device.Buffer{zeros(t, dev, 1)}, Scalars: make([]uint64, 1)}
	var copies []int
	for _, v := range []float64{1, 1, 1, 2, 2} {
		bind.Scalars[0] = ir.EncodeFloat(ir.F32, v)
		before := d.Calls.Copy
		_, err := dev.Run(p, bind)
		require.NoError(t, err)
		copies = append(copies, d.Calls.Copy-before)
	}
	assert.Equal(t, []int{2, 0, 0, 1, 0}, copies, "the first run takes the upload of the zeros along")
	got := make([]byte, 4)
	require.NoError(t, dev.Read(bind.Bufs[0], ir.F32, 0, got))
	assert.Equal(t, []byte{0, 0, 0xE0, 0x40}, got) // 7
	p.Release()
}
