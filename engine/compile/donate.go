package compile

import (
	"fmt"
)

// donate lets a result take the buffer of an operand that nobody reads afterwards. Two kinds of results do: one that
// updates its operand, such as a scatter, then needs no copy; a large elementwise one, such as the cotangent of the
// logits, needs no second buffer. donations maps results to operands. A chain of donations whose last result is live
// outside the window gets that result's output slot at once.
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

// largeTemp is the size in bytes from which an elementwise result takes an operand's buffer.
const largeTemp = 1 << 20

// updated returns the node whose value node i updates or may overwrite.
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

// writtenOver returns the operand that node i updates or may overwrite; a small value is not overwritten.
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

// canDonate reports that value v may give its buffer to node i.
func (b *Builder) canDonate(v, i int) bool {
	if b.slots.has(i) && !b.donations.has(i) {
		return false // a store's buffer: its old content may be read until the store
	}
	return !b.slots.has(v) && !b.live(v) && b.uses.last[v] == i && b.bytes(b.aval(v)) == b.bytes(b.aval(i))
}
