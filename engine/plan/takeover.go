package plan

import (
	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/engine/op"
)

// takeOver lets a value that updates another one (a scatter), or a large one that is made element by element of
// another one (the cotangent of the logits), have the buffer of that one, where it is read for the last time
// there: no copy is made, and no second buffer. heir is set along the chain; a
// chain that ends outside the window gets its output's slot at once.
func (b *Builder) takeOver() {
	for i := len(b.nodes) - 1; i >= 0; i-- {
		x := &b.nodes[i]
		v := b.updated(i)
		if v < 0 || !b.givesWay(v, i) {
			continue
		}
		if b.W.Out[i] {
			x.slot = b.outputSlot(x)
		}
		b.nodes[v].heir, b.nodes[v].slot = i, x.slot
	}
}

// largeTemp is the size from which a value takes over another one's buffer that it does not update, in bytes.
const largeTemp = 1 << 20

// updated gives the local value that node i updates, or may be written over; -1 when there is none.
func (b *Builder) updated(i int) int {
	x := &b.nodes[i]
	if x.n.Op >= ir.OpProj {
		return -1
	}
	over := b.writtenOver(x)
	if over < 0 || x.edges[over].Value == 0 || !wholeEdge(b.S.G, x.edges[over]) {
		return -1
	}
	m := b.S.G.Node(x.edges[over].Value).Mark
	if m&extBit != 0 {
		return -1
	}
	for j, e := range x.edges {
		if j != over && e.Value != 0 && b.S.G.Node(e.Value).Mark == m {
			return -1
		}
	}
	return int(m - 1)
}

// writtenOver gives the edge of x that it updates or may be written over; -1 for none and for small values.
func (b *Builder) writtenOver(x *node) int {
	p := op.PrimOf(op.PrimID(x.n.Op))
	if p.Updates {
		return 0
	}
	if x.n.NProj > 0 || len(p.InPlace) == 0 || b.bytes(ir.AvalOf(x.n.Aval)) < largeTemp {
		return -1
	}
	for _, q := range p.InPlace {
		if q[0] == 0 {
			return q[1]
		}
	}
	return -1
}

// givesWay reports that value v may end as that of node i.
func (b *Builder) givesWay(v, i int) bool {
	x, y := &b.nodes[i], &b.nodes[v]
	if x.slot >= 0 && x.heir < 0 {
		return false // a store's place: what it held before may be read until then
	}
	return y.slot < 0 && !b.W.Out[v] && y.lastUse == i && b.bytes(ir.AvalOf(y.n.Aval)) == b.bytes(ir.AvalOf(x.n.Aval))
}
