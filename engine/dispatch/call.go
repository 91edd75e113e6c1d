package dispatch

import "github.com/torchlette/torchlette/engine/op"

// Scalar is a number in a call.
type Scalar struct {
	Kind op.ValKind
	Bits uint64
}

// Call is one operator call.
type Call struct {
	Op        op.OpID
	Mode      uint8 // 0 functional, 1 in place, 2 out=
	SourceLoc uint32
	In        []uint64
	Ints      []int64
	Scalars   []Scalar
	Outs      []uint64
	Drop      []uint64
	Deferred  []DeferredCall // deferred calls made before this one
}

// ScalarOperand in Call.In says that the next scalar is the operand.
const ScalarOperand = uint64(1) << 63

// MaxDeferredTensors bounds the tensor operands of a deferred call.
const MaxDeferredTensors = 4

// DeferredCall repeats the call that got the number DeferID: the same operator on tensors of the same layouts, dtypes,
// devices and gradient flags, with the same integers and numbers, in the same modes. It has the memory layout of
// tl_deferred.
type DeferredCall struct {
	DeferID   uint32
	SourceLoc uint32
	Handle    uint64 // reserved; it becomes the result's
	In        [MaxDeferredTensors]uint64
}
