package lazy

import (
	"slices"

	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// recordDual records a primitive whose operands have tangents at level l, and at none above: first the primitive and
// then its JVP rule, both below l, so that tangents of different levels never meet. The recursion handles lower levels.
func (s *Session) recordDual(p *op.Prim, attr []int64, in []op.Val, l *tangentLevel) *Emission {
	in, attr = slices.Clone(in), slices.Clone(attr)
	defer s.below(l.id)()
	since := s.graph.Seq()
	e := *s.Record(p.ID, attr, in)
	e.Types, e.Outs = slices.Clone(e.Types), slices.Clone(e.Outs)
	// A loop records whole values, whose tangents may have batches of their own.
	defer func(old bool) { s.vmaps.inRule = old }(s.vmaps.inRule)
	s.vmaps.inRule = false
	if slices.ContainsFunc(e.Outs, func(o op.Val) bool { return o.DType().IsFloat() }) {
		c := &op.JVPCall{B: s, Prim: p, Attr: attr, In: in, Out: e.Outs, Tan: make([]op.Val, len(in)),
			Apart: l.apart}
		for i := range in {
			c.Tan[i] = s.tangentAt(l, in[i])
		}
		for k, t := range s.pushForward(c) {
			if t.IsTensor() && e.Outs[k].DType().IsFloat() {
				s.attach(l, &e.Outs[k], t, since)
			}
		}
	}
	s.emitter.last = e
	return &s.emitter.last
}

// pushForward returns the tangents of the results, by the primitive's rule or derived.
func (s *Session) pushForward(c *op.JVPCall) []op.Val {
	if c.Prim.VJP == nil {
		panic(ir.Errorf(ir.ErrNotImplemented, "Trying to use forward AD with %s that does not support it because it has not "+
			"been implemented yet.", c.Prim.NameFor(c.Attr)))
	}
	if c.Prim.JVP != nil {
		if out := c.Prim.JVP(c); out != nil {
			return out
		}
	}
	return s.DerivedJVP(c)
}

// DerivedJVP returns the tangents of the results by two transpositions: the gradient rule maps cotangents u of the
// results linearly to cotangents of the operands, and the tangents are the gradients by u of the products of those
// cotangents with the operands' tangents. u is zeros; no result depends on it, so it is never computed.
func (s *Session) DerivedJVP(c *op.JVPCall) []op.Val {
	taping := s.taping
	levels := levelsOf(slices.Concat(c.In, c.Out, c.Tan))
	v := &op.VJPCall{B: s, Attr: c.Attr, In: slices.Clone(c.In), Out: slices.Clone(c.Out),
		Cot: make([]op.Val, len(c.Out)), Need: make([]bool, len(c.In))}
	for i := range v.In {
		v.Need[i] = c.Tan[i].IsTensor()
		if !taping {
			v.In[i].Tape = 0
		}
	}
	var edges []uint32
	var of []int // by edge: the result
	for k, o := range c.Out {
		if !taping {
			v.Out[k].Tape = 0
		}
		if o.DType().IsFloat() {
			u := s.withLevels(prim.Zeros(s, o.DType(), o.Device(), o.Shape()), levels)
			u.Tape = autograd.Edge(s.tape.RecordLeaf(0, u), 0)
			s.tape.Close(u.Tape)
			s.held.edges = append(s.held.edges, u.Tape)
			v.Cot[k], edges, of = u, append(edges, u.Tape), append(of, k)
		}
	}
	defer s.packing(false)()
	s.taping = true
	cots := c.Prim.VJP(v)
	s.taping = taping
	var roots, starts []op.Val
	for i, root := range cots {
		if v.Need[i] && root.IsTensor() && root.Tape != 0 {
			roots, starts = append(roots, root), append(starts, s.Reveal(c.Tan[i], root.L().Hidden))
		}
	}
	found, err := s.tape.Pull(plainRules{s}, roots, starts, edges, taping)
	if err != nil {
		panic(err)
	}
	out := make([]op.Val, len(c.Out))
	for i, t := range found {
		if t.IsTensor() {
			s.held.values, s.held.edges = append(s.held.values, t.Value), append(s.held.edges, t.Tape)
			out[of[i]] = s.Hide(t, levels)
		}
	}
	return out
}

// packing turns the packing of saved values off until the returned function is called.
func (s *Session) packing(on bool) (end func()) {
	old := s.tape.Packing
	s.tape.Packing = on
	return func() { s.tape.Packing = old }
}

// plainRules calls the rules of a walk as they are.
type plainRules struct{ *Session }

// Key implements autograd.Rules.
func (plainRules) Key(uint64) []uint64 { return nil }

// Call implements autograd.Rules.
func (r plainRules) Call(_ []uint64, operands []op.Val, rule op.Rule) []op.Val {
	return rule.Apply(r.Session, operands)
}
