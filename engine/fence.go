package engine

import (
	"slices"

	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/ir"
)

// FenceKind says what kind of function a fence surrounds, or what Fence is to do.
type FenceKind int32

// The kinds, numbered as in tl_fence.
const (
	FenceEnd           FenceKind = iota // ends the innermost fence
	FenceQuery                          // changes nothing
	FenceNone                           // lifts the surrounding fences
	FenceTransform                      // a function that a transform differentiates
	FenceRecomputation                  // the second run of a checkpointed function
	FenceTrace                          // a function that is captured; BeginTrace and EndTrace alone use it
	FenceBody                           // the body of a loop; likewise
)

// fence refuses writes of a thread to bases that are older than the fence. A transform's function must not change what
// it captured, and a recomputation must not repeat the writes of the first run.
type fence struct {
	kind     FenceKind
	thread   int64
	mark     uint64            // lazy.Session.Births when the fence began
	writable map[uint32]uint32 // older bases that may be written, with their generations
}

// fences lists the fences of all threads, outer before inner. While it has entries it is the session's lazy.Fence.
type fences struct {
	session *lazy.Session
	list    []fence
}

// Fence begins a fence of the calling thread, ends its innermost one, or only queries. It reports whether the thread
// was in a recomputation. Writes to the tensors in writable stay allowed.
func (e *Engine) Fence(kind FenceKind, writable []uint64) (recomputing bool, err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	id, last := int64(0), -1
	if kind > FenceQuery || len(e.fences.list) > 0 {
		id = threadID()
	}
	for i := range e.fences.list {
		if e.fences.list[i].thread == id {
			last = i
			recomputing = recomputing || e.fences.list[i].kind == FenceRecomputation
		}
	}
	switch {
	case kind == FenceEnd && last >= 0:
		e.fences.list = slices.Delete(e.fences.list, last, last+1)
	case kind > FenceQuery:
		f := fence{kind: kind, thread: id, mark: e.session.Births(), writable: map[uint32]uint32{}}
		for _, h := range writable {
			x, err := e.session.Handle(h)
			if err != nil {
				return recomputing, err
			}
			f.writable[x.Base] = e.session.Generation(x.Base)
		}
		e.fences.list = append(e.fences.list, f)
	}
	if len(e.fences.list) > 0 {
		e.session.SetFence(&e.fences)
	} else {
		e.session.SetFence(nil)
	}
	return recomputing, nil
}

// endFence ends the calling thread's innermost fence of a kind.
func (e *Engine) endFence(kind FenceKind) {
	list := e.fences.list
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].kind == kind {
			e.fences.list = slices.Delete(list, i, i+1)
			break
		}
	}
	if len(e.fences.list) == 0 {
		e.session.SetFence(nil)
	}
}

// Refuse implements lazy.Fence. Transforms allow rebinding of a tensor's data.
func (k *fences) Refuse(base uint32, rebinding bool) *ir.Error {
	id := threadID()
	for i := len(k.list) - 1; i >= 0; i-- {
		f := &k.list[i]
		gen, given := f.writable[base]
		switch {
		case f.thread != id, given && gen == k.session.Generation(base),
			f.kind != FenceNone && k.session.BornSince(base, f.mark):
		case f.kind == FenceNone:
			return nil
		case f.kind == FenceRecomputation:
			return ir.Errorf(ir.ErrImpureRegion, "checkpoint: the function writes in place to a tensor that is older than "+
				"its recomputation, which would do the write a second time: write outside of the checkpointed function, "+
				"or only where torchlette.utils.checkpoint.is_recomputing() is false")
		case f.kind == FenceTrace && rebinding:
			return ir.Errorf(ir.ErrRuntime, "a captured function gives other data to a tensor from outside (set_, .data or "+
				"out= of another size): write in place with copy_")
		case f.kind == FenceTrace:
		case f.kind == FenceBody:
			return ir.Errorf(ir.ErrImpure, "the body of a loop writes in place to a tensor from outside, but it is recorded "+
				"once for all iterations: make the tensor a carry")
		case !rebinding:
			return ir.Errorf(ir.ErrRuntime, "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to "+
				"call in-place operation that would mutate a captured Tensor. This is not supported; please rewrite the "+
				"function being transformed to explicitly accept the mutated Tensor(s) as inputs.")
		}
	}
	return nil
}
