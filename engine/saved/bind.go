package saved

import (
	"fmt"
	"math"
	"strings"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// Binding finds the sizes of a program's dims by the shapes of the inputs.
type Binding struct {
	p      *Program
	sizes  []int64
	by     []string // the input that a dim's size is from, "" while it is unknown
	shapes [][]int64
}

// Bind starts a binding.
func Bind(p *Program) *Binding {
	return &Binding{p: p, sizes: make([]int64, len(p.Dims)), by: make([]string, len(p.Dims))}
}

// Input takes the next input.
func (b *Binding) Input(v *Value, d ir.DType, shape []int64) *ir.Error {
	if d != v.DType {
		return ir.Errorf(ir.ErrType, "input %q: got dtype %s, want %s", v.Name, d, v.DType)
	}
	if len(shape) != len(v.Shape) {
		return ir.Errorf(ir.ErrValue, "input %q: got shape %s, want %d dims: %s", v.Name, ir.ShapeString(shape), len(v.Shape),
			v.ShapeText())
	}
	for i, x := range v.Shape {
		if x.op != "name" {
			continue
		}
		dim, n := &b.p.Dims[x.name], shape[i]
		switch {
		case n < dim.Min || dim.Max >= 0 && n > dim.Max:
			return ir.Errorf(ir.ErrValue, "input %q: dim %d is %d, but %s is %s", v.Name, i, n, dim.Name, dim.rangeText())
		case b.by[x.name] != "" && b.sizes[x.name] != n:
			return ir.Errorf(ir.ErrValue, "input %q: dim %d is %d, but %s is %d by input %q", v.Name, i, n, dim.Name,
				b.sizes[x.name], b.by[x.name])
		}
		b.by[x.name], b.sizes[x.name] = v.Name, n
	}
	b.shapes = append(b.shapes, shape)
	return nil
}

func (d *Dim) rangeText() string {
	if d.Max < 0 {
		return fmt.Sprintf("at least %d", d.Min)
	}
	return fmt.Sprintf("from %d to %d", d.Min, d.Max)
}

// Sizes returns the sizes of the dims, when all inputs have been taken and agree.
func (b *Binding) Sizes(inputs []Value) ([]int64, *ir.Error) {
	for i, name := range b.by {
		if name == "" && b.used(inputs, i) {
			if err := b.solve(inputs, i); err != nil {
				return nil, err
			}
		}
	}
	for k := range inputs {
		for i, x := range inputs[k].Shape {
			want, err := x.Int(b.sizes)
			if err != nil {
				return nil, err
			}
			if got := b.shapes[k][i]; got != want {
				return nil, ir.Errorf(ir.ErrValue, "input %q: dim %d is %d, want %s", inputs[k].Name, i, got,
					sizeText(x, want))
			}
		}
	}
	return b.sizes, nil
}

// solve finds dim i by a size that is an affine function of it alone, such as 2*n + 1. Sizes checks the other sizes.
func (b *Binding) solve(inputs []Value, i int) *ir.Error {
	dim, at := &b.p.Dims[i], make([]int64, len(b.sizes))
	for k := range inputs {
		for axis, x := range inputs[k].Shape {
			if !x.readsOnly(i) {
				continue
			}
			low, err := x.Int(at)
			if err != nil {
				continue // it divides by a size
			}
			at[i] = 1
			high, err := x.Int(at)
			at[i] = 0
			if err != nil || high <= low {
				continue
			}
			got := b.shapes[k][axis]
			b.sizes[i], b.by[i] = (got-low)/(high-low), inputs[k].Name
			if n := b.sizes[i]; n < dim.Min || dim.Max >= 0 && n > dim.Max {
				return ir.Errorf(ir.ErrValue, "input %q: dim %d is %d, want %s where %s is %s", inputs[k].Name, axis, got, x.text,
					dim.Name, dim.rangeText())
			}
			return nil
		}
	}
	return wrong("no input has %s as a size, or an affine function of it", dim.Name)
}

func sizeText(x *Expr, n int64) string {
	if x.op == "int" {
		return x.text
	}
	return fmt.Sprintf("%s = %d", x.text, n)
}

// used reports that an input's size depends on dim i.
func (b *Binding) used(inputs []Value, i int) bool {
	for _, v := range inputs {
		for _, x := range v.Shape {
			if x.reads(i) {
				return true
			}
		}
	}
	return false
}

// readsOnly reports that the expression depends on dim i and on no other one.
func (x *Expr) readsOnly(i int) bool {
	return x.reads(i) && x.names(i)
}

// names reports that the expression has no name but that of dim i.
func (x *Expr) names(i int) bool {
	return x == nil || (x.op != "name" || x.name == i) && x.a.names(i) && x.b.names(i)
}

func (x *Expr) reads(i int) bool {
	return x != nil && (x.op == "name" && x.name == i || x.a.reads(i) || x.b.reads(i))
}

// At is the integer in a run with these sizes on a device. In evaluation no operator trains.
func (n *Int) At(sizes []int64, device int64, evaluation bool) (int64, *ir.Error) {
	switch {
	case n.Kind == IntSize:
		return n.Expr.Int(sizes)
	case n.Kind == IntDevice:
		return device, nil
	case n.Kind == IntTrain && evaluation:
		return 0, nil
	}
	return n.Value, nil
}

// At is the number in a run with these sizes and supplied numbers.
func (s *Scalar) At(sizes []int64, numbers []float64) (op.ValKind, uint64, *ir.Error) {
	switch {
	case s.Place > 0:
		return op.ScalarFloat, math.Float64bits(numbers[s.Place-1]), nil
	case s.Expr != nil && s.Kind == op.ScalarInt:
		n, err := s.Expr.Int(sizes)
		return op.ScalarInt, uint64(n), err
	case s.Expr != nil:
		list := make([]float64, len(sizes))
		for i, n := range sizes {
			list[i] = float64(n)
		}
		return op.ScalarFloat, math.Float64bits(s.Expr.Float(list)), nil
	}
	return s.Kind, s.Bits, nil
}

// ShapeText is a shape with the names of its dims.
func (v *Value) ShapeText() string {
	var list []string
	for _, x := range v.Shape {
		list = append(list, x.text)
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// String is dtype and shape.
func (v *Value) String() string { return v.DType.String() + v.ShapeText() }

// StepText is a step as a line of a listing.
func (p *Program) StepText(f *Function, i int) string { return p.textOf(f, &f.Steps[i]) }

// BodyText is a step of a body as a line of a listing.
func (p *Program) BodyText(f *Function, b *Body, i int) string { return p.textOf(f, &b.Steps[i]) }

func (p *Program) textOf(f *Function, s *Step) string {
	var b strings.Builder
	for k := range s.Outs {
		if k > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s: %s", p.ValueName(f, s.First+k), s.Outs[k].String())
	}
	if len(s.Outs) > 0 {
		b.WriteString(" = ")
	}
	b.WriteString(s.Op)
	if s.InPlace {
		b.WriteString("_")
	}
	b.WriteString("(")
	for k, a := range s.Args {
		if k > 0 {
			b.WriteString(", ")
		}
		b.WriteString(a.Name + "=" + p.argText(f, a.Value))
	}
	b.WriteString(")")
	return b.String()
}

func (p *Program) argText(f *Function, v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case Ref:
		return p.ValueName(f, int(v))
	case Supplied:
		return f.Formulas[f.Supplied[v]].Name
	case *Expr:
		return v.text
	case []any:
		list := make([]string, len(v))
		for i := range v {
			list[i] = p.argText(f, v[i])
		}
		return "[" + strings.Join(list, ", ") + "]"
	}
	return fmt.Sprint(v)
}

// OriginText says where a value comes from.
func (p *Program) OriginText(f *Function, id int) string {
	if id < len(f.Inputs) {
		return "an input"
	}
	if k := p.Constant(f, id); k >= 0 {
		return "a " + string(p.Constants[k].Kind)
	}
	for i := range f.Steps {
		if s := &f.Steps[i]; id >= s.First && id < s.First+len(s.Outs) {
			return fmt.Sprintf("made by step %d: %s", i, s.Op)
		}
	}
	return "unknown"
}

// Listing has the steps of all functions as text, one on a line.
func (p *Program) Listing() string {
	var b strings.Builder
	for _, name := range p.names() {
		f := p.Functions[name]
		fmt.Fprintf(&b, "%s(", name)
		for i := range f.Inputs {
			if i > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "%s: %s", f.Inputs[i].Name, f.Inputs[i].String())
		}
		b.WriteString("):\n")
		p.stepLines(f, f.Steps, "    ", &b)
		b.WriteString("    return ")
		for i, o := range f.Outputs {
			if i > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "%s=%s", o.Name, p.ValueName(f, o.ID))
		}
		b.WriteString("\n")
	}
	return b.String()
}
