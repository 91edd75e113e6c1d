package saved

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// Version is the version of programs that this package writes and reads. Changing the meaning of a step requires a new
// version.
const Version = 1

// Program is a saved program.
type Program struct {
	Dims      []Dim
	Constants []Constant
	// Numbers are held by the host and read by formulas: learning rates, step counts.
	Numbers   []Number
	Functions map[string]*Function
	// Text is what Parse read.
	Text []byte
}

// Dim is a named size. Max is -1 where there is no bound.
type Dim struct {
	Name     string
	Min, Max int64
}

// Kind is the kind of a constant.
type Kind string

// The kinds. Nothing but state_dict and reports depends on them.
const (
	Parameter Kind = "parameter"
	Buffer    Kind = "buffer"
	Tensor    Kind = "tensor"
	State     Kind = "state" // an optimizer's
)

// Constant is a tensor that the program holds; its elements lie in the file's tensors under its name.
type Constant struct {
	Name         string
	Kind         Kind
	DType        ir.DType
	Shape        []int64
	RequiresGrad bool
}

// Number is a number that the host holds, rounded to DType at each write.
type Number struct {
	Name  string
	DType ir.DType
	Value float64
}

// Value describes an input, or the result of a step.
type Value struct {
	Name  string
	DType ir.DType
	Shape []*Expr
}

// Output is a result of a function.
type Output struct {
	Name string
	ID   int
}

// Function is a list of steps. Values are numbered: first the inputs, then the program's constants, then the results
// of the steps in order.
type Function struct {
	Name    string
	Inputs  []Value
	Steps   []Step
	Outputs []Output
	// State lists the constants that the function changes, by their numbers among the constants.
	State []int
	// Formulas compute numbers in order. Supplied lists the numbers that steps take, Guards the conditions, and Writes
	// the numbers that get new values after a run.
	Formulas []Formula
	Supplied []int
	Guards   []Guard
	Writes   []Write
	// Values counts all values, also those of bodies. LastUse has, by value, the last step that refers to it, -1 where a
	// result outlives the function or nothing refers to the value.
	Values  int
	LastUse []int
	values  []Value
}

// Formula computes a number from numbers of the host and from earlier formulas.
type Formula struct {
	Name string
	Expr *Expr
}

// Guard says that a formula must have a value: else the function does not fit.
type Guard struct {
	Formula int
	Want    float64
}

// Write gives a number of the program the value of a formula.
type Write struct{ Number, Formula int }

// Step is a call of an operator.
type Step struct {
	Op      string // full name
	Sig     *op.Sig
	ID      op.OpID // 0: a call of the engine, see Calls
	InPlace bool
	NoGrad  bool
	// Autocast has the dtypes that autocast casts to, on the CPU and on GPUs.
	Autocast [2]ir.DType
	// At is the line of the call, "" where it is unknown.
	At   string
	Args []Arg
	// Outs describes the results; First is the number of the first one.
	Outs  []Value
	First int
	// Body is what a loop repeats, nil for other steps.
	Body *Body
	// The call in flat encoding, see op.Sig.
	In      []Operand
	Ints    []Int
	Scalars []Scalar
}

// Arg is a named argument. Value is nil (None), an int64, a float64, a bool, a string (a word, a dtype, "device" or
// "cpu"), a Ref, a Supplied, an *Expr, or a list ([]any) of these.
type Arg struct {
	Name  string
	Value any
}

// Ref is the number of a value, Supplied the place of a number that the function's formulas compute.
type (
	Ref      int
	Supplied int
)

// Calls are the calls of the engine, other than operators, that a step may name: the walk of autograd, gradients, and
// loops.
var Calls = map[string]*op.Sig{
	"engine.backward": call("engine.backward(Tensor[] roots, Tensor[] grads, Tensor[] inputs, int flags) -> " +
		"Tensor[]"),
	"engine.grad":           call("engine.grad(Tensor self) -> Tensor"),
	"engine.set_grad":       call("engine.set_grad(Tensor self, Tensor? grad) -> Tensor[]"),
	"engine.requires_grad_": call("engine.requires_grad_(Tensor self, bool value) -> Tensor[]"),
	LoopCall: call(LoopCall + "(Tensor[] carries, Tensor[] xs, int length, bool reverse, bool ends) -> " +
		"Tensor[]"),
}

func call(sig string) *op.Sig {
	s, err := op.ParseSig(sig)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	s.Full = sig[:strings.IndexByte(sig, '(')]
	s.Name = s.Full
	return s
}

// Constant returns the number of the constant that value id is in f; -1 for other values.
func (p *Program) Constant(f *Function, id int) int {
	if k := id - len(f.Inputs); k >= 0 && k < len(p.Constants) {
		return k
	}
	return -1
}

// ValueName returns the name of a value for messages and listings. Inputs and constants have names; others are %number.
func (p *Program) ValueName(f *Function, id int) string {
	switch k := p.Constant(f, id); {
	case id < 0:
		return "None"
	case id < len(f.Inputs):
		return f.Inputs[id].Name
	case k >= 0:
		return p.Constants[k].Name
	}
	return "%" + itoa(id)
}

// Value describes value id of f.
func (f *Function) Value(id int) *Value { return &f.values[id] }

// Refs calls use for each value that the step refers to, in the signature's order; then for the values that its body
// reads from outside.
func (s *Step) Refs(use func(id int)) {
	for _, x := range s.In {
		if x.Kind == OperandValue {
			use(x.ID)
		}
	}
	if s.Body != nil {
		s.Body.refs(s.First, use)
	}
}

// lastUses fills LastUse.
func (f *Function) lastUses() {
	f.LastUse = make([]int, f.Values)
	for i := range f.LastUse {
		f.LastUse[i] = -1
	}
	for i := range f.Steps {
		s := &f.Steps[i]
		for k := range s.Outs {
			f.LastUse[s.First+k] = i
		}
		s.Refs(func(id int) { f.LastUse[id] = i })
	}
	for _, o := range f.Outputs {
		f.LastUse[o.ID] = -1
	}
}

// names lists the functions in order.
func (p *Program) names() []string {
	var list []string
	for name := range p.Functions {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// raw is the text of a program as JSON.
type raw struct {
	Format    string
	Version   int
	Dims      []rawDim
	Constants []rawConstant
	Numbers   []rawNumber
	Functions map[string]*rawFunction
	Python    json.RawMessage // structures of arguments and results, for the Python package alone
}

type rawDim struct {
	Name     string
	Min, Max *int64
}

type rawConstant struct {
	Name, Kind, DType string
	Shape             []int64
	RequiresGrad      bool `json:"requires_grad"`
}

type rawNumber struct {
	Name, DType string
	Value       float64
}

type rawValue struct {
	Name, DType string
	Shape       []json.RawMessage
}

type rawFunction struct {
	Inputs  []rawValue
	Steps   []rawStep
	Outputs []struct {
		Name  string
		Value string
	}
	State    []string
	Formulas [][2]string
	Supplied []string
	Guards   []struct {
		Formula string
		Want    float64
	}
	Writes []struct{ Number, Formula string }
}

type rawStep struct {
	Op       string
	Args     map[string]json.RawMessage
	Out      []rawValue
	Mode     string
	NoGrad   bool `json:"no_grad"`
	Autocast [2]string
	At       string
	Body     *rawBody
}
