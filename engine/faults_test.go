package engine

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/device"
	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/kernels/interp"
)

// tally counts the calls that can fail, so that the loop knows when n is past the last.
type tally struct {
	*interp.Device
	alloc, upload, build, run int
}

func (c *tally) Alloc(bytes int64) (device.Buffer, error) {
	c.alloc++
	return c.Device.Alloc(bytes)
}

func (c *tally) Upload(b device.Buffer, d ir.DType, off int64, data []byte) error {
	c.upload++
	return c.Device.Upload(b, d, off, data)
}

func (c *tally) Build(steps []device.Step, slots int) (device.Program, error) {
	c.build++
	return c.Device.Build(steps, slots)
}

func (c *tally) Run(p device.Program, b *device.Binding) (device.Fence, error) {
	c.run++
	return c.Device.Run(p, b)
}

func newTallied(t *testing.T, f interp.Faults, lag bool) (*rig, *tally) {
	c := &tally{Device: interp.New()}
	c.Faults, c.Lag = f, lag
	r := &rig{t: t, dev: c.Device}
	r.e = New(Config{Open: func(ir.DeviceID) (device.Device, error) { return c, nil }})
	return r, c
}

// journey is a reference program under faults: it stops at the first error.
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

// op records an operator; ip its in-place form.
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

// journeys are the reference programs: reads, writes through views, several windows, a
// training step.
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

// calls gives the number of calls of each kind that a journey makes without faults.
func calls(t *testing.T, name string, lag bool) (tally, [][]float32) {
	r, c := newTallied(t, interp.Faults{}, lag)
	j := &journey{rig: r}
	want := journeys[name](j)
	require.Nil(t, j.err, "the program is wrong without faults")
	finish(t, j, c)
	return *c, want
}

// finish drops all handles and requires every level to be zero.
func finish(t *testing.T, j *journey, c *tally) {
	t.Helper()
	j.drop(j.live...)
	if j.e.poison == nil {
		require.Nil(t, j.step())
	}
	for _, k := range []string{"live_handles", "live_bases", "live_nodes", "tape_nodes", "live_storages", "live_buffers", "live_bytes"} {
		assert.Zero(t, j.stat(k), k)
	}
	require.Nil(t, j.e.SetOption("clear_plans", ""))
	assert.Zero(t, c.Programs, "device programs are left")
}

// afterwards requires that the engine works: as it is when not poisoned, else after a reset.
func afterwards(t *testing.T, r *rig, c *tally) {
	t.Helper()
	c.Faults = interp.Faults{}
	if r.e.poison != nil {
		_, err := r.call(0, "add", r.deadHandle(), 1.0)
		require.NotNil(t, err)
		fresh := &tally{Device: interp.New()}
		r.dev, r.e.cfg.Open = fresh.Device, func(ir.DeviceID) (device.Device, error) { return fresh, nil }
		require.Nil(t, r.e.Reset())
	}
	x := r.floats(nil, 1, 2)
	y := r.do("add", x, 1.0)
	assert.Equal(t, []float32{2, 3}, r.read(y))
	r.drop(x, y)
}

// deadHandle is a handle that no engine made.
func (r *rig) deadHandle() T { return T(1<<40 | 7) }

func testEveryFault(t *testing.T, lag bool) {
	for name, program := range journeys {
		total, want := calls(t, name, lag)
		for kind, n := range map[string]int{"alloc": total.alloc, "upload": total.upload, "build": total.build, "run": total.run, "lose": total.run} {
			require.Positive(t, n, "%s makes no %s", name, kind)
			for at := 1; at <= n; at++ {
				f := map[string]interp.Faults{
					"alloc": {Alloc: at}, "upload": {Upload: at}, "build": {Build: at}, "run": {Run: at}, "lose": {Run: at, Lose: true},
				}[kind]
				r, c := newTallied(t, f, lag)
				j := &journey{rig: r}
				got := program(j)
				label := fmt.Sprintf("%s: fault of %s %d", name, kind, at)
				checkOutcome(t, j, kind, got, want, label)
				finish(t, j, c)
				afterwards(t, r, c)
				if t.Failed() {
					t.Fatal(label)
				}
			}
		}
	}
}

// checkOutcome requires the right value or the right class.
func checkOutcome(t *testing.T, j *journey, kind string, got, want [][]float32, label string) {
	t.Helper()
	if j.err == nil {
		assert.Equal(t, want, got, label)
		assert.Nil(t, j.e.poison, label)
		assert.NotEqual(t, "lose", kind, label)
		return
	}
	switch kind {
	case "alloc", "upload", "build":
		assert.Contains(t, []ir.Code{ir.ErrOutOfMemory, ir.ErrValueLost}, j.err.Code, label)
		assert.Nil(t, j.e.poison, label)
	case "run":
		assert.Contains(t, []ir.Code{ir.ErrKernelExecution, ir.ErrPoisoned}, j.err.Code, label)
		assert.NotNil(t, j.e.poison, label)
	case "lose":
		assert.Contains(t, []ir.Code{ir.ErrDeviceLost, ir.ErrPoisoned}, j.err.Code, label)
		assert.NotNil(t, j.e.poison, label)
	}
}

func TestEveryFaultAtEveryPoint(t *testing.T) { testEveryFault(t, false) }

func TestEveryFaultAtEveryPointOfAnAsynchronousDevice(t *testing.T) { testEveryFault(t, true) }

func TestCommittedValuesStayReadableAfterAFailedAllocation(t *testing.T) {
	r, c := newTallied(t, interp.Faults{}, false)
	p := r.floats(nil, 1, 2, 3)
	r.inplace("add", p, 1.0)
	assert.Equal(t, []float32{2, 3, 4}, r.read(p))
	c.Faults.Alloc = c.alloc + 1
	big := r.do("expand", r.do("exp", p), []int64{64, 3})
	y := r.do("sum", r.do("mul", big, big))
	_, err := r.tryRead(y)
	if err != nil {
		assert.Equal(t, ir.ErrOutOfMemory, err.Code)
		_, err = r.tryRead(y)
		require.NotNil(t, err)
		assert.Equal(t, ir.ErrValueLost, err.Code)
		assert.Contains(t, err.Msg, "injected", "the first cause is named")
	}
	assert.Equal(t, []float32{2, 3, 4}, r.read(p))
}

func TestPoisonLetsCleanupThrough(t *testing.T) {
	r, c := newTallied(t, interp.Faults{Run: 1}, false)
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
	afterwards(t, r, c)
}
