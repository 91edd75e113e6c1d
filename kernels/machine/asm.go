package machine

import "encoding/binary"

// Level is an instruction set.
type Level uint8

// The instruction sets. AVX2 includes FMA and F16C; AVX512 is F, BW, DQ and VL.
const (
	AVX2 Level = iota
	AVX512
)

// Lanes returns the lanes of a block: elements of four bytes in a vector register.
func (l Level) Lanes() int {
	if l == AVX512 {
		return 16
	}
	return 8
}

// registers returns the number of vector registers.
func (l Level) registers() int { return 2 * l.Lanes() }

// bytes returns the size of a vector register.
func (l Level) bytes() int { return 4 * l.Lanes() }

// General registers by their numbers.
const (
	rax = 0
	rcx = 1
	rdx = 2
	rbx = 3
	rsp = 4
	rbp = 5
	rsi = 6
	rdi = 7
	r8  = 8
	r9  = 9
	r10 = 10
	r11 = 11
	r12 = 12
	r13 = 13
	r14 = 14
	r15 = 15
)

// Prefixes and opcode maps of VEX and EVEX.
const (
	ppNone = 0
	pp66   = 1
	ppF3   = 2
	ppF2   = 3
	map0F  = 1
	map38  = 2
	map3A  = 3
)

// encoding is the prefix, the opcode map, the opcode and W of a vector instruction.
type encoding struct {
	pp, mm, op byte
	w          bool
}

// mem is a memory operand: base + index * scale + disp. An index of -1 is none.
type mem struct {
	base, index int
	scale       int // log2
	disp        int32
}

// mask is an opmask of AVX-512: elements outside of it are not stored, and are loaded as 0 with zero set.
type mask struct {
	k    byte
	zero bool
}

type assembler struct {
	level   Level
	code    []byte
	smaller byte // vectors have this many powers of two less than a whole register
}

func (a *assembler) emit(b ...byte) { a.code = append(a.code, b...) }

func (a *assembler) imm32(v int32) { a.code = binary.LittleEndian.AppendUint32(a.code, uint32(v)) }

func bit(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// prefix emits the VEX or EVEX prefix. reg is the operand in ModRM.reg, src the one in vvvv; x and b extend ModRM.rm.
// size is the vector length: 0 for 128 bits, 1 for 256, 2 for 512.
func (a *assembler) prefix(e encoding, size byte, reg, src int, x, b bool, m mask) {
	r, v := reg, src
	if a.level == AVX2 {
		a.emit(0xC4, bit(r&8 == 0)<<7|bit(!x)<<6|bit(!b)<<5|e.mm, bit(e.w)<<7|byte(^v&15)<<3|size<<2|e.pp, e.op)
		return
	}
	a.emit(0x62, bit(r&8 == 0)<<7|bit(!x)<<6|bit(!b)<<5|bit(r&16 == 0)<<4|e.mm, bit(e.w)<<7|byte(^v&15)<<3|4|e.pp,
		bit(m.zero)<<7|size<<5|bit(v&16 == 0)<<3|m.k, e.op)
}

// full is the size of a vector.
func (a *assembler) full() byte { return 1 + byte(a.level) - a.smaller }

// vector emits an instruction on registers: dst, src (in vvvv) and rm.
func (a *assembler) vector(e encoding, size byte, dst, src, rm int) {
	a.prefix(e, size, dst, src, rm&16 != 0, rm&8 != 0, mask{})
	a.emit(0xC0 | byte(dst&7)<<3 | byte(rm&7))
}

// memory emits a vector instruction with a memory operand.
func (a *assembler) memory(e encoding, size byte, reg, src int, m mem, k mask) {
	a.prefix(e, size, reg, src, m.index >= 0 && m.index&8 != 0, m.base&8 != 0, k)
	a.address(reg, m)
}

// address emits ModRM, SIB and displacement. Displacements have 32 bits, which EVEX does not scale.
func (a *assembler) address(reg int, m mem) {
	mod := byte(0)
	if m.disp != 0 || m.base&7 == rbp {
		mod = 2
	}
	if m.index < 0 && m.base&7 != rsp {
		a.emit(mod<<6 | byte(reg&7)<<3 | byte(m.base&7))
	} else {
		index := byte(rsp) // none
		if m.index >= 0 {
			index = byte(m.index & 7)
		}
		a.emit(mod<<6|byte(reg&7)<<3|4, byte(m.scale)<<6|index<<3|byte(m.base&7))
	}
	if mod == 2 {
		a.imm32(m.disp)
	}
}

// rex emits the REX prefix of a 64-bit instruction with a register and a memory operand or a second register.
func (a *assembler) rex(reg int, m mem) {
	a.emit(0x48 | bit(reg&8 != 0)<<2 | bit(m.index > 0 && m.index&8 != 0)<<1 | bit(m.base&8 != 0))
}

// load64 is mov reg, [m].
func (a *assembler) load64(reg int, m mem) {
	a.rex(reg, m)
	a.emit(0x8B)
	a.address(reg, m)
}

// general emits a 64-bit instruction on two general registers.
func (a *assembler) general(op byte, reg, rm int) {
	a.rex(reg, mem{base: rm, index: -1})
	a.emit(op, 0xC0|byte(reg&7)<<3|byte(rm&7))
}

// immediate emits a 64-bit add (0), and (4), sub (5) or cmp (7) of a register and a constant.
func (a *assembler) immediate(ext byte, rm int, v int32) {
	a.rex(0, mem{base: rm, index: -1})
	a.emit(0x81, 0xC0|ext<<3|byte(rm&7))
	a.imm32(v)
}

// constant is mov reg, v.
func (a *assembler) constant(reg int, v uint64) {
	a.emit(0x48|bit(reg&8 != 0), 0xB8|byte(reg&7))
	a.code = binary.LittleEndian.AppendUint64(a.code, v)
}

func (a *assembler) push(reg int) { a.emit(0x40|bit(reg&8 != 0), 0x50|byte(reg&7)) }
func (a *assembler) pop(reg int)  { a.emit(0x40|bit(reg&8 != 0), 0x58|byte(reg&7)) }

// Conditions of jumps.
const (
	jumpLess        = 0xC
	jumpLessOrEqual = 0xE
	jumpNotZero     = 0x5
	jumpZero        = 0x4
)

// jump emits a jump and returns where its target goes.
func (a *assembler) jump(condition byte) (at int) {
	a.emit(0x0F, 0x80|condition)
	a.imm32(0)
	return len(a.code)
}

// land makes the jump at `at` go to the next instruction.
func (a *assembler) land(at int) { a.target(at, len(a.code)) }

// target makes the jump at `at` go to `to`.
func (a *assembler) target(at, to int) { a.patch(at, int32(to-at)) }

// patch sets the constant that ends at `at`.
func (a *assembler) patch(at int, v int32) { binary.LittleEndian.PutUint32(a.code[at-4:], uint32(v)) }
