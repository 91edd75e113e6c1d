package runtime

import (
	"unsafe"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// Discard is Drop for memory that is not soon needed again: a device that works at once frees it.
func (x *Executor) Discard(id uint32) {
	s := &x.storages[id]
	pl := x.Devices[s.Dev]
	if s.Refs > 1 || s.Free != nil || s.Owner != 0 || pl.Dev.Caps().Async {
		x.Drop(id)
		return
	}
	pl.Pool.Discard(s.Buf, s.Bytes)
	*s = DeviceStorage{}
	x.LiveStorages--
	x.free = append(x.free, id)
}

// Evict frees the buffer of a storage with a source, until Restore.
func (x *Executor) Evict(id uint32) {
	if s := &x.storages[id]; s.Buf != nil {
		x.Devices[s.Dev].Pool.Discard(s.Buf, s.Bytes)
		s.Buf = nil
	}
}

// Restore gives an evicted storage a buffer with its elements.
func (x *Executor) Restore(id uint32) error {
	s := &x.storages[id]
	if s.Buf != nil {
		return nil
	}
	pl := x.Devices[s.Dev]
	b, err := pl.Pool.Acquire(s.Bytes)
	if err != nil {
		return x.wrap(pl, s.Bytes, err)
	}
	s.Buf = b
	return pl.Dev.Upload(b, ir.U8, 0, unsafe.Slice((*byte)(s.Source), s.Bytes))
}

// Packed is the memory of the packs of a device that works in host memory.
func (x *Executor) Packed(dev ir.DeviceID) int64 { return x.Devices[dev].Dev.(device.Host).Packed() }

// ReturnUnused gives the system the unused memory of devices that work in host memory.
func (x *Executor) ReturnUnused() {
	for _, pl := range x.Devices {
		if h, ok := pl.Dev.(device.Host); ok && pl.Pool.Trim() == nil {
			h.ReturnUnused()
		}
	}
}
