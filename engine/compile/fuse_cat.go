package compile

import (
	"slices"

	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// maxPieces is the number of pieces that a fusion group stores for each of its elements, of a cat or a scatter.
const maxPieces = 8

// piece is what a cat or a scatter stores for each element of the group: the value of a member, or a view from outside.
type piece struct {
	node, operand int    // what is stored: the operand of a cat or a scatter
	in            window // from outside; no layout: a member's value
	// The result, and for a scatter the index: its dim of the result has stride 0, and the index says the place there.
	places []window
}

// window is a view in a group's shape.
type window struct {
	layout *ir.Layout
	at     int64
}

// isCat reports that node i joins tensors along a dim.
func (b *Builder) isCat(i int) bool {
	n := &b.Program.Nodes[i]
	return n.IsPrim() && b.Program.Prim(i).ID == prim.Known.Cat
}

// isScatter reports that node i is a scatter.
func (b *Builder) isScatter(i int) bool {
	n := &b.Program.Nodes[i]
	return n.IsPrim() && n.Op == scatterOp
}

// storesPieces reports that a group stores node i piece by piece.
func (b *Builder) storesPieces(i int) bool { return b.isCat(i) || b.isScatter(i) }

// scatters reports that a group can store what node i, a scatter, stores: tensors, in the buffer of its base, at places
// that need no check and may be in any order.
func (b *Builder) scatters(i int) bool {
	edges, attr := b.Program.OperandsOf(i), b.Program.Attrs(i)
	base, from, index := edges[scatterBase].Value, edges[scatterSource], ir.LayoutOf(edges[scatterIndex].Layout)
	slot, ok := b.slots.at(i)
	return ok && base != 0 && b.slotOf(base) == slot && from.Value != 0 && !b.Moving &&
		attr[1] == prim.ScatterSet && slices.Contains(attr[2:], op.InBounds) &&
		!slices.Contains(attr[2:], op.Deterministic) && index.Numel > 0 && index.Rank() > 0 &&
		slices.Equal(ir.LayoutOf(from.Layout).Shape, index.Shape)
}

// scattered is the shape of what node i, a scatter, stores.
func (b *Builder) scattered(i int) *ir.Layout {
	return ir.DenseLayout(ir.LayoutOf(b.Program.OperandsOf(i)[scatterIndex].Layout).Shape)
}

// pieces divides cat or scatter i into pieces of the shape to, whose elements a group of these members computes. It
// returns nil if a cat reads no member, or if parts are no multiples of the shape, or if a view is none in that shape.
func (b *Builder) pieces(members []int, i int, to *ir.Layout) []piece {
	w := &cutting{b: b, members: members, to: to}
	if b.isScatter(i) {
		if !w.scatter(i) {
			return nil
		}
		return w.pieces
	}
	if !w.cut(i, []window{{layout: b.aval(i).Layout}}) || !w.computed {
		return nil
	}
	return w.pieces
}

type cutting struct {
	b        *Builder
	members  []int
	to       *ir.Layout
	pieces   []piece
	computed bool // a member computes some piece
}

// scatter adds the pieces of scatter i, whose index no member makes.
func (w *cutting) scatter(i int) bool {
	p := w.b.Program
	edges := p.OperandsOf(i)
	from, index := edges[scatterSource], edges[scatterIndex]
	if w.b.isMember(w.members, index.Value) || w.b.isMember(w.members, edges[scatterBase].Value) {
		return false
	}
	shape := ir.LayoutOf(index.Layout).Shape
	base := slices.Clone(w.b.aval(i).Layout.Stride)
	base[ir.WrapDim(p.Attrs(i)[0], len(base))] = 0
	places := []window{{layout: ir.InternLayout(shape, base)}, {layout: ir.LayoutOf(index.Layout)}}
	if w.b.isMember(w.members, from.Value) {
		return w.made(i, scatterSource, places)
	}
	for d := len(shape) - 1; d >= 0; d-- {
		if w.slices(i, scatterSource, d, places, false) {
			return true
		}
	}
	return false
}

// made adds the pieces of operand j of node i, which a member makes.
func (w *cutting) made(i, j int, places []window) bool {
	p := w.b.Program
	v := p.OperandsOf(i)[j].Value.Index()
	switch {
	case !p.Whole(i, j):
		return false
	case !w.b.isCat(v):
		return w.slices(i, j, 0, places, true)
	}
	inner, ok := reshaped(places, w.b.aval(v).Shape())
	return ok && w.cut(v, inner)
}

// reshaped gives views the shape of others of the same elements.
func reshaped(list []window, shape []int64) (out []window, ok bool) {
	for _, v := range list {
		if v.layout, ok = ir.ReshapeLayout(v.layout, shape); !ok {
			return nil, false
		}
		out = append(out, v)
	}
	return out, true
}

// cut adds the pieces of cat i, whose result has these places.
func (w *cutting) cut(i int, places []window) bool {
	p := w.b.Program
	d := ir.WrapDim(p.Attrs(i)[0], places[0].layout.Rank())
	places = slices.Clone(places)
	for j, e := range p.OperandsOf(i) {
		in := ir.LayoutOf(e.Layout)
		if in.Numel == 0 {
			continue
		}
		part := slices.Clone(places)
		for k := range part {
			part[k].layout = ir.InternLayout(in.Shape, places[k].layout.Stride)
			places[k].at += in.Shape[d] * places[k].layout.Stride[d]
		}
		if w.b.isMember(w.members, e.Value) {
			if !w.made(i, j, part) {
				return false
			}
		} else if !w.slices(i, j, d, part, false) {
			return false
		}
	}
	return true
}

// slices adds the pieces of operand j of node i along dim d. made: a member makes the operand.
func (w *cutting) slices(i, j, d int, places []window, made bool) bool {
	in := window{layout: ir.LayoutOf(w.b.Program.OperandsOf(i)[j].Layout)}
	n := in.layout.Numel / w.to.Numel
	if in.layout.Numel%w.to.Numel != 0 || n > 1 && (made || in.layout.Shape[d]%n != 0) ||
		len(w.pieces)+int(n) > maxPieces {
		return false
	}
	shape := slices.Clone(in.layout.Shape)
	shape[d] /= n
	views := append([]window{in}, places...)
	step := make([]int64, len(views))
	for k, v := range views {
		step[k] = shape[d] * v.layout.Stride[d]
		views[k].layout = ir.InternLayout(shape, v.layout.Stride)
	}
	views, ok := reshaped(views, w.to.Shape)
	if !ok {
		return false
	}
	w.computed = w.computed || made
	for range n {
		c := piece{node: i, operand: j, in: views[0], places: slices.Clone(views[1:])}
		if made {
			c.in = window{}
		}
		w.pieces = append(w.pieces, c)
		for k := range views {
			views[k].at += step[k]
		}
	}
	return true
}

// pieceMember describes cat or scatter m to the lowering if the group stores its value. Other cats of the group only
// need a number.
func (b *Builder) pieceMember(g *group, m int, stored []int, numbers map[int]int) lower.Member {
	at, p := slices.Index(stored, m), b.Program
	l := lower.Member{Prim: p.Prim(m), Attr: p.Attrs(m), Layout: g.layout, Joins: true,
		Region: p.Nodes[m].Region, Values: []lower.Value{{DType: b.aval(m).DType, Out: at}}}
	if at < 0 {
		return l
	}
	view := func(v window, node, operand int) int {
		e := p.OperandsOf(node)[operand]
		return b.outsideView(lower.Operand{DType: p.Aval(e.Value).DType, Layout: v.layout, At: v.at,
			Buf: b.local(b.slotOf(e.Value))}, int(p.Nodes[node].Edge)+operand, b.Fixed)
	}
	for _, c := range b.pieces(g.members, m, g.layout) {
		if c.in.layout == nil {
			l.In = append(l.In, ^numbers[p.OperandsOf(c.node)[c.operand].Value.Index()])
		} else {
			l.In = append(l.In, view(c.in, c.node, c.operand))
		}
		if len(c.places) > 1 {
			l.Places = append(l.Places, view(c.places[1], m, scatterIndex))
		}
	}
	return l
}

// pieceOutput gives the output of a group that is the value of cat or scatter v its parts.
func (b *Builder) pieceOutput(g *group, v int, out *lower.Output) {
	for _, c := range b.pieces(g.members, v, g.layout) {
		out.Parts = append(out.Parts, lower.Part{Layout: c.places[0].layout, Offset: c.places[0].at})
	}
}
