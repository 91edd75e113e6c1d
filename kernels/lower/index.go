package lower

import (
	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/kernels/kir"
)

func init() {
	register(gather, "gather")
	register(indexSelect, "index_select")
	register(scatterNode(kir.Set), "scatter")
	register(scatterNode(kir.Add), "scatter_add")
	register(indexAdd, "index_add")
	register(cat, "cat")
	register(stridedScatter(false), "strided_scatter")
	register(stridedScatter(true), "strided_scatter_add")
}

// along splits a tensor's strides at a dim: the rest, with 0 there, and the dim's own
// stride and size. A 0-dim tensor counts as one of size 1.
func along(l *ir.Layout, dim int64) (rest []int64, stride, size int64) {
	if len(l.Shape) == 0 {
		return nil, 1, 1
	}
	if dim < 0 {
		dim += int64(len(l.Shape))
	}
	rest = append([]int64(nil), l.Stride...)
	stride, size = rest[dim], l.Shape[dim]
	rest[dim] = 0
	return rest, stride, size
}

// addressed is the part of a tensor that a computed index walks along dim: it takes the
// other dims from the nest.
func (n *Node) addressed(id int, dim int64) (p part, stride, size int64) {
	p = n.whole(id)
	p.stride, stride, size = along(n.layout(id), dim)
	return p, stride, size
}

// index reads part i as an I64 in bounds of size, checked.
func (l *loop) index(i int, size int64) int {
	return l.b.InBounds(l.b.Cast(ir.I64, l.load(i)), l.size(size))
}

// plus adds idx*stride to an element number.
func (l *loop) plus(e, idx int, stride int64) int {
	return l.b.Add(e, l.b.Mul(idx, l.b.Param(l.constant(l.b.Stride(), stride))))
}

func gather(n *Node) (*Result, error) {
	x, stride, size := n.addressed(0, n.Attr[0])
	shape := n.Out[0].Layout.Shape
	l := newLoop(n, "gather_"+n.In[0].DType.String(), nest{shape: shape, split: len(shape)}, []part{x, n.whole(1), n.whole(n.out(0))})
	b := l.b
	b.Map()
	e := l.plus(l.element(0), l.index(1, size), stride)
	l.store(2, b.LoadAt(l.bufNo[n.In[0].Buf], e))
	return l.one()
}

// indexAlong is the part of a 1-d index over a nest of shape, walking dim only.
func (n *Node) indexAlong(id int, dim int64, rank int) part {
	p := n.whole(id)
	st := int64(0)
	if len(p.stride) > 0 {
		st = p.stride[0]
	}
	p.stride = make([]int64, rank)
	if rank > 0 {
		if dim < 0 {
			dim += int64(rank)
		}
		p.stride[dim] = st
	}
	return p
}

func indexSelect(n *Node) (*Result, error) {
	x, stride, size := n.addressed(0, n.Attr[0])
	shape := n.Out[0].Layout.Shape
	l := newLoop(n, "index_select_"+n.In[0].DType.String(), nest{shape: shape, split: len(shape)},
		[]part{x, n.indexAlong(1, n.Attr[0], len(shape)), n.whole(n.out(0))})
	b := l.b
	b.Map()
	e := l.plus(l.element(0), l.index(1, size), stride)
	l.store(2, b.LoadAt(l.bufNo[n.In[0].Buf], e))
	return l.one()
}

// copyBase copies input 0 to output 0 unless they share a buffer.
func copyBase(n *Node) []Launch {
	if n.In[0].Buf == n.Out[0].Buf {
		return nil
	}
	shape := n.Out[0].Layout.Shape
	l := newLoop(n, "copy_"+n.In[0].DType.String(), nest{shape: shape, split: len(shape)}, []part{n.whole(0), n.whole(n.out(0))})
	l.b.Map()
	l.store(1, l.load(0))
	return []Launch{l.launch()}
}

// scatterNode writes or adds src at computed places of the output.
func scatterNode(mode kir.StoreMode) rule {
	return func(n *Node) (*Result, error) {
		res := &Result{Launches: copyBase(n)}
		if n.In[1].Layout.Numel == 0 {
			return res, nil
		}
		shape := n.In[1].Layout.Shape
		o, stride, size := n.addressed(n.out(0), n.Attr[0])
		o.atomic = mode == kir.Add
		parts := []part{o, n.whole(1)}
		if !n.In[2].Scalar {
			parts = append(parts, n.whole(2))
		}
		l := newLoop(n, n.Prim.Name+"_"+n.In[0].DType.String(), nest{shape: shape, split: len(shape)}, parts)
		b := l.b
		b.Map()
		e := l.plus(l.element(0), l.index(1, size), stride)
		var v int
		if n.In[2].Scalar {
			v = l.scalar(0, n.In[2].DType)
		} else {
			v = l.load(2)
		}
		b.StoreAt(-1, l.bufNo[n.Out[0].Buf], e, l.fit(0, v), mode)
		res.Launches = append(res.Launches, l.launch())
		return res, nil
	}
}

func indexAdd(n *Node) (*Result, error) {
	res := &Result{Launches: copyBase(n)}
	if n.In[2].Layout.Numel == 0 {
		return res, nil
	}
	shape := n.In[2].Layout.Shape
	o, stride, size := n.addressed(n.out(0), n.Attr[0])
	o.atomic = true
	l := newLoop(n, "index_add_"+n.In[0].DType.String(), nest{shape: shape, split: len(shape)},
		[]part{o, n.indexAlong(1, n.Attr[0], len(shape)), n.whole(2)})
	b := l.b
	b.Map()
	e := l.plus(l.element(0), l.index(1, size), stride)
	b.StoreAt(-1, l.bufNo[n.Out[0].Buf], e, l.fit(0, l.load(2)), kir.Add)
	res.Launches = append(res.Launches, l.launch())
	return res, nil
}

// cat copies each input to its place: one launch an input.
func cat(n *Node) (*Result, error) {
	res := &Result{}
	out := n.Out[0].Layout
	dim := n.Attr[0]
	if dim < 0 {
		dim += int64(len(out.Shape))
	}
	at := int64(0)
	for i := range n.In {
		in := n.In[i].Layout
		if in.Numel > 0 {
			o := n.whole(n.out(0))
			o.add = at * out.Stride[dim]
			l := newLoop(n, "cat_"+n.In[i].DType.String(), nest{shape: in.Shape, split: len(in.Shape)}, []part{n.whole(i), o})
			l.b.Map()
			l.store(1, l.load(0))
			res.Launches = append(res.Launches, l.launch())
		}
		at += in.Shape[dim]
	}
	return res, nil
}

// stridedScatter writes or adds a value at a view of the output.
func stridedScatter(add bool) rule {
	return func(n *Node) (*Result, error) {
		res := &Result{Launches: copyBase(n)}
		view := ir.LayoutOf(ir.LayoutID(n.Attr[0]))
		if view.Numel == 0 {
			return res, nil
		}
		o := n.whole(n.out(0))
		o.stride, o.scalar, o.atomic = view.Stride, 0, add
		l := newLoop(n, n.Prim.Name+"_"+n.In[0].DType.String(), nest{shape: view.Shape, split: len(view.Shape)}, []part{n.whole(1), o})
		l.b.Map()
		if add {
			l.b.StoreAdd(l.at(1), l.fit(1, l.load(0)))
		} else {
			l.store(1, l.load(0))
		}
		res.Launches = append(res.Launches, l.launch())
		return res, nil
	}
}
