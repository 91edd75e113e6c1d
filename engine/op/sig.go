package op

import (
	"fmt"
	"slices"
	"strings"
)

// Sig is a parsed signature.
//
// Grammar: name[.overload](param, ..., *, keyword-only ...) -> result, where a
// param is "type name[=default]". Types:
//
//	Tensor Tensor? Tensor[]   tensors
//	Operand                   a tensor or a Python number (PyTorch's wrapped number)
//	int int? bool bool? float float? Scalar Scalar?
//	int[] int[]? int[]*       lists, or one int as a list of one; * also accepts the ints
//	                          spread as positional arguments
//	dtype? device? str(a|b|c) enums are encoded as the index of the word; str(a|b)?
//
// A factory's "bool requires_grad=False" is applied to the result by the caller of Eval.
//
// Flat encoding of a call, in parameter order:
//
//	Tensor, Tensor?, Operand  one entry of inputs: a handle, 0 for None, or (Operand) the
//	                          marker 1<<63 when the next scalar is the operand
//	Tensor[]                  ints: the length; then that many inputs
//	int, bool, str            ints: one
//	str?                      ints: one, -1 for None
//	int?, bool?               ints: given (0 or 1), value
//	int[], int[]?, int[]*     ints: length (-1 None), values
//	dtype?                    ints: ir.DType, 0 for None
//	device?                   ints: device id, -1 for None
//	float, Scalar             scalars: kind and 64 bits; float?, Scalar? kind 0 for None
type Sig struct {
	Full    string // name with overload
	Name    string
	Params  []Param
	Results []Result
}

// Param is one parameter.
type Param struct {
	Name    string
	Type    string   // without "?", "[]" and "*"
	List    bool     // "[]"
	Opt     bool     // "?": None is allowed
	Spread  bool     // "*": varargs are allowed
	Words   []string // of str(...)
	Default string   // Python literal, "" where the parameter is required
	KwOnly  bool
}

// Result is one result. Name is set for named tuples; List marks Tensor[].
type Result struct {
	Name string
	List bool
}

// RequiresGrad is the index of a factory's parameter requires_grad; -1 for other operators.
func (s *Sig) RequiresGrad() int {
	return slices.IndexFunc(s.Params, func(p Param) bool { return p.Name == "requires_grad" })
}

// ParseSig parses a signature.
func ParseSig(s string) (*Sig, error) {
	bad := func(why string) error { return fmt.Errorf("signature %q: %s", s, why) }
	head, tail, ok := strings.Cut(s, ") ->")
	if !ok {
		return nil, bad("no result")
	}
	name, params, ok := strings.Cut(head, "(")
	if !ok {
		return nil, bad("no parameter list")
	}
	sig := &Sig{Full: name}
	sig.Name, _, _ = strings.Cut(name, ".")
	kw := false
	for _, p := range splitTop(params) {
		if p == "*" {
			kw = true
			continue
		}
		q, err := parseParam(p)
		if err != nil {
			return nil, bad(err.Error())
		}
		q.KwOnly = kw
		sig.Params = append(sig.Params, q)
	}
	res := strings.TrimSpace(tail)
	res = strings.TrimSuffix(strings.TrimPrefix(res, "("), ")")
	for _, r := range splitTop(res) {
		t, n, _ := strings.Cut(r, " ")
		if t != "Tensor" && t != "Tensor[]" {
			return nil, bad("result type " + t)
		}
		sig.Results = append(sig.Results, Result{Name: n, List: t == "Tensor[]"})
	}
	return sig, nil
}

// splitTop splits at commas outside brackets.
func splitTop(s string) []string {
	var out []string
	depth, start := 0, 0
	for i := 0; i <= len(s); i++ {
		if i == len(s) || (s[i] == ',' && depth == 0) {
			if f := strings.TrimSpace(s[start:i]); f != "" {
				out = append(out, f)
			}
			start = i + 1
			continue
		}
		switch s[i] {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		}
	}
	return out
}

var baseTypes = map[string]bool{"Tensor": true, "Operand": true, "int": true, "bool": true, "float": true,
	"Scalar": true, "dtype": true, "device": true, "str": true}

func parseParam(s string) (Param, error) {
	t, rest, ok := strings.Cut(s, " ")
	if !ok {
		return Param{}, fmt.Errorf("parameter %q", s)
	}
	var p Param
	p.Name, p.Default, _ = strings.Cut(strings.TrimSpace(rest), "=")
	if strings.HasSuffix(t, "*") {
		p.Spread, t = true, t[:len(t)-1]
	}
	if strings.HasSuffix(t, "?") {
		p.Opt, t = true, t[:len(t)-1]
	}
	if strings.HasSuffix(t, "[]") {
		p.List, t = true, t[:len(t)-2]
	}
	if strings.HasPrefix(t, "str(") {
		p.Words = strings.Split(strings.TrimSuffix(t[4:], ")"), "|")
		t = "str"
	}
	if !baseTypes[t] {
		return Param{}, fmt.Errorf("unknown type %q", t)
	}
	p.Type = t
	return p, nil
}
