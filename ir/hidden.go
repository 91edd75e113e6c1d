package ir

import (
	"encoding/binary"
	"slices"
)

// HiddenDim is a leading dim that operators do not see: the batch of one level of vmap.
type HiddenDim struct{ Level, Size, Stride int64 }

// InternHidden returns the layout of one element of a batch: shape and stride are the element's, hidden lists the dims
// of the batch in ascending order of level. Without hidden dims it is InternLayout.
func InternHidden(hidden []HiddenDim, shape, stride []int64) *Layout {
	if len(hidden) == 0 {
		return InternLayout(shape, stride)
	}
	fullShape, fullStride := make([]int64, 0, len(hidden)+len(shape)), make([]int64, 0, len(hidden)+len(shape))
	key := []byte{'h'}
	for i, h := range hidden {
		if i > 0 && h.Level <= hidden[i-1].Level {
			panic("BUG: hidden dims are not in ascending order of level")
		}
		fullShape, fullStride = append(fullShape, h.Size), append(fullStride, h.Stride)
		for _, v := range []int64{h.Level, h.Size, h.Stride} {
			key = binary.AppendVarint(key, v)
		}
	}
	full := InternLayout(append(fullShape, shape...), append(fullStride, stride...))
	element := InternLayout(shape, stride)
	key = append(binary.AppendVarint(append(key, '|'), int64(len(hidden))), layoutKey(shape, stride)...)
	layouts.mu.Lock()
	defer layouts.mu.Unlock()
	if l, ok := layouts.hidden[string(key)]; ok {
		return l
	}
	l := new(Layout)
	*l = *element
	l.Hidden, l.Full, l.Overlap = slices.Clone(hidden), full.ID, full.Overlap
	l.ID = LayoutID(layouts.list.next())
	layouts.list.add(l)
	layouts.hidden[string(key)] = l
	return l
}

// Whole is the layout with the hidden dims as its first dims, and of complex elements with the pairs as the last dim:
// what the storage holds.
func (l *Layout) Whole() *Layout {
	if l.Full == 0 {
		return l
	}
	return LayoutOf(l.Full)
}
