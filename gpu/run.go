package gpu

import (
	"fmt"
	"math"

	"github.com/torchlette/torchlette/engine/device"
	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/kernels/wgsl"
)

// Run implements device.Device.
func (d *Device) Run(prog device.Program, bind *device.Binding) (device.Fence, error) {
	p := prog.(*program)
	if d.lost != nil {
		return 0, d.lost
	}
	if len(bind.Bufs) != p.slots {
		panic(fmt.Sprintf("BUG: gpu: %d buffers for %d slots", len(bind.Bufs), p.slots))
	}
	d.runs++
	rebind := p.bindBuffers(bind)
	for i := range p.steps {
		if err := p.ready(&p.steps[i], bind, rebind); err != nil {
			p.forget()
			return 0, err
		}
	}
	p.epoch = d.groups.epoch
	if err := p.stageBlocks(); err != nil {
		return 0, err
	}
	if err := d.backpressure(); err != nil {
		return 0, err
	}
	var err error
	if d.profile.on {
		err = d.runTimed(p)
	} else {
		err = d.submit(p.records, p.words)
	}
	if err != nil {
		return 0, err
	}
	d.stats.dispatches += int64(p.timed)
	d.faults.dirty = d.faults.dirty || p.checks
	return device.Fence(d.submitted), nil
}

// backpressure waits until few submissions are in flight.
func (d *Device) backpressure() error {
	if d.submitted < maxInFlight || d.submitted-d.completed <= maxInFlight/2 {
		return nil
	}
	if err := d.poll(); err != nil {
		return err
	}
	if d.submitted-d.completed <= maxInFlight {
		return nil
	}
	return d.waitFor(d.submitted-maxInFlight, d.opts.WaitTimeout, nil)
}

// bindBuffers notes which slots changed since the last run, and whether any did.
func (p *program) bindBuffers(bind *device.Binding) bool {
	rebind := p.epoch != p.dev.groups.epoch
	for i, b := range bind.Bufs {
		buf, _ := b.(*Buffer)
		if buf != nil && buf.handle == 0 {
			panic("BUG: gpu: run over a freed buffer")
		}
		p.changed[i] = buf != p.last[i]
		if p.changed[i] {
			p.last[i] = buf
			rebind = true
		}
	}
	return rebind
}

// forget makes the next run look at every binding again, after a run that ended
// before all steps were bound.
func (p *program) forget() {
	clear(p.last)
	p.epoch = math.MaxUint64
}

// ready brings the record and parameters of s up to date.
func (p *program) ready(s *step, bind *device.Binding, rebind bool) error {
	switch s.Kind {
	case device.CopyBytes:
		return p.readyCopy(s, bind)
	case device.FillZero:
		at, n := runtimeValue(s.Params[0], bind), runtimeValue(s.Params[1], bind)
		if (at|n)&3 != 0 {
			return ir.Errorf(ir.ErrKernelExecution, "fill: bytes %d+%d are not whole words", at, n)
		}
		p.records[s.record] = Record{Kind: ClearBuffer, A: p.last[s.Bufs[0]].handle, X: uint64(at), Z: uint64(n)}
		return nil
	}
	if err := p.checkWindow(s, bind); err != nil {
		return err
	}
	if err := p.chooseForm(s, bind); err != nil {
		return err
	}
	if rebind || s.group == nil {
		if err := p.bindGroup(s); err != nil {
			return err
		}
	}
	for i := range s.patches[s.form] {
		q := &s.patches[s.form][i]
		v := runtimeValue(q.param, bind)
		if q.signed && (v > math.MaxInt32 || v < math.MinInt32) {
			return ir.Errorf(ir.ErrRuntime, "%s: an offset is too large for %s: got %d, want at most %d", s.name(), p.dev.caps.Name, v, math.MaxInt32)
		}
		if q.high {
			v >>= 32
		}
		p.words[s.word+q.word] = uint32(v)
	}
	return nil
}

func runtimeValue(q device.Param, bind *device.Binding) int64 {
	v := int64(q.Bits)
	if q.Scalar >= 0 {
		v = int64(bind.Scalars[q.Scalar])
	}
	if q.Offset >= 0 {
		v += bind.Offsets[q.Offset]
	}
	return v
}

func (p *program) readyCopy(s *step, bind *device.Binding) error {
	src, dst := p.last[s.Bufs[0]], p.last[s.Bufs[1]]
	from, to, n := runtimeValue(s.Params[0], bind), runtimeValue(s.Params[1], bind), runtimeValue(s.Params[2], bind)
	if src == dst {
		return ir.Errorf(ir.ErrKernelExecution, "copy: source and destination are one buffer")
	}
	if (from|to|n)&3 != 0 {
		return ir.Errorf(ir.ErrKernelExecution, "copy: bytes %d+%d to %d are not whole words", from, n, to)
	}
	p.records[s.record] = Record{Kind: CopyBuffer, A: src.handle, B: dst.handle, X: uint64(from), Y: uint64(to), Z: uint64(n)}
	return nil
}

// chooseForm takes the form for the alignment of this run's offsets, building it
// at its first use.
func (p *program) chooseForm(s *step, bind *device.Binding) error {
	form := 0
	for _, o := range s.offsets {
		if runtimeValue(o, bind)&3 != 0 {
			form = 1
			break
		}
	}
	if form == s.form {
		return nil
	}
	if s.forms[form] == nil {
		if err := p.dev.buildForm(s, s.constants(), form); err != nil {
			return err
		}
		if s.forms[form].words != s.forms[0].words {
			panic("BUG: gpu: forms of " + s.name() + " differ in their parameters")
		}
	}
	p.setForm(s, form)
	return nil
}

// bindGroup finds or makes the bind group of s for the buffers bound now.
func (p *program) bindGroup(s *step) error {
	d := p.dev
	if s.group != nil && !s.group.dead && !p.slotsChanged(s) {
		s.group.used = d.runs
		d.groups.hits++
		return nil
	}
	m := s.forms[s.form].module
	p.bufs = p.bufs[:0]
	for _, b := range m.Bindings {
		var buf *Buffer
		if b.Kind == wgsl.BindStorage {
			buf = p.last[s.Bufs[b.Buf]]
			if buf == nil {
				panic(fmt.Sprintf("BUG: gpu: %s: slot %d is not bound", s.name(), s.Bufs[b.Buf]))
			}
		}
		p.bufs = append(p.bufs, buf)
	}
	layout := s.forms[s.form].Layout
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
	m := s.forms[s.form].module
	d.bindings = d.bindings[:0]
	for i, b := range m.Bindings {
		e := BufferBinding{Buffer: d.uniform, Bytes: int64(m.ParamBytes())}
		switch b.Kind {
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
	g := &group{handle: h, layout: layout, base: s.window.base, bufs: append([]*Buffer(nil), p.bufs...), hash: hash, used: d.runs}
	d.groups.add(d.ctx, g)
	return g, nil
}

// checkBinding refuses a buffer of which a kernel may reach more than one binding shows.
func (p *program) checkBinding(s *step, local int, buf *Buffer) error {
	d := p.dev
	if buf.bytes <= d.limits.MaxStorageBinding || s.window.size != 0 {
		return nil // windows are checked by checkWindow
	}
	reach := s.reach[local]
	t := s.bufType(local)
	if reach >= 0 && len(s.offsets) == 0 && reach*int64(d.caps.Storage[t]) <= d.limits.MaxStorageBinding {
		return nil
	}
	return ir.Errorf(ir.ErrRuntime, "%s: a tensor of %d bytes is too large for a kernel on %s: a binding shows at most %d bytes",
		s.name(), buf.bytes, d.caps.Name, d.limits.MaxStorageBinding)
}

func (s *step) bufType(local int) ir.DType {
	if s.Kind == device.RunKernel {
		return s.Kernel.Bufs[local].Type
	}
	return s.Gemm.Type
}

// stageBlocks puts the parameter blocks into upload memory and points the copies at it.
func (p *program) stageBlocks() error {
	for i := range p.blocks {
		b := &p.blocks[i]
		st, at, err := p.dev.stages.take(p.dev, int64(b.size))
		if err != nil {
			return err
		}
		copy(st.mem[at:at+int64(b.size)], wordBytes(p.words)[b.first:b.first+b.size])
		r := &p.records[b.record]
		r.A, r.X, r.Y, r.Z = st.handle, uint64(at), 0, uint64(b.size)
	}
	return nil
}
