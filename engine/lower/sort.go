package lower

import (
	mathbits "math/bits" // bits is a function of this package

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

func init() { register(map[string]lowering{"sort": lowerSort, "search": lowerSearch}) }

// lowerSort; attributes: how many elements of a row are kept, dim, descending.
func lowerSort(p *program) {
	x, values, indices := p.in(0).atLeast1D(), p.out(0).atLeast1D(), p.out(1).atLeast1D()
	if ir.Numel(values.shape) == 0 {
		return
	}
	if p.n.Out[1].Unread {
		indices = nil
	}
	p.sort(x, values, indices, wrap(p.n.Attr[1], len(x.shape)), p.n.Attr[2] != 0)
}

// sort sorts the rows of x along dim d. values and indices, which are dense, receive the first elements of each row.
// indices is nil where nobody reads them.
func (p *program) sort(x, values, indices *arg, d int, descending bool) {
	split := func() (outer, inner, so, si []int64) {
		outer, s := collapse(x.shape[:d], [][]int64{x.stride[:d]}, 0)
		inner, t := collapse(x.shape[d+1:], [][]int64{x.stride[d+1:]}, 0)
		return outer, inner, s[0], t[0]
	}
	outer, inner, so, si := split()
	if len(outer) > 1 || len(inner) > 1 {
		x = p.contiguous(x)
		outer, inner, so, si = split()
	}
	n := x.shape[d]
	s := &launch.Sort{Type: x.dtype, Descending: descending, Alone: indices == nil, Room: n > launch.SortBlock}
	l := device.Step{Op: s, Bufs: []int{x.buf, values.buf}}
	if !s.Alone {
		l.Bufs = append(l.Bufs, indices.buf)
	}
	if s.Room {
		l.Bufs = append(l.Bufs, p.temp(ir.U32, []int64{launch.SortWords(x.dtype) * ir.Numel(x.shape)}).buf)
	}
	l.Params = append(constants(outer[0], n, inner[0], values.shape[d], so[0], x.stride[d], si[0]), x.offset)
	p.res.Launches = append(p.res.Launches, l)
}

// lowerSearch finds positions by bisection; attribute: right. Among n elements it takes as many steps as n has bits:
// each asks whether 2^k more elements come before the value.
func lowerSearch(p *program) {
	rows, v, out := p.in(0), p.in(1), p.out(0)
	if ir.Numel(out.shape) == 0 {
		return
	}
	d := len(rows.shape) - 1
	n := rows.shape[d]
	at := *rows
	stride := indexed(&at, d)
	k := p.kernel("search_"+v.dtype.String(), out.shape, nil, 0, &at, v, out)
	k.Map()
	start, step, size, x := k.address(&at), k.size(stride), k.size(n), k.load(v)
	before := func(y int) int { // y comes before x
		if p.n.Attr[0] != 0 {
			return k.Not(k.above(y, x))
		}
		return k.above(x, y)
	}
	last := k.Max(k.Sub(size, k.I64(1)), k.I64(0))
	found := k.I64(0)
	for b := mathbits.Len64(uint64(n)) - 1; b >= 0; b-- {
		next := k.Add(found, k.I64(1<<b))
		y := k.LoadAt(at.kbuf, k.Add(start, k.Mul(k.Min(k.Sub(next, k.I64(1)), last), step)))
		found = k.Select(k.And(k.Le(next, size), before(y)), next, found)
	}
	k.store(out, found)
	k.launch()
}

// above is x > y with NaN above all numbers.
func (k *kernel) above(x, y int) int {
	if k.Type(x) == ir.Bool {
		return k.And(x, k.Not(y))
	}
	if !k.Type(x).IsFloat() {
		return k.Gt(x, y)
	}
	return k.And(k.Not(k.Un(loopir.OpIsNaN, y)), k.Or(k.Un(loopir.OpIsNaN, x), k.Gt(x, y)))
}
