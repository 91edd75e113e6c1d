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
// (device.Caps.CostlyKernels), and their distance from the product in record order.
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

// epilogue lists the nodes that a node applies to its result before it stores, and the nodes whose values it stores:
// the first of these in the buffer of its result. The node itself may be one of them.
type epilogue struct {
	folds, kept []int
	bindings    int // of what the folds read and store beside the node's result
}

// fuseEpilogues lets a product or a convolution apply elementwise nodes to its result. It stores every value that
// something else needs, its result included. The pass also lets the kernel of a norm's gradient add the cotangent of
// the residual connection. The bits stay the same: a product rounds its result, then evaluates the lowering of each
// node.
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
	var makes []string
	for _, v := range e.kept {
		makes = append(makes, refText(program.NodeRef(v)))
	}
	return fmt.Sprintf("makes %s: epilogue %s", strings.Join(makes, " "), strings.Join(names, ", "))
}

// inner reports that the value of node v need not be stored if all its readers are in the epilogue.
func (b *Builder) inner(v int) bool { return !b.live(v) && !b.slots.has(v) && !b.donations.has(v) }

// mapGrowing is the map of product at while it grows.
type mapGrowing struct {
	at, most int
	caps     *device.Caps
	nodes    []int
	unread   []int         // by node of the map, the product first: how often its value is read outside
	reads    []program.Ref // from outside, whole
	views    int           // further operands, which are read by strides
	apart    bool          // a kernel lies between the product and the node that comes next
	best     *epilogue     // the longest one so far; plain: that stores one value
	plain    *epilogue
}

// foldMap lets product at apply the longest run of nodes, in record order, that read its result or each other at their
// own element.
func (b *Builder) foldMap(at int) {
	if b.slots.has(at) || b.donations.has(at) || b.aval(at).Layout.Numel == 0 {
		return
	}
	g := mapGrowing{at: at, most: maxFolds, caps: b.Caps(b.aval(at).Device), unread: []int{b.uses.count[at]}}
	if g.caps.CostlyKernels {
		g.most = maxCostlyFolds
	}
	end := b.uses.last[at]
	for i := at + 1; i <= min(end, at+foldReach, len(b.Program.Nodes)-1); i++ {
		if !g.readBy(b, i) {
			g.apart = g.apart || b.hasKernel(i)
			continue
		}
		if len(g.nodes) == g.most || !b.joinsMap(&g, i) {
			if b.takesChain(&g, i) {
				g.best = g.plain
			}
			break
		}
		end = max(end, b.uses.last[i])
		b.considerMap(&g)
		if b.donations.has(i) {
			break
		}
	}
	if g.best == nil {
		return
	}
	if g.caps.CostlyKernels && !b.Often {
		b.p.Fusible++
		return
	}
	b.epilogues[at] = g.best
	for _, f := range g.best.folds {
		b.folded.set(f, at)
	}
}

// takesChain reports that node i reads the last value so far and may be in a group. The group computes the nodes before
// it, which then need no further result of the product.
func (b *Builder) takesChain(g *mapGrowing, i int) bool {
	return b.Program.Nodes[i].IsPrim() && b.fusible(i) &&
		slices.ContainsFunc(b.Program.OperandsOf(i), func(e program.Edge) bool { return g.number(e.Value) == len(g.nodes) })
}

// considerMap notes the nodes so far as an epilogue if the product can store every value that is needed outside of it.
// The buffer of the product's result holds a value of its dtype. Further results are stored only if no kernel lies
// between, since a value that is stored early takes memory.
func (b *Builder) considerMap(g *mapGrowing) {
	last := len(g.nodes)
	value := func(k int) int {
		if k == 0 {
			return g.at
		}
		return g.nodes[k-1]
	}
	e := &epilogue{folds: slices.Clone(g.nodes)}
	for k := last; k >= 0; k-- {
		v := value(k)
		if k < last && g.unread[k] == 0 && !b.live(v) {
			continue
		}
		if e.kept = append(e.kept, v); len(e.kept) > 1 && b.aval(e.kept[0]).DType != b.aval(g.at).DType {
			e.kept[0], e.kept[len(e.kept)-1] = v, e.kept[0]
		}
	}
	further := len(e.kept) - 1
	if b.aval(e.kept[0]).DType != b.aval(g.at).DType || further > 0 && g.apart ||
		g.operands()+further > g.caps.GemmOperands {
		return
	}
	e.bindings = g.operands() + further
	if g.best = e; further == 0 {
		g.plain = e
	}
}

// operands counts the tensors from outside.
func (g *mapGrowing) operands() int { return len(g.reads) + g.views }

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

// joinsMap adds node i to g if it is elementwise, reads values of the map at its own element, and has no other operand
// that is made after the product.
func (b *Builder) joinsMap(g *mapGrowing, i int) bool {
	p, av := b.Program, b.aval(i)
	if !b.foldable(i) || b.folded.has(i) || b.slots.has(i) || av.Device != b.aval(g.at).Device ||
		av.Layout.Numel != b.aval(g.at).Layout.Numel {
		return false
	}
	unread, reads, views := slices.Clone(g.unread), g.reads, g.views
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
		switch {
		case !b.thereFor(i, j, g.at):
			return false
		case !b.readAsResult(i, j):
			if _, ok := b.foldView(i, j, g.at); !ok {
				return false
			}
			views++
		case !slices.Contains(reads, e.Value):
			reads = append(reads[:len(reads):len(reads)], e.Value)
		}
	}
	if len(reads)+views > g.caps.GemmOperands {
		return false
	}
	unread = append(unread, b.uses.count[i])
	g.nodes, g.unread, g.reads, g.views = append(g.nodes, i), unread, reads, views
	return true
}

// readAsResult reports that node i reads all of operand j, in the order of the node's elements.
func (b *Builder) readAsResult(i, j int) bool {
	return b.whole(i, j) && b.Program.Aval(b.Program.OperandsOf(i)[j].Value).Layout.Numel == b.aval(i).Layout.Numel
}

// foldView is operand j of node i as a view in the shape of the result of product at.
func (b *Builder) foldView(i, j, at int) (*ir.Layout, bool) {
	return ir.ReshapeLayout(ir.LayoutOf(b.Program.OperandsOf(i)[j].Layout), b.aval(at).Shape())
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

// foldCotangent lets the kernel of a norm's gradient apply the addition i to its cotangent. The kernel adds in its
// compute type, so halves, which would lack a rounding, are excluded.
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
		if b.thereFor(i, 1-j, v) && b.whole(i, 1-j) && b.Program.Aval(other.Value).DType == b.aval(i).DType {
			b.epilogues[v] = &epilogue{folds: []int{i}, kept: []int{i}}
			b.folded.set(i, v)
			return
		}
	}
}

// thereFor reports that operand k of node i exists before node at runs, and that no node between writes its buffer.
func (b *Builder) thereFor(i, k, at int) bool {
	r := b.Program.OperandsOf(i)[k].Value
	if r == 0 {
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
	for _, v := range e.kept {
		ln.Kept = append(ln.Kept, ^(1 + slices.Index(e.folds, v)))
	}
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
			fold.In = append(fold.In, b.foldTensor(i, f, j, own))
		}
		if p.Nodes[i].Op == layerNormGradOp {
			ln.Residual = true
		} else {
			ln.Folds = append(ln.Folds, fold)
		}
	}
}

// foldTensor adds operand j of node f, which node i applies, to the node that is being lowered, where it lacks it, and
// returns its number. The operands of the epilogue begin at number own.
func (b *Builder) foldTensor(i, f, j, own int) int {
	w, e := &b.lowering, b.Program.OperandsOf(f)[j]
	in := lower.Operand{DType: b.Program.Aval(e.Value).DType, Buf: b.local(b.slotOf(e.Value)), Whole: true}
	if !b.readAsResult(f, j) {
		in.Whole = false
		in.Layout, _ = b.foldView(f, j, i)
		at := b.foldOperand(in)
		w.foldOffs[len(w.foldOffs)-1] = int(b.Program.Nodes[f].Edge) + j
		return at
	}
	// Whatever the operand's shape, its elements are in the order of the result's.
	in.Layout = b.aval(i).Layout
	if k := slices.Index(w.node.In[own:], in); k >= 0 {
		return own + k
	}
	return b.foldOperand(in)
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
