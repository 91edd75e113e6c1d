package engine

import (
	"errors"
	"sync"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/runtime"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// Config is what the engine cannot know: how devices are opened.
type Config struct {
	// Open opens a device when it is first named.
	Open func(ir.DeviceID) (device.Device, error)
	// Describe lists the devices that could be opened, for Info("devices").
	Describe func() []DeviceInfo
	// DefaultDevice chooses the device of new tensors at start.
	DefaultDevice func() ir.DeviceID
	// Debug, which may be nil, gives what planning prints and leaves out; it is asked when the engine is made.
	Debug func() compile.Debug
	// Stacks says whether internal errors tell the stack; nil: they name a line.
	Stacks func() bool
	// State, when not nil, is where the engine tells what it is about.
	State *State
}

// State is told without a call: the engine and its caller access the words atomically. It has the memory layout of
// tl_engine_state.
type State struct {
	Defer int32 // set by the caller: FlushWithin is called when Due says so
	Due   int32 // pending work has grown large
	Busy  int32 // a job is under way
}

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

// Default gives the process's engine, made on first use; it touches no GPU until a GPU
// device is named.
func Default() *Engine {
	defaultMu.Lock()
	defer defaultMu.Unlock()
	if defaultEngine == nil {
		defaultEngine = New(defaultConfig)
	}
	return defaultEngine
}

const (
	autoFlushNodes = 16384
	maxPlans       = 256
	defaultBytes   = 8 << 30
)

// New makes an engine.
func New(c Config) *Engine {
	if c.State == nil {
		c.State = new(State)
	}
	e := &Engine{cfg: c, byteBudget: defaultBytes, factories: factoryParams(), decodings: decodings(),
		passThrough: passThroughNumbers()}
	if c.Debug != nil {
		e.debug = c.Debug()
	}
	e.start()
	return e
}

// start makes the parts that Reset makes anew.
func (e *Engine) start() {
	e.session = lazy.New()
	e.runtime = runtime.New()
	e.runtime.Stop = &e.jobs.stop
	e.held = nil
	e.window = lazy.NewWindow(e.session)
	e.cache = compile.NewCache(maxPlans, e.runtime.ReleasePlan)
	e.session.Graph.OnStoreFree = func(store uint32) {
		delete(e.uploads, store)
		e.runtime.Drop(store)
	}
	e.session.IndexRange = e.indexRange
	e.session.Tape.OnHookFree = func(id uint64) {
		delete(e.hooks, id)
		e.deadHooks = append(e.deadHooks, id)
	}
	e.session.Supports = func(dev ir.DeviceID, d ir.DType) bool { return e.caps(dev).Storage[d] > 0 }
	e.session.Choose = func() ir.DeviceID {
		e.chooseDefault()
		return e.session.DefaultDev
	}
	e.abandonWalks()
	e.hooks = map[uint64]hookPlace{}
	e.nodes = map[uint64]*heldNode{}
	e.exports = map[uint64]uint32{}
	e.uploads = map[uint32]*uploaded{}
	e.autoFlushAt = autoFlushNodes
	e.recentWindows, e.pendingError, e.poison, e.undone, e.walks, e.faults, e.fences = nil, nil, nil, nil, nil, nil, nil
	e.deferredCalls.forget()
	e.defaultSet, e.firstDevice, e.deviceSet = false, 0, false
	e.thread, e.threads = 0, map[uint64]*thread{}
	e.session.Seed(0x5DEECE66D)
}

// ensureDevice opens a device that is named for the first time.
func (e *Engine) ensureDevice(id ir.DeviceID) *ir.Error {
	if e.runtime.Devices[id] != nil {
		return nil
	}
	if e.cfg.Open == nil {
		return ir.Errorf(ir.ErrRuntime, "no device %s: this engine was made without devices", lazy.DeviceName(id))
	}
	d, err := e.cfg.Open(id)
	if err != nil {
		var x *ir.Error
		if errors.As(err, &x) {
			return x
		}
		return ir.Errorf(ir.ErrRuntime, "device %s: %v", lazy.DeviceName(id), err)
	}
	e.runtime.AddDevice(id, d)
	return nil
}

// caps describes a device, opening it when needed.
func (e *Engine) caps(id ir.DeviceID) *device.Caps {
	if err := e.ensureDevice(id); err != nil {
		panic(err)
	}
	return e.runtime.Devices[id].Dev.Caps()
}

// tileFuser gives a device that works steps together, nil for another.
func (e *Engine) tileFuser(id ir.DeviceID) device.TileFuser {
	c, _ := e.runtime.Devices[id].Dev.(device.TileFuser)
	return c
}
