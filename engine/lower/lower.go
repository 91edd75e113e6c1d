package lower

import (
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// Operand is an input as the kernel sees it.
type Operand struct {
	DType  ir.DType
	Layout *ir.Layout // of the view; nil for a scalar
	Scalar bool       // takes the next scalar slot
	Whole  bool       // of a group or an epilogue: the view is all of the buffer, so that its offset is 0
	Buf    int        // local buffer number; operands over one buffer share it
	At     int64      // of a group: added to the view's offset
}

// Output is a result. Layout is dense, unless the plan lets the kernel write through a view of an existing buffer.
type Output struct {
	DType  ir.DType
	Layout *ir.Layout
	Buf    int // may equal an operand's Buf where op.Prim.InPlace allows: the kernel updates in place
	// Through: the output is a view with a run-time offset (device.OffsetOf), dense or not.
	Through bool
	// Unread: nobody reads the result. Buf is a temporary, which a lowering need not write.
	Unread bool
	// Parts are where a fusion group stores the operands of the cat or scatter that makes the value; nil for others.
	Parts []Part
}

// Part is a view of a result, in the shape of the fusion group that stores it.
type Part struct {
	Layout *ir.Layout
	Offset int64
}

// Fold is an elementwise primitive that a product applies to its result.
type Fold struct {
	Prim *op.Prim
	Attr []int64
	// In gives, for each operand of Prim, the number of the node's operand: a number, or a tensor that has as many
	// elements as the result in the same order, or that is a view in the result's shape. ^0 stands for the product's
	// result, ^f for the value of fold f-1.
	In    []int
	DType ir.DType // of the value
}

// Node is a primitive to lower.
type Node struct {
	Prim *op.Prim
	Attr []int64
	In   []Operand
	Out  []Output
	Bufs int // number of local buffers that In and Out use
	// Residual: the last operand is added to the first output; it is dense and has that output's shape and dtype.
	Residual bool
	// Folds are applied to the result, each rounded to its dtype. Kept numbers the stored values, as Fold.In does, in
	// the order of the outputs. The first one has the product's dtype.
	Folds []Fold
	Kept  []int
	// Norm works the rows of a product's first operand, before it multiplies them: a primitive of Rows with one value for
	// each element. In numbers the node's operands; the first is number 0, and other tensors are dense, with an element
	// for each one of a row. nil: none.
	Norm *Fold
	// Append: the last three operands are the rows that attention stores in its keys and in its values, which are
	// buffers that it may write, and the number of the rows. The rows have the shape [batch, key head, 1, column]; the
	// number is one element.
	Append bool
	// Sums: the last output is the sums of operand 'a' or 'b' of a product along its depth; see launch.Gemm.
	Sums byte
	// GemmDims: the device multiplies along several dims in the first output's dtype. InOrder is device.Caps.InOrder.
	// GemmPads: so does it with launch.Gemm.Padded.
	GemmDims, GemmPads, InOrder bool
	// Wide, Fourier, Quantized, FactorSide and MaxIterations are those of device.Caps.
	Wide, Fourier, Quantized  bool
	FactorSide, MaxIterations int64
	// Members makes the node a fusion group: In and Out are the group's, and Prim and Attr are those of the last member.
	Members []Member
}

// Member is a primitive of a fusion group: elementwise, or one that works rows (RowsOf), or a cat or a scatter. Members
// are in the order of their evaluation.
type Member struct {
	Prim *op.Prim
	Attr []int64
	// In gives, for each operand of Prim, the number of the group's operand; ^v is value number v of the members before.
	In     []int
	Layout *ir.Layout // dense, of the value; for a primitive that works rows, of its main operand
	Values []Value    // in the order of Prim's outputs
	// Region is the compiled region that the member is in, 0 for none.
	Region uint8
	// Joins: it is a cat or a scatter. In lists what is stored to the parts of its output, or nothing where it has none.
	Joins bool
	// Places are the group's operands that say, for each of In, where a scatter stores along its dim: indices of I64 or
	// I32. The parts of its output have stride 0 there.
	Places []int
}

// Value is a value of a member.
type Value struct {
	DType ir.DType
	Out   int // the group's output that it is stored to; -1: none
}

// Temp is a temporary buffer that the launches of a node share.
type Temp struct {
	DType ir.DType
	Numel int64
}

// Result is a lowered node. Its launches are steps over local buffers; temporaries are numbered from Node.Bufs on.
// Parameters number offsets by operand (output k is operand len(In)+k) and scalars by scalar operand; behind these come
// the moving numbers.
type Result struct {
	Launches []device.Step
	Temps    []Temp
	Repeats  []Repeat       // an outer one before those in it
	Moving   []device.Param // what each moving number is before the first run of a repeat
}

// Repeat says that launches From to To-1 run again and again while a bool on the device is true, or Most times.
type Repeat struct {
	From, To int
	Flag     int // local buffer, -1: none
	// Most bounds the runs.
	Most int64
	// Exact: no run may begin once the flag is false. Else such a run changes nothing, and the flag is read less often.
	Exact bool
	// Ahead bounds the runs that are submitted before the flag is read again; 0: one.
	Ahead int64
	Moves []Move
}

// Move says that each run of a repeat but the first adds By to a moving number. The end of the repeat takes it away
// again.
type Move struct {
	Number int
	By     int64
}
