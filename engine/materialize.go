package engine

import (
	"sync/atomic"
	"time"

	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// readCache holds the dense copy that was made of a view until Read has copied it.
type readCache struct {
	handle uint64 // of the view; 0: there is no copy
	value  uint32
	of     uint64 // Seq of the version that the copy was made of
}

// holds reports the copy of view h of version n.
func (c *readCache) holds(h uint64, n *ir.Node) bool { return c.handle == h && c.of == n.Seq }

// heavyElements is the pending work above which a read runs in a goroutine, so that
// signals are seen.
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
	if err := e.poisoned(); err != nil {
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
	av := ir.InternAval(d, dev, ir.DenseLayout(shape))
	width := int64(e.caps(dev).Storage[d])
	if width == 0 {
		return ir.Errorf(ir.ErrType, "%s is not supported on device %s: convert with .to(torch.float32) first", d,
			lazy.DeviceName(dev))
	}
	st, x := e.runtime.Allocate(dev, max(n*width, 1))
	if x != nil {
		return asError(x)
	}
	if n > 0 {
		if x := e.runtime.Devices[dev].Dev.Upload(e.runtime.Storage(st).Buf, d, 0, data); x != nil {
			e.runtime.Drop(st)
			return e.fail(x)
		}
	}
	e.noteUpload(st, av, data)
	v := e.session.Graph.AddLeaf(av.ID, st, sourceLoc)
	hd := e.session.Wrap(&op.Val{Kind: op.Tensor, Value: v, Aval: av.ID, Layout: av.Layout.ID}, nil)
	e.session.Graph.Release(v)
	if requiresGrad {
		if err := e.session.SetRequiresGrad(hd, true); err != nil {
			e.session.Release(hd)
			return err
		}
	}
	e.describe(hd, out)
	return nil
}

// heavy reports much pending work: it is run in time slices.
func (e *Engine) heavy() bool {
	return e.session.PendingBytes > 4*heavyElements || len(e.session.Graph.Pending) > 4096
}

// Force computes the value of h. It reports pending when slice passes; call it again.
func (e *Engine) Force(h uint64, slice time.Duration) (pending bool, err *ir.Error) {
	return e.hereOrJob("force", h, slice, e.heavy, func(bool) *ir.Error { return e.prepareRead(h) })
}

// prepareRead forces the dense value of h and keeps it in the read cache.
func (e *Engine) prepareRead(h uint64) *ir.Error {
	if err := e.raiseDeferred(); err != nil {
		return err
	}
	hv, err := e.session.Handle(h)
	if err != nil {
		return err
	}
	if b := e.session.Base(hv.Base); e.poison != nil {
		if n := e.session.Graph.Node(b.Value); n.Op != ir.OpLeaf || n.Store == 0 || ir.AvalOf(b.Aval).Device != ir.CPU {
			return e.poisoned()
		}
	}
	base := hv.Base
	newest := e.session.Base(base).Value
	v, err := e.forceDense(h)
	if err == nil {
		err = e.lostWriteTo(base)
	}
	// a lost write that the user knows of: the tensor is what it was
	if err == nil && e.session.Base(base).Value != newest {
		v, err = e.forceDense(h)
	}
	if err != nil {
		return err
	}
	if err := e.lost(v.Value); err != nil {
		return err
	}
	e.dropRead()
	if v.Base == 0 {
		e.session.Graph.Retain(v.Value)
		e.read = readCache{h, v.Value, e.session.Graph.Node(e.session.Base(base).Value).Seq}
	}
	return nil
}

// forceDense computes the value of h, or of a dense copy of it.
func (e *Engine) forceDense(h uint64) (v op.Val, err *ir.Error) {
	if v, err = e.session.Resolve(h); err != nil {
		return v, err
	}
	effects := 0
	if e.session.Base(v.Base).Binding != lazy.SSA {
		effects = len(e.session.Effects)
	}
	if l := v.L(); !l.Dense && l.Numel > 0 && e.poison == nil {
		e.session.Taping(false)
		v = prim.Contiguous(e.session, e.session.Detach(v))
	}
	if e.session.Graph.Node(v.Value).Op != ir.OpLeaf || effects > 0 {
		err = e.force([]uint32{v.Value}, effects)
	}
	return v, err
}

func (e *Engine) dropRead() {
	if e.read.value != 0 {
		e.session.Graph.Release(e.read.value)
		e.read = readCache{}
	}
}

// raiseDeferred raises what an earlier flush could not.
func (e *Engine) raiseDeferred() *ir.Error {
	x := e.pendingError
	e.pendingError = nil
	return x
}

// Read copies the dense value of h, in canonical form, to dst. It computes the value first.
func (e *Engine) Read(h uint64, dst []byte) (err *ir.Error) {
	if err := e.lock.acquire(threadID()); err != nil {
		return err
	}
	defer e.lock.release()
	defer e.leave(&err)
	e.enter()
	return e.readNow(h, dst, 0)
}

// ReadWithin is Read in time slices. It reports pending when slice passes; call it again. A value that is soon computed
// is computed and copied in this one call.
func (e *Engine) ReadWithin(h uint64, dst []byte, slice time.Duration) (pending bool, err *ir.Error) {
	copied := false
	pending, err = e.hereOrJob("force", h, slice, e.heavy, func(here bool) *ir.Error {
		if copied = here; here {
			return e.readNow(h, dst, slice)
		}
		return e.prepareRead(h) // dst is the caller's, who may give up waiting
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

// readNow is Read within both locks. After slice, unless that is 0, it ends with errBusyDevice and can be made again.
func (e *Engine) readNow(h uint64, dst []byte, slice time.Duration) (err *ir.Error) {
	hv, err := e.session.Handle(h)
	if err != nil {
		return err
	}
	b, l := e.session.Base(hv.Base), ir.LayoutOf(hv.Layout)
	av := ir.AvalOf(b.Aval)
	if want := l.Numel * int64(av.DType.Size()); want != int64(len(dst)) {
		return ir.Errorf(ir.ErrValue, "read: buffer: got %d bytes, want %d", len(dst), want)
	}
	if !e.read.holds(h, e.session.Graph.Node(b.Value)) { // else a read of it goes on
		if err := e.prepareRead(h); err != nil {
			return err
		}
		hv, _ = e.session.Handle(h)
	}
	value, off := e.session.Base(hv.Base).Value, hv.Offset
	if e.read.handle == h {
		value, off = e.read.value, 0
	}
	n := e.session.Graph.Node(value)
	if n.Op != ir.OpLeaf {
		return ir.Errorf(ir.ErrInternal, "BUG: a forced value is not stored")
	}
	if err := e.lost(value); err != nil {
		return err
	}
	if len(dst) > 0 {
		if x := e.runtime.Read(n.Store, av.DType, off, dst, slice); x != nil {
			if asError(x).Code == ir.ErrInterrupted {
				return errBusyDevice
			}
			e.dropRead()
			return e.fail(x)
		}
	}
	e.dropRead()
	return e.takeFault()
}

// Flush plans and submits all pending effects without waiting. Errors of the work
// itself surface at the next boundary.
func (e *Engine) Flush() (err *ir.Error) {
	if err := e.lock.acquire(threadID()); err != nil {
		return err
	}
	defer e.lock.release()
	defer e.leave(&err)
	e.enter()
	return e.flush()
}

// flush is Flush within both locks.
func (e *Engine) flush() *ir.Error {
	if e.inBackward > 0 {
		return nil
	}
	if err := e.force(nil, len(e.session.Effects)); err != nil {
		return err
	}
	return e.raiseLostWrites()
}

// FlushWithin is Flush in time slices: it reports pending when slice passes, call it again. With due it runs what
// State.Due announced.
func (e *Engine) FlushWithin(due bool, slice time.Duration) (pending bool, err *ir.Error) {
	if !due {
		return e.hereOrJob("flush", 0, slice, e.heavy, func(bool) *ir.Error { return e.flush() })
	}
	atomic.StoreInt32(&e.cfg.State.Due, 0)
	owner := threadID()
	if !e.lock.tryAcquire(owner) {
		return false, nil // another thread computes: its windows make place, or a later call announces the work again
	}
	e.lock.release()
	return e.run("due", 0, slice, func() (err *ir.Error) {
		defer e.leave(&err)
		e.enter()
		e.netOf(owner)
		return nil
	})
}

// MarkStep runs everything pending, waits for it, frees what nothing holds and begins a new epoch.
// It reports pending when slice passes: the caller then calls it again.
func (e *Engine) MarkStep(slice time.Duration) (pending bool, err *ir.Error) {
	long := func() bool { return e.heavy() || e.runtime.RunsBehind() }
	return e.hereOrJob("mark_step", 0, slice, long, func(bool) *ir.Error { return e.markStep() })
}

// markStep is MarkStep within both locks.
func (e *Engine) markStep() *ir.Error {
	if err := e.raiseDeferred(); err != nil {
		return err
	}
	// Step 0: everything tokGlobal roots.
	if err := e.force(nil, len(e.session.Effects)); err != nil {
		return err
	}
	// Steps 1 to 3: promotion of captured values, finished bindings, retention.
	e.session.Promote()
	// Step 4: cleanup and fencing; step 5: completion.
	e.drain()
	if x := e.runtime.Wait(); x != nil {
		return e.fail(x)
	}
	e.session.Epoch++
	lost := e.raiseLostWrites()
	if err := e.takeFault(); err != nil {
		return err
	}
	return lost
}
