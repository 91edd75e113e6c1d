package gpucode

import (
	"math"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// row is this thread's i-th row. A thread's rows are Rows/TM apart and its columns Lanes apart, so that the threads of
// a group of 32 read neighbouring rows of the tiles, which are in different banks.
func (m *attention) row(i int) *gpuir.Node { return m.let(gpuir.NAdd(m.row0, m.tileRow(i))) }

func (m *attention) tileRow(i int) *gpuir.Node {
	return m.let(gpuir.NAdd(m.lr, gpuir.NInt(i*m.t.RowThreads)))
}

func (m *attention) tileCol(j int) *gpuir.Node {
	return m.let(gpuir.NAdd(m.lc, gpuir.NInt(j*m.t.Lanes)))
}

// dots gives this thread's products of rows of mine[side] and theirs[side], as variables.
func (m *attention) dots(side int) [][]int {
	acc := m.scores()
	m.addDots(acc, m.mine[side].whole(), m.theirs[side].whole(), m.mine[side].width/4)
	return acc
}

// scores makes variables for this thread's scores, which begin as zeros.
func (m *attention) scores() [][]int {
	var acc [][]int
	for range m.t.tm() {
		var row []int
		for range m.t.tn() {
			v, _ := m.variable(gpuir.NFloat(ir.F32, 0))
			row = append(row, v)
		}
		acc = append(acc, row)
	}
	return acc
}

// addDots adds the products of rows of n vectors at x and y to this thread's scores.
func (m *attention) addDots(acc [][]int, x, y rowsPlace, n int) {
	var as, bs []*gpuir.Node
	for i := range m.t.tm() {
		as = append(as, m.let(gpuir.NAdd(gpuir.NMul(m.tileRow(i), gpuir.NInt(x.stride)), gpuir.NInt(x.first))))
	}
	for j := range m.t.tn() {
		bs = append(bs, m.let(gpuir.NAdd(gpuir.NMul(m.tileCol(j), gpuir.NInt(y.stride)), gpuir.NInt(y.first))))
	}
	m.repeat(n, m.t.Unroll, func(e *gpuir.Node) {
		read := func(array int, from []*gpuir.Node) []*gpuir.Node {
			var v []*gpuir.Node
			for _, f := range from {
				v = append(v, m.let(m.p.NShared(array, gpuir.NAdd(f, e))))
			}
			return v
		}
		a, b := read(x.array, as), read(y.array, bs)
		for c := range 4 {
			for i := range a {
				for j := range b {
					v := acc[i][j]
					m.assign(v, gpuir.N(loopir.OpFma, ir.F32, gpuir.NLane(a[i], c), gpuir.NLane(b[j], c), m.p.NVar(v)))
				}
			}
		}
	})
}

// restrict sets the scores that do not count to -inf: columns beyond the stream, keys after the query, and masked ones.
// A mask of numbers is added.
func (m *attention) restrict(score [][]int, c0, mask *gpuir.Node) {
	end := m.let(gpuir.NAdd(c0, gpuir.NInt(m.t.Cols)))
	some := gpuir.NLt(m.ncols, end)
	if m.a.Causal {
		low, high := m.row0, end // the first query, and the key after the last
		if m.swapped() {
			low, high = c0, gpuir.NAdd(m.row0, gpuir.NInt(m.t.Rows))
		}
		some = gpuir.N(loopir.OpOr, ir.Bool, some, gpuir.NLt(low, gpuir.NSub(high, gpuir.NInt(1))))
	}
	if mask != nil {
		m.restrictAll(score, c0, mask)
		return
	}
	m.emit(gpuir.Stmt{Op: gpuir.SIf, A: some, Body: m.nested(func() { m.restrictAll(score, c0, nil) })})
}

func (m *attention) restrictAll(score [][]int, c0, mask *gpuir.Node) {
	lowest := gpuir.NFloat(ir.F32, math.Inf(-1))
	for j := range m.t.tn() {
		col := m.let(gpuir.NAdd(c0, m.tileCol(j)))
		inside := m.let(gpuir.NLt(col, m.ncols))
		for i := range m.t.tm() {
			row, keep := m.row(i), inside
			key, query := col, row
			if m.swapped() {
				key, query = row, col
			}
			if m.a.Causal {
				keep = gpuir.NAnd(keep, gpuir.N(loopir.OpLe, ir.Bool, key, query))
			}
			v := score[i][j]
			x := m.p.NVar(v)
			if mask != nil {
				clamp := func(n *gpuir.Node, size int) *gpuir.Node {
					return gpuir.N(loopir.OpMin, ir.I32, n, gpuir.NSub(m.param(size), gpuir.NInt(1)))
				}
				o := m.l.Mask
				at := gpuir.NAdd(gpuir.NMul(clamp(query, m.l.Queries), m.param(o.Param+2)), gpuir.NMul(clamp(key, m.l.Keys),
					m.param(o.Param+3)))
				y := m.let(gpuir.NLoad(o.Buf, m.a.Mask.ComputeType(), 1, m.let(gpuir.NAdd(mask, at))))
				if m.a.Mask == ir.Bool {
					keep = gpuir.NAnd(keep, y)
				} else {
					x = gpuir.NAdd(x, y)
				}
			}
			m.assign(v, gpuir.N(loopir.OpSelect, ir.F32, keep, x, lowest))
		}
	}
}

// larger is max without care for NaN: a NaN score makes its row's sum NaN anyway.
func larger(x, y *gpuir.Node) *gpuir.Node {
	return gpuir.N(loopir.OpSelect, ir.F32, gpuir.NLt(x, y), y, x)
}

func (m *attention) publishMaxima(score [][]int) {
	for i, row := range score {
		best := m.p.NVar(row[0])
		for _, v := range row[1:] {
			best = m.let(larger(best, m.p.NVar(v)))
		}
		m.publishRow(i, best)
	}
}

// softmax is one step of the online softmax. Scores become exp(score - greatest so far) and go to the tile; the rows'
// results so far are scaled to the new greatest.
func (m *attention) softmax(score [][]int) {
	for i, row := range score {
		old := m.let(m.p.NVar(m.top[i]))
		best := m.let(m.foldRow(i, larger))
		best = m.let(larger(best, old))
		base := m.finite(best)
		factor := m.exp(gpuir.NSub(old, base))
		m.assign(m.top[i], best)
		sum := m.let(gpuir.NMul(m.p.NVar(m.sum[i]), factor))
		for j, v := range row {
			p := m.exp(gpuir.NSub(m.p.NVar(v), base))
			sum = m.let(gpuir.NAdd(sum, p))
			m.setScore(i, j, m.kept(p, i, j))
		}
		m.assign(m.sum[i], sum)
		for _, v := range m.out[1][i] {
			m.assign(v, gpuir.NMul(m.p.NVar(v), factor))
		}
	}
}

// finite is the greatest score of a row, 0 where the row has seen no key: what exponents are relative to.
func (m *attention) finite(best *gpuir.Node) *gpuir.Node {
	none := gpuir.N(loopir.OpEq, ir.Bool, best, gpuir.NFloat(ir.F32, math.Inf(-1)))
	return m.let(gpuir.N(loopir.OpSelect, ir.F32, none, gpuir.NFloat(ir.F32, 0), best))
}

func (m *attention) exp(x *gpuir.Node) *gpuir.Node { return m.let(gpuir.N(loopir.OpExp, ir.F32, x)) }

func (m *attention) setScore(i, j int, x *gpuir.Node) {
	m.emit(gpuir.Stmt{Op: gpuir.SSharedSet, Ref: m.tile, A: m.scorePlace(i, j), B: x})
}

// scorePlace is the element of the scores' tile that holds this thread's score (i, j).
func (m *attention) scorePlace(i, j int) *gpuir.Node {
	return m.let(gpuir.NAdd(gpuir.NMul(m.tileRow(i), gpuir.NInt(4*m.scoreStride())), m.tileCol(j)))
}

// publishRow gives this thread's share of row i to the others; foldRow joins the shares after a barrier.
func (m *attention) publishRow(i int, x *gpuir.Node) {
	at := gpuir.NAdd(gpuir.NMul(m.tileRow(i), gpuir.NInt(m.t.Lanes)), m.lc)
	m.emit(gpuir.Stmt{Op: gpuir.SSharedSet, Ref: m.red, A: m.let(at), B: m.let(x)})
}

func (m *attention) foldRow(i int, join func(x, y *gpuir.Node) *gpuir.Node) *gpuir.Node {
	var all *gpuir.Node
	for c := range m.t.Lanes / 4 {
		at := gpuir.NAdd(gpuir.NMul(m.tileRow(i), gpuir.NInt(m.t.Lanes/4)), gpuir.NInt(c))
		v := m.let(m.p.NShared(m.red, m.let(at)))
		if all != nil {
			v = m.let(join(all, v))
		}
		all = v
	}
	x := m.let(join(gpuir.NLane(all, 0), gpuir.NLane(all, 1)))
	return join(x, m.let(join(gpuir.NLane(all, 2), gpuir.NLane(all, 3))))
}

// weights turns scores into weights after dropout, and dp, the weights' cotangents, into the cotangents of the scores.
func (m *attention) weights(score, dp [][]int, queries, c0 *gpuir.Node) {
	lse, delta := make([]*gpuir.Node, m.t.tn()), make([]*gpuir.Node, m.t.tn())
	if m.swapped() {
		for j := range lse {
			col := gpuir.N(loopir.OpMin, ir.I32, gpuir.NAdd(c0, m.tileCol(j)), gpuir.NSub(m.ncols, gpuir.NInt(1)))
			lse[j], delta[j] = m.statistics(queries, col, m.ncols)
		}
	}
	for i, row := range score {
		for j, v := range row {
			x, y := lse[j], delta[j]
			if !m.swapped() {
				x, y = m.lse[i], m.delta[i]
			}
			w := m.exp(gpuir.NSub(m.p.NVar(v), x))
			m.assign(dp[i][j], gpuir.NMul(w, gpuir.NSub(m.kept(m.p.NVar(dp[i][j]), i, j), y)))
			m.assign(v, m.kept(w, i, j))
		}
	}
}

// statistics loads lse and delta of a query; n is the number of queries.
func (m *attention) statistics(head, query, n *gpuir.Node) (lse, delta *gpuir.Node) {
	at := m.let(gpuir.NAdd(gpuir.NMul(m.headNumber(head), n), query))
	at = m.let(gpuir.NMul(at, gpuir.NInt(2)))
	lse = m.let(gpuir.NLoad(m.l.Stats, ir.F32, 1, at))
	return lse, m.let(gpuir.NLoad(m.l.Stats, ir.F32, 1, m.let(gpuir.NAdd(at, gpuir.NInt(1)))))
}

func (m *attention) setScores(score [][]int) {
	for i, row := range score {
		for j, v := range row {
			m.setScore(i, j, m.p.NVar(v))
		}
	}
}
