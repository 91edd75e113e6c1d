package gpucode

import (
	"math"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// online reports that stage s takes the maximum of a row and the next stage the sum of exp(x - maximum). Both are then
// taken in one reading of the row; the sum is scaled down whenever the maximum grows (Milakov and Gimelshein, Online
// normalizer calculation for softmax, 2018). first is the number of the maximum among the accumulators.
func (g *gen) online(s, first int) bool {
	if g.o.Hold > 0 || g.o.Parts > 1 || s+1 >= len(g.k.Stages) {
		return false
	}
	a, b := &g.k.Stages[s], &g.k.Stages[s+1]
	for _, st := range []*loopir.Stage{a, b} {
		if !st.OverInner || st.Prefix || len(st.Accs) != 1 || len(st.Checks)+len(st.Stores) > 0 {
			return false
		}
	}
	top, sum := a.Accs[0], b.Accs[0]
	e := g.k.Exprs
	if top.Op != loopir.Max || sum.Op != loopir.Sum || e[top.Val].Type != ir.F32 || e[sum.Val].Op != loopir.OpExp {
		return false
	}
	d := e[e[sum.Val].A]
	return d.Op == loopir.OpSub && d.A == top.Val && e[d.B].Op == loopir.OpAcc && int(e[d.B].Imm) == first
}

// onlineStages makes the two stages from s on.
func (g *gen) onlineStages(s, first int) {
	a, b := &g.k.Stages[s], &g.k.Stages[s+1]
	g.hoist(a)
	g.wide = g.o.Vec == 4
	tops, sums := g.accums(a, false), g.accums(b, false)
	top, sum := &tops[0], &sums[0]
	rowStart := g.let(gpuir.NMul(g.outer, g.inner))
	g.stride(g.from, g.to, func(js []*gpuir.Node) {
		var xs []*gpuir.Node
		for _, j := range js {
			g.at(g.open(rowStart, j, nil), func() { xs = append(xs, g.expr(top.acc.Val)) })
		}
		most := top.val
		for _, x := range xs {
			most = g.let(gpuir.N(loopir.OpMax, ir.F32, most, x))
		}
		base := g.finite(most)
		total := g.scaled(sum.val, top.val, base)
		for _, x := range xs {
			total = g.let(gpuir.NAdd(total, g.scaled(nil, x, base)))
		}
		g.assign(sum.v, total)
		g.assign(top.v, most)
	})
	_, own := g.variable(top.val)
	wide := g.wide
	if g.wide = false; wide {
		g.fold(tops)
	}
	g.join(tops)
	last := top.val // the sum of a row of -Inf is NaN, as in two stages
	if wide {
		last = g.let(gpuir.NSplat(last))
	}
	g.assign(sum.v, g.scaled(sum.val, own, last))
	if wide {
		g.fold(sums)
	}
	g.join(sums)
	g.acc[first], g.acc[first+1] = top.val, sum.val
}

// finite is the maximum so far as the base of exponents: 0 where no element is above -Inf.
func (g *gen) finite(top *gpuir.Node) *gpuir.Node {
	none := gpuir.N(loopir.OpEq, ir.Bool, top, gpuir.NFloat(ir.F32, math.Inf(-1)))
	return g.let(gpuir.N(loopir.OpSelect, ir.F32, none, gpuir.NFloat(ir.F32, 0), top))
}

// scaled is total*exp(x-base); without a total, exp(x-base).
func (g *gen) scaled(total, x, base *gpuir.Node) *gpuir.Node {
	e := g.let(gpuir.N(loopir.OpExp, ir.F32, g.let(gpuir.NSub(x, base))))
	if total == nil {
		return e
	}
	return g.let(gpuir.NMul(total, e))
}
