package lower

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

func init() { register(map[string]lowering{"quantized_product": lowerQuantized}) }

// quantizedNode is a product with quantized weights.
type quantizedNode struct {
	p               *program
	q               launch.Quantized
	m, n, k, stride int64
	x, w, scale     *arg
	offset, bias    *arg // nil: absent
	out             *arg
}

// lowerQuantized; attributes: bits, group, outputs, has offset, has bias, dynamic.
func lowerQuantized(p *program) {
	attr := p.n.Attr
	t := &quantizedNode{p: p, x: p.in(0), w: p.contiguous(p.in(1)), scale: p.contiguous(p.in(2)), out: p.out(0)}
	t.m, t.n, t.k = t.out.shape[0], t.out.shape[1], t.x.shape[1]
	t.q = launch.Quantized{Bits: int(attr[0]), Group: attr[1], Offset: attr[3] != 0, Bias: attr[4] != 0,
		Dynamic: attr[5] != 0}
	if t.q.Bits == 8 {
		t.q.Group = 1 << 40 // one group, whatever the number of terms
	}
	if t.m == 0 || t.n == 0 {
		return
	}
	if t.k > 1 && t.x.stride[1] != 1 {
		t.x = p.contiguous(t.x)
	}
	t.stride = t.x.stride[0]
	next := 3
	for i, at := range []**arg{&t.offset, &t.bias} {
		if attr[3+i] != 0 {
			*at = p.contiguous(p.in(next))
			next++
		}
	}
	if p.n.Quantized {
		t.launch()
		return
	}
	t.loops()
}

func (t *quantizedNode) launch() {
	s := device.Step{Op: &t.q, Params: constants(t.m, t.n, t.k, t.stride)}
	for _, a := range []*arg{t.x, t.w, t.scale, t.offset, t.bias} {
		if a == nil {
			s.Params = append(s.Params, device.Const(0))
			continue
		}
		s.Bufs, s.Params = append(s.Bufs, a.buf), append(s.Params, a.offset)
	}
	s.Bufs = append(s.Bufs, t.out.buf)
	t.p.res.Launches = append(t.p.res.Launches, s)
}

// loops makes a loop kernel in which each word is read once for a result, and dequantized where it is loaded; rows of
// int8 have a kernel before it.
func (t *quantizedNode) loops() {
	rows, stride := t.x, t.stride
	var scales *arg
	if t.q.Dynamic {
		rows, scales = t.quantizedRows()
		stride = rows.shape[1]
	}
	p, words := t.p, t.q.Words(t.k)
	dims := []int64{t.m, t.n}
	at := func(a *arg, strides ...int64) *arg {
		if a == nil {
			return nil
		}
		return reading(a).over(strides)
	}
	x, w, scale := at(rows, stride, 0, 0), at(t.w, 0, 0, 0), at(t.scale, 0, 0, 0)
	offset, bias := at(t.offset, 0, 0, 0), at(t.bias, 0, 1, 0)
	out := writing(t.out).over([]int64{t.n, 1, 0})
	args := []*arg{x, w, scale, out}
	for _, a := range []*arg{offset, bias} {
		if a != nil {
			args = append(args, a)
		}
	}
	if t.q.Dynamic {
		scales = at(scales, t.q.Groups(t.k), 0, 0)
		args = append(args, scales)
	}
	k := p.kernel(t.q.Label(), dims, []int64{words}, 2, args...)
	k.Each()
	word := k.Index(2)
	panel, lane := k.panel(k.Index(1))
	place := k.Add(k.Mul(k.Add(k.Mul(panel, k.size(words)), word), k.I64(launch.PanelWidth)), lane)
	bits := k.LoadAt(w.kbuf, k.Add(k.address(w), place))
	first := k.Mul(word, k.I64(int64(32/t.q.Bits)))
	table := func(group int) int {
		each := k.Mul(k.Add(k.Mul(panel, k.size(t.q.Groups(t.k))), group), k.I64(launch.PanelWidth))
		return k.Add(each, lane)
	}
	value := func(a *arg, group int) int {
		return k.Cast(ir.F32, k.LoadAt(a.kbuf, k.Add(k.address(a), table(group))))
	}
	group := k.I64(0)
	if t.q.Bits == 4 {
		group = k.Div(first, k.size(min(t.q.Group, t.k+8)))
	}
	row := func(group int) int { return k.LoadAt(scales.kbuf, k.Add(k.address(scales), group)) }
	sums := t.terms(k, x, bits, first, offset != nil)
	total := sums[0]
	if t.q.Bits == 4 {
		if t.q.Dynamic {
			for i, s := range sums {
				sums[i] = k.Mul(k.Cast(ir.F32, s), row(group))
			}
		}
		total = k.Mul(sums[0], value(scale, group))
		if offset != nil {
			total = k.Add(total, k.Mul(sums[1], value(offset, group)))
		}
	}
	sum := k.Reduce(loopir.Sum, total)
	k.Map()
	total = k.Cast(ir.F32, k.Acc(sum))
	if t.q.Bits == 8 {
		panel, lane = k.panel(k.Index(1))
		factor := value(scale, k.I64(0))
		if t.q.Dynamic {
			factor = k.Mul(row(k.I64(0)), factor)
		}
		total = k.Mul(total, factor)
	}
	if bias != nil {
		total = k.Add(total, k.LoadAt(bias.kbuf, k.address(bias)))
	}
	k.StoreAt(-1, out.kbuf, k.address(out), total, loopir.Set)
	k.launch()
}

// panel divides the number of an output into its panel and its place there.
func (k *kernel) panel(n int) (panel, lane int) {
	return k.Div(n, k.I64(launch.PanelWidth)), k.Rem(n, k.I64(launch.PanelWidth))
}

// terms adds the products of the fields of a word, and the terms themselves where plain is set. A term beyond the last
// reads the last and counts 0.
func (t *quantizedNode) terms(k *kernel, x *arg, bits, first int, plain bool) []int {
	d := ir.F32
	if t.q.Dynamic {
		d = ir.I32
	}
	b := int64(t.q.Bits)
	base, count := k.address(x), k.size(t.k)
	var sums []int
	for j := range 32 / b {
		at := k.Add(first, k.I64(j))
		v := k.Cast(d, k.LoadAt(x.kbuf, k.Add(base, k.Min(at, k.Sub(count, k.I64(1))))))
		v = k.Select(k.Lt(at, count), v, k.Bits(d, 0))
		field := k.Bin(loopir.OpShr, k.Bin(loopir.OpShl, bits, k.Int(ir.I32, 32-b*(j+1))), k.Int(ir.I32, 32-b))
		add := []int{k.Mul(v, k.Cast(d, field)), v}
		if !plain {
			add = add[:1]
		}
		if j == 0 {
			sums = add
			continue
		}
		for i := range sums {
			sums[i] = k.Add(sums[i], add[i])
		}
	}
	return sums
}

// quantizedRows makes the integers of the rows [m, groups * group], and the scales of groups: the greatest magnitude
// over 127. A group with a number that is not finite has the scale NaN. Terms beyond the last count 0.
func (t *quantizedNode) quantizedRows() (rows, scales *arg) {
	p, groups, group := t.p, t.q.Groups(t.k), min(t.q.Group, t.k)
	rows, scales = p.temp(ir.I32, []int64{t.m, groups * group}), p.temp(ir.F32, []int64{t.m, groups})
	x, y := reading(t.x).over([]int64{t.stride, 0, 0}), writing(rows).over([]int64{groups * group, group, 1})
	s := writing(scales).over([]int64{groups, 1, 0})
	k := p.kernel("quantize_rows", []int64{t.m, groups}, []int64{group}, 2, x, y, s)
	number := func(v float64) int { return k.Float(ir.F32, v) }
	read := func() int {
		at, count := k.Add(k.Mul(k.Index(1), k.size(group)), k.Index(2)), k.size(t.k)
		v := k.LoadAt(x.kbuf, k.Add(k.address(x), k.Min(at, k.Sub(count, k.I64(1)))))
		return k.Select(k.Lt(at, count), v, number(0))
	}
	k.Each()
	most := k.Reduce(loopir.Max, k.Abs(read()))
	k.Map()
	top := k.Acc(most)
	finite := k.Le(top, number(maxFloat32))
	factor := k.Div(number(127), top)
	tiny := k.Lt(top, number(127/maxFloat32))
	kept := k.Select(tiny, number(0), k.Div(top, number(127)))
	k.StoreAt(-1, s.kbuf, k.address(s), k.Select(finite, kept, k.Sub(top, top)), loopir.Set)
	k.Each()
	v := k.Un(loopir.OpRound, k.Mul(read(), factor))
	good := k.And(finite, k.Not(tiny))
	k.StoreAt(-1, y.kbuf, k.address(y), k.Cast(ir.I32, k.Select(good, v, number(0))), loopir.Set)
	k.launch()
	return rows, scales
}

const maxFloat32 = 0x1p127 * (1 + (1 - 0x1p-23))
