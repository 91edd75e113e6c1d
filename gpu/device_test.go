package gpu_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
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

func open(t *testing.T, d *fake.Driver, o gpu.Options) *gpu.Device {
	t.Helper()
	o.AllowSoftware, o.NoProbe = true, true
	dev, err := gpu.Open(d, o)
	require.NoError(t, err)
	t.Cleanup(dev.Close)
	return dev
}

// increment adds 1 to n floats in place.
func increment(n int) device.Step {
	b := loopir.NewBuilder("increment", 1, 0)
	at := b.Linear(b.Buf(ir.F32, loopir.ReadWrite), -1)
	b.Map()
	b.Store(at, b.Add(b.Load(at), b.Float(ir.F32, 1)))
	return device.Step{Op: b.Kernel(), Bufs: []int{0}, Params: []device.Param{device.Const(int64(n))}, Event: 7}
}

func code(t *testing.T, err error, want ir.Code) {
	t.Helper()
	var e *ir.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, want, e.Code, e.Msg)
}

// zeros makes a buffer of n zero words.
func zeros(t *testing.T, d *gpu.Device, n int) device.Buffer {
	t.Helper()
	b, err := d.Alloc(int64(4 * n))
	require.NoError(t, err)
	require.NoError(t, d.Upload(b, ir.I32, 0, make([]byte, 4*n)))
	return b
}

func TestNothingBeforeOpen(t *testing.T) {
	d := fake.New()
	assert.Zero(t, d.Calls.Adapters)
	open(t, d, gpu.Options{})
	assert.Equal(t, 1, d.Calls.Adapters)
}

func TestDescribeTellsFeaturesAndLimits(t *testing.T) {
	list, err := gpu.Describe(fake.New())
	require.NoError(t, err)
	require.NotEmpty(t, list)
	for _, d := range list {
		assert.Contains(t, d.Features, "shader-f16", d.Name)
		assert.Positive(t, d.Limits["maxStorageBufferBindingSize"], d.Name)
	}
}

func TestInjectedFaults(t *testing.T) {
	for _, c := range []struct {
		name   string
		inject func(*fake.Driver)
		want   ir.Code
		text   string
		lost   bool // the device stays unusable
	}{
		{"alloc", func(d *fake.Driver) { d.Faults.Alloc = d.Calls.Alloc + 1 }, ir.ErrOutOfMemory, "allocation of 512 bytes",
			false},
		{"memory", func(d *fake.Driver) { d.Faults.Memory = 1 }, ir.ErrOutOfMemory, "out of memory", false},
		{"pipeline", func(d *fake.Driver) { d.Faults.Pipeline = d.Calls.Pipeline + 1 }, ir.ErrKernelExecution,
			"kernel increment", false},
		{"bind group", func(d *fake.Driver) { d.Faults.BindGroup = d.Calls.BindGroup + 1 }, ir.ErrKernelExecution,
			"increment", false},
		{"submit", func(d *fake.Driver) { d.Faults.Submit = d.Calls.Submit + 1 }, ir.ErrKernelExecution, "submission", false},
		{"map", func(d *fake.Driver) { d.Faults.Map = d.Calls.Map + 1 }, ir.ErrKernelExecution, "mapping", false},
		{"loss", func(d *fake.Driver) { d.Faults.LoseAt = d.Calls.Submit + 1 }, ir.ErrDeviceLost, "lost", true},
		{"hang", func(d *fake.Driver) { d.Faults.HangAt = d.Calls.Submit + 1 }, ir.ErrDeviceLost, "did not end within", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := fake.New()
			dev := open(t, d, gpu.Options{WaitTimeout: 30 * time.Millisecond})
			work := func() error {
				b, err := dev.Alloc(400)
				if err != nil {
					return err
				}
				if err := dev.Upload(b, ir.F32, 0, make([]byte, 400)); err != nil {
					return err
				}
				p, err := dev.Build([]device.Step{increment(100)}, 1)
				if err != nil {
					return err
				}
				if _, err := dev.Run(p, &device.Binding{Bufs: []device.Buffer{b}}); err != nil {
					return err
				}
				out := make([]byte, 400)
				if err := dev.Read(b, ir.F32, 0, out); err != nil {
					return err
				}
				assert.Equal(t, bytes.Repeat([]byte{0, 0, 0x80, 0x3F}, 100), out)
				return nil
			}
			require.NoError(t, work())
			c.inject(d)
			// A second kernel text makes the device create the pipeline again.
			if c.name == "pipeline" {
				_, err := dev.Build([]device.Step{other(100)}, 1)
				code(t, err, c.want)
				require.ErrorContains(t, err, "other")
				return
			}
			err := work()
			code(t, err, c.want)
			require.ErrorContains(t, err, c.text)
			d.Faults = fake.Faults{}
			if c.lost {
				code(t, work(), ir.ErrDeviceLost)
				return
			}
			require.NoError(t, work(), "the device goes on")
		})
	}
}

func other(n int) device.Step {
	b := loopir.NewBuilder("other", 1, 0)
	at := b.Linear(b.Buf(ir.F32, loopir.ReadWrite), -1)
	b.Map()
	b.Store(at, b.Sub(b.Load(at), b.Float(ir.F32, 3)))
	return device.Step{Op: b.Kernel(), Bufs: []int{0}, Params: []device.Param{device.Const(int64(n))}}
}

func TestWaitTimeout(t *testing.T) {
	d := fake.New()
	dev := open(t, d, gpu.Options{})
	p, err := dev.Build([]device.Step{increment(4)}, 1)
	require.NoError(t, err)
	b := zeros(t, dev, 4)
	d.Faults.HangAt = d.Calls.Submit + 1
	f, err := dev.Run(p, &device.Binding{Bufs: []device.Buffer{b}})
	require.NoError(t, err)
	code(t, dev.Wait(f, time.Minute, func() bool { return true }), ir.ErrInterrupted)
	code(t, dev.Wait(f, 20*time.Millisecond, nil), ir.ErrDeviceLost)
	_, err = dev.Alloc(4)
	code(t, err, ir.ErrDeviceLost)
}

func TestBackpressure(t *testing.T) {
	d := fake.New()
	d.Lag = 5
	dev := open(t, d, gpu.Options{})
	p, err := dev.Build([]device.Step{increment(4)}, 1)
	require.NoError(t, err)
	b := zeros(t, dev, 4)
	for range 100 {
		f, err := dev.Run(p, &device.Binding{Bufs: []device.Buffer{b}})
		require.NoError(t, err)
		if f > 33 {
			assert.True(t, dev.Done(f-33), "runs pile up: %d", f)
		}
	}
}

// towards halves n floats in place and adds a number.
func towards(n int, number float64) device.Step {
	b := loopir.NewBuilder("towards", 1, 0)
	at := b.Linear(b.Buf(ir.F32, loopir.ReadWrite), -1)
	b.Map()
	b.Store(at, b.Add(b.Mul(b.Load(at), b.Float(ir.F32, 0.5)), b.Float(ir.F32, number)))
	return device.Step{Op: b.Kernel(), Bufs: []int{0}, Params: []device.Param{device.Const(int64(n))}}
}

// TestLongProgramsAreSubmittedInParts: the device begins while the host encodes the rest. The order is kept, and
// uploads come first.
func TestLongProgramsAreSubmittedInParts(t *testing.T) {
	for _, c := range []struct{ steps, submits int }{{1, 1}, {48, 1}, {49, 2}, {112, 2}, {113, 3}, {300, 5}} {
		d := fake.New()
		dev := open(t, d, gpu.Options{})
		var steps []device.Step
		want := float32(0)
		for i := range c.steps {
			steps = append(steps, towards(8, float64(i%5)))
			want = want*0.5 + float32(i%5)
		}
		p, err := dev.Build(steps, 1)
		require.NoError(t, err)
		b := zeros(t, dev, 8)
		before := d.Calls.Submit
		_, err = dev.Run(p, &device.Binding{Bufs: []device.Buffer{b}})
		require.NoError(t, err)
		assert.Equal(t, c.submits, d.Calls.Submit-before, "%d steps", c.steps)
		got := make([]byte, 4)
		require.NoError(t, dev.Read(b, ir.F32, 0, got))
		assert.Equal(t, want, math.Float32frombits(binary.LittleEndian.Uint32(got)), "%d steps", c.steps)
	}
}

// TestBindGroups: replays over the same buffers make no groups, and replays over known sets of buffers find theirs.
func TestBindGroups(t *testing.T) {
	d := fake.New()
	dev := open(t, d, gpu.Options{})
	p, err := dev.Build([]device.Step{increment(4), increment(4)}, 1)
	require.NoError(t, err)
	a, b := zeros(t, dev, 4), zeros(t, dev, 4)
	for i := range 20 {
		buf := a
		if i%3 == 0 {
			buf = b
		}
		_, err := dev.Run(p, &device.Binding{Bufs: []device.Buffer{buf}})
		require.NoError(t, err)
	}
	s := dev.Stats()
	assert.EqualValues(t, 2, d.Calls.BindGroup)
	assert.EqualValues(t, 2, s["bind_groups"])
	assert.EqualValues(t, 2, s["bind_group_misses"])
	assert.Positive(t, s["bind_group_hits"])
	dev.Free(a)
	assert.EqualValues(t, 1, dev.Stats()["bind_groups"], "groups go with their buffers")
	_, err = dev.Run(p, &device.Binding{Bufs: []device.Buffer{b}})
	require.NoError(t, err)
	assert.EqualValues(t, 1, dev.Stats()["pipelines"])
}

// product multiplies an m x k matrix by a k x n one.
func product(m, n, k int) device.Step {
	st := device.Step{Op: &launch.Gemm{Type: ir.F32, AUnit: 'k', BUnit: 'n'}, Bufs: []int{0, 1, 2}}
	for _, p := range []int{m, n, k, k, 1, 0, n, 1, 0} {
		st.Params = append(st.Params, device.Const(int64(p)))
	}
	return st
}

// TestScratchGrows: products whose K is divided share scratch memory, which grows while older programs use it.
func TestScratchGrows(t *testing.T) {
	const m, n, k = 32, 32, 512
	d := fake.New()
	dev := open(t, d, gpu.Options{})
	raw := make([]byte, 4*m*k)
	for i := range m * k {
		binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(1))
	}
	bufs := []device.Buffer{zeros(t, dev, m*k), zeros(t, dev, k*n), zeros(t, dev, m*n)}
	for _, b := range bufs[:2] {
		require.NoError(t, dev.Upload(b, ir.F32, 0, raw))
	}
	p, err := dev.Build([]device.Step{product(m, n, k)}, 3)
	require.NoError(t, err)
	groups := make([]int64, 2)
	for i := range groups {
		_, err = dev.Run(p, &device.Binding{Bufs: bufs})
		require.NoError(t, err)
		require.NoError(t, dev.Read(bufs[2], ir.F32, 0, raw[:4*m*n]))
		assert.InDelta(t, k, ir.DecodeFloat(ir.F32, loopir.LoadBits(ir.F32, raw, m*n-1)), 0)
		groups[i] = dev.Stats()["bind_group_misses"]
		_, err = dev.Build([]device.Step{product(3072, 768, 2048)}, 3) // parts of 9 MiB each
		require.NoError(t, err)
	}
	assert.Equal(t, []int64{2, 4}, groups, "both passes name the scratch memory")
}

// TestRunAfterFailure: a run that failed midway leaves no step bound to old buffers.
func TestRunAfterFailure(t *testing.T) {
	d := fake.New()
	dev := open(t, d, gpu.Options{})
	p, err := dev.Build([]device.Step{increment(4), other(4)}, 1)
	require.NoError(t, err)
	a, b := zeros(t, dev, 4), zeros(t, dev, 4)
	_, err = dev.Run(p, &device.Binding{Bufs: []device.Buffer{a}})
	require.NoError(t, err)
	d.Faults.BindGroup = d.Calls.BindGroup + 2
	_, err = dev.Run(p, &device.Binding{Bufs: []device.Buffer{b}})
	code(t, err, ir.ErrKernelExecution)
	_, err = dev.Run(p, &device.Binding{Bufs: []device.Buffer{b}})
	require.NoError(t, err)
	for _, buf := range []device.Buffer{a, b} {
		raw := make([]byte, 4)
		require.NoError(t, dev.Read(buf, ir.F32, 0, raw))
		assert.InDelta(t, -2, ir.DecodeFloat(ir.F32, loopir.LoadBits(ir.F32, raw, 0)), 0)
	}
}

// TestParameterChunks needs more parameter blocks than the uniform buffer holds.
func TestParameterChunks(t *testing.T) {
	d := fake.New()
	dev := open(t, d, gpu.Options{Core: true})
	const steps = 1100 // of 256 bytes each, in 256 KiB
	list := make([]device.Step, steps)
	for i := range list {
		list[i] = increment(1 + i%3) // parameters differ
	}
	p, err := dev.Build(list, 1)
	require.NoError(t, err)
	b := zeros(t, dev, 4)
	for range 2 {
		_, err = dev.Run(p, &device.Binding{Bufs: []device.Buffer{b}})
		require.NoError(t, err)
	}
	got := make([]float32, 4)
	raw := make([]byte, 16)
	require.NoError(t, dev.Read(b, ir.F32, 0, raw))
	_, err = binary.Decode(raw, binary.LittleEndian, got)
	require.NoError(t, err)
	assert.Equal(t, []float32{2200, 2 * 733, 2 * 366, 0}, got)
}

func TestLimits(t *testing.T) {
	dev := open(t, fake.New(), gpu.Options{MaxBinding: 1024, MaxStorageBuffers: 8})
	p, err := dev.Build([]device.Step{increment(300)}, 1)
	require.NoError(t, err)
	_, err = dev.Run(p, &device.Binding{Bufs: []device.Buffer{zeros(t, dev, 300)}})
	code(t, err, ir.ErrRuntime)
	require.ErrorContains(t, err, "a binding shows at most 1024 bytes")

	p, err = dev.Build([]device.Step{increment(200)}, 1)
	require.NoError(t, err)
	_, err = dev.Run(p, &device.Binding{Bufs: []device.Buffer{zeros(t, dev, 300)}})
	require.NoError(t, err, "only what the kernel reaches has to be visible")

	b := loopir.NewBuilder("nine", 1, 0)
	st := device.Step{Params: []device.Param{device.Const(4)}}
	sum := -1
	for i := range 8 {
		x := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1))
		if st.Bufs = append(st.Bufs, i); sum >= 0 {
			x = b.Add(sum, x)
		}
		sum = x
	}
	out := b.Linear(b.Buf(ir.F32, loopir.Write), -1)
	b.Map()
	b.Store(out, sum)
	st.Op, st.Bufs = b.Kernel(), append(st.Bufs, 8)
	_, err = dev.Build([]device.Step{st}, 9)
	code(t, err, ir.ErrKernelExecution)
	require.ErrorContains(t, err, "too many buffers")

	_, err = dev.Build([]device.Step{increment(1 << 32)}, 1)
	code(t, err, ir.ErrRuntime)
	require.ErrorContains(t, err, "too many elements")
}

// TestWindows works on tensors larger than a binding, with views and a constant.
func TestWindows(t *testing.T) {
	dev := open(t, fake.New(), gpu.Options{MaxBinding: 64 << 10})
	const n, shift = 40000, 12
	b := loopir.NewBuilder("scaled_sum", 2, 0)
	off := b.Offset()
	x := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), off))
	h := b.Load(b.Linear(b.Buf(ir.F16, loopir.Read), -1))
	c := b.Load(b.Access(b.Buf(ir.F32, loopir.Read), -1))
	out := b.Linear(b.Buf(ir.F32, loopir.Write), -1)
	b.Map()
	b.Store(out, b.Add(b.Mul(x, c), h))
	p, err := dev.Build([]device.Step{{Op: b.Kernel(), Bufs: []int{0, 1, 2, 3},
		Params: []device.Param{device.Const(4), device.Const(n / 4), {From: device.Offset}}}}, 4)
	require.NoError(t, err)
	xs, hs := make([]float32, n+shift), make([]byte, 2*n)
	for i := range xs {
		xs[i] = float32(i)
	}
	for i := range int64(n) {
		loopir.StoreBits(ir.F16, hs, i, ir.EncodeFloat(ir.F16, float64(i%5)))
	}
	raw, err := binary.Append(nil, binary.LittleEndian, xs)
	require.NoError(t, err)
	bind := &device.Binding{Offsets: []int64{shift}}
	for _, data := range [][]byte{raw, hs, {0, 0, 0, 0x40}, make([]byte, 4*n)} {
		buf, err := dev.Alloc(int64(len(data)))
		require.NoError(t, err)
		typ := ir.F32
		if len(data) == 2*n {
			typ = ir.F16
		}
		require.NoError(t, dev.Upload(buf, typ, 0, data))
		bind.Bufs = append(bind.Bufs, buf)
	}
	for range 2 {
		_, err = dev.Run(p, bind)
		require.NoError(t, err)
	}
	got := make([]byte, 4*n)
	require.NoError(t, dev.Read(bind.Bufs[3], ir.F32, 0, got))
	for i := range int64(n) {
		want := float32(2*(i+shift) + i%5)
		if v := float32(ir.DecodeFloat(ir.F32, loopir.LoadBits(ir.F32, got, i))); v != want {
			require.Equal(t, want, v, "element %d", i)
		}
	}
	bind.Offsets[0] = 8000
	_, err = dev.Run(p, bind)
	code(t, err, ir.ErrRuntime)
}

// TestStaging uploads much more than it keeps.
func TestStaging(t *testing.T) {
	dev := open(t, fake.New(), gpu.Options{})
	b := zeros(t, dev, 1<<20)
	p, err := dev.Build([]device.Step{increment(4)}, 1)
	require.NoError(t, err)
	for i := range 40 {
		data := bytes.Repeat([]byte{byte(i)}, 4<<20)
		require.NoError(t, dev.Upload(b, ir.I32, 0, data))
		_, err := dev.Run(p, &device.Binding{Bufs: []device.Buffer{b}})
		require.NoError(t, err)
	}
	assert.LessOrEqual(t, dev.Stats()["staging_bytes"], int64(64<<20))
	got := make([]byte, 4)
	require.NoError(t, dev.Read(b, ir.I32, 1000, got))
	assert.Equal(t, []byte{39, 39, 39, 39}, got)
}

// Uploads to a slow device wait for earlier ones, so that the host holds a bounded part of them. It then gives that
// back.
func TestUploadMemoryIsBounded(t *testing.T) {
	const bytes = 16 << 20
	d := fake.New()
	d.Lag = 100
	dev := open(t, d, gpu.Options{})
	data := make([]byte, bytes)
	var last device.Buffer
	for i := range 24 {
		b, err := dev.Alloc(bytes)
		require.NoError(t, err)
		data[0] = byte(i)
		require.NoError(t, dev.Upload(b, ir.I32, 0, data))
		assert.LessOrEqual(t, dev.Stats()["staging_bytes"], int64(144<<20))
		last = b
	}
	require.NoError(t, dev.Wait(dev.Submitted(), time.Minute, nil))
	dev.ReturnUnused()
	assert.Zero(t, dev.Stats()["staging_bytes"])
	got := make([]byte, 4)
	require.NoError(t, dev.Read(last, ir.I32, 0, got))
	assert.Equal(t, []byte{23, 0, 0, 0}, got)
	require.NoError(t, dev.Upload(last, ir.I32, 0, []byte{1, 2, 3, 4}))
	require.NoError(t, dev.Read(last, ir.I32, 0, got))
	assert.Equal(t, []byte{1, 2, 3, 4}, got)
}

// TestFreeAfterUpload: a pending copy must not write to a freed buffer.
func TestFreeAfterUpload(t *testing.T) {
	d := fake.New()
	dev := open(t, d, gpu.Options{})
	dev.Free(zeros(t, dev, 100))
	b := zeros(t, dev, 100)
	require.NoError(t, dev.Read(b, ir.I32, 0, make([]byte, 400)))
	assert.Panics(t, func() { dev.Free(b); dev.Free(b) })
}

func TestProfile(t *testing.T) {
	dev := open(t, fake.New(), gpu.Options{})
	p, err := dev.Build([]device.Step{increment(4), other(4), increment(8)}, 1)
	require.NoError(t, err)
	b := zeros(t, dev, 8)
	require.NoError(t, dev.Profile(true))
	for range 2 {
		_, err = dev.Run(p, &device.Binding{Bufs: []device.Buffer{b}})
		require.NoError(t, err)
	}
	times := dev.Profiles()
	require.Len(t, times, 6)
	assert.Equal(t, device.StepTime{Step: 0, Duration: time.Microsecond}, device.StepTime{Step: times[0].Step,
		Duration: times[0].Duration})
	assert.Equal(t, []int{0, 1, 2}, []int{times[3].Step, times[4].Step, times[5].Step})
	assert.Less(t, times[0].Start, times[1].Start)
	assert.Empty(t, dev.Profiles())
	require.NoError(t, dev.Profile(false))
	core := open(t, fake.New(), gpu.Options{Core: true})
	code(t, core.Profile(true), ir.ErrRuntime)
}

// TestProbeCache: the probe runs once for each adapter and driver.
func TestProbeCache(t *testing.T) {
	dir := t.TempDir()
	d := fake.New()
	for i := range 2 {
		before := d.Calls.Pipeline
		dev, err := gpu.Open(d, gpu.Options{CacheDir: dir})
		require.NoError(t, err)
		assert.Zero(t, dev.Stats()["own_functions"], "the interpreter is exact")
		assert.EqualValues(t, 8, dev.Caps().Storage[ir.I64])
		dev.Close()
		if i == 0 {
			assert.Greater(t, d.Calls.Pipeline, before)
		} else {
			assert.Equal(t, before, d.Calls.Pipeline)
		}
	}
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, files, 1)
}
