package lazy

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// needed is the Node.Mark of a node in the closure without a number. A numbered node's mark is its program.Ref.
const needed = 0x7FFFFFFF

// Window is a unit of work: a program, and the graph ids of its nodes and inputs. Its slices are reused.
type Window struct {
	// Program is the work. A node is live outside if something else refers to its results.
	Program program.Program
	Nodes   []uint32 // by node of Program: graph id
	Ext     []uint32 // by input of Program: the leaf that is read
	Effects int      // length of the log prefix that the window runs

	s       *Session
	reverse []uint32
	bases   map[uint32]uint32
	lastOf  map[uint32]int
	// stored maps each store to its index in State.Effects.
	stored []int
}

// NewWindow makes an empty window over s.
func NewWindow(s *Session) *Window {
	return &Window{s: s, bases: map[uint32]uint32{}, lastOf: map[uint32]int{}}
}

// Collect gathers the work that values and the first effects entries of the log need. Values that are computed or gone
// need none. It reports false if there are no nodes to run and no pending stores.
func (w *Window) Collect(values []uint32, effects int) bool {
	g := w.s.graph
	w.reset(effects)
	need := 0
	mark := func(id uint32) {
		if n := g.Node(id); n.Op != ir.OpLeaf && n.Op != ir.OpFree && n.Mark == 0 {
			n.Mark = needed
			need++
		}
	}
	for _, v := range values {
		mark(v)
	}
	for i := 0; i < effects; i++ {
		if e := &w.s.effects.list[i]; e.Kind.IsStore() {
			mark(e.Value)
			w.lastOf[e.Loc] = i
		}
	}
	w.close(need)
	w.adoptReaders()
	w.number()
	w.stores()
	w.liveness()
	w.Program.Seal()
	return len(w.Nodes) > 0 || len(w.Program.Stores) > 0
}

func (w *Window) reset(effects int) {
	w.Program.Reset()
	w.Nodes, w.Ext, w.reverse, w.stored = w.Nodes[:0], w.Ext[:0], w.reverse[:0], w.stored[:0]
	w.Effects = effects
	clear(w.bases)
	clear(w.lastOf)
}

// close walks the pending list backward: inputs always precede their consumers.
func (w *Window) close(need int) {
	g := w.s.graph
	for i := len(g.Pending) - 1; i >= 0 && need > 0; i-- {
		p := g.Pending[i]
		n := g.Node(p.ID)
		if n.Seq != p.Seq || n.Mark != needed {
			continue
		}
		need--
		w.visit(p.ID, n, &need)
	}
	if need != 0 {
		panic("BUG: the closure reaches a node that is not pending")
	}
}

// visit appends a node, after those of its further outputs that are held but not requested.
func (w *Window) visit(id uint32, n *ir.Node, need *int) {
	g := w.s.graph
	pr := g.Projs(n)
	for k := len(pr) - 1; k >= 0; k-- {
		if v := pr[k].Value; v != 0 {
			if m := g.Node(v); m.Mark == 0 {
				m.Mark = needed
				w.reverse = append(w.reverse, v)
			}
		}
	}
	w.reverse = append(w.reverse, id)
	for _, e := range g.Edges(n) {
		if e.Value == 0 {
			continue
		}
		if m := g.Node(e.Value); m.Op != ir.OpLeaf && m.Mark == 0 {
			m.Mark = needed
			*need++
		}
	}
}

// replaced returns the versions that the window's stores replace, nil for none.
func (w *Window) replaced() (prevs map[uint32]bool) {
	for i := 0; i < w.Effects; i++ {
		e := &w.s.effects.list[i]
		if e.Kind != StoreSemantic || e.Prev == 0 || w.s.graph.Node(e.Prev).Seq != e.PrevSeq {
			continue
		}
		if prevs == nil {
			prevs = map[uint32]bool{}
		}
		prevs[e.Prev] = true
	}
	return prevs
}

// adoptReaders adds to the window the pending pure readers of a version that a store replaces. Outside of the window
// they would keep the old version alive.
func (w *Window) adoptReaders() {
	g := w.s.graph
	if len(g.Pending) <= len(w.reverse) {
		return
	}
	prevs := w.replaced()
	if prevs == nil {
		return
	}
	found := false
	for i := len(g.Pending) - 1; i >= 0; i-- {
		p := g.Pending[i]
		n := g.Node(p.ID)
		if n.Seq != p.Seq || n.Mark != 0 || n.Op == ir.OpLeaf {
			continue
		}
		for _, e := range g.Edges(n) {
			if e.Value != 0 && prevs[e.Value] {
				n.Mark = needed
				found = true
				break
			}
		}
	}
	if !found {
		return
	}
	// Collect again, with the readers as additional roots.
	for _, id := range w.reverse {
		g.Node(id).Mark = needed
	}
	w.reverse = w.reverse[:0]
	count := 0
	for _, p := range g.Pending {
		if n := g.Node(p.ID); n.Seq == p.Seq && n.Mark == needed {
			count++
		}
	}
	w.close(count)
}

// viewWriter is the primitive that writes through a view; see program.Node.SameView.
var viewWriter = func() uint16 {
	for _, p := range op.Prims() {
		if p.WritesView {
			return uint16(p.ID)
		}
	}
	panic("BUG: no primitive writes through a view")
}()

// number makes the program's nodes in record order and counts uses inside the window, in one walk over the edges.
func (w *Window) number() {
	g, p := w.s.graph, &w.Program
	count := len(w.reverse)
	ids, locs := slices.Grow(w.Nodes, count)[:count], slices.Grow(p.SourceLocs, count)[:count]
	nodes := slices.Grow(p.Nodes, count)[:count]
	edges, offsets, scalars := p.Edges, p.Offsets, p.Scalars
	region, regions, mark := uint32(0), uint8(0), uint8(0)
	for i := range nodes {
		id := w.reverse[count-1-i]
		n := g.Node(id)
		ids[i], locs[i] = id, n.SourceLoc
		n.Mark, n.Uses = uint32(i+1), 0
		x := &nodes[i] // field by field: a literal is built elsewhere, and its wider copy stalls on the stores
		x.Op, x.Operands, x.Outputs, x.Live, x.SameView = n.Op, n.NEdge, uint8(n.NProj+1), program.Dead, 0
		if n.Region != region {
			if region, mark = n.Region, 0; region != 0 {
				regions = regions%program.MaxRegions + 1
				mark = regions
			}
		}
		x.Region = mark
		x.Attr, x.Aval, x.Edge, x.Scalar = n.Attr, n.Aval, uint32(len(edges)), uint32(len(scalars))
		for _, e := range g.Edges(n) {
			if e.Value == 0 {
				edges, offsets = append(edges, program.Edge{}), append(offsets, 0)
				continue
			}
			m := w.ref(e.Value)
			m.Uses++
			edges = append(edges, program.Edge{Value: program.Ref(m.Mark), Layout: e.Layout})
			offsets = append(offsets, e.Offset)
		}
		if nums := g.Scalars(n); len(nums) == 1 { // the usual case; cheaper than a call that copies
			scalars = append(scalars, nums[0])
		} else if len(nums) > 0 {
			scalars = append(scalars, nums...)
		}
		if n.Op == viewWriter {
			p.Nodes, p.Edges, p.Offsets, p.Scalars = nodes[:i+1], edges, offsets, scalars
			x.SameView = p.Relate(i)
		}
	}
	w.Nodes, p.SourceLocs, p.Nodes, p.Edges, p.Offsets, p.Scalars = ids, locs, nodes, edges, offsets, scalars
}

// ref numbers an input when it is first met.
func (w *Window) ref(id uint32) *ir.Node {
	m := w.s.graph.Node(id)
	if m.Mark == 0 {
		m.Mark, m.Uses = uint32(program.InputRef(len(w.Ext))), 0
		w.Ext = append(w.Ext, id)
		w.Program.Inputs = append(w.Program.Inputs, program.Input{Aval: m.Aval})
	}
	return m
}

// stores lists the window's store effects. The log's own reference counts as a use.
func (w *Window) stores() {
	g, p := w.s.graph, &w.Program
	for i := 0; i < w.Effects; i++ {
		e := &w.s.effects.list[i]
		if !e.Kind.IsStore() {
			continue
		}
		m := w.ref(e.Value)
		m.Uses++
		ord, ok := w.bases[e.Base]
		if !ok {
			ord = uint32(len(w.bases))
			w.bases[e.Base] = ord
		}
		st := program.Store{Value: program.Ref(m.Mark), Base: ord}
		if w.lastOf[e.Loc] == i {
			st.Flags = program.Last
		}
		if e.Prev != 0 {
			if v := g.Node(e.Prev); v.Seq == e.PrevSeq && v.Mark != 0 {
				st.Prev = program.Ref(v.Mark)
			} else if v.Seq == e.PrevSeq && v.Op == ir.OpLeaf && g.Failure(e.Prev) == nil {
				st.Prev = program.Ref(w.ref(e.Prev).Mark)
			}
		}
		w.stored = append(w.stored, i)
		p.Stores = append(p.Stores, st)
	}
}

// liveness marks the nodes with results that something outside refers to, and the stores that replace a version held by
// nothing else.
func (w *Window) liveness() {
	g, p := w.s.graph, &w.Program
	for i := range p.Stores {
		if st := &p.Stores[i]; st.Flags&program.Last != 0 && st.Value.IsNode() {
			p.Nodes[st.Value.Index()].Live = program.LiveOutside
		}
	}
	w.countCommitted()
	for i, id := range w.Nodes {
		if n := g.Node(id); n.Refs > n.Uses {
			p.Nodes[i].Live = program.LiveOutside
		}
	}
	for i := range p.Stores {
		if w.exclusive(i) {
			p.Stores[i].Flags |= program.Exclusive
		}
	}
}

// countCommitted counts as uses the references of locs to versions that the window makes and replaces, such as the
// zeros that an optimizer's state begins with. With the window's first store to a loc that reference ends.
func (w *Window) countCommitted() {
	var seen []uint32
	for i, at := range w.stored {
		e, prev := &w.s.effects.list[at], w.Program.Stores[i].Prev
		if !prev.IsNode() || w.s.Loc(e.Loc).Committed != e.Prev || slices.Contains(seen, e.Loc) {
			continue
		}
		if w.lastOf[e.Loc] != at {
			seen = append(seen, e.Loc)
		}
		w.s.graph.Node(e.Prev).Uses++
	}
}

// exclusive reports that only its loc and the window hold the version that store i replaces. For a version made in the
// window, the live-outside bit decides.
func (w *Window) exclusive(i int) bool {
	prev := w.Program.Stores[i].Prev
	if !prev.IsInput() {
		return true
	}
	id := w.Ext[prev.Index()]
	n := w.s.graph.Node(id)
	own := int32(0)
	if w.s.Loc(w.s.effects.list[w.stored[i]].Loc).Committed == id {
		own = 1
	}
	return n.Refs == n.Uses+own
}

// Clear removes the window's marks from the graph.
func (w *Window) Clear() {
	g := w.s.graph
	for _, id := range w.Nodes {
		n := g.Node(id)
		n.Mark, n.Uses = 0, 0
	}
	for _, id := range w.Ext {
		n := g.Node(id)
		n.Mark, n.Uses = 0, 0
	}
}

// Abandon is Clear after a panic at any point of the collection.
func (w *Window) Abandon() {
	w.s.graph.ClearMarks()
	w.reset(0)
}
