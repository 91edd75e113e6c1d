package saved

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// OperandKind is the kind of an operand of a flat call.
type OperandKind uint8

// The kinds of operands.
const (
	OperandNone   OperandKind = iota
	OperandValue              // value ID
	OperandNumber             // the next of Scalars
)

// Operand is an operand of a flat call.
type Operand struct {
	Kind OperandKind
	ID   int
}

// IntKind is the kind of an integer of a flat call.
type IntKind uint8

// The kinds of integers.
const (
	IntPlain  IntKind = iota
	IntSize           // Expr has the value
	IntDevice         // the device of the run
	IntTrain          // the slot of an operator that trains and evaluates differently
)

// Int is an integer of a flat call.
type Int struct {
	Kind  IntKind
	Value int64
	Expr  *Expr
}

// Scalar is a number of a flat call. Place is the place of a supplied number + 1. An Expr of sizes is an integer, or a
// float where Kind says so.
type Scalar struct {
	Kind  op.ValKind
	Bits  uint64
	Place int
	Expr  *Expr
}

// trainParams are the names of parameters that tell training from evaluation, where the call has an evaluation.
var trainParams = map[string]bool{"train": true, "training": true}

// Flat is a call in flat encoding, as recorded.
type Flat struct {
	In      []Operand
	Ints    []int64
	Scalars []Scalar
	Device  ir.DeviceID // the device that the program runs on
}

// Unflatten returns the named arguments of a call.
func Unflatten(sig *op.Sig, c *Flat) (args []Arg, err *ir.Error) {
	u := &unflattener{c: c}
	for i := range sig.Params {
		p := &sig.Params[i]
		args = append(args, Arg{p.Name, u.param(p)})
	}
	if u.bad {
		return nil, ir.Errorf(ir.ErrRuntime, "export: a call of %s has too few integers, operands or numbers, or names a "+
			"second device", sig.Full)
	}
	return args, nil
}

// unflattener reads a flat call in order.
type unflattener struct {
	c          *Flat
	in, ni, ns int
	bad        bool
}

func (u *unflattener) int() int64 {
	if u.ni >= len(u.c.Ints) {
		u.bad = true
		return 0
	}
	u.ni++
	return u.c.Ints[u.ni-1]
}

func (u *unflattener) scalar() any {
	if u.ns >= len(u.c.Scalars) {
		u.bad = true
		return nil
	}
	u.ns++
	x := u.c.Scalars[u.ns-1]
	if x.Kind == op.ScalarComplex && u.ns < len(u.c.Scalars) {
		u.ns++
		return complexPrefix + floatText(x.Bits) + "," + floatText(u.c.Scalars[u.ns-1].Bits)
	}
	return x.value()
}

// complexPrefix begins a complex number; its parts follow with a comma between them.
const complexPrefix = "complex:"

func floatText(bits uint64) string {
	return strconv.FormatFloat(math.Float64frombits(bits), 'g', -1, 64)
}

// value is a scalar as the value of an argument.
func (s Scalar) value() any {
	switch v := op.Number(s.Kind, s.Bits); s.Kind {
	case op.ScalarFloat:
		if place, ok := v.Supplied(); ok {
			return Supplied(place)
		}
		return math.Float64frombits(s.Bits)
	case op.ScalarBool:
		return s.Bits != 0
	case op.ScalarInt:
		return int64(s.Bits)
	}
	return nil
}

func (u *unflattener) operand() any {
	if u.in >= len(u.c.In) {
		u.bad = true
		return nil
	}
	u.in++
	switch x := u.c.In[u.in-1]; x.Kind {
	case OperandValue:
		return Ref(x.ID)
	case OperandNumber:
		return u.scalar()
	}
	return nil
}

func (u *unflattener) param(p *op.Param) any {
	switch {
	case p.List:
		n := u.int()
		if n < 0 {
			return nil
		}
		list := []any{}
		for ; n > 0 && !u.bad; n-- {
			if p.Type == "Tensor" || p.Type == "Operand" {
				list = append(list, u.operand())
			} else {
				list = append(list, u.int())
			}
		}
		return list
	case p.Type == "Tensor" || p.Type == "Operand":
		return u.operand()
	case p.Type == "float" || p.Type == "Scalar":
		return u.scalar()
	case p.Opt && (p.Type == "int" || p.Type == "bool") && u.int() == 0:
		u.int()
		return nil
	}
	switch n := u.int(); p.Type {
	case "bool":
		return n != 0
	case "str":
		if n < 0 || int(n) >= len(p.Words) {
			return nil
		}
		return p.Words[n]
	case "dtype":
		if n <= 0 || n >= int64(ir.NumDTypes) {
			return nil
		}
		return ir.DType(n).String()
	case "device":
		return u.device(n)
	default:
		return n
	}
}

// device returns the text of a device in a file: "device" is the one that a run chooses. Another GPU is an error.
func (u *unflattener) device(n int64) any {
	switch {
	case n < 0:
		return nil
	case ir.DeviceID(n) == u.c.Device:
		return "device"
	case ir.DeviceID(n) != ir.CPU:
		u.bad = true
	}
	return "cpu"
}

// binder makes the flat encoding of a step from the values of its arguments.
type binder struct {
	s      *Step
	dims   map[string]int
	values int // that exist before the step
	places int // numbers that the function's formulas supply
}

func (b *binder) fail(p *op.Param, got json.RawMessage, want string) *ir.Error {
	text := string(got)
	if len(text) > 80 {
		text = text[:80] + "..."
	}
	return wrong("argument %s is wrong: got %s, want %s", p.Name, text, want)
}

// bind reads all arguments.
func (b *binder) bind(args map[string]json.RawMessage) *ir.Error {
	for name := range args {
		if !slices.ContainsFunc(b.s.Sig.Params, func(p op.Param) bool { return p.Name == name }) {
			return wrong("it has an argument %q, which the operator does not have", name)
		}
	}
	for i := range b.s.Sig.Params {
		p := &b.s.Sig.Params[i]
		text, ok := args[p.Name]
		if !ok {
			return wrong("argument %s is missing", p.Name)
		}
		v, err := b.param(p, text)
		if err != nil {
			return err
		}
		b.s.Args = append(b.s.Args, Arg{p.Name, v})
	}
	return nil
}

func (b *binder) param(p *op.Param, text json.RawMessage) (any, *ir.Error) {
	null := string(text) == "null"
	if !p.List {
		return b.single(p, text, null)
	}
	var list []json.RawMessage
	if null && p.Opt {
		b.int(-1)
		return nil, nil
	}
	if null || json.Unmarshal(text, &list) != nil {
		return nil, b.fail(p, text, "a list")
	}
	b.int(int64(len(list)))
	out := make([]any, 0, len(list))
	for _, x := range list {
		item := *p
		item.List, item.Opt = false, p.Type == "Tensor"
		v, err := b.single(&item, x, string(x) == "null")
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// lacks reports whether a tensor that the operator may have was not given. A norm without running statistics has no
// evaluation: it normalizes by its argument's own statistics in every mode.
func (b *binder) lacks(name string) bool {
	return slices.ContainsFunc(b.s.Args, func(a Arg) bool { return a.Name == name && a.Value == nil })
}

func (b *binder) int(n int64) { b.s.Ints = append(b.s.Ints, Int{Value: n}) }

// single reads an argument that is no list.
func (b *binder) single(p *op.Param, text json.RawMessage, null bool) (any, *ir.Error) {
	switch p.Type {
	case "Tensor", "Operand":
		return b.operand(p, text, null)
	case "float", "Scalar":
		if null {
			if !p.Opt {
				return nil, b.fail(p, text, "a number")
			}
			b.s.Scalars = append(b.s.Scalars, Scalar{})
			return nil, nil
		}
		return b.number(p, text)
	case "dtype", "device", "str":
		return b.word(p, text, null)
	}
	if p.Opt {
		if null {
			b.int(0)
			b.int(0)
			return nil, nil
		}
		b.int(1)
	}
	if p.Type == "bool" {
		var v bool
		if null || json.Unmarshal(text, &v) != nil {
			return nil, b.fail(p, text, "true or false")
		}
		x := Int{Value: int64(truth(v))}
		if trainParams[p.Name] && !b.lacks("running_mean") {
			x.Kind = IntTrain
		}
		b.s.Ints = append(b.s.Ints, x)
		return v, nil
	}
	x, err := b.size(text)
	if err != nil {
		return nil, b.fail(p, text, "an integer or an expression: "+err.Msg)
	}
	if n, ok := x.Constant(); ok {
		b.int(n)
		return n, nil
	}
	b.s.Ints = append(b.s.Ints, Int{Kind: IntSize, Expr: x})
	return x, nil
}

// size reads an integer, or the text of an expression.
func (b *binder) size(text json.RawMessage) (*Expr, *ir.Error) { return size(text, b.dims) }

func size(text json.RawMessage, dims map[string]int) (*Expr, *ir.Error) {
	if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		return Const(n), nil
	}
	var s string
	if json.Unmarshal(text, &s) != nil {
		return nil, wrong("it is no size")
	}
	return parseExpr(strings.TrimPrefix(s, "="), dims)
}

func (b *binder) operand(p *op.Param, text json.RawMessage, null bool) (any, *ir.Error) {
	if null && p.Opt {
		b.s.In = append(b.s.In, Operand{})
		return nil, nil
	}
	var s string
	if !null && json.Unmarshal(text, &s) == nil && strings.HasPrefix(s, "%") {
		id, err := strconv.Atoi(s[1:])
		if err != nil || id < 0 || id >= b.values {
			return nil, b.fail(p, text, "a value that exists before the step: %0 to %"+itoa(b.values-1))
		}
		b.s.In = append(b.s.In, Operand{OperandValue, id})
		return Ref(id), nil
	}
	if p.Type == "Tensor" {
		return nil, b.fail(p, text, "a value")
	}
	b.s.In = append(b.s.In, Operand{Kind: OperandNumber})
	return b.number(p, text)
}

// number reads a Scalar: a number, a supplied one, or an expression of sizes.
func (b *binder) number(p *op.Param, text json.RawMessage) (any, *ir.Error) {
	add := func(v any, s Scalar) (any, *ir.Error) {
		b.s.Scalars = append(b.s.Scalars, s)
		return v, nil
	}
	t := string(text)
	switch {
	case t == "true" || t == "false":
		v := t == "true"
		return add(v, Scalar{Kind: op.ScalarBool, Bits: uint64(truth(v))})
	case t != "" && t[0] != '"' && !strings.ContainsAny(t, ".eE"):
		if n, err := strconv.ParseInt(t, 10, 64); err == nil {
			return add(n, Scalar{Kind: op.ScalarInt, Bits: uint64(n)})
		}
	case t != "" && t[0] != '"':
		if f, err := strconv.ParseFloat(t, 64); err == nil {
			return add(f, Scalar{Kind: op.ScalarFloat, Bits: math.Float64bits(f)})
		}
	}
	var s string
	if json.Unmarshal(text, &s) != nil || s == "" {
		return nil, b.fail(p, text, "a number")
	}
	if f, ok := special[s]; ok {
		return add(f, Scalar{Kind: op.ScalarFloat, Bits: math.Float64bits(f)})
	}
	if s[0] == '$' {
		k, err := strconv.Atoi(s[1:])
		if err != nil || k < 0 || k >= b.places {
			return nil, b.fail(p, text, "a number that the function supplies")
		}
		return add(Supplied(k), Scalar{Kind: op.ScalarFloat, Place: k + 1})
	}
	if rest, ok := strings.CutPrefix(s, complexPrefix); ok {
		return b.complexNumber(p, text, rest)
	}
	kind, rest := op.ScalarInt, strings.TrimPrefix(s, "=")
	if after, ok := strings.CutPrefix(rest, "float:"); ok {
		kind, rest = op.ScalarFloat, after
	}
	x, err := parseExpr(rest, b.dims)
	if err != nil {
		return nil, b.fail(p, text, "a number or an expression: "+err.Msg)
	}
	return add(x, Scalar{Kind: kind, Expr: x})
}

// complexNumber reads a complex number, which is two scalars of a call: its parts.
func (b *binder) complexNumber(p *op.Param, text json.RawMessage, parts string) (any, *ir.Error) {
	re, im, _ := strings.Cut(parts, ",")
	x, failed := strconv.ParseFloat(re, 64)
	y, alsoFailed := strconv.ParseFloat(im, 64)
	if failed != nil || alsoFailed != nil {
		return nil, b.fail(p, text, "a complex number")
	}
	b.s.Scalars = append(b.s.Scalars, Scalar{Kind: op.ScalarComplex, Bits: math.Float64bits(x)},
		Scalar{Kind: op.ScalarFloat, Bits: math.Float64bits(y)})
	return complexPrefix + parts, nil
}

var special = map[string]float64{"inf": math.Inf(1), "-inf": math.Inf(-1), "nan": math.NaN()}

// word reads a dtype, a device or a word.
func (b *binder) word(p *op.Param, text json.RawMessage, null bool) (any, *ir.Error) {
	var s string
	if !null && json.Unmarshal(text, &s) != nil {
		return nil, b.fail(p, text, "a word")
	}
	switch {
	case p.Type == "device":
		return b.device(p, s, text, null)
	case null && p.Type == "dtype":
		b.int(0)
		return nil, nil
	case null && p.Opt:
		b.int(-1)
		return nil, nil
	case null:
		return nil, b.fail(p, text, "a word")
	case p.Type == "dtype":
		d := dtypeNamed(s)
		if d == ir.InvalidDType {
			return nil, b.fail(p, text, "a dtype")
		}
		b.int(int64(d))
		return s, nil
	}
	k := slices.Index(p.Words, s)
	if k < 0 {
		return nil, b.fail(p, text, strings.Join(p.Words, " or "))
	}
	b.int(int64(k))
	return s, nil
}

func (b *binder) device(p *op.Param, s string, text json.RawMessage, null bool) (any, *ir.Error) {
	switch {
	case null, s == "device":
		b.s.Ints = append(b.s.Ints, Int{Kind: IntDevice, Value: -1})
	case s == "cpu":
		b.int(int64(ir.CPU))
	default:
		return nil, b.fail(p, text, `"device" or "cpu"`)
	}
	if null {
		return nil, nil
	}
	return s, nil
}

// dtypeNamed returns the dtype of that name, InvalidDType for none.
func dtypeNamed(s string) ir.DType {
	for d := ir.InvalidDType + 1; d < ir.NumDTypes; d++ {
		if d.String() == s {
			return d
		}
	}
	return ir.InvalidDType
}
