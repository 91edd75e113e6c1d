package simplify

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// padded is a convolution of a value that lies within zeros, which its windows can have as padding.
type padded struct {
	inner  view    // the value without the zeros
	before []int64 // by spatial dim: how many zeros come before it
}

// Pads makes the zeros around a convolution's input, a fill with a value written into it, padding of its windows.
// Nobody else reads the padded value. Results keep their bits.
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

// pad finds the zeros around the input of convolution i, nil for none.
func (s *search) pad(i int) *padded {
	p := s.p
	if !s.is(i, prim.Known.Conv) {
		return nil
	}
	win, _ := op.WindowsOf(p.Attrs(i))
	if slices.ContainsFunc(win.Base, func(n int64) bool { return n != 1 }) {
		return nil
	}
	at, ok := s.only(i, 0)
	if !ok || !s.is(at, prim.Known.StridedScatter) || !s.zeros(operand(p, at, 0)) {
		return nil
	}
	f := &padded{inner: operand(p, at, 1)}
	full := ir.AvalOf(p.Nodes[at].Aval).Layout
	target, offset := ir.LayoutOf(ir.LayoutID(p.Attrs(at)[0])), int64(p.ScalarsOf(at)[0])
	if f.inner.ref == 0 || f.inner.layout == nil || target.Rank() != full.Rank() || offset < 0 {
		return nil
	}
	for d, n := range full.Shape {
		if full.Stride[d] == 0 {
			return nil
		}
		before := offset / full.Stride[d]
		offset %= full.Stride[d]
		inside := target.Shape[d]
		if inside == 0 || inside > 1 && target.Stride[d] != full.Stride[d] || before+inside > n || d < 2 && inside != n {
			return nil
		}
		if d >= 2 {
			f.before = append(f.before, before)
		}
	}
	return f
}

// zeros reports a value of zeros that a fill makes.
func (s *search) zeros(v view) bool {
	if !v.ref.IsNode() || !s.is(v.ref.Index(), prim.Known.Fill) {
		return false
	}
	for _, bits := range s.p.ScalarsOf(v.ref.Index()) {
		if bits != 0 {
			return false
		}
	}
	return true
}
