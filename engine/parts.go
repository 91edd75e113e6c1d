package engine

import (
	"errors"
	"math"
	"slices"

	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/runtime"
	"github.com/torchlette/torchlette/ir"
)

// inParts runs the window of the values and the first effects entries of the log in parts, in record order. A part that
// does not fit is halved, down to one operator, which then fails.
func (e *Engine) inParts(values []uint32, effects int) error {
	w, _ := e.planner.collect(values, effects)
	nodes := slices.DeleteFunc(slices.Clone(w.Nodes), func(id uint32) bool { return e.graph.Node(id).Op == ir.OpProj })
	w.Clear()
	left := effects
	if err := e.part(nodes, &left); err != nil {
		return err
	}
	return e.runWindow(values, e.ready(left, math.MaxUint64))
}

// part runs the nodes that are still pending, and the effects that are then ready. *effects counts the effects left.
func (e *Engine) part(nodes []uint32, effects *int) error {
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(id uint32) bool {
		o := e.graph.Node(id).Op
		return o == ir.OpLeaf || o == ir.OpFree
	})
	if len(nodes) == 0 {
		return nil
	}
	k := e.ready(*effects, e.graph.Node(nodes[len(nodes)-1]).Seq)
	err := e.runWindow(nodes, k)
	if err == nil {
		*effects -= k
		return nil
	}
	var adm *runtime.ErrAdmission
	if !errors.As(err, &adm) {
		return err
	}
	if cause := asError(adm.Err); len(nodes) == 1 || cause.Code == ir.ErrDeviceLost {
		return e.blame(nodes[0], cause)
	}
	half := len(nodes) / 2
	if err := e.part(nodes[:half], effects); err != nil {
		return err
	}
	return e.part(nodes[half:], effects)
}

// ready counts the entries at the front of the log, at most limit, whose values are computed or were recorded up to
// seq. The safety net may run in the middle of an update, so it writes nothing that follows an unreported failure.
func (e *Engine) ready(limit int, seq uint64) int {
	barrier := uint64(math.MaxUint64)
	if e.net.running {
		barrier = e.failures.barrier()
	}
	return e.session.ReadyEffects(limit, seq, barrier)
}

// blame makes a node fail. A lost device is no operator's fault: its error is returned instead.
func (e *Engine) blame(id uint32, cause *ir.Error) error {
	if cause.Code == ir.ErrDeviceLost {
		return cause
	}
	n := e.graph.Node(id)
	err := *cause
	if err.SourceLoc == 0 {
		err.SourceLoc = n.SourceLoc
	}
	f := &ir.Failure{Err: &err, Seq: n.Seq}
	e.failures.faults = append(e.failures.faults, f)
	e.spread(causes{id: f})
	return nil
}

// readsFailure reports that the window reads a failed leaf.
func (e *Engine) readsFailure(w *lazy.Window) bool {
	return slices.ContainsFunc(w.Ext, func(id uint32) bool { return e.graph.Failure(id) != nil })
}
