package prim

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// fail raises an error while recording; the engine's entry points recover it.
func fail(c ir.Code, format string, args ...any) { panic(ir.Errorf(c, format, args...)) }

func view(b op.Builder, x op.Val, l *ir.Layout, offset int64, step op.ViewOp) op.Val {
	if l.ID == x.Layout && offset == x.Offset {
		return x
	}
	return b.View(x, l, offset, step)
}

// Contiguous is x where it is dense, else a dense copy.
func Contiguous(b op.Builder, x op.Val) op.Val {
	if x.L().Dense {
		return x
	}
	return Copy(b, x)
}

// Expand views x in a broadcast shape.
func Expand(b op.Builder, x op.Val, shape []int64) op.Val {
	l, ok := ir.ExpandLayout(x.L(), shape)
	if !ok {
		expandError(x, shape)
	}
	return view(b, x, l, x.Offset, op.ViewOp{Kind: op.ViewExpand})
}

func expandError(x op.Val, to []int64) {
	from := x.Shape()
	if len(to) < len(from) {
		fail(ir.ErrRuntime, "expand(torch.%sTensor{%s}, size=%s): the number of sizes provided (%d) must be greater or "+
			"equal to the number of dimensions in the tensor (%d)",
			x.DType().ScalarType(), ir.ShapeString(from), ir.ShapeString(to), len(to), len(from))
	}
	for i := len(to) - 1; i >= 0; i-- {
		if j := i - len(to) + len(from); j >= 0 && from[j] != to[i] && from[j] != 1 {
			fail(ir.ErrRuntime, "The expanded size of the tensor (%d) must match the existing size (%d) at non-singleton "+
				"dimension %d.  Target sizes: %s.  Tensor sizes: %s",
				to[i], from[j], i, ir.ShapeString(to), ir.ShapeString(from))
		}
	}
	panic("BUG: expand failed without a reason")
}

// Broadcast expands both operands to their joint shape; numbers stay as they are.
func Broadcast(b op.Builder, x, y op.Val) (op.Val, op.Val) {
	if !x.IsTensor() || !y.IsTensor() {
		return x, y
	}
	s := ir.BroadcastShape(x.Shape(), y.Shape())
	return Expand(b, x, s), Expand(b, y, s)
}

// Permute reorders dims: dim i of the result is dim perm[i] of x.
func Permute(b op.Builder, x op.Val, perm []int64) op.Val {
	r := len(x.Shape())
	if len(perm) != r {
		fail(ir.ErrRuntime, "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the "+
			"desired ordering of dimensions i.e. input.dim() = %d is not equal to len(dims) = %d", r, len(perm))
	}
	dims := make([]int64, r)
	seen := make([]bool, r)
	for i, p := range perm {
		d := ir.WrapDim(p, r)
		if seen[d] {
			fail(ir.ErrRuntime, "permute(): duplicate dims are not allowed.")
		}
		seen[d], dims[i] = true, int64(d)
	}
	out, step := ir.PermuteLayout(x.L(), dims), op.ViewOp{Kind: op.ViewPermute, Dims: dims}
	if x.L().Overlap && !slices.IsSorted(dims) { // dims of stride 0 may have changed their places
		return b.View(x, out, x.Offset, step)
	}
	return view(b, x, out, x.Offset, step)
}

// Transpose swaps two dims.
func Transpose(b op.Builder, x op.Val, d0, d1 int64) op.Val {
	r := len(x.Shape())
	i, j := ir.WrapDim(d0, r), ir.WrapDim(d1, r)
	if i == j {
		return x
	}
	perm := make([]int64, r)
	for k := range perm {
		perm[k] = int64(k)
	}
	perm[i], perm[j] = perm[j], perm[i]
	return Permute(b, x, perm)
}

// CanView reports that Reshape needs no copy.
func CanView(x op.Val, shape []int64) bool {
	_, ok := ir.ReshapeLayout(x.L(), shape)
	return ok
}

// Reshape views x in another shape of equal size, and copies where a view cannot.
func Reshape(b op.Builder, x op.Val, shape []int64) op.Val {
	if ir.Numel(shape) != x.L().Numel {
		fail(ir.ErrRuntime, "shape '%s' is invalid for input of size %d", ir.ShapeString(shape), x.L().Numel)
	}
	if slices.Equal(shape, x.Shape()) {
		return x
	}
	l, ok := ir.ReshapeLayout(x.L(), shape)
	if !ok {
		x = Copy(b, x)
		l = ir.DenseLayout(shape)
	}
	return view(b, x, l, x.Offset, op.ViewOp{Kind: op.ViewReshape})
}

// Unsqueeze inserts a dim of size 1.
func Unsqueeze(b op.Builder, x op.Val, dim int64) op.Val {
	l := x.L()
	d := ir.WrapDim(dim, l.Rank()+1)
	stride := int64(1)
	if d < l.Rank() {
		stride = l.Shape[d] * l.Stride[d]
	}
	out := ir.InternLayout(slices.Insert(slices.Clone(l.Shape), d, 1), slices.Insert(slices.Clone(l.Stride), d, stride))
	return view(b, x, out, x.Offset, op.ViewOp{Kind: op.ViewReshape})
}

// Squeeze removes those of dims that have size 1; nil: of all dims.
func Squeeze(b op.Builder, x op.Val, dims []int64) op.Val {
	l := x.L()
	drop := make([]bool, l.Rank()+1)
	for i := range l.Shape {
		drop[i] = dims == nil
	}
	for _, d := range dims {
		drop[ir.WrapDim(d, l.Rank())] = true
	}
	var shape, stride []int64
	for i, n := range l.Shape {
		if n == 1 && drop[i] {
			continue
		}
		shape, stride = append(shape, n), append(stride, l.Stride[i])
	}
	return view(b, x, ir.InternLayout(shape, stride), x.Offset, op.ViewOp{Kind: op.ViewReshape})
}

// Select removes dim at index i, which may be negative.
func Select(b op.Builder, x op.Val, dim, i int64) op.Val {
	l := x.L()
	if l.Rank() == 0 {
		fail(ir.ErrIndex, "select() cannot be applied to a 0-dim tensor.")
	}
	d := ir.WrapDim(dim, l.Rank())
	if n := l.Shape[d]; i < -n || i >= n {
		fail(ir.ErrIndex, "select(): index %d out of range for tensor of size %s at dimension %d", i, ir.ShapeString(l.Shape),
			d)
	} else if i < 0 {
		i += n
	}
	out, off := ir.SelectLayout(l, x.Offset, d, i)
	return view(b, x, out, off, op.StridedOp(l, func(l *ir.Layout) (*ir.Layout, int64) {
		return ir.SelectLayout(l, 0, d, i)
	}))
}

// Slice keeps the indices start, start+step, ... below stop of dim. Bounds are clamped and may be negative, as in
// Python.
func Slice(b op.Builder, x op.Val, dim, start, stop, step int64) op.Val {
	l := x.L()
	if l.Rank() == 0 {
		fail(ir.ErrIndex, "slice() cannot be applied to a 0-dim tensor.")
	}
	d := ir.WrapDim(dim, l.Rank())
	if step <= 0 {
		fail(ir.ErrRuntime, "slice step must be positive")
	}
	n := l.Shape[d]
	clamp := func(i int64) int64 {
		if i < 0 {
			i += n
		}
		return min(max(i, 0), n)
	}
	start, stop = clamp(start), clamp(stop)
	stop = max(stop, start)
	out, off := ir.SliceLayout(l, x.Offset, d, start, stop, step)
	return view(b, x, out, off, op.StridedOp(l, func(l *ir.Layout) (*ir.Layout, int64) {
		return ir.SliceLayout(l, 0, d, start, stop, step)
	}))
}

// AsStrided views x's storage with any non-negative strides, from an absolute offset.
func AsStrided(b op.Builder, x op.Val, shape, stride []int64, offset int64) op.Val {
	l := ir.InternLayout(shape, stride)
	n, at := ir.AvalOf(x.Aval).Layout.Numel, offset
	if x.Layout.IsComplex() { // View counts from x's offset
		n, at = n/2, x.Offset+offset-x.Offset/2
	}
	if l.Numel > 0 && offset+l.Span > n {
		size := int64(x.DType().Size())
		fail(ir.ErrRuntime, "setStorage: sizes %s, strides %s, storage offset %d, and itemsize %d requiring a storage size "+
			"of %d are out of bounds for storage of size %d",
			ir.ShapeString(shape), ir.ShapeString(stride), offset, size, (offset+l.Span)*size, n*size)
	}
	return view(b, x, l, at, op.ViewOp{Kind: op.ViewStrided})
}

// ViewVJP is the cotangent of a view step's input, from that of its output. Offsets are those of both views in their
// common storage.
func ViewVJP(b op.Builder, step op.ViewOp, cot op.Val, inLayout, outLayout *ir.Layout, inOffset,
	outOffset int64) op.Val {
	switch step.Kind {
	case op.ViewReshape:
		return Reshape(b, cot, inLayout.Shape)
	case op.ViewPermute:
		inverse := make([]int64, len(step.Dims))
		for i, p := range step.Dims {
			inverse[p] = int64(i)
		}
		return Permute(b, cot, inverse)
	case op.ViewExpand:
		return SumTo(b, cot, inLayout.Shape)
	case op.ViewFlat:
		return cot
	}
	if n := len(step.Dims); n > 0 && inLayout.Numel > 0 && outLayout.Numel > 0 {
		inLayout, inOffset = ir.DenseLayout(inLayout.Shape), 0
		outLayout, outOffset = ir.InternLayout(outLayout.Shape, step.Dims[:n-1]), step.Dims[n-1]
	}
	return stridedVJP(b, cot, inLayout, outLayout, inOffset, outOffset)
}

// Flat is x. A function that is piecewise linear in Flat(x) has a gradient that depends on x, with derivative 0: so the
// second derivative is 0, as in PyTorch, rather than a missing path.
func Flat(b op.Builder, x op.Val) op.Val {
	if !b.NeedsGrad(x) || x.DType().IsComplex() {
		return x
	}
	return b.View(x, x.L(), x.Offset, op.ViewOp{Kind: op.ViewFlat})
}

// SumTo sums x over the dims in which shape broadcasts to x's shape.
func SumTo(b op.Builder, x op.Val, shape []int64) op.Val {
	lead := len(x.Shape()) - len(shape)
	var dims []int64
	for i, n := range x.Shape() {
		if i < lead || shape[i-lead] == 1 && n != 1 {
			dims = append(dims, int64(i))
		}
	}
	return Reshape(b, Sum(b, x, dims), shape)
}

// stridedVJP scatters cot into zeros: directly into a dense input, else through the input's storage. Where elements of
// the input share storage, each gets an equal part, as in PyTorch's as_strided.
func stridedVJP(b op.Builder, cot op.Val, in, out *ir.Layout, inOffset, outOffset int64) op.Val {
	scatter := func(zeros op.Val, v op.Val, l *ir.Layout, offset int64) op.Val {
		if l.Overlap {
			return StridedScatterAdd(b, zeros, v, l, offset)
		}
		return StridedScatter(b, zeros, v, l, offset)
	}
	d, dev := cot.DType(), cot.Device()
	if in.Numel == 0 || out.Numel == 0 {
		return Zeros(b, d, dev, in.Shape)
	}
	if in.ID == out.ID && inOffset == outOffset && !in.Overlap {
		return cot // an alias of the input
	}
	if in.Dense && outOffset >= inOffset && outOffset+out.Span <= inOffset+in.Span {
		return scatter(Zeros(b, d, dev, in.Shape), cot, out, outOffset-inOffset)
	}
	if n := repeated(in, out, inOffset, outOffset); n > 0 {
		return stridedRowsVJP(b, cot, in, out, inOffset, outOffset, n)
	}
	lo := min(inOffset, outOffset)
	span := max(inOffset+in.Span, outOffset+out.Span) - lo
	store := scatter(Zeros(b, d, dev, []int64{span}), cot, out, outOffset-lo)
	if in.Overlap {
		ones := Fill(b, op.IntVal(1), d, dev, in.Shape)
		count := StridedScatterAdd(b, Zeros(b, d, dev, []int64{span}), ones, in, inOffset-lo)
		store = Div(b, store, Maximum(b, count, op.IntVal(1)))
	}
	return AsStrided(b, store, in.Shape, in.Stride, inOffset-lo)
}

// repeated returns how many leading dims both overlapping layouts have, up to the last one of stride 0. Values
// expanded to a level of vmap begin with such dims. Their elements share memory, yet each has its own cotangent.
func repeated(in, out *ir.Layout, inOffset, outOffset int64) (n int) {
	for i := 0; in.Overlap && i < min(in.Rank(), out.Rank()) && in.Shape[i] == out.Shape[i] &&
		in.Stride[i] == out.Stride[i]; i++ {
		if in.Stride[i] == 0 && in.Shape[i] > 1 {
			n = i + 1
		}
	}
	from, to := ir.InternLayout(in.Shape[n:], in.Stride[n:]), ir.InternLayout(out.Shape[n:], out.Stride[n:])
	if outOffset < inOffset || outOffset+to.Span > inOffset+from.Span {
		return 0
	}
	return n
}

// stridedRowsVJP is stridedVJP of each element of the first n dims, in a storage of its own.
func stridedRowsVJP(b op.Builder, cot op.Val, in, out *ir.Layout, inOffset, outOffset int64, n int) op.Val {
	lead := in.Shape[:n:n]
	row := ir.InternLayout(in.Shape[n:], in.Stride[n:])
	strides := ir.DenseStrides(append(slices.Clone(lead), row.Span))[:n:n]
	l := ir.InternLayout(slices.Concat(lead, in.Shape[n:]), slices.Concat(strides, in.Stride[n:]))
	to := ir.InternLayout(slices.Concat(lead, out.Shape[n:]), slices.Concat(strides, out.Stride[n:]))
	return stridedVJP(b, cot, l, to, 0, outOffset-inOffset)
}

// Flip is x with the order of the elements along dim reversed.
func Flip(b op.Builder, x op.Val, dim int64) op.Val {
	if len(x.Shape()) == 0 {
		return x
	}
	n := x.Shape()[ir.WrapDim(dim, len(x.Shape()))]
	return IndexSelect(b, x, Iota(b, op.IntVal(n-1), op.IntVal(-1), ir.I64, x.Device(), n), dim)
}
