package lower

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
)

func init() {
	register(map[string]lowering{"attention": lowerAttention, "attention_grad": lowerAttentionGrad})
}

// lowerAttention makes one launch; attributes: causal, has mask, has dropout.
func lowerAttention(p *program) {
	var mask *arg
	if p.n.Attr[1] != 0 {
		mask = p.in(3)
	}
	p.attention(&launch.Attention{Pass: launch.AttentionForward}, mask, nil, nil, p.out(0), p.out(1))
}

// lowerAttentionGrad makes three launches: the row statistics, dq, and dk with dv; a fourth makes dmask where it is
// wanted. Each computes the weights again, so that no launch adds to what another workgroup writes. Attributes: as
// lowerAttention's, and whether dmask is wanted.
func lowerAttentionGrad(p *program) {
	stats := p.attentionStats(p.in(3), p.in(4), p.in(5))
	var mask *arg
	if p.n.Attr[1] != 0 {
		mask = p.in(6)
	}
	g := p.in(3)
	p.attention(&launch.Attention{Pass: launch.AttentionGradQ}, mask, g, stats, p.out(0))
	p.attention(&launch.Attention{Pass: launch.AttentionGradKV}, mask, g, stats, p.out(1), p.out(2))
	if p.n.Attr[3] != 0 {
		a := &launch.Attention{Pass: launch.AttentionGradMask}
		for d, n := range mask.shape {
			a.Sum[d] = n == 1
		}
		p.attention(a, mask, g, stats, p.out(3))
	}
}

// attentionStats interleaves lse and the sum of g*out of each row.
func (p *program) attentionStats(g, out, lse *arg) *arg {
	stats := p.temp(lse.dtype, concat(lse.shape, []int64{2}))
	s := along([]int64{3}, g.shape)
	if s.rows()*s.count() == 0 {
		return stats
	}
	part := func(n int64) *arg {
		a := *stats
		a.offset = device.Const(n)
		return s.once(a.over(stats.stride[:3]))
	}
	first, second := part(0), part(1)
	k := p.kernel("attention_stats_"+g.dtype.String(), s.outer, s.inner, 0, s.full(g), s.full(out), s.once(lse), first,
		second)
	k.Each()
	sum := k.Dot(k.load(g), k.load(out))
	k.Map()
	k.store(first, k.load(lse))
	k.store(second, k.Acc(sum))
	k.launch()
	return stats
}

// attention completes and appends one pass. g and stats are for the gradients.
func (p *program) attention(a *launch.Attention, mask, g, stats *arg, outs ...*arg) {
	q, k, v := p.in(0), p.in(1), p.in(2)
	a.Type, a.Causal, a.Dropout, a.Append = q.dtype, p.n.Attr[0] != 0, p.n.Attr[2] != 0, p.n.Append
	l := device.Step{Op: a}
	l.Params = constants(q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3], v.shape[3])
	l.Params = append(l.Params, device.ScalarOf(0))
	if a.Dropout {
		l.Params = append(l.Params, device.ScalarOf(1), device.ScalarOf(2), device.ScalarOf(3))
	}
	operand := func(x *arg) {
		l.Params = append(append(l.Params, constants(x.stride...)...), x.offset)
		l.Bufs = append(l.Bufs, x.buf)
	}
	operand(q)
	operand(k)
	operand(v)
	if mask != nil {
		a.Mask = mask.dtype
		shared := *mask
		for d, n := range mask.shape {
			if n == 1 {
				shared.stride = zeroed(shared.stride, d)
			}
		}
		operand(&shared)
	}
	if a.Append {
		rows := len(p.n.In) - 3
		operand(p.in(rows))
		operand(p.in(rows + 1))
		place := p.in(rows + 2)
		l.Params, l.Bufs = append(l.Params, place.offset), append(l.Bufs, place.buf)
	}
	if g != nil {
		operand(g)
		l.Bufs = append(l.Bufs, stats.buf)
	}
	empty := true
	for _, o := range outs {
		l.Bufs = append(l.Bufs, o.buf)
		empty = empty && ir.Numel(o.shape) == 0
	}
	if !empty {
		p.res.Launches = append(p.res.Launches, l)
	}
}
