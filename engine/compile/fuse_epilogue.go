package compile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// Bounds of a product's epilogue: its nodes, fewer where the map's text is repeated for each piece of a tile
// (device.Caps.CostlyKernels), and how far from the product in record order they are looked for.
const (
	maxFolds       = 16
	maxCostlyFolds = 8
	foldReach      = 64
)

// The primitives that fusion knows.
var (
	matmulOp        = uint16(prim.Known.Matmul)
	convOp          = uint16(prim.Known.Conv)
	sumOp           = uint16(prim.Known.Sum)
	addOp           = uint16(prim.Known.Add)
	layerNormGradOp = uint16(prim.Known.LayerNormGrad)
)

// epilogue lists the nodes that a node applies to its result before it stores the value of the last one.
type epilogue struct{ folds []int }

// writes is the node whose value is stored.
func (e *epilogue) writes() int { return e.folds[len(e.folds)-1] }

// fuseEpilogues lets a product or a convolution apply elementwise nodes before it stores, where nothing else reads its
// result or theirs. It also lets the cotangent of a normalized value be added to the cotangent that goes around the
// layer. The bits stay the same: a product rounds its result, then evaluates the lowering of each node.
func (b *Builder) fuseEpilogues() error {
	b.epilogues = map[int]*epilogue{}
	for i := range b.Program.Nodes {
		switch n := &b.Program.Nodes[i]; {
		case !n.IsPrim():
		case n.Op == matmulOp && b.depth(i) > 0, n.Op == convOp:
			b.foldMap(i)
		case n.Op == addOp:
			b.foldCotangent(i)
		}
	}
	return nil
}

func (b *Builder) noteEpilogue(i int) string {
	if at, ok := b.folded.at(i); ok {
		return fmt.Sprintf("done by %%%d", at)
	}
	e := b.epilogues[i]
	if e == nil {
		return ""
	}
	var names []string
	for _, f := range e.folds {
		names = append(names, b.Program.Prim(f).NameFor(b.Program.Attrs(f)))
	}
	return fmt.Sprintf("makes %%%d: epilogue %s", e.writes(), strings.Join(names, ", "))
}

// inner reports that the value of node v need not be stored, if every node that reads it is in the epilogue.
func (b *Builder) inner(v int) bool { return !b.live(v) && !b.slots.has(v) && !b.donations.has(v) }

// mapGrowing is the map of product at while it grows.
type mapGrowing struct {
	at, most int
	caps     *device.Caps
	nodes    []int
	unread   []int         // by node of the map, the product first: how often its value is read outside
	reads    []program.Ref // from outside
}

// foldMap lets product at apply the longest run of nodes, in record order, that read its result or each other at their
// own element, and of which only the last one's value is needed elsewhere.
func (b *Builder) foldMap(at int) {
	if !b.inner(at) || b.aval(at).Layout.Numel == 0 {
		return
	}
	g := mapGrowing{at: at, most: maxFolds, caps: b.Caps(b.aval(at).Device), unread: []int{b.uses.count[at]}}
	if g.caps.CostlyKernels {
		g.most = maxCostlyFolds
	}
	whole, end := 0, b.uses.last[at]
	for i := at + 1; i <= min(end, at+foldReach, len(b.Program.Nodes)-1) && len(g.nodes) < g.most; i++ {
		if !g.readBy(b, i) {
			continue
		}
		if !b.joinsMap(&g, i) {
			break
		}
		end = max(end, b.uses.last[i])
		if b.aval(i).DType == b.aval(at).DType && g.closed() {
			whole = len(g.nodes)
		}
		if !b.inner(i) {
			break
		}
	}
	if whole == 0 {
		return
	}
	if g.caps.CostlyKernels && !b.Often {
		b.p.Fusible++
		return
	}
	b.epilogues[at] = &epilogue{folds: slices.Clone(g.nodes[:whole])}
	for _, f := range g.nodes[:whole] {
		b.folded.set(f, at)
	}
}

// number is the number of a value in unread; -1: it comes from outside.
func (g *mapGrowing) number(v program.Ref) int {
	switch {
	case !v.IsNode():
		return -1
	case v.Index() == g.at:
		return 0
	}
	if k := slices.Index(g.nodes, v.Index()); k >= 0 {
		return k + 1
	}
	return -1
}

// readBy reports that node i reads a value of the map.
func (g *mapGrowing) readBy(b *Builder, i int) bool {
	return slices.ContainsFunc(b.Program.OperandsOf(i), func(e program.Edge) bool { return g.number(e.Value) >= 0 })
}

// closed reports that nothing outside reads a value but the last one's.
func (g *mapGrowing) closed() bool {
	return !slices.ContainsFunc(g.unread[:len(g.unread)-1], func(n int) bool { return n > 0 })
}

// joinsMap adds node i to g, where it is elementwise, reads its own element, and reads nothing that is made after the
// product.
func (b *Builder) joinsMap(g *mapGrowing, i int) bool {
	p, av := b.Program, b.aval(i)
	if !b.foldable(i) || b.folded.has(i) || b.slots.has(i) || av.Device != b.aval(g.at).Device ||
		av.Layout.Numel != b.aval(g.at).Layout.Numel {
		return false
	}
	unread, reads := slices.Clone(g.unread), g.reads
	for j, e := range p.OperandsOf(i) {
		if e.Value == 0 {
			continue
		}
		if n := g.number(e.Value); n >= 0 {
			if unread[n]--; !p.Whole(i, j) {
				return false
			}
			continue
		}
		if !b.thereFor(i, j, g.at) || p.Aval(e.Value).Layout.Numel != av.Layout.Numel {
			return false
		}
		if !slices.Contains(reads, e.Value) {
			reads = append(reads[:len(reads):len(reads)], e.Value)
		}
	}
	if len(reads) > g.caps.GemmOperands {
		return false
	}
	unread = append(unread, b.uses.count[i])
	g.nodes, g.unread, g.reads = append(g.nodes, i), unread, reads
	return true
}

// foldable reports that node i computes each element of one result from the same element of its operands.
func (b *Builder) foldable(i int) bool {
	n := &b.Program.Nodes[i]
	if !n.IsPrim() || n.Outputs != 1 {
		return false
	}
	p := b.Program.Prim(i)
	return p.Elementwise && !p.MayFail() && lower.CanFuse(p, b.Program.Attrs(i))
}

// foldCotangent lets the kernel of a normalization's gradient apply the addition i to the cotangent that it makes. The
// sum is part of that kernel, in the compute type: halves would lack a rounding.
func (b *Builder) foldCotangent(i int) {
	if d := b.aval(i).DType; b.slots.has(i) || b.folded.has(i) || d != ir.F32 && d != ir.F64 {
		return
	}
	for j, e := range b.Program.OperandsOf(i) {
		if !e.Value.IsNode() || !b.Program.Whole(i, j) {
			continue
		}
		v := e.Value.Index()
		if b.Program.Nodes[v].Op != layerNormGradOp || b.uses.count[v] != 1 || !b.inner(v) || b.epilogues[v] != nil {
			continue
		}
		other := b.Program.OperandsOf(i)[1-j]
		if b.thereFor(i, 1-j, v) && b.Program.Aval(other.Value).DType == b.aval(i).DType {
			b.epilogues[v] = &epilogue{folds: []int{i}}
			b.folded.set(i, v)
			return
		}
	}
}

// thereFor reports that operand k of node i is all of a dense value that exists before node at runs, and whose buffer
// stays as it is.
func (b *Builder) thereFor(i, k, at int) bool {
	r := b.Program.OperandsOf(i)[k].Value
	if r == 0 || !b.Program.Whole(i, k) {
		return false
	}
	if !r.IsNode() {
		return true
	}
	taker, given := b.donations.at(r.Index())
	return b.uses.main[r.Index()] < at && !(given && taker == i)
}

// depth is the number of terms in each sum of a product.
func (b *Builder) depth(product int) int64 {
	shape := ir.LayoutOf(b.Program.OperandsOf(product)[0].Layout).Shape
	return shape[len(shape)-1]
}

// lowerFolds adds what node i applies to its result to the node that is being lowered.
func (b *Builder) lowerFolds(i int) {
	w := &b.lowering
	w.foldOffs, w.foldScs = w.foldOffs[:0], w.foldScs[:0]
	e := b.epilogues[i]
	if e == nil {
		return
	}
	p, ln := b.Program, &w.node
	own := len(ln.In)
	for _, f := range e.folds {
		fold := lower.Fold{Prim: p.Prim(f), Attr: p.Attrs(f), DType: b.aval(f).DType}
		types, scalars := p.ScalarTypes(f), 0
		for j, o := range p.OperandsOf(f) {
			switch {
			case o.Value == 0:
				fold.In = append(fold.In, b.foldOperand(lower.Operand{Scalar: true, DType: types[j]}))
				w.foldScs = append(w.foldScs, int(p.Nodes[f].Scalar)+scalars)
				scalars++
				continue
			case o.Value.IsNode() && o.Value.Index() == i:
				fold.In = append(fold.In, ^0)
				continue
			}
			if k := slices.Index(e.folds, o.Value.Index()); o.Value.IsNode() && k >= 0 {
				fold.In = append(fold.In, ^(k + 1))
				continue
			}
			// The operand is dense and read whole, whatever its shape: its elements are in the order of the result's.
			in := lower.Operand{DType: p.Aval(o.Value).DType, Layout: b.aval(i).Layout, Buf: b.local(b.slotOf(o.Value))}
			if k := slices.Index(ln.In[own:], in); k >= 0 {
				fold.In = append(fold.In, own+k)
			} else {
				fold.In = append(fold.In, b.foldOperand(in))
			}
		}
		if p.Nodes[i].Op == layerNormGradOp {
			ln.Residual = true
		} else {
			ln.Folds = append(ln.Folds, fold)
		}
	}
}

// foldOperand adds an operand of an epilogue to the node that is being lowered, and returns its number.
func (b *Builder) foldOperand(in lower.Operand) int {
	w := &b.lowering
	w.node.In, w.foldOffs = append(w.node.In, in), append(w.foldOffs, -1)
	return len(w.node.In) - 1
}

// refText is r in the text form.
func refText(r program.Ref) string {
	if r.IsInput() {
		return fmt.Sprintf("$%d", r.Index())
	}
	return fmt.Sprintf("%%%d", r.Index())
}
