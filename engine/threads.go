package engine

import (
	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/ir"
)

// Modes belong to threads, as in PyTorch: gradient recording, inference, autocast, the default device, hooks of saved
// values, labelled functions and tidy scopes. The engine keeps those of the present thread where recording looks for
// them. A caller with several threads says by Thread whose calls follow, when that changes; without it all calls are
// those of thread 0.

// thread is what the engine keeps of a thread whose calls are not the present ones.
type thread struct {
	grad, inference, packing bool
	autocast                 [2]ir.DType
	device                   ir.DeviceID
	deviceSet                bool
	label                    []autograd.Source
	scopes                   [][]uint64
}

// Thread makes the calls that follow those of thread id.
func (e *Engine) Thread(id uint64) {
	defer e.leave(nil)
	e.enter()
	if id == e.thread {
		return
	}
	s := e.session
	e.threads[e.thread] = &thread{grad: s.GradMode, inference: s.Inference, packing: s.Tape.Packing, autocast: s.Autocast,
		device: s.DefaultDev, deviceSet: e.deviceSet, label: e.label, scopes: s.Scopes(nil)}
	t := e.threads[id]
	if t == nil {
		t = &thread{grad: true}
	}
	delete(e.threads, id)
	e.thread = id
	s.GradMode, s.Inference, s.Tape.Packing, s.Autocast, e.label = t.grad, t.inference, t.packing, t.autocast, t.label
	if e.deviceSet = t.deviceSet; t.deviceSet {
		s.DefaultDev = t.device
	} else {
		s.DefaultDev = e.firstDevice
	}
	s.Scopes(t.scopes)
}

// EndThread forgets a thread that makes no more calls. The present one begins anew.
func (e *Engine) EndThread(id uint64) {
	if e.presentThread() == id {
		e.Thread(0)
	}
	defer e.leave(nil)
	e.enter()
	if id != 0 {
		delete(e.threads, id)
	}
}

func (e *Engine) presentThread() uint64 {
	defer e.leave(nil)
	e.enter()
	return e.thread
}
