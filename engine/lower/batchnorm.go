package lower

import "github.com/torchlette/torchlette/kernels/loopir"

func init() {
	registerRows(map[string]*Rows{"batch_norm": batchNorm})
	register(map[string]lowering{"batch_norm_grad": lowerBatchNormGrad})
}

// channels splits the dims of a shape: the channel, dim 1, stays; all others are reduced.
func channels(shape []int64) split {
	dims := []int64{0}
	for i := 2; i < len(shape); i++ {
		dims = append(dims, int64(i))
	}
	return along(dims, shape)
}

// batchNorm normalizes each channel (Ioffe and Szegedy, 2015); attributes: has w, has b.
var batchNorm = &Rows{name: named("batch_norm"), Whole: true, empty: notANumber, passes: always(2),
	split: func(_, shape []int64) split { return channels(shape) },
	Level: func(_ []int64, operand int) Level {
		if operand > 0 {
			return Row
		}
		return Full
	},
	body: func(o *operands) []int { return o.normalize(o.attr, true, true) }}

// lowerBatchNormGrad is w*rstd*(gy - m(gy) - c*rstd^2*m(gy*c)) with m the mean over a channel and c = x-mean, and the
// sums of gy and of gy*c*rstd. What is constant in a channel is multiplied once.
func lowerBatchNormGrad(p *program) {
	gy, x, mean, rstd := p.in(0), p.in(1), p.in(2), p.in(3)
	dx, dw, db := p.out(0), p.out(1), p.out(2)
	s := channels(gy.shape)
	if s.rows() == 0 {
		return
	}
	if s.count() == 0 {
		for _, a := range []*arg{dw, db} {
			p.fill(a, func(k *kernel) int { return k.Int(a.dtype, 0) })
		}
		return
	}
	args := []*arg{s.full(gy), s.full(x), s.row(mean), s.row(rstd), s.full(dx), s.once(dw), s.once(db)}
	var w *arg
	if p.n.Attr[0] != 0 {
		w = s.row(p.in(4))
		args = append(args, w)
	}
	t := x.dtype.ComputeType()
	k := p.kernel("batch_norm_grad_"+x.dtype.String(), s.outer, s.inner, 0, args...)
	n := k.Cast(t, k.size(s.count()))
	k.Each()
	g, r := k.load(gy), k.load(rstd)
	centred := k.Sub(k.load(x), k.load(mean))
	sum, dot := k.Reduce(loopir.Sum, g), k.Dot(g, centred)
	k.Map()
	along := k.Mul(k.Acc(dot), r)
	k.store(dw, along)
	k.store(db, k.Acc(sum))
	k.Each()
	scale := r
	if w != nil {
		scale = k.Mul(r, k.load(w))
	}
	slope := k.Mul(scale, k.Div(k.Mul(along, r), n))
	rest := k.Mul(scale, k.Div(k.Acc(sum), n))
	k.store(dx, k.Fma(g, scale, k.Fma(centred, k.Neg(slope), k.Neg(rest))))
	k.launch()
}
