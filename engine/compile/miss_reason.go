package compile

import (
	"fmt"

	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// Numbered returns the plan that was added as the n-th, or nil where it was evicted.
func (c *Cache) Numbered(n int64) *Plan {
	for _, list := range c.byHash {
		for _, p := range list {
			if p.Number == n {
				return p
			}
		}
	}
	return nil
}

// MissReason says why no plan of c serves program g: the first difference from the plan that has the longest beginning
// in common with g.
func (c *Cache) MissReason(g *program.Program) string {
	var near *Plan
	var at place
	for _, list := range c.byHash {
		for _, p := range list {
			k := differ(p.Program, g)
			if k == (place{}) {
				continue
			}
			if at.before(k) || near != nil && k == at && p.Number > near.Number {
				near, at = p, k
			}
		}
	}
	if near == nil {
		return "no plan begins with this operator"
	}
	return fmt.Sprintf("nearest is plan %d: %s", near.Number, difference(near.Program, g, at))
}

// place is where two programs differ. part counts within the node; or, after the last common node, within what comes
// after the nodes.
type place struct{ node, part int }

func (p place) before(q place) bool { return p.node < q.node || p.node == q.node && p.part < q.part }

// The parts of a node in the order in which they are compared. Operands come after them, two parts each, and SameView
// is last.
const (
	headPart = iota
	attrPart
	avalPart
	operandParts
)

// differ finds the first difference of two programs.
func differ(was, is *program.Program) place {
	n := min(len(was.Nodes), len(is.Nodes))
	for i := range n {
		a, b := &was.Nodes[i], &is.Nodes[i]
		switch {
		case a.Op != b.Op || a.Operands != b.Operands || a.Live != b.Live || a.Region != b.Region:
			return place{i, headPart}
		case a.Attr != b.Attr:
			return place{i, attrPart}
		case a.Aval != b.Aval:
			return place{i, avalPart}
		}
		x, y := was.OperandsOf(i), is.OperandsOf(i)
		for j := range x {
			if x[j].Value != y[j].Value {
				return place{i, operandParts + 2*j}
			}
			if x[j].Layout != y[j].Layout {
				return place{i, operandParts + 2*j + 1}
			}
		}
		if a.SameView != b.SameView {
			return place{i, operandParts + 2*len(x)}
		}
	}
	if len(was.Nodes) != len(is.Nodes) {
		return place{n, 0}
	}
	if len(was.Inputs) != len(is.Inputs) {
		return place{n, 1}
	}
	part := 2
	for j := range was.Inputs {
		if was.Inputs[j] != is.Inputs[j] {
			return place{n, part + j}
		}
	}
	if part += len(was.Inputs); len(was.Stores) != len(is.Stores) {
		return place{n, part}
	}
	for j := range was.Stores {
		if was.Stores[j] != is.Stores[j] {
			return place{n, part + 1 + j}
		}
	}
	return place{n, part + 1 + len(was.Stores)}
}

// difference describes what differs at a place of two programs.
func difference(was, is *program.Program, at place) string {
	i, n := at.node, min(len(was.Nodes), len(is.Nodes))
	switch part := at.part; {
	case i < n:
		return fmt.Sprintf("node %d, %s: %s", i, program.PrimName(is.Nodes[i].Op), nodeDifference(was, is, i, part))
	case part == 0 && len(is.Nodes) < len(was.Nodes):
		return fmt.Sprintf("ends before node %d, %s", n, program.PrimName(was.Nodes[n].Op))
	case part == 0:
		return fmt.Sprintf("node %d, %s, comes after its end", n, program.PrimName(is.Nodes[n].Op))
	case part == 1:
		return fmt.Sprintf("%d values are read from outside, were %d", len(is.Inputs), len(was.Inputs))
	case part < 2+len(is.Inputs):
		j := part - 2
		return fmt.Sprintf("value %d read from outside is %s, was %s", j, avalText(is.Inputs[j].Aval),
			avalText(was.Inputs[j].Aval))
	case part == 2+len(is.Inputs):
		return fmt.Sprintf("%d stores, were %d", len(is.Stores), len(was.Stores))
	case part < 3+len(is.Inputs)+len(is.Stores):
		return fmt.Sprintf("store %d writes another version, or one that something else holds", part-3-len(is.Inputs))
	}
	return "it returns or draws something else"
}

// nodeDifference describes a difference in part of node i.
func nodeDifference(was, is *program.Program, i, part int) string {
	a, b := &was.Nodes[i], &is.Nodes[i]
	switch {
	case part == headPart && a.Op != b.Op:
		return "was " + program.PrimName(a.Op)
	case part == headPart && a.Live != b.Live && b.Live == program.LiveOutside:
		return "its result is held by something outside, was not"
	case part == headPart && a.Live != b.Live:
		return "its result is held by nothing outside, was held"
	case part == headPart && a.Region != b.Region:
		return "it is in another compiled region, or in none"
	case part == headPart:
		return fmt.Sprintf("%d operands, were %d", b.Operands, a.Operands)
	case part == attrPart:
		return "another attribute"
	case part == avalPart:
		return fmt.Sprintf("makes %s, made %s", avalText(b.Aval), avalText(a.Aval))
	}
	j := (part - operandParts) / 2
	if j >= int(b.Operands) {
		return "it is written through another view"
	}
	if (part-operandParts)%2 == 0 {
		return fmt.Sprintf("operand %d is another value", j)
	}
	x, y := is.OperandsOf(i)[j].Layout, was.OperandsOf(i)[j].Layout
	if x == 0 || y == 0 {
		return fmt.Sprintf("operand %d is another value", j)
	}
	l, m := ir.LayoutOf(x), ir.LayoutOf(y)
	return fmt.Sprintf("operand %d has shape %v and strides %v, had %v and %v", j, l.Shape, l.Stride, m.Shape, m.Stride)
}

func avalText(id ir.AvalID) string {
	av := ir.AvalOf(id)
	return fmt.Sprintf("%s%v on %s", av.DType, av.Shape(), ir.DeviceName(av.Device))
}
