package compile

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/kernels/device"
)

// Decisions is what planning decided about a program, for people who look at a plan. Building a plan keeps none of it:
// Explain builds the plan again.
type Decisions struct {
	Plan   *Plan
	Passes []PassNotes
	// ComputedBy is, by node, the node whose kernels compute its value: itself, or the node that it was fused into.
	ComputedBy []int
	Lifetimes  []Lifetime
}

// PassNotes is what one pass decided.
type PassNotes struct {
	Name     string         `json:"name"`
	Reason   string         `json:"reason"`
	Optional bool           `json:"optional"`
	Off      bool           `json:"off"`   // it was left out
	Notes    map[int]string `json:"notes"` // by node, as dumps print them; read when the pass has run
}

// Lifetime is a stretch of a program for which a buffer holds the values of Nodes, which take it one after another.
type Lifetime struct {
	Slot int `json:"buffer"` // the plan's slot; -1: the values need no memory
	// First is the node that makes the first value, -1 where the buffer is older than the program. Last is the last node
	// that needs the buffer; the number of nodes where it outlives the program.
	First int   `json:"first"`
	Last  int   `json:"last"`
	Bytes int64 `json:"bytes"`
	Nodes []int `json:"nodes"` // none for a buffer within one node
}

// Explain builds the plan of Program as Build does, and returns it with what the passes decided.
func (b *Builder) Explain() (*Decisions, error) {
	b.notes = make([]PassNotes, 0, len(passes))
	p, err := b.Build()
	if err != nil {
		return nil, err
	}
	d := &Decisions{Plan: p, Passes: b.notes, Lifetimes: b.lifetimes(), ComputedBy: make([]int, len(b.Program.Nodes))}
	for i := range d.ComputedBy {
		d.ComputedBy[i] = b.computedBy(i)
	}
	return d, nil
}

// noteAll keeps what pass p decided.
func (b *Builder) noteAll(p *pass) {
	n := PassNotes{Name: p.name, Reason: p.reason, Optional: p.optional, Notes: map[int]string{},
		Off: slices.Contains(b.Debug.Off, p.name)}
	for i := 0; i < len(b.Program.Nodes) && !n.Off; i++ {
		if text := p.note(b, i); text != "" {
			n.Notes[i] = text
		}
	}
	b.notes = append(b.notes, n)
}

// computedBy returns the node whose kernels compute the value of node i.
func (b *Builder) computedBy(i int) int {
	for range b.Program.Nodes { // a fused node may be fused into one that is fused too
		next := b.uses.main[i]
		for _, table := range []links{b.fused.in, b.folded, b.summed, b.normed, b.appended} {
			if at, ok := table.at(i); ok {
				next = at
			}
		}
		if b.elided[i] {
			next = b.Program.OperandsOf(i)[1].Value.Index() // the node that writes the view
		}
		if next == i {
			break
		}
		i = next
	}
	return i
}

// lifetimes lists how long the plan's buffers hold which values.
func (b *Builder) lifetimes() []Lifetime {
	bySlot := make([]Lifetime, len(b.memory.to))
	for slot := range bySlot {
		bySlot[slot] = Lifetime{Slot: b.memory.to[slot], First: math.MaxInt, Last: len(b.Program.Nodes), Nodes: []int{}}
		if bySlot[slot].Slot >= len(b.p.Slots) {
			bySlot[slot].Slot = -1
		} else if s := &b.p.Slots[bySlot[slot].Slot]; s.Kind == External {
			bySlot[slot].First, bySlot[slot].Bytes = -1, s.Bytes
		}
	}
	for i := range b.Program.Nodes {
		if slot, ok := b.slots.at(i); ok {
			l := &bySlot[slot]
			l.Nodes, l.Bytes = append(l.Nodes, i), max(l.Bytes, b.bytes(b.aval(i)))
			l.First = min(l.First, b.computedBy(i))
		}
	}
	for _, t := range b.lowering.temps {
		l := &bySlot[t.slot]
		l.First, l.Last = t.born, t.dies
		if b.memory.until != nil {
			l.Last = b.memory.until[t.dies]
		}
		if len(l.Nodes) == 0 && l.Slot >= 0 {
			l.Bytes = b.p.Slots[l.Slot].Bytes
		}
	}
	return bySlot
}

// PoolBytes is the memory that a slot's buffer takes: its bytes, rounded up to the size class.
func (s *Slot) PoolBytes() int64 { return device.SizeClass(s.Bytes) }

// String names a kind of slot.
func (k SlotKind) String() string {
	return [...]string{External: "input", Output: "output", Temp: "buffer"}[k]
}
