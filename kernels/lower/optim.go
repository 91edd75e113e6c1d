package lower

import (
	"github.com/torchlette/torchlette/kernels/kir"
)

func init() {
	register(sgdStep, "sgd_step")
	register(adamStep, "adam_step")
}

// update opens the nest of an optimizer step over its first tensors inputs and all outputs.
func update(n *Node, tensors int) *loop {
	var parts []part
	for i := 0; i < tensors; i++ {
		parts = append(parts, n.whole(i))
	}
	for k := range n.Out {
		parts = append(parts, n.whole(n.out(k)))
	}
	shape := n.Out[0].Layout.Shape
	return newLoop(n, n.Prim.Name+"_"+n.In[0].DType.String(), nest{shape: shape, split: len(shape)}, parts)
}

// sgdStep follows torch.optim.SGD: scalars lr, momentum, dampening, weight_decay, first.
func sgdStep(n *Node) (*Result, error) {
	nesterov, maximize, hasBuf := n.Attr[0] != 0, n.Attr[1] != 0, n.Attr[2] != 0
	tensors := 2
	if hasBuf {
		tensors = 3
	}
	l := update(n, tensors)
	b := l.b
	t := n.In[0].DType.ComputeType()
	s := func(j int) int { return b.Cast(t, l.scalar(j, n.In[tensors+j].DType)) }
	b.Map()
	p, g := l.load(0), b.Cast(t, l.load(1))
	if maximize {
		g = b.Neg(g)
	}
	g = b.Add(g, b.Mul(s(3), p))
	if hasBuf {
		buf := b.Add(b.Mul(s(1), l.load(2)), b.Mul(b.Sub(b.Float(t, 1), s(2)), g))
		buf = b.Select(b.Ne(s(4), b.Float(t, 0)), g, buf)
		l.store(tensors+1, buf)
		if nesterov {
			g = b.Add(g, b.Mul(s(1), buf))
		} else {
			g = buf
		}
	}
	l.store(tensors, b.Sub(p, b.Mul(s(0), g)))
	return l.one()
}

// adamStep follows torch.optim.Adam and AdamW: scalars lr, beta1, beta2, eps,
// weight_decay, bias1, bias2, 1-beta1, 1-beta2. The last two come from the host in
// double: in f32 the difference 1-beta2 would lose five digits.
func adamStep(n *Node) (*Result, error) {
	decoupled, amsgrad, maximize := n.Attr[0] != 0, n.Attr[1] != 0, n.Attr[2] != 0
	tensors := 4
	if amsgrad {
		tensors = 5
	}
	l := update(n, tensors)
	b := l.b
	t := n.In[0].DType.ComputeType()
	s := func(j int) int { return b.Cast(t, l.scalar(j, n.In[tensors+j].DType)) }
	b.Map()
	p, g := l.load(0), b.Cast(t, l.load(1))
	if maximize {
		g = b.Neg(g)
	}
	if decoupled {
		p = b.Mul(p, b.Sub(b.Float(t, 1), b.Mul(s(0), s(4))))
	} else {
		g = b.Add(g, b.Mul(s(4), p))
	}
	old := b.Cast(t, l.load(2))
	m := b.Add(old, b.Mul(s(7), b.Sub(g, old)))
	v := b.Add(b.Mul(s(2), b.Cast(t, l.load(3))), b.Mul(s(8), b.Mul(g, g)))
	l.store(tensors+1, m)
	l.store(tensors+2, v)
	root := v
	if amsgrad {
		root = b.Max(b.Cast(t, l.load(4)), v)
		l.store(tensors+3, root)
	}
	denom := b.Add(b.Div(b.Un(kir.OpSqrt, root), b.Un(kir.OpSqrt, s(6))), s(3))
	l.store(tensors, b.Sub(p, b.Mul(b.Div(s(0), s(5)), b.Div(m, denom))))
	return l.one()
}
