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

// BackwardEvent describes why a walk stopped; Kind is an autograd.EventKind. For Inspect, GiveGrad
// and AskGrad, Hook is the Index; for Inspect SourceLoc is the line that recorded the function Name.
type BackwardEvent struct {
	Kind      uint32
	SourceLoc uint32
	Hook      uint64
	Grad      Out
	Name      [64]byte
}

// maxNested bounds the nesting of walks: a hook that walks its own graph would recurse without end.
const maxNested = 100

// walks are the backward walks in progress.
type walks struct {
	byID map[uint64]*walk
	open int
}

// walk is a backward walk between two calls of BackwardNext.
type walk struct {
	w      *autograd.Walk
	flags  uint32
	inputs int
	like   []*ir.Layout // of the inputs: see lazy.Session.Like
	hooked *ir.Layout   // likewise of the tensor whose hook has the gradient of the last event
}

// find returns a walk in progress.
func (k *walks) find(id uint64) (*walk, *ir.Error) {
	w := k.byID[id]
	if w == nil {
		return nil, ir.Errorf(ir.ErrHandle, "backward session %d is unknown", id)
	}
	return w, nil
}

// Backward prepares a walk from roots with the cotangents grads (0: ones). BackwardNext runs it.
func (e *Engine) Backward(roots, grads, inputs []uint64, flags uint32) (id uint64, err *ir.Error) {
	if err := e.waiter.acquire(threadID()); err != nil {
		return 0, err
	}
	defer func() {
		if id == 0 {
			e.waiter.release() // on success the walk keeps the execution lock until endWalk
		}
	}()
	defer e.leave(&err)
	e.enter()
	if err := e.failures.poisoned(); err != nil {
		return 0, err
	}
	if e.backward.open >= maxNested {
		return 0, ir.Errorf(ir.ErrNonReentrant, "backward was called inside of %d backward walks, each from a hook of the "+
			"last", e.backward.open)
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
	var like []*ir.Layout
	for i, h := range inputs {
		v, err := s.Resolve(h)
		if err != nil {
			return 0, err
		}
		if v.Tape == 0 {
			return 0, ir.Errorf(ir.ErrRuntime, "One of the differentiated Tensors does not require grad (input %d)", i)
		}
		o.Inputs = append(o.Inputs, v.Tape)
		like = append(like, v.L())
	}
	sink := lazy.GradSink{Session: s, Create: o.CreateGraph}
	if e.runtime.Profiling {
		o.Enter = func(sourceLoc uint32) { s.SourceLoc = e.profile.backward(sourceLoc) }
	}
	w := &walk{w: e.tape.Begin(&e.dispatch, sink, rv, cv, o), flags: flags, inputs: len(inputs),
		like: like}
	id = e.newID()
	e.backward.byID[id] = w
	e.backward.open++
	if e.exporting != nil {
		e.exporting.noteBackward(e, id, roots, grads, inputs, flags)
	}
	return id, nil
}

// roots resolves the roots and their cotangents.
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
			if v.DType().IsComplex() {
				return nil, nil, ir.Errorf(ir.ErrRuntime, "grad can be implicitly created only for real scalar outputs but got "+
					"torch.%s", v.DType())
			}
			c = prim.Fill(s, op.FloatVal(1), v.DType(), v.Device(), v.Shape())
		}
		rv, cv = append(rv, v), append(cv, s.Reveal(lazy.Pairs(c), v.L().Hidden))
	}
	return rv, cv, nil
}

// BackwardNext continues a walk up to its next hook or its end. replacement is the answer of the hook that the last
// event named (0: none).
func (e *Engine) BackwardNext(id, replacement uint64, ev *BackwardEvent) (err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	w, err := e.backward.find(id)
	if err != nil {
		return err
	}
	goesOn := false
	defer func() {
		if !goesOn {
			e.endWalk(id, w)
		}
	}()
	s := e.session
	var r op.Val
	if replacement != 0 {
		if r, err = s.Resolve(replacement); err != nil {
			return err
		}
		r.Base = 0
		if r = lazy.Pairs(r); w.hooked != nil {
			r = s.Reveal(r, w.hooked.Hidden)
		}
	}
	defer s.Replay()()
	old := s.Taping(w.flags&CreateGraph != 0)
	defer s.Taping(old)
	e.tape.From = autograd.Source{}
	defer e.failures.recordedBy(id, e.graph, e.graph.Seq())
	next, x := w.w.Next(r)
	if x != nil {
		return asError(x)
	}
	ev.Kind, ev.Hook = uint32(next.Kind), next.Hook
	if next.Kind != autograd.Done {
		e.exporting.refuse("a backward walk that calls Python: a hook of a tensor, or a torch.autograd.Function")
	}
	switch next.Kind {
	case autograd.Done:
		goesOn = w.inputs > 0 // the walk stays open for BackwardResults
		return nil
	case autograd.GiveGrad, autograd.AskGrad:
		ev.Hook = uint64(next.Index)
	case autograd.Inspect:
		ev.Hook, ev.SourceLoc = uint64(next.Index), e.tape.Node(next.From).SourceLoc
		copy(ev.Name[:len(ev.Name)-1], e.tape.Name(next.From))
	}
	if next.Grad.IsTensor() {
		next.Grad.Base = 0
		if w.hooked = next.Like; w.hooked != nil {
			next.Grad = s.Like(next.Grad, w.hooked)
		}
		e.describe(s.Wrap(&next.Grad, nil), &ev.Grad)
	}
	goesOn = true
	return nil
}

// abandonWalks drops all walks in progress and releases their holds of the execution lock. Their tape is gone.
func (e *Engine) abandonWalks() {
	for range e.backward.byID {
		e.waiter.release()
	}
	e.backward = walks{byID: map[uint64]*walk{}}
}

// endWalk releases the references and locks of a walk, the execution lock last.
func (e *Engine) endWalk(id uint64, w *walk) {
	defer e.waiter.release()
	e.backward.open--
	delete(e.backward.byID, id)
	w.w.Close()
}

// BackwardResults returns the cotangents of the inputs of a finished walk and ends it.
func (e *Engine) BackwardResults(id uint64, outs []Out, has []bool) (err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	w, err := e.backward.find(id)
	if err != nil {
		return err
	}
	defer e.endWalk(id, w)
	for i := range w.w.Results {
		v := w.w.Results[i]
		if i >= len(outs) {
			break
		}
		has[i] = v.IsTensor()
		if has[i] {
			v.Base = 0
			if w.flags&CreateGraph == 0 {
				v.Tape = 0
			}
			v = e.session.Like(v, w.like[i])
			e.describe(e.session.Wrap(&v, nil), &outs[i])
		} else if w.flags&AllowUnused == 0 {
			for k := 0; k < i; k++ {
				if has[k] {
					e.session.Release(outs[k].Handle)
				}
			}
			return ir.Errorf(ir.ErrRuntime, "The differentiated Tensor at index %d appears to not have been used in the graph. "+
				"Set allow_unused=True if this is the desired behavior.", i)
		}
	}
	if e.exporting != nil {
		e.exporting.noteResults(e, id, outs, has)
	}
	return nil
}
