package compile

import (
	"slices"

	"github.com/torchlette/torchlette/kernels/device"
)

// tileTable is the table of the pass "tiles": the groups of steps that devices work tile by tile.
type tileTable struct {
	b     *Builder
	ends  [][]int // by segment and step: the last step of its fusion group; nil for a segment whose device has none
	inner []bool  // by slot: it needs no memory; nil where no slot is such
}

// findTiles asks the devices for their tile groups.
func (b *Builder) findTiles() error {
	b.tiles = &tileTable{b: b}
	return b.tiles.find()
}

func (b *Builder) noteTiles(i int) string {
	if slot, ok := b.slots.at(i); ok && b.tiles.inner != nil && slot < len(b.tiles.inner) && b.tiles.inner[slot] {
		return "lives within a tile"
	}
	return ""
}

func (c *tileTable) device(s *Segment) device.TileFuser {
	if !s.runs() || c.b.TileFuser == nil {
		return nil
	}
	return c.b.TileFuser(s.Dev)
}

// find asks the devices for tile groups, and for the temporaries that need no memory.
func (c *tileTable) find() error {
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
		if c.ends[i], err = d.FusionGroups(s.Steps, bytes, inner); err != nil {
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

// homes returns, for each slot, 1 + the number of the only segment that uses it, where it is a temporary.
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

// hold reports that the tile groups are unchanged if slots are numbered by to.
func (c *tileTable) hold(to []int) (bool, error) {
	for i := range c.b.p.Segments {
		s := &c.b.p.Segments[i]
		if c.ends[i] == nil {
			continue
		}
		steps := slices.Clone(s.Steps)
		for n := range steps {
			bufs := cut(&c.b.lowering.stepBufs, len(steps[n].Bufs))
			copy(bufs, steps[n].Bufs)
			renumber(bufs, to)
			steps[n].Bufs = bufs
		}
		ends, err := c.device(s).FusionGroups(steps, nil, nil)
		if err != nil || !slices.Equal(ends, c.ends[i]) {
			return false, err
		}
	}
	return true, nil
}

// until returns, for each node, the last node of its tile group, or the node itself.
func (c *tileTable) until() []int {
	until := make([]int, len(c.b.Program.Nodes))
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
