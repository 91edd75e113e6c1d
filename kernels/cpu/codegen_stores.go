package cpu

// #include "vector/cpu.h"
import "C"

import (
	"fmt"
	"slices"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// pending is a store that is not emitted yet. If direct is set, its value is computed straight into the destination.
type pending struct {
	store  loopir.Store
	ins    instr // computes the value, without a result register; op 0: the value is in reg
	reg    int
	index  int
	guard  int
	direct bool
}

// stores emits the code that computes all values of a stage, then the code that writes them in order.
func (e *emitter) stores(st *loopir.Stage) {
	kind, level := e.fullKind(st.OverInner), stageLevel(st)
	list := make([]pending, len(st.Stores))
	for n, r := range st.Stores {
		list[n] = pending{store: r, reg: -1, index: -1, guard: -1}
		if e.canDirect(r, kind, level) {
			ex := e.k.Exprs[r.Val]
			list[n].ins, list[n].direct = e.operands(ex, kind), true
			continue
		}
		list[n].reg = e.as(r.Val, kind, false)
		e.address(&list[n], kind)
	}
	// A store must not overwrite what a later one reads.
	for n := range list {
		e.protect(list[:n], &list[n], kind)
	}
	for n := range list {
		e.write(&list[n], kind, level)
	}
}

// canDirect reports that the value of r can be computed in its destination: nothing else uses it, and the lanes are
// consecutive elements there.
func (e *emitter) canDirect(r loopir.Store, kind, level int) bool {
	x := e.k.Exprs[r.Val]
	if _, elementwise := opcodes[x.Op]; !elementwise || r.Access < 0 || r.Guard >= 0 || r.Mode != loopir.Set {
		return false
	}
	m := e.maps[e.ofAccess[r.Access]]
	return !e.streams(r) && e.val[r.Val] < 0 && e.uses[r.Val] == 1 && e.kind(r.Val) == kind && e.level(r.Val) == level &&
		m.typ == m.typ.ComputeType() && dense(e.walk(m, kind))
}

// streamBytes is the size from which a result is stored past the caches. The last level holds 16 to 32 MiB on most
// machines, so a larger result would leave it before it is read. A wrong guess costs one trip to memory.
const streamBytes = 32 << 20

// streams reports that r writes more than the caches hold, each element once.
func (e *emitter) streams(r loopir.Store) bool {
	m := e.maps[e.ofAccess[r.Access]]
	size := int64(m.typ.Size())
	for g, s := range e.spaces {
		for d, n := range s.size {
			if m.stride[g][d] != 0 {
				size *= n
			}
		}
	}
	if size < streamBytes {
		return false
	}
	for i, x := range e.k.Exprs {
		if e.live[i] && (x.Op == loopir.OpLoad && e.slots[e.k.Access[x.Imm].Buf] == e.slots[m.buf] ||
			x.Op == loopir.OpLoadAt && e.slots[x.Imm] == e.slots[m.buf]) {
			return false
		}
	}
	return true
}

// protect copies values that p would read from a buffer after an earlier store has written to it.
func (e *emitter) protect(earlier []pending, p *pending, kind int) {
	lost := func(r int) bool {
		return r >= 0 && e.regs[r].external && slices.ContainsFunc(earlier,
			func(q pending) bool { return e.slots[e.storeBuf(q.store)] == e.regs[r].slot })
	}
	if p.direct {
		e.operandsOf(&p.ins, func(r int) {
			if p.direct && lost(r) {
				p.reg, p.direct = e.need(p.store.Val), false
			}
		})
		return
	}
	if lost(p.reg) {
		p.reg = e.materialise(p.store.Val, kind)
	}
	if lost(p.index) {
		p.index = e.materialise(p.store.Index, kind)
	}
	if lost(p.guard) {
		p.guard = e.materialise(p.store.Guard, kind)
	}
}

// materialise copies a value that is a pointer into a buffer to a register.
func (e *emitter) materialise(x, kind int) int {
	for e.k.Exprs[x].Op == loopir.OpBitcast {
		x = e.k.Exprs[x].A
	}
	ex := e.k.Exprs[x]
	if ex.Op != loopir.OpLoad {
		panic(fmt.Sprintf("BUG: cpu: %v is a pointer into a buffer", ex.Op))
	}
	return e.load(e.ofAccess[ex.Imm], kind, e.level(x), false)
}

// address emits the element numbers and the guard of a store that is not plain affine.
func (e *emitter) address(p *pending, kind int) {
	r := p.store
	if r.Guard >= 0 {
		p.guard = e.as(r.Guard, kind, false)
	}
	if r.Access < 0 {
		p.index = e.as(r.Index, kind, false)
		return
	}
	if r.Guard >= 0 || r.Mode != loopir.Set {
		level := stageLevel(&e.k.Stages[e.s])
		p.index = e.reg(ir.I64, kind, level)
		e.add(level, instr{op: C.TLK_IOTA, typ: int(ir.I64), lanes: kind, d: p.index, a: -1, b: -1, c: -1,
			aux: e.ofAccess[r.Access]})
	}
}

func (e *emitter) write(p *pending, kind, level int) {
	r := p.store
	buf := e.storeBuf(r)
	t := int(e.k.Bufs[buf].Type)
	switch {
	case p.direct:
		m := e.ofAccess[r.Access]
		p.ins.d = e.pointer(e.maps[m], kind, level)
		direct := instr{op: C.TLK_DIRECT, typ: t, lanes: kind, d: p.ins.d, a: -1, b: -1, c: -1, aux: m}
		if level == levelInner {
			direct.imm = 1
		}
		e.add(level, direct)
		e.add(level, p.ins)
	case p.index >= 0:
		i := instr{op: C.TLK_SCATTER, typ: t, lanes: kind, d: -1, a: p.reg, b: p.index, c: p.guard, aux: buf}
		if r.Mode != loopir.Set {
			i.imm, e.serial = int64(r.Mode), true
		}
		e.add(level, i)
	default:
		i := instr{op: C.TLK_STORE, typ: t, lanes: kind, d: -1, a: p.reg, b: -1, c: -1, aux: e.ofAccess[r.Access]}
		if e.streams(r) {
			i.imm = 1
		}
		e.add(level, i)
	}
}
