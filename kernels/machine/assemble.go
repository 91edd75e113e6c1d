package machine

import "slices"

// mode is how a body reaches memory: whole blocks, the lanes of a mask, or one lane.
type mode uint8

const (
	blocks mode = iota
	masked      // AVX-512: k1 has the lanes, k2 those of the second vector of elements of eight bytes
	single      // AVX2
)

// Registers of the function. The table and the number of lanes arrive in the first two.
const (
	table   = rdi
	left    = rsi
	index   = rcx
	scratch = rax
)

// pointers are the registers that hold addresses of operands. Those that a caller expects back are saved.
var (
	pointers = []int{rdx, r8, r9, r10, r11, rbx, r12, r13, r14, r15}
	saved    = []int{rbx, r12, r13, r14, r15}
)

// emitter emits one program.
type emitter struct {
	assembler
	*allocator
	p     *Program
	entry func(slot int) int
	slots []int32 // slots whose addresses are in pointers, in that order
	mode  mode
}

// Assemble returns the function's code. entry gives the entry of the table for each slot.
func (p *Program) Assemble(entry func(slot int) int) []byte {
	e := &emitter{assembler: assembler{level: p.level}, p: p, entry: entry,
		allocator: newAllocator(p.code, p.level.registers())}
	e.load = func(reg, place int) { e.memory(eMov, e.full(), reg, 0, e.stack(place), mask{}) }
	e.store = func(place, reg int) { e.memory(eMovStore, e.full(), reg, 0, e.stack(place), mask{}) }
	for i := range p.code {
		x := &p.code[i]
		if (x.kind == kLoad || x.kind == kStore) && len(e.slots) < len(pointers) && !slices.Contains(e.slots, x.slot) {
			e.slots = append(e.slots, x.slot)
		}
	}
	e.function()
	return e.code
}

// stack is the memory of a place on the stack.
func (e *emitter) stack(place int) mem {
	return mem{base: rsp, index: -1, disp: int32(place * e.level.bytes())}
}

// row is the table's entry of a slot.
func (e *emitter) row(slot int32) mem {
	return mem{base: table, index: -1, disp: int32(8 * e.entry(int(slot)))}
}

func (e *emitter) function() {
	var save []int
	for _, r := range pointers[:len(e.slots)] {
		if slices.Contains(saved, r) {
			save = append(save, r)
		}
	}
	frame := e.enter(save)
	for i, slot := range e.slots {
		e.load64(pointers[i], e.row(slot))
	}
	e.early()
	e.loops()
	e.leave(save, frame)
}

// enter begins a function: it saves registers and makes an aligned frame, whose size leave fills in at the place that
// enter returns.
func (e *emitter) enter(save []int) (frame int) {
	e.push(rbp)
	e.general(0x89, rsp, rbp)
	for _, r := range save {
		e.push(r)
	}
	e.immediate(4, rsp, -64)
	e.immediate(5, rsp, 0)
	return len(e.code)
}

// leave ends a function that enter began.
func (e *emitter) leave(save []int, frame int) {
	e.emit(0xC5, 0xF8, 0x77) // vzeroupper
	e.rex(rsp, mem{base: rbp, index: -1})
	e.emit(0x8D) // lea
	e.address(rsp, mem{base: rbp, index: -1, disp: int32(-8 * len(save))})
	for _, r := range slices.Backward(save) {
		e.pop(r)
	}
	e.pop(rbp)
	e.emit(0xC3)
	e.patch(frame, int32((e.places*e.level.bytes()+63)&^63))
}

// early makes the vectors that do not change in the loop.
func (e *emitter) early() {
	for i := range e.p.code {
		x := &e.p.code[i]
		if !x.before() || len(e.uses[i]) == 0 {
			continue
		}
		r := max(e.reg[i], 0)
		if x.kind == kConst {
			e.spread(x, r)
		} else {
			e.scalar(x, r)
		}
		if e.place[i] >= 0 {
			e.store(e.place[i], r)
		}
	}
}

// spread puts a constant in all lanes.
func (e *emitter) spread(x *instr, r int) {
	e.constant(scratch, x.imm)
	move, spread := eMovD, eSpreadD
	if x.store == sLong {
		move.w, spread = true, eSpreadQ
		spread.w = e.level == AVX512
	}
	e.vector(move, 0, r, 0, scratch)
	e.vector(spread, e.full(), r, 0, r)
}

// scalar puts the first element of an operand in all lanes.
func (e *emitter) scalar(x *instr, r int) {
	e.load64(scratch, e.row(x.slot))
	at := mem{base: scratch, index: -1}
	switch x.store {
	case sBool:
		e.emit(0x0F, 0xB6, 0x00) // movzx eax, byte [rax]
		e.emit(0xF7, 0xD8)       // neg eax
		e.vector(eMovD, 0, r, 0, scratch)
		e.vector(eSpreadD, e.full(), r, 0, r)
	case sLong:
		e.memory(encoding{pp66, map38, 0x19, e.level == AVX512}, e.full(), r, 0, at, mask{})
	default:
		e.memory(encoding{pp66, map38, 0x18, false}, e.full(), r, 0, at, mask{})
	}
}

// loops emits the loop over blocks, and what computes the lanes after the last one.
func (e *emitter) loops() {
	lanes := int32(e.level.Lanes())
	e.general(0x31, index, index)
	e.immediate(5, left, lanes)
	few := e.jump(jumpLess)
	top := len(e.code)
	e.body(blocks)
	e.immediate(0, index, lanes)
	e.general(0x39, left, index) // cmp
	e.target(e.jump(jumpLessOrEqual), top)
	e.land(few)
	e.immediate(0, left, lanes)
	e.general(0x29, index, left) // sub
	done := e.jump(jumpZero)
	if e.level == AVX512 {
		e.constant(scratch, 1<<32-1)
		e.emit(0xC4, 0xE2, 0x48, 0xF5, 0xC0)       // bzhi eax, eax, esi
		e.emit(0xC5, 0xF8, 0x92, 0xC8)             // kmovw k1, eax
		e.emit(0xC4, 0xE3, 0xF9, 0x30, 0xD1, 0x08) // kshiftrw k2, k1, 8
		e.body(masked)
	} else {
		top := len(e.code)
		e.body(single)
		e.immediate(0, index, 1)
		e.immediate(5, left, 1)
		e.target(e.jump(jumpNotZero), top)
	}
	e.land(done)
}

func (e *emitter) body(m mode) {
	e.mode = m
	e.reset()
	for i := range e.p.code {
		e.instruction(i)
	}
}

// instruction emits instruction i, unless it ran before or nothing uses it.
func (e *emitter) instruction(i int) {
	x := &e.p.code[i]
	switch {
	case x.before() || x.kind != kStore && x.kind != kAdvance && len(e.uses[i]) == 0:
	case x.kind == kLoad:
		e.read(x, e.take(i, i))
	case x.kind == kStore:
		r := e.want(int(x.a), i)
		e.write(x, r)
		e.drop(i)
	case x.kind == kFma || x.kind == kSelect && e.level == AVX512:
		e.overwriting(i, x)
	case x.kind == kAdvance:
		e.advance(i, x)
	case x.kind == kCall:
		e.callLanes(i, x)
	default:
		e.plain(i, x)
	}
}

// overwriting emits an instruction whose result takes the register of its first operand.
func (e *emitter) overwriting(i int, x *instr) {
	a := e.want(int(x.a), i)
	b := e.want(int(x.b), i, a)
	c := e.want(int(x.c), i, a, b)
	d := a
	if e.next(int(x.a), i+1) == never && !e.fixed[a] {
		e.drop(i)
		e.holder[a], e.reg[i] = i, a
	} else {
		d = e.take(i, i, a, b, c)
		e.vector(eMovReg, e.full(), d, 0, a)
		e.drop(i)
	}
	if x.kind == kFma {
		e.vector(x.enc, e.full(), d, b, c)
		return
	}
	e.vector(eTernary, e.full(), d, b, c)
	e.emit(0xCA) // d ? b : c
}

// plain emits an instruction that reads its operands before it writes its result.
func (e *emitter) plain(i int, x *instr) {
	var r [3]int
	for n, v := range [...]vec{x.a, x.b, x.c} {
		if v >= 0 {
			r[n] = e.want(int(v), i, r[:n]...)
		}
	}
	e.drop(i)
	d := e.take(i, i)
	size := e.full()
	switch x.kind {
	case kBinary:
		e.vector(x.enc, size, d, r[0], r[1])
	case kUnary:
		e.vector(x.enc, size, d, 0, r[0])
	case kCopy:
		e.vector(eMovReg, size, d, 0, r[0])
	case kNarrow:
		e.vector(x.enc, size, r[0], 0, d)
		if x.enc.mm == map3A {
			e.emit(byte(x.imm))
		}
	case kUnaryImm:
		e.vector(x.enc, size, d, 0, r[0])
		e.emit(byte(x.imm))
	case kBinaryImm:
		e.vector(x.enc, size, d, r[0], r[1])
		e.emit(byte(x.imm))
	case kShift:
		e.vector(x.enc, size, int(x.ext), d, r[0])
		e.emit(byte(x.imm))
	case kSelect: // of AVX2
		e.vector(eBlendV, size, d, r[2], r[1])
		e.emit(byte(r[0] << 4))
	case kCompare:
		const k3 = 3
		lanes := eMaskD
		lanes.w = x.enc.w
		e.vector(x.enc, size, k3, r[0], r[1])
		e.emit(byte(x.imm))
		e.vector(lanes, size, d, 0, k3)
	}
}
