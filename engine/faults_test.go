package engine

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/reference"
)

// target is a device that can fail at the n-th call of a kind.
type target interface {
	device.Device
	arm(kind string, at int)
	// calls counts the calls of each kind since the start.
	calls() map[string]int
	// left counts the device objects that the plans failed to free.
	left() int
	// shut closes the device and counts the objects that are left.
	shut() int
}

// hostTarget is the interpreter device.
type hostTarget struct {
	*reference.Device
	seen map[string]int
}

func newHost(lag bool) target {
	h := &hostTarget{Device: reference.New(), seen: map[string]int{}}
	h.Lag = lag
	return h
}

func (h *hostTarget) arm(kind string, at int) {
	h.Faults = map[string]reference.Faults{
		"": {}, "alloc": {Alloc: at}, "upload": {Upload: at}, "build": {Build: at}, "run": {Run: at},
		"lose": {Run: at, Lose: true},
	}[kind]
}

func (h *hostTarget) calls() map[string]int {
	h.seen["lose"] = h.seen["run"]
	return h.seen
}

func (h *hostTarget) left() int { return h.Programs }

func (h *hostTarget) shut() int { return 0 }

func (h *hostTarget) Alloc(bytes int64) (device.Buffer, error) {
	h.seen["alloc"]++
	return h.Device.Alloc(bytes)
}

func (h *hostTarget) Upload(b device.Buffer, d ir.DType, off int64, data []byte) error {
	h.seen["upload"]++
	return h.Device.Upload(b, d, off, data)
}

func (h *hostTarget) Build(steps []device.Step, slots int) (device.Program, error) {
	h.seen["build"]++
	return h.Device.Build(steps, slots)
}

func (h *hostTarget) Run(p device.Program, b *device.Binding) (device.Fence, error) {
	h.seen["run"]++
	return h.Device.Run(p, b)
}

func newTargetRig(t *testing.T, d target) *rig {
	r := &rig{t: t}
	r.e = New(Config{Open: func(ir.DeviceID) (device.Device, error) { return d, nil }})
	return r
}

// journey is a reference program under faults; it stops at the first error.
type journey struct {
	*rig
	err  *ir.Error
	live []T
}

func (j *journey) keep(x T) T {
	j.live = append(j.live, x)
	return x
}

// leaf uploads a tensor.
func (j *journey) leaf(grad bool, shape []int64, v ...float32) T {
	if j.err != nil {
		return 0
	}
	var o Out
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		bits := ir.EncodeFloat(ir.F32, float64(x))
		b = append(b, byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24))
	}
	if j.err = j.e.FromData(ir.F32, 0, shape, b, grad, 0, &o); j.err != nil {
		return 0
	}
	return j.keep(T(o.Handle))
}

// op records an operator, ip its in-place form.
func (j *journey) op(full string, args ...any) T {
	if j.err != nil {
		return 0
	}
	outs, err := j.call(0, full, args...)
	if j.err = err; err != nil {
		return 0
	}
	for _, o := range outs {
		j.keep(o)
	}
	return outs[0]
}

func (j *journey) ip(full string, args ...any) {
	if j.err == nil {
		_, j.err = j.call(1, full, args...)
	}
}

func (j *journey) values(x T) (v []float32) {
	if j.err == nil {
		v, j.err = j.tryRead(x)
	}
	return v
}

func (j *journey) walk(x T) {
	if j.err == nil {
		j.err = j.backward(x, 0)
	}
}

func (j *journey) mark() {
	if j.err == nil {
		j.err = j.step()
	}
}

func (j *journey) slot(x T) T {
	var o Out
	if j.err != nil {
		return 0
	}
	if _, j.err = j.e.Grad(uint64(x), &o); j.err != nil {
		return 0
	}
	return j.keep(T(o.Handle))
}

// journeys are the reference programs: reads, writes through views, several windows, a training step.
var journeys = map[string]func(j *journey) [][]float32{
	"chain": func(j *journey) [][]float32 {
		a, b := j.leaf(false, []int64{4}, 1, 2, 3, 4), j.leaf(false, []int64{4}, 5, 6, 7, 8)
		first := j.values(j.op("add", j.op("mul", a, b), 1.0))
		return [][]float32{first, j.values(j.op("sum", j.op("exp", a)))}
	},
	"writes": func(j *journey) [][]float32 {
		p := j.leaf(false, []int64{2, 3}, 1, 2, 3, 4, 5, 6)
		old := j.op("mul", p, 2.0)
		j.ip("add", j.op("select", p, 0, 1), 10.0)
		j.mark()
		j.ip("mul", p, 3.0)
		return [][]float32{j.values(old), j.values(p)}
	},
	"training": func(j *journey) [][]float32 {
		w := j.leaf(true, []int64{2, 2}, 1, 2, 3, 4)
		x := j.leaf(false, []int64{3, 2}, 1, 2, 3, 4, 5, 6)
		for i := 0; i < 2; i++ {
			y := j.op("matmul", x, w)
			j.walk(j.op("sum", j.op("mul", y, y)))
			j.mark()
		}
		return [][]float32{j.values(j.slot(w))}
	},
}

// faultless returns the values of a journey without faults, and its number of calls of each kind.
func faultless(t *testing.T, name string, open func() target) (map[string]int, [][]float32) {
	d := open()
	j := &journey{rig: newTargetRig(t, d)}
	want := journeys[name](j)
	require.Nil(t, j.err, "the program is wrong without faults")
	finish(t, j, d)
	return d.calls(), want
}

// finish drops all handles and requires that nothing is left.
func finish(t *testing.T, j *journey, d target) {
	t.Helper()
	j.drop(j.live...)
	if j.e.failures.poison == nil {
		require.Nil(t, j.step())
	}
	for _, k := range []string{"live_handles", "live_bases", "live_nodes", "tape_nodes", "live_storages", "live_buffers",
		"live_bytes"} {
		assert.Zero(t, j.stat(k), k)
	}
	require.Nil(t, j.e.SetOption("clear_plans", ""))
	assert.Zero(t, d.left(), "device programs are left")
}

// afterwards requires that the engine works: at once if it is not poisoned, else after a reset.
func afterwards(t *testing.T, r *rig, d target, open func() target) {
	t.Helper()
	d.arm("", 0)
	if r.e.failures.poison != nil {
		_, err := r.call(0, "add", r.deadHandle(), 1.0)
		require.NotNil(t, err)
		assert.Equal(t, ir.ErrPoisoned, err.Code)
		r.e.cfg.Open = func(ir.DeviceID) (device.Device, error) { return open(), nil }
		require.Nil(t, r.e.Reset())
	}
	x := r.floats(nil, 1, 2)
	y := r.do("add", x, 1.0)
	assert.Equal(t, []float32{2, 3}, r.read(y))
	r.drop(x, y)
}

// deadHandle is a handle that no engine made.
func (r *rig) deadHandle() T { return T(1<<40 | 7) }

// outcomes lists, by kind of fault, the error classes that the user may see and whether the engine is then poisoned.
var outcomes = map[string]struct {
	codes  []ir.Code
	poison bool
}{
	"alloc":  {[]ir.Code{ir.ErrOutOfMemory}, false},
	"upload": {[]ir.Code{ir.ErrOutOfMemory}, false},
	"build":  {[]ir.Code{ir.ErrOutOfMemory, ir.ErrKernelExecution}, false},
	"bind":   {[]ir.Code{ir.ErrKernelExecution, ir.ErrPoisoned}, true},
	"run":    {[]ir.Code{ir.ErrKernelExecution, ir.ErrPoisoned}, true},
	"map":    {[]ir.Code{ir.ErrKernelExecution, ir.ErrDeviceLost, ir.ErrPoisoned}, true},
	"lose":   {[]ir.Code{ir.ErrDeviceLost, ir.ErrPoisoned}, true},
}

func testEveryFault(t *testing.T, open func() target) {
	for name, program := range journeys {
		total, want := faultless(t, name, open)
		require.NotEmpty(t, total)
		t.Logf("%s: %v calls that can fail", name, total)
		for kind, n := range total {
			require.Positive(t, n, "%s makes no %s", name, kind)
			for at := 1; at <= n; at++ {
				d := open()
				d.arm(kind, at)
				r := newTargetRig(t, d)
				j := &journey{rig: r}
				got := program(j)
				label := fmt.Sprintf("%s: fault of %s %d", name, kind, at)
				checkOutcome(t, j, kind, got, want, label)
				finish(t, j, d)
				afterwards(t, r, d, open)
				assert.Zero(t, d.shut(), "%s: objects are left after the device was closed", label)
				if t.Failed() {
					t.Fatal(label)
				}
			}
		}
	}
}

// checkOutcome requires the right values or an allowed error class.
func checkOutcome(t *testing.T, j *journey, kind string, got, want [][]float32, label string) {
	t.Helper()
	if j.err == nil {
		assert.Equal(t, want, got, label)
		assert.Nil(t, j.e.failures.poison, label)
		assert.NotContains(t, []string{"lose", "run"}, kind, "%s: nothing was raised", label)
		return
	}
	o := outcomes[kind]
	assert.Contains(t, o.codes, j.err.Code, "%s: %s", label, j.err.Msg)
	assert.Equal(t, o.poison, j.e.failures.poison != nil, label)
}

func TestEveryFaultAtEveryPoint(t *testing.T) {
	testEveryFault(t, func() target { return newHost(false) })
}

func TestEveryFaultAtEveryPointOfAnAsynchronousDevice(t *testing.T) {
	testEveryFault(t, func() target { return newHost(true) })
}

func TestCommittedValuesStayReadableAfterAFailedAllocation(t *testing.T) {
	d := newHost(false)
	r := newTargetRig(t, d)
	p := r.floats(nil, 1, 2, 3)
	r.inplace("add", p, 1.0)
	assert.Equal(t, []float32{2, 3, 4}, r.read(p))
	big := r.do("expand", r.do("exp", p), []int64{64, 3})
	y := r.do("sum", r.do("mul", big, big))
	require.Nil(t, r.e.SetOption("memory_limit", "1"))
	_, err := r.tryRead(y)
	require.NotNil(t, err)
	assert.Equal(t, ir.ErrOutOfMemory, err.Code)
	require.Nil(t, r.e.SetOption("memory_limit", "0"))
	_, err = r.tryRead(y)
	require.NotNil(t, err)
	assert.Equal(t, ir.ErrOutOfMemory, err.Code)
	assert.Contains(t, err.Msg, "memory limit", "the first cause is named")
	assert.Equal(t, []float32{2, 3, 4}, r.read(p))
}

func TestPoisonLetsCleanupThrough(t *testing.T) {
	d := newHost(false)
	d.arm("run", 1)
	r := newTargetRig(t, d)
	a := r.floats(nil, 1, 2)
	y := r.do("add", a, 1.0)
	_, err := r.tryRead(y)
	require.NotNil(t, err)
	assert.Equal(t, ir.ErrKernelExecution, err.Code)
	for name, f := range map[string]func() *ir.Error{
		"record":    func() *ir.Error { _, err := r.call(0, "add", a, 1.0); return err },
		"read":      func() *ir.Error { _, err := r.tryRead(y); return err },
		"mark_step": r.step,
		"flush":     r.e.Flush,
		"backward":  func() *ir.Error { return r.backward(y, 0) },
	} {
		err := f()
		if assert.NotNil(t, err, name) {
			assert.Equal(t, ir.ErrPoisoned, err.Code, name)
			assert.Contains(t, err.Msg, "injected failure of submit 1", "%s names the first cause", name)
		}
	}
	r.e.Dispose(uint64(y))
	r.drop(a, y)
	assert.Zero(t, r.stat("live_handles"))
	assert.Zero(t, r.stat("live_storages"))
	afterwards(t, r, d, func() target { return newHost(false) })
}
