package compile

import (
	"fmt"
	"slices"

	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// through is the view that a node writes: its layout, and the program's scalar that holds its offset.
type through struct {
	layout *ir.Layout
	scalar int
}

// writeThrough lets an elementwise node store straight into the view through which an in-place store would write its
// value: copy, scatter and store become one kernel.
func (b *Builder) writeThrough() error {
	p := b.Program
	b.through, b.elided = map[int]through{}, map[int]bool{}
	for i := range p.Nodes {
		x := &p.Nodes[i]
		if !x.IsPrim() || !p.Prim(i).WritesView || !b.slots.has(i) {
			continue
		}
		edges := p.OperandsOf(i)
		base, value := edges[0].Value, edges[1].Value
		if base == 0 || !value.IsNode() || !p.Whole(i, 1) {
			continue
		}
		v := value.Index()
		slot, _ := b.slots.at(i)
		if !b.mayWriteView(v, ir.LayoutOf(ir.LayoutID(p.Attrs(i)[0]))) || b.slotOf(base) != slot {
			continue
		}
		if base.IsNode() && b.uses.main[base.Index()] > v {
			continue // the base comes after the value
		}
		if !b.readsOnlyView(v, base, i) || b.readBetween(base, v, i) {
			continue
		}
		b.through[v] = through{ir.LayoutOf(ir.LayoutID(p.Attrs(i)[0])), int(x.Scalar)}
		b.slots.set(v, slot)
		b.elided[i] = true
		b.p.Through++
	}
	return nil
}

func (b *Builder) noteThrough(i int) string {
	if t, ok := b.through[i]; ok {
		return fmt.Sprintf("writes view %v strides %v of its base", t.layout.Shape, t.layout.Stride)
	}
	if b.elided[i] {
		return "done by the maker of its value"
	}
	return ""
}

// mayWriteView reports that node v is elementwise in the view's shape, and that nothing else reads its value.
func (b *Builder) mayWriteView(v int, view *ir.Layout) bool {
	n := &b.Program.Nodes[v]
	return n.IsPrim() && b.uses.count[v] == 1 && !b.live(v) && !b.slots.has(v) && n.Outputs == 1 &&
		b.Program.Prim(v).Elementwise && slices.Equal(view.Shape, b.aval(v).Shape())
}

// readsOnlyView reports that v reads the base only through the view that node i writes.
func (b *Builder) readsOnlyView(v int, base program.Ref, i int) bool {
	same := b.Program.Nodes[i].SameView
	for j, e := range b.Program.OperandsOf(v) {
		if e.Value == base && (j >= 8 || same>>uint(j)&1 == 0) {
			return false
		}
	}
	return true
}

// readBetween reports a reader of a value after node v and before node i.
func (b *Builder) readBetween(r program.Ref, v, i int) bool {
	for k := v + 1; k < i; k++ {
		for _, e := range b.Program.OperandsOf(k) {
			if e.Value == r {
				return true
			}
		}
	}
	return false
}
