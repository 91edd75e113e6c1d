package ir

// Edge is one operand of a node: a view of a stored value. Value 0 marks a number, which takes the node's next scalar
// slot.
type Edge struct {
	Value  uint32
	Layout LayoutID
	Offset int64
}

// OpLeaf marks a node whose value is stored. OpProj marks a further output of another node; its number is in Attr.
// Other values are primitive numbers.
const (
	OpFree uint16 = 0
	OpLeaf uint16 = 0xFFFF
	OpProj uint16 = 0xFFFE
)

// Node is one entry of the slab: a value and how to compute it. It holds no Go pointers.
//
// Invariant: Refs = bases of handles + consumer edges + saved slots + effects + scratch. At 0 the node is freed and its
// inputs are released.
type Node struct {
	Seq       uint64 // record order; unique
	Refs      int32
	Op        uint16
	NEdge     uint16
	NScal     uint16
	NProj     uint16 // further outputs; their ids come after the edges
	Aval      AvalID
	Attr      uint32 // interned attributes; of OpProj the output number
	SourceLoc uint32
	Region    uint32 // compiled region that recorded it, 0 for none
	Store     uint32 // of OpLeaf: storage number, 0 where the value failed
	Mark      uint32 // scratch of the planner: local number + 1
	Uses      int32  // scratch of the planner: consumer edges inside the plan
	edges     uint32
	scalar    uint32
}

// Graph is the counted slab. It is not safe for concurrent use; the engine's lock guards it.
type Graph struct {
	nodes    []Node
	free     []uint32
	edges    arena[Edge]
	scalars  arena[uint64]
	seq      uint64
	live     int
	realized uint64
	work     []uint32
	// Region is the compiled region that nodes belong to from now on, 0 for none.
	Region uint32
	// OnStoreFree drops the storage of a leaf that is freed. The engine sets it; it must not touch the graph, which is in
	// the middle of a release. nil: the graph has no storages to drop.
	OnStoreFree func(store uint32)
	// OnFree, optional, is called for each value that is freed. It must not touch the graph either.
	OnFree func(id uint32)
	// Pending lists unexecuted nodes in record order. Entries whose Seq no longer matches are stale.
	Pending []PendingRef
	// failures says why the values of leaves without a storage were not computed.
	failures map[uint32]*Failure
}

// Failure is why values were not computed: one operator could not run, and others needed its result.
type Failure struct {
	Err  *Error
	Seq  uint64 // of the node of that operator
	Told bool   // the error was raised to the user
}

// PendingRef names a node at the time it was recorded.
type PendingRef struct {
	ID  uint32
	Seq uint64
}

// NewGraph makes an empty slab.
func NewGraph() *Graph {
	g := &Graph{nodes: make([]Node, 1, 1<<12), failures: map[uint32]*Failure{}}
	g.edges.init()
	g.scalars.init()
	return g
}

// Node returns entry id; the pointer is valid until the next Add.
func (g *Graph) Node(id uint32) *Node { return &g.nodes[id] }

// ClearMarks clears the planner's scratch on every node.
func (g *Graph) ClearMarks() {
	for i := range g.nodes {
		g.nodes[i].Mark, g.nodes[i].Uses = 0, 0
	}
}

// Live is the number of nodes in use.
func (g *Graph) Live() int { return g.live }

// Edges returns the operands of n, valid until the next Add.
func (g *Graph) Edges(n *Node) []Edge { return g.edges.slice(n.edges, int(n.NEdge)) }

// Scalars returns the scalar slots of n, valid until the next Add.
func (g *Graph) Scalars(n *Node) []uint64 { return g.scalars.slice(n.scalar, int(n.NScal)) }

// Projs returns the further outputs of n in the Value fields; 0 where one was freed.
func (g *Graph) Projs(n *Node) []Edge {
	if n.NProj == 0 {
		return nil
	}
	return g.edges.slice(n.edges, int(n.NEdge+n.NProj))[n.NEdge:]
}

func (g *Graph) alloc() uint32 {
	g.live++
	if k := len(g.free); k > 0 {
		id := g.free[k-1]
		g.free = g.free[:k-1]
		return id
	}
	g.nodes = append(g.nodes, Node{})
	return uint32(len(g.nodes) - 1)
}

// Add records a node with one reference, which the caller holds. avals has one entry for each output. Further outputs
// become OpProj nodes with one reference each; Projs returns them.
func (g *Graph) Add(op uint16, attr, sourceLoc uint32, avals []AvalID, edges []Edge, scalars []uint64) uint32 {
	id := g.alloc()
	np := len(avals) - 1
	eo := g.edges.alloc(len(edges) + np)
	copy(g.edges.slice(eo, len(edges)), edges)
	so := g.scalars.alloc(len(scalars))
	copy(g.scalars.slice(so, len(scalars)), scalars)
	g.seq++
	n := &g.nodes[id]
	*n = Node{} // then field by field: a literal would be built elsewhere and copied
	n.Seq, n.Refs, n.Op, n.NEdge, n.NScal, n.NProj = g.seq, 1, op, uint16(len(edges)), uint16(len(scalars)), uint16(np)
	n.Aval, n.Attr, n.SourceLoc, n.Region, n.edges, n.scalar = avals[0], attr, sourceLoc, g.Region, eo, so
	for i := range edges {
		if v := edges[i].Value; v != 0 {
			g.nodes[v].Refs++
		}
	}
	g.Pending = append(g.Pending, PendingRef{id, g.seq})
	for k := 1; k <= np; k++ {
		g.addProj(id, k, avals[k], sourceLoc)
	}
	return id
}

func (g *Graph) addProj(main uint32, k int, aval AvalID, sourceLoc uint32) {
	id := g.alloc()
	eo := g.edges.alloc(1)
	g.edges.slice(eo, 1)[0] = Edge{Value: main}
	g.seq++
	g.nodes[id] = Node{Seq: g.seq, Refs: 1, Op: OpProj, NEdge: 1, Aval: aval, Attr: uint32(k), SourceLoc: sourceLoc,
		Region: g.Region, edges: eo}
	m := &g.nodes[main]
	m.Refs++
	g.edges.slice(m.edges, int(m.NEdge+m.NProj))[int(m.NEdge)+k-1].Value = id
	g.Pending = append(g.Pending, PendingRef{id, g.seq})
}

// AddLeaf makes a stored value with one reference.
func (g *Graph) AddLeaf(aval AvalID, store, sourceLoc uint32) uint32 {
	id := g.alloc()
	g.seq++
	g.nodes[id] = Node{Seq: g.seq, Refs: 1, Op: OpLeaf, Aval: aval, Store: store, SourceLoc: sourceLoc}
	return id
}

// Placeholder is Node.Attr of a leaf that stands for an argument of a captured function: it has no storage.
const Placeholder uint32 = 1

// AddPlaceholder makes a value that stands for an argument, with one reference.
func (g *Graph) AddPlaceholder(aval AvalID, sourceLoc uint32) uint32 {
	id := g.AddLeaf(aval, 0, sourceLoc)
	g.nodes[id].Attr = Placeholder
	return id
}

// Seq is the number of the newest node in record order.
func (g *Graph) Seq() uint64 { return g.seq }

// Realized counts values that were computed or lost.
func (g *Graph) Realized() uint64 { return g.realized }

// Retain adds a reference.
func (g *Graph) Retain(id uint32) { g.nodes[id].Refs++ }

// Release drops a reference. At zero the node is freed, and so are nodes that only it used.
func (g *Graph) Release(id uint32) {
	if id == 0 {
		return
	}
	n := &g.nodes[id]
	n.Refs--
	if n.Refs > 0 {
		return
	}
	if n.Refs < 0 {
		panic("BUG: graph node released too often")
	}
	g.work = append(g.work[:0], id)
	for len(g.work) > 0 {
		id = g.work[len(g.work)-1]
		g.work = g.work[:len(g.work)-1]
		g.drop(id)
	}
}

// drop frees a node without references.
func (g *Graph) drop(id uint32) {
	g.dismantle(id, true)
	if g.OnFree != nil {
		g.OnFree(id)
	}
	g.live--
	g.nodes[id].Op = OpFree
	g.nodes[id].Seq = 0
	g.free = append(g.free, id)
}

// dismantle releases the inputs of id; nodes that reach zero join g.work.
func (g *Graph) dismantle(id uint32, freeStore bool) {
	n := &g.nodes[id]
	if n.Op == OpLeaf {
		if n.Store == 0 {
			delete(g.failures, id)
		} else if freeStore && g.OnStoreFree != nil {
			g.OnStoreFree(n.Store)
		}
		n.Store = 0
		return
	}
	if n.Op == OpProj {
		m := &g.nodes[g.edges.slice(n.edges, 1)[0].Value]
		if k := int(n.Attr) - 1; k < int(m.NProj) {
			g.edges.slice(m.edges, int(m.NEdge+m.NProj))[int(m.NEdge)+k].Value = 0
		}
	}
	es := g.edges.slice(n.edges, int(n.NEdge))
	for i := range es {
		if v := es[i].Value; v != 0 {
			m := &g.nodes[v]
			if m.Refs--; m.Refs == 0 {
				g.work = append(g.work, v)
			}
		}
	}
	g.edges.release(n.edges, int(n.NEdge+n.NProj))
	g.scalars.release(n.scalar, int(n.NScal))
	n.NEdge, n.NScal, n.NProj = 0, 0, 0
}

// Fail turns a pending node into a leaf without a value. Its projections must have failed before.
func (g *Graph) Fail(id uint32, f *Failure) {
	g.Realize(id, 0)
	g.failures[id] = f
}

// Failure returns why the value of a leaf was not computed; nil for every other node.
func (g *Graph) Failure(id uint32) *Failure {
	if n := &g.nodes[id]; n.Op != OpLeaf || n.Store != 0 {
		return nil
	}
	return g.failures[id]
}

// Realize turns a computed node into a leaf that owns store, and releases its inputs. The node loses its entries of
// projections, so these must have been realised or freed before.
func (g *Graph) Realize(id, store uint32) {
	g.work = g.work[:0]
	g.realized++
	g.dismantle(id, true)
	n := &g.nodes[id]
	n.Op, n.Store, n.Attr = OpLeaf, store, 0
	for len(g.work) > 0 {
		v := g.work[len(g.work)-1]
		g.work = g.work[:len(g.work)-1]
		g.drop(v)
	}
}

// CompactPending drops stale and executed entries.
func (g *Graph) CompactPending() {
	out := g.Pending[:0]
	for _, p := range g.Pending {
		if n := &g.nodes[p.ID]; n.Seq == p.Seq && n.Op != OpLeaf {
			out = append(out, p)
		}
	}
	g.Pending = out
}

// arena hands out runs of T from one slice. It keeps free lists by exact length up to 32 and by power of two above.
type arena[T any] struct {
	data []T
	free [64][]uint32
}

func (a *arena[T]) init() { a.data = make([]T, 1, 1<<12) }

func arenaClass(n int) (class, size int) {
	if n <= 32 {
		return n, n
	}
	class, size = 33, 64
	for size < n {
		class, size = class+1, size*2
	}
	return class, size
}

func (a *arena[T]) alloc(n int) uint32 {
	if n == 0 {
		return 0
	}
	c, size := arenaClass(n)
	if f := a.free[c]; len(f) > 0 {
		off := f[len(f)-1]
		a.free[c] = f[:len(f)-1]
		return off
	}
	off := len(a.data)
	var zero T
	for i := 0; i < size; i++ {
		a.data = append(a.data, zero)
	}
	return uint32(off)
}

func (a *arena[T]) slice(off uint32, n int) []T { return a.data[off : int(off)+n : int(off)+n] }

func (a *arena[T]) release(off uint32, n int) {
	if n == 0 {
		return
	}
	c, _ := arenaClass(n)
	a.free[c] = append(a.free[c], off)
}
