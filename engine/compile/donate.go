package compile

import (
	"fmt"
)

// donate lets a value that updates another one (a scatter), or a large one that is made element by element of another
// one (the cotangent of the logits), have the buffer of that one, where it is read for the last time there: no copy is
// made, and no second buffer. donations is set along the chain; a chain that ends outside the window gets its output's
// slot at once.
func (b *Builder) donate() error {
	for i := len(b.Program.Nodes) - 1; i >= 0; i-- {
		v, ok := b.updated(i)
		if !ok || !b.canDonate(v, i) {
			continue
		}
		if b.live(i) {
			b.slots.set(i, b.outputSlot(i))
		}
		b.donations.set(v, i)
		b.slots[v] = b.slots[i]
	}
	return nil
}

func (b *Builder) noteDonated(i int) string {
	if taker, ok := b.donations.at(i); ok {
		return fmt.Sprintf("buffer goes to %%%d", taker)
	}
	return ""
}

// largeTemp is the size from which a value reuses another one's buffer that it does not update, in bytes.
const largeTemp = 1 << 20

// updated gives the node whose value node i updates, or may be written over.
func (b *Builder) updated(i int) (v int, ok bool) {
	p := b.Program
	if !p.Nodes[i].IsPrim() {
		return 0, false
	}
	over, ok := b.writtenOver(i)
	edges := p.OperandsOf(i)
	if !ok || !edges[over].Value.IsNode() || !p.Whole(i, over) {
		return 0, false
	}
	for j, e := range edges {
		if j != over && e.Value == edges[over].Value {
			return 0, false
		}
	}
	return edges[over].Value.Index(), true
}

// writtenOver gives the operand of node i that it updates or may be written over; not those of small values.
func (b *Builder) writtenOver(i int) (operand int, ok bool) {
	prim := b.Program.Prim(i)
	if prim.UpdatesInput {
		return 0, true
	}
	if b.Program.Nodes[i].Outputs > 1 || len(prim.InPlace) == 0 || b.bytes(b.aval(i)) < largeTemp {
		return 0, false
	}
	for _, q := range prim.InPlace {
		if q[0] == 0 {
			return q[1], true
		}
	}
	return 0, false
}

// canDonate reports that value v may end as that of node i.
func (b *Builder) canDonate(v, i int) bool {
	if b.slots.has(i) && !b.donations.has(i) {
		return false // a store's place: what it held before may be read until then
	}
	return !b.slots.has(v) && !b.live(v) && b.uses.last[v] == i && b.bytes(b.aval(v)) == b.bytes(b.aval(i))
}
