package runtime

import (
	"time"
	"unsafe"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// Within returns the interrupt of a wait that lasts at most slice; nil for slice 0, which stands for no bound.
func Within(slice time.Duration) (interrupt func() bool) {
	if slice <= 0 {
		return nil
	}
	end := time.Now().Add(slice)
	return func() bool { return time.Now().After(end) }
}

// Read copies elements of a storage to dst. On an asynchronous device it waits at most slice, then returns
// ErrInterrupted; with slice 0 it waits to the end.
func (x *Executor) Read(id uint32, d ir.DType, off int64, dst []byte, slice time.Duration) error {
	s := &x.storages[id]
	dev := x.Devices[s.Dev].Dev
	if s.Buf == nil && s.Source != nil {
		copy(dst, unsafe.Slice((*byte)(s.Source), s.Bytes)[off*int64(d.Size()):])
		return nil
	}
	if p, ok := dev.(device.PatientReader); ok && slice > 0 {
		return p.ReadUnless(s.Buf, d, off, dst, Within(slice))
	}
	return dev.Read(s.Buf, d, off, dst)
}

// CopyBehind asks the next Run for a copy to the host of elements of a slot, behind the plan's last segment. TakeCopy
// must come before another CopyBehind.
func (x *Executor) CopyBehind(slot int, d ir.DType, off, n int64) {
	x.copy = &device.HostCopy{Slot: slot, DType: d, Off: off, N: n}
}

// TakeCopy returns the copy that CopyBehind asked for, nil where the device has made none, and forgets the request.
func (x *Executor) TakeCopy() device.PendingRead {
	c := x.copy
	x.copy = nil
	if c == nil {
		return nil
	}
	return c.Read
}

// joinCopy lets the last segment of p make the copy that CopyBehind asked for.
func (x *Executor) joinCopy(p *compile.Plan, s *compile.Segment) {
	x.bind.Copy = nil
	if x.copy != nil && s == &p.Segments[len(p.Segments)-1] && p.Slots[x.copy.Slot].Dev == s.Dev {
		x.bind.Copy = x.copy
	}
}

// StartRead begins a read of n elements of a storage behind the work submitted so far. It is nil where only Read can
// read them.
func (x *Executor) StartRead(id uint32, d ir.DType, off, n int64) (device.PendingRead, error) {
	s := &x.storages[id]
	if r, ok := x.Devices[s.Dev].Dev.(device.AheadReader); ok {
		return r.StartRead(s.Buf, d, off, n)
	}
	return nil, nil
}
