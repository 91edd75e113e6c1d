package compile

import (
	"slices"

	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// maxPieces is the number of pieces of a cat that a fusion group stores for each of its elements.
const maxPieces = 8

// piece is a part of a cat that has as many elements as the group: the value of a member, or a view from outside.
type piece struct {
	node, operand int        // the operand of a cat
	in            *ir.Layout // from outside: in the group's shape; nil: a member's value
	inAt          int64      // in the operand
	out           *ir.Layout // in the group's shape, of the result
	outAt         int64
}

// isCat reports that node i joins tensors along a dim.
func (b *Builder) isCat(i int) bool {
	n := &b.Program.Nodes[i]
	return n.IsPrim() && b.Program.Prim(i).ID == prim.Known.Cat
}

// pieces divides cat i into pieces of the shape to, whose elements a group of these members computes. It returns nil
// if the cat reads no member, or has parts that are no multiples of the shape, or if a view is none in that shape.
func (b *Builder) pieces(members []int, i int, to *ir.Layout) []piece {
	w := &cutting{b: b, members: members, to: to}
	if !w.cut(i, b.aval(i).Layout, 0) || !w.computed {
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

// cut adds the pieces of cat i, whose result is the view out at the offset at.
func (w *cutting) cut(i int, out *ir.Layout, at int64) bool {
	p := w.b.Program
	d := ir.WrapDim(p.Attrs(i)[0], out.Rank())
	for j, e := range p.OperandsOf(i) {
		in := ir.LayoutOf(e.Layout)
		part := ir.InternLayout(in.Shape, out.Stride)
		made := w.b.isMember(w.members, e.Value)
		switch {
		case in.Numel == 0:
			continue
		case made && !p.Whole(i, j):
			return false
		case made && w.b.isCat(e.Value.Index()):
			v := e.Value.Index()
			inner, ok := ir.ReshapeLayout(part, w.b.aval(v).Shape())
			if !ok || !w.cut(v, inner, at) {
				return false
			}
		case !w.slices(i, j, d, part, at, made):
			return false
		}
		at += in.Shape[d] * out.Stride[d]
	}
	return true
}

// slices adds the pieces of operand j of cat i along dim d. made: a member makes the operand.
func (w *cutting) slices(i, j, d int, part *ir.Layout, at int64, made bool) bool {
	in := ir.LayoutOf(w.b.Program.OperandsOf(i)[j].Layout)
	n := in.Numel / w.to.Numel
	if in.Numel%w.to.Numel != 0 || in.Shape[d]%n != 0 || made && n > 1 || len(w.pieces)+int(n) > maxPieces {
		return false
	}
	shape := slices.Clone(in.Shape)
	shape[d] /= n
	out, ok := ir.ReshapeLayout(ir.InternLayout(shape, part.Stride), w.to.Shape)
	if !ok {
		return false
	}
	view, ok := ir.ReshapeLayout(ir.InternLayout(shape, in.Stride), w.to.Shape)
	if !ok {
		return false
	}
	if made {
		view, w.computed = nil, true
	}
	for k := range n {
		w.pieces = append(w.pieces, piece{node: i, operand: j, in: view, inAt: k * shape[d] * in.Stride[d], out: out,
			outAt: at + k*shape[d]*part.Stride[d]})
	}
	return true
}

// catMember describes cat m to the lowering if the group stores its value. Other cats of the group only need a number.
func (b *Builder) catMember(g *group, m int, stored []int, numbers map[int]int) lower.Member {
	at := slices.Index(stored, m)
	l := lower.Member{Prim: b.Program.Prim(m), Attr: b.Program.Attrs(m), Layout: g.layout, Joins: true,
		Region: b.Program.Nodes[m].Region, Values: []lower.Value{{DType: b.aval(m).DType, Out: at}}}
	if at < 0 {
		return l
	}
	for _, c := range b.pieces(g.members, m, g.layout) {
		e := b.Program.OperandsOf(c.node)[c.operand]
		if c.in == nil {
			l.In = append(l.In, ^numbers[e.Value.Index()])
			continue
		}
		l.In = append(l.In, b.outsideView(lower.Operand{DType: b.Program.Aval(e.Value).DType, Layout: c.in, At: c.inAt,
			Buf: b.local(b.slotOf(e.Value))}, int(b.Program.Nodes[c.node].Edge)+c.operand, b.Fixed))
	}
	return l
}

// catOutput gives the output of a group that is the value of cat v its parts.
func (b *Builder) catOutput(g *group, v int, out *lower.Output) {
	for _, c := range b.pieces(g.members, v, g.layout) {
		out.Parts = append(out.Parts, lower.Part{Layout: c.out, Offset: c.outAt})
	}
}
