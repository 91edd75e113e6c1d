package cpu

// #include "vector/cpu.h"
import "C"

import (
	"slices"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
	"github.com/torchlette/torchlette/kernels/machine"
)

// run is neighbouring elementwise instructions that one function of machine code computes. Values that only they use
// never leave the vector registers.
type run struct {
	code          []instr
	reads, writes []int // registers whose addresses the function takes
	prog          *machine.Program
	address       uintptr
}

// scalarOps maps instructions to the operations that they compute lane by lane.
var scalarOps = func() (list [C.TLK_OPS]loopir.Op) {
	for op, i := range opcodes {
		if op != loopir.OpNarrow && op != loopir.OpCast {
			list[i] = op
		}
	}
	return list
}()

// coder replaces instructions of a kernel by runs.
type coder struct {
	*emitter
	level machine.Level
	once  uint8   // buffers
	leaf  []instr // by register: what fills it with copies of one lane, or with a constant, or points to one lane
	users []user  // by register
	// Of the current run.
	prog   *machine.Program
	values []machine.Value  // by register
	keep   func(r int) bool // registers that code after the run needs
}

// user is what uses a register: nothing, a single run, or an instruction outside of runs or several runs.
type user struct {
	some bool
	run  *run
}

// code replaces runs by machine code. Kernels with running values have none: a part of their instructions may run
// alone. Of the buffers in once, the first element is in all lanes.
func (e *emitter) code(level machine.Level, once uint8) (runs []*run) {
	c := &coder{emitter: e, level: level, once: once, leaf: make([]instr, len(e.regs))}
	segs := []*segment{&e.uniform, &e.worker}
	for s := range e.stages {
		st := &e.stages[s]
		segs = append(segs, &st.outer, &st.prologue, &st.inner)
		if e.k.Stages[s].Prefix {
			return nil
		}
	}
	for _, seg := range segs {
		c.findLeaves(seg)
	}
	for s := range e.stages {
		c.cut(&e.stages[s].outer, levelOuter)
		c.cut(&e.stages[s].inner, levelInner)
	}
	for _, seg := range segs {
		for i := range seg.code {
			if r := seg.code[i].run; r != nil {
				runs = append(runs, r)
			}
		}
	}
	c.findUsers(segs)
	for _, r := range runs {
		c.finish(r)
	}
	c.dropLeaves(segs)
	return runs
}

// single reports a map of a buffer whose first element is in all lanes.
func (c *coder) single(m *affine) bool { return m.buf >= 0 && c.once>>m.buf&1 != 0 }

func (c *coder) findLeaves(seg *segment) {
	for i := range seg.code {
		x := seg.code[i]
		if x.op == C.TLK_EXPAND && x.variant == 0 || x.op == C.TLK_CONST || x.op == C.TLK_DIRECT && c.single(c.maps[x.aux]) {
			c.leaf[x.d] = x
		}
	}
}

// first reports an instruction that depends on no other, and that a run does not contain: it goes before all runs.
// Stores of a stage come after all of its loads.
func (c *coder) first(x *instr) bool {
	switch x.op {
	case C.TLK_DIRECT, C.TLK_IOTA:
		return true
	case C.TLK_LOAD:
		return x.lanes == laneOne || !dense(c.walk(c.maps[x.aux], x.lanes))
	}
	return false
}

// cut makes runs of the instructions of a segment.
func (c *coder) cut(seg *segment, level int) {
	var early, rest, open []instr
	flush := func() {
		if len(open) > 1 {
			r := &run{code: open}
			rest = append(rest, instr{op: C.TLK_CODE, lanes: open[0].lanes, d: -1, a: -1, b: -1, c: -1, run: r})
		} else {
			rest = append(rest, open...)
		}
		open, c.prog = nil, nil
	}
	for i := range seg.code {
		x := seg.code[i]
		if c.first(&x) {
			early = append(early, x)
			continue
		}
		if c.prog == nil || len(open) > 0 && open[0].lanes != x.lanes {
			flush()
			c.begin()
		}
		if x.lanes == laneOne || !c.codes(&x) {
			flush()
			rest = append(rest, x)
			continue
		}
		open = append(open, x)
	}
	flush()
	for i := range rest {
		if r := rest[i].run; r != nil {
			for j := range r.code {
				early = c.point(early, &r.code[j], level)
			}
		}
	}
	seg.code = slices.Concat(early, rest)
}

// point makes a load or store of a run go through a pointer to the elements.
func (c *coder) point(early []instr, x *instr, level int) []instr {
	if x.op != C.TLK_LOAD && x.op != C.TLK_STORE {
		return early
	}
	m := c.maps[x.aux]
	direct := instr{op: C.TLK_DIRECT, typ: int(m.typ), lanes: x.lanes, d: c.pointer(m, x.lanes, level), a: -1, b: -1,
		c:   -1,
		aux: x.aux}
	if x.op == C.TLK_LOAD {
		x.b = direct.d
	} else {
		x.d = direct.d
		direct.imm = int64(level / levelInner)
	}
	return append(early, direct)
}

func (c *coder) begin() {
	c.prog, c.values = machine.New(c.level), make([]machine.Value, len(c.regs))
	c.keep = func(int) bool { return false }
}

// operand returns the value of register r with lanes of type t; one says that r has one lane for all.
func (c *coder) operand(r int, t ir.DType, one bool) machine.Value {
	v, from := c.values[r], r
	if r < len(c.leaf) {
		switch x := c.leaf[r]; x.op {
		case C.TLK_EXPAND:
			from, one = x.a, true
		case C.TLK_DIRECT:
			one = true
		}
	}
	switch {
	case v.Made():
	case from < len(c.leaf) && c.leaf[from].op == C.TLK_CONST:
		v = c.prog.Const(t, uint64(c.leaf[from].imm))
	case one:
		v = c.prog.Scalar(from, t)
	default:
		v = c.prog.Load(r, t)
	}
	v = v.As(t)
	c.values[r] = v
	return v
}

// set makes v the value of register r, and stores it where it is needed outside of the run.
func (c *coder) set(r int, t ir.DType, v machine.Value) {
	c.values[r] = v
	if c.keep(r) {
		c.prog.Store(r, t, v)
	}
}

// codes adds x to the run. It reports false where x has no machine code.
func (c *coder) codes(x *instr) bool {
	t := ir.DType(x.typ)
	if t == ir.U64 || x.op == C.TLK_CAST && ir.DType(x.variant) == ir.U64 { // the C functions have it
		return false
	}
	switch x.op {
	case C.TLK_LOAD:
		m := c.maps[x.aux]
		if !dense(c.walk(m, x.lanes)) {
			return false
		}
		at := x.b // the pointer, once there is one
		if at < 0 {
			at = x.d
		}
		if c.single(m) {
			c.set(x.d, t.ComputeType(), c.prog.Scalar(at, m.typ))
			return true
		}
		c.set(x.d, t.ComputeType(), c.prog.Load(at, m.typ))
		return true
	case C.TLK_STORE:
		m := c.maps[x.aux]
		if x.imm != 0 || !dense(c.walk(m, x.lanes)) {
			return false
		}
		c.prog.Store(x.d, m.typ, c.operand(x.a, m.typ.ComputeType(), false))
		return true
	case C.TLK_EXPAND:
		if x.variant == 0 {
			c.set(x.d, t, c.operand(x.a, t, true))
		}
		return x.variant == 0
	case C.TLK_CAST:
		return c.casts(x, t)
	case C.TLK_FMA, C.TLK_SHIFTED:
		return c.products(x, t)
	case C.TLK_EXP:
		return false
	}
	op := scalarOps[x.op]
	if op == loopir.OpInvalid {
		return false
	}
	var args []machine.Value
	switch {
	case x.op == C.TLK_SELECT:
		args = append(args, c.operand(x.a, ir.Bool, false), c.operand(x.b, t, x.variant&2 != 0),
			c.operand(x.c, t, x.variant&1 != 0))
	case x.b >= 0:
		args = append(args, c.operand(x.a, t, x.variant&2 != 0), c.operand(x.b, t, x.variant&1 != 0))
	default:
		args = append(args, c.operand(x.a, t, false))
	}
	v, ok := c.prog.Apply(op, args...)
	if ok {
		c.set(x.d, c.typeOf(op, t), v)
	}
	return ok
}

// typeOf is the type of an operation's result on operands of type t.
func (c *coder) typeOf(op loopir.Op, t ir.DType) ir.DType {
	switch op {
	case loopir.OpEq, loopir.OpNe, loopir.OpLt, loopir.OpLe, loopir.OpIsNaN:
		return ir.Bool
	}
	return t
}

// casts adds a conversion by value, or a rounding to a half type.
func (c *coder) casts(x *instr, t ir.DType) bool {
	a := c.operand(x.a, ir.DType(x.variant), false)
	if t == ir.F16 || t == ir.BF16 {
		c.set(x.d, ir.F32, c.prog.Narrow(a, t))
		return true
	}
	v, ok := c.prog.Cast(a, t)
	if ok {
		c.set(x.d, t, v)
	}
	return ok
}

// products adds the forms of an instruction that computes several operations; cpu.h has the formulas.
func (c *coder) products(x *instr, t ir.DType) bool {
	apply := func(op loopir.Op, args ...machine.Value) machine.Value {
		v, _ := c.prog.Apply(op, args...)
		return v
	}
	one := func(r int) machine.Value { return c.operand(r, t, true) }
	full := func(r int) machine.Value { return c.operand(r, t, false) }
	var v machine.Value
	switch {
	case x.op == C.TLK_SHIFTED:
		v = apply(loopir.OpMul, apply(loopir.OpSub, full(x.a), one(x.b)), one(x.c))
	case x.variant == fmaShifted:
		y, z := c.extra[x.aux], c.extra[x.aux+1]
		v = apply(loopir.OpFma, apply(loopir.OpMul, apply(loopir.OpSub, full(x.a), one(y)), one(z)), full(x.b), full(x.c))
	case x.variant == fmaTwo:
		l := c.extra[x.aux:]
		v = apply(loopir.OpFma, apply(loopir.OpSub, full(x.a), one(l[0])), one(l[1]),
			apply(loopir.OpFma, full(x.b), one(l[2]), one(l[3])))
	default:
		v = apply(loopir.OpFma, full(x.a), c.operand(x.b, t, x.variant&2 != 0), c.operand(x.c, t, x.variant&1 != 0))
	}
	c.set(x.d, t, v)
	return true
}

// findUsers finds the registers that a single run uses.
func (c *coder) findUsers(segs []*segment) {
	c.users = make([]user, len(c.regs))
	use := func(r int, by *run) {
		if c.users[r].some && c.users[r].run != by {
			by = nil
		}
		c.users[r] = user{true, by}
	}
	for _, seg := range segs {
		for i := range seg.code {
			x := &seg.code[i]
			if x.run == nil {
				c.operandsOf(x, func(r int) { use(r, nil) })
				continue
			}
			for j := range x.run.code {
				c.operandsOf(&x.run.code[j], func(r int) { use(r, x.run) })
			}
		}
	}
}

// finish selects the instructions of a run once more, now that it is known which values leave it.
func (c *coder) finish(r *run) {
	c.begin()
	made := make([]bool, len(c.regs))
	c.keep = func(v int) bool {
		made[v] = true
		return c.regs[v].external || c.users[v].some && c.users[v].run != r
	}
	for i := range r.code {
		c.codes(&r.code[i])
	}
	r.prog = c.prog
	reads, writes := c.prog.Slots()
	r.writes = writes
	for _, v := range reads {
		if !made[v] {
			r.reads = append(r.reads, v)
		}
	}
}

// dropLeaves removes copies of one lane, and constants, that only runs have used.
func (c *coder) dropLeaves(segs []*segment) {
	for _, op := range [...]int{C.TLK_EXPAND, C.TLK_CONST} { // copies read constants
		used := make([]bool, len(c.regs))
		for _, seg := range segs {
			for i := range seg.code {
				c.operandsOf(&seg.code[i], func(r int) { used[r] = true })
			}
		}
		for _, seg := range segs {
			kept := seg.code[:0]
			for _, x := range seg.code {
				if x.op != op || used[x.d] {
					kept = append(kept, x)
				}
			}
			seg.code = kept
		}
	}
}
