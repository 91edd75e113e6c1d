package gpu_test

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/gpu"
	"github.com/torchlette/torchlette/gpu/fake"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// scaled is a step on slot 0 with a kernel of its own for each factor.
func scaled(factor float64, n int64) device.Step {
	b := loopir.NewBuilder(fmt.Sprintf("scaled_%g", factor), 1, 0)
	x := b.Linear(b.Buf(ir.F32, loopir.ReadWrite), -1)
	b.Map()
	b.Store(x, b.Mul(b.Load(x), b.Float(ir.F32, factor)))
	return device.Step{Op: b.Kernel(), Bufs: []int{0}, Params: []device.Param{device.Const(n)}}
}

// gate holds pipelines back until it is opened.
type gate struct {
	open    chan struct{}
	passes  atomic.Bool // pipelines made from now on do not wait
	waiting atomic.Int32
}

func (g *gate) compile(*gpu.Shader) {
	if !g.passes.Load() {
		g.waiting.Add(1)
		<-g.open
	}
}

// floats reads n floats.
func floats(t *testing.T, d *gpu.Device, b device.Buffer, n int) []float32 {
	t.Helper()
	out := make([]float32, n)
	mem := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(out))), 4*n)
	require.NoError(t, d.Read(b, ir.F32, 0, mem))
	return out
}

// slow opens a device whose pipelines wait for the gate.
func slow(t *testing.T) (*gpu.Device, *fake.Driver, *gate) {
	d, g := fake.New(), &gate{open: make(chan struct{})}
	d.Compile = g.compile
	return open(t, d, gpu.Options{}), d, g
}

// Compile returns before the driver has made a pipeline; programs built before it run meanwhile, and the program comes
// when all pipelines are there.
func TestCompileDoesNotWait(t *testing.T) {
	dev, _, g := slow(t)
	b := zeros(t, dev, 4)
	g.passes.Store(true)
	p, err := dev.Build([]device.Step{increment(4)}, 1)
	require.NoError(t, err)
	g.passes.Store(false)
	c, err := dev.Compile([]device.Step{increment(4), scaled(2, 4), scaled(3, 4)}, 1)
	require.NoError(t, err)
	bind := &device.Binding{Bufs: []device.Buffer{b}}
	for range 3 {
		_, err = dev.Run(p, bind)
		require.NoError(t, err)
		assert.False(t, c.Done())
	}
	assert.Equal(t, []float32{3, 3, 3, 3}, floats(t, dev, b, 4))
	close(g.open)
	require.Eventually(t, c.Done, 10*time.Second, time.Millisecond)
	made := dev.Stats()["pipelines"]
	q, err := c.Program()
	require.NoError(t, err)
	assert.Equal(t, made, dev.Stats()["pipelines"])
	_, err = dev.Run(q, bind)
	require.NoError(t, err)
	assert.Equal(t, []float32{24, 24, 24, 24}, floats(t, dev, b, 4))
}

// Build needs a kernel that is queued: it makes it itself.
func TestBuildTakesQueuedKernels(t *testing.T) {
	dev, d, g := slow(t)
	var steps []device.Step
	for i := range 40 {
		steps = append(steps, scaled(float64(i+2), 4))
	}
	c, err := dev.Compile(steps, 1)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return g.waiting.Load() > 0 }, 10*time.Second, time.Millisecond)
	g.passes.Store(true) // those that wait go on waiting
	_, err = dev.Build(steps[39:], 1)
	require.NoError(t, err)
	assert.False(t, c.Done())
	close(g.open)
	require.Eventually(t, c.Done, 10*time.Second, time.Millisecond)
	assert.EqualValues(t, 40, d.Calls.Pipeline, "each text is compiled once")
}

// The pipelines of a program that is waited for are made by several threads at once.
func TestBuildCompilesInSeveralThreads(t *testing.T) {
	const n = 3
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n))
	d := fake.New()
	dev := open(t, d, gpu.Options{})
	var begun atomic.Int32
	met := make(chan struct{})
	d.Compile = func(*gpu.Shader) {
		if begun.Add(1) == n {
			close(met)
		}
		select {
		case <-met:
		case <-time.After(10 * time.Second):
			t.Error("no other thread came")
		}
	}
	var steps []device.Step
	for i := range n {
		steps = append(steps, scaled(float64(i+2), 4))
	}
	_, err := dev.Build(steps, 1)
	require.NoError(t, err)
}

// A driver that can take pipelines from one thread only makes them in Compile.
func TestOneThreadCompilesAtOnce(t *testing.T) {
	d := fake.New()
	d.Features.Threads = false
	dev := open(t, d, gpu.Options{})
	c, err := dev.Compile([]device.Step{scaled(2, 4), scaled(3, 4)}, 1)
	require.NoError(t, err)
	assert.True(t, c.Done())
}

// A pipeline that fails beside runs is an error of its program alone; a later program tries it again.
func TestAFailedCompilationHarmsNothing(t *testing.T) {
	d := fake.New()
	dev := open(t, d, gpu.Options{})
	d.Faults.Pipeline = d.Calls.Pipeline + 1
	c, err := dev.Compile([]device.Step{scaled(2, 4)}, 1)
	require.NoError(t, err)
	require.Eventually(t, c.Done, 10*time.Second, time.Millisecond)
	_, err = c.Program()
	code(t, err, ir.ErrKernelExecution)
	assert.ErrorContains(t, err, "compilation of kernel scaled_2")
	_, err = dev.Build([]device.Step{scaled(2, 4)}, 1)
	require.NoError(t, err)
}

// Close waits for the pipelines in the making and drops the others; no goroutine and no pipeline is left.
func TestCloseStopsCompiling(t *testing.T) {
	dev, d, g := slow(t)
	var steps []device.Step
	for i := range 40 {
		steps = append(steps, scaled(float64(i+2), 4))
	}
	before := runtime.NumGoroutine()
	_, err := dev.Compile(steps, 1)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return g.waiting.Load() > 0 }, 10*time.Second, time.Millisecond)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		dev.Close()
	}()
	select {
	case <-closed:
		t.Fatal("Close did not wait for a pipeline in the making")
	case <-time.After(20 * time.Millisecond):
	}
	close(g.open)
	<-closed
	assert.Zero(t, d.Live.Pipelines)
	assert.Less(t, int(g.waiting.Load()), 40)
	for range 1000 { // they end soon after Close
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines, before Compile %d", runtime.NumGoroutine(), before)
}

// long is a step on a slot whose kernel has many statements.
func long(slot int) device.Step {
	b := loopir.NewBuilder("long", 1, 0)
	at := b.Linear(b.Buf(ir.F32, loopir.ReadWrite), -1)
	b.Map()
	x := b.Load(at)
	for i := range 60 {
		x = b.Add(b.Mul(x, b.Float(ir.F32, 0.5)), b.Float(ir.F32, float64(i)))
	}
	b.Store(at, x)
	return device.Step{Op: b.Kernel(), Bufs: []int{slot}, Params: []device.Param{device.Const(4)}}
}

// A program that a run waits for has short texts. Compile makes the long ones, which need fewer dispatches.
func TestAProgramThatIsWaitedForHasShortTexts(t *testing.T) {
	longest := 0
	d := fake.New()
	var mu sync.Mutex
	d.Compile = func(s *gpu.Shader) {
		mu.Lock()
		defer mu.Unlock()
		longest = max(longest, len(s.Text))
	}
	dev := open(t, d, gpu.Options{})
	var steps []device.Step
	bind := &device.Binding{}
	for i := range 8 {
		steps, bind.Bufs = append(steps, long(i)), append(bind.Bufs, zeros(t, dev, 4))
	}
	var dispatches [2]int64
	var values [2][]float32
	var texts [2]int
	for i := range 2 {
		p, err := dev.Build(steps, 8)
		if i == 1 {
			c, failed := dev.Compile(steps, 8)
			require.NoError(t, failed)
			require.Eventually(t, c.Done, 10*time.Second, time.Millisecond)
			p, err = c.Program()
		}
		require.NoError(t, err)
		assert.Equal(t, i == 0, p.(device.BriefProgram).Brief())
		before := dev.Stats()["dispatches"]
		for _, b := range bind.Bufs {
			require.NoError(t, dev.Upload(b, ir.F32, 0, make([]byte, 16)))
		}
		_, err = dev.Run(p, bind)
		require.NoError(t, err)
		values[i] = floats(t, dev, bind.Bufs[7], 4)
		dispatches[i], texts[i] = dev.Stats()["dispatches"]-before, longest
	}
	assert.Equal(t, values[0], values[1])
	assert.Less(t, dispatches[1], dispatches[0])
	assert.Less(t, 2*texts[0], texts[1])
	p, err := dev.Build([]device.Step{increment(4)}, 1)
	require.NoError(t, err)
	assert.False(t, p.(device.BriefProgram).Brief(), "nothing was shortened")
}
