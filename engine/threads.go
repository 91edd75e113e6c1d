package engine

import (
	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/engine/lazy"
)

// threads keeps the modes of threads, which are each thread's own, as in PyTorch: gradient recording, inference,
// autocast, the default device, hooks of saved values, labelled functions and tidy scopes. Those of the present thread
// are where recording looks for them. A caller with several threads says by Thread whose calls follow, when that
// changes; without it all calls are those of thread 0.
type threads struct {
	present uint64
	others  map[uint64]*thread
}

// thread is what the engine keeps of a thread whose calls are not the present ones.
type thread struct {
	state  lazy.ThreadState
	labels []autograd.Source
}

// Thread makes the calls that follow those of thread id.
func (e *Engine) Thread(id uint64) {
	defer e.leave(nil)
	e.enter()
	if id != e.threads.present {
		e.switchTo(id)
	}
}

// switchTo makes thread id the present one.
func (e *Engine) switchTo(id uint64) {
	next := e.threads.others[id]
	if next == nil {
		next = &thread{}
		next.state.GradMode = true
	}
	if !next.state.DeviceSet {
		next.state.DefaultDev = e.devices.first
	}
	e.threads.others[e.threads.present] = &thread{e.session.SwapThread(next.state), e.recorder.labels}
	e.recorder.labels = next.labels
	delete(e.threads.others, id)
	e.threads.present = id
}

// EndThread forgets a thread that makes no more calls. The present one begins anew.
func (e *Engine) EndThread(id uint64) {
	defer e.leave(nil)
	e.enter()
	if id == e.threads.present && id != 0 {
		e.switchTo(0)
	}
	if id != 0 {
		delete(e.threads.others, id)
	}
}
