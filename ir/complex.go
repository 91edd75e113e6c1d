package ir

import "slices"

// A complex value is a real one with a last dim of size 2: real and imaginary part. Its layout, a complex layout,
// describes the complex elements: sizes and strides count elements of two numbers, and the last dim is not seen.
// Graph, tape and kernels see the pairs. Offsets are always in numbers of the real value.

// complexBit marks the numbers of complex layouts.
const complexBit LayoutID = 1 << 31

// IsComplex reports a complex layout.
func (id LayoutID) IsComplex() bool { return id&complexBit != 0 }

// Pairs is the layout with real and imaginary part as the last dim. Hidden dims of vmap stay hidden. A layout of real
// elements is its own.
func (l *Layout) Pairs() *Layout {
	if l.pairs == 0 {
		return l
	}
	return LayoutOf(l.pairs)
}

// ComplexLayout is the complex layout with the given pairs. It returns false where the last dim is not two adjacent
// numbers, or another stride is odd.
func ComplexLayout(pairs *Layout) (l *Layout, ok bool) {
	n := pairs.Rank() - 1
	if n < 0 || pairs.Shape[n] != 2 || pairs.Stride[n] != 1 {
		return nil, false
	}
	stride := slices.Clone(pairs.Stride[:n])
	for i := range stride {
		if stride[i]%2 != 0 {
			return nil, false
		}
		stride[i] /= 2
	}
	for _, h := range pairs.Hidden {
		if h.Stride%2 != 0 {
			return nil, false
		}
	}
	element := InternLayout(pairs.Shape[:n], stride)
	dense := pairs.Hidden == nil && element.ID == element.Contig
	contig := LayoutID(0)
	if !dense {
		d, _ := ComplexLayout(DenseLayout(pairs.Shape))
		contig = d.ID
	}
	layouts.mu.Lock()
	defer layouts.mu.Unlock()
	if l, ok := layouts.complexes[pairs.ID]; ok {
		return l, true
	}
	l = new(Layout)
	*l = *element
	l.Hidden, l.Overlap, l.Full, l.pairs = pairs.Hidden, pairs.Overlap, pairs.Full, pairs.ID
	if l.Full == 0 {
		l.Full = pairs.ID
	}
	l.ID = LayoutID(layouts.list.next()) | complexBit
	if l.Contig = contig; dense {
		l.Contig = l.ID
	}
	layouts.list.add(l)
	layouts.complexes[pairs.ID] = l
	return l, true
}

// PairLayout is the layout of the pairs of complex elements with that layout, both without hidden dims.
func PairLayout(element *Layout) *Layout {
	if element.pairs != 0 {
		return element.Pairs()
	}
	stride := make([]int64, len(element.Stride), len(element.Stride)+1)
	for i, s := range element.Stride {
		stride[i] = 2 * s
	}
	return InternLayout(append(slices.Clone(element.Shape), 2), append(stride, 1))
}
