package lower

import (
	"slices"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// epilogue has the bias of a product, the buffers and parameters of its map, and the buffer for sums of an operand.
// vectors and rows are the buffers and parameters of its prologue. A nil field is absent.
type epilogue struct {
	bias, sums        *arg
	operands, results []int
	views, scalars    []device.Param
	vectors           []int
	rows              []device.Param
}

// elementMap is the folds of a node as a map that a product applies to its result. A nil map does nothing.
type elementMap struct {
	kernel  *loopir.Kernel
	reads   []int // numbers of the node's operands, in the order of the map's buffers
	bufs    []int // of the operands
	results []int // buffers of the further results
	scalars []device.Param
	lies    []*Operand // by operand: how it lies in the result's shape; nil for one with the elements of the result
}

// views are the operands of an element map that a product reads by strides over the rows and columns of its result.
type views struct {
	letters string
	rowDims int
	params  []device.Param
}

// fold makes one map of the node's folds, for a result of dtype d; nil where there are none.
func (p *program) fold(d ir.DType) *elementMap {
	n := p.n
	if len(n.Folds) == 0 {
		return nil
	}
	m := &elementMap{}
	var types []ir.DType
	for _, f := range n.Folds {
		for _, i := range f.In {
			if i < 0 || n.In[i].Scalar || slices.Contains(m.reads, i) {
				continue
			}
			m.reads, types, m.bufs = append(m.reads, i), append(types, n.In[i].DType), append(m.bufs, n.In[i].Buf)
			if m.lies = append(m.lies, nil); !n.In[i].Whole {
				m.lies[len(m.lies)-1] = &n.In[i]
			}
		}
	}
	b, c, loads, finish := launch.NewEpilogue(d, types...)
	k := &kernel{Builder: b, p: p}
	values := p.folded(k, c, func(i int) int { return loads[slices.Index(m.reads, i)] })
	var further []launch.Result
	for j, v := range values[1:] {
		out := &n.Out[1+j]
		further, m.results = append(further, launch.Result{Type: out.DType, Value: v}), append(m.results, out.Buf)
	}
	m.kernel, m.scalars = finish(values[0], further...), k.params
	return m
}

// folded evaluates the node's folds, by the bodies that lower them alone, and returns the kept values. c is the
// product's result, load gives an operand. A fold reads the value of another fold rounded as by a store.
func (p *program) folded(k *kernel, c int, load func(i int) int) (kept []int) {
	n := p.n
	dtypes, values := []ir.DType{n.Out[0].DType}, []int{c} // the product's, then those of the folds
	for _, f := range n.Folds {
		o := &operands{k: k, types: make([]ir.DType, len(f.In)), in: f.In, x: make([]int, len(f.In)), out: f.DType}
		for j, from := range f.In {
			switch {
			case from < 0:
				o.types[j], o.x[j] = dtypes[^from], values[^from]
				if ^from > 0 {
					o.x[j] = k.reload(o.types[j], values[^from])
				}
			case n.In[from].Scalar:
				o.types[j] = n.In[from].DType
			default:
				o.types[j], o.x[j] = n.In[from].DType, load(from)
			}
		}
		dtypes, values = append(dtypes, f.DType), append(values, k.Cast(f.DType, elements[f.Prim.NameFor(f.Attr)](o)))
	}
	for _, v := range n.Kept {
		kept = append(kept, values[^v])
	}
	return kept
}

// viewsOf finds the strides of m's operands over the rows and the columns of a product that makes a result of this
// shape; rows and columns list dims of the result. The product begins at index first of dim 0. It fails where the
// columns are not one dim for an operand, or the rows are more dims than a product takes.
func (m *elementMap) viewsOf(shape []int64, rows, columns []int, first int64) (v views, ok bool) {
	if m == nil {
		return v, true
	}
	pick := func(list []int64, dims []int) (some []int64) {
		for _, d := range dims {
			some = append(some, list[d])
		}
		return some
	}
	var over, across [][]int64 // by operand with a view: strides over rows and columns
	var letters []byte
	for _, x := range m.lies {
		if letters = append(letters, 'c'); x != nil {
			over, across = append(over, pick(x.Layout.Stride, rows)), append(across, pick(x.Layout.Stride, columns))
		}
	}
	if over == nil {
		return v, true
	}
	size, over := collapse(pick(shape, rows), over, 0)
	width, across := collapse(pick(shape, columns), across, 0)
	if len(size) > launch.MaxRowDims || len(width) > 1 {
		return v, false
	}
	next := 0
	var strides []device.Param
	for o, x := range m.lies {
		if x == nil {
			continue
		}
		byRow, step := over[next], across[next][0]
		next++
		moves := ir.Numel(size) > 1 && slices.ContainsFunc(byRow, func(s int64) bool { return s != 0 })
		switch letters[o] = 'm'; {
		case width[0] == 1 || step == 0:
			step = 0
		case moves:
			letters[o] = 'x'
		default:
			letters[o] = 'n'
		}
		shift := int64(0)
		if first > 0 {
			shift = first * x.Layout.Stride[0]
		}
		strides = append(strides, constants(concat(byRow, []int64{step})...)...)
		strides = append(strides, device.OffsetOf(m.reads[o]).Plus(shift))
	}
	v.letters, v.rowDims, v.params = string(letters), len(size), append(constants(size...), strides...)
	return v, true
}

// dimsBetween lists the dims from first up to end.
func dimsBetween(first, end int) (dims []int) {
	for d := first; d < end; d++ {
		dims = append(dims, d)
	}
	return dims
}

// product is a product with strides that applies the map.
func (m *elementMap) product(v views) launch.Gemm {
	g := launch.Gemm{CStrided: true, Views: v.letters, RowDims: v.rowDims}
	if m != nil {
		g.Epilogue = m.kernel
	}
	return g
}

func (m *elementMap) epilogue(v views) epilogue {
	if m == nil {
		return epilogue{}
	}
	return epilogue{operands: m.bufs, results: m.results, views: v.params, scalars: m.scalars}
}

// numbered reports a map that depends on the numbers of elements.
func (m *elementMap) numbered() bool { return m != nil && launch.Numbered(m.kernel) }

// after launches the map by itself, over all of c.
func (m *elementMap) after(p *program, c *arg) {
	if m == nil {
		return
	}
	n, shape := p.n, p.n.Out[0].Layout.Shape
	dense := ir.DenseStrides(shape)
	of := func(t ir.DType, buf int, u use) *arg {
		return &arg{dtype: t, shape: shape, stride: dense, buf: buf, use: u}
	}
	from, loads := of(c.dtype, c.buf, reads), map[int]*arg{}
	args := []*arg{from}
	for _, i := range m.reads {
		x := &n.In[i]
		if loads[i] = of(x.DType, x.Buf, reads); !x.Whole {
			loads[i].stride, loads[i].offset = x.Layout.Stride, device.OffsetOf(i)
		}
		args = append(args, loads[i])
	}
	outs := []*arg{of(c.dtype, c.buf, writes)}
	for j := range m.results {
		outs = append(outs, of(n.Out[1+j].DType, n.Out[1+j].Buf, writes))
	}
	k := p.kernel("epilogue_"+c.dtype.String(), shape, nil, 0, append(args, outs...)...)
	k.Map()
	for j, v := range p.folded(k, k.load(from), func(i int) int { return k.load(loads[i]) }) {
		k.store(outs[j], v)
	}
	k.launch()
}
