package engine

import (
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// autocast returns in with the casts that the autocast context asks of operator d; to holds the context's dtypes for
// the CPU and for GPUs. The caller skips it for in-place and out= calls, which keep their tensor's dtype.
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
