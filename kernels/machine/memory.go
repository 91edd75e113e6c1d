package machine

import "slices"

// block is the memory of a block of an operand; second is the memory of its second vector, for elements of eight bytes.
func (e *emitter) block(x *instr) mem {
	if e.p.loop != nil {
		return mem{base: e.base(x.slot), index: -1, disp: x.disp + int32(x.imm)*int32(e.level.bytes())}
	}
	m := mem{base: scratch, index: index, scale: x.store.scale(), disp: int32(x.imm) * int32(e.level.bytes())}
	if n := slices.Index(e.slots, x.slot); n >= 0 {
		m.base = pointers[n]
	} else {
		e.load64(scratch, e.row(x.slot))
	}
	return m
}

// lanes is the mask of a load or store.
func (e *emitter) lanes(x *instr, zero bool) mask {
	if e.mode != masked {
		return mask{}
	}
	return mask{k: 1 + byte(x.imm), zero: zero}
}

// loads are the instructions that widen elements of memory to a vector.
var loads = [...]encoding{sBool: eLoadU8, sByte: eLoadU8, sSigned: eLoadI8, sShort: eLoadI16, sUnsigned: eLoadU16,
	sBrain: eLoadU16, sHalf: eFromHalf, sWord: eMov, sLong: {pp66, map0F, 0x10, true}}

// read loads a block, or its lanes, into a register.
func (e *emitter) read(x *instr, r int) {
	if x.spread {
		e.readSpread(x, r)
		return
	}
	if e.mode == single {
		e.readOne(x, r)
		return
	}
	e.memory(loads[x.store], e.full(), r, 0, e.block(x), e.lanes(x, true))
}

// narrowLoads are the second opcodes of moves of one element to a general register.
var narrowLoads = [...]byte{sBool: 0xB6, sByte: 0xB6, sSigned: 0xBE, sShort: 0xBF, sUnsigned: 0xB7,
	sBrain: 0xB7, sHalf: 0xB7}

// readOne loads one element. Other lanes are arbitrary.
func (e *emitter) readOne(x *instr, r int) {
	switch {
	case x.store == sWord:
		e.memory(encoding{ppF3, map0F, 0x10, false}, 0, r, 0, e.block(x), mask{})
	case x.store == sLong && x.imm == 0:
		e.memory(encoding{ppF2, map0F, 0x10, false}, 0, r, 0, e.block(x), mask{})
	case x.store == sLong:
		e.vector(eXor, e.full(), r, r, r)
	default:
		m := e.block(x)
		e.rex(scratch, m)
		e.emit(0x0F, narrowLoads[x.store])
		e.address(scratch, m)
		e.vector(eMovD, 0, r, 0, scratch)
		if x.store == sHalf {
			e.vector(eFromHalf, e.full(), r, 0, r)
		}
	}
}

// write stores a block, or its lanes, from a register. On AVX2 elements narrower than a lane are packed already.
func (e *emitter) write(x *instr, r int) {
	if e.mode == single || x.spread {
		e.writeOne(x, r)
		return
	}
	enc, size := eMovStore, e.full()
	switch x.store {
	case sBool, sByte, sSigned:
		if enc = eTruncDB; e.level == AVX2 {
			enc, size = encoding{ppNone, map0F, 0x13, false}, 0 // vmovlps
		}
	case sShort, sUnsigned:
		if enc = eTruncDW; e.level == AVX2 {
			enc, size = eMovStore, 0
		}
	case sHalf:
		size--
		if e.level == AVX512 {
			enc = encoding{ppF2, map0F, 0x7F, true} // vmovdqu16
		}
	case sLong:
		enc = encoding{pp66, map0F, 0x11, true}
	}
	e.memory(enc, size, r, 0, e.block(x), e.lanes(x, false))
}

// writeOne stores the first element.
func (e *emitter) writeOne(x *instr, r int) {
	enc := encoding{ppF3, map0F, 0x11, false}
	switch x.store {
	case sBool, sByte, sSigned:
		enc = encoding{pp66, map3A, 0x14, false} // vpextrb
	case sShort, sUnsigned, sHalf:
		enc = encoding{pp66, map3A, 0x15, false} // vpextrw
	case sLong:
		if x.imm == 1 {
			return
		}
		enc = encoding{ppF2, map0F, 0x11, e.level == AVX512}
	}
	e.memory(enc, 0, r, 0, e.block(x), mask{})
	if enc.mm == map3A {
		e.emit(0)
	}
}
