package gpu

import (
	"fmt"
	"slices"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

const (
	stageBytes    = 4 << 20   // size of an ordinary stage
	maxStageBytes = 64 << 20  // size of the largest stage, and of the largest readback
	maxPending    = 32 << 20  // upload memory that may wait for a submission before one is made
	maxStaged     = 64 << 20  // upload memory in use from which on an upload waits for earlier ones
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

// makeRoom submits pending copies, and waits for earlier ones, so that the host holds few elements of many tensors that
// are uploaded beside the device's.
func (s *staging) makeRoom(d *Device) error {
	if s.pendingBytes > maxPending {
		if err := d.submit(nil, nil); err != nil {
			return err
		}
		if err := d.backpressure(unbound); err != nil {
			return err
		}
	}
	used := s.bytes
	for _, st := range s.free {
		used -= st.bytes
	}
	if used-s.pendingBytes <= maxStaged {
		return nil
	}
	return d.until(d.opts.WaitTimeout, nil, func() (bool, error) {
		err := s.recycle(d)
		var busy int64
		for _, st := range s.busy {
			busy += st.bytes
		}
		return busy <= maxStaged, err
	})
}

// ReturnUnused frees the upload memory that no submission reads.
func (d *Device) ReturnUnused() {
	s := &d.stages
	if d.ctx == nil || d.until(d.opts.WaitTimeout, nil, func() (bool, error) {
		err := s.recycle(d)
		return !slices.ContainsFunc(s.busy, func(st *stage) bool { return st.serial <= d.completed }), err
	}) != nil {
		return
	}
	for _, st := range s.free {
		d.ctx.DestroyBuffer(st.handle)
		s.bytes -= st.bytes
	}
	s.free = nil
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
	if err := d.stages.makeRoom(d); err != nil {
		return err
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
