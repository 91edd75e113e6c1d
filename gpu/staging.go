package gpu

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

const (
	stageBytes    = 4 << 20   // size of an ordinary stage
	maxStageBytes = 64 << 20  // size of the largest stage, and of the largest readback
	maxPending    = 128 << 20 // upload memory that may wait for a submission before one is made
	maxIdle       = 128 << 20 // idle upload memory that is kept, and idle readback memory
)

// stage is a buffer that the host writes while it is mapped.
type stage struct {
	handle  Handle
	mem     []byte // while mapped
	bytes   int64
	used    int64
	serial  uint64 // of the submission that reads it
	mapping bool
}

// staging is the upload memory of a device. A stage is open (mapped, being filled), then sealed (unmapped), then busy
// (read by a submission), then free (mapped again).
type staging struct {
	open, sealed, busy, free []*stage
	bytes, pendingBytes      int64
}

// take returns n contiguous bytes of mapped memory at a multiple of 16: the stage and the offset in it.
func (s *staging) take(d *Device, n int64) (*stage, int64, error) {
	for _, st := range s.open {
		if at := (st.used + 15) &^ 15; at+n <= st.bytes {
			st.used = at + n
			return st, at, nil
		}
	}
	if err := s.recycle(d); err != nil {
		return nil, 0, err
	}
	for i, st := range s.free {
		if n <= st.bytes {
			s.free = append(s.free[:i], s.free[i+1:]...)
			return s.opened(st, n), 0, nil
		}
	}
	size := int64(stageBytes)
	for size < n {
		size *= 2
	}
	h, err := d.ctx.CreateBuffer(size, MapWrite|CopySrc, true)
	if err != nil {
		return nil, 0, d.wrap(err, fmt.Sprintf("staging buffer of %d bytes", size))
	}
	st := &stage{handle: h, bytes: size, mem: d.ctx.Mapped(h, MapWrite, size)}
	if st.mem == nil {
		d.ctx.DestroyBuffer(h)
		return nil, 0, ir.Errorf(ir.ErrOutOfMemory, "%s: a staging buffer of %d bytes cannot be mapped", d.caps.Name, size)
	}
	s.bytes += size
	return s.opened(st, n), 0, nil
}

func (s *staging) opened(st *stage, n int64) *stage {
	st.used = n
	s.open = append(s.open, st)
	s.pendingBytes += st.bytes
	return st
}

// recycle maps stages whose submission has completed.
func (s *staging) recycle(d *Device) error {
	if len(s.busy) == 0 {
		return nil
	}
	if err := d.poll(); err != nil {
		return err
	}
	keep := s.busy[:0]
	var idle int64
	for _, st := range s.free {
		idle += st.bytes
	}
	for _, st := range s.busy {
		done, err := s.remap(d, st)
		if err != nil {
			return err
		}
		switch {
		case !done:
			keep = append(keep, st)
		case idle+st.bytes > maxIdle:
			d.ctx.DestroyBuffer(st.handle)
			s.bytes -= st.bytes
		default:
			idle += st.bytes
			s.free = append(s.free, st)
		}
	}
	clear(s.busy[len(keep):])
	s.busy = keep
	return nil
}

func (s *staging) remap(d *Device, st *stage) (bool, error) {
	if st.serial > d.completed {
		return false, nil
	}
	if !st.mapping {
		if err := d.ctx.MapStart(st.handle, MapWrite, st.bytes); err != nil {
			return false, d.wrap(err, "mapping of a staging buffer")
		}
		st.mapping = true
	}
	done, err := d.ctx.MapDone(st.handle)
	if err != nil || !done {
		return false, d.wrap(err, "mapping of a staging buffer")
	}
	st.mapping = false
	if st.mem = d.ctx.Mapped(st.handle, MapWrite, st.bytes); st.mem == nil {
		return false, ir.Errorf(ir.ErrKernelExecution, "%s: a staging buffer lost its memory", d.caps.Name)
	}
	return true, nil
}

// seal unmaps the open stages, which a submission requires.
func (s *staging) seal(d *Device) error {
	for len(s.open) > 0 {
		st := s.open[len(s.open)-1]
		if err := d.ctx.Unmap(st.handle); err != nil {
			return d.wrap(err, "unmapping of a staging buffer")
		}
		st.mem = nil
		s.open = s.open[:len(s.open)-1]
		s.sealed = append(s.sealed, st)
	}
	s.pendingBytes = 0
	return nil
}

// sent notes that the sealed stages belong to submission serial.
func (s *staging) sent(serial uint64) {
	for _, st := range s.sealed {
		st.serial = serial
		s.busy = append(s.busy, st)
	}
	s.sealed = s.sealed[:0]
}

func (s *staging) close(ctx Context) {
	for _, list := range [][]*stage{s.open, s.sealed, s.busy, s.free} {
		for _, st := range list {
			ctx.DestroyBuffer(st.handle)
		}
	}
	*s = staging{}
}

// element checks a transfer and returns the buffer and the stored width.
func (d *Device) element(b device.Buffer, t ir.DType, off, n int64, what string) (*Buffer, int64, error) {
	if d.lost != nil {
		return nil, 0, d.lost
	}
	buf := b.(*Buffer)
	width := int64(d.caps.Storage[t])
	switch {
	case width == 0:
		return nil, 0, ir.Errorf(ir.ErrRuntime, "%s: %s is not supported on %s", what, t, d.caps.Name)
	case buf.handle == 0:
		panic("BUG: gpu: " + what + " of a freed buffer")
	case off < 0 || (off+n)*width > buf.bytes:
		panic(fmt.Sprintf("BUG: gpu: %s beyond the buffer: elements %d to %d of %d bytes in %d", what, off, off+n, width,
			buf.bytes))
	}
	return buf, width, nil
}

// Upload implements device.Device.
func (d *Device) Upload(b device.Buffer, t ir.DType, off int64, data []byte) error {
	n := int64(len(data) / t.Size())
	buf, width, err := d.element(b, t, off, n, "upload")
	if err != nil || n == 0 {
		return err
	}
	d.stats.uploads++
	piece := maxStageBytes / width &^ 1
	for n > 0 {
		m := min(n, piece)
		if err := d.uploadPiece(buf, t, width, off, data[:m*int64(t.Size())]); err != nil {
			return err
		}
		data, off, n = data[m*int64(t.Size()):], off+m, n-m
	}
	return nil
}

// uploadPiece stages one piece. Copies move whole words, so half words at the ends of a piece of halves are read back
// first.
func (d *Device) uploadPiece(buf *Buffer, t ir.DType, width, off int64, data []byte) error {
	first, last := off*width, (off+int64(len(data)/t.Size()))*width
	lo, hi := first&^3, (last+3)&^3
	if d.stages.pendingBytes > maxPending {
		if err := d.submit(nil, nil); err != nil {
			return err
		}
		if err := d.backpressure(unbound); err != nil {
			return err
		}
	}
	var edge [8]byte
	if lo != first {
		if err := d.readBytes(buf, lo, edge[:4]); err != nil {
			return err
		}
	}
	if hi != last {
		if err := d.readBytes(buf, hi-4, edge[4:]); err != nil {
			return err
		}
	}
	st, at, err := d.stages.take(d, hi-lo)
	if err != nil {
		return err
	}
	dst := st.mem[at : at+hi-lo]
	copy(dst, edge[:first-lo])
	copy(dst[last-lo:], edge[8-(hi-last):])
	if err := toStorage(t, int(width), dst[first-lo:last-lo], data); err != nil {
		return ir.Errorf(ir.ErrOverflow, "upload: %v", err)
	}
	d.pending = append(d.pending, Record{Kind: CopyBuffer, A: st.handle, X: uint64(at), B: buf.handle, Y: uint64(lo),
		Z: uint64(hi - lo)})
	buf.upload = d.submitted + 1
	return nil
}

// readPool keeps readback buffers by power of two.
type readPool struct {
	free  [32][]Handle
	left  []readback // of interrupted reads, whose mapping is under way
	idle  int64
	bytes int64
}

type readback struct {
	handle Handle
	class  int
}

// reclaim takes back the buffers of interrupted reads that are mapped by now.
func (r *readPool) reclaim(d *Device) error {
	for i := len(r.left) - 1; i >= 0; i-- {
		b := r.left[i]
		if done, err := d.ctx.MapDone(b.handle); err != nil || !done {
			return d.wrap(err, "mapping of a readback buffer")
		}
		r.left = r.left[:i]
		if err := d.ctx.Unmap(b.handle); err != nil {
			return d.wrap(err, "unmapping of a readback buffer")
		}
		r.put(d.ctx, b.handle, b.class)
	}
	return nil
}

const minReadback = 4096

func readClass(n int64) (class int, size int64) {
	class = bits.Len64(uint64(max(n, minReadback) - 1))
	return class, 1 << class
}

func (r *readPool) take(d *Device, n int64) (Handle, int, error) {
	if err := r.reclaim(d); err != nil {
		return 0, 0, err
	}
	c, size := readClass(n)
	if l := r.free[c]; len(l) > 0 {
		r.free[c] = l[:len(l)-1]
		r.idle -= size
		return l[len(l)-1], c, nil
	}
	h, err := d.ctx.CreateBuffer(size, MapRead|CopyDst, false)
	if err != nil {
		return 0, 0, d.wrap(err, fmt.Sprintf("readback buffer of %d bytes", size))
	}
	r.bytes += size
	return h, c, nil
}

func (r *readPool) put(ctx Context, h Handle, class int) {
	size := int64(1) << class
	if r.idle+size > maxIdle {
		ctx.DestroyBuffer(h)
		r.bytes -= size
		return
	}
	r.idle += size
	r.free[class] = append(r.free[class], h)
}

func (r *readPool) close(ctx Context) {
	for _, b := range r.left {
		ctx.DestroyBuffer(b.handle)
	}
	for _, l := range r.free {
		for _, h := range l {
			ctx.DestroyBuffer(h)
		}
	}
	*r = readPool{}
}

// Read implements device.Device.
func (d *Device) Read(b device.Buffer, t ir.DType, off int64, dst []byte) error {
	return d.ReadUnless(b, t, off, dst, nil)
}

// ReadUnless implements device.PatientReader.
func (d *Device) ReadUnless(b device.Buffer, t ir.DType, off int64, dst []byte, interrupt func() bool) error {
	if len(d.reads.left) > 0 { // after an interrupted read, copies wait until the work before it is done
		if err := d.waitFor(d.submitted, d.opts.WaitTimeout, interrupt); err != nil {
			return err
		}
	}
	n := int64(len(dst) / t.Size())
	buf, width, err := d.element(b, t, off, n, "read")
	if err != nil || n == 0 {
		return err
	}
	d.stats.reads++
	piece := int64(maxStageBytes/2) / width &^ 1
	for n > 0 {
		m := min(n, piece)
		part := dst[:m*int64(t.Size())]
		first, last := off*width, (off+m)*width
		lo := first &^ 3
		err := d.readMapped(buf.handle, lo, (last+3)&^3-lo, interrupt, func(mem []byte) {
			fromStorage(t, int(width), part, mem[first-lo:last-lo])
		})
		if err != nil {
			return err
		}
		dst, off, n = dst[len(part):], off+m, n-m
	}
	return nil
}

func (d *Device) readBytes(buf *Buffer, at int64, dst []byte) error {
	return d.readMapped(buf.handle, at, int64(len(dst)), nil, func(mem []byte) { copy(dst, mem) })
}

// readMapped copies [at, at+n) of a buffer to host-visible memory, waits, and passes the memory to use. It reads the
// error word too where a run may have set it.
func (d *Device) readMapped(h Handle, at, n int64, interrupt func() bool, use func([]byte)) error {
	total := n
	if d.faults.dirty {
		total += faultBytes
	}
	rb, class, err := d.reads.take(d, total)
	if err != nil {
		return err
	}
	before := len(d.pending)
	d.pending = append(d.pending, Record{Kind: CopyBuffer, A: h, X: uint64(at), B: rb, Z: uint64(n)})
	if d.faults.dirty {
		d.pending = append(d.pending, Record{Kind: CopyBuffer, A: d.fault, B: rb, Y: uint64(n), Z: faultBytes})
	}
	if err := d.submit(nil, nil); err != nil {
		d.pending = d.pending[:before] // the uploads before it are still to be submitted
		d.reads.put(d.ctx, rb, class)
		return err
	}
	if err := d.ctx.MapStart(rb, MapRead, total); err != nil {
		d.reads.put(d.ctx, rb, class)
		return d.wrap(err, "mapping of a readback buffer")
	}
	err = d.until(d.opts.WaitTimeout, interrupt, func() (bool, error) {
		ok, err := d.ctx.MapDone(rb)
		return ok, d.wrap(err, "mapping of a readback buffer")
	})
	if interrupted(err) {
		d.reads.left = append(d.reads.left, readback{rb, class})
	}
	if err != nil {
		return err
	}
	d.completed = max(d.completed, d.submitted)
	mem := d.ctx.Mapped(rb, MapRead, total)
	if mem == nil {
		return ir.Errorf(ir.ErrKernelExecution, "%s: a readback buffer has no memory", d.caps.Name)
	}
	use(mem[:n])
	if d.faults.dirty {
		d.noteFault(mem[n:])
	}
	if err := d.ctx.Unmap(rb); err != nil {
		return d.wrap(err, "unmapping of a readback buffer")
	}
	d.reads.put(d.ctx, rb, class)
	return nil
}

// faultBytes is the size of the error word: event+1, element low, element high, unused.
const faultBytes = 16

// faultState is what the host knows of the error word.
type faultState struct {
	dirty bool // a checking kernel ran since the word was last read
	set   bool
	fault device.Fault
	// inner are the numbers of steps in bodies of loops, which the error word has by their place here; places finds it.
	inner  []innerEvent
	places map[innerEvent]int
}

// innerEvent is the number of a step, and its number in the body of a loop.
type innerEvent struct{ event, inner uint32 }

// innerBit marks a place in faultState.inner.
const innerBit = 1 << 30

// event is what the error word has of a step.
func (f *faultState) event(s *device.Step) uint32 {
	if s.Inner == 0 {
		return s.Event
	}
	e := innerEvent{s.Event, s.Inner}
	at, ok := f.places[e]
	if !ok {
		if at = len(f.inner); f.places == nil {
			f.places = map[innerEvent]int{}
		}
		f.inner, f.places[e] = append(f.inner, e), at
	}
	return innerBit | uint32(at)
}

// found is the fault of an event and an element in the error word.
func (f *faultState) found(event uint32, element int64) device.Fault {
	if event&innerBit == 0 {
		return device.Fault{Event: event, Element: element}
	}
	e := f.inner[event&^innerBit]
	return device.Fault{Event: e.event, Element: ir.LoopFault(e.inner, element)}
}

func (d *Device) noteFault(mem []byte) {
	d.faults.dirty = false
	event := binary.LittleEndian.Uint32(mem)
	if event == 0 || d.faults.set {
		return
	}
	d.faults.set = true
	d.faults.fault = d.faults.found(event-1, int64(binary.LittleEndian.Uint64(mem[4:])))
}

// TakeFault implements device.Device.
func (d *Device) TakeFault() (device.Fault, bool, error) {
	if d.lost != nil {
		return device.Fault{}, false, d.lost
	}
	if d.faults.dirty {
		if err := d.readMapped(d.fault, 0, 4, nil, func([]byte) {}); err != nil {
			return device.Fault{}, false, err
		}
	}
	if !d.faults.set {
		return device.Fault{}, false, nil
	}
	f := d.faults.fault
	d.faults.set, d.faults.fault = false, device.Fault{}
	d.pending = append(d.pending, Record{Kind: ClearBuffer, A: d.fault, Z: faultBytes})
	return f, true, nil
}
