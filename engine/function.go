package engine

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/ir"
)

// Function describes a node of the graph that autograd shows: what made a tensor.
type Function struct {
	ID   uint64 // 0: there is none
	Name [64]byte
	// Output is the result that the edge leads to.
	Output, SourceLoc uint32
}

// heldNode is a step that users of the engine refer to.
type heldNode struct {
	edge  uint32
	count int
}

// source is what the steps of the operator call in progress come from.
func (e *Engine) source(c *Call, inPlace bool) autograd.Source {
	if k := len(e.label); k > 0 {
		return e.label[k-1]
	}
	e.calls++
	from := autograd.Source{Op: c.Op, Call: e.calls, InPlace: inPlace, Number: slices.Contains(c.In, operandMarker)}
	if len(c.Ints) > 0 {
		from.First = int8(min(c.Ints[0], math.MaxInt8))
	}
	return from
}

// BeginFunction makes what is recorded until EndFunction one function of that name.
func (e *Engine) BeginFunction(name string) {
	defer e.leave(nil)
	e.enter()
	e.calls++
	e.label = append(e.label, autograd.Source{Call: e.calls, Label: name})
}

// EndFunction ends the innermost BeginFunction.
func (e *Engine) EndFunction() {
	defer e.leave(nil)
	e.enter()
	if k := len(e.label); k > 0 {
		e.label = e.label[:k-1]
	}
}

// GradFunction holds and describes what made h; of a leaf that requires grad, what accumulates its
// gradient when leaf is set.
func (e *Engine) GradFunction(h uint64, leaf bool) (f Function, err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	v, err := e.session.Resolve(h)
	if err != nil || v.Tape == 0 || !leaf && e.session.Tape.Node(v.Tape).Kind == autograd.KindLeaf {
		return f, err
	}
	return e.hold(v.Tape), nil
}

// NextFunctions holds and describes those whose results function id took; ID 0 stands for an operand
// that requires no gradient. It gives their number, which may be more than out takes.
func (e *Engine) NextFunctions(id uint64, out []Function) (n int, err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	h := e.nodes[id]
	if h == nil {
		return 0, ir.Errorf(ir.ErrHandle, "function %d is not held", id)
	}
	next := e.session.Tape.Next(h.edge)
	if len(next) <= len(out) {
		for i, edge := range next {
			out[i] = e.hold(edge)
		}
	}
	return len(next), nil
}

func (e *Engine) hold(edge uint32) (f Function) {
	if edge == 0 {
		return f
	}
	n, k := e.session.Tape.Node(edge), edge&15
	h := e.nodes[n.Seq]
	if h == nil {
		h = &heldNode{edge: edge}
		e.nodes[n.Seq] = h
		e.session.Tape.Retain(edge)
	}
	h.count++
	f.ID, f.Output, f.SourceLoc = n.Seq, k, n.SourceLoc
	copy(f.Name[:len(f.Name)-1], e.session.Tape.Name(edge))
	return f
}

// ReleaseFunction gives one hold back; unknown ones are ignored.
func (e *Engine) ReleaseFunction(id uint64) {
	defer e.leave(nil)
	e.enter()
	if h := e.nodes[id]; h != nil {
		if h.count--; h.count == 0 {
			delete(e.nodes, id)
			e.session.Tape.Release(h.edge)
		}
	}
}

// Leaves makes handles of the leaves that the history of the tensors hs ends in, and gives their
// number, which may be more than out takes.
func (e *Engine) Leaves(hs []uint64, out []Out) (n int, err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	var roots []uint32
	for _, h := range hs {
		v, err := e.session.Resolve(h)
		if err != nil {
			return 0, err
		}
		roots = append(roots, v.Tape)
	}
	found := e.session.Tape.Leaves(roots)
	found = slices.DeleteFunc(found, func(h uint64) bool {
		_, err := e.session.Handle(h)
		return err != nil
	})
	if len(found) <= len(out) {
		for i, h := range found {
			e.describe(e.session.Dup(h), &out[i])
		}
	}
	return len(found), nil
}

// LeadsOutside tells of each of the tensors hs whether its history ends in a leaf that is not closed.
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
	copy(outside, e.session.Tape.LeadsOutside(edges))
	return nil
}

// CloseLeaves closes the leaves hs, points of a transform that has called its function.
func (e *Engine) CloseLeaves(hs []uint64) (err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	for _, h := range hs {
		v, err := e.session.Resolve(h)
		if err != nil {
			return err
		}
		if v.Tape != 0 {
			e.session.Tape.Close(v.Tape)
		}
	}
	return nil
}
