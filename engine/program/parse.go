package program

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// Parse reads the text form. The program is sealed and verified.
func Parse(text string) (p *Program, err error) {
	s := &scanner{p: &Program{}}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *ir.Error:
			p, err = nil, fmt.Errorf("program: line %d: %w", s.line, r)
		case syntaxError:
			p, err = nil, fmt.Errorf("program: line %d: %s", s.line, r)
		default:
			panic(r)
		}
	}()
	for line := range strings.Lines(text) {
		s.line++
		s.rest, _, _ = strings.Cut(strings.TrimSuffix(line, "\n"), "#")
		if s.space(); s.rest != "" {
			s.item()
			s.end()
		}
	}
	p = s.p
	for i := range p.Nodes {
		if n := &p.Nodes[i]; n.IsPrim() && p.Prim(i).WritesView && n.Operands >= 2 && len(p.ScalarsOf(i)) > 0 {
			n.SameView = p.Relate(i)
		}
	}
	p.Seal()
	return p, p.Verify()
}

// MustParse is Parse for a text that is part of the source; it panics on an error.
func MustParse(text string) *Program {
	p, err := Parse(text)
	if err != nil {
		panic(err)
	}
	return p
}

// syntaxError is the error of a line.
type syntaxError string

// scanner reads one line.
type scanner struct {
	p    *Program
	line int
	rest string
	gap  bool // there was space before rest
}

func (s *scanner) fail(format string, args ...any) {
	panic(syntaxError(fmt.Sprintf(format, args...)))
}

func (s *scanner) space() {
	n := len(s.rest)
	s.rest = strings.TrimLeft(s.rest, " \t\r")
	s.gap = len(s.rest) < n
}

// try takes tok where it comes next.
func (s *scanner) try(tok string) bool {
	rest, ok := strings.CutPrefix(s.rest, tok)
	if ok {
		s.rest = rest
		s.space()
	}
	return ok
}

func (s *scanner) want(tok string) {
	if !s.try(tok) {
		s.fail("want %q, got %q", tok, s.rest)
	}
}

// word takes the longest beginning made of the letters, digits and signs of names and numbers.
func (s *scanner) word() string {
	n := 0
	for n < len(s.rest) && inWord(s.rest[n]) {
		n++
	}
	w := s.rest[:n]
	s.rest = s.rest[n:]
	s.space()
	return w
}

func inWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_.+-", c) >= 0
}

// keyword takes a whole word.
func (s *scanner) keyword(tok string) bool {
	old := s.rest
	if s.word() == tok {
		return true
	}
	s.rest = old
	return false
}

func (s *scanner) end() {
	if s.rest != "" {
		s.fail("unexpected %q", s.rest)
	}
}

func (s *scanner) int() int64 {
	w := s.word()
	n, err := strconv.ParseInt(w, 10, 64)
	if err != nil {
		s.fail("want a number, got %q", w)
	}
	return n
}

// index takes a number of at most limit.
func (s *scanner) index(limit int64) int {
	n := s.int()
	if n < 0 || n > limit {
		s.fail("number %d is not in [0, %d]", n, limit)
	}
	return int(n)
}

func (s *scanner) ints(open, stop string) []int64 {
	s.want(open)
	v := []int64{}
	for !s.try(stop) {
		if len(v) > 0 {
			s.want(",")
		}
		v = append(v, s.int())
	}
	return v
}

// maxDims bounds the rank of a value in a text.
const maxDims = 64

// sizes takes a shape.
func (s *scanner) sizes() []int64 {
	v := s.ints("[", "]")
	n := int64(1)
	for _, k := range v {
		if k < 0 || len(v) > maxDims || k > ir.MaxElements {
			s.fail("bad shape %v", v)
		}
		if n *= max(k, 1); n > ir.MaxElements {
			s.fail("shape %v is too large", v)
		}
		n = max(n, 1)
	}
	return v
}

// layout takes sizes and, where they are given, strides.
func (s *scanner) layout() *ir.Layout {
	shape := s.sizes()
	if !strings.HasPrefix(s.rest, "(") {
		return ir.DenseLayout(shape)
	}
	stride := s.ints("(", ")")
	if len(stride) != len(shape) {
		s.fail("%d strides of %d sizes", len(stride), len(shape))
	}
	for i, k := range stride {
		if k < 0 || k > ir.MaxElements/max(shape[i], 1) {
			s.fail("bad strides %v", stride)
		}
	}
	return ir.InternLayout(shape, stride)
}

func (s *scanner) aval() ir.AvalID {
	s.want(":")
	name := s.word()
	d := slices.Index(dtypeNames[:], name)
	if d <= 0 {
		s.fail("no dtype %q", name)
	}
	shape := s.sizes()
	dev := ir.CPU
	if s.try("@") {
		s.want("wgpu:")
		dev = ir.DeviceID(1 + s.index(200))
	}
	return ir.InternAval(ir.DType(d), dev, ir.DenseLayout(shape)).ID
}

// ref takes a value that exists already.
func (s *scanner) ref() Ref {
	if s.try("$") {
		return InputRef(s.index(int64(len(s.p.Inputs)) - 1))
	}
	s.want("%")
	return NodeRef(s.index(int64(len(s.p.Nodes)) - 1))
}

// operand takes a value and the view of it that is read.
func (s *scanner) operand() (r Ref, l ir.LayoutID, offset int64) {
	r = s.ref()
	if !strings.HasPrefix(s.rest, "[") {
		return r, s.p.Aval(r).Layout.ID, 0
	}
	l = s.layout().ID
	if !s.gap && s.try("+") {
		offset = s.int()
	}
	return r, l, offset
}

// item takes one line.
func (s *scanner) item() {
	if strings.HasPrefix(s.rest, "%") {
		s.node()
		return
	}
	switch w := s.word(); w {
	case "input", "constant", "state":
		s.want("$")
		if n := s.int(); n != int64(len(s.p.Inputs)) {
			s.fail("input $%d comes where $%d is due", n, len(s.p.Inputs))
		}
		s.p.Inputs = append(s.p.Inputs, Input{Aval: s.aval(), Role: Role(slices.Index(roleNames[:], w))})
	case "draws":
		s.p.Drawn = uint64(s.index(1 << 62))
	case "store":
		s.store()
	case "return":
		for s.rest != "" {
			r := Result{}
			r.Value, r.Layout, r.Offset = s.operand()
			if s.try("=") {
				r.Of = s.ref()
			}
			s.p.Results = append(s.p.Results, r)
		}
	default:
		s.fail("unknown item %q", w)
	}
}

func (s *scanner) store() {
	st := Store{Value: s.ref()}
	if s.keyword("over") {
		st.Prev = s.ref()
	}
	if !s.keyword("base") {
		s.fail("want the store's base, got %q", s.rest)
	}
	st.Base = uint32(s.index(1 << 30))
	if s.keyword("last") {
		st.Flags |= Last
	}
	if s.keyword("exclusive") {
		st.Flags |= Exclusive
	}
	if s.keyword("into") {
		st.Into = s.ref()
	}
	s.p.Stores = append(s.p.Stores, st)
}

func (s *scanner) node() {
	p := s.p
	s.want("%")
	if n := s.int(); n != int64(len(p.Nodes)) {
		s.fail("node %%%d comes where %%%d is due", n, len(p.Nodes))
	}
	s.want("=")
	name := s.word()
	n := Node{Op: ir.OpProj, Outputs: 1, Edge: uint32(len(p.Edges)), Scalar: uint32(len(p.Scalars))}
	if name == "result" {
		s.want("{")
		n.Attr = uint32(s.index(1 << 15))
		s.want("}")
	} else {
		prim := op.FindPrim(name)
		if prim == nil {
			s.fail("no primitive %q", name)
		}
		n.Op = uint16(prim.ID)
		n.Attr = ir.InternAttr(s.attrs(prim))
	}
	numbers := s.operands(&n)
	n.Aval = s.aval()
	if s.keyword("region") {
		n.Region = uint8(s.index(MaxRegions))
	}
	if s.keyword("live") {
		n.Live = LiveOutside
	}
	p.Nodes = append(p.Nodes, n)
	s.numbers(len(p.Nodes)-1, numbers)
}

func (s *scanner) attrs(prim *op.Prim) (attr []int64) {
	if !s.try("{") {
		return nil
	}
	for k := 0; !s.try("}"); k++ {
		if k > 0 {
			s.want(",")
		}
		switch {
		case prim.Variants != nil && k == prim.VariantAt:
			w := s.word()
			v := slices.Index(prim.Variants, w)
			if v < 0 {
				s.fail("%s has no member %q", prim.Name, w)
			}
			attr = append(attr, int64(v))
		case isLayout(prim, k):
			attr = append(attr, int64(s.layout().ID))
		default:
			attr = append(attr, s.int())
		}
	}
	return attr
}

// operands takes the operands of n and returns the texts of its numbers.
func (s *scanner) operands(n *Node) (numbers []string) {
	p := s.p
	for !strings.HasPrefix(s.rest, ":") {
		e, offset := Edge{}, int64(0)
		severed := s.try("~")
		taped, flat := s.try("^"), uint32(0)
		if taped && !strings.HasPrefix(s.rest, "$") && !strings.HasPrefix(s.rest, "%") {
			flat = uint32(s.index(math.MaxUint32))
		}
		if strings.HasPrefix(s.rest, "$") || strings.HasPrefix(s.rest, "%") {
			e.Value, e.Layout, offset = s.operand()
			if n.Op == ir.OpProj {
				e.Layout = 0
			}
		} else {
			w := s.word()
			if w == "" {
				s.fail("want an operand, got %q", s.rest)
			}
			numbers = append(numbers, w)
		}
		at := len(p.Edges)
		p.History, p.Severed = mark(p.History, at, taped), mark(p.Severed, at, severed)
		p.Flat = mark(p.Flat, at, flat)
		p.Edges, p.Offsets = append(p.Edges, e), append(p.Offsets, offset)
		if n.Operands++; n.Operands == 0 {
			s.fail("too many operands")
		}
	}
	return numbers
}

// mark appends the mark of edge number at. A list of marks exists from the first mark on that is not zero.
func mark[T comparable](marks []T, at int, v T) []T {
	var none T
	if marks == nil && v == none {
		return nil
	}
	if marks == nil {
		marks = slices.Repeat([]T{none}, at)
	}
	return append(marks, v)
}

// numbers encodes the numbers of node i, and counts its results.
func (s *scanner) numbers(i int, texts []string) {
	p := s.p
	n := &p.Nodes[i]
	at := len(p.Scalars)
	p.Scalars = append(p.Scalars, make([]uint64, len(texts))...)
	if !n.IsPrim() {
		if len(texts) > 0 {
			s.fail("a further result has no numbers")
		}
		return
	}
	types, err := p.scalarTypes(i)
	if err != nil {
		s.fail("%v", err)
	}
	k := 0
	for j, e := range p.OperandsOf(i) {
		if e.Value != 0 {
			continue
		}
		slot := uint32(at + k)
		switch w := texts[k]; {
		case w == "seed":
		case strings.HasPrefix(w, "draw+"):
			v, err := strconv.ParseUint(w[len("draw+"):], 10, 64)
			if err != nil || k == 0 || texts[k-1] != "seed" {
				s.fail("bad draw %q", w)
			}
			p.Scalars[slot] = v
			p.Draws = append(p.Draws, Draw{slot})
		default:
			bits, ok := parseNumber(w, types[j])
			if !ok {
				s.fail("%q is no %s", w, dtypeNames[types[j]])
			}
			p.Scalars[slot] = bits
		}
		k++
	}
	outs, err := p.Infer(i)
	if err != nil {
		s.fail("%v", err)
	}
	n.Outputs = uint8(len(outs))
}

// scalarTypes is ScalarTypes for a node that may have the wrong operands.
func (p *Program) scalarTypes(i int) (types []ir.DType, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: its rule fails: %v", PrimName(p.Nodes[i].Op), r)
		}
	}()
	return p.ScalarTypes(i), nil
}
