package engine

import (
	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/ir"
)

// Reserve hands out handles for the results of deferred calls.
func (e *Engine) Reserve(hs []uint64) {
	defer e.leave(nil)
	e.enter()
	e.session.Reserve(hs)
}

// Record records deferred calls in order, then releases the handles in drop. If a call fails, its handle stays
// unusable, and the next boundary raises its error.
func (e *Engine) Record(calls []DeferredCall, drop []uint64) {
	defer e.leave(nil)
	e.enter()
	e.record(calls)
	for _, h := range drop {
		e.session.Release(h)
	}
	e.recorded()
}

func (e *Engine) record(calls []DeferredCall) {
	for len(calls) > 0 {
		calls = calls[e.recordUntilError(calls):]
	}
	e.session.Drain()
}

// recordUntilError records calls up to the first error and returns their number, the failing one included.
func (e *Engine) recordUntilError(calls []DeferredCall) (n int) {
	var err *ir.Error
	defer func() {
		if r := recover(); r != nil {
			e.mend(r)
			err = caught(r)
			n++
		}
		e.tape.From = autograd.Source{}
		if err != nil && err.SourceLoc == 0 {
			err.SourceLoc = calls[n-1].SourceLoc
		}
		e.failures.raiseLater(err)
	}()
	for n < len(calls) && err == nil {
		err = e.recordDeferred(&calls[n])
		n++
	}
	return n
}

func (e *Engine) recordDeferred(c *DeferredCall) *ir.Error {
	if err := e.failures.poisoned(); err != nil {
		return err
	}
	q := e.dispatch.Deferral(c.DeferID)
	if q == nil {
		return ir.Errorf(ir.ErrHandle, "deferred call %#x: no such call was made", c.DeferID)
	}
	call := q.Call(c)
	e.at(c.SourceLoc)
	e.session.TapeUserCalls()
	if q.Taped {
		e.tape.From = e.recorder.source(call)
	}
	vals, ok, err := e.dispatch.Repeat(q, c)
	if err != nil {
		return err
	}
	if err := e.session.Fill(c.Handle); err != nil {
		return err
	}
	if !ok {
		var out [1]Out
		_, err := e.op(call, out[:])
		return err
	}
	v := &vals[0]
	if v.Base != 0 {
		a := &e.recorder.args
		a.In = append(a.In[:0], e.dispatch.Operands(q)...)
		e.returnsInput(q.Def, v)
	}
	hd := e.session.Wrap(v, call.In)
	if e.exporting != nil {
		e.exporting.note(e, call, q.Def.Parsed, false, []uint64{hd})
	}
	return nil
}
