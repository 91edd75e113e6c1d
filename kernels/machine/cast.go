package machine

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// conversions from 32 to 32 bits, and between 64 bits, by instructions that both levels have.
var (
	eI32ToF32 = encoding{ppNone, map0F, 0x5B, false}
	eF32ToI32 = encoding{ppF3, map0F, 0x5B, false}
	eF32ToF64 = encoding{ppNone, map0F, 0x5A, false}
	eF64ToF32 = encoding{pp66, map0F, 0x5A, true}
	eI32ToF64 = encoding{ppF3, map0F, 0xE6, false}
	eF64ToI32 = encoding{pp66, map0F, 0xE6, true}
	// AVX-512 only.
	eU32ToF32 = encoding{ppF2, map0F, 0x7A, false}
	eU32ToF64 = encoding{ppF3, map0F, 0x7A, false}
	eI64ToF64 = encoding{ppF3, map0F, 0xE6, true}
	eI64ToF32 = encoding{ppNone, map0F, 0x5B, true}
	eF32ToI64 = encoding{pp66, map0F, 0x7A, false}
	eF64ToI64 = encoding{pp66, map0F, 0x7A, true}
)

// Narrow rounds floats to F16 or BF16 and widens them again.
func (p *Program) Narrow(v Value, t ir.DType) Value {
	if t == ir.BF16 {
		return Value{ir.F32, p.roundBrain(v.lo), -1}
	}
	h := p.add(instr{kind: kNarrow, enc: eToHalf, a: v.lo, b: -1, c: -1})
	return Value{ir.F32, p.unary(eFromHalf, h), -1}
}

// Cast converts by value. It reports false, and adds nothing, where there is no vector form.
func (p *Program) Cast(v Value, t ir.DType) (Value, bool) {
	from := v.typ
	long := from == ir.I64 && t.IsFloat() || from.IsFloat() && (t == ir.I64 || t == ir.U32) || from == ir.U32 && t.IsFloat()
	switch {
	case long && p.level == AVX2:
		return Value{}, false
	case from == t || from == ir.I32 && t == ir.U32 || from == ir.U32 && t == ir.I32:
		return Value{t, v.lo, v.hi}, true
	case t == ir.Bool:
		return p.truth(v), true
	case from == ir.Bool:
		return p.fromBool(v.lo, t), true
	case t == ir.I32 && from == ir.I64 || t == ir.U32 && from == ir.I64:
		return Value{t, p.pack(v.lo, v.hi), -1}, true
	}
	one := func(e encoding) (Value, bool) { return Value{t, p.unary(e, v.lo), -1}, true }
	wider := func(e encoding) (Value, bool) { return p.widen(e, t, v.lo), true }
	narrower := func(e encoding) (Value, bool) {
		return Value{t, p.join(p.unary(e, v.lo), p.unary(e, v.hi)), -1}, true
	}
	each := func(e encoding) (Value, bool) { return Value{t, p.unary(e, v.lo), p.unary(e, v.hi)}, true }
	switch [2]ir.DType{from, t} {
	case [2]ir.DType{ir.I32, ir.F32}:
		return one(eI32ToF32)
	case [2]ir.DType{ir.I32, ir.F64}:
		return wider(eI32ToF64)
	case [2]ir.DType{ir.I32, ir.I64}:
		return wider(eWidenI32)
	case [2]ir.DType{ir.U32, ir.F32}:
		return one(eU32ToF32)
	case [2]ir.DType{ir.U32, ir.F64}:
		return wider(eU32ToF64)
	case [2]ir.DType{ir.U32, ir.I64}:
		return wider(eWidenU32)
	case [2]ir.DType{ir.I64, ir.F32}:
		return narrower(eI64ToF32)
	case [2]ir.DType{ir.I64, ir.F64}:
		return each(eI64ToF64)
	case [2]ir.DType{ir.F32, ir.I32}:
		return one(eF32ToI32)
	case [2]ir.DType{ir.F32, ir.F64}:
		return wider(eF32ToF64)
	case [2]ir.DType{ir.F32, ir.I64}:
		return wider(eF32ToI64)
	case [2]ir.DType{ir.F32, ir.U32}:
		w := p.widen(eF32ToI64, ir.I64, v.lo)
		return Value{t, p.pack(w.lo, w.hi), -1}, true
	case [2]ir.DType{ir.F64, ir.F32}:
		return narrower(eF64ToF32)
	case [2]ir.DType{ir.F64, ir.I32}:
		return narrower(eF64ToI32)
	case [2]ir.DType{ir.F64, ir.I64}:
		return each(eF64ToI64)
	case [2]ir.DType{ir.F64, ir.U32}:
		return Value{t, p.pack(p.unary(eF64ToI64, v.lo), p.unary(eF64ToI64, v.hi)), -1}, true
	}
	return Value{}, false
}

// truth is v != 0.
func (p *Program) truth(v Value) Value {
	zero := p.constant(v.typ, 0)
	r, _ := p.comparison(loopir.OpNe, v, Value{v.typ, zero, zero})
	return r
}

// fromBool makes numbers 0 and 1 of lanes of zeros and ones.
func (p *Program) fromBool(a int, t ir.DType) Value {
	bits := ir.EncodeInt(ir.I64, 1)
	if t.IsFloat() {
		bits = ir.EncodeFloat(t, 1)
	}
	v := Value{t, a, -1}
	if t.Size() == 8 {
		v = p.widen(eWidenI32, t, a)
	}
	return pairwise(t, func(v []int) int { return p.binary(eAnd, v[0], p.constant(t, bits)) }, v)
}
