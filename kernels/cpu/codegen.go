package cpu

// #include "vector/cpu.h"
import "C"

import (
	"slices"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Kinds of lanes of an instruction.
const (
	laneOne   = C.TLK_LANE_ONE
	laneOuter = C.TLK_LANE_OUTER
	laneTile  = C.TLK_LANE_TILE
)

// The level of an instruction says how often it runs.
const (
	levelRun   = 0 // once for each run
	levelOuter = 1 // once for each outer tile
	levelInner = 2 // once for each inner tile
)

// Variants of TLK_FMA; cpu.h has the formulas.
const (
	fmaShifted = 4
	fmaTwo     = 5
)

// Variants of TLK_SUM that sum products; cpu.h has the formulas.
const (
	sumDot       = 3
	sumSquares   = 4
	sumDistances = 5
	sumColumnDot = 6
	sumColumns   = 7
)

// instr is an instruction over virtual registers; register -1 is none.
type instr struct {
	op, typ, variant, lanes int
	d, a, b, c              int
	aux                     int
	imm                     int64
	run                     *run // of TLK_CODE
}

// listed returns the operands of i beyond the first three: their place in the emitter's extra, and their number.
func (i *instr) listed() (at, n int) {
	switch {
	case i.op == opFma && i.variant == fmaShifted:
		return i.aux, 2
	case i.op == opFma && i.variant == fmaTwo:
		return i.aux, 4
	case i.op == opSum && i.variant == sumColumnDot:
		return int(i.imm), 1
	}
	return 0, 0
}

// vreg is a virtual register. The lanes of an external one are elements of a buffer, to which it points.
type vreg struct {
	bytes    int64
	external bool
	level    int
	step     int64 // bytes from row to row of a bundle
	slot     int   // buffer slot that an external one points into
}

// segment is a list of instructions.
type segment struct{ code []instr }

// stageCode is the code of a stage. folds, in a Prefix stage over rows, is the number of instructions of inner that
// compute the accumulators; the others come after them.
type stageCode struct {
	outer, prologue, inner segment
	folds                  int
}

type emitter struct {
	*tilePlan
	regs    []vreg
	uniform segment
	worker  segment // runs once for each run and worker
	stages  []stageCode
	extra   []int // operands beyond the three of an instruction
	s       int   // the current stage
	val     []int // register of each expression, -1 where it is not computed yet
	wide    map[[2]int]int
	wideRun map[[2]int]int
	scans   map[int]int // running values of the current stage's accumulators
	serial  bool        // a store combines values, so one thread runs the kernel
}

// opcodes maps the scalar operations whose instruction is indexed by the argument's type.
var opcodes = map[loopir.Op]int{
	loopir.OpAdd: C.TLK_ADD, loopir.OpSub: C.TLK_SUB, loopir.OpMul: C.TLK_MUL, loopir.OpDiv: C.TLK_DIV,
	loopir.OpRem: C.TLK_REM,
	loopir.OpMin: C.TLK_MIN,
	loopir.OpMax: C.TLK_MAX, loopir.OpPow: C.TLK_POW, loopir.OpLogAdd: C.TLK_LOGADD, loopir.OpEq: C.TLK_EQ,
	loopir.OpNe: C.TLK_NE, loopir.OpLt: C.TLK_LT, loopir.OpLe: C.TLK_LE,
	loopir.OpAnd: C.TLK_AND, loopir.OpOr: C.TLK_OR, loopir.OpXor: C.TLK_XOR, loopir.OpShl: C.TLK_SHL,
	loopir.OpShr: C.TLK_SHR,
	loopir.OpNeg: C.TLK_NEG,
	loopir.OpAbs: C.TLK_ABS, loopir.OpNot: C.TLK_NOT, loopir.OpFloor: C.TLK_FLOOR, loopir.OpCeil: C.TLK_CEIL,
	loopir.OpRound: C.TLK_ROUND,
	loopir.OpTrunc: C.TLK_TRUNC, loopir.OpSqrt: C.TLK_SQRT, loopir.OpExp: C.TLK_EXP, loopir.OpLog: C.TLK_LOG,
	loopir.OpSin: C.TLK_SIN, loopir.OpCos: C.TLK_COS,
	loopir.OpTanh: C.TLK_TANH, loopir.OpErf: C.TLK_ERF, loopir.OpIsNaN: C.TLK_ISNAN, loopir.OpFma: C.TLK_FMA,
	loopir.OpSelect: C.TLK_SELECT, loopir.OpCast: C.TLK_CAST, loopir.OpNarrow: C.TLK_CAST,
}

var reductions = map[loopir.ReduceOp]int{
	loopir.Sum: C.TLK_SUM, loopir.Prod: C.TLK_PROD, loopir.Max: C.TLK_AMAX, loopir.Min: C.TLK_AMIN,
	loopir.ArgMax: C.TLK_ARGMAX, loopir.ArgMin: C.TLK_ARGMIN, loopir.Any: C.TLK_ANY, loopir.All: C.TLK_ALL,
	loopir.LogSum: C.TLK_LOGSUM,
}

func emit(p *tilePlan) *emitter {
	e := &emitter{tilePlan: p, stages: make([]stageCode, len(p.k.Stages)), val: fill(len(p.k.Exprs), -1),
		wideRun: map[[2]int]int{}}
	for s := range p.k.Stages {
		e.s = s
		e.wide, e.scans = map[[2]int]int{}, map[int]int{}
		if !p.oneTile {
			e.forget(func(i int) bool { return p.level(i) == levelInner })
		} else if p.bundle { // the pointer moves from row to row
			e.forget(func(i int) bool { return p.level(i) == levelInner && e.regs[e.val[i]].external })
		}
		e.stage(&p.k.Stages[s])
		e.forgetWritten(&p.k.Stages[s])
	}
	return e
}

func (p *tilePlan) kind(x int) int {
	switch {
	case p.mask[x]&p.lanes[inner] != 0:
		return laneTile
	case p.mask[x]&p.lanes[outer] != 0:
		return laneOuter
	}
	return laneOne
}

func (p *tilePlan) level(x int) int {
	switch {
	case p.mask[x]&innerMask != 0:
		return levelInner
	case p.mask[x] != 0:
		return levelOuter
	}
	return levelRun
}

// one reports that an instruction over lanes of that kind sees expression x as a single lane. In the tile of a bundle,
// which is one row, that includes a value with one lane for each row.
func (p *tilePlan) one(x, kind int) bool {
	have := p.kind(x)
	return have == laneOne || p.bundle && have == laneOuter && kind == laneTile
}

// fullKind is the kind that has every lane of a stage.
func (p *tilePlan) fullKind(overInner bool) int {
	switch {
	case overInner && p.lanes[inner] != 0:
		return laneTile
	case p.lanes[outer] != 0:
		return laneOuter
	}
	return laneOne
}

func (p *tilePlan) capacity(kind int) int64 {
	switch kind {
	case laneTile:
		return p.spaces[outer].lanes() * p.spaces[inner].lanes()
	case laneOuter:
		return p.spaces[outer].lanes()
	}
	return 1
}

func (e *emitter) forget(gone func(i int) bool) {
	for i := range e.val {
		if e.val[i] >= 0 && gone(i) {
			e.val[i] = -1
		}
	}
}

// forgetWritten drops computed values that depend on a buffer that the stage wrote, so that they are computed again.
func (e *emitter) forgetWritten(st *loopir.Stage) {
	for _, r := range st.Stores {
		slot := e.slots[e.storeBuf(r)]
		reads := make([]bool, len(e.k.Exprs))
		for i, x := range e.k.Exprs {
			switch x.Op {
			case loopir.OpLoad:
				reads[i] = e.slots[e.k.Access[x.Imm].Buf] == slot
			case loopir.OpLoadAt:
				reads[i] = e.slots[x.Imm] == slot
			}
			for _, a := range [...]int{x.A, x.B, x.C} {
				reads[i] = reads[i] || a >= 0 && reads[a]
			}
		}
		e.forget(func(i int) bool { return reads[i] })
	}
}

func (e *emitter) reg(t ir.DType, kind, level int) int {
	size := int64(max(t.Size(), 1))
	e.regs = append(e.regs, vreg{bytes: e.capacity(kind) * size, level: level, step: e.rowLanes(kind) * size, slot: -1})
	return len(e.regs) - 1
}

// pointer makes a register that points into the buffer of m.
func (e *emitter) pointer(m *affine, kind, level int) int {
	e.regs = append(e.regs, vreg{external: true, level: level, step: e.rowLanes(kind) * int64(m.typ.Size()),
		slot: e.slots[m.buf]})
	return len(e.regs) - 1
}

// rowLanes returns the number of lanes of that kind in a row of a bundle, or 0 if rows share one lane.
func (e *emitter) rowLanes(kind int) int64 {
	if kind == laneOne {
		return 0
	}
	return e.capacity(kind) / e.capacity(laneOuter)
}

func (e *emitter) add(level int, i instr) {
	seg := &e.stages[e.s].inner
	switch level {
	case levelRun:
		seg = &e.uniform
	case levelOuter:
		seg = &e.stages[e.s].outer
	}
	seg.code = append(seg.code, i)
}

func (e *emitter) groups() []int {
	if e.columns {
		return []int{inner, outer}
	}
	return []int{outer, inner}
}

func (e *emitter) walk(m *affine, kind int) []dim {
	switch kind {
	case laneTile:
		if e.bundle {
			return walk(m, e.spaces, []int{inner})
		}
		return walk(m, e.spaces, e.groups())
	case laneOuter:
		return walk(m, e.spaces, []int{outer})
	}
	return nil
}

// need returns the register of expression x. It emits the code of x unless that was done before.
func (e *emitter) need(x int) int {
	if e.val[x] >= 0 {
		return e.val[x]
	}
	ex := e.k.Exprs[x]
	kind, level := e.kind(x), e.level(x)
	out := func(i instr) int {
		i.lanes = kind
		i.d = e.reg(ex.Type, kind, level)
		e.add(level, i)
		return i.d
	}
	var r int
	if n := e.ofNumber[x]; n != unusedMap {
		r = out(instr{op: C.TLK_IOTA, a: -1, b: -1, c: -1, aux: n})
		e.val[x] = r
		return r
	}
	switch ex.Op {
	case loopir.OpConst:
		r = out(instr{op: C.TLK_CONST, a: -1, b: -1, c: -1, imm: int64(ex.Imm)})
	case loopir.OpParam:
		r = out(instr{op: C.TLK_PARAM, a: -1, b: -1, c: -1, aux: int(ex.Imm)})
	case loopir.OpIndex:
		r = out(instr{op: C.TLK_IOTA, a: -1, b: -1, c: -1, aux: e.ofIndex[ex.Imm]})
	case loopir.OpLinear:
		group := outer
		if e.k.Stages[e.s].OverInner {
			group = inner
		}
		r = out(instr{op: C.TLK_IOTA, a: -1, b: -1, c: -1, aux: e.ofLinear[group]})
	case loopir.OpLoad:
		r = e.load(e.ofAccess[ex.Imm], kind, level, true)
	case loopir.OpLoadAt:
		a := e.as(ex.A, kind, false)
		r = out(instr{op: C.TLK_GATHER, typ: int(e.k.Bufs[ex.Imm].Type), a: a, b: -1, c: -1, aux: int(ex.Imm)})
	case loopir.OpAcc, loopir.OpAccIdx:
		r = e.final(int(ex.Imm), ex, kind)
	case loopir.OpAccRun:
		r = e.scans[int(ex.Imm)]
	case loopir.OpBitcast:
		r = e.need(ex.A)
	case loopir.OpDraw:
		r = e.draw(x)
	default:
		i := e.operands(ex, kind)
		r = out(i)
	}
	e.val[x] = r
	return r
}

// load reads a map into a register. If direct is set and the lanes are consecutive elements of the register's type, it
// points the register at the buffer instead.
func (e *emitter) load(m, kind, level int, direct bool) int {
	a := e.maps[m]
	i := instr{lanes: kind, a: -1, b: -1, c: -1, aux: m, typ: int(a.typ)}
	if direct && a.typ == a.typ.ComputeType() && dense(e.walk(a, kind)) {
		if e.oneTile && !slices.ContainsFunc(a.stride[outer], func(s int64) bool { return s != 0 }) {
			level = levelRun // every tile reads the same lanes
		}
		i.op, i.d = C.TLK_DIRECT, e.pointer(a, kind, level)
	} else {
		i.op, i.d = C.TLK_LOAD, e.reg(a.typ.ComputeType(), kind, level)
	}
	e.add(level, i)
	return i.d
}

// operands returns the instruction of an elementwise operation, without its result register.
func (e *emitter) operands(ex loopir.Expr, kind int) instr {
	i := instr{op: opcodes[ex.Op], typ: int(e.k.Exprs[ex.A].Type), lanes: kind, b: -1, c: -1}
	if ex.Op == loopir.OpFma || ex.Op == loopir.OpMul {
		ex.A, ex.B = e.oneLast(ex, kind)
	}
	switch {
	case ex.Op == loopir.OpNarrow: // the register of a half type holds floats
		i.typ, i.variant = int(ex.Imm), int(ir.F32)
		i.a = e.as(ex.A, kind, false)
	case ex.Op == loopir.OpCast:
		i.typ, i.variant = int(ex.Type), int(e.k.Exprs[ex.A].Type)
		i.a = e.as(ex.A, kind, false)
	case ex.Op == loopir.OpFma && e.one(ex.B, kind) && e.shifts(ex.A, kind) && e.scaled(ex.C, kind):
		s, t := e.k.Exprs[ex.A], e.k.Exprs[ex.C]
		t.A, t.B = e.oneLast(t, kind)
		i.typ, i.variant, i.a, i.b = int(ex.Type), fmaTwo, e.need(s.A), e.need(t.A)
		i.aux = e.list(e.need(s.B), e.need(ex.B), e.need(t.B), e.need(t.C))
	case ex.Op == loopir.OpFma && e.kind(ex.B) == kind && e.kind(ex.C) == kind && e.scales(ex.A, kind):
		f := e.k.Exprs[ex.A]
		f.A, f.B = e.oneLast(f, kind)
		s := e.k.Exprs[f.A]
		i.typ, i.variant, i.a, i.b, i.c = int(ex.Type), fmaShifted, e.need(s.A), e.need(ex.B), e.need(ex.C)
		i.aux = e.list(e.need(s.B), e.need(f.B))
	case ex.Op == loopir.OpSelect || ex.Op == loopir.OpFma:
		i.typ = int(ex.Type)
		i.a, i.b, i.c = e.as(ex.A, kind, false), e.as(ex.B, kind, true), e.as(ex.C, kind, true)
		if kind != laneOne && e.one(ex.C, kind) {
			i.variant |= 1
		}
		if kind != laneOne && e.one(ex.B, kind) {
			i.variant |= 2
		}
	case ex.Op == loopir.OpMul && e.one(ex.B, kind) && e.shifts(ex.A, kind):
		s := e.k.Exprs[ex.A]
		i.op, i.a, i.b, i.c = C.TLK_SHIFTED, e.need(s.A), e.need(s.B), e.need(ex.B)
	case ex.Op == loopir.OpExp && e.shifts(ex.A, kind):
		s := e.k.Exprs[ex.A]
		i.variant, i.a, i.b = 1, e.need(s.A), e.need(s.B)
	case ex.B >= 0 && ex.C < 0:
		scalarA := e.one(ex.A, kind) && !e.one(ex.B, kind)
		scalarB := e.one(ex.B, kind) && !e.one(ex.A, kind)
		i.a, i.b = e.as(ex.A, kind, scalarA), e.as(ex.B, kind, scalarB)
		if scalarB {
			i.variant = 1
		} else if scalarA {
			i.variant = 2
		}
	default:
		i.a = e.as(ex.A, kind, false)
		if ex.B >= 0 {
			i.b = e.as(ex.B, kind, false)
		}
		if ex.C >= 0 {
			i.c = e.as(ex.C, kind, false)
		}
	}
	return i
}

// oneLast returns the factors of a product over lanes of that kind. A factor of one lane comes second.
func (e *emitter) oneLast(x loopir.Expr, kind int) (a, b int) {
	if e.one(x.A, kind) {
		return x.B, x.A
	}
	return x.A, x.B
}

// list appends registers to extra and returns the place of the first.
func (e *emitter) list(regs ...int) (at int) {
	at = len(e.extra)
	e.extra = append(e.extra, regs...)
	return at
}

// as returns a register of expression x with the lanes of kind. If scalar is set, a value of one lane may stay so.
func (e *emitter) as(x, kind int, scalar bool) int {
	r, have := e.need(x), e.kind(x)
	if have == kind || scalar && e.one(x, kind) {
		return r
	}
	key := [2]int{r, kind}
	if w, ok := e.wideRun[key]; ok {
		return w
	}
	if w, ok := e.wide[key]; ok {
		return w
	}
	t := e.k.Exprs[x].Type
	i := instr{op: C.TLK_EXPAND, typ: int(t), lanes: kind, a: r, b: -1, c: -1}
	if have == laneOuter && !e.bundle {
		i.variant = 1
		if e.columns {
			i.variant = 2
		}
	}
	st := &e.stages[e.s]
	switch level := e.level(x); {
	case level == levelRun:
		i.imm = e.capacity(kind)
		i.d = e.reg(t, kind, levelInner)
		e.worker.code = append(e.worker.code, i)
		e.wideRun[key] = i.d
	case kind == laneTile && level == levelOuter && have == laneOuter && e.bundle:
		i.d = e.reg(t, kind, levelInner)
		e.add(levelInner, i)
		e.wide[key] = i.d
	case kind == laneTile && level == levelOuter:
		switch i.variant {
		case 0:
			i.imm = e.capacity(kind)
		case 2:
			i.imm = e.spaces[inner].lanes()
		}
		i.d = e.reg(t, kind, levelInner)
		st.prologue.code = append(st.prologue.code, i)
		e.wide[key] = i.d
	default:
		i.d = e.reg(t, kind, level)
		e.add(level, i)
		e.wide[key] = i.d
	}
	return i.d
}

// draw computes all parts of a stream's elements at once, for every expression that uses one of them.
func (e *emitter) draw(x int) int {
	ex := e.k.Exprs[x]
	kind, level := e.kind(x), e.level(x)
	i := instr{op: C.TLK_DRAW, lanes: kind, d: -1, aux: len(e.extra)}
	i.a, i.b, i.c = e.as(ex.A, kind, false), e.as(ex.B, kind, false), e.as(ex.C, kind, false)
	parts := [loopir.NumDrawParts]int{-1, -1, -1, -1}
	for n, y := range e.k.Exprs {
		if y.Op != loopir.OpDraw || !e.live[n] || y.A != ex.A || y.B != ex.B || y.C != ex.C {
			continue
		}
		if parts[y.Imm] < 0 {
			parts[y.Imm] = e.reg(ir.U32, kind, level)
		}
		e.val[n] = parts[y.Imm]
	}
	e.extra = append(e.extra, parts[:]...)
	e.add(level, i)
	return e.val[x]
}
