package compile

import (
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// storeInPlace lets a store write the storage of the previous version, if
//
//	(i)   nothing but the base and the program refers to that version,
//	(ii)  nothing reads it after the node that makes the new one, and
//	(iii) that node reads of it only the very elements that it writes.
func (b *Builder) storeInPlace() error {
	for k := range b.Program.Stores {
		if slot, ok := b.placeOver(&b.Program.Stores[k]); ok {
			b.slots.set(b.Program.Stores[k].Value.Index(), slot)
			b.p.InPlace++
		}
	}
	return nil
}

// placeOver returns the slot of the previous version if store st may overwrite it.
func (b *Builder) placeOver(st *program.Store) (slot int, ok bool) {
	if !st.Value.IsNode() || st.Prev == 0 {
		return 0, false
	}
	v := st.Value.Index()
	if b.slots.has(v) || st.Flags&program.Exclusive == 0 {
		return 0, false
	}
	main, last := b.uses.main[v], 0
	if prev := st.Prev.Index(); st.Prev.IsInput() {
		slot, last = prev, b.uses.input[prev]
	} else {
		if b.live(prev) {
			return 0, false
		}
		if !b.slots.has(prev) {
			// The storage of the previous version becomes that of this one: it gets an output slot now.
			b.slots.set(prev, b.outputSlot(prev))
		}
		slot, _ = b.slots.at(prev)
		last = b.uses.last[prev]
		if b.uses.main[prev] >= main {
			return 0, false // the new version existed before the old one: copy_ of an earlier value
		}
	}
	if last > main || !b.mayWriteOver(v, st.Prev) || b.p.Slots[slot].Bytes != b.bytes(b.aval(v)) {
		return 0, false
	}
	return slot, true
}

func (b *Builder) noteInPlace(i int) string {
	for k := range b.Program.Stores {
		st := &b.Program.Stores[k]
		if slot, ok := b.slots.at(i); ok && st.Value == program.NodeRef(i) && st.Prev != 0 && b.slotOf(st.Prev) == slot {
			return "in place of " + refText(st.Prev)
		}
	}
	return ""
}

// mayWriteOver reports that every read of the previous version comes first, so that the new version may take its
// buffer.
func (b *Builder) mayWriteOver(v int, prev program.Ref) bool {
	p, main := b.Program, b.uses.main[v]
	if !p.Nodes[main].IsPrim() {
		return false
	}
	prim, output := p.Prim(main), 0
	if main != v {
		output = int(p.Nodes[v].Attr)
	}
	edges := p.OperandsOf(main)
	if prim.WritesView {
		return edges[1].Value != prev && p.Whole(main, 0)
	}
	for j, e := range edges {
		if e.Value == prev && (!p.Whole(main, j) || !(prim.Elementwise || pairs(prim, output, j))) {
			return false
		}
	}
	return true
}

func pairs(p *op.Prim, out, in int) bool {
	for _, q := range p.InPlace {
		if q[0] == out && q[1] == in {
			return true
		}
	}
	return false
}

// aval is the abstract value of node i.
func (b *Builder) aval(i int) *ir.Aval { return ir.AvalOf(b.Program.Nodes[i].Aval) }

// slotOf is the slot of a value that has one.
func (b *Builder) slotOf(r program.Ref) int {
	if r.IsInput() {
		return r.Index() // inputs have the first slots
	}
	slot, _ := b.slots.at(r.Index())
	return slot
}
