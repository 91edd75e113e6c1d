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

// foldActivations lets a product whose result nothing reads but an activation apply it: the sums are never stored.
func (b *Builder) foldActivations() {
	g := b.S.G
	for i := range b.nodes {
		x := &b.nodes[i]
		if x.n.Op >= ir.OpProj || x.slot >= 0 || len(x.edges) != 1 || x.edges[0].Value == 0 || !wholeEdge(g, x.edges[0]) {
			continue
		}
		act, ok := activations[op.PrimOf(op.PrimID(x.n.Op)).Called(ir.AttrOf(x.n.Attr))]
		m := g.Node(x.edges[0].Value).Mark
		if !ok || m&extBit != 0 {
			continue
		}
		p := &b.nodes[m-1]
		if p.n.Op != matmulOp || p.n.Uses != 1 || b.W.Out[m-1] || p.slot >= 0 || p.heir >= 0 || ir.AttrOf(p.n.Attr)[matmulAct] != int64(kir.ActNone) {
			continue
		}
		p.act, p.actBy = act, i
		x.folded = true
	}
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
