package plan

import (
	"fmt"
	"slices"

	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/kernels/kir"
)

// matmulAct is the number of matmul's attribute that names an activation.
const matmulAct = 1

// activations are the functions that a product applies to its sums before it stores them.
var activations = map[string]kir.Activation{"relu": kir.ActRelu, "gelu": kir.ActGelu, "gelu_tanh": kir.ActGeluTanh,
	"silu": kir.ActSilu}

// The primitives that fusion knows.
var (
	matmulOp        = uint16(op.PrimNamed("matmul").ID)
	sumOp           = uint16(op.PrimNamed("sum").ID)
	addOp           = uint16(op.PrimNamed("add").ID)
	layerNormGradOp = uint16(op.PrimNamed("layer_norm_grad").ID)
)

// epilogue is what a node does with its result before it stores: it applies act, adds residual (0 for none), and
// writes the value of node writes.
type epilogue struct {
	act      kir.Activation
	residual program.Ref
	writes   int
}

// fuseEpilogues lets a product whose result nothing reads but an activation or the addition of a residual do
// these before it stores, and the cotangent of a normalized value be added to the one that goes around the layer.
func (b *Builder) fuseEpilogues() error {
	p := b.Program
	b.epilogues = map[int]*epilogue{}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if !n.IsPrim() || b.slots.has(i) || n.Operands == 0 || n.Operands > 2 {
			continue
		}
		if n.Operands == 1 {
			if act, ok := activations[p.Prim(i).Called(p.Attrs(i))]; ok {
				b.fuseActivation(i, act)
			}
		} else if n.Op == addOp {
			_ = b.fuseResidual(i, 0) || b.fuseResidual(i, 1)
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
	s := fmt.Sprintf("makes %%%d:", e.writes)
	if e.act != kir.ActNone {
		s += " activation " + fmt.Sprint(int(e.act))
	}
	if e.residual != 0 {
		s += " residual " + refText(e.residual)
	}
	return s
}

// maker gives the node with an epilogue that makes operand j of node i, which is read whole there and nowhere else;
// not one that must be stored.
func (b *Builder) maker(i, j int) (at int, ok bool) {
	p := b.Program
	r := p.OperandsOf(i)[j].Value
	if !r.IsNode() || !p.Whole(i, j) {
		return 0, false
	}
	v := r.Index()
	if b.uses.count[v] != 1 || b.live(v) || b.slots.has(v) || b.heirs.has(v) {
		return 0, false
	}
	if at, ok := b.folded.at(v); ok {
		return at, true
	}
	o := p.Nodes[v].Op
	return v, o == matmulOp || o == layerNormGradOp
}

// fuseActivation lets the product that node i alone reads apply act.
func (b *Builder) fuseActivation(i int, act kir.Activation) {
	at, ok := b.maker(i, 0)
	if !ok || b.Program.Nodes[at].Op != matmulOp || b.epilogues[at] != nil ||
		b.Program.Attrs(at)[matmulAct] != int64(kir.ActNone) {
		return
	}
	b.epilogues[at] = &epilogue{act: act, writes: i}
	b.folded.set(i, at)
}

// fuseResidual lets the maker of operand j of the addition i add the other operand, where that is there when the maker
// runs. Half types are left alone: their sums are rounded before they are added.
func (b *Builder) fuseResidual(i, j int) bool {
	p := b.Program
	at, ok := b.maker(i, j)
	r := p.OperandsOf(i)[1-j].Value
	if !ok || r == 0 || !p.Whole(i, 1-j) {
		return false
	}
	e := b.epilogues[at]
	if d := b.aval(i).DType; e != nil && e.residual != 0 || d != ir.F32 && d != ir.F64 {
		return false
	}
	if r.IsNode() && b.uses.main[r.Index()] >= at || p.Nodes[at].Op == matmulOp && b.depth(at) == 0 {
		return false
	}
	if e == nil {
		e = &epilogue{}
		b.epilogues[at] = e
	}
	e.residual, e.writes = r, i
	b.folded.set(i, at)
	return true
}

// depth is the number of terms of a product's sums.
func (b *Builder) depth(product int) int64 {
	shape := ir.LayoutOf(b.Program.OperandsOf(product)[0].Layout).Shape
	return shape[len(shape)-1]
}

// attrOf gives the attributes of node i as it is lowered.
func (b *Builder) attrOf(i int) []int64 {
	attr := b.Program.Attrs(i)
	e := b.epilogues[i]
	if e == nil || e.act == kir.ActNone {
		return attr
	}
	attr = slices.Clone(attr)
	attr[matmulAct] = int64(e.act)
	return attr
}

// refText is r as the text form has it.
func refText(r program.Ref) string {
	if r.IsInput() {
		return fmt.Sprintf("$%d", r.Index())
	}
	return fmt.Sprintf("%%%d", r.Index())
}
