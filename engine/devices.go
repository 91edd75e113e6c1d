package engine

import (
	"errors"

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
