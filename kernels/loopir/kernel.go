package loopir

import "github.com/torchlette/torchlette/ir"

// Kernel is a program of the loop IR. It runs over Outer+Inner dims; the first Outer+Inner parameters are their sizes.
// For each outer index the stages run in order. A stage over the inner space visits every inner index, in increasing
// row-major order where Prefix is set, else in any order.
//
//	map:      Outer = r, Inner = 0, one stage with stores
//	reduce:   Inner > 0: stage 1 over Inner with accumulators, stage 2 over Outer with a store
//	softmax:  stage max, stage sum of exp, stage store
//	scatter:  a map whose store has a computed index, with a combining Mode
//
// Outer indices are independent, so they run in parallel, except for stores with computed indices: these must combine,
// or write distinct elements.
type Kernel struct {
	Name   string // for messages: "map_add_f32"; not part of the identity
	Outer  int
	Inner  int
	Params []Param
	Bufs   []Buf
	Access []Access
	Exprs  []Expr // SSA: arguments precede uses
	Stages []Stage
	// Checks makes the kernel bind the plan's error word.
	Checks bool
	// NoVec forbids the four-element form, for tests.
	NoVec bool
}

// Param is one kernel parameter: a 64-bit slot on the host.
type Param struct {
	Kind ParamKind
	Type ir.DType // of a Scalar; the slot holds bits as ir.EncodeFloat makes them
}

// ParamKind is the kind of a parameter.
type ParamKind uint8

// The parameter kinds. Sizes, strides and offsets are int64 element counts; a GPU takes them as 32-bit words, checked
// at launch.
const (
	Size ParamKind = iota
	Stride
	Offset
	Scalar
)

// Buf is one buffer binding.
type Buf struct {
	Type   ir.DType
	Access BufAccess
}

// BufAccess says how a kernel uses a buffer.
type BufAccess uint8

// The buffer accesses. Atomic is read-modify-write by stores that combine.
const (
	Read BufAccess = iota
	Write
	ReadWrite
	Atomic
)

// Access is an affine map from the index space to an element of a buffer: Offset + sum over dims of index*stride.
type Access struct {
	Buf int
	// Offset is a parameter number, or -1 for 0.
	Offset int
	// Linear: the element is Offset plus the row-major number of the index: of the whole (outer, inner) index in a
	// stage over the inner space, of the outer index in a stage that runs once for each outer index. An access is used
	// in one kind of stage only. Stride is nil then.
	Linear bool
	// Stride has one entry for each dim, outer dims first: a parameter number, Broadcast or Unit.
	Stride []int
}

// Stride values that are part of the text.
const (
	Broadcast = -1 // stride 0
	Unit      = -2 // stride 1
)

// Stage is one pass.
type Stage struct {
	OverInner bool // visits the inner space; otherwise runs once for each outer index
	Prefix    bool // OpAccRun is used: accumulators are visible while they grow
	Accs      []Acc
	Checks    []Check
	Stores    []Store
}

// Acc is an accumulator of a stage. Accumulators are numbered across the kernel in the order of stages. OpAcc reads the
// final value in later stages.
type Acc struct {
	Op  ReduceOp
	Val int // expression
	// Idx is an integer expression that ArgMax and ArgMin carry beside the value; -1 for other reductions.
	Idx int
	// Unrounded: Val is a product that a device may add to a Sum without rounding it first.
	Unrounded bool
}

// ReduceOp is an associative operation with an identity.
type ReduceOp uint8

// The reductions. Max and Min propagate NaN, as in PyTorch. ArgMax and ArgMin keep the smallest Idx among equals and
// treat NaN as the extreme. An empty reduction gives the identity, which for Max is the type's lowest value.
const (
	Sum ReduceOp = iota
	Prod
	Max
	Min
	ArgMax
	ArgMin
	Any    // bool or
	All    // bool and
	LogSum // log of the sum of exponentials
)

// Check reports a data error: where Cond is false, (event, Elem) goes to the error word if that is still empty. The
// kernel goes on with clamped indices.
type Check struct {
	Cond int // bool expression
	Elem int // integer expression: the offending value
}

// Store writes Val, either through Access >= 0 or to element Index of Buf >= 0.
type Store struct {
	Access int // affine; -1 for a computed index
	Buf    int
	Index  int // i64 expression: element number, in bounds
	Val    int
	Mode   StoreMode
	// Guard, where >= 0, is a bool expression: no store is made where it is false.
	Guard int
}

// StoreMode says what happens at the element.
type StoreMode uint8

// The store modes.
const (
	Set StoreMode = iota
	// The others combine with the old value, atomically where threads may meet. Maximize and Minimize propagate NaN.
	Add
	Multiply
	Maximize
	Minimize
	NumStoreModes // number of modes
)

// Op is the operation by which m combines; OpInvalid for Set.
func (m StoreMode) Op() Op { return [NumStoreModes]Op{OpInvalid, OpAdd, OpMul, OpMax, OpMin}[m] }

// Expr is one scalar operation. Type is the result type, a compute type: never F16 or BF16, since loads widen and
// stores narrow.
type Expr struct {
	Op   Op
	Type ir.DType
	A    int // arguments: numbers of earlier expressions, -1 where absent
	B    int
	C    int
	Imm  uint64
}

// Op is a scalar operation.
type Op uint8

// The scalar operations. Integer division and shifts follow Go's semantics on defined inputs; division by integer zero
// gives 0. Comparisons give Bool.
const (
	OpInvalid Op = iota

	// Leaves.
	OpConst  // Imm: bits in Type
	OpParam  // Imm: parameter number; a Scalar, or a size, stride or offset as I64
	OpIndex  // Imm: dim number (outer first); I64
	OpLinear // row-major number of the index, as in Access.Linear; one kind of stage in a kernel; I64
	OpLoad   // Imm: access number; widened to Type
	OpLoadAt // Imm: buffer number; A: i64 element number, in bounds
	OpAcc    // Imm: accumulator number: its final value
	OpAccIdx // Imm: accumulator number: its final Idx
	OpAccRun // Imm: accumulator number of this Prefix stage: its value including the current element

	// Conversions.
	OpCast    // by value, as PyTorch converts (float to int truncates, unspecified out of range; to Bool: != 0)
	OpBitcast // same width
	OpNarrow  // Imm: ir.F16 or ir.BF16: an F32 rounded as a store in that type rounds it, widened again

	// Arithmetic.
	OpAdd
	OpSub
	OpMul
	OpDiv // float: IEEE; int: truncated
	OpRem // truncated remainder, as C
	OpMin // propagates NaN
	OpMax // propagates NaN
	OpNeg
	OpAbs
	OpFma
	OpPow
	OpLogAdd // log(exp(A) + exp(B)) of floats, without overflow

	// Comparisons and logic.
	OpEq
	OpNe
	OpLt
	OpLe
	OpSelect // A: bool; B where it is true, C where it is false
	OpAnd    // bool or integer bits
	OpOr
	OpXor
	OpNot
	OpShl
	OpShr // logical on U32 and U64, arithmetic on I32 and I64

	// Float functions.
	OpFloor
	OpCeil
	OpRound // half to even
	OpTrunc
	OpSqrt
	OpExp
	OpLog
	OpSin
	OpCos
	OpTanh
	OpErf
	OpIsNaN

	// A random word of the element. A: OpLinear, the element's number; B, C: i64 Philox offset and seed; Imm: a DrawPart;
	// U32. Element e has word e%4 of block e/4 of Philox4x32-10 (Salmon et al., SC 2011), with counter (block, offset)
	// under the key seed.
	OpDraw

	NumOps
)
