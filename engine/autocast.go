package engine

import (
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// autocast gives the operands that the rule of d sees: in themselves, or those that the present context casts. Forms
// that write into a tensor keep its dtype, and so are not cast.
func (e *Engine) autocast(c *Call, d *op.Def, in []op.Val) []op.Val {
	if e.session.Autocast == [2]ir.DType{} || c.Mode != ModeFunctional || d.InPlaceOnly {
		return in
	}
	which := func(v op.Val) int { return min(int(v.Device()), 1) }
	var out []op.Val
	full := false
	for i := range in {
		full = full || in[i].IsTensor() && in[i].DType() == ir.F32
	}
	for i, v := range in {
		if !v.IsTensor() || !v.DType().IsFloat() || v.DType() == ir.F64 || e.session.Autocast[which(v)] == ir.InvalidDType {
			continue
		}
		to := v.DType()
		switch d.Autocast[which(v)] {
		case op.CastLower:
			to = e.session.Autocast[which(v)]
		case op.CastFull:
			to = ir.F32
		case op.CastWidest:
			if full {
				to = ir.F32
			}
		}
		if to == v.DType() {
			continue
		}
		if out == nil {
			out = append(out, in...)
		}
		out[i] = prim.Cast(e.session, v, to)
	}
	if out == nil {
		return in
	}
	return out
}
