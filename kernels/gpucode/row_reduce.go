package gpucode

import (
	"fmt"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// sumBlock is the number of elements that a lane adds up before it adds the sum to its total. Rounding errors then grow
// with the block and with the number of blocks, and not with the number of elements.
const sumBlock = 32

// rowKernel makes pass ps. Lanes threads share an outer index and stride over the inner space; a workgroup has
// Workgroup/Lanes outer indices.
func (g *gen) rowKernel(ps pass) {
	k := g.k
	if ordered(k) {
		g.o.Lanes = 1
	}
	lanes, rows := g.o.Lanes, g.o.Workgroup/g.o.Lanes
	if g.o.Vec == 4 {
		g.setVectors()
	}
	g.p.Subgroup = g.o.Subgroup
	var all []int
	for d := range k.Outer {
		all = append(all, d)
	}
	each := 1 // outer indices of a thread
	if g.o.OuterVec {
		each = 4
		g.setColumnVectors()
	}
	g.p.Groups = []gpuir.GroupFactor{{Params: all, Per: int64(each * rows)}}
	row := gpuir.NLocal()
	g.lane = gpuir.NInt(0)
	if lanes > 1 {
		fast, slow := gpuir.NInt(lanes), &g.lane
		other := &row
		if g.o.OuterFast {
			fast, slow, other = gpuir.NInt(rows), &row, &g.lane
		}
		*slow, *other = g.let(gpuir.NRem(gpuir.NLocal(), fast)), g.let(gpuir.NDiv(gpuir.NLocal(), fast))
	}
	g.inner = g.let(gpuir.NDiv(g.sizes(k.Outer, k.Outer+k.Inner), gpuir.NInt(g.o.Vec)))
	group := g.divide(ps)
	id := g.let(gpuir.NAdd(gpuir.NMul(group, gpuir.NInt(rows)), row))
	n := g.sizes(0, k.Outer)
	if each > 1 {
		n = gpuir.NDiv(n, gpuir.NInt(each))
	}
	n = g.let(n)
	if lanes == 1 {
		g.active = gpuir.NTrue()
		body := g.nested(func() { g.rowStages(id, n, ps) })
		g.emit(gpuir.Stmt{Op: gpuir.SIf, A: gpuir.NLt(id, n), Body: body})
		return
	}
	// Every thread must reach the barriers: threads beyond the last outer index repeat it and store nothing.
	g.active = g.let(gpuir.NLt(id, n))
	g.rowStages(g.let(gpuir.N(loopir.OpMin, ir.I32, id, gpuir.NSub(n, gpuir.NInt(1)))), n, ps)
}

func (g *gen) rowStages(id, rows *gpuir.Node, ps pass) {
	g.outer, g.inColumns = id, g.o.OuterVec
	if needsIndex(g.k, 0, g.k.Outer) {
		first := id
		if g.inColumns {
			first = g.let(gpuir.NMul(id, gpuir.NInt(4)))
		}
		g.unravel(first, 0, g.k.Outer)
	}
	g.joinPartials(ps, rows)
	first := ps.accs
	for s := ps.from; s < ps.to; s++ {
		st := &g.k.Stages[s]
		switch {
		case !st.OverInner:
			g.outerStage(st)
		case g.online(s, first):
			g.onlineStages(s, first)
			first++
			s++
		case st.Prefix && g.o.Lanes > 1:
			g.scanStage(st, first, ps.turn, rows)
		default:
			g.innerStage(st, first)
		}
		first += len(st.Accs)
		if writesLoaded(g.k) {
			g.resetValues()
		}
	}
	g.storePartials(ps, rows)
}

// outerStage runs once for each outer index: in its first lane, or with OuterVec in the first four, one for each.
func (g *gen) outerStage(s *loopir.Stage) {
	if g.inColumns {
		g.leaveColumns()
	}
	g.linear = g.outer
	for d := g.k.Outer; d < len(g.index); d++ {
		g.index[d] = gpuir.NInt(0)
	}
	guard := g.once()
	// In inner stages linear accesses have other addresses, so their values are not kept.
	stmts := g.nested(func() { g.effects(s, guard) })
	*g.out = append(*g.out, stmts...)
}

// once is the condition for what happens once for each outer index.
func (g *gen) once() *gpuir.Node {
	guard := g.active
	switch {
	case g.o.OuterVec:
		guard = g.let(gpuir.NAnd(guard, gpuir.NLt(g.lane, gpuir.NInt(4))))
	case g.o.Lanes > 1:
		guard = g.let(gpuir.NAnd(guard, gpuir.N(loopir.OpEq, ir.Bool, g.lane, gpuir.NInt(0))))
	}
	if g.part != nil {
		guard = g.let(gpuir.NAnd(guard, gpuir.N(loopir.OpEq, ir.Bool, g.part, gpuir.NInt(0))))
	}
	return guard
}

// hoist computes before the loop what does not vary in it.
func (g *gen) hoist(s *loopir.Stage) {
	live := g.k.Uses(s)
	want := make([]bool, len(g.k.Exprs))
	s.Roots(func(e int) { want[e] = true })
	for i, used := range live {
		e := g.k.Exprs[i]
		if !used || !g.isInner[i] {
			continue
		}
		for _, a := range [...]int{e.A, e.B, e.C} {
			if a >= 0 {
				want[a] = true
			}
		}
		switch {
		case e.Op != loopir.OpLoad || g.k.Access[e.Imm].Linear:
		case g.inColumns && columnAccess(g.k, g.k.Access[e.Imm]):
			g.columnBase(int(e.Imm)) // and strides
		default:
			g.outerBase(int(e.Imm))
		}
	}
	for i, w := range want {
		if w && live[i] && !g.isInner[i] {
			g.expr(i)
		}
	}
	for _, r := range s.Stores {
		if r.Access >= 0 && !g.k.Access[r.Access].Linear {
			g.outerBase(r.Access)
		}
	}
}

// enter sets the inner index number j.
func (g *gen) enter(rowStart, j *gpuir.Node) {
	g.linear = g.let(gpuir.NAdd(rowStart, j))
	if needsIndex(g.k, g.k.Outer, g.k.Outer+g.k.Inner) {
		g.unravel(j, g.k.Outer, g.k.Outer+g.k.Inner)
	}
}

// accum is an accumulator while it is computed.
type accum struct {
	acc      loopir.Acc
	v, i     int // variables; i -1: no index
	part     int // variable of the block's sum, -1: no blocks
	val, idx *gpuir.Node
	// narrow: the index, I64 in the kernel, is kept as I32.
	narrow bool
}

// accums makes the accumulators of a stage. With narrow, indices that fit 32 bits are kept in them; see wideIndex.
func (g *gen) accums(s *loopir.Stage, narrow bool) []accum {
	var list []accum
	for _, a := range s.Accs {
		x := accum{acc: a, i: -1, part: -1}
		t := g.typ(g.k.Exprs[a.Val].Type)
		x.v, x.val = g.variable(g.widen(gpuir.NConst(t, loopir.Identity(a.Op, t)), a.Val))
		if a.Idx >= 0 {
			it := g.typ(g.k.Exprs[a.Idx].Type)
			if x.narrow = narrow && it == ir.I64 && g.k.Exprs[a.Idx].Op == loopir.OpIndex; x.narrow {
				it = ir.I32
			}
			x.i, x.idx = g.variable(gpuir.NConst(it, loopir.NoIndex(it)))
		}
		list = append(list, x)
	}
	return list
}

// widen gives n the width that inner stages work with for expression e.
func (g *gen) widen(n *gpuir.Node, e int) *gpuir.Node {
	if g.wide || g.inColumns && g.isColumn[e] {
		return gpuir.NSplat(n)
	}
	return n
}

// fold reduces the four lanes of each vector accumulator to one.
func (g *gen) fold(accs []accum) {
	for i := range accs {
		a := &accs[i]
		op, t := a.acc.Op.Op(), a.val.Type
		v := a.val
		pair := func(x, y int) *gpuir.Node { return gpuir.N(op, t, gpuir.NLane(v, x), gpuir.NLane(v, y)) }
		a.v, a.val = g.variable(gpuir.N(op, t, pair(0, 1), pair(2, 3)))
	}
}

// innerStage loops over the inner space, then joins the lanes.
func (g *gen) innerStage(s *loopir.Stage, first int) {
	// In the stage linear accesses have other addresses: their values must stay inside.
	g.hoist(s)
	g.wide = g.o.Vec == 4
	defer func() { g.wide = false }()
	accs := g.accums(s, !s.Prefix)
	blocked := false
	if !s.Prefix {
		for _, a := range s.Accs {
			blocked = blocked || a.Op == loopir.Sum && g.k.Exprs[a.Val].Type == ir.F32
		}
	}
	rowStart := g.let(gpuir.NMul(g.outer, g.inner))
	body := func(js []*gpuir.Node) {
		var slots []*slot
		for _, j := range js {
			slots = append(slots, g.open(rowStart, j, nil))
		}
		g.work(s, slots, accs, first)
	}
	switch {
	case g.o.Hold > 0:
		g.work(s, g.heldSlots(rowStart), accs, first)
	case blocked:
		g.blocks(accs, body)
	case g.o.Prologue:
		g.stride(g.peel(rowStart, body), g.to, body)
	default:
		g.stride(g.from, g.to, body)
	}
	if g.wide {
		g.wide = false
		g.fold(accs)
	}
	g.join(accs)
	for i, a := range accs {
		g.acc[first+i], g.accIdx[first+i] = a.val, g.wideIndex(&a)
	}
}

// wideIndex is the final index of a in its own dtype; the index of no element stays the largest.
func (g *gen) wideIndex(a *accum) *gpuir.Node {
	if !a.narrow {
		return a.idx
	}
	none := gpuir.N(loopir.OpEq, ir.Bool, a.idx, gpuir.NConst(ir.I32, loopir.NoIndex(ir.I32)))
	return g.let(gpuir.N(loopir.OpSelect, ir.I64, none, gpuir.NConst(ir.I64, loopir.NoIndex(ir.I64)),
		gpuir.N(loopir.OpCast, ir.I64, a.idx)))
}

// blocks strides over the row and adds float sums in blocks of sumBlock.
func (g *gen) blocks(accs []accum, body func(js []*gpuir.Node)) {
	step := gpuir.NInt(g.o.Lanes * sumBlock)
	g.loop(g.from, g.to, step, func(j0 *gpuir.Node) {
		for i := range accs {
			if a := &accs[i]; a.acc.Op == loopir.Sum && a.val.Type == ir.F32 {
				a.part, _ = g.variable(g.widen(gpuir.NFloat(ir.F32, 0), a.acc.Val))
			}
		}
		g.stride(j0, g.let(gpuir.N(loopir.OpMin, ir.I32, g.to, gpuir.NAdd(j0, step))), body)
		for i := range accs {
			if a := &accs[i]; a.part >= 0 {
				g.assign(a.v, gpuir.NAdd(a.val, g.p.NVar(a.part)))
			}
		}
	})
}

func (g *gen) assign(v int, x *gpuir.Node) { g.emit(gpuir.Stmt{Op: gpuir.SAssign, Var: v, A: x}) }

func (g *gen) loop(from, to, step *gpuir.Node, body func(j *gpuir.Node)) {
	v := g.p.NewVar(ir.I32, 1)
	stmts := g.nested(func() { body(g.p.NVar(v)) })
	g.emit(gpuir.Stmt{Op: gpuir.SFor, Var: v, A: from, B: to, C: step, Body: stmts})
}

// accumulate adds the current element to every accumulator, where the element exists.
func (g *gen) accumulate(accs []accum, here *gpuir.Node) {
	for i := range accs {
		a := &accs[i]
		v := g.expr(a.acc.Val)
		if here != nil {
			v = g.let(gpuir.N(loopir.OpSelect, v.Type, here, v, gpuir.NConst(v.Type, loopir.Identity(a.acc.Op, v.Type))))
		}
		if a.part >= 0 {
			g.assign(a.part, gpuir.NAdd(g.p.NVar(a.part), v))
			continue
		}
		var idx *gpuir.Node
		if a.i >= 0 {
			if a.narrow {
				idx = g.index[g.k.Exprs[a.acc.Idx].Imm]
			} else {
				idx = g.expr(a.acc.Idx)
			}
			if here != nil {
				idx = g.let(gpuir.N(loopir.OpSelect, idx.Type, here, idx, gpuir.NConst(idx.Type, loopir.NoIndex(idx.Type))))
			}
		}
		g.merge(a, v, idx)
	}
}

// merge joins (v, idx) into accumulator a.
func (g *gen) merge(a *accum, v, idx *gpuir.Node) {
	if a.i < 0 {
		g.assign(a.v, gpuir.N(a.acc.Op.Op(), v.Type, a.val, v))
		return
	}
	// No branch: threads that diverge before a shuffle need not have converged at it.
	better := g.let(argBetter(a.acc.Op, v, idx, a.val, a.idx))
	g.assign(a.v, gpuir.N(loopir.OpSelect, v.Type, better, v, a.val))
	g.assign(a.i, gpuir.N(loopir.OpSelect, idx.Type, better, idx, a.idx))
}

// argBetter is the condition that (x, xi) beats (y, yi), as loopir.Combine defines it.
func argBetter(op loopir.ReduceOp, x, xi, y, yi *gpuir.Node) *gpuir.Node {
	b := func(op loopir.Op, args ...*gpuir.Node) *gpuir.Node { return gpuir.N(op, ir.Bool, args...) }
	earlier := b(loopir.OpLt, xi, yi)
	lo, hi := x, y
	if op == loopir.ArgMax {
		lo, hi = y, x
	}
	wins := b(loopir.OpOr, b(loopir.OpLt, lo, hi), b(loopir.OpAnd, b(loopir.OpEq, x, y), earlier))
	if !x.Type.IsFloat() {
		return wins
	}
	xn, yn := b(loopir.OpIsNaN, x), b(loopir.OpIsNaN, y)
	nan := b(loopir.OpAnd, xn, b(loopir.OpOr, b(loopir.OpNot, yn), earlier))
	return b(loopir.OpOr, nan, b(loopir.OpAnd, b(loopir.OpNot, yn), wins))
}

// ordered reports a kernel whose stages must not overlap between lanes: a buffer stored in one stage is loaded in
// another without accumulators in between.
func ordered(k *loopir.Kernel) bool {
	for s := range k.Stages {
		for _, r := range k.Stages[s].Stores {
			buf := r.Buf
			if r.Access >= 0 {
				buf = k.Access[r.Access].Buf
			}
			for t := range k.Stages {
				if t == s || t < s && len(k.Stages[t].Accs) > 0 {
					continue
				}
				if loads(k, &k.Stages[t], buf) {
					return true
				}
			}
		}
	}
	return false
}

func loads(k *loopir.Kernel, s *loopir.Stage, buf int) bool {
	for i, used := range k.Uses(s) {
		e := k.Exprs[i]
		if used && (e.Op == loopir.OpLoad && k.Access[e.Imm].Buf == buf || e.Op == loopir.OpLoadAt && int(e.Imm) == buf) {
			return true
		}
	}
	return false
}

func checkShared(p *gpuir.Program, limit int) error {
	if limit == 0 {
		limit = 16384
	}
	if n := p.SharedBytes(); n > limit {
		return fmt.Errorf("gpucode: %s needs %d bytes of workgroup memory, the device has %d", p.Name, n, limit)
	}
	return nil
}
