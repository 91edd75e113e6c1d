package kir

import (
	"fmt"

	"github.com/torchlette/torchlette/engine/ir"
)

// Label implements LaunchOp.
func (s *Sort) Label() string { return "sort_" + s.Type.String() }

// Buffers implements LaunchOp.
func (s *Sort) Buffers() []Buf { return s.Layout().Bufs }

// Parameters implements LaunchOp.
func (s *Sort) Parameters() []Param { return s.Layout().Params }

// Key implements LaunchOp.
func (s *Sort) Key() string { return fmt.Sprintf("sort%+v", *s) }

// Cost implements LaunchOp: operand and results once.
func (s *Sort) Cost(params []uint64, width *Widths) Cost {
	l := s.Layout()
	rows, value := int64(params[l.Outer]*params[l.Inner]), int64(width[s.Type])
	return Cost{Bytes: rows * (int64(params[l.N])*value + int64(params[l.Keep])*(value+int64(width[ir.I64])))}
}

// Interpret implements LaunchOp; see [InterpretSort].
func (s *Sort) Interpret(params []uint64, bufs [][]byte) (Fault, error) {
	return Fault{}, InterpretSort(s, params, bufs)
}
