package engine

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/engine/dispatch"
	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
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
	casts       bool              // autocast may cast the operands of the call
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
func (r *recorder) source(c *Call, inPlace bool) autograd.Source {
	if k := len(r.labels); k > 0 {
		return r.labels[k-1]
	}
	r.calls++
	from := autograd.Source{Op: c.Op, Call: r.calls, InPlace: inPlace,
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
	in := e.recorder.args.In
	if numbersOnly(c.In) {
		switch {
		case d.ScalarOverload && c.Mode != ModeInPlace:
			in[0] = prim.Fill(e.session, in[0], numberDType(e.session, in[0]), e.session.DefaultDevice(), nil)
		case d.Where&op.Hidden == 0:
			return 0, ir.Errorf(ir.ErrType, "%s() received an invalid combination of arguments: got numbers only, want a "+
				"Tensor among the operands", d.Parsed.Name)
		}
	}
	inPlace := c.Mode == ModeInPlace || d.InPlaceOnly
	e.tape.From = e.recorder.source(c, inPlace)
	if inPlace && len(in) > 0 {
		if in[0].IsScalar() {
			return 0, ir.Errorf(ir.ErrType, "%s(): argument 'input' (position 1) must be Tensor, not a number", d.Parsed.Name)
		}
		in[0].Overwritten = true
	}
	vals := e.eval(c, d)
	switch {
	case inPlace:
		return e.storeInPlace(c, d, vals, outs)
	case c.Mode == ModeOut:
		return e.storeOut(c, d, vals, outs)
	}
	if len(vals) > len(outs) {
		return len(vals), ir.Errorf(ir.ErrValue, "%s: results: got room for %d, want %d", d.Parsed.Name, len(outs), len(vals))
	}
	deferID := uint32(0)
	if e.recorder.factories[d.ID] < 0 {
		deferID = e.dispatch.Defer(c, d, in, e.recorder.args.Scalars)
	}
	for i := range vals {
		if vals[i].Base != 0 && e.returnsInput(d, &vals[i]) {
			e.describe(c.In[0], &outs[i])
			outs[i].Flags |= OutIsInput
			continue
		}
		hd := e.session.Wrap(&vals[i], c.In)
		if e.recorder.factories[d.ID] >= 0 {
			if err := e.applyRequiresGrad(c, d, hd); err != nil {
				e.session.Release(hd)
				return 0, err
			}
		}
		e.describe(hd, &outs[i])
		outs[i].DeferID = deferID
	}
	return len(vals), nil
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
	e.recorder.casts = c.Mode == ModeFunctional && !d.InPlaceOnly
	return e.dispatch.CallWith(key, a.In, a.Scalars, passThrough, (*operatorRule)(e))
}

// operatorRule is the rule of the call that the recorder has decoded.
type operatorRule Engine

// Apply implements op.Rule.
func (r *operatorRule) Apply(_ op.Builder, in []op.Val) []op.Val {
	a := &r.recorder.args
	a.Lower = [2]ir.DType{}
	if r.recorder.casts {
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
	if v.Detached || x.Base != v.Base || x.Layout != v.Layout || x.Offset != v.Offset || x.Tape != v.Tape {
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

// numbersOnly reports that the operands are numbers, at least one, and no tensors.
func numbersOnly(in []uint64) bool {
	return slices.Contains(in, dispatch.ScalarOperand) && !slices.ContainsFunc(in, func(h uint64) bool {
		return h != 0 &&
			h != dispatch.ScalarOperand
	})
}

// numberDType returns the dtype of a tensor made of a number.
func numberDType(b op.Builder, v op.Val) ir.DType {
	switch v.Kind {
	case op.ScalarBool:
		return ir.Bool
	case op.ScalarInt:
		return ir.I64
	}
	return b.DefaultDType()
}

// paramKind classifies a parameter for decode; other parameters are integers.
type paramKind uint8

const (
	tensorParam paramKind = iota
	listParam
	scalarParam
)

// decoding lists the operand and scalar parameters of an operator in order; at is the index of the parameter.
type decoding struct {
	kind paramKind
	at   int
}

func decodings() [][]decoding {
	out := make([][]decoding, len(op.Defs())+1)
	for _, d := range op.Defs() {
		for i := range d.Parsed.Params {
			switch p := &d.Parsed.Params[i]; p.Type {
			case "Tensor", "Operand":
				k := tensorParam
				if p.List {
					k = listParam
				}
				out[d.ID] = append(out[d.ID], decoding{k, i})
			case "float", "Scalar":
				out[d.ID] = append(out[d.ID], decoding{scalarParam, i})
			}
		}
	}
	return out
}

// passThroughNumbers returns, by operator, the mask of the Scalar parameters in Def.PassThrough.
func passThroughNumbers() []uint32 {
	out := make([]uint32, len(op.Defs())+1)
	for _, d := range op.Defs() {
		k := 0
		for i := range d.Parsed.Params {
			if p := &d.Parsed.Params[i]; p.Type == "float" || p.Type == "Scalar" {
				if slices.Contains(d.PassThrough, p.Name) {
					out[d.ID] |= 1 << k
				}
				k++
			}
		}
	}
	return out
}

// decode resolves the operands of a call. Numbers as operands and Scalar parameters share the list of scalars, in the
// signature's order.
func (r *recorder) decode(b op.Builder, s *lazy.Session, c *Call, d *op.Def) *ir.Error {
	a := &r.args
	a.B, a.Op = b, d
	a.In, a.Scalars, a.Ints = a.In[:0], a.Scalars[:0], c.Ints
	a.Reset()
	si, ti := 0, 0
	for _, p := range r.decodings[d.ID] {
		switch p.kind {
		case scalarParam:
			if si >= len(c.Scalars) {
				return tooFew(d, "scalars", len(c.Scalars))
			}
			a.Scalars = append(a.Scalars, op.Number(c.Scalars[si].Kind, c.Scalars[si].Bits))
			si++
			continue
		case listParam:
			k := intIndex(c, d, p.at)
			if k < 0 {
				return tooFew(d, "integers", len(c.Ints))
			}
			for n := c.Ints[k]; n > 1; n-- {
				if err := r.operand(s, c, d, &ti, &si); err != nil {
					return err
				}
			}
			if c.Ints[k] < 1 {
				continue
			}
		}
		if err := r.operand(s, c, d, &ti, &si); err != nil {
			return err
		}
	}
	return nil
}

func tooFew(d *op.Def, what string, got int) *ir.Error {
	return ir.Errorf(ir.ErrType, "%s: %s: got %d, want more", d.Parsed.Name, what, got)
}

// operand decodes the next tensor operand.
func (r *recorder) operand(s *lazy.Session, c *Call, d *op.Def, ti, si *int) *ir.Error {
	a := &r.args
	if *ti >= len(c.In) {
		return tooFew(d, "operands", len(c.In))
	}
	h := c.In[*ti]
	*ti++
	switch h {
	case 0:
		a.In = append(a.In, op.Val{})
	case dispatch.ScalarOperand:
		if *si >= len(c.Scalars) {
			return tooFew(d, "scalars", len(c.Scalars))
		}
		a.In = append(a.In, op.Number(c.Scalars[*si].Kind, c.Scalars[*si].Bits))
		*si++
	default:
		a.In = append(a.In, op.Val{})
		return s.ResolveTo(h, &a.In[len(a.In)-1])
	}
	return nil
}

// intIndex returns the index of the first integer of parameter i, -1 if the call has too few integers.
func intIndex(c *Call, d *op.Def, i int) int {
	k := 0
	for j := 0; j < i; j++ {
		p := &d.Parsed.Params[j]
		switch {
		case p.List:
			if k >= len(c.Ints) {
				return -1
			}
			if n := c.Ints[k]; n > 0 && p.Type != "Tensor" {
				k += int(n)
			}
			k++
		case p.Type == "int" || p.Type == "bool":
			k++
			if p.Opt {
				k++
			}
		case p.Type == "str" || p.Type == "dtype" || p.Type == "device":
			k++
		}
	}
	if k >= len(c.Ints) {
		return -1
	}
	return k
}

// applyRequiresGrad applies the requires_grad argument of a factory.
func (e *Engine) applyRequiresGrad(c *Call, d *op.Def, hd uint64) *ir.Error {
	if k := intIndex(c, d, e.recorder.factories[d.ID]); k >= 0 && c.Ints[k] != 0 {
		return e.session.SetRequiresGrad(hd, true)
	}
	return nil
}

// factoryParams returns, by operator, the index of its requires_grad parameter, -1 for none.
func factoryParams() []int {
	out := make([]int, len(op.Defs())+1)
	for i := range out {
		out[i] = -1
	}
	for _, d := range op.Defs() {
		out[d.ID] = d.Parsed.RequiresGrad()
	}
	return out
}
