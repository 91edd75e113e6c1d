package compile

import (
	"fmt"
	"github.com/torchlette/torchlette/kernels/device"

	"github.com/torchlette/torchlette/ir"
)

// temporary is a slot that does not outlive the plan, with the node that makes it and the one that reads it last.
// While nodes are lowered each has a number of its own; when the steps are known, the pass "memory" gives buffers to
// those that need any.
type temporary struct{ slot, born, dies int }

// memory is the table of the pass "memory": by number that a slot had before, its number in the plan.
type memory struct{ to []int }

// assignMemory gives each temporary that needs memory a buffer, that of an earlier one which is dead where there is
// one, and numbers the steps' slots anew.
func (b *Builder) assignMemory() error {
	var inner []bool
	if b.tiles != nil {
		inner = b.tiles.inner
	}
	p := b.share(inner, nil)
	if inner != nil {
		// Steps that share a buffer may part where they did not before, and then what is made and read between them had no
		// place.
		held, err := b.tiles.hold(p.to)
		if err != nil {
			return err
		}
		if !held {
			p = b.share(inner, b.tiles.until())
		}
	}
	b.p.Slots, b.p.Temps, b.memory.to = p.slots, p.temps, p.to
	for i := range b.p.Segments {
		s := &b.p.Segments[i]
		if s.Transfer {
			s.From, s.To = p.to[s.From], p.to[s.To]
		}
		for _, st := range s.Steps {
			renumber(st.Bufs, p.to)
		}
	}
	for i := range b.p.Results {
		r := &b.p.Results[i]
		r.Slot = p.to[r.Slot]
	}
	return nil
}

func (b *Builder) noteMemory(i int) string {
	slot, ok := b.slots.at(i)
	if !ok {
		return ""
	}
	n := b.memory.to[slot]
	if n >= len(b.p.Slots) {
		return "no buffer"
	}
	s := &b.p.Slots[n]
	return fmt.Sprintf("%s %d: %d bytes", [...]string{External: "input", Output: "output", Temp: "buffer"}[s.Kind],
		s.Index, s.Bytes)
}

func renumber(slots, to []int) {
	for i, s := range slots {
		slots[i] = to[s]
	}
}

// placement is where slots are: to gives their new numbers, those without memory after all others.
type placement struct {
	slots []Slot
	to    []int
	temps int
	free  map[freeKey][]int // buffers that are dead
	made  map[freeKey]int
}

type freeKey struct {
	dev   ir.DeviceID
	bytes int64
}

func (b *Builder) key(s *Slot) freeKey { return freeKey{s.Dev, device.SizeClass(s.Bytes)} }

// share walks the nodes and gives each temporary, but those of inner, a buffer where it is born, which is free again
// after the node where it dies, or that of until.
func (b *Builder) share(inner []bool, until []int) *placement {
	p := &placement{to: make([]int, len(b.p.Slots)), free: map[freeKey][]int{}, made: map[freeKey]int{}}
	for n := range b.p.Slots {
		if b.p.Slots[n].Kind != Temp {
			p.to[n] = len(p.slots)
			p.slots = append(p.slots, b.p.Slots[n])
		}
	}
	dead := make([][]int, len(b.Program.Nodes)) // by node: temporaries that are free after it
	next := 0
	for i := range b.Program.Nodes {
		for ; next < len(b.lowering.temps) && b.lowering.temps[next].born == i; next++ {
			t := b.lowering.temps[next]
			if inner != nil && inner[t.slot] {
				continue
			}
			end := t.dies
			if until != nil {
				end = until[end]
			}
			p.to[t.slot] = b.buffer(p, &b.p.Slots[t.slot])
			dead[end] = append(dead[end], t.slot)
		}
		for _, n := range dead[i] {
			k := b.key(&b.p.Slots[n])
			p.free[k] = append(p.free[k], p.to[n])
		}
	}
	last := len(p.slots)
	for n, in := range inner {
		if in {
			p.to[n] = last
			last++
		}
	}
	return p
}

// buffer takes a dead buffer of the size class of s, or a new one.
func (b *Builder) buffer(p *placement, s *Slot) int {
	k := b.key(s)
	if f := p.free[k]; len(f) > 0 {
		if !b.Caps(s.Dev).Async {
			p.free[k] = f[:len(f)-1]
			return f[len(f)-1] // the one most likely in a cache
		}
		if s.Bytes > smallTemp || p.made[k] >= manySmall {
			p.free[k] = f[1:]
			return f[0]
		}
	}
	p.made[k]++
	p.temps++
	p.slots = append(p.slots, Slot{Kind: Temp, Index: p.temps - 1, Bytes: s.Bytes, Dev: s.Dev})
	return len(p.slots) - 1
}

// On an asynchronous device a temporary is reused as late as possible, and a small one only
// when there are many of its class: steps that share no buffer overlap, or are merged.
const (
	smallTemp = 4 << 10
	manySmall = 64
)
