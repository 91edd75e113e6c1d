package runtime

import (
	"time"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Timing is one step that ran while profiling.
type Timing struct {
	Event    uint32 // of the step: 1 + the local number of its node
	Device   string
	Kernel   string
	Start    time.Time
	Duration time.Duration
	// Flops counts arithmetic on floats; Bytes what the step must read and write at least once.
	Flops, Bytes int64
}

// SetProfiling turns timing on or off, also for devices opened later.
func (x *Executor) SetProfiling(on bool) {
	x.Profiling = on
	x.Timings = x.Timings[:0]
	for _, pl := range x.Devices {
		x.profile(pl.Dev)
	}
}

// profile tells a device whether to time; one that cannot gives no times.
func (x *Executor) profile(d device.Device) {
	if p, ok := d.(device.Profiler); ok {
		_ = p.Profile(x.Profiling)
	}
}

// note takes the times of a segment that began to run at began. A device's clock is
// its own: its first step counts as having begun then.
func (x *Executor) note(s *compile.Segment, d device.Device, began time.Time) {
	p, ok := d.(device.Profiler)
	if !ok {
		return
	}
	times := p.Profiles()
	s.Times = make([]time.Duration, len(s.Steps))
	for _, t := range times {
		st := &s.Steps[t.Step]
		op := st.Op
		if t.Op != nil {
			op = t.Op
		}
		var cost loopir.Cost
		if s.Times[t.Step] == 0 { // a kernel of several passes counts once
			cost = op.Cost(st.Constants(), &d.Caps().Storage)
		}
		s.Times[t.Step] += t.Duration
		x.Timings = append(x.Timings, Timing{Event: st.Event, Device: d.Caps().Name, Kernel: op.Label(),
			Start: began.Add(t.Start - times[0].Start), Duration: t.Duration, Flops: cost.Flops, Bytes: cost.Bytes})
	}
}
