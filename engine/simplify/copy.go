package simplify

import (
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// copier copies nodes of a program to another one.
type copier struct {
	from, to *program.Program
	refs     map[program.Ref]program.Ref // by value of from: its name in to
	draws    map[uint32]bool             // slots of from with the offset of a draw
}

func newCopier(from *program.Program) *copier {
	c := &copier{from: from, to: &program.Program{Drawn: from.Drawn}, refs: map[program.Ref]program.Ref{},
		draws: map[uint32]bool{}}
	for _, d := range from.Draws {
		c.draws[d.Scalar] = true
	}
	return c
}

// rewritten copies p with all its inputs; rewrite copies each node.
func rewritten(p *program.Program, rewrite func(c *copier, i int)) *program.Program {
	c := newCopier(p)
	c.inputs(func(int) bool { return true })
	for i := range p.Nodes {
		rewrite(c, i)
	}
	for _, r := range p.Results {
		c.result(c.refs[r.Value])
	}
	return c.done()
}

// input adds an input.
func (c *copier) input(in program.Input) program.Ref {
	c.to.Inputs = append(c.to.Inputs, in)
	return program.InputRef(len(c.to.Inputs) - 1)
}

// inputs adds the inputs of from that keep accepts. kept lists them.
func (c *copier) inputs(keep func(i int) bool) (kept []int) {
	for i, in := range c.from.Inputs {
		if keep(i) {
			c.refs[program.InputRef(i)] = c.input(in)
			kept = append(kept, i)
		}
	}
	return kept
}

// node copies node i, whose operands have names already.
func (c *copier) node(i int) {
	p, q := c.from, c.to
	x := p.Nodes[i]
	first := x.Scalar
	x.Edge, x.Scalar, x.Live = uint32(len(q.Edges)), uint32(len(q.Scalars)), program.Dead
	for _, e := range p.OperandsOf(i) {
		if e.Value != 0 {
			e.Value = c.refs[e.Value]
		}
		q.Edges = append(q.Edges, e)
	}
	q.Offsets = append(q.Offsets, p.OffsetsOf(i)...)
	for k, v := range p.ScalarsOf(i) {
		if c.draws[first+uint32(k)] {
			q.Draws = append(q.Draws, program.Draw{Scalar: uint32(len(q.Scalars))})
		}
		q.Scalars = append(q.Scalars, v)
	}
	q.SourceLocs = append(q.SourceLocs, p.SourceLoc(i))
	q.Nodes = append(q.Nodes, x)
	c.refs[program.NodeRef(i)] = program.NodeRef(len(q.Nodes) - 1)
}

// result adds a whole value of to as a result.
func (c *copier) result(r program.Ref) {
	c.to.Results = append(c.to.Results, program.Result{Value: r, Layout: ir.AvalOf(c.to.AvalID(r)).Layout.ID})
	if r.IsNode() {
		c.to.Nodes[r.Index()].Live = program.LiveOutside
	}
}

// done seals the copy.
func (c *copier) done() *program.Program {
	c.to.Seal()
	return c.to
}

// Prune drops the nodes that no result needs, and the inputs after the first args that are then unread. kept lists the
// inputs that stay.
func Prune(p *program.Program, args int) (out *program.Program, kept []int) {
	need := make([]bool, len(p.Nodes))
	read := make([]bool, len(p.Inputs))
	want := func(r program.Ref) {
		switch {
		case r.IsNode():
			need[r.Index()] = true
		case r.IsInput():
			read[r.Index()] = true
		}
	}
	for _, r := range p.Results {
		want(r.Value)
	}
	for i := len(p.Nodes) - 1; i >= 0; i-- {
		if need[i] {
			for _, e := range p.OperandsOf(i) {
				want(e.Value)
			}
		}
	}
	c := newCopier(p)
	kept = c.inputs(func(i int) bool { return i < args || read[i] })
	for i := range p.Nodes {
		if need[i] {
			c.node(i)
		}
	}
	for _, r := range p.Results {
		c.result(c.refs[r.Value])
	}
	return c.done(), kept
}
