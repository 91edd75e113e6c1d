package plan

import (
	"slices"

	"github.com/torchlette/torchlette/engine/device"
	"github.com/torchlette/torchlette/engine/ir"
)

// temporary is a slot that does not outlive the plan. While nodes are lowered each has a number of its own; when the steps are
// known, place gives memory to those that need any.
type temporary struct{ slot, born, dies int } // by local number: the node that makes it, and the one that reads it last

// place gives each temporary that needs memory a buffer, that of an earlier one which is dead where there is one, and numbers the steps' slots anew.
func (b *Builder) place() error {
	c := &chains{b: b}
	if err := c.find(); err != nil {
		return err
	}
	p := b.share(c.inner, nil)
	if c.inner != nil {
		// Steps that share a buffer may part where they did not before, and then what is made and read between them had no place.
		held, err := c.hold(p.to)
		if err != nil {
			return err
		}
		if !held {
			p = b.share(c.inner, c.until())
		}
	}
	b.p.Slots, b.p.Temps = p.slots, p.temps
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

// share walks the nodes and gives each temporary, but those of inner, a buffer where it is born, which is free again after the node where it dies, or
// that of until.
func (b *Builder) share(inner []bool, until []int) *placement {
	p := &placement{to: make([]int, len(b.p.Slots)), free: map[freeKey][]int{}, made: map[freeKey]int{}}
	for n := range b.p.Slots {
		if b.p.Slots[n].Kind != Temp {
			p.to[n] = len(p.slots)
			p.slots = append(p.slots, b.p.Slots[n])
		}
	}
	dead := make([][]int, len(b.nodes)) // by local number: temporaries that are free after it
	next := 0
	for i := range b.nodes {
		for ; next < len(b.temps) && b.temps[next].born == i; next++ {
			t := b.temps[next]
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

// chains are the steps that devices work tile by tile together.
type chains struct {
	b     *Builder
	ends  [][]int // by segment and step: the last step of its chain; nil for a segment of a device that has none
	inner []bool  // by slot: it needs no memory; nil when there is no such slot
}

func (c *chains) device(s *Segment) device.Chainer {
	if s.Transfer || c.b.Chainer == nil {
		return nil
	}
	return c.b.Chainer(s.Dev)
}

// find asks the devices for chains, and for the temporaries that need no memory.
func (c *chains) find() error {
	b := c.b
	c.ends = make([][]int, len(b.p.Segments))
	var bytes []int64
	var home []int
	for i := range b.p.Segments {
		s := &b.p.Segments[i]
		d := c.device(s)
		if d == nil {
			continue
		}
		if home == nil {
			home = b.homes()
			for n := range b.p.Slots {
				bytes = append(bytes, b.p.Slots[n].Bytes)
			}
		}
		inner := make([]bool, len(home))
		for n, h := range home {
			inner[n] = h == i+1
		}
		var err error
		if c.ends[i], err = d.Chains(s.Steps, bytes, inner); err != nil {
			return err
		}
		if !slices.Contains(inner, true) {
			continue
		}
		if c.inner == nil {
			c.inner = inner
			continue
		}
		for n, in := range inner {
			c.inner[n] = c.inner[n] || in
		}
	}
	return nil
}

// homes gives, by slot, 1 + the number of the segment that alone uses it, where it is a temporary.
func (b *Builder) homes() []int {
	home := make([]int, len(b.p.Slots))
	const several = -1
	for n := range b.p.Slots {
		if b.p.Slots[n].Kind != Temp {
			home[n] = several
		}
	}
	for i := range b.p.Segments {
		s := &b.p.Segments[i]
		if s.Transfer {
			home[s.From], home[s.To] = several, several
		}
		for _, st := range s.Steps {
			for _, n := range st.Bufs {
				if home[n] == 0 {
					home[n] = i + 1
				} else if home[n] != i+1 {
					home[n] = several
				}
			}
		}
	}
	return home
}

// hold reports that the chains are as long where slots are numbered by to.
func (c *chains) hold(to []int) (bool, error) {
	for i := range c.b.p.Segments {
		s := &c.b.p.Segments[i]
		if c.ends[i] == nil {
			continue
		}
		steps := slices.Clone(s.Steps)
		for n := range steps {
			bufs := cut(&c.b.stepBufs, len(steps[n].Bufs))
			copy(bufs, steps[n].Bufs)
			renumber(bufs, to)
			steps[n].Bufs = bufs
		}
		ends, err := c.device(s).Chains(steps, nil, nil)
		if err != nil || !slices.Equal(ends, c.ends[i]) {
			return false, err
		}
	}
	return true, nil
}

// until gives, by local number, itself or the last node of the chain that it is in.
func (c *chains) until() []int {
	until := make([]int, len(c.b.nodes))
	for i := range until {
		until[i] = i
	}
	for i, ends := range c.ends {
		steps := c.b.p.Segments[i].Steps
		for n := 0; n < len(ends); n = ends[n] + 1 {
			last := int(steps[ends[n]].Event) - 1
			for k := int(steps[n].Event) - 1; k < last; k++ {
				until[k] = last
			}
		}
	}
	return until
}
