package program

import (
	"fmt"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// Verify reports the first thing in p that no recording makes, so that later code may rely on the rest.
func (p *Program) Verify() error {
	if n := len(p.Edges); len(p.Offsets) != n || p.History != nil && len(p.History) != n ||
		p.Severed != nil && len(p.Severed) != n || p.Flat != nil && len(p.Flat) != n {
		return fmt.Errorf("program: %d operands with %d offsets", len(p.Edges), len(p.Offsets))
	}
	for i := range p.Inputs {
		if p.Inputs[i].Aval == 0 || p.Inputs[i].Role > State {
			return fmt.Errorf("program: input $%d has no dtype and shape, or no role", i)
		}
	}
	if err := p.verifyPlaces(); err != nil {
		return err
	}
	for i := range p.Nodes {
		if err := p.verifyNode(i); err != nil {
			return err
		}
	}
	if err := p.verifyStores(); err != nil {
		return err
	}
	return p.verifyEnds()
}

// verifyPlaces reports operands and numbers that do not follow each other in the order of their nodes.
func (p *Program) verifyPlaces() error {
	edge, scalar := uint32(0), uint32(0)
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if n.Edge != edge || n.Scalar != scalar || uint64(edge)+uint64(n.Operands) > uint64(len(p.Edges)) {
			return p.at(i, "its operands do not follow those of the node before")
		}
		for _, e := range p.OperandsOf(i) {
			edge++
			if e.Value == 0 {
				scalar++
			}
		}
		if scalar > uint32(len(p.Scalars)) {
			return p.at(i, "it has more numbers than there are")
		}
	}
	if int(edge) != len(p.Edges) || int(scalar) != len(p.Scalars) {
		return fmt.Errorf("program: %d operands and %d numbers belong to no node", len(p.Edges)-int(edge),
			len(p.Scalars)-int(scalar))
	}
	return nil
}

// at makes an error about node i.
func (p *Program) at(i int, format string, args ...any) error {
	name := "?"
	if o := p.Nodes[i].Op; o == ir.OpProj || int(o) <= len(op.Prims()) && o > 0 {
		name = PrimName(o)
	}
	return fmt.Errorf("program: %%%d, %s: %s", i, name, fmt.Sprintf(format, args...))
}

func (p *Program) verifyNode(i int) error {
	n := &p.Nodes[i]
	if n.Op == ir.OpFree || n.IsPrim() && int(n.Op) > len(op.Prims()) || n.Op > ir.OpProj {
		return p.at(i, "no primitive has number %d", n.Op)
	}
	if n.Aval == 0 {
		return p.at(i, "it has no dtype and shape")
	}
	offs := p.OffsetsOf(i)
	for j, e := range p.OperandsOf(i) {
		if e.Value == 0 {
			continue
		}
		if !p.there(e.Value, i) {
			return p.at(i, "operand %d names a value that is not there yet", j)
		}
		if n.IsPrim() {
			if err := p.verifyView(e, offs[j]); err != nil {
				return p.at(i, "operand %d %v", j, err)
			}
		}
	}
	if !n.IsPrim() {
		return p.verifyFurther(i)
	}
	return p.verifyPrim(i)
}

// there reports that a value exists before node i.
func (p *Program) there(r Ref, i int) bool {
	if r.IsInput() {
		return r.Index() < len(p.Inputs)
	}
	return r.Index() < i
}

func (p *Program) verifyView(e Edge, offset int64) error {
	if e.Layout == 0 {
		return fmt.Errorf("has no layout")
	}
	l := ir.LayoutOf(e.Layout)
	if size := p.Aval(e.Value).Layout.Numel; l.Numel > 0 && (offset < 0 || offset+l.Span > size) {
		return fmt.Errorf("reads element %d of a value of %d", offset+l.Span-1, size)
	}
	return nil
}

// verifyFurther checks a further result of a primitive.
func (p *Program) verifyFurther(i int) error {
	n := &p.Nodes[i]
	es := p.OperandsOf(i)
	if len(es) != 1 || !es[0].Value.IsNode() || !p.Nodes[es[0].Value.Index()].IsPrim() {
		return p.at(i, "it names no primitive")
	}
	main := es[0].Value.Index()
	if n.Attr == 0 || n.Attr >= uint32(p.Nodes[main].Outputs) || n.Outputs != 1 {
		return p.at(i, "%s has %d results, there is none of number %d", PrimName(p.Nodes[main].Op), p.Nodes[main].Outputs,
			n.Attr)
	}
	outs, err := p.Infer(main)
	if err != nil {
		return p.at(i, "%v", err)
	}
	return p.verifyAval(i, outs[n.Attr])
}

func (p *Program) verifyAval(i int, o op.OutSpec) error {
	av := ir.AvalOf(p.Nodes[i].Aval)
	if av.DType != o.DType || !slices.Equal(av.Shape(), o.Shape) {
		return p.at(i, "it is %s%v, its primitive makes %s%v", dtypeNames[av.DType], av.Shape(), dtypeNames[o.DType], o.Shape)
	}
	return nil
}

func (p *Program) verifyPrim(i int) error {
	n, prim := &p.Nodes[i], p.Prim(i)
	if prim.NIn >= 0 && int(n.Operands) != prim.NIn {
		return p.at(i, "it has %d operands, want %d", n.Operands, prim.NIn)
	}
	outs, err := p.Infer(i)
	if err != nil {
		return p.at(i, "%v", err)
	}
	if len(outs) != int(n.Outputs) {
		return p.at(i, "it has %d results, its primitive makes %d", n.Outputs, len(outs))
	}
	if err := p.verifyAval(i, outs[0]); err != nil {
		return err
	}
	if _, same := p.device(i); !same && !prim.Moves {
		return p.at(i, "its operands are on several devices")
	}
	if prim.WritesView {
		if n.SameView != p.Relate(i) {
			return p.at(i, "the views that it shares with the maker of its value are %b, not %b", p.Relate(i), n.SameView)
		}
	} else if n.SameView != 0 {
		return p.at(i, "it shares views, but writes through none")
	}
	return nil
}

func (p *Program) verifyStores() error {
	last := map[uint32]bool{}
	for k := range p.Stores {
		s := &p.Stores[k]
		bad := func(format string, args ...any) error {
			return fmt.Errorf("program: store %d: %s", k, fmt.Sprintf(format, args...))
		}
		if s.Value == 0 || !p.there(s.Value, len(p.Nodes)) || s.Prev != 0 && !p.there(s.Prev, len(p.Nodes)) {
			return bad("it names a value that is not there")
		}
		if s.Prev != 0 {
			if a, b := p.Aval(s.Prev), p.Aval(s.Value); a.DType != b.DType || a.Device != b.Device ||
				a.Layout.Numel != b.Layout.Numel {
				return bad("the version before has another dtype, size or device")
			}
		}
		if s.Into != 0 && (!s.Into.IsInput() || s.Into.Index() >= len(p.Inputs)) {
			return bad("what it writes into is no input")
		}
		if last[s.Base] {
			return bad("base %d had its last store before", s.Base)
		}
		if s.Flags&Last != 0 {
			last[s.Base] = true
			if s.Value.IsNode() && p.Nodes[s.Value.Index()].Live != LiveOutside {
				return bad("the base refers to a value that is not live outside")
			}
		}
	}
	return nil
}

// verifyEnds checks results and draws.
func (p *Program) verifyEnds() error {
	for k, r := range p.Results {
		if r.Value == 0 || !p.there(r.Value, len(p.Nodes)) {
			return fmt.Errorf("program: result %d names a value that is not there", k)
		}
		if r.Of != 0 && (!r.Of.IsInput() || r.Of.Index() >= len(p.Inputs)) {
			return fmt.Errorf("program: result %d is an alias of no input", k)
		}
		if err := p.verifyView(Edge{r.Value, r.Layout}, r.Offset); err != nil {
			return fmt.Errorf("program: result %d %w", k, err)
		}
		if r.Value.IsNode() && p.Nodes[r.Value.Index()].Live != LiveOutside {
			return fmt.Errorf("program: result %d is a value that is not live outside", k)
		}
	}
	for _, d := range p.Draws {
		if d.Scalar == 0 || int(d.Scalar) >= len(p.Scalars) || p.Scalars[d.Scalar] >= p.Drawn {
			return fmt.Errorf("program: the draw of number %d takes an offset beyond the %d of a call", d.Scalar, p.Drawn)
		}
	}
	return nil
}
