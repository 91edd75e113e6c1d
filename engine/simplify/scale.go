package simplify

import (
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// scaled is a convolution whose result is multiplied by a factor for each channel, as batch norm does in evaluation:
// factor (w*x + bias), with constants w, factor and bias.
type scaled struct {
	conv, add, mul int // nodes; add < 0: there is no bias
	bias           int // the operand of add that is the bias
	factor         view
}

// Scales multiplies the weights of a convolution, instead of its result, by constant factors of the channels: [Split]
// computes this product once. It applies to float32 and float64, if the multiplied value has no other reader. Results
// change by rounding.
func Scales(p *program.Program, args int) *program.Program {
	s := newSearch(p, args)
	convs, adds, muls := map[int]*scaled{}, map[int]*scaled{}, map[int]*scaled{}
	for i := range p.Nodes {
		if f := s.scale(i); f != nil {
			convs[f.conv], muls[f.mul] = f, f
			if f.add >= 0 {
				adds[f.add] = f
			}
		}
	}
	if len(muls) == 0 {
		return p
	}
	// Factors are recorded after the convolutions that they scale.
	return s.constantsFirst(func(c *copier, i int) {
		switch {
		case convs[i] != nil:
			c.scaledConv(convs[i])
		case adds[i] != nil:
			c.scaledBias(adds[i])
		case muls[i] != nil:
			c.refs[program.NodeRef(i)] = c.refs[operandNode(p, i, convs, adds)]
		default:
			c.node(i)
		}
	})
}

// constantsFirst copies the program with its constant nodes first; rewrite copies each of the others. Nodes that no
// result needs are dropped.
func (s *search) constantsFirst(rewrite func(c *copier, i int)) *program.Program {
	c := newCopier(s.p)
	c.inputs(func(int) bool { return true })
	for _, constant := range []bool{true, false} {
		for i := range s.p.Nodes {
			switch {
			case s.constant[i] != constant:
			case constant:
				c.node(i)
			default:
				rewrite(c, i)
			}
		}
	}
	for _, r := range s.p.Results {
		c.result(c.refs[r.Value])
	}
	out, _ := Prune(c.done(), len(s.p.Inputs))
	return out
}

// operandNode is the operand of multiplication i that is already scaled.
func operandNode(p *program.Program, i int, convs, adds map[int]*scaled) program.Ref {
	for _, e := range p.OperandsOf(i) {
		if e.Value.IsNode() && (convs[e.Value.Index()] != nil || adds[e.Value.Index()] != nil) {
			return e.Value
		}
	}
	panic("simplify: a multiplication without the convolution that it was found by")
}

// scale finds the convolution that node i multiplies, nil for none.
func (s *search) scale(i int) *scaled {
	at, j := s.channelwise(i, prim.Known.Mul)
	if at < 0 {
		return nil
	}
	f := &scaled{conv: at, add: -1, mul: i, factor: operand(s.p, i, j)}
	if conv, k := s.channelwise(at, prim.Known.Add); conv >= 0 {
		f.conv, f.add, f.bias = conv, at, k
	}
	if !s.is(f.conv, prim.Known.Conv) || s.constant[f.conv] || !s.fixed(operand(s.p, f.conv, 1)) {
		return nil
	}
	if d := ir.AvalOf(s.p.Nodes[f.conv].Aval).DType; d != ir.F32 && d != ir.F64 {
		return nil
	}
	return f
}

// channelwise finds the node that node i, of this primitive, combines with operand j, a constant for each channel. node
// is -1 if i is no such combination.
func (s *search) channelwise(i int, primitive op.PrimID) (node, j int) {
	if !s.is(i, primitive) || len(s.p.OperandsOf(i)) != 2 {
		return -1, 0
	}
	for j = range 2 {
		v := operand(s.p, i, j)
		if v.ref == 0 || !s.fixed(v) || !ofChannels(v.layout) {
			continue
		}
		if at, ok := s.only(i, 1-j); ok && s.p.Nodes[at].Aval == s.p.Nodes[i].Aval {
			return at, j
		}
	}
	return -1, 0
}

// ofChannels reports a view that differs along dim 1 only.
func ofChannels(l *ir.Layout) bool {
	if l.Rank() < 3 {
		return false
	}
	for d, n := range l.Shape {
		if d != 1 && n != 1 && l.Stride[d] != 0 {
			return false
		}
	}
	return true
}

// along views a value of channels, given as ofChannels accepts it, by dim of shape.
func along(v view, shape []int64, dim int) view {
	stride := make([]int64, len(shape))
	stride[dim] = v.layout.Stride[1]
	v.layout = ir.InternLayout(shape, stride)
	return v
}

// product adds the product of two constants of this type and shape.
func (c *copier) product(a, b view, shape []int64, like *ir.Aval, from int) view {
	return c.combined(prim.Known.Mul, a, b, shape, like, from)
}

// combined adds a node that combines two constants of this type and shape.
func (c *copier) combined(primitive op.PrimID, a, b view, shape []int64, like *ir.Aval, from int) view {
	a.ref, b.ref = c.refs[a.ref], c.refs[b.ref]
	l := ir.DenseLayout(shape)
	c.add(primitive, nil, 1, ir.InternAval(like.DType, like.Device, l), from, []view{a, b})
	return view{ref: program.NodeRef(len(c.to.Nodes) - 1), layout: l}
}

// replaced copies node i with operand j replaced.
func (c *copier) replaced(i, j int, v view) {
	c.node(i)
	at := int(c.to.Nodes[len(c.to.Nodes)-1].Edge) + j
	c.to.Edges[at].Value, c.to.Edges[at].Layout, c.to.Offsets[at] = v.ref, v.layout.ID, v.offset
}

// scaledConv copies the convolution with its weights scaled.
func (c *copier) scaledConv(f *scaled) {
	w := operand(c.from, f.conv, 1)
	shape := w.layout.Shape
	c.replaced(f.conv, 1, c.product(w, along(f.factor, shape, 0), shape, ir.AvalOf(c.from.Nodes[f.conv].Aval), f.mul))
}

// scaledBias copies the addition with its bias scaled.
func (c *copier) scaledBias(f *scaled) {
	av := ir.AvalOf(c.from.Nodes[f.add].Aval)
	n := []int64{av.Shape()[1]}
	b := c.product(along(operand(c.from, f.add, f.bias), n, 0), along(f.factor, n, 0), n, av, f.mul)
	stride := make([]int64, av.Layout.Rank())
	stride[1] = 1
	b.layout = ir.InternLayout(av.Shape(), stride)
	c.replaced(f.add, f.bias, b)
}
