package lower

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

func init() {
	for name, f := range steps {
		register(map[string]lowering{name: f.lower})
	}
}

// step computes an element of an optimizer's step: the new parameter, then the new state. steps lists the steps that
// fusion groups may contain.
type step func(o *operands) []int

var steps = map[string]step{"sgd_step": stepSGD, "adam_step": stepAdam}

// lower lowers the step alone.
func (f step) lower(p *program) {
	n := p.n
	if n.Out[0].Layout.Numel == 0 {
		return
	}
	m := Member{Prim: n.Prim, Attr: n.Attr, Layout: n.Out[0].Layout}
	for i := range n.In {
		m.In = append(m.In, i)
	}
	for i := range n.Out {
		m.Values = append(m.Values, Value{DType: n.Out[i].DType, Out: i})
	}
	lowerMap(p, []Member{m}, n.Prim.Name+"_"+n.In[0].DType.String())
}

// update has the operands of an optimizer's step.
type update struct {
	*kernel
	t    ir.DType // the compute type of the parameter
	x    []int    // the tensor operands, in t
	skip int      // whether the step writes nothing, or -1: it always writes
}

// update converts the first operands, which are tensors. Operand overflow, if not 0, is the one that says whether the
// step overflowed.
func (o *operands) update(tensors, overflow int) *update {
	u := &update{kernel: o.k, t: o.types[0].ComputeType(), skip: -1}
	for _, x := range o.x[:tensors] {
		u.x = append(u.x, o.k.Cast(u.t, x))
	}
	if overflow > 0 {
		u.skip = u.Ne(u.x[overflow], u.Float(u.t, 0))
	}
	return u
}

// put is the new value of tensor operand i, or the old one if the step overflowed.
func (u *update) put(i, value int) int {
	if u.skip >= 0 {
		return u.Select(u.skip, u.x[i], value)
	}
	return value
}

// stepSGD is torch.optim.SGD's step; operands p, g, buf?, overflow?, lr, momentum, dampening, weight_decay, first;
// attributes nesterov, maximize, has buf, has overflow.
func stepSGD(o *operands) []int {
	attr := o.attr
	tensors := 2 + int(attr[2]+attr[3])
	k := o.update(tensors, int(attr[3])*(tensors-1))
	s := func(i int) int { return o.scalar(tensors+i, k.t) }
	lr, momentum, dampening, decay, first := s(0), s(1), s(2), s(3), s(4)
	w, g := k.x[0], k.x[1]
	if attr[1] != 0 {
		g = k.Neg(g)
	}
	g = decayed(k.kernel, k.t, g, w, decay)
	out := make([]int, 1, 2)
	if attr[2] != 0 {
		one := k.Float(k.t, 1)
		moving := k.Add(k.Mul(k.x[2], momentum), k.Mul(g, k.Sub(one, dampening)))
		buf := k.Select(k.Ne(first, k.Float(k.t, 0)), g, moving)
		out = append(out, k.put(2, buf))
		if attr[0] != 0 {
			g = k.Add(g, k.Mul(buf, momentum))
		} else {
			g = buf
		}
	}
	out[0] = k.put(0, k.Sub(w, k.Mul(lr, g)))
	return out
}

// decayed adds weight decay to a gradient. Without decay an infinite weight must not turn the gradient into NaN.
func decayed(k *kernel, t ir.DType, g, w, decay int) int {
	return k.Select(k.Eq(decay, k.Float(t, 0)), g, k.Add(g, k.Mul(decay, w)))
}

// stepAdam is the step of Adam (Kingma and Ba, 2015), or of AdamW where decoupled is set; operands p, g, m, v, vmax?,
// overflow?, lr, beta1, beta2, eps, weight_decay, bias1, bias2, 1-beta1, 1-beta2; attributes decoupled, amsgrad,
// maximize, has overflow. With overflow, bias1 and bias2 are tensors after it.
func stepAdam(o *operands) []int {
	attr := o.attr
	first := 4 + int(attr[1])
	tensors := first + 3*int(attr[3])
	k := o.update(tensors, int(attr[3])*first)
	t := k.t
	s := func(i int) int { return o.scalar(tensors+i, t) }
	lr, beta2, eps, decay := s(0), s(2), s(3), s(4)
	last := len(o.in) - tensors
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
	state := []int{k.put(2, m), k.put(3, v)}
	if attr[1] != 0 {
		v = k.Max(k.x[4], v)
		state = append(state, k.put(4, v))
	}
	root := k.Div(k.Un(loopir.OpSqrt, v), k.Un(loopir.OpSqrt, bias2))
	return append([]int{k.put(0, k.Sub(w, k.Mul(k.Div(lr, bias1), k.Div(m, k.Add(root, eps)))))}, state...)
}
