package lower

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

func init() {
	register(map[string]lowering{"sgd_step": lowerSGD, "adam_step": lowerAdam})
}

// step begins the kernel of an optimizer; the first operands are tensors.
func (p *program) step(name string, tensors int) (k *kernel, x []int, outs []*arg) {
	var args []*arg
	for i := range tensors {
		args = append(args, p.in(i))
	}
	in := args
	for i := range p.n.Out {
		outs = append(outs, p.out(i))
	}
	k = p.kernel(name+"_"+p.n.In[0].DType.String(), p.n.Out[0].Layout.Shape, nil, 0, append(args[:len(args):len(args)],
		outs...)...)
	k.Map()
	t := p.n.In[0].DType.ComputeType()
	for _, a := range in {
		x = append(x, k.Cast(t, k.load(a)))
	}
	return k, x, outs
}

// lowerSGD is torch.optim.SGD's step; operands p, g, buf?, lr, momentum, dampening, weight_decay, first; attributes
// nesterov, maximize, has buf.
func lowerSGD(p *program) {
	if p.n.Out[0].Layout.Numel == 0 {
		return
	}
	attr := p.n.Attr
	tensors := 2 + int(attr[2])
	k, x, outs := p.step("sgd_step", tensors)
	t := p.n.In[0].DType.ComputeType()
	s := func(i int) int { return k.scalar(tensors+i, t) }
	lr, momentum, dampening, decay, first := s(0), s(1), s(2), s(3), s(4)
	w, g := x[0], x[1]
	if attr[1] != 0 {
		g = k.Neg(g)
	}
	g = decayed(k, t, g, w, decay)
	if attr[2] != 0 {
		one := k.Float(t, 1)
		moving := k.Add(k.Mul(x[2], momentum), k.Mul(g, k.Sub(one, dampening)))
		buf := k.Select(k.Ne(first, k.Float(t, 0)), g, moving)
		k.store(outs[1], buf)
		if attr[0] != 0 {
			g = k.Add(g, k.Mul(buf, momentum))
		} else {
			g = buf
		}
	}
	k.store(outs[0], k.Sub(w, k.Mul(lr, g)))
	k.launch()
}

// decayed adds weight decay to a gradient. Without decay an infinite weight must not turn the gradient into NaN.
func decayed(k *kernel, t ir.DType, g, w, decay int) int {
	return k.Select(k.Eq(decay, k.Float(t, 0)), g, k.Add(g, k.Mul(decay, w)))
}

// lowerAdam is the step of Adam (Kingma and Ba, 2015), or of AdamW where decoupled is set; operands p, g, m, v, vmax?,
// lr, beta1, beta2, eps, weight_decay, bias1, bias2, 1-beta1, 1-beta2; attributes decoupled, amsgrad, maximize.
func lowerAdam(p *program) {
	if p.n.Out[0].Layout.Numel == 0 {
		return
	}
	attr := p.n.Attr
	tensors := 4 + int(attr[1])
	k, x, outs := p.step("adam_step", tensors)
	t := p.n.In[0].DType.ComputeType()
	s := func(i int) int { return k.scalar(tensors+i, t) }
	lr, beta2, eps, decay := s(0), s(2), s(3), s(4)
	bias1, bias2, fresh1, fresh2 := s(5), s(6), s(7), s(8)
	w, g, m, v := x[0], x[1], x[2], x[3]
	if attr[2] != 0 {
		g = k.Neg(g)
	}
	if attr[0] != 0 {
		w = k.Mul(w, k.Sub(k.Float(t, 1), k.Mul(lr, decay)))
	} else {
		g = decayed(k, t, g, w, decay)
	}
	m = k.Add(m, k.Mul(fresh1, k.Sub(g, m)))
	v = k.Add(k.Mul(v, beta2), k.Mul(fresh2, k.Mul(g, g)))
	k.store(outs[1], m)
	k.store(outs[2], v)
	if attr[1] != 0 {
		v = k.Max(x[4], v)
		k.store(outs[3], v)
	}
	root := k.Div(k.Un(loopir.OpSqrt, v), k.Un(loopir.OpSqrt, bias2))
	k.store(outs[0], k.Sub(w, k.Mul(k.Div(lr, bias1), k.Div(m, k.Add(root, eps)))))
	k.launch()
}
