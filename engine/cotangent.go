package engine

import (
	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
)

// addCotangents is x + y. The cotangent of a slice, a gather or an embedding is zeros with a part
// written or added. Where one of the two is that, and not on the tape, the part is added to the
// other: an addition would read and write the zeros around it.
func addCotangents(g *ir.Graph, b op.Builder, x, y op.Val) op.Val {
	if x.Tape == 0 && y.Tape == 0 {
		if sum, ok := addPart(g, b, x, y); ok {
			return sum
		}
		if sum, ok := addPart(g, b, y, x); ok {
			return sum
		}
	}
	return prim.Add(b, x, y)
}

// addPart adds to x what y has beside its zeros.
func addPart(g *ir.Graph, b op.Builder, x, y op.Val) (sum op.Val, ok bool) {
	n := g.Node(y.Value)
	if !wholeDense(x) || !wholeDense(y) || x.DType() != y.DType() || n.Op >= ir.OpProj || n.Op == ir.OpFree || !op.PrimOf(op.PrimID(n.Op)).Updates {
		return op.Val{}, false
	}
	e := g.Edges(n)
	if !isZeros(g, e[0]) {
		return op.Val{}, false
	}
	attr := ir.AttrOf(n.Attr)
	switch op.PrimOf(op.PrimID(n.Op)).Name {
	case "strided_scatter", "strided_scatter_add":
		l := ir.LayoutOf(ir.LayoutID(attr[0]))
		return prim.StridedScatterAdd(b, x, edgeVal(g, e[1]), l, int64(g.Scalars(n)[0])), true
	case "scatter":
		if attr[1] == prim.ScatterSum { // y may view what was scattered in another shape
			sum = prim.Reshape(b, x, ir.AvalOf(n.Aval).Layout.Shape)
			sum = prim.ScatterAdd(b, sum, edgeVal(g, e[1]), edgeVal(g, e[2]), attr[0])
			return prim.Reshape(b, sum, x.Shape()), true
		}
	}
	return op.Val{}, false
}

// wholeDense reports a value read whole and in order.
func wholeDense(v op.Val) bool {
	l := v.L()
	return l.Dense && v.Offset == 0 && l.Numel == ir.AvalOf(v.Aval).Layout.Numel
}

// isZeros reports an edge to a fill with zero that has not run.
func isZeros(g *ir.Graph, e ir.Edge) bool {
	if e.Value == 0 {
		return false
	}
	n := g.Node(e.Value)
	return n.Op < ir.OpProj && n.Op != ir.OpFree && op.PrimOf(op.PrimID(n.Op)).Name == "fill" && g.Scalars(n)[0] == 0
}

func edgeVal(g *ir.Graph, e ir.Edge) op.Val {
	return op.Val{Kind: op.Tensor, Value: e.Value, Layout: e.Layout, Offset: e.Offset, Aval: g.Node(e.Value).Aval}
}
