package lower

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

func init() {
	register(map[string]lowering{"sgd_step": lowerSGD, "adam_step": lowerAdam})
}

// update is the kernel of an optimizer's step.
type update struct {
	*kernel
	x    []int // the tensor operands, computed in the parameter's compute type
	outs []*arg
	skip int // whether the step writes nothing, or -1: it always writes
}

// step begins the kernel of an optimizer; the first operands are tensors. Operand overflow, if not 0, is the one that
// says whether the step overflowed.
func (p *program) step(name string, tensors, overflow int) *update {
	var args, outs []*arg
	for i := range tensors {
		args = append(args, p.in(i))
	}
	in := args
	for i := range p.n.Out {
		outs = append(outs, p.out(i))
	}
	k := p.kernel(name+"_"+p.n.In[0].DType.String(), p.n.Out[0].Layout.Shape, nil, 0, append(args[:len(args):len(args)],
		outs...)...)
	k.Map()
	t := p.n.In[0].DType.ComputeType()
	u := &update{kernel: k, outs: outs, skip: -1}
	for _, a := range in {
		u.x = append(u.x, k.Cast(t, k.load(a)))
	}
	if overflow > 0 {
		u.skip = k.Ne(u.x[overflow], k.Float(t, 0))
	}
	return u
}

// put stores the new value of an output, or the old one if the step overflowed.
func (u *update) put(out, old, value int) {
	if u.skip >= 0 {
		value = u.Select(u.skip, old, value)
	}
	u.store(u.outs[out], value)
}

// lowerSGD is torch.optim.SGD's step; operands p, g, buf?, overflow?, lr, momentum, dampening, weight_decay, first;
// attributes nesterov, maximize, has buf, has overflow.
func lowerSGD(p *program) {
	if p.n.Out[0].Layout.Numel == 0 {
		return
	}
	attr := p.n.Attr
	tensors := 2 + int(attr[2]+attr[3])
	k := p.step("sgd_step", tensors, int(attr[3])*(tensors-1))
	t := p.n.In[0].DType.ComputeType()
	s := func(i int) int { return k.scalar(tensors+i, t) }
	lr, momentum, dampening, decay, first := s(0), s(1), s(2), s(3), s(4)
	w, g := k.x[0], k.x[1]
	if attr[1] != 0 {
		g = k.Neg(g)
	}
	g = decayed(k.kernel, t, g, w, decay)
	if attr[2] != 0 {
		one := k.Float(t, 1)
		moving := k.Add(k.Mul(k.x[2], momentum), k.Mul(g, k.Sub(one, dampening)))
		buf := k.Select(k.Ne(first, k.Float(t, 0)), g, moving)
		k.put(1, k.x[2], buf)
		if attr[0] != 0 {
			g = k.Add(g, k.Mul(buf, momentum))
		} else {
			g = buf
		}
	}
	k.put(0, w, k.Sub(w, k.Mul(lr, g)))
	k.launch()
}

// decayed adds weight decay to a gradient. Without decay an infinite weight must not turn the gradient into NaN.
func decayed(k *kernel, t ir.DType, g, w, decay int) int {
	return k.Select(k.Eq(decay, k.Float(t, 0)), g, k.Add(g, k.Mul(decay, w)))
}

// lowerAdam is the step of Adam (Kingma and Ba, 2015), or of AdamW where decoupled is set; operands p, g, m, v, vmax?,
// overflow?, lr, beta1, beta2, eps, weight_decay, bias1, bias2, 1-beta1, 1-beta2; attributes decoupled, amsgrad,
// maximize, has overflow. With overflow, bias1 and bias2 are tensors after it.
func lowerAdam(p *program) {
	if p.n.Out[0].Layout.Numel == 0 {
		return
	}
	attr := p.n.Attr
	first := 4 + int(attr[1])
	tensors := first + 3*int(attr[3])
	k := p.step("adam_step", tensors, int(attr[3])*first)
	t := p.n.In[0].DType.ComputeType()
	s := func(i int) int { return k.scalar(tensors+i, t) }
	lr, beta2, eps, decay := s(0), s(2), s(3), s(4)
	last := len(p.n.In) - tensors
	fresh1, fresh2 := s(last-2), s(last-1)
	w, g, m, v := k.x[0], k.x[1], k.x[2], k.x[3]
	var bias1, bias2 int
	if attr[3] != 0 {
		bias1, bias2 = k.x[first+1], k.x[first+2]
	} else {
		bias1, bias2 = s(5), s(6)
	}
	if attr[2] != 0 {
		g = k.Neg(g)
	}
	if attr[0] != 0 {
		w = k.Mul(w, k.Sub(k.Float(t, 1), k.Mul(lr, decay)))
	} else {
		g = decayed(k.kernel, t, g, w, decay)
	}
	m = k.Add(m, k.Mul(fresh1, k.Sub(g, m)))
	v = k.Add(k.Mul(v, beta2), k.Mul(fresh2, k.Mul(g, g)))
	k.put(1, k.x[2], m)
	k.put(2, k.x[3], v)
	if attr[1] != 0 {
		v = k.Max(k.x[4], v)
		k.put(3, k.x[4], v)
	}
	root := k.Div(k.Un(loopir.OpSqrt, v), k.Un(loopir.OpSqrt, bias2))
	k.put(0, k.x[0], k.Sub(w, k.Mul(k.Div(lr, bias1), k.Div(m, k.Add(root, eps)))))
	k.launch()
}
