package engine

import (
	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// captures holds the captured functions, and the trace in progress.
type captures struct {
	programs map[uint64]*capturedFunction
	tracing  bool
	mixed    bool // another thread came in between
	flushed  bool // the function asked for a flush, as an optimizer's step does
	loops    loopTraces
}

// capturedFunction is a function that is called without running its code.
type capturedFunction struct {
	c       *lazy.Captured
	body    *loopBody // of a loop, else nil
	grads   []lazy.CapturedGrad
	results int // without the gradients
}

// Results of CallCaptured besides the number of results.
const CapturedMisfit = -1 // the program was captured for other gradients or aliases

// BeginTrace starts the capture of a function with arguments like args. outs are the placeholders, on which the caller
// runs the function before EndTrace. Until then nothing is computed.
func (e *Engine) BeginTrace(args []uint64, outs []Out) (err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	if err := e.failures.poisoned(); err != nil {
		return err
	}
	if e.captures.tracing || e.backward.open > 0 {
		return ir.Errorf(ir.ErrRuntime, "a function cannot be captured inside of another capture or of a backward walk")
	}
	like, err := e.resolveAll(args)
	if err != nil {
		return err
	}
	return e.beginTrace(like, FenceTrace, outs)
}

// resolveAll returns the values of tensors.
func (e *Engine) resolveAll(handles []uint64) (vals []op.Val, err *ir.Error) {
	for _, h := range handles {
		v, err := e.session.Resolve(h)
		if err != nil {
			return nil, err
		}
		vals = append(vals, v)
	}
	return vals, nil
}

// beginTrace makes the placeholders of a trace.
func (e *Engine) beginTrace(like []op.Val, fenced FenceKind, outs []Out) *ir.Error {
	mark := e.session.Births()
	t, err := e.session.BeginTrace(like, fenced == FenceBody)
	if err != nil {
		return err
	}
	if fenced == FenceTrace {
		mark = e.session.Births()
	}
	e.captures.tracing, e.captures.mixed, e.captures.flushed = true, false, false
	e.fences.list = append(e.fences.list, fence{kind: fenced, thread: threadID(), mark: mark})
	e.session.SetFence(&e.fences)
	for i, h := range t.Args {
		e.describe(h, &outs[i])
	}
	return nil
}

// EndTrace ends the trace. With keep it captures the function: made reports which results the function made; the others
// are older tensors or placeholders, which the caller returns itself. flushes: the caller is to flush after each call,
// as the function does. Effects of the function on older tensors are undone.
func (e *Engine) EndTrace(keep bool, results []uint64, made []bool) (id uint64, flushes bool, err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	if !e.captures.tracing {
		return 0, false, ir.Errorf(ir.ErrRuntime, "no function is being captured")
	}
	e.captures.tracing = false
	e.endFence(FenceTrace)
	defer e.session.EndTrace(!e.captures.mixed)
	if !keep {
		return 0, false, nil
	}
	if e.captures.mixed {
		return 0, false, ir.Errorf(ir.ErrRuntime, "another thread used the library while a function was captured")
	}
	var vals []op.Val
	for i, h := range results {
		if made[i] = e.session.Made(h); !made[i] {
			continue
		}
		v, err := e.session.Resolve(h)
		if err != nil {
			return 0, false, err
		}
		vals = append(vals, v)
	}
	c, grads, err := e.session.CaptureTrace(vals)
	if err != nil {
		return 0, false, err
	}
	id = e.newID()
	e.captures.programs[id] = &capturedFunction{c: c, grads: grads, results: len(vals)}
	return id, e.captures.flushed, nil
}

// CaptureTangents captures how results depend on args, pending tensors, as a function; id 0: args were computed before.
func (e *Engine) CaptureTangents(args, results []uint64) (id uint64, err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	from, err := e.resolveAll(args)
	if err != nil {
		return 0, err
	}
	to, err := e.resolveAll(results)
	if err != nil {
		return 0, err
	}
	c, ok := e.session.CaptureTangents(from, to)
	if !ok {
		return 0, nil
	}
	id = e.newID()
	e.captures.programs[id] = &capturedFunction{c: c, results: len(results)}
	return id, nil
}

// capturedText is the text of a captured function's program.
func (e *Engine) capturedText(id uint64) (string, *ir.Error) {
	f := e.captures.programs[id]
	if f == nil {
		return "", ir.Errorf(ir.ErrHandle, "captured function %d is unknown", id)
	}
	return e.programText(f.c.Program), nil
}

// CallCaptured records the function's program on other arguments and supplied numbers, and writes its results to outs.
// n is their number, or CapturedMisfit.
func (e *Engine) CallCaptured(id uint64, args []uint64, numbers []float64, sourceLoc uint32, outs []Out) (n int,
	err *ir.Error) {
	defer e.leaveOp(sourceLoc, &err)
	e.enter()
	n, err = e.callCaptured(id, args, numbers, sourceLoc, outs)
	e.recorded()
	return n, err
}

func (e *Engine) callCaptured(id uint64, args []uint64, numbers []float64, sourceLoc uint32, outs []Out) (int,
	*ir.Error) {
	f, s := e.captures.programs[id], e.session
	if err := e.failures.poisoned(); err != nil {
		return 0, err
	}
	if f == nil || f.body != nil {
		return 0, ir.Errorf(ir.ErrHandle, "captured function %d is unknown", id)
	}
	if !s.Fits(f.c, f.grads, args) {
		return CapturedMisfit, nil
	}
	if len(outs) < f.results {
		return 0, ir.Errorf(ir.ErrValue, "captured function: results: got room for %d, want %d", len(outs), f.results)
	}
	if len(numbers) < f.c.Supplied {
		return 0, ir.Errorf(ir.ErrValue, "captured function: numbers: got %d, want %d", len(numbers), f.c.Supplied)
	}
	in, err := e.resolveAll(args)
	if err != nil {
		return 0, err
	}
	e.at(sourceLoc)
	s.TapeUserCalls()
	vals := e.inline(f.c, in, numbers)
	if err := s.InlineGrads(f.grads, args, vals); err != nil {
		return 0, err
	}
	for i := range vals[:f.results] {
		e.describe(s.Wrap(&vals[i], args), &outs[i])
	}
	return f.results, nil
}

// inline records the program. Its steps on the tape are one function of autograd's graph.
func (e *Engine) inline(c *lazy.Captured, in []op.Val, numbers []float64) []op.Val {
	e.recorder.begin("CompiledFunctionBackward")
	defer e.recorder.end()
	e.tape.From = e.recorder.labels[len(e.recorder.labels)-1]
	return e.session.Inline(c, in, numbers)
}

// suppliedCall records a call of a traced function. A rule must pass on a supplied number unread: what it computed from
// one would be a constant of the program.
func (e *Engine) suppliedCall(c *Call, d *op.Def) ([]op.Val, *ir.Error) {
	a, want := &e.recorder.args, 0
	for i := range a.In {
		if _, ok := a.In[i].Supplied(); ok {
			return nil, notPassed(d)
		}
	}
	for i := range a.Scalars {
		if _, ok := a.Scalars[i].Supplied(); ok {
			want++
		}
	}
	before, read := e.session.Supplied(), e.recorder.passThrough[d.ID]
	for i := range a.Scalars {
		if _, ok := a.Scalars[i].Supplied(); ok && read>>i&1 == 0 {
			return nil, notPassed(d)
		}
	}
	vals := e.eval(c, d)
	if e.session.Supplied() < before+want {
		return nil, notPassed(d)
	}
	return vals, nil
}

func notPassed(d *op.Def) *ir.Error {
	return ir.Errorf(ir.ErrInternal, "BUG: %s computes with a number that is supplied at each call", d.Parsed.Name)
}

// ForgetCaptured releases a captured function or a saved program; unknown ones are ignored.
func (e *Engine) ForgetCaptured(id uint64) {
	defer e.leave(nil)
	e.enter()
	e.forgetProgram(id)
	e.forgetCaptured(id)
}

// forgetCaptured is ForgetCaptured of a captured function, within the lock.
func (e *Engine) forgetCaptured(id uint64) {
	if f := e.captures.programs[id]; f != nil {
		delete(e.captures.programs, id)
		e.session.Forget(f.c)
	}
}
