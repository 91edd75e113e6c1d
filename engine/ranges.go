package engine

import (
	"encoding/binary"
	"math"
	"slices"
	"unsafe"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// An index tensor uploaded from the host has known elements until a window writes to its storage. A primitive that
// indexes with it, or with a view of it, checks these elements at the call, so a bad index raises at the user's line.
// The bounds of all elements settle most checks; otherwise the elements of the view decide.

// uploaded has the known facts of an upload of integers.
type uploaded struct {
	lo, hi int64
	// data holds the elements if the host cannot read the device's memory. Above maxKept bytes it is nil, and only
	// kernels check the elements of a view.
	data  []byte
	views [4]viewRange // cache for loops that index with the same views
	next  int
}

type viewRange struct {
	layout ir.LayoutID
	offset int64
	lo, hi int64
}

const maxKept = 1 << 20

// newUpload describes an upload of data, nil unless data has integers. memory is the storage's, nil if the host cannot
// read it.
func newUpload(av *ir.Aval, data []byte, memory unsafe.Pointer) *uploaded {
	if av.DType != ir.I64 && av.DType != ir.I32 || len(data) == 0 {
		return nil
	}
	u := &uploaded{}
	u.lo, u.hi = extent(av.DType, data, av.Layout, 0)
	if memory == nil && len(data) <= maxKept {
		u.data = slices.Clone(data)
	}
	return u
}

// rangeOf bounds the elements of view v of the upload; ok is false if they are unknown.
func (u *uploaded) rangeOf(v *op.Val, av *ir.Aval, memory unsafe.Pointer) (lo, hi int64, ok bool) {
	l := v.L()
	if l.Numel == 0 {
		return 0, 0, false
	}
	for i := range u.views {
		if r := &u.views[i]; r.layout == v.Layout && r.offset == v.Offset {
			return r.lo, r.hi, true
		}
	}
	data := u.data
	if memory != nil {
		data = unsafe.Slice((*byte)(memory), av.Bytes())
	}
	if data == nil {
		return 0, 0, false
	}
	lo, hi = extent(av.DType, data, l, v.Offset)
	u.views[u.next%len(u.views)] = viewRange{v.Layout, v.Offset, lo, hi}
	u.next++
	return lo, hi, true
}

// extent returns the least and greatest element of a nonempty view of data.
func extent(d ir.DType, data []byte, l *ir.Layout, offset int64) (lo, hi int64) {
	lo, hi = math.MaxInt64, math.MinInt64
	row, step, outer := l.Numel, int64(1), 0
	if !l.Dense {
		outer = l.Rank() - 1
		row, step = l.Shape[outer], l.Stride[outer]
	}
	size := int64(d.Size())
	index := make([]int64, outer)
	for {
		at := data[offset*size:]
		for i := int64(0); i < row; i++ {
			v := integer(d, at[i*step*size:])
			lo, hi = min(lo, v), max(hi, v)
		}
		k := len(index) - 1
		for ; k >= 0; k-- {
			offset += l.Stride[k]
			if index[k]++; index[k] < l.Shape[k] {
				break
			}
			offset -= l.Shape[k] * l.Stride[k]
			index[k] = 0
		}
		if k < 0 {
			return lo, hi
		}
	}
}

// integer decodes the first element of data.
func integer(d ir.DType, data []byte) int64 {
	if d == ir.I64 {
		return int64(binary.LittleEndian.Uint64(data))
	}
	return int64(int32(binary.LittleEndian.Uint32(data)))
}
