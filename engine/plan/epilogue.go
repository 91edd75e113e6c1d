package plan

import (
	"slices"

	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/kernels/kir"
)

// matmulAct is the number of matmul's attribute that names an activation.
const matmulAct = 1

// activations are the functions that a product applies to its sums before it stores them.
var activations = map[string]kir.Activation{"relu": kir.ActRelu, "gelu": kir.ActGelu, "gelu_tanh": kir.ActGeluTanh, "silu": kir.ActSilu}

// foldEpilogues lets a product whose result nothing reads but an activation or the addition of a residual do
// these before it stores, and the cotangent of a normalized value be added to the one that goes around the layer.
func (b *Builder) foldEpilogues() {
	for i := range b.nodes {
		x := &b.nodes[i]
		if x.n.Op >= ir.OpProj || x.slot >= 0 || len(x.edges) == 0 || len(x.edges) > 2 {
			continue
		}
		p := op.PrimOf(op.PrimID(x.n.Op))
		if len(x.edges) == 1 {
			if act, ok := activations[p.Called(ir.AttrOf(x.n.Attr))]; ok {
				b.foldActivation(i, act)
			}
		} else if p.Name == "add" {
			_ = b.foldResidual(i, 0) || b.foldResidual(i, 1)
		}
	}
}

// maker gives the local number of the node with an epilogue that makes the value of edge e, read whole there and nowhere
// else; -1 when it is something else or must be stored.
func (b *Builder) maker(e ir.Edge) int {
	if e.Value == 0 || !wholeEdge(b.S.G, e) {
		return -1
	}
	m := b.S.G.Node(e.Value).Mark
	if m&extBit != 0 {
		return -1
	}
	i := int(m - 1)
	switch v := &b.nodes[i]; {
	case v.n.Uses != 1 || b.W.Out[i] || v.slot >= 0 || v.heir >= 0:
		return -1
	case v.into >= 0:
		return v.into
	case v.n.Op == matmulOp || v.n.Op == layerNormGradOp:
		return i
	}
	return -1
}

// foldActivation lets the product that node i alone reads apply act.
func (b *Builder) foldActivation(i int, act kir.Activation) {
	x := &b.nodes[i]
	at := b.maker(x.edges[0])
	if at < 0 {
		return
	}
	p := &b.nodes[at]
	if p.n.Op != matmulOp || p.writes >= 0 || ir.AttrOf(p.n.Attr)[matmulAct] != int64(kir.ActNone) {
		return
	}
	p.act, p.writes, x.into = act, i, at
}

// foldResidual lets the maker of edge j of the addition i add the other operand, where that is there when the maker
// runs. Half types are left alone: their sums are rounded before they are added.
func (b *Builder) foldResidual(i, j int) bool {
	g, x := b.S.G, &b.nodes[i]
	at, r := b.maker(x.edges[j]), x.edges[1-j]
	if at < 0 || r.Value == 0 || !wholeEdge(g, r) {
		return false
	}
	p, m := &b.nodes[at], g.Node(r.Value)
	if d := ir.AvalOf(x.n.Aval).DType; p.residual != 0 || d != ir.F32 && d != ir.F64 {
		return false
	}
	if m.Mark&extBit == 0 && b.nodes[m.Mark-1].main >= at || p.n.Op == matmulOp && b.depth(p) == 0 {
		return false
	}
	p.residual, p.writes, x.into = m.Mark, i, at
	return true
}

// depth is the number of terms of a product's sums.
func (b *Builder) depth(p *node) int64 {
	shape := ir.LayoutOf(p.edges[0].Layout).Shape
	return shape[len(shape)-1]
}

// attrOf gives the attributes of a node as it is lowered.
func (x *node) attrOf() []int64 {
	attr := ir.AttrOf(x.n.Attr)
	if x.act == kir.ActNone {
		return attr
	}
	attr = slices.Clone(attr)
	attr[matmulAct] = int64(x.act)
	return attr
}
