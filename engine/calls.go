package engine

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/ir"
)

// The engine's lock is taken and given back here alone. Every exported method that looks at the session begins with
//
//	defer e.leave(&err)
//	e.enter()
//
// leave comes first so that it covers what enter does. A panic with *ir.Error is the call's error. Any other panic is
// a bug: the call gives ErrInternal, or goes on panicking where it has no error (nil), and the engine is as good as
// before.

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

// leave ends a call: what it held goes, then the lock. It is deferred before enter.
func (e *Engine) leave(err **ir.Error) {
	defer e.mu.Unlock()
	if r := recover(); r != nil {
		e.mend(r)
		*orPanic(err, r) = caught(r)
	}
	e.session.Drain()
}

// leaveOp is leave for calls that record at a line and end with recorded.
func (e *Engine) leaveOp(sourceLoc uint32, err **ir.Error) {
	defer e.mu.Unlock()
	if r := recover(); r != nil {
		e.mend(r)
		*err = caught(r)
		e.session.Drain()
	}
	if *err != nil && (*err).SourceLoc == 0 {
		(*err).SourceLoc = sourceLoc
	}
}

// drainIfFree is what remains of a call that must not wait for the lock.
func (e *Engine) drainIfFree() {
	if e.mu.TryLock() {
		defer e.mu.Unlock()
		e.drain()
	}
}

// alone does work under the lock without looking at the session, which may be broken.
func (e *Engine) alone(work func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	work()
}

// orPanic is err, or goes on with panic r where a call has no error.
func orPanic(err **ir.Error, r any) **ir.Error {
	if err == nil {
		panic(r)
	}
	return err
}

// mend undoes what a call that panicked has left half done. Only a bug panics while a window is collected.
func (e *Engine) mend(r any) {
	e.tape.From = autograd.Source{}
	e.dispatch.Abandon()
	if _, ok := r.(*ir.Error); !ok {
		e.planner.abandon()
	}
}

// caught is the error of a panic. It is called by the deferred function that has recovered.
func caught(r any) *ir.Error {
	if x, ok := r.(*ir.Error); ok {
		return x
	}
	text := fmt.Sprintf("internal error: %v", r)
	if stacks != nil && stacks() {
		return ir.Errorf(ir.ErrInternal, "%s\n%s", text, debug.Stack())
	}
	if file, line, ok := panicLine(); ok {
		text += fmt.Sprintf(" (at %s:%d)", file, line)
	}
	return ir.Errorf(ir.ErrInternal, "%s", text)
}

// panicLine finds the line that panicked: the first one below the deferred function that is not the runtime's.
func panicLine() (file string, line int, ok bool) {
	const here = 4 // Callers, panicLine, caught, the deferred function
	var pcs [24]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(here, pcs[:])])
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, "runtime.") {
			return f.File, f.Line, f.File != ""
		}
		if !more {
			return "", 0, false
		}
	}
}

// recovered, deferred, turns a panic into the error of a function that has none of the engine's calls around it.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = caught(r)
	}
}
