package dispatch

import (
	"slices"

	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// Dispatcher calls rules on a session. It is the op.Builder that rules record through. The zero value needs Start. The
// engine's lock guards it.
type Dispatcher struct {
	session  *lazy.Session
	traces   traces
	deferred deferrals
	inBuf    [2]op.Val
	edges    []ir.Edge // scratch of replayed primitives
	scalars  []uint64
}

// Start resets the dispatcher for a session: it drops all cached traces and voids the numbers of deferred calls.
func (d *Dispatcher) Start(s *lazy.Session) {
	d.session, d.traces = s, traces{}
	d.deferred.forget()
}

// Abandon ends a capture that a panic interrupted.
func (d *Dispatcher) Abandon() { d.traces.capture = nil }

// Replayed counts the calls recorded by replay.
func (d *Dispatcher) Replayed() int64 { return d.traces.replayed }

// DefaultDType implements op.Builder.
func (d *Dispatcher) DefaultDType() ir.DType { return d.session.DefaultDType() }

// DefaultDevice implements op.Builder.
func (d *Dispatcher) DefaultDevice() ir.DeviceID { return d.session.DefaultDevice() }

// NeedsGrad implements op.Builder.
func (d *Dispatcher) NeedsGrad(v op.Val) bool { return d.session.NeedsGrad(v) }

// Hide implements autograd.Rules.
func (d *Dispatcher) Hide(v op.Val, levels []ir.HiddenDim) op.Val { return d.session.Hide(v, levels) }

// Reveal implements autograd.Rules.
func (d *Dispatcher) Reveal(v op.Val, levels []ir.HiddenDim) op.Val {
	return d.session.Reveal(v, levels)
}

// Settled implements op.Forward.
func (d *Dispatcher) Settled(v op.Val, levels []ir.HiddenDim) op.Val {
	return d.session.Settled(v, levels)
}

// Dual implements op.Forward. A trace records no tangents, so it has none of these steps.
func (d *Dispatcher) Dual(primal, tangent op.Val, level int64) op.Val {
	d.traces.uncacheable = true
	return d.session.Dual(primal, tangent, level)
}

// Tangent implements op.Forward.
func (d *Dispatcher) Tangent(v op.Val, level int64) op.Val {
	d.traces.uncacheable = true
	return d.session.Tangent(v, level)
}

// Primal implements op.Forward.
func (d *Dispatcher) Primal(v op.Val, level int64) op.Val {
	d.traces.uncacheable = true
	return d.session.Primal(v, level)
}

// Untaped implements op.Forward.
func (d *Dispatcher) Untaped(v op.Val) op.Val {
	d.traces.uncacheable = true
	return d.session.Untaped(v)
}

// Emit implements op.Builder.
func (d *Dispatcher) Emit(p op.PrimID, attr []int64, in ...op.Val) op.Val {
	return d.emit(p, attr, in)[0]
}

// Emit1 implements op.Builder.
func (d *Dispatcher) Emit1(p op.PrimID, x op.Val) op.Val {
	d.inBuf[0] = x
	return d.emit(p, nil, d.inBuf[:1])[0]
}

// Emit2 implements op.Builder.
func (d *Dispatcher) Emit2(p op.PrimID, x, y op.Val) op.Val {
	d.inBuf[0], d.inBuf[1] = x, y
	return d.emit(p, nil, d.inBuf[:2])[0]
}

// EmitN implements op.Builder.
func (d *Dispatcher) EmitN(p op.PrimID, attr []int64, in ...op.Val) []op.Val {
	return append([]op.Val(nil), d.emit(p, attr, in)...)
}

// emit records a primitive. The results are valid until the next one.
func (d *Dispatcher) emit(p op.PrimID, attr []int64, in []op.Val) []op.Val {
	if op.OnComplex(p, attr, in) {
		return op.EmitComplex(d, p, attr, slices.Clone(in))
	}
	e := d.session.Record(p, attr, in)
	if d.traces.capture != nil {
		d.traces.addEmission(e, in)
	}
	return e.Outs
}

// View implements op.Builder.
func (d *Dispatcher) View(v op.Val, l *ir.Layout, offset int64, step op.ViewOp) op.Val {
	out := d.session.View(v, l, offset, step)
	if d.traces.capture != nil {
		d.traces.addView(v, l, offset, step, &out)
	}
	return out
}

// Detach implements op.Builder.
func (d *Dispatcher) Detach(v op.Val) op.Val {
	out := d.session.Detach(v)
	if d.traces.capture != nil && v.IsTensor() {
		d.traces.addDetach(v, &out)
	}
	return out
}

// RNG implements op.Builder.
func (d *Dispatcher) RNG() (seed, drawOffset op.Val) {
	seed, drawOffset = d.session.RNG()
	if d.traces.capture != nil {
		d.traces.addDraw(&seed, &drawOffset)
	}
	return seed, drawOffset
}

// DrawMany implements op.BodyBuilder. Loops are recorded through the session; a gradient repeats earlier draws.
func (d *Dispatcher) DrawMany(n int64) (seed, drawOffset op.Val) {
	d.traces.uncacheable = true
	return d.session.DrawMany(n)
}

var _ op.BodyBuilder = (*Dispatcher)(nil)

// LoopReason implements op.BodyBuilder.
func (d *Dispatcher) LoopReason(l *op.Loop, dev ir.DeviceID) string {
	return d.session.LoopReason(l, dev)
}

// GradientBody implements op.BodyBuilder.
func (d *Dispatcher) GradientBody(l *op.Loop, need, given []bool) (id int64, read []bool) {
	return d.session.GradientBody(l, need, given)
}

// TangentBody implements op.BodyBuilder.
func (d *Dispatcher) TangentBody(l *op.Loop, tangents []bool, apart bool) (id int64, carries, ys []bool) {
	return d.session.TangentBody(l, tangents, apart)
}

// LinearBodies implements op.BodyBuilder.
func (d *Dispatcher) LinearBodies(l *op.Loop, id int64, tangents []bool) *op.LinearBodies {
	return d.session.LinearBodies(l, id, tangents)
}

// OnTape implements op.BodyBuilder.
func (d *Dispatcher) OnTape(v op.Val) bool { return d.session.OnTape(v) }

// BatchBody implements op.BodyBuilder.
func (d *Dispatcher) BatchBody(l *op.Loop, batched []bool, sizes []int64) int64 {
	return d.session.BatchBody(l, batched, sizes)
}

// MaskedBody implements op.BodyBuilder.
func (d *Dispatcher) MaskedBody(l *op.Loop) int64 { return d.session.MaskedBody(l) }

// SegmentBody implements op.BodyBuilder.
func (d *Dispatcher) SegmentBody(l *op.Loop, n int64) int64 { return d.session.SegmentBody(l, n) }

// Key begins the key of a call with the rule's number and the modes that rules may read. The caller appends every other
// input of the rule except its operands' elements.
func (d *Dispatcher) Key(what uint64) []uint64 {
	return append(d.traces.key[:0], what, d.session.ModeKey())
}

// Call returns the results of rule for the operands, by replay if there is a cached trace. They are valid until the
// next call.
func (d *Dispatcher) Call(key []uint64, operands []op.Val, rule op.Rule) []op.Val {
	return d.CallWith(key, operands, nil, 0, rule)
}

// CallWith is Call of a rule that also takes numbers. passThrough marks the numbers that the rule passes on unread:
// their values stay out of the key.
func (d *Dispatcher) CallWith(key []uint64, operands, numbers []op.Val, passThrough uint32, rule op.Rule) []op.Val {
	t := &d.traces
	if d.session.Batches(operands) || d.session.Duals(operands) {
		t.last, t.capture = nil, nil
		return rule.Apply(d, operands)
	}
	if found := t.find(key); found != nil {
		t.regs = append(append(t.regs[:0], operands...), numbers...)
		return d.replay(found)
	}
	t.begin(operands, numbers, passThrough)
	outs := rule.Apply(d, operands)
	t.end(outs)
	return outs
}
