package compile

import (
	"fmt"
	"strings"

	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// Bounds of a product's epilogue: each form is a kernel text of its own on a GPU, and each operand one of its few
// bindings.
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

// epilogue lists the nodes that a node applies to its result before it stores the value of the last one. They read
// operands further values.
type epilogue struct {
	folds    []int
	operands int
}

// writes is the node whose value is stored.
func (e *epilogue) writes() int { return e.folds[len(e.folds)-1] }

// fuseEpilogues lets a product whose result nothing reads but an elementwise primitive (op.Prim.Folds) apply it before
// it stores, and the cotangent of a normalized value be added to the one that goes around the layer. Bits stay: a
// product rounds its result, then evaluates what the primitive alone is lowered to.
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

// maker gives the node with an epilogue that makes operand j of node i, which is read whole there and nowhere else; not
// one that must be stored.
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

// fold lets the maker of operand j of node i apply that node, where its other operand is there when the maker runs.
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

// thereFor reports that operand k of node i is all of a dense value that is there before node at runs.
func (b *Builder) thereFor(i, k, at int) bool {
	r := b.Program.OperandsOf(i)[k].Value
	if r == 0 || !b.Program.Whole(i, k) {
		return false
	}
	return !r.IsNode() || b.uses.main[r.Index()] < at
}

// depth is the number of terms of a product's sums.
func (b *Builder) depth(product int) int64 {
	shape := ir.LayoutOf(b.Program.OperandsOf(product)[0].Layout).Shape
	return shape[len(shape)-1]
}

// lowerFolds adds what node i applies to its result to the node being lowered.
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
			// The operand is dense and read whole, whatever its shape: its elements lie as the result's do.
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

// refText is r as the text form has it.
func refText(r program.Ref) string {
	if r.IsInput() {
		return fmt.Sprintf("$%d", r.Index())
	}
	return fmt.Sprintf("%%%d", r.Index())
}
