package runtime

import (
	"time"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Timing is one executed step of a profiled run.
type Timing struct {
	Event    uint32 // of the step: 1 + its node's local number
	Device   string
	Kernel   string
	Start    time.Time
	Duration time.Duration
	// Flops counts floating-point operations. Bytes counts each byte that the step must read or write once.
	Flops, Bytes int64
}

// SetProfiling turns profiling on or off, for later devices too.
func (x *Executor) SetProfiling(on bool) {
	x.Profiling = on
	x.Timings = x.Timings[:0]
	for _, pl := range x.Devices {
		x.profile(pl.Dev)
	}
}

// profile turns a device's timing on or off; a device without timing is skipped.
func (x *Executor) profile(d device.Device) {
	if p, ok := d.(device.Profiler); ok {
		_ = p.Profile(x.Profiling)
	}
}

// note records the times of a segment that started at began. A device has its own clock, so its first step counts as
// starting then.
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
