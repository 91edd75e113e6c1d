package engine

import (
	"sync/atomic"

	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/ir"
)

// The engine's lock is taken and released in this file only. Every exported method that uses the session begins with
//
//	defer e.leave(&err)
//	e.enter()
//
// leave is deferred first, so that it also covers enter. A panic with an *ir.Error becomes the call's error. Any other
// panic is a bug: the call returns ErrInternal or, if it returns no error (nil), panics again. The engine stays usable.

// enter takes the engine's lock and releases the handles whose owners are gone.
func (e *Engine) enter() {
	e.mu.Lock()
	if e.releases.any.Load() {
		e.drain()
	}
	if e.trap != nil {
		e.trap()
	}
}

// leave ends a call: it releases the values that the call held, then the lock. It is deferred before enter.
func (e *Engine) leave(err **ir.Error) {
	defer e.mu.Unlock()
	if r := recover(); r != nil {
		e.mend(r)
		*orPanic(err, r) = caught(r)
	}
	e.session.Drain()
	e.announce()
}

// leaveOp is leave for calls that end with recorded. An error without a line gets sourceLoc.
func (e *Engine) leaveOp(sourceLoc uint32, err **ir.Error) {
	defer e.mu.Unlock()
	if r := recover(); r != nil {
		e.mend(r)
		*err = caught(r)
		e.session.Drain()
	}
	e.announce()
	if *err != nil && (*err).SourceLoc == 0 {
		(*err).SourceLoc = sourceLoc
	}
}

// announce tells the caller of work that it must do before it runs other code.
func (e *Engine) announce() {
	if e.session.ExportsDue() {
		atomic.OrInt32(&e.cfg.State.Due, dueShared)
	}
	if len(e.runtime.Orphans) > 0 {
		atomic.OrInt32(&e.cfg.State.Due, dueOwners)
	}
}

// drainIfFree releases queued handles if the lock is free at once.
func (e *Engine) drainIfFree() {
	if e.mu.TryLock() {
		defer e.mu.Unlock()
		e.drain()
	}
}

// alone runs work under the lock for calls that must work on a broken session too.
func (e *Engine) alone(work func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	work()
}

// orPanic returns err. Where a call returns no error (nil), it panics again with r.
func orPanic(err **ir.Error, r any) **ir.Error {
	if err == nil {
		panic(r)
	}
	return err
}

// mend undoes the half-done work of a call that panicked. If the panic is a bug, it also drops the window in
// collection; an *ir.Error never interrupts collection.
func (e *Engine) mend(r any) {
	e.tape.From = autograd.Source{}
	e.dispatch.Abandon()
	if _, ok := r.(*ir.Error); !ok {
		e.planner.abandon()
	}
}

// caught makes an error of a recovered panic.
func caught(r any) *ir.Error {
	if x, ok := r.(*ir.Error); ok {
		return x
	}
	return ir.Errorf(ir.ErrInternal, "%s", ir.PanicText(r, stacks != nil && stacks()))
}

// recovered, deferred, turns a panic into the error of a function that no enter and leave surround.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = caught(r)
	}
}
