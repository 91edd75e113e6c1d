package gpucode

import (
	"cmp"
	"math"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// FromAttention makes the programs of a with the tiles of o, one for each pass over the device.
func FromAttention(a *launch.Attention, o AttentionOptions) ([]*gpuir.Program, error) {
	if err := o.check(a); err != nil {
		return nil, err
	}
	if o.Parts > 0 {
		m := queryProgram(a, o, o.threads())
		m.generateQuery()
		list := []*gpuir.Program{m.p}
		if o.Parts > 1 {
			m := queryProgram(a, o, queryThreads)
			m.joinQuery()
			list = append(list, m.p)
		}
		return list, checkShared(list[0], o.MaxWorkgroupBytes)
	}
	m := newAttention(a, o, o.threads())
	if a.Pass == launch.AttentionGradMask {
		m.generateMask()
	} else {
		m.generate()
	}
	return []*gpuir.Program{m.p}, checkShared(m.p, o.MaxWorkgroupBytes)
}

// newAttention begins a program of a.
func newAttention(a *launch.Attention, o AttentionOptions, threads int) *attention {
	l := a.Layout()
	p := newProgram(a.Pass.String()+"_"+a.Type.String(), l.Params, l.Bufs, threads)
	m := &attention{gen: gen{p: p, out: &p.Body}, a: a, t: o, l: l}
	m.resetValues()
	return m
}

// attention generates one pass. A workgroup owns Rows rows of one side and walks the other side, the stream, in blocks
// of Cols rows. The own side is queries, or keys in the gradient of k and v. Tiles of both sides lie in workgroup
// memory row by row, as in the tensors. A thread computes the scores of TM rows and TN columns by dot products along
// the rows. From the scores' tile in workgroup memory it accumulates TM rows of each result in registers:
//
//	forward:  S = Q K',            O += online softmax step of S, times V
//	dq:       S = Q K', D = G V',  dQ += weight(S)*(D - delta) K
//	dk, dv:   S = K Q', D = V G',  dV += weight(S) G, dK += weight(S)*(D - delta) Q
//	dmask:    S = Q K', D = G V',  dmask += weight(S)*(D - delta)
//
// Q is scaled when it is loaded. With dropout, the factors of the weights are drawn into the scores' tile before a
// block's first barrier, four keys for each Philox block. A thread reads the factors of its own scores before it
// overwrites them.
type attention struct {
	gen
	a *launch.Attention
	t AttentionOptions
	l launch.AttentionLayout

	lr, lc       *gpuir.Node // row and column in the grid of threads
	batch        *gpuir.Node
	row0         *gpuir.Node // first row of the workgroup
	nrows, ncols *gpuir.Node // lengths of the two sides
	mine, theirs [2]*attentionTile
	tile, red    int // workgroup arrays: of scores, and of the rows' partial results
	// Where operands come in chunks: the workgroup array of a stage's chunks, and where this stage's part of it begins.
	area, half int
	top, sum   []int
	lse, delta []*gpuir.Node // by row, in the gradient of q
	out        [2][][]int    // [side][row][piece]: accumulators, nil where the pass has none
}

// attentionTile is a tile of an operand in workgroup memory.
type attentionTile struct {
	o      launch.AttentionOperand
	array  int
	rows   int // of the tile
	width  int // columns, padded
	cols   int // parameter: columns of the operand
	limit  *gpuir.Node
	scaled bool
	base   *gpuir.Node // where the head begins
	ahead  []int       // variables that hold this thread's part of the next block
}

// stride is the length of a row of the tile in vectors. The padding spreads rows over the banks.
func (s *attentionTile) stride() int { return (s.width + pad) / 4 }

// rowsPlace is where rows are in workgroup memory: the array, the vector at which the first begins, and the vectors
// from one to the next.
type rowsPlace struct{ array, first, stride int }

func (s *attentionTile) whole() rowsPlace { return rowsPlace{s.array, 0, s.stride()} }

func (m *attention) swapped() bool { return m.a.Pass == launch.AttentionGradKV }

func (m *attention) generate() {
	l := m.l
	heads, rows, cols := l.Heads, l.Queries, l.Keys
	if m.swapped() {
		heads, rows, cols = l.KeyHeads, l.Keys, l.Queries
	}
	m.nrows, m.ncols = m.param(rows), m.param(cols)
	m.p.Groups = []gpuir.GroupFactor{{Params: []int{l.Batch}, Per: 1}, {Params: []int{heads}, Per: 1},
		{Params: []int{rows}, Per: int64(m.t.Rows)}}
	m.lr, m.lc = m.pairs(gpuir.NLocal(), m.t.Lanes)
	all := m.let(gpuir.NMul(m.param(l.Batch), m.param(heads)))
	block, head := m.let(gpuir.NDiv(gpuir.NGroup(), all)), m.let(gpuir.NRem(gpuir.NGroup(), all))
	m.batch = m.let(gpuir.NDiv(head, m.param(heads)))
	head = m.let(gpuir.NRem(head, m.param(heads)))
	if m.a.Causal && !m.swapped() {
		// The last rows take longest, so they come first.
		last := gpuir.NDiv(gpuir.NSub(m.nrows, gpuir.NInt(1)), gpuir.NInt(m.t.Rows))
		block = m.let(gpuir.NSub(last, block))
	}
	m.row0 = m.let(gpuir.NMul(block, gpuir.NInt(m.t.Rows)))
	m.tiles()
	m.walk(head)
}

// tiles makes the workgroup arrays and accumulators of the pass.
func (m *attention) tiles() {
	l := m.l
	side := func(o launch.AttentionOperand, cols, width int) *attentionTile {
		if m.t.Vec {
			m.p.Bufs[o.Buf].Vec = 4
		}
		return &attentionTile{o: o, cols: cols, width: width, array: -1}
	}
	q, k, v := side(l.Q, l.Width, m.t.Width), side(l.K, l.Width, m.t.Width), side(l.V, l.WidthV, m.t.WidthV)
	q.scaled = true
	g := &attentionTile{array: -1}
	if m.a.Pass != launch.AttentionForward {
		g = side(l.G, l.WidthV, m.t.WidthV)
	}
	m.mine, m.theirs = [2]*attentionTile{q, g}, [2]*attentionTile{k, v}
	if m.swapped() {
		m.mine, m.theirs = m.theirs, m.mine
	}
	for i := range 2 {
		m.mine[i].rows, m.mine[i].limit = m.t.Rows, m.nrows
		m.theirs[i].rows, m.theirs[i].limit = m.t.Cols, m.ncols
	}
	if m.t.Chunk > 0 {
		m.area = m.sharedArray(m.t.areaVectors() * m.t.areas())
	} else {
		m.operandArrays()
	}
	m.tile = m.sharedArray(m.t.Rows * m.scoreStride())
	if m.a.Pass == launch.AttentionForward {
		m.red = m.sharedArray(m.t.Rows * m.t.Lanes / 4)
	}
	zero := gpuir.NSplat(gpuir.NFloat(ir.F32, 0))
	for i := range 2 {
		if i == 0 && m.a.Pass == launch.AttentionForward || i == 1 && m.a.Pass == launch.AttentionGradQ ||
			m.a.Pass == launch.AttentionGradMask {
			continue
		}
		for range m.t.tm() {
			var row []int
			for range m.theirs[i].width / (4 * m.t.Lanes) {
				v, _ := m.variable(zero)
				row = append(row, v)
			}
			m.out[i] = append(m.out[i], row)
		}
	}
}

func (m *attention) sharedArray(vectors int) int {
	m.p.Shared = append(m.p.Shared, gpuir.SharedArray{Type: ir.F32, Len: vectors, Vec: 4})
	return len(m.p.Shared) - 1
}

// operandArrays makes the workgroup arrays of whole tiles.
func (m *attention) operandArrays() {
	for i := range 2 {
		if i == 0 || !m.t.Single {
			m.theirs[i].array = m.sharedArray(m.t.Cols * max(m.theirs[i].stride(), m.theirs[1].stride()))
		} else {
			m.theirs[1].array = m.theirs[0].array
		}
		if i == 0 || m.a.Pass != launch.AttentionForward {
			m.mine[i].array = m.sharedArray(m.t.Rows * m.mine[i].stride())
		}
	}
}

func (m *attention) scoreStride() int { return (m.t.Cols + pad) / 4 }

// headBase is the element at which a head of an operand begins.
func (m *attention) headBase(o launch.AttentionOperand, head *gpuir.Node) *gpuir.Node {
	at := gpuir.NAdd(m.param(o.Param+4), gpuir.NMul(m.batch, m.param(o.Param)))
	return m.let(gpuir.NAdd(at, gpuir.NMul(head, m.param(o.Param+1))))
}

// walk loads the own side's tiles, walks the stream, and stores the results.
func (m *attention) walk(head *gpuir.Node) {
	l := m.l
	group := m.let(gpuir.NDiv(m.param(l.Heads), m.param(l.KeyHeads)))
	for i, s := range m.mine {
		if i == 1 && m.a.Pass == launch.AttentionForward {
			continue
		}
		s.base = m.headBase(s.o, head)
		if m.t.Chunk == 0 {
			m.deposit(s, m.fetch(s, m.row0))
		}
	}
	if m.a.Pass == launch.AttentionGradQ {
		for i := range m.t.tm() {
			row := gpuir.N(loopir.OpMin, ir.I32, m.row(i), gpuir.NSub(m.nrows, gpuir.NInt(1)))
			lse, delta := m.statistics(head, row, m.nrows)
			m.lse, m.delta = append(m.lse, lse), append(m.delta, delta)
		}
	}
	if m.a.Pass == launch.AttentionForward {
		for range m.t.tm() {
			t, _ := m.variable(gpuir.NFloat(ir.F32, math.Inf(-1)))
			s, _ := m.variable(gpuir.NFloat(ir.F32, 0))
			m.top, m.sum = append(m.top, t), append(m.sum, s)
		}
	}
	if m.swapped() {
		first := m.let(gpuir.NMul(head, group))
		m.loop(first, m.let(gpuir.NAdd(first, group)), gpuir.NInt(1), func(h *gpuir.Node) { m.stream(h, h) })
	} else {
		m.stream(head, m.let(gpuir.NDiv(head, group)))
	}
	m.store(head)
}

// headNumber is the number of a query head, counted over the batch.
func (m *attention) headNumber(head *gpuir.Node) *gpuir.Node {
	return gpuir.NAdd(gpuir.NMul(m.batch, m.param(m.l.Heads)), head)
}

// stream walks head h of the other side; queries is the head of the queries.
func (m *attention) stream(queries, h *gpuir.Node) {
	for _, s := range m.theirs {
		s.base = m.headBase(s.o, h)
	}
	var mask *gpuir.Node
	if m.a.Mask != ir.InvalidDType {
		mask = m.headBase(m.l.Mask, queries)
	}
	from, to := gpuir.NInt(0), m.ncols
	if m.a.Causal {
		if m.swapped() {
			from = m.let(gpuir.NMul(gpuir.NDiv(m.row0, gpuir.NInt(m.t.Cols)), gpuir.NInt(m.t.Cols)))
		} else {
			to = m.let(gpuir.N(loopir.OpMin, ir.I32, to, gpuir.NAdd(m.row0, gpuir.NInt(m.t.Rows))))
		}
	}
	if m.t.Chunk > 0 {
		m.walkStages(queries, from, to, mask)
		return
	}
	first := m.leading()
	for _, s := range first {
		s.ahead = nil
		for _, v := range m.fetch(s, from) {
			n, _ := m.variable(v)
			s.ahead = append(s.ahead, n)
		}
	}
	m.loop(from, to, gpuir.NInt(m.t.Cols), func(c0 *gpuir.Node) {
		for _, s := range first {
			m.depositAhead(s)
		}
		m.draw(queries, c0)
		m.barrier()
		next := func() { m.fetchAhead(first, m.let(gpuir.NAdd(c0, gpuir.NInt(m.t.Cols)))) }
		if m.a.Pass == launch.AttentionForward {
			m.forwardBlock(c0, mask, next)
		} else {
			m.gradientBlock(queries, c0, mask, next)
		}
		m.barrier()
	})
}

// leading lists the operands of the stream that a block needs first.
func (m *attention) leading() []*attentionTile {
	switch {
	case m.a.Pass == launch.AttentionForward:
		return m.theirs[:1]
	case m.t.Single:
		return m.theirs[1:]
	}
	return m.theirs[:]
}

// fetchAhead issues the loads of the block that begins at row c0. depositAhead writes them to the tile in the next
// iteration.
func (m *attention) fetchAhead(list []*attentionTile, c0 *gpuir.Node) {
	for _, s := range list {
		for i, v := range m.fetch(s, c0) {
			m.assign(s.ahead[i], v)
		}
	}
}

func (m *attention) depositAhead(s *attentionTile) {
	var v []*gpuir.Node
	for _, n := range s.ahead {
		v = append(v, m.p.NVar(n))
	}
	m.deposit(s, v)
}

// forwardBlock works on one block of keys. Keys and values share one place in workgroup memory: the barrier that the
// rows' maxima need anyway separates them. Values are loaded while the scores are computed; next issues the loads of
// the next block.
func (m *attention) forwardBlock(c0, mask *gpuir.Node, next func()) {
	values := m.fetch(m.theirs[1], c0)
	score := m.dots(0)
	m.restrict(score, c0, mask)
	m.publishMaxima(score)
	m.barrier()
	m.deposit(m.theirs[1], values)
	m.softmax(score)
	next()
	m.barrier()
	m.gather(1)
}

// gradientBlock turns scores, and the cotangents of the weights, into the cotangents of the scores, and accumulates.
func (m *attention) gradientBlock(queries, c0, mask *gpuir.Node, next func()) {
	var other []*gpuir.Node
	if m.t.Single {
		other = m.fetch(m.theirs[0], c0)
	}
	dp := m.dots(1)
	if m.t.Single {
		m.barrier()
		m.deposit(m.theirs[0], other)
		m.barrier()
	}
	score := m.dots(0)
	m.restrict(score, c0, mask)
	m.weights(score, dp, queries, c0)
	m.setScores(dp)
	again := m.swapped() && m.t.Single
	if again {
		other = m.fetch(m.theirs[1], c0)
	} else {
		next()
	}
	m.barrier()
	m.gather(0)
	if !m.swapped() {
		return
	}
	m.barrier()
	if again {
		m.deposit(m.theirs[1], other)
		next()
	}
	m.setScores(score)
	m.barrier()
	m.gather(1)
}

// fetch loads this thread's part of the rows of an operand from r0 on. Beyond the last row it loads the last row again,
// whose scores never count.
func (m *attention) fetch(s *attentionTile, r0 *gpuir.Node) []*gpuir.Node {
	return m.fetchPart(s, r0, s.rows, 0, s.width/4)
}

// fetchPart loads this thread's part of `rows` rows from r0 on: of each row `units` vectors from v0 on.
func (m *attention) fetchPart(s *attentionTile, r0 *gpuir.Node, rows, v0, units int) []*gpuir.Node {
	var list []*gpuir.Node
	for i := range rows * units / m.t.threads() {
		q := gpuir.NAdd(gpuir.NLocal(), gpuir.NInt(i*m.t.threads()))
		r, v := m.let(gpuir.NDiv(q, gpuir.NInt(units))), m.let(gpuir.NAdd(gpuir.NRem(q, gpuir.NInt(units)), gpuir.NInt(v0)))
		row := gpuir.N(loopir.OpMin, ir.I32, gpuir.NAdd(r0, r), gpuir.NSub(s.limit, gpuir.NInt(1)))
		at := m.let(gpuir.NAdd(s.base, gpuir.NMul(row, m.param(s.o.Param+2))))
		list = append(list, m.let(m.four(s, at, v)))
	}
	return list
}

// deposit writes to the tile what fetch loaded.
func (m *attention) deposit(s *attentionTile, list []*gpuir.Node) {
	m.depositPart(s, s.whole(), s.width/4, list)
}

// depositPart writes to a place what fetchPart loaded, in rows of `units` vectors.
func (m *attention) depositPart(s *attentionTile, to rowsPlace, units int, list []*gpuir.Node) {
	for i, x := range list {
		q := gpuir.NAdd(gpuir.NLocal(), gpuir.NInt(i*m.t.threads()))
		if s.scaled {
			x = m.let(gpuir.NMul(x, gpuir.NParam(m.l.Scale, ir.F32)))
		}
		at := gpuir.NAdd(gpuir.NMul(gpuir.NDiv(q, gpuir.NInt(units)), gpuir.NInt(to.stride)),
			gpuir.NRem(q, gpuir.NInt(units)))
		m.emit(gpuir.Stmt{Op: gpuir.SSharedSet, Ref: to.array, A: m.let(gpuir.NAdd(at, gpuir.NInt(to.first))), B: x})
	}
}

// four is vector v of the row at element `at`; beyond the operand's columns it is zero.
func (m *attention) four(s *attentionTile, at, v *gpuir.Node) *gpuir.Node {
	zero := gpuir.NConst(ir.F32, 0)
	if m.t.Vec {
		if m.t.Exact {
			return gpuir.NLoad(s.o.Buf, ir.F32, 4, m.let(gpuir.NAdd(gpuir.NDiv(at, gpuir.NInt(4)), v)))
		}
		n := m.let(gpuir.NDiv(m.param(s.cols), gpuir.NInt(4)))
		in := gpuir.N(loopir.OpMin, ir.I32, v, gpuir.NSub(n, gpuir.NInt(1)))
		x := m.let(gpuir.NLoad(s.o.Buf, ir.F32, 4, m.let(gpuir.NAdd(gpuir.NDiv(at, gpuir.NInt(4)), in))))
		return gpuir.N(loopir.OpSelect, ir.F32, gpuir.NLt(v, n), x, zero)
	}
	var x []*gpuir.Node
	for c := range 4 {
		col := m.let(gpuir.NAdd(gpuir.NMul(v, gpuir.NInt(4)), gpuir.NInt(c)))
		in := gpuir.N(loopir.OpMin, ir.I32, col, gpuir.NSub(m.param(s.cols), gpuir.NInt(1)))
		y := m.let(gpuir.NLoad(s.o.Buf, ir.F32, 1, m.let(gpuir.NAdd(at, gpuir.NMul(in, m.param(s.o.Param+3))))))
		x = append(x, m.let(gpuir.N(loopir.OpSelect, ir.F32, gpuir.NLt(col, m.param(s.cols)), y, zero)))
	}
	return gpuir.NVec4(x...)
}

// repeat runs body for 0 to n-1, in a loop whose text holds `unroll` steps.
func (m *attention) repeat(n, unroll int, body func(k *gpuir.Node)) {
	u := min(unroll, n)
	for n%u != 0 {
		u--
	}
	m.loop(gpuir.NInt(0), gpuir.NInt(n), gpuir.NInt(u), func(k *gpuir.Node) {
		for i := range u {
			m.nestedInline(func() { body(m.let(gpuir.NAdd(k, gpuir.NInt(i)))) })
		}
	})
}

// gather adds the tile of scores times theirs[side] to this thread's rows of the result.
func (m *attention) gather(side int) {
	m.gatherRows(side, m.theirs[side].whole(), 0, m.t.Cols)
}

// gatherRows is gather over n rows of the stream, from row c of the tile on, which are at `from`.
func (m *attention) gatherRows(side int, from rowsPlace, c, n int) {
	var as []*gpuir.Node
	for i := range m.t.tm() {
		as = append(as, m.let(gpuir.NAdd(gpuir.NMul(m.tileRow(i), gpuir.NInt(m.scoreStride())), gpuir.NInt(c/4))))
	}
	m.repeat(n/4, cmp.Or(m.t.UnrollRows, m.t.Unroll), func(k *gpuir.Node) {
		var a []*gpuir.Node
		for _, f := range as {
			a = append(a, m.let(m.p.NShared(m.tile, gpuir.NAdd(f, k))))
		}
		for c := range 4 {
			row := m.let(gpuir.NAdd(gpuir.NMul(gpuir.NAdd(gpuir.NMul(k, gpuir.NInt(4)), gpuir.NInt(c)), gpuir.NInt(from.stride)),
				m.lc))
			for piece := range m.out[side][0] {
				b := m.let(m.p.NShared(from.array, gpuir.NAdd(row, gpuir.NInt(from.first+piece*m.t.Lanes))))
				for i := range a {
					v := m.out[side][i][piece]
					m.assign(v, gpuir.N(loopir.OpFma, ir.F32, gpuir.NSplat(gpuir.NLane(a[i], c)), b, m.p.NVar(v)))
				}
			}
		}
	})
}

// store writes the results.
func (m *attention) store(head *gpuir.Node) {
	l := m.l
	one := gpuir.NFloat(ir.F32, 1)
	switch m.a.Pass {
	case launch.AttentionForward:
		m.storeForward(head)
	case launch.AttentionGradQ:
		for i := range m.t.tm() {
			m.storeRow(i, 0, l.Out[0], head, l.Heads, gpuir.NParam(l.Scale, ir.F32))
		}
	default:
		for i := range m.t.tm() {
			m.storeRow(i, 0, l.Out[0], head, l.KeyHeads, one)
			m.storeRow(i, 1, l.Out[1], head, l.KeyHeads, one)
		}
	}
}

// storeForward divides by the sums and writes lse. A row without keys has sum 0 and becomes 0.
func (m *attention) storeForward(head *gpuir.Node) {
	for i, v := range m.sum {
		m.publishRow(i, m.p.NVar(v))
	}
	m.barrier()
	for i := range m.sum {
		sum := m.let(m.foldRow(i, gpuir.NAdd))
		dead, factor := m.inverse(sum)
		m.storeRow(i, 1, m.l.Out[0], head, m.l.Heads, factor)
		lse := m.logarithm(dead, m.p.NVar(m.top[i]), sum)
		at := gpuir.NAdd(gpuir.NMul(m.headNumber(head), m.nrows), m.row(i))
		mine := gpuir.NAnd(gpuir.NLt(m.row(i), m.nrows), gpuir.N(loopir.OpEq, ir.Bool, m.lc, gpuir.NInt(0)))
		body := m.nested(func() { m.emit(gpuir.Stmt{Op: gpuir.SStore, Ref: m.l.Out[1], A: m.let(at), B: lse}) })
		m.emit(gpuir.Stmt{Op: gpuir.SIf, A: mine, Body: body})
	}
}

// inverse is 1/sum of a row's weights, and 0 where the row is dead: it sees no key.
func (m *attention) inverse(sum *gpuir.Node) (dead, factor *gpuir.Node) {
	zero := gpuir.NFloat(ir.F32, 0)
	dead = m.let(gpuir.N(loopir.OpEq, ir.Bool, sum, zero))
	inverse := gpuir.N(loopir.OpDiv, ir.F32, gpuir.NFloat(ir.F32, 1), sum)
	return dead, m.let(gpuir.N(loopir.OpSelect, ir.F32, dead, zero, inverse))
}

// logarithm is lse of a row.
func (m *attention) logarithm(dead, top, sum *gpuir.Node) *gpuir.Node {
	lse := gpuir.NAdd(top, gpuir.N(loopir.OpLog, ir.F32, sum))
	return m.let(gpuir.N(loopir.OpSelect, ir.F32, dead, gpuir.NFloat(ir.F32, math.Inf(1)), lse))
}

// storeRow writes this thread's pieces of its i-th row, times factor, to a dense [batch, row, head, column].
func (m *attention) storeRow(i, side, buf int, head *gpuir.Node, heads int, factor *gpuir.Node) {
	s := m.theirs[side]
	if m.t.Vec {
		m.p.Bufs[buf].Vec = 4
	}
	row, width := m.row(i), m.param(s.cols)
	body := m.nested(func() {
		at := gpuir.NMul(gpuir.NAdd(gpuir.NMul(gpuir.NAdd(gpuir.NMul(m.batch, m.nrows), row), m.param(heads)), head), width)
		at = m.let(at)
		for piece, v := range m.out[side][i] {
			x := m.let(gpuir.NMul(m.p.NVar(v), factor))
			col := m.let(gpuir.NMul(gpuir.NAdd(m.lc, gpuir.NInt(piece*m.t.Lanes)), gpuir.NInt(4)))
			m.storeFour(buf, at, col, width, gpuir.NInt(1), x)
		}
	})
	m.emit(gpuir.Stmt{Op: gpuir.SIf, A: gpuir.NLt(row, m.nrows), Body: body})
}

// storeFour writes four columns, from col on, of the row at element `at`. Columns are step elements apart; with vectors
// step is 1.
func (m *attention) storeFour(buf int, at, col, width, step, x *gpuir.Node) {
	guarded := func(c *gpuir.Node, s gpuir.Stmt) {
		if m.t.Exact {
			m.emit(s)
			return
		}
		m.emit(gpuir.Stmt{Op: gpuir.SIf, A: gpuir.NLt(c, width), Body: []gpuir.Stmt{s}})
	}
	if m.t.Vec {
		guarded(col, gpuir.Stmt{Op: gpuir.SStore, Ref: buf, A: m.let(gpuir.NDiv(gpuir.NAdd(at, col), gpuir.NInt(4))), B: x})
		return
	}
	for c := range 4 {
		n := m.let(gpuir.NAdd(col, gpuir.NInt(c)))
		place := m.let(gpuir.NAdd(at, gpuir.NMul(n, step)))
		guarded(n, gpuir.Stmt{Op: gpuir.SStore, Ref: buf, A: place, B: m.let(gpuir.NLane(x, c))})
	}
}
