package cpu

// #include "vector/cpu.h"
import "C"

import (
	"cmp"
	"slices"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// C and Go name the places of faults alike.
var _ [0]struct{} = [C.TLK_EVENT_BITS - ir.LoopEventBits]struct{}{}

// loop makes the C form of a loop in program p. Its steps are a program of their own, which C runs for each iteration.
func (d *Device) loop(p *program, op *device.Loop) (*C.tl_loop, error) {
	body, err := d.build(op.Steps, op.Slots)
	if err != nil {
		return nil, err
	}
	p.bodies = append(p.bodies, body)
	if len(body.calls) > 0 {
		return nil, ir.Errorf(ir.ErrKernelExecution, "cpu: a loop over %s, which runs in Go",
			op.Steps[body.calls[0].index].Op.Label())
	}
	l := &array[C.struct_tl_loop](&p.mem, 1)[0]
	l.prog, l.length, l.drawn, l.operands = body.prog, C.int64_t(op.Length), C.int64_t(op.Drawn), C.int32_t(op.Operands)
	if op.Reverse {
		l.reverse = 1
	}
	offsets := array[C.int64_t](&p.mem, len(op.Offsets))
	for i, v := range op.Offsets {
		offsets[i] = C.int64_t(v)
	}
	scalars, constants := array[C.uint64_t](&p.mem, len(op.Scalars)), array[C.uint64_t](&p.mem, len(op.Scalars))
	for i, v := range op.Scalars {
		scalars[i], constants[i] = C.uint64_t(v), C.uint64_t(v)
	}
	draws := array[C.int32_t](&p.mem, len(op.Draws))
	for i, v := range op.Draws {
		draws[i] = C.int32_t(v)
	}
	l.offsets, l.scalars, l.constants = first(offsets), first(scalars), first(constants)
	l.draw, l.ndraw = first(draws), C.int32_t(len(draws))
	layWires(&p.mem, l, op)
	p.loops = append(p.loops, &loopCode{op: op, c: l})
	return l, nil
}

// layWires lists the wires of slots that stay first, because they are set once.
func layWires(mem *arena, l *C.struct_tl_loop, op *device.Loop) {
	order, carries := make([]int, len(op.Wires)), 0
	for i := range order {
		order[i] = i
		carries = max(carries, op.Wires[i].Carry+1)
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(op.Wires[x].Route, op.Wires[y].Route) })
	l.condition = -1
	wires := array[C.tl_wire](mem, len(order))
	for i, slot := range order {
		w := &op.Wires[slot]
		wires[i] = C.tl_wire{slot: C.int32_t(slot), route: C.int32_t(w.Route), buf: C.int32_t(w.Buf),
			operand: C.int32_t(w.Operand), width: C.int32_t(w.Width), carry: C.int32_t(w.Carry), kept: C.int32_t(w.Kept),
			spare: C.int32_t(w.Spare), last: C.int32_t(w.Last), bytes: C.int64_t(w.Bytes)}
		if w.Route == device.Stays {
			l.stay++
		}
		if op.While && w.Route == device.CarryIn && w.Carry == 0 {
			l.condition = C.int32_t(i)
		}
	}
	l.wire, l.nwire, l.carry = first(wires), C.int32_t(len(wires)), first(array[*C.char](mem, carries))
}
