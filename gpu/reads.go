package gpu

import (
	"fmt"
	"math/bits"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// readPool keeps readback buffers by power of two.
type readPool struct {
	free  [32][]Handle
	left  []readback      // of interrupted reads and of dropped ones, whose mapping is under way
	ahead map[Handle]bool // of reads that Finish or Drop ends
	idle  int64
	bytes int64
}

// readback is a copy to host-visible memory.
type readback struct {
	handle Handle
	class  int
	bytes  int64 // of what is read; the error word may come after it
	// checked is faultState.ran at the copy of the error word; 0: it is not copied.
	checked    uint64
	submission uint64 // that makes the copy
}

// total is the bytes that are mapped.
func (rb *readback) total() int64 {
	if rb.checked == 0 {
		return rb.bytes
	}
	return rb.bytes + faultBytes
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
	for h := range r.ahead {
		ctx.DestroyBuffer(h)
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
		lo, bytes := words(off, m, width)
		err := d.readMapped(buf.handle, lo, bytes, interrupt, func(mem []byte) {
			fromStorage(t, int(width), part, mem[off*width-lo:][:m*width])
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
	rb, err := d.startReadback(h, at, n)
	if err != nil {
		return err
	}
	err = d.finishReadback(&rb, interrupt, use)
	if interrupted(err) {
		d.reads.left = append(d.reads.left, rb)
	}
	return err
}

// startReadback submits a copy of [at, at+n) of a buffer to host-visible memory, and one of the error word where a run
// may have set it.
func (d *Device) startReadback(h Handle, at, n int64) (readback, error) {
	before := len(d.pending)
	rb, records, err := d.prepareReadback(d.pending, h, at, n, d.faults.unread())
	if err != nil {
		return rb, err
	}
	d.pending = records
	if err := d.submit(nil, nil); err != nil {
		d.pending = d.pending[:before] // the uploads before it are still to be submitted
		d.reads.put(d.ctx, rb.handle, rb.class)
		return rb, err
	}
	return rb, d.mapReadback(&rb)
}

// prepareReadback takes host-visible memory for [at, at+n) of a buffer and adds the records that copy to it. checked is
// faultState.ran at that time; 0: the error word is not copied.
func (d *Device) prepareReadback(list []Record, h Handle, at, n int64, checked uint64) (readback, []Record, error) {
	rb := readback{bytes: n, checked: checked}
	var err error
	if rb.handle, rb.class, err = d.reads.take(d, rb.total()); err != nil {
		return rb, list, err
	}
	list = append(list, Record{Kind: CopyBuffer, A: h, X: uint64(at), B: rb.handle, Z: uint64(n)})
	if checked != 0 {
		list = append(list, Record{Kind: CopyBuffer, A: d.fault, B: rb.handle, Y: uint64(n), Z: faultBytes})
	}
	return rb, list, nil
}

// mapReadback begins to map the memory of a copy that the last submission makes.
func (d *Device) mapReadback(rb *readback) error {
	rb.submission = d.submitted
	err := d.ctx.MapStart(rb.handle, MapRead, rb.total())
	if err != nil {
		d.reads.put(d.ctx, rb.handle, rb.class)
	}
	return d.wrap(err, "mapping of a readback buffer")
}

// finishReadback waits for a copy and passes its memory to use. Interrupted, it can be called again.
func (d *Device) finishReadback(rb *readback, interrupt func() bool, use func([]byte)) error {
	err := d.until(d.opts.WaitTimeout, interrupt, func() (bool, error) {
		ok, err := d.ctx.MapDone(rb.handle)
		return ok, d.wrap(err, "mapping of a readback buffer")
	})
	if err != nil {
		return err
	}
	d.completed = max(d.completed, rb.submission)
	mem := d.ctx.Mapped(rb.handle, MapRead, rb.total())
	if mem == nil {
		return ir.Errorf(ir.ErrKernelExecution, "%s: a readback buffer has no memory", d.caps.Name)
	}
	use(mem[:rb.bytes])
	if rb.checked != 0 {
		d.faults.note(mem[rb.bytes:], rb.checked)
	}
	if err := d.ctx.Unmap(rb.handle); err != nil {
		return d.wrap(err, "unmapping of a readback buffer")
	}
	d.reads.put(d.ctx, rb.handle, rb.class)
	return nil
}

// aheadRead implements device.PendingRead.
type aheadRead struct {
	d     *Device
	rb    readback
	t     ir.DType
	width int
	skip  int64 // bytes before the first element
}

// StartRead implements device.AheadReader.
func (d *Device) StartRead(b device.Buffer, t ir.DType, off, n int64) (device.PendingRead, error) {
	buf, width, err := d.element(b, t, off, n, "read")
	if err != nil || n == 0 || n*width > maxStageBytes/2 {
		return nil, err
	}
	d.stats.reads++
	lo, bytes := words(off, n, width)
	rb, err := d.startReadback(buf.handle, lo, bytes)
	if err != nil {
		return nil, err
	}
	return d.newAheadRead(rb, t, width, off*width-lo), nil
}

// words is the range of whole words, in bytes, that has n elements from off on.
func words(off, n, width int64) (at, bytes int64) {
	at = off * width &^ 3
	return at, ((off+n)*width+3)&^3 - at
}

func (d *Device) newAheadRead(rb readback, t ir.DType, width, skip int64) *aheadRead {
	if d.reads.ahead == nil {
		d.reads.ahead = map[Handle]bool{}
	}
	d.reads.ahead[rb.handle] = true
	return &aheadRead{d: d, rb: rb, t: t, width: int(width), skip: skip}
}

// Finish implements device.PendingRead.
func (r *aheadRead) Finish(dst []byte, interrupt func() bool) error {
	if !r.d.reads.ahead[r.rb.handle] {
		return r.d.lose("a read was finished twice, or after the device was closed")
	}
	err := r.d.finishReadback(&r.rb, interrupt, func(mem []byte) {
		fromStorage(r.t, r.width, dst, mem[r.skip:r.skip+int64(len(dst)/r.t.Size()*r.width)])
	})
	if !interrupted(err) {
		delete(r.d.reads.ahead, r.rb.handle)
	}
	return err
}

// Drop implements device.PendingRead.
func (r *aheadRead) Drop() {
	if r.d.reads.ahead[r.rb.handle] {
		delete(r.d.reads.ahead, r.rb.handle)
		r.d.reads.left = append(r.d.reads.left, r.rb)
	}
}
