package compile

import (
	"slices"

	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// rowShape describes the rows of a node: the shape of its operand, the shape with one element for each row, the view
// that broadcasts a value along its row, and the dims of a row. across: rows lie across memory.
type rowShape struct {
	full, outer, back *ir.Layout
	reduced           []int
	across            bool
}

// rowsOf describes node i if it is a row node.
func (b *Builder) rowsOf(i int) *lower.Rows {
	return lower.RowsOf(b.Program.Prim(i), b.Program.Attrs(i))
}

// rowShapeOf is the row shape of node i; nil if it has no rows or no elements.
func (b *Builder) rowShapeOf(i int) *rowShape {
	r, attr := b.rowsOf(i), b.Program.Attrs(i)
	shape := ir.LayoutOf(b.Program.OperandsOf(i)[r.Main].Layout).Shape
	outer, ok := r.Split(attr, shape)
	if !ok {
		return nil
	}
	s := &rowShape{full: ir.DenseLayout(shape), outer: ir.DenseLayout(outer), reduced: r.Reduced(attr, shape)}
	stride, next := make([]int64, len(shape)), 0
	for d, n := range shape {
		kept := !slices.Contains(s.reduced, d)
		if kept {
			stride[d] = s.outer.Stride[next]
			next++
		}
		if n > 1 {
			s.across = kept
		}
	}
	s.back = ir.InternLayout(shape, stride)
	return s
}

// tail is the number of last members that leave a group of rows across memory for the next group: those after the last
// row node or value for each row. If a remaining elementwise member stores a value of the group's shape, the group ends
// before that member or before its first row node, whichever is later.
func (b *Builder) tail(g *growing) int {
	if !g.rows.across {
		return 0
	}
	elements := func(m int) bool { return b.rowsOf(m) == nil && b.levelOf(&g.group, m) == lower.Full }
	kept := len(g.members)
	for elements(g.members[kept-1]) {
		kept--
	}
	stored := b.storedOf(g.members[:kept])
	at := slices.IndexFunc(g.members[:kept], func(m int) bool { return elements(m) && slices.Contains(stored, m) })
	if at >= 0 {
		kept = max(at, slices.IndexFunc(g.members, func(m int) bool { return b.rowsOf(m) != nil }))
	}
	return len(g.members) - kept
}

// takeBack undoes the epilogues of row nodes where a group can contain the node and its epilogue.
func (b *Builder) takeBack() {
	for i, e := range b.epilogues {
		if b.rowsOf(i) == nil || b.Caps(b.aval(i).Device).CostlyKernels && !b.Often {
			continue
		}
		between := false
		for k := i + 1; k < e.kept[0]; k++ {
			between = between || b.hasKernel(k)
		}
		if between {
			continue
		}
		for _, f := range e.folds {
			b.folded[f] = 0
		}
		delete(b.epilogues, i)
	}
}

// levelOf is the level of a value that a member makes.
func (b *Builder) levelOf(g *group, v int) lower.Level {
	main := b.uses.main[v]
	if r := b.rowsOf(main); r != nil && (main != v || !r.Whole) || r == nil && g.rows != nil &&
		b.aval(v).Layout == g.rows.outer {
		return lower.Row
	}
	return lower.Full
}

// readerLevel is the level at which node i of a group with rows reads operand j.
func (b *Builder) readerLevel(g *group, i, j int) lower.Level {
	if r := b.rowsOf(i); r != nil {
		return r.Level(b.Program.Attrs(i), j)
	}
	return b.levelOf(g, i)
}

// reshaped reports that the shape of member m differs from the group's.
func (b *Builder) reshaped(g *group, m int) bool {
	return b.rowsOf(m) == nil && b.aval(m).Layout != g.layout && (g.rows == nil || b.levelOf(g, m) == lower.Full)
}

// readsOwn reports that node i reads operand j, the value of a member, at its own element or row.
func (b *Builder) readsOwn(g *group, i, j int) bool {
	e := b.Program.OperandsOf(i)[j]
	if g.rows == nil {
		return b.Program.Whole(i, j)
	}
	reader, made, view := b.readerLevel(g, i, j), b.levelOf(g, e.Value.Index()), ir.LayoutOf(e.Layout)
	switch {
	case reader == lower.Full && made == lower.Full:
		return b.Program.Whole(i, j) && view.Numel == g.rows.full.Numel
	case reader == lower.Full && made == lower.Row:
		if b.reshaped(g, i) {
			view, _ = ir.ReshapeLayout(view, g.rows.full.Shape)
		}
		return view == g.rows.back
	case reader == lower.Row && made == lower.Row:
		return b.Program.Whole(i, j) && view == g.rows.outer
	}
	return false
}

// lowerGroup turns the members into one launch at the place of the last one.
func (b *Builder) lowerGroup(g *group) error {
	w := &b.lowering
	last := g.members[len(g.members)-1]
	for _, v := range g.stored {
		b.assign(v)
	}
	ln := b.groupNode(g, g.stored)
	for _, v := range g.stored {
		av := b.aval(v)
		stores := av.Layout
		if b.isScatter(v) {
			stores = b.scattered(v)
		}
		b.p.BytesWritten += stores.Numel * int64(b.Caps(av.Device).Storage[av.DType])
	}
	ln.Bufs = len(w.slots)
	res, err := b.Lowered.Lower(ln)
	if err != nil {
		return err
	}
	b.steps(last, res, b.aval(last).Device, g.stored)
	return nil
}

// groupNode describes a group that stores these values to the lowering. Values without a slot get new buffers.
func (b *Builder) groupNode(g *group, stored []int) *lower.Node {
	w, p := &b.lowering, b.Program
	last := g.members[len(g.members)-1]
	w.slots, w.offs, w.scs = w.slots[:0], w.offs[:0], w.scs[:0]
	caps := b.Caps(b.aval(last).Device)
	ln := &w.node
	*ln = lower.Node{Prim: p.Prim(last), Attr: p.Attrs(last), In: ln.In[:0], Out: ln.Out[:0], Wide: caps.Wide,
		InOrder: caps.InOrder}
	numbers := map[int]int{} // by node: the number of its value
	values := 0
	for _, m := range g.members {
		numbers[m] = values
		for k := 1; k < int(p.Nodes[m].Outputs); k++ {
			if v, held := b.uses.results[m].at(k); held {
				numbers[v] = values + k
			}
		}
		values += int(p.Nodes[m].Outputs)
		if b.storesPieces(m) {
			ln.Members = append(ln.Members, b.pieceMember(g, m, stored, numbers))
		} else {
			ln.Members = append(ln.Members, b.member(g, m, stored, numbers))
		}
	}
	for k, v := range stored {
		av, buf := b.aval(v), -1-k
		if slot, ok := b.slots.at(v); ok {
			buf = b.local(slot)
		}
		out := lower.Output{DType: av.DType, Layout: av.Layout, Buf: buf}
		if t, ok := b.through[v]; ok {
			out.Layout, out.Through = t.layout, true
		} else if b.storesPieces(v) {
			b.pieceOutput(g, v, &out)
		} else if g.rows == nil || b.levelOf(g, v) == lower.Full {
			out.Layout = g.layout
		}
		ln.Out = append(ln.Out, out)
	}
	return ln
}

// member describes node m of a group to the lowering. It appends operands that no member makes to the group's operands.
func (b *Builder) member(g *group, m int, stored []int, numbers map[int]int) lower.Member {
	w, p := &b.lowering, b.Program
	l := lower.Member{Prim: p.Prim(m), Attr: p.Attrs(m), Layout: b.aval(m).Layout, Region: p.Nodes[m].Region}
	if b.rowsOf(m) != nil || g.rows == nil || b.levelOf(g, m) == lower.Full {
		l.Layout = g.layout
	}
	for k := range int(p.Nodes[m].Outputs) {
		v, held := m, true
		if k > 0 {
			v, held = b.uses.results[m].at(k)
		}
		if !held {
			l.Values = append(l.Values, lower.Value{DType: b.unheldAval(m, k).DType, Out: -1})
			continue
		}
		l.Values = append(l.Values, lower.Value{DType: b.aval(v).DType, Out: slices.Index(stored, v)})
	}
	dts, scalars := p.ScalarTypes(m), 0
	for j, e := range p.OperandsOf(m) {
		if e.Value == 0 {
			l.In = append(l.In, len(w.node.In))
			w.node.In = append(w.node.In, lower.Operand{Scalar: true, DType: dts[j]})
			w.offs, w.scs = append(w.offs, -1), append(w.scs, int(p.Nodes[m].Scalar)+scalars)
			scalars++
			continue
		}
		if b.isMember(g.members, e.Value) {
			l.In = append(l.In, ^numbers[e.Value.Index()])
			continue
		}
		l.In = append(l.In, b.outsideOperand(g, m, j, e))
	}
	return l
}

// outsideOperand appends operand j of node m to the group's operands, if they lack it, and returns its index there.
func (b *Builder) outsideOperand(g *group, m, j int, e program.Edge) int {
	p := b.Program
	in := lower.Operand{DType: p.Aval(e.Value).DType, Layout: ir.LayoutOf(e.Layout), Buf: b.local(b.slotOf(e.Value)),
		Whole: b.whole(m, j)}
	if b.reshaped(g, m) {
		if in.Whole {
			in.Layout = g.layout
		} else {
			in.Layout, _ = ir.ReshapeLayout(in.Layout, g.layout.Shape)
		}
	}
	return b.outsideView(in, int(p.Nodes[m].Edge)+j, b.Fixed && g.rows == nil)
}

// outsideView appends an operand to the group's, if they lack it, and returns its index there. edge is the program's.
// fixed: all runs read it at the same offset.
func (b *Builder) outsideView(in lower.Operand, edge int, fixed bool) int {
	w := &b.lowering
	for at, q := range w.node.In {
		if q == in && (in.Whole || fixed && b.Program.Offsets[w.offs[at]] == b.Program.Offsets[edge]) {
			return at
		}
	}
	w.node.In = append(w.node.In, in)
	w.offs = append(w.offs, edge)
	return len(w.node.In) - 1
}
