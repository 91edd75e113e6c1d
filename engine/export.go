package engine

import (
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/runtime"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// exports maps export numbers to the memory that code outside of the engine uses.
type exports map[uint64]*lazy.Export

// ExportBuffer computes h, a tensor on the CPU, and returns the address of its first element. Until ReleaseExport,
// writes to the memory and to the tensor are seen on both sides; with pin the memory stays exported as long as the
// tensor or an alias lives, and export is 0.
func (e *Engine) ExportBuffer(h uint64, pin bool) (p unsafe.Pointer, export uint64, err *ir.Error) {
	if err := e.waiter.acquire(threadID()); err != nil {
		return nil, 0, err
	}
	defer e.waiter.release()
	defer e.leave(&err)
	e.enter()
	hv, err := e.session.Handle(h)
	if err != nil {
		return nil, 0, err
	}
	if err := readable(hv); err != nil {
		return nil, 0, err
	}
	if e.captures.tracing {
		return nil, 0, ir.Errorf(ir.ErrHostRead, "a captured function asks for the memory of a tensor: do that outside of it")
	}
	if e.session.AvalOf(hv.Base).Device != ir.CPU {
		return nil, 0, ir.Errorf(ir.ErrRuntime, "the tensor is not in host memory: move it with .cpu() first")
	}
	if err := e.realize([]uint64{h}); err != nil {
		return nil, 0, err
	}
	hv, _ = e.session.Handle(h)
	store := e.graph.Node(e.session.Newest(hv.Base)).Store
	if err := e.runtime.Restore(store); err != nil {
		return nil, 0, asError(err)
	}
	if _, ok := e.runtime.Storage(store).Buf.(device.Mapped); !ok {
		return nil, 0, ir.Errorf(ir.ErrRuntime, "the tensor is not in host memory: move it with .cpu() first")
	}
	x := e.session.Export(hv.Base)
	delete(e.devices.uploads, x.Store) // what is known of the elements may change
	e.runtime.Storage(x.Store).Pages = false
	if pin {
		x.Pinned = true
	} else {
		x.Uses++
		export = e.newID()
		e.exports[export] = x
	}
	size := int64(e.session.AvalOf(hv.Base).DType.Size())
	return unsafe.Add(e.runtime.Mapped(x.Store), hv.Offset*size), export, nil
}

// ReleaseExport ends an export; unknown ones are ignored.
func (e *Engine) ReleaseExport(export uint64) {
	defer e.leave(nil)
	e.enter()
	if x, ok := e.exports[export]; ok {
		delete(e.exports, export)
		e.session.EndExport(x)
	}
}

// Memory is memory outside of the engine, in which a tensor is made: elements with strides, none below the first.
type Memory struct {
	DType         ir.DType
	Shape, Stride []int64
	P             unsafe.Pointer
	ReadOnly      bool   // a write to the tensor moves it elsewhere
	Pages         bool   // dense elements of a file, of which the memory is a private mapping
	Owner         uint64 // what keeps the memory; see Owners
	free          func() // instead of an owner: it returns the memory
}

// FromMemory makes a tensor on the CPU over m. Writes are seen on both sides until Private(export), or as long as the
// tensor or an alias lives.
func (e *Engine) FromMemory(m *Memory, sourceLoc uint32, out *Out) (export uint64, err *ir.Error) {
	defer e.leaveOp(sourceLoc, &err)
	e.enter()
	return e.fromMemory(m, sourceLoc, out)
}

// unaligned makes a tensor of pages that are not aligned to its elements. Its storage keeps them; the elements are
// copied when they are used.
func (e *Engine) unaligned(m *Memory, sourceLoc uint32, out *Out) *ir.Error {
	e.devices.caps(ir.CPU)
	shape := m.Shape
	if m.DType.IsComplex() {
		shape = append(slices.Clone(shape), 2)
	}
	av := ir.InternAval(m.DType.Real(), ir.CPU, ir.DenseLayout(shape))
	st := e.runtime.NewAbsent(ir.CPU, m.P, av.Bytes(), m.Owner, m.free)
	if u := newUpload(av, unsafe.Slice((*byte)(m.P), av.Bytes()), m.P); u != nil {
		e.devices.uploads[st] = u
		runtime.DropPages(m.P, av.Bytes())
	}
	e.describe(e.wrapStorage(av, st, m.DType.IsComplex(), sourceLoc), out)
	return nil
}

// fromMemory is FromMemory within the engine's lock.
func (e *Engine) fromMemory(m *Memory, sourceLoc uint32, out *Out) (export uint64, err *ir.Error) {
	if err := e.failures.poisoned(); err != nil {
		return 0, err
	}
	if m.DType == ir.InvalidDType || m.DType >= ir.NumDTypes || len(m.Shape) > MaxRank {
		return 0, ir.Errorf(ir.ErrType, "memory: got dtype number %d and %d dims, want dtypes to %d and at most %d dims",
			m.DType, len(m.Shape), ir.NumDTypes-1, MaxRank)
	}
	if m.Pages && uintptr(m.P)%uintptr(m.DType.Real().Size()) != 0 {
		return 0, e.unaligned(m, sourceLoc, out)
	}
	e.devices.caps(ir.CPU)
	l, d := ir.InternLayout(m.Shape, m.Stride), m.DType.Real()
	if m.DType.IsComplex() {
		l = ir.PairLayout(l)
	}
	of := ir.DenseLayout([]int64{l.Span})
	if l.Dense {
		of = ir.LayoutOf(l.Contig)
	}
	av := ir.InternAval(d, ir.CPU, of)
	st, ok := e.runtime.Import(ir.CPU, m.P, max(l.Span*int64(d.Size()), 1), m.Owner, m.free)
	if !ok {
		return 0, ir.Errorf(ir.ErrRuntime, "memory: this CPU device cannot import host memory")
	}
	e.runtime.Storage(st).Pages = m.Pages
	v := e.graph.AddLeaf(av.ID, st, sourceLoc)
	made := op.Val{Kind: op.Tensor, Value: v, Aval: av.ID, Layout: l.ID}
	if m.DType.IsComplex() {
		made = e.session.Complex(made)
	}
	hd := e.session.Wrap(&made, nil)
	e.graph.Release(v)
	h, _ := e.session.Handle(hd)
	x := e.session.Export(h.Base)
	x.Pinned, x.ReadOnly, x.Imported = true, m.ReadOnly, true
	export = e.newID()
	e.exports[export] = x
	e.describe(hd, out)
	e.recorded()
	return export, nil
}

// Private ends the export of imported memory that nothing outside uses any more.
func (e *Engine) Private(export uint64) {
	defer e.leave(nil)
	e.enter()
	e.private(export)
}

// private is Private within the engine's lock.
func (e *Engine) private(export uint64) {
	if x, ok := e.exports[export]; ok {
		delete(e.exports, export)
		e.session.Private(x)
	}
}

// Sole reports that only export uses its memory: the tensor and its aliases are gone.
func (e *Engine) Sole(export uint64) bool {
	defer e.leave(nil)
	e.enter()
	x, ok := e.exports[export]
	return ok && e.session.Sole(x)
}

// Owners moves owners of imported memory that nothing uses any more to list, and returns their number.
func (e *Engine) Owners(list []uint64) int {
	defer e.leave(nil)
	e.enter()
	n := copy(list, e.runtime.Orphans)
	e.runtime.Orphans = append(e.runtime.Orphans[:0], e.runtime.Orphans[n:]...)
	atomic.AndInt32(&e.cfg.State.Due, ^dueOwners)
	return n
}

// settleExports must be called before code outside of the engine runs: it runs the readers of exported memory, and
// copies writes to it.
func (e *Engine) settleExports() *ir.Error {
	defer atomic.AndInt32(&e.cfg.State.Due, ^dueShared)
	if !e.session.ExportsDue() {
		return nil
	}
	values, all := e.session.ExportWork()
	effects := 0
	if all {
		effects = e.session.PendingEffects()
	}
	var err *ir.Error
	if len(values) > 0 {
		err = e.force(values, effects)
	}
	if err != nil && err.Code == ir.ErrInterrupted {
		return err // the work stays: it goes on with the next call
	}
	published := e.session.EndExportWork(func(from, to uint32) *ir.Error {
		s := e.runtime.Storage(to)
		src, dst := e.runtime.Mapped(from), e.runtime.Mapped(to)
		copy(unsafe.Slice((*byte)(dst), s.Bytes), unsafe.Slice((*byte)(src), s.Bytes))
		s.Version++
		return nil
	})
	if err == nil {
		err = published
	}
	if err == nil {
		err = e.takeFault()
	}
	return err
}

// settleHere is settleExports within the call that recorded, for callers that do not set State.Defer.
func (e *Engine) settleHere() {
	if !e.waiter.tryAcquire(threadID()) {
		return // a thread computes: the next call tries again
	}
	defer e.waiter.release()
	e.failures.raiseLater(e.settleExports())
}

// settling reports that a job of settleWithin is to be waited for.
func (e *Engine) settling(owner int64) bool {
	j := e.waiter.current()
	return j != nil && j.kind == "exports" && j.owner == owner
}

// settleWithin is settleExports in time slices.
func (e *Engine) settleWithin(owner int64, slice time.Duration) (pending bool, err *ir.Error) {
	if e.waiter.heldByOther(owner) {
		time.Sleep(slice / 100)
		return true, nil
	}
	return e.hereOrJob("exports", 0, slice, e.heavy, func(bool) *ir.Error { return e.settleExports() })
}
