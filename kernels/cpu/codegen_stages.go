package cpu

// #include "vector/cpu.h"
import "C"

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// stateVariant returns the variant of TLK_FINAL for an accumulator, which says in which form its state is kept.
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
	i := instr{op: C.TLK_FINAL, typ: int(ex.Type), lanes: kind, a: -1, b: -1, c: -1, aux: n,
		variant: e.stateVariant(e.accs[n])}
	if ex.Op == loopir.OpAccIdx {
		i.op, i.variant = C.TLK_FINALIDX, 0
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

// runsInto returns the map through which a Prefix stage over rows stores its running values while it computes them. It
// is unusedMap if the stage stores anything else.
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

// fold emits an accumulator's instruction. In a Prefix stage the instruction also computes the running values, and
// stores them through the map into, if there is one.
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
			i.variant, i.a, i.b = sumDot, e.as(x.A, kind, false), e.as(x.B, kind, false)
		case x.A == x.B:
			i.variant, i.a, i.b = sumSquares, e.need(s.A), e.need(s.B)
		default:
			i.variant, i.a, i.b, i.c = sumDistances, e.as(x.A, kind, false), e.need(s.A), e.need(s.B)
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
	case e.columns && e.addsProducts(st, a):
		x := e.k.Exprs[a.Val]
		i.variant, i.a, i.b = sumColumns, e.as(x.A, kind, false), e.as(x.B, kind, false)
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
		e.add(levelInner, instr{op: C.TLK_FINAL, typ: int(t), variant: v, lanes: kind, d: d, a: -1, b: -1, c: -1, aux: n})
		e.scans[n] = d
		return
	}
	run := n
	if a.Op.IsArg() {
		e.add(levelInner, i)
		run = len(e.accs) + len(e.hidden)
		e.hidden = append(e.hidden, hiddenAcc{stage: e.s, of: n})
	}
	scan := instr{op: C.TLK_SCAN, typ: int(t), variant: scanVariant(a.Op), lanes: kind, d: e.reg(t, kind, levelInner),
		a: i.a, b: -1, c: -1, aux: run}
	e.scans[n] = scan.d
	if into != unusedMap {
		scan.b, scan.d = scan.d, e.pointer(e.maps[into], kind, levelInner)
		e.add(levelInner, instr{op: C.TLK_DIRECT, typ: int(t), lanes: kind, d: scan.d, a: -1, b: -1, c: -1, aux: into,
			imm: 1})
	}
	e.add(levelInner, scan)
}

// isDot reports a sum over rows of products that are added as they are made. It depends on the accumulator alone, since
// such a sum has other bits than a sum of rounded products.
func (e *emitter) isDot(st *loopir.Stage, a loopir.Acc, kind int) bool {
	return e.addsProducts(st, a) && !e.columns && kind == laneTile
}

// isColumnDot reports a sum over columns, in tiles of one row, of products that nothing else needs, where one factor is
// (a register - one lane) * one lane. Its bits are those of sumColumns.
func (e *emitter) isColumnDot(st *loopir.Stage, a loopir.Acc, kind int) bool {
	x := e.k.Exprs[a.Val]
	return e.addsProducts(st, a) && e.uses[a.Val] == 1 && e.val[a.Val] < 0 && e.columns && kind == laneOuter &&
		(e.scales(x.A, kind) || e.scales(x.B, kind))
}

// addsProducts reports a sum of products that need no rounding.
func (e *emitter) addsProducts(st *loopir.Stage, a loopir.Acc) bool {
	x := e.k.Exprs[a.Val]
	return a.Unrounded && a.Op == loopir.Sum && !st.Prefix && x.Op == loopir.OpMul && x.Type.IsFloat()
}

// shifts reports that x is (a register - one lane) and not computed yet, so that a product with x can include the
// subtraction.
func (e *emitter) shifts(x, kind int) bool {
	s := e.k.Exprs[x]
	return s.Op == loopir.OpSub && s.Type.IsFloat() && e.val[x] < 0 && e.kind(s.A) == kind && e.one(s.B, kind) &&
		kind != laneOne
}

// scales reports that x, which nothing else needs, is (a register - one lane) * one lane.
func (e *emitter) scales(x, kind int) bool {
	f := e.k.Exprs[x]
	if f.Op != loopir.OpMul || e.val[x] >= 0 || e.uses[x] != 1 {
		return false
	}
	full, one := e.oneLast(f, kind)
	return e.one(one, kind) && e.shifts(full, kind)
}

// scaled reports that x, which nothing else needs, is a register * one lane + one lane.
func (e *emitter) scaled(x, kind int) bool {
	f := e.k.Exprs[x]
	if f.Op != loopir.OpFma || e.val[x] >= 0 || e.uses[x] != 1 {
		return false
	}
	full, one := e.oneLast(f, kind)
	return e.kind(full) == kind && e.one(one, kind) && e.one(f.C, kind)
}

// inPlaceRows points a register at the rows of a tile of columns in the buffer. It returns the register, and the number
// of elements from row to row; 0 if expression x is not such a load.
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
	e.add(levelInner, instr{op: C.TLK_DIRECT, typ: int(m.typ), lanes: kind, d: d, a: -1, b: -1, c: -1, aux: n})
	return d, w[0].stride
}

// scanVariant returns the variant of TLK_SCAN for an operation. kern_table.h has the same order.
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
	i := instr{op: C.TLK_CHECK, typ: int(e.k.Exprs[c.Elem].Type), lanes: kind, d: -1, c: -1}
	i.a, i.b = e.as(c.Cond, kind, false), e.as(c.Elem, kind, false)
	e.add(stageLevel(st), i)
}

func stageLevel(st *loopir.Stage) int {
	if st.OverInner {
		return levelInner
	}
	return levelOuter
}
