package compile

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// temporary is a slot that does not outlive the plan, with the node that makes it and the last node that reads it.
// While nodes are lowered, each temporary has a separate slot. The pass "memory" then assigns buffers to those that
// need one.
type temporary struct{ slot, born, dies int }

// memory is the table of the pass "memory".
type memory struct {
	to    []int // by the number that a slot had before: its number in the plan
	until []int // by node: the node up to which its operands keep their buffers; nil: itself
}

// assignMemory assigns a buffer to each temporary that needs memory: the buffer of a dead temporary where there is one.
// Then it renumbers the steps' slots.
func (b *Builder) assignMemory() error {
	inner := b.withoutMemory()
	if b.Arena {
		p, err := b.arena(inner)
		if err == nil {
			b.renumber(p)
		}
		return err
	}
	p := b.share(inner, nil)
	if inner != nil {
		// Steps that share a buffer may no longer form one tile group, and a value between them that had no memory then
		// needs some.
		held, err := b.tiles.hold(p.to)
		if err != nil {
			return err
		}
		if !held {
			b.memory.until = b.tiles.until()
			p = b.share(inner, b.memory.until)
		}
	}
	b.renumber(p)
	return nil
}

// renumber gives the plan the slots of a placement.
func (b *Builder) renumber(p *placement) {
	b.p.Slots, b.p.Temps, b.memory.to = p.slots, p.temps, p.to
	if len(b.sections.cuts) > 0 {
		b.p.Most = p.most()
		for n := range p.slots {
			if used := p.spans[n]; p.slots[n].Kind != External {
				first, last := &b.p.Segments[used.begin], &b.p.Segments[used.end]
				first.Acquires = append(first.Acquires, n)
				if p.slots[n].Kind == Temp {
					last.Releases = append(last.Releases, n)
				}
			}
		}
	}
	for i := range b.p.Segments {
		s := &b.p.Segments[i]
		if s.Transfer {
			s.From, s.To = p.to[s.From], p.to[s.To]
		}
		if s.Repeat != nil && s.Repeat.Begin == i && s.Repeat.Flag >= 0 {
			s.Repeat.Flag = p.to[s.Repeat.Flag]
		}
		for _, st := range s.Steps {
			renumber(st.Bufs, p.to)
		}
	}
	for i := range b.p.Results {
		r := &b.p.Results[i]
		r.Slot = p.to[r.Slot]
	}
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
	spans []span // by slot: the sections that it is used in
	to    []int
	temps int
	free  map[freeKey][]int // dead small buffers
	made  map[freeKey]int
	large map[freeKey][]*sharedBuffer
	sizes map[ir.DeviceID][]int64 // the classes in large, in order
}

// most is the largest sum of the slots' bytes in a section.
func (p *placement) most() (bytes int64) {
	change := map[int]int64{}
	for n := range p.slots {
		if s := &p.slots[n]; s.Kind != External {
			change[p.spans[n].begin] += s.PoolBytes()
			change[p.spans[n].end+1] -= s.PoolBytes()
		}
	}
	now := int64(0)
	for _, section := range slices.Sorted(maps.Keys(change)) {
		now += change[section]
		bytes = max(bytes, now)
	}
	return bytes
}

type freeKey struct {
	dev   ir.DeviceID
	bytes int64
}

func (b *Builder) key(s *Slot) freeKey { return freeKey{s.Dev, device.SizeClass(s.Bytes)} }

// share assigns a buffer to each temporary not in inner. A temporary gets its buffer where it is born, and frees it
// after the node where it dies, or after the node in until for that node.
func (b *Builder) share(inner []bool, until []int) *placement {
	p := &placement{to: make([]int, len(b.p.Slots)), free: map[freeKey][]int{}, made: map[freeKey]int{}}
	all := span{0, b.sections.last()}
	outputs := make([][]sharedBuffer, all.end+1) // by section: those that are written there first
	born := b.firstUses()
	for n := range b.p.Slots {
		s := &b.p.Slots[n]
		if s.Kind == Temp {
			continue
		}
		p.to[n] = len(p.slots)
		used := all
		if s.Kind == Output && born[n] < math.MaxInt {
			used.begin = b.sections.of(born[n])
		}
		if s.Kind == Output && s.Bytes >= sharedBytes && born[n] > 0 {
			outputs[used.begin] = append(outputs[used.begin], sharedBuffer{len(p.slots), []span{{born[n], math.MaxInt}}})
		}
		p.add(s, used)
	}
	var small []temporary
	large := make([][]temporary, all.end+1) // by section in which they are born
	for _, t := range b.lowering.temps {
		if inner != nil && inner[t.slot] {
			continue
		}
		if until != nil {
			t.dies = until[t.dies]
		}
		if b.p.Slots[t.slot].Bytes >= sharedBytes {
			k := b.sections.of(t.born)
			large[k] = append(large[k], t)
		} else {
			small = append(small, t)
		}
	}
	b.placeSections(p, outputs, large)
	b.placeSmall(p, small)
	last := len(p.slots)
	for n, in := range inner {
		if in {
			p.to[n] = last
			last++
		}
	}
	return p
}

// add makes a slot like s that is used in some sections.
func (p *placement) add(s *Slot, used span) {
	p.slots, p.spans = append(p.slots, *s), append(p.spans, used)
}

// placeSections assigns buffers to the large temporaries of each section. A temporary that outlives its section shares
// its buffer with no other until the section where it dies.
func (b *Builder) placeSections(p *placement, outputs [][]sharedBuffer, temps [][]temporary) {
	var kept []temporary // that outlive the section where they are born
	for k := range temps {
		p.large, p.sizes = map[freeKey][]*sharedBuffer{}, map[ir.DeviceID][]int64{}
		for n := range outputs[k] {
			p.share(b.key(&p.slots[outputs[k][n].slot]), &outputs[k][n])
		}
		kept = slices.DeleteFunc(kept, func(t temporary) bool { return b.sections.of(t.dies) < k })
		for _, t := range kept {
			p.share(b.key(&p.slots[p.to[t.slot]]), &sharedBuffer{p.to[t.slot], []span{{-1, t.dies}}})
		}
		b.placeLarge(p, temps[k], k)
		for _, t := range temps[k] {
			if last := b.sections.of(t.dies); last > k {
				p.spans[p.to[t.slot]].end = last
				kept = append(kept, t)
			}
		}
	}
}

// firstUses returns, by slot, the first node whose steps use it; the largest int for none.
func (b *Builder) firstUses() []int {
	first := make([]int, len(b.p.Slots))
	for n := range first {
		first[n] = math.MaxInt
	}
	for i := range b.p.Segments {
		s := &b.p.Segments[i]
		if s.Transfer {
			first[s.To] = min(first[s.To], int(s.Event)-1)
		}
		for k := range s.Steps {
			for _, n := range s.Steps[k].Bufs {
				first[n] = min(first[n], int(s.Steps[k].Event)-1)
			}
		}
	}
	return first
}

// sharedBytes is the size from which temporaries share buffers by placeLarge.
const sharedBytes = 64 << 10

// sharedBuffer is a buffer with the spans of nodes in which it is taken, in order. An output is taken from the node
// that first writes it; before that, temporaries may use its buffer.
type sharedBuffer struct {
	slot int
	busy []span
}

type span struct{ begin, end int }

// gap returns where the span from begin to end belongs in the busy ones, if it overlaps none, and the node after which
// the buffer is idle, -1 if it is unused before.
func (s *sharedBuffer) gap(begin, end int) (at, idle int, ok bool) {
	at, _ = slices.BinarySearchFunc(s.busy, begin, func(x span, begin int) int { return cmp.Compare(x.begin, begin) })
	if idle = -1; at > 0 {
		idle = s.busy[at-1].end
	}
	return at, idle, idle < begin && (at == len(s.busy) || s.busy[at].begin > end)
}

func (p *placement) share(k freeKey, s *sharedBuffer) {
	sizes := p.sizes[k.dev]
	if at, found := slices.BinarySearch(sizes, k.bytes); !found {
		p.sizes[k.dev] = slices.Insert(sizes, at, k.bytes)
	}
	p.large[k] = append(p.large[k], s)
}

// placeLarge assigns buffers by size, the largest temporary first. Each takes the smallest buffer that is idle while it
// lives, so a later, smaller one fits into what the larger ones left.
func (b *Builder) placeLarge(p *placement, temps []temporary, section int) {
	slices.SortStableFunc(temps, func(s, t temporary) int {
		return cmp.Compare(device.SizeClass(b.p.Slots[t.slot].Bytes), device.SizeClass(b.p.Slots[s.slot].Bytes))
	})
	for _, t := range temps {
		s := &b.p.Slots[t.slot]
		key := b.key(s)
		shared, at := p.idle(key, t, b.Caps(s.Dev).Async)
		if shared != nil && b.sections.of(t.dies) > section && b.key(&p.slots[shared.slot]) != key {
			shared, at = nil, 0 // a larger buffer would be kept for longer
		}
		if shared == nil {
			shared = &sharedBuffer{slot: p.temporary(s, span{section, section})}
			p.share(key, shared)
		}
		shared.busy = slices.Insert(shared.busy, at, span{t.born, t.dies})
		p.to[t.slot] = p.reused(shared.slot, s)
	}
}

// idle returns a buffer of the smallest class from k on that is idle while t lives, and the place of t in its spans. On
// an asynchronous device it is the one idle for longest, so that steps that share no buffer can overlap or be merged;
// else the one used last, which is most likely in a cache.
func (p *placement) idle(k freeKey, t temporary, longest bool) (found *sharedBuffer, place int) {
	sizes := p.sizes[k.dev]
	from, _ := slices.BinarySearch(sizes, k.bytes)
	for _, bytes := range sizes[from:] {
		since := 0
		for _, s := range p.large[freeKey{k.dev, bytes}] {
			at, idle, ok := s.gap(t.born, t.dies)
			if ok && (found == nil || longest == (idle < since) && idle != since) {
				found, place, since = s, at, idle
			}
		}
		if found != nil {
			break
		}
	}
	return found, place
}

// temporary makes a slot for a temporary like s, which is used in some sections.
func (p *placement) temporary(s *Slot, used span) int {
	p.temps++
	p.add(&Slot{Kind: Temp, Index: p.temps - 1, Bytes: s.Bytes, Dev: s.Dev}, used)
	return len(p.slots) - 1
}

// placeSmall walks the nodes in order; a temporary takes a dead one's buffer of its size class.
func (b *Builder) placeSmall(p *placement, temps []temporary) {
	dead := make([][]int, len(b.Program.Nodes)) // by node: temporaries that are free after it
	next := 0
	for i := range b.Program.Nodes {
		for ; next < len(temps) && temps[next].born == i; next++ {
			t := temps[next]
			p.to[t.slot] = b.buffer(p, &b.p.Slots[t.slot])
			dead[t.dies] = append(dead[t.dies], t.slot)
		}
		for _, n := range dead[i] {
			k := b.key(&b.p.Slots[n])
			p.free[k] = append(p.free[k], p.to[n])
		}
	}
}

// buffer takes a dead buffer of the size class of s, or a new one.
func (b *Builder) buffer(p *placement, s *Slot) int {
	k := b.key(s)
	if f := p.free[k]; len(f) > 0 {
		if !b.Caps(s.Dev).Async {
			p.free[k] = f[:len(f)-1]
			return p.reused(f[len(f)-1], s) // the one most likely in a cache
		}
		if s.Bytes > smallTemp || p.made[k] >= manySmall {
			p.free[k] = f[1:]
			return p.reused(f[0], s)
		}
	}
	p.made[k]++
	return p.temporary(s, span{0, b.sections.last()})
}

// reused notes that slot n, of the same size class or a larger one, holds a temporary like s, too.
func (p *placement) reused(n int, s *Slot) int {
	p.slots[n].Bytes = max(p.slots[n].Bytes, s.Bytes)
	return n
}

// On an asynchronous device a small temporary is reused only where its class has many, and as late as possible.
const (
	smallTemp = 4 << 10
	manySmall = 64
)
