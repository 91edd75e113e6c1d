package simplify

import "github.com/torchlette/torchlette/engine/program"

// Part is a part of a program that shares no node with others: the inputs that it reads, and its results, by their
// places in the program.
type Part struct {
	Program         *program.Program
	Inputs, Results []int
}

// Parts divides a program without arguments, all of whose results are nodes.
func Parts(p *program.Program) (parts []Part) {
	group := make([]int, len(p.Nodes)) // by node: a node of its part, itself for one of each part
	root := func(i int) int {
		for group[i] != i {
			i = group[i]
		}
		return i
	}
	for i := range p.Nodes {
		group[i] = i
		for _, e := range p.OperandsOf(i) {
			if e.Value.IsNode() {
				group[root(e.Value.Index())] = i
			}
		}
	}
	at := map[int]int{}
	for k, r := range p.Results {
		first := root(r.Value.Index())
		i, ok := at[first]
		if !ok {
			i = len(parts)
			at[first] = i
			parts = append(parts, Part{})
		}
		parts[i].Results = append(parts[i].Results, k)
	}
	for i := range parts {
		q := p.Clone()
		q.Results = nil
		for _, k := range parts[i].Results {
			q.Results = append(q.Results, p.Results[k])
		}
		parts[i].Program, parts[i].Inputs = Prune(q, 0)
	}
	return parts
}
