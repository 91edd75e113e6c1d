package compile

import (
	"fmt"

	"github.com/torchlette/torchlette/engine/program"
)

// useTable says who reads which value.
type useTable struct {
	last  []int // by node: the last node that reads its value, itself where none does
	input []int // by input: the last node that reads it
	count []int // by node: the number of operands and stores that name its value
	main  []int // by node: the node that computes its value, itself except for further results
	// results lists, for each node with further results, those that somebody holds, by number; the first further result
	// is 1.
	results map[int]links
}

// countUses walks all operands once.
func (b *Builder) countUses() error {
	p, n := b.Program, len(b.Program.Nodes)
	u := useTable{last: make([]int, n), input: make([]int, len(p.Inputs)), count: make([]int, n), main: make([]int, n),
		results: map[int]links{}}
	for i := range p.Nodes {
		u.last[i], u.main[i] = i, i
		x := &p.Nodes[i]
		if x.Outputs > 1 {
			u.results[i] = make(links, x.Outputs)
		}
		for _, e := range p.OperandsOf(i) {
			switch {
			case e.Value.IsInput():
				u.input[e.Value.Index()] = i
			case e.Value.IsNode():
				u.last[e.Value.Index()] = i
				u.count[e.Value.Index()]++
			}
			if !x.IsPrim() {
				u.main[i] = e.Value.Index()
				u.results[u.main[i]].set(int(x.Attr), i)
			}
		}
	}
	for _, s := range p.Stores {
		if s.Value.IsNode() {
			u.count[s.Value.Index()]++
		}
	}
	b.uses = u
	return nil
}

func (b *Builder) noteUses(i int) string {
	if last := b.uses.last[i]; last != i {
		return fmt.Sprintf("last read by %%%d", last)
	}
	return ""
}

// live reports that something outside refers to the value of node i.
func (b *Builder) live(i int) bool { return b.Program.Nodes[i].Live == program.LiveOutside }
