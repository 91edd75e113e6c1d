package program

import (
	"slices"

	"github.com/torchlette/torchlette/ir"
)

// Ref names a value of a program: the result of a node, or an input. 0 names none.
type Ref uint32

const inputBit = 1 << 31

// NodeRef names the result of node i.
func NodeRef(i int) Ref { return Ref(i + 1) }

// InputRef names input i.
func InputRef(i int) Ref { return Ref(i) | inputBit }

// IsInput reports an input.
func (r Ref) IsInput() bool { return r&inputBit != 0 }

// IsNode reports the result of a node.
func (r Ref) IsNode() bool { return r != 0 && r&inputBit == 0 }

// Index is the number of the node or of the input.
func (r Ref) Index() int {
	if r.IsInput() {
		return int(r &^ inputBit)
	}
	return int(r) - 1
}

// Node is one step: a primitive, or a further result of the primitive that its only operand names.
type Node struct {
	Op       uint16 // number of the primitive; ir.OpProj for a further result
	Operands uint16
	Outputs  uint8 // number of results of the primitive, held or not; 1 for a further result
	Region   uint8 // compiled region, 0 for none: neighbours with one number are in one region; see MaxRegions
	Live     Live
	// SameView is set on a node that writes a value through a view of its first operand. Bit j: operand j of the node
	// that makes the value reads the first operand through that same view. See Program.Relate.
	SameView uint8
	Attr     uint32 // interned attributes; for a further result its number
	Aval     ir.AvalID
	Edge     uint32 // its first operand in Program.Edges and Program.Offsets
	Scalar   uint32 // its first number in Program.Scalars
}

// MaxRegions bounds Node.Region. After the last number the first one comes again.
const MaxRegions = 255

// IsPrim reports a primitive, as opposed to a further result of one.
func (n *Node) IsPrim() bool { return n.Op < ir.OpProj }

// Live says whether something outside of the program refers to a node's result.
type Live uint8

// The values of Live.
const (
	Dead Live = iota
	LiveOutside
)

// Edge is one operand: a view of a value. Value 0 marks a number, which takes the node's next scalar slot. The view's
// offset is in Program.Offsets. The operand of a further result has no layout.
type Edge struct {
	Value  Ref
	Layout ir.LayoutID
}

// Role is the role of an input of a captured function.
type Role uint32

// The roles of an input.
const (
	Argument Role = iota
	Constant      // a value from outside that the function refers to
	State         // a tensor from outside whose newest value each call reads
)

// Input is a value from outside.
type Input struct {
	Aval ir.AvalID
	Role Role
}

// Store is a write of a value to a base, in program order.
type Store struct {
	Value Ref
	Prev  Ref    // the version before; 0 where nothing refers to it any more
	Base  uint32 // ordinal of the base in the program
	Into  Ref    // the input whose base a captured function writes; 0 for a window's store
	Flags StoreFlags
}

// StoreFlags are facts about a store.
type StoreFlags uint32

// The store flags.
const (
	Last StoreFlags = 1 << iota // no later store writes the same base
	// Exclusive: only the base and the program refer to the version before, so it may be overwritten.
	Exclusive
)

// Result is a view of a value that a function returns.
type Result struct {
	Value  Ref
	Layout ir.LayoutID
	Offset int64
	// Of is the input that the result aliases, where the function returned a view of an argument or of a state. 0: the
	// result is a tensor of its own.
	Of Ref
	_  uint32
}

// Draw is a pair of numbers that name a draw. Scalar is the slot of the offset, which is relative to the offsets that
// the call takes; the slot before it takes the seed.
type Draw struct{ Scalar uint32 }

// Program is a closed graph as data. The zero Program is empty. Reset keeps the memory of its slices.
type Program struct {
	Nodes   []Node // in record order: operands come first
	Edges   []Edge // of all nodes, in order
	Inputs  []Input
	Stores  []Store
	Results []Result
	Draws   []Draw
	Drawn   uint64 // number of generator offsets that a call takes
	// Offsets and Scalars are the numbers of one run: the offset of each edge's view, and the bits of each number.
	Offsets []int64
	Scalars []uint64
	// History marks the edges through which gradients flow; nil where nothing was on the tape.
	History []bool
	// Severed marks the edges whose values count without their tangents; nil where there are none.
	Severed []bool
	// Flat numbers the aliases through which piecewise linear functions read operands, from 1, 0 for none: gradients of
	// gradients go on there with derivative 0. nil where there are none. See op.ViewFlat.
	Flat       []uint32
	SourceLocs []uint32 // by node: the source location that recorded it; may be empty
	Hash       uint64   // see Seal
}

// Reset empties p and keeps its memory.
func (p *Program) Reset() {
	p.Nodes, p.Edges, p.Inputs, p.Stores = p.Nodes[:0], p.Edges[:0], p.Inputs[:0], p.Stores[:0]
	p.Results, p.Draws, p.Drawn = p.Results[:0], p.Draws[:0], 0
	p.Offsets, p.Scalars, p.SourceLocs = p.Offsets[:0], p.Scalars[:0], p.SourceLocs[:0]
	p.History, p.Severed, p.Flat = nil, nil, nil
	p.Hash = 0
}

// Clone is a copy that shares nothing with p.
func (p *Program) Clone() *Program {
	return &Program{Nodes: slices.Clone(p.Nodes), Edges: slices.Clone(p.Edges), Inputs: slices.Clone(p.Inputs),
		Stores: slices.Clone(p.Stores), Results: slices.Clone(p.Results), Draws: slices.Clone(p.Draws), Drawn: p.Drawn,
		Offsets: slices.Clone(p.Offsets), Scalars: slices.Clone(p.Scalars), History: slices.Clone(p.History),
		Severed: slices.Clone(p.Severed), Flat: slices.Clone(p.Flat), SourceLocs: slices.Clone(p.SourceLocs), Hash: p.Hash}
}

// OperandsOf returns the operands of node i.
func (p *Program) OperandsOf(i int) []Edge {
	n := &p.Nodes[i]
	return p.Edges[n.Edge : n.Edge+uint32(n.Operands)]
}

// OffsetsOf returns the offsets of the operands of node i; 0 for numbers.
func (p *Program) OffsetsOf(i int) []int64 {
	n := &p.Nodes[i]
	return p.Offsets[n.Edge : n.Edge+uint32(n.Operands)]
}

// ScalarsOf returns the numbers of node i.
func (p *Program) ScalarsOf(i int) []uint64 {
	end := uint32(len(p.Scalars))
	if i+1 < len(p.Nodes) {
		end = p.Nodes[i+1].Scalar
	}
	return p.Scalars[p.Nodes[i].Scalar:end]
}

// Attrs returns the attributes of node i.
func (p *Program) Attrs(i int) []int64 { return ir.AttrOf(p.Nodes[i].Attr) }

// AvalID is the abstract value of the stored value that r names, as a number.
func (p *Program) AvalID(r Ref) ir.AvalID {
	if r.IsInput() {
		return p.Inputs[r.Index()].Aval
	}
	return p.Nodes[r.Index()].Aval
}

// Aval is the abstract value of the stored value that r names.
func (p *Program) Aval(r Ref) *ir.Aval { return ir.AvalOf(p.AvalID(r)) }

// SourceLoc is the source location that recorded node i, 0 where it is unknown.
func (p *Program) SourceLoc(i int) uint32 {
	if i < len(p.SourceLocs) {
		return p.SourceLocs[i]
	}
	return 0
}

// Whole reports that operand j of node i reads a whole value in order.
func (p *Program) Whole(i, j int) bool {
	n := &p.Nodes[i]
	e := p.Edges[int(n.Edge)+j]
	if e.Value == 0 || e.Layout == 0 {
		return false
	}
	return ir.LayoutOf(e.Layout).IsWhole(p.Offsets[int(n.Edge)+j], p.Aval(e.Value).Layout)
}

// maxRelated is the number of operands that Node.SameView has bits for.
const maxRelated = 8

// Relate computes Node.SameView of node i, which writes through a view: attribute 0 is the view's layout, the first
// number its offset.
func (p *Program) Relate(i int) uint8 {
	es := p.OperandsOf(i)
	base, value := es[0].Value, es[1].Value
	if !value.IsNode() {
		return 0
	}
	target := ir.LayoutID(p.Attrs(i)[0])
	off := int64(p.Scalars[p.Nodes[i].Scalar])
	offs := p.OffsetsOf(value.Index())
	bits := uint8(0)
	for j, e := range p.OperandsOf(value.Index()) {
		if j < maxRelated && e.Value == base && e.Layout == target && offs[j] == off {
			bits |= 1 << uint(j)
		}
	}
	return bits
}
