package runtime

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// Kept is a value on a device that runs of frozen plans read and write. A run reads one buffer and writes another; Swap
// makes what it wrote the value.
type Kept struct {
	pool      *DeviceState
	dtype     ir.DType
	size      int64 // of a buffer
	now, next device.Buffer
}

// Keep makes a kept value of bytes in canonical form, of elements that are not complex.
func (x *Executor) Keep(dev ir.DeviceID, d ir.DType, bytes int64) (*Kept, error) {
	pl := x.Devices[dev]
	k := &Kept{pool: pl, dtype: d, size: max(bytes/int64(d.Size())*int64(pl.Dev.Caps().Storage[d]), 1)}
	for _, b := range []*device.Buffer{&k.now, &k.next} {
		var err error
		if *b, err = pl.Pool.Acquire(k.size); err != nil {
			k.Release()
			return nil, x.wrap(pl, k.size, err)
		}
	}
	return k, nil
}

// Set gives the next run another value, in canonical form.
func (k *Kept) Set(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	return k.pool.Dev.Upload(k.now, k.dtype, 0, data)
}

// Swap makes what the last run wrote the value.
func (k *Kept) Swap() { k.now, k.next = k.next, k.now }

// Release returns the buffers.
func (k *Kept) Release() {
	for _, b := range []device.Buffer{k.now, k.next} {
		if b != nil {
			k.pool.Pool.Release(b, k.size)
		}
	}
	k.now, k.next = nil, nil
}
