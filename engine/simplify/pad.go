package simplify

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// padded is a convolution or a pool of a value with a border that padding can replace.
type padded struct {
	inner  view    // the value without the border
	before []int64 // by spatial dim: how many elements of the border come before it
}

// Pads replaces the border of an input (a fill with a value written into it) by padding of windows. The border is 0 for
// convolutions and average pools, and -inf for max pools; a max pool may also have a border of 0 if the value is never
// negative and each window has a part of it. The padded value has no other reader. Results keep their bits except the
// sign of zeros.
func Pads(p *program.Program, args int) *program.Program {
	s := newSearch(p, args)
	at := map[int]*padded{}
	for i := range p.Nodes {
		if f := s.pad(i); f != nil {
			at[i] = f
		}
	}
	if len(at) == 0 {
		return p
	}
	g := rewritten(p, func(c *copier, i int) {
		f := at[i]
		if f == nil {
			c.node(i)
			return
		}
		f.inner.ref = c.refs[f.inner.ref]
		c.replaced(i, 0, f.inner)
		win, rest := op.WindowsOf(p.Attrs(i))
		win.Lo = slices.Clone(win.Lo)
		for d, n := range f.before {
			win.Lo[d] += n
		}
		c.to.Nodes[len(c.to.Nodes)-1].Attr = ir.InternAttr(append(win.Attr(), rest...))
	})
	out, _ := Prune(g, len(p.Inputs))
	return out
}

// pad finds the border around the input of convolution or pool i, nil for none.
func (s *search) pad(i int) *padded {
	p := s.p
	sums := s.is(i, prim.Known.Conv) || s.is(i, prim.Known.WindowSum)
	if !sums && (!s.is(i, prim.Known.WindowMax) || s.places(i)) {
		return nil
	}
	win, _ := op.WindowsOf(p.Attrs(i))
	if slices.ContainsFunc(win.Base, func(n int64) bool { return n != 1 }) {
		return nil
	}
	at, ok := s.only(i, 0)
	if !ok || !s.is(at, prim.Known.StridedScatter) {
		return nil
	}
	border, ok := s.filled(operand(p, at, 0))
	zeros := ok && border == 0
	f := s.border(at, len(win.Kernel))
	switch {
	case f == nil:
		return nil
	case sums && zeros, !sums && ok && math.IsInf(border, -1):
		return f
	case !sums && zeros && f.inner.ref.IsNode() && s.is(f.inner.ref.Index(), prim.Known.Relu) && f.reached(&win):
		return f
	}
	return nil
}

// border finds the value that the scatter at this node writes, with a border in the last n dims only.
func (s *search) border(at, n int) *padded {
	p := s.p
	f := &padded{inner: operand(p, at, 1)}
	full := ir.AvalOf(p.Nodes[at].Aval).Layout
	target, offset := ir.LayoutOf(ir.LayoutID(p.Attrs(at)[0])), int64(p.ScalarsOf(at)[0])
	if f.inner.ref == 0 || f.inner.layout == nil || target.Rank() != full.Rank() || offset < 0 {
		return nil
	}
	lead := full.Rank() - n
	for d, size := range full.Shape {
		if full.Stride[d] == 0 {
			return nil
		}
		before := offset / full.Stride[d]
		offset %= full.Stride[d]
		inside := target.Shape[d]
		if inside == 0 || inside > 1 && target.Stride[d] != full.Stride[d] || before+inside > size ||
			d < lead && inside != size {
			return nil
		}
		if d >= lead {
			f.before = append(f.before, before)
		}
	}
	return f
}

// filled is the number of a fill v.
func (s *search) filled(v view) (number float64, ok bool) {
	if !v.ref.IsNode() || !s.is(v.ref.Index(), prim.Known.Fill) || len(s.p.ScalarsOf(v.ref.Index())) != 1 {
		return 0, false
	}
	return ir.DecodeFloat(s.p.Aval(v.ref).DType, s.p.ScalarsOf(v.ref.Index())[0]), true
}

// places reports that the indices of pool i have a reader.
func (s *search) places(i int) bool {
	for k := range s.p.Nodes {
		if n := &s.p.Nodes[k]; !n.IsPrim() && s.uses[k] > 0 && s.p.OperandsOf(k)[0].Value == program.NodeRef(i) {
			return true
		}
	}
	return false
}

// reached reports that each window has an element of the value within the border.
func (f *padded) reached(win *op.Windows) bool {
	for d, before := range f.before {
		size := f.inner.layout.Shape[len(f.inner.layout.Shape)-len(f.before)+d]
		for o := range win.Out[d] {
			some := false
			for k := range win.Kernel[d] {
				at := o*win.Stride[d] - win.Lo[d] + k*win.Dilation[d] - before
				some = some || at >= 0 && at < size
			}
			if !some {
				return false
			}
		}
	}
	return true
}
