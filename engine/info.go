package engine

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// Mode names a setting of SetMode.
type Mode int32

// The settings.
const (
	ModeGrad Mode = iota
	ModeDefaultDType
	ModeDefaultDevice
	ModeInference
	ModeBusyWait
	ModeDeterministic
	ModeAutocastCPU
	ModeAutocastGPU
	ModeAllowMutation
	ModeSavedTensorHooks
	ModeVmap
	ModeRegion
	ModeForwardLevel
	ModeForwardCeiling
)

// NoDevice is the value of ModeDefaultDevice that leaves the choice to Config.DefaultDevice, as at the start.
const NoDevice = 255

// NewRegion is the value of ModeRegion that begins a compiled region. Other values end it (0) or return to a region.
const NewRegion = 1

// SetMode changes a setting and returns its former value; v < 0 only queries.
func (e *Engine) SetMode(m Mode, v int64) (old int64) {
	defer e.leave(nil)
	e.enter()
	set := func(b *bool) int64 {
		o := int64(0)
		if *b {
			o = 1
		}
		if v >= 0 {
			*b = v != 0
		}
		return o
	}
	switch m {
	case ModeVmap:
		return e.session.Vmap(v)
	case ModeForwardLevel:
		if v <= 0 {
			return e.session.OpenLevel(v < 0)
		}
		e.session.CloseLevel(v)
	case ModeForwardCeiling:
		return e.session.Ceiling(v)
	case ModeGrad:
		return set(&e.session.GradMode)
	case ModeInference:
		return set(&e.session.Inference)
	case ModeBusyWait:
		return set(&e.waiter.wait)
	case ModeDeterministic:
		return set(&e.session.Deterministic)
	case ModeAllowMutation:
		return set(&e.tape.AllowMutation)
	case ModeSavedTensorHooks:
		return set(&e.tape.Packing)
	case ModeAutocastCPU, ModeAutocastGPU:
		to := &e.session.Autocast[m-ModeAutocastCPU]
		old = int64(*to)
		if d := ir.DType(v); v == 0 || v > 0 && (d == ir.F16 || d == ir.BF16) {
			*to = d
		}
	case ModeRegion:
		old = int64(e.session.Region())
		switch {
		case v == NewRegion:
			e.session.BeginRegion()
		case v >= 0:
			e.session.EnterRegion(uint32(v))
		}
	case ModeDefaultDType:
		old = int64(e.session.Default)
		if v > 0 && ir.DType(v).IsFloat() {
			e.session.Default = ir.DType(v)
		}
	case ModeDefaultDevice:
		return e.setDefaultDevice(v)
	}
	return old
}

// setDefaultDevice is SetMode for ModeDefaultDevice. A query asks Config.DefaultDevice if no device was set, which may
// load a graphics driver; setting a device does not ask.
func (e *Engine) setDefaultDevice(v int64) (old int64) {
	old = NoDevice
	if v < 0 || e.session.DeviceSet {
		old = int64(e.session.DefaultDevice())
	}
	if v >= 0 {
		e.session.DefaultDev, e.session.DeviceSet = ir.DeviceID(v), v != NoDevice
	}
	return old
}

// Seed restarts the random generator with a seed.
func (e *Engine) Seed(seed int64) {
	defer e.leave(nil)
	e.enter()
	e.session.Seed(uint64(seed))
}

// RNGState returns the generator's state for SetRNGState.
func (e *Engine) RNGState() (v [4]uint64) {
	defer e.leave(nil)
	e.enter()
	v = e.session.RNGState()
	return v
}

// SetRNGState restores the generator's state.
func (e *Engine) SetRNGState(v [4]uint64) {
	defer e.leave(nil)
	e.enter()
	e.session.SetRNGState(v)
}

// Writes counts the writes to tensors that were recorded so far.
func (e *Engine) Writes() (n uint64) {
	defer e.leave(nil)
	e.enter()
	return e.session.LoggedEffects()
}

// Info returns a JSON document about the engine.
func (e *Engine) Info(kind string, h uint64) (doc []byte, err *ir.Error) {
	if strings.HasPrefix(kind, "session_") {
		s, err := e.SessionOf(h)
		if err != nil {
			return nil, err
		}
		return s.Info(kind)
	}
	defer e.leave(&err)
	e.enter()
	var v any
	switch kind {
	case "devices":
		if e.cfg.Describe != nil {
			v = e.cfg.Describe()
		}
	case "adapters":
		if e.cfg.Adapters != nil {
			v = e.cfg.Adapters()
		}
	case "memory_stats":
		v = e.memoryStats()
	case "stats":
		v = e.counts()
	case "profile":
		v = e.takeProfile()
	case "windows":
		v = e.windows.inOrder()
	case "watched":
		x, err := e.explainWatched()
		if err != nil {
			return nil, err
		}
		v = x
	case "leaks":
		v = e.leaks()
	case "program", "program_listing", "program_data":
		return e.savedText(h, kind)
	case "loops":
		v = e.loops.paths(e.devices.caps)
	case "explain":
		x, err := e.explain(h)
		if err != nil {
			return nil, err
		}
		v = x
	case "explain_program":
		x, err := e.explainProgram(h)
		if err != nil {
			return nil, err
		}
		v = x
	case "captured":
		x, err := e.capturedText(h)
		if err != nil {
			return nil, err
		}
		v = x
	case "options":
		values := map[string]string{}
		for key, o := range registered {
			values[key] = o.get()
		}
		v = values
	case "ops":
		names := []string{}
		for _, d := range op.Defs() {
			names = append(names, d.Sig)
		}
		v = names
	default:
		return nil, ir.Errorf(ir.ErrValue, "info: kind: got %q, want devices, memory_stats, stats, profile, windows, "+
			"watched, leaks, explain, explain_program, options or ops", kind)
	}
	b, x := json.Marshal(v)
	if x != nil {
		return nil, ir.Errorf(ir.ErrInternal, "BUG: info: %v", x)
	}
	return b, nil
}

func (e *Engine) memoryStats() map[string]map[string]int64 {
	out := map[string]map[string]int64{}
	for _, pl := range e.runtime.Devices {
		p := pl.Pool
		out[pl.Dev.Caps().Name] = map[string]int64{"live_bytes": p.Live, "pool_bytes": p.Pooled, "peak_bytes": p.Peak,
			"live_buffers": int64(p.Count),
			"pool_hits":    p.Hits, "pool_misses": p.Misses}
	}
	return out
}

func (e *Engine) counts() map[string]int64 {
	m := map[string]int64{"plans_built": e.stats.built, "plans_fused": e.stats.fused,
		"plans_compiling": e.planner.cache.Compiling(), "plans_unfused": e.stats.unfused,
		"plans_replayed": e.stats.replayed, "windows": e.stats.windows,
		"nodes_recorded": int64(e.session.Recorded()), "rules_recalled": e.dispatch.Replayed(),
		"calls_deferred": e.dispatch.Deferred(), "nodes_executed": e.stats.executed, "kernels_run": e.runtime.Kernels,
		"bytes_written": e.runtime.Bytes,
		"live_handles":  int64(e.session.LiveHandles()), "live_bases": int64(e.session.LiveBases()),
		"live_nodes": int64(e.graph.Live()), "tape_nodes": int64(e.tape.Live()),
		"live_storages": int64(e.runtime.LiveStorages), "effects_logged": int64(e.session.LoggedEffects()),
		"effects_pending": int64(e.session.PendingEffects()), "nodes_pending": int64(len(e.graph.Pending)),
		"stores_in_place": e.stats.inPlace, "stores_through_view": e.stats.through, "epoch": int64(e.session.Epoch),
		"faults": e.stats.faults, "reads": e.stats.reads, "shared_storages": int64(e.cfg.State.Exports),
		"key_ns": e.stats.keyNanos, "run_ns": e.stats.runNanos, "live_buffers": 0, "live_bytes": 0, "peak_bytes": 0,
		"pool_bytes": 0}
	for _, pl := range e.runtime.Devices {
		p := pl.Pool
		m["live_buffers"] += int64(p.Count)
		m["live_bytes"] += p.Live
		m["peak_bytes"] += p.Peak
		m["pool_bytes"] += p.Pooled
		for k, v := range pl.Dev.Stats() {
			m["device_"+k] += v
		}
	}
	return m
}

// leaks counts the live handles by the line that made them.
func (e *Engine) leaks() map[string]int {
	out := map[string]int{}
	e.session.EachHandle(func(_ uint64, h *lazy.Handle) {
		if h.Flags&lazy.FlagInternal == 0 {
			out[e.SourceLocString(h.SourceLoc)]++
		}
	})
	return out
}

// SetOption changes an option: "pending_bytes" (the safety net's budget), "memory_limit" (bytes a device may hand out,
// 0: no limit), "reset_peak", "clear_plans", "disable_passes" (optional passes that new plans do without, separated by
// commas; clears the plans), "profile" (1 or 0), "scope" (the profile's name for what is recorded next), "watch" (1 or
// 0: keep the plans that run for Info("watched")), and those added by RegisterOption.
func (e *Engine) SetOption(key, value string) (err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	bad := func() *ir.Error { return ir.Errorf(ir.ErrValue, "option %s: got %q", key, value) }
	switch key {
	case "pending_bytes":
		n, x := strconv.ParseInt(value, 10, 64)
		if x != nil || n <= 0 {
			return bad()
		}
		e.net.budget = n
	case "memory_limit":
		n, x := strconv.ParseInt(value, 10, 64)
		if x != nil || n < 0 {
			return bad()
		}
		e.runtime.SetLimit(n)
	case "reset_peak":
		e.runtime.ResetPeak()
	case "clear_plans":
		return e.clearPlans()
	case "disable_passes":
		off := slices.DeleteFunc(strings.Split(value, ","), func(name string) bool { return name == "" })
		if x := (&compile.Debug{Off: off}).Check(); x != nil {
			return ir.Errorf(ir.ErrValue, "option %s: %v", key, x)
		}
		e.planner.debug.Off = off
		return e.clearPlans()
	case "profile":
		if value != "0" && value != "1" {
			return bad()
		}
		e.setProfiling(value == "1")
	case "scope":
		e.profile.enter(value)
	case "watch":
		if value != "0" && value != "1" {
			return bad()
		}
		e.windows.watch(value == "1")
	default:
		if o, ok := registered[key]; ok {
			if x := o.set(value); x != nil {
				return ir.Errorf(ir.ErrValue, "option %s: %v", key, x)
			}
			break
		}
		return ir.Errorf(ir.ErrValue, "unknown option %q", key)
	}
	return nil
}

// registered holds the options of packages that the engine does not import.
var registered = map[string]option{}

type option struct {
	set func(value string) error
	get func() string
}

// RegisterOption adds an option at start-up; get feeds Info("options"). Both functions run under the engine's lock.
func RegisterOption(key string, set func(value string) error, get func() string) {
	registered[key] = option{set, get}
}

// Reset restarts the engine after a failure: all handles become stale, and devices are reopened.
func (e *Engine) Reset() *ir.Error {
	e.alone(func() {
		e.runtime.Close()
		e.copies = hostCopies{}
		old, memory := e.session, e.runtime
		e.start()
		memory.Abandon(e.runtime)
		e.announce()
		e.session.Outdate(old)
		e.recorder.labels = nil
	})
	return nil
}

// clearPlans forgets every plan.
func (e *Engine) clearPlans() *ir.Error {
	if _, err := e.resume(); err != nil { // a window that is held needs its plan
		return e.failures.fail(err)
	}
	e.planner.clear()
	return nil
}
