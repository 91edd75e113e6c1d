package engine

import (
	"errors"
	"unsafe"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/runtime"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// devices opens devices on first use, chooses the default device, and keeps the values of uploaded integers. It
// implements lazy.Devices for the session.
type devices struct {
	cfg     *Config
	runtime *runtime.Executor
	graph   *ir.Graph
	chosen  bool        // first is known
	first   ir.DeviceID // the default device of threads that have set none
	uploads map[uint32]*uploaded
}

// ensure opens a device on first use.
func (k *devices) ensure(id ir.DeviceID) *ir.Error {
	if k.runtime.Devices[id] != nil {
		return nil
	}
	if k.cfg.Open == nil {
		return ir.Errorf(ir.ErrRuntime, "no device %s: this engine was made without devices", ir.DeviceName(id))
	}
	d, err := k.cfg.Open(id)
	if err != nil {
		var x *ir.Error
		if errors.As(err, &x) {
			return x
		}
		return ir.Errorf(ir.ErrRuntime, "device %s: %v", ir.DeviceName(id), err)
	}
	k.runtime.AddDevice(id, d)
	return nil
}

// caps describes a device; it opens the device if needed.
func (k *devices) caps(id ir.DeviceID) *device.Caps {
	if err := k.ensure(id); err != nil {
		panic(err)
	}
	return k.runtime.Caps(id)
}

// Default implements lazy.Devices. The first call looks for a GPU.
func (k *devices) Default() ir.DeviceID {
	if !k.chosen {
		k.chosen = true
		if k.cfg.DefaultDevice != nil {
			k.first = k.cfg.DefaultDevice()
		}
	}
	return k.first
}

// Stores implements lazy.Devices.
func (k *devices) Stores(dev ir.DeviceID, d ir.DType) bool {
	return dev == ir.Meta || k.caps(dev).Storage[d] > 0
}

// storeFreed forgets the integers of a storage that was freed.
func (k *devices) storeFreed(store uint32) {
	delete(k.uploads, store)
	k.runtime.Drop(store)
}

// SharesStorage implements lazy.Devices.
func (k *devices) SharesStorage(store uint32) bool { return k.runtime.Storage(store).Refs > 1 }

// CopyStorage implements lazy.Devices.
func (k *devices) CopyStorage(store uint32, d ir.DType, first, n int64) (uint32, *ir.Error) {
	if err := k.runtime.Restore(store); err != nil {
		return 0, asError(err)
	}
	size := int64(d.Size())
	to, err := k.runtime.Allocate(ir.CPU, max(n*size, 1))
	if err != nil {
		return 0, asError(err)
	}
	from := k.runtime.Mapped(store)
	if from == nil {
		return 0, ir.Errorf(ir.ErrInternal, "BUG: a storage to copy is not in host memory")
	}
	data := unsafe.Slice((*byte)(unsafe.Add(from, first*size)), n*size)
	if err := k.runtime.Upload(to, d, data); err != nil {
		k.runtime.Drop(to)
		return 0, asError(err)
	}
	k.noteUpload(to, ir.InternAval(d, ir.CPU, ir.DenseLayout([]int64{n})), data)
	return to, nil
}

// noteUpload keeps the integers that were uploaded to a storage.
func (k *devices) noteUpload(store uint32, av *ir.Aval, data []byte) {
	if u := newUpload(av, data, k.runtime.Mapped(store)); u != nil {
		k.uploads[store] = u
	}
}

// IndexRange implements lazy.Devices.
func (k *devices) IndexRange(v *op.Val, exact bool) (lo, hi int64, ok bool) {
	n := k.graph.Node(v.Value)
	if n.Op != ir.OpLeaf {
		return 0, 0, false
	}
	u := k.uploads[n.Store]
	if u == nil || k.runtime.Storage(n.Store).Version > 0 {
		return 0, 0, false // an in-place result lives in the storage of an upload
	}
	av := ir.AvalOf(n.Aval)
	if l := v.L(); !exact || l.Numel == av.Layout.Numel && !l.Overlap {
		return u.lo, u.hi, true
	}
	return u.rangeOf(v, av, k.runtime.Mapped(n.Store))
}
