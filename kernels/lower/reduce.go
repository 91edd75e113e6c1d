package lower

import (
	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/kernels/kir"
)

func init() {
	for name, op := range map[string]kir.ReduceOp{"sum": kir.Sum, "prod": kir.Prod, "amax": kir.Max, "amin": kir.Min} {
		register(reduceNode(op, nil), name)
	}
	nonzero := func(b *kir.Builder, x int) int { return b.Cast(ir.Bool, x) }
	register(reduceNode(kir.Any, nonzero), "any")
	register(reduceNode(kir.All, nonzero), "all")
	register(argNode(kir.ArgMax), "argmax", "max_dim")
	register(argNode(kir.ArgMin), "argmin", "min_dim")
	register(variance, "var")
	register(cumsum, "cumsum")
}

// mask marks dims (wrapped) of a tensor of that rank.
func mask(dims []int64, rank int) []bool {
	m := make([]bool, rank)
	for _, d := range dims {
		if rank == 0 {
			continue
		}
		if d < 0 {
			d += int64(rank)
		}
		m[d] = true
	}
	return m
}

// rows is a nest whose inner dims are those marked, in order.
type rows struct {
	nest
	in     []bool
	perm   []int // nest dim to tensor dim
	counts int64 // elements of the inner space
}

func rowsOf(shape []int64, in []bool) rows {
	r := rows{in: in, counts: 1}
	for d, m := range in {
		if !m {
			r.perm = append(r.perm, d)
			r.shape = append(r.shape, shape[d])
		}
	}
	r.split = len(r.perm)
	for d, m := range in {
		if m {
			r.perm = append(r.perm, d)
			r.shape = append(r.shape, shape[d])
			r.counts *= shape[d]
		}
	}
	if r.split == len(r.perm) {
		r.shape = append(r.shape, 1)
	}
	return r
}

// full is the part of a tensor with all the nest's dims.
func (r *rows) full(n *Node, id int) part {
	p := n.whole(id)
	st := p.stride
	p.stride = make([]int64, len(r.shape))
	for i, d := range r.perm {
		p.stride[i] = st[d]
	}
	return p
}

// outer is the part of a tensor with the outer dims only.
func (r *rows) outer(n *Node, id int) part {
	p := n.whole(id)
	st := p.stride
	p.stride = make([]int64, len(r.shape))
	copy(p.stride, st)
	return p
}

// innerOnly is the part of a tensor with the inner dims only.
func (r *rows) innerOnly(n *Node, id int) part {
	p := n.whole(id)
	st := p.stride
	p.stride = make([]int64, len(r.shape))
	copy(p.stride[r.split:], st)
	return p
}

func (r *rows) loop(n *Node, parts ...part) *loop {
	return newLoop(n, n.Prim.Name+"_"+n.dtype(parts[0].id).String(), r.nest, parts)
}

// reduceNode lowers a reduction over attr's dims.
func reduceNode(op kir.ReduceOp, pre func(b *kir.Builder, x int) int) rule {
	return func(n *Node) (*Result, error) {
		r := rowsOf(n.In[0].Layout.Shape, mask(n.Attr, len(n.In[0].Layout.Shape)))
		l := r.loop(n, r.full(n, 0), r.outer(n, n.out(0)))
		l.b.Each()
		x := l.load(0)
		if pre != nil {
			x = pre(l.b, x)
		}
		a := l.b.Reduce(op, x)
		l.b.Map()
		l.store(1, l.b.Acc(a))
		return l.one()
	}
}

// argNode lowers an index of the extreme along attr's dim; with two outputs the value too.
func argNode(op kir.ReduceOp) rule {
	return func(n *Node) (*Result, error) {
		r := rowsOf(n.In[0].Layout.Shape, mask(n.Attr[:1], len(n.In[0].Layout.Shape)))
		parts := []part{r.full(n, 0)}
		for k := range n.Out {
			parts = append(parts, r.outer(n, n.out(k)))
		}
		l := r.loop(n, parts...)
		b := l.b
		b.Each()
		x := l.load(0)
		if b.Type(x) == ir.Bool {
			x = b.Cast(ir.I32, x)
		}
		a := b.ReduceIdx(op, x, b.Index(l.outer))
		b.Map()
		if len(n.Out) == 2 {
			l.store(1, b.Acc(a))
		}
		l.store(len(n.Out), b.AccIdx(a))
		return l.one()
	}
}

// count is the number of elements of the inner space as a float.
func (l *loop) count(t ir.DType) int {
	b := l.b
	c := b.Param(l.outer)
	for d := l.outer + 1; d < len(l.sizes); d++ {
		c = b.Mul(c, b.Param(d))
	}
	return b.Cast(t, c)
}

// meanOf begins a stage that sums f over the inner space and gives the mean.
func (l *loop) meanOf(t ir.DType, f func() int) int {
	l.b.Each()
	a := l.b.Reduce(kir.Sum, f())
	return l.b.Div(l.b.Acc(a), l.count(t))
}

// variance is two-pass: outputs var and mean.
func variance(n *Node) (*Result, error) {
	r := rowsOf(n.In[0].Layout.Shape, mask(n.Attr, len(n.In[0].Layout.Shape)))
	l := r.loop(n, r.full(n, 0), r.outer(n, n.out(0)), r.outer(n, n.out(1)))
	b := l.b
	t := n.In[0].DType.ComputeType()
	m := l.meanOf(t, func() int { return l.load(0) })
	b.Each()
	d := b.Sub(l.load(0), m)
	a := b.Reduce(kir.Sum, b.Mul(d, d))
	b.Map()
	div := b.Max(b.Sub(l.count(t), l.scalar(0, n.In[1].DType)), b.Float(t, 0))
	l.store(1, b.Div(b.Acc(a), div))
	l.store(2, m)
	return l.one()
}

// cumsum is an inclusive prefix along one dim.
func cumsum(n *Node) (*Result, error) {
	r := rowsOf(n.In[0].Layout.Shape, mask(n.Attr[:1], len(n.In[0].Layout.Shape)))
	l := r.loop(n, r.full(n, 0), r.full(n, n.out(0)))
	l.b.Scan()
	a := l.b.Reduce(kir.Sum, l.load(0))
	l.store(1, l.b.AccRun(a))
	return l.one()
}
