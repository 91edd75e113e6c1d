package engine

import (
	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// Flags of Backward.
const (
	RetainGraph uint32 = 1 << iota
	CreateGraph
	AccumulateGrad
	AllowUnused
	Inspect
	NoLeafHooks
)

// BackwardEvent is what a walk stops for; Kind is an autograd.EventKind. Of an inspection, Hook is the
// gradient's index and Site the line that recorded the function Name.
type BackwardEvent struct {
	Kind      uint32
	SourceLoc uint32
	Hook      uint64
	Grad      Out
	Name      [64]byte
}

// maxNested bounds the walks begun by hooks of walks: a hook that walks its own graph never ends.
const maxNested = 100

// session is a backward walk between calls.
type session struct {
	w      *autograd.Walk
	flags  uint32
	inputs int
}

// Backward begins a walk from roots with cotangents grads (0: ones). It runs up to the
// first hook or the end when BackwardNext is called.
func (e *Engine) Backward(roots, grads, inputs []uint64, flags uint32) (id uint64, err *ir.Error) {
	if err := e.lock.acquire(threadID()); err != nil {
		return 0, err
	}
	defer func() {
		if id == 0 {
			e.lock.release() // else the session has it, to its end
		}
	}()
	defer e.leave(&err)
	e.enter()
	if err := e.poisoned(); err != nil {
		return 0, err
	}
	if e.inBackward >= maxNested {
		return 0, ir.Errorf(ir.ErrNonReentrant, "backward was called inside of %d backward walks, each from a hook of the "+
			"last", e.inBackward)
	}
	s := e.session
	old := s.Taping(flags&CreateGraph != 0)
	defer s.Taping(old)
	rv, cv, err := e.roots(roots, grads)
	if err != nil {
		return 0, err
	}
	o := autograd.Options{RetainGraph: flags&(RetainGraph|CreateGraph) != 0, CreateGraph: flags&CreateGraph != 0,
		Accumulate: flags&AccumulateGrad != 0, Inspect: flags&Inspect != 0, NoLeafHooks: flags&NoLeafHooks != 0}
	for i, h := range inputs {
		v, err := s.Resolve(h)
		if err != nil {
			return 0, err
		}
		if v.Tape == 0 {
			return 0, ir.Errorf(ir.ErrRuntime, "One of the differentiated Tensors does not require grad (input %d)", i)
		}
		o.Inputs = append(o.Inputs, v.Tape)
	}
	sink := lazy.GradSink{S: s, Create: o.CreateGraph,
		Add:   func(x, y op.Val) op.Val { return addCotangents(s.Graph, s, x, y) },
		Dense: func(v op.Val) op.Val { return denseGrad(s, v) }}
	if e.runtime.Profiling {
		o.Enter = func(sourceLoc uint32) { s.SourceLoc = e.profile.backward(sourceLoc) }
	}
	add := func(b op.Builder, x, y op.Val) op.Val { return addCotangents(s.Graph, b, x, y) }
	ss := &session{w: s.Tape.Begin(s, sink, rv, cv, o, add, viewCot), flags: flags, inputs: len(inputs)}
	e.nextID++
	e.sessions[e.nextID] = ss
	e.inBackward++
	return e.nextID, nil
}

// denseGrad copies a cotangent that is a view.
func denseGrad(s *lazy.Session, v op.Val) op.Val {
	if wholeDense(v) {
		return v
	}
	return prim.Copy(s, v)
}

func viewCot(b op.Builder, step op.ViewOp, cot, in, out op.Val) op.Val {
	return prim.ViewVJP(b, step, cot, in.L(), out.L(), in.Offset, out.Offset)
}

// roots resolves the starting values and their cotangents.
func (e *Engine) roots(roots, grads []uint64) (rv, cv []op.Val, err *ir.Error) {
	s := e.session
	for i, h := range roots {
		v, err := s.Resolve(h)
		if err != nil {
			return nil, nil, err
		}
		if v.Tape == 0 {
			return nil, nil, ir.Errorf(ir.ErrRuntime, "element %d of tensors does not require grad and does not have a grad_fn",
				i)
		}
		var c op.Val
		if i < len(grads) && grads[i] != 0 {
			if c, err = s.Resolve(grads[i]); err != nil {
				return nil, nil, err
			}
			if !ir.SameShape(c.Shape(), v.Shape()) {
				return nil, nil, ir.Errorf(ir.ErrRuntime, "Mismatch in shape: grad_output[%d] has a shape of %s and output[%d] "+
					"has a shape of %s.", i, ir.ShapeString(c.Shape()), i, ir.ShapeString(v.Shape()))
			}
			if c.DType() != v.DType() {
				c = prim.Cast(s, c, v.DType())
			}
			c.Base = 0
		} else {
			if v.L().Numel != 1 {
				return nil, nil, ir.Errorf(ir.ErrRuntime, "grad can be implicitly created only for scalar outputs")
			}
			c = prim.Fill(s, op.FloatVal(1), v.DType(), v.Device(), v.Shape())
		}
		rv, cv = append(rv, v), append(cv, c)
	}
	return rv, cv, nil
}

// BackwardNext goes on with a walk, after a hook with its replacement (0: none), to the
// next hook or the end.
func (e *Engine) BackwardNext(id, replacement uint64, ev *BackwardEvent) (err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	ss := e.sessions[id]
	if ss == nil {
		return ir.Errorf(ir.ErrHandle, "backward session %d is unknown", id)
	}
	goesOn := false
	defer func() {
		if !goesOn {
			e.endSession(id, ss)
		}
	}()
	s := e.session
	var r op.Val
	if replacement != 0 {
		if r, err = s.Resolve(replacement); err != nil {
			return err
		}
		r.Base = 0
	}
	old := s.Taping(ss.flags&CreateGraph != 0)
	defer s.Taping(old)
	s.Tape.From = autograd.Source{}
	defer e.recordedBy(id, s.Graph.Seq())
	next, x := ss.w.Next(r)
	if x != nil {
		return asError(x)
	}
	ev.Kind, ev.Hook = uint32(next.Kind), next.Hook
	switch next.Kind {
	case autograd.Done:
		goesOn = ss.inputs > 0 // until BackwardResults
		return nil
	case autograd.Inspect:
		ev.Hook, ev.SourceLoc = uint64(next.Index), s.Tape.Node(next.From).SourceLoc
		copy(ev.Name[:len(ev.Name)-1], s.Tape.Name(next.From))
	}
	if next.Grad.IsTensor() {
		next.Grad.Base = 0
		e.describe(s.Wrap(&next.Grad, nil), &ev.Grad)
	}
	goesOn = true
	return nil
}

// abandonWalks forgets the backward walks in progress, whose tape is gone, and gives back the execution lock that each
// of them holds.
func (e *Engine) abandonWalks() {
	for range e.sessions {
		e.lock.release()
	}
	e.sessions, e.inBackward = map[uint64]*session{}, 0
}

// endSession gives back what a walk holds, the execution lock last.
func (e *Engine) endSession(id uint64, ss *session) {
	defer e.lock.release()
	e.inBackward--
	delete(e.sessions, id)
	ss.w.Close()
}

// BackwardResults gives the cotangents of the inputs of a finished walk and ends it.
func (e *Engine) BackwardResults(id uint64, outs []Out, has []bool) (err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	ss := e.sessions[id]
	if ss == nil {
		return ir.Errorf(ir.ErrHandle, "backward session %d is unknown", id)
	}
	defer e.endSession(id, ss)
	for i := range ss.w.Results {
		v := ss.w.Results[i]
		if i >= len(outs) {
			break
		}
		has[i] = v.IsTensor()
		if has[i] {
			v.Base = 0
			if ss.flags&CreateGraph == 0 {
				v.Tape = 0
			}
			e.describe(e.session.Wrap(&v, nil), &outs[i])
		} else if ss.flags&AllowUnused == 0 {
			for k := 0; k < i; k++ {
				if has[k] {
					e.session.Release(outs[k].Handle)
				}
			}
			return ir.Errorf(ir.ErrRuntime, "One of the differentiated Tensors appears to not have been used in the graph. Set "+
				"allow_unused=True if this is the desired behavior.")
		}
	}
	return nil
}

// AddHook registers a hook on the gradient of h or, when post is set, on the leaf h after it has
// accumulated a gradient.
func (e *Engine) AddHook(h uint64, post bool) (id uint64, err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	v, err := e.session.Resolve(h)
	if err != nil {
		return 0, err
	}
	if v.Tape == 0 {
		return 0, ir.Errorf(ir.ErrRuntime, "cannot register a hook on a tensor that doesn't require gradient")
	}
	e.nextID++
	n := e.session.Tape.Node(v.Tape)
	switch {
	case !post:
		n.Hooks = append(n.Hooks, autograd.Hook{Out: int(v.Tape & 15), ID: e.nextID})
	case n.Kind != autograd.KindLeaf:
		return 0, ir.Errorf(ir.ErrRuntime, "post accumulate grad hooks cannot be registered on non-leaf tensors")
	default:
		n.Post = append(n.Post, e.nextID)
	}
	e.hooks[e.nextID] = hookPlace{v.Tape, n.Seq}
	return e.nextID, nil
}

// DeadHooks writes numbers of hooks that can no longer be called, for their steps are
// gone, and gives how many; each is told once.
func (e *Engine) DeadHooks(ids []uint64) int {
	defer e.leave(nil)
	e.enter()
	n := copy(ids, e.deadHooks)
	e.deadHooks = append(e.deadHooks[:0], e.deadHooks[n:]...)
	return n
}

// OwnsHook reports that nothing but handle h keeps the step that hook id is on: when h goes, the hook
// can no longer be called.
func (e *Engine) OwnsHook(h, id uint64) bool {
	defer e.leave(nil)
	e.enter()
	p, ok := e.hooks[id]
	return ok && e.session.Tape.Node(p.edge).Seq == p.seq && e.session.OwnsStep(h, p.edge)
}

// RemoveHook takes a hook off; unknown ones are ignored.
func (e *Engine) RemoveHook(id uint64) {
	defer e.leave(nil)
	e.enter()
	p, ok := e.hooks[id]
	if !ok {
		return
	}
	delete(e.hooks, id)
	n := e.session.Tape.Node(p.edge)
	if n.Seq != p.seq {
		return
	}
	n.RemoveHook(id)
}
