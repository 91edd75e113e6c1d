package wgpu_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/gpu"
	"github.com/torchlette/torchlette/gpu/wgpu"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/device/devicetest"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// adapters lists what the driver finds; a machine without an adapter skips.
func adapters(t *testing.T) (*wgpu.Driver, []gpu.AdapterInfo) {
	t.Helper()
	driver := &wgpu.Driver{}
	list, err := gpu.Adapters(driver)
	require.NoError(t, err)
	if len(list) == 0 {
		t.Skip("no adapter")
	}
	return driver, list
}

// open makes a device of whatever adapter there is; a machine without one skips.
func open(t *testing.T, o gpu.Options) *gpu.Device {
	t.Helper()
	driver, _ := adapters(t)
	o.AllowSoftware = true
	if o.CacheDir == "" {
		o.CacheDir = "-"
	}
	d, err := gpu.Open(driver, o)
	require.NoError(t, err)
	return d
}

// openContext opens the first adapter without a gpu.Device; a machine without one skips.
func openContext(t *testing.T) gpu.Context {
	t.Helper()
	driver, list := adapters(t)
	ctx, err := driver.Open(list[0].Index, false)
	require.NoError(t, err)
	t.Cleanup(ctx.Close)
	return ctx
}

func TestConformance(t *testing.T) {
	devicetest.Run(t, func() device.Device { return open(t, gpu.Options{Merge: 8}) })
}

// TestConformanceCore uses core WebGPU only: parameters in uniform buffers, packed
// halves, 32-bit integers, 8 storage buffers.
func TestConformanceCore(t *testing.T) {
	devicetest.Run(t, func() device.Device { return open(t, gpu.Options{Core: true, Merge: 8}) })
}

// TestConformanceHardware runs the programs made for a GPU, whatever the adapter.
func TestConformanceHardware(t *testing.T) {
	devicetest.Run(t, func() device.Device { return open(t, gpu.Options{Hardware: true}) })
}

// TestConformanceEight forces the number of storage buffers that WebGPU guarantees.
func TestConformanceEight(t *testing.T) {
	devicetest.Run(t, func() device.Device { return open(t, gpu.Options{MaxStorageBuffers: 8}) })
}

// TestInvalidShader: an invalid text is an error that names the kernel, and the
// device goes on.
func TestInvalidShader(t *testing.T) {
	ctx := openContext(t)
	good := "@compute @workgroup_size(1) fn main() {}"
	for _, text := range []string{"fn main( {", "@compute @workgroup_size(1) fn main() { let x: u32 = 1.0; }",
		"@compute @workgroup_size(1) fn other() {}"} {
		_, err := ctx.CreatePipeline(&gpu.Shader{Name: "broken", Text: text, Entry: "main"})
		var e *gpu.DriverError
		require.ErrorAs(t, err, &e, "%s", text)
		require.NotEmpty(t, e.Msg)
		p, err := ctx.CreatePipeline(&gpu.Shader{Name: "whole", Text: good, Entry: "main"})
		require.NoError(t, err)
		ctx.ReleasePipeline(p)
	}
}

// chain is a program of n steps over one small buffer.
func chain(t testing.TB, d *gpu.Device, n int) (device.Program, *device.Binding) {
	t.Helper()
	b := loopir.NewBuilder("increment", 1, 0)
	off, by := b.Offset(), b.Scalar(ir.F32)
	at := b.Linear(b.Buf(ir.F32, loopir.ReadWrite), off)
	b.Map()
	b.Store(at, b.Add(b.Load(at), b.Param(by)))
	st := device.Step{Op: b.Kernel(), Bufs: []int{0}, Params: []device.Param{
		device.Const(64), {From: device.Offset}, {From: device.Scalar}}}
	steps := make([]device.Step, n)
	for i := range steps {
		steps[i] = st
		steps[i].Bufs = []int{i % 8}
	}
	p, err := d.Build(steps, 8)
	require.NoError(t, err)
	bind := &device.Binding{Offsets: []int64{0}, Scalars: []uint64{ir.EncodeFloat(ir.F32, 1)}}
	for range 8 {
		buf, err := d.Alloc(256)
		require.NoError(t, err)
		require.NoError(t, d.Upload(buf, ir.F32, 0, make([]byte, 256)))
		bind.Bufs = append(bind.Bufs, buf)
	}
	return p, bind
}

// TestRunAllocations: a replay allocates nothing a step.
func TestRunAllocations(t *testing.T) {
	d := open(t, gpu.Options{NoProbe: true})
	defer d.Close()
	if !d.Caps().Immediates {
		t.Skip("a driver that encodes through a Go API allocates")
	}
	p, bind := chain(t, d, 200)
	var last device.Fence
	allocs := testing.AllocsPerRun(20, func() {
		f, err := d.Run(p, bind)
		if err != nil {
			t.Fatal(err)
		}
		last = f
	})
	require.NoError(t, d.Wait(last, time.Minute, nil))
	require.LessOrEqual(t, allocs, 8.0)
}

// BenchmarkRun reports host time a dispatch (submission without waiting, but for
// backpressure) and time a dispatch with the device's.
func BenchmarkRun(b *testing.B) {
	driver := &wgpu.Driver{}
	d, err := gpu.Open(driver, gpu.Options{AllowSoftware: true, NoProbe: true})
	if err != nil {
		b.Skip(err)
	}
	defer d.Close()
	const steps = 600
	p, bind := chain(b, d, steps)
	for b.Loop() {
		host := time.Now()
		f, err := d.Run(p, bind)
		require.NoError(b, err)
		b.ReportMetric(float64(time.Since(host).Nanoseconds())/steps, "last-host-ns/dispatch")
		require.NoError(b, d.Wait(f, time.Minute, nil))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*steps), "ns/dispatch")
}

// realDevice opens a GPU; software adapters have nothing to measure.
func realDevice(b *testing.B) *gpu.Device {
	d, err := gpu.Open(&wgpu.Driver{}, gpu.Options{CacheDir: "-"})
	if err != nil {
		b.Skip(err)
	}
	b.Cleanup(d.Close)
	return d
}

// timeRuns replays p in batches, so that the host's part hides behind the device's.
func timeRuns(b *testing.B, d *gpu.Device, p device.Program, bind *device.Binding) {
	for range 3 {
		f, err := d.Run(p, bind)
		require.NoError(b, err)
		require.NoError(b, d.Wait(f, time.Minute, nil))
	}
	b.ResetTimer()
	var last device.Fence
	for range b.N {
		f, err := d.Run(p, bind)
		require.NoError(b, err)
		last = f
	}
	require.NoError(b, d.Wait(last, time.Minute, nil))
}

// BenchmarkScale is an elementwise kernel at memory speed.
func BenchmarkScale(b *testing.B) {
	d := realDevice(b)
	const n = 128 << 20
	k := loopir.NewBuilder("scale", 1, 0)
	x := k.Load(k.Linear(k.Buf(ir.F32, loopir.Read), -1))
	out := k.Linear(k.Buf(ir.F32, loopir.Write), -1)
	k.Map()
	k.Store(out, k.Mul(x, k.Float(ir.F32, 3)))
	p, err := d.Build([]device.Step{{Op: k.Kernel(), Bufs: []int{0, 1}, Params: []device.Param{device.Const(n)}}}, 2)
	require.NoError(b, err)
	bind := &device.Binding{}
	for range 2 {
		buf, err := d.Alloc(4 * n)
		require.NoError(b, err)
		bind.Bufs = append(bind.Bufs, buf)
	}
	timeRuns(b, d, p, bind)
	b.ReportMetric(8*n*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
}

// BenchmarkGemm is C = A B in float32, row-major.
func BenchmarkGemm(b *testing.B) {
	for _, c := range [][3]int64{{512, 512, 512}, {1024, 1024, 1024}, {2048, 2048, 2048}, {4096, 4096, 4096},
		{512, 3072, 768}, {512, 768, 768}, {1, 4096, 4096}} {
		b.Run(fmt.Sprintf("%dx%dx%d", c[0], c[1], c[2]), func(b *testing.B) {
			d := realDevice(b)
			m, n, k := c[0], c[1], c[2]
			st := device.Step{Op: &launch.Gemm{Type: ir.F32, AUnit: 'k', BUnit: 'n'}, Bufs: []int{0, 1, 2}}
			for _, v := range []int64{m, n, k, k, 1, 0, n, 1, 0} {
				st.Params = append(st.Params, device.Const(v))
			}
			p, err := d.Build([]device.Step{st, st, st, st}, 3)
			require.NoError(b, err)
			bind := &device.Binding{}
			for _, size := range []int64{m * k, k * n, m * n} {
				buf, err := d.Alloc(4 * size)
				require.NoError(b, err)
				bind.Bufs = append(bind.Bufs, buf)
			}
			timeRuns(b, d, p, bind)
			b.ReportMetric(4*2*float64(m*n*k)*float64(b.N)/b.Elapsed().Seconds()/1e12, "TFLOP/s")
		})
	}
}

// BenchmarkTransfer moves 64 MiB to the device and back.
func BenchmarkTransfer(b *testing.B) {
	d := realDevice(b)
	const bytes = 64 << 20
	host := make([]byte, bytes)
	buf, err := d.Alloc(bytes)
	require.NoError(b, err)
	b.SetBytes(2 * bytes)
	for b.Loop() {
		require.NoError(b, d.Upload(buf, ir.F32, 0, host))
		require.NoError(b, d.Read(buf, ir.F32, 0, host))
	}
}

// TestProfile takes timestamps of the device.
func TestProfile(t *testing.T) {
	d := open(t, gpu.Options{NoProbe: true})
	defer d.Close()
	if !d.Caps().Timestamps {
		t.Skip("no timestamps")
	}
	p, bind := chain(t, d, 5)
	require.NoError(t, d.Profile(true))
	_, err := d.Run(p, bind)
	require.NoError(t, err)
	times := d.Profiles()
	require.Len(t, times, 5)
	total := time.Duration(0)
	for i, s := range times {
		require.Equal(t, i, s.Step)
		total += s.Duration
	}
	require.Positive(t, total)
	require.Less(t, total, 10*time.Second)
}

// Pipelines are made in several threads beside other calls, and each call gets its own error.
func TestPipelinesAreMadeInSeveralThreads(t *testing.T) {
	ctx := openContext(t)
	if !ctx.Features().Threads {
		t.Skip("this driver takes pipelines from one thread")
	}
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for i := range 10 {
				text := fmt.Sprintf("@compute @workgroup_size(%d) fn main() {}", 1+n+8*i)
				if i%2 == n%2 {
					_, err := ctx.CreatePipeline(&gpu.Shader{Name: "broken", Text: text + fmt.Sprintf("fn f%d%d( {", n, i),
						Entry: "main"})
					assert.ErrorContains(t, err, fmt.Sprintf("fn f%d%d(", n, i))
					continue
				}
				p, err := ctx.CreatePipeline(&gpu.Shader{Name: "whole", Text: text, Entry: "main"})
				if assert.NoError(t, err) {
					ctx.ReleasePipeline(p)
				}
			}
		})
	}
	for range 100 {
		_, err := ctx.CreateBuffer(256, gpu.MapRead|gpu.StorageUsage|gpu.MapWrite, false) // usages that exclude each other
		assert.Error(t, err)
		b, err := ctx.CreateBuffer(256, gpu.StorageUsage, false)
		if assert.NoError(t, err) {
			ctx.DestroyBuffer(b)
		}
		require.NoError(t, ctx.Submit(nil, nil))
	}
	all.Wait()
}
