package engine

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/gpu"
	"github.com/torchlette/torchlette/gpu/fake"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/reference"
)

// trip is a reference program under interrupts; it repeats each call that an interrupt ended.
type trip struct {
	*rig
	stops int
	// between runs after each interrupt.
	between func(*trip)
	live    []T
}

// askAt interrupts at the n-th poll from now.
func (e *Engine) askAt(n int32) {
	e.waiter.jobs.interrupt = true
	e.waiter.jobs.stop.AskAt(n)
}

// again calls f until it completes without an interrupt.
func (j *trip) again(f func() *ir.Error) {
	for {
		err := f()
		if err == nil {
			return
		}
		require.Equal(j.t, ir.ErrInterrupted, err.Code, err.Msg)
		j.stops++
		require.Less(j.t, j.stops, 3, "an interrupt that nobody asked for")
		j.e.waiter.jobs.end(&job{stopping: true})
		if j.between != nil {
			j.between(j)
		}
	}
}

func (j *trip) keep(x T) T {
	j.live = append(j.live, x)
	return x
}

func (j *trip) leaf(v ...float32) T           { return j.keep(j.floats(nil, v...)) }
func (j *trip) op(full string, args ...any) T { return j.keep(j.do(full, args...)) }
func (j *trip) ip(full string, x T, args ...any) T {
	j.inplace(full, append([]any{x}, args...)...)
	return x
}

func (j *trip) values(x T) (v []float32) {
	j.again(func() (err *ir.Error) { v, err = j.tryRead(x); return err })
	return v
}

// markStep is MarkStep inside a job.
func (j *trip) markStep() (err *ir.Error) {
	defer j.e.leave(&err)
	j.e.enter()
	return j.e.markStep()
}

func (j *trip) mark() { j.again(j.step) }

func (j *trip) flush() { j.again(j.e.Flush) }

// trips are programs whose windows store in place early, late, twice, through views, or never.
var trips = map[string]func(j *trip) [][]float32{
	"pure": func(j *trip) [][]float32 {
		a := j.leaf(1, 2, 3, 4)
		x := a
		for range 6 {
			x = j.op("mul", j.op("add", x, 1.0), a)
		}
		return [][]float32{j.values(x), j.values(j.op("sum", x))}
	},
	"early store": func(j *trip) [][]float32 { // as in a batch norm: the rest of the window ignores the statistics
		stats, x := j.leaf(0.5, 0.25, 1, 2), j.leaf(1, 2, 3, 4)
		j.mark()
		j.ip("mul", stats, 0.9)
		j.ip("add", stats, j.op("mul", x, 0.1))
		for range 5 {
			x = j.op("exp", j.op("mul", x, 0.1))
		}
		return [][]float32{j.values(j.op("sum", j.op("add", x, stats))), j.values(stats)}
	},
	"stores of one base": func(j *trip) [][]float32 {
		p, g := j.leaf(1, 2, 3, 4), j.leaf(0.5, -0.5, 0.25, 8)
		for range 3 {
			old := j.op("mul", p, 2.0)
			j.ip("add", p, g)
			j.ip("mul", p, old)
		}
		return [][]float32{j.values(p), j.values(j.op("sum", p))}
	},
	"stores of two bases": func(j *trip) [][]float32 {
		p, q := j.leaf(1, 2, 3, 4), j.leaf(5, 6, 7, 8)
		j.ip("add", p, q)
		j.ip("add", q, p)
		j.ip("mul", p, q)
		j.mark()
		j.ip("sub", q, p)
		j.ip("add", p, 1.0)
		return [][]float32{j.values(q), j.values(p)}
	},
	"through views": func(j *trip) [][]float32 {
		p := j.keep(j.floats([]int64{2, 3}, 1, 2, 3, 4, 5, 6))
		j.mark()
		row, col := j.op("select", p, 0, 1), j.op("select", p, 1, 2)
		j.ip("add", row, 10.0)
		j.ip("mul", col, 3.0)
		j.ip("add", p, j.op("exp", p))
		j.flush()
		j.ip("sub", row, j.op("select", p, 0, 0))
		return [][]float32{j.values(j.op("sum", col)), j.values(p)}
	},
	"draws": func(j *trip) [][]float32 {
		p := j.leaf(1, 2, 3, 4)
		for range 3 {
			j.ip("mul", p, j.op("rand_like", p))
			j.ip("add", p, 1.0)
		}
		return [][]float32{j.values(p), j.values(j.op("rand_like", p))}
	},
	"training": func(j *trip) [][]float32 {
		w := j.keep(j.grad(j.floats([]int64{2, 2}, 1, 2, 3, 4)))
		x := j.keep(j.floats([]int64{3, 2}, 1, 2, 3, 4, 5, 6))
		var out [][]float32
		for range 2 {
			y := j.op("matmul", x, w)
			require.Nil(j.t, j.backward(j.op("sum", j.op("mul", y, y)), 0))
			var o Out
			_, err := j.e.Grad(uint64(w), &o)
			require.Nil(j.t, err)
			j.e.SetMode(ModeGrad, 0)
			j.ip("add", w, j.op("mul", j.keep(T(o.Handle)), -0.01))
			j.e.SetMode(ModeGrad, 1)
			j.mark()
			out = append(out, j.values(w))
		}
		return out
	},
}

// meanwhile lists what programs do after an interrupt. They make, drop and inspect tensors, which could affect what a
// held window still needs.
var meanwhile = map[string]func(j *trip){
	"nothing": func(*trip) {},
	"new tensors": func(j *trip) {
		for range 8 {
			j.leaf(7, 7, 7, 7)
		}
		y := j.op("mul", j.leaf(1, 2), 3.0)
		assert.Equal(j.t, []float32{3, 6}, j.read(y))
	},
	"plans dropped": func(j *trip) {
		require.Nil(j.t, j.e.SetOption("clear_plans", ""))
	},
	"explained": func(j *trip) {
		for _, x := range j.live {
			_, err := j.e.Info("explain", uint64(x))
			require.Nil(j.t, err)
		}
	},
}

func travel(t *testing.T, d device.Device, at int32) *trip {
	runtime.LockOSThread() // the engine identifies callers by their thread
	t.Cleanup(runtime.UnlockOSThread)
	j := &trip{rig: &rig{t: t}}
	j.e = New(Config{Open: func(ir.DeviceID) (device.Device, error) { return d, nil }})
	if at > 0 {
		j.e.askAt(at)
	}
	return j
}

// stopEverywhere runs every program with an interrupt at each poll and compares bits with an uninterrupted run.
func stopEverywhere(t *testing.T, open func() device.Device) {
	held, given := 0, 0
	for name, program := range trips {
		want := program(travel(t, open(), 0))
		for what, between := range meanwhile {
			at := int32(1)
			for stopped := true; stopped; at++ {
				j := travel(t, open(), at)
				label := fmt.Sprintf("%s, interrupted at poll %d, then %s", name, at, what)
				j.between = func(j *trip) {
					if j.e.waiter.held != nil {
						held++
					} else {
						given++
					}
					between(j)
				}
				require.Equal(t, want, program(j), label)
				stopped = j.stops > 0
				j.e.waiter.jobs.end(&job{stopping: true})
				j.drop(j.live...)
				require.Nil(t, j.step(), label)
				for _, k := range []string{"live_handles", "live_bases", "live_nodes", "live_storages", "live_buffers"} {
					require.Zero(t, j.stat(k), "%s: %s", label, k)
				}
			}
			require.Greater(t, at, int32(3), "%s has few points to stop at", name)
		}
	}
	assert.Positive(t, held, "no window was held")
	assert.Positive(t, given, "no window was given up")
}

func TestAWindowStoppedAnywhereGivesTheSameBits(t *testing.T) {
	stopEverywhere(t, func() device.Device { return reference.New() })
}

func TestAWindowStoppedAnywhereGivesTheSameBitsOnAnAsynchronousDevice(t *testing.T) {
	stopEverywhere(t, func() device.Device { d := reference.New(); d.Lag = true; return d })
}

func TestAWindowStoppedAnywhereGivesTheSameBitsOnTheCPU(t *testing.T) {
	for _, threads := range []int{1, 3} {
		stopEverywhere(t, func() device.Device {
			d, err := cpu.New(cpu.Options{Threads: threads})
			require.NoError(t, err)
			t.Cleanup(d.Close)
			return d
		})
	}
}

// A window can be interrupted again while it is resumed.
func TestAHeldWindowCanBeStoppedAgain(t *testing.T) {
	j := travel(t, reference.New(), 0)
	j.e.planner.debug.Off = []string{"fuse"} // so that there is a step for each node
	p := j.leaf(1, 2)
	for range 4 {
		j.ip("mul", p, 3.0)
		j.ip("add", p, 1.0)
	}
	for n := 1; ; n++ {
		j.e.askAt(2)
		_, err := j.tryRead(p)
		j.e.waiter.jobs.end(&job{stopping: true})
		if err == nil {
			require.Greater(t, n, 3)
			break
		}
		require.Equal(t, ir.ErrInterrupted, err.Code)
	}
	assert.Equal(t, []float32{121, 202}, j.read(p))
}

// slow is a device that calls step before each run, to request a pause.
type slow struct {
	*reference.Device
	step func()
}

func (s *slow) Run(p device.Program, b *device.Binding) (device.Fence, error) {
	s.step()
	return s.Device.Run(p, b)
}

func TestAPausedRunGoesOnAsAJobAndLosesNothing(t *testing.T) {
	d := &slow{Device: reference.New()}
	j := travel(t, d, 0)
	j.e.planner.debug.Off = []string{"fuse"} // so that there is a step for each node
	p := j.leaf(1, 2)
	x := p
	for range 6 {
		x = j.op("mul", x, 2.0)
	}
	j.ip("add", p, x)
	steps := 0
	d.step = func() {
		if steps++; steps == 1 {
			j.e.waiter.jobs.stop.AskAt(4) // stands in for the deadline, after three steps
		}
	}
	assert.Equal(t, []float32{65, 130}, j.read(p))
	assert.Equal(t, 2, steps, "the run was taken up once")
	assert.EqualValues(t, 7, j.stat("device_dispatches"), "each step has run once")
}

func TestInterruptStopsTheJobOfItsThreadAlone(t *testing.T) {
	d := &slow{Device: reference.New()}
	j := travel(t, d, 0)
	x := j.leaf(1, 2)
	for range 3 {
		j.ip("mul", x, 2.0)
	}
	began, goOn := make(chan bool), make(chan bool)
	d.step = func() { close(began); <-goOn; d.step = func() {} }
	done := make(chan bool)
	go func() {
		defer close(done)
		<-began
		j.e.Interrupt(time.Millisecond) // of another thread: no effect
		assert.False(t, j.e.waiter.jobs.stop.Asked())
		close(goOn)
	}()
	require.Nil(t, j.step())
	<-done
	assert.Equal(t, []float32{8, 16}, j.read(x))
}

func TestInterruptEndsTheWaitAndTheNextReadComputes(t *testing.T) {
	d := &slow{Device: reference.New()}
	j := travel(t, d, 0)
	x := j.leaf(1, 2)
	j.ip("mul", x, 2.0)
	began, goOn := make(chan bool), make(chan bool)
	d.step = func() { close(began); <-goOn; d.step = func() {} }
	pending, err := j.e.run("mark_step", 0, time.Microsecond, func() *ir.Error { return j.markStep() })
	require.True(t, pending)
	require.Nil(t, err)
	<-began
	j.e.Interrupt(time.Microsecond) // does not wait for the end of the current step, which is long
	require.NotNil(t, j.e.waiter.jobs.current())
	pending, err = j.e.Force(uint64(x), time.Microsecond)
	require.True(t, pending, "the work that is stopping is waited for")
	require.Nil(t, err)
	close(goOn)
	assert.Equal(t, []float32{2, 4}, j.read(x))
	require.Nil(t, j.step())
}

func TestAWindowStoppedAnywhereGivesTheSameBitsOnAGPU(t *testing.T) {
	stopEverywhere(t, func() device.Device {
		d := fake.New()
		d.Kind = gpu.Software // small workgroups, because the interpreter pays for every lane
		d.Lag = 2
		dev, err := gpu.Open(d, gpu.Options{AllowSoftware: true, CacheDir: "-", NoProbe: true, Part: 1})
		require.NoError(t, err)
		t.Cleanup(dev.Close)
		return dev
	})
}

// Work submitted before the interrupt completes; the rest is never submitted.
func TestTheRestOfAWindowIsNotSubmittedToAGPU(t *testing.T) {
	drv := fake.New()
	drv.Kind = gpu.Software
	dev, err := gpu.Open(drv, gpu.Options{AllowSoftware: true, CacheDir: "-", NoProbe: true, Part: 2})
	require.NoError(t, err)
	defer dev.Close()
	j := travel(t, dev, 0)
	x := j.leaf(1, 2)
	for range 40 {
		x = j.op("exp", j.op("mul", x, 0.5))
	}
	want := j.read(x)
	x = j.live[0]
	for range 40 {
		x = j.op("exp", j.op("mul", x, 0.5))
	}
	before := drv.Calls.Submit
	j.e.askAt(4)
	_, x2 := j.tryRead(x)
	require.NotNil(t, x2)
	require.Equal(t, ir.ErrInterrupted, x2.Code)
	some := drv.Calls.Submit - before
	assert.Positive(t, some)
	assert.Less(t, some, 5)
	j.e.waiter.jobs.end(&job{stopping: true})
	assert.Equal(t, want, j.read(x))
}

// lateGPU gives an engine on a GPU whose work ends when the test says so (Lag), and a view there, which is read by a
// copy.
func lateGPU(t *testing.T) (drv *fake.Driver, j *trip, x T) {
	drv = fake.New()
	drv.Kind = gpu.Software
	dev, err := gpu.Open(drv, gpu.Options{AllowSoftware: true, CacheDir: "-", NoProbe: true})
	require.NoError(t, err)
	t.Cleanup(func() { dev.Close() })
	j = travel(t, dev, 0)
	return drv, j, j.op("select", j.op("mul", j.keep(j.floats([]int64{2, 2}, 1, 2, 3, 4)), 2.0), 1, 0)
}

// A read of a busy GPU reports pending, leaves no state behind, and can be repeated.
func TestAReadOfABusyGPUIsPending(t *testing.T) {
	drv, j, x := lateGPU(t)
	drv.Lag = 1 << 30
	pending, xerr := j.e.Force(uint64(x), time.Second)
	require.False(t, pending)
	require.Nil(t, xerr)
	b := make([]byte, 8)
	for range 3 {
		pending, xerr = j.e.ReadWithin(uint64(x), b, time.Microsecond)
		require.Nil(t, xerr)
		require.True(t, pending)
	}
	drv.Lag = 0
	for pending {
		pending, xerr = j.e.ReadWithin(uint64(x), b, time.Second)
		require.Nil(t, xerr)
	}
	assert.Equal(t, []float32{2, 6}, j.read(x))
	assert.Equal(t, []byte{0, 0, 0, 64, 0, 0, 192, 64}, b)
}

// long is a program of steps with many tiles: maps, chains, reductions, products and sorts, and in-place updates of all
// elements, of rows, and by scattered additions. Some updates are one long step.
func long(j *trip) [][]float32 {
	const rows, cols = 300, 1000
	data := make([]float32, rows*cols)
	for i := range data {
		data[i] = float32(i*7919%1009)/1009 - 0.5
	}
	p, q := j.keep(j.floats([]int64{rows, cols}, data...)), j.keep(j.floats([]int64{rows, cols}, data...))
	x := j.op("mul", p, 2.0)
	j.ip("add", q, x) // q has its own storage from here on
	j.ip("mul", q, j.op("exp", x))
	gram := j.op("matmul", x, j.op("transpose", x, 0, 1))
	j.ip("add", q, j.op("matmul", gram, x)) // adds a product into its own storage
	s := j.op("softmax", p, 1)
	j.ip("sub", j.op("select", q, 0, 3), j.op("sum.dim", s, []int64{0}))
	j.ip("mul", q, 1e-3)
	order := j.keep(j.must("sort", j.op("reshape", p, []int64{rows * cols}), 0, false)[0])
	run := j.op("cumsum", j.op("reshape", q, []int64{rows * cols}), 0)
	total := j.op("sum", j.op("reshape", s, []int64{rows * cols}))
	j.ip("add", p, total)
	return [][]float32{j.values(q), j.values(run), j.values(s), j.values(order), j.values(p), j.values(total)}
}

func (j *trip) must(full string, args ...any) []T {
	o, err := j.call(0, full, args...)
	require.Nil(j.t, err, "%s: %v", full, err)
	return o
}

func TestLongStepsStoppedMidwayGiveTheSameBits(t *testing.T) {
	for _, threads := range []int{1, 3} {
		open := func() device.Device {
			d, err := cpu.New(cpu.Options{Threads: threads})
			require.NoError(t, err)
			t.Cleanup(d.Close)
			return d
		}
		want := long(travel(t, open(), 0))
		stops, held := 0, 0
		for at := int32(1); ; at += max(1, at/8) {
			j := travel(t, open(), at)
			j.between = func(j *trip) {
				if j.e.waiter.held != nil {
					held++
				}
			}
			got := long(j)
			for i := range want {
				require.True(t, slices.Equal(want[i], got[i]), "%d threads, poll %d: value %d", threads, at, i)
			}
			j.drop(j.live...)
			if j.stops == 0 {
				break
			}
			stops++
		}
		assert.Greater(t, stops, 20, "%d threads: there are few points to stop at", threads)
		assert.Positive(t, held)
	}
}

func TestOneCallComputesAndCopiesAValue(t *testing.T) {
	j := travel(t, reference.New(), 0)
	x, b := j.leaf(1, 2, 3, 4), make([]byte, 8)
	view := j.op("select", j.op("reshape", j.op("mul", x, 2.0), []int64{2, 2}), 1, 0)
	pending, err := j.e.ReadWithin(uint64(view), b, time.Minute)
	require.Nil(t, err)
	assert.False(t, pending)
	assert.Equal(t, []byte{0, 0, 0, 64, 0, 0, 192, 64}, b)
}

// The copy that makes a view dense must not serve a read of a later version.
func TestADenseViewIsForgottenAfterAWrite(t *testing.T) {
	r := newRig(t)
	x := r.do("neg", r.floats(nil, 1, 2, 3, 4))
	view := r.view(x, []int64{2}, []int64{2}, 0)
	_, err := r.e.Force(uint64(view), time.Second)
	require.Nil(t, err)
	require.NotZero(t, r.e.read.value)
	r.inplace("mul", x, 10.0)
	require.Equal(t, []float32{-10, -30}, r.readOnly(view, 2))
}

// A signal can end a read while the device is busy. Its copy must not serve a read of a later version.
func TestAReadThatWasGivenUpIsForgottenAfterAWrite(t *testing.T) {
	drv, j, x := lateGPU(t)
	drv.Lag = 1 << 30
	b := make([]byte, 8)
	for range 2 { // the first read ends when the job has computed
		pending, xerr := j.e.ReadWithin(uint64(x), b, time.Microsecond)
		require.Nil(t, xerr)
		require.True(t, pending)
	}
	drv.Lag = 0
	j.ip("mul", x, 2.0)
	for pending := true; pending; {
		var xerr *ir.Error
		pending, xerr = j.e.ReadWithin(uint64(x), b, time.Second)
		require.Nil(t, xerr)
	}
	assert.Equal(t, []byte{0, 0, 128, 64, 0, 0, 64, 65}, b)
}
