package engine

import (
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/torchlette/torchlette/engine/saved"
	"github.com/torchlette/torchlette/ir"
)

// pages are a private mapping of a file: reads load its pages, writes stay in memory. It is unmapped when the program
// and the tensors over it are gone.
type pages struct {
	data []byte
	uses atomic.Int64
}

// leastMapped is the bytes of the smallest constant that is left in the file; a smaller one is copied.
const leastMapped = 1 << 14

// mapProgram maps the file of an opened program, where the system can, so that its large constants are not copied.
func (e *Engine) mapProgram(id uint64) {
	defer e.leave(nil)
	e.enter()
	p := e.programs[id]
	if p == nil || p.file == nil || p.pages != nil || slices.Contains(e.planner.debug.Off, "map_constants") {
		return
	}
	if b := mapFile(p.file); b != nil {
		p.pages = &pages{data: b}
		p.pages.uses.Store(1)
	}
}

// hold reports that a constant can be used where it lies in the file.
func (m *pages) hold(at saved.Extent, d ir.DType) bool {
	return at.Size >= leastMapped && at.Offset >= 0 && at.Offset <= int64(len(m.data))-at.Size &&
		uintptr(unsafe.Pointer(&m.data[at.Offset]))%uintptr(d.Size()) == 0
}

// release ends a use.
func (m *pages) release() {
	if m.uses.Add(-1) == 0 {
		unmap(m.data)
		m.data = nil
	}
}

// overPages makes a tensor over a constant that the pages hold. The caller has the engine's lock.
func (e *Engine) overPages(m *pages, c *saved.Constant, at saved.Extent, out *Out) *ir.Error {
	m.uses.Add(1)
	over := &Memory{DType: c.DType, Pages: true, Shape: c.Shape, Stride: ir.DenseStrides(c.Shape),
		P: unsafe.Pointer(&m.data[at.Offset]), free: m.release}
	export, err := e.fromMemory(over, 0, out)
	if err != nil {
		m.release()
		return err
	}
	e.private(export)
	return nil
}
