package op

import (
	"slices"

	"github.com/torchlette/torchlette/ir"
)

// StridedOp is a strided view of a value of layout l. dense gives the view's layout and offset if the value were dense.
func StridedOp(l *ir.Layout, dense func(l *ir.Layout) (*ir.Layout, int64)) ViewOp {
	if !l.Overlap {
		return ViewOp{Kind: ViewStrided}
	}
	to, offset := dense(ir.DenseLayout(l.Shape))
	return ViewOp{Kind: ViewStrided, Dims: append(slices.Clone(to.Stride), offset)}
}

// OfPairs is the step on pairs of numbers for a step on complex elements.
func (o ViewOp) OfPairs() ViewOp {
	n := len(o.Dims)
	switch {
	case o.Kind == ViewPermute:
		o.Dims = append(slices.Clone(o.Dims), int64(n))
	case o.Kind == ViewStrided && n > 0:
		dims := make([]int64, 0, n+1)
		for _, d := range o.Dims {
			dims = append(dims, 2*d)
		}
		o.Dims = slices.Insert(dims, n-1, 1)
	}
	return o
}

// OfBatch is the step on whole values, whose first dims are a batch of these sizes, for a step on one element of a
// shape.
func (o ViewOp) OfBatch(sizes, shape []int64) ViewOp {
	n := len(sizes)
	switch {
	case o.Kind == ViewPermute:
		dims := make([]int64, 0, n+len(o.Dims))
		for i := range n {
			dims = append(dims, int64(i))
		}
		for _, d := range o.Dims {
			dims = append(dims, int64(n)+d)
		}
		o.Dims = dims
	case o.Kind == ViewStrided && o.Dims != nil:
		o.Dims = slices.Concat(ir.DenseStrides(slices.Concat(sizes, shape))[:n], o.Dims)
	}
	return o
}
