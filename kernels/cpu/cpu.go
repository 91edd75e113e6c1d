package cpu

/*
#cgo CFLAGS: -O3 -std=gnu11 -fno-strict-aliasing -Wall
#cgo linux CFLAGS: -fno-asynchronous-unwind-tables
#cgo LDFLAGS: -lm
#cgo linux LDFLAGS: -lpthread
#cgo windows LDFLAGS: -l:libwinpthread.a
#cgo noescape tl_run
#cgo nocallback tl_run
#include <string.h>
#include "vector/cpu.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"github.com/torchlette/torchlette/ir"
	_ "github.com/torchlette/torchlette/kernels/cpu/vector" // the compiled instructions
	"github.com/torchlette/torchlette/kernels/device"
)

// Options configures the device; the zero value takes the defaults.
type Options struct {
	// Threads is the size of the thread pool, the caller included; 0: the number of cores.
	Threads int
	// MemoryLimit bounds the bytes of all buffers; 0: no bound.
	MemoryLimit int64
	// ISA names the instruction set ("plain" or "neon", "avx2", "avx2_vnni", "avx512", "avx512_vnni", "avx512_bf16",
	// "amx"); "": the best of this processor.
	ISA string
	// Hot is the work after which a kernel gets machine code, in operations on one lane; 0: the default. A negative number
	// is never.
	Hot int64
}

// Device implements device.Device on the processor. One goroutine at a time may use it.
type Device struct {
	caps        device.Caps
	limit       int64
	live        int64 // bytes of live buffers
	isa         C.int
	pool        *C.tl_pool
	fault       *C.tl_fault
	fence       device.Fence
	cached      [cacheClasses][]unsafe.Pointer
	cachedBytes int64 // bytes of cached
	stats       struct{ submits, dispatches, allocs, reused, compiled, loops, roots int64 }

	packs       map[packKey]unsafe.Pointer
	packedBytes int64 // of packs
	hot         int64 // work after which a kernel gets machine code; negative: never
	kernels     map[kernelKey]*kernelCode
	ffts        map[fftKey]*fftPlan
	fftTurn     int64
	draft       *program // holds the code that FusionGroups made
	// Scratch of Build.
	sizes, shared []byte
	dyn           []C.tl_dynpar

	flushes   bool
	profiling bool
	times     []device.StepTime
}

// Freed blocks of up to 1 MiB are cached by size class, because the pages of a new block would fault once more.
const (
	cacheClasses = 15 // 64 B to 1 MiB
	cachePerSize = 16
	cacheLimit   = 32 << 20
)

type buffer struct {
	p    unsafe.Pointer
	size int64
}

// Bytes implements device.Buffer.
func (b *buffer) Bytes() int64 { return b.size }

// Pointer implements device.Mapped.
func (b *buffer) Pointer() unsafe.Pointer { return b.p }

// New opens the device.
func New(opts Options) (*Device, error) {
	isa, err := chooseISA(opts.ISA)
	if err != nil {
		return nil, err
	}
	d := &Device{limit: opts.MemoryLimit, isa: isa, hot: hotOf(isa, opts.Hot), kernels: map[kernelKey]*kernelCode{},
		ffts: map[fftKey]*fftPlan{}}
	d.draft = &program{dev: d}
	name := C.GoString(C.tl_isa_name(isa))
	d.caps = device.Caps{Name: "cpu", Adapter: "cpu", Driver: runtime.GOARCH, Backend: name, MaxBinding: 1 << 47,
		MaxBuffer:         1 << 47,
		MaxStorageBuffers: 1 << 16, Align: 64, F16: true, I64: true, F64: true, GemmDims: []ir.DType{ir.F32, ir.F64},
		GemmOperands: C.TLK_EPILOGUE_OPERANDS, GemmPads: true,
		InOrder: true, Fourier: true, Quantized: true, Features: []string{name}, Resident: d.hot >= 0}
	for t := ir.Bool; t < ir.NumStored; t++ {
		d.caps.Storage[t] = t.Size()
	}
	d.fault = (*C.tl_fault)(C.tl_alloc(C.int64_t(unsafe.Sizeof(C.tl_fault{}))))
	if d.fault == nil {
		return nil, outOfMemory(int64(unsafe.Sizeof(C.tl_fault{})))
	}
	*d.fault = C.tl_fault{}
	if err := d.SetThreads(opts.Threads); err != nil {
		return nil, err
	}
	return d, nil
}

func chooseISA(name string) (C.int, error) {
	if name == "" {
		return C.tl_isa(), nil
	}
	for isa := range C.int(C.TLK_ISAS) {
		if C.tl_isa_has(isa) != 0 && C.GoString(C.tl_isa_name(isa)) == name {
			return isa, nil
		}
	}
	return 0, ir.Errorf(ir.ErrValue, "cpu: instruction set: got %q, which this processor lacks", name)
}

// SetThreads changes the number of threads; 0: the number of cores.
func (d *Device) SetThreads(n int) error {
	if n <= 0 {
		n = runtime.NumCPU()
	}
	p := C.tl_pool_new(C.int(n))
	if p == nil {
		return outOfMemory(0)
	}
	C.tl_pool_free(d.pool)
	d.pool = p
	d.FlushSubnormals(d.flushes)
	return nil
}

// FlushSubnormals sets whether kernels take subnormal numbers as 0 and give 0 in their place.
func (d *Device) FlushSubnormals(on bool) {
	d.flushes = on
	flag := C.int(0)
	if on {
		flag = 1
	}
	C.tl_pool_flush(d.pool, flag)
}

// Threads is the number of threads of the pool, the caller included.
func (d *Device) Threads() int { return int(C.tl_pool_threads(d.pool)) }

// AfterFork makes a new thread pool in the child of a fork, since the old pool's threads exist only in the parent. The
// old pool cannot be stopped and is leaked.
func (d *Device) AfterFork() error {
	n := d.Threads()
	d.pool = nil
	return d.SetThreads(n)
}

// Caps implements device.Device.
func (d *Device) Caps() *device.Caps { return &d.caps }

func outOfMemory(bytes int64) error {
	return ir.Errorf(ir.ErrOutOfMemory, "cpu: out of memory: tried to allocate %d bytes", bytes)
}

// sizeClass returns the cache class of a block of that many bytes, and the bytes to allocate. Class -1 is not cached.
func sizeClass(bytes int64) (class int, size int64) {
	size = 64
	for class = 0; class < cacheClasses; class++ {
		if bytes <= size {
			return class, size
		}
		size *= 2
	}
	return -1, (bytes + 63) &^ 63
}

// Alloc implements device.Device.
func (d *Device) Alloc(bytes int64) (device.Buffer, error) {
	if bytes < 0 {
		return nil, ir.Errorf(ir.ErrInternal, "BUG: cpu: allocation of %d bytes", bytes)
	}
	class, size := sizeClass(bytes)
	if d.limit > 0 && d.live+size > d.limit {
		return nil, ir.Errorf(ir.ErrOutOfMemory, "cpu: out of memory: tried to allocate %d bytes with %d of %d in use", bytes,
			d.live, d.limit)
	}
	d.stats.allocs++
	var p unsafe.Pointer
	if class >= 0 && len(d.cached[class]) > 0 {
		c := d.cached[class]
		p, d.cached[class] = c[len(c)-1], c[:len(c)-1]
		d.cachedBytes -= size
		d.stats.reused++
	} else if p = C.tl_alloc(C.int64_t(size)); p == nil {
		d.trim()
		if p = C.tl_alloc(C.int64_t(size)); p == nil {
			return nil, outOfMemory(bytes)
		}
	}
	d.live += size
	return &buffer{p: p, size: size}, nil
}

// Import implements device.Importer.
func (d *Device) Import(p unsafe.Pointer, bytes int64) device.Buffer {
	return &buffer{p: p, size: bytes}
}

// Free implements device.Device.
func (d *Device) Free(b device.Buffer) {
	x := b.(*buffer)
	if x.p == nil {
		panic("BUG: cpu: buffer freed twice")
	}
	d.live -= x.size
	class, _ := sizeClass(x.size)
	if class >= 0 && len(d.cached[class]) < cachePerSize && d.cachedBytes+x.size <= cacheLimit {
		d.cached[class] = append(d.cached[class], x.p)
		d.cachedBytes += x.size
	} else {
		C.tl_cpu_free(x.p)
	}
	x.p = nil
}

// trim frees the cached blocks.
func (d *Device) trim() {
	for class, c := range d.cached {
		for _, p := range c {
			C.tl_cpu_free(p)
		}
		d.cached[class] = nil
	}
	d.cachedBytes = 0
}

// window returns n bytes of b's memory, from element off of dtype t on.
func window(b device.Buffer, t ir.DType, off int64, n int) ([]byte, error) {
	x := b.(*buffer)
	at := off * int64(t.Size())
	if off < 0 || at+int64(n) > x.size {
		return nil, ir.Errorf(ir.ErrInternal, "BUG: cpu: %d bytes at %d of a buffer of %d", n, at, x.size)
	}
	return unsafe.Slice((*byte)(unsafe.Add(x.p, at)), n), nil
}

// Upload implements device.Device.
func (d *Device) Upload(b device.Buffer, t ir.DType, off int64, data []byte) error {
	w, err := window(b, t, off, len(data))
	if err == nil {
		copy(w, data)
	}
	return err
}

// Read implements device.Device.
func (d *Device) Read(b device.Buffer, t ir.DType, off int64, dst []byte) error {
	w, err := window(b, t, off, len(dst))
	if err == nil {
		copy(dst, w)
	}
	return err
}

// Run implements device.Device.
func (d *Device) Run(p device.Program, bind *device.Binding) (device.Fence, error) {
	x := p.(*program)
	if len(bind.Bufs) < len(x.slots) {
		return 0, ir.Errorf(ir.ErrInternal, "BUG: cpu: %d buffers for %d slots", len(bind.Bufs), len(x.slots))
	}
	for i := range x.slots {
		if b, ok := bind.Bufs[i].(*buffer); ok {
			x.slots[i] = (*C.char)(b.p)
		}
	}
	d.fence++
	d.stats.submits++
	d.stats.dispatches += int64(x.steps)
	if !x.hot {
		d.heat(x)
	}
	var times []C.int64_t
	if d.profiling {
		times = make([]C.int64_t, x.steps+1)
	}
	from := bind.At.Step
	missing, err := d.runAll(x, bind, times)
	switch {
	case errors.Is(err, device.ErrStopped):
		d.note(x, times, from, bind.At.Step)
		return d.fence, err
	case err != nil:
		return d.fence, err
	case missing == C.TLK_UNFUSED:
		return d.fence, ir.Errorf(ir.ErrInternal, "BUG: cpu: a tile group without buffers has an offset that is not 0")
	case missing > 0:
		return d.fence, outOfMemory(int64(missing))
	}
	d.note(x, times, from, x.steps)
	return d.fence, nil
}

// note records the times of the steps [from, to).
func (d *Device) note(p *program, times []C.int64_t, from, to int) {
	for i := from; i < to && times != nil; i++ {
		if p.joined[i+1] != nil {
			continue
		}
		d.times = append(d.times, device.StepTime{Step: i, Op: p.joined[i], Start: time.Duration(times[i]),
			Duration: time.Duration(times[i+1] - times[i])})
	}
}

// Profile implements device.Profiler.
func (d *Device) Profile(on bool) error {
	d.profiling = on
	return nil
}

// Profiles implements device.Profiler.
func (d *Device) Profiles() []device.StepTime {
	t := d.times
	d.times = nil
	return t
}

// Done implements device.Device: Run returns when the work is done.
func (d *Device) Done(device.Fence) bool { return true }

// Wait implements device.Device.
func (d *Device) Wait(device.Fence, time.Duration, func() bool) error { return nil }

// Submitted implements device.Device.
func (d *Device) Submitted() device.Fence { return d.fence }

// TakeFault implements device.Device.
func (d *Device) TakeFault() (device.Fault, bool, error) {
	if d.fault.set == 0 {
		return device.Fault{}, false, nil
	}
	f := device.Fault{Event: uint32(d.fault.event), Element: int64(d.fault.elem)}
	*d.fault = C.tl_fault{}
	return f, true, nil
}

// Stats implements device.Device.
func (d *Device) Stats() map[string]int64 {
	return map[string]int64{"submits": d.stats.submits, "dispatches": d.stats.dispatches, "allocations": d.stats.allocs,
		"allocations_reused": d.stats.reused, "kernels": int64(len(d.kernels)), "kernels_machine_code": d.stats.compiled,
		"loops_machine_code": d.stats.loops, "tables_of_roots": d.stats.roots,
		"bytes_live": d.live, "bytes_cached": d.cachedBytes, "threads": int64(d.Threads())}
}

// Close implements device.Device. All buffers and programs must have been released.
func (d *Device) Close() {
	for _, f := range d.ffts {
		f.mem.release()
	}
	d.trim()
	for _, p := range d.packs {
		C.tl_cpu_free(p)
	}
	C.tl_pool_free(d.pool)
	C.tl_cpu_free(unsafe.Pointer(d.fault))
	d.pool, d.fault, d.packs = nil, nil, nil
}

// String describes the device.
func (d *Device) String() string {
	return fmt.Sprintf("cpu (%s, %d threads)", d.caps.Backend, d.Threads())
}
