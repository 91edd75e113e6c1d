package program

import (
	"fmt"

	"github.com/torchlette/torchlette/engine/op"
	_ "github.com/torchlette/torchlette/engine/op/prim" // registers the primitives
	"github.com/torchlette/torchlette/ir"
)

// Prim is the primitive of node i.
func (p *Program) Prim(i int) *op.Prim { return op.PrimOf(op.PrimID(p.Nodes[i].Op)) }

// PrimName is the name of primitive number o of a node.
func PrimName(o uint16) string {
	if o >= ir.OpProj {
		return "a further output"
	}
	return op.PrimOf(op.PrimID(o)).Name
}

// ScalarTypes returns, for each operand of node i, the dtype of the slot of a number; nil where the node has no
// numbers. The rule is that of recording.
func (p *Program) ScalarTypes(i int) []ir.DType {
	edges := p.OperandsOf(i)
	if len(p.ScalarsOf(i)) == 0 {
		return nil
	}
	prim, first := p.Prim(i), ir.AvalOf(p.Nodes[i].Aval)
	in := make([]op.Val, len(edges))
	dtype, seen := first.DType, false
	for j, e := range edges {
		if e.Value == 0 {
			in[j] = op.Val{Kind: op.ScalarFloat}
			continue
		}
		in[j] = op.Val{Kind: op.Tensor, Value: uint32(e.Value), Layout: e.Layout, Aval: p.AvalID(e.Value)}
		if !seen {
			dtype, seen = in[j].DType(), true
		}
	}
	outs := []op.OutSpec{{DType: first.DType, Shape: first.Shape()}}
	types := make([]ir.DType, len(edges))
	for j := range edges {
		types[j] = dtype
		if prim.ScalarDType != nil && in[j].IsScalar() {
			types[j] = prim.ScalarDType(in, outs, j)
		}
	}
	return types
}

// Infer returns the results of node i by its primitive's own rule.
func (p *Program) Infer(i int) (outs []op.OutSpec, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: its rule fails: %v", PrimName(p.Nodes[i].Op), r)
		}
	}()
	edges, offs, scalars, types := p.OperandsOf(i), p.OffsetsOf(i), p.ScalarsOf(i), p.ScalarTypes(i)
	in := make([]op.Val, len(edges))
	sc := 0
	for j, e := range edges {
		if e.Value != 0 {
			in[j] = op.Val{Kind: op.Tensor, Value: uint32(e.Value), Layout: e.Layout, Offset: offs[j], Aval: p.AvalID(e.Value)}
			continue
		}
		in[j] = op.Number(numberKind(types[j]), uint64(int64(ir.DecodeFloat(types[j], scalars[sc]))))
		sc++
	}
	return p.Prim(i).Infer(in, p.Attrs(i), nil)
}

// numberKind is the kind of a number whose slot has dtype d.
func numberKind(d ir.DType) op.ValKind {
	if d == ir.Bool {
		return op.ScalarBool
	}
	return op.ScalarInt
}

// device is the device of the results of node i; same: of its operands too.
func (p *Program) device(i int) (d ir.DeviceID, same bool) {
	own := ir.AvalOf(p.Nodes[i].Aval).Device
	for _, e := range p.OperandsOf(i) {
		if e.Value != 0 && p.Aval(e.Value).Device != own {
			return own, false
		}
	}
	return own, true
}
