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

// SuppliedBits is the upper half of a supplied number's bits. While a function is captured, a supplied number stands
// for one that the caller gives at each call. Its lower half is the place of that number. Read as a float64 it is so
// near 0 that no program computes with it.
const SuppliedBits = uint64(0x00C0FFEE) << 32

// Supplied returns the place of a supplied number, from 0.
func (v Val) Supplied() (place int, ok bool) {
	bits := v.Bits()
	return int(uint32(bits)), v.Kind == ScalarFloat && bits>>32 == SuppliedBits>>32
}

// IsWhole reports a view that reaches all elements of the stored value in order.
func (v Val) IsWhole() bool { return ir.LayoutOf(v.Layout).IsWhole(v.Offset, ir.AvalOf(v.Aval).Layout) }

// SameView reports that v and x are the same elements of one base.
func (v Val) SameView(x *Val) bool {
	return v.Base != 0 && v.Base == x.Base && v.Layout == x.Layout && v.Offset == x.Offset
}
