package engine

import (
	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/ir"
)

// Function describes a node of autograd's graph: the function that made a tensor.
type Function struct {
	ID   uint64 // 0: there is none
	Name [64]byte
	// Output is the result that the edge names.
	Output, SourceLoc uint32
}

// BeginFunction groups all steps recorded until EndFunction into one function of that name.
func (e *Engine) BeginFunction(name string) {
	defer e.leave(nil)
	e.enter()
	e.recorder.begin(name)
}

// EndFunction ends the innermost BeginFunction.
func (e *Engine) EndFunction() {
	defer e.leave(nil)
	e.enter()
	e.recorder.end()
}

// GradFunction returns, with a hold, the function that made h. For a leaf that requires grad, and with leaf set, it
// returns the function that accumulates the gradient.
func (e *Engine) GradFunction(h uint64, leaf bool) (f Function, err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	v, err := e.session.Resolve(h)
	if err != nil || v.Tape == 0 || !leaf && e.tape.Node(v.Tape).Kind == autograd.KindLeaf {
		return f, err
	}
	return e.hooks.hold(e.tape, v.Tape), nil
}

// NextFunctions returns, with holds, the functions that made the operands of function id. ID 0 stands for an operand
// that requires no gradient. n is their number, which may exceed len(out).
func (e *Engine) NextFunctions(id uint64, out []Function) (n int, err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	edge, err := e.hooks.function(id)
	if err != nil {
		return 0, err
	}
	next := e.tape.Next(edge)
	if len(next) <= len(out) {
		for i, edge := range next {
			out[i] = e.hooks.hold(e.tape, edge)
		}
	}
	return len(next), nil
}

// ReleaseFunction releases one hold; unknown functions are ignored.
func (e *Engine) ReleaseFunction(id uint64) {
	defer e.leave(nil)
	e.enter()
	e.hooks.release(e.tape, id)
}

// LeadsOutside reports for each tensor of hs whether its history ends in a leaf that is not closed.
func (e *Engine) LeadsOutside(hs []uint64, outside []bool) (err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	edges := make([]uint32, 0, len(hs))
	for _, h := range hs {
		v, err := e.session.Resolve(h)
		if err != nil {
			return err
		}
		edges = append(edges, v.Tape)
	}
	copy(outside, e.tape.LeadsOutside(edges))
	return nil
}

// CloseLeaves closes the leaves hs: a transform has finished the call that they were the arguments of.
func (e *Engine) CloseLeaves(hs []uint64) (err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	for _, h := range hs {
		v, err := e.session.Resolve(h)
		if err != nil {
			return err
		}
		if v.Tape != 0 {
			e.tape.Close(v.Tape)
		}
	}
	return nil
}
