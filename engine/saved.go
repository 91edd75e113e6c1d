package engine

import (
	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// NextPackHook returns the next saved value that waits for its pack hook; id names the hook from now on, 0: none is
// left. If the value is the tensor of one of handles, operand is its index; otherwise operand is -1 and out holds the
// value.
func (e *Engine) NextPackHook(handles []uint64, out *Out) (id uint64, operand int, err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	v, compact, ok := e.tape.NextPackHook(e.nextID + 1)
	if !ok {
		return 0, -1, nil
	}
	id = e.newID()
	defer e.graph.Release(v.Value)
	for i, h := range handles {
		x, err := e.session.Resolve(h)
		if err != nil || v.Base == 0 || x.Value != v.Value || x.Base != v.Base || x.Offset != v.Offset || x.Tape != v.Tape &&
			x.Tape != compact.Tape {
			continue
		}
		if l, ok := ir.ExpandBatch(x.L(), v.Shape()); ok && l.ID == v.Layout {
			return id, i, nil
		}
	}
	e.describe(e.session.Wrap(&compact, nil), out)
	return id, -1, nil
}

// SkipPackHooks leaves the waiting saved values in their steps.
func (e *Engine) SkipPackHooks() {
	defer e.leave(nil)
	e.enter()
	e.tape.SkipPackHooks()
}

// SavedInfo describes a saved value of a function: its state, its hook, and PyTorch's name for it.
type SavedInfo struct {
	State uint32 // an autograd.SavedState
	_     uint32
	Hook  uint64
	Name  [32]byte
}

// Actions of Saved.
const (
	SavedDescribe int32 = iota
	SavedRead           // also makes a tensor of a held value
	SavedPack           // also queues a held value for its pack hook
)

// Saved describes saved value i of function id.
func (e *Engine) Saved(id uint64, i int, action int32, info *SavedInfo, out *Out) (err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	edge, err := e.hooks.function(id)
	if err != nil {
		return err
	}
	state, name, hook := e.tape.SavedValue(edge, i)
	info.State, info.Hook = uint32(state), hook
	copy(info.Name[:len(info.Name)-1], name)
	if state != autograd.SavedHeld {
		return nil
	}
	switch action {
	case SavedRead:
		v, err := e.tape.ReadSaved(edge, i)
		if err != nil {
			return asError(err)
		}
		e.describe(e.session.Wrap(&v, nil), out)
	case SavedPack:
		e.tape.Repack(edge, i)
	}
	return nil
}

// AttachHistory makes a tensor with the value of h and the history of saved value i of function id; for i < 0, the
// history of result -1-i. With h 0, the tensor stands for that result: it has its shape and dtype, and zeros.
func (e *Engine) AttachHistory(h, id uint64, i int, out *Out) (err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	edge, err := e.hooks.function(id)
	if err != nil {
		return err
	}
	var v op.Val
	if h != 0 {
		if v, err = e.session.Resolve(h); err != nil {
			return err
		}
	} else {
		like, ok := e.tape.ResultOf(edge, -1-i)
		if !ok {
			return ir.Errorf(ir.ErrRuntime, "the function has no result %d", -1-i)
		}
		old := e.session.Taping(false)
		v = prim.Fill(e.session, op.FloatVal(0), like.DType(), like.Device(), like.Shape())
		e.session.Taping(old)
	}
	v.Base, v.Tape = 0, e.tape.HistoryOf(edge, i)
	e.describe(e.session.Wrap(&v, nil), out)
	return nil
}
