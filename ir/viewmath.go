package ir

import (
	"cmp"
	"slices"
)

// View arithmetic. Each function maps a view, a layout and an element offset, to the view that a step makes of it. No
// data is read. Arguments are in range (dims wrapped, indices normalised) unless a second result says otherwise.

// PermuteLayout reorders the dims: dim i of the result is dim perm[i] of l.
func PermuteLayout(l *Layout, perm []int64) *Layout {
	shape := make([]int64, len(perm))
	stride := make([]int64, len(perm))
	for i, p := range perm {
		shape[i], stride[i] = l.Shape[p], l.Stride[p]
	}
	return InternLayout(shape, stride)
}

// ExpandLayout broadcasts l to shape: leading dims are added and dims of size 1 repeat, both with stride 0. ok is false
// where a size does not fit.
func ExpandLayout(l *Layout, shape []int64) (out *Layout, ok bool) {
	lead := len(shape) - l.Rank()
	if lead < 0 {
		return nil, false
	}
	stride := make([]int64, len(shape))
	for i := lead; i < len(shape); i++ {
		switch n := l.Shape[i-lead]; n {
		case shape[i]:
			stride[i] = l.Stride[i-lead]
		case 1:
		default:
			return nil, false
		}
	}
	if l.Rank() > 0 { // a new dim of size 1 has the stride of a contiguous one, as in PyTorch
		for i := lead - 1; i >= 0 && shape[i] == 1; i-- {
			stride[i] = shape[i+1] * stride[i+1]
		}
	}
	return InternLayout(shape, stride), true
}

// ExpandBatch is ExpandLayout that keeps the hidden dims of l.
func ExpandBatch(l *Layout, shape []int64) (out *Layout, ok bool) {
	out, ok = ExpandLayout(l, shape)
	if ok && l.Hidden != nil {
		out = InternHidden(l.Hidden, out.Shape, out.Stride)
	}
	return out, ok
}

// SelectLayout removes dim at index i.
func SelectLayout(l *Layout, offset int64, dim int, i int64) (*Layout, int64) {
	shape := append(append([]int64{}, l.Shape[:dim]...), l.Shape[dim+1:]...)
	stride := append(append([]int64{}, l.Stride[:dim]...), l.Stride[dim+1:]...)
	return InternLayout(shape, stride), offset + i*l.Stride[dim]
}

// SliceLayout keeps the indices start, start+step, ... below stop of dim, with 0 <= start and step >= 1. start >= stop
// gives an empty dim.
func SliceLayout(l *Layout, offset int64, dim int, start, stop, step int64) (*Layout, int64) {
	shape := append([]int64{}, l.Shape...)
	stride := append([]int64{}, l.Stride...)
	shape[dim] = max(0, (stop-start+step-1)/step)
	stride[dim] *= step
	return InternLayout(shape, stride), offset + start*l.Stride[dim]
}

// ReshapeLayout is the layout of l's elements, in row-major order, under another shape of equal Numel. ok is false
// where no strides express it and a copy is needed.
//
// It follows the rule of PyTorch's Tensor.view: dims are grouped into maximal runs that are contiguous with respect to
// each other, and each run must be covered by whole dims of the new shape.
func ReshapeLayout(l *Layout, shape []int64) (out *Layout, ok bool) {
	if l.Numel == 0 || l.Dense {
		return DenseLayout(shape), true
	}
	stride := make([]int64, len(shape))
	v := len(shape) - 1
	run, base := int64(1), int64(1)
	if r := l.Rank(); r > 0 {
		base = l.Stride[r-1]
	}
	for d := l.Rank() - 1; d >= 0; d-- {
		run *= l.Shape[d]
		if d > 0 && (l.Shape[d-1] == 1 || l.Stride[d-1] == run*base) {
			continue
		}
		n := int64(1)
		for v >= 0 && (n < run || shape[v] == 1) {
			stride[v] = n * base
			n *= shape[v]
			v--
		}
		if n != run {
			return nil, false
		}
		if d > 0 {
			base, run = l.Stride[d-1], 1
		}
	}
	if v >= 0 {
		return nil, false
	}
	return InternLayout(shape, stride), true
}

// Restride finds view out of a value of layout in, both over one memory, in a value of layout to, which has in's shape.
// ok is false where the memory does not say which elements out has: because elements of in share it.
func Restride(in *Layout, inOffset int64, out *Layout, outOffset int64, to *Layout) (l *Layout, offset int64, ok bool) {
	if out.Numel == 0 {
		return DenseLayout(out.Shape), 0, true
	}
	first := 0 // leading dims that both have, up to the last one of stride 0
	for i := 0; i < min(in.Rank(), out.Rank()) && in.Shape[i] == out.Shape[i] && in.Stride[i] == out.Stride[i]; i++ {
		if in.Stride[i] == 0 && in.Shape[i] > 1 {
			first = i + 1
		}
	}
	at, ok := in.index(first, outOffset-inOffset)
	if !ok {
		return nil, 0, false
	}
	lo, hi := slices.Clone(at), slices.Clone(at)
	stride := slices.Concat(to.Stride[:first], make([]int64, out.Rank()-first))
	for j := first; j < out.Rank(); j++ {
		n := out.Shape[j] - 1
		if n == 0 {
			continue
		}
		next, ok := in.index(first, outOffset-inOffset+out.Stride[j])
		if !ok {
			return nil, 0, false
		}
		for d := range next {
			step := next[d] - at[d]
			stride[j] += step * to.Stride[d]
			lo[d], hi[d] = lo[d]+min(0, step*n), hi[d]+max(0, step*n)
		}
		if stride[j] < 0 {
			return nil, 0, false
		}
	}
	for d := first; d < in.Rank(); d++ {
		if lo[d] < 0 || hi[d] >= in.Shape[d] {
			return nil, 0, false
		}
	}
	return InternLayout(out.Shape, stride), to.Element(at), true
}

// index is the index of the element at a distance from l's first element, which is 0 in the first dims. ok is false
// where there is none, or may be several.
func (l *Layout) index(first int, distance int64) (at []int64, ok bool) {
	at = make([]int64, l.Rank())
	var dims []int
	for d := first; d < l.Rank(); d++ {
		if l.Shape[d] > 1 {
			dims = append(dims, d)
		}
	}
	slices.SortStableFunc(dims, func(a, b int) int { return cmp.Compare(l.Stride[b], l.Stride[a]) })
	for _, d := range dims {
		if l.Stride[d] == 0 || distance < 0 {
			return nil, false
		}
		at[d] = min(distance/l.Stride[d], l.Shape[d]-1)
		distance -= at[d] * l.Stride[d]
	}
	return at, distance == 0
}

// Element is the offset of index from the view's first element.
func (l *Layout) Element(index []int64) int64 {
	e := int64(0)
	for d, i := range index {
		e += i * l.Stride[d]
	}
	return e
}
