package lower

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

func init() {
	register(map[string]lowering{
		"conv":             lowerConv,
		"conv_weight_grad": lowerConvWeightGrad,
		"window_sum":       lowerWindowSum,
		"window_max":       lowerWindowMax,
	})
}

// columnBytes bounds the temporary that holds windows as columns of a matrix. Batches are worked in chunks that fit.
const columnBytes = 32 << 20

// padding is the value of the elements outside a tensor.
type padding uint8

const (
	zeros padding = iota
	lowest
)

// value is the padding in t's compute type.
func (v padding) value(k *kernel, t ir.DType) int {
	switch {
	case v == zeros:
		return k.Int(t, 0)
	case t.IsFloat():
		return k.Float(t, math.Inf(-1))
	}
	least, _ := ir.Limits(t)
	return k.Int(t, least)
}

// padded returns the elements of x that windows read, with v where there are none. It returns x itself where every
// window lies inside x, and x is dense if wantDense asks for that; else a dense temporary.
func (p *program) padded(x *arg, w *op.Windows, v padding, wantDense bool) *arg {
	lead := len(x.shape) - len(w.Kernel)
	need := append([]int64{}, x.shape...)
	inside := !wantDense || dense(x.shape, x.stride)
	src := &arg{dtype: x.dtype, buf: x.buf, offset: x.offset, use: reads, shape: append([]int64{}, x.shape...),
		stride: x.stride}
	front := make([]int64, len(x.shape)) // index in the temporary of the first element that is kept
	for i, n := range x.shape[lead:] {
		d := lead + i
		need[d] = (w.Out[i]-1)*w.Stride[i] + (w.Kernel[i]-1)*w.Dilation[i] + 1
		inside = inside && w.Lo[i] == 0 && w.Base[i] == 1 && need[d] <= n
		first := max(0, (w.Base[i]-1-w.Lo[i])/w.Base[i])
		last := min(n-1, ir.FloorDiv(need[d]-1-w.Lo[i], w.Base[i]))
		src.shape[d] = max(0, last-first+1)
		src.offset = src.offset.Plus(first * x.stride[d])
		front[d] = w.Lo[i] + first*w.Base[i]
	}
	if inside {
		return x
	}
	t := p.temp(x.dtype, need)
	if slices.Equal(src.shape, need) { // cropped
		p.copy(src, t)
		return asOperand(t, t.shape, t.stride)
	}
	if p.n.Wide && ir.Numel(need) <= math.MaxInt32 && ir.Numel(src.shape) > 0 && !slices.ContainsFunc(w.Base,
		func(b int64) bool { return b > 1 }) {
		p.copyPadded(src, t, front, v)
		return asOperand(t, t.shape, t.stride)
	}
	if ir.Numel(src.shape) > 0 && !wantDense && src.shape[len(need)-1] >= framedRow &&
		!slices.ContainsFunc(w.Base, func(b int64) bool { return b > 1 }) {
		return p.framed(src, front, need, lead, v)
	}
	p.fill(t, func(k *kernel) int { return v.value(k, x.dtype) })
	if ir.Numel(src.shape) > 0 {
		dst := &arg{dtype: t.dtype, buf: t.buf, use: writes, shape: src.shape, stride: append([]int64{}, t.stride...)}
		for i, base := range w.Base {
			d := lead + i
			dst.offset = dst.offset.Plus(front[d] * t.stride[d])
			dst.stride[d] *= base
		}
		p.copy(src, dst)
	}
	return asOperand(t, t.shape, t.stride)
}

// framedRow is the shortest row around which only the border is written: one fill of all takes less time where rows are
// short.
var framedRow int64 = 32

// framed copies src into a temporary of this shape, front elements from the beginning of each dim from lead on, and
// writes v around it, each element once. The border between two rows of src is one run of elements, the end of one row
// and the beginning of the next; so is the border between two planes. The temporary has room for a whole run at both
// ends.
func (p *program) framed(src *arg, front, shape []int64, lead int, v padding) *arg {
	stride, first, back := ir.DenseStrides(shape), int64(0), int64(0)
	run := make([]int64, len(shape)+1) // by dim: the elements between two indices of the dim before
	for d := len(shape) - 1; d >= lead; d-- {
		first += front[d] * stride[d]
		back += (shape[d] - front[d] - src.shape[d]) * stride[d]
		run[d] = first + back
	}
	t := p.temp(src.dtype, []int64{back + ir.Numel(shape) + first})
	at := func(from int64, shape, stride []int64) *arg {
		return &arg{dtype: t.dtype, buf: t.buf, use: writes, shape: shape, stride: stride,
			offset: device.Const(back + first + from)}
	}
	fill := func(a *arg) { p.fill(a, func(k *kernel) int { return v.value(k, t.dtype) }) }
	planes, plane := ir.Numel(shape[:lead]), ir.Numel(shape[lead:])
	fill(at(-run[lead], []int64{planes + 1, run[lead]}, []int64{plane, 1}))
	size, step := []int64{planes}, []int64{plane}
	for d := lead + 1; d < len(shape); d++ { // rows come last: they are many, and runs short
		fill(at(stride[d-1]-run[d], concat(size, []int64{run[d], src.shape[d-1] - 1}),
			concat(step, []int64{1, stride[d-1]})))
		size, step = concat(size, src.shape[d-1:d]), concat(step, stride[d-1:d])
	}
	p.copy(src, at(0, src.shape, stride))
	x := asOperand(t, shape, stride)
	x.offset = device.Const(back)
	return x
}

// copyPadded copies src into t, front elements from the beginning of each dim, with v around it.
func (p *program) copyPadded(src, t *arg, front []int64, v padding) {
	from := &arg{dtype: src.dtype, buf: src.buf, offset: src.offset, shape: t.shape, stride: src.stride, use: reads,
		computed: true}
	args, along := []*arg{t, from}, make([]*arg, len(front)) // args: the positions along each padded dim come last
	back := int64(0)
	for d, n := range front {
		back += n * src.stride[d]
		if src.shape[d] != t.shape[d] {
			along[d] = &arg{dtype: src.dtype, buf: src.buf, shape: t.shape, stride: make([]int64, len(front)), use: reads,
				computed: true}
			along[d].stride[d] = 1
			args = append(args, along[d])
		}
	}
	k := p.kernel("pad_"+t.dtype.String(), t.shape, nil, 0, args...)
	k.Map()
	inside := -1
	for d, a := range along {
		if a == nil {
			continue
		}
		at := k.Sub(k.Cast(ir.I32, k.address(a)), k.number32(front[d]))
		within := k.And(k.Ge(at, k.Int(ir.I32, 0)), k.Lt(at, k.number32(src.shape[d])))
		if inside >= 0 {
			within = k.And(inside, within)
		}
		inside = within
	}
	at := k.Sub(k.Cast(ir.I32, k.address(from)), k.number32(back))
	x := k.LoadAt(from.kbuf, k.Cast(ir.I64, k.Select(inside, at, k.Int(ir.I32, 0))))
	k.store(t, k.Select(inside, x, v.value(k, t.dtype)))
	k.launch()
}

// windowStrides returns the strides of windows over x: by kernel element and by position.
func windowStrides(x *arg, w *op.Windows) (kernel, position []int64) {
	lead := len(x.shape) - len(w.Kernel)
	for i := range w.Kernel {
		kernel = append(kernel, w.Dilation[i]*x.stride[lead+i])
		position = append(position, w.Stride[i]*x.stride[lead+i])
	}
	return kernel, position
}

// asOperand is a temporary's argument as an operand.
func asOperand(t *arg, shape, stride []int64) *arg {
	return &arg{dtype: t.dtype, buf: t.buf, shape: shape, stride: stride, use: reads}
}

// copyDense copies a view of x into a dense temporary; the view begins `from` elements after x's own beginning.
func (p *program) copyDense(x *arg, from int64, shape, stride []int64, into *arg) {
	src := asOperand(x, shape, stride)
	src.offset = x.offset
	src.offset = src.offset.Plus(from)
	p.copy(src, &arg{dtype: into.dtype, buf: into.buf, shape: shape, stride: ir.DenseStrides(shape), use: writes})
}

// contiguous returns x as a dense operand at offset 0, and copies it where it is not.
func (p *program) contiguous(x *arg) *arg {
	if dense(x.shape, x.stride) {
		return x
	}
	t := p.temp(x.dtype, x.shape)
	p.copy(x, t)
	return asOperand(t, t.shape, t.stride)
}

// convolution holds the sizes that a convolution and its weight's cotangent share.
type convolution struct {
	win                   op.Windows
	groups                int64
	n, c, o, taps, places int64
	chunk                 int64 // batch elements whose windows are laid out at once
}

func convolutionOf(p *program, c, o int64) *convolution {
	v := &convolution{c: c, o: o, n: p.n.In[0].Layout.Shape[0]}
	var rest []int64
	v.win, rest = op.WindowsOf(p.n.Attr)
	v.groups = rest[0]
	v.setSizes(p.n.In[0].DType)
	return v
}

// setSizes derives the sizes from the windows.
func (v *convolution) setSizes(d ir.DType) {
	v.taps, v.places = ir.Numel(v.win.Kernel), ir.Numel(v.win.Out)
	v.chunk = min(v.n, max(1, columnBytes/max(1, v.c*v.taps*v.places*int64(d.Size()))))
}

func lowerConv(p *program) {
	x, w, y := p.in(0), p.in(1), p.out(0)
	v := convolutionOf(p, x.shape[1], w.shape[0])
	if ir.Numel(y.shape) == 0 {
		return
	}
	m := p.fold(y.dtype)
	if dims := phasesOf(&v.win); dims != nil {
		p.convPhases(v, dims, x, w, y)
		m.after(p, y)
		return
	}
	if t := v.winograd(p); t != nil {
		t.run(p, x, w, y, m)
		return
	}
	if m.numbered() || v.c*v.taps == 0 { // C has strides, which are not the numbers of its elements
		p.conv(v, x, w, y, nil)
		m.after(p, y)
		return
	}
	p.conv(v, x, w, y, m)
}

// conv multiplies the weights with the windows of each batch element, and applies m.
func (p *program) conv(v *convolution, x, w, y *arg, m *elementMap) {
	if v.c*v.taps == 0 {
		p.fill(y, func(k *kernel) int { return k.Int(y.dtype, 0) })
		return
	}
	depth, rows := v.c/v.groups*v.taps, v.o/v.groups
	if p.sumsDirectly(rows, v.o*v.n*v.places*depth) {
		p.convDirectly(v, x, w, y)
		m.after(p, y)
		return
	}
	joined := p.n.GemmDims && v.joinsBatch(p)
	rowDims, columnDims := []int{0, 1}, dimsBetween(2, len(y.shape))
	if joined {
		rowDims, columnDims = rowDims[1:], append([]int{0}, columnDims...)
	}
	seen, ok := m.viewsOf(y.shape, rowDims, columnDims, 0)
	if !ok {
		p.conv(v, x, w, y, nil)
		m.after(p, y)
		return
	}
	result := y
	if !dense(y.shape, y.stride) {
		result = p.temp(y.dtype, y.shape)
	}
	w = p.contiguous(w)
	pads := v.padsInPlace(p, x)
	if pads == nil {
		x = p.padded(x, &v.win, zeros, false)
	}
	kernel, position := windowStrides(x, &v.win)
	a := matrix{buf: w.buf, batch: []int64{0, rows * depth}, row: depth, col: 1, offset: w.offset}
	c := matrix{buf: result.buf, batch: []int64{v.o * v.places, rows * v.places}, row: v.places, col: 1,
		offset: result.offset}
	if p.n.GemmDims {
		over := axes{depth: concat([]int64{v.c / v.groups}, v.win.Kernel), b: concat(x.stride[1:2], kernel),
			columns: v.win.Out, bcols: position,
			ccols: ir.DenseStrides(v.win.Out), pads: pads}
		if pads != nil { // the one channel is no dim
			over.depth, over.b = over.depth[1:], over.b[1:]
		}
		over.a = ir.DenseStrides(over.depth)
		batch, b := []int64{v.n, v.groups}, matrix{buf: x.buf, batch: []int64{x.stride[0], v.c / v.groups * x.stride[1]},
			offset: x.offset}
		if joined {
			over.columns, over.bcols, over.ccols = concat(batch[:1], over.columns), concat(b.batch[:1], over.bcols),
				concat(c.batch[:1], over.ccols)
			batch, a.batch, b.batch, c.batch = batch[1:], a.batch[1:], b.batch[1:], c.batch[1:]
		}
		p.productAlong(x.dtype, batch, rows, over, a, b, m, seen, c)
	} else {
		p.convColumns(v, x, a, m, c, concat(kernel, position))
	}
	if result != y {
		p.copy(asOperand(result, result.shape, result.stride), y)
	}
}

// joinsBatch reports that the positions of all batch elements are better the columns of one product, since those of one
// batch element leave more than a twentieth of the tiles empty.
func (v *convolution) joinsBatch(p *program) bool {
	const width = 64
	tiles := (v.places + width - 1) / width
	return p.n.Wide && v.n > 1 && 20*(tiles*width-v.places) > tiles*width
}

// convDirectly sums over the channels and the elements of a window.
func (p *program) convDirectly(v *convolution, x, w, y *arg) {
	x = p.padded(x, &v.win, zeros, false)
	kernel, position := windowStrides(x, &v.win)
	channels, rows := v.c/v.groups, v.o/v.groups
	none := make([]int64, len(kernel))
	s := split{outer: concat([]int64{v.n, v.groups, rows}, v.win.Out), inner: concat([]int64{channels}, v.win.Kernel)}
	x.over(slices.Concat([]int64{x.stride[0], channels * x.stride[1], 0}, position, x.stride[1:2], kernel))
	w.over(slices.Concat([]int64{0, rows * w.stride[0], w.stride[0]}, none, w.stride[1:]))
	y.over(slices.Concat([]int64{y.stride[0], rows * y.stride[1]}, y.stride[1:]))
	p.sumProducts("conv_", s, x, w, y)
}

// weightGradDirectly sums over the batch and the positions.
func (p *program) weightGradDirectly(v *convolution, x, gy, dw *arg) {
	x = p.padded(x, &v.win, zeros, false)
	kernel, position := windowStrides(x, &v.win)
	channels, rows := v.c/v.groups, v.o/v.groups
	s := split{outer: concat([]int64{v.groups, rows, channels}, v.win.Kernel), inner: concat([]int64{v.n}, v.win.Out)}
	none := make([]int64, 1+len(kernel))
	x.over(slices.Concat([]int64{channels * x.stride[1], 0, x.stride[1]}, kernel, x.stride[:1], position))
	gy.over(slices.Concat([]int64{rows * gy.stride[1], gy.stride[1]}, none, gy.stride[:1], gy.stride[2:]))
	dw.over(slices.Concat([]int64{rows * dw.stride[0]}, dw.stride))
	p.sumProducts("conv_weight_grad_", s, x, gy, dw)
}

// sumProducts stores the sums of x*y over the inner dims of s.
func (p *program) sumProducts(name string, s split, x, y, out *arg) {
	k := p.kernel(name+out.dtype.String(), s.outer, s.inner, 0, x, y, s.once(out))
	k.Each()
	acc := k.Dot(k.load(x), k.load(y))
	k.Map()
	k.store(out, k.Acc(acc))
	k.launch()
}

// convColumns lays the windows out as columns and multiplies them with the weights a, a chunk of the batch at a time
// (im2col: Chellapilla, Puri and Simard, 2006).
func (p *program) convColumns(v *convolution, x *arg, a matrix, m *elementMap, c matrix, window []int64) {
	depth, rows, first := v.c/v.groups*v.taps, v.o/v.groups, c.offset
	cols := p.temp(x.dtype, concat([]int64{v.chunk, v.c}, concat(v.win.Kernel, v.win.Out)))
	for at := int64(0); at < v.n; at += v.chunk {
		n := min(v.chunk, v.n-at)
		shape := concat([]int64{n, v.c}, concat(v.win.Kernel, v.win.Out))
		p.copyDense(x, at*x.stride[0], shape, concat(x.stride[:2], window), cols)
		c.offset = first.Plus(at * v.o * v.places)
		seen, _ := m.viewsOf(p.n.Out[0].Layout.Shape, []int{0, 1}, dimsBetween(2, 2+len(v.win.Out)), at)
		p.product(m.product(seen), x.dtype, []int64{n, v.groups},
			[3]int64{rows, v.places, depth}, a,
			matrix{buf: cols.buf, batch: []int64{v.c * v.taps * v.places, depth * v.places}, row: v.places, col: 1},
			m.epilogue(seen), c)
	}
}

// A weight gradient is summed in at most weightParts parts of the batch, of partElems elements in all: each is work for
// a thread.
const (
	weightParts = 32
	partElems   = 1 << 20
)

// lowerConvWeightGrad multiplies the cotangent with the windows; the batch is one of the summed dims. Chunks of the
// batch give partial sums, which a last kernel adds in order.
func lowerConvWeightGrad(p *program) {
	x, gy, dw := p.in(0), p.in(1), p.out(0)
	v := convolutionOf(p, x.shape[1], gy.shape[1])
	if ir.Numel(dw.shape) == 0 {
		return
	}
	if v.n*v.places == 0 {
		p.fill(dw, func(k *kernel) int { return k.Int(dw.dtype, 0) })
		return
	}
	cols := v.c / v.groups * v.taps
	if p.sumsDirectly(v.o/v.groups, v.o*cols*v.n*v.places) {
		p.weightGradDirectly(v, x, gy, dw)
		return
	}
	if p.n.GemmDims {
		parts := max(1, min(v.n, weightParts, partElems/(v.o*cols)))
		v.chunk = (v.n + parts - 1) / parts
	}
	chunks := (v.n + v.chunk - 1) / v.chunk
	parts := p.temp(dw.dtype, []int64{chunks, v.o * cols})
	x = p.padded(x, &v.win, zeros, false)
	if p.n.GemmDims {
		p.weightGradParts(v, x, gy, parts)
	} else {
		p.weightGradColumns(v, x, gy, parts)
	}
	sum := asOperand(parts, concat(dw.shape, []int64{chunks}), concat(ir.DenseStrides(dw.shape), []int64{v.o * cols}))
	s := along([]int64{-1}, sum.shape)
	k := p.kernel("conv_weight_grad_"+dw.dtype.String(), s.outer, s.inner, 0, s.full(sum), s.once(dw))
	k.Each()
	acc := k.Reduce(loopir.Sum, k.load(sum))
	k.Map()
	k.store(dw, k.Acc(acc))
	k.launch()
}

// weightGradParts sums over each chunk of the batch, with the operands in place.
func (p *program) weightGradParts(v *convolution, x, gy, parts *arg) {
	kernel, position := windowStrides(x, &v.win)
	cols, rows := v.c/v.groups*v.taps, v.o/v.groups
	part := func(from, count, m int64) { // count parts of m batch elements
		over := axes{depth: concat([]int64{m}, v.win.Out), a: concat(gy.stride[:1], gy.stride[2:]),
			b:       concat(x.stride[:1], position),
			columns: concat([]int64{v.c / v.groups}, v.win.Kernel), bcols: concat(x.stride[1:2], kernel)}
		over.ccols = ir.DenseStrides(over.columns)
		a := matrix{buf: gy.buf, batch: []int64{m * gy.stride[0], rows * gy.stride[1]}, row: gy.stride[1], offset: gy.offset}
		b := matrix{buf: x.buf, batch: []int64{m * x.stride[0], v.c / v.groups * x.stride[1]}, offset: x.offset}
		a.offset = a.offset.Plus(from * v.chunk * gy.stride[0])
		b.offset = b.offset.Plus(from * v.chunk * x.stride[0])
		p.productAlong(x.dtype, []int64{count, v.groups}, rows, over, a, b, nil, views{},
			matrix{buf: parts.buf, batch: []int64{v.o * cols, rows * cols}, row: cols, col: 1,
				offset: device.Const(from * v.o * cols)})
	}
	whole := v.n / v.chunk
	if whole > 0 {
		part(0, whole, v.chunk)
	}
	if rest := v.n % v.chunk; rest > 0 {
		part(whole, 1, rest)
	}
}

// weightGradColumns lays windows and cotangent out as columns, a chunk of the batch at a time.
func (p *program) weightGradColumns(v *convolution, x, gy, parts *arg) {
	kernel, position := windowStrides(x, &v.win)
	cols, rows := v.c/v.groups*v.taps, v.o/v.groups
	laid := p.temp(x.dtype, []int64{v.c * v.taps * v.chunk * v.places})
	turned := p.temp(gy.dtype, []int64{v.o * v.chunk * v.places})
	for i := range parts.shape[0] {
		at := i * v.chunk
		m := min(v.chunk, v.n-at)
		shape := concat(concat([]int64{v.c}, v.win.Kernel), concat([]int64{m}, v.win.Out))
		p.copyDense(x, at*x.stride[0], shape, concat(concat(x.stride[1:2], kernel), concat(x.stride[:1], position)), laid)
		p.copyDense(gy, at*gy.stride[0], concat([]int64{v.o, m}, v.win.Out), concat([]int64{gy.stride[1], gy.stride[0]},
			gy.stride[2:]), turned)
		depth := m * v.places
		p.product(launch.Gemm{CStrided: true}, x.dtype, []int64{v.groups}, [3]int64{rows, cols, depth},
			matrix{buf: turned.buf, batch: []int64{rows * depth}, row: depth, col: 1},
			matrix{buf: laid.buf, batch: []int64{cols * depth}, row: 1, col: depth}, epilogue{},
			matrix{buf: parts.buf, batch: []int64{rows * cols}, row: cols, col: 1, offset: device.Const(i * v.o * cols)})
	}
}

// slide gives x the strides of (positions, window elements), and out those of positions.
func slide(p *program, x, out *arg, w *op.Windows) (split, *arg) {
	lead := len(x.shape) - len(w.Kernel)
	kernel, position := windowStrides(x, w)
	s := split{outer: out.shape, inner: w.Kernel}
	return s, x.over(concat(concat(x.stride[:lead], position), kernel))
}

func lowerWindowSum(p *program) {
	x, out := p.in(0), p.out(0)
	if ir.Numel(out.shape) == 0 {
		return
	}
	w, _ := op.WindowsOf(p.n.Attr)
	x = p.padded(x, &w, zeros, false)
	s, x := slide(p, x, out, &w)
	k := p.kernel("window_sum_"+x.dtype.String(), s.outer, s.inner, 0, x, s.once(out))
	k.Each()
	acc := k.Reduce(loopir.Sum, k.load(x))
	k.Map()
	k.store(out, k.Acc(acc))
	k.launch()
}

// fewTaps bounds the windows whose elements are compared one after the other in a map over positions: a reduction of so
// few elements costs more.
const fewTaps = 16

// isFew reports windows of few elements. Those with padding count only without dilation.
func isFew(w *op.Windows, in []int64) bool {
	for i, lo := range w.Lo {
		if w.Base[i] != 1 || lo < 0 || lo > 0 && w.Dilation[i] != 1 {
			return false
		}
	}
	return ir.Numel(w.Kernel) <= fewTaps && ir.Numel(in) <= math.MaxInt32
}

// lowerFewMax starts from -inf at the first element inside the tensor, and takes greater elements and NaN.
func lowerFewMax(p *program, in, out, index *arg, w *op.Windows) {
	lead := len(in.shape) - len(w.Kernel)
	x := p.padded(in, w, lowest, false)
	kernel, position := windowStrides(x, w)
	plane := ir.DenseStrides(in.shape[lead:])
	from := &arg{dtype: x.dtype, buf: x.buf, shape: out.shape, stride: make([]int64, len(out.shape)), use: reads,
		computed: true}
	args := []*arg{out, index, from}
	var along []*arg // of each dim with padding: the position's first element, before the padding is subtracted
	front := int64(0)
	for d, lo := range w.Lo {
		from.stride[lead+d] = w.Stride[d] * plane[d]
		front += lo * plane[d]
		a := &arg{dtype: x.dtype, buf: x.buf, shape: out.shape, stride: make([]int64, len(out.shape)), use: reads,
			computed: true}
		a.stride[lead+d] = w.Stride[d]
		if lo == 0 {
			a = nil
		} else {
			args = append(args, a)
		}
		along = append(along, a)
	}
	taps, far := tapsOf(x, out.shape, concat(x.stride[:lead], position), kernel, plane, w)
	k := p.kernel("window_max_"+x.dtype.String(), out.shape, nil, 0, append(args, taps...)...)
	k.Map()
	best, at := lowest.value(k, x.dtype), k.Int(ir.I32, 0)
	for d, a := range along {
		if a != nil {
			outside := k.Max(k.Sub(k.number(w.Lo[d]), k.address(a)), k.I64(0))
			at = k.Add(at, k.Cast(ir.I32, k.Mul(outside, k.number(plane[d]))))
		}
	}
	for i, a := range taps {
		v := k.load(a)
		better := k.Gt(v, best)
		if x.dtype.IsFloat() {
			better = k.Or(better, k.Ne(v, v))
		}
		best, at = k.Select(better, v, best), k.Select(better, k.number32(far[i]), at)
	}
	k.store(out, best)
	k.store(index, k.Add(k.address(from), k.Cast(ir.I64, k.Sub(at, k.number32(front)))))
	k.launch()
}

// tapsOf returns, for each element of a window, x as the positions see it there, and its distance from the window's
// first element in a plane of the input.
func tapsOf(x *arg, shape, stride, kernel, plane []int64, w *op.Windows) (taps []*arg, far []int64) {
	for i := range ir.Numel(w.Kernel) {
		a := &arg{dtype: x.dtype, buf: x.buf, offset: x.offset, shape: shape, stride: stride, use: reads}
		distance, rest := int64(0), i
		for d := len(w.Kernel) - 1; d >= 0; d-- {
			t := rest % w.Kernel[d]
			rest /= w.Kernel[d]
			a.offset = a.offset.Plus(t * kernel[d])
			distance += t * w.Dilation[d] * plane[d]
		}
		taps, far = append(taps, a), append(far, distance)
	}
	return taps, far
}

// lowerWindowMax carries the element's number in the padded tensor; the last stage turns it into its number in the
// tensor.
func lowerWindowMax(p *program) {
	in, out, index := p.in(0), p.out(0), p.out(1)
	if ir.Numel(out.shape) == 0 {
		return
	}
	w, _ := op.WindowsOf(p.n.Attr)
	lead := len(in.shape) - len(w.Kernel)
	if p.n.Out[1].Unread && !p.n.Wide && p.lowerGreatest(in, out, &w) {
		return
	}
	if isFew(&w, in.shape[lead:]) {
		lowerFewMax(p, in, out, index, &w)
		return
	}
	x := p.padded(in, &w, lowest, true)
	planes := x.shape[lead:]
	s, x := slide(p, x, out, &w)
	number := &arg{dtype: x.dtype, buf: x.buf, shape: x.shape, stride: x.stride, use: reads, computed: true}
	k := p.kernel("window_max_"+x.dtype.String(), s.outer, s.inner, 0, x, number, s.once(out), s.once(index))
	k.Each()
	acc := k.ReduceIdx(loopir.ArgMax, k.load(x), k.address(number))
	k.Map()
	k.store(out, k.Acc(acc))
	rest := k.Rem(k.AccIdx(acc), k.size(ir.Numel(planes)))
	at := k.I64(0)
	for i, n := range in.shape[lead:] {
		below := k.size(ir.Numel(planes[i+1:]))
		here := k.Sub(k.Div(rest, below), k.number(w.Lo[i]))
		rest = k.Rem(rest, below)
		// A window of -inf only may name padding.
		here = k.Min(k.Max(here, k.I64(0)), k.size(n-1))
		at = k.Add(k.Mul(at, k.size(n)), here)
	}
	k.store(index, at)
	k.launch()
}
