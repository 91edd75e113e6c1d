package ir

import "fmt"

// Code is the class of an error. Python maps each code to a class that derives from TorchletteError and from the
// built-in class that PyTorch raises.
type Code int32

// The error codes. The numbering is part of the C ABI.
const (
	OK                 Code = iota
	ErrRuntime              // RuntimeError
	ErrType                 // TypeError
	ErrValue                // ValueError
	ErrIndex                // IndexError
	ErrNotImplemented       // NotImplementedError
	ErrOutOfMemory          // OutOfMemoryError
	ErrValueLost            // ValueLostError
	ErrPoisoned             // PoisonedEngineError
	ErrBusy                 // EngineBusyError
	ErrDisposed             // DisposedTensorError
	ErrHandle               // InvalidHandleError: stale or forged
	ErrHostCoercion         // TensorHostCoercionError
	ErrSavedModified        // SavedTensorModifiedError
	ErrGraphFreed           // BackwardGraphFreedError
	ErrNonReentrant         // NonReentrantBackwardError
	ErrImpureRegion         // CheckpointImpureRegionError
	ErrDeviceLost           // DeviceLostError
	ErrLinAlg               // LinAlgError
	ErrInterrupted          // KeyboardInterrupt
	ErrInternal             // InternalError: a bug
	ErrKernelExecution      // KernelExecutionError
	ErrOverflow             // OverflowError
	ErrHostRead             // HostReadInCompileError
	ErrTraceEscape          // InvalidTraceTensorEscapeError
	ErrImpure               // TransformPurityError
	NumCodes
)

// LoopEventBits is how a fault in the body of a loop names its place: the event above so many bits of the element.
const LoopEventBits = 40

// LoopFault is the element that a loop reports for a fault of a step of its body. Where that is a loop, its element
// names a step of its own body, whose number counts on from the step's.
func LoopFault(event uint32, element int64) int64 {
	return (int64(event)+max(element>>LoopEventBits, 0))<<LoopEventBits | element&(1<<LoopEventBits-1)
}

// Error is what every fallible engine call returns. Msg has the form "op: what is wrong: got X, want Y", unless PyTorch
// has a text of its own.
type Error struct {
	Code      Code
	Msg       string
	SourceLoc uint32 // source location that recorded the failing op; 0 where it is unknown
}

// Error returns the message.
func (e *Error) Error() string { return e.Msg }

// Errorf makes an Error of class c.
func Errorf(c Code, format string, args ...any) *Error {
	return &Error{Code: c, Msg: fmt.Sprintf(format, args...)}
}
