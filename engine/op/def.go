package op

import (
	"fmt"
	"math"

	"github.com/torchlette/torchlette/ir"
)

// OpID numbers an operator; it is the first argument of tl_op.
type OpID uint16

// Builder records primitives. engine/lazy implements it, for user calls and for VJPs.
type Builder interface {
	// Emit records primitive p. Tensor inputs must be on one device. attr is copied. The outputs are dense. Emit panics
	// with *ir.Error on bad input; the engine's entry points turn that into a status.
	Emit(p PrimID, attr []int64, in ...Val) Val
	// Emit1 and Emit2 are Emit for one and two operands without attributes.
	Emit1(p PrimID, x Val) Val
	Emit2(p PrimID, x, y Val) Val
	// EmitN is Emit for several outputs.
	EmitN(p PrimID, attr []int64, in ...Val) []Val
	// View returns the view of v with the given layout and absolute offset. backward says how the cotangent of this
	// step goes back; see ViewOp. Of a complex v, the layout and the distance of both offsets count complex elements.
	View(v Val, l *ir.Layout, offset int64, backward ViewOp) Val
	// Detach returns v without its place on the tape.
	Detach(v Val) Val
	// RNG reserves n draws and returns (seed, Philox offset) as scalar operands.
	RNG() (seed, drawOffset Val)
	// DefaultDType is torch.get_default_dtype().
	DefaultDType() ir.DType
	// DefaultDevice is where creation without device= puts its result.
	DefaultDevice() ir.DeviceID
	// NeedsGrad reports whether an operation on v is recorded on the tape now.
	NeedsGrad(v Val) bool
}

// ViewOp says how the cotangent of a view step goes back.
type ViewOp struct {
	Kind ViewKind
	// Dims, of ViewPermute, are the permutation. Of ViewStrided they are the view's strides and offset if its input were
	// dense; they are there where elements of the input share memory, so that its own strides do not tell them apart.
	Dims []int64
	// Whole: the step and its layout count the hidden dims of vmap; else they describe one element.
	Whole bool
}

// ViewKind names a view step.
type ViewKind uint8

// The view kinds. ViewStrided is the general one: the cotangent is scattered into zeros of the input's shape, and added
// where the view overlaps itself.
const (
	ViewStrided ViewKind = iota
	ViewReshape          // the cotangent is reshaped back
	ViewPermute          // the cotangent is permuted back
	ViewExpand           // the cotangent is summed over the expanded dims
	ViewPair             // no step: complex elements are named as pairs of numbers, or pairs as complex elements
	ViewFlat             // an alias; gradients of gradients reach the input, with derivative 0
)

// Args is a decoded call: the flat encoding that the signature defines. The methods below read it in the order of the
// parameters.
type Args struct {
	B       Builder
	Op      *Def
	In      []Val   // tensors and operands in order; an absent optional has Kind None
	Ints    []int64 // ints, bools, dtypes, devices and enums in order; a list is preceded by its length (-1 for None)
	Scalars []Val   // Scalar and float parameters in order
	// Lower is autocast's dtype on the CPU and on GPUs, or none: for operators that autocast leaves alone but for a
	// product of matrices inside.
	Lower      [2]ir.DType
	ni, nt, ns int
	ret        [4]Val
}

// Ret returns the results of an Eval in a's own storage, which is valid until the next call.
func (a *Args) Ret(v ...Val) []Val { return append(a.ret[:0], v...) }

// Reset makes the next read begin at the first parameter.
func (a *Args) Reset() { a.ni, a.nt, a.ns = 0, 0, 0 }

// Val reads the next Tensor, Tensor? or Operand parameter.
func (a *Args) Val() Val { v := a.In[a.nt]; a.nt++; return v }

// Vals reads a Tensor[] parameter.
func (a *Args) Vals() []Val {
	n := int(a.Int())
	v := a.In[a.nt : a.nt+n]
	a.nt += n
	return v
}

// Int reads an int, enum, or device parameter.
func (a *Args) Int() int64 { v := a.Ints[a.ni]; a.ni++; return v }

// OptInt reads an int? parameter.
func (a *Args) OptInt() (v int64, given bool) {
	given = a.Int() != 0
	return a.Int(), given
}

// Bool reads a bool parameter.
func (a *Args) Bool() bool { return a.Int() != 0 }

// OptBool reads a bool? parameter.
func (a *Args) OptBool() (v, given bool) {
	i, g := a.OptInt()
	return i != 0, g
}

// IntList reads an int[] or int[]? parameter; given is false for None.
func (a *Args) IntList() (v []int64, given bool) {
	n := a.Int()
	if n < 0 {
		return nil, false
	}
	v = a.Ints[a.ni : a.ni+int(n)]
	a.ni += int(n)
	return v, true
}

// DType reads a dtype? parameter; InvalidDType for None.
func (a *Args) DType() ir.DType { return ir.DType(a.Int()) }

// Device reads a device? parameter; given is false for None (the default device).
func (a *Args) Device() (d ir.DeviceID, given bool) {
	i := a.Int()
	if i < 0 {
		return 0, false
	}
	return ir.DeviceID(i), true
}

// Scalar reads a Scalar or float parameter as a scalar Val; Kind None for None.
func (a *Args) Scalar() Val { v := a.Scalars[a.ns]; a.ns++; return v }

// Float reads a float parameter.
func (a *Args) Float() float64 { return a.Scalar().Float() }

// Float is the number as a float64; NaN of a complex number, a tensor, which rules do not compare.
func (v Val) Float() float64 {
	if v.IsTensor() {
		return math.NaN()
	}
	if v.Kind == ScalarFloat {
		return math.Float64frombits(v.Bits())
	}
	return float64(int64(v.Bits()))
}

// FloatVal makes a scalar operand of kind ScalarFloat.
func FloatVal(f float64) Val { return Number(ScalarFloat, math.Float64bits(f)) }

// IntVal makes a scalar operand of kind ScalarInt.
func IntVal(i int64) Val { return Number(ScalarInt, uint64(i)) }

// BoolVal makes a scalar operand of kind ScalarBool.
func BoolVal(b bool) Val {
	if b {
		return Number(ScalarBool, 1)
	}
	return Number(ScalarBool, 0)
}

// Eval computes an operator's results from a decoded call.
type Eval func(a *Args) []Val

// Def is one operator overload.
type Def struct {
	ID OpID
	// Sig is the signature in the grammar of sig.go. The name may have an overload: "max.dim(Tensor self, int dim, bool
	// keepdim=False) -> (Tensor values, Tensor indices)".
	Sig  string
	Doc  string
	Eval Eval
	// Where lists the places of the name; 0 means Function|Method.
	Where Where
	// Aliases are further names in the same places, such as "absolute" for abs.
	Aliases []string
	// View: the results are views of the first tensor and share its base.
	View bool
	// NewView: a result that equals the first operand is a new tensor, with a step on the tape, as for PyTorch's view
	// functions. Other operators return the operand itself.
	NewView bool
	// OwnWrites: the alias that it makes counts its writes apart, so that backward does not see them in the operand.
	OwnWrites bool
	// ReadsOffset: the result depends on the storage offset of the first operand, which its layout does not have.
	ReadsOffset bool
	// InPlace: "<name>_" exists and stores Eval's first result through self.
	InPlace bool
	// InPlaceOnly: only the in-place form exists, under the signature's own name (normal_, zero_, _sgd_step); Eval
	// gives the new value.
	InPlaceOnly bool
	// ScalarOverload: where all operands are numbers, the first is taken as a tensor without dims.
	ScalarOverload bool
	// Overwrites: the in-place result does not depend on self, whose gradient is zero.
	Overwrites bool
	// Expands: operands are expanded to self's shape before it is written, so those of other sizes may be part of it.
	Expands bool
	// Stores, of an operator with InPlaceOnly: result i is stored through tensor input Stores[i]; nil means {0}. Absent
	// inputs have no result.
	Stores []int
	// Out: "out=" exists; results are copied into the given tensors, which are resized if needed.
	Out bool
	// ExactOut: the tensor that out= or the in-place form writes must have the result's dtype.
	ExactOut bool
	// OutApart: out= shares no element with an operand, not even as the same view.
	OutApart bool
	// PassThrough names the number parameters that Eval passes to primitives unread, such as step sizes of optimizers.
	// Calls that differ in these numbers only share a cached trace.
	PassThrough []string
	// Samples and ErrorSamples drive the generated parity, gradient and error tests.
	Samples      []Sample
	ErrorSamples []Sample
	// Tol replaces assert_close's defaults, with the reason.
	Tol *Tolerance
	// NoGrad excludes the operator from gradient tests, with the reason.
	NoGrad NotDifferentiable

	// Autocast is the rule of autocast for the operands, on the CPU and on GPUs.
	Autocast [2]CastPolicy
	// GradFn names the autograd function of the result.
	GradFn GradFn

	Parsed *Sig // filled in at registration
}

// Where is a set of places in Python at which an operator's name appears.
type Where uint8

// The places of a name.
const (
	Function   Where = 1 << iota // torchlette.name
	Method                       // Tensor.name
	Functional                   // torchlette.nn.functional.name
	Hidden                       // torchlette._C only
	Linalg                       // torchlette.linalg.name, for operators named linalg_name
	Special                      // torchlette.special.name, for operators named special_name and their aliases
	Fourier                      // torchlette.fft.name, for operators named fft_name
)

// Sample is one call for tests, as Python literals. Tensors are written "T(3,4)" (float, standard normal),
// "T(3,4;lo,hi)" (float, uniform in [lo,hi)), "I(3;0,5)" (int64 in [0,5)) or "B(3)" (bool); "T()" has no dims. dtypes
// are written torch.float64, torch.int64. Args are the positional arguments, Kwargs the keyword ones ("dim=1,
// keepdim=True").
type Sample struct {
	Args   string
	Kwargs string
}

// Tolerance replaces assert_close's defaults.
type Tolerance struct {
	RTol, ATol float64
	Reason     string
}

var (
	defs      = []*Def{nil}
	defByName = map[string]*Def{}
)

// Register adds d to the registry. Entries call it from init functions.
func Register(d Def) {
	s, err := ParseSig(d.Sig)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	if defByName[s.Full] != nil {
		panic("BUG: operator registered twice: " + s.Full)
	}
	if d.Where == 0 {
		d.Where = Function | Method
	}
	d.Parsed = s
	d.ID = OpID(len(defs))
	defs = append(defs, &d)
	defByName[s.Full] = &d
}

// DefOf returns the operator numbered id, or nil.
func DefOf(id OpID) *Def {
	if int(id) >= len(defs) {
		return nil
	}
	return defs[id]
}

// Find returns the operator with that full name, nil where there is none.
func Find(full string) *Def { return defByName[full] }

// DefNamed returns the operator with that full name, and panics where there is none.
func DefNamed(full string) *Def {
	d := defByName[full]
	if d == nil {
		panic(fmt.Sprintf("BUG: no operator %q", full))
	}
	return d
}

// Defs lists the operators in order of registration.
func Defs() []*Def { return defs[1:] }
