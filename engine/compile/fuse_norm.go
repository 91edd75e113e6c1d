package compile

import (
	"fmt"
	"slices"

	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// Bounds of a norm that products compute: how many of them read it, the elements of a row, and the multiplications of a
// product. Each column of a product works the row anew. Of a longer row that costs more than a launch, and the product
// would take several passes. Each multiplication takes an element of the norm, and of many these cost more than a
// launch: of halves sooner, since they are read in half the time and rounded by twenty instructions.
const (
	maxNormReaders       = 4
	maxNormRow           = 8192
	maxNormProduct       = 32 << 20
	maxNormHalvesProduct = 8 << 20
)

var layerNormOp = uint16(prim.Known.LayerNorm)

// fuseNorms lets products of few rows normalize the rows that they multiply, where nothing else reads the norm. What
// the norm reads is then read at the products' places. Nothing may write it before, and it lives until then.
//
// A loop's body has no such products: its steps may share a workgroup, and its inputs have offsets of their own.
func (b *Builder) fuseNorms() error {
	b.norms = map[int]int{}
	if b.Moving {
		return nil
	}
	var t *touches
	for v := range b.Program.Nodes {
		products := b.normReaders(v)
		if len(products) == 0 {
			continue
		}
		if t == nil {
			t = b.touches()
		}
		last := products[len(products)-1]
		if b.grouped(t, v) || !b.keepsOperands(t, v, last) {
			continue
		}
		if b.Caps(b.aval(v).Device).CostlyKernels && !b.Often {
			b.p.Fusible++
			continue
		}
		for _, i := range products {
			b.norms[i] = v
		}
		b.normed.set(v, last)
		for _, e := range b.Program.OperandsOf(v) {
			b.readUntil(e.Value, last)
		}
	}
	return nil
}

func (b *Builder) noteNorm(i int) string {
	if at, ok := b.normed.at(i); ok {
		return fmt.Sprintf("done by what reads it, at last %%%d", at)
	}
	if v, ok := b.norms[i]; ok {
		return fmt.Sprintf("normalizes its rows as %%%d", v)
	}
	return ""
}

// normReaders lists the products that read norm v, if it has no other readers and each product can normalize its rows.
func (b *Builder) normReaders(v int) (products []int) {
	n := &b.Program.Nodes[v]
	if !n.IsPrim() || n.Op != layerNormOp || !b.inner(v) || b.uses.count[v] > maxNormReaders || !b.mayNormalize(v) {
		return nil
	}
	for i := v + 1; i <= b.uses.last[v]; i++ {
		if !slices.ContainsFunc(b.Program.OperandsOf(i), func(e program.Edge) bool { return e.Value == program.NodeRef(v) }) {
			continue
		}
		if !b.normalizes(i, v) {
			return nil
		}
		products = append(products, i)
	}
	if len(products) != b.uses.count[v] {
		return nil
	}
	return products
}

// mayNormalize reports that the device's products can compute norm v: it has few rows, which are not long, and its
// vectors are whole.
func (b *Builder) mayNormalize(v int) bool {
	av, edges := b.aval(v), b.Program.OperandsOf(v)
	shape, dims := av.Shape(), int(b.Program.Attrs(v)[0])
	depth := ir.Numel(shape[len(shape)-dims:])
	if depth == 0 || depth > maxNormRow || av.Layout.Numel == 0 ||
		av.Layout.Numel > depth*b.Caps(av.Device).GemmPrologues || b.Program.Aval(edges[0].Value).DType != av.DType {
		return false
	}
	for j := range edges[1:] {
		if edges[1+j].Value != 0 && !b.whole(v, 1+j) {
			return false
		}
	}
	return true
}

// normalizes reports that node i is a product which can normalize the rows of its first operand as v does: it reads all
// of v, by the rows of v, and its kernel can bind what v reads.
func (b *Builder) normalizes(i, v int) bool {
	n, p := &b.Program.Nodes[i], b.Program
	if !n.IsPrim() || n.Op != matmulOp || !p.Whole(i, 0) || b.aval(i).DType != b.aval(v).DType ||
		b.aval(i).Device != b.aval(v).Device || b.aval(i).Layout.Numel == 0 {
		return false
	}
	if _, has := b.sums[i]; has {
		return false
	}
	edges := p.OperandsOf(i)
	reads := func(e program.Edge) bool { return e.Value == program.NodeRef(v) }
	if !reads(edges[0]) || slices.ContainsFunc(edges[1:], reads) {
		return false
	}
	if shape := b.aval(v).Shape(); b.depth(i) != ir.Numel(shape[len(shape)-int(p.Attrs(v)[0]):]) {
		return false
	}
	most := int64(maxNormProduct)
	if b.aval(v).DType.Size() < 4 {
		most = maxNormHalvesProduct
	}
	if _, ok := b.normView(i, v); !ok || b.aval(i).Layout.Numel*b.depth(i) > most {
		return false
	}
	return b.bindsNorm(i, v)
}

// bindsNorm reports that the kernel of product i can bind what norm v reads.
func (b *Builder) bindsNorm(i, v int) bool {
	p := b.Program
	bindings := len(p.OperandsOf(i)) + 1 // with the result
	for _, e := range p.OperandsOf(v)[1:] {
		if e.Value != 0 {
			bindings++
		}
	}
	if e := b.epilogues[i]; e != nil {
		bindings += e.bindings
	}
	return bindings <= b.Caps(b.aval(i).Device).MaxStorageBuffers
}

// normView is the operand of norm v, viewed as product i reads v.
func (b *Builder) normView(i, v int) (*ir.Layout, bool) {
	from, to := b.Program.OperandsOf(v)[0].Layout, b.Program.OperandsOf(i)[0].Layout
	return ir.ReshapeLayout(ir.LayoutOf(from), ir.LayoutOf(to).Shape)
}

// grouped reports that a fusion group may contain norm v and the node of its operand. The norm then has no launch to
// save.
func (b *Builder) grouped(t *touches, v int) bool {
	x := b.Program.OperandsOf(v)[0].Value
	if !x.IsNode() {
		return false
	}
	m := b.uses.main[x.Index()]
	return b.hasKernel(m) && b.fusible(m) && t.kernels[v] == t.kernels[m]+1 &&
		b.aval(m).Layout.Numel == b.aval(v).Layout.Numel
}

// keepsOperands reports that the operands of norm v are unchanged until node last has run: no node after v, last
// included, writes them. Memory does not grow: one temporary may live longer, since the norm has none.
func (b *Builder) keepsOperands(t *touches, v, last int) bool {
	longer := 0
	for _, e := range b.Program.OperandsOf(v) {
		if e.Value == 0 {
			continue
		}
		if slot := b.slotOf(e.Value); slot >= 0 && between(t.writes[slot], v, last+1) {
			return false
		}
		if !e.Value.IsNode() {
			continue
		}
		x := e.Value.Index()
		if taker, given := b.donations.at(x); given && taker <= last {
			return false
		}
		if b.uses.last[x] < last && !b.live(x) && !b.slots.has(x) {
			if longer++; device.SizeClass(b.bytes(b.aval(x))) > device.SizeClass(b.bytes(b.aval(v))) {
				return false
			}
		}
	}
	return longer <= 1
}

// lowerNorm adds the norm of product i to the node that is being lowered.
func (b *Builder) lowerNorm(i int) {
	v, ok := b.norms[i]
	if !ok {
		return
	}
	p, ln := b.Program, &b.lowering.node
	ln.Norm = &lower.Fold{Prim: p.Prim(v), Attr: p.Attrs(v), DType: b.aval(v).DType, In: []int{0}}
	types, scalars := p.ScalarTypes(v), 0
	for j, e := range p.OperandsOf(v) {
		switch {
		case j == 0: // it is what the norm reads; see Builder.lower
		case e.Value == 0:
			ln.Norm.In = append(ln.Norm.In, b.foldOperand(lower.Operand{Scalar: true, DType: types[j]}))
			b.lowering.foldScs = append(b.lowering.foldScs, int(p.Nodes[v].Scalar)+scalars)
			scalars++
		default:
			av := p.Aval(e.Value)
			ln.Norm.In = append(ln.Norm.In, b.foldOperand(lower.Operand{DType: av.DType, Layout: av.Layout, Whole: true,
				Buf: b.local(b.slotOf(e.Value))}))
		}
	}
	b.p.notePrologue(i, v)
}
