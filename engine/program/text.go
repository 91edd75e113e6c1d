package program

import (
	"math"
	"strconv"
	"strings"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// dtypeNames are the dtypes of the text form: the short names of ir's table in small letters.
var dtypeNames = func() (names [ir.NumStored]string) {
	for d := ir.Bool; d < ir.NumStored; d++ {
		names[d] = strings.ToLower(d.Info().Short)
	}
	return names
}()

var roleNames = [...]string{Argument: "input", Constant: "constant", State: "state"}

// String is the text form, which Parse reads.
func (p *Program) String() string { return p.Format(nil) }

// Format is the text form with a comment beside each node for which note returns one.
func (p *Program) Format(note func(i int) string) string {
	w := &printer{p: p}
	for i := range p.Inputs {
		w.input(i)
	}
	if p.Drawn > 0 {
		w.WriteString("draws " + strconv.FormatUint(p.Drawn, 10) + "\n")
	}
	for i := range p.Nodes {
		w.node(i)
		if note != nil {
			if s := note(i); s != "" {
				w.WriteString("  # " + s)
			}
		}
		w.WriteByte('\n')
	}
	for i := range p.Stores {
		w.store(&p.Stores[i])
	}
	if len(p.Results) > 0 {
		w.WriteString("return")
		for _, r := range p.Results {
			w.WriteByte(' ')
			w.operand(r.Value, r.Layout, r.Offset)
			if r.Of != 0 {
				w.WriteByte('=')
				w.ref(r.Of)
			}
		}
		w.WriteByte('\n')
	}
	return w.String()
}

type printer struct {
	strings.Builder
	p *Program
}

func (w *printer) ref(r Ref) {
	if r.IsInput() {
		w.WriteByte('$')
	} else {
		w.WriteByte('%')
	}
	w.WriteString(strconv.Itoa(r.Index()))
}

func (w *printer) list(v []int64) {
	for i, n := range v {
		if i > 0 {
			w.WriteByte(',')
		}
		w.WriteString(strconv.FormatInt(n, 10))
	}
}

// view writes sizes, and strides where they are not dense.
func (w *printer) view(l *ir.Layout) {
	w.WriteByte('[')
	w.list(l.Shape)
	w.WriteByte(']')
	if l.ID != l.Contig {
		w.WriteByte('(')
		w.list(l.Stride)
		w.WriteByte(')')
	}
}

// operand writes a value and the view of it that is read: nothing for the whole value in order.
func (w *printer) operand(r Ref, id ir.LayoutID, offset int64) {
	w.ref(r)
	if id == 0 || id == w.p.Aval(r).Layout.ID && offset == 0 {
		return
	}
	w.view(ir.LayoutOf(id))
	if offset != 0 {
		w.WriteByte('+')
		w.WriteString(strconv.FormatInt(offset, 10))
	}
}

func (w *printer) aval(id ir.AvalID) {
	av := ir.AvalOf(id)
	w.WriteString(" : " + dtypeNames[av.DType])
	w.WriteByte('[')
	w.list(av.Shape())
	w.WriteByte(']')
	if av.Device != ir.CPU {
		w.WriteString("@" + ir.DeviceName(av.Device))
	}
}

func (w *printer) input(i int) {
	in := &w.p.Inputs[i]
	w.WriteString(roleNames[in.Role] + " ")
	w.ref(InputRef(i))
	w.aval(in.Aval)
	w.WriteByte('\n')
}

func (w *printer) node(i int) {
	p, n := w.p, &w.p.Nodes[i]
	w.ref(NodeRef(i))
	w.WriteString(" = ")
	if !n.IsPrim() {
		w.WriteString("result{" + strconv.Itoa(int(n.Attr)) + "}")
	} else {
		w.WriteString(p.Prim(i).Name)
		w.attrs(p.Prim(i), p.Attrs(i))
	}
	offs, scalars := p.OffsetsOf(i), p.ScalarsOf(i)
	var types []ir.DType
	if n.IsPrim() {
		types = p.ScalarTypes(i)
	}
	sc := 0
	for j, e := range p.OperandsOf(i) {
		w.WriteByte(' ')
		if e.Value == 0 {
			w.WriteString(w.number(int(n.Scalar)+sc, types[j], scalars[sc]))
			sc++
			continue
		}
		if p.Severed != nil && p.Severed[int(n.Edge)+j] {
			w.WriteByte('~')
		}
		if p.History != nil && p.History[int(n.Edge)+j] {
			w.WriteByte('^')
			if p.Flat != nil && p.Flat[int(n.Edge)+j] != 0 {
				w.WriteString(strconv.Itoa(int(p.Flat[int(n.Edge)+j])))
			}
		}
		w.operand(e.Value, e.Layout, offs[j])
	}
	w.aval(n.Aval)
	if n.Region != 0 {
		w.WriteString(" region " + strconv.Itoa(int(n.Region)))
	}
	if n.Live == LiveOutside {
		w.WriteString(" live")
	}
}

func (w *printer) attrs(prim *op.Prim, attr []int64) {
	if len(attr) == 0 {
		return
	}
	w.WriteByte('{')
	for k, v := range attr {
		if k > 0 {
			w.WriteByte(',')
		}
		switch {
		case prim.Variants != nil && k == prim.VariantAt:
			w.WriteString(prim.Variants[v])
		case isLayout(prim, k):
			w.view(ir.LayoutOf(ir.LayoutID(v)))
		default:
			w.WriteString(strconv.FormatInt(v, 10))
		}
	}
	w.WriteByte('}')
}

func isLayout(prim *op.Prim, attr int) bool {
	for _, k := range prim.LayoutAttrs {
		if k == attr {
			return true
		}
	}
	return false
}

// number writes the number of a slot: seed and draw+n; or the value in the slot's dtype; or its bits where the value's
// text would read as another number.
func (w *printer) number(slot int, d ir.DType, bits uint64) string {
	for _, x := range w.p.Draws {
		if int(x.Scalar) == slot {
			return "draw+" + strconv.FormatUint(bits, 10)
		}
		if int(x.Scalar) == slot+1 {
			return "seed"
		}
	}
	s := ""
	switch {
	case d.IsFloat():
		s = formatFloat(ir.DecodeFloat(d, bits), d)
	case d == ir.Bool:
		s = strconv.FormatBool(bits != 0)
	case d == ir.I64:
		s = strconv.FormatInt(int64(bits), 10)
	default:
		s = strconv.FormatInt(int64(ir.DecodeFloat(d, bits)), 10)
	}
	if back, ok := parseNumber(s, d); !ok || back != bits {
		return "0x" + strconv.FormatUint(bits, 16)
	}
	return s
}

func formatFloat(v float64, d ir.DType) string {
	size := 32
	if d.ComputeType() == ir.F64 {
		size = 64
	}
	s := strings.TrimPrefix(strconv.FormatFloat(v, 'g', -1, size), "+")
	if !strings.ContainsAny(s, ".eIN") {
		s += ".0"
	}
	return s
}

// parseNumber returns the bits of a number in a slot of dtype d.
func parseNumber(s string, d ir.DType) (bits uint64, ok bool) {
	if hex, isHex := strings.CutPrefix(s, "0x"); isHex {
		v, err := strconv.ParseUint(hex, 16, 64)
		return v, err == nil
	}
	switch {
	case s == "true" || s == "false":
		return map[string]uint64{"true": 1}[s], d == ir.Bool
	case d.IsFloat():
		v, err := strconv.ParseFloat(s, 64)
		return ir.EncodeFloat(d, v), err == nil || math.IsInf(v, 0)
	case d.IsInt():
		v, err := strconv.ParseInt(s, 10, 64)
		return ir.EncodeInt(d, v), err == nil
	}
	return 0, false
}

func (w *printer) store(s *Store) {
	w.WriteString("store ")
	w.ref(s.Value)
	if s.Prev != 0 {
		w.WriteString(" over ")
		w.ref(s.Prev)
	}
	w.WriteString(" base " + strconv.Itoa(int(s.Base)))
	if s.Flags&Last != 0 {
		w.WriteString(" last")
	}
	if s.Flags&Exclusive != 0 {
		w.WriteString(" exclusive")
	}
	if s.Into != 0 {
		w.WriteString(" into ")
		w.ref(s.Into)
	}
	w.WriteByte('\n')
}
