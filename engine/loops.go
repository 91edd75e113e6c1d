package engine

import (
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// loopTraces are the states of the traces that bodies of loops interrupt, the outermost first.
type loopTraces []struct{ tracing, mixed, flushed bool }

// loopBody is the body of a loop, with the devices of its results.
type loopBody struct {
	id      int64
	devices []ir.DeviceID
}

// LoopCall describes a loop over a body from EndBody.
type LoopCall struct {
	Body        uint64
	Carries, Xs int
	Length      int64
	Reverse     bool
	While       bool     // the first carry says whether there is another iteration
	Args        []uint64 // first carries, then xs
	SourceLoc   uint32
}

// BeginBody starts the trace of a loop's body with arguments like args: its first carries, and elements of its xs. outs
// are the placeholders. Bodies nest, also in captured functions and in backward walks.
func (e *Engine) BeginBody(args []uint64, outs []Out) (err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	if err := e.failures.poisoned(); err != nil {
		return err
	}
	like, err := e.resolveAll(args)
	if err != nil {
		return err
	}
	return e.beginBody(like, outs)
}

// beginBody is BeginBody within the lock.
func (e *Engine) beginBody(like []op.Val, outs []Out) *ir.Error {
	k := &e.captures
	k.loops = append(k.loops, struct{ tracing, mixed, flushed bool }{k.tracing, k.mixed, k.flushed})
	if err := e.beginTrace(like, FenceBody, outs); err != nil {
		e.endBody()
		return err
	}
	if e.exporting != nil {
		e.exporting.noteBody(e, outs)
	}
	return nil
}

// endBody restores the state of the trace around the body's.
func (e *Engine) endBody() {
	k := &e.captures
	last := k.loops[len(k.loops)-1]
	k.loops = k.loops[:len(k.loops)-1]
	k.tracing, k.mixed, k.flushed = last.tracing, last.mixed || k.mixed, last.flushed
}

// EndBody ends the trace of a body. With keep it returns the body's number, for Loop and ForgetCaptured. The results
// after the first, fresh of them, are carries that the body does not read.
func (e *Engine) EndBody(keep bool, results []uint64, fresh int) (id uint64, err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	if len(e.captures.loops) == 0 {
		return 0, ir.Errorf(ir.ErrRuntime, "no body of a loop is being traced")
	}
	return e.captureBody(keep, results, fresh)
}

// captureBody is EndBody within the lock.
func (e *Engine) captureBody(keep bool, results []uint64, fresh int) (id uint64, err *ir.Error) {
	defer e.endBody()
	e.endFence(FenceBody)
	defer e.session.EndTrace(!e.captures.mixed)
	if x := e.exporting; x != nil {
		b := x.noteEnd(e, keep, results)
		defer func() { x.bodies[id] = b }()
	}
	if !keep {
		return 0, nil
	}
	if e.captures.mixed {
		return 0, ir.Errorf(ir.ErrRuntime, "another thread used the library while the body of a loop was traced")
	}
	vals, err := e.resolveAll(results)
	if err != nil {
		return 0, err
	}
	devices := make([]ir.DeviceID, len(vals))
	for k, v := range vals {
		devices[k] = v.Device()
	}
	body, c, err := e.session.CaptureBody(vals, fresh)
	if err != nil {
		return 0, err
	}
	id = e.newID()
	e.captures.programs[id] = &capturedFunction{c: c, body: &loopBody{body, devices}, results: len(vals)}
	return id, nil
}

// Loop records a loop and returns the number of its results: the last carries, and the stacked results.
func (e *Engine) Loop(c *LoopCall, outs []Out) (n int, err *ir.Error) {
	defer e.leaveOp(c.SourceLoc, &err)
	e.enter()
	n, err = e.loop(c, outs)
	if e.exporting != nil && err == nil {
		e.exporting.noteLoop(e, c, outs[:n])
	}
	e.recorded()
	return n, err
}

func (e *Engine) loop(c *LoopCall, outs []Out) (int, *ir.Error) {
	if err := e.failures.poisoned(); err != nil {
		return 0, err
	}
	f := e.captures.programs[c.Body]
	if f == nil || f.body == nil {
		return 0, ir.Errorf(ir.ErrHandle, "the body of a loop, number %d, is unknown", c.Body)
	}
	if len(outs) < f.results {
		return 0, ir.Errorf(ir.ErrValue, "loop: results: got room for %d, want %d", len(outs), f.results)
	}
	in, err := e.resolveAll(c.Args)
	if err != nil {
		return 0, err
	}
	e.at(c.SourceLoc)
	e.session.TapeUserCalls()
	e.recorder.begin("LoopBackward")
	defer e.recorder.end()
	e.tape.From = e.recorder.labels[len(e.recorder.labels)-1]
	s := e.session
	whole, back, end := s.LoopLevels(in, c.Carries)
	defer end()
	whole = append(whole, s.Outside(f.c)...)
	l := op.Loop{ID: f.body.id, Carries: c.Carries, Xs: c.Xs, Length: c.Length, Reverse: c.Reverse, While: c.While}
	e.loops.note(l, whole)
	vals := prim.LoopOver(s, l, whole)
	for k, dev := range f.body.devices {
		vals[k] = prim.ToDevice(s, vals[k], dev)
	}
	vals = back(vals)
	for i := range vals {
		e.describe(e.session.Wrap(&vals[i], c.Args), &outs[i])
	}
	return len(vals), nil
}
