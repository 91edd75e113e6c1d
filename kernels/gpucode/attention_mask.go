package gpucode

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// generateMask makes the gradient of the mask. A workgroup owns Rows x Cols elements of the mask's gradient. It walks
// the scores of every head and batch that share them, and adds in registers in a fixed order.
func (m *attention) generateMask() {
	l, sum := m.l, m.a.Sum
	m.nrows, m.ncols = m.param(l.Queries), m.param(l.Keys)
	m.lr, m.lc = m.pairs(gpuir.NLocal(), m.t.Lanes)
	sizes := [4]int{l.Batch, l.Heads, l.Queries, l.Keys}
	per := [4]int{1, 1, m.t.Rows, m.t.Cols}
	var at [4]*gpuir.Node
	rest := gpuir.NGroup()
	m.p.Groups = []gpuir.GroupFactor{{Per: 1}} // one workgroup where all scores share one element
	for d := 3; d >= 0; d-- {
		if sum[d] {
			continue
		}
		n := m.let(gpuir.NDiv(gpuir.NAdd(m.param(sizes[d]), gpuir.NInt(per[d]-1)), gpuir.NInt(per[d])))
		at[d] = m.let(gpuir.NMul(gpuir.NRem(rest, n), gpuir.NInt(per[d])))
		rest = m.let(gpuir.NDiv(rest, n))
		m.p.Groups = append(m.p.Groups, gpuir.GroupFactor{Params: []int{sizes[d]}, Per: int64(per[d])})
	}
	m.tiles()
	total := m.scores()
	var walk func(d int)
	walk = func(d int) {
		next := func(i *gpuir.Node) {
			at[d] = i
			walk(d + 1)
		}
		switch {
		case d == 4:
			m.batch, m.row0 = at[0], at[2]
			m.maskBlock(at[1], at[3], total)
		case sum[d]:
			m.loop(gpuir.NInt(0), m.param(sizes[d]), gpuir.NInt(per[d]), next)
			at[d] = gpuir.NInt(0)
		default:
			walk(d + 1)
		}
	}
	walk(0)
	m.batch, m.row0 = at[0], at[2]
	m.storeMask(at[1], at[3], total)
}

// maskBlock adds the cotangents of one block of scores to total.
func (m *attention) maskBlock(head, c0 *gpuir.Node, total [][]int) {
	l := m.l
	shared := m.let(gpuir.NDiv(head, m.let(gpuir.NDiv(m.param(l.Heads), m.param(l.KeyHeads)))))
	for i := range 2 {
		m.mine[i].base, m.theirs[i].base = m.headBase(m.mine[i].o, head), m.headBase(m.theirs[i].o, shared)
		m.deposit(m.mine[i], m.fetch(m.mine[i], m.row0))
	}
	var keys []*gpuir.Node
	m.deposit(m.theirs[1], m.fetch(m.theirs[1], c0))
	if m.t.Single {
		keys = m.fetch(m.theirs[0], c0)
	} else {
		m.deposit(m.theirs[0], m.fetch(m.theirs[0], c0))
	}
	m.draw(head, c0)
	m.barrier()
	dp := m.dots(1)
	if m.t.Single {
		m.barrier()
		m.deposit(m.theirs[0], keys)
		m.barrier()
	}
	score := m.dots(0)
	m.restrict(score, c0, m.headBase(l.Mask, head))
	m.lse, m.delta = nil, nil
	for i := range total {
		row := gpuir.N(loopir.OpMin, ir.I32, m.row(i), gpuir.NSub(m.nrows, gpuir.NInt(1)))
		lse, delta := m.statistics(head, row, m.nrows)
		m.lse, m.delta = append(m.lse, lse), append(m.delta, delta)
	}
	m.weights(score, dp, head, c0)
	for i, row := range total {
		inside := m.let(gpuir.NLt(m.row(i), m.nrows))
		for j, v := range row {
			x := gpuir.N(loopir.OpSelect, ir.F32, inside, m.p.NVar(dp[i][j]), gpuir.NFloat(ir.F32, 0))
			m.assign(v, gpuir.NAdd(m.p.NVar(v), x))
		}
	}
	m.barrier()
}

// storeMask adds up the rows or columns that share the mask, and writes the sums.
func (m *attention) storeMask(head, c0 *gpuir.Node, total [][]int) {
	sum := m.a.Sum
	if !sum[2] && !sum[3] {
		for i, row := range total {
			for j, v := range row {
				m.storeMaskAt(head, m.row(i), m.let(gpuir.NAdd(c0, m.tileCol(j))), m.p.NVar(v))
			}
		}
		return
	}
	m.setScores(total)
	m.barrier()
	// The sums that are left: one for each row, one for each column, or one.
	n, count, step, along := m.t.Rows, m.t.Cols, 4*m.scoreStride(), 1
	switch {
	case sum[2] && sum[3]:
		n = 1
	case sum[2]:
		n, count, step, along = m.t.Cols, m.t.Rows, 1, 4*m.scoreStride()
	}
	m.loop(gpuir.NLocal(), gpuir.NInt(n), gpuir.NInt(m.t.threads()), func(e *gpuir.Node) {
		add := func(from *gpuir.Node, count, along int) *gpuir.Node {
			acc, _ := m.variable(gpuir.NFloat(ir.F32, 0))
			m.loop(gpuir.NInt(0), gpuir.NInt(count), gpuir.NInt(1), func(k *gpuir.Node) {
				at := m.let(gpuir.NAdd(from, gpuir.NMul(k, gpuir.NInt(along))))
				m.assign(acc, gpuir.NAdd(m.p.NVar(acc), m.p.NSharedElement(m.tile, at)))
			})
			return m.p.NVar(acc)
		}
		row, col := gpuir.NInt(0), gpuir.NInt(0)
		switch {
		case n == 1:
			acc, _ := m.variable(gpuir.NFloat(ir.F32, 0))
			m.loop(gpuir.NInt(0), gpuir.NInt(m.t.Rows), gpuir.NInt(1), func(r *gpuir.Node) {
				x := add(m.let(gpuir.NMul(r, gpuir.NInt(4*m.scoreStride()))), m.t.Cols, 1)
				m.assign(acc, gpuir.NAdd(m.p.NVar(acc), x))
			})
			m.storeMaskAt(head, row, col, m.p.NVar(acc))
			return
		case sum[2]:
			col = m.let(gpuir.NAdd(c0, e))
		default:
			row = m.let(gpuir.NAdd(m.row0, e))
		}
		m.storeMaskAt(head, row, col, add(m.let(gpuir.NMul(e, gpuir.NInt(step))), count, along))
	})
}

// storeMaskAt writes an element of the dense result where it exists.
func (m *attention) storeMaskAt(head, row, col, x *gpuir.Node) {
	at, inside := gpuir.NInt(0), gpuir.NTrue()
	sizes := [4]int{m.l.Batch, m.l.Heads, m.l.Queries, m.l.Keys}
	for d, i := range [4]*gpuir.Node{m.batch, head, row, col} {
		if m.a.Sum[d] {
			continue
		}
		at = m.let(gpuir.NAdd(gpuir.NMul(at, m.param(sizes[d])), i))
		if d >= 2 {
			inside = gpuir.NAnd(inside, gpuir.NLt(i, m.param(sizes[d])))
		}
	}
	store := gpuir.Stmt{Op: gpuir.SStore, Ref: m.l.Out[0], A: at, B: x}
	m.emit(gpuir.Stmt{Op: gpuir.SIf, A: inside, Body: []gpuir.Stmt{store}})
}
