package engine

import (
	"strings"

	"github.com/torchlette/torchlette/engine/saved"
)

// exportedBody is the recorded body of a loop. Its values are numbered like the function's, while it is recorded.
type exportedBody struct {
	inputs  []exportedValue
	first   valueID // of the inputs
	steps   []exportedStep
	results []valueID
}

// openBody is a body that is being traced: the steps that it interrupts, and the handles and views of its values, which
// nothing may use later.
type openBody struct {
	body    *exportedBody
	outer   []exportedStep
	handles []uint64
	views   []viewKey
}

func (o *openBody) own(hd uint64, k viewKey) {
	o.handles = append(o.handles, hd)
	o.views = append(o.views, k)
}

// noteBody records the start of the trace of a loop's body on placeholders.
func (x *exporting) noteBody(e *Engine, placeholders []Out) {
	o := &openBody{body: &exportedBody{first: firstResult + valueID(x.results)}, outer: x.steps}
	x.open, x.steps = append(x.open, o), nil
	for i := range placeholders {
		h := placeholders[i].Handle
		v, err := e.session.Resolve(h)
		if err != nil {
			x.failed = err
			return
		}
		o.body.inputs = append(o.body.inputs, exportedValue{v.DType(), v.Shape()})
		x.add(e, h, firstResult+valueID(x.results))
		x.results++
	}
}

// noteEnd records the end of the trace of a body.
func (x *exporting) noteEnd(e *Engine, keep bool, results []uint64) *exportedBody {
	o := x.open[len(x.open)-1]
	b := o.body
	for i := 0; keep && x.failed == nil && i < len(results); i++ {
		id, err := x.find(e, results[i])
		if x.failed = err; err != nil {
			x.failed.Msg = "export: a result of a loop's body: " + err.Msg
		}
		b.results = append(b.results, id)
	}
	b.steps, x.steps, x.open = x.steps, o.outer, x.open[:len(x.open)-1]
	for _, h := range o.handles {
		delete(x.ids, h)
	}
	for _, k := range o.views {
		delete(x.views, k)
	}
	return b
}

// noteLoop records a loop.
func (x *exporting) noteLoop(e *Engine, c *LoopCall, outs []Out) {
	b := x.bodies[c.Body]
	if b == nil {
		x.refuse("a loop whose body was traced before the export")
		return
	}
	flat := &Call{In: c.Args, Ints: []int64{int64(c.Carries), int64(c.Xs), c.Length, bit(c.Reverse), bit(c.While)},
		SourceLoc: c.SourceLoc}
	var hs []uint64
	for i := range outs {
		hs = append(hs, outs[i].Handle)
	}
	n := len(x.steps)
	if x.note(e, flat, saved.Calls[saved.LoopCall], false, hs); len(x.steps) > n {
		x.steps[n].body = b
	}
}

// unread lists the results of steps that only make room, and which nothing reads: the tensors on which bodies of loops
// are traced.
func (x *exporting) unread(results []valueID) map[valueID]bool {
	list, read := map[valueID]bool{}, map[valueID]bool{}
	var walk func(steps []exportedStep)
	walk = func(steps []exportedStep) {
		for i := len(steps) - 1; i >= 0; i-- {
			s := &steps[i]
			if strings.Contains(s.sig.Full, "empty") && !read[s.first] {
				list[s.first] = true
				continue
			}
			for _, o := range s.call.In {
				if o.Kind == saved.OperandValue && s.sig.Full != "engine.requires_grad_" {
					read[valueID(o.ID)] = true
				}
			}
			if s.body != nil {
				for _, id := range s.body.results {
					read[id] = true
				}
				walk(s.body.steps)
			}
		}
	}
	for _, id := range results {
		read[id] = true
	}
	walk(x.steps)
	return list
}
