package simplify

import (
	"slices"

	"github.com/torchlette/torchlette/engine/program"
)

// Split divides a program for constant folding. fixed computes the values that depend on constants only, from the
// constants that kept lists; it is nil if there are none. rest computes the others, draws included. It takes the
// results of fixed as further inputs, after those of p. The first args inputs are the arguments.
func Split(p *program.Program, args int) (fixed, rest *program.Program, kept []int) {
	is := constants(p, args)
	given := readFrom(p, is)
	if !slices.Contains(given, true) {
		return nil, p, nil
	}
	a, b := newCopier(p), newCopier(p)
	kept = a.inputs(func(i int) bool { return i >= args })
	b.inputs(func(int) bool { return true })
	for i := range p.Nodes {
		if is[i] {
			a.node(i)
		}
	}
	for i := range p.Nodes {
		if !given[i] {
			continue
		}
		a.result(a.refs[program.NodeRef(i)])
		b.refs[program.NodeRef(i)] = b.input(program.Input{Aval: p.Nodes[i].Aval, Role: program.Constant})
	}
	for i := range p.Nodes {
		if !is[i] || made(p, i) && !given[i] {
			b.node(i)
		}
	}
	for _, r := range p.Results {
		b.result(b.refs[r.Value])
	}
	fixed, still := Prune(a.done(), 0)
	for k, i := range still {
		still[k] = kept[i]
	}
	return fixed, b.done(), still
}

// readFrom finds the constant values that results or other nodes read. A node that is made from numbers alone is
// repeated instead.
func readFrom(p *program.Program, is []bool) []bool {
	given := make([]bool, len(p.Nodes))
	give := func(r program.Ref) {
		if r.IsNode() && is[r.Index()] {
			given[r.Index()] = true
		}
	}
	for i := range p.Nodes {
		if is[i] {
			continue
		}
		for _, e := range p.OperandsOf(i) {
			if !e.Value.IsNode() || !made(p, e.Value.Index()) {
				give(e.Value)
			}
		}
	}
	return given
}

// constants finds the nodes that depend on neither an argument nor a draw. Results are excluded, since each run writes
// them to its caller's memory.
func constants(p *program.Program, args int) []bool {
	is := make([]bool, len(p.Nodes))
	draws := map[uint32]bool{}
	for _, d := range p.Draws {
		draws[d.Scalar] = true
	}
	result := map[int]bool{}
	for _, r := range p.Results {
		if r.Value.IsNode() {
			result[r.Value.Index()] = true
		}
	}
	for i := range p.Nodes {
		x := &p.Nodes[i]
		is[i] = !result[i]
		for k := range p.ScalarsOf(i) {
			is[i] = is[i] && !draws[x.Scalar+uint32(k)]
		}
		for _, e := range p.OperandsOf(i) {
			switch {
			case e.Value.IsInput():
				is[i] = is[i] && e.Value.Index() >= args
			case e.Value.IsNode():
				is[i] = is[i] && is[e.Value.Index()]
			}
		}
	}
	return is
}

// made reports a node without tensor operands, such as a fill: a kernel that reads it can compute it.
func made(p *program.Program, i int) bool {
	for _, e := range p.OperandsOf(i) {
		if e.Value != 0 {
			return false
		}
	}
	return true
}
