package runtime

import (
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

// Packed is the memory of the packs of a device that works in host memory.
func (x *Executor) Packed(dev ir.DeviceID) int64 { return x.Devices[dev].Dev.(device.Host).Packed() }

// ReturnUnused gives the system unused host memory: of other devices what they keep for uploads. Devices that work in
// host memory come last, since they also return what the others gave the allocator.
func (x *Executor) ReturnUnused() {
	for _, hosts := range []bool{false, true} {
		for _, pl := range x.Devices {
			_, host := pl.Dev.(device.Host)
			if r, ok := pl.Dev.(interface{ ReturnUnused() }); ok && host == hosts && (!host || pl.Pool.Trim() == nil) {
				r.ReturnUnused()
			}
		}
	}
}
