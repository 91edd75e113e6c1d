package machine

import (
	"slices"

	"github.com/torchlette/torchlette/ir"
)

// Value is the lanes of a block. Types of eight bytes take two vectors, others one; a bool is 32 bits of ones or zeros.
type Value struct {
	typ    ir.DType
	lo, hi vec // numbers of instructions; hi is -1 where there is one vector
}

// Program is straight-line code over the lanes of a tile.
type Program struct {
	level Level
	code  []instr
	loop  *loop // of a loop; nil: the code runs once for each block
}

// As returns v with its bits taken for those of t, which has the same width.
func (v Value) As(t ir.DType) Value {
	v.typ = t
	return v
}

// Made reports that v is a value of a program; the zero Value is none.
func (v Value) Made() bool { return v.typ != ir.InvalidDType }

// New returns an empty program.
func New(level Level) *Program { return &Program{level: level} }

func (p *Program) add(i instr) vec {
	if p.loop != nil && i.kind != kStore && i.kind != kCarry && i.kind != kAdvance {
		if n, ok := p.loop.known[i]; ok {
			return n
		}
		p.loop.known[i] = vec(len(p.code))
	}
	p.code = append(p.code, i)
	return vec(len(p.code) - 1)
}

// once adds an instruction that reads an operand, unless the program has it.
func (p *Program) once(i instr) vec {
	if p.loop != nil {
		return p.add(i)
	}
	if n := slices.Index(p.code, i); n >= 0 {
		return vec(n)
	}
	return p.add(i)
}

// storageOf returns how elements of t lie in memory.
func storageOf(t ir.DType) storage {
	switch t {
	case ir.Bool:
		return sBool
	case ir.U8:
		return sByte
	case ir.I8:
		return sSigned
	case ir.I16:
		return sShort
	case ir.U16:
		return sUnsigned
	case ir.F16:
		return sHalf
	case ir.BF16:
		return sBrain
	case ir.I64, ir.U64, ir.F64:
		return sLong
	}
	return sWord
}

// operand returns the value that the instructions of kind k read from a slot.
func (p *Program) operand(k kind, slot int, t ir.DType) Value {
	s := storageOf(t)
	i := instr{kind: k, a: -1, b: -1, c: -1, slot: int32(slot), store: s}
	v := Value{typ: t.ComputeType(), lo: p.once(i), hi: -1}
	if s == sLong {
		v.hi = v.lo
		if k == kLoad {
			i.imm = 1
			v.hi = p.once(i)
		}
	}
	switch {
	case k == kScalar:
	case s == sBool:
		v.lo = p.binary(eSubI32, p.constant(ir.I32, 0), v.lo)
	case s == sBrain:
		v.lo = p.shift(shiftLeft, v.lo, 16)
	}
	return v
}

// Load returns the elements at an entry of the table, of type t, widened as a load widens them.
func (p *Program) Load(slot int, t ir.DType) Value { return p.operand(kLoad, slot, t) }

// Scalar returns the first element at an entry of the table, of a compute type, in every lane.
func (p *Program) Scalar(slot int, t ir.DType) Value { return p.operand(kScalar, slot, t) }

// Const returns bits of a compute type in every lane.
func (p *Program) Const(t ir.DType, bits uint64) Value {
	if t == ir.Bool && bits&1 != 0 {
		bits = 0xffffffff
	}
	n := p.constant(t, bits)
	if t.Size() == 8 {
		return Value{t, n, n}
	}
	return Value{t, n, -1}
}

// Store writes v as elements of type t, narrowed as a store narrows them. What it has read stays as it was.
func (p *Program) Store(slot int, t ir.DType, v Value) {
	p.write(instr{kind: kStore, a: v.lo, b: -1, c: -1, slot: int32(slot), store: storageOf(t)}, v)
}

// write adds the store i of v.
func (p *Program) write(i instr, v Value) {
	switch i.store {
	case sBrain:
		i.a = p.shift(shiftRight, p.roundBrain(v.lo), 16)
		i.store = sShort
	case sHalf:
		i.a = p.add(instr{kind: kNarrow, enc: eToHalf, a: v.lo, b: -1, c: -1})
	case sBool:
		i.a = p.binary(eAnd, v.lo, p.constant(ir.I32, 1))
	}
	if p.level == AVX2 {
		i.a = p.packed(i.store, i.a)
	}
	p.add(i)
	if i.store == sLong && !i.spread {
		i.a, i.imm = v.hi, 1
		p.add(i)
	}
}

// packed returns the low bytes of lanes side by side, as a store of AVX2 takes them.
func (p *Program) packed(s storage, a vec) vec {
	if s.scale() > 1 || s == sHalf {
		return a
	}
	keep := uint64(0xffff)
	if s.scale() == 0 {
		keep = 0xff
	}
	a = p.binary(eAnd, a, p.constant(ir.I32, keep))
	a = p.binary(ePackDW, a, a)
	a = p.add(instr{kind: kUnaryImm, enc: ePermQ, a: a, b: -1, c: -1, imm: 0x08})
	if s.scale() == 0 {
		a = p.binary(ePackWB, a, a)
	}
	return a
}

// constant returns a vector with bits in every lane of type t.
func (p *Program) constant(t ir.DType, bits uint64) vec {
	s := sWord
	if t.Size() == 8 {
		s = sLong
	}
	return p.once(instr{kind: kConst, a: -1, b: -1, c: -1, store: s, imm: bits})
}

func (p *Program) binary(e encoding, a, b vec) vec {
	return p.add(instr{kind: kBinary, enc: e, a: a, b: b, c: -1})
}

func (p *Program) unary(e encoding, a vec) vec {
	return p.add(instr{kind: kUnary, enc: e, a: a, b: -1, c: -1})
}

func (p *Program) choose(mask, a, b vec) vec { return p.add(instr{kind: kSelect, a: mask, b: a, c: b}) }

// Shifts by a constant, by ModRM.reg.
const (
	shiftRight  = 2
	shiftSigned = 4
	shiftLeft   = 6
)

func (p *Program) shift(ext byte, a vec, by uint64) vec {
	return p.add(instr{kind: kShift, enc: eShiftD, ext: ext, a: a, b: -1, c: -1, imm: by})
}

// upper returns the upper half of a vector as a lower half.
func (p *Program) upper(a vec) vec {
	e := eExtract
	if p.level == AVX512 {
		e = eExtract64
	}
	return p.add(instr{kind: kNarrow, enc: e, a: a, b: -1, c: -1, imm: 1})
}

// join returns the lower halves of two vectors.
func (p *Program) join(a, b vec) vec {
	e := eInsert
	if p.level == AVX512 {
		e = eInsert64
	}
	return p.add(instr{kind: kBinaryImm, enc: e, a: a, b: b, c: -1, imm: 1})
}

// pack keeps the low 32 bits of the lanes of two vectors.
func (p *Program) pack(lo, hi vec) vec {
	if p.level == AVX512 {
		narrow := func(a vec) vec { return p.add(instr{kind: kNarrow, enc: eTruncQ, a: a, b: -1, c: -1}) }
		return p.join(narrow(lo), narrow(hi))
	}
	s := p.add(instr{kind: kBinaryImm, enc: eShuffle, a: lo, b: hi, c: -1, imm: 0x88})
	return p.add(instr{kind: kUnaryImm, enc: ePermQ, a: s, b: -1, c: -1, imm: 0xD8})
}

// widen applies e, which takes half a vector, to both halves.
func (p *Program) widen(e encoding, t ir.DType, a vec) Value {
	return Value{t, p.unary(e, a), p.unary(e, p.upper(a))}
}

// roundBrain rounds floats to bfloat16, in the upper halves of the lanes: the formula of tl_float_to_brain.
func (p *Program) roundBrain(a vec) vec {
	odd := p.binary(eAnd, p.shift(shiftRight, a, 16), p.constant(ir.I32, 1))
	r := p.binary(eAddI32, p.binary(eAddI32, a, p.constant(ir.I32, 0x7fff)), odd)
	nan := p.compare(ir.F32, a, a, unordered)
	r = p.choose(nan, p.binary(eOr, a, p.constant(ir.I32, 0x400000)), r)
	return p.binary(eAnd, r, p.constant(ir.I32, 0xffff0000))
}

// Slots returns the slots that the program reads, and those that it writes.
func (p *Program) Slots() (reads, writes []int) {
	add := func(list []int, slot int) []int {
		if slices.Contains(list, slot) {
			return list
		}
		return append(list, slot)
	}
	for i := range p.code {
		switch x := &p.code[i]; x.kind {
		case kLoad, kScalar:
			reads = add(reads, int(x.slot))
		case kStore:
			writes = add(writes, int(x.slot))
		}
	}
	return reads, writes
}
