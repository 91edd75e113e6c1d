package gpu

import (
	"errors"
	"fmt"
	"math"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/wgsl"
)

// Run implements device.Device.
func (d *Device) Run(prog device.Program, bind *device.Binding) (device.Fence, error) {
	p := prog.(*program)
	if bind.Stop.Asked() {
		return device.Fence(d.submitted), device.ErrStopped
	}
	records, err := d.encode(p, bind)
	if err != nil {
		return device.Fence(d.submitted), err
	}
	if done := bind.At.Step; done > 0 { // continues a stopped run, after the copy of the parameters where there is one
		if len(records) > len(p.steps) {
			d.pending = append(d.pending, records[0])
		}
		records = p.records[len(p.records)-len(p.steps)+done:]
	}
	before := len(p.steps) - len(records)
	if d.profile.on && before <= 0 {
		err = d.runTimed(p, records)
	} else {
		copied := d.joinCopy(p, bind, records)
		var sent int
		if sent, err = d.send(copied.records, p.words, d.firstPart(), bind); errors.Is(err, device.ErrStopped) {
			p.stopped(&bind.At, min(before+sent, len(p.steps)))
		}
		copied.end(err)
	}
	if err != nil && !errors.Is(err, device.ErrStopped) {
		return 0, err
	}
	p.stale = false
	d.stats.dispatches += int64(p.timed)
	d.stats.waves += int64(p.waves)
	if p.checks {
		d.faults.ran++
	}
	return device.Fence(d.submitted), err
}

// stopped notes that the first n steps, in the order of submission, were submitted and the others not.
func (p *program) stopped(at *device.Position, n int) {
	at.Step = n
	for i := range p.steps[:n] {
		s := &p.steps[i]
		at.Begun = max(at.Begun, s.index+1)
		for _, k := range s.indices {
			at.Begun = max(at.Begun, k+1)
		}
	}
}

// encode makes the records that run p over bind.
func (d *Device) encode(p *program, bind *device.Binding) ([]Record, error) {
	if d.lost != nil {
		return nil, d.lost
	}
	if len(bind.Bufs) != p.slots {
		panic(fmt.Sprintf("BUG: gpu: %d buffers for %d slots", len(bind.Bufs), p.slots))
	}
	d.runs++
	rebind := p.bindBuffers(bind)
	for i := range p.steps {
		if err := p.ready(&p.steps[i], bind, rebind); err != nil {
			p.forget()
			return nil, err
		}
	}
	p.epoch = d.groups.epoch
	if err := d.backpressure(bind); err != nil {
		return nil, err
	}
	return p.stageUniform()
}

// backpressure waits until few submissions are in flight, or until a request to stop.
func (d *Device) backpressure(bind *device.Binding) error {
	if bind.Stop.Asked() {
		return device.ErrStopped
	}
	if d.submitted < maxInFlight || d.submitted-d.completed <= maxInFlight/2 {
		return nil
	}
	if err := d.poll(); err != nil {
		return err
	}
	if d.submitted-d.completed <= maxInFlight {
		return nil
	}
	err := d.waitFor(d.submitted-maxInFlight, d.opts.WaitTimeout, bind.Asked)
	if interrupted(err) {
		return device.ErrStopped
	}
	return err
}

func interrupted(err error) bool {
	var e *ir.Error
	return errors.As(err, &e) && e.Code == ir.ErrInterrupted
}

// bindBuffers notes which slots changed since the last run, and reports whether any did.
func (p *program) bindBuffers(bind *device.Binding) bool {
	rebind := p.epoch != p.dev.groups.epoch
	for i, b := range bind.Bufs {
		buf, _ := b.(*Buffer)
		if buf != nil && buf.handle == 0 {
			panic("BUG: gpu: run over a freed buffer")
		}
		if buf != nil {
			if buf.run == p.dev.runs {
				panic(fmt.Sprintf("BUG: gpu: slot %d has the buffer of another slot", i))
			}
			buf.run = p.dev.runs
		}
		p.changed[i] = buf != p.last[i]
		if p.changed[i] {
			p.last[i] = buf
			rebind = true
		}
	}
	return rebind
}

// forget makes the next run look up every binding, after a run that ended before all steps were bound.
func (p *program) forget() {
	clear(p.last)
	p.epoch = math.MaxUint64
}

// ready updates the record and the parameters of s.
func (p *program) ready(s *step, bind *device.Binding, rebind bool) error {
	if s.move != nil {
		r, err := s.move(p, s, bind)
		p.records[s.record] = r
		return err
	}
	if err := p.checkWindow(s, bind); err != nil {
		return err
	}
	if err := p.chooseVariant(s, bind); err != nil {
		return err
	}
	if rebind || s.group == nil {
		if err := p.bindGroup(s); err != nil {
			return err
		}
	}
	for i := range s.patches[s.variant] {
		q := &s.patches[s.variant][i]
		v := runtimeValue(q.param, bind)
		if q.signed && (v > math.MaxInt32 || v < math.MinInt32) {
			return ir.Errorf(ir.ErrRuntime, "%s: an offset is too large for %s: got %d, want at most %d", s.name(),
				p.dev.caps.Name, v, math.MaxInt32)
		}
		if q.high {
			v >>= 32
		}
		if at := s.word + q.word; p.words[at] != uint32(v) {
			p.words[at] = uint32(v)
			p.stale = p.stale || at < p.uniformWords
		}
	}
	return nil
}

func runtimeValue(q device.Param, bind *device.Binding) int64 {
	return int64(q.Value(bind.Offsets, bind.Scalars))
}

// chooseVariant takes the variant for the alignment of this run's offsets, and builds it at its first use.
func (p *program) chooseVariant(s *step, bind *device.Binding) error {
	variant := 0
	for _, o := range s.offsets {
		if runtimeValue(o, bind)&3 != 0 {
			variant = 1
			break
		}
	}
	if variant == s.variant {
		return nil
	}
	if s.pipelines[variant] == nil {
		if err := p.dev.buildVariant(s, variant); err != nil {
			return err
		}
		if s.pipelines[variant].words != s.pipelines[0].words {
			panic("BUG: gpu: variants of " + s.name() + " differ in their parameters")
		}
	}
	p.setVariant(s, variant)
	return nil
}

// bindGroup finds or makes the bind group of s for the current buffers.
func (p *program) bindGroup(s *step) error {
	d := p.dev
	if s.group != nil && !s.group.dead && !p.slotsChanged(s) {
		s.group.used = d.runs
		d.groups.hits++
		return nil
	}
	m := s.pipelines[s.variant].module
	p.bufs = p.bufs[:0]
	for _, b := range m.Bindings {
		var buf *Buffer
		switch b.Kind {
		case wgsl.BindParams:
			buf = p.uniform
		case wgsl.BindScratch:
			buf = d.passScratch[s.passScratch]
		case wgsl.BindStorage:
			buf = p.last[s.Bufs[b.Buf]]
			if buf == nil {
				panic(fmt.Sprintf("BUG: gpu: %s: slot %d is not bound", s.name(), s.Bufs[b.Buf]))
			}
		}
		p.bufs = append(p.bufs, buf)
	}
	layout := s.pipelines[s.variant].Layout
	g, hash := d.groups.find(layout, s.window.base, p.bufs, d.runs)
	if g == nil {
		var err error
		if g, err = p.makeGroup(s, layout, hash); err != nil {
			return err
		}
	}
	s.group = g
	p.records[s.record].B = g.handle
	return nil
}

func (p *program) slotsChanged(s *step) bool {
	for _, b := range s.Bufs {
		if p.changed[b] {
			return true
		}
	}
	return false
}

func (p *program) makeGroup(s *step, layout Handle, hash uint64) (*group, error) {
	d := p.dev
	m := s.pipelines[s.variant].module
	d.bindings = d.bindings[:0]
	for i, b := range m.Bindings {
		var e BufferBinding
		switch b.Kind {
		case wgsl.BindParams:
			e = BufferBinding{Buffer: p.uniform.handle, Bytes: int64(m.ParamBytes())}
		case wgsl.BindScratch:
			e = BufferBinding{Buffer: p.bufs[i].handle, Bytes: p.bufs[i].bytes}
		case wgsl.BindError:
			e = BufferBinding{Buffer: d.fault, Bytes: faultBytes}
		case wgsl.BindStorage:
			buf := p.bufs[i]
			if err := p.checkBinding(s, b.Buf, buf); err != nil {
				return nil, err
			}
			for j, other := range m.Bindings[:i] {
				if other.Kind == wgsl.BindStorage && p.bufs[j] == buf && (!b.ReadOnly || !other.ReadOnly) {
					panic(fmt.Sprintf("BUG: gpu: %s: bindings %d and %d are one buffer, and one is written", s.name(), j, i))
				}
			}
			at := s.window.offset(b.Buf, int64(d.caps.Storage[s.bufType(b.Buf)]))
			e = BufferBinding{Buffer: buf.handle, Offset: at, Bytes: min(buf.bytes-at, d.limits.MaxStorageBinding)}
		}
		d.bindings = append(d.bindings, e)
	}
	h, err := d.ctx.CreateBindGroup(layout, d.bindings)
	if err != nil {
		return nil, d.wrap(err, "binding of the buffers of "+s.name())
	}
	g := &group{handle: h, layout: layout, base: s.window.base, bufs: append([]*Buffer(nil), p.bufs...), hash: hash,
		used: d.runs}
	d.groups.add(d.ctx, g)
	return g, nil
}

// checkBinding refuses a buffer of which a kernel may reach more than a binding covers.
func (p *program) checkBinding(s *step, local int, buf *Buffer) error {
	d := p.dev
	if buf.bytes <= d.limits.MaxStorageBinding || s.window.size != 0 {
		return nil // checkWindow checks windows
	}
	reach := s.reach[local].hi
	t := s.bufType(local)
	if reach >= 0 && len(s.offsets) == 0 && reach*int64(d.caps.Storage[t]) <= d.limits.MaxStorageBinding {
		return nil
	}
	return ir.Errorf(ir.ErrRuntime, "%s: a tensor of %d bytes is too large for a kernel on %s: a binding shows at most "+
		"%d bytes",
		s.name(), buf.bytes, d.caps.Name, d.limits.MaxStorageBinding)
}

func (s *step) bufType(local int) ir.DType {
	return s.pipelines[s.variant].proc.Bufs[local].Type
}

// stageUniform returns the records to submit, without the copy to the uniform buffer where that has its content
// already.
func (p *program) stageUniform() ([]Record, error) {
	switch {
	case p.uniform == nil:
		return p.records, nil
	case !p.stale:
		return p.records[1:], nil
	}
	n := p.uniform.bytes
	st, at, err := p.dev.stages.take(p.dev, n)
	if err != nil {
		return nil, err
	}
	copy(st.mem[at:at+n], wordBytes(p.words[:p.uniformWords]))
	p.records[0].A, p.records[0].X = st.handle, uint64(at)
	return p.records, nil
}
