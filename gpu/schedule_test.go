package gpu_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/gpu"
	"github.com/torchlette/torchlette/gpu/fake"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// put copies n floats from slot 0 of the step to offset to of slot 1.
func put(n int, to int64, src, dst int) device.Step {
	b := loopir.NewBuilder("put", 1, 0)
	x := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1))
	out := b.Linear(b.Buf(ir.F32, loopir.Write), b.Offset())
	b.Map()
	b.Store(out, x)
	return device.Step{Op: b.Kernel(), Bufs: []int{src, dst}, Params: []device.Param{device.Const(int64(n)),
		device.Const(to)}}
}

// checkedStep reads slot 0 at an index from slot 1, into slot 2.
func checkedStep(event uint32, slots ...int) device.Step {
	b := loopir.NewBuilder("lookup", 1, 0)
	i := b.Load(b.Linear(b.Buf(ir.I32, loopir.Read), -1))
	table := b.Buf(ir.F32, loopir.Read)
	out := b.Linear(b.Buf(ir.F32, loopir.Write), -1)
	b.Map()
	b.Store(out, b.LoadAt(table, b.InBounds(b.Cast(ir.I64, i), b.I64(2))))
	return device.Step{Op: b.Kernel(), Bufs: slots, Params: []device.Param{device.Const(4)}, Event: event}
}

// dispatches builds steps and counts the dispatches of a run.
func dispatches(t *testing.T, o gpu.Options, steps []device.Step, slots int) (n int64, dev *gpu.Device,
	bind *device.Binding) {
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

// TestWavesAreFilled: a step that depends on nothing in a wave runs in it, before a step that waits for a barrier.
func TestWavesAreFilled(t *testing.T) {
	var chains, steps []device.Step
	for i := range 4 { // four chains, each as long as its number of waves
		chains = append(chains, on(increment(8), i), on(other(8), i), on(increment(4), i))
		steps = append(steps, put(4, 0, i, i+5), put(4, 8, i+5, i))
	}
	for _, c := range []struct {
		name  string
		steps []device.Step
		want  int64
	}{
		{"chains side by side", chains, 3},
		{"copies and what reads them", steps, 2},
		{"one chain", chains[:3], 3},
		{"what reads before a write, and the write", []device.Step{put(4, 0, 0, 1), on(increment(8), 0), on(other(8), 2)}, 2},
		{"what is merged with a step that waits, waits", []device.Step{on(increment(8), 0), on(other(8), 2), on(other(8), 0)},
			2},
		{"a fill parts waves", []device.Step{on(increment(8), 0), {Op: launch.Fill{}, Bufs: []int{1},
			Params: []device.Param{device.Const(0), device.Const(16)}}, on(other(8), 2), on(increment(4), 1)}, 2},
	} {
		for _, merge := range []int{0, 1} {
			_, dev, _ := dispatches(t, gpu.Options{Merge: merge}, c.steps, 11)
			assert.Equal(t, c.want, dev.Stats()["waves"], "%s, merge %d", c.name, merge)
		}
	}
}

// watched notes the kinds of the submitted records.
type watched struct {
	gpu.Driver
	gpu.Context
	kinds []gpu.RecordKind
}

func (w *watched) Open(index int, core bool) (gpu.Context, error) {
	c, err := w.Driver.Open(index, core)
	w.Context = c
	return w, err
}

func (w *watched) Submit(records []gpu.Record, words []uint32) error {
	for i := range records {
		w.kinds = append(w.kinds, records[i].Kind)
	}
	return w.Context.Submit(records, words)
}

// TestNoCopyIsBetweenDispatchesOfAWave: a copy ends a pass of the encoder. So steps that can run beside the steps
// before the copy come before it.
func TestNoCopyIsBetweenDispatchesOfAWave(t *testing.T) {
	w := &watched{Driver: fake.New()}
	dev, err := gpu.Open(w, gpu.Options{AllowSoftware: true, NoProbe: true, Merge: 1})
	require.NoError(t, err)
	t.Cleanup(dev.Close)
	move := device.Step{Op: launch.Copy{}, Bufs: []int{1, 2}, Params: []device.Param{device.Const(0), device.Const(0),
		device.Const(16)}}
	p, err := dev.Build([]device.Step{on(increment(8), 0), move, on(increment(8), 3)}, 4)
	require.NoError(t, err)
	bind := &device.Binding{}
	for range 4 {
		bind.Bufs = append(bind.Bufs, zeros(t, dev, 64))
	}
	w.kinds = nil
	f, err := dev.Run(p, bind)
	require.NoError(t, err)
	require.NoError(t, dev.Wait(f, time.Minute, nil))
	kinds := slices.DeleteFunc(slices.Clone(w.kinds), func(k gpu.RecordKind) bool {
		return k != gpu.Dispatch &&
			k != gpu.CopyBuffer
	})
	require.Subset(t, kinds, []gpu.RecordKind{gpu.Dispatch})
	first := slices.Index(kinds, gpu.Dispatch)
	assert.Equal(t, []gpu.RecordKind{gpu.Dispatch, gpu.Dispatch, gpu.CopyBuffer}, kinds[first:first+3])
}

// TestReductionsInPassesRunSideBySide: neighbouring reductions leave partial sums in scratch memories of their own; the
// fourth waits for the first one's.
func TestReductionsInPassesRunSideBySide(t *testing.T) {
	const n = 1 << 18
	b := loopir.NewBuilder("total", 1, 1)
	x := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1))
	out := b.Access(b.Buf(ir.F32, loopir.Write), -1, loopir.Unit, loopir.Broadcast)
	b.Each()
	sum := b.Reduce(loopir.Sum, x)
	b.Map()
	b.Store(out, b.Acc(sum))
	k := b.Kernel()
	for count, waves := range map[int]int64{1: 2, 3: 2, 4: 4} {
		dev := open(t, fake.New(), gpu.Options{Hardware: true})
		var steps []device.Step
		bind := &device.Binding{}
		for i := range count {
			steps = append(steps, device.Step{Op: k, Bufs: []int{2 * i, 2*i + 1}, Params: []device.Param{device.Const(1),
				device.Const(n)}})
			bind.Bufs = append(bind.Bufs, zeros(t, dev, n), zeros(t, dev, 1))
		}
		p, err := dev.Build(steps, 2*count)
		require.NoError(t, err)
		_, err = dev.Run(p, bind)
		require.NoError(t, err)
		assert.Equal(t, int64(2*count), dev.Stats()["dispatches"], "two passes each")
		assert.Equal(t, waves, dev.Stats()["waves"], "%d sums", count)
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
	b := loopir.NewBuilder("scale", 1, 0)
	by := b.Scalar(ir.F32)
	at := b.Linear(b.Buf(ir.F32, loopir.ReadWrite), -1)
	b.Map()
	b.Store(at, b.Add(b.Load(at), b.Param(by)))
	d := fake.New()
	dev := open(t, d, gpu.Options{Core: true})
	p, err := dev.Build([]device.Step{{Op: b.Kernel(), Bufs: []int{0}, Params: []device.Param{device.Const(1),
		{From: device.Scalar}}}}, 1)
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

// replayed is a program of merged and single steps whose scalars change from run to run.
func replayed(t testing.TB) (*gpu.Device, func()) {
	t.Helper()
	b := loopir.NewBuilder("scale", 1, 0)
	by := b.Scalar(ir.F32)
	at := b.Linear(b.Buf(ir.F32, loopir.ReadWrite), b.Offset())
	b.Map()
	b.Store(at, b.Mul(b.Load(at), b.Param(by)))
	k := b.Kernel()
	var steps []device.Step
	for i := range 40 {
		scale := device.Step{Op: k, Bufs: []int{i}, Params: []device.Param{device.Const(8),
			{From: device.Scalar, Index: int32(i)}, {From: device.Offset}}}
		steps = append(steps, scale, on(increment(8), i), on(other(8), i/4))
	}
	d := fake.New()
	d.Idle = true
	dev, err := gpu.Open(d, gpu.Options{AllowSoftware: true, NoProbe: true})
	require.NoError(t, err)
	p, err := dev.Build(steps, 40)
	require.NoError(t, err)
	binds := make([]*device.Binding, 2) // as two windows in flight have them
	for i := range binds {
		binds[i] = &device.Binding{Offsets: make([]int64, 1), Scalars: make([]uint64, 40)}
		for range 40 {
			buf, err := dev.Alloc(32)
			require.NoError(t, err)
			binds[i].Bufs = append(binds[i].Bufs, buf)
		}
	}
	n := 0
	run := func() {
		n++
		bind := binds[n%2]
		for i := range bind.Scalars {
			bind.Scalars[i] = uint64(n)
		}
		f, err := dev.Run(p, bind)
		require.NoError(t, err)
		require.NoError(t, dev.Wait(f, time.Minute, nil))
	}
	for range 4 {
		run()
	}
	return dev, run
}

// TestReplayAllocatesNothing: a run that differs from an earlier one in its numbers only makes no garbage, and finds
// every bind group.
func TestReplayAllocatesNothing(t *testing.T) {
	dev, run := replayed(t)
	defer dev.Close()
	before := dev.Stats()
	assert.Zero(t, testing.AllocsPerRun(100, run))
	after := dev.Stats()
	assert.Equal(t, before["bind_group_misses"], after["bind_group_misses"])
	assert.Equal(t, int64(101), after["submits"]-before["submits"], "one a run")
}

// BenchmarkReplay is the host's part of a replayed program of 120 steps, without the driver's.
func BenchmarkReplay(b *testing.B) {
	dev, run := replayed(b)
	defer dev.Close()
	b.ReportAllocs()
	for b.Loop() {
		run()
	}
}
