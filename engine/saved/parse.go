package saved

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// Limits of what Parse accepts.
const (
	maxText  = 16 << 20
	maxRank  = 16
	maxNames = 1 << 20
	maxDepth = 200
)

// formatName is in every program's text.
const formatName = "torchlette program"

// Parse reads the text of a program and checks all of it.
func Parse(text []byte) (*Program, *ir.Error) {
	if len(text) > maxText {
		return nil, wrong("its text has %d bytes, want at most %d", len(text), maxText)
	}
	if depth(text) > maxDepth {
		return nil, wrong("its text is nested more than %d deep", maxDepth)
	}
	var head struct {
		Format  string
		Version int
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, wrong("its text is no JSON of the expected form: %v", err)
	}
	if head.Format != formatName {
		return nil, wrong("format is %q, want %q", cut(head.Format), formatName)
	}
	if head.Version != Version {
		return nil, ir.Errorf(ir.ErrNotImplemented, "saved program: version %d is unknown: this library reads version %d",
			head.Version, Version)
	}
	var r raw
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, wrong("its text is no JSON of the expected form: %v", err)
	}
	p := &Program{Text: text, Functions: map[string]*Function{}}
	dims, err := p.readDims(r.Dims)
	if err != nil {
		return nil, err
	}
	if err := p.readConstants(r.Constants); err != nil {
		return nil, err
	}
	if err := p.readNumbers(r.Numbers); err != nil {
		return nil, err
	}
	if len(r.Functions) == 0 || len(r.Functions) > maxNames {
		return nil, wrong("it has %d functions", len(r.Functions))
	}
	for name, f := range r.Functions {
		if f == nil {
			return nil, wrong("function %q is null", cut(name))
		}
		b := &reader{p: p, f: &Function{Name: name}, dims: dims}
		if err := b.function(f); err != nil {
			err.Msg = fmt.Sprintf("%s (function %q)", err.Msg, cut(name))
			return nil, err
		}
		p.Functions[name] = b.f
	}
	return p, nil
}

// depth is how deep lists and objects of a JSON text are nested.
func depth(text []byte) (most int) {
	now, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == '[' || c == '{'):
			now++
			most = max(most, now)
		case !quoted && (c == ']' || c == '}'):
			now--
		}
	}
	return most
}

// cut shortens a text from a file for a message.
func cut(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:60], "") + "..."
	}
	return s
}

// isName reports an identifier.
func isName(s string) bool {
	if s == "" || len(s) > 100 || s[0] <= '9' || s == "sqrt" {
		return false
	}
	for i := range len(s) {
		if !isWord(s[i]) {
			return false
		}
	}
	return true
}

func (p *Program) readDims(list []rawDim) (map[string]int, *ir.Error) {
	names := map[string]int{}
	for _, d := range list {
		x := Dim{Name: d.Name, Max: -1}
		if _, twice := names[d.Name]; twice || !isName(d.Name) {
			return nil, wrong("a dim has the name %q, want an identifier that no other dim has", cut(d.Name))
		}
		if d.Min != nil {
			x.Min = *d.Min
		}
		if d.Max != nil {
			x.Max = *d.Max
		}
		if x.Min < 0 || d.Max != nil && x.Max < x.Min {
			return nil, wrong("dim %s has the range %d to %d", d.Name, x.Min, x.Max)
		}
		names[d.Name] = len(p.Dims)
		p.Dims = append(p.Dims, x)
	}
	return names, nil
}

func (p *Program) readConstants(list []rawConstant) *ir.Error {
	seen := map[string]bool{}
	for _, c := range list {
		x := Constant{Name: c.Name, Kind: Kind(c.Kind), DType: dtypeNamed(c.DType), Shape: c.Shape,
			RequiresGrad: c.RequiresGrad}
		switch {
		case c.Name == "" || seen[c.Name]:
			return wrong("a constant has the name %q, want one that no other has", cut(c.Name))
		case x.DType == ir.InvalidDType:
			return wrong("constant %q has the dtype %q", cut(c.Name), cut(c.DType))
		case x.RequiresGrad && !x.DType.IsInexact():
			return wrong("constant %q of dtype %s requires a gradient", cut(c.Name), x.DType)
		case x.Kind != Parameter && x.Kind != Buffer && x.Kind != Tensor && x.Kind != State:
			return wrong("constant %q has the kind %q", cut(c.Name), cut(c.Kind))
		}
		if _, err := bytesOf(x.DType, x.Shape); err != nil {
			return wrong("constant %q: %s", cut(c.Name), err.Msg)
		}
		seen[c.Name] = true
		p.Constants = append(p.Constants, x)
	}
	return nil
}

// bytesOf is the size of a tensor.
func bytesOf(d ir.DType, shape []int64) (int64, *ir.Error) {
	if len(shape) > maxRank {
		return 0, wrong("it has %d dims, want at most %d", len(shape), maxRank)
	}
	n := int64(d.Size())
	for _, s := range shape {
		if s < 0 || s > 0 && n > (1<<62)/s {
			return 0, wrong("the shape %s is negative or too large", ir.ShapeString(shape))
		}
		n *= s
	}
	return n, nil
}

func (p *Program) readNumbers(list []rawNumber) *ir.Error {
	seen := map[string]bool{}
	for _, n := range list {
		d := dtypeNamed(n.DType)
		if n.Name == "" || seen[n.Name] || d != ir.F32 && d != ir.F64 {
			return wrong("number %q is named twice, or has no dtype of a number", cut(n.Name))
		}
		seen[n.Name] = true
		p.Numbers = append(p.Numbers, Number{Name: n.Name, DType: d, Value: n.Value})
	}
	return nil
}

// reader reads one function.
type reader struct {
	p    *Program
	f    *Function
	dims map[string]int
	// depth is how many bodies the step is in, room the largest number of values at a time.
	depth, room int
}

func (r *reader) value(v rawValue) (Value, *ir.Error) {
	x := Value{Name: v.Name, DType: dtypeNamed(v.DType)}
	if x.DType == ir.InvalidDType || len(v.Shape) > maxRank {
		return x, wrong("%q has the dtype %q and %d dims", cut(v.Name), cut(v.DType), len(v.Shape))
	}
	for _, s := range v.Shape {
		e, err := size(s, r.dims)
		if err != nil {
			return x, err
		}
		x.Shape = append(x.Shape, e)
	}
	return x, nil
}

func (r *reader) function(f *rawFunction) *ir.Error {
	seen := map[string]bool{}
	for _, v := range f.Inputs {
		x, err := r.value(v)
		if err != nil {
			return err
		}
		if x.Name == "" || seen[x.Name] {
			return wrong("an input has the name %q, want one that no other has", cut(x.Name))
		}
		seen[x.Name] = true
		r.f.Inputs = append(r.f.Inputs, x)
	}
	r.f.values = append(r.f.values, r.f.Inputs...)
	for i := range r.p.Constants {
		c := &r.p.Constants[i]
		v := Value{Name: c.Name, DType: c.DType}
		for _, n := range c.Shape {
			v.Shape = append(v.Shape, Const(n))
		}
		r.f.values = append(r.f.values, v)
	}
	if err := r.formulas(f); err != nil {
		return err
	}
	for i := range f.Steps {
		if err := r.step(&f.Steps[i]); err != nil {
			err.Msg = fmt.Sprintf("%s (step %d, %s)", err.Msg, i, cut(f.Steps[i].Op))
			return err
		}
	}
	r.f.Values = max(r.room, len(r.f.values))
	for _, o := range f.Outputs {
		id, ok := valueID(o.Value, len(r.f.values))
		if !ok {
			return wrong("output %q is %q, want %%number of a value", cut(o.Name), cut(o.Value))
		}
		r.f.Outputs = append(r.f.Outputs, Output{o.Name, id})
	}
	for _, name := range f.State {
		k := r.p.constantNamed(name)
		if k < 0 {
			return wrong("its state names %q, which is no constant", cut(name))
		}
		r.f.State = append(r.f.State, k)
	}
	r.f.lastUses()
	return nil
}

func valueID(s string, values int) (int, bool) {
	text, ok := strings.CutPrefix(s, "%")
	id, err := strconv.Atoi(text)
	return id, ok && err == nil && id >= 0 && id < values
}

func (p *Program) constantNamed(name string) int {
	for i := range p.Constants {
		if p.Constants[i].Name == name {
			return i
		}
	}
	return -1
}

// step reads a step. Its results are the next values.
func (r *reader) step(s *rawStep) *ir.Error {
	x := Step{Op: s.Op, NoGrad: s.NoGrad, At: s.At, InPlace: s.Mode == "in_place", First: len(r.f.values)}
	if s.Mode != "" && s.Mode != "in_place" {
		return wrong("its mode is %q", cut(s.Mode))
	}
	d := op.Find(s.Op)
	switch {
	case d != nil:
		x.Sig, x.ID = d.Parsed, d.ID
		if x.InPlace && !d.InPlace || d.Parsed.RequiresGrad() >= 0 && x.InPlace {
			return wrong("the operator has no in-place form")
		}
	case s.Op == "engine.backward" && r.depth > 0:
		return ir.Errorf(ir.ErrNotImplemented, "saved program: a walk of autograd in the body of a loop")
	case Calls[s.Op] != nil && !x.InPlace:
		x.Sig = Calls[s.Op]
	default:
		return ir.Errorf(ir.ErrNotImplemented, "saved program: operator %q is unknown to this library", cut(s.Op))
	}
	if err := x.readAutocast(s.Autocast); err != nil {
		return err
	}
	b := &binder{s: &x, dims: r.dims, values: len(r.f.values), places: len(r.f.Supplied)}
	if err := b.bind(s.Args); err != nil {
		return err
	}
	for _, v := range s.Out {
		y, err := r.value(v)
		if err != nil {
			return err
		}
		x.Outs = append(x.Outs, y)
	}
	if writes := x.InPlace || d != nil && d.InPlaceOnly; !x.gives(writes) {
		return wrong("it has %d results, which is not what the operator gives", len(x.Outs))
	}
	if err := r.body(&x, s.Body); err != nil {
		return err
	}
	r.f.values = append(r.f.values, x.Outs...)
	r.f.Steps = append(r.f.Steps, x)
	return nil
}

// gives reports that an operator may have as many results as the step: none if it writes in place.
func (s *Step) gives(writes bool) bool {
	if writes {
		return len(s.Outs) == 0
	}
	return s.Sig.Results[0].List || len(s.Outs) == len(s.Sig.Results)
}

func (s *Step) readAutocast(names [2]string) *ir.Error {
	for i, name := range names {
		if name == "" {
			continue
		}
		if s.Autocast[i] = dtypeNamed(name); s.Autocast[i] != ir.F16 && s.Autocast[i] != ir.BF16 {
			return wrong("autocast to %q", cut(name))
		}
	}
	return nil
}

// formulas reads what computes the supplied numbers.
func (r *reader) formulas(f *rawFunction) *ir.Error {
	names := map[string]int{}
	for i, n := range r.p.Numbers {
		names[n.Name] = i
	}
	local := map[string]int{}
	for _, x := range f.Formulas {
		e, err := parseExpr(x[1], names)
		if err != nil {
			return err
		}
		if _, twice := names[x[0]]; twice || !isName(x[0]) {
			return wrong("a formula has the name %q", cut(x[0]))
		}
		local[x[0]] = len(r.f.Formulas)
		names[x[0]] = len(r.p.Numbers) + len(r.f.Formulas)
		r.f.Formulas = append(r.f.Formulas, Formula{x[0], e})
	}
	find := func(name string) (int, *ir.Error) {
		k, ok := local[name]
		if !ok {
			return 0, wrong("%q is no formula", cut(name))
		}
		return k, nil
	}
	for _, name := range f.Supplied {
		k, err := find(name)
		if err != nil {
			return err
		}
		r.f.Supplied = append(r.f.Supplied, k)
	}
	for _, g := range f.Guards {
		k, err := find(g.Formula)
		if err != nil {
			return err
		}
		r.f.Guards = append(r.f.Guards, Guard{k, g.Want})
	}
	for _, w := range f.Writes {
		k, err := find(w.Formula)
		if err != nil {
			return err
		}
		n, ok := names[w.Number]
		if !ok || n >= len(r.p.Numbers) {
			return wrong("%q is no number of the program", cut(w.Number))
		}
		r.f.Writes = append(r.f.Writes, Write{n, k})
	}
	return nil
}
