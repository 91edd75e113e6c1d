package compile

import (
	"fmt"
	"slices"

	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// reading is a product that reads all of a matrix along its depth, as operand 'a' or 'b'.
type reading struct {
	product int
	operand byte
}

// columnSum is a sum of operand 'a' or 'b' that a product stores beside its result: the value of node.
type columnSum struct {
	node    int
	operand byte
}

// fuseBiasGrads lets a product also store the sums of an operand along its depth, where a later node computes them: the
// bias gradient beside the weight gradient.
func (b *Builder) fuseBiasGrads() error {
	p := b.Program
	b.sums = map[int]columnSum{}
	readings := map[program.Ref]reading{}
	for i := range p.Nodes {
		switch p.Nodes[i].Op {
		case matmulOp:
			for j, operand := range [...]byte{'a', 'b'} {
				if b.mayBeSummed(i, j) {
					readings[p.OperandsOf(i)[j].Value] = reading{i, operand}
				}
			}
		case sumOp:
			if r, ok := readings[p.OperandsOf(i)[0].Value]; ok {
				b.fuseSum(i, r)
			}
		}
	}
	return nil
}

func (b *Builder) noteColumnSum(i int) string {
	if s, ok := b.sums[i]; ok {
		return fmt.Sprintf("makes %%%d, the sums of operand %c", s.node, s.operand)
	}
	if at, ok := b.summed.at(i); ok {
		return fmt.Sprintf("done by %%%d", at)
	}
	return ""
}

// mayBeSummed reports that operand j of product i is all of a dense value whose columns are summed, and that the device
// makes such sums.
func (b *Builder) mayBeSummed(i, j int) bool {
	av, e := b.aval(i), b.Program.OperandsOf(i)[j]
	least, shape := b.Caps(av.Device).GemmSums, av.Shape()
	if least == 0 || !av.DType.IsFloat() || len(shape) != 2 || min(shape[0], shape[1]) < least || b.depth(i) == 0 {
		return false
	}
	if j == 1 {
		return b.Program.Whole(i, j)
	}
	l := ir.LayoutOf(e.Layout)
	// All elements, by the strides of a transposed dense matrix: the offset is zero.
	return l.Numel == b.Program.Aval(e.Value).Layout.Numel && slices.Equal(l.Stride, []int64{1, l.Shape[0]})
}

// fuseSum lets the product of r compute the sum of node i, where i sums the columns that the product reads. i must have
// no slot yet, since others might read that slot until i runs.
func (b *Builder) fuseSum(i int, r reading) {
	p := b.Program
	l := ir.LayoutOf(p.OperandsOf(i)[0].Layout)
	last := len(l.Shape) - 1
	if _, has := b.sums[r.product]; has || b.slots.has(i) || !p.Whole(i, 0) || b.aval(i).DType != b.aval(r.product).DType {
		return
	}
	dims := p.Attrs(i)
	if len(dims) != last || slices.Contains(dims, int64(last)) || slices.Contains(dims, -1) {
		return
	}
	if columns := b.aval(r.product).Shape()[r.operand-'a']; l.Shape[last] != columns {
		return
	}
	b.sums[r.product] = columnSum{i, r.operand}
	b.summed.set(i, r.product)
}
