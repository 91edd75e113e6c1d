package lower

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

func init() {
	register(map[string]lowering{
		"cross_entropy":      lowerCrossEntropy,
		"cross_entropy_grad": lowerCrossEntropyGrad,
	})
}

// lowerCrossEntropy is log(sum of exp(x)) - x[class]. It reads a row twice, for its maximum and for the sum of
// exp(x-maximum), then the element of its class. The ignored class is no fault. No probability is stored.
func lowerCrossEntropy(p *program) {
	x, class := p.in(0), p.in(0)
	t, loss, count, top, logsum := p.in(1), p.out(0), p.out(1), p.out(2), p.out(3)
	s := along(p.n.Attr[:1], x.shape)
	if s.rows() == 0 {
		return
	}
	d := s.reduced[0]
	size, stride := x.shape[d], x.stride[d]
	class.computed = true
	picked := make([]int64, len(s.outer))
	for i, kept := range s.kept {
		picked[i] = x.stride[kept]
	}
	class.stride = picked
	k := p.kernel("cross_entropy_"+x.dtype.String(), s.outer, s.inner, 0,
		s.full(x), s.once(class), s.once(t), s.once(loss), s.once(count), s.once(top), s.once(logsum))
	k.Each()
	most := k.Reduce(loopir.Max, k.load(x))
	k.Each()
	sum := k.Reduce(loopir.Sum, k.Un(loopir.OpExp, k.Sub(k.load(x), k.Acc(most))))
	k.Map()
	t64, ignore := k.Cast(ir.I64, k.load(t)), k.I64(p.n.Attr[1])
	ignored := k.Eq(t64, ignore)
	j := k.InBounds(k.Select(ignored, k.I64(0), t64), k.size(size))
	v := k.LoadAt(class.kbuf, k.Add(k.address(class), k.Mul(j, k.size(stride))))
	l := k.Un(loopir.OpLog, k.Acc(sum))
	zero, one := k.Float(k.Type(l), 0), k.Float(k.Type(l), 1)
	k.store(loss, k.Select(ignored, zero, k.Sub(l, k.Sub(v, k.Acc(most)))))
	k.store(count, k.Select(ignored, zero, one))
	k.store(top, k.Acc(most))
	k.store(logsum, l)
	k.launch()
}

// lowerCrossEntropyGrad is g*(exp(x-top)/exp(logsum) - onehot), with one factor g for each row; g counts as 0 in
// ignored rows.
func lowerCrossEntropyGrad(p *program) {
	g, x, t, top, logsum, out := p.in(0), p.in(1), p.in(2), p.in(3), p.in(4), p.out(0)
	s := along(p.n.Attr[:1], x.shape)
	if s.rows()*s.count() == 0 {
		return
	}
	k := p.kernel("cross_entropy_grad_"+x.dtype.String(), s.outer, s.inner, 0,
		s.row(g), s.full(x), s.row(t), s.row(top), s.row(logsum), s.full(out))
	k.Each()
	// A class fits 32 bits, or the forward pass found a fault.
	class, all := k.Cast(ir.I64, k.Cast(ir.I32, k.load(t))), k.load(g)
	zero := k.Float(k.Type(all), 0)
	ignored := k.Eq(class, k.I64(p.n.Attr[1]))
	grad := k.Select(ignored, zero, all)
	scale := k.Mul(grad, k.Un(loopir.OpExp, k.Neg(k.load(logsum))))
	p0 := k.Mul(k.Un(loopir.OpExp, k.Sub(k.load(x), k.load(top))), scale)
	hit := k.Eq(k.Index(k.outer), class)
	k.store(out, k.Select(ignored, zero, k.Sub(p0, k.Select(hit, grad, zero))))
	k.launch()
}
