package plan

import (
	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/kernels/lower"
)

// Bounds of a product's epilogue: each form is a program of its own on a GPU, and each operand one of its few bindings.
const (
	mostFolds    = 4
	mostOperands = 1
)

// foldEpilogues lets a product whose result nothing reads but an elementwise primitive (op.Prim.Folds) apply it before it
// stores, and the cotangent of a normalized value be added to the one that goes around the layer. Bits stay: a product rounds its
// result, then evaluates what the primitive alone is lowered to.
func (b *Builder) foldEpilogues() {
	for i := range b.nodes {
		x := &b.nodes[i]
		if x.n.Op >= ir.OpProj || x.slot >= 0 || len(x.edges) == 0 || len(x.edges) > 2 || !op.PrimOf(op.PrimID(x.n.Op)).Folds {
			continue
		}
		for j := range x.edges {
			if b.fold(i, j) {
				break
			}
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

// fold lets the maker of edge j of node i apply that node, where its other operand is there when the maker runs.
func (b *Builder) fold(i, j int) bool {
	x := &b.nodes[i]
	at := b.maker(x.edges[j])
	if at < 0 {
		return false
	}
	p, operands := &b.nodes[at], 0
	for k, e := range x.edges {
		if k == j {
			continue
		}
		if !b.thereFor(e, at) || ir.AvalOf(b.S.G.Node(e.Value).Aval).DType != ir.AvalOf(x.n.Aval).DType {
			return false
		}
		operands++
	}
	if p.n.Op == layerNormGradOp {
		// Its sum is part of its kernel, in the compute type: halves would lack a rounding.
		if d := ir.AvalOf(x.n.Aval).DType; len(p.folds) > 0 || x.n.Op != addOp || d != ir.F32 && d != ir.F64 {
			return false
		}
	} else if b.depth(p) == 0 || len(p.folds) == mostFolds || p.operands+operands > mostOperands {
		return false
	}
	p.folds, p.operands, p.writes, x.into = append(p.folds, i), p.operands+operands, i, at
	return true
}

// thereFor reports that edge e reads all of a dense value that is there before node at runs.
func (b *Builder) thereFor(e ir.Edge, at int) bool {
	if e.Value == 0 || !wholeEdge(b.S.G, e) {
		return false
	}
	m := b.S.G.Node(e.Value).Mark
	return m&extBit != 0 || b.nodes[m-1].main < at
}

// depth is the number of terms of a product's sums.
func (b *Builder) depth(p *node) int64 {
	shape := ir.LayoutOf(p.edges[0].Layout).Shape
	return shape[len(shape)-1]
}

// lowerFolds adds what is folded into node i to the node being lowered.
func (b *Builder) lowerFolds(i int, x *node) {
	ln, g, last := &b.ln, b.S.G, uint32(i+1)
	for _, f := range x.folds {
		y := &b.nodes[f]
		fold := lower.Fold{Prim: op.PrimOf(op.PrimID(y.n.Op)), Attr: ir.AttrOf(y.n.Attr)}
		for _, e := range y.edges {
			m := g.Node(e.Value)
			if m.Mark == last {
				fold.In = append(fold.In, -1)
				continue
			}
			fold.In = append(fold.In, len(ln.In))
			av := ir.AvalOf(m.Aval)
			ln.In = append(ln.In, lower.Operand{DType: av.DType, Layout: av.Layout, Buf: b.local(b.slotOf(m.Mark))})
		}
		last = uint32(f + 1)
		if x.n.Op == layerNormGradOp {
			ln.Residual = true
		} else {
			ln.Folds = append(ln.Folds, fold)
		}
	}
}
