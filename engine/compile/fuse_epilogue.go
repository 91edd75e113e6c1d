package compile

import (
	"fmt"
	"strings"

	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// Bounds of a product's epilogue. On a GPU each combination is a kernel text of its own, and each operand takes one of
// the few bindings.
const (
	maxFolds    = 4
	maxOperands = 1
)

// The primitives that fusion knows.
var (
	matmulOp        = uint16(prim.Known.Matmul)
	sumOp           = uint16(prim.Known.Sum)
	addOp           = uint16(prim.Known.Add)
	layerNormGradOp = uint16(prim.Known.LayerNormGrad)
)

// epilogue lists the nodes that a node applies to its result before it stores the value of the last one. operands is
// the number of further values that they read.
type epilogue struct {
	folds    []int
	operands int
}

// writes is the node whose value is stored.
func (e *epilogue) writes() int { return e.folds[len(e.folds)-1] }

// fuseEpilogues lets a product apply an elementwise primitive (op.Prim.Folds) before it stores, where nothing else
// reads the product's result. It also lets the cotangent of a normalized value be added to the cotangent that goes
// around the layer. The bits stay the same: a product rounds its result, then evaluates the primitive's own lowering.
func (b *Builder) fuseEpilogues() error {
	p := b.Program
	b.epilogues = map[int]*epilogue{}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if !n.IsPrim() || b.slots.has(i) || n.Operands == 0 || n.Operands > 2 || !p.Prim(i).Folds {
			continue
		}
		for j := range n.Operands {
			if b.fold(i, int(j)) {
				break
			}
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

// maker returns the node with an epilogue that makes operand j of node i, where i reads all of it, nothing else reads
// it, and it need not be stored.
func (b *Builder) maker(i, j int) (at int, ok bool) {
	p := b.Program
	r := p.OperandsOf(i)[j].Value
	if !r.IsNode() || !p.Whole(i, j) {
		return 0, false
	}
	v := r.Index()
	if b.uses.count[v] != 1 || b.live(v) || b.slots.has(v) || b.donations.has(v) {
		return 0, false
	}
	if at, ok := b.folded.at(v); ok {
		return at, true
	}
	o := p.Nodes[v].Op
	return v, o == matmulOp || o == layerNormGradOp
}

// fold lets the maker of operand j of node i apply node i, where i's other operand exists when the maker runs.
func (b *Builder) fold(i, j int) bool {
	p := b.Program
	at, ok := b.maker(i, j)
	if !ok {
		return false
	}
	e, operands := b.epilogues[at], 0
	if e == nil {
		e = &epilogue{}
	}
	for k, other := range p.OperandsOf(i) {
		if k == j {
			continue
		}
		if !b.thereFor(i, k, at) || p.Aval(other.Value).DType != b.aval(i).DType {
			return false
		}
		operands++
	}
	if p.Nodes[at].Op == layerNormGradOp {
		// Its sum is part of its kernel, in the compute type: halves would lack a rounding.
		if d := b.aval(i).DType; len(e.folds) > 0 || p.Nodes[i].Op != addOp || d != ir.F32 && d != ir.F64 {
			return false
		}
	} else if b.depth(at) == 0 || len(e.folds) == maxFolds || e.operands+operands > maxOperands {
		return false
	}
	e.folds, e.operands = append(e.folds, i), e.operands+operands
	b.epilogues[at] = e
	b.folded.set(i, at)
	return true
}

// thereFor reports that operand k of node i is all of a dense value that exists before node at runs.
func (b *Builder) thereFor(i, k, at int) bool {
	r := b.Program.OperandsOf(i)[k].Value
	if r == 0 || !b.Program.Whole(i, k) {
		return false
	}
	return !r.IsNode() || b.uses.main[r.Index()] < at
}

// depth is the number of terms in each sum of a product.
func (b *Builder) depth(product int) int64 {
	shape := ir.LayoutOf(b.Program.OperandsOf(product)[0].Layout).Shape
	return shape[len(shape)-1]
}

// lowerFolds adds what node i applies to its result to the node that is being lowered.
func (b *Builder) lowerFolds(i int) {
	e := b.epilogues[i]
	if e == nil {
		return
	}
	p, ln, last := b.Program, &b.lowering.node, i
	for _, f := range e.folds {
		fold := lower.Fold{Prim: p.Prim(f), Attr: p.Attrs(f)}
		for _, o := range p.OperandsOf(f) {
			if o.Value.IsNode() && o.Value.Index() == last {
				fold.In = append(fold.In, -1)
				continue
			}
			fold.In = append(fold.In, len(ln.In))
			// The operand is dense and read whole, whatever its shape: its elements are in the order of the result's.
			ln.In = append(ln.In, lower.Operand{
				DType: p.Aval(o.Value).DType, Layout: b.aval(i).Layout, Buf: b.local(b.slotOf(o.Value)),
			})
		}
		last = f
		if p.Nodes[i].Op == layerNormGradOp {
			ln.Residual = true
		} else {
			ln.Folds = append(ln.Folds, fold)
		}
	}
}

// refText is r in the text form.
func refText(r program.Ref) string {
	if r.IsInput() {
		return fmt.Sprintf("$%d", r.Index())
	}
	return fmt.Sprintf("%%%d", r.Index())
}
