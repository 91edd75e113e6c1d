package engine

import (
	"slices"

	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/ir"
)

// FenceKind says whose function a fence is around.
type FenceKind int32

// The kinds. Numbers are those of tl_fence.
const (
	FenceEnd           FenceKind = iota // ends the innermost fence
	FenceQuery                          // only asks
	FenceNone                           // lifts the fences around
	FenceTransform                      // a function that a transform differentiates
	FenceRecomputation                  // the second run of a checkpointed function
)

// fence refuses a thread's writes to bases that are older than the fence itself: a transform's function must not
// change what it captured, and a recomputation must not repeat what the first run wrote.
type fence struct {
	kind     FenceKind
	thread   int64
	mark     uint64            // lazy.Session.Births when the fence began
	writable map[uint32]uint32 // older bases that may be written to, and their generations
}

// fences are those of all threads, the innermost of each last. They are the session's lazy.Fence while there are any.
type fences struct {
	session *lazy.Session
	list    []fence
}

// Fence begins a fence of the calling thread, ends its innermost one, or only asks. It reports whether the thread was
// in a recomputation. The bases of the tensors writable are not fenced off.
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

// Refuse implements lazy.Fence. Transforms allow that a tensor's data is rebound.
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
		case !rebinding:
			return ir.Errorf(ir.ErrRuntime, "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to "+
				"call in-place operation that would mutate a captured Tensor. This is not supported; please rewrite the "+
				"function being transformed to explicitly accept the mutated Tensor(s) as inputs.")
		}
	}
	return nil
}
