package samples

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// Builder is what a sample's operands are made with.
type Builder interface {
	op.Builder
	// Tensor makes a dense tensor of the given elements.
	Tensor(d ir.DType, shape []int64, v ...float64) op.Val
}

// Read encodes a sample's call as sig.go says. Operands of the kind of its first one (T, I or B) get dtype as, unless
// that is InvalidDType. It fails on arguments that the parser would refuse.
func Read(b Builder, d *op.Def, s op.Sample, as ir.DType) (a *op.Args, err error) {
	defer func() {
		if text, ok := recover().(refused); ok {
			a, err = nil, fmt.Errorf("%s: %s", d.Parsed.Full, string(text))
		}
	}()
	r := &reader{e: b, as: as}
	return r.arguments(d, s), nil
}

// refused is the reason why a sample cannot be read; the reader panics with it.
type refused string

func need(ok bool, format string, args ...any) {
	if !ok {
		panic(refused(fmt.Sprintf(format, args...)))
	}
}

// reader evaluates the language of samples: literals, tensors, lists.
type reader struct {
	e     Builder
	s     string
	n     int      // elements made so far: operands differ
	as    ir.DType // dtype of the operands of the first one's kind
	first ir.DType // that kind; InvalidDType before the first
}

type dtypeName ir.DType

func (r *reader) eat(p string) bool {
	r.s = strings.TrimLeft(r.s, " ")
	if strings.HasPrefix(r.s, p) {
		r.s = r.s[len(p):]
		return true
	}
	return false
}

func (r *reader) until(stop string) string {
	i := strings.Index(r.s, stop)
	need(i >= 0, "%q lacks %q", r.s, stop)
	text := r.s[:i]
	r.s = r.s[i+len(stop):]
	return text
}

// operand reads what comes after "T(", "I(" or "B(": "3,4;lo,hi)".
func (r *reader) operand(kind ir.DType) op.Val {
	sizes, limits, ranged := strings.Cut(r.until(")"), ";")
	var shape []int64
	for _, f := range strings.Split(sizes, ",") {
		if f = strings.TrimSpace(f); f != "" {
			n, err := strconv.ParseInt(f, 10, 64)
			need(err == nil, "%v", err)
			shape = append(shape, n)
		}
	}
	lo, hi := -1.5, 1.5
	if ranged {
		_, err := fmt.Sscanf(strings.ReplaceAll(limits, " ", ""), "%g,%g", &lo, &hi)
		need(err == nil, "%v", err)
	}
	v := make([]float64, ir.Numel(shape))
	for i := range v {
		r.n++
		frac := math.Mod(float64(r.n)*0.6180339887, 1) // a low-discrepancy sequence
		switch v[i] = lo + frac*(hi-lo); kind {
		case ir.I64:
			v[i] = math.Floor(v[i])
		case ir.Bool:
			v[i] = math.Round(frac)
		}
	}
	if r.first == ir.InvalidDType {
		r.first = kind
	}
	if kind == r.first && r.as != ir.InvalidDType {
		kind = r.as
	}
	x := r.e.Tensor(kind, shape, v...)
	for r.eat(".t()") {
		l := x.L()
		x = r.e.View(x, ir.PermuteLayout(l, []int64{1, 0}), 0, op.ViewOp{Kind: op.ViewPermute, Dims: []int64{1, 0}})
	}
	return x
}

// positiveDefinite makes symmetric matrices with a heavy diagonal.
func (r *reader) positiveDefinite(shape []int64) op.Val {
	v := make([]float64, ir.Numel(shape))
	n := int(shape[len(shape)-1])
	for i := range v {
		row, col := i/n%n, i%n
		v[i] = 0.1 * math.Cos(float64(row+col+i/n/n))
		if row == col {
			v[i] += float64(2 + row)
		}
	}
	kind := ir.F32
	if r.as != ir.InvalidDType {
		kind = r.as
	}
	return r.e.Tensor(kind, shape, v...)
}

// literal makes the tensor of torch.tensor's argument.
func (r *reader) literal(v any) op.Val {
	var shape []int64
	var flat []float64
	kind := ir.Bool
	var walk func(v any, depth int)
	walk = func(v any, depth int) {
		switch x := v.(type) {
		case []any:
			if len(shape) == depth {
				shape = append(shape, int64(len(x)))
			}
			for _, y := range x {
				walk(y, depth+1)
			}
		case op.Val:
			flat = append(flat, x.Float())
			kind = ir.Promote(kind, x.DType())
		}
	}
	walk(v, 0)
	return r.e.Tensor(kind, shape, flat...)
}

func (r *reader) list(end string) []any {
	out := []any{}
	for !r.eat(end) {
		out = append(out, r.value())
		r.eat(",")
	}
	return out
}

func (r *reader) value() any {
	words := map[string]any{"True": op.BoolVal(true), "False": op.BoolVal(false), "None": nil,
		"float('inf')": op.FloatVal(math.Inf(1)), "float('-inf')": op.FloatVal(math.Inf(-1)),
		"-float('inf')": op.FloatVal(math.Inf(-1)), "float('nan')": op.FloatVal(math.NaN())}
	for w, v := range words {
		if r.eat(w) {
			return v
		}
	}
	switch {
	case r.eat("T("):
		return r.operand(ir.F32)
	case r.eat("I("):
		return r.operand(ir.I64)
	case r.eat("B("):
		return r.operand(ir.Bool)
	case r.eat("P("):
		return r.positiveDefinite(r.operand(ir.F32).Shape())
	case r.eat("torch.tensor("):
		v := r.literal(r.value())
		if r.eat(", dtype=torch.int32") {
			v = prim.Cast(r.e, v, ir.I32)
		}
		need(r.eat(")"), "%q lacks a parenthesis", r.s)
		return v
	case r.eat("torch.ones(())"):
		return r.e.Tensor(ir.F32, nil, 1)
	case r.eat("torch.zeros(())"):
		return r.e.Tensor(ir.F32, nil, 0)
	case r.eat("torch.zeros(0)"):
		return r.e.Tensor(ir.F32, []int64{0})
	case r.eat("torch.zeros(3)"):
		return r.e.Tensor(ir.F32, []int64{3}, 0, 0, 0)
	case r.eat("torch."):
		for d := ir.Bool; d < ir.NumDTypes; d++ {
			if r.eat(d.String()) {
				return dtypeName(d)
			}
		}
	case r.eat("["):
		return r.list("]")
	case r.eat("("):
		return r.list(")")
	case r.eat("'"):
		return r.until("'")
	}
	return r.number()
}

func (r *reader) number() op.Val {
	i := strings.IndexFunc(r.s, func(c rune) bool { return !strings.ContainsRune("0123456789+-.eE", c) })
	if i < 0 {
		i = len(r.s)
	}
	text := r.s[:i]
	r.s = r.s[i:]
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return op.IntVal(n)
	}
	f, err := strconv.ParseFloat(text, 64)
	need(err == nil, "at %q: %v", r.s, err)
	return op.FloatVal(f)
}

// bind matches a sample's arguments to the parameters; defaults fill the rest.
func (r *reader) bind(d *op.Def, s op.Sample) map[string]any {
	got := map[string]any{}
	params := d.Parsed.Params
	r.s = s.Args
	for i := 0; strings.TrimSpace(r.s) != ""; i++ {
		need(i < len(params), "too many arguments")
		p, v := params[i], r.value()
		r.eat(",")
		if t, ok := v.(op.Val); ok && p.Spread && t.IsTensor() { // takes all that follow
			list, _ := got[p.Name].([]any)
			list = append(list, v)
			v, i = list, i-1
		}
		got[p.Name] = v
	}
	r.s = s.Kwargs
	for strings.TrimSpace(r.s) != "" {
		name := strings.TrimSpace(r.until("="))
		got[name] = r.value()
		r.eat(",")
	}
	for _, p := range params {
		if _, ok := got[p.Name]; !ok {
			need(p.Default != "", "argument %s is missing", p.Name)
			r.s = p.Default
			got[p.Name] = r.value()
		}
	}
	return got
}

// fits reports that a value suits a parameter; samples name operators, not overloads.
func fits(p op.Param, v any) bool {
	if v == nil {
		return p.Opt
	}
	if l, ok := v.([]any); ok {
		return p.List && (len(l) == 0 || fits(op.Param{Type: p.Type}, l[0]))
	}
	switch x := v.(type) {
	case string:
		return p.Type == "str" && slices.Contains(p.Words, x) || p.Type == "device"
	case dtypeName:
		return p.Type == "dtype"
	case op.Val:
		switch p.Type {
		case "Tensor":
			return x.IsTensor() && !p.List
		case "Operand":
			return true
		case "int":
			return x.Kind == op.ScalarInt
		case "bool":
			return x.Kind == op.ScalarBool
		case "float", "Scalar":
			return x.IsScalar()
		}
	}
	return false
}

// arguments encodes a call as sig.go says.
func (r *reader) arguments(d *op.Def, s op.Sample) *op.Args {
	got := r.bind(d, s)
	a := &op.Args{B: r.e, Op: d}
	for _, p := range d.Parsed.Params {
		v := got[p.Name]
		need(fits(p, v), "%v does not fit %s %s", v, p.Type, p.Name)
		r.encode(a, p, v)
	}
	return a
}

func (r *reader) encode(a *op.Args, p op.Param, v any) {
	l, isList := v.([]any)
	if p.List {
		if v == nil {
			a.Ints = append(a.Ints, -1)
			return
		}
		if !isList {
			l = []any{v}
		}
		a.Ints = append(a.Ints, int64(len(l)))
		p.List, p.Opt = false, false
		for _, x := range l {
			r.encode(a, p, x)
		}
		return
	}
	x, _ := v.(op.Val)
	switch p.Type {
	case "Tensor", "Operand":
		a.In = append(a.In, x)
	case "float", "Scalar":
		a.Scalars = append(a.Scalars, x)
	case "int", "bool":
		if p.Opt && v == nil {
			a.Ints = append(a.Ints, 0, 0)
			return
		}
		if p.Opt {
			a.Ints = append(a.Ints, 1)
		}
		a.Ints = append(a.Ints, int64(x.Bits()))
	case "dtype":
		d, _ := v.(dtypeName)
		a.Ints = append(a.Ints, int64(d))
	case "device":
		if v == nil {
			a.Ints = append(a.Ints, -1)
		} else {
			a.Ints = append(a.Ints, int64(ir.CPU))
		}
	case "str":
		at := int64(-1)
		for i, w := range p.Words {
			if v == w {
				at = int64(i)
			}
		}
		a.Ints = append(a.Ints, at)
	}
}
