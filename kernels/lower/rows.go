package lower

import (
	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/kernels/kir"
)

func init() {
	register(softmax(false), "softmax")
	register(softmax(true), "log_softmax")
	register(softmaxGrad(false), "softmax_grad")
	register(softmaxGrad(true), "log_softmax_grad")
	register(layerNorm, "layer_norm")
	register(layerNormGrad, "layer_norm_grad")
	register(layerNormGradWB, "layer_norm_grad_wb")
	register(topk, "topk")
}

// softmax: maximum, sum of exp(x-max), store.
func softmax(log bool) rule {
	return func(n *Node) (*Result, error) {
		r := rowsOf(n.In[0].Layout.Shape, mask(n.Attr[:1], len(n.In[0].Layout.Shape)))
		l := r.loop(n, r.full(n, 0), r.full(n, n.out(0)))
		b := l.b
		b.Each()
		m := b.Acc(b.Reduce(kir.Max, l.load(0)))
		b.Each()
		s := b.Acc(b.Reduce(kir.Sum, b.Un(kir.OpExp, b.Sub(l.load(0), m))))
		b.Each()
		d := b.Sub(l.load(0), m)
		if log {
			l.store(1, b.Sub(d, b.Un(kir.OpLog, s)))
		} else {
			l.store(1, b.Mul(b.Un(kir.OpExp, d), b.Div(b.Float(b.Type(s), 1), s)))
		}
		return l.one()
	}
}

// softmaxGrad: y*(gy - sum(gy*y)), or for the logarithm gy - exp(y)*sum(gy).
func softmaxGrad(log bool) rule {
	return func(n *Node) (*Result, error) {
		r := rowsOf(n.In[0].Layout.Shape, mask(n.Attr[:1], len(n.In[0].Layout.Shape)))
		l := r.loop(n, r.full(n, 0), r.full(n, 1), r.full(n, n.out(0)))
		b := l.b
		b.Each()
		gy, y := l.load(0), l.load(1)
		v := gy
		if !log {
			v = b.Mul(gy, y)
		}
		s := b.Acc(b.Reduce(kir.Sum, v))
		b.Each()
		if log {
			l.store(2, b.Sub(gy, b.Mul(b.Un(kir.OpExp, y), s)))
		} else {
			l.store(2, b.Mul(y, b.Sub(gy, s)))
		}
		return l.one()
	}
}

// lastDims marks the last k dims.
func lastDims(rank, k int) []bool {
	m := make([]bool, rank)
	for i := rank - k; i < rank; i++ {
		m[i] = true
	}
	return m
}

// layerNorm stores y, mean and rstd; statistics are two-pass.
func layerNorm(n *Node) (*Result, error) {
	shape := n.In[0].Layout.Shape
	r := rowsOf(shape, lastDims(len(shape), int(n.Attr[0])))
	parts := []part{r.full(n, 0), r.full(n, n.out(0)), r.outer(n, n.out(1)), r.outer(n, n.out(2))}
	id := 1
	w, bias := -1, -1
	if n.Attr[1] != 0 {
		w = len(parts)
		parts = append(parts, r.innerOnly(n, id))
		id++
	}
	if n.Attr[2] != 0 {
		bias = len(parts)
		parts = append(parts, r.innerOnly(n, id))
		id++
	}
	l := r.loop(n, parts...)
	b := l.b
	t := n.In[0].DType.ComputeType()
	m := l.meanOf(t, func() int { return l.load(0) })
	v := l.meanOf(t, func() int {
		d := b.Sub(l.load(0), m)
		return b.Mul(d, d)
	})
	rstd := b.Div(b.Float(t, 1), b.Un(kir.OpSqrt, b.Add(v, b.Cast(t, l.scalar(0, n.In[id].DType)))))
	b.Each()
	y := b.Mul(b.Sub(l.load(0), m), rstd)
	if w >= 0 {
		y = b.Mul(y, b.Cast(t, l.load(w)))
	}
	if bias >= 0 {
		y = b.Add(y, b.Cast(t, l.load(bias)))
	}
	l.store(1, y)
	b.Map()
	l.store(2, m)
	l.store(3, rstd)
	return l.one()
}

// layerNormGrad: rstd*(wg - mean(wg) - xhat*mean(wg*xhat)).
func layerNormGrad(n *Node) (*Result, error) {
	shape := n.In[0].Layout.Shape
	r := rowsOf(shape, lastDims(len(shape), int(n.Attr[0])))
	parts := []part{r.full(n, 0), r.full(n, 1), r.outer(n, 2), r.outer(n, 3), r.full(n, n.out(0))}
	if n.Attr[1] != 0 {
		parts = append(parts, r.innerOnly(n, 4))
	}
	l := r.loop(n, parts...)
	b := l.b
	t := n.In[0].DType.ComputeType()
	b.Each()
	m, rstd := b.Cast(t, l.load(2)), b.Cast(t, l.load(3))
	g := l.load(0)
	if n.Attr[1] != 0 {
		g = b.Mul(g, b.Cast(t, l.load(5)))
	}
	xhat := b.Mul(b.Sub(l.load(1), m), rstd)
	s1 := b.Reduce(kir.Sum, g)
	s2 := b.Reduce(kir.Sum, b.Mul(g, xhat))
	c := l.count(t)
	b.Each()
	mean1, mean2 := b.Div(b.Acc(s1), c), b.Div(b.Acc(s2), c)
	l.store(4, b.Mul(rstd, b.Sub(b.Sub(g, mean1), b.Mul(xhat, mean2))))
	return l.one()
}

// layerNormGradWB reduces over the rows: dw = sum gy*xhat, db = sum gy.
func layerNormGradWB(n *Node) (*Result, error) {
	shape := n.In[0].Layout.Shape
	k := int(n.Attr[0])
	in := lastDims(len(shape), k)
	for i := range in {
		in[i] = !in[i] // the normalised dims are the outer ones here
	}
	r := rowsOf(shape, in)
	stat := func(id int) part {
		p := r.innerOnly(n, id)
		return p
	}
	l := r.loop(n, r.full(n, 0), r.full(n, 1), stat(2), stat(3), r.outer(n, n.out(0)), r.outer(n, n.out(1)))
	b := l.b
	t := n.In[0].DType.ComputeType()
	b.Each()
	g := l.load(0)
	xhat := b.Mul(b.Sub(l.load(1), b.Cast(t, l.load(2))), b.Cast(t, l.load(3)))
	dw := b.Reduce(kir.Sum, b.Mul(g, xhat))
	db := b.Reduce(kir.Sum, g)
	b.Map()
	l.store(4, b.Acc(dw))
	l.store(5, b.Acc(db))
	return l.one()
}

// topkChunk picks are found by one kernel; more take further launches.
const topkChunk = 16

// topk picks the extreme of what is left, k times: element e is left after a pick p when
// its key is smaller, or equal with a larger index.
func topk(n *Node) (*Result, error) {
	k, dim, largest := n.Attr[0], n.Attr[1], n.Attr[2] != 0
	res := &Result{}
	for from := int64(0); from < k; from += topkChunk {
		res.Launches = append(res.Launches, topkLaunch(n, dim, from, min(k, from+topkChunk), largest))
	}
	return res, nil
}

func topkLaunch(n *Node, dim, from, to int64, largest bool) Launch {
	r := rowsOf(n.In[0].Layout.Shape, mask([]int64{dim}, len(n.In[0].Layout.Shape)))
	parts := []part{r.full(n, 0)}
	step := [2]int64{1, 1}
	at := func(k int, j int64) part {
		p := r.full(n, n.out(k))
		step[k] = p.stride[r.split]
		p.stride[r.split] = 0
		p.add = j * step[k]
		return p
	}
	first := from
	if from > 0 {
		first = from - 1
	}
	for j := first; j < to; j++ {
		parts = append(parts, at(0, j), at(1, j))
	}
	l := r.loop(n, parts...)
	b := l.b
	t := n.In[0].DType.ComputeType()
	prevKey, prevIdx := -1, -1
	if from > 0 {
		b.Map()
		prevKey, prevIdx = orderKey(b, t, l.load(1), largest), l.load(2)
	}
	var picks []int
	for j := from; j < to; j++ {
		b.Each()
		key := orderKey(b, t, l.load(0), largest)
		i := b.Index(l.outer)
		if prevKey >= 0 {
			kt := b.Type(key)
			left := b.Or(b.Lt(key, prevKey), b.And(b.Eq(key, prevKey), b.Lt(prevIdx, i)))
			key = b.Select(left, key, b.Int(kt, lowest(kt)))
		}
		a := b.ReduceIdx(kir.ArgMax, key, i)
		prevKey, prevIdx = b.Acc(a), b.AccIdx(a)
		picks = append(picks, a)
	}
	b.Map()
	for j, a := range picks {
		p := 1 + 2*(int(from-first)+j)
		l.store(p, keyValue(b, t, b.Acc(a), largest))
		l.store(p+1, b.AccIdx(a))
	}
	return l.launch()
}

func lowest(t ir.DType) int64 {
	if t == ir.I64 {
		return -1 << 63
	}
	return -1 << 31
}

// keyType is an integer type wide enough to order t.
func keyType(t ir.DType) ir.DType {
	if t == ir.F32 || t == ir.Bool {
		return ir.I32
	}
	return ir.I64
}

// orderKey maps a value to an integer of the same order, NaN above all; for the
// smallest the order is reversed. The type's lowest integer is never a key.
func orderKey(b *kir.Builder, t ir.DType, x int, largest bool) int {
	kt := keyType(t)
	var key int
	if t.IsFloat() {
		bits := b.Bitcast(kt, x)
		nan, mag := int64(0x7FC00000), int64(0x7FFFFFFF)
		if t == ir.F64 {
			nan, mag = 0x7FF8<<48, 1<<63-1
		}
		key = b.Select(b.Lt(bits, b.Int(kt, 0)), b.Xor(bits, b.Int(kt, mag)), bits)
		key = b.Select(b.Un(kir.OpIsNaN, x), b.Int(kt, nan), key)
	} else {
		key = b.Cast(kt, x)
	}
	if !largest {
		key = b.Un(kir.OpNot, key)
	}
	return key
}

// keyValue inverts orderKey.
func keyValue(b *kir.Builder, t ir.DType, key int, largest bool) int {
	if !largest {
		key = b.Un(kir.OpNot, key)
	}
	if !t.IsFloat() {
		return b.Cast(t, key)
	}
	kt := keyType(t)
	mag := int64(0x7FFFFFFF)
	if t == ir.F64 {
		mag = 1<<63 - 1
	}
	return b.Bitcast(t, b.Select(b.Lt(key, b.Int(kt, 0)), b.Xor(key, b.Int(kt, mag)), key))
}
