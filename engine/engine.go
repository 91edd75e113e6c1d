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

// Engine is one runtime. All methods may be called from any thread. mu guards every part but waiter, releases and the
// table of source locations, which have locks of their own.
type Engine struct {
	mu   sync.Mutex // taken and released in calls.go only
	trap func()     // for tests: called at the start of each call
	cfg  Config

	session  *lazy.Session
	graph    *ir.Graph      // the value graph that the session records on
	tape     *autograd.Tape // likewise
	dispatch dispatch.Dispatcher
	runtime  *runtime.Executor

	// Sessions of inference and of training are under locks of their own.
	sessions    table[InferenceSession]
	sessionRuns table[sessionRun] // those that somebody waits for
	trainings   table[TrainingSession]
	recorder    recorder // decodes and records operator calls
	devices     devices  // open devices, the default device, values of uploaded integers
	planner     planner  // collects windows and finds or builds their plans
	net         net      // safety net: runs pending work when there is much
	waiter      waiter   // execution lock, jobs, and a window stopped midway
	read        readCache
	copies      hostCopies
	failures    failures // errors of values, and the calls that report them
	backward    walks    // backward walks in progress
	hooks       hooks    // the user's hooks and functions
	threads     threads  // modes of each thread
	fences      fences   // refusals of writes
	exports     exports  // memory lent to other libraries
	captures    captures // captured functions
	programs    programs // saved programs that callers opened
	// exporting records the calls of a function that is exported, nil for none.
	exporting *exporting
	loops     loopPaths
	releases  releases // handles whose owners are gone, not released yet
	profile   profile
	windows   windowLog // times of the last windows
	word      [8]byte   // scratch of Numbers: the bytes of one number
	stats     counters
	nextID    uint64 // last number given to a walk, hook, export or captured function
}

// counters feed Info("stats").
type counters struct {
	windows, built, fused, unfused, replayed, executed, faults, inPlace, through, reads int64
	keyNanos, runNanos                                                                  int64
}

// newID returns a number that no walk, hook, export or captured function has had.
func (e *Engine) newID() uint64 {
	e.nextID++
	return e.nextID
}

// MaxRank bounds the rank of a tensor.
const MaxRank = 16

// Flags of Out.
const (
	OutRequiresGrad = 1
	OutLeaf         = 2
	OutIsInput      = 4
	OutBatched      = 8 // it has hidden dims: calls on it are not deferred
)

// Out describes a result; it has the memory layout of tl_out.
type Out struct {
	Handle                     uint64
	DType, Device, Rank, Flags uint8
	Layout                     ir.LayoutID // sizes and strides; 0 when the result is no tensor
	Numel                      int64
	DeferID                    uint32 // not 0: what Record can do again; see Queued
	_                          uint32
	Shape                      [MaxRank]int64
}

// describe fills o with the description of a handle.
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
	o.Handle, o.DType, o.Device = hd, uint8(ir.ElementType(av.DType, h.Layout)), uint8(av.Device)
	o.Rank, o.Flags, o.Numel, o.Layout = uint8(len(l.Shape)), OutLeaf, l.Numel, h.Layout
	o.DeferID = 0
	copy(o.Shape[:], l.Shape)
	if l.Hidden != nil {
		o.Flags |= OutBatched
		o.Layout = 0
	}
	if e.session.RequiresGrad(h) {
		o.Flags |= OutRequiresGrad
		if !e.session.IsLeaf(h) {
			o.Flags &^= OutLeaf
		}
	}
}

// gradName returns the name of a handle's grad_fn, "" for leaves.
func (e *Engine) gradName(h *lazy.Handle) string {
	if e.session.IsLeaf(h) {
		return ""
	}
	return e.tape.Name(h.Tape)
}
