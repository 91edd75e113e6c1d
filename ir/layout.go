package ir

import (
	"encoding/binary"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// LayoutID numbers an interned Layout; 0 is none.
type LayoutID uint32

// Layout is a shape with strides in elements. Interned layouts are immutable.
type Layout struct {
	ID     LayoutID
	Shape  []int64
	Stride []int64
	Numel  int64
	Dense  bool     // row-major without gaps: the stride of a dim of size > 1 is the product of the sizes after it
	Contig LayoutID // the dense layout of the same shape
	Span   int64    // 1 + the largest element offset reached; 0 when empty
	// Overlap reports that two indices reach one element, as in an expanded dim.
	Overlap bool
	// Hidden are the batch dims of vmap, outermost first; the fields above but Overlap describe one element. Full is the
	// layout with them as ordinary leading dims, see Whole.
	Hidden []HiddenDim
	Full   LayoutID // of a layout with hidden dims, and of a complex one; 0 of others
	pairs  LayoutID // of a complex layout: see Pairs
}

// Rank is the number of dims.
func (l *Layout) Rank() int { return len(l.Shape) }

// IsWhole reports that a view of layout l at an offset reaches all elements of a dense value of layout of, in order.
func (l *Layout) IsWhole(offset int64, of *Layout) bool {
	l = l.Whole()
	return l.Dense && offset == 0 && l.Numel == of.Numel
}

// layoutTable grows with the number of distinct (shape, strides) pairs that a process sees, and is never pruned.
// Offsets, which vary from step to step, are not in it.
type layoutTable struct {
	mu        sync.Mutex
	byKey     map[string]*Layout
	hidden    map[string]*Layout   // those with hidden dims
	complexes map[LayoutID]*Layout // by their pairs
	list      snapshot[Layout]
}

var layouts = &layoutTable{byKey: map[string]*Layout{}, hidden: map[string]*Layout{},
	complexes: map[LayoutID]*Layout{}}

// snapshot is an append-only list that is read without a lock; entry 0 is nil.
type snapshot[T any] struct{ p atomic.Pointer[[]*T] }

func (s *snapshot[T]) at(i uint32) *T { return (*s.p.Load())[i] }

// next is the index that the next add returns.
func (s *snapshot[T]) next() uint32 {
	if l := s.p.Load(); l != nil {
		return uint32(len(*l))
	}
	return 1
}

// add appends v; the caller holds the table's lock.
func (s *snapshot[T]) add(v *T) {
	l := []*T{nil}
	if p := s.p.Load(); p != nil {
		l = *p
	}
	l = append(l, v)
	s.p.Store(&l)
}

func layoutKey(shape, stride []int64) string {
	b := make([]byte, 0, 16*len(shape))
	for i := range shape {
		b = binary.AppendVarint(b, shape[i])
		b = binary.AppendVarint(b, stride[i])
	}
	return string(b)
}

// DenseStrides returns row-major strides of shape; sizes of 0 count as 1.
func DenseStrides(shape []int64) []int64 {
	st := make([]int64, len(shape))
	acc := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		st[i] = acc
		if shape[i] > 1 {
			acc *= shape[i]
		}
	}
	return st
}

// Numel is the product of the sizes.
func Numel(shape []int64) int64 {
	n := int64(1)
	for _, s := range shape {
		n *= s
	}
	return n
}

// FloorDiv is a/b rounded down, for b > 0.
func FloorDiv(a, b int64) int64 {
	q := a / b
	if q*b > a {
		q--
	}
	return q
}

// InternLayout returns the layout of a copy of shape and stride.
func InternLayout(shape, stride []int64) *Layout {
	k := layoutKey(shape, stride)
	layouts.mu.Lock()
	defer layouts.mu.Unlock()
	return layouts.intern(k, shape, stride)
}

func (t *layoutTable) intern(k string, shape, stride []int64) *Layout {
	if l, ok := t.byKey[k]; ok {
		return l
	}
	l := &Layout{Shape: append([]int64{}, shape...), Stride: append([]int64{}, stride...), Numel: Numel(shape)}
	l.Dense = isDense(shape, stride)
	if l.Numel > 0 {
		l.Span = 1
		for i := range shape {
			l.Span += (shape[i] - 1) * stride[i]
		}
	}
	l.Overlap = overlaps(shape, stride)
	ds := DenseStrides(shape)
	if dk := layoutKey(shape, ds); dk != k {
		l.Contig = t.intern(dk, shape, ds).ID
	} else {
		l.Contig = LayoutID(t.list.next())
	}
	l.ID = LayoutID(t.list.next())
	t.list.add(l)
	t.byKey[k] = l
	return l
}

// overlaps sorts the dims by stride and checks that each stride exceeds the extent of the smaller ones. This is exact
// for views made by slicing, expanding and permuting, and conservative for as_strided.
func overlaps(shape, stride []int64) bool {
	type d struct{ n, s int64 }
	var ds []d
	for i := range shape {
		if shape[i] == 0 {
			return false
		}
		if shape[i] > 1 {
			ds = append(ds, d{shape[i], stride[i]})
		}
	}
	for i := 1; i < len(ds); i++ {
		for j := i; j > 0 && ds[j].s < ds[j-1].s; j-- {
			ds[j], ds[j-1] = ds[j-1], ds[j]
		}
	}
	reach := int64(0)
	for _, x := range ds {
		if x.s <= reach {
			return true
		}
		reach += (x.n - 1) * x.s
	}
	return false
}

func isDense(shape, stride []int64) bool {
	acc := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		if shape[i] == 0 {
			return true
		}
		if shape[i] > 1 {
			if stride[i] != acc {
				return false
			}
			acc *= shape[i]
		}
	}
	return true
}

// DenseLayout returns the row-major layout of shape.
func DenseLayout(shape []int64) *Layout { return InternLayout(shape, DenseStrides(shape)) }

// LayoutOf returns the layout numbered id.
func LayoutOf(id LayoutID) *Layout { return layouts.list.at(uint32(id &^ complexBit)) }

// ShapeString prints a shape as PyTorch does: [2, 3].
func ShapeString(shape []int64) string { return "[" + Joined(shape, ", ") + "]" }

// Joined writes numbers with a separator between them.
func Joined(numbers []int64, separator string) string {
	var b strings.Builder
	for i, n := range numbers {
		if i > 0 {
			b.WriteString(separator)
		}
		b.WriteString(strconv.FormatInt(n, 10))
	}
	return b.String()
}
