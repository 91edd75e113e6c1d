package main

// #include "shim.h"
import "C"

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"github.com/torchlette/torchlette/engine"
	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/gpu"
	"github.com/torchlette/torchlette/gpu/wgpu"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/reference"
)

// The engine reads the environment here and nowhere else; docs/environment.md lists it.
func init() {
	engine.Configure(engine.Config{Open: openDevice, Describe: describeDevices, Adapters: describeAdapters,
		DefaultDevice: defaultDevice, OpenHost: openHost,
		Debug:  planDebug,
		Stacks: func() bool { return getenv("TORCHLETTE_DEBUG") != "" },
		State:  (*engine.State)(unsafe.Pointer(&C.tl_shared))})
	engine.RegisterOption("num_threads", setThreads, func() string { return strconv.Itoa(threads()) })
	engine.RegisterOption("flush_denormal", setFlush,
		func() string { return strconv.Itoa(map[bool]int{true: 1}[pool.flushes]) })
	engine.RegisterOption("autotune", setAutotune,
		func() string { return strconv.Itoa(map[bool]int{true: 1}[autotune()]) })
}

// planDebug reads TORCHLETTE_DUMP, a pass or "all", and TORCHLETTE_DISABLE, a comma-separated list of passes. It
// reports an unknown name and then ignores both variables.
func planDebug() compile.Debug {
	d := compile.Debug{Dump: getenv("TORCHLETTE_DUMP"), Out: os.Stderr}
	if v := getenv("TORCHLETTE_DISABLE"); v != "" {
		d.Off = strings.Split(v, ",")
	}
	if err := d.Check(); err != nil {
		fmt.Fprintf(os.Stderr, "torchlette: %v\n", err)
		return compile.Debug{}
	}
	return d
}

// pool is the state of the options num_threads, 0 for the number of cores, and flush_denormal, and the CPU device once
// it is open. The engine's lock guards it.
var pool struct {
	threads int
	flushes bool
	device  *cpu.Device
}

// setFlush sets the option flush_denormal.
func setFlush(value string) error {
	if value != "0" && value != "1" {
		return fmt.Errorf("got %q, want 0 or 1", value)
	}
	if pool.flushes = value == "1"; pool.device != nil {
		pool.device.FlushSubnormals(pool.flushes)
	}
	return nil
}

// setThreads sets the option num_threads.
func setThreads(value string) error {
	n, err := strconv.Atoi(value)
	if err != nil || n <= 0 {
		return fmt.Errorf("got %q, want a positive number", value)
	}
	pool.threads = n
	if pool.device == nil {
		return nil
	}
	return pool.device.SetThreads(n)
}

// threads returns the option num_threads or, if unset, TORCHLETTE_NUM_THREADS; 0 means the number of cores.
func threads() int {
	if pool.threads > 0 {
		return pool.threads
	}
	n, _ := strconv.Atoi(getenv("TORCHLETTE_NUM_THREADS"))
	return max(n, 0)
}

// tuning is the state of option autotune: its value, once set, and the open GPUs. The engine's lock guards it.
var tuning struct {
	set, on bool
	devices map[ir.DeviceID]*gpu.Device
}

// autotune returns the option autotune or, if unset, TORCHLETTE_AUTOTUNE.
func autotune() bool {
	if tuning.set {
		return tuning.on
	}
	return getenv("TORCHLETTE_AUTOTUNE") == "1"
}

// setAutotune sets the option autotune.
func setAutotune(value string) error {
	if value != "0" && value != "1" {
		return fmt.Errorf("got %q, want 0 or 1", value)
	}
	tuning.set, tuning.on = true, value == "1"
	for _, d := range tuning.devices {
		d.SetAutotune(tuning.on)
	}
	return nil
}

// openGPU opens a WebGPU device.
func openGPU(id ir.DeviceID) (device.Device, error) {
	o := adapterOptions(int(id) - 1)
	o.Autotune, o.CacheDir = autotune(), getenv("TORCHLETTE_CACHE_DIR")
	d, err := gpu.Open(&wgpu.Driver{}, o)
	if err != nil {
		return nil, err
	}
	if tuning.devices == nil {
		tuning.devices = map[ir.DeviceID]*gpu.Device{}
	}
	tuning.devices[id] = d
	return d, nil
}

// adapterOptions reads TORCHLETTE_ADAPTER: a number or part of a name, where the suffix ",core" turns optional features
// off and ",hardware" gives a software adapter the programs of a GPU. Real GPUs come first. The software adapter serves
// if there is no GPU, or under the name "software".
func adapterOptions(number int) gpu.Options {
	o := gpu.Options{Number: number, AllowSoftware: true, Merge: mergeLimit()}
	name, rest, _ := strings.Cut(getenv("TORCHLETTE_ADAPTER"), ",")
	o.Core, o.Hardware = rest == "core", rest == "hardware"
	switch {
	case name != "" && name != "software":
		o.Adapter = name
	case number > 0:
		o.Adapter = string(rune('0' + number))
	}
	return o
}

// mergeLimit reads TORCHLETTE_MERGE: the maximum number of like steps that share a dispatch.
func mergeLimit() int {
	n, _ := strconv.Atoi(getenv("TORCHLETTE_MERGE"))
	return max(n, 0)
}

// openHost opens a device on the processor for a session, nil where kernels are interpreted. Its kernels get machine
// code in their first run.
func openHost(n int) (device.Host, error) {
	opts := cpuOptions()
	if opts.ISA == "interpreter" {
		return nil, nil
	}
	if n > 0 {
		opts.Threads = n
	}
	if opts.Hot == 0 {
		opts.Hot = 1
	}
	return cpu.New(opts)
}

// openDevice opens a device on first use.
func openDevice(id ir.DeviceID) (device.Device, error) {
	if id == ir.CPU {
		d, err := openCPU()
		if pool.device, _ = d.(*cpu.Device); pool.device != nil {
			pool.device.FlushSubnormals(pool.flushes)
		}
		return d, err
	}
	return openGPU(id)
}

// openCPU opens the CPU device with TORCHLETTE_NUM_THREADS threads, by default one per core. TORCHLETTE_CPU selects an
// instruction set instead of the best one, or "interpreter", which interprets all kernels. "blocks", alone or after the
// instruction set and a comma, switches machine code off.
func openCPU() (device.Device, error) {
	opts := cpuOptions()
	if opts.ISA == "interpreter" {
		return reference.New(), nil
	}
	return cpu.New(opts)
}

// cpuOptions reads the environment.
func cpuOptions() cpu.Options {
	opts := cpu.Options{Threads: threads(), ISA: getenv("TORCHLETTE_CPU")}
	if rest, blocks := strings.CutSuffix(opts.ISA, "blocks"); blocks {
		opts.ISA, opts.Hot = strings.TrimSuffix(rest, ","), -1
	}
	return opts
}

// defaultDevice returns TORCHLETTE_DEVICE if set, else a real GPU, else the CPU.
func defaultDevice() ir.DeviceID {
	switch v := getenv("TORCHLETTE_DEVICE"); {
	case v == "cpu":
		return ir.CPU
	case strings.HasPrefix(v, "wgpu"):
		return ir.CPU + 1
	}
	list, err := gpu.Adapters(&wgpu.Driver{})
	if err == nil {
		for i := range list {
			if list[i].Kind != gpu.Software {
				return ir.CPU + 1
			}
		}
	}
	return ir.CPU
}

// describeDevices lists the CPU and all adapters.
func describeDevices() []engine.DeviceInfo {
	var out []engine.DeviceInfo
	if d, err := openCPU(); err == nil {
		c := d.Caps()
		out = append(out, engine.DeviceInfo{Name: "cpu", Adapter: c.Adapter, Features: c.Features, Limits: c.Limits})
		d.Close()
	}
	list, err := gpu.Describe(&wgpu.Driver{})
	if err != nil {
		return out
	}
	for i, a := range list {
		out = append(out, engine.DeviceInfo{Name: "wgpu:" + string(rune('0'+i)), Adapter: a.Name, Driver: a.Driver,
			Backend: a.Backend, Software: a.Kind == gpu.Software,
			Features: a.Features, Limits: a.Limits})
	}
	return out
}

// describeAdapters lists the adapters in the order of wgpu:0, wgpu:1 and so on. If TORCHLETTE_ADAPTER names one, it is
// the only one.
func describeAdapters() []engine.DeviceInfo {
	list, err := gpu.Adapters(&wgpu.Driver{})
	if err != nil {
		return nil
	}
	if o := adapterOptions(0); o.Adapter != "" {
		a, err := gpu.Pick(list, &o)
		if err != nil {
			return nil
		}
		list = []gpu.AdapterInfo{a}
	}
	out := make([]engine.DeviceInfo, len(list))
	for i := range list {
		a := &list[i]
		out[i] = engine.DeviceInfo{Name: "wgpu:" + strconv.Itoa(i), Adapter: a.Name, Driver: a.Driver, Backend: a.Backend,
			Software: a.Kind == gpu.Software}
	}
	return out
}

// deviceNamed returns the device of a name.
func deviceNamed(name string) (ir.DeviceID, *ir.Error) {
	kind, number, numbered := strings.Cut(name, ":")
	n, err := 0, error(nil)
	if numbered {
		n, err = strconv.Atoi(number)
	}
	switch {
	case err == nil && kind == "cpu" && n == 0:
		return ir.CPU, nil
	case err == nil && kind == "wgpu" && n >= 0 && n < int(ir.Meta)-1:
		return ir.DeviceID(n + 1), nil
	}
	return 0, ir.Errorf(ir.ErrRuntime, "device %q is unknown: want cpu, wgpu, or wgpu:0, wgpu:1 and so on", name)
}
