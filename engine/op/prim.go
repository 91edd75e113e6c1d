package op

import (
	"fmt"

	"github.com/torchlette/torchlette/ir"
)

// PrimID numbers a primitive; 0 is none.
type PrimID uint16

// Val is an operand: a view (layout and offset) of a recorded value with its place on the tape, or a number of the
// host. It is passed by value.
type Val struct {
	Value  uint32 // graph value; 0 for a number
	Layout ir.LayoutID
	Offset int64     // of the view, in elements; of a number its bits, see Bits
	Aval   ir.AvalID // of the stored value
	Tape   uint32    // tape edge; 0 where it carries no gradient
	Base   uint32    // base that it was read from; 0 for an intermediate result
	Kind   ValKind
	// Detached: the value went through Builder.Detach, so an alias of it has a separate history.
	Detached bool
	// Severed: the value counts without its tangents.
	Severed bool
	// OwnWrites is the operator's: see Def.OwnWrites.
	OwnWrites bool
	// Overwritten: it is the operand that an in-place operation writes. The operation saves the old version, which the
	// write does not change.
	Overwritten bool
	// Number: it stands for a complex number of Python, which has the least priority where dtypes are promoted.
	Number     bool
	CaptureReg uint16 // its register while a rule is captured; see engine/dispatch
}

// Number makes a scalar operand: bits of a float64 for ScalarFloat, else of an int64.
func Number(k ValKind, bits uint64) Val { return Val{Kind: k, Offset: int64(bits)} }

// Bits are a number's bits, as Number takes them.
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
	ScalarComplex // in calls only: this number and the next are real and imaginary part
)

// IsTensor reports a tensor operand.
func (v Val) IsTensor() bool { return v.Kind == Tensor }

// IsScalar reports a number.
func (v Val) IsScalar() bool { return v.Kind >= ScalarBool }

// Shape is the sizes of the view; nil for a number.
func (v Val) Shape() []int64 {
	if v.Kind != Tensor {
		return nil
	}
	return ir.LayoutOf(v.Layout).Shape
}

// L is the layout of a tensor operand.
func (v Val) L() *ir.Layout { return ir.LayoutOf(v.Layout) }

// DType is the dtype of the elements; of a number, PyTorch's default for its kind.
func (v Val) DType() ir.DType {
	switch v.Kind {
	case Tensor:
		return ir.ElementType(ir.AvalOf(v.Aval).DType, v.Layout)
	case ScalarBool:
		return ir.Bool
	case ScalarInt:
		return ir.I64
	case ScalarFloat:
		return ir.F32
	}
	return ir.InvalidDType
}

// Device is the device of a tensor operand.
func (v Val) Device() ir.DeviceID { return ir.AvalOf(v.Aval).Device }

// AppendOperand adds to key the properties of an operand that a rule may read. opaque leaves out the value of a number.
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
	if v.Number {
		flags |= 1 << 13
	}
	return append(key, uint64(v.Aval)<<32|uint64(v.Layout), uint64(v.Offset)<<16|flags)
}

// OutSpec is one output of a primitive before interning.
type OutSpec struct {
	DType ir.DType
	Shape []int64
}

// NotDifferentiable is the reason why a primitive has no gradient.
type NotDifferentiable string

// VJPCall is the call of a VJP rule.
type VJPCall struct {
	B    Builder
	Attr []int64
	In   []Val  // the inputs; those that SaveIn does not name have shape and dtype only, and Value 0
	Out  []Val  // the outputs; those that SaveOut does not name likewise
	Cot  []Val  // one for each output; Kind None where no gradient flows
	Need []bool // which inputs want a gradient
}

// VJP returns one cotangent for each input; Kind None for inputs without gradient. A cotangent has the shape of the
// input's view as the primitive saw it. A broadcast operand was expanded before, so the rule need not sum for it.
type VJP func(c *VJPCall) []Val

// Prim is one primitive: its name, its rules and its properties.
type Prim struct {
	ID   PrimID
	Name string
	Doc  string
	// Form names the operands, attributes and results in order, for readers: "x, i {dim} -> y".
	Form string
	// Variants names the variants of a primitive that has several: attribute number VariantAt says which one a node is.
	Variants  []string
	VariantAt int
	// NIn is the number of inputs, or -1 for a list.
	NIn int
	// Infer checks inputs and attributes and appends the outputs to out, a scratch slice. An error names the op, the
	// given value and the expected one.
	Infer func(in []Val, attr []int64, out []OutSpec) ([]OutSpec, error)
	// VJP is the gradient rule; NoVJP the reason for its absence. Exactly one of both is set.
	VJP   VJP
	NoVJP NotDifferentiable
	// SaveIn and SaveOut are bit masks of the inputs and outputs that VJP reads.
	SaveIn, SaveOut uint32
	// SavesOut replaces SaveOut where that depends on the attributes: it reports that VJP reads result k of n.
	SavesOut func(attr []int64, k, n int) bool
	// SaveFor narrows SaveIn by the inputs that need a gradient; nil keeps all of SaveIn.
	SaveFor func(need []bool) (in uint32)
	// Elementwise: an output element depends on the same element of each input. Inputs have the output's shape,
	// broadcast by strides of 0.
	Elementwise bool
	// IndexInput is the operand (1 or later) that holds indices into dim attr[0] of operand 0; 0: none. Kernels of such
	// primitives check the indices.
	IndexInput int
	// IgnoredIndex is the number of the attribute with an index that is allowed though it is out of range; 0: none.
	IgnoredIndex int
	// DataError makes the error for data that a kernel refuses, from the attributes and the element that the kernel
	// reports; nil: an index out of range.
	DataError func(attr []int64, element int64) *ir.Error
	// DTypeAttr: attribute 0 is the dtype of the result.
	DTypeAttr bool
	// Random marks a draw, which is never merged and never computed again with another Philox offset.
	Random bool
	// Seed says which number of a node with these attributes is the seed of a draw; the next one is its Philox offset.
	// nil, or ok false: the node draws nothing.
	Seed func(attr []int64) (number int, ok bool)
	// Moves: the result is on another device than the operand.
	Moves bool
	// LayoutAttrs lists the attributes that are an ir.LayoutID.
	LayoutAttrs []int
	// WritesView: output 0 is input 0 with input 1 written through a view. Attribute 0 is the view's layout, the first
	// number its offset.
	WritesView bool
	// InPlace lists pairs {output k, input i}: the kernel reads input i only at the element that it writes, so output k
	// may use its buffer. {0, i} is implied for Elementwise.
	InPlace [][2]int
	// UpdatesInput: output 0 is input 0 changed in part, in place where the planner can, else after a copy.
	UpdatesInput bool
	// Unordered: a device may combine or overwrite elements of one place in the order in which its threads meet. Under
	// deterministic algorithms the primitive is recorded with Deterministic after its attributes.
	Unordered bool
	// Shared: a node over a stored value is recorded once for a window, however often it is asked for: the casts of a
	// weight under autocast.
	Shared bool
	// ScalarDType gives the dtype of scalar operand i. nil: the dtype of the first tensor input, or of the first output
	// where there is none.
	ScalarDType func(in []Val, out []OutSpec, i int) ir.DType
	FLOPs       func(in []Val, out []OutSpec) int64
	// BatchKind and Batch say how vmap computes the primitive; see SetBatch.
	BatchKind BatchKind
	Batch     Batch
	// JVPKind and JVP say how forward mode computes the tangents of the results; see SetJVP.
	JVPKind JVPKind
	JVP     JVP
	// Complex records the primitive on complex operands; see SetComplex.
	Complex Complex
}

// Deterministic is an attribute: the result must not depend on the order of threads.
const Deterministic int64 = -1

// InBounds is an attribute of a scatter after its others: the caller knows that indices are in range. Kernels clamp
// them and report nothing, so that a device need not keep its stores in the order of checks.
const InBounds int64 = -2

var (
	prims      = []*Prim{nil}
	primByName = map[string]*Prim{}
)

// MayFail reports that kernels of p may refuse their data.
func (p *Prim) MayFail() bool { return p.IndexInput > 0 || p.DataError != nil }

// Refusal returns the error for an element that a kernel refuses. Without DataError the element is an index that is out
// of dim attr[0], which has the given size.
func (p *Prim) Refusal(attr []int64, element, size int64) *ir.Error {
	if p.DataError != nil {
		return p.DataError(attr, element)
	}
	return ir.Errorf(ir.ErrIndex, "index %d is out of bounds for dimension %d with size %d", element, attr[0], size)
}

// IndexedSize is the size of dim attr[0] of a layout, -1 where there is none.
func IndexedSize(layout ir.LayoutID, attr []int64) int64 {
	if len(attr) == 0 || layout == 0 {
		return -1
	}
	if shape := ir.LayoutOf(layout).Shape; attr[0] >= 0 && attr[0] < int64(len(shape)) {
		return shape[attr[0]]
	}
	return -1
}

// NameFor is the name of p with these attributes: the variant's, where p has variants.
func (p *Prim) NameFor(attr []int64) string {
	if p.Variants == nil {
		return p.Name
	}
	return p.Variants[attr[p.VariantAt]]
}

// RegisterPrim adds p to the registry. It panics on a duplicate or an incomplete entry, which is a bug since
// registration happens at start-up.
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

// PrimNamed returns the primitive with that name, and panics where there is none.
func PrimNamed(name string) *Prim {
	p := primByName[name]
	if p == nil {
		panic(fmt.Sprintf("BUG: no primitive %q", name))
	}
	return p
}

// FindPrim returns the primitive with that name, or nil.
func FindPrim(name string) *Prim { return primByName[name] }

// Prims lists the primitives in order of registration.
func Prims() []*Prim { return prims[1:] }
