package machine

import (
	"slices"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// conversion is an instruction that converts vectors of numbers. Where the types have different widths, it takes or
// gives half a vector.
type conversion struct {
	from, to ir.DType
	enc      encoding
}

var conversions = []conversion{
	{ir.I32, ir.F32, encoding{ppNone, map0F, 0x5B, false}},
	{ir.I32, ir.F64, encoding{ppF3, map0F, 0xE6, false}},
	{ir.I32, ir.I64, eWidenI32},
	{ir.U32, ir.I64, eWidenU32},
	{ir.F32, ir.I32, encoding{ppF3, map0F, 0x5B, false}},
	{ir.F32, ir.F64, encoding{ppNone, map0F, 0x5A, false}},
	{ir.F64, ir.F32, encoding{pp66, map0F, 0x5A, true}},
	{ir.F64, ir.I32, encoding{pp66, map0F, 0xE6, true}},
	// AVX-512 only.
	{ir.U32, ir.F32, encoding{ppF2, map0F, 0x7A, false}},
	{ir.U32, ir.F64, encoding{ppF3, map0F, 0x7A, false}},
	{ir.I64, ir.F32, encoding{ppNone, map0F, 0x5B, true}},
	{ir.I64, ir.F64, encoding{ppF3, map0F, 0xE6, true}},
	{ir.F32, ir.I64, encoding{pp66, map0F, 0x7A, false}},
	{ir.F32, ir.U32, encoding{pp66, map0F, 0x7A, false}},
	{ir.F64, ir.I64, encoding{pp66, map0F, 0x7A, true}},
	{ir.F64, ir.U32, encoding{pp66, map0F, 0x7A, true}},
}

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
	long := from == ir.I64 && t.IsFloat() || from.IsFloat() && (t == ir.I64 || t == ir.U32) || from == ir.U32 &&
		t.IsFloat()
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
	i := slices.IndexFunc(conversions, func(c conversion) bool { return c.from == from && c.to == t })
	if i < 0 {
		return Value{}, false
	}
	return p.convert(conversions[i], v), true
}

// convert applies a conversion.
func (p *Program) convert(c conversion, v Value) Value {
	switch wide := c.to.Size() == 8; {
	case wide && v.hi < 0:
		return p.widen(c.enc, c.to, v.lo)
	case c.to == ir.U32: // by way of int64
		if v.hi < 0 {
			v = p.widen(c.enc, ir.I64, v.lo)
		} else {
			v.lo, v.hi = p.unary(c.enc, v.lo), p.unary(c.enc, v.hi)
		}
		return Value{c.to, p.pack(v.lo, v.hi), -1}
	case v.hi < 0:
		return Value{c.to, p.unary(c.enc, v.lo), -1}
	case wide:
		return Value{c.to, p.unary(c.enc, v.lo), p.unary(c.enc, v.hi)}
	}
	return Value{c.to, p.join(p.unary(c.enc, v.lo), p.unary(c.enc, v.hi)), -1}
}

// truth is v != 0.
func (p *Program) truth(v Value) Value {
	zero := p.constant(v.typ, 0)
	r, _ := p.comparison(loopir.OpNe, v, Value{v.typ, zero, zero})
	return r
}

// fromBool makes numbers 0 and 1 of lanes of zeros and ones.
func (p *Program) fromBool(a vec, t ir.DType) Value {
	bits := ir.EncodeInt(ir.I64, 1)
	if t.IsFloat() {
		bits = ir.EncodeFloat(t, 1)
	}
	v := Value{t, a, -1}
	if t.Size() == 8 {
		v = p.widen(eWidenI32, t, a)
	}
	return pairwise(t, func(v []vec) vec { return p.binary(eAnd, v[0], p.constant(t, bits)) }, v)
}
