package plan

import (
	"fmt"

	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/engine/live"
	"github.com/torchlette/torchlette/engine/op"
)

// Numbered returns the plan that was the n-th to be added, nil when it has been evicted.
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

// Cause says why no plan of c serves the collected window: where its key leaves that of the
// plan with which it has the longest beginning in common.
func (c *Cache) Cause(w *Window) string {
	var near *Plan
	at := 0
	for _, list := range c.byHash {
		for _, p := range list {
			if k := common(p.Key, w.Key); k > at || near != nil && k == at && p.Number > near.Number {
				near, at = p, k
			}
		}
	}
	if near == nil {
		return "no plan begins with this operator"
	}
	return fmt.Sprintf("nearest is plan %d: %s", near.Number, w.difference(near, at))
}

func common(a, b []uint32) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// difference names the first word in which the window's key is not the plan's. The words are those of makeKey.
func (w *Window) difference(p *Plan, at int) string {
	if at >= len(p.Key) || at >= len(w.Key) {
		return "one of the two has more stores"
	}
	was, is, k := p.Key[at], w.Key[at], 0
	for i, id := range w.Nodes {
		n := w.s.G.Node(id)
		words := keyWords(w, n)
		if at >= k+words {
			k += words
			continue
		}
		if i >= len(p.Ops) {
			return fmt.Sprintf("node %d, %s, comes after its end", i, PrimName(n.Op))
		}
		return fmt.Sprintf("node %d, %s: %s", i, PrimName(n.Op), w.nodeWord(n, at-k, was, is))
	}
	if len(w.Nodes) < len(p.Ops) {
		return fmt.Sprintf("ends before node %d, %s", len(w.Nodes), PrimName(p.Ops[len(w.Nodes)]))
	}
	switch at -= k; {
	case at == 0:
		return fmt.Sprintf("%d values are read from outside, were %d", is, was)
	case at <= len(w.Ext):
		return fmt.Sprintf("value %d read from outside is %s, was %s", at-1, avalText(is), avalText(was))
	case at == len(w.Ext)+1:
		return fmt.Sprintf("%d stores, were %d", is, was)
	}
	return fmt.Sprintf("store %d writes another version, or one that something else holds", (at-len(w.Ext)-2)/3)
}

// keyWords counts the words that makeKey writes for a node.
func keyWords(w *Window, n *ir.Node) int {
	words := headWords
	for _, e := range w.s.G.Edges(n) {
		words += edgeWords(e)
	}
	if n.Op == scatterOp {
		words++
	}
	return words
}

// headWords are the operator with its operand count and outside-live bit, the attribute and the abstract value.
const headWords = 3

func edgeWords(e ir.Edge) int {
	if e.Value == 0 {
		return 1
	}
	return 2
}

// nodeWord tells word at of a node.
func (w *Window) nodeWord(n *ir.Node, at int, was, is uint32) string {
	const live = 1 << 31
	switch {
	case at == 0 && uint16(was) != uint16(is):
		return "was " + PrimName(uint16(was))
	case at == 0 && (was^is)&live != 0 && is&live != 0:
		return "its result is held by something outside, was not"
	case at == 0 && (was^is)&live != 0:
		return "its result is held by nothing outside, was held"
	case at == 0:
		return fmt.Sprintf("%d operands, were %d", is&^live>>16, was&^live>>16)
	case at == 1:
		return "another attribute"
	case at == 2:
		return fmt.Sprintf("makes %s, made %s", avalText(is), avalText(was))
	}
	at -= headWords
	for i, e := range w.s.G.Edges(n) {
		if at == 0 {
			return fmt.Sprintf("operand %d is another value", i)
		}
		if at < edgeWords(e) {
			a, b := ir.LayoutOf(ir.LayoutID(is)), ir.LayoutOf(ir.LayoutID(was))
			return fmt.Sprintf("operand %d has shape %v and strides %v, had %v and %v", i, a.Shape, a.Stride, b.Shape, b.Stride)
		}
		at -= edgeWords(e)
	}
	return "it is written through another view"
}

func avalText(id uint32) string {
	av := ir.AvalOf(ir.AvalID(id))
	return fmt.Sprintf("%s%v on %s", av.DType, av.Shape(), live.DeviceName(av.Device))
}

// PrimName names the primitive of a node.
func PrimName(o uint16) string {
	if o >= ir.OpProj {
		return "a further output"
	}
	return op.PrimOf(op.PrimID(o)).Name
}
