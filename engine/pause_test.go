package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/reference"
)

// watched is a device that reports each run.
type watched struct {
	device.Device
	run func(*device.Binding)
}

func (w *watched) Run(p device.Program, b *device.Binding) (device.Fence, error) {
	w.run(b)
	return w.Device.Run(p, b)
}

func TestAShortRunMakesNoJob(t *testing.T) {
	d := &watched{Device: reference.New()}
	j := travel(t, d, 0)
	runs, pending := 0, false
	d.run = func(*device.Binding) {
		runs++
		assert.Nil(t, j.e.waiter.jobs.current())
	}
	x, b := j.leaf(1, 2), make([]byte, 8)
	for name, wait := range map[string]func(h uint64) (bool, *ir.Error){
		"force":     func(h uint64) (bool, *ir.Error) { return j.e.Force(h, time.Minute) },
		"read":      func(h uint64) (bool, *ir.Error) { return j.e.ReadWithin(h, b, time.Minute) },
		"realize":   func(h uint64) (bool, *ir.Error) { return j.e.Realize([]uint64{h}, time.Minute) },
		"flush":     func(uint64) (bool, *ir.Error) { return j.e.FlushWithin(false, time.Minute) },
		"mark_step": func(uint64) (bool, *ir.Error) { return j.e.MarkStep(time.Minute) },
	} {
		before := runs
		j.ip("mul", x, 2.0)
		var err *ir.Error
		pending, err = wait(uint64(x))
		require.Nil(t, err, name)
		assert.False(t, pending, name)
		assert.Equal(t, before+1, runs, name)
	}
	assert.Equal(t, []float32{32, 64}, j.read(x))
}

func TestARunThatKeepsItsCallerLongGoesOnAsAJob(t *testing.T) {
	d := &watched{Device: reference.New()}
	j := travel(t, d, 0)
	var jobs []bool
	d.run = func(b *device.Binding) {
		jobs = append(jobs, j.e.waiter.jobs.current() != nil)
		if !b.Deadline.IsZero() {
			b.Deadline = time.Now() // already passed
		}
	}
	x := j.leaf(1, 2)
	j.ip("mul", x, 2.0)
	assert.Equal(t, []float32{2, 4}, j.read(x))
	assert.Equal(t, []bool{false, true}, jobs)
}

// A pause inside of a product loses what it has computed, so a plan pauses in its first run alone.
func TestAPlanThatPausedIsAJobFromTheBeginning(t *testing.T) {
	d := &watched{Device: reference.New()}
	j := travel(t, d, 0)
	slow := true
	var jobs []bool
	d.run = func(b *device.Binding) {
		jobs = append(jobs, j.e.waiter.jobs.current() != nil)
		if slow && !b.Deadline.IsZero() {
			b.Deadline = time.Now() // already passed
		}
	}
	x := j.leaf(1, 2)
	run := func(want ...float32) {
		j.ip("mul", x, 2.0)
		assert.Equal(t, want, j.read(x))
	}
	run(2, 4)
	assert.Equal(t, []bool{false, true}, jobs)
	slow = false
	run(4, 8)
	run(8, 16)
	assert.Equal(t, []bool{false, true, true, false}, jobs, "the second run began as a job, and was quick")
}

func TestAWindowThatTheClockPausesGivesTheSameBits(t *testing.T) {
	open := func() device.Device {
		d, err := cpu.New(cpu.Options{Threads: 2})
		require.NoError(t, err)
		t.Cleanup(d.Close)
		return d
	}
	want := long(travel(t, open(), 0))
	d, pauses := &watched{Device: open()}, 0
	d.run = func(b *device.Binding) {
		if b.At != (device.Position{}) {
			pauses++
		}
		if !b.Deadline.IsZero() {
			b.Deadline = time.Now()
		}
	}
	j := travel(t, d, 0)
	got := long(j)
	for i := range want {
		require.True(t, slices.Equal(want[i], got[i]), "value %d", i)
	}
	assert.Positive(t, pauses, "no run was taken up in its middle")
	j.drop(j.live...)
}
