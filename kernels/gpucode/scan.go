package gpucode

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// scanStage is a Prefix stage shared by Lanes threads. The row is worked in chunks of Lanes elements; each is scanned
// in workgroup memory (Hillis and Steele, Data parallel algorithms, 1986) on top of the carry from the chunks before. A
// turn works a part of them, and passes the carry to the next one in scratch memory, as the one part of the row.
func (g *gen) scanStage(s *loopir.Stage, first, turn int, rows *gpuir.Node) {
	g.hoist(s)
	carry := g.accums(s, false)
	from, to := gpuir.NInt(0), g.inner
	if g.o.Turns > 1 {
		from, to = g.turnBounds(turn)
		g.takeTurn(carry, turn, rows)
		defer func() { g.passTurn(carry, turn, rows) }()
	}
	rowStart := g.let(gpuir.NMul(g.outer, g.inner))
	vals, idxs := g.arrays(carry, g.o.Workgroup)
	// The bound is the same for all threads, so that all reach the barriers.
	g.loop(from, to, gpuir.NInt(g.o.Lanes), func(j0 *gpuir.Node) {
		j := g.let(gpuir.NAdd(j0, g.lane))
		here := g.let(gpuir.NLt(j, g.inner))
		// Lanes beyond the row read its last element and do not count it.
		g.enter(rowStart, g.let(gpuir.N(loopir.OpMin, ir.I32, j, gpuir.NSub(g.inner, gpuir.NInt(1)))))
		run := g.accums(s, false)
		for i := range run {
			g.load1(&run[i], here)
		}
		g.scanLanes(run, vals, idxs)
		for i := range run {
			g.merge(&run[i], carry[i].val, carry[i].idx)
			g.acc[first+i], g.accIdx[first+i] = g.let(run[i].val), run[i].idx
		}
		g.effects(s, g.let(gpuir.NAnd(g.active, here)))
		g.publish(run, vals, idxs, gpuir.NLocal())
		last := g.let(g.laneSlot(g.o.Lanes - 1))
		for i := range carry {
			g.assign(carry[i].v, g.p.NShared(vals[i], last))
			if carry[i].i >= 0 {
				g.assign(carry[i].i, g.p.NShared(idxs[i], last))
			}
		}
	})
	for i, a := range carry {
		g.acc[first+i], g.accIdx[first+i] = a.val, a.idx
	}
}

// turnBounds are the inner indices of a turn, whole chunks of them.
func (g *gen) turnBounds(turn int) (from, to *gpuir.Node) {
	span := g.o.Turns * g.o.Lanes
	each := g.let(gpuir.NMul(gpuir.NDiv(gpuir.NAdd(g.inner, gpuir.NInt(span-1)), gpuir.NInt(span)),
		gpuir.NInt(g.o.Lanes)))
	at := func(n int) *gpuir.Node {
		return g.let(gpuir.N(loopir.OpMin, ir.I32, g.inner, gpuir.NMul(each, gpuir.NInt(n))))
	}
	return at(turn), at(turn + 1)
}

// takeTurn continues from the carries that the turn before has stored.
func (g *gen) takeTurn(carry []accum, turn int, rows *gpuir.Node) {
	if turn == 0 {
		return
	}
	for i, p := range g.partials() {
		g.assign(carry[i].v, g.fetch(p.word, carry[i].val.Type, gpuir.NInt(0), rows))
		if p.iWord >= 0 {
			g.assign(carry[i].i, g.fetch(p.iWord, carry[i].idx.Type, gpuir.NInt(0), rows))
		}
	}
}

// passTurn stores the carries for the next turn.
func (g *gen) passTurn(carry []accum, turn int, rows *gpuir.Node) {
	if turn == g.o.Turns-1 {
		return
	}
	guard := g.let(gpuir.NAnd(g.active, gpuir.N(loopir.OpEq, ir.Bool, g.lane, gpuir.NInt(0))))
	g.emit(gpuir.Stmt{Op: gpuir.SIf, A: guard, Body: g.nested(func() {
		g.part = gpuir.NInt(0)
		for i, p := range g.partials() {
			g.storePart(p.word, carry[i].val, rows)
			if p.iWord >= 0 {
				g.storePart(p.iWord, carry[i].idx, rows)
			}
		}
		g.part = nil
	})})
}

// load1 sets a to this lane's element where here holds, and to the identity elsewhere.
func (g *gen) load1(a *accum, here *gpuir.Node) {
	v := g.expr(a.acc.Val)
	g.assign(a.v, gpuir.N(loopir.OpSelect, v.Type, here, v, a.val))
	if a.i >= 0 {
		idx := g.expr(a.acc.Idx)
		g.assign(a.i, gpuir.N(loopir.OpSelect, idx.Type, here, idx, a.idx))
	}
}

// scanLanes makes each lane's accumulators include those of all lower lanes of its row.
func (g *gen) scanLanes(run []accum, vals, idxs []int) {
	for step := 1; step < g.o.Lanes; step *= 2 {
		g.publish(run, vals, idxs, gpuir.NLocal())
		body := g.nested(func() {
			from := g.let(g.neighbour(-step))
			for i := range run {
				v := g.let(g.p.NShared(vals[i], from))
				var idx *gpuir.Node
				if run[i].i >= 0 {
					idx = g.let(g.p.NShared(idxs[i], from))
				}
				g.merge(&run[i], v, idx)
			}
		})
		g.emit(gpuir.Stmt{Op: gpuir.SIf, A: gpuir.N(loopir.OpLe, ir.Bool, gpuir.NInt(step), g.lane), Body: body})
	}
}
