package saved

import (
	"fmt"
	"strings"

	"github.com/torchlette/torchlette/ir"
)

// LoopCall is the step that repeats a body: length times, or, where ends is true, as long as the first carry is true.
// Its results are the last carries, and the other results of the body stacked.
const LoopCall = "engine.loop"

// Body is what a loop repeats. It refers to the values before the loop's step by their numbers. Its own values follow
// them: the inputs (carries, then elements of xs), then the results of its steps. The values after the step have these
// numbers again.
//
// A body with one input, though the loop has more carries, reads only the first one: it is a branch of a condition.
type Body struct {
	Inputs  []Value
	Steps   []Step
	Results []int // by number: the next carries, then what is stacked
	// Values counts the body's own values.
	Values int
}

type rawBody struct {
	Inputs  []rawValue
	Steps   []rawStep
	Results []string
}

// refs calls use for each value before first that the body refers to.
func (b *Body) refs(first int, use func(id int)) {
	outside := func(id int) {
		if id < first {
			use(id)
		}
	}
	for i := range b.Steps {
		b.Steps[i].Refs(outside)
	}
	for _, id := range b.Results {
		outside(id)
	}
}

// body reads the body of a loop's step x, whose arguments are read.
func (r *reader) body(x *Step, b *rawBody) *ir.Error {
	if (b != nil) != (x.Op == LoopCall) {
		return wrong("a body is missing, or the operator takes none")
	}
	if b == nil {
		return nil
	}
	outer, depth, first := r.f.Steps, r.depth, len(r.f.values)
	r.f.Steps, r.depth = nil, depth+1
	defer func() {
		r.f.Steps, r.depth = outer, depth
		r.room = max(r.room, len(r.f.values))
		r.f.values = r.f.values[:first:first]
	}()
	y := &Body{}
	for _, v := range b.Inputs {
		in, err := r.value(v)
		if err != nil {
			return err
		}
		y.Inputs = append(y.Inputs, in)
	}
	r.f.values = append(r.f.values, y.Inputs...)
	for i := range b.Steps {
		if err := r.step(&b.Steps[i]); err != nil {
			err.Msg = fmt.Sprintf("%s (step %d of the body, %s)", err.Msg, i, cut(b.Steps[i].Op))
			return err
		}
	}
	for _, text := range b.Results {
		id, ok := valueID(text, len(r.f.values))
		if !ok {
			return wrong("result %q of the body: want %%number of a value", cut(text))
		}
		y.Results = append(y.Results, id)
	}
	y.Steps, y.Values = r.f.Steps, len(r.f.values)-first
	x.Body = y
	return x.fits()
}

// fits checks that a loop and its body have as many carries, elements and results as each other.
func (s *Step) fits() *ir.Error {
	carries, xs := int(s.Ints[0].Value), int(s.Ints[1].Value)
	n, ends := len(s.Body.Inputs), s.Ints[4].Value != 0
	branch := ends && xs == 0 && n == 1 && len(s.Body.Results) == carries
	switch {
	case n != carries+xs && !branch:
		return wrong("its body has %d inputs, want %d carries and %d elements", n, carries, xs)
	case len(s.Body.Results) < carries || ends && (carries == 0 || xs > 0 || len(s.Body.Results) != carries):
		return wrong("its body has %d results for %d carries", len(s.Body.Results), carries)
	case len(s.Outs) != len(s.Body.Results):
		return wrong("it has %d results, its body %d", len(s.Outs), len(s.Body.Results))
	}
	return nil
}

// lines writes the body's steps as lines of a listing, below the line of its step.
func (b *Body) lines(p *Program, f *Function, first int, indent string, out *strings.Builder) {
	for i := range b.Inputs {
		fmt.Fprintf(out, "%s%%%d: %s = input\n", indent, first+i, b.Inputs[i].String())
	}
	p.stepLines(f, b.Steps, indent, out)
	var names []string
	for _, id := range b.Results {
		names = append(names, p.ValueName(f, id))
	}
	fmt.Fprintf(out, "%sresults %s\n", indent, strings.Join(names, ", "))
}

// stepLines writes steps as lines of a listing.
func (p *Program) stepLines(f *Function, steps []Step, indent string, out *strings.Builder) {
	for i := range steps {
		out.WriteString(indent + p.textOf(f, &steps[i]) + "\n")
		if b := steps[i].Body; b != nil {
			b.lines(p, f, steps[i].First, indent+"    ", out)
		}
	}
}
