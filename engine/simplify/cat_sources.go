package simplify

import (
	"slices"

	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// divideSources divides elementwise nodes whose value only elementwise nodes read, each of them one of its equal parts.
func divideSources(p *program.Program, args int) *program.Program {
	m := &catMove{search: newSearch(p, args), by: map[int]*division{}, parts: map[int][]view{},
		equal: map[[2]view]bool{}}
	m.contents = func(int) []byte { return nil }
	m.tied = make([]bool, len(p.Nodes))
	reads := m.reads()
	for i := len(p.Nodes) - 1; i >= 0; i-- {
		if m.constant[i] || m.tied[i] || !m.elementwise(i) || len(reads[i]) == 0 || m.ends(i) {
			continue
		}
		d := divisionBy(reads[i], ir.AvalOf(p.Nodes[i].Aval).Shape())
		if d == nil || !m.divisible(i, d, 0) {
			continue
		}
		m.by[i] = d
		for _, e := range p.OperandsOf(i) {
			if e.Value.IsNode() {
				m.tied[e.Value.Index()] = true // until i reads it by parts
			}
		}
	}
	if len(m.by) == 0 {
		return p
	}
	return rewritten(p, m.divide)
}

// ends reports that one kernel can compute node i and a node that is not elementwise, whose value it alone reads.
func (m *catMove) ends(i int) bool {
	for j := range m.p.OperandsOf(i) {
		if at, ok := m.only(i, j); ok && !m.elementwise(at) {
			return true
		}
	}
	return false
}

// reads lists, by node, the views by which elementwise nodes read its value; none if something else reads it.
func (m *catMove) reads() [][]view {
	list, p := make([][]view, len(m.p.Nodes)), m.p
	other := make([]bool, len(p.Nodes))
	for i := range p.Nodes {
		for j := range p.OperandsOf(i) {
			v := operand(p, i, j)
			if !v.ref.IsNode() {
				continue
			}
			list[v.ref.Index()] = append(list[v.ref.Index()], v)
			other[v.ref.Index()] = other[v.ref.Index()] || !m.elementwise(i)
		}
	}
	for _, r := range p.Results {
		if r.Value.IsNode() {
			other[r.Value.Index()] = true
		}
	}
	for i := range list {
		if other[i] {
			list[i] = nil
		}
	}
	return list
}

// divisionBy is the division of a value of this shape into parts, all of them read, that each of the views is within;
// nil if there is none. The parts are along a dim, or are the elements of its last dim that lie beside each other.
func divisionBy(reads []view, shape []int64) *division {
	for n := 2; n <= mostCatParts; n++ {
		for dim, size := range shape {
			if size%int64(n) != 0 {
				continue
			}
			d := &division{shape: shape, dim: dim, parts: n, behind: 1}
			if d.separates(reads) {
				return d
			}
			if dim == len(shape)-1 {
				d.shape = append(append(slices.Clone(shape[:dim]), size/int64(n)), int64(n))
				if d.dim++; d.separates(reads) {
					return d
				}
			}
		}
	}
	return nil
}

// separates reports that each view is within a part, and that there is one within each part.
func (d *division) separates(reads []view) bool {
	seen := make([]bool, d.parts)
	for _, v := range reads {
		k, _, ok := d.within(v)
		if !ok {
			return false
		}
		seen[k] = true
	}
	return !slices.Contains(seen, false)
}

// divide copies node i, by parts if it is divided, and lets it read the parts of what is divided.
func (m *catMove) divide(c *copier, i int) {
	if d := m.by[i]; d != nil {
		for k := range d.parts {
			m.parts[i] = append(m.parts[i], m.portion(c, i, d, k, 0))
		}
		return
	}
	c.node(i)
	first := len(c.to.Edges) - len(m.p.OperandsOf(i))
	for j := range m.p.OperandsOf(i) {
		v := operand(m.p, i, j)
		if !v.ref.IsNode() || m.by[v.ref.Index()] == nil {
			continue
		}
		k, dims, _ := m.by[v.ref.Index()].within(v)
		part := m.parts[v.ref.Index()][k].along(dims, v.layout.Shape)
		c.to.Edges[first+j] = program.Edge{Value: part.ref, Layout: part.layout.ID}
		c.to.Offsets[first+j] = part.offset
	}
}
