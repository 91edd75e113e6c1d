package device

import (
	"time"
	"unsafe"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/launch"
)

// Buffer is device memory. Implementations are pointers; the engine pools them.
type Buffer interface {
	// Bytes is the usable size.
	Bytes() int64
}

// Mapped is a buffer in host memory.
type Mapped interface {
	Buffer
	// Pointer is the first byte; it holds until the buffer is freed.
	Pointer() unsafe.Pointer
}

// Program is a built list of steps. It is immutable and may be run again at once.
type Program interface {
	// Release frees what the device holds for it.
	Release()
}

// Fence numbers a submission on one device; fences complete in order. 0 is always done.
type Fence uint64

// Caps describes a device.
type Caps struct {
	Name                     string // "cpu", "wgpu:0"
	Adapter, Driver, Backend string
	Software                 bool // a software adapter: used only when asked for
	// Storage[d] is the width in bytes of an element of d on the device; 0: d is not supported.
	Storage           [ir.NumDTypes]int
	MaxBinding        int64 // bytes visible to one kernel binding
	MaxBuffer         int64
	MaxStorageBuffers int // bindings a kernel
	MaxWorkgroupBytes int
	MaxGrid           int64      // workgroups per axis
	Align             int64      // allocation granularity
	Async             bool       // Run returns before the work is done
	GemmDims          []ir.DType // of products with launch.Gemm.KDims
	// thousands of lanes: launches cost more than arithmetic with indices, and tiles of products are large
	Wide bool
	// least rows and columns of products with launch.Gemm.Sums; 0: none
	GemmSums int64
	// stores that combine are made in the order of the elements
	InOrder                                                      bool
	F32Atomics, Subgroups, Timestamps, Immediates, F16, I64, F64 bool
	SubgroupSize                                                 int
	Features                                                     []string
	Limits                                                       map[string]int64
}

// Step is one unit of a program: a launch with its buffers and arguments.
type Step struct {
	Op     launch.Op
	Bufs   []int   // buffer slot of each of Op.Buffers
	Params []Param // one for each of Op.Parameters
	Event  uint32  // number reported in the error word and in profiles
}

// Constants gives the parameters of s without what a run adds.
func (s *Step) Constants() []uint64 {
	params := make([]uint64, len(s.Params))
	for i, q := range s.Params {
		params[i] = q.Bits
	}
	return params
}

// Param computes a parameter of a step at run time: Bits, plus what From says. The zero value is the constant 0.
type Param struct {
	Bits  uint64
	From  Source
	Index int32 // of the offset or scalar
}

// Source says what a run adds to a parameter.
type Source uint8

// The sources. Indices count Binding.Offsets and Binding.Scalars; in a lowered node, its operands.
const (
	Constant Source = iota // nothing
	Offset                 // an offset in elements
	Scalar                 // the bits of a scalar
)

// Const is a parameter known when the program is built.
func Const(v int64) Param { return Param{Bits: uint64(v)} }

// OffsetOf is the run-time offset i.
func OffsetOf(i int) Param { return Param{From: Offset, Index: int32(i)} }

// ScalarOf is the run-time scalar i.
func ScalarOf(i int) Param { return Param{From: Scalar, Index: int32(i)} }

// Varies reports a parameter that a run sets.
func (q Param) Varies() bool { return q.From != Constant }

// Plus is q and n more.
func (q Param) Plus(n int64) Param {
	q.Bits += uint64(n)
	return q
}

// Value is the parameter in a run over these offsets and scalars.
func (q Param) Value(offsets []int64, scalars []uint64) uint64 {
	switch q.From {
	case Offset:
		return q.Bits + uint64(offsets[q.Index])
	case Scalar:
		return q.Bits + scalars[q.Index]
	}
	return q.Bits
}

// Values gives the parameters of s in a run.
func (s *Step) Values(bind *Binding) []uint64 {
	params := make([]uint64, len(s.Params))
	for i, q := range s.Params {
		params[i] = q.Value(bind.Offsets, bind.Scalars)
	}
	return params
}

// Binding is what varies from run to run.
type Binding struct {
	Bufs    []Buffer
	Offsets []int64
	Scalars []uint64
	Stop    *Stop // polled during the run; nil: the run goes to its end
	// Deadline stops the run as Stop does; the zero time stops nothing.
	Deadline time.Time
	At       Position // where the run begins and, when it returns ErrStopped, where it has stopped
}

// Fault is a data error reported by a kernel's Check.
type Fault struct {
	Event   uint32
	Element int64
}

// StepTime is when one step of a program ran, on the device's own clock.
type StepTime struct {
	Step int // its number in the list given to Build
	// Op is what ran, where the step did the work of the one before it too, which has no time then; nil: the step's own.
	Op              launch.Op
	Start, Duration time.Duration
}

// Profiler is a device that can time the steps of programs.
type Profiler interface {
	// Profile turns timing on or off. While it is on, Run returns when the program has ended.
	Profile(on bool) error
	// Profiles gives and forgets the times taken since the last call, in order of execution.
	Profiles() []StepTime
}

// PatientReader is a device whose reads wait for work that is under way.
type PatientReader interface {
	// ReadUnless is Device.Read that ends with ErrInterrupted when interrupt, which is polled, reports true. It can be
	// made again.
	ReadUnless(b Buffer, d ir.DType, off int64, dst []byte, interrupt func() bool) error
}

// TileFuser is a device that works some neighbouring steps together, tile by tile: a value that only they know needs no
// buffer.
type TileFuser interface {
	// Chains gives, by step, the last step of the chain that it is in: itself where it is alone. bytes holds the sizes of
	// slots, inner says which are values that only these steps know, and is cleared for those that need memory. The others
	// may be given to Build with numbers from its slots on, where the chains are still these. Without bytes and inner only
	// the chains are found.
	FusionGroups(steps []Step, bytes []int64, inner []bool) (ends []int, err error)
}

// Device is one place where programs run, and copies are made, in the order of the calls. Methods are called by one
// goroutine at a time unless noted. Errors are *ir.Error: ErrOutOfMemory for Alloc, ErrDeviceLost when the device is
// gone, ErrKernelExecution otherwise.
type Device interface {
	Caps() *Caps
	// Alloc gives at least bytes bytes of undefined content.
	Alloc(bytes int64) (Buffer, error)
	// Free returns b at once; the caller has waited for its last user.
	Free(b Buffer)
	// Upload copies n elements of d, in canonical form, to element off of b; ordered after
	// the runs submitted so far. data may be reused when it returns.
	Upload(b Buffer, d ir.DType, off int64, data []byte) error
	// Read copies n = len(dst)/d.Size() elements in canonical form; it waits for all runs.
	Read(b Buffer, d ir.DType, off int64, dst []byte) error
	// Build makes a program: kernels are compiled (and cached by text), and limits checked. Slots from slots on have no
	// buffer (TileFuser).
	Build(steps []Step, slots int) (Program, error)
	// Run submits p from bind.At on. bind may be reused when it returns. Stopped early it returns ErrStopped; a run over
	// the same buffers from the bind.At that it leaves then does the rest, and both together give the bits of one.
	Run(p Program, bind *Binding) (Fence, error)
	// Done reports whether f has completed, without waiting.
	Done(f Fence) bool
	// Wait blocks until f has completed, the timeout passes (ErrDeviceLost), or
	// interrupt reports true, polled every 50 ms (ErrInterrupted; the work goes on).
	Wait(f Fence, timeout time.Duration, interrupt func() bool) error
	// TakeFault returns and clears the error word of the completed runs.
	TakeFault() (Fault, bool, error)
	// Submitted is the latest fence.
	Submitted() Fence
	// Stats gives counters by name: pipelines, bind group hits and misses, submits, dispatches.
	Stats() map[string]int64
	Close()
}
