package plan

import (
	"slices"

	"github.com/torchlette/torchlette/engine/ir"
)

// reading is a product that reads all of a matrix along its depth, as operand 'a' or 'b'.
type reading struct {
	product int
	operand byte
}

// foldSums lets a product store the sums of an operand along its depth that come after it: the gradient of a bias beside
// that of the weights.
func (b *Builder) foldSums() {
	var readings map[uint32]reading // by value
	for i := range b.nodes {
		x := &b.nodes[i]
		switch x.n.Op {
		case matmulOp:
			for j, operand := range [...]byte{'a', 'b'} {
				if !b.mayBeSummed(x, j) {
					continue
				}
				if readings == nil {
					readings = map[uint32]reading{}
				}
				readings[x.edges[j].Value] = reading{i, operand}
			}
		case sumOp:
			if r, ok := readings[x.edges[0].Value]; ok {
				b.foldSum(i, r)
			}
		}
	}
}

// mayBeSummed reports that operand j of product x is all of a dense value, of which a column is summed over, and that the device makes
// such sums.
func (b *Builder) mayBeSummed(x *node, j int) bool {
	av, e := ir.AvalOf(x.n.Aval), x.edges[j]
	least, shape := b.Caps(av.Device).GemmSums, av.Shape()
	if least == 0 || !av.DType.IsFloat() || len(shape) != 2 || min(shape[0], shape[1]) < least || b.depth(x) == 0 {
		return false
	}
	if j == 1 {
		return wholeEdge(b.S.G, e)
	}
	l := ir.LayoutOf(e.Layout)
	// All elements by the strides of a transposed dense matrix: the offset is zero.
	return l.Numel == ir.AvalOf(b.S.G.Node(e.Value).Aval).Layout.Numel && slices.Equal(l.Stride, []int64{1, l.Shape[0]})
}

// foldSum lets the product of r make the sum of node i, where that adds the columns which the product reads and has no
// place yet, which others might read until it runs.
func (b *Builder) foldSum(i int, r reading) {
	x, p := &b.nodes[i], &b.nodes[r.product]
	l := ir.LayoutOf(x.edges[0].Layout)
	last := len(l.Shape) - 1
	if p.sums >= 0 || x.slot >= 0 || !wholeEdge(b.S.G, x.edges[0]) || ir.AvalOf(x.n.Aval).DType != ir.AvalOf(p.n.Aval).DType {
		return
	}
	if dims := ir.AttrOf(x.n.Attr); len(dims) != last || slices.ContainsFunc(dims, func(d int64) bool { return d == int64(last) || d == -1 }) {
		return
	}
	if columns := ir.AvalOf(p.n.Aval).Shape()[r.operand-'a']; l.Shape[last] != columns {
		return
	}
	p.sums, p.summed, x.with = i, r.operand, r.product
}
