package engine

import (
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// autocast gives the operands that the rule of d sees: in themselves, or those that the present context casts to the
// dtypes to. Forms that write into a tensor keep its dtype, and so are not cast.
func autocast(b op.Builder, to [2]ir.DType, d *op.Def, in []op.Val) []op.Val {
	if to == [2]ir.DType{} {
		return in
	}
	which := func(v op.Val) int { return min(int(v.Device()), 1) }
	var out []op.Val
	full := false
	for i := range in {
		full = full || in[i].IsTensor() && in[i].DType() == ir.F32
	}
	for i, v := range in {
		if !v.IsTensor() || !v.DType().IsFloat() || v.DType() == ir.F64 || to[which(v)] == ir.InvalidDType {
			continue
		}
		cast := v.DType()
		switch d.Autocast[which(v)] {
		case op.CastLower:
			cast = to[which(v)]
		case op.CastFull:
			cast = ir.F32
		case op.CastWidest:
			if full {
				cast = ir.F32
			}
		}
		if cast == v.DType() {
			continue
		}
		if out == nil {
			out = append(out, in...)
		}
		out[i] = prim.Cast(b, v, cast)
	}
	if out == nil {
		return in
	}
	return out
}
