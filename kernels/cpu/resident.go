package cpu

// #include "vector/cpu.h"
import "C"

import (
	"slices"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
	"github.com/torchlette/torchlette/kernels/machine"
)

// loopCode is a loop of a program. It gets machine code when it becomes hot.
type loopCode struct {
	op   *device.Loop
	c    *C.tl_loop
	heat int64 // work so far; -1: it is compiled, or cannot be
	code codePages
}

// work estimates the operations of a run of the loop.
func (l *loopCode) work() int64 {
	const most = 1 << 20
	return min(l.op.Length, most) * callWork * int64(len(l.op.Steps))
}

// addCode gives l machine code for its resident form. Without one, its steps run one by one.
func (l *loopCode) addCode(p *program, isa C.int, level machine.Level) bool {
	r, why := l.op.Resident()
	if why != "" {
		return false
	}
	k := &residentCoder{p: p, op: l.op, r: r, isa: isa, block: blockOf(r, level), inline: mostInline}
	code := k.compile(level)
	if code == nil {
		return false
	}
	if l.code.at = mapCode(code); l.code.at == nil {
		return false
	}
	l.code.bytes = int64(len(code))
	c := &array[C.tl_resident](&p.mem, 1)[0]
	entries := array[C.tl_entry](&p.mem, len(k.entries))
	copy(entries, k.entries)
	c.code = (*C.tl_iterate)(l.code.at)
	c.lanes, c.block, c.cost = C.int64_t(r.Lanes), C.int64_t(k.block), C.int64_t(len(r.Exprs)+1)
	c.nentry, c.entry = C.int32_t(len(entries)), first(entries)
	carries := array[C.tl_resident_carry](&p.mem, len(k.carries))
	for i, n := range k.carries {
		carries[i] = carryOf(l.op, n)
	}
	c.ncarry, c.carry = C.int32_t(len(carries)), first(carries)
	l.c.resident = c
	return true
}

// carryOf describes carry n of a loop.
func carryOf(op *device.Loop, n int) (c C.tl_resident_carry) {
	for i := range op.Wires {
		switch w := &op.Wires[i]; {
		case w.Route == device.CarryIn && w.Carry == n:
			c.buf, c.operand, c.width, c.kept = C.int32_t(w.Buf), C.int32_t(w.Operand), C.int32_t(w.Width), C.int32_t(w.Kept)
		case w.Route == device.CarryOut && w.Carry == n:
			c.out, c.spare, c.bytes = C.int32_t(w.Buf), C.int32_t(w.Spare), C.int64_t(w.Bytes)
		}
	}
	return c
}

// blockOf returns the lanes that one call works: those of a vector, where lanes are neighbours in memory; else one.
func blockOf(r *launch.Resident, level machine.Level) int {
	words := true
	for _, p := range r.Ports {
		if p.Lane > 1 || p.Lane < 0 {
			return 1
		}
		words = words && p.Type.Size() == 4
	}
	for _, e := range r.Exprs {
		words = words && e.Type.Size() <= 4 && e.Op != loopir.OpNarrow
	}
	for n := level.Lanes(); n >= 4; n /= 2 {
		if int64(n) <= r.Lanes && (words || n == level.Lanes()) {
			return n
		}
	}
	return 1
}

// mostInline bounds the functions whose formulas are part of a loop's code, so that the code fits the first cache. The
// code calls C for the others.
const mostInline = 64

// residentCoder compiles a resident form.
type residentCoder struct {
	p       *program
	op      *device.Loop
	r       *launch.Resident
	isa     C.int
	block   int
	prog    *machine.Program
	entries []C.tl_entry
	carries []int // numbers of the loop's carries
	inline  int   // how many functions may still become instructions: each takes some 30
	vals    []machine.Value
}

// compile returns the code, or nil where an operation has none.
func (k *residentCoder) compile(level machine.Level) []byte {
	k.prog = machine.NewLoop(level, k.block)
	k.vals = make([]machine.Value, len(k.r.Exprs))
	var carried, next []machine.Value
	var while machine.Value
	for _, c := range k.r.Carries {
		p := &k.r.Ports[c.In]
		at, ok := k.place(C.TLK_ENTRY_CARRY_IN, p, c.Number)
		if !ok {
			return nil
		}
		v := k.prog.Carry(at, p.Type)
		if k.r.Condition == c.In {
			while = v
		}
		carried = append(carried, v)
	}
	for i := range k.r.Exprs {
		if !k.value(i, carried) {
			return nil
		}
	}
	for i, c := range k.r.Carries {
		next = append(next, k.vals[c.Next])
		if c.Kept >= 0 && !k.store(C.TLK_ENTRY_KEPT, c.Kept, -1, carried[i]) {
			return nil
		}
	}
	for _, s := range k.r.Stores {
		if !k.store(C.TLK_ENTRY_MOVES, s.Port, -1, k.vals[s.Val]) {
			return nil
		}
	}
	k.prog.End(carried, next, while)
	for i, c := range k.r.Carries {
		if !k.store(C.TLK_ENTRY_CARRY_OUT, c.Out, c.Number, carried[i]) {
			return nil
		}
	}
	return k.prog.AssembleLoop()
}

// place returns the memory of a port; carry is its carry's number, -1 for none.
func (k *residentCoder) place(role int, p *launch.Port, carry int) (machine.Place, bool) {
	size := int64(p.Type.Size())
	e := C.tl_entry{role: C.int32_t(role), buf: C.int32_t(p.Buf), operand: C.int32_t(p.Operand), width: C.int32_t(size),
		carry: -1, lane: C.int64_t(p.Lane * size), place: C.int64_t(p.Place * size)}
	if carry >= 0 {
		if n := slices.Index(k.carries, carry); n >= 0 {
			carry = n
		} else {
			k.carries = append(k.carries, carry)
			carry = len(k.carries) - 1
		}
		e.carry, e.place = C.int32_t(carry), 0
	}
	slot := slices.Index(k.entries, e)
	if slot < 0 {
		slot = len(k.entries)
		k.entries = append(k.entries, e)
	}
	moves := p.Place * size
	if k.op.Reverse {
		moves = -moves
	}
	const far = 1 << 30
	ok := len(k.entries) <= C.TLK_MOST_ENTRIES && p.At*size < far && p.Place*size < far
	return machine.Place{Slot: slot, Disp: int(p.At * size), Spread: k.block == 1 || p.Lane == 0, Moves: int(moves)}, ok
}

func (k *residentCoder) store(role, port, carry int, v machine.Value) bool {
	p := &k.r.Ports[port]
	at, ok := k.place(role, p, carry)
	if ok {
		k.prog.StoreAt(at, p.Type, v)
	}
	return ok
}

// value computes expression i.
func (k *residentCoder) value(i int, carried []machine.Value) (ok bool) {
	e := &k.r.Exprs[i]
	var args []machine.Value
	for _, a := range [...]int{e.A, e.B, e.C} {
		if a >= 0 {
			args = append(args, k.vals[a])
		}
	}
	v := &k.vals[i]
	switch e.Op {
	case loopir.OpConst:
		*v = k.prog.Const(e.Type, e.Imm)
		return true
	case loopir.OpLoad:
		p := &k.r.Ports[e.Imm]
		if p.Carry {
			*v = carried[slices.IndexFunc(k.r.Carries, func(c launch.ResidentCarry) bool { return c.In == int(e.Imm) })]
			return true
		}
		role := C.TLK_ENTRY_SAME
		if p.Place != 0 {
			role = C.TLK_ENTRY_MOVES
		}
		at, ok := k.place(role, p, -1)
		*v = k.prog.LoadAt(at, p.Type)
		return ok
	case loopir.OpCast:
		*v, ok = k.prog.Cast(args[0], e.Type)
		return ok
	case loopir.OpNarrow:
		*v = k.prog.Narrow(args[0], ir.DType(e.Imm))
		return true
	case loopir.OpBitcast:
		*v = args[0].As(e.Type)
		return true
	case loopir.OpIndex:
		return false
	}
	if *v, ok = k.prog.Apply(e.Op, args...); ok {
		return true
	}
	if k.inline--; k.inline >= 0 && len(args) == 1 {
		if *v, ok = k.prog.Function(e.Op, args[0]); ok {
			return true
		}
	}
	return k.call(e, v, args)
}

// call computes an operation without a vector form by the function of a tile.
func (k *residentCoder) call(e *loopir.Expr, v *machine.Value, args []machine.Value) bool {
	op, ok := opcodes[e.Op]
	if !ok || len(args) > 2 || e.Type == ir.Bool || e.Op == loopir.OpDraw {
		return false
	}
	f := &array[C.tl_lanes](&k.p.mem, 1)[0]
	f.ins = C.tl_ins{op: C.uint8_t(op), _type: C.uint8_t(e.Type), a: 0, b: 1, d: 2}
	f.ins.fn = C.tl_lookup(k.isa, &f.ins)
	if f.ins.fn == nil {
		return false
	}
	f.enter = (*[0]byte)(C.tl_call_lanes)
	whole := e.Type == ir.F32 && len(args) == 1 // whose loops are slow for a part of a vector
	f.n, f.step = C.int64_t(k.prog.VectorLanes(e.Type, whole)), C.int64_t(k.prog.VectorBytes())
	same := slices.IndexFunc(k.entries, func(x C.tl_entry) bool { return x.call != nil && x.call.ins == f.ins })
	if same < 0 {
		same = len(k.entries)
		k.entries = append(k.entries, C.tl_entry{role: C.TLK_ENTRY_CALL, call: f})
	}
	*v = k.prog.Call(same, e.Type, args...)
	return len(k.entries) <= C.TLK_MOST_ENTRIES
}
