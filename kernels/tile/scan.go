package tile

import (
	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/kernels/kir"
)

// scanStage is a Prefix stage shared by Lanes threads: the row is worked in
// chunks of Lanes elements, each scanned in workgroup memory (Hillis and Steele)
// on top of the carry from the chunks before.
func (g *gen) scanStage(s *kir.Stage, first int) {
	g.hoist(s)
	carry := g.accums(s, false)
	rowStart := g.let(kir.NMul(g.outer, g.inner))
	vals, idxs := g.arrays(carry, g.o.Workgroup)
	// The bound is the same for all threads, so that all reach the barriers.
	g.loop(kir.NInt(0), g.inner, kir.NInt(g.o.Lanes), func(j0 *kir.Node) {
		j := g.let(kir.NAdd(j0, g.lane))
		here := g.let(kir.NLt(j, g.inner))
		// Lanes beyond the row read its last element and do not count it.
		g.enter(rowStart, g.let(kir.N(kir.OpMin, ir.I32, j, kir.NSub(g.inner, kir.NInt(1)))))
		run := g.accums(s, false)
		for i := range run {
			g.load1(&run[i], here)
		}
		g.scanLanes(run, vals, idxs)
		for i := range run {
			g.merge(&run[i], carry[i].val, carry[i].idx)
			g.acc[first+i], g.accIdx[first+i] = g.let(run[i].val), run[i].idx
		}
		g.effects(s, g.let(kir.NAnd(g.active, here)))
		g.publish(run, vals, idxs, kir.NLocal())
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

// load1 sets a to this lane's element where here holds; it keeps the identity elsewhere.
func (g *gen) load1(a *accum, here *kir.Node) {
	v := g.expr(a.acc.Val)
	g.assign(a.v, kir.N(kir.OpSelect, v.Type, here, v, a.val))
	if a.i >= 0 {
		idx := g.expr(a.acc.Idx)
		g.assign(a.i, kir.N(kir.OpSelect, idx.Type, here, idx, a.idx))
	}
}

// scanLanes makes each lane's accumulators inclusive of all lower lanes of its row.
func (g *gen) scanLanes(run []accum, vals, idxs []int) {
	for step := 1; step < g.o.Lanes; step *= 2 {
		g.publish(run, vals, idxs, kir.NLocal())
		body := g.nested(func() {
			from := g.let(g.neighbour(-step))
			for i := range run {
				v := g.let(g.p.NShared(vals[i], from))
				var idx *kir.Node
				if run[i].i >= 0 {
					idx = g.let(g.p.NShared(idxs[i], from))
				}
				g.merge(&run[i], v, idx)
			}
		})
		g.emit(kir.Stmt{Op: kir.SIf, A: kir.N(kir.OpLe, ir.Bool, kir.NInt(step), g.lane), Body: body})
	}
}
