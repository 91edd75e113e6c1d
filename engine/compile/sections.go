package compile

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/kernels/device"
)

// SectionsFrom is the size in bytes of a plan's buffers from which sections pay. A buffer that the pool frees and
// allocates again costs new pages.
const SectionsFrom = 16 << 20

// A plan has between leastSections and mostSections sections. They pay where they save one part in sectionsPay of its
// buffers, and more of them where they save one part in moreSectionsPay more.
const (
	leastSections   = 8
	mostSections    = 64
	sectionsPay     = 8
	moreSectionsPay = 32
)

// sectionTable is the table of the pass "sections": the first node of each section but the first. Without cuts the plan
// is one section.
type sectionTable struct{ cuts []int }

// of returns the section of a node.
func (c *sectionTable) of(node int) int {
	at, first := slices.BinarySearch(c.cuts, node)
	if first {
		at++
	}
	return at
}

// last is the number of the last section.
func (c *sectionTable) last() int { return len(c.cuts) }

// findSections cuts a plan of many bytes into sections. A section acquires the buffers that it is the first to use, and
// returns those that it is the last to use. So the plan needs the bytes of its largest section. The first node that
// writes a buffer older than the plan is in the last section, so a run that gets no buffer has changed nothing.
func (b *Builder) findSections() error {
	if b.Sections == 0 || len(b.p.Segments) != 1 || !b.p.Segments[0].runs() || b.Caps(b.p.Segments[0].Dev).Async {
		return nil
	}
	whole := b.share(b.withoutMemory(), nil).most()
	if whole < b.Sections {
		return nil
	}
	places := b.cutPlaces()
	least := whole - whole/sectionsPay
	var cuts []int
	for n := leastSections; n <= mostSections; n *= 2 {
		b.sections.cuts = places.evenly(n)
		if most := b.share(b.withoutMemory(), nil).most(); most < least {
			least, cuts = most-whole/moreSectionsPay, b.sections.cuts
		}
	}
	if b.sections.cuts = cuts; cuts != nil {
		b.cutSegment()
	}
	return nil
}

func (b *Builder) noteSections(i int) string {
	if slices.Contains(b.sections.cuts, i) {
		return "begins a section"
	}
	return ""
}

// withoutMemory has, by slot, whether it needs no memory; nil where all need some.
func (b *Builder) withoutMemory() []bool {
	if b.tiles == nil {
		return nil
	}
	return b.tiles.inner
}

// cutPlaces are the nodes that may begin a section, in order, and the bytes of all values made before each.
type cutPlaces struct {
	nodes []int
	bytes []int64
}

// cutPlaces lists the nodes with steps of their own that are not in the middle of a tile group, up to the first one
// that writes a buffer older than the plan.
func (b *Builder) cutPlaces() (c cutPlaces) {
	steps := b.p.Segments[0].Steps
	end := math.MaxInt
	if at := b.p.Overwrites; at.Segment == 0 {
		end = int(steps[at.Step].Event) - 1
	}
	made := make([]int64, len(b.Program.Nodes))
	for slot, node := range b.firstUses() {
		if s := &b.p.Slots[slot]; s.Kind != External && node < len(made) {
			made[node] += device.SizeClass(s.Bytes)
		}
	}
	var until []int
	if b.tiles != nil {
		until = b.tiles.until()
	}
	free, node := 0, -1 // the first node after the tile group of the steps before
	bytes := int64(0)
	for k := range steps {
		i := int(steps[k].Event) - 1
		if i == node {
			continue
		}
		if node >= 0 && i >= free && i <= end {
			c.nodes, c.bytes = append(c.nodes, i), append(c.bytes, bytes)
		}
		node, bytes = i, bytes+made[i]
		if free = max(free, i+1); until != nil {
			free = max(free, until[i]+1)
		}
	}
	return c
}

// evenly returns at most n-1 places that cut what is made into parts of about as many bytes.
func (c *cutPlaces) evenly(n int) (cuts []int) {
	if len(c.nodes) == 0 {
		return nil
	}
	all := c.bytes[len(c.bytes)-1]
	for k := 1; k <= n; k++ {
		at, _ := slices.BinarySearch(c.bytes, all*int64(k)/int64(n))
		if node := c.nodes[at]; len(cuts) == 0 || cuts[len(cuts)-1] < node {
			cuts = append(cuts, node)
		}
	}
	return cuts
}

// cutSegment makes a segment of each section.
func (b *Builder) cutSegment() {
	whole := b.p.Segments[0]
	var ends []int // of tile groups, by step
	if b.tiles != nil {
		ends = b.tiles.ends[0]
		b.tiles.ends = nil
	}
	b.p.Segments = nil
	over := b.p.Overwrites
	first := 0 // step
	for n := range len(b.sections.cuts) + 1 {
		last := len(whole.Steps)
		if n < len(b.sections.cuts) {
			last = slices.IndexFunc(whole.Steps, func(s device.Step) bool { return int(s.Event)-1 >= b.sections.cuts[n] })
		}
		b.p.Segments = append(b.p.Segments, Segment{Dev: whole.Dev, Steps: whole.Steps[first:last:last]})
		if b.tiles != nil {
			var part []int
			for k := first; k < last && ends != nil; k++ {
				part = append(part, ends[k]-first)
			}
			b.tiles.ends = append(b.tiles.ends, part)
		}
		if over.Segment == 0 && first <= over.Step && over.Step < last {
			b.p.Overwrites = StepPlace{n, over.Step - first}
		}
		first = last
	}
}
