package device

import (
	"time"
	"unsafe"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/launch"
)

// Buffer is device memory. Implementations are pointers; the engine pools them.
type Buffer interface {
	// Bytes is the usable size in bytes.
	Bytes() int64
}

// Mapped is a buffer in host memory.
type Mapped interface {
	Buffer
	// Pointer is the first byte; it is valid until the buffer is freed.
	Pointer() unsafe.Pointer
}

// Importer is a device that can use host memory in place of a buffer of its own.
type Importer interface {
	// Import returns a buffer over memory that stays where it is until nothing uses the buffer, which is never freed.
	Import(p unsafe.Pointer, bytes int64) Buffer
}

// Program is a built list of steps. It is immutable and may run any number of times.
type Program interface {
	// Release frees the program's memory on the device.
	Release()
}

// Fence numbers a submission on one device. Fences complete in order; 0 is always complete.
type Fence uint64

// Caps describes a device.
type Caps struct {
	Name                     string // "cpu", "wgpu:0"
	Adapter, Driver, Backend string
	Software                 bool // a software adapter: used only on request
	// Storage[d] is the width in bytes of an element of d on the device; 0: d is not supported.
	Storage           [ir.NumStored]int
	MaxBinding        int64 // bytes visible to one binding of a kernel
	MaxBuffer         int64
	MaxStorageBuffers int // bindings of a kernel
	MaxWorkgroupBytes int
	MaxGrid           int64      // workgroups along each axis
	Align             int64      // allocation granularity
	Async             bool       // Run returns before the work is done
	GemmDims          []ir.DType // dtypes of products with launch.Gemm.KDims
	// GemmPads: products with launch.Gemm.Padded, of one row and two dims, are in GemmDims' dtypes too.
	GemmPads bool
	// GemmOperands is the most tensors that the epilogue of a product reads.
	GemmOperands int
	// GemmPrologues is the most rows, of all matrices of a batch, of products with launch.Gemm.Prologue; 0: none.
	GemmPrologues int64
	// AttentionAppends is the most columns of a head, of keys and of values, of attention with launch.Attention.Append;
	// 0: none.
	AttentionAppends int64
	// Wide: the device has thousands of lanes, so launches cost more than index arithmetic, and tiles of products are
	// large.
	Wide bool
	// Fourier: the device runs launch.FFT; Quantized: launch.Quantized. Others get loop kernels.
	Fourier, Quantized bool
	// FactorSide is 0 on a device that runs launch.Factor. Others factor float32 matrices in blocks: it is the side of
	// the blocks that one launch.FactorBlock takes.
	FactorSide int64
	// CostlyKernels: compiling a new kernel takes longer than running most windows.
	CostlyKernels bool
	// GemmSums is the least number of rows and columns of products with launch.Gemm.Sums; 0: none.
	GemmSums int64
	// Resident: the device runs loops with their values in registers.
	Resident bool
	// MaxIterations is after how many iterations the device ends a loop in a kernel; 0: it does not.
	MaxIterations int64
	// Iterations bounds the iterations of all loops that a thread runs in a launch; nil where MaxIterations is 0.
	Iterations func(op launch.Op, params []uint64) int64
	// InOrder: stores that combine are made in the order of the elements.
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
	// Inner is the number, in the body of a loop, of a step that an iteration became; 0 for others. A fault has it above
	// the element's bits (ir.LoopEventBits). Devices that run Loop get no such steps.
	Inner uint32
}

// Constants returns the parameters of s without the numbers that a run adds.
func (s *Step) Constants() []uint64 {
	params := make([]uint64, len(s.Params))
	for i, q := range s.Params {
		params[i] = q.Bits
	}
	return params
}

// Param computes a parameter of a step at run time: Bits plus what From names. The zero value is the constant 0.
type Param struct {
	Bits  uint64
	From  Source
	Index int32 // of the offset or scalar
}

// Source is the kind of number that a run adds to a parameter.
type Source uint8

// The sources. Indices refer to Binding.Offsets and Binding.Scalars; in a lowered node, to its operands.
const (
	Constant Source = iota // nothing
	Offset                 // an offset in elements
	Scalar                 // the bits of a scalar
)

// Const is a parameter that is known when the program is built.
func Const(v int64) Param { return Param{Bits: uint64(v)} }

// OffsetOf is run-time offset i.
func OffsetOf(i int) Param { return Param{From: Offset, Index: int32(i)} }

// ScalarOf is run-time scalar i.
func ScalarOf(i int) Param { return Param{From: Scalar, Index: int32(i)} }

// Varies reports a parameter that a run sets.
func (q Param) Varies() bool { return q.From != Constant }

// Plus is q + n.
func (q Param) Plus(n int64) Param {
	q.Bits += uint64(n)
	return q
}

// Value is the parameter in a run with these offsets and scalars.
func (q Param) Value(offsets []int64, scalars []uint64) uint64 {
	switch q.From {
	case Offset:
		return q.Bits + uint64(offsets[q.Index])
	case Scalar:
		return q.Bits + scalars[q.Index]
	}
	return q.Bits
}

// Values returns the parameters of s in a run.
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
	// Stop is polled during the run; nil: the run goes to its end.
	Stop *Stop
	// Deadline stops the run as Stop does; the zero time stops nothing.
	Deadline time.Time
	// At is where the run begins; after ErrStopped, where it has stopped.
	At Position
	// Copy asks for elements behind the run; nil: for none.
	Copy *HostCopy
}

// HostCopy asks a run to copy elements of one of its buffers to the host, behind its last step. On an AheadReader this
// saves the submission of a StartRead after the run.
type HostCopy struct {
	Slot   int
	DType  ir.DType
	Off, N int64 // in elements
	// Read is the copy under way. It stays nil where the device makes none: StartRead or Device.Read can then read.
	Read PendingRead
}

// Fault is a data error that a kernel's Check reported.
type Fault struct {
	Event   uint32
	Element int64
}

// StepTime is when one step of a program ran, on the device's own clock.
type StepTime struct {
	Step int // its number in the list given to Build
	// Op is what ran, where the step also did the work of the step before it, which then has no time; nil: the step's
	// own launch.
	Op              launch.Op
	Start, Duration time.Duration
}

// Profiler is a device that can time the steps of programs.
type Profiler interface {
	// Profile turns timing on or off. While it is on, Run returns after the program has ended.
	Profile(on bool) error
	// Profiles returns and forgets the times taken since the last call, in order of execution.
	Profiles() []StepTime
}

// Compiler is a device that takes long to compile kernels (Caps.CostlyKernels) and can do so beside its runs.
type Compiler interface {
	// Compile is Build without the wait: it begins to compile the kernels that the program needs, and returns.
	Compile(steps []Step, slots int) (Compilation, error)
}

// BriefProgram is a program that may be made of kernels that compile soon but run longer. Compiler.Compile makes no
// such program, and its results have the same bits.
type BriefProgram interface{ Brief() bool }

// Compilation is a program whose kernels are being compiled. Its methods count as the device's: one goroutine at a time
// calls them. It holds nothing that must be released; its kernels stay in the device's cache.
type Compilation interface {
	// Done reports, without waiting, that Program can be called.
	Done() bool
	// Program returns the program, or the error of a kernel.
	Program() (Program, error)
}

// PatientReader is a device whose reads wait for work under way.
type PatientReader interface {
	// ReadUnless is Device.Read, ended with ErrInterrupted when interrupt, which is polled, reports true. The read can
	// be made again.
	ReadUnless(b Buffer, d ir.DType, off int64, dst []byte, interrupt func() bool) error
}

// AheadReader is a device that copies elements to the host while it works on.
type AheadReader interface {
	// StartRead begins a Device.Read of n elements and returns at once. The read waits for the runs submitted so far, and
	// not for later ones. A nil PendingRead means that only Device.Read can read so much.
	StartRead(b Buffer, d ir.DType, off, n int64) (PendingRead, error)
	// TakeKnownFault is Device.TakeFault of the runs whose error word has come to the host with a read. It does not wait.
	TakeKnownFault() (Fault, bool)
}

// PendingRead is a read under way. Finish or Drop ends it.
type PendingRead interface {
	// Finish waits and copies the elements to dst, which has room for all of them. Ended with ErrInterrupted when
	// interrupt, which may be nil and is polled, reports true, it can be called again.
	Finish(dst []byte, interrupt func() bool) error
	// Drop gives the elements up.
	Drop()
}

// TileFuser is a device that works some neighbouring steps together, tile by tile, so that a value used only among them
// needs no buffer.
type TileFuser interface {
	// FusionGroups returns, for each step, the last step of its fusion group; a step alone is its own. bytes has the
	// sizes of slots, and inner marks the slots of values that only these steps use. FusionGroups clears the mark of
	// each slot that needs memory all the same.
	//
	// A caller gives Build the slots that are still marked with numbers from Build's `slots` on, provided that the
	// groups are the same under that numbering. Without bytes and inner only the groups are found.
	FusionGroups(steps []Step, bytes []int64, inner []bool) (ends []int, err error)
}

// Device is a place where programs run and copies are made, in the order of the calls. One goroutine at a time calls
// its methods. Errors are *ir.Error: ErrOutOfMemory from Alloc, ErrDeviceLost when the device is gone, else
// ErrKernelExecution.
type Device interface {
	Caps() *Caps
	// Alloc returns a buffer of at least bytes bytes of undefined content.
	Alloc(bytes int64) (Buffer, error)
	// Free releases b at once; the caller has waited for its last user.
	Free(b Buffer)
	// Upload copies n elements of d, in canonical form, to element off of b on. It takes effect after the runs
	// submitted so far. data may be reused when it returns.
	Upload(b Buffer, d ir.DType, off int64, data []byte) error
	// Read copies n = len(dst)/d.Size() elements in canonical form. It waits for all runs.
	Read(b Buffer, d ir.DType, off int64, dst []byte) error
	// Build makes a program: it compiles kernels, cached by text, and checks limits. Slots numbered from slots on have
	// no buffer (see TileFuser).
	Build(steps []Step, slots int) (Program, error)
	// Run submits p from bind.At on. bind may be reused when it returns. Stopped early it returns ErrStopped. A second
	// run over the same buffers from the bind.At that it leaves does the rest, and both give the bits of one
	// uninterrupted run.
	Run(p Program, bind *Binding) (Fence, error)
	// Done reports whether f has completed, without waiting.
	Done(f Fence) bool
	// Wait blocks until f has completed, until the timeout (ErrDeviceLost), or until interrupt, polled every 50 ms,
	// reports true (ErrInterrupted; the work goes on).
	Wait(f Fence, timeout time.Duration, interrupt func() bool) error
	// TakeFault returns and clears the error word of the completed runs.
	TakeFault() (Fault, bool, error)
	// Submitted is the latest fence.
	Submitted() Fence
	// Stats returns counters by name, such as pipelines, bind group hits and misses, submits and dispatches.
	Stats() map[string]int64
	Close()
}
