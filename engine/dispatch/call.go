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

// ScalarOperand in Call.In means that the operand is the next scalar.
const ScalarOperand = uint64(1) << 63

// MaxDeferredTensors bounds the tensor operands of a deferred call.
const MaxDeferredTensors = 4

// DeferredCall repeats call DeferID on other tensors. Operator, integers, numbers and modes are the same, and each
// tensor has the same layout, dtype, device and gradient flag as in the first call. It has the memory layout of
// tl_deferred.
type DeferredCall struct {
	DeferID   uint32
	SourceLoc uint32
	Handle    uint64 // reserved for the result
	In        [MaxDeferredTensors]uint64
}
