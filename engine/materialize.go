package engine

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// readCache holds the dense copy of a view until Read has copied its elements.
type readCache struct {
	handle uint64 // of the view; 0: there is no copy
	value  uint32
	of     uint64 // Seq of the version that was copied
}

// holds reports that the copy is of view h at version n.
func (c *readCache) holds(h uint64, n *ir.Node) bool { return c.handle == h && c.of == n.Seq }

// drop frees the copy.
func (c *readCache) drop(g *ir.Graph) {
	if c.value != 0 {
		g.Release(c.value)
		*c = readCache{}
	}
}

// heavyElements is the pending work above which a read runs in a goroutine, so that its caller sees signals.
const heavyElements = 1 << 20

// FromData makes a leaf from dense host data in canonical form.
func (e *Engine) FromData(d ir.DType, dev ir.DeviceID, shape []int64, data []byte, requiresGrad bool, sourceLoc uint32,
	out *Out) (err *ir.Error) {
	defer e.leaveOp(sourceLoc, &err)
	e.enter()
	err = e.fromData(d, dev, shape, data, requiresGrad, sourceLoc, out)
	e.recorded()
	return err
}

func (e *Engine) fromData(d ir.DType, dev ir.DeviceID, shape []int64, data []byte, requiresGrad bool, sourceLoc uint32,
	out *Out) *ir.Error {
	if err := e.failures.poisoned(); err != nil {
		return err
	}
	if d == ir.InvalidDType || d >= ir.NumDTypes {
		return ir.Errorf(ir.ErrType, "tensor: dtype: got number %d, want 1 to %d", d, ir.NumDTypes-1)
	}
	if len(shape) > MaxRank {
		return ir.Errorf(ir.ErrRuntime, "tensor: got %d dims, want at most %d", len(shape), MaxRank)
	}
	n := int64(1)
	for _, x := range shape {
		if x < 0 || (x > 0 && n > (1<<62)/x) {
			return ir.Errorf(ir.ErrRuntime, "tensor: shape %s is negative or too large", ir.ShapeString(shape))
		}
		n *= x
	}
	if want := n * int64(d.Size()); want != int64(len(data)) {
		return ir.Errorf(ir.ErrValue, "tensor: data of shape %s and dtype %s: got %d bytes, want %d", ir.ShapeString(shape),
			d, len(data), want)
	}
	e.session.SourceLoc = sourceLoc
	if d.IsComplex() {
		shape = append(slices.Clone(shape), 2)
	}
	av := ir.InternAval(d.Real(), dev, ir.DenseLayout(shape))
	st := uint32(0)
	if dev != ir.Meta {
		var err *ir.Error
		if st, err = e.upload(av, data); err != nil {
			return err
		}
	}
	hd := e.wrapStorage(av, st, d.IsComplex(), sourceLoc)
	if requiresGrad {
		if err := e.session.SetRequiresGrad(hd, true); err != nil {
			e.session.Release(hd)
			return err
		}
	}
	e.describe(hd, out)
	return nil
}

// wrapStorage makes a tensor of a new storage.
func (e *Engine) wrapStorage(av *ir.Aval, st uint32, pairs bool, sourceLoc uint32) uint64 {
	v := e.graph.AddLeaf(av.ID, st, sourceLoc)
	defer e.graph.Release(v)
	x := op.Val{Kind: op.Tensor, Value: v, Aval: av.ID, Layout: av.Layout.ID}
	if pairs {
		x = e.session.Complex(x)
	}
	return e.session.Wrap(&x, nil)
}

// upload makes a storage with a value's elements.
func (e *Engine) upload(av *ir.Aval, data []byte) (st uint32, err *ir.Error) {
	d, n := av.DType, av.Layout.Numel
	width := int64(e.devices.caps(av.Device).Storage[d])
	if width == 0 {
		return 0, ir.Errorf(ir.ErrType, "%s", ir.NotStored(d, av.Device))
	}
	st, x := e.runtime.Allocate(av.Device, max(n*width, 1))
	if x != nil {
		return 0, asError(x)
	}
	if n > 0 {
		if x := e.runtime.Upload(st, d, data); x != nil {
			e.runtime.Drop(st)
			return 0, e.failures.fail(x)
		}
	}
	e.devices.noteUpload(st, av, data)
	return st, nil
}

// heavy reports that the work may keep its thread for long: there is much of it, and it may lack a plan. A run pauses
// in time, but compiling does not. Work with a plan stays in the thread that recorded it and has it in its caches.
func (e *Engine) heavy() bool {
	return !e.planner.steady && (e.session.PendingBytes() > 4*heavyElements || len(e.graph.Pending) > 4096)
}

// Force computes the value of h. It reports pending when slice has passed; call it again.
func (e *Engine) Force(h uint64, slice time.Duration) (pending bool, err *ir.Error) {
	return e.hereOrJob("force", h, slice, e.heavy, func(bool) *ir.Error { return e.prepareRead(h, 0) })
}

// purpose says what a value is forced for.
type purpose uint8

const (
	forAll  purpose = 1 << iota // all pending effects too, in one window
	forCopy                     // a copy of its elements to the host
)

// prepareRead forces the dense value of h and keeps it in the read cache. The window that computes the value may make a
// copy of it, where one is wanted: then the list of copies has it, and the read cache is empty.
func (e *Engine) prepareRead(h uint64, to purpose) *ir.Error {
	defer e.copies.want(wanted{})
	if err := e.failures.raise(); err != nil {
		return err
	}
	hv, err := e.session.Handle(h)
	if err != nil {
		return err
	}
	if err := readable(hv); err != nil {
		return err
	}
	if b := e.session.Base(hv.Base); e.failures.poison != nil {
		if n := e.graph.Node(b.Value); n.Op != ir.OpLeaf || n.Store == 0 || ir.AvalOf(b.Aval).Device != ir.CPU {
			return e.failures.poisoned()
		}
	}
	base := hv.Base
	newest := e.session.Newest(base)
	v, err := e.forceDense(h, to)
	if err == nil {
		err = e.lostWriteTo(base)
	}
	// the user knows of the lost write: the tensor has its former value
	if err == nil && e.session.Newest(base) != newest {
		e.copies.want(wanted{})
		v, err = e.forceDense(h, to&^forAll)
	}
	if err != nil {
		return err
	}
	if err := e.lost(v.Value); err != nil {
		return err
	}
	e.read.drop(e.graph)
	if v.Base == 0 {
		e.graph.Retain(v.Value)
		e.read = readCache{h, v.Value, e.graph.Node(e.session.Newest(base)).Seq}
	}
	e.addWanted(h)
	return nil
}

// readable refuses the elements of a tensor with hidden dims: they differ in the batch of vmap.
func readable(h *lazy.Handle) *ir.Error {
	if ir.LayoutOf(h.Layout).Hidden == nil {
		return nil
	}
	return ir.Errorf(ir.ErrRuntime, "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over "+
		"calling .item() on a Tensor, please try to rewrite what you're doing with other operations. If error is occurring "+
		"somewhere inside PyTorch internals, please file a bug report.")
}

// forceDense computes the value of h, through a dense copy if h is a view.
func (e *Engine) forceDense(h uint64, to purpose) (v op.Val, err *ir.Error) {
	if v, err = e.session.Resolve(h); err != nil {
		return v, err
	}
	effects := 0
	if to&forAll != 0 || e.session.IsOrdered(v.Base) {
		effects = e.session.PendingEffects()
	}
	if l := v.L(); !l.Dense && l.Numel > 0 && e.failures.poison == nil {
		e.session.Taping(false)
		v = prim.Contiguous(e.session, e.session.Detach(v))
	}
	if e.graph.Node(v.Value).Op != ir.OpLeaf || effects > 0 {
		if to&forCopy != 0 {
			e.copies.want(wanted{value: v.Value, dtype: ir.AvalOf(v.Aval).DType, off: v.Offset, n: v.L().Whole().Numel})
		}
		err = e.force([]uint32{v.Value}, effects)
	}
	return v, err
}

// Read computes h and copies its dense elements, in canonical form, to dst.
func (e *Engine) Read(h uint64, dst []byte) (err *ir.Error) {
	if err := e.waiter.acquire(threadID()); err != nil {
		return err
	}
	defer e.waiter.release()
	defer e.leave(&err)
	e.enter()
	return e.readNow(h, dst, 0)
}

// ReadWithin is Read in time slices. It reports pending when slice has passed; call it again. A short computation and
// its copy take one call.
func (e *Engine) ReadWithin(h uint64, dst []byte, slice time.Duration) (pending bool, err *ir.Error) {
	copied := false
	pending, err = e.hereOrJob("force", h, slice, e.heavy, func(here bool) *ir.Error {
		if copied = here; here {
			return e.readNow(h, dst, slice)
		}
		return e.prepareRead(h, forCopy) // dst stays unused: its owner may stop waiting for the job
	})
	if !copied && !pending && err == nil {
		short := func() bool { return false }
		pending, err = e.here(slice, short, func(bool) *ir.Error { return e.readNow(h, dst, slice) })
	}
	if err == errBusyDevice || err == errPaused {
		return true, nil
	}
	return pending, err
}

// readNow is Read within both locks. With slice not 0, it waits at most slice for the device, then returns
// errBusyDevice; the caller can retry.
func (e *Engine) readNow(h uint64, dst []byte, slice time.Duration) (err *ir.Error) {
	hv, err := e.session.Handle(h)
	if err != nil {
		return err
	}
	if err := readable(hv); err != nil {
		return err
	}
	b, l := e.session.Base(hv.Base), ir.LayoutOf(hv.Layout)
	av := ir.AvalOf(b.Aval)
	if want := l.Whole().Numel * int64(av.DType.Size()); want != int64(len(dst)) {
		return ir.Errorf(ir.ErrValue, "read: buffer: got %d bytes, want %d", len(dst), want)
	}
	if i := e.copies.find(h, e.graph.Node(b.Value).Seq); i >= 0 {
		return e.readCopied(i, dst, slice)
	}
	if !e.read.holds(h, e.graph.Node(b.Value)) { // otherwise a read of this version continues
		if err := e.prepareRead(h, forCopy); err != nil {
			return err
		}
		if i := e.copies.find(h, e.graph.Node(e.session.Newest(hv.Base)).Seq); i >= 0 {
			return e.readCopied(i, dst, slice)
		}
	}
	value, off := e.readPlace(h)
	n := e.graph.Node(value)
	if n.Op != ir.OpLeaf {
		return ir.Errorf(ir.ErrInternal, "BUG: a forced value is not stored")
	}
	if err := e.lost(value); err != nil {
		return err
	}
	if len(dst) > 0 {
		if x := e.readStorage(n.Store, av.DType, off, dst, slice); x != nil {
			if asError(x).Code == ir.ErrInterrupted {
				return errBusyDevice
			}
			e.read.drop(e.graph)
			return e.failures.fail(x)
		}
	}
	e.read.drop(e.graph)
	e.stats.reads++
	return e.takeFault()
}

// readStorage copies elements of a storage to dst. On an asynchronous device it logs how long that took.
func (e *Engine) readStorage(id uint32, d ir.DType, off int64, dst []byte, slice time.Duration) error {
	if e.runtime.Caps(e.runtime.Storage(id).Dev).Async {
		defer e.windows.waited(time.Now())
	}
	return e.runtime.Read(id, d, off, dst, slice)
}

// Flush plans and submits all pending effects without waiting. The next boundary raises errors of the work itself.
func (e *Engine) Flush() (err *ir.Error) {
	if err := e.waiter.acquire(threadID()); err != nil {
		return err
	}
	defer e.waiter.release()
	defer e.leave(&err)
	e.enter()
	return e.flush()
}

// flush is Flush within both locks.
func (e *Engine) flush() *ir.Error {
	if e.captures.flushed = e.captures.flushed || e.captures.tracing; e.backward.open > 0 || e.captures.tracing {
		return nil
	}
	if err := e.force(nil, e.session.PendingEffects()); err != nil {
		return err
	}
	return e.failures.raiseLostWrites()
}

// FlushWithin is Flush in time slices: it reports pending when slice has passed; call it again. With due it runs only
// the work that State.Due announced.
func (e *Engine) FlushWithin(due bool, slice time.Duration) (pending bool, err *ir.Error) {
	if !due {
		return e.hereOrJob("flush", 0, slice, e.heavy, func(bool) *ir.Error { return e.flush() })
	}
	owner := threadID()
	if atomic.LoadInt32(&e.cfg.State.Due)&dueShared != 0 || e.settling(owner) {
		return e.settleWithin(owner, slice)
	}
	atomic.AndInt32(&e.cfg.State.Due, ^dueNodes)
	if !e.waiter.tryAcquire(owner) {
		return false, nil // another thread computes: its windows reduce the work, or a later call sets Due again
	}
	e.waiter.release()
	return e.run("due", 0, slice, func() (err *ir.Error) {
		defer e.leave(&err)
		e.enter()
		e.autoFlush(owner)
		return nil
	})
}

// MarkStep runs everything pending, waits for the devices, frees what nothing holds and begins a new epoch. It reports
// pending when slice has passed; call it again.
func (e *Engine) MarkStep(slice time.Duration) (pending bool, err *ir.Error) {
	long := func() bool { return e.heavy() || e.runtime.RunsBehind() }
	return e.hereOrJob("mark_step", 0, slice, long, func(bool) *ir.Error { return e.markStep() })
}

// markStep is MarkStep within both locks.
func (e *Engine) markStep() *ir.Error {
	if err := e.failures.raise(); err != nil {
		return err
	}
	if err := e.force(nil, e.session.PendingEffects()); err != nil {
		return err
	}
	// Bases whose first store is committed become locs.
	e.session.Promote()
	e.drain()
	if x := e.wait(); x != nil {
		return e.failures.fail(x)
	}
	e.session.Epoch++
	lost := e.failures.raiseLostWrites()
	if err := e.takeFault(); err != nil {
		return err
	}
	return lost
}
