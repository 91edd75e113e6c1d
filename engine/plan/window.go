package plan

import (
	"math/bits"

	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/engine/live"
	"github.com/torchlette/torchlette/engine/op"
)

const (
	needed  = 0x7FFFFFFF // Node.Mark: in the closure, not yet numbered
	extBit  = 0x80000000 // Node.Mark: external, the low bits are its number
	noPrev  = 0xFFFFFFFF
	maxEdge = 8 // edges of a value's producer that the view relation covers
)

// Store is a store effect of the window.
type Store struct {
	Effect int    // index into State.Effects
	Value  uint32 // reference, as Node.Mark numbers it
	Prev   uint32 // reference to the version before; noPrev when it is gone
	Base   uint32 // ordinal of the base in the window
	Last   bool   // no later store of the window goes to the same loc
}

// Window is work to run: nodes in record order, what they read from outside, and
// the numbers that vary from run to run. Its slices are reused.
type Window struct {
	Nodes   []uint32 // graph ids; local number = index
	Ext     []uint32 // leaves read
	Out     []bool   // by local number: something outside refers to it
	Stores  []Store
	Effects int // length of the effect prefix that the window runs
	Key     []uint32
	Hash    uint64
	Offsets []int64
	Scalars []uint64
	Sites   []uint32

	s       *live.State
	reverse []uint32
	heads   []uint32 // by local number: where the node begins in Key
	bases   map[uint32]uint32
	lastOf  map[uint32]int
	// lastStore holds the local numbers that end as a loc's committed value.
	lastStore []bool
}

// NewWindow makes an empty window over s.
func NewWindow(s *live.State) *Window {
	return &Window{s: s, bases: map[uint32]uint32{}, lastOf: map[uint32]int{}}
}

// Collect gathers what the values and the first effects entries of the log need.
// It reports false when nothing is left to run and no store is pending.
func (w *Window) Collect(values []uint32, effects int) bool {
	g := w.s.G
	w.reset(effects)
	need := 0
	mark := func(id uint32) {
		if n := g.Node(id); n.Op != ir.OpLeaf && n.Mark == 0 {
			n.Mark = needed
			need++
		}
	}
	for _, v := range values {
		mark(v)
	}
	for i := 0; i < effects; i++ {
		if e := &w.s.Effects[i]; isStore(e.Kind) {
			mark(e.Value)
			w.lastOf[e.Loc] = i
		}
	}
	w.close(need)
	w.adoptReaders()
	w.number()
	w.stores()
	w.makeKey()
	return len(w.Nodes) > 0 || len(w.Stores) > 0
}

func isStore(k live.EffectKind) bool { return k == live.StoreSemantic || k == live.StoreMaterialize }

func (w *Window) reset(effects int) {
	w.Nodes, w.Ext, w.Out, w.Stores = w.Nodes[:0], w.Ext[:0], w.Out[:0], w.Stores[:0]
	w.Key, w.Offsets, w.Scalars, w.Sites = w.Key[:0], w.Offsets[:0], w.Scalars[:0], w.Sites[:0]
	w.reverse, w.heads = w.reverse[:0], w.heads[:0]
	w.Effects = effects
	clear(w.bases)
	clear(w.lastOf)
}

// close walks the pending list backward: inputs always precede their consumers.
func (w *Window) close(need int) {
	g := w.s.G
	for i := len(g.Pending) - 1; i >= 0 && need > 0; i-- {
		p := g.Pending[i]
		n := g.Node(p.ID)
		if n.Seq != p.Seq || n.Mark != needed {
			continue
		}
		need--
		w.visit(p.ID, &need)
	}
	if need != 0 {
		panic("BUG: the closure reaches a node that is not pending")
	}
}

// visit appends a node, after its further outputs that nobody asked for but someone holds.
func (w *Window) visit(id uint32, need *int) {
	g := w.s.G
	n := g.Node(id)
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

// adoptReaders lets unexecuted pure readers of a version that a store replaces join
// the window, so that they do not pin the old version (DESIGN section 5).
func (w *Window) adoptReaders() {
	g := w.s.G
	if len(g.Pending) <= len(w.reverse) {
		return
	}
	var prevs map[uint32]bool
	for i := 0; i < w.Effects; i++ {
		e := &w.s.Effects[i]
		if e.Kind == live.StoreSemantic && e.Prev != 0 {
			if p := g.Node(e.Prev); p.Seq == e.PrevSeq {
				if prevs == nil {
					prevs = map[uint32]bool{}
				}
				prevs[e.Prev] = true
			}
		}
	}
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
	// Collect anew with the readers as further roots.
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

// number gives local numbers in record order, counts uses inside the window, and writes the nodes' part of the
// key: all in one walk over the edges.
func (w *Window) number() {
	g := w.s.G
	k := w.Key
	for i := len(w.reverse) - 1; i >= 0; i-- {
		id := w.reverse[i]
		n := g.Node(id)
		n.Mark, n.Uses = uint32(len(w.Nodes)+1), 0
		w.Nodes = append(w.Nodes, id)
		w.Sites = append(w.Sites, n.Site)
		w.heads = append(w.heads, uint32(len(k)))
		k = append(k, uint32(n.Op)|uint32(n.NEdge)<<16, n.Attr, uint32(n.Aval))
		for _, e := range g.Edges(n) {
			if e.Value == 0 {
				k = append(k, 0)
				continue
			}
			m := w.ref(e.Value)
			m.Uses++
			k = append(k, m.Mark, uint32(e.Layout))
			w.Offsets = append(w.Offsets, e.Offset)
		}
		w.Scalars = append(w.Scalars, g.Scalars(n)...)
		if n.Op == scatterOp {
			k = append(k, w.relation(n))
		}
	}
	w.Key = k
}

// ref numbers an external at first touch.
func (w *Window) ref(id uint32) *ir.Node {
	m := w.s.G.Node(id)
	if m.Mark == 0 {
		m.Mark, m.Uses = extBit|uint32(len(w.Ext)), 0
		w.Ext = append(w.Ext, id)
	}
	return m
}

// stores lists the window's store effects. The log's own reference counts as a use.
func (w *Window) stores() {
	g := w.s.G
	w.lastStore = append(w.lastStore[:0], make([]bool, len(w.Nodes))...)
	for i := 0; i < w.Effects; i++ {
		e := &w.s.Effects[i]
		if !isStore(e.Kind) {
			continue
		}
		m := w.ref(e.Value)
		m.Uses++
		ord, ok := w.bases[e.Base]
		if !ok {
			ord = uint32(len(w.bases))
			w.bases[e.Base] = ord
		}
		st := Store{Effect: i, Value: m.Mark, Prev: noPrev, Base: ord, Last: w.lastOf[e.Loc] == i}
		if e.Prev != 0 {
			if p := g.Node(e.Prev); p.Seq == e.PrevSeq && p.Mark != 0 {
				st.Prev = p.Mark
			} else if p.Seq == e.PrevSeq && p.Op == ir.OpLeaf {
				st.Prev = w.ref(e.Prev).Mark
			}
		}
		if st.Last && st.Value&extBit == 0 {
			w.lastStore[st.Value-1] = true
		}
		w.Stores = append(w.Stores, st)
	}
}

// makeKey completes the key: the nodes' outside-live bits, what is read from outside, and the stores.
func (w *Window) makeKey() {
	g := w.s.G
	k := w.Key
	for i, id := range w.Nodes {
		n := g.Node(id)
		out := n.Refs > n.Uses || w.lastStore[i]
		w.Out = append(w.Out, out)
		if out {
			k[w.heads[i]] |= 1 << 31
		}
	}
	k = append(k, uint32(len(w.Ext)))
	for _, id := range w.Ext {
		k = append(k, uint32(g.Node(id).Aval))
	}
	k = append(k, uint32(len(w.Stores)))
	for i := range w.Stores {
		s := &w.Stores[i]
		bits := s.Base << 2
		if s.Last {
			bits |= 1
		}
		if w.exclusive(s) {
			bits |= 2
		}
		k = append(k, s.Value, s.Prev, bits)
	}
	w.Key = k
	w.Hash = hash(k)
}

// exclusive reports that a stored-over external version is held by its loc and the
// window alone.
func (w *Window) exclusive(s *Store) bool {
	if s.Prev == noPrev || s.Prev&extBit == 0 {
		return true // inside the window: the outside-live bit tells
	}
	e := &w.s.Effects[s.Effect]
	n := w.s.G.Node(w.Ext[s.Prev&^extBit])
	own := int32(0)
	if w.s.Loc(e.Loc).Committed == w.Ext[s.Prev&^extBit] {
		own = 1
	}
	return n.Refs == n.Uses+own
}

var scatterOp, matmulOp, sumOp, addOp, layerNormGradOp uint16

// relation tells which edges of the producer of a scatter's value read the scatter's
// base through the very view that is written: a bit an edge.
func (w *Window) relation(n *ir.Node) uint32 {
	g := w.s.G
	es := g.Edges(n)
	base, val := es[0].Value, es[1].Value
	m := g.Node(val)
	if m.Mark == 0 || m.Mark&extBit != 0 {
		return 0
	}
	target := ir.LayoutID(ir.AttrOf(n.Attr)[0])
	off := int64(g.Scalars(n)[0])
	bits := uint32(0)
	for i, e := range g.Edges(m) {
		if i < maxEdge && e.Value == base && e.Layout == target && e.Offset == off {
			bits |= 1 << uint(i)
		}
	}
	return bits
}

// hash multiplies and folds two words at a time, in the manner of wyhash.
func hash(k []uint32) uint64 {
	h := uint64(len(k)) ^ 0x9E3779B97F4A7C15
	for len(k) >= 2 {
		hi, lo := bits.Mul64(h^(uint64(k[0])|uint64(k[1])<<32), 0xA0761D6478BD642F)
		h = hi ^ lo
		k = k[2:]
	}
	if len(k) == 1 {
		hi, lo := bits.Mul64(h^uint64(k[0]), 0xE7037ED1A0B428DB)
		h = hi ^ lo
	}
	return h
}

// Clear takes the window's marks off the graph.
func (w *Window) Clear() {
	g := w.s.G
	for _, id := range w.Nodes {
		n := g.Node(id)
		n.Mark, n.Uses = 0, 0
	}
	for _, id := range w.Ext {
		n := g.Node(id)
		n.Mark, n.Uses = 0, 0
	}
}

// Init resolves the primitives that planning knows by name.
func Init() {
	scatterOp = uint16(op.PrimNamed("strided_scatter").ID)
	matmulOp = uint16(op.PrimNamed("matmul").ID)
	addOp = uint16(op.PrimNamed("add").ID)
	sumOp = uint16(op.PrimNamed("sum").ID)
	layerNormGradOp = uint16(op.PrimNamed("layer_norm_grad").ID)
}
