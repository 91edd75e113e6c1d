package lower

import (
	"slices"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
)

func init() { register(map[string]lowering{"matmul": lowerMatmul}) }

// maxGemmBatch is the number of batch dims that a launch.Gemm takes.
const maxGemmBatch = 3

// lowerMatmul makes one GEMM; attribute: has bias.
func lowerMatmul(p *program) {
	n := p.n
	a, b, c := p.in(0), p.in(1), p.out(0)
	if ir.Numel(c.shape) == 0 {
		return
	}
	r := len(c.shape)
	m, cols, depth := c.shape[r-2], c.shape[r-1], a.shape[r-1]
	if depth == 0 {
		p.emptyProduct(c)
		return
	}
	batch, st := p.batchDims(a, b, c)
	sa, sb, sc := st[0], st[1], st[2]
	am, ak := a.stride[r-2], a.stride[r-1]
	bk, bn := b.stride[r-2], b.stride[r-1]
	cm, cn := c.stride[r-2], c.stride[r-1]
	// A batch of rows against one matrix is a taller product.
	for k := len(batch) - 1; k >= 0 && sb[k] == 0 && (m == 1 || sa[k] == m*am && sc[k] == m*cm); k-- {
		if m == 1 {
			am, cm = sa[k], sc[k]
		}
		m *= batch[k]
		batch, sa, sb, sc = batch[:k], sa[:k], sb[:k], sc[:k]
	}
	var later *elementMap
	f := p.fold(c.dtype)
	seen, ok := f.viewsOf(n.Out[0].Layout.Shape, dimsBetween(0, r-1), []int{r - 1}, 0)
	if !ok {
		f, later = nil, f
	}
	g, e := f.product(seen), f.epilogue(seen)
	g.CStrided = n.Out[0].Through || !dense(concat(batch, []int64{m, cols}), concat(sc, []int64{cm, cn}))
	if n.Attr[0] != 0 {
		e.bias = p.in(2)
	}
	if n.Norm != nil {
		p.prologue(&g, &e, a.dtype, m, depth)
	}
	if n.Sums != 0 {
		g.Sums, e.sums = n.Sums, p.out(len(n.Out)-1)
	}
	p.product(g, a.dtype, batch, [3]int64{m, cols, depth}, matrix{a.buf, sa, am, ak, a.offset}, matrix{b.buf, sb, bk, bn,
		b.offset}, e, matrix{c.buf, sc, cm, cn, c.offset})
	later.after(p, c)
}

// prologue lets a product work the rows of its first operand first, as the node's norm does.
func (p *program) prologue(g *launch.Gemm, e *epilogue, d ir.DType, rows, depth int64) {
	norm := p.n.Norm
	n := len(norm.In)
	o := &operands{in: norm.In, types: make([]ir.DType, n), x: make([]int, n), out: d, attr: norm.Attr, outs: 1,
		s: normalized(1, []int64{rows, depth})}
	var types []ir.DType
	for j, i := range norm.In {
		if o.types[j] = p.n.In[i].DType; j > 0 && !p.n.In[i].Scalar {
			types, e.vectors = append(types, o.types[j]), append(e.vectors, p.n.In[i].Buf)
		}
	}
	b, x, vectors, finish := launch.NewPrologue(d, types...)
	o.k = &kernel{Builder: b, p: p}
	o.x[0] = x
	for j := range vectors {
		o.x[1+j] = vectors[j]
	}
	y := RowsOf(norm.Prim, norm.Attr).body(o)[0]
	g.Type, g.Prologue, e.rows = d, finish(o.k.Cast(d, y)), o.k.params
	if err := g.CheckPrologue(); err != nil {
		panic("BUG: lower: " + err.Error())
	}
}

// matrix is an operand of a product: strides of its batch dims, rows and columns.
type matrix struct {
	buf      int
	batch    []int64
	row, col int64
	offset   device.Param
}

// strides returns the parameters of a matrix.
func (x *matrix) strides() []device.Param {
	return append(constants(concat(x.batch, []int64{x.row, x.col})...), x.offset)
}

// product appends c = a @ b + bias with size[0] rows, size[1] columns and size[2] terms. g gives the epilogue and
// whether c has strides; its other fields follow from the operands.
func (p *program) product(g launch.Gemm, d ir.DType, batch []int64, size [3]int64, a, b matrix, e epilogue, c matrix) {
	p.productOver(g, d, batch, size, a, b, e, c, nil)
}

// axes are the dims that make up the depth and the columns of a product.
type axes struct {
	depth, a, b    []int64 // sizes, strides of both operands
	columns, bcols []int64 // sizes, strides of the second operand
	ccols          []int64 // strides of the result
	pads           []int64 // of launch.Gemm.Padded, by dim; the dims stay as they are
}

// productAlong is a product whose depth and columns have several dims. Neighbouring dims that operands walk as one are
// merged; where one dim of each is left it is a plain product.
func (p *program) productAlong(d ir.DType, batch []int64, rows int64, x axes, a, b matrix, m *elementMap, seen views,
	c matrix) {
	depth, st := x.depth, [][]int64{x.a, x.b}
	columns, bc := x.columns, [][]int64{x.bcols, x.ccols}
	if x.pads == nil {
		depth, st = collapse(depth, st, 0)
		columns, bc = collapse(columns, bc, 0)
	}
	a.col, b.row, b.col, c.col = st[0][len(depth)-1], st[1][len(depth)-1], bc[0][len(columns)-1], bc[1][len(columns)-1]
	size := [3]int64{rows, ir.Numel(columns), ir.Numel(depth)}
	if len(depth) == 1 && len(columns) == 1 && x.pads == nil {
		p.product(m.product(seen), d, batch, size, a, b, m.epilogue(seen), c)
		return
	}
	g := m.product(seen)
	g.KDims, g.NDims, g.Padded = len(depth), len(columns), x.pads != nil
	g.BUnit = windowUnit(b.row, depth[len(depth)-1], b.col, columns[len(columns)-1])
	rest := slices.Concat(depth, st[0], st[1], columns, bc[0], x.pads)
	if g.CDims = !dense(columns, bc[1]); g.CDims {
		rest = append(rest, bc[1]...)
	}
	p.productOver(g, d, batch, size, a, b, m.epilogue(seen), c, constants(rest...))
}

// productOver ends a product's parameters with rest.
func (p *program) productOver(g launch.Gemm, d ir.DType, batch []int64, size [3]int64, a, b matrix, e epilogue,
	c matrix, rest []device.Param) {
	rows, cols, depth := size[0], size[1], size[2]
	g.Type, g.Batch, g.Bias = d, len(batch), e.bias != nil
	g.AUnit = unitDim(a.col, depth, 'k', a.row, rows, 'm')
	if g.KDims == 0 {
		g.BUnit = unitDim(b.col, cols, 'n', b.row, depth, 'k')
	}
	params := slices.Concat(constants(batch...), constants(size[:]...), a.strides(), b.strides())
	bufs := []int{a.buf, b.buf}
	if e.bias != nil {
		params = append(params, device.Const(e.bias.stride[0]), e.bias.offset)
		bufs = append(bufs, e.bias.buf)
	}
	bufs = append(append(append(bufs, e.operands...), c.buf), e.results...)
	if e.sums != nil {
		bufs = append(bufs, e.sums.buf)
	}
	bufs = append(bufs, e.vectors...)
	if g.CStrided {
		params = append(params, c.strides()...)
	}
	params = slices.Concat(params, rest, e.views, e.scalars, e.rows)
	p.res.Launches = append(p.res.Launches, device.Step{Op: &g, Bufs: bufs, Params: params})
}

// windowUnit returns the dim along which a product reads windows: 'k' (depth), 'n' (columns) or 0 (neither). It takes
// strides and sizes of the last dim of each. Reading touches fewer cache lines where contiguous runs are longer; one
// load takes 8 elements along the depth, or 32 along the columns.
func windowUnit(kStride, kSize, nStride, nSize int64) byte {
	apart := func(stride, size, most int64) float64 {
		run := min(size, most)
		return float64((run-1)*stride+lineElems) / float64(run)
	}
	switch {
	case apart(kStride, kSize, 8) < apart(nStride, nSize, 32) && kStride == 1:
		return 'k'
	case nStride == 1:
		return 'n'
	}
	return 0
}

// lineElems is the number of floats in a cache line.
const lineElems = 32

func constants(v ...int64) []device.Param {
	out := make([]device.Param, len(v))
	for i, x := range v {
		out[i] = device.Const(x)
	}
	return out
}

// unitDim names the dim along which an operand is contiguous; 0: none. The stride of a dim of size 1 does not matter.
func unitDim(s0, n0 int64, name0 byte, s1, n1 int64, name1 byte) byte {
	switch {
	case s0 == 1:
		return name0
	case s1 == 1:
		return name1
	case n0 == 1:
		return name0
	case n1 == 1:
		return name1
	}
	return 0
}

// batchDims merges the batch dims of a product. Operands with more dims left than a GEMM takes are copied first, which
// makes them one dim.
func (p *program) batchDims(a, b, c *arg) ([]int64, [][]int64) {
	lead := len(c.shape) - 2
	strides := func() [][]int64 { return [][]int64{a.stride[:lead], b.stride[:lead], c.stride[:lead]} }
	if ir.Numel(c.shape[:lead]) == 1 {
		return nil, [][]int64{nil, nil, nil}
	}
	batch, st := collapse(c.shape[:lead], strides(), 0)
	if len(batch) <= maxGemmBatch {
		return batch, st
	}
	for _, x := range []*arg{a, b} {
		if dense(x.shape, x.stride) {
			continue
		}
		t := p.temp(x.dtype, x.shape)
		p.copy(x, t)
		x.buf, x.stride, x.offset = t.buf, t.stride, device.Param{}
	}
	return collapse(c.shape[:lead], strides(), 0)
}

// emptyProduct is a sum without terms: zero, or the bias.
func (p *program) emptyProduct(c *arg) {
	args := []*arg{c}
	var bias *arg
	if p.n.Attr[0] != 0 {
		bias = p.in(2)
		st := make([]int64, len(c.shape))
		st[len(st)-1] = bias.stride[0]
		args = append(args, bias.over(st))
	}
	k := p.kernel("matmul_empty_"+c.dtype.String(), c.shape, nil, 0, args...)
	k.Map()
	t := c.dtype.ComputeType()
	v := k.Int(t, 0)
	if bias != nil {
		v = k.load(bias)
	}
	k.store(c, v)
	k.launch()
}
