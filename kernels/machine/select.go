package machine

import (
	"slices"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Predicates of float comparisons.
const (
	equal       = 0
	unordered   = 3
	notEqual    = 4
	less        = 0x11
	lessOrEqual = 0x12
)

// encodingOf returns the encoding of a float operation: single precision has no prefix, double has 66 and W.
func encodingOf(op byte, t ir.DType) encoding {
	if t == ir.F64 {
		return encoding{pp66, map0F, op, true}
	}
	return encoding{ppNone, map0F, op, false}
}

// wholeOp is an operation on integers: its encodings for 32 and for 64 bits, and for uint32 where that differs. AVX2
// lacks some of those for 64 bits.
type wholeOp struct {
	op           loopir.Op
	narrow, wide encoding
	unsigned     byte // opcode
	only512      bool
}

var wholeOps = []wholeOp{
	{loopir.OpAdd, eAddI32, eAddI64, 0, false}, {loopir.OpSub, eSubI32, eSubI64, 0, false},
	{loopir.OpMul, eMulI32, eMulI64, 0, true},
	{loopir.OpAnd, eAnd, eAnd, 0, false}, {loopir.OpOr, eOr, eOr, 0, false}, {loopir.OpXor, eXor, eXor, 0, false},
	{loopir.OpShl, encoding{pp66, map38, 0x47, false}, encoding{pp66, map38, 0x47, true}, 0, false},
	{loopir.OpShr, encoding{pp66, map38, 0x46, false}, encoding{pp66, map38, 0x46, true}, 0x45, true},
	{loopir.OpMin, encoding{pp66, map38, 0x39, false}, encoding{pp66, map38, 0x39, true}, 0x3B, true},
	{loopir.OpMax, encoding{pp66, map38, 0x3D, false}, encoding{pp66, map38, 0x3D, true}, 0x3F, true},
}

// arithmetic is the opcode of a float operation of two operands.
func arithmetic(op loopir.Op) byte {
	switch op {
	case loopir.OpAdd:
		return 0x58
	case loopir.OpSub:
		return 0x5C
	case loopir.OpMul:
		return 0x59
	case loopir.OpDiv:
		return 0x5E
	case loopir.OpMin:
		return 0x5D
	}
	return 0x5F
}

// rounding is the immediate of a rounding instruction; 8 suppresses the inexact flag.
func rounding(op loopir.Op) uint64 {
	switch op {
	case loopir.OpFloor:
		return 9
	case loopir.OpCeil:
		return 10
	case loopir.OpTrunc:
		return 11
	}
	return 8
}

// pairwise applies f to each vector of values of one type.
func pairwise(t ir.DType, f func(v []vec) vec, args ...Value) Value {
	part := func(of func(Value) vec) []vec {
		v := make([]vec, len(args))
		for i, a := range args {
			v[i] = of(a)
		}
		return v
	}
	r := Value{t, f(part(func(v Value) vec { return v.lo })), -1}
	if args[0].hi >= 0 {
		r.hi = f(part(func(v Value) vec { return v.hi }))
	}
	return r
}

// Apply returns the result of an operation on args, which have the same type except for the first one of a select. It
// reports false, and adds nothing, where the operation has no vector form for the type.
func (p *Program) Apply(op loopir.Op, args ...Value) (Value, bool) {
	t := args[len(args)-1].typ
	float := t == ir.F32 || t == ir.F64
	switch op {
	case loopir.OpEq, loopir.OpNe, loopir.OpLt, loopir.OpLe:
		return p.comparison(op, args[0], args[1])
	case loopir.OpSelect:
		return p.selection(args[0], args[1], args[2]), true
	case loopir.OpIsNaN:
		return p.comparison(op, args[0], args[0])
	}
	switch {
	case t == ir.Bool:
		return p.logic(op, args)
	case float:
		return p.realOp(op, t, args)
	}
	return p.wholeOp(op, t, args)
}

func (p *Program) logic(op loopir.Op, args []Value) (Value, bool) {
	switch op {
	case loopir.OpAnd, loopir.OpOr, loopir.OpXor:
		v, ok := p.wholeOp(op, ir.I32, args)
		return v.As(ir.Bool), ok
	case loopir.OpNot:
		return Value{ir.Bool, p.not(args[0].lo), -1}, true
	}
	return Value{}, false
}

// not inverts all bits.
func (p *Program) not(a vec) vec { return p.binary(eXor, a, p.constant(ir.I32, 0xffffffff)) }

func (p *Program) realOp(op loopir.Op, t ir.DType, args []Value) (Value, bool) {
	wide := t == ir.F64
	sign := uint64(1) << 31
	if wide {
		sign = 1 << 63
	}
	var f func(v []vec) vec
	switch op {
	case loopir.OpAdd, loopir.OpSub, loopir.OpMul, loopir.OpDiv:
		f = func(v []vec) vec { return p.binary(encodingOf(arithmetic(op), t), v[0], v[1]) }
	case loopir.OpMin, loopir.OpMax:
		// The instruction gives b where either is NaN; a NaN in a must win.
		f = func(v []vec) vec {
			r := p.binary(encodingOf(arithmetic(op), t), v[0], v[1])
			return p.choose(p.compare(t, v[0], v[0], unordered), v[0], r)
		}
	case loopir.OpSqrt:
		f = func(v []vec) vec { return p.unary(encodingOf(0x51, t), v[0]) }
	case loopir.OpNeg:
		f = func(v []vec) vec { return p.binary(eXor, v[0], p.constant(t, sign)) }
	case loopir.OpAbs:
		f = func(v []vec) vec { return p.binary(eAndNot, p.constant(t, sign), v[0]) }
	case loopir.OpFma:
		e := encoding{pp66, map38, 0xA8, wide}
		f = func(v []vec) vec { return p.add(instr{kind: kFma, enc: e, a: v[0], b: v[1], c: v[2]}) }
	case loopir.OpFloor, loopir.OpCeil, loopir.OpRound, loopir.OpTrunc:
		e := encoding{pp66, map3A, 0x08 + bit(wide), wide}
		f = func(v []vec) vec {
			return p.add(instr{kind: kUnaryImm, enc: e, a: v[0], b: -1, c: -1, imm: rounding(op)})
		}
	default:
		return Value{}, false
	}
	return pairwise(t, f, args...), true
}

func (p *Program) wholeOp(op loopir.Op, t ir.DType, args []Value) (Value, bool) {
	wide := t == ir.I64
	var f func(v []vec) vec
	switch op {
	case loopir.OpNeg:
		return p.wholeOp(loopir.OpSub, t, []Value{p.Const(t, 0), args[0]})
	case loopir.OpNot:
		f = func(v []vec) vec { return p.not(v[0]) }
	case loopir.OpAbs:
		e := encoding{pp66, map38, 0x1E + bit(wide), wide}
		switch {
		case t == ir.U32:
			return args[0], true
		case wide && p.level == AVX2:
			return Value{}, false
		}
		f = func(v []vec) vec { return p.unary(e, v[0]) }
	default:
		i := slices.IndexFunc(wholeOps, func(w wholeOp) bool { return w.op == op })
		if i < 0 || wide && p.level == AVX2 && wholeOps[i].only512 {
			return Value{}, false
		}
		e := wholeOps[i].narrow
		switch u := wholeOps[i].unsigned; {
		case wide:
			e = wholeOps[i].wide
		case t == ir.U32 && u != 0:
			e.op = u
		}
		f = func(v []vec) vec { return p.binary(e, v[0], v[1]) }
	}
	return pairwise(t, f, args...), true
}

// compare returns lanes of ones where two vectors of floats compare as predicate says.
func (p *Program) compare(t ir.DType, a, b vec, predicate uint64) vec {
	e := encodingOf(0xC2, t)
	k := kBinaryImm
	if p.level == AVX512 {
		k = kCompare
	}
	return p.add(instr{kind: k, enc: e, a: a, b: b, c: -1, imm: predicate})
}

// predicate is the immediate of a comparison of floats.
func predicate(op loopir.Op) uint64 {
	switch op {
	case loopir.OpEq:
		return equal
	case loopir.OpNe:
		return notEqual
	case loopir.OpLt:
		return less
	case loopir.OpLe:
		return lessOrEqual
	}
	return unordered
}

func (p *Program) comparison(op loopir.Op, a, b Value) (Value, bool) {
	switch t := a.typ; {
	case t == ir.Bool:
		return p.compareBools(op, a.lo, b.lo), true
	case t == ir.F32 || t == ir.F64:
		return p.masks(pairwise(ir.Bool, func(v []vec) vec { return p.compare(t, v[0], v[1], predicate(op)) }, a, b)), true
	case t == ir.U32 && p.level == AVX2:
		top := p.constant(ir.I32, 1<<31) // moves unsigned numbers to the signed ones in the same order
		a.lo, b.lo = p.binary(eXor, a.lo, top), p.binary(eXor, b.lo, top)
	}
	return p.masks(pairwise(ir.Bool, func(v []vec) vec { return p.compareWhole(op, a.typ, v[0], v[1]) }, a, b)), true
}

// masks makes a bool of lanes of ones, which two vectors hold for types of eight bytes.
func (p *Program) masks(v Value) Value {
	if v.hi >= 0 {
		v.lo, v.hi = p.pack(v.lo, v.hi), -1
	}
	return v
}

func (p *Program) compareBools(op loopir.Op, a, b vec) Value {
	var r vec
	switch op {
	case loopir.OpEq:
		r = p.not(p.binary(eXor, a, b))
	case loopir.OpNe:
		r = p.binary(eXor, a, b)
	case loopir.OpLt:
		r = p.binary(eAndNot, a, b)
	default:
		r = p.not(p.binary(eAndNot, b, a))
	}
	return Value{ir.Bool, r, -1}
}

// compareWhole compares vectors of integers.
func (p *Program) compareWhole(op loopir.Op, t ir.DType, a, b vec) vec {
	wide := t == ir.I64
	if p.level == AVX512 {
		e := encoding{pp66, map3A, 0x1F, wide}
		if t == ir.U32 {
			e.op = 0x1E
		}
		const predicates = 7 // the low bits mean the same as those of floats
		return p.add(instr{kind: kCompare, enc: e, a: a, b: b, c: -1, imm: predicate(op) & predicates})
	}
	same, greater := encoding{pp66, map0F, 0x76, false}, encoding{pp66, map0F, 0x66, false}
	if wide {
		same, greater = encoding{pp66, map38, 0x29, false}, encoding{pp66, map38, 0x37, false}
	}
	switch op {
	case loopir.OpEq:
		return p.binary(same, a, b)
	case loopir.OpNe:
		return p.not(p.binary(same, a, b))
	case loopir.OpLt:
		return p.binary(greater, b, a)
	}
	return p.not(p.binary(greater, a, b))
}

func (p *Program) selection(mask, a, b Value) Value {
	m := mask
	if a.hi >= 0 {
		m = p.widen(eWidenI32, ir.Bool, mask.lo)
	}
	return pairwise(a.typ, func(v []vec) vec { return p.choose(v[0], v[1], v[2]) }, m, a, b)
}
