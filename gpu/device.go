package gpu

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/gpucode"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/wgsl"
)

const (
	// bufferAlign is the allocation granularity: the offset alignment that WebGPU guarantees.
	bufferAlign = 256
	// maxInFlight bounds the submissions that Run leaves in flight.
	maxInFlight = 32
	// A long program is submitted in parts, so that the device begins while the host encodes the rest: a first part of
	// firstPart dispatches, then parts of nextParts. A device that has work under way gets parts of nextParts.
	firstPart, nextParts = 16, 64
	// softwareIterations is after how many iterations Mesa's software drivers end a loop in a kernel.
	softwareIterations = 1<<16 - 1
	// softwareUnits and gpuUnits estimate how many workgroups run at once.
	softwareUnits, gpuUnits = 4, 264
	// gpuMerge is the largest number of like steps that share a dispatch.
	gpuMerge = 32
)

// Device is one WebGPU device. It implements device.Device.
type Device struct {
	ctx     Context
	driver  string
	adapter AdapterInfo
	opts    Options
	caps    device.Caps
	limits  Limits
	feat    Features
	tile    gpucode.Caps // what code generators must know
	wgsl    wgsl.Options // what the printer must know

	compiler  compiler
	kernels   map[variantKey]*kernel          // by kernel and variant
	procs     map[variantKey][]*gpuir.Program // by kernel and variant: of all passes, not merged
	uniforms  map[*Buffer]bool                // parameter memory of programs
	groups    groupCache                      // bind groups
	stages    staging                         // upload memory
	reads     readPool                        // readback memory
	pending   []Record                        // copies that the next submission begins with
	submitted uint64                          // number of submissions
	completed uint64                          // submissions known to have completed
	runs      uint64                          // number of runs
	parts     [2]int                          // records of a run's first submission, and of the others
	lost      error                           // why the device is lost; nil: it is not

	fault Handle // the error word
	// passScratch is memory in which the passes of a launch leave results for the next. It is made at first use and grows
	// while programs are built.
	passScratch [scratchMemories]*Buffer
	faults      faultState
	profile     profiler
	tune        autotuner
	brief       brief
	scratch     []Record        // reused by send
	joined      []Record        // reused by joinCopy
	bindings    []BufferBinding // reused by bindGroup
	stats       counters
}

// counters are reported by Stats.
type counters struct {
	pipelineHits, submits, dispatches, waves, uploads, reads, buffers, bytes int64
	tunedTimed, tunedFound                                                   int64
}

var (
	_ device.Device   = (*Device)(nil)
	_ device.Compiler = (*Device)(nil)
)

// Open makes a device of the adapter that o picks.
func Open(d Driver, o Options) (*Device, error) {
	list, err := Adapters(d)
	if err != nil {
		return nil, err
	}
	a, err := Pick(list, &o)
	if err != nil {
		return nil, err
	}
	ctx, err := d.Open(a.Index, o.Core)
	if err != nil {
		return nil, ir.Errorf(ir.ErrRuntime, "gpu: adapter %q cannot be opened: %v", a.Name, err)
	}
	if o.WaitTimeout == 0 {
		o.WaitTimeout = 2 * time.Minute
	}
	dev := &Device{ctx: ctx, driver: d.Name(), adapter: a, opts: o, limits: ctx.Limits(), feat: ctx.Features(),
		compiler: compiler{texts: map[string]*text{}}, kernels: map[variantKey]*kernel{},
		procs:    map[variantKey][]*gpuir.Program{},
		uniforms: map[*Buffer]bool{}}
	if o.Part == 0 {
		dev.parts = [2]int{firstPart, nextParts}
	} else {
		dev.parts = [2]int{o.Part, o.Part}
	}
	dev.groups.init()
	dev.describe()
	dev.SetAutotune(o.Autotune)
	if err := dev.allocateFixed(); err != nil {
		ctx.Close()
		return nil, err
	}
	if err := dev.probeAccuracy(); err != nil {
		dev.Close()
		return nil, err
	}
	return dev, nil
}

// describe fills in the capabilities and the options of the generators.
func (d *Device) describe() {
	l, f := &d.limits, &d.feat
	if n := d.opts.MaxStorageBuffers; n > 0 {
		l.MaxStorageBuffers = min(l.MaxStorageBuffers, n)
	}
	if n := d.opts.MaxBinding; n > 0 {
		l.MaxStorageBinding = min(l.MaxStorageBinding, n)
	}
	l.MaxStorageBinding &^= 15 // arrays of vec4
	software := d.adapter.Kind == Software
	small := software && !d.opts.Hardware
	d.caps = device.Caps{
		Name: fmt.Sprintf("wgpu:%d", d.opts.Number), Adapter: d.adapter.Name, Driver: d.adapter.Driver,
		Backend:  d.adapter.Backend,
		Software: software, MaxBinding: l.MaxStorageBinding, MaxBuffer: l.MaxBufferSize,
		MaxStorageBuffers: l.MaxStorageBuffers, MaxWorkgroupBytes: l.MaxWorkgroupBytes, MaxGrid: l.MaxGrid,
		Align: bufferAlign,
		Async: true, F32Atomics: f.F32Atomics, Subgroups: f.Subgroups, Timestamps: f.Timestamps, Immediates: f.Immediates,
		GemmDims: []ir.DType{ir.F32, ir.F16, ir.BF16}, Wide: true, CostlyKernels: true,
		GemmSums: gpucode.LeastSums, GemmOperands: gemmOperands(l.MaxStorageBuffers),
		GemmPrologues: gpucode.MostPrologues,
		F16:           f.F16, I64: f.I64, Features: f.Names, Limits: limitMap(l),
	}
	if !f.I64 { // also where the probe found 64-bit integers wrong
		d.caps.Features = slices.DeleteFunc(slices.Clone(f.Names), func(n string) bool { return n == "shader-int64" })
	}
	if software {
		d.caps.MaxIterations, d.caps.Iterations = softwareIterations, d.iterations
	}
	for t := ir.Bool; t < ir.NumStored; t++ {
		d.caps.Storage[t] = storageBytes(t, f.I64)
	}
	units, merge := gpuUnits, gpuMerge
	if small {
		units, merge = softwareUnits, 1
	}
	if d.opts.Merge == 0 {
		d.opts.Merge = merge
	}
	d.tile = gpucode.Caps{MaxWorkgroupBytes: l.MaxWorkgroupBytes, MaxThreads: min(l.MaxWorkgroupSize, l.MaxWorkgroupX),
		MaxBuffers: l.MaxStorageBuffers, Units: units, I64: f.I64, Software: small,
		MaxIterations: d.caps.MaxIterations}
	if f.Subgroups && l.SubgroupMinSize == l.SubgroupMaxSz {
		d.tile.Subgroup, d.caps.SubgroupSize = l.SubgroupMinSize, l.SubgroupMinSize
	}
	d.caps.FactorSide, d.caps.AttentionAppends = gpucode.FactorSide(d.tile), gpucode.WidestAppend(d.tile)
	d.wgsl = wgsl.Options{Immediates: f.Immediates && l.MaxImmediateBytes > 0, F16: f.F16, I64: f.I64,
		F32Atomics: f.F32Atomics}
}

// gemmOperands is the number of tensors that an epilogue may read: a product binds six other buffers at most. A map of
// more operands than four is rare.
func gemmOperands(buffers int) int { return min(4, buffers-6) }

func limitMap(l *Limits) map[string]int64 {
	return map[string]int64{
		"maxBufferSize": l.MaxBufferSize, "maxStorageBufferBindingSize": l.MaxStorageBinding,
		"maxStorageBuffersPerShaderStage":   int64(l.MaxStorageBuffers),
		"maxComputeWorkgroupStorageSize":    int64(l.MaxWorkgroupBytes),
		"maxComputeInvocationsPerWorkgroup": int64(l.MaxWorkgroupSize), "maxComputeWorkgroupsPerDimension": l.MaxGrid,
		"maxImmediateSize": int64(l.MaxImmediateBytes),
	}
}

// allocateFixed makes the buffers that live as long as the device.
func (d *Device) allocateFixed() error {
	var err error
	if d.fault, err = d.ctx.CreateBuffer(bufferAlign, StorageUsage|CopySrc|CopyDst, false); err != nil {
		return d.wrap(err, "error word")
	}
	d.pending = append(d.pending, Record{Kind: ClearBuffer, A: d.fault, Z: bufferAlign})
	return nil
}

// Caps implements device.Device.
func (d *Device) Caps() *device.Caps { return &d.caps }

// Buffer is device memory.
type Buffer struct {
	handle Handle
	bytes  int64
	groups []*group // bind groups that name it
	// upload is one more than the number of submissions when an upload to it was recorded.
	upload uint64
	run    uint64 // number of the last run that had it in a slot
}

// Bytes implements device.Buffer.
func (b *Buffer) Bytes() int64 { return b.bytes }

// Alloc implements device.Device.
func (d *Device) Alloc(bytes int64) (device.Buffer, error) {
	if d.lost != nil {
		return nil, d.lost
	}
	n := (max(bytes, 1) + bufferAlign - 1) &^ (bufferAlign - 1)
	if n > d.limits.MaxBufferSize {
		return nil, ir.Errorf(ir.ErrOutOfMemory, "%s: a buffer of %d bytes is too large: the device allows %d", d.caps.Name,
			n, d.limits.MaxBufferSize)
	}
	h, err := d.ctx.CreateBuffer(n, StorageUsage|CopySrc|CopyDst, false)
	if err != nil {
		return nil, d.wrap(err, fmt.Sprintf("allocation of %d bytes", n))
	}
	d.stats.buffers++
	d.stats.bytes += n
	return &Buffer{handle: h, bytes: n}, nil
}

// Free implements device.Device.
func (d *Device) Free(b device.Buffer) {
	buf := b.(*Buffer)
	if buf.handle == 0 {
		panic("BUG: gpu: buffer freed twice")
	}
	if d.ctx == nil {
		return // it was released with the device
	}
	if buf.upload == d.submitted+1 && d.lost == nil {
		// A copy into it is not submitted yet; a failure shows at the next call.
		_ = d.submit(nil, nil)
	}
	d.groups.forget(d.ctx, buf)
	d.ctx.DestroyBuffer(buf.handle)
	buf.handle = 0
	d.stats.buffers--
	d.stats.bytes -= buf.bytes
}

// Stats implements device.Device.
func (d *Device) Stats() map[string]int64 {
	d.compiler.mu.Lock()
	made, hits := d.compiler.made, d.compiler.hits
	d.compiler.mu.Unlock()
	return map[string]int64{
		"pipelines": made, "pipeline_hits": d.stats.pipelineHits + hits, "submits": d.stats.submits,
		"waves":      d.stats.waves,
		"dispatches": d.stats.dispatches, "uploads": d.stats.uploads, "reads": d.stats.reads,
		"buffers": d.stats.buffers, "bytes": d.stats.bytes,
		"bind_groups": int64(d.groups.live), "bind_group_hits": d.groups.hits, "bind_group_misses": d.groups.misses,
		"staging_bytes": d.stages.bytes, "readback_bytes": d.reads.bytes, "own_functions": int64(d.wgsl.Poly),
		"autotune_timed": d.stats.tunedTimed, "autotune_found": d.stats.tunedFound,
	}
}

// Close implements device.Device. Buffers and programs are unusable afterwards.
func (d *Device) Close() {
	if d.ctx == nil {
		return
	}
	if d.lost == nil {
		_ = d.waitFor(d.submitted, d.opts.WaitTimeout, nil)
	}
	d.stopCompiling(d.lost == nil)
	if d.lost != nil {
		// Releasing a device that hangs could wait for ever: it is leaked.
		d.ctx = nil
		return
	}
	d.stages.close(d.ctx)
	d.reads.close(d.ctx)
	d.groups.close(d.ctx)
	for _, t := range d.compiler.texts {
		d.ctx.ReleasePipeline(t.pipe.Pipeline)
	}
	d.profile.close(d.ctx)
	for b := range d.uniforms {
		d.ctx.DestroyBuffer(b.handle)
	}
	d.ctx.DestroyBuffer(d.fault)
	for _, b := range d.passScratch {
		if b != nil {
			d.ctx.DestroyBuffer(b.handle)
		}
	}
	d.ctx.Close()
	d.ctx = nil
	d.lost = ir.Errorf(ir.ErrDeviceLost, "%s: the device was closed", d.caps.Name)
}

// wrap gives a driver's error a class. A lost device stays lost.
func (d *Device) wrap(err error, what string) error {
	if err == nil {
		return nil
	}
	var e *DriverError
	if !errors.As(err, &e) {
		return ir.Errorf(ir.ErrKernelExecution, "%s: %s failed: %v", d.caps.Name, what, err)
	}
	switch e.Kind {
	case DeviceLost:
		return d.lose(fmt.Sprintf("%s: %s", what, e.Msg))
	case OutOfMemory:
		return ir.Errorf(ir.ErrOutOfMemory, "%s: out of memory: %s (%d buffers with %d bytes are live): %s",
			d.caps.Name, what, d.stats.buffers, d.stats.bytes, e.Msg)
	}
	return ir.Errorf(ir.ErrKernelExecution, "%s: %s failed: %s", d.caps.Name, what, e.Msg)
}

func (d *Device) lose(why string) error {
	if d.lost == nil {
		d.lost = ir.Errorf(ir.ErrDeviceLost, "%s: the device is lost: %s", d.caps.Name, why)
	}
	return d.lost
}

// unbound binds nothing and never asks for a stop.
var unbound = &device.Binding{}

// submit sends the pending copies and then records, in parts.
func (d *Device) submit(records []Record, words []uint32) error {
	_, err := d.send(records, words, d.parts[0], unbound)
	return err
}

// send submits the pending copies with the first records, then the others. first is the number of records in the first
// submission; 0: all in one. After a request to stop the rest is not submitted, and the error is device.ErrStopped.
// sent is the number of records submitted.
func (d *Device) send(records []Record, words []uint32, first int, bind *device.Binding) (sent int, err error) {
	if d.lost != nil {
		return 0, d.lost
	}
	if err := d.stages.seal(d); err != nil {
		return 0, err
	}
	if len(d.pending) > 0 {
		d.scratch = append(append(d.scratch[:0], d.pending...), records...)
		records = d.scratch
	}
	if len(records) == 0 {
		return 0, nil
	}
	next, sent := d.parts[1], -len(d.pending)
	for n := len(d.pending) + first; first > 0 && len(records) > n+next/2; n = next {
		if err := d.submitPart(records[:n], words); err != nil {
			return sent, err
		}
		records, sent = records[n:], sent+n
		if err := d.backpressure(bind); err != nil {
			return sent, err
		}
	}
	return sent + len(records), d.submitPart(records, words)
}

// firstPart is the number of records of a run's first submission.
func (d *Device) firstPart() int {
	if d.Done(device.Fence(d.submitted)) {
		return d.parts[0]
	}
	return d.parts[1]
}

func (d *Device) submitPart(records []Record, words []uint32) error {
	if err := d.ctx.Submit(records, words); err != nil {
		return d.wrap(err, "submission")
	}
	d.pending = d.pending[:0]
	d.submitted++
	d.stats.submits++
	d.stages.sent(d.submitted)
	return nil
}

// Submitted implements device.Device. Pending uploads are submitted, so that the fence covers them.
func (d *Device) Submitted() device.Fence {
	if len(d.pending) > 0 && d.lost == nil {
		_ = d.submit(nil, nil) // a failure makes the next wait fail
	}
	return device.Fence(d.submitted)
}

// Done implements device.Device.
func (d *Device) Done(f device.Fence) bool {
	if uint64(f) > d.completed && d.lost == nil && d.ctx != nil {
		_ = d.poll()
	}
	return uint64(f) <= d.completed
}

func (d *Device) poll() error {
	n, err := d.ctx.Completed()
	d.completed = max(d.completed, n)
	if err != nil {
		return d.wrap(err, "poll")
	}
	return nil
}

// Wait implements device.Device.
func (d *Device) Wait(f device.Fence, timeout time.Duration, interrupt func() bool) error {
	return d.waitFor(uint64(f), timeout, interrupt)
}

func (d *Device) waitFor(n uint64, timeout time.Duration, interrupt func() bool) error {
	return d.until(timeout, interrupt, func() (bool, error) {
		if n <= d.completed {
			return true, nil
		}
		err := d.poll()
		return n <= d.completed, err
	})
}

const (
	spinFor       = 100 * time.Microsecond // most small programs end within it
	minSleep      = 20 * time.Microsecond
	maxSleep      = 500 * time.Microsecond
	sleepShare    = 64 // of the time waited so far, so that a wait ends late by a percent of its length
	interruptTick = 5 * time.Millisecond
)

// sleepAfter is how long a wait that has lasted for waited sleeps until it polls again; 0: it spins.
func sleepAfter(waited time.Duration) time.Duration {
	if waited <= spinFor {
		return 0
	}
	return min(max(waited/sleepShare, minSleep), maxSleep)
}

// until polls done: it spins at first, then sleeps for longer and longer times.
func (d *Device) until(timeout time.Duration, interrupt func() bool, done func() (bool, error)) error {
	if d.lost != nil {
		return d.lost
	}
	ok, err := done()
	if ok || err != nil {
		return err
	}
	start := time.Now()
	asked := start
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		now := time.Now()
		if interrupt != nil && now.Sub(asked) >= interruptTick {
			asked = now
			if interrupt() {
				return ir.Errorf(ir.ErrInterrupted, "%s: the wait was interrupted", d.caps.Name)
			}
		}
		waited := now.Sub(start)
		if waited > timeout {
			return d.lose(fmt.Sprintf("work did not end within %v", timeout))
		}
		if s := sleepAfter(waited); s > 0 {
			sleep(s)
		}
	}
}
