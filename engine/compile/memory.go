package compile

import (
	"fmt"
	"github.com/torchlette/torchlette/kernels/device"

	"github.com/torchlette/torchlette/ir"
)

// temporary is a slot that does not outlive the plan, with the node that makes it and the last node that reads it.
// While nodes are lowered each has a number of its own. The pass "memory" then assigns buffers to those that need one.
type temporary struct{ slot, born, dies int }

// memory is the table of the pass "memory".
type memory struct {
	to    []int // by the number that a slot had before: its number in the plan
	until []int // by node: the node up to which what it reads keeps its buffer; nil: itself
}

// assignMemory assigns a buffer to each temporary that needs memory: the buffer of a dead temporary where there is one.
// Then it renumbers the steps' slots.
func (b *Builder) assignMemory() error {
	var inner []bool
	if b.tiles != nil {
		inner = b.tiles.inner
	}
	p := b.share(inner, nil)
	if inner != nil {
		// Steps that share a buffer may no longer form one fusion group, and a value between them that had no memory
		// then needs some.
		held, err := b.tiles.hold(p.to)
		if err != nil {
			return err
		}
		if !held {
			b.memory.until = b.tiles.until()
			p = b.share(inner, b.memory.until)
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
	return fmt.Sprintf("%s %d: %d bytes", s.Kind, s.Index, s.Bytes)
}

func renumber(slots, to []int) {
	for i, s := range slots {
		slots[i] = to[s]
	}
}

// placement is the new numbering of slots in to; slots without memory come last.
type placement struct {
	slots []Slot
	to    []int
	temps int
	free  map[freeKey][]int // dead buffers
	made  map[freeKey]int
}

type freeKey struct {
	dev   ir.DeviceID
	bytes int64
}

func (b *Builder) key(s *Slot) freeKey { return freeKey{s.Dev, device.SizeClass(s.Bytes)} }

// share walks the nodes and assigns a buffer to each temporary not in inner. A temporary gets its buffer where it is
// born, and frees it after the node where it dies, or after the node in until for that node.
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

// On an asynchronous device a temporary is reused as late as possible, and a small one only where its class has many.
// Steps that share no buffer can overlap or be merged.
const (
	smallTemp = 4 << 10
	manySmall = 64
)
