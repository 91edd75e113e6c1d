package machine

import (
	"slices"

	"github.com/torchlette/torchlette/ir"
)

// loop is what a program has that runs for several iterations. Its function is
//
//	int64_t code(void **table, int64_t iterations)
//
// It works one block of lanes, and keeps carries in registers or on the stack from iteration to iteration. It returns
// how many iterations are left where a condition ends the loop, else 0. It changes the table.
type loop struct {
	known map[instr]vec // equal instructions give one value
	lanes int
	ends  int   // number of the first instruction after the iterations
	cond  vec   // the carry that ends the loop where its lanes are 0; -1: none
	moves []int // bytes from an iteration to the next, by slot; 0: the slot stays
}

// NewLoop returns an empty loop over a block of so many lanes: those of a vector, or one, which all lanes of the
// registers share. Where all memory has elements of four bytes, a block may also be a half or a quarter of a vector.
func NewLoop(level Level, lanes int) *Program {
	return &Program{level: level, loop: &loop{known: map[instr]vec{}, lanes: lanes, cond: -1}}
}

// Place is memory in a loop: an element for each lane, Disp bytes behind the address of a slot.
type Place struct {
	Slot, Disp int
	Spread     bool // one element is in all lanes
	Moves      int  // bytes from an iteration to the next
}

func (p *Program) at(k kind, at Place, t ir.DType) instr {
	i := instr{kind: k, a: -1, b: -1, c: -1, slot: int32(at.Slot), store: storageOf(t), disp: int32(at.Disp),
		spread: at.Spread}
	for at.Slot >= len(p.loop.moves) {
		p.loop.moves = append(p.loop.moves, 0)
	}
	p.loop.moves[at.Slot] = at.Moves
	return i
}

// both returns the value whose vectors i makes, two for elements of eight bytes. In a spread value they are one.
func (p *Program) both(i instr, t ir.DType) Value {
	v := Value{typ: t.ComputeType(), lo: p.add(i), hi: -1}
	if i.store == sLong {
		if v.hi = v.lo; !i.spread {
			i.imm = 1
			v.hi = p.add(i)
		}
	}
	return v
}

// LoadAt returns elements of type t. Those of a place that does not move are loaded once.
func (p *Program) LoadAt(at Place, t ir.DType) Value {
	i := p.at(kLoad, at, t)
	i.early = at.Moves == 0
	v := p.both(i, t)
	switch {
	case i.early: // converted as they are loaded
	case i.store == sBool:
		v.lo = p.binary(eSubI32, p.constant(ir.I32, 0), v.lo)
	case i.store == sBrain:
		v.lo = p.shift(shiftLeft, v.lo, 16)
	}
	return v
}

// Carry returns a carry's value in this iteration. It begins as the elements at a place.
func (p *Program) Carry(at Place, t ir.DType) Value {
	i := p.at(kCarry, at, t)
	i.early = true
	return p.both(i, t)
}

// StoreAt writes v as elements of type t.
func (p *Program) StoreAt(at Place, t ir.DType, v Value) {
	i := p.at(kStore, at, t)
	i.a = v.lo
	p.write(i, v)
}

// End ends the iterations: the carries become next. While, where it is made, is the bool carry that ends the loop.
// What follows runs once, after the last iteration.
func (p *Program) End(carries, next []Value, while Value) {
	type move struct{ carry, next vec }
	var list []move
	add := func(c, n vec) {
		if c == n || c < 0 || slices.ContainsFunc(list, func(m move) bool { return m.carry == c }) {
			return
		}
		if p.code[n].kind == kCarry { // which may become something else before it is read
			n = p.add(instr{kind: kCopy, a: n, b: -1, c: -1})
		}
		list = append(list, move{c, n})
	}
	for i := range carries {
		add(carries[i].lo, next[i].lo)
		add(carries[i].hi, next[i].hi)
	}
	for _, m := range list {
		p.add(instr{kind: kAdvance, a: m.next, b: -1, c: -1, slot: int32(m.carry)})
	}
	if while.Made() {
		p.loop.cond = while.lo
	}
	p.loop.ends = len(p.code)
	clear(p.loop.known) // values of the iterations are not known after them
}

// Call applies a function of one or two numbers to the lanes of each vector. Its entry of the table points to a
// structure that begins with the address of code that takes the structure and the operands' memory.
func (p *Program) Call(slot int, t ir.DType, args ...Value) Value {
	return pairwise(t, func(v []vec) vec {
		i := instr{kind: kCall, a: v[0], b: -1, c: -1, slot: int32(slot)}
		if len(v) > 1 {
			i.b = v[1]
		}
		return p.add(i)
	}, args...)
}

// Numbers of places on the stack that calls use: two operands and the result.
const (
	callResult = 2
	callPlaces = 3
)

// Registers of a loop. They keep their content in calls.
const (
	loopTable = rbx
	loopLeft  = r12
)

// AssembleLoop returns the function's code.
func (p *Program) AssembleLoop() []byte {
	e := &emitter{assembler: assembler{level: p.level}, p: p, entry: func(s int) int { return s },
		allocator: newAllocator(p.code, p.level.registers())}
	for l := p.level.Lanes(); p.loop.narrow(p) && l > max(p.loop.lanes, 4); l /= 2 {
		e.smaller++
	}
	e.load = func(reg, place int) { e.memory(eMov, e.full(), reg, 0, e.stack(place), mask{}) }
	e.store = func(place, reg int) { e.memory(eMovStore, e.full(), reg, 0, e.stack(place), mask{}) }
	e.iterate()
	return e.code
}

// narrow reports that all memory has elements of four bytes.
func (l *loop) narrow(p *Program) bool {
	return !slices.ContainsFunc(p.code, func(i instr) bool {
		memory := i.kind == kLoad || i.kind == kStore || i.kind == kCarry
		return memory && i.store != sWord || i.kind == kNarrow || i.kind == kConst && i.store == sLong
	})
}

// base returns the register with the address of a slot.
func (e *emitter) base(slot int32) int {
	if n := slices.Index(e.slots, slot); n >= 0 {
		return e.streams()[n]
	}
	e.load64(scratch, mem{base: loopTable, index: -1, disp: 8 * slot})
	return scratch
}

// streams are the registers for addresses that move.
func (e *emitter) streams() []int {
	if e.calls {
		return []int{r13, r14, r15}
	}
	return []int{r13, r14, r15, r8, r9, r10, r11, rdx, rcx, rsi, rdi}
}

func (e *emitter) iterate() {
	l, save := e.p.loop, []int{rbx, r12, r13, r14, r15}
	frame := e.enter(save)
	e.general(0x89, rdi, loopTable)
	e.general(0x89, rsi, loopLeft)
	e.earlyLoop()
	var moving []int32
	for s, by := range l.moves {
		if by != 0 {
			moving = append(moving, int32(s))
		}
	}
	e.slots = moving[:min(len(moving), len(e.streams()))]
	for i, s := range e.slots {
		e.load64(e.streams()[i], mem{base: loopTable, index: -1, disp: 8 * s})
	}
	top := len(e.code)
	e.immediate(7, loopLeft, 0)
	ends := []int{e.jump(jumpZero)}
	if l.cond >= 0 {
		e.test(int(l.cond))
		ends = append(ends, e.jump(jumpZero))
	}
	e.reset()
	for i := range l.ends {
		e.instruction(i)
	}
	for i, s := range moving {
		if i < len(e.slots) {
			e.immediate(0, e.streams()[i], int32(l.moves[s]))
			continue
		}
		m := mem{base: loopTable, index: -1, disp: 8 * s}
		e.rex(0, m)
		e.emit(0x81)
		e.address(0, m)
		e.imm32(int32(l.moves[s]))
	}
	e.immediate(5, loopLeft, 1)
	e.emit(0xE9)
	e.imm32(0)
	e.target(len(e.code), top)
	for _, at := range ends {
		e.land(at)
	}
	e.reset()
	for i := l.ends; i < len(e.p.code); i++ {
		e.instruction(i)
	}
	e.general(0x89, loopLeft, rax)
	e.leave(save, frame)
}

// earlyLoop makes constants, loads what does not change, and begins carries.
func (e *emitter) earlyLoop() {
	for i := range e.p.code {
		x := &e.p.code[i]
		if !x.before() || len(e.uses[i]) == 0 {
			continue
		}
		r := max(e.reg[i], 0)
		if x.kind == kConst {
			e.spread(x, r)
		} else {
			e.read(x, r)
			switch x.store {
			case sBool:
				e.shiftBy(shiftLeft, r, 31)
				e.shiftBy(shiftSigned, r, 31)
			case sBrain:
				e.shiftBy(shiftLeft, r, 16)
			}
		}
		if e.place[i] >= 0 {
			e.store(e.place[i], r)
		}
	}
}

// shiftBy shifts a register in place.
func (e *emitter) shiftBy(ext byte, r int, by byte) {
	e.vector(eShiftD, e.full(), int(ext), r, r)
	e.emit(by)
}

// test compares the first lane of a bool with 0.
func (e *emitter) test(v int) {
	if r := e.reg[v]; r >= 0 {
		e.vector(encoding{pp66, map0F, 0x7E, false}, 0, r, 0, scratch)
	} else {
		m := e.stack(e.place[v])
		e.rex(scratch, m)
		e.emit(0x8B)
		e.address(scratch, m)
	}
	e.emit(0x85, 0xC0) // test eax, eax
}

// readSpread loads one element into all lanes.
func (e *emitter) readSpread(x *instr, r int) {
	m := e.block(x)
	switch x.store {
	case sWord:
		e.memory(encoding{pp66, map38, 0x18, false}, e.full(), r, 0, m, mask{})
	case sLong:
		e.memory(encoding{pp66, map38, 0x19, e.level == AVX512}, e.full(), r, 0, m, mask{})
	default:
		e.rex(scratch, m)
		e.emit(0x0F, narrowLoads[x.store])
		e.address(scratch, m)
		e.vector(eMovD, 0, r, 0, scratch)
		if x.store == sHalf {
			e.vector(eFromHalf, 0, r, 0, r)
		}
		e.vector(eSpreadD, e.full(), r, 0, r)
	}
}

// advance gives a carry its next value.
func (e *emitter) advance(i int, x *instr) {
	r, carry := e.want(int(x.a), i), int(x.slot)
	switch {
	case len(e.uses[carry]) == 0:
	case e.place[carry] >= 0:
		e.store(e.place[carry], r)
	default:
		e.vector(eMovReg, e.full(), e.reg[carry], 0, r)
	}
	e.drop(i)
}

// callLanes calls a function. Registers that are still needed go to the stack.
func (e *emitter) callLanes(i int, x *instr) {
	for n, v := range [...]vec{x.a, x.b} {
		if v >= 0 { // whole registers, whose lanes beyond the block are 0
			e.memory(eMovStore, 1+byte(e.level), e.want(int(v), i), 0, e.stack(n), mask{})
		}
	}
	for r, v := range e.holder {
		if v < 0 {
			continue
		}
		if e.place[v] < 0 && e.next(v, i+1) != never {
			e.place[v] = e.newPlace()
			e.store(e.place[v], r)
		}
		e.holder[r], e.reg[v] = -1, -1
	}
	e.load64(rdi, mem{base: loopTable, index: -1, disp: 8 * x.slot})
	e.general(0x89, rsp, rsi)
	e.emit(0xFF, 0x17) // call [rdi]
	d := e.take(i, i)
	e.load(d, callResult)
}

// VectorLanes returns the lanes of a vector with elements of t in a loop's block, or in a whole register.
func (p *Program) VectorLanes(t ir.DType, whole bool) int {
	if whole {
		return p.level.bytes() / t.Size()
	}
	if p.loop.lanes > 1 && t.Size() == 8 {
		return p.loop.lanes / 2
	}
	return p.loop.lanes
}

// VectorBytes returns the distance of a call's operands.
func (p *Program) VectorBytes() int { return p.level.bytes() }
