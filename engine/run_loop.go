package engine

import (
	"fmt"
	"slices"

	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/saved"
	"github.com/torchlette/torchlette/ir"
)

// maxIterations bounds the loops of saved programs that no condition ends.
const maxIterations = 1 << 31

// runLoop runs the step of a loop: it traces the body on placeholders, and records the loop. The operands are bound.
func (e *Engine) runLoop(r *ProgramRun, x *saved.Step, outs []Out) (int, *ir.Error) {
	in, n := slices.Clone(r.call.In), slices.Clone(r.call.Ints)
	c := LoopCall{Carries: int(n[0]), Xs: int(n[1]), Length: n[2], Reverse: n[3] != 0, While: n[4] != 0, Args: in}
	if c.Length < 0 || c.Length > maxIterations && !c.While {
		return 0, ir.Errorf(ir.ErrValue, "the length of a loop is %d, want 0 to %d", c.Length, maxIterations)
	}
	vals, err := e.resolveAll(in)
	if err != nil {
		return 0, err
	}
	if c.Length == 0 {
		return e.emptyLoop(r, x, vals[:c.Carries], outs)
	}
	grad := e.session.GradMode
	like := vals[:len(x.Body.Inputs):len(x.Body.Inputs)]
	for i, v := range like {
		shape := v.Shape()
		if i >= c.Carries {
			if len(shape) == 0 {
				return 0, ir.Errorf(ir.ErrValue, "a loop takes elements of a tensor without dims")
			}
			shape = shape[1:]
		}
		like[i] = lazy.Like(v.DType(), v.Device(), shape)
		if grad && v.DType().IsFloat() {
			like[i].Tape = 1 // the placeholder requires a gradient
		}
	}
	if c.Body, err = e.runBody(r, x, like, grad); err != nil {
		return 0, err
	}
	defer e.forgetCaptured(c.Body)
	e.session.GradMode = grad
	return e.loop(&c, outs)
}

// runBody traces a body on placeholders, and returns its number.
func (e *Engine) runBody(r *ProgramRun, x *saved.Step, like []op.Val, grad bool) (id uint64, err *ir.Error) {
	b := x.Body
	outs := make([]Out, len(like))
	if err := e.beginBody(like, outs); err != nil {
		return 0, err
	}
	r.bodies++
	traced := false
	defer func() {
		if r.bodies--; !traced { // an error, also one that an operator's rule panics with
			_, _ = e.captureBody(false, nil, 0)
		}
	}()
	for i := range outs {
		r.values[x.First+i] = outs[i].Handle
		r.holds[outs[i].Handle]++
	}
	defer func() {
		for id := x.First; id < x.First+b.Values; id++ {
			r.drop(e, id)
		}
	}()
	for i := range b.Steps {
		if err := e.runIn(r, &b.Steps[i], grad); err != nil {
			cut := *err
			cut.Msg = fmt.Sprintf("%s\nin step %d of the body: %s", err.Msg, i, r.Program.BodyText(r.Function, b, i))
			return 0, &cut
		}
	}
	results := make([]uint64, len(b.Results))
	for k, id := range b.Results {
		results[k] = r.values[id]
	}
	carries := int(x.Ints[0].Value)
	traced = true
	return e.captureBody(true, results, max(0, carries-len(b.Inputs)))
}

// emptyLoop gives the results of a loop without iterations: its first carries, and nothing stacked.
func (e *Engine) emptyLoop(r *ProgramRun, x *saved.Step, carries []op.Val, outs []Out) (int, *ir.Error) {
	for k, v := range carries {
		v = prim.Copy(e.session, v)
		e.describe(e.session.Wrap(&v, nil), &outs[k])
	}
	for k := len(carries); k < len(x.Outs); k++ {
		shape := []int64{0}
		for d, size := range x.Outs[k].Shape {
			n, err := size.Int(r.sizes)
			if err != nil {
				return 0, err
			}
			if d > 0 {
				shape = append(shape, n)
			}
		}
		v := prim.Zeros(e.session, x.Outs[k].DType, r.device, shape)
		e.describe(e.session.Wrap(&v, nil), &outs[k])
	}
	return len(x.Outs), nil
}
