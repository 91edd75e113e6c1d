package engine

import (
	"slices"
	"time"

	"github.com/torchlette/torchlette/ir"
)

// Realize computes the values of tensors in one window and waits for the devices. It reports pending when slice has
// passed; call it again with the same handles.
func (e *Engine) Realize(hs []uint64, slice time.Duration) (pending bool, err *ir.Error) {
	hs = slices.Clone(hs)
	key := uint64(len(hs))
	for _, h := range hs {
		key = (key ^ h) * 0x9E3779B97F4A7C15
	}
	long := func() bool { return e.heavy() || e.async(hs) }
	return e.hereOrJob("realize", key, slice, long, func(bool) *ir.Error { return e.realize(hs) })
}

// async reports that a tensor is on an asynchronous device, so that waiting takes time.
func (e *Engine) async(hs []uint64) bool {
	return slices.ContainsFunc(hs, func(h uint64) bool {
		hv, err := e.session.Handle(h)
		if err != nil {
			return false
		}
		pl := e.runtime.Devices[e.session.AvalOf(hv.Base).Device]
		return pl != nil && pl.Dev.Caps().Async
	})
}

func (e *Engine) realize(hs []uint64) *ir.Error {
	if err := e.failures.raise(); err != nil {
		return err
	}
	if _, err := e.compute(hs); err != nil {
		return err
	}
	for _, h := range hs {
		if hv, err := e.session.Handle(h); err != nil {
			return err
		} else if err := e.lostWriteTo(hv.Base); err != nil {
			return err
		}
	}
	values, err := e.compute(hs) // a tensor with a reported lost write has its former value
	if err != nil {
		return err
	}
	for _, v := range values {
		if err := e.lost(v); err != nil {
			return err
		}
	}
	if e.async(hs) {
		if x := e.wait(); x != nil {
			return e.failures.fail(x)
		}
	}
	return e.takeFault()
}

// wait waits until the devices are idle, and logs how long that took.
func (e *Engine) wait() error {
	if e.runtime.RunsBehind() {
		defer e.windows.waited(time.Now())
	}
	return e.runtime.Wait()
}

// compute runs the window that the values of hs need, and returns these values. Tensors on Meta have none.
func (e *Engine) compute(hs []uint64) (values []uint32, err *ir.Error) {
	var pending []uint32
	effects := 0
	for _, h := range hs {
		v, err := e.session.Resolve(h)
		if err != nil {
			return nil, err
		}
		if v.Device() == ir.Meta {
			continue
		}
		values = append(values, v.Value)
		if e.graph.Node(v.Value).Op != ir.OpLeaf {
			pending = append(pending, v.Value)
		}
		if e.session.IsOrdered(v.Base) {
			effects = e.session.PendingEffects()
		}
	}
	if len(pending) > 0 || effects > 0 {
		err = e.force(pending, effects)
	}
	return values, err
}
