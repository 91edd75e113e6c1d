package autograd

import (
	"cmp"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// AddCotangents is x + y. The cotangent of a slice, a gather or an embedding is zeros with a part written or added. If
// x or y is such a value, and off the tape, only its part is added to the other: a full addition would read and write
// the zeros around it.
func AddCotangents(g *ir.Graph, b op.Builder, x, y op.Val) op.Val {
	if x.Tape == 0 && y.Tape == 0 && x.L().Hidden == nil && y.L().Hidden == nil {
		if sum, ok := addPart(g, b, x, y); ok {
			return sum
		}
		if sum, ok := addPart(g, b, y, x); ok {
			return sum
		}
	}
	return prim.Add(b, x, y)
}

// addPart adds the part of y that is not zeros to x.
func addPart(g *ir.Graph, b op.Builder, x, y op.Val) (sum op.Val, ok bool) {
	n := g.Node(y.Value)
	p := op.Of(n)
	if !x.IsWhole() || !y.IsWhole() || x.DType() != y.DType() || p == nil || !p.UpdatesInput {
		return op.Val{}, false
	}
	e := g.Edges(n)
	if !isZeros(g, e[0]) {
		return op.Val{}, false
	}
	attr := ir.AttrOf(n.Attr)
	switch p.ID {
	case prim.Known.StridedScatter, prim.Known.StridedScatterAdd:
		if p.WritesView && ir.LayoutOf(ir.LayoutID(attr[0])).Overlap {
			return op.Val{}, false // where values overlap, the last written one counts; there is no sum
		}
		if sum, ok := joinParts(g, b, x, y); ok {
			return sum, true
		}
		l := ir.LayoutOf(ir.LayoutID(attr[0]))
		return prim.StridedScatterAdd(b, x, edgeVal(g, e[1]), l, int64(g.Scalars(n)[0])), true
	case prim.Known.Scatter:
		if attr[1] == prim.ScatterSum { // y may be a reshaped view of the scatter
			sum = prim.Reshape(b, x, ir.AvalOf(n.Aval).Layout.Shape)
			sum = prim.ScatterAdd(b, sum, edgeVal(g, e[1]), edgeVal(g, e[2]), attr[0])
			return prim.Reshape(b, sum, x.Shape()), true
		}
	}
	return op.Val{}, false
}

// part is a value scattered into a slice of a dense tensor, from start to end along a dim.
type part struct {
	dim, start, end int64
	value           op.Val // keeps the dim
}

// joinParts computes x + y where x and y are zeros with parts, and all parts together are the pieces of a split or the
// items of an unbind. No zero is left then, so a concatenation of the parts is the sum.
func joinParts(g *ir.Graph, b op.Builder, x, y op.Val) (sum op.Val, ok bool) {
	shape := ir.AvalOf(y.Aval).Layout.Shape
	last, ok := partOf(g, b, g.Node(y.Value), shape)
	if !ok || (last.start > 0) == (last.end < shape[last.dim]) || !slices.Equal(ir.AvalOf(x.Aval).Layout.Shape, shape) {
		return op.Val{}, false // the last piece to come is in general the first or the last one of the split
	}
	parts, rest := []part{last}, shape[last.dim]-(last.end-last.start)
	for n := g.Node(x.Value); rest > 0; {
		p, ok := partOf(g, b, n, shape)
		if !ok || p.dim != last.dim {
			return op.Val{}, false
		}
		parts, rest = append(parts, p), rest-(p.end-p.start)
		into := g.Edges(n)[0]
		if !edgeVal(g, into).IsWhole() {
			return op.Val{}, false
		}
		if n = g.Node(into.Value); rest == 0 && !isZeros(g, into) {
			return op.Val{}, false
		}
	}
	slices.SortFunc(parts, func(p, q part) int { return cmp.Compare(p.start, q.start) })
	var values []op.Val
	at := int64(0)
	for _, p := range parts {
		if p.start != at {
			return op.Val{}, false // two parts overlap
		}
		at = p.end
		values = append(values, p.value)
	}
	return prim.Reshape(b, prim.Cat(b, values, last.dim), x.Shape()), true
}

// partOf returns the part that node n scatters, if it is a slice of shape.
func partOf(g *ir.Graph, b op.Builder, n *ir.Node, shape []int64) (p part, ok bool) {
	o := op.PrimID(n.Op)
	if o != prim.Known.StridedScatter && o != prim.Known.StridedScatterAdd {
		return p, false
	}
	l, offset, strides := ir.LayoutOf(ir.LayoutID(ir.AttrOf(n.Attr)[0])), int64(g.Scalars(n)[0]), ir.DenseStrides(shape)
	p.value = edgeVal(g, g.Edges(n)[1])
	if !slices.Equal(p.value.Shape(), l.Shape) || l.Numel == 0 {
		return p, false
	}
	for d := range shape {
		size, sliced := int64(1), slices.Delete(slices.Clone(shape), d, d+1)
		switch {
		case len(l.Shape) == len(shape) && slices.Equal(slices.Delete(slices.Clone(l.Shape), d, d+1), sliced) &&
			sameStrides(l, strides):
			size = l.Shape[d]
		case slices.Equal(l.Shape, sliced) && sameStrides(l, slices.Delete(slices.Clone(strides), d, d+1)):
			p.value = prim.Unsqueeze(b, p.value, int64(d))
		default:
			continue
		}
		p.dim, p.start = int64(d), offset/strides[d]
		p.end = p.start + size
		return p, offset%strides[d] == 0 && p.end <= shape[d]
	}
	return p, false
}

// sameStrides reports that l has the given strides in each dim of more than one element.
func sameStrides(l *ir.Layout, strides []int64) bool {
	for d, n := range l.Shape {
		if n > 1 && l.Stride[d] != strides[d] {
			return false
		}
	}
	return true
}

// isZeros reports that e is a fill with zero that has not run.
func isZeros(g *ir.Graph, e ir.Edge) bool {
	if e.Value == 0 {
		return false
	}
	n := g.Node(e.Value)
	return op.PrimID(n.Op) == prim.Known.Fill && g.Scalars(n)[0] == 0
}

func edgeVal(g *ir.Graph, e ir.Edge) op.Val {
	return op.Val{Kind: op.Tensor, Value: e.Value, Layout: e.Layout, Offset: e.Offset, Aval: g.Node(e.Value).Aval}
}

// flat returns cot. Under CreateGraph it depends on in, with derivative 0. The values of in do not count: where they
// are not saved, zeros have their history.
func (s *Walk) flat(in *Saved, cot op.Val) op.Val {
	if !s.o.CreateGraph {
		return cot
	}
	if in.Held {
		never := prim.Fill(s.b, op.IntVal(0), ir.Bool, cot.Device(), cot.Shape())
		return prim.Add(s.b, cot, prim.Where(s.b, never, in.Val, op.IntVal(0)))
	}
	zeros := prim.Zeros(s.b, cot.DType(), cot.Device(), cot.Shape())
	zeros.Tape = in.Val.Tape
	return prim.Add(s.b, cot, prim.Sign(s.b, zeros))
}
