package autograd

import (
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// Kind is the kind of a tape node.
type Kind uint8

// Kinds of tape nodes.
const (
	kindFree Kind = iota
	KindPrim
	KindView
	KindLeaf
)

// Saved is one operand or result of a recorded step. A held entry owns a reference to its value; other entries keep
// shape and dtype only. For a packed entry, hook Hook returns the value.
type Saved struct {
	Val     op.Val
	Commit  uint64
	Hook    uint64
	BaseGen uint32
	Held    bool
}

// Node is one recorded step.
//
// Invariant: Refs = edges of later steps + handles + groups + cotangents that name it.
type Node struct {
	Seq   uint64
	Refs  int32
	Kind  Kind
	Freed bool // saved values were released by a backward
	// Packed: a hook holds one of the saved values.
	Packed bool
	// Closed: the leaf's transform has finished its call; see Close.
	Closed    bool
	Prim      op.PrimID
	Attr      uint32
	SourceLoc uint32
	Region    uint32 // compiled region that recorded the step, 0 for none
	View      op.ViewOp
	Leaf      uint64 // KindLeaf: handle that accumulates
	In        []Saved
	Out       []Saved
	Hooks     []Hook
	hooked    *ir.Layout // has the levels of vmap of the tensor hooks
	// Post lists the hooks of a leaf that run after it has accumulated.
	Post []uint64
	// Pre lists hooks that get the results' gradients before the step runs, After those that get the gradients on both
	// sides once all steps of its function have run.
	Pre, After []uint64
	From       Source
	// Retain lists the handles that called retain_grad, by output.
	Retain []Retain
	// State of the backward walk.
	session uint32
	wanted  bool
	cot     []op.Val
}

// Hook is a tensor hook on one output. ID 0 marks a removed one.
type Hook struct {
	Out int
	ID  uint64
	// Like is the layout of the tensor that it was registered on, whose hidden dims its gradients get.
	Like *ir.Layout
}

// Source names the user's call that recorded a step. The steps of one call are one function in the graph that Next
// shows.
type Source struct {
	Op   op.OpID // 0 for steps that a backward walk records
	Call uint64  // 0: the step is a function by itself
	// InPlace: the call stores its result through its first operand.
	InPlace bool
	// Number: an operand is a Python number. First is the call's first integer; for a list it is the length, for a word
	// its index, for none -1.
	Number bool
	First  int8
	// Label names a function that Python code defines; "" otherwise.
	Label string
}

// Retain makes a walk keep the cotangent of one output as a handle's grad.
type Retain struct {
	Out    int
	Handle uint64
}

// Bases gives the tape alias identities.
type Bases interface {
	// Commit returns the generation of base and its count of in-place writes.
	Commit(base uint32) (gen uint32, commits uint64)
}

// Tape is a slab of nodes. The engine's lock guards it.
type Tape struct {
	G     *ir.Graph
	Bases Bases
	nodes []*Node
	free  []uint32
	seq   uint64
	live  int
	work  []uint32
	sess  uint32
	// OnHookFree notes that hook id is gone, because its step or the saved value that it packed was freed. The
	// engine sets it; it must not touch the tape, which is in the middle of a release. nil: the tape has no hooks.
	OnHookFree func(id uint64)
	hooksAt    map[int64]int // by level of vmap: the steps with tensor hooks at it
	// From is the source of the steps that are recorded now.
	From Source
	// AllowMutation: values saved now may be written to later. The tape then skips the check; values are immutable, so
	// the walk still reads the saved value.
	AllowMutation bool
	// Packing: values saved now are queued in pending for NextPackHook.
	Packing bool
	pending []place
}

// New makes an empty tape over g.
func New(g *ir.Graph, b Bases) *Tape { return &Tape{G: g, Bases: b, nodes: make([]*Node, 1)} }

// Continue continues the step numbers of old, so that a number of old names no step here.
func (t *Tape) Continue(old *Tape) { t.seq = old.seq }

// Steps is the number of the newest step.
func (t *Tape) Steps() uint64 { return t.seq }

// Live returns the number of nodes in use.
func (t *Tape) Live() int { return t.live }

// EdgeBits is the number of bits of an edge that name the output: a step has as many results as a node of the graph.
const (
	EdgeBits  = 8
	maxOutput = 1<<EdgeBits - 1
)

// Edge returns the edge to output k of node n.
func Edge(n uint32, k int) uint32 { return n<<EdgeBits | uint32(k) }

// Split returns the node and output of an edge.
func Split(e uint32) (n uint32, k int) { return e >> EdgeBits, int(e & maxOutput) }

// Output returns the number of the output that an edge names.
func Output(e uint32) int { return int(e & maxOutput) }

// Node returns the node of edge e.
func (t *Tape) Node(e uint32) *Node { return t.nodes[e>>EdgeBits] }

func (t *Tape) alloc(k Kind, sourceLoc uint32) (uint32, *Node) {
	t.live++
	t.seq++
	var id uint32
	if f := len(t.free); f > 0 {
		id = t.free[f-1]
		t.free = t.free[:f-1]
	} else {
		id = uint32(len(t.nodes))
		t.nodes = append(t.nodes, &Node{})
	}
	n := t.nodes[id]
	*n = Node{Seq: t.seq, Refs: 1, Kind: k, SourceLoc: sourceLoc, Region: t.G.Region, From: t.From, In: n.In[:0],
		Out: n.Out[:0], Hooks: n.Hooks[:0], Post: n.Post[:0], Pre: n.Pre[:0], After: n.After[:0], Retain: n.Retain[:0],
		cot: n.cot[:0]}
	return id, n
}

// save makes the entry for v; a held entry keeps the value alive.
func (t *Tape) save(v op.Val, held bool) Saved {
	s := Saved{Val: v, Held: held && v.IsTensor()}
	if v.Overwritten || t.AllowMutation {
		s.Val.Base = 0
	} else if v.Base != 0 {
		s.BaseGen, s.Commit = t.Bases.Commit(v.Base)
	}
	if s.Held {
		t.G.Retain(v.Value)
	} else if v.IsTensor() {
		s.Val.Value = 0
	}
	return s
}

// Record records a primitive step and returns its number, with one reference for the caller. Its parents are the Tape
// fields of in.
func (t *Tape) Record(p *op.Prim, attr, sourceLoc uint32, in, out []op.Val) uint32 {
	id, n := t.alloc(KindPrim, sourceLoc)
	n.Prim, n.Attr = p.ID, attr
	saveIn := p.SaveIn
	if p.SaveFor != nil {
		need := make([]bool, len(in))
		for i := range in {
			need[i] = in[i].Tape != 0
		}
		saveIn = p.SaveFor(need)
	}
	for i, v := range in {
		n.In = append(n.In, t.save(v, saveIn>>uint(min(i, 31))&1 != 0))
		if v.Tape != 0 {
			t.nodes[v.Tape>>EdgeBits].Refs++
		}
	}
	for i, v := range out {
		held := p.SaveOut>>uint(min(i, 31))&1 != 0
		if p.SavesOut != nil {
			held = p.SavesOut(ir.AttrOf(attr), i, len(out))
		}
		n.Out = append(n.Out, t.save(v, held))
	}
	if t.Packing {
		t.await(id, n)
	}
	return id
}

// RecordView records a view step from in to out, with one reference. It saves the value of in where held says so.
func (t *Tape) RecordView(step op.ViewOp, sourceLoc uint32, in, out op.Val, held bool) uint32 {
	id, n := t.alloc(KindView, sourceLoc)
	n.View = step
	n.View.Dims = append([]int64(nil), step.Dims...)
	if held {
		in.Base = 0 // later writes to the tensor do not matter: the walk reads shape and history
	}
	n.In = append(n.In, t.save(in, held))
	n.Out = append(n.Out, t.save(out, false))
	t.nodes[in.Tape>>EdgeBits].Refs++
	return id
}

// RecordLeaf makes the node that accumulates into handle, with one reference.
func (t *Tape) RecordLeaf(handle uint64, v op.Val) uint32 {
	id, n := t.alloc(KindLeaf, 0)
	n.Leaf = handle
	v.Tape = 0
	n.Out = append(n.Out, t.save(v, false))
	return id
}

// AdoptOutput notes that output k of edge e became the value of base. If the step saved the output, later writes to
// base are detected.
func (t *Tape) AdoptOutput(e, base uint32) {
	if t.AllowMutation {
		return
	}
	n, k := t.Node(e), int(e&maxOutput)
	for n.Kind == KindView { // the view shares its input's storage
		e = n.In[0].Val.Tape
		n, k = t.Node(e), int(e&maxOutput)
	}
	if n.Kind == KindPrim && k < len(n.Out) && n.Out[k].Val.Base == 0 {
		o := &n.Out[k]
		o.Val.Base = base
		o.BaseGen, o.Commit = t.Bases.Commit(base)
	}
}

// Retain adds a reference to the node of edge e.
func (t *Tape) Retain(e uint32) {
	if e != 0 {
		t.nodes[e>>EdgeBits].Refs++
	}
}

// Move makes *slot, which owns a reference, hold edge e instead.
func (t *Tape) Move(slot *uint32, e uint32) {
	t.Retain(e)
	t.Release(*slot)
	*slot = e
}

// Release drops a reference. The last one frees the step, and the steps that only it referred to.
func (t *Tape) Release(e uint32) {
	if e == 0 {
		return
	}
	id := e >> EdgeBits
	n := t.nodes[id]
	if n.Refs--; n.Refs > 0 {
		return
	}
	if n.Refs < 0 {
		panic("BUG: tape node released too often")
	}
	base := len(t.work)
	t.work = append(t.work, id)
	for len(t.work) > base {
		id = t.work[len(t.work)-1]
		t.work = t.work[:len(t.work)-1]
		n = t.nodes[id]
		t.freeSaved(n)
		for i := range n.In {
			if pe := n.In[i].Val.Tape; pe != 0 {
				p := t.nodes[pe>>EdgeBits]
				if p.Refs--; p.Refs == 0 {
					t.work = append(t.work, pe>>EdgeBits)
				}
			}
		}
		if t.OnHookFree != nil {
			for _, h := range n.Hooks {
				t.OnHookFree(h.ID)
			}
			for _, list := range [3][]uint64{n.Post, n.Pre, n.After} {
				for _, id := range list {
					t.OnHookFree(id)
				}
			}
		}
		t.countHooks(n, -1)
		n.Kind = kindFree
		n.In, n.Out, n.Hooks, n.Post, n.Retain = n.In[:0], n.Out[:0], n.Hooks[:0], n.Post[:0], n.Retain[:0]
		n.Pre, n.After = n.Pre[:0], n.After[:0]
		t.live--
		t.free = append(t.free, id)
	}
}

// freeSaved releases the saved values of n.
func (t *Tape) freeSaved(n *Node) {
	for _, list := range [2][]Saved{n.In, n.Out} {
		for i := range list {
			if id := list[i].Hook; id != 0 {
				list[i].Hook = 0
				n.Freed = true
				t.OnHookFree(id)
			}
			if list[i].Held {
				list[i].Held = false
				v := list[i].Val.Value
				list[i].Val.Value = 0
				t.G.Release(v)
				n.Freed = true
			}
		}
	}
}
