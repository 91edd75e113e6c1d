package simplify

import (
	"bytes"
	"slices"

	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// Bounds of what [Cats] divides: the parts of a cat, the elementwise nodes behind it in a row, and those before one of
// them that are divided with it. Within them the parts fit one fusion group.
const (
	mostCatParts = 4
	mostBehind   = 6
	mostBefore   = 3
)

// division is how a value is divided: as a cat of this shape, along dim, into equal parts. behind counts elementwise
// nodes since the cat.
type division struct {
	shape              []int64
	dim, parts, behind int
}

func (d *division) same(e *division) bool {
	return e != nil && d.dim == e.dim && d.parts == e.parts && slices.Equal(d.shape, e.shape)
}

// part is the shape of a part.
func (d *division) part() []int64 {
	shape := slices.Clone(d.shape)
	shape[d.dim] /= int64(d.parts)
	return shape
}

// catMove is the state of Cats.
type catMove struct {
	*search
	tied  []bool // by node: it is a result, or something else than an elementwise node reads it, or only some of it
	by    map[int]*division
	parts map[int][]view   // by divided node: its parts in the new program
	equal map[[2]view]bool // by two views of a constant: they have the same elements
}

// Cats moves cats behind the elementwise nodes that read them: these compute each part by itself, so that a fusion
// group computes the parts and stores them where the cat does. The parts of a cat must have one size and share a value
// that they are computed from, as in rotary positions, where a cat or a stack turns each pair of elements. Results do
// not change.
//
// A view of one part of a moved cat becomes a view of that part. Elementwise nodes of which only parts are read, such
// as a scale of queries before they turn, are computed by parts too. Of the parts of a constant that have equal
// elements, as tables of angles do, only the first is read. contents is that of [Attention].
func Cats(p *program.Program, args int, contents func(input int) []byte) *program.Program {
	m := &catMove{search: newSearch(p, args), by: map[int]*division{}, parts: map[int][]view{},
		equal: map[[2]view]bool{}}
	m.contents = contents
	m.tie()
	moved := false
	for i := range p.Nodes {
		if d := m.divisionOf(i); d != nil {
			m.by[i] = d
			moved = moved || d.behind > 0
		}
	}
	if len(m.by) == 0 {
		return p
	}
	out := p
	if moved {
		out, _ = Prune(rewritten(p, m.copy), len(p.Inputs))
	}
	for range mostBefore {
		out = divideSources(out, args)
	}
	return out
}

// copy copies node i, divided if it is. The cat that alone reads a moved cat follows it: a group computes both.
func (m *catMove) copy(c *copier, i int) {
	if c.refs[program.NodeRef(i)] != 0 {
		return // it followed the cat that it reads
	}
	d := m.by[i]
	if d == nil || d.behind == 0 {
		c.node(i)
		if d != nil {
			m.parts[i] = c.operands(i)
		}
		return
	}
	for k := range d.parts {
		m.parts[i] = append(m.parts[i], m.portion(c, i, d, k, mostBefore))
	}
	av := ir.AvalOf(m.p.Nodes[i].Aval)
	whole := ir.InternAval(av.DType, av.Device, ir.DenseLayout(d.shape))
	c.add(prim.Known.Cat, []int64{int64(d.dim)}, 1, whole, i, m.parts[i])
	c.refs[program.NodeRef(i)] = program.NodeRef(len(c.to.Nodes) - 1)
	if at := m.outer(c, i); at > 0 {
		m.copy(c, at)
	}
}

// outer returns the cat that alone reads node i, if everything else that it reads is copied already, and else 0.
func (m *catMove) outer(c *copier, i int) int {
	if m.uses[i] != 1 {
		return 0
	}
	reads := func(e program.Edge) bool { return e.Value == program.NodeRef(i) }
	for at := i + 1; at < len(m.p.Nodes); at++ {
		if edges := m.p.OperandsOf(at); slices.ContainsFunc(edges, reads) {
			missing := func(e program.Edge) bool { return c.refs[e.Value] == 0 }
			if m.is(at, prim.Known.Cat) && !slices.ContainsFunc(edges, missing) {
				return at
			}
			return 0
		}
	}
	return 0
}

// elementwise reports a node of one value whose elements depend on those of its operands at the same place.
func (s *search) elementwise(i int) bool {
	n := &s.p.Nodes[i]
	if !n.IsPrim() || n.Outputs != 1 {
		return false
	}
	p := s.p.Prim(i)
	return p.Elementwise && !p.Random && !p.MayFail()
}

// tie finds the values that must be whole.
func (m *catMove) tie() {
	m.tied = make([]bool, len(m.p.Nodes))
	for i := range m.p.Nodes {
		for j, e := range m.p.OperandsOf(i) {
			if e.Value.IsNode() && !(m.elementwise(i) && m.p.Whole(i, j)) {
				m.tied[e.Value.Index()] = true
			}
		}
	}
	for _, r := range m.p.Results {
		if r.Value.IsNode() {
			m.tied[r.Value.Index()] = true
		}
	}
}

// divisionOf is how node i is divided, nil if it is not.
func (m *catMove) divisionOf(i int) *division {
	switch {
	case m.constant[i]:
	case m.is(i, prim.Known.Cat):
		return m.cat(i)
	case m.elementwise(i):
		for _, e := range m.p.OperandsOf(i) {
			if !e.Value.IsNode() || m.tied[e.Value.Index()] {
				continue
			}
			if d := m.by[e.Value.Index()]; d != nil && d.behind < mostBehind && m.divisible(i, d, mostBefore) {
				next := *d
				next.behind++
				return &next
			}
		}
	}
	return nil
}

// cat is the division of a cat whose parts have one size and share a value.
func (m *catMove) cat(i int) *division {
	shape, n := ir.AvalOf(m.p.Nodes[i].Aval).Shape(), len(m.p.OperandsOf(i))
	if n < 2 || n > mostCatParts || slices.Contains(shape, 0) {
		return nil
	}
	d := &division{shape: shape, dim: ir.WrapDim(m.p.Attrs(i)[0], len(shape)), parts: n}
	var shared []program.Ref
	for j := range n {
		v := operand(m.p, i, j)
		if shape[d.dim]%int64(n) != 0 || !slices.Equal(v.layout.Shape, d.part()) {
			return nil
		}
		from := m.sources(v, mostBefore, nil)
		if j == 0 {
			shared = from
		}
		shared = slices.DeleteFunc(shared, func(r program.Ref) bool { return !slices.Contains(from, r) })
	}
	if len(shared) == 0 {
		return nil
	}
	return d
}

// sources adds the values that v is computed from by elementwise nodes that nothing else reads.
func (m *catMove) sources(v view, depth int, list []program.Ref) []program.Ref {
	if v.ref == 0 {
		return list
	}
	if depth == 0 || !v.ref.IsNode() || m.uses[v.ref.Index()] != 1 || !m.elementwise(v.ref.Index()) {
		return append(list, v.ref)
	}
	for j := range m.p.OperandsOf(v.ref.Index()) {
		list = m.sources(operand(m.p, v.ref.Index(), j), depth-1, list)
	}
	return list
}

// divisible reports that each part of node i can be computed by itself.
func (m *catMove) divisible(i int, d *division, depth int) bool {
	if ir.AvalOf(m.p.Nodes[i].Aval).Layout.Numel != ir.Numel(d.shape) {
		return false
	}
	for j := range m.p.OperandsOf(i) {
		v := operand(m.p, i, j)
		if v.ref == 0 || m.takesPart(i, j, d) {
			continue
		}
		if at, ok := m.before(i, j); ok && depth > 0 && m.divisible(at, d, depth-1) {
			continue
		}
		if _, ok := ir.ReshapeLayout(v.layout, d.shape); !ok {
			return false
		}
	}
	return true
}

// takesPart reports that operand j of node i is divided like node i.
func (m *catMove) takesPart(i, j int, d *division) bool {
	r := operand(m.p, i, j).ref
	return r.IsNode() && d.same(m.by[r.Index()]) && !m.tied[r.Index()] && m.p.Whole(i, j)
}

// before returns the elementwise node whose value only operand j of node i reads.
func (m *catMove) before(i, j int) (at int, ok bool) {
	at, ok = m.only(i, j)
	return at, ok && m.by[at] == nil && !m.constant[at] && m.elementwise(at)
}

// portion adds part k of node i to the new program, and of up to depth nodes in a row before it.
func (m *catMove) portion(c *copier, i int, d *division, k, depth int) view {
	in := make([]view, len(m.p.OperandsOf(i)))
	for j := range in {
		v := operand(m.p, i, j)
		at, ok := m.before(i, j)
		switch {
		case v.ref == 0:
		case m.takesPart(i, j, d):
			in[j] = m.parts[v.ref.Index()][k]
		case ok && depth > 0 && m.divisible(at, d, depth-1):
			in[j] = m.portion(c, at, d, k, depth-1)
		default:
			in[j] = m.sliced(c, v, d, k)
		}
	}
	av := ir.AvalOf(m.p.Nodes[i].Aval)
	layout := ir.DenseLayout(d.part())
	if had := m.parts[i]; k > 0 && len(had) > 0 && slices.Equal(in, c.operandsOf(had[0].ref.Index())) {
		return had[0]
	}
	return view{ref: c.like(i, ir.InternAval(av.DType, av.Device, layout), in), layout: layout}
}

// sliced is part k of an operand. If that is within a part of a divided value, it is a view of that part.
func (m *catMove) sliced(c *copier, v view, d *division, k int) view {
	l, _ := ir.ReshapeLayout(v.layout, d.shape)
	shape := d.part()
	out := view{ref: c.refs[v.ref], layout: ir.InternLayout(shape, l.Stride),
		offset: v.offset + int64(k)*shape[d.dim]*l.Stride[d.dim]}
	if !v.ref.IsNode() {
		first := view{ref: out.ref, layout: out.layout, offset: v.offset}
		if v.ref.Index() >= m.args && m.equals([2]view{{v.ref, out.layout, v.offset}, {v.ref, out.layout, out.offset}}) {
			return first
		}
		return out
	}
	if of := m.by[v.ref.Index()]; of != nil {
		if k, dims, ok := of.within(view{layout: out.layout, offset: out.offset}); ok {
			return m.parts[v.ref.Index()][k].along(dims, shape)
		}
	}
	return out
}

// within finds the part that has all elements of a view of the divided value, and the dims of that part which the dims
// of the view are; -1 for one that is expanded or of size 1.
func (d *division) within(v view) (k int64, dims []int, ok bool) {
	from, part := ir.DenseLayout(d.shape), d.part()
	size := part[d.dim] * from.Stride[d.dim]
	if v.offset%size != 0 || v.offset >= size*int64(d.parts) {
		return 0, nil, false
	}
	for x, n := range v.layout.Shape {
		y := -1
		if n != 1 && v.layout.Stride[x] != 0 {
			for z := range from.Shape {
				if from.Shape[z] > 1 && from.Stride[z] == v.layout.Stride[x] {
					y = z
				}
			}
			if y < 0 || n > part[y] {
				return 0, nil, false
			}
		}
		dims = append(dims, y)
	}
	return v.offset / size, dims, true
}

// along views v by some of its dims, -1 for dims that are expanded or of size 1.
func (v view) along(dims []int, shape []int64) view {
	stride := make([]int64, len(shape))
	for x, y := range dims {
		if y >= 0 {
			stride[x] = v.layout.Stride[y]
		}
	}
	v.layout = ir.InternLayout(shape, stride)
	return v
}

// equals reports that two views of one layout have the same elements of a constant.
func (m *catMove) equals(v [2]view) bool {
	same, known := m.equal[v]
	if known || v[0].offset == v[1].offset {
		return same || !known
	}
	if data := m.contents(v[0].ref.Index()); data != nil {
		size := int64(m.p.Aval(v[0].ref).DType.Size())
		same = true
		for _, at := range places(v[0].layout) {
			a, b := (v[0].offset+at)*size, (v[1].offset+at)*size
			same = same && bytes.Equal(data[a:a+size], data[b:b+size])
		}
	}
	m.equal[v] = same
	return same
}

// places lists the distances of a view's elements from its first one, each once where dims are expanded.
func places(l *ir.Layout) []int64 {
	list := []int64{0}
	for d, n := range l.Shape {
		if l.Stride[d] == 0 {
			continue
		}
		next := make([]int64, 0, int64(len(list))*n)
		for _, at := range list {
			for k := range n {
				next = append(next, at+k*l.Stride[d])
			}
		}
		list = next
	}
	return list
}

// like adds a node that does what node i does, with other operands. It returns its value.
func (c *copier) like(i int, av *ir.Aval, in []view) program.Ref {
	q, x := c.to, c.from.Nodes[i]
	x.Edge, x.Scalar, x.Live, x.Aval = uint32(len(q.Edges)), uint32(len(q.Scalars)), program.Dead, av.ID
	for _, v := range in {
		e := program.Edge{Value: v.ref}
		if v.layout != nil {
			e.Layout = v.layout.ID
		}
		q.Edges, q.Offsets = append(q.Edges, e), append(q.Offsets, v.offset)
	}
	q.Scalars = append(q.Scalars, c.from.ScalarsOf(i)...)
	q.SourceLocs = append(q.SourceLocs, c.from.SourceLoc(i))
	q.Nodes = append(q.Nodes, x)
	return program.NodeRef(len(q.Nodes) - 1)
}

// operands are the operands of node i under their names in the new program.
func (c *copier) operands(i int) []view {
	return c.operandsOf(c.refs[program.NodeRef(i)].Index())
}

// operandsOf are the operands of node i of the new program.
func (c *copier) operandsOf(i int) []view {
	list := make([]view, len(c.to.OperandsOf(i)))
	for j := range list {
		list[j] = operand(c.to, i, j)
	}
	return list
}
