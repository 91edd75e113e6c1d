package engine

import (
	"unsafe"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// exports maps export numbers to the values whose memory other libraries read.
type exports map[uint64]uint32

// ExportBuffer computes h, a tensor on the CPU, and returns the memory of its elements, dense and row-major. The memory
// keeps its contents until ReleaseExport: a later write to the tensor makes a new version elsewhere.
func (e *Engine) ExportBuffer(h uint64) (p unsafe.Pointer, export uint64, err *ir.Error) {
	if err := e.waiter.acquire(threadID()); err != nil {
		return nil, 0, err
	}
	defer e.waiter.release()
	defer e.leave(&err)
	e.enter()
	if err := e.prepareRead(h); err != nil {
		return nil, 0, err
	}
	defer e.read.drop(e.graph)
	hv, err := e.session.Handle(h)
	if err != nil {
		return nil, 0, err
	}
	value, off := e.session.Newest(hv.Base), hv.Offset
	if e.read.value != 0 {
		value, off = e.read.value, 0
	}
	n := e.graph.Node(value)
	if err := e.lost(value); err != nil {
		return nil, 0, err
	}
	b, ok := e.runtime.Storage(n.Store).Buf.(device.Mapped)
	if !ok {
		return nil, 0, ir.Errorf(ir.ErrRuntime, "the tensor is not in host memory: move it with .cpu() first")
	}
	id := e.newID()
	e.exports[id] = value
	e.graph.Retain(value)
	return unsafe.Add(b.Pointer(), off*int64(ir.AvalOf(n.Aval).DType.Size())), id, e.takeFault()
}

// ReleaseExport ends an export; unknown ones are ignored.
func (e *Engine) ReleaseExport(export uint64) {
	defer e.leave(nil)
	e.enter()
	if v, ok := e.exports[export]; ok {
		delete(e.exports, export)
		e.graph.Release(v)
	}
}
