package cpu

// #include "cpu.h"
import "C"

import (
	"fmt"
	"slices"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Lanes of an instruction.
const (
	laneOne   = C.TL_LANE_ONE
	laneOuter = C.TL_LANE_OUTER
	laneTile  = C.TL_LANE_TILE
)

// How often an instruction runs.
const (
	levelRun   = 0 // once a run
	levelOuter = 1 // once an outer tile
	levelInner = 2 // once an inner tile
)

// Variants of TL_FMA: the first operand is a difference times a factor; the sum of such a product and of one of two
// registers.
const (
	fmaShifted = 4
	fmaTwo     = 5
)

// Variants of TL_SUM, of products.
const (
	sumDot       = 3
	sumSquares   = 4
	sumDistances = 5
	sumColumnDot = 6
)

// instr is an instruction over virtual registers; -1 is none.
type instr struct {
	op, typ, variant, lanes int
	d, a, b, c              int
	aux                     int
	imm                     int64
}

// listed tells where in the emitter's extra the operands begin that i has beyond three, and how many they are.
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

// vreg is a virtual register. An external one points into a buffer.
type vreg struct {
	bytes    int64
	external bool
	level    int
	step     int64 // bytes from row to row of a bundle
	slot     int   // of the buffer an external one points into
}

// segment is a list of instructions; loops: it runs many times a stage.
type segment struct{ code []instr }

// stageCode is the code of a stage; folds: how many instructions of inner make the accumulators of a Prefix stage over
// rows.
type stageCode struct {
	outer, prologue, inner segment
	folds                  int
}

type emitter struct {
	*tilePlan
	regs    []vreg
	uniform segment
	worker  segment // once a run and worker
	stages  []stageCode
	extra   []int // registers beyond those of an instruction
	s       int   // the stage at hand
	val     []int // register of an expression, -1 when it is not computed
	wide    map[[2]int]int
	wideRun map[[2]int]int
	scans   map[int]int // running values of the present stage's accumulators
	serial  bool        // a store combines: no threads
}

// opcodes translates scalar operations whose instruction is indexed by the argument's type.
var opcodes = map[loopir.Op]int{
	loopir.OpAdd: C.TL_ADD, loopir.OpSub: C.TL_SUB, loopir.OpMul: C.TL_MUL, loopir.OpDiv: C.TL_DIV, loopir.OpRem: C.TL_REM,
	loopir.OpMin: C.TL_MIN,
	loopir.OpMax: C.TL_MAX, loopir.OpPow: C.TL_POW, loopir.OpLogAdd: C.TL_LOGADD, loopir.OpEq: C.TL_EQ,
	loopir.OpNe: C.TL_NE, loopir.OpLt: C.TL_LT, loopir.OpLe: C.TL_LE,
	loopir.OpAnd: C.TL_AND, loopir.OpOr: C.TL_OR, loopir.OpXor: C.TL_XOR, loopir.OpShl: C.TL_SHL, loopir.OpShr: C.TL_SHR,
	loopir.OpNeg: C.TL_NEG,
	loopir.OpAbs: C.TL_ABS, loopir.OpNot: C.TL_NOT, loopir.OpFloor: C.TL_FLOOR, loopir.OpCeil: C.TL_CEIL,
	loopir.OpRound: C.TL_ROUND,
	loopir.OpTrunc: C.TL_TRUNC, loopir.OpSqrt: C.TL_SQRT, loopir.OpExp: C.TL_EXP, loopir.OpLog: C.TL_LOG,
	loopir.OpSin: C.TL_SIN, loopir.OpCos: C.TL_COS,
	loopir.OpTanh: C.TL_TANH, loopir.OpErf: C.TL_ERF, loopir.OpIsNaN: C.TL_ISNAN, loopir.OpFma: C.TL_FMA,
	loopir.OpSelect: C.TL_SELECT, loopir.OpCast: C.TL_CAST, loopir.OpNarrow: C.TL_CAST,
}

var reductions = map[loopir.ReduceOp]int{
	loopir.Sum: C.TL_SUM, loopir.Prod: C.TL_PROD, loopir.Max: C.TL_AMAX, loopir.Min: C.TL_AMIN,
	loopir.ArgMax: C.TL_ARGMAX, loopir.ArgMin: C.TL_ARGMIN, loopir.Any: C.TL_ANY, loopir.All: C.TL_ALL,
	loopir.LogSum: C.TL_LOGSUM,
}

func emit(p *tilePlan) *emitter {
	e := &emitter{tilePlan: p, stages: make([]stageCode, len(p.k.Stages)), val: fill(len(p.k.Exprs), -1),
		wideRun: map[[2]int]int{}}
	for s := range p.k.Stages {
		e.s = s
		e.wide, e.scans = map[[2]int]int{}, map[int]int{}
		if !p.oneTile {
			e.forget(func(i int) bool { return p.level(i) == levelInner })
		} else if p.bundle { // a pointer into a buffer is that of a row
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

// one reports that expression x is one lane to an instruction of that kind: so is what has a lane a row to those of a
// bundle's tile.
func (p *tilePlan) one(x, kind int) bool {
	have := p.kind(x)
	return have == laneOne || p.bundle && have == laneOuter && kind == laneTile
}

// fullKind has every lane of a stage.
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

// forgetWritten drops the values that depend on a buffer which the stage wrote.
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

// rowLanes is how many lanes of that kind a row of a bundle has, 0 where rows share one.
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

// need gives the register of expression x, computing it if it is not there.
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
		r = out(instr{op: C.TL_IOTA, a: -1, b: -1, c: -1, aux: n})
		e.val[x] = r
		return r
	}
	switch ex.Op {
	case loopir.OpConst:
		r = out(instr{op: C.TL_CONST, a: -1, b: -1, c: -1, imm: int64(ex.Imm)})
	case loopir.OpParam:
		r = out(instr{op: C.TL_PARAM, a: -1, b: -1, c: -1, aux: int(ex.Imm)})
	case loopir.OpIndex:
		r = out(instr{op: C.TL_IOTA, a: -1, b: -1, c: -1, aux: e.ofIndex[ex.Imm]})
	case loopir.OpLinear:
		group := outer
		if e.k.Stages[e.s].OverInner {
			group = inner
		}
		r = out(instr{op: C.TL_IOTA, a: -1, b: -1, c: -1, aux: e.ofLinear[group]})
	case loopir.OpLoad:
		r = e.load(e.ofAccess[ex.Imm], kind, level, true)
	case loopir.OpLoadAt:
		a := e.as(ex.A, kind, false)
		r = out(instr{op: C.TL_GATHER, typ: int(e.k.Bufs[ex.Imm].Type), a: a, b: -1, c: -1, aux: int(ex.Imm)})
	case loopir.OpAcc, loopir.OpAccIdx:
		r = e.final(int(ex.Imm), ex, kind)
	case loopir.OpAccRun:
		r = e.scans[int(ex.Imm)]
	case loopir.OpBitcast:
		r = e.need(ex.A)
	case loopir.OpPhilox:
		r = e.philox(x)
	default:
		i := e.operands(ex, kind)
		r = out(i)
	}
	e.val[x] = r
	return r
}

// load reads a map into a register, or, where direct allows and the lanes are
// consecutive elements of the register's type, points the register at the buffer.
func (e *emitter) load(m, kind, level int, direct bool) int {
	a := e.maps[m]
	i := instr{lanes: kind, a: -1, b: -1, c: -1, aux: m, typ: int(a.typ)}
	if direct && a.typ == a.typ.ComputeType() && dense(e.walk(a, kind)) {
		if e.oneTile && !slices.ContainsFunc(a.stride[outer], func(s int64) bool { return s != 0 }) {
			level = levelRun // it points at the same lanes in every tile
		}
		i.op, i.d = C.TL_DIRECT, e.pointer(a, kind, level)
	} else {
		i.op, i.d = C.TL_LOAD, e.reg(a.typ.ComputeType(), kind, level)
	}
	e.add(level, i)
	return i.d
}

// operands makes the instruction of an elementwise operation, without its result.
func (e *emitter) operands(ex loopir.Expr, kind int) instr {
	i := instr{op: opcodes[ex.Op], typ: int(e.k.Exprs[ex.A].Type), lanes: kind, b: -1, c: -1}
	if ex.Op == loopir.OpFma || ex.Op == loopir.OpMul {
		ex.A, ex.B = e.oneLast(ex, kind)
	}
	switch {
	case ex.Op == loopir.OpNarrow: // a cast to a half type leaves a float
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
		i.op, i.a, i.b, i.c = C.TL_SHIFTED, e.need(s.A), e.need(s.B), e.need(ex.B)
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

// oneLast gives the factors of a product of that kind, one lane after more of them.
func (e *emitter) oneLast(x loopir.Expr, kind int) (a, b int) {
	if e.one(x.A, kind) {
		return x.B, x.A
	}
	return x.A, x.B
}

// list notes registers beyond the three of an instruction and gives their place.
func (e *emitter) list(regs ...int) (at int) {
	at = len(e.extra)
	e.extra = append(e.extra, regs...)
	return at
}

// as gives expression x with the lanes of kind; one lane stays one where scalar allows.
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
	i := instr{op: C.TL_EXPAND, typ: int(t), lanes: kind, a: r, b: -1, c: -1}
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

// philox computes all words of a block at once, for every expression that uses one.
func (e *emitter) philox(x int) int {
	ex := e.k.Exprs[x]
	kind, level := e.kind(x), e.level(x)
	i := instr{op: C.TL_PHILOX, lanes: kind, d: -1, aux: len(e.extra)}
	i.a, i.b, i.c = e.as(ex.A, kind, false), e.as(ex.B, kind, false), e.as(ex.C, kind, false)
	words := [4]int{-1, -1, -1, -1}
	for n, y := range e.k.Exprs {
		if y.Op != loopir.OpPhilox || !e.live[n] || y.A != ex.A || y.B != ex.B || y.C != ex.C {
			continue
		}
		if words[y.Imm] < 0 {
			words[y.Imm] = e.reg(ir.U32, kind, level)
		}
		e.val[n] = words[y.Imm]
	}
	e.extra = append(e.extra, words[:]...)
	e.add(level, i)
	return e.val[x]
}

// state tells how an accumulator's state is kept: the variant of TL_FINAL.
func (p *tilePlan) stateVariant(a loopir.Acc) int {
	if a.Op != loopir.Sum && a.Op != loopir.Prod && a.Op != loopir.LogSum {
		return 0
	}
	switch p.k.Exprs[a.Val].Type {
	case ir.F32:
		if a.Op == loopir.Sum {
			return 1
		}
		return 2
	case ir.I32, ir.U32:
		return 3
	}
	return 0
}

func (e *emitter) final(n int, ex loopir.Expr, kind int) int {
	i := instr{op: C.TL_FINAL, typ: int(ex.Type), lanes: kind, a: -1, b: -1, c: -1, aux: n,
		variant: e.stateVariant(e.accs[n])}
	if ex.Op == loopir.OpAccIdx {
		i.op, i.variant = C.TL_FINALIDX, 0
	}
	i.d = e.reg(ex.Type, kind, levelOuter)
	e.add(levelOuter, i)
	return i.d
}

func (e *emitter) stage(st *loopir.Stage) {
	first := 0
	for s := range e.s {
		first += len(e.k.Stages[s].Accs)
	}
	into := e.runsInto(st)
	for n, a := range st.Accs {
		e.fold(st, first+n, a, into)
	}
	if st.Prefix && !e.columns {
		e.stages[e.s].folds = len(e.stages[e.s].inner.code)
	}
	for _, c := range st.Checks {
		e.check(st, c)
	}
	if into == unusedMap {
		e.stores(st)
	}
}

// runsInto gives the map through which the running values of a Prefix stage over rows, which are all that it stores,
// are written as they are made.
func (e *emitter) runsInto(st *loopir.Stage) int {
	if !st.Prefix || e.columns || len(st.Stores) != 1 || len(st.Accs) != 1 {
		return unusedMap
	}
	r := st.Stores[0]
	if e.k.Exprs[r.Val].Op != loopir.OpAccRun || e.uses[r.Val] != 1 || r.Access < 0 || r.Guard >= 0 ||
		r.Mode != loopir.Set || e.streams(r) {
		return unusedMap
	}
	n := e.ofAccess[r.Access]
	if m := e.maps[n]; m.typ == m.typ.ComputeType() && dense(e.walk(m, e.fullKind(true))) {
		return n
	}
	return unusedMap
}

// fold adds an accumulator's instruction. In a Prefix stage it also gives the running values, or writes them through
// the map into.
func (e *emitter) fold(st *loopir.Stage, n int, a loopir.Acc, into int) {
	kind := e.fullKind(true)
	t := e.k.Exprs[a.Val].Type
	i := instr{op: reductions[a.Op], typ: int(t), lanes: kind, d: -1, b: -1, c: -1, aux: n}
	if e.columns {
		i.variant = 1
		if !st.Prefix && (a.Idx < 0 || e.countsInner(a.Idx)) {
			i.a, i.imm = e.inPlaceRows(a.Val, kind)
		}
	}
	switch {
	case i.imm != 0:
	case e.isDot(st, a, kind):
		x := e.k.Exprs[a.Val]
		if e.shifts(x.A, kind) {
			x.A, x.B = x.B, x.A
		}
		s := e.k.Exprs[x.B]
		switch {
		case !e.shifts(x.B, kind):
			i.variant, i.a, i.b = sumDot, e.need(x.A), e.need(x.B)
		case x.A == x.B:
			i.variant, i.a, i.b = sumSquares, e.need(s.A), e.need(s.B)
		default:
			i.variant, i.a, i.b, i.c = sumDistances, e.need(x.A), e.need(s.A), e.need(s.B)
		}
	case e.isColumnDot(st, a, kind):
		x := e.k.Exprs[a.Val]
		if e.scales(x.A, kind) {
			x.A, x.B = x.B, x.A
		}
		f := e.k.Exprs[x.B]
		f.A, f.B = e.oneLast(f, kind)
		s := e.k.Exprs[f.A]
		i.variant, i.a, i.b, i.c = sumColumnDot, e.as(x.A, kind, false), e.need(s.A), e.need(s.B)
		i.imm = int64(e.list(e.need(f.B)))
	default:
		i.a = e.as(a.Val, kind, false)
	}
	if a.Idx >= 0 && !e.countsInner(a.Idx) {
		i.b, i.imm = e.as(a.Idx, kind, false), int64(e.k.Exprs[a.Idx].Type)
	}
	if !st.Prefix {
		e.add(levelInner, i)
		return
	}
	if e.columns {
		if a.Op == loopir.Sum {
			i.variant = 2
		}
		e.add(levelInner, i)
		v := e.stateVariant(a)
		if v == 1 {
			v = 2
		}
		d := e.reg(t, kind, levelInner)
		e.add(levelInner, instr{op: C.TL_FINAL, typ: int(t), variant: v, lanes: kind, d: d, a: -1, b: -1, c: -1, aux: n})
		e.scans[n] = d
		return
	}
	run := n
	if a.Op.IsArg() {
		e.add(levelInner, i)
		run = len(e.accs) + len(e.hidden)
		e.hidden = append(e.hidden, hiddenAcc{stage: e.s, of: n})
	}
	scan := instr{op: C.TL_SCAN, typ: int(t), variant: scanVariant(a.Op), lanes: kind, d: e.reg(t, kind, levelInner),
		a: i.a, b: -1, c: -1, aux: run}
	e.scans[n] = scan.d
	if into != unusedMap {
		scan.b, scan.d = scan.d, e.pointer(e.maps[into], kind, levelInner)
		e.add(levelInner, instr{op: C.TL_DIRECT, typ: int(t), lanes: kind, d: scan.d, a: -1, b: -1, c: -1, aux: into, imm: 1})
	}
	e.add(levelInner, scan)
}

// isDot reports a sum over rows of products that nothing else needs: they are added as they are made.
func (e *emitter) isDot(st *loopir.Stage, a loopir.Acc, kind int) bool {
	x := e.k.Exprs[a.Val]
	return e.addsProducts(st, a) && !e.columns && kind == laneTile && e.kind(x.A) == kind && e.kind(x.B) == kind
}

// isColumnDot likewise reports a sum over columns, in tiles of one row, of products of which one factor is a register
// less one lane, times one lane.
func (e *emitter) isColumnDot(st *loopir.Stage, a loopir.Acc, kind int) bool {
	x := e.k.Exprs[a.Val]
	return e.addsProducts(st, a) && e.columns && kind == laneOuter && (e.scales(x.A, kind) || e.scales(x.B, kind))
}

// addsProducts reports a sum of products that nothing else needs.
func (e *emitter) addsProducts(st *loopir.Stage, a loopir.Acc) bool {
	x := e.k.Exprs[a.Val]
	return a.Op == loopir.Sum && !st.Prefix && x.Op == loopir.OpMul && x.Type.IsFloat() && e.uses[a.Val] == 1 &&
		e.val[a.Val] < 0
}

// shifts reports that x, not computed yet, is a register less one lane: what it is multiplied with may take it along.
func (e *emitter) shifts(x, kind int) bool {
	s := e.k.Exprs[x]
	return s.Op == loopir.OpSub && s.Type.IsFloat() && e.val[x] < 0 && e.kind(s.A) == kind && e.one(s.B, kind) &&
		kind != laneOne
}

// scales reports that x, which nothing else needs, is a register less one lane, times one lane.
func (e *emitter) scales(x, kind int) bool {
	f := e.k.Exprs[x]
	if f.Op != loopir.OpMul || e.val[x] >= 0 || e.uses[x] != 1 {
		return false
	}
	full, one := e.oneLast(f, kind)
	return e.one(one, kind) && e.shifts(full, kind)
}

// scaled reports that x, which nothing else needs, is a register times one lane, plus one lane.
func (e *emitter) scaled(x, kind int) bool {
	f := e.k.Exprs[x]
	if f.Op != loopir.OpFma || e.val[x] >= 0 || e.uses[x] != 1 {
		return false
	}
	full, one := e.oneLast(f, kind)
	return e.kind(full) == kind && e.one(one, kind) && e.one(f.C, kind)
}

// inPlaceRows points a register at the rows of a tile of columns where they lie, and gives
// the elements from one to the next; 0 when expression x is not such a load.
func (e *emitter) inPlaceRows(x, kind int) (reg int, step int64) {
	ex := e.k.Exprs[x]
	if ex.Op != loopir.OpLoad || e.val[x] >= 0 || e.uses[x] != 1 || e.kind(x) != kind {
		return -1, 0
	}
	n := e.ofAccess[ex.Imm]
	m := e.maps[n]
	w := e.walk(m, kind)
	if m.typ != m.typ.ComputeType() || len(w) != 2 || w[1].stride != 1 || len(walk(m, e.spaces, []int{outer})) != 1 {
		return -1, 0
	}
	d := e.pointer(m, kind, levelInner)
	e.add(levelInner, instr{op: C.TL_DIRECT, typ: int(m.typ), lanes: kind, d: d, a: -1, b: -1, c: -1, aux: n})
	return d, w[0].stride
}

// scanVariant numbers the running operations in the order of the table.
func scanVariant(op loopir.ReduceOp) int {
	switch op {
	case loopir.Prod, loopir.All:
		return 1
	case loopir.Max, loopir.ArgMax:
		return 2
	case loopir.Min, loopir.ArgMin:
		return 3
	case loopir.LogSum:
		return 4
	}
	return 0
}

func (e *emitter) check(st *loopir.Stage, c loopir.Check) {
	kind := max(e.kind(c.Cond), e.kind(c.Elem))
	i := instr{op: C.TL_CHECK, typ: int(e.k.Exprs[c.Elem].Type), lanes: kind, d: -1, c: -1}
	i.a, i.b = e.as(c.Cond, kind, false), e.as(c.Elem, kind, false)
	e.add(stageLevel(st), i)
}

func stageLevel(st *loopir.Stage) int {
	if st.OverInner {
		return levelInner
	}
	return levelOuter
}

// pending is a store whose value is computed straight into the destination.
type pending struct {
	store  loopir.Store
	ins    instr // of the value, without result; op 0 when the value is in reg
	reg    int
	index  int
	guard  int
	direct bool
}

// stores evaluates all values, then writes them in order.
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
	// What a store overwrites must not be read by a later one.
	for n := range list {
		e.protect(list[:n], &list[n], kind)
	}
	for n := range list {
		e.write(&list[n], kind, level)
	}
}

// canDirect reports that the value of r is used by r alone and its lanes are consecutive
// elements of the destination.
func (e *emitter) canDirect(r loopir.Store, kind, level int) bool {
	x := e.k.Exprs[r.Val]
	if _, elementwise := opcodes[x.Op]; !elementwise || r.Access < 0 || r.Guard >= 0 || r.Mode != loopir.Set {
		return false
	}
	m := e.maps[e.ofAccess[r.Access]]
	return !e.streams(r) && e.val[r.Val] < 0 && e.uses[r.Val] == 1 && e.kind(r.Val) == kind && e.level(r.Val) == level &&
		m.typ == m.typ.ComputeType() && dense(e.walk(m, kind))
}

// streamBytes is the size from which a result does not stay in the caches until it is read: the
// last level holds 16 to 32 MiB on most machines. A wrong guess costs one trip to memory.
const streamBytes = 32 << 20

// streams reports that r writes more than the caches hold, all of it once.
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

// protect gives p values of its own where it reads buffers that earlier stores write.
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

// address prepares a store that is not a plain affine one: element numbers and guard.
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
		e.add(level, instr{op: C.TL_IOTA, typ: int(ir.I64), lanes: kind, d: p.index, a: -1, b: -1, c: -1,
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
		direct := instr{op: C.TL_DIRECT, typ: t, lanes: kind, d: p.ins.d, a: -1, b: -1, c: -1, aux: m}
		if level == levelInner {
			direct.imm = 1
		}
		e.add(level, direct)
		e.add(level, p.ins)
	case p.index >= 0:
		i := instr{op: C.TL_SCATTER, typ: t, lanes: kind, d: -1, a: p.reg, b: p.index, c: p.guard, aux: buf}
		if r.Mode != loopir.Set {
			i.imm, e.serial = int64(r.Mode), true
		}
		e.add(level, i)
	default:
		i := instr{op: C.TL_STORE, typ: t, lanes: kind, d: -1, a: p.reg, b: -1, c: -1, aux: e.ofAccess[r.Access]}
		if e.streams(r) {
			i.imm = 1
		}
		e.add(level, i)
	}
}
