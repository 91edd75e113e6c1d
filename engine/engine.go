package engine

import (
	"slices"
	"sync"

	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/engine/dispatch"
	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/runtime"
	"github.com/torchlette/torchlette/ir"
)

// Engine is one runtime. All methods may be called from any thread. Its parts are each in the file of their name; mu
// guards them, but for waiter, releases and the table of source locations, which have locks of their own.
type Engine struct {
	mu   sync.Mutex // taken and given back in calls.go alone
	trap func()     // of tests: called at the begin of each call
	cfg  Config

	session  *lazy.Session
	graph    *ir.Graph      // that the session records on
	tape     *autograd.Tape // likewise
	dispatch dispatch.Dispatcher
	runtime  *runtime.Executor

	recorder recorder // operator calls
	devices  devices  // opened and default devices, and what is known of uploaded integers
	planner  planner  // windows and their plans
	net      net      // runs what is pending when that is much
	waiter   waiter   // who computes, and work that outlives its call
	read     readCache
	failures failures // what could not be computed, and whom to tell
	backward walks    // backward walks in progress
	hooks    hooks    // hooks and functions that the user holds
	threads  threads  // modes of threads
	fences   fences   // refused writes
	exports  exports  // memory that others read
	releases releases // handles whose owners are gone
	profile  profile
	word     [8]byte // the bytes of one number; see Numbers
	stats    counters
	nextID   uint64 // of walks, hooks and exports
}

// counters feed Info("stats").
type counters struct {
	windows, built, fused, replayed, executed, faults, inPlace, through int64
	keyNanos, runNanos                                                  int64
}

// newID gives a number that no walk, hook or export has.
func (e *Engine) newID() uint64 {
	e.nextID++
	return e.nextID
}

// MaxRank bounds the dims of a tensor.
const MaxRank = 16

// Flags of an Out.
const (
	OutRequiresGrad = 1
	OutLeaf         = 2
	OutIsInput      = 4
)

// Out describes a result; it has the memory layout of tl_out.
type Out struct {
	Handle                     uint64
	DType, Device, Rank, Flags uint8
	Layout                     ir.LayoutID // sizes and strides; 0 in no tensor
	Numel                      int64
	DeferID                    uint32 // not 0: what Record can do again; see Queued
	_                          uint32
	Shape                      [MaxRank]int64
}

// describe fills an Out for a handle.
func (e *Engine) describe(hd uint64, o *Out) {
	h, err := e.session.Handle(hd)
	if err != nil {
		panic(err)
	}
	av := e.session.AvalOf(h.Base)
	l := ir.LayoutOf(h.Layout)
	if len(l.Shape) > MaxRank {
		e.session.Release(hd)
		panic(ir.Errorf(ir.ErrRuntime, "tensors have at most %d dims, got %d", MaxRank, len(l.Shape)))
	}
	if slices.ContainsFunc(l.Shape, func(n int64) bool { return n < 0 }) {
		e.session.Release(hd)
		panic(ir.Errorf(ir.ErrRuntime, "a shape is too large: its sizes overflow: got %s", ir.ShapeString(l.Shape)))
	}
	o.Handle, o.DType, o.Device, o.Rank, o.Flags, o.Numel, o.Layout = hd, uint8(av.DType), uint8(av.Device),
		uint8(len(l.Shape)), OutLeaf, l.Numel, h.Layout
	o.DeferID = 0
	copy(o.Shape[:], l.Shape)
	if e.session.RequiresGrad(h) {
		o.Flags |= OutRequiresGrad
		if !e.session.IsLeaf(h) {
			o.Flags &^= OutLeaf
		}
	}
}

// gradName gives the name of a handle's grad_fn, "" for leaves.
func (e *Engine) gradName(h *lazy.Handle) string {
	if e.session.IsLeaf(h) {
		return ""
	}
	return e.tape.Name(h.Tape)
}
