package engine

import (
	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// hooks maps the user's hooks to their steps on the tape, and function numbers to the steps that the user holds.
type hooks struct {
	places    map[uint64]hookPlace
	functions map[uint64]*heldFunction // by the step's Seq
	dead      []uint64                 // hooks whose step is gone, until DeadHooks returns them
}

// hookPlace is the step of a hook. It is valid while the step at edge has number seq: a freed step's edge is reused.
type hookPlace struct {
	edge uint32
	seq  uint64
}

// heldFunction is a step that the user holds, with its number of holds.
type heldFunction struct {
	edge  uint32
	count int
}

// start forgets all hooks and functions; their tape is gone.
func (k *hooks) start() {
	k.places, k.functions = map[uint64]hookPlace{}, map[uint64]*heldFunction{}
}

// HookKind says where a hook runs.
type HookKind int32

// The kinds of hooks.
const (
	HookTensor     HookKind = iota // on a tensor's gradient
	HookAccumulate                 // on a leaf, after it has accumulated
	HookPre                        // before the function that made the tensor
	HookAfter                      // after it
)

// add puts hook id on the gradient of v, or on the step that made v.
func (k *hooks) add(t *autograd.Tape, id uint64, v op.Val, kind HookKind) *ir.Error {
	edge := v.Tape
	n := t.Node(edge)
	switch {
	case kind == HookPre:
		n.Pre = append(n.Pre, id)
	case kind == HookAfter:
		n.After = append(n.After, id)
	case kind == HookTensor:
		t.AddHook(edge, id, v.L())
	case n.Kind != autograd.KindLeaf:
		return ir.Errorf(ir.ErrRuntime, "post accumulate grad hooks cannot be registered on non-leaf tensors")
	default:
		n.Post = append(n.Post, id)
	}
	k.places[id] = hookPlace{edge, n.Seq}
	return nil
}

// gone notes a hook whose step is gone.
func (k *hooks) gone(id uint64) {
	delete(k.places, id)
	k.dead = append(k.dead, id)
}

// takeDead moves the hooks whose steps are gone into ids and returns their number.
func (k *hooks) takeDead(ids []uint64) int {
	n := copy(ids, k.dead)
	k.dead = append(k.dead[:0], k.dead[n:]...)
	return n
}

// owned reports that handle h alone keeps the step of hook id.
func (k *hooks) owned(s *lazy.Session, t *autograd.Tape, h, id uint64) bool {
	p, ok := k.places[id]
	return ok && t.Node(p.edge).Seq == p.seq && s.OwnsStep(h, p.edge)
}

// remove removes a hook; unknown ones are ignored.
func (k *hooks) remove(t *autograd.Tape, id uint64) {
	p, ok := k.places[id]
	if !ok {
		return
	}
	delete(k.places, id)
	if n := t.Node(p.edge); n.Seq == p.seq {
		n.RemoveHook(id)
	}
}

// function returns the edge of a function that the user holds.
func (k *hooks) function(id uint64) (edge uint32, err *ir.Error) {
	h := k.functions[id]
	if h == nil {
		return 0, ir.Errorf(ir.ErrHandle, "function %d is not held", id)
	}
	return h.edge, nil
}

// hold adds a hold of the function at edge and describes it. ID 0 stands for edge 0.
func (k *hooks) hold(t *autograd.Tape, edge uint32) (f Function) {
	if edge == 0 {
		return f
	}
	n := t.Node(edge)
	h := k.functions[n.Seq]
	if h == nil {
		h = &heldFunction{edge: edge}
		k.functions[n.Seq] = h
		t.Retain(edge)
	}
	h.count++
	f.ID, f.Output, f.SourceLoc = n.Seq, uint32(autograd.Output(edge)), n.SourceLoc
	copy(f.Name[:len(f.Name)-1], t.Name(edge))
	return f
}

// release releases one hold; unknown functions are ignored.
func (k *hooks) release(t *autograd.Tape, id uint64) {
	h := k.functions[id]
	if h == nil {
		return
	}
	if h.count--; h.count == 0 {
		delete(k.functions, id)
		t.Release(h.edge)
	}
}

// AddHook registers a hook of a kind on tensor h.
func (e *Engine) AddHook(h uint64, kind HookKind) (id uint64, err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	v, err := e.session.Resolve(h)
	if err != nil {
		return 0, err
	}
	if v.Tape == 0 {
		return 0, ir.Errorf(ir.ErrRuntime, "cannot register a hook on a tensor that doesn't require gradient")
	}
	id = e.newID()
	if err := e.hooks.add(e.tape, id, v, kind); err != nil {
		return 0, err
	}
	return id, nil
}

// DeadHooks writes to ids the hooks that can no longer be called, because their steps are gone, and returns their
// number. Each hook is returned once.
func (e *Engine) DeadHooks(ids []uint64) int {
	defer e.leave(nil)
	e.enter()
	return e.hooks.takeDead(ids)
}

// OwnsHook reports that handle h alone keeps the step of hook id, so that the hook dies with h.
func (e *Engine) OwnsHook(h, id uint64) bool {
	defer e.leave(nil)
	e.enter()
	return e.hooks.owned(e.session, e.tape, h, id)
}

// RemoveHook removes a hook; unknown ones are ignored.
func (e *Engine) RemoveHook(id uint64) {
	defer e.leave(nil)
	e.enter()
	e.hooks.remove(e.tape, id)
}
