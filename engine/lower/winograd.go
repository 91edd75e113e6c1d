package lower

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
)

// Winograd's minimal filtering F(2x2, 3x3) computes a tile of 2x2 results of a 3x3 convolution by 16 multiplications in
// place of 36 (Lavin and Gray, 2016). With tiles d of 4x4 elements and kernels g,
//
//	y = A'[(G g G') * (B' d B)]A,
//
// where * is elementwise. The sums over channels of the 16 products are 16 products of matrices. All factors are 0, 1/2
// or 1 with a sign, so that small integers stay exact.

const (
	winogradKernel = 3
	winogradResult = 2                                   // positions of a tile along each dim
	winogradTile   = winogradKernel + winogradResult - 1 // elements of a tile along each dim
	winogradArea   = winogradTile * winogradTile
)

// The choice counts the operations of a direct convolution. On an H100 a convolution in place does 26 TFLOP/s, a matrix
// product 36, and memory moves a float in the time of 40 operations.
const (
	winogradProduct = 0.72 // time of an operation of a product of matrices
	winogradFloat   = 40   // time of a float that is read or written
)

var (
	// winogradLeast is the least number of operations of a convolution: three launches take longer than one.
	winogradLeast int64 = 1 << 29
	// winogradBytes bounds the temporaries of a chunk of the batch. An H100 gains nothing from larger chunks.
	winogradBytes int64 = 128 << 20
)

// tiling is a convolution by tiles.
type tiling struct {
	*convolution
	high, wide int64 // tiles of an image
	c, o       int64 // channels of a group
	chunk      int64 // images whose tiles are worked at once
}

// winograd returns the tiling of v; nil where a direct convolution is possible only, or faster.
func (v *convolution) winograd(p *program) *tiling {
	w, ones := &v.win, []int64{1, 1}
	if !p.n.Wide || p.n.Out[0].DType != ir.F32 || !slices.Equal(w.Kernel, []int64{winogradKernel, winogradKernel}) ||
		!slices.Equal(w.Stride, ones) || !slices.Equal(w.Dilation, ones) || !slices.Equal(w.Base, ones) {
		return nil
	}
	t := &tiling{convolution: v, high: (w.Out[0] + winogradResult - 1) / winogradResult,
		wide: (w.Out[1] + winogradResult - 1) / winogradResult, c: v.c / v.groups, o: v.o / v.groups}
	tiles := t.high * t.wide
	direct := 2 * v.o * t.c * v.taps * v.places
	products := winogradProduct * float64(2*v.o*t.c*winogradArea*tiles)
	moved := winogradFloat * float64((2*winogradArea+winogradResult*winogradResult)*(v.c+v.o)*tiles)
	if float64(direct) <= products+moved || direct*v.n < winogradLeast || v.n*max(v.c, v.o)*v.places > math.MaxInt32/4 {
		return nil
	}
	t.chunk = min(v.n, max(1, winogradBytes/(4*winogradArea*(v.c+v.o)*tiles)))
	return t
}

// run convolves x with w into y and applies m.
func (t *tiling) run(p *program, x, w, y *arg, m *elementMap) {
	kernels := p.temp(ir.F32, []int64{winogradArea, t.groups, t.o, t.c})
	t.transformKernels(p, w, kernels)
	places := t.chunk * t.high * t.wide
	tiles := p.temp(ir.F32, []int64{winogradArea, t.groups, t.c, places})
	sums := p.temp(ir.F32, []int64{winogradArea, t.groups, t.o, places})
	inside := t.win.Out[0]%winogradResult == 0 && t.win.Out[1]%winogradResult == 0
	folded := m
	if m.numbered() || !inside {
		folded = nil
	}
	for at := int64(0); at < t.n; at += t.chunk {
		n := min(t.chunk, t.n-at)
		places := n * t.high * t.wide
		t.transformTiles(p, x, tiles, at, n)
		p.product(launch.Gemm{CStrided: true}, ir.F32, []int64{winogradArea, t.groups}, [3]int64{t.o, places, t.c},
			matrix{buf: kernels.buf, batch: []int64{t.groups * t.o * t.c, t.o * t.c}, row: t.c, col: 1},
			matrix{buf: tiles.buf, batch: []int64{t.groups * t.c * places, t.c * places}, row: places, col: 1}, epilogue{},
			matrix{buf: sums.buf, batch: []int64{t.groups * t.o * places, t.o * places}, row: places, col: 1})
		t.transformSums(p, sums, y, folded, at, n)
	}
	if folded == nil {
		m.after(p, y)
	}
}

// planes are the arguments over the parts of a dense temporary of this shape, one for each element of a tile.
func planes(t *arg, u use, shape []int64) (list []*arg) {
	for i := range int64(winogradArea) {
		list = append(list, &arg{dtype: t.dtype, buf: t.buf, offset: device.Const(i * ir.Numel(shape)), use: u, shape: shape,
			stride: ir.DenseStrides(shape)})
	}
	return list
}

// transformKernels stores G g G' for each kernel g of w.
func (t *tiling) transformKernels(p *program, w, kernels *arg) {
	shape := w.shape[:2]
	var taps []*arg
	for i := range t.taps {
		at := i/winogradKernel*w.stride[2] + i%winogradKernel*w.stride[3]
		taps = append(taps, &arg{dtype: w.dtype, buf: w.buf, offset: w.offset.Plus(at), use: reads, shape: shape,
			stride: w.stride[:2]})
	}
	stores := planes(kernels, writes, shape)
	k := p.kernel("winograd_kernels", shape, nil, 0, slices.Concat(taps, stores)...)
	k.Map()
	half := k.Float(ir.F32, 0.5)
	transform := func(g []int) []int {
		ends, middle := k.Mul(half, k.Add(g[0], g[2])), k.Mul(half, g[1])
		return []int{g[0], k.Add(ends, middle), k.Sub(ends, middle), g[2]}
	}
	for i, v := range transformed(loads(k, taps), winogradKernel, transform) {
		k.store(stores[i], v)
	}
	k.launch()
}

// transformTiles stores B' d B for each tile d of n images of x, from number at on.
func (t *tiling) transformTiles(p *program, x, tiles *arg, at, n int64) {
	shape := []int64{t.groups * t.c, n, t.high, t.wide}
	from := &arg{dtype: x.dtype, buf: x.buf, offset: x.offset.Plus(at * x.stride[0]), use: reads, shape: shape,
		computed: true, stride: []int64{x.stride[1], x.stride[0], winogradResult * x.stride[2], winogradResult * x.stride[3]}}
	stores := planes(tiles, writes, shape)
	k := p.kernel("winograd_tiles", shape, nil, len(shape), append([]*arg{from}, stores...)...)
	k.Map()
	within := func(dim int) (list []int) { // by element of a tile: whether it is inside x
		first := k.Mul(k.Int(ir.I32, winogradResult), k.Cast(ir.I32, k.Index(dim)))
		for i := range int64(winogradTile) {
			e := k.Add(first, k.number32(i-t.win.Lo[dim-2]))
			list = append(list, k.And(k.Ge(e, k.Int(ir.I32, 0)), k.Lt(e, k.number32(x.shape[dim]))))
		}
		return list
	}
	rows, columns, first := within(2), within(3), k.Cast(ir.I32, k.address(from))
	var d []int
	for i, row := range rows {
		for j, column := range columns {
			step := (int64(i)-t.win.Lo[0])*x.stride[2] + (int64(j)-t.win.Lo[1])*x.stride[3]
			inside := k.And(row, column)
			e := k.LoadAt(from.kbuf, k.Cast(ir.I64, k.Select(inside, k.Add(first, k.number32(step)), k.Int(ir.I32, 0))))
			d = append(d, k.Select(inside, e, k.Float(ir.F32, 0)))
		}
	}
	transform := func(d []int) []int {
		return []int{k.Sub(d[0], d[2]), k.Add(d[1], d[2]), k.Sub(d[2], d[1]), k.Sub(d[1], d[3])}
	}
	for i, v := range transformed(d, winogradTile, transform) {
		k.store(stores[i], v)
	}
	k.launch()
}

// transformSums stores A' s A for each tile s of sums to n images of y, from number at on, and applies m.
func (t *tiling) transformSums(p *program, sums, y *arg, m *elementMap, at, n int64) {
	shape := []int64{t.groups * t.o, n, t.high, t.wide}
	parts := planes(sums, reads, shape)
	// view is a result's or an operand's elements at row i and column j of each tile.
	view := func(d ir.DType, buf int, offset device.Param, stride []int64, i, j int64, u use) *arg {
		return &arg{dtype: d, buf: buf, offset: offset.Plus(at*stride[0] + i*stride[2] + j*stride[3]), use: u, shape: shape,
			stride: []int64{stride[1], stride[0], winogradResult * stride[2], winogradResult * stride[3]}}
	}
	args := parts
	var stores [winogradResult * winogradResult][]*arg
	var operands [winogradResult * winogradResult]map[int]*arg
	for e := range stores {
		i, j := int64(e)/winogradResult, int64(e)%winogradResult
		stores[e] = []*arg{view(y.dtype, y.buf, y.offset, y.stride, i, j, writes)}
		operands[e] = map[int]*arg{}
		if m != nil {
			for _, o := range m.reads {
				x := &p.n.In[o]
				stride, offset := ir.DenseStrides(y.shape), device.Param{}
				if !x.Whole {
					stride, offset = x.Layout.Stride, device.OffsetOf(o)
				}
				operands[e][o] = view(x.DType, x.Buf, offset, stride, i, j, reads)
				args = append(args, operands[e][o])
			}
			for r, buf := range m.results {
				stores[e] = append(stores[e], view(p.n.Out[1+r].DType, buf, device.Param{}, ir.DenseStrides(y.shape), i, j, writes))
			}
		}
		args = append(args, stores[e]...)
	}
	k := p.kernel("winograd_sums", shape, nil, len(shape), args...)
	k.Map()
	transform := func(s []int) []int {
		return []int{k.Add(k.Add(s[0], s[1]), s[2]), k.Sub(k.Sub(s[1], s[2]), s[3])}
	}
	for e, v := range transformed(loads(k, parts), winogradTile, transform) {
		values := []int{v}
		if m != nil {
			values = p.folded(k, v, func(o int) int { return k.load(operands[e][o]) })
		}
		for r, v := range values {
			s := stores[e][r]
			k.StoreIf(t.guard(k, int64(e)), s.access, k.Cast(s.dtype, v))
		}
	}
	k.launch()
}

// guard is the condition that result e of a tile is inside the image; -1 where all are.
func (t *tiling) guard(k *kernel, e int64) int {
	cond := -1
	for d, i := range []int64{e / winogradResult, e % winogradResult} {
		if size := t.win.Out[d]; size%winogradResult > i || size%winogradResult == 0 {
			continue
		}
		inside := k.Lt(k.Cast(ir.I32, k.Index(2+d)), k.number32(t.win.Out[d]/winogradResult))
		if cond >= 0 {
			inside = k.And(cond, inside)
		}
		cond = inside
	}
	return cond
}

// loads loads all of list.
func loads(k *kernel, list []*arg) (values []int) {
	for _, a := range list {
		values = append(values, k.load(a))
	}
	return values
}

// transformed applies f to the columns of a square of values, then to the rows of the result.
func transformed(values []int, side int, f func([]int) []int) (out []int) {
	var columns [][]int
	for j := range side {
		var column []int
		for i := range side {
			column = append(column, values[i*side+j])
		}
		columns = append(columns, f(column))
	}
	for i := range columns[0] {
		var row []int
		for _, c := range columns {
			row = append(row, c[i])
		}
		out = append(out, f(row)...)
	}
	return out
}
