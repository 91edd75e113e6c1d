package engine

import (
	"slices"
	"strconv"

	"github.com/torchlette/torchlette/engine/dispatch"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/saved"
	"github.com/torchlette/torchlette/ir"
)

// exporting records the operator calls of a function while it is traced, as steps of a saved program. It sees handles
// only: the calls that reach the engine, and which tensors they take and give.
type exporting struct {
	ids      map[uint64]valueID       // by handle
	views    map[viewKey]valueID      // by what a handle shows: other handles of it are the same value
	before   map[valueID]priorVersion // by value from outside
	inputs   int
	known    int // constants that the caller named, behind the inputs
	found    []foundConstant
	steps    []exportedStep // of the function, or of the body that is being traced
	results  int            // so far, also those of bodies
	open     []*openBody    // bodies that are being traced, the outermost first
	bodies   map[uint64]*exportedBody
	mark     uint64 // tensors born later were made by the function
	gradMode bool   // when the trace began
	device   ir.DeviceID
	walks    map[uint64]int // by walk of autograd: its step
	failed   *ir.Error      // the first call that no step can say
}

// valueID is a value of the function: an input or named constant by its number, a result from firstResult on, a found
// constant below 0. The numbers of a program are known when all constants are.
type valueID int

const firstResult valueID = 1 << 32

// priorVersion is a tensor from outside, and its version before the function.
type priorVersion struct {
	handle  uint64
	version uint32
}

// viewKey identifies the view of a handle.
type viewKey struct {
	base, gen uint32
	layout    ir.LayoutID
	offset    int64
}

// foundConstant is a tensor that the function took from outside, or made of host data.
type foundConstant struct {
	handle uint64 // of an older tensor
	value  op.Val // of host data; it holds the value
}

// exportedStep is a recorded call.
type exportedStep struct {
	sig      *op.Sig
	inPlace  bool
	noGrad   bool
	autocast [2]ir.DType
	at       uint32
	call     saved.Flat
	outs     []exportedValue
	first    valueID       // of the results
	body     *exportedBody // of a loop
}

type exportedValue struct {
	dtype ir.DType
	shape []int64
}

// BeginExport starts the recording of a function with arguments like args; outs are the placeholders on which the
// caller runs it. known are tensors that the caller has names for. Nothing is computed until EndExport.
func (e *Engine) BeginExport(args, known []uint64, outs []Out) (err *ir.Error) {
	if err := e.BeginTrace(args, outs); err != nil {
		return err
	}
	defer e.leave(&err)
	e.enter()
	e.session.RestoreHistories()
	x := &exporting{ids: map[uint64]valueID{}, views: map[viewKey]valueID{}, before: map[valueID]priorVersion{},
		walks: map[uint64]int{}, bodies: map[uint64]*exportedBody{},
		inputs: len(args), known: len(known), mark: e.session.Births(), gradMode: e.session.GradMode,
		device: e.session.DefaultDevice()}
	for i := range args {
		x.add(e, outs[i].Handle, valueID(i))
	}
	if len(args) > 0 {
		x.device = ir.DeviceID(outs[0].Device)
	} else if len(known) > 0 {
		v, err := e.session.Resolve(known[0])
		if err != nil {
			return err
		}
		x.device = v.Device()
	}
	for i, h := range known {
		x.add(e, h, valueID(len(args)+i))
	}
	e.exporting = x
	return nil
}

// EndExport ends the recording and undoes the function's effects on older tensors. With keep it returns the function
// with the given results as text, and the tensors that it took from outside, as new tensors.
func (e *Engine) EndExport(keep bool, results []uint64) (text []byte, constants []Out, err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	x := e.exporting
	if x == nil {
		return nil, nil, ir.Errorf(ir.ErrRuntime, "no function is being exported")
	}
	e.exporting, e.captures.tracing = nil, false
	var ids []valueID
	if x.failed == nil && e.captures.mixed {
		x.failed = ir.Errorf(ir.ErrRuntime, "another thread used the library while a function was exported")
	}
	for i := 0; keep && x.failed == nil && i < len(results); i++ {
		var id valueID
		if id, x.failed = x.find(e, results[i]); x.failed != nil {
			x.failed.Msg = "export: result " + strconv.Itoa(i) + ": " + x.failed.Msg
		}
		ids = append(ids, id)
	}
	state := x.state(e)
	e.endFence(FenceTrace)
	e.session.EndTrace(!e.captures.mixed)
	for i := range x.found {
		c := &x.found[i]
		if c.handle == 0 {
			v := c.value.Value
			c.handle = e.session.Wrap(&c.value, nil)
			e.graph.Release(v)
		}
		if !keep || x.failed != nil {
			e.session.Release(c.handle)
			continue
		}
		constants = append(constants, Out{})
		e.describe(c.handle, &constants[len(constants)-1])
	}
	if !keep || x.failed != nil {
		return nil, nil, x.failed
	}
	text, err = x.text(e, ids, state)
	return text, constants, err
}

// state lists the inputs and constants that the function wrote to, before the writes are undone.
func (x *exporting) state(e *Engine) []bool {
	changed := make([]bool, x.inputs+x.known+len(x.found))
	for id, before := range x.before {
		h, err := e.session.Handle(before.handle)
		if err != nil || e.session.Newest(h.Base) == before.version {
			continue
		}
		if id < 0 {
			changed[x.inputs+x.known-1-int(id)] = true
		} else {
			changed[id] = true
		}
	}
	return changed
}

// add notes that a handle is a value.
func (x *exporting) add(e *Engine, hd uint64, id valueID) {
	x.ids[hd] = id
	k, ok := e.viewOf(hd)
	if ok {
		x.views[k] = id
	}
	if n := len(x.open); n > 0 && id >= firstResult {
		x.open[n-1].own(hd, k)
	}
	if ok && id < firstResult {
		x.before[id] = priorVersion{hd, e.session.Newest(k.base)}
	}
}

// viewOf returns the view of a handle.
func (e *Engine) viewOf(hd uint64) (viewKey, bool) {
	h, err := e.session.Handle(hd)
	if err != nil {
		return viewKey{}, false
	}
	return viewKey{h.Base, e.session.Generation(h.Base), h.Layout, h.Offset}, true
}

// find returns the value that a handle is. Tensors from outside and host data become constants.
func (x *exporting) find(e *Engine, hd uint64) (valueID, *ir.Error) {
	if id, ok := x.ids[hd]; ok {
		return id, nil
	}
	h, err := e.session.Handle(hd)
	if err != nil {
		return 0, err
	}
	k, _ := e.viewOf(hd)
	if id, ok := x.views[k]; ok {
		x.ids[hd] = id
		return id, nil
	}
	id := valueID(-1 - len(x.found))
	v, err := e.session.Resolve(hd)
	if err != nil {
		return 0, err
	}
	n := e.graph.Node(v.Value)
	switch {
	case !e.session.BornSince(h.Base, x.mark):
		x.found = append(x.found, foundConstant{handle: e.session.Dup(hd)})
	case n.Op == ir.OpLeaf && n.Store != 0 && v.IsWhole():
		e.graph.Retain(v.Value)
		v.Base, v.Tape = 0, 0
		x.found = append(x.found, foundConstant{value: v})
	default:
		return 0, ir.Errorf(ir.ErrNotImplemented, "a tensor was made by something other than an operator: a captured "+
			"function, or a function of Python inside of autograd; or it is a value of a loop's body, used outside of it")
	}
	x.add(e, hd, id)
	return id, nil
}

// note records a call of an operator that succeeded. outs are its results, none of an in-place call.
func (x *exporting) note(e *Engine, c *Call, sig *op.Sig, inPlace bool, outs []uint64) {
	if x.failed != nil {
		return
	}
	s := exportedStep{sig: sig, inPlace: inPlace, noGrad: x.gradMode && !e.session.GradMode,
		autocast: e.session.Autocast, at: c.SourceLoc, first: firstResult + valueID(x.results)}
	s.call.Device = x.device
	s.call.Ints = append(s.call.Ints, c.Ints...)
	for _, n := range c.Scalars {
		s.call.Scalars = append(s.call.Scalars, saved.Scalar{Kind: n.Kind, Bits: n.Bits})
	}
	for _, h := range c.In {
		o := saved.Operand{Kind: saved.OperandValue}
		switch h {
		case 0:
			o.Kind = saved.OperandNone
		case dispatch.ScalarOperand:
			o.Kind = saved.OperandNumber
		default:
			id, err := x.find(e, h)
			if err != nil {
				err.Msg = "export: step " + strconv.Itoa(len(x.steps)) + " (" + sig.Full + "): " + err.Msg
				x.failed = err
				return
			}
			o.ID = int(id)
		}
		s.call.In = append(s.call.In, o)
	}
	for _, h := range outs {
		v, err := e.session.Resolve(h)
		if err != nil {
			x.failed = err
			return
		}
		s.outs = append(s.outs, exportedValue{v.DType(), v.Shape()})
		x.add(e, h, firstResult+valueID(x.results))
		x.results++
	}
	x.steps = append(x.steps, s)
}

// noteOp is note of an operator call that has been recorded, with n results.
func (x *exporting) noteOp(e *Engine, c *Call, d *op.Def, mode uint8, outs []Out) {
	var hs []uint64
	for i := range outs {
		hs = append(hs, outs[i].Handle)
	}
	switch {
	case mode == ModeInPlace:
		x.note(e, c, d.Parsed, !d.InPlaceOnly, nil)
	case c.Mode == ModeOut:
		x.refuse("%s with out=: write the result in place with copy_", d.Parsed.Full)
	default:
		x.note(e, c, d.Parsed, false, hs)
	}
}

// noteCall records a call of the engine that is no operator.
func (x *exporting) noteCall(e *Engine, name string, in []uint64, ints []int64, outs []uint64) {
	x.note(e, &Call{In: in, Ints: ints}, saved.Calls[name], false, outs)
}

// refuse makes the export fail.
func (x *exporting) refuse(format string, args ...any) {
	if x != nil && x.failed == nil {
		x.failed = ir.Errorf(ir.ErrNotImplemented, "export: a program cannot hold "+format, args...)
	}
}

// noteBackward records the start of a walk of autograd.
func (x *exporting) noteBackward(e *Engine, id uint64, roots, grads, inputs []uint64, flags uint32) {
	in := slices.Concat(roots, grads, inputs)
	ints := []int64{int64(len(roots)), int64(len(grads)), int64(len(inputs)), int64(flags)}
	if len(x.open) > 0 {
		x.refuse("a walk of autograd in the body of a loop")
		return
	}
	x.walks[id] = len(x.steps)
	x.noteCall(e, "engine.backward", in, ints, nil)
}

// noteResults adds the results of a walk to its step: gradients of the inputs, one for each that has one.
func (x *exporting) noteResults(e *Engine, id uint64, outs []Out, has []bool) {
	i, ok := x.walks[id]
	if !ok || x.failed != nil {
		return
	}
	if i != len(x.steps)-1 || slices.Contains(has, false) {
		x.refuse("gradients of tensors of which some are not used, or a walk of autograd inside of another one")
		return
	}
	s := &x.steps[i]
	for k := range outs {
		v, err := e.session.Resolve(outs[k].Handle)
		if err != nil {
			x.failed = err
			return
		}
		s.outs = append(s.outs, exportedValue{v.DType(), v.Shape()})
		x.add(e, outs[k].Handle, firstResult+valueID(x.results))
		x.results++
	}
}
