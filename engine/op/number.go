package op

import (
	"math"

	"github.com/torchlette/torchlette/ir"
)

// Encode returns the bits of a number as a slot of dtype d stores it.
func (v Val) Encode(d ir.DType) uint64 {
	if v.Kind == ScalarFloat {
		return ir.EncodeFloat(d, math.Float64frombits(v.Bits()))
	}
	return ir.EncodeInt(d, int64(v.Bits()))
}

// IsWhole reports a view that reaches all elements of the stored value in order.
func (v Val) IsWhole() bool { return ir.LayoutOf(v.Layout).IsWhole(v.Offset, ir.AvalOf(v.Aval).Layout) }

// SameView reports that v and x are the same elements of one base.
func (v Val) SameView(x *Val) bool {
	return v.Base != 0 && v.Base == x.Base && v.Layout == x.Layout && v.Offset == x.Offset
}
