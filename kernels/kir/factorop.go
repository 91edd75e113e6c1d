package kir

import (
	"fmt"

	"github.com/torchlette/torchlette/engine/ir"
)

// Label implements LaunchOp.
func (f *Factor) Label() string { return f.Op.String() + "_" + f.Type.String() }

// Buffers implements LaunchOp: operands, then results.
func (f *Factor) Buffers() []Buf {
	operand, result := Buf{Type: f.Type, Access: Read}, Buf{Type: f.Type, Access: Write}
	numbers := Buf{Type: ir.I32, Access: Write} // pivots, status
	switch f.Op {
	case FactorCholesky:
		return []Buf{operand, result, numbers}
	case FactorLU:
		return []Buf{operand, result, numbers, numbers}
	case FactorPermutation:
		return []Buf{{Type: ir.I32, Access: Read}, {Type: ir.I64, Access: Write}}
	case FactorSolve:
		return []Buf{operand, operand, result, result, numbers, numbers}
	case FactorTriangular:
		return []Buf{operand, operand, result}
	case FactorQR, FactorEigh:
		return []Buf{operand, result, result}
	case FactorSVD:
		return []Buf{operand, result, result, result}
	case FactorPinv:
		return []Buf{operand, operand, operand, result}
	case FactorExp:
		return []Buf{operand, result}
	}
	panic(fmt.Sprintf("BUG: kir: factorisation %d", f.Op))
}

// Parameters implements LaunchOp: sizes, then the operands' offsets.
func (f *Factor) Parameters() []Param {
	list := make([]Param, f.ParamCount())
	for i := range list {
		list[i] = Param{Kind: Offset, Type: ir.I64}
		if i < len(list)-f.Op.Inputs() {
			list[i].Kind = Size
		}
	}
	return list
}

// Key implements LaunchOp.
func (f *Factor) Key() string { return fmt.Sprintf("factor%+v", *f) }

// Cost implements LaunchOp. It counts as LU does: what others take beyond depends on the values.
func (f *Factor) Cost(params []uint64, width *Widths) Cost {
	matrices, m, n := int64(params[0]), int64(params[1]), int64(params[2])
	return Cost{Flops: 2 * matrices * m * n * min(m, n) / 3, Bytes: 2 * matrices * m * n * int64(width[f.Type])}
}

// Interpret implements LaunchOp; see [InterpretFactor].
func (f *Factor) Interpret(params []uint64, bufs [][]byte) (Fault, error) {
	return InterpretFactor(f, params, bufs)
}
