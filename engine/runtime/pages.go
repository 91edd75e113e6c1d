package runtime

import (
	"os"
	"slices"
	"unsafe"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// DropPages takes bytes of a private mapping out of memory, which are as they are in the file: a read loads them again.
func DropPages(first unsafe.Pointer, bytes int64) {
	p, size := uintptr(first), uintptr(os.Getpagesize())
	from, to := (p+size-1)/size*size, (p+uintptr(bytes))/size*size
	if from < to {
		dropMapped(unsafe.Slice((*byte)(unsafe.Add(first, from-p)), to-from))
	}
}

// copyPiece is how much of a file is in memory beside the copy that Restore makes. It is a multiple of a page.
const copyPiece = 4 << 20

// NewAbsent makes a storage with the elements at source, which are not aligned to their size. The first use copies
// them. The storage keeps owner, or calls free in the end.
func (x *Executor) NewAbsent(dev ir.DeviceID, source unsafe.Pointer, bytes int64, owner uint64, free func()) uint32 {
	id := x.NewStorage(nil, dev, bytes)
	s := &x.storages[id]
	s.Pages, s.Source, s.Owner, s.Free = true, source, owner, free
	return id
}

// Mapped returns the host address of a storage, nil if the host cannot read it.
func (x *Executor) Mapped(id uint32) unsafe.Pointer {
	if x.Restore(id) != nil {
		return nil
	}
	if b, ok := x.storages[id].Buf.(device.Mapped); ok {
		return b.Pointer()
	}
	return nil
}

// Evict frees the buffer of a storage with a source, until Restore.
func (x *Executor) Evict(id uint32) {
	if s := &x.storages[id]; s.Buf != nil {
		x.Devices[s.Dev].Pool.Discard(s.Buf, s.Bytes)
		s.Buf = nil
	}
}

// Restore gives a storage that has a source, but no buffer, a buffer with its elements.
func (x *Executor) Restore(id uint32) error {
	s := &x.storages[id]
	if s.Buf != nil || s.Source == nil {
		return nil
	}
	pl := x.Devices[s.Dev]
	b, err := pl.Pool.Acquire(s.Bytes)
	if err != nil {
		return x.wrap(pl, s.Bytes, err)
	}
	for at := int64(0); at < s.Bytes; {
		from := unsafe.Add(s.Source, at)
		n := min(s.Bytes-at, copyPiece-int64(uintptr(from)%copyPiece))
		if err := pl.Dev.Upload(b, ir.U8, at, unsafe.Slice((*byte)(from), n)); err != nil {
			pl.Pool.Release(b, s.Bytes)
			return err
		}
		DropPages(from, n)
		at += n
	}
	s.Buf = b
	return nil
}

// Unload takes a storage out of memory that is as it is in a file: its pages and, if evict says that nothing has its
// address, its buffer. A use loads it again.
func (x *Executor) Unload(id uint32, evict bool) {
	switch s := &x.storages[id]; {
	case !s.Pages || s.Version > 0:
	case s.Source == nil:
		DropPages(x.Mapped(id), s.Bytes)
	default:
		if evict {
			x.Evict(id)
		}
		DropPages(s.Source, s.Bytes)
	}
}

// absent returns a buffer for slot i of a plan, whose storage has none: a copy of its source. A plan that only moves
// the value to other devices reads the source itself.
func (x *Executor) absent(p *compile.Plan, i int, id uint32) (device.Buffer, error) {
	s := &x.storages[id]
	if d, ok := x.Devices[s.Dev].Dev.(device.Importer); ok && s.Source != nil && moves(p, i) {
		return d.Import(s.Source, s.Bytes), nil
	}
	err := x.Restore(id)
	return s.Buf, err
}

// moves reports that a plan does nothing with a slot but to move it to other devices.
func moves(p *compile.Plan, slot int) bool {
	for i := range p.Segments {
		s := &p.Segments[i]
		for k := range s.Steps {
			if slices.Contains(s.Steps[k].Bufs, slot) {
				return false
			}
		}
		if s.Repeat != nil && s.Repeat.Flag == slot {
			return false
		}
	}
	return true
}
