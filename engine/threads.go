package engine

import (
	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/engine/lazy"
)

// threads keeps the modes that PyTorch has per thread: gradient recording, inference, autocast, default device,
// saved-tensor hooks, labelled functions and tidy scopes. The modes of the current thread lie where recording reads
// them. A caller with several threads calls Thread whenever the calling thread changes; otherwise all calls belong to
// thread 0.
type threads struct {
	present uint64
	others  map[uint64]*thread
}

// thread holds the modes of a thread that is not the current one.
type thread struct {
	state  lazy.ThreadState
	labels []autograd.Source
}

// Thread makes id the current thread: the calls that follow belong to it.
func (e *Engine) Thread(id uint64) {
	defer e.leave(nil)
	e.enter()
	if id != e.threads.present {
		e.switchTo(id)
	}
}

// switchTo makes thread id the current one.
func (e *Engine) switchTo(id uint64) {
	e.captures.mixed = true
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

// EndThread forgets a thread that makes no more calls. If it is the current one, thread 0 becomes current.
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
