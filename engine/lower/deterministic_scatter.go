package lower

import (
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// ordered reports that stores of mode, of values of dtype d, must be made in a fixed order that the device does not
// keep: the node was recorded under deterministic algorithms. Sums of integers, extrema and bools are the same in every
// order.
func (p *program) ordered(mode loopir.StoreMode, d ir.DType) bool {
	switch {
	case p.n.Attr[len(p.n.Attr)-1] != op.Deterministic:
		return false
	case mode == loopir.Set:
		return true
	}
	return !p.n.InOrder && d.IsFloat() && (mode == loopir.Add || mode == loopir.Multiply)
}

// runs are the sorted indices of a scatter along its dim, which is the last of shape; equal indices are a run.
// Arguments have the strides of shape.
type runs struct {
	p            *program
	dim          int // before it became the last
	shape        []int64
	keys, places *arg // the sorted indices, and the position of each before the sort
}

// last returns an argument with its dims in the order of r.
func (r *runs) last(a *arg) *arg {
	b := *a
	b.shape, b.stride = r.shape, lastDim(a.stride, r.dim)
	return &b
}

// lastDim moves entry d to the end.
func lastDim(v []int64, d int) []int64 {
	return append(concat(v[:d], v[d+1:]), v[d])
}

// orderedScatter stores src at the places of out that i names along dim d, without atomics. Indices are sorted along d,
// equal ones in the order of their elements. The elements of a run are combined by doubling: after step s each holds
// the 2^s elements of its run from itself on. So the first holds the whole run, in an order that depends on the indices
// only. Where elements are overwritten, the last of a run stays.
func (p *program) orderedScatter(i, out, src *arg, d int, mode loopir.StoreMode) {
	// Along dims where the index has stride 0 it is constant, and one sort serves them all.
	shape := append([]int64{}, i.shape...)
	for k := range shape {
		if k != d && i.stride[k] == 0 {
			shape[k] = 1
		}
	}
	index := *i
	index.shape = shape
	keys, places := p.temp(i.dtype, shape), p.temp(ir.I64, shape)
	p.sort(&index, keys, places, d, false)
	r := &runs{p: p, dim: d, shape: lastDim(i.shape, d)}
	spread := func(a *arg) *arg {
		b := *r.last(a)
		for k, n := range lastDim(shape, d) {
			if n == 1 {
				b.stride = zeroed(b.stride, k)
			}
		}
		b.use = reads
		return &b
	}
	r.keys, r.places = spread(keys), spread(places)
	size := out.shape[d]
	target := r.last(out)
	if mode == loopir.Set {
		r.store(target, r.last(src), size, mode)
		return
	}
	x := r.sorted(r.last(src))
	for step := int64(1); step < i.shape[d]; step *= 2 {
		x = r.double(x, step, mode)
	}
	r.store(target, x, size, mode)
}

// kernel begins a kernel over the elements; at is an element's position along the last dim.
func (r *runs) kernel(name string, args ...*arg) (k *kernel, at int) {
	k = r.p.kernel(name, r.shape, nil, 1, args...)
	k.Map()
	return k, k.Index(k.outer - 1)
}

// placed is an argument that is addressed by a position along the last dim.
type placed struct {
	*arg
	step int64
}

func (r *runs) placed(a *arg) placed {
	b := *a
	return placed{&b, indexed(&b, len(r.shape)-1)}
}

// at is the address of position j.
func (k *kernel) at(a placed, j int) int { return k.Add(k.address(a.arg), k.Mul(j, k.size(a.step))) }

// sorted is src in the order of the sorted indices, in its compute type.
func (r *runs) sorted(src *arg) *arg {
	x, out := r.placed(src), r.p.temp(src.dtype.ComputeType(), r.shape)
	k, _ := r.kernel("runs_sorted_"+src.dtype.String(), r.places, x.arg, out)
	k.store(out, k.LoadAt(x.kbuf, k.at(x, k.load(r.places))))
	k.launch()
	out.use = reads
	return out
}

// double combines each element with the element `step` further on, if both belong to the same run.
func (r *runs) double(x *arg, step int64, mode loopir.StoreMode) *arg {
	keys, far, out := r.placed(r.keys), r.placed(x), r.p.temp(x.dtype, r.shape)
	here, own := *r.keys, *x
	k, j := r.kernel("runs_"+mode.Op().String()+"_"+x.dtype.String(), &here, keys.arg, &own, far.arg, out)
	n := k.size(r.shape[len(r.shape)-1])
	next := k.Add(j, k.size(step))
	inside := k.Min(next, k.Sub(n, k.I64(1)))
	same := k.And(k.Lt(next, n), k.Eq(k.LoadAt(keys.kbuf, k.at(keys, inside)), k.load(&here)))
	v := k.load(&own)
	k.store(out, k.Select(same, k.Bin(mode.Op(), v, k.LoadAt(far.kbuf, k.at(far, inside))), v))
	k.launch()
	out.use = reads
	return out
}

// store writes one element of each run to its place in out. To overwrite, it takes the run's last, and x is in the
// order before the sort; else it takes the first, which holds the whole run.
func (r *runs) store(out, x *arg, size int64, mode loopir.StoreMode) {
	keys, to := r.placed(r.keys), r.placed(out)
	to.use = writes
	here := *r.keys
	args := []*arg{&here, keys.arg, to.arg}
	neighbour := int64(-1)
	var from placed
	if mode == loopir.Set {
		neighbour, from = 1, r.placed(x)
		args = append(args, r.places, from.arg)
	} else {
		to.use = reads | writes
		args = append(args, x)
	}
	k, j := r.kernel("runs_store_"+out.dtype.String(), args...)
	n := k.size(r.shape[len(r.shape)-1])
	beside := k.Add(j, k.I64(neighbour))
	inside := k.Max(k.Min(beside, k.Sub(n, k.I64(1))), k.I64(0))
	key := k.load(&here)
	last := k.Or(k.Ne(beside, inside), k.Ne(k.LoadAt(keys.kbuf, k.at(keys, inside)), key))
	place := k.at(to, k.InBounds(k.Cast(ir.I64, key), k.size(size)))
	var v int
	if mode == loopir.Set {
		v = k.LoadAt(from.kbuf, k.at(from, k.load(r.places)))
	} else {
		v = k.Bin(mode.Op(), k.LoadAt(to.kbuf, place), k.load(x))
	}
	k.StoreAt(last, to.kbuf, place, k.Cast(out.dtype, v), loopir.Set)
	k.launch()
}

// orderedWindow adds value to the elements of out that a view with overlaps names: a scatter along one dim over all of
// out's memory.
func (p *program) orderedWindow(value, out *arg, numel int64) {
	n := []int64{ir.Numel(value.shape)}
	index := p.temp(ir.I64, value.shape)
	place := *out
	place.computed, place.use = true, reads
	dense := p.temp(value.dtype, value.shape)
	k := p.kernel("window_places_"+value.dtype.String(), value.shape, nil, 0, value, &place, index, dense)
	k.Map()
	k.store(index, k.address(&place))
	k.store(dense, k.load(value))
	k.launch()
	flat := func(a *arg, n []int64) *arg {
		return &arg{dtype: a.dtype, shape: n, stride: []int64{1}, buf: a.buf, use: reads}
	}
	p.orderedScatter(flat(index, n), flat(out, []int64{numel}), flat(dense, n), 0, loopir.Add)
}
