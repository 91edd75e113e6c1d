package lower

import "github.com/torchlette/torchlette/kernels/kir"

func init() {
	register(map[string]lowering{
		"batch_norm":      lowerBatchNorm,
		"batch_norm_grad": lowerBatchNormGrad,
	})
}

// channels splits off all dims but the second.
func channels(shape []int64) split {
	dims := []int64{0}
	for i := 2; i < len(shape); i++ {
		dims = append(dims, int64(i))
	}
	return along(dims, shape)
}

// lowerBatchNorm; attributes: has w, has b.
func lowerBatchNorm(p *program) {
	s := channels(p.in(0).shape)
	p.normalize("batch_norm", s, p.n.Attr, s.row)
}

// lowerBatchNormGrad is, with m the mean of a channel, w*rstd*(gy - m(gy) - xhat*m(gy*xhat)) and the two sums.
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
	xhat := k.Mul(k.Sub(k.load(x), k.load(mean)), r)
	sum, dot := k.Reduce(kir.Sum, g), k.Reduce(kir.Sum, k.Mul(g, xhat))
	k.Map()
	k.store(dw, k.Acc(dot))
	k.store(db, k.Acc(sum))
	k.Each()
	scale := r
	if w != nil {
		scale = k.Mul(r, k.load(w))
	}
	along := k.Mul(xhat, k.Div(k.Acc(dot), n))
	k.store(dx, k.Mul(scale, k.Sub(k.Sub(g, k.Div(k.Acc(sum), n)), along)))
	k.launch()
}
