package saved

import (
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/torchlette/torchlette/ir"
)

// Expr is an expression of named sizes, or of named numbers. A size is an integer: + - * and // (rounding down), with
// an error where it overflows. A number is a float64, and has /, **, sqrt and comparisons besides, which give 0 or 1.
type Expr struct {
	op   string // "int", "float", "name", "neg", "sqrt", or an operator
	i    int64
	f    float64
	name int
	a, b *Expr
	text string
}

const (
	maxExprText  = 4096
	maxExprDepth = 64
)

// Pow computes powers in formulas. Packages that link the C library replace it with the C function pow, so that results
// have the last bits of Python's **, which calls pow too.
var Pow = math.Pow

func itoa(n int) string { return strconv.Itoa(n) }

// Const is the expression of a constant size.
func Const(n int64) *Expr {
	return &Expr{op: "int", i: n, f: float64(n), text: strconv.FormatInt(n, 10)}
}

// String is the text that the expression was read from.
func (x *Expr) String() string { return x.text }

// Constant is the value of an expression without names.
func (x *Expr) Constant() (n int64, ok bool) { return x.i, x.op == "int" }

// parser reads expressions, by Python's precedence.
type parser struct {
	text  string
	rest  string
	names map[string]int
	depth int
}

func wrong(format string, args ...any) *ir.Error {
	err := ir.Errorf(ir.ErrValue, "saved program: "+format, args...)
	err.Msg = strings.ToValidUTF8(err.Msg, "\uFFFD") // it may quote a part of the file
	return err
}

// parseExpr reads an expression of the named values.
func parseExpr(text string, names map[string]int) (x *Expr, err *ir.Error) {
	if len(text) > maxExprText {
		return nil, wrong("an expression has %d characters, want at most %d", len(text), maxExprText)
	}
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*ir.Error)
			if !ok {
				panic(r)
			}
			x, err = nil, e
		}
	}()
	p := &parser{text: text, rest: text, names: names}
	x = p.binary(0)
	if p.token(); p.rest != "" {
		p.fail("unexpected " + strconv.Quote(p.rest))
	}
	x.text = text
	return x, nil
}

func (p *parser) fail(why string) { panic(wrong("expression %q: %s", p.text, why)) }

// levels are the binary operators from the weakest to the strongest; longer ones first.
var levels = [][]string{{"==", "!=", "<=", ">=", "<", ">"}, {"+", "-"}, {"*", "//", "/"}}

// token drops spaces.
func (p *parser) token() { p.rest = strings.TrimLeft(p.rest, " ") }

// accept drops an operator if it comes next.
func (p *parser) accept(list []string) string {
	p.token()
	for _, s := range list {
		if strings.HasPrefix(p.rest, s) && !(s == "*" && strings.HasPrefix(p.rest, "**")) {
			p.rest = p.rest[len(s):]
			return s
		}
	}
	return ""
}

func (p *parser) binary(level int) *Expr {
	if level == len(levels) {
		return p.unary()
	}
	x := p.binary(level + 1)
	for {
		s := p.accept(levels[level])
		if s == "" {
			return x
		}
		x = &Expr{op: s, a: x, b: p.binary(level + 1)}
	}
}

func (p *parser) unary() *Expr {
	if p.depth++; p.depth > maxExprDepth {
		p.fail("it is nested more than " + itoa(maxExprDepth) + " deep")
	}
	defer func() { p.depth-- }()
	if p.accept([]string{"-"}) != "" {
		return &Expr{op: "neg", a: p.unary()}
	}
	x := p.atom()
	if p.accept([]string{"**"}) != "" {
		x = &Expr{op: "**", a: x, b: p.unary()}
	}
	return x
}

func (p *parser) atom() *Expr {
	if p.accept([]string{"("}) != "" {
		x := p.binary(0)
		if p.accept([]string{")"}) == "" {
			p.fail("a parenthesis is open")
		}
		return x
	}
	n := 0
	for n < len(p.rest) && (isWord(p.rest[n]) || p.rest[n] == '.' ||
		(p.rest[n] == '+' || p.rest[n] == '-') && n > 0 && p.rest[n-1] == 'e' && p.rest[0] <= '9') {
		n++
	}
	word := p.rest[:n]
	p.rest = p.rest[n:]
	switch {
	case word == "":
		p.fail("a number or a name is missing")
	case word == "sqrt":
		if p.token(); !strings.HasPrefix(p.rest, "(") {
			p.fail("sqrt wants parentheses")
		}
		return &Expr{op: "sqrt", a: p.atom()}
	case word[0] <= '9':
		return p.number(word)
	}
	i, ok := p.names[word]
	if !ok {
		p.fail(strconv.Quote(word) + " has no meaning")
	}
	return &Expr{op: "name", name: i}
}

func (p *parser) number(word string) *Expr {
	if i, err := strconv.ParseInt(word, 10, 64); err == nil {
		return &Expr{op: "int", i: i, f: float64(i), text: word}
	}
	f, err := strconv.ParseFloat(word, 64)
	if err != nil {
		p.fail(strconv.Quote(word) + " is no number")
	}
	return &Expr{op: "float", f: f}
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// Int is the value as a size; names are the sizes.
func (x *Expr) Int(names []int64) (int64, *ir.Error) {
	switch x.op {
	case "int":
		return x.i, nil
	case "name":
		return names[x.name], nil
	case "neg":
		a, err := x.a.Int(names)
		return -a, err
	case "+", "-", "*", "//":
		a, err := x.a.Int(names)
		if err != nil {
			return 0, err
		}
		b, err := x.b.Int(names)
		if err != nil {
			return 0, err
		}
		return integer(x.op, a, b)
	}
	return 0, wrong("a size has the operator %q, which sizes do not have", x.op)
}

// integer computes with sizes.
func integer(op string, a, b int64) (v int64, err *ir.Error) {
	over := false
	switch op {
	case "+":
		v = a + b
		over = (v > a) != (b > 0) && b != 0
	case "-":
		v = a - b
		over = (v < a) != (b > 0) && b != 0
	case "*":
		hi, lo := bits.Mul64(magnitude(a), magnitude(b))
		v, over = a*b, hi != 0 || lo > math.MaxInt64
	case "//":
		if b == 0 {
			return 0, wrong("a size is divided by 0")
		}
		if v = a / b; a%b != 0 && (a < 0) != (b < 0) {
			v--
		}
	}
	if over {
		return 0, wrong("a size is too large: %d %s %d", a, op, b)
	}
	return v, nil
}

func magnitude(a int64) uint64 {
	if a < 0 {
		return -uint64(a)
	}
	return uint64(a)
}

// Float is the value as a number; names are the numbers.
func (x *Expr) Float(names []float64) float64 {
	switch x.op {
	case "int", "float":
		return x.f
	case "name":
		return names[x.name]
	case "neg":
		return -x.a.Float(names)
	case "sqrt":
		return math.Sqrt(x.a.Float(names))
	}
	a, b := x.a.Float(names), x.b.Float(names)
	switch x.op {
	case "+":
		return a + b
	case "-":
		return a - b
	case "*":
		return a * b
	case "/":
		return a / b
	case "//":
		return math.Floor(a / b)
	case "**":
		return Pow(a, b)
	}
	return truth(map[string]bool{"==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[x.op])
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
