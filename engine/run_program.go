package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/engine/dispatch"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/saved"
	"github.com/torchlette/torchlette/ir"
)

// ProgramRun is a run of a function of a saved program.
type ProgramRun struct {
	Program  *saved.Program
	Function *saved.Function
	// Constants are the tensors of the program's constants, Inputs those of the function's inputs. A function that
	// changes its state writes to its constants in place.
	Constants, Inputs []uint64
	// Numbers are the values of the function's supplied numbers, by place.
	Numbers []float64
	// Evaluation: operators that train and evaluate differently evaluate. Else they do as recorded.
	Evaluation bool

	precision ir.DType // to which steps cast that no autocast has recorded; InvalidDType for none

	device ir.DeviceID // of the constants and inputs: what is made is made there
	sizes  []int64
	values []uint64       // by value: its handle; 0 before its step and after its last use
	holds  map[uint64]int // handles that the run made: the values that they are
	at     int            // the current step
	bodies int            // of loops that the current step is in
	call   Call
	outs   []Out
}

// RunProgram calls the operators of a function in order, as a user would: windows, keys and plans are the usual ones.
// It returns the outputs as new tensors. Errors of a step name the step, its operands and its neighbours.
func (e *Engine) RunProgram(r *ProgramRun) (outs []Out, err *ir.Error) {
	if err := e.beginRun(r); err != nil {
		return nil, err
	}
	for r.at = 0; r.at < len(r.Function.Steps) && err == nil; {
		if err = e.runSteps(r); err == nil && r.at < len(r.Function.Steps) {
			err = e.walkStep(r)
		}
	}
	return e.endRun(r, r.located(err))
}

// runInside is RunProgram within the lock, of a function without a walk of autograd.
func (e *Engine) runInside(r *ProgramRun) (outs []Out, err *ir.Error) {
	if err := e.bindRun(r); err != nil {
		return nil, err
	}
	if err = e.stepsInside(r); err == nil && r.at < len(r.Function.Steps) {
		err = ir.Errorf(ir.ErrNotImplemented, "the program walks backward")
	}
	return e.endInside(r, r.located(err))
}

// stepsInside is stepsOf with the errors that operators panic with.
func (e *Engine) stepsInside(r *ProgramRun) (err *ir.Error) {
	defer func() {
		if x := recover(); x != nil {
			e.mend(x)
			err = caught(x)
		}
	}()
	return e.stepsOf(r)
}

// located names the step that failed.
func (r *ProgramRun) located(err *ir.Error) *ir.Error {
	if err == nil {
		return nil
	}
	cut := *err
	cut.Msg = err.Msg + r.cutWire()
	return &cut
}

// beginRun checks the inputs, constants and numbers of a run, and finds the value of each named size.
func (e *Engine) beginRun(r *ProgramRun) (err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	return e.bindRun(r)
}

// bindRun does the work of beginRun; the caller holds the lock.
func (e *Engine) bindRun(r *ProgramRun) (err *ir.Error) {
	f := r.Function
	if len(r.Inputs) != len(f.Inputs) {
		return ir.Errorf(ir.ErrType, "%s: got %d inputs, want %d", f.Name, len(r.Inputs), len(f.Inputs))
	}
	if len(r.Constants) != len(r.Program.Constants) {
		return ir.Errorf(ir.ErrType, "%s: got %d constants, want %d", f.Name, len(r.Constants), len(r.Program.Constants))
	}
	if len(r.Numbers) != len(f.Supplied) {
		return ir.Errorf(ir.ErrType, "%s: got %d numbers, want %d", f.Name, len(r.Numbers), len(f.Supplied))
	}
	r.device = e.session.DefaultDevice()
	b := saved.Bind(r.Program)
	for i, h := range r.Inputs {
		v, err := e.session.Resolve(h)
		if err != nil {
			return err
		}
		r.device = v.Device()
		if err := b.Input(&f.Inputs[i], v.DType(), v.Shape()); err != nil {
			return err
		}
	}
	for i, h := range r.Constants {
		v, err := e.session.Resolve(h)
		if err != nil {
			return err
		}
		if i == 0 && len(r.Inputs) == 0 {
			r.device = v.Device()
		}
		if c := &r.Program.Constants[i]; v.DType() != c.DType || !slices.Equal(v.Shape(), c.Shape) {
			return ir.Errorf(ir.ErrValue, "constant %q: got %s %s, want %s %s", c.Name, v.DType(), ir.ShapeString(v.Shape()),
				c.DType, ir.ShapeString(c.Shape))
		}
	}
	if r.sizes, err = b.Sizes(f.Inputs); err != nil {
		return err
	}
	r.values = make([]uint64, f.Values)
	r.holds = map[uint64]int{}
	copy(r.values, r.Inputs)
	copy(r.values[len(r.Inputs):], r.Constants)
	return nil
}

// runSteps runs steps up to the next walk of autograd, or to the end.
func (e *Engine) runSteps(r *ProgramRun) (err *ir.Error) {
	defer e.leaveOp(0, &err)
	e.enter()
	return e.stepsOf(r)
}

// stepsOf is runSteps within the lock.
func (e *Engine) stepsOf(r *ProgramRun) *ir.Error {
	s := e.session
	grad, autocast, device, set := s.GradMode, s.Autocast, s.DefaultDev, s.DeviceSet
	defer func() {
		s.GradMode, s.Autocast, s.DefaultDev, s.DeviceSet = grad, autocast, device, set
	}()
	s.DefaultDev, s.DeviceSet = r.device, true
	for ; r.at < len(r.Function.Steps); r.at++ {
		x := &r.Function.Steps[r.at]
		if x.Op == "engine.backward" {
			return nil
		}
		if err := e.runIn(r, x, grad); err != nil {
			return err
		}
		e.recorded()
	}
	return nil
}

// runIn is runStep in the modes of the step.
func (e *Engine) runIn(r *ProgramRun, x *saved.Step, grad bool) *ir.Error {
	s := e.session
	s.GradMode, s.Autocast = grad && !x.NoGrad, x.Autocast
	if d := r.precision; d != ir.InvalidDType && x.Autocast == [2]ir.DType{} {
		s.Autocast = [2]ir.DType{d, d}
	}
	return e.runStep(r, x)
}

// runStep calls one operator, or the engine.
func (e *Engine) runStep(r *ProgramRun, x *saved.Step) *ir.Error {
	if err := r.bind(x); err != nil {
		return err
	}
	if n := max(len(x.Outs), 1); len(r.outs) < n {
		r.outs = make([]Out, n)
	}
	outs, n := r.outs[:max(len(x.Outs), 1)], 0
	switch in := r.call.In; x.Op {
	case "engine.grad":
		g, err := e.session.Grad(in[0])
		if err != nil {
			return err
		}
		if g == 0 {
			return ir.Errorf(ir.ErrRuntime, "the tensor has no gradient")
		}
		e.describe(e.session.Dup(g), &outs[0])
		n = 1
	case "engine.set_grad":
		if err := e.session.SetGrad(in[0], in[1]); err != nil {
			return err
		}
	case "engine.requires_grad_":
		if err := e.session.SetRequiresGrad(in[0], r.call.Ints[0] != 0); err != nil {
			return err
		}
	case saved.LoopCall:
		var err *ir.Error
		if n, err = e.runLoop(r, x, outs); err != nil {
			return err
		}
	default:
		var err *ir.Error
		if n, err = e.op(&r.call, outs); err != nil {
			return err
		}
	}
	return r.keep(e, x, outs[:n])
}

// bind makes the flat call of a step.
func (r *ProgramRun) bind(x *saved.Step) *ir.Error {
	c := &r.call
	c.Op, c.Mode, c.In, c.Ints, c.Scalars = x.ID, ModeFunctional, c.In[:0], c.Ints[:0], c.Scalars[:0]
	if x.InPlace {
		c.Mode = ModeInPlace
	}
	for _, o := range x.In {
		h := uint64(0)
		switch o.Kind {
		case saved.OperandValue:
			h = r.values[o.ID]
		case saved.OperandNumber:
			h = dispatch.ScalarOperand
		}
		c.In = append(c.In, h)
	}
	for i := range x.Ints {
		n, err := x.Ints[i].At(r.sizes, int64(r.device), r.Evaluation)
		if err != nil {
			return err
		}
		c.Ints = append(c.Ints, n)
	}
	for i := range x.Scalars {
		kind, bits, err := x.Scalars[i].At(r.sizes, r.Numbers)
		if err != nil {
			return err
		}
		c.Scalars = append(c.Scalars, Scalar{Kind: kind, Bits: bits})
	}
	return nil
}

// keep notes the results of a step and releases the values that no later step uses.
func (r *ProgramRun) keep(e *Engine, x *saved.Step, outs []Out) *ir.Error {
	if len(x.Outs) > 0 && len(outs) != len(x.Outs) {
		for k := range outs {
			if o := &outs[k]; o.Flags&OutIsInput == 0 && r.holds[o.Handle] == 0 {
				e.session.Release(o.Handle)
			}
		}
		return ir.Errorf(ir.ErrValue, "the operator gave %d results, the program says %d", len(outs), len(x.Outs))
	}
	for k := range x.Outs {
		o := &outs[k]
		if err := r.recast(e, x, k, o); err != nil {
			return err
		}
		r.values[x.First+k] = o.Handle
		if o.Flags&OutIsInput == 0 || r.holds[o.Handle] > 0 {
			r.holds[o.Handle]++
		}
	}
	for k := range x.Outs { // after all results have an owner, which releases them on an error
		if o := &outs[k]; r.precision == ir.InvalidDType && ir.DType(o.DType) != x.Outs[k].DType {
			return ir.Errorf(ir.ErrType, "result %d is %s, the program says %s", k, ir.DType(o.DType), x.Outs[k].DType)
		}
		r.dropAfter(e, x.First+k)
	}
	x.Refs(func(id int) { r.dropAfter(e, id) })
	return nil
}

// recast gives a result the dtype that the program says. Under autocast an operator has another one on another device:
// softmax of float16 gives float32 on a GPU, as PyTorch's lists say, and float16 on the CPU.
func (r *ProgramRun) recast(e *Engine, x *saved.Step, k int, o *Out) *ir.Error {
	got, want := ir.DType(o.DType), x.Outs[k].DType
	if x.Autocast == [2]ir.DType{} || got == want || !got.IsFloat() || !want.IsFloat() || o.Flags&OutIsInput != 0 {
		return nil
	}
	v, err := e.session.Resolve(o.Handle)
	if err != nil {
		return err
	}
	v = prim.Cast(e.session, v, want)
	made := e.session.Wrap(&v, []uint64{o.Handle})
	e.session.Release(o.Handle)
	e.describe(made, o)
	return nil
}

// dropAfter releases a value that the current step was the last to use.
func (r *ProgramRun) dropAfter(e *Engine, id int) {
	h := r.values[id]
	if r.bodies > 0 || r.Function.LastUse[id] != r.at || h == 0 || id < len(r.Inputs)+len(r.Constants) {
		return
	}
	r.drop(e, id)
}

// drop forgets a value, and releases the handle that the run made for it.
func (r *ProgramRun) drop(e *Engine, id int) {
	h := r.values[id]
	r.values[id] = 0
	if r.holds[h] == 0 {
		return
	}
	if r.holds[h]--; r.holds[h] == 0 {
		delete(r.holds, h)
		e.session.Release(h)
	}
}

// walkStep runs a walk of autograd, which takes the engine's lock by itself.
func (e *Engine) walkStep(r *ProgramRun) *ir.Error {
	x := &r.Function.Steps[r.at]
	if err := r.bind(x); err != nil {
		return err
	}
	in, n := r.call.In, r.call.Ints
	roots, grads, inputs := in[:n[0]], in[n[0]:n[0]+n[1]], in[n[0]+n[1]:]
	id, err := e.Backward(roots, grads, inputs, uint32(n[3])&^(Inspect|NoLeafHooks)|NoLeafHooks)
	if err != nil {
		return err
	}
	for {
		var ev BackwardEvent
		if err := e.BackwardNext(id, 0, &ev); err != nil {
			return err
		}
		if autograd.EventKind(ev.Kind) == autograd.Done {
			break
		}
		if ev.Grad.Handle != 0 {
			e.Release([]uint64{ev.Grad.Handle})
		}
	}
	outs := make([]Out, len(inputs))
	if len(inputs) > 0 {
		if err := e.BackwardResults(id, outs, make([]bool, len(inputs))); err != nil {
			return err
		}
	}
	return e.keepWalk(r, x, outs)
}

func (e *Engine) keepWalk(r *ProgramRun, x *saved.Step, outs []Out) (err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	err = r.keep(e, x, outs)
	r.at++
	return err
}

// endRun makes the outputs and releases the run's other tensors.
func (e *Engine) endRun(r *ProgramRun, failed *ir.Error) (outs []Out, err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	return e.endInside(r, failed)
}

// endInside is endRun within the lock.
func (e *Engine) endInside(r *ProgramRun, failed *ir.Error) (outs []Out, err *ir.Error) {
	if failed == nil {
		outs = make([]Out, len(r.Function.Outputs))
		for i, o := range r.Function.Outputs {
			e.describe(e.session.Dup(r.values[o.ID]), &outs[i])
		}
	}
	for h := range r.holds {
		e.session.Release(h)
	}
	r.holds = nil
	return outs, failed
}

// cutWire describes the step that failed, its operands, and the steps on both sides.
func (r *ProgramRun) cutWire() string {
	f, p := r.Function, r.Program
	if r.at >= len(f.Steps) {
		return ""
	}
	x := &f.Steps[r.at]
	var b strings.Builder
	fmt.Fprintf(&b, "\nin step %d of %q: %s", r.at, f.Name, p.StepText(f, r.at))
	if x.At != "" {
		fmt.Fprintf(&b, "\n  recorded at %s", x.At)
	}
	seen := map[int]bool{}
	x.Refs(func(id int) {
		if !seen[id] {
			seen[id] = true
			fmt.Fprintf(&b, "\n  operand %s: %s, %s", p.ValueName(f, id), f.Value(id), p.OriginText(f, id))
		}
	})
	for k := range x.Outs {
		for i := r.at + 1; i < len(f.Steps); i++ {
			uses := false
			f.Steps[i].Refs(func(id int) { uses = uses || id == x.First+k })
			if uses {
				fmt.Fprintf(&b, "\n  result %s goes to step %d: %s", p.ValueName(f, x.First+k), i, f.Steps[i].Op)
				break
			}
		}
	}
	return b.String()
}
