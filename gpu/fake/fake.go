package fake

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/torchlette/torchlette/gpu"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/loopir"
	"github.com/torchlette/torchlette/kernels/wgsl"
)

// Faults says which calls fail, counted from 1 over the driver's life. 0: none.
type Faults struct {
	Alloc     int   // the n-th CreateBuffer: out of memory
	Pipeline  int   // the n-th CreatePipeline: a validation error
	BindGroup int   // the n-th CreateBindGroup
	Submit    int   // the n-th Submit: an internal error; nothing is executed
	Map       int   // the n-th MapStart
	LoseAt    int   // the n-th Submit and everything after it: the device is lost
	HangAt    int   // submissions from the n-th on never complete
	Memory    int64 // bytes of buffers beyond which CreateBuffer fails; 0: no limit
}

// Driver has one adapter and opens devices on it.
type Driver struct {
	Faults   Faults
	Limits   gpu.Limits
	Features gpu.Features
	Kind     gpu.AdapterKind
	Version  string // of the adapter's driver
	// Idle makes dispatches do nothing, for tests of the host's work.
	Idle bool
	// Ticks is the nanoseconds that a dispatch takes on Clock; nil: 1000 for each.
	Ticks func(s *gpu.Shader, groups uint64) uint64
	// Clock is the device's clock in nanoseconds.
	Clock uint64
	// Compile, where set, is called for each pipeline, by the goroutine that makes it. It may block.
	Compile func(s *gpu.Shader)
	// Lag is the number of polls after which a submission completes.
	Lag int

	// Live counts the objects that are not released.
	Live struct{ Buffers, Pipelines, BindGroups, Queries, Contexts int }
	// Calls counts the calls since the start.
	Calls struct{ Alloc, Pipeline, BindGroup, Submit, Map, Adapters, Copy int }
	bytes int64
	mu    *sync.Mutex // guards Calls.Pipeline, Live.Pipelines and objects: many goroutines make pipelines
}

// New makes a driver with the limits and features of an ordinary GPU.
func New() *Driver {
	return &Driver{mu: new(sync.Mutex),
		Limits: gpu.Limits{MaxBufferSize: 1 << 30, MaxStorageBinding: 128 << 20, MaxStorageBuffers: 16,
			MaxUniformBinding: 64 << 10,
			UniformAlign:      256, StorageAlign: 256, MaxWorkgroupBytes: 32 << 10, MaxWorkgroupSize: 256, MaxWorkgroupX: 256,
			MaxWorkgroupY: 256,
			MaxGrid:       65535, MaxImmediateBytes: 128, SubgroupMinSize: 32, SubgroupMaxSz: 32, TimestampPeriod: 1},
		Features: gpu.Features{F16: true, I64: true, Subgroups: true, F32Atomics: true, Immediates: true, Timestamps: true,
			Threads: true,
			Names: []string{"shader-f16", "shader-int64", "subgroups", "shader-float32-atomic", "immediates",
				"timestamp-query"}},
	}
}

// Name implements gpu.Driver.
func (d *Driver) Name() string { return "fake" }

// Adapters implements gpu.Driver.
func (d *Driver) Adapters() ([]gpu.AdapterInfo, error) {
	d.Calls.Adapters++
	return []gpu.AdapterInfo{{Name: "fake adapter", Driver: "memory" + d.Version, Backend: "fake", Kind: d.Kind}}, nil
}

// Open implements gpu.Driver.
func (d *Driver) Open(index int, core bool) (gpu.Context, error) {
	if index != 0 {
		return nil, fmt.Errorf("fake: no adapter %d", index)
	}
	c := &context{d: d, limits: d.Limits, features: d.Features, objects: map[gpu.Handle]any{}}
	if core {
		c.features = gpu.Features{}
		c.limits.MaxImmediateBytes = 0
		c.limits.MaxStorageBuffers = min(c.limits.MaxStorageBuffers, 8)
	}
	d.Live.Contexts++
	return c, nil
}

type buffer struct {
	mem    []byte
	usage  gpu.Usage
	mapped bool
	ready  uint64 // the submission after which it is mapped
}

type pipeline struct{ shader gpu.Shader }

type bindGroup struct {
	bufs    []*buffer
	entries []gpu.BufferBinding
}

type context struct {
	d         *Driver
	limits    gpu.Limits
	features  gpu.Features
	objects   map[gpu.Handle]any
	next      gpu.Handle
	submitted uint64
	done      uint64
	polls     int
	timed     []uint64 // the timestamps of the open pass, nil without
	lost      bool
}

func (c *context) add(o any) gpu.Handle {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	return c.addLocked(o)
}

func (c *context) addLocked(o any) gpu.Handle {
	c.next++
	c.objects[c.next] = o
	return c.next
}

// get finds an object of type T. Using a released object is the caller's bug.
func get[T any](c *context, h gpu.Handle) T {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	o, ok := c.objects[h].(T)
	if !ok {
		panic(fmt.Sprintf("BUG: fake: handle %d is %T, want %T", h, c.objects[h], o))
	}
	return o
}

func fail(kind gpu.DriverErrorKind, format string, args ...any) error {
	return &gpu.DriverError{Kind: kind, Msg: "fake: " + fmt.Sprintf(format, args...)}
}

// remove forgets an object.
func (c *context) remove(h gpu.Handle) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	delete(c.objects, h)
}

// nth counts a call and reports whether it must fail.
func nth(count *int, at int) bool {
	*count++
	return at != 0 && *count == at
}

func (c *context) Limits() gpu.Limits     { return c.limits }
func (c *context) Features() gpu.Features { return c.features }

func (c *context) CreateBuffer(bytes int64, usage gpu.Usage, mapped bool) (gpu.Handle, error) {
	switch {
	case c.lost:
		return 0, fail(gpu.DeviceLost, "lost")
	case nth(&c.d.Calls.Alloc, c.d.Faults.Alloc):
		return 0, fail(gpu.OutOfMemory, "allocation %d was told to fail", c.d.Calls.Alloc)
	case c.d.Faults.Memory != 0 && c.d.bytes+bytes > c.d.Faults.Memory:
		return 0, fail(gpu.OutOfMemory, "memory is limited to %d bytes", c.d.Faults.Memory)
	case bytes%4 != 0 || bytes > c.limits.MaxBufferSize:
		return 0, fail(gpu.Validation, "buffer of %d bytes", bytes)
	}
	mem := make([]byte, bytes)
	for i := range mem {
		mem[i] = 0xA5 // no kernel may rely on zeros
	}
	c.d.Live.Buffers++
	c.d.bytes += bytes
	return c.add(&buffer{mem: mem, usage: usage, mapped: mapped}), nil
}

func (c *context) DestroyBuffer(h gpu.Handle) {
	b := get[*buffer](c, h)
	c.d.bytes -= int64(len(b.mem))
	c.d.Live.Buffers--
	c.remove(h)
}

func (c *context) CreatePipeline(s *gpu.Shader) (gpu.Pipeline, error) {
	if c.d.Compile != nil {
		c.d.Compile(s)
	}
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	if nth(&c.d.Calls.Pipeline, c.d.Faults.Pipeline) {
		return gpu.Pipeline{}, fail(gpu.Validation, "pipeline %d was told to fail", c.d.Calls.Pipeline)
	}
	if s.ImmediateBytes > c.limits.MaxImmediateBytes || len(s.Bindings) > c.limits.MaxStorageBuffers+2 {
		return gpu.Pipeline{}, fail(gpu.Validation, "%s exceeds the limits", s.Name)
	}
	c.d.Live.Pipelines++
	p := &pipeline{shader: *s}
	return gpu.Pipeline{Handle: c.addLocked(p), Layout: c.addLocked(p)}, nil
}

func (c *context) ReleasePipeline(p gpu.Pipeline) {
	get[*pipeline](c, p.Handle)
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	delete(c.objects, p.Handle)
	delete(c.objects, p.Layout)
	c.d.Live.Pipelines--
}

func (c *context) CreateBindGroup(layout gpu.Handle, entries []gpu.BufferBinding) (gpu.Handle, error) {
	if nth(&c.d.Calls.BindGroup, c.d.Faults.BindGroup) {
		return 0, fail(gpu.Validation, "bind group %d was told to fail", c.d.Calls.BindGroup)
	}
	s := get[*pipeline](c, layout).shader
	if len(entries) != len(s.Bindings) {
		return 0, fail(gpu.Validation, "%d bindings, want %d", len(entries), len(s.Bindings))
	}
	g := &bindGroup{entries: append([]gpu.BufferBinding(nil), entries...)}
	for i, e := range entries {
		b := get[*buffer](c, e.Buffer)
		want := gpu.StorageUsage
		if s.Bindings[i] == gpu.UniformDynamic {
			want = gpu.UniformUsage
		}
		if b.usage&want == 0 || e.Offset+e.Bytes > int64(len(b.mem)) || e.Bytes > c.limits.MaxStorageBinding {
			return 0, fail(gpu.Validation, "binding %d: usage %#x, %d bytes", i, b.usage, e.Bytes)
		}
		g.bufs = append(g.bufs, b)
	}
	c.d.Live.BindGroups++
	return c.add(g), nil
}

func (c *context) ReleaseBindGroup(h gpu.Handle) {
	get[*bindGroup](c, h)
	c.remove(h)
	c.d.Live.BindGroups--
}

type queries []uint64

func (c *context) CreateQueries(n int) (gpu.Handle, error) {
	c.d.Live.Queries++
	return c.add(queries(make([]uint64, n))), nil
}

func (c *context) ReleaseQueries(h gpu.Handle) {
	get[queries](c, h)
	c.remove(h)
	c.d.Live.Queries--
}

func (c *context) Submit(records []gpu.Record, words []uint32) error {
	failed := nth(&c.d.Calls.Submit, c.d.Faults.Submit)
	if f := c.d.Faults.LoseAt; f != 0 && c.d.Calls.Submit >= f {
		c.lost = true
	}
	switch {
	case c.lost:
		return fail(gpu.DeviceLost, "lost at submission %d", c.d.Calls.Submit)
	case failed:
		return fail(gpu.InternalError, "submission %d was told to fail", c.d.Calls.Submit)
	}
	c.timed = nil
	for i := range records {
		if err := c.execute(&records[i], words); err != nil {
			return fail(gpu.Validation, "record %d: %v", i, err)
		}
	}
	c.submitted++
	return nil
}

func (c *context) execute(r *gpu.Record, words []uint32) error {
	c.tick(r)
	switch r.Kind {
	case gpu.Dispatch, gpu.TimedDispatch:
		return c.dispatch(r, words)
	case gpu.CopyBuffer:
		c.d.Calls.Copy++
		src, dst := get[*buffer](c, r.A), get[*buffer](c, r.B)
		switch {
		case (r.X|r.Y|r.Z)&3 != 0:
			return errors.New("a copy of part of a word")
		case src == dst:
			return errors.New("a copy within one buffer")
		case src.mapped || dst.mapped:
			return errors.New("a copy of a mapped buffer")
		case src.usage&gpu.CopySrc == 0 || dst.usage&gpu.CopyDst == 0:
			return errors.New("a copy against the buffers' usage")
		case r.X+r.Z > uint64(len(src.mem)) || r.Y+r.Z > uint64(len(dst.mem)):
			return errors.New("a copy out of bounds")
		}
		copy(dst.mem[r.Y:r.Y+r.Z], src.mem[r.X:r.X+r.Z])
	case gpu.ClearBuffer:
		b := get[*buffer](c, r.A)
		if (r.X|r.Z)&3 != 0 || r.X+r.Z > uint64(len(b.mem)) {
			return errors.New("a clear of part of a word, or out of bounds")
		}
		clear(b.mem[r.X : r.X+r.Z])
	case gpu.ResolveQuery:
		b := get[*buffer](c, r.B)
		for i, t := range get[queries](c, r.A)[r.X : r.X+r.Z] {
			binary.LittleEndian.PutUint64(b.mem[r.Y+8*uint64(i):], t)
		}
	case gpu.NewPass:
	default:
		return fmt.Errorf("kind %d", r.Kind)
	}
	return nil
}

// tick advances the device's clock, and writes the timestamps of the open pass.
func (c *context) tick(r *gpu.Record) {
	switch r.Kind {
	case gpu.TimedDispatch:
		c.timed = get[queries](c, r.C)[r.Query : r.Query+2]
		c.timed[0] = c.d.Clock
	case gpu.Dispatch:
	default:
		c.timed = nil
		return
	}
	ticks := uint64(1000)
	if c.d.Ticks != nil {
		ticks = c.d.Ticks(&get[*pipeline](c, r.A).shader, r.X*r.Y*r.Z)
	}
	c.d.Clock += ticks
	if c.timed != nil {
		c.timed[1] = c.d.Clock
	}
}

// dispatch interprets the program over the bound buffers.
func (c *context) dispatch(r *gpu.Record, words []uint32) error {
	if c.d.Idle {
		return nil
	}
	s := &get[*pipeline](c, r.A).shader
	g := get[*bindGroup](c, r.B)
	block := words[r.Word : r.Word+r.Words]
	var faultWord []byte
	var bufs [][]byte
	for i, b := range s.Module.Bindings {
		e := g.entries[i]
		mem := g.bufs[i].mem[e.Offset : e.Offset+e.Bytes]
		switch b.Kind {
		case wgsl.BindParams:
			block = make([]uint32, e.Bytes/4)
			at := e.Offset + int64(r.Dynamic)
			for j := range block {
				block[j] = binary.LittleEndian.Uint32(g.bufs[i].mem[at+4*int64(j):])
			}
		case wgsl.BindError:
			faultWord = mem
		case wgsl.BindScratch:
			bufs = append(bufs, mem)
		case wgsl.BindStorage:
			bufs = append(bufs, c.canonical(s.Proc.Bufs[b.Buf].Type, mem))
		}
	}
	params, event := unpack(s, block)
	if grid := s.Proc.Grid(params); grid != [3]uint32{uint32(r.X), uint32(r.Y), uint32(r.Z)} {
		return fmt.Errorf("%s: grid %d %d %d, want %v", s.Name, r.X, r.Y, r.Z, grid)
	}
	fault, err := gpuir.Interpret(s.Proc, params, bufs)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	if fault.Failed && binary.LittleEndian.Uint32(faultWord) == 0 {
		binary.LittleEndian.PutUint32(faultWord, event+1)
		binary.LittleEndian.PutUint64(faultWord[4:], uint64(fault.Elem))
	}
	n := 0
	for i, b := range s.Module.Bindings {
		if b.Kind == wgsl.BindScratch {
			n++
		}
		if b.Kind != wgsl.BindStorage {
			continue
		}
		if !b.ReadOnly {
			e := g.entries[i]
			c.store(s.Proc.Bufs[b.Buf].Type, g.bufs[i].mem[e.Offset:e.Offset+e.Bytes], bufs[n])
		}
		n++
	}
	return nil
}

// canonical returns the host form that the interpreter takes. On the device bool and integers of 8 and 16 bits are
// 32-bit words, and so is int64 without the feature.
func (c *context) canonical(t ir.DType, mem []byte) []byte {
	width := c.widened(t)
	if width == 0 {
		return mem
	}
	out := make([]byte, len(mem)/4*width)
	for i := range len(mem) / 4 {
		switch x := binary.LittleEndian.Uint32(mem[4*i:]); {
		case width == 8:
			binary.LittleEndian.PutUint64(out[8*i:], uint64(int64(int32(x))))
		case t.IsNarrow():
			loopir.StoreBits(t, out, int64(i), uint64(x))
		case x != 0:
			out[i] = 1
		}
	}
	return out
}

func (c *context) store(t ir.DType, mem, host []byte) {
	width := c.widened(t)
	for i := range len(host) / max(width, 1) {
		switch {
		case width == 8:
			copy(mem[4*i:4*i+4], host[8*i:])
		case width > 0:
			binary.LittleEndian.PutUint32(mem[4*i:], uint32(loopir.LoadBits(t, host, int64(i))))
		}
	}
}

// widened is the canonical width of a dtype that is stored as words; 0: it is stored as it is.
func (c *context) widened(t ir.DType) int {
	switch {
	case t == ir.Bool, t.IsNarrow():
		return t.Size()
	case t == ir.I64 && !c.features.I64:
		return 8
	}
	return 0
}

// unpack is the inverse of wgsl.Module.Pack.
func unpack(s *gpu.Shader, block []uint32) (params []uint64, event uint32) {
	params = make([]uint64, len(s.Proc.Params))
	for i, w := range s.Module.Words {
		switch {
		case w.Param < 0:
			event = block[i]
		case w.High:
			params[w.Param] |= uint64(block[i]) << 32
		case w.Signed:
			params[w.Param] = uint64(int64(int32(block[i])))
		default:
			params[w.Param] |= uint64(block[i])
		}
	}
	return params, event
}

func (c *context) Completed() (uint64, error) {
	if c.lost {
		return c.done, fail(gpu.DeviceLost, "lost")
	}
	limit := c.submitted
	if f := c.d.Faults.HangAt; f != 0 {
		limit = min(limit, uint64(f)-1)
	}
	if c.done < limit {
		if c.polls++; c.polls > c.d.Lag {
			c.polls = 0
			c.done++
		}
	}
	return c.done, nil
}

func (c *context) MapStart(h gpu.Handle, mode gpu.Usage, bytes int64) error {
	b := get[*buffer](c, h)
	switch {
	case nth(&c.d.Calls.Map, c.d.Faults.Map):
		return fail(gpu.InternalError, "map %d was told to fail", c.d.Calls.Map)
	case b.mapped || b.usage&mode == 0 || bytes > int64(len(b.mem)):
		return fail(gpu.Validation, "map of a buffer of usage %#x", b.usage)
	}
	b.mapped, b.ready = true, c.submitted
	return nil
}

func (c *context) MapDone(h gpu.Handle) (bool, error) {
	b := get[*buffer](c, h)
	done, err := c.Completed()
	return done >= b.ready, err
}

func (c *context) Mapped(h gpu.Handle, _ gpu.Usage, bytes int64) []byte {
	b := get[*buffer](c, h)
	if !b.mapped {
		return nil
	}
	return b.mem[:bytes]
}

func (c *context) Unmap(h gpu.Handle) error {
	b := get[*buffer](c, h)
	if !b.mapped {
		return fail(gpu.Validation, "unmap of a buffer that is not mapped")
	}
	b.mapped = false
	return nil
}

func (c *context) Close() { c.d.Live.Contexts-- }
