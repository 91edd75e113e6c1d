package op

import (
	"fmt"

	"github.com/torchlette/torchlette/ir"
)

// PrimID numbers a primitive; 0 is none.
type PrimID uint16

// Val is a functional operand: a view (layout and offset) of a recorded value,
// with its place on the tape, or a host scalar. It is passed by value.
type Val struct {
	Value  uint32 // graph value; 0 for a scalar
	Layout ir.LayoutID
	Offset int64     // of the view, in elements; of a number, its bits: see Bits
	Aval   ir.AvalID // of the stored value
	Tape   uint32    // tape edge; 0 when it carries no gradient
	Base   uint32    // alias identity it was resolved from; 0 for an intermediate result
	Kind   ValKind
	// Detached: the value went through Builder.Detach: an alias of it has a history of its own.
	Detached bool
	// OwnWrites is the operator's: see Def.OwnWrites.
	OwnWrites bool
	// Replaced: an in-place operation's own operand, of which it saves the old version: the
	// write cannot touch that.
	Overwritten bool
	CaptureReg  uint8 // register of the value while a rule is watched; see engine/lazy's cached traces
}

// Number makes a scalar operand: bits of a float64 for ScalarFloat, else of an int64.
func Number(k ValKind, bits uint64) Val { return Val{Kind: k, Offset: int64(bits)} }

// Bits gives a number's bits, as Number takes them.
func (v Val) Bits() uint64 { return uint64(v.Offset) }

// ValKind tells tensors from Python numbers.
type ValKind uint8

// The kinds of Val.
const (
	None ValKind = iota // an absent optional operand
	Tensor
	ScalarBool
	ScalarInt
	ScalarFloat
)

// IsTensor reports a tensor operand.
func (v Val) IsTensor() bool { return v.Kind == Tensor }

// IsScalar reports a host number.
func (v Val) IsScalar() bool { return v.Kind >= ScalarBool }

// Shape gives the sizes of the view; nil for a scalar.
func (v Val) Shape() []int64 {
	if v.Kind != Tensor {
		return nil
	}
	return ir.LayoutOf(v.Layout).Shape
}

// L gives the layout of a tensor operand.
func (v Val) L() *ir.Layout { return ir.LayoutOf(v.Layout) }

// DType gives the element type: of a number, PyTorch's default for its kind.
func (v Val) DType() ir.DType {
	switch v.Kind {
	case Tensor:
		return ir.AvalOf(v.Aval).DType
	case ScalarBool:
		return ir.Bool
	case ScalarInt:
		return ir.I64
	case ScalarFloat:
		return ir.F32
	}
	return ir.InvalidDType
}

// Device gives the device of a tensor operand.
func (v Val) Device() ir.DeviceID { return ir.AvalOf(v.Aval).Device }

// AppendOperand adds what a rule may see of an operand; opaque leaves out the value of a number.
func AppendOperand(key []uint64, v *Val, opaque bool) []uint64 {
	flags := uint64(v.Kind)
	if v.Kind != Tensor {
		if opaque {
			return append(key, flags)
		}
		return append(key, flags, v.Bits())
	}
	if v.Tape != 0 {
		flags |= 1 << 8
	}
	if v.Detached {
		flags |= 1 << 9
	}
	if v.Overwritten {
		flags |= 1 << 10
	}
	if v.Base != 0 {
		flags |= 1 << 11
	}
	if v.Value == 0 {
		flags |= 1 << 12
	}
	return append(key, uint64(v.Aval)<<32|uint64(v.Layout), uint64(v.Offset)<<16|flags)
}

// OutSpec is one output of a primitive, before interning.
type OutSpec struct {
	DType ir.DType
	Shape []int64
}

// NotDifferentiable is the explicit absence of a gradient, with its reason.
type NotDifferentiable string

// VJPCall is what a VJP rule sees.
type VJPCall struct {
	B    Builder
	Attr []int64
	In   []Val  // the saved inputs; only those named by Saves are set (others: shape and dtype only, Value 0)
	Out  []Val  // the saved outputs, likewise
	Cot  []Val  // one a output; Kind None where no gradient flows
	Need []bool // which inputs want a gradient
}

// VJP returns one cotangent an input; Kind None for inputs without gradient.
// Each cotangent has the shape of the input's view as the primitive saw it
// (a broadcast operand was expanded first, so the rule sums nothing itself).
type VJP func(c *VJPCall) []Val

// Prim is one primitive: the rules beside the name.
type Prim struct {
	ID   PrimID
	Name string
	Doc  string
	// Form names the operands, the attributes and the results in order, for people: "x, i {dim} -> y".
	Form string
	// Variants names the members of a family: attribute number VariantAt says which one a node is.
	Variants  []string
	VariantAt int
	// Arity of inputs: exact, or -1 for a list.
	NIn int
	// Infer checks inputs and attributes and appends the outputs to out (a
	// scratch slice). An error names the op, what was given and what was wanted.
	Infer func(in []Val, attr []int64, out []OutSpec) ([]OutSpec, error)
	// VJP, or the reason for its absence. Exactly one of both is set.
	VJP   VJP
	NoVJP NotDifferentiable
	// SaveIn and SaveOut are bit masks of the inputs and outputs that VJP reads.
	SaveIn, SaveOut uint32
	// SaveFor narrows SaveIn by which inputs need a gradient; nil keeps all of SaveIn.
	SaveFor func(need []bool) (in uint32)
	// Elementwise: one output element depends on the same element of the inputs.
	// Inputs have the output's shape (broadcast by stride 0).
	Elementwise bool
	// Folds: a product whose result only this reads applies it before it stores.
	Folds bool
	// IndexInput is the operand (1 or later) that holds indices into dim attr[0] of operand
	// 0; 0 when there is none. Kernels of such primitives check their indices.
	IndexInput int
	// IgnoredIndex is the number of the attribute that names an index which is let pass though it is
	// none of the dim's; 0 when there is none.
	IgnoredIndex int
	// DataError gives the error of data that a kernel refuses, from the attributes and the element that it reports; nil:
	// an index out of range.
	DataError func(attr []int64, element int64) *ir.Error
	// Random marks a draw: never merged, never recomputed with a new Philox offset.
	Random bool
	// Seed gives which number of a node with these attributes is the seed of a draw; the next one is its Philox offset.
	// nil, or ok false: it draws nothing.
	Seed func(attr []int64) (number int, ok bool)
	// Moves: its result is on another device than its operand.
	Moves bool
	// LayoutAttrs lists the attributes that are an ir.LayoutID.
	LayoutAttrs []int
	// WritesView: output 0 is input 0 with input 1 written through a view: attribute 0 is its layout, the first number its
	// offset.
	WritesView bool
	// Reads names, for the in-place rule: input i is read only at the very element that is
	// written (true for elementwise operands), so output k may share its buffer.
	InPlace [][2]int // pairs {output, input}; implied {0, i} for Elementwise
	// Updates: output 0 is input 0 changed in part, in place where the planner can, and else after a copy.
	UpdatesInput bool
	// Unordered: a device may add, multiply or write elements of one place in the order in which its threads meet. Under
	// deterministic algorithms the primitive is recorded with Deterministic after its attributes.
	Unordered bool
	// ScalarDType gives the type of scalar operand i. nil: the type of the first tensor
	// input, or without one the first output's.
	ScalarDType func(in []Val, out []OutSpec, i int) ir.DType
	FLOPs       func(in []Val, out []OutSpec) int64
}

// Deterministic is the attribute of a primitive whose result must not depend on the order of threads.
const Deterministic int64 = -1

var (
	prims      = []*Prim{nil}
	primByName = map[string]*Prim{}
)

// Faults reports that kernels of p may refuse their data.
func (p *Prim) MayFail() bool { return p.IndexInput > 0 || p.DataError != nil }

// Called is the name of p with these attributes: of a family, the member's.
func (p *Prim) NameFor(attr []int64) string {
	if p.Variants == nil {
		return p.Name
	}
	return p.Variants[attr[p.VariantAt]]
}

// RegisterPrim adds p to the table. It panics on a duplicate or an incomplete
// entry: registration happens at start-up, so that is a bug.
func RegisterPrim(p Prim) PrimID {
	if primByName[p.Name] != nil {
		panic("BUG: primitive registered twice: " + p.Name)
	}
	if p.Infer == nil || (p.VJP == nil) == (p.NoVJP == "") {
		panic("BUG: primitive needs Infer and one of VJP and NoVJP: " + p.Name)
	}
	p.ID = PrimID(len(prims))
	prims = append(prims, &p)
	primByName[p.Name] = &p
	return p.ID
}

// PrimOf returns the primitive numbered id.
func PrimOf(id PrimID) *Prim { return prims[id] }

// PrimAt returns the primitive that an ir.Node with that Op runs; nil for a stored value, a further result and a free
// node.
func PrimAt(o uint16) *Prim {
	if o >= ir.OpProj {
		return nil
	}
	return prims[o]
}

// Of returns the primitive that n runs; nil where PrimAt gives none.
func Of(n *ir.Node) *Prim { return PrimAt(n.Op) }

// PrimNamed returns the primitive of that name; it panics when there is none.
func PrimNamed(name string) *Prim {
	p := primByName[name]
	if p == nil {
		panic(fmt.Sprintf("BUG: no primitive %q", name))
	}
	return p
}

// FindPrim returns the primitive of that name, nil when there is none.
func FindPrim(name string) *Prim { return primByName[name] }

// Prims lists the primitives in order of registration.
func Prims() []*Prim { return prims[1:] }
