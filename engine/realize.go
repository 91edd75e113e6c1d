package engine

import (
	"slices"
	"time"

	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/ir"
)

// Realize computes the values of tensors in one window and waits until the devices are done. It reports pending when
// slice passes; call it again with the same handles.
func (e *Engine) Realize(hs []uint64, slice time.Duration) (pending bool, err *ir.Error) {
	if e.lock.heldByOther(threadID()) {
		return false, busy()
	}
	hs = slices.Clone(hs)
	e.enter()
	big := e.job != nil || e.heavy() || e.async(hs)
	e.mu.Unlock()
	work := func() *ir.Error {
		e.mu.Lock()
		defer e.leave()
		return e.realize(hs)
	}
	if big {
		key := uint64(len(hs))
		for _, h := range hs {
			key = (key ^ h) * 0x9E3779B97F4A7C15
		}
		return e.run("realize", key, slice, work)
	}
	if err := e.lock.acquire(threadID()); err != nil {
		return false, err
	}
	defer e.lock.release()
	return false, work()
}

// async reports a tensor on a device that runs behind: to wait for it takes time.
func (e *Engine) async(hs []uint64) bool {
	return slices.ContainsFunc(hs, func(h uint64) bool {
		hv, err := e.session.Handle(h)
		if err != nil {
			return false
		}
		pl := e.runtime.Devices[ir.AvalOf(e.session.Base(hv.Base).Aval).Device]
		return pl != nil && pl.Dev.Caps().Async
	})
}

func (e *Engine) realize(hs []uint64) (err *ir.Error) {
	defer catch(&err)
	if err := e.raiseDeferred(); err != nil {
		return err
	}
	var all, pending []uint32
	effects := 0
	for _, h := range hs {
		v, err := e.session.Resolve(h)
		if err != nil {
			return err
		}
		all = append(all, v.Value)
		if e.session.Graph.Node(v.Value).Op != ir.OpLeaf {
			pending = append(pending, v.Value)
		}
		if e.session.Base(v.Base).Binding != lazy.SSA {
			effects = len(e.session.Effects)
		}
	}
	if len(pending) > 0 || effects > 0 {
		if err := e.force(pending, effects); err != nil {
			return err
		}
	}
	for _, v := range all {
		if n := e.session.Graph.Node(v); n.Store == 0 {
			return &ir.Error{Code: ir.ErrValueLost, SourceLoc: n.SourceLoc,
				Msg: "this value was never computed, because an earlier execution failed: " + e.lostCause}
		}
	}
	if e.async(hs) {
		if x := e.runtime.Wait(nil); x != nil {
			return e.fail(x)
		}
	}
	return e.takeFault()
}
