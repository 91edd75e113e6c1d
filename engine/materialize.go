package engine

import (
	"time"

	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// readCache holds the dense copy that Force made of a view until Read takes it.
type readCache struct {
	handle uint64
	value  uint32
}

// heavyElements is the pending work above which a read runs in a goroutine, so that
// signals are seen.
const heavyElements = 1 << 20

// FromData makes a leaf from dense host data in canonical form.
func (e *Engine) FromData(d ir.DType, dev ir.DeviceID, shape []int64, data []byte, requiresGrad bool, sourceLoc uint32,
	out *Out) (err *ir.Error) {
	e.enter()
	defer e.finish(sourceLoc, &err)
	if err = e.poisoned(); err != nil {
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
	if e.lock.heldByOther(threadID()) {
		return false, busy()
	}
	e.enter()
	big := e.job != nil || e.heavy()
	e.mu.Unlock()
	work := func() *ir.Error {
		e.mu.Lock()
		defer e.leave()
		return e.prepareRead(h)
	}
	if big {
		return e.run("force", h, slice, work)
	}
	if err := e.lock.acquire(threadID()); err != nil {
		return false, err
	}
	defer e.lock.release()
	return false, work()
}

// prepareRead forces the dense value of h and keeps it in the read cache.
func (e *Engine) prepareRead(h uint64) (err *ir.Error) {
	defer catch(&err)
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
	effects := 0
	v, err := e.session.Resolve(h)
	if err != nil {
		return err
	}
	if e.session.Base(v.Base).Binding != lazy.SSA {
		effects = len(e.session.Effects)
	}
	if l := v.L(); !l.Dense && l.Numel > 0 && e.poison == nil {
		e.session.Taping(false)
		v = prim.Contiguous(e.session, e.session.Detach(v))
	}
	if e.session.Graph.Node(v.Value).Op != ir.OpLeaf || effects > 0 {
		if err := e.force([]uint32{v.Value}, effects); err != nil {
			return err
		}
	}
	e.dropRead()
	if v.Base == 0 {
		e.session.Graph.Retain(v.Value)
		e.read = readCache{h, v.Value}
	}
	return nil
}

func (e *Engine) dropRead() {
	if e.read.value != 0 {
		e.session.Graph.Release(e.read.value)
		e.read = readCache{}
	}
}

// catch turns a panic with *ir.Error into the error.
func catch(err **ir.Error) {
	if r := recover(); r != nil {
		x, ok := r.(*ir.Error)
		if !ok {
			panic(r)
		}
		*err = x
	}
}

// raiseDeferred raises what an earlier flush could not.
func (e *Engine) raiseDeferred() *ir.Error {
	x := e.pendingError
	e.pendingError = nil
	return x
}

// Read copies the dense value of h, in canonical form, to dst.
func (e *Engine) Read(h uint64, dst []byte) (err *ir.Error) {
	if err := e.enterExec(); err != nil {
		return err
	}
	defer e.leaveExec()
	defer catch(&err)
	hv, err := e.session.Handle(h)
	if err != nil {
		return err
	}
	b := e.session.Base(hv.Base)
	av := ir.AvalOf(b.Aval)
	l := ir.LayoutOf(hv.Layout)
	if want := l.Numel * int64(av.DType.Size()); want != int64(len(dst)) {
		return ir.Errorf(ir.ErrValue, "read: buffer: got %d bytes, want %d", len(dst), want)
	}
	value, off := b.Value, hv.Offset
	stale := e.session.Graph.Node(value).Op != ir.OpLeaf || b.Binding != lazy.SSA && len(e.session.Effects) > 0 || !l.Dense
	if e.read.handle != h && stale {
		if err := e.prepareRead(h); err != nil {
			return err
		}
		hv, _ = e.session.Handle(h)
		value, off = e.session.Base(hv.Base).Value, hv.Offset
	}
	if e.read.handle == h && e.read.value != 0 {
		value, off = e.read.value, 0
	}
	defer e.dropRead()
	n := e.session.Graph.Node(value)
	if n.Op != ir.OpLeaf {
		return ir.Errorf(ir.ErrInternal, "BUG: a forced value is not stored")
	}
	if n.Store == 0 {
		return e.lost(n)
	}
	if len(dst) > 0 {
		s := e.runtime.Storage(n.Store)
		if x := e.runtime.Devices[s.Dev].Dev.Read(s.Buf, av.DType, off, dst); x != nil {
			return e.fail(x)
		}
	}
	return e.takeFault()
}

// Flush plans and submits all pending effects without waiting. Errors of the work
// itself surface at the next boundary.
func (e *Engine) Flush() (err *ir.Error) {
	if err := e.enterExec(); err != nil {
		return err
	}
	defer e.leaveExec()
	defer catch(&err)
	if e.inBackward > 0 {
		return nil
	}
	return e.force(nil, len(e.session.Effects))
}

// MarkStep runs everything pending, waits, promotes, collects and begins a new epoch. It reports pending when slice
// passes; call it again.
func (e *Engine) MarkStep(slice time.Duration) (pending bool, err *ir.Error) {
	return e.run("mark_step", 0, slice, e.markStep)
}

func (e *Engine) markStep() (err *ir.Error) {
	e.mu.Lock()
	defer e.leave()
	defer catch(&err)
	e.drain()
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
	if x := e.runtime.Wait(nil); x != nil {
		return e.fail(x)
	}
	e.session.Epoch++
	return e.takeFault()
}
