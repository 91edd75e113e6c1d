package lower

import (
	"github.com/torchlette/torchlette/engine/device"
	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/kernels/kir"
)

// Operand is an input as the kernel sees it.
type Operand struct {
	DType  ir.DType
	Layout *ir.Layout // of the view; nil for a scalar
	Scalar bool       // takes the next scalar slot
	Buf    int        // local buffer number; operands over one buffer share it
}

// Output is a result. Layout is dense unless the plan lets the kernel write
// through a view of an existing buffer.
type Output struct {
	DType  ir.DType
	Layout *ir.Layout
	Buf    int // may equal an operand's Buf where op.Prim.InPlace allows: the kernel updates in place
	// Through: the output is a view with a run-time offset (OffsetOf), dense or not.
	Through bool
}

// Fold is an elementwise primitive that a product applies to its result.
type Fold struct {
	Prim *op.Prim
	Attr []int64
	// In says of each operand which one of the node it is; -1: the value so far. Operands are dense, and of the result's shape and dtype.
	In []int
}

// Node is a primitive to lower.
type Node struct {
	Prim *op.Prim
	Attr []int64
	In   []Operand
	Out  []Output
	Bufs int // number of local buffers used by In and Out
	// Residual: the last operand is dense, has the first output's shape and dtype, and is added to it.
	Residual bool
	// Folds are applied to the first output, one after another, each rounded to its dtype.
	Folds []Fold
	// Sums: the last output is the sums of operand 'a' or 'b' of a product along its depth; see kir.Gemm.
	Sums byte
	// GemmDims: the device multiplies along several dims in the first output's dtype. InOrder is that of its device.Caps.
	GemmDims, InOrder bool
	// Wide is that of device.Caps.
	Wide bool
}

// ParamKind says where a launch parameter's value comes from.
type ParamKind uint8

// The sources of a parameter.
const (
	Constant ParamKind = iota // Value
	OffsetOf                  // Value + the element offset of operand Index (output k is operand len(In)+k)
	ScalarOf                  // scalar operand: Index counts scalar operands from 0
)

// Param is a launch parameter.
type Param struct {
	Kind  ParamKind
	Index int
	Value int64
}

// Launch is one device step over local buffers; temporaries are numbered from Node.Bufs up.
type Launch struct {
	Kind      device.StepKind
	Kernel    *kir.Kernel
	Gemm      *kir.Gemm
	Attention *kir.Attention
	Factor    *kir.Factor
	Sort      *kir.Sort
	Bufs      []int
	Params    []Param
}

// Temp is a temporary buffer that the launches of a node share.
type Temp struct {
	DType ir.DType
	Numel int64
}

// Result is a lowered node.
type Result struct {
	Launches []Launch
	Temps    []Temp
}
