package engine

import (
	"sync"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/runtime"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// Config has the functions that open devices, and the settings that the caller reads from the environment.
type Config struct {
	// Open opens a device when it is first named.
	Open func(ir.DeviceID) (device.Device, error)
	// OpenHost, optional, opens a device of its own on the processor, for a session; threads 0: as many as cores.
	OpenHost func(threads int) (device.Host, error)
	// Describe lists the devices that could be opened, for Info("devices").
	Describe func() []DeviceInfo
	// Adapters lists the GPUs wgpu:0, wgpu:1 and so on without opening them, for Info("adapters").
	Adapters func() []DeviceInfo
	// DefaultDevice chooses the device of new tensors at start.
	DefaultDevice func() ir.DeviceID
	// Debug, optional, returns which passes planning prints or skips. New calls it once.
	Debug func() compile.Debug
	// Stacks, optional, reports whether internal errors include the stack; without it they name one line.
	Stacks func() bool
	// State, optional, is the memory through which the engine and its caller exchange flags without a call.
	State *State
}

// State holds flags that the engine and its caller access atomically, without a call. It has the memory layout of
// tl_engine_state.
type State struct {
	Defer int32 // set by the caller, who then calls FlushWithin when Due is set
	Due   int32 // set by the engine: bits of what FlushWithin or Owners is to do
	Busy  int32 // set by the engine: a job is running
	// Exports is set by the engine: how many storages code outside may write to.
	Exports int32
	// Shared is set by the engine: by slot modulo its length, the handles of these storages. No call on one is deferred.
	Shared [lazy.SharedSlots]int32
}

// Bits of State.Due.
const (
	dueNodes  = 1 << iota // much work is pending
	dueShared             // exported memory must be read or written before code outside of the engine runs
	dueOwners             // owners of imported memory are to be released: see Owners
)

// DeviceInfo describes a device that could be opened.
type DeviceInfo struct {
	Name, Adapter, Driver, Backend string
	Software                       bool
	Features                       []string
	Limits                         map[string]int64
}

var (
	defaultMu     sync.Mutex
	defaultEngine *Engine
	defaultConfig Config
)

// stacks is Config.Stacks.
var stacks func() bool

// Configure sets the configuration of the default engine, before its first use.
func Configure(c Config) {
	defaultMu.Lock()
	defer defaultMu.Unlock()
	defaultConfig, stacks = c, c.Stacks
}

// Default returns the process's engine, made on first use. It opens a GPU when one is first named.
func Default() *Engine {
	defaultMu.Lock()
	defer defaultMu.Unlock()
	if defaultEngine == nil {
		defaultEngine = New(defaultConfig)
	}
	return defaultEngine
}

// New makes an engine.
func New(c Config) *Engine {
	if c.State == nil {
		c.State = new(State)
	}
	e := &Engine{cfg: c}
	e.recorder.readTables()
	e.net.budget = defaultBytes
	if c.Debug != nil {
		e.planner.debug = c.Debug()
	}
	e.start()
	return e
}

// start makes the parts that Reset replaces.
func (e *Engine) start() {
	e.graph = ir.NewGraph()
	e.runtime = runtime.New()
	e.devices = devices{cfg: &e.cfg, runtime: e.runtime, graph: e.graph, uploads: map[uint32]*uploaded{}}
	e.session = lazy.New(e.graph, &e.devices)
	e.session.Residency = e.loops.reason(e.devices.caps)
	e.session.CountExports(&e.cfg.State.Exports, &e.cfg.State.Shared)
	e.session.Seed(0x5DEECE66D)
	e.tape = e.session.Tape()
	e.dispatch.Start(e.session)
	e.runtime.Stop = &e.waiter.stop
	e.graph.OnStoreFree = e.devices.storeFreed
	e.tape.OnHookFree = e.hooks.gone
	e.waiter.held = nil
	e.planner.start(e.session, compile.NewCache(maxPlans, e.runtime.ReleasePlan))
	e.abandonWalks()
	e.hooks.start()
	e.net.at = autoFlushNodes
	e.failures, e.fences, e.exports = failures{}, fences{session: e.session}, exports{}
	e.windows = windowLog{}
	e.threads = threads{others: map[uint64]*thread{}}
	e.captures = captures{programs: map[uint64]*capturedFunction{}}
	e.exporting = nil
}
