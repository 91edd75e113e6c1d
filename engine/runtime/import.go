package runtime

import (
	"unsafe"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// Import makes a storage over host memory that owner keeps, or that free returns. It reports false if the device cannot
// use such memory.
func (x *Executor) Import(dev ir.DeviceID, p unsafe.Pointer, bytes int64, owner uint64, free func()) (uint32, bool) {
	d, ok := x.Devices[dev].Dev.(device.Importer)
	if !ok {
		return 0, false
	}
	id := x.NewStorage(d.Import(p, bytes), dev, bytes)
	x.storages[id].Owner, x.storages[id].Free = owner, free
	return id, true
}

// Abandon makes the owners of all imported memory Orphans of another executor, which replaces x. Memory without an
// owner stays: sessions may use it.
func (x *Executor) Abandon(to *Executor) {
	to.Orphans = append(to.Orphans, x.Orphans...)
	for i := range x.storages {
		if o := x.storages[i].Owner; o != 0 {
			to.Orphans = append(to.Orphans, o)
		}
	}
}
