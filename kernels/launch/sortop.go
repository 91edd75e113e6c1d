package launch

import (
	"fmt"

	"github.com/torchlette/torchlette/ir"

	"github.com/torchlette/torchlette/kernels/loopir"
)

// Label implements Op.
func (s *Sort) Label() string { return "sort_" + s.Type.String() }

// Buffers implements Op.
func (s *Sort) Buffers() []loopir.Buf { return s.Layout().Bufs }

// Parameters implements Op.
func (s *Sort) Parameters() []loopir.Param { return s.Layout().Params }

// Key implements Op.
func (s *Sort) Key() string { return fmt.Sprintf("sort%+v", *s) }

// Cost implements Op: operand and results once.
func (s *Sort) Cost(params []uint64, width *loopir.Widths) loopir.Cost {
	l := s.Layout()
	rows, value, index := int64(params[l.Outer]*params[l.Inner]), int64(width[s.Type]), int64(width[ir.I64])
	if s.Alone {
		index = 0
	}
	return loopir.Cost{Bytes: rows * (int64(params[l.N])*value + int64(params[l.Keep])*(value+index))}
}

// Interpret implements Op; see [InterpretSort].
func (s *Sort) Interpret(params []uint64, bufs [][]byte) (loopir.Fault, error) {
	return loopir.Fault{}, InterpretSort(s, params, bufs)
}
