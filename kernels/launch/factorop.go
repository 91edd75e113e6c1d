package launch

import (
	"fmt"

	"github.com/torchlette/torchlette/ir"

	"github.com/torchlette/torchlette/kernels/loopir"
)

// Label implements Op.
func (f *Factor) Label() string { return f.Op.String() + "_" + f.Type.String() }

// Buffers implements Op: operands, then results.
func (f *Factor) Buffers() []loopir.Buf {
	operand, result := loopir.Buf{Type: f.Type, Access: loopir.Read}, loopir.Buf{Type: f.Type, Access: loopir.Write}
	numbers := loopir.Buf{Type: ir.I32, Access: loopir.Write} // pivots, status
	switch f.Op {
	case FactorCholesky:
		return []loopir.Buf{operand, result, numbers}
	case FactorLU, FactorLDL:
		return []loopir.Buf{operand, result, numbers, numbers}
	case FactorPermutation:
		return []loopir.Buf{{Type: ir.I32, Access: loopir.Read}, {Type: ir.I64, Access: loopir.Write}}
	case FactorSolve:
		return []loopir.Buf{operand, operand, result, result, numbers, numbers}
	case FactorTriangular:
		return []loopir.Buf{operand, operand, result}
	case FactorQR, FactorEigh, FactorEig:
		return []loopir.Buf{operand, result, result}
	case FactorSVD:
		return []loopir.Buf{operand, result, result, result}
	case FactorPinv:
		return []loopir.Buf{operand, operand, operand, result}
	case FactorLDLSolve:
		return []loopir.Buf{operand, operand, {Type: ir.I32, Access: loopir.Read}, result}
	case FactorExp:
		return []loopir.Buf{operand, result}
	}
	panic(fmt.Sprintf("BUG: launch: factorisation %d", f.Op))
}

// Parameters implements Op: sizes, then the operands' offsets.
func (f *Factor) Parameters() []loopir.Param {
	list := make([]loopir.Param, f.ParamCount())
	for i := range list {
		list[i] = loopir.Param{Kind: loopir.Offset, Type: ir.I64}
		if i < len(list)-f.Op.Inputs() {
			list[i].Kind = loopir.Size
		}
	}
	return list
}

// Key implements Op.
func (f *Factor) Key() string { return fmt.Sprintf("factor%+v", *f) }

// Cost implements Op. It counts the operations of LU; what other factorisations take beyond these depends on the
// values.
func (f *Factor) Cost(params []uint64, width *loopir.Widths) loopir.Cost {
	matrices, m, n := int64(params[0]), int64(params[1]), int64(params[2])
	return loopir.Cost{Flops: 2 * matrices * m * n * min(m, n) / 3, Bytes: 2 * matrices * m * n * int64(width[f.Type])}
}

// Interpret implements Op; see [InterpretFactor].
func (f *Factor) Interpret(params []uint64, bufs [][]byte) (loopir.Fault, error) {
	return InterpretFactor(f, params, bufs)
}
