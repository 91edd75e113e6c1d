package gpu

import (
	"encoding/binary"
	"time"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// maxQueries is WebGPU's limit on a query set.
const maxQueries = 4096

// profiler times dispatches while it is on.
type profiler struct {
	on      bool
	queries []Handle
	resolve Handle
	bytes   int64
	times   []device.StepTime
}

var _ device.Profiler = (*Device)(nil)

// Profile implements device.Profiler. While it is on every dispatch has a pass of its own: the times of steps are
// right, and their sum exceeds the time of a run.
func (d *Device) Profile(on bool) error {
	if on && !d.feat.Timestamps {
		return ir.Errorf(ir.ErrRuntime, "%s: the device has no timestamps", d.caps.Name)
	}
	d.profile.on = on
	return nil
}

// Profiles implements device.Profiler. The steps of a merged dispatch share its time in proportion to their workgroups.
func (d *Device) Profiles() []device.StepTime {
	t := d.profile.times
	d.profile.times = nil
	return t
}

func (f *profiler) close(ctx Context) {
	for _, q := range f.queries {
		ctx.ReleaseQueries(q)
	}
	if f.resolve != 0 {
		ctx.DestroyBuffer(f.resolve)
	}
	*f = profiler{}
}

// reserve makes room for n timestamps.
func (f *profiler) reserve(d *Device, n int) error {
	for len(f.queries)*maxQueries < n {
		q, err := d.ctx.CreateQueries(maxQueries)
		if err != nil {
			return d.wrap(err, "timestamp queries")
		}
		f.queries = append(f.queries, q)
	}
	need := int64(len(f.queries)) * maxQueries * 8
	if need <= f.bytes {
		return nil
	}
	if f.resolve != 0 {
		d.ctx.DestroyBuffer(f.resolve)
	}
	h, err := d.ctx.CreateBuffer(need, QueryResolve|CopySrc, false)
	if err != nil {
		f.resolve, f.bytes = 0, 0
		return d.wrap(err, "timestamp buffer")
	}
	f.resolve, f.bytes = h, need
	return nil
}

// runTimed submits records of p with timestamps around every dispatch, and collects the timestamps.
func (d *Device) runTimed(p *program, list []Record) error {
	f := &d.profile
	n := 2 * p.timed
	if n == 0 {
		return d.submit(list, p.words)
	}
	if err := f.reserve(d, n); err != nil {
		return err
	}
	records := make([]Record, 0, len(list)+len(f.queries))
	next := 0
	for _, r := range list {
		if r.Kind == Dispatch {
			r.Kind, r.C, r.Query = TimedDispatch, f.queries[next/maxQueries], uint32(next%maxQueries)
			next += 2
		}
		records = append(records, r)
	}
	for i := 0; i*maxQueries < n; i++ {
		records = append(records, Record{Kind: ResolveQuery, A: f.queries[i], B: f.resolve, Y: uint64(i) * maxQueries * 8,
			Z: uint64(min(n-i*maxQueries, maxQueries))})
	}
	if err := d.submit(records, p.words); err != nil {
		return err
	}
	if p.checks {
		d.faults.ran++
	}
	return d.readMapped(f.resolve, 0, int64(8*n), nil, func(mem []byte) {
		at := 0
		for i := range p.steps {
			s := &p.steps[i]
			if !s.launches() {
				continue
			}
			begin, end := binary.LittleEndian.Uint64(mem[at:]), binary.LittleEndian.Uint64(mem[at+8:])
			at += 16
			ticks := max(0, float64(int64(end-begin)))
			f.note(s, time.Duration(float64(begin)*d.limits.TimestampPeriod), time.Duration(ticks*d.limits.TimestampPeriod))
		}
	})
}

// note records the time of s, member by member.
func (f *profiler) note(s *step, start, total time.Duration) {
	if len(s.members) == 0 {
		f.times = append(f.times, device.StepTime{Step: s.index, Start: start, Duration: total})
		return
	}
	ends, before := s.ends[s.variant], uint64(0)
	for i, m := range s.indices {
		from := time.Duration(float64(total) * float64(before) / float64(ends[len(ends)-1]))
		to := time.Duration(float64(total) * float64(ends[i]) / float64(ends[len(ends)-1]))
		f.times = append(f.times, device.StepTime{Step: m, Start: start + from, Duration: to - from})
		before = ends[i]
	}
}
