package ir

import (
	"strconv"
	"sync"
)

// DeviceID numbers a device: 0 is the CPU, n+1 is "wgpu:n", and Meta has no memory.
type DeviceID uint8

// CPU is the device that always exists.
const CPU DeviceID = 0

// Meta is the device without memory: its values have dtype, shape and strides, and no elements.
const Meta DeviceID = 254

// NotStored says that a device has no such dtype, and what to do.
func NotStored(d DType, dev DeviceID) string {
	return d.String() + " is not supported on device " + DeviceName(dev) +
		": convert with .to(torch.float32) first, or compute on the CPU"
}

// DeviceName prints a device as PyTorch would.
func DeviceName(d DeviceID) string {
	if d == CPU {
		return "cpu"
	}
	if d == Meta {
		return "meta"
	}
	return "wgpu:" + strconv.Itoa(int(d)-1)
}

// NoData returns PyTorch's error of reading a tensor on Meta.
func NoData() *Error { return Errorf(ErrNotImplemented, "Cannot copy out of meta tensor; no data!") }

// AvalID numbers an interned Aval; 0 is none.
type AvalID uint32

// Aval is an abstract value: dtype, shape and device, which are known before the value is computed.
type Aval struct {
	ID     AvalID
	DType  DType
	Device DeviceID
	Layout *Layout // always dense
}

// Shape is the sizes of the value.
func (a *Aval) Shape() []int64 { return a.Layout.Shape }

// Bytes is the size of the value in canonical form.
func (a *Aval) Bytes() int64 { return a.Layout.Numel * int64(a.DType.Size()) }

type avalKey struct {
	d   DType
	dev DeviceID
	l   LayoutID
}

var avals = struct {
	mu    sync.Mutex
	byKey map[avalKey]*Aval
	list  snapshot[Aval]
}{byKey: map[avalKey]*Aval{}}

// MaxElements bounds a value: at eight bytes an element, its size and every address in it fit an int64.
const MaxElements = 1 << 58

// tooLarge reports a shape of more than MaxElements elements.
func tooLarge(shape []int64) bool {
	n := int64(1)
	for _, k := range shape {
		if k == 0 {
			return false
		}
	}
	for _, k := range shape {
		if k < 0 || k > MaxElements/n {
			return true
		}
		n *= k
	}
	return false
}

// InternAval returns the abstract value of dtype d on device dev with the shape of l. It panics with an *Error where
// such a value could never be stored.
func InternAval(d DType, dev DeviceID, l *Layout) *Aval {
	if !l.Dense || l.ID != l.Contig {
		l = LayoutOf(l.Contig)
	}
	k := avalKey{d, dev, l.ID}
	avals.mu.Lock()
	defer avals.mu.Unlock()
	if a, ok := avals.byKey[k]; ok {
		return a
	}
	if tooLarge(l.Shape) {
		panic(Errorf(ErrRuntime, "Storage size calculation overflowed with sizes=%s", ShapeString(l.Shape)))
	}
	a := &Aval{ID: AvalID(avals.list.next()), DType: d, Device: dev, Layout: l}
	avals.list.add(a)
	avals.byKey[k] = a
	return a
}

// AvalOf returns the abstract value numbered id.
func AvalOf(id AvalID) *Aval { return avals.list.at(uint32(id)) }
