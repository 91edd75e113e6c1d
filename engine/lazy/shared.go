package lazy

import (
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// shared finds the pending node of a primitive with op.Prim.Shared over a stored value, so that a second like call
// takes it in place of recording another. Entries are checked against the graph when they are found: a node that has
// run is a leaf, and one whose number was given to another node has another operand.
type shared struct {
	nodes [256]uint32
	since uint64 // nodes recorded up to here are not taken
}

// place returns the entry for nodes over a value.
func (k *shared) place(e ir.Edge) *uint32 { return &k.nodes[e.Value%uint32(len(k.nodes))] }

// note remembers a node just recorded.
func (k *shared) note(id uint32, e ir.Edge) { *k.place(e) = id }

// find returns the pending node of p with the operand e and the result aval, 0 for none.
func (k *shared) find(g *ir.Graph, p *op.Prim, aval ir.AvalID, e ir.Edge) uint32 {
	id := *k.place(e)
	if id == 0 || g.Node(e.Value).Op != ir.OpLeaf {
		return 0
	}
	n := g.Node(id)
	if n.Op != uint16(p.ID) || n.Refs <= 0 || n.Aval != aval || n.Seq <= k.since || g.Edges(n)[0] != e {
		return 0
	}
	return id
}
