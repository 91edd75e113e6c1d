//go:build cogentcore

package wgpu

/*
#include <stdlib.h>
#include "core_abi.h"
*/
import "C"

import (
	"fmt"
	"strings"
	"sync"
	"unsafe"

	binding "github.com/cogentcore/webgpu/wgpu"

	"github.com/torchlette/torchlette/gpu"
)

// Driver is wgpu-native through the cogentcore binding, with the features of core WebGPU only. All drivers share one
// instance, which is made at first use.
type Driver struct{}

var shared struct {
	sync.Mutex
	instance *binding.Instance
	adapters []*binding.Adapter
}

// Name implements gpu.Driver.
func (d *Driver) Name() string { return "wgpu-native-22-core" }

// Adapters implements gpu.Driver.
func (d *Driver) Adapters() ([]gpu.AdapterInfo, error) {
	shared.Lock()
	defer shared.Unlock()
	if shared.instance == nil {
		withoutDisplay()
		binding.SetLogLevel(binding.LogLevelOff)
		primary := binding.InstanceBackendVulkan | binding.InstanceBackendMetal | binding.InstanceBackendDX12
		shared.instance = binding.CreateInstance(nil) // the binding leaves a descriptor's extras uninitialised
		shared.adapters = shared.instance.EnumerateAdapters(&binding.InstanceEnumerateAdapterOptons{Backends: primary})
	}
	infos := make([]gpu.AdapterInfo, len(shared.adapters))
	for i, a := range shared.adapters {
		in := a.GetInfo()
		infos[i] = gpu.AdapterInfo{Index: i, Name: in.Name, Vendor: in.VendorName, Driver: in.DriverDescription,
			Backend: in.BackendType.String(), VendorID: in.VendorId, DeviceID: in.DeviceId, Kind: adapterKind(in.AdapterType)}
	}
	return infos, nil
}

func adapterKind(t binding.AdapterType) gpu.AdapterKind {
	switch t {
	case binding.AdapterTypeDiscreteGPU:
		return gpu.Discrete
	case binding.AdapterTypeIntegratedGPU:
		return gpu.Integrated
	case binding.AdapterTypeCPU:
		return gpu.Software
	}
	return gpu.UnknownKind
}

// Open implements gpu.Driver. It asks for WebGPU's default limits, with those of buffers and workgroups raised to the
// adapter's. The adapter's limits cannot be asked for as a whole: in this version some of them are uninitialised.
func (d *Driver) Open(index int, _ bool) (gpu.Context, error) {
	if _, err := d.Adapters(); err != nil {
		return nil, err
	}
	if index < 0 || index >= len(shared.adapters) {
		return nil, fmt.Errorf("wgpu: no such adapter: got %d, want less than %d", index, len(shared.adapters))
	}
	have := shared.adapters[index].GetLimits().Limits
	want := binding.DefaultLimits()
	want.MaxPushConstantSize = 0
	want.MaxBufferSize = have.MaxBufferSize
	want.MaxStorageBufferBindingSize = have.MaxStorageBufferBindingSize
	want.MaxComputeWorkgroupStorageSize = have.MaxComputeWorkgroupStorageSize
	want.MaxComputeInvocationsPerWorkgroup = have.MaxComputeInvocationsPerWorkgroup
	want.MaxComputeWorkgroupSizeX = have.MaxComputeWorkgroupSizeX
	dev, err := shared.adapters[index].RequestDevice(&binding.DeviceDescriptor{Label: "torchlette",
		RequiredLimits: &binding.RequiredLimits{Limits: want}})
	if err != nil {
		return nil, err
	}
	// Constants below are WebGPU's default limits.
	return &context{dev: dev, queue: dev.GetQueue(),
		progress: (*C.tl_progress)(C.calloc(1, C.size_t(unsafe.Sizeof(C.tl_progress{})))),
		objects:  map[gpu.Handle]any{}, limits: gpu.Limits{
			MaxBufferSize: int64(min(have.MaxBufferSize, 1<<62)), MaxStorageBinding: int64(min(have.MaxStorageBufferBindingSize,
				1<<62)),
			MaxStorageBuffers: 8, MaxUniformBinding: 64 << 10, UniformAlign: 256, StorageAlign: 256,
			MaxWorkgroupBytes: int(have.MaxComputeWorkgroupStorageSize),
			MaxWorkgroupSize:  int(have.MaxComputeInvocationsPerWorkgroup),
			MaxWorkgroupX:     int(have.MaxComputeWorkgroupSizeX), MaxWorkgroupY: 256, MaxGrid: 65535, TimestampPeriod: 1,
		}}, nil
}

// context is an open device.
type context struct {
	dev       *binding.Device
	queue     *binding.Queue
	limits    gpu.Limits
	objects   map[gpu.Handle]any
	next      gpu.Handle
	submitted uint64
	progress  *C.tl_progress
}

type buffer struct {
	*binding.Buffer
	mapping *C.tl_map
}

type pipeline struct {
	pipeline *binding.ComputePipeline
	layout   *binding.BindGroupLayout
}

// first and second return the C handle in a struct of the binding: it is the first field of devices, and the second of
// buffers and queues. core_test.go checks the layout.
func second[T any](o *T) unsafe.Pointer { return (*[2]unsafe.Pointer)(unsafe.Pointer(o))[1] }
func first[T any](o *T) unsafe.Pointer  { return *(*unsafe.Pointer)(unsafe.Pointer(o)) }

func (c *context) add(o any) gpu.Handle {
	c.next++
	c.objects[c.next] = o
	return c.next
}

func get[T any](c *context, h gpu.Handle) T { return c.objects[h].(T) }

// classed wraps an error as a gpu.DriverError. It finds the kind in the text, since the binding keeps nothing else.
func classed(err error) error {
	if err == nil {
		return nil
	}
	kind := gpu.Validation
	switch text := strings.ToLower(err.Error()); {
	case strings.Contains(text, "out of memory"), strings.Contains(text, "not enough memory"):
		kind = gpu.OutOfMemory
	case strings.Contains(text, "device is lost"), strings.Contains(text, "device lost"):
		kind = gpu.DeviceLost
	}
	return &gpu.DriverError{Kind: kind, Msg: err.Error()}
}

func (c *context) Limits() gpu.Limits     { return c.limits }
func (c *context) Features() gpu.Features { return gpu.Features{} }

func (c *context) CreateBuffer(bytes int64, usage gpu.Usage, mapped bool) (gpu.Handle, error) {
	b, err := c.dev.CreateBuffer(&binding.BufferDescriptor{Usage: binding.BufferUsage(usage), Size: uint64(bytes),
		MappedAtCreation: mapped})
	if err != nil {
		return 0, classed(err)
	}
	m := (*C.tl_map)(C.calloc(1, C.size_t(unsafe.Sizeof(C.tl_map{}))))
	if mapped {
		m.status = 1
	}
	return c.add(&buffer{b, m}), nil
}

// DestroyBuffer does not free the map state, since a callback may still write to it.
func (c *context) DestroyBuffer(h gpu.Handle) {
	b := get[*buffer](c, h)
	b.Destroy()
	b.Release()
	delete(c.objects, h)
}

func (c *context) CreatePipeline(s *gpu.Shader) (gpu.Pipeline, error) {
	entries := make([]binding.BindGroupLayoutEntry, len(s.Bindings))
	for i, k := range s.Bindings {
		e := &entries[i]
		e.Binding, e.Visibility = uint32(i), binding.ShaderStageCompute
		switch k {
		case gpu.StorageRead:
			e.Buffer.Type = binding.BufferBindingTypeReadOnlyStorage
		case gpu.StorageReadWrite:
			e.Buffer.Type = binding.BufferBindingTypeStorage
		case gpu.UniformDynamic:
			e.Buffer = binding.BufferBindingLayout{Type: binding.BufferBindingTypeUniform, HasDynamicOffset: true,
				MinBindingSize: uint64(s.UniformBytes)}
		}
	}
	layout, err := c.dev.CreateBindGroupLayout(&binding.BindGroupLayoutDescriptor{Label: s.Name, Entries: entries})
	if err != nil {
		return gpu.Pipeline{}, classed(err)
	}
	pl, err := c.dev.CreatePipelineLayout(&binding.PipelineLayoutDescriptor{Label: s.Name,
		BindGroupLayouts: []*binding.BindGroupLayout{layout}})
	if err != nil {
		layout.Release()
		return gpu.Pipeline{}, classed(err)
	}
	defer pl.Release()
	module, err := c.dev.CreateShaderModule(&binding.ShaderModuleDescriptor{Label: s.Name,
		WGSLDescriptor: &binding.ShaderModuleWGSLDescriptor{Code: s.Text}})
	if err != nil {
		layout.Release()
		return gpu.Pipeline{}, classed(err)
	}
	defer module.Release()
	p, err := c.dev.CreateComputePipeline(&binding.ComputePipelineDescriptor{Label: s.Name, Layout: pl,
		Compute: binding.ProgrammableStageDescriptor{Module: module, EntryPoint: s.Entry}})
	if err != nil {
		layout.Release()
		return gpu.Pipeline{}, classed(err)
	}
	h := c.add(&pipeline{p, layout})
	return gpu.Pipeline{Handle: h, Layout: h}, nil
}

func (c *context) ReleasePipeline(p gpu.Pipeline) {
	o := get[*pipeline](c, p.Handle)
	o.pipeline.Release()
	o.layout.Release()
	delete(c.objects, p.Handle)
}

func (c *context) CreateBindGroup(layout gpu.Handle, entries []gpu.BufferBinding) (gpu.Handle, error) {
	list := make([]binding.BindGroupEntry, len(entries))
	for i, e := range entries {
		list[i] = binding.BindGroupEntry{Binding: uint32(i), Buffer: get[*buffer](c, e.Buffer).Buffer,
			Offset: uint64(e.Offset), Size: uint64(e.Bytes)}
	}
	g, err := c.dev.CreateBindGroup(&binding.BindGroupDescriptor{Layout: get[*pipeline](c, layout).layout, Entries: list})
	if err != nil {
		return 0, classed(err)
	}
	return c.add(g), nil
}

func (c *context) ReleaseBindGroup(g gpu.Handle) {
	get[*binding.BindGroup](c, g).Release()
	delete(c.objects, g)
}

func (c *context) CreateQueries(int) (gpu.Handle, error) {
	return 0, &gpu.DriverError{Kind: gpu.Validation, Msg: "core WebGPU has no timestamps"}
}

func (c *context) ReleaseQueries(gpu.Handle) {}

func (c *context) Submit(records []gpu.Record, _ []uint32) error {
	enc, err := c.dev.CreateCommandEncoder(nil)
	if err != nil {
		return classed(err)
	}
	defer enc.Release()
	if err := c.encode(enc, records); err != nil {
		return classed(err)
	}
	commands, err := enc.Finish(nil)
	if err != nil {
		return classed(err)
	}
	defer commands.Release()
	c.queue.Submit(commands)
	c.submitted++
	C.tl_core_on_done(second(c.queue), c.progress)
	return nil
}

func (c *context) encode(enc *binding.CommandEncoder, records []gpu.Record) error {
	var pass *binding.ComputePassEncoder
	end := func() error {
		if pass == nil {
			return nil
		}
		err := pass.End()
		pass.Release()
		pass = nil
		return err
	}
	for i := range records {
		r := &records[i]
		if r.Kind == gpu.Dispatch {
			if pass == nil {
				pass = enc.BeginComputePass(nil)
			}
			pass.SetPipeline(get[*pipeline](c, r.A).pipeline)
			var offsets []uint32
			if r.HasDynamic != 0 {
				offsets = []uint32{r.Dynamic}
			}
			pass.SetBindGroup(0, get[*binding.BindGroup](c, r.B), offsets)
			pass.DispatchWorkgroups(uint32(r.X), uint32(r.Y), uint32(r.Z))
			continue
		}
		err := end()
		switch {
		case err != nil:
		case r.Kind == gpu.CopyBuffer:
			err = enc.CopyBufferToBuffer(get[*buffer](c, r.A).Buffer, r.X, get[*buffer](c, r.B).Buffer, r.Y, r.Z)
		case r.Kind == gpu.ClearBuffer:
			err = enc.ClearBuffer(get[*buffer](c, r.A).Buffer, r.X, r.Z)
		case r.Kind != gpu.NewPass:
			err = fmt.Errorf("wgpu: record kind %d is not core", r.Kind)
		}
		if err != nil {
			return err
		}
	}
	return end()
}

func (c *context) Completed() (uint64, error) {
	if done := uint64(c.progress.done); done == c.submitted {
		return done, nil
	}
	c.dev.Poll(false, nil)
	return uint64(c.progress.done), nil
}

func (c *context) MapStart(h gpu.Handle, mode gpu.Usage, bytes int64) error {
	b := get[*buffer](c, h)
	if code := C.tl_core_map(first(c.dev), second(b.Buffer), C.uint32_t(mode), C.size_t(bytes), b.mapping); code != 0 {
		return &gpu.DriverError{Kind: gpu.Validation, Msg: fmt.Sprintf("a map was refused with error %d", code)}
	}
	return nil
}

func (c *context) MapDone(h gpu.Handle) (bool, error) {
	b := get[*buffer](c, h)
	if b.mapping.status == 0 {
		c.dev.Poll(false, nil)
	}
	if b.mapping.status == 2 {
		return false, &gpu.DriverError{Kind: gpu.InternalError, Msg: "a buffer could not be mapped"}
	}
	return b.mapping.status == 1, nil
}

func (c *context) Mapped(h gpu.Handle, _ gpu.Usage, bytes int64) []byte {
	return get[*buffer](c, h).GetMappedRange(0, uint(bytes))
}

func (c *context) Unmap(h gpu.Handle) error {
	b := get[*buffer](c, h)
	b.mapping.status = 0
	return classed(b.Buffer.Unmap())
}

func (c *context) Close() {
	c.queue.Release()
	c.dev.Release()
}
