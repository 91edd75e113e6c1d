package engine

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/engine/dispatch"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// Types of engine/dispatch that callers of the engine use.
type (
	Call         = dispatch.Call
	Scalar       = dispatch.Scalar
	DeferredCall = dispatch.DeferredCall
)

// MaxDeferredTensors bounds the tensor operands of a deferred call.
const MaxDeferredTensors = dispatch.MaxDeferredTensors

// Modes of Call.
const (
	ModeFunctional uint8 = iota
	ModeInPlace
	ModeOut
)

// recorder decodes operator calls and names their origin on the tape.
type recorder struct {
	sourceLocs  sourceLocs
	args        op.Args
	mode        uint8             // of the call; ModeInPlace also where the operator has no other form
	leaf        bool              // the call is a factory's, with requires_grad=True
	calls       uint64            // operator calls and labelled blocks so far
	labels      []autograd.Source // the open labelled blocks, innermost last
	factories   []int             // by operator: its requires_grad parameter, -1 for none
	decodings   [][]decoding
	passThrough []uint32 // by operator: mask of the numbers that its rule passes on unread
}

// readTables fills the tables that decoding reads.
func (r *recorder) readTables() {
	r.factories, r.decodings, r.passThrough = factoryParams(), decodings(), passThroughNumbers()
}

// source returns the autograd.Source of operator call c.
func (r *recorder) source(c *Call) autograd.Source {
	if k := len(r.labels); k > 0 {
		return r.labels[k-1]
	}
	r.calls++
	from := autograd.Source{Op: c.Op, Call: r.calls, InPlace: r.mode == ModeInPlace,
		Number: slices.Contains(c.In, dispatch.ScalarOperand)}
	if len(c.Ints) > 0 {
		from.First = int8(min(c.Ints[0], math.MaxInt8))
	}
	return from
}

// begin groups all steps recorded until end into one function of that name.
func (r *recorder) begin(name string) {
	r.calls++
	r.labels = append(r.labels, autograd.Source{Call: r.calls, Label: name})
}

// end closes the innermost begin.
func (r *recorder) end() {
	if k := len(r.labels); k > 0 {
		r.labels = r.labels[:k-1]
	}
}

// Op records an operator.
func (e *Engine) Op(c *Call, outs []Out) (n int, err *ir.Error) {
	defer e.leaveOp(c.SourceLoc, &err)
	e.enter()
	if len(c.Deferred) > 0 {
		e.record(c.Deferred)
	}
	n, err = e.op(c, outs)
	e.recorded()
	return n, err
}

// op is Op inside the lock.
func (e *Engine) op(c *Call, outs []Out) (int, *ir.Error) {
	for _, h := range c.Drop {
		e.session.Release(h)
	}
	if err := e.failures.poisoned(); err != nil {
		return 0, err
	}
	d := op.DefOf(c.Op)
	if d == nil {
		return 0, ir.Errorf(ir.ErrHandle, "operator number %d: want 1 to %d", c.Op, len(op.Defs()))
	}
	e.at(c.SourceLoc)
	if err := e.recorder.decode(&e.dispatch, e.session, c, d); err != nil {
		return 0, err
	}
	e.session.TapeUserCalls()
	e.tape.From = e.recorder.source(c)
	var vals []op.Val
	if e.captures.tracing {
		var err *ir.Error
		if vals, err = e.suppliedCall(c, d); err != nil {
			return 0, err
		}
	} else {
		vals = e.eval(c, d)
	}
	mode := e.recorder.mode
	n, err := e.finish(c, d, vals, outs)
	if e.exporting != nil && err == nil {
		e.exporting.noteOp(e, c, d, mode, outs[:n])
	}
	return n, err
}

// finish ends a call whose rule gave vals.
func (e *Engine) finish(c *Call, d *op.Def, vals []op.Val, outs []Out) (int, *ir.Error) {
	switch {
	case e.recorder.mode == ModeInPlace:
		return e.storeInPlace(c, d, vals, outs)
	case c.Mode == ModeOut:
		return e.storeOut(c, d, vals, outs)
	}
	return e.wrap(c, d, vals, outs)
}

// wrap ends a functional call: it makes handles of the results.
func (e *Engine) wrap(c *Call, d *op.Def, vals []op.Val, outs []Out) (int, *ir.Error) {
	if len(vals) > len(outs) {
		return len(vals), ir.Errorf(ir.ErrValue, "%s: results: got room for %d, want %d", d.Parsed.Name, len(outs), len(vals))
	}
	factory, deferID := e.recorder.factories[d.ID] >= 0, uint32(0)
	if !factory {
		deferID = e.dispatch.Defer(c, d, e.recorder.args.In, e.recorder.args.Scalars)
	}
	for i := range vals {
		if vals[i].Base != 0 && e.returnsInput(d, &vals[i]) {
			e.describeInput(c.In[0], &outs[i])
			continue
		}
		hd := e.session.Wrap(&vals[i], c.In)
		if factory && e.recorder.leaf {
			if err := e.session.SetRequiresGrad(hd, true); err != nil {
				e.session.Release(hd)
				return 0, err
			}
		}
		e.describe(hd, &outs[i])
		outs[i].DeferID = deferID
	}
	return len(vals), nil
}

// storeInPlace ends an in-place call: it stores each result through its operand.
func (e *Engine) storeInPlace(c *Call, d *op.Def, vals []op.Val, outs []Out) (int, *ir.Error) {
	targets := d.Stores
	if targets == nil {
		targets = self
	}
	r := 0
	for _, t := range targets {
		if t >= len(c.In) || c.In[t] == 0 {
			continue
		}
		if r >= len(vals) {
			return 0, ir.Errorf(ir.ErrInternal, "BUG: %s stores more results than it has", d.Parsed.Name)
		}
		if err := e.session.Assign(d, c.In[t], vals[r], e.recorder.args.In, t); err != nil {
			return 0, err
		}
		r++
	}
	if len(outs) == 0 {
		return 0, nil
	}
	e.describeInput(c.In[targets[0]], &outs[0])
	return 1, nil
}

// self is the operand that in-place operators store through, if they do not say otherwise.
var self = []int{0}

// storeOut ends a call with out=: it copies the results into these tensors.
func (e *Engine) storeOut(c *Call, d *op.Def, vals []op.Val, outs []Out) (int, *ir.Error) {
	if len(c.Outs) != len(vals) {
		return 0, ir.Errorf(ir.ErrType, "%s: out: got %d tensors, want %d", d.Parsed.Name, len(c.Outs), len(vals))
	}
	in := e.recorder.args.In
	if e.session.Duals(in) || e.session.GradMode &&
		slices.ContainsFunc(in, func(v op.Val) bool { return v.Tape != 0 }) {
		return 0, ir.Errorf(ir.ErrRuntime, "%s(): functions with out=... arguments don't support automatic "+
			"differentiation, but one of the arguments requires grad.", d.Parsed.Name)
	}
	for i, o := range c.Outs {
		if err := e.session.AssignOut(d, o, vals[i], in); err != nil {
			return 0, err
		}
		e.describeInput(o, &outs[i])
	}
	return len(vals), nil
}

// describeInput describes a result that is a tensor of the caller.
func (e *Engine) describeInput(hd uint64, o *Out) {
	e.describe(hd, o)
	o.Flags |= OutIsInput
}

// at sets the line that later nodes are recorded at.
func (e *Engine) at(sourceLoc uint32) {
	e.session.SourceLoc = sourceLoc
	if e.runtime.Profiling {
		e.session.SourceLoc = e.profile.forward(sourceLoc)
	}
}

// eval calls the operator's rule, or replays its cached trace for like operands.
func (e *Engine) eval(c *Call, d *op.Def) []op.Val {
	a, passThrough := &e.recorder.args, e.recorder.passThrough[d.ID]
	key := e.dispatch.Key(uint64(d.ID) | uint64(len(a.In))<<16 | uint64(len(c.Ints))<<32)
	for i := range a.In {
		key = op.AppendOperand(key, &a.In[i], false)
	}
	for _, v := range c.Ints {
		key = append(key, uint64(v))
	}
	for i := range a.Scalars {
		key = op.AppendOperand(key, &a.Scalars[i], passThrough>>i&1 != 0)
	}
	return e.dispatch.CallWith(key, a.In, a.Scalars, passThrough, (*operatorRule)(e))
}

// operatorRule is the rule of the call that the recorder has decoded.
type operatorRule Engine

// Apply implements op.Rule.
func (r *operatorRule) Apply(_ op.Builder, in []op.Val) []op.Val {
	a := &r.recorder.args
	a.Lower = [2]ir.DType{}
	if r.recorder.mode == ModeFunctional { // others write a result of a dtype that is given
		a.Lower = r.session.Autocast
		a.In = autocast(&r.dispatch, r.session.Autocast, a.Op, in)
	}
	vals := a.Op.Eval(a)
	a.In = in
	return vals
}

// returnsInput reports that the result is the first operand itself, so the caller returns the operand. The result of a
// view operator is always another tensor, with a step on the tape.
func (e *Engine) returnsInput(d *op.Def, v *op.Val) bool {
	v.OwnWrites = d.OwnWrites
	if len(e.recorder.args.In) == 0 {
		return false
	}
	x := &e.recorder.args.In[0]
	if v.Detached || v.Severed != x.Severed || x.Base != v.Base ||
		x.Layout != v.Layout || x.Offset != v.Offset || x.Tape != v.Tape {
		return false
	}
	if !d.NewView && len(d.Parsed.Results) == 1 && !d.Parsed.Results[0].List {
		return true
	}
	if v.Tape != 0 {
		*v = e.session.View(*v, v.L(), v.Offset, op.ViewOp{Kind: op.ViewReshape})
	}
	return false
}
