package gpu

import (
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/wgsl"
)

// Driver is one implementation of WebGPU.
type Driver interface {
	// Name is part of the key of cached measurements.
	Name() string
	// Adapters lists the adapters in the driver's own order.
	Adapters() ([]AdapterInfo, error)
	// Open makes a device of adapter index. With core the device has WebGPU's core features, and default limits except
	// for buffer sizes.
	Open(index int, core bool) (Context, error)
}

// AdapterInfo describes an adapter.
type AdapterInfo struct {
	Index              int // the driver's number
	Name               string
	Vendor, Driver     string
	Backend            string // "vulkan", "metal", "d3d12", ...
	VendorID, DeviceID uint32
	Kind               AdapterKind
}

// AdapterKind orders adapters by preference.
type AdapterKind uint8

// The adapter kinds, best first.
const (
	Discrete AdapterKind = iota
	Integrated
	UnknownKind
	Software
)

// String names the kind.
func (k AdapterKind) String() string {
	return [...]string{"discrete", "integrated", "unknown", "software"}[k]
}

// Limits are the device limits that matter to compute.
type Limits struct {
	MaxBufferSize                  int64
	MaxStorageBinding              int64
	MaxStorageBuffers              int
	MaxUniformBinding              int64
	UniformAlign, StorageAlign     int64 // of binding offsets
	MaxWorkgroupBytes              int
	MaxWorkgroupSize               int // invocations
	MaxWorkgroupX, MaxWorkgroupY   int
	MaxGrid                        int64 // workgroups along each axis
	MaxImmediateBytes              int
	SubgroupMinSize, SubgroupMaxSz int
	TimestampPeriod                float64 // nanoseconds of a tick
}

// Features are the optional features that a device was opened with.
type Features struct {
	F16, I64, Subgroups, F32Atomics, Immediates, Timestamps bool
	Threads                                                 bool // any goroutine may call Context.CreatePipeline
	Names                                                   []string
}

// Handle is a driver's object; 0 is none.
type Handle uintptr

// Usage is a set of WebGPU buffer usages, with WebGPU's bits.
type Usage uint32

// The buffer usages.
const (
	MapRead      Usage = 1
	MapWrite     Usage = 2
	CopySrc      Usage = 4
	CopyDst      Usage = 8
	UniformUsage Usage = 0x40
	StorageUsage Usage = 0x80
	QueryResolve Usage = 0x200
)

// BindingKind is the type of one binding of a pipeline.
type BindingKind uint8

// The binding kinds.
const (
	StorageRead BindingKind = iota
	StorageReadWrite
	UniformDynamic // a uniform buffer with a dynamic offset
)

// Shader is the source of a pipeline.
type Shader struct {
	Name     string // names the kernel in errors
	Text     string // WGSL
	Entry    string
	Bindings []BindingKind // of group 0
	// UniformBytes is the size of the parameter block where there is a UniformDynamic binding.
	UniformBytes   int
	ImmediateBytes int
	// Proc is the same program, and Module its layout, for drivers that interpret it.
	Proc   *gpuir.Program
	Module *wgsl.Module
}

// Pipeline is a compute pipeline with the layout of its bind group.
type Pipeline struct {
	Handle Handle
	Layout Handle
}

// BufferBinding is one entry of a bind group.
type BufferBinding struct {
	Buffer Handle
	Offset int64
	Bytes  int64
}

// RecordKind is the kind of a Record.
type RecordKind uint32

// The record kinds. A driver opens a compute pass at the first dispatch after any other record, so that consecutive
// dispatches share a pass, even the pass of a TimedDispatch.
const (
	Dispatch      RecordKind = iota // A pipeline, B bind group, X Y Z workgroups
	CopyBuffer                      // A source, B destination, X Y byte offsets, Z bytes
	ClearBuffer                     // A buffer, X byte offset, Z bytes
	ResolveQuery                    // A queries, B destination, X first, Z count
	NewPass                         // ends the open pass
	TimedDispatch                   // a Dispatch that begins a pass, with timestamps Query and Query+1 of C
)

// Record is one encoder command. It holds no Go pointers: a slice of records goes to C as it is, and the C side
// declares the same layout.
type Record struct {
	Kind        RecordKind
	Word, Words uint32 // of a Dispatch: immediates, words[Word:Word+Words]
	Query       uint32
	A, B, C     Handle
	X, Y, Z     uint64
	// Dynamic is the dynamic offset of the parameter block in bytes, where HasDynamic is 1.
	Dynamic, HasDynamic uint32
}

// Context is an open device with its queue. Errors are *DriverError. One goroutine at a time calls its methods. With
// Features.Threads CreatePipeline is excepted: other goroutines call it at any time until Close, several at once.
type Context interface {
	Limits() Limits
	Features() Features
	// CreateBuffer makes a buffer. With mapped it is mapped for writing at once.
	CreateBuffer(bytes int64, usage Usage, mapped bool) (Handle, error)
	DestroyBuffer(b Handle)
	CreatePipeline(s *Shader) (Pipeline, error)
	ReleasePipeline(p Pipeline)
	CreateBindGroup(layout Handle, entries []BufferBinding) (Handle, error)
	ReleaseBindGroup(g Handle)
	CreateQueries(n int) (Handle, error)
	ReleaseQueries(q Handle)
	// Submit encodes records into one command buffer and submits it. Submissions that succeed are numbered from 1.
	// Submit keeps nothing that it is given.
	Submit(records []Record, words []uint32) error
	// Completed polls, without waiting, the number of submissions that have completed.
	Completed() (uint64, error)
	// MapStart begins mapping. MapDone polls and reports whether mapping has ended.
	MapStart(b Handle, mode Usage, bytes int64) error
	MapDone(b Handle) (bool, error)
	// Mapped is the memory of a mapped buffer, valid until Unmap.
	Mapped(b Handle, mode Usage, bytes int64) []byte
	Unmap(b Handle) error
	// Close releases the device without waiting.
	Close()
}

// DriverError is an error of a driver.
type DriverError struct {
	Kind DriverErrorKind
	Msg  string
}

func (e *DriverError) Error() string { return e.Msg }

// DriverErrorKind is the class of a DriverError.
type DriverErrorKind uint8

// The error kinds, after WebGPU's error types.
const (
	Validation DriverErrorKind = iota
	OutOfMemory
	InternalError
	DeviceLost
)
