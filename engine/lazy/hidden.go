package lazy

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// viewBatch is View of a value, or to a layout, with hidden dims. A layout without them describes one element; one with
// them comes with a step of whole values.
func (s *Session) viewBatch(v op.Val, l *ir.Layout, offset int64, step op.ViewOp) op.Val {
	in := v.L()
	n := len(in.Hidden)
	if step.Whole || l.Hidden != nil || n == 0 {
		return s.viewWhole(v, l, offset, step)
	}
	l = ir.InternHidden(in.Hidden, l.Shape, l.Stride)
	step = step.OfBatch(sizesOf(in.Hidden), in.Shape)
	switch step.Kind {
	case op.ViewStrided:
		if w := l.Whole(); w.Numel > 0 && offset+w.Span > ir.AvalOf(v.Aval).Layout.Numel {
			panic(ir.Errorf(ir.ErrRuntime, "vmap: a view of sizes %s, strides %s and storage offset %d of an element of the "+
				"batch reaches beyond the storage", ir.ShapeString(l.Shape), ir.ShapeString(l.Stride), offset))
		}
	case op.ViewExpand: // dims are inserted behind the hidden ones, then expanded
		if k := len(l.Shape) - len(in.Shape); k > 0 {
			shape, stride := make([]int64, k), make([]int64, k)
			for i := range shape {
				shape[i] = 1
			}
			mid := ir.InternHidden(in.Hidden, slices.Concat(shape, in.Shape), slices.Concat(stride, in.Stride))
			v = s.viewWhole(v, mid, offset, op.ViewOp{Kind: op.ViewReshape})
		}
	}
	return s.viewWhole(v, l, offset, step)
}

// viewWhole views the whole value of v as that of layout l.
func (s *Session) viewWhole(v op.Val, l *ir.Layout, offset int64, step op.ViewOp) op.Val {
	v.Layout = v.L().Whole().ID
	out := s.viewPlain(v, l.Whole(), offset, step)
	out.Layout = l.ID
	return out
}

// withLevels expands v to further levels.
func (s *Session) withLevels(v op.Val, levels []ir.HiddenDim) op.Val {
	l := v.L()
	var missing []ir.HiddenDim
	for _, h := range levels {
		if !hasLevel(l.Hidden, h) {
			missing = append(missing, ir.HiddenDim{Level: h.Level, Size: h.Size})
		}
	}
	if len(missing) == 0 {
		return v
	}
	to := ir.InternHidden(union(l.Hidden, missing), l.Shape, l.Stride)
	if s.taped(v) { // the step inserts dims of size 1 first
		ones := slices.Clone(missing)
		for i := range ones {
			ones[i].Size = 1
		}
		mid := ir.InternHidden(union(l.Hidden, ones), l.Shape, l.Stride)
		v = s.viewWhole(v, mid, v.Offset, op.ViewOp{Kind: op.ViewReshape})
	}
	return s.viewWhole(v, to, v.Offset, op.ViewOp{Kind: op.ViewExpand})
}

// Reveal turns the hidden dims of levels into the first dims of v, in the order of levels. v is expanded to levels that
// it lacks; other hidden dims stay.
func (s *Session) Reveal(v op.Val, levels []ir.HiddenDim) op.Val {
	if len(levels) == 0 {
		return v
	}
	v = s.withLevels(s.Settled(v, levels), levels)
	l := v.L()
	shape, stride := make([]int64, len(levels)), make([]int64, len(levels))
	var rest []ir.HiddenDim
	var perm, shown []int64
	for i, h := range l.Hidden {
		at := slices.IndexFunc(levels, func(o ir.HiddenDim) bool { return o.Level == h.Level })
		if at < 0 {
			rest, perm = append(rest, h), append(perm, int64(i))
			continue
		}
		shape[at], stride[at] = h.Size, h.Stride
	}
	for _, h := range levels {
		at, _ := slices.BinarySearchFunc(l.Hidden, h, byLevel)
		shown = append(shown, int64(at))
	}
	to := ir.InternHidden(rest, slices.Concat(shape, l.Shape), slices.Concat(stride, l.Stride))
	return s.reorder(v, to, append(perm, shown...))
}

// Hide turns the first dims of v into hidden dims of levels, the inverse of Reveal.
func (s *Session) Hide(v op.Val, levels []ir.HiddenDim) op.Val {
	n := len(levels)
	if n == 0 {
		return v
	}
	l := v.L()
	hidden := make([]ir.HiddenDim, n)
	for i, h := range levels {
		if hasLevel(l.Hidden, h) {
			panic(ir.Errorf(ir.ErrRuntime, "vmap: a tensor of a call that has ended is differentiated in another call: return "+
				"it from the first"))
		}
		hidden[i] = ir.HiddenDim{Level: h.Level, Size: l.Shape[i], Stride: l.Stride[i]}
	}
	slices.SortFunc(hidden, byLevel)
	all := union(l.Hidden, hidden)
	var perm []int64
	for _, h := range all {
		if at, old := slices.BinarySearchFunc(l.Hidden, h, byLevel); old {
			perm = append(perm, int64(at))
			continue
		}
		at := slices.IndexFunc(levels, func(o ir.HiddenDim) bool { return o.Level == h.Level })
		perm = append(perm, int64(len(l.Hidden)+at))
	}
	return s.reorder(v, ir.InternHidden(all, l.Shape[n:], l.Stride[n:]), perm)
}

// reorder gives v layout to, which names its dims in another order. perm is the order of the leading dims among the
// former ones, all dims counted.
func (s *Session) reorder(v op.Val, to *ir.Layout, perm []int64) op.Val {
	if !s.taped(v) || slices.IsSorted(perm) {
		v.Layout = to.ID
		return v
	}
	for i := len(perm); i < to.Whole().Rank(); i++ {
		perm = append(perm, int64(i))
	}
	return s.viewWhole(v, to, v.Offset, op.ViewOp{Kind: op.ViewPermute, Dims: perm})
}
