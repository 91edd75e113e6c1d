package compile

import (
	"cmp"
	"slices"
)

// arenaAlign is the alignment of temporaries in an arena: a cache line.
const arenaAlign = 64

// Arena is one buffer with all temporaries of a plan.
type Arena struct {
	Bytes int64
	Parts []ArenaPart // by size, the largest first
}

// ArenaPart is the place of a temporary, which the nodes First to Last need.
type ArenaPart struct{ Offset, Bytes, First, Last int64 }

// Sum is the bytes of all temporaries, without sharing.
func (a *Arena) Sum() (bytes int64) {
	for _, p := range a.Parts {
		bytes += p.Bytes
	}
	return bytes
}

// Live is the most that temporaries take at one time.
func (a *Arena) Live() (most int64) {
	for _, at := range a.Parts {
		live := int64(0)
		for _, p := range a.Parts {
			if p.First <= at.First && at.First <= p.Last {
				live += p.Bytes
			}
		}
		most = max(most, live)
	}
	return most
}

// placed is a temporary with its place in the arena and the span of nodes in which it needs that.
type placed struct {
	slot     int // in the new numbering
	size, at int64
	span
}

// arena gives each temporary not in inner an offset in one buffer: the largest first, each at the lowest offset that no
// temporary of an overlapping lifetime uses. The steps of a tile group run interleaved, so a temporary of one of them
// lives as long as the group.
func (b *Builder) arena(inner []bool) (*placement, error) {
	tiles := b.tiles
	if tiles == nil { // the pass is left out; devices form groups all the same
		tiles = &tileTable{b: b}
		if err := tiles.find(); err != nil {
			return nil, err
		}
	}
	begins, ends := tiles.groups()
	p := &placement{to: make([]int, len(b.p.Slots))}
	for n := range b.p.Slots {
		if s := &b.p.Slots[n]; s.Kind != Temp {
			p.to[n] = len(p.slots)
			p.add(s, span{})
		}
	}
	var list []placed
	for _, t := range b.lowering.temps {
		if inner != nil && inner[t.slot] {
			continue
		}
		p.to[t.slot] = p.temporary(&b.p.Slots[t.slot], span{})
		size := (b.p.Slots[t.slot].Bytes + arenaAlign - 1) &^ (arenaAlign - 1)
		list = append(list, placed{slot: p.to[t.slot], size: size, span: span{begins[t.born], ends[t.dies]}})
	}
	last := len(p.slots)
	for n, in := range inner {
		if in {
			p.to[n] = last
			last++
		}
	}
	b.p.Arena.Bytes = firstFit(list)
	for _, x := range list {
		p.slots[x.slot].Offset = x.at
		b.p.Arena.Parts = append(b.p.Arena.Parts, ArenaPart{x.at, x.size, int64(x.begin), int64(x.end)})
	}
	return p, nil
}

// firstFit sets the places, and returns the size of the arena.
func firstFit(list []placed) (bytes int64) {
	slices.SortStableFunc(list, func(x, y placed) int { return cmp.Compare(y.size, x.size) })
	var beside []placed // what is placed and lives at the same time, by place
	for i := range list {
		x := &list[i]
		beside = beside[:0]
		for _, y := range list[:i] {
			if y.span.begin <= x.span.end && x.span.begin <= y.span.end {
				beside = append(beside, y)
			}
		}
		slices.SortFunc(beside, func(y, z placed) int { return cmp.Compare(y.at, z.at) })
		for _, y := range beside {
			if x.at+x.size <= y.at {
				break
			}
			x.at = max(x.at, y.at+y.size)
		}
		bytes = max(bytes, x.at+x.size)
	}
	return bytes
}

// groups returns, for each node, the first and the last node of its tile group, or the node itself.
func (c *tileTable) groups() (begins, ends []int) {
	ends = c.until()
	begins = make([]int, len(ends))
	for i := range begins {
		begins[i] = i
		if i > 0 && ends[begins[i-1]] >= i {
			begins[i] = begins[i-1]
		}
	}
	return begins, ends
}
