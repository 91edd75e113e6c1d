//go:build !cogentcore

package wgpu

/*
#cgo CFLAGS: -O2
#cgo linux LDFLAGS: -lm -ldl
#include <stdlib.h>
#include "native.h"
*/
import "C"

import (
	"fmt"
	"sync"
	"unsafe"

	binding "github.com/oliverbestmann/webgpu/wgpu"

	"github.com/torchlette/torchlette/gpu"
)

// primary selects Vulkan, Metal and D3D12: bits of wgpu-native's WGPUInstanceBackend, which the binding does not name.
const primary binding.InstanceBackend = 1<<0 | 1<<2 | 1<<3

// Driver is wgpu-native. All drivers share one instance, which is made at first use.
type Driver struct{}

// shared is the library's instance with its adapters. It is kept because loading graphics drivers takes a tenth of a
// second, and because adapters must outlive their devices.
var shared struct {
	sync.Mutex
	instance *binding.Instance
	adapters []*binding.Adapter
}

// Name implements gpu.Driver.
func (d *Driver) Name() string { return "wgpu-native-29" }

// Adapters implements gpu.Driver. It leaves out OpenGL adapters, which are Vulkan's devices with fewer features.
func (d *Driver) Adapters() ([]gpu.AdapterInfo, error) {
	shared.Lock()
	defer shared.Unlock()
	if major := uint32(C.wgpuGetVersion()) >> 24; major != C.TL_VERSION_MAJOR {
		return nil, fmt.Errorf("wgpu: the library's version is not the one declared: got %d, want %d", major,
			C.TL_VERSION_MAJOR)
	}
	if shared.instance == nil {
		withoutDisplay()
		binding.SetLogLevel(binding.LogLevelOff)
		shared.instance = binding.CreateInstance(&binding.InstanceDescriptor{Backends: primary})
		shared.adapters = shared.instance.EnumerateAdapters(&binding.InstanceEnumerateAdapterOptons{Backends: primary})
	}
	infos := make([]gpu.AdapterInfo, len(shared.adapters))
	for i, a := range shared.adapters {
		in := a.GetInfo()
		infos[i] = gpu.AdapterInfo{Index: i, Name: in.Device, Vendor: in.Vendor, Driver: in.Description,
			Backend:  in.BackendType.String(),
			VendorID: in.VendorId, DeviceID: in.DeviceId, Kind: adapterKind(in.AdapterType)}
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

// adapterRef returns the C handle of an adapter. The binding has no function for that, so it is read from the first
// field of its struct; abi_test.go checks the layout.
func adapterRef(a *binding.Adapter) C.tl_obj { return *(*C.tl_obj)(unsafe.Pointer(a)) }

// Open implements gpu.Driver.
func (d *Driver) Open(index int, core bool) (gpu.Context, error) {
	if _, err := d.Adapters(); err != nil {
		return nil, err
	}
	if index < 0 || index >= len(shared.adapters) {
		return nil, fmt.Errorf("wgpu: no such adapter: got %d, want less than %d", index, len(shared.adapters))
	}
	adapter := adapterRef(shared.adapters[index])
	var caps C.tl_caps
	C.tl_adapter_caps(adapter, &caps)
	if core {
		restrictToCore(&caps)
	}
	msg := (*C.char)(C.calloc(1, C.TL_MSG))
	defer C.free(unsafe.Pointer(msg))
	dev := C.tl_open(adapter, &caps, msg)
	if dev == nil {
		return nil, fmt.Errorf("wgpu: no device: %s", C.GoString(msg))
	}
	l := limitsOf(&caps)
	l.TimestampPeriod = float64(C.tl_timestamp_period(dev))
	return &context{dev: dev, limits: l, features: featuresOf(&caps)}, nil
}

// restrictToCore reduces capabilities to those of every WebGPU implementation. Buffer sizes stay those of the adapter.
func restrictToCore(c *C.tl_caps) {
	c.f16, c.i64, c.subgroups, c.f32_atomics, c.immediates, c.timestamps = 0, 0, 0, 0, 0, 0
	l := &c.limits
	l.maxImmediateSize = 0
	l.maxStorageBuffersPerShaderStage = min(l.maxStorageBuffersPerShaderStage, 8)
	l.maxComputeWorkgroupStorageSize = min(l.maxComputeWorkgroupStorageSize, 16384)
	l.maxComputeInvocationsPerWorkgroup = min(l.maxComputeInvocationsPerWorkgroup, 256)
	l.maxComputeWorkgroupSizeX = min(l.maxComputeWorkgroupSizeX, 256)
	l.maxComputeWorkgroupSizeY = min(l.maxComputeWorkgroupSizeY, 256)
}

func limitsOf(c *C.tl_caps) gpu.Limits {
	l := &c.limits
	return gpu.Limits{
		MaxBufferSize:     clampInt64(uint64(l.maxBufferSize)),
		MaxStorageBinding: clampInt64(uint64(l.maxStorageBufferBindingSize)),
		MaxStorageBuffers: int(l.maxStorageBuffersPerShaderStage),
		MaxUniformBinding: clampInt64(uint64(l.maxUniformBufferBindingSize)),
		UniformAlign:      int64(l.minUniformBufferOffsetAlignment), StorageAlign: int64(l.minStorageBufferOffsetAlignment),
		MaxWorkgroupBytes: int(l.maxComputeWorkgroupStorageSize), MaxWorkgroupSize: int(l.maxComputeInvocationsPerWorkgroup),
		MaxWorkgroupX: int(l.maxComputeWorkgroupSizeX), MaxWorkgroupY: int(l.maxComputeWorkgroupSizeY),
		MaxGrid: int64(l.maxComputeWorkgroupsPerDimension), MaxImmediateBytes: int(l.maxImmediateSize),
		SubgroupMinSize: int(c.subgroup_min), SubgroupMaxSz: int(c.subgroup_max),
	}
}

// clampInt64 keeps the values that mean "no limit" positive.
func clampInt64(v uint64) int64 { return int64(min(v, 1<<62)) }

func featuresOf(c *C.tl_caps) gpu.Features {
	f := gpu.Features{F16: c.f16 != 0, I64: c.i64 != 0, Subgroups: c.subgroups != 0, F32Atomics: c.f32_atomics != 0,
		Immediates: c.immediates != 0, Timestamps: c.timestamps != 0,
		Threads: true}
	for _, x := range []struct {
		on   bool
		name string
	}{{f.F16, "shader-f16"}, {f.I64, "shader-int64"}, {f.Subgroups, "subgroups"}, {f.F32Atomics, "shader-float32-atomic"},
		{f.Immediates, "immediates"}, {f.Timestamps, "timestamp-query"}} {
		if x.on {
			f.Names = append(f.Names, x.name)
		}
	}
	return f
}

// context is an open device.
type context struct {
	dev      *C.tl_device
	limits   gpu.Limits
	features gpu.Features
}

func (c *context) Limits() gpu.Limits     { return c.limits }
func (c *context) Features() gpu.Features { return c.features }

// fail is the error of a call that returned e, or that the device is lost.
func (c *context) fail(e C.tl_error) error {
	var msg string
	if e.msg != nil {
		msg = C.GoString(e.msg)
		C.free(unsafe.Pointer(e.msg))
	}
	if C.tl_lost(c.dev) != 0 {
		return &gpu.DriverError{Kind: gpu.DeviceLost, Msg: C.GoString(C.tl_why_lost(c.dev))}
	}
	if e.code == 0 {
		return nil
	}
	kind := gpu.InternalError
	switch e.code {
	case C.TL_ERROR_VALIDATION:
		kind = gpu.Validation
	case C.TL_ERROR_OOM:
		kind = gpu.OutOfMemory
	}
	return &gpu.DriverError{Kind: kind, Msg: msg}
}

func (c *context) CreateBuffer(bytes int64, usage gpu.Usage, mapped bool) (gpu.Handle, error) {
	var b C.uintptr_t
	m := C.int(0)
	if mapped {
		m = 1
	}
	if err := c.fail(C.tl_buffer_create(c.dev, C.uint64_t(bytes), C.uint64_t(usage), m, &b)); err != nil {
		return 0, err
	}
	return gpu.Handle(b), nil
}

func (c *context) DestroyBuffer(b gpu.Handle) { C.tl_buffer_destroy(C.uintptr_t(b)) }

func (c *context) CreatePipeline(s *gpu.Shader) (gpu.Pipeline, error) {
	name, text, entry := C.CString(s.Name), C.CString(s.Text), C.CString(s.Entry)
	defer C.free(unsafe.Pointer(name))
	defer C.free(unsafe.Pointer(text))
	defer C.free(unsafe.Pointer(entry))
	kinds := make([]byte, len(s.Bindings)+1)
	for i, k := range s.Bindings {
		kinds[i] = byte(k)
	}
	var p, l C.uintptr_t
	code := C.tl_pipeline_create(c.dev, name, text, C.size_t(len(s.Text)), entry, (*C.uint8_t)(unsafe.Pointer(&kinds[0])),
		C.int(len(s.Bindings)), C.uint64_t(s.UniformBytes), C.uint32_t(s.ImmediateBytes), &p, &l)
	if err := c.fail(code); err != nil {
		return gpu.Pipeline{}, err
	}
	return gpu.Pipeline{Handle: gpu.Handle(p), Layout: gpu.Handle(l)}, nil
}

func (c *context) ReleasePipeline(p gpu.Pipeline) {
	C.tl_pipeline_release(C.uintptr_t(p.Handle), C.uintptr_t(p.Layout))
}

func (c *context) CreateBindGroup(layout gpu.Handle, entries []gpu.BufferBinding) (gpu.Handle, error) {
	var g C.uintptr_t
	code := C.tl_group_create(c.dev, C.uintptr_t(layout), (*C.tl_binding)(unsafe.Pointer(unsafe.SliceData(entries))),
		C.int(len(entries)), &g)
	if err := c.fail(code); err != nil {
		return 0, err
	}
	return gpu.Handle(g), nil
}

func (c *context) ReleaseBindGroup(g gpu.Handle) { C.tl_group_release(C.uintptr_t(g)) }

func (c *context) CreateQueries(n int) (gpu.Handle, error) {
	var q C.uintptr_t
	if err := c.fail(C.tl_queries_create(c.dev, C.uint32_t(n), &q)); err != nil {
		return 0, err
	}
	return gpu.Handle(q), nil
}

func (c *context) ReleaseQueries(q gpu.Handle) { C.tl_queries_release(C.uintptr_t(q)) }

func (c *context) Submit(records []gpu.Record, words []uint32) error {
	if err := c.fail(C.tl_error{}); err != nil {
		return err
	}
	return c.fail(C.tl_submit(c.dev, (*C.tl_record)(unsafe.Pointer(unsafe.SliceData(records))), C.size_t(len(records)),
		(*C.uint32_t)(unsafe.Pointer(unsafe.SliceData(words)))))
}

func (c *context) Completed() (uint64, error) {
	return uint64(C.tl_completed(c.dev)), c.fail(C.tl_error{})
}

func (c *context) MapStart(b gpu.Handle, mode gpu.Usage, bytes int64) error {
	return c.fail(C.tl_map_start(C.uintptr_t(b), C.uint64_t(mode), C.uint64_t(bytes)))
}

func (c *context) MapDone(b gpu.Handle) (bool, error) {
	status := C.tl_map_status(C.uintptr_t(b))
	if status == 0 {
		if err := c.fail(C.tl_error{}); err != nil {
			return false, err
		}
		C.tl_poll(c.dev)
		status = C.tl_map_status(C.uintptr_t(b))
	}
	if status == 2 {
		return false, &gpu.DriverError{Kind: gpu.InternalError, Msg: "a buffer could not be mapped"}
	}
	return status == 1, nil
}

func (c *context) Mapped(b gpu.Handle, mode gpu.Usage, bytes int64) []byte {
	p := C.tl_mapped(C.uintptr_t(b), C.uint64_t(mode), C.uint64_t(bytes))
	if p == nil {
		return nil
	}
	return unsafe.Slice((*byte)(p), bytes)
}

func (c *context) Unmap(b gpu.Handle) error { return c.fail(C.tl_unmap(C.uintptr_t(b))) }

func (c *context) Close() {
	if c.dev != nil {
		C.tl_close(c.dev)
		c.dev = nil
	}
}
