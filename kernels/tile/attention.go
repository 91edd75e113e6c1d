package tile

import (
	"cmp"
	"math"

	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/kernels/kir"
)

// FromAttention makes the program of a pass of attention in the form o says.
func FromAttention(a *kir.Attention, o AttentionOptions) (*kir.Proc, error) {
	if err := o.check(a); err != nil {
		return nil, err
	}
	l := a.Layout()
	p := &kir.Proc{Name: a.Pass.String() + "_" + a.Type.String(), Params: l.Params, Workgroup: o.threads()}
	for _, b := range l.Bufs {
		p.Bufs = append(p.Bufs, kir.ProcBuf{Type: b.Type, Access: b.Access, Vec: 1})
	}
	m := &attention{gen: gen{p: p, out: &p.Body}, a: a, t: o, l: l}
	m.resetValues()
	if a.Pass == kir.AttentionGradMask {
		m.generateMask()
	} else {
		m.generate()
	}
	return p, checkShared(p, o.MaxWorkgroupBytes)
}

// attention generates one pass. A workgroup owns Rows rows of one side (queries; keys in the gradient of
// k and v) and walks the other side, the stream, in blocks of Cols rows. Tiles of
// both lie in workgroup memory as they do in the tensors, row by row. A thread
// computes the scores of TM rows and TN columns, by dot products along the rows, and gathers TM rows of
// each result, in named vectors, from the scores' tile in workgroup memory:
//
//	forward:  S = Q K',            O += softmax step of S times V
//	dq:       S = Q K', D = G V',  dQ += weight(S)*(D - delta) K
//	dk, dv:   S = K Q', D = V G',  dV += weight(S) G, dK += weight(S)*(D - delta) Q
//	dmask:    S = Q K', D = G V',  dmask += weight(S)*(D - delta)
//
// Q is scaled when it is loaded. With dropout, what multiplies the weights is drawn into the scores' tile
// before a block's first barrier, four keys by each Philox block; a thread reads the factors of
// its own scores before it writes these over them.
type attention struct {
	gen
	a *kir.Attention
	t AttentionOptions
	l kir.AttentionLayout

	lr, lc       *kir.Node // this thread's row and column in the grid of threads
	batch        *kir.Node
	row0         *kir.Node // first row of the workgroup
	nrows, ncols *kir.Node // lengths of the two sides
	mine, theirs [2]*attentionTile
	tile, red    int // workgroup arrays of scores, and of the rows' partial results
	area, half   int // workgroup array of what a stage works on, where operands come in chunks, and where in it this stage's part begins
	top, sum     []int
	lse, delta   []*kir.Node // by row, in the gradient of q
	out          [2][][]int  // [side][row][piece]: accumulators, nil where the pass has none
}

// attentionTile is a tile of an operand in workgroup memory.
type attentionTile struct {
	o      kir.AttentionOperand
	array  int
	rows   int // of the tile
	width  int // columns, padded
	cols   int // parameter: columns of the operand
	limit  *kir.Node
	scaled bool
	base   *kir.Node // where the head begins
	ahead  []int     // variables that hold this thread's part of the next block
}

// stride is the length of a row of the tile, in vectors: the padding spreads rows over the banks.
func (s *attentionTile) stride() int { return (s.width + pad) / 4 }

// rowsPlace is where rows lie in workgroup memory: the array, the vector where the first begins, and the vectors from one to
// the next.
type rowsPlace struct{ array, first, stride int }

func (s *attentionTile) whole() rowsPlace { return rowsPlace{s.array, 0, s.stride()} }

func (m *attention) swapped() bool { return m.a.Pass == kir.AttentionGradKV }

func (m *attention) generate() {
	l := m.l
	heads, rows, cols := l.Heads, l.Queries, l.Keys
	if m.swapped() {
		heads, rows, cols = l.KeyHeads, l.Keys, l.Queries
	}
	m.nrows, m.ncols = m.param(rows), m.param(cols)
	m.p.Groups = []kir.GroupFactor{{Params: []int{l.Batch}, Per: 1}, {Params: []int{heads}, Per: 1}, {Params: []int{rows}, Per: int64(m.t.Rows)}}
	m.lr, m.lc = m.pairs(kir.NLocal(), m.t.Lanes)
	all := m.let(kir.NMul(m.param(l.Batch), m.param(heads)))
	block, head := m.let(kir.NDiv(kir.NGroup(), all)), m.let(kir.NRem(kir.NGroup(), all))
	m.batch = m.let(kir.NDiv(head, m.param(heads)))
	head = m.let(kir.NRem(head, m.param(heads)))
	if m.a.Causal && !m.swapped() {
		// The last rows take longest: they come first.
		last := kir.NDiv(kir.NSub(m.nrows, kir.NInt(1)), kir.NInt(m.t.Rows))
		block = m.let(kir.NSub(last, block))
	}
	m.row0 = m.let(kir.NMul(block, kir.NInt(m.t.Rows)))
	m.tiles()
	m.walk(head)
}

// tiles makes the workgroup arrays and accumulators of the pass.
func (m *attention) tiles() {
	l := m.l
	side := func(o kir.AttentionOperand, cols, width int) *attentionTile {
		if m.t.Vec {
			m.p.Bufs[o.Buf].Vec = 4
		}
		return &attentionTile{o: o, cols: cols, width: width, array: -1}
	}
	q, k, v := side(l.Q, l.Width, m.t.Width), side(l.K, l.Width, m.t.Width), side(l.V, l.WidthV, m.t.WidthV)
	q.scaled = true
	g := &attentionTile{array: -1}
	if m.a.Pass != kir.AttentionForward {
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
	if m.a.Pass == kir.AttentionForward {
		m.red = m.sharedArray(m.t.Rows * m.t.Lanes / 4)
	}
	zero := kir.NSplat(kir.NFloat(ir.F32, 0))
	for i := range 2 {
		if i == 0 && m.a.Pass == kir.AttentionForward || i == 1 && m.a.Pass == kir.AttentionGradQ || m.a.Pass == kir.AttentionGradMask {
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
	m.p.Shared = append(m.p.Shared, kir.SharedArray{Type: ir.F32, Len: vectors, Vec: 4})
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
		if i == 0 || m.a.Pass != kir.AttentionForward {
			m.mine[i].array = m.sharedArray(m.t.Rows * m.mine[i].stride())
		}
	}
}

func (m *attention) scoreStride() int { return (m.t.Cols + pad) / 4 }

// headBase is where a head of an operand begins.
func (m *attention) headBase(o kir.AttentionOperand, head *kir.Node) *kir.Node {
	at := kir.NAdd(m.param(o.Param+4), kir.NMul(m.batch, m.param(o.Param)))
	return m.let(kir.NAdd(at, kir.NMul(head, m.param(o.Param+1))))
}

// walk loads this side's tiles, goes through the stream, and stores the results.
func (m *attention) walk(head *kir.Node) {
	l := m.l
	group := m.let(kir.NDiv(m.param(l.Heads), m.param(l.KeyHeads)))
	for i, s := range m.mine {
		if i == 1 && m.a.Pass == kir.AttentionForward {
			continue
		}
		s.base = m.headBase(s.o, head)
		if m.t.Chunk == 0 {
			m.deposit(s, m.fetch(s, m.row0))
		}
	}
	if m.a.Pass == kir.AttentionGradQ {
		for i := range m.t.tm() {
			row := kir.N(kir.OpMin, ir.I32, m.row(i), kir.NSub(m.nrows, kir.NInt(1)))
			lse, delta := m.statistics(head, row, m.nrows)
			m.lse, m.delta = append(m.lse, lse), append(m.delta, delta)
		}
	}
	if m.a.Pass == kir.AttentionForward {
		for range m.t.tm() {
			t, _ := m.variable(kir.NFloat(ir.F32, math.Inf(-1)))
			s, _ := m.variable(kir.NFloat(ir.F32, 0))
			m.top, m.sum = append(m.top, t), append(m.sum, s)
		}
	}
	if m.swapped() {
		first := m.let(kir.NMul(head, group))
		m.loop(first, m.let(kir.NAdd(first, group)), kir.NInt(1), func(h *kir.Node) { m.stream(h, h) })
	} else {
		m.stream(head, m.let(kir.NDiv(head, group)))
	}
	m.store(head)
}

// headNumber counts query heads over the batch.
func (m *attention) headNumber(head *kir.Node) *kir.Node {
	return kir.NAdd(kir.NMul(m.batch, m.param(m.l.Heads)), head)
}

// stream walks head h of the other side; queries is the head of the queries.
func (m *attention) stream(queries, h *kir.Node) {
	for _, s := range m.theirs {
		s.base = m.headBase(s.o, h)
	}
	var mask *kir.Node
	if m.a.Mask != ir.InvalidDType {
		mask = m.headBase(m.l.Mask, queries)
	}
	from, to := kir.NInt(0), m.ncols
	if m.a.Causal {
		if m.swapped() {
			from = m.let(kir.NMul(kir.NDiv(m.row0, kir.NInt(m.t.Cols)), kir.NInt(m.t.Cols)))
		} else {
			to = m.let(kir.N(kir.OpMin, ir.I32, to, kir.NAdd(m.row0, kir.NInt(m.t.Rows))))
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
	m.loop(from, to, kir.NInt(m.t.Cols), func(c0 *kir.Node) {
		for _, s := range first {
			m.depositAhead(s)
		}
		m.draw(queries, c0)
		m.barrier()
		next := func() { m.fetchAhead(first, m.let(kir.NAdd(c0, kir.NInt(m.t.Cols)))) }
		if m.a.Pass == kir.AttentionForward {
			m.forwardBlock(c0, mask, next)
		} else {
			m.gradientBlock(queries, c0, mask, next)
		}
		m.barrier()
	})
}

// leading lists the operands of the stream with which a block begins.
func (m *attention) leading() []*attentionTile {
	switch {
	case m.a.Pass == kir.AttentionForward:
		return m.theirs[:1]
	case m.t.Single:
		return m.theirs[1:]
	}
	return m.theirs[:]
}

// fetchAhead issues the loads of the block that begins at row c0; depositAhead, in the next round of the
// loop, writes them to the tile.
func (m *attention) fetchAhead(list []*attentionTile, c0 *kir.Node) {
	for _, s := range list {
		for i, v := range m.fetch(s, c0) {
			m.assign(s.ahead[i], v)
		}
	}
}

func (m *attention) depositAhead(s *attentionTile) {
	var v []*kir.Node
	for _, n := range s.ahead {
		v = append(v, m.p.NVar(n))
	}
	m.deposit(s, v)
}

// forwardBlock works on one block of keys. Keys and values have one place in workgroup memory: the
// barrier that the rows' maxima need anyway lies between. Loads are in flight while
// the products before them are computed; next issues those of the next block.
func (m *attention) forwardBlock(c0, mask *kir.Node, next func()) {
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

// gradientBlock turns scores and the cotangents of the weights into those of the scores, and gathers.
func (m *attention) gradientBlock(queries, c0, mask *kir.Node, next func()) {
	var other []*kir.Node
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

// fetch loads this thread's part of the rows from r0 of an operand; beyond the operand's
// last row, that row again, whose scores never count.
func (m *attention) fetch(s *attentionTile, r0 *kir.Node) []*kir.Node {
	return m.fetchPart(s, r0, s.rows, 0, s.width/4)
}

// fetchPart loads this thread's part of `units` vectors, from vector v0, of `rows` rows from r0.
func (m *attention) fetchPart(s *attentionTile, r0 *kir.Node, rows, v0, units int) []*kir.Node {
	var list []*kir.Node
	for i := range rows * units / m.t.threads() {
		q := kir.NAdd(kir.NLocal(), kir.NInt(i*m.t.threads()))
		r, v := m.let(kir.NDiv(q, kir.NInt(units))), m.let(kir.NAdd(kir.NRem(q, kir.NInt(units)), kir.NInt(v0)))
		row := kir.N(kir.OpMin, ir.I32, kir.NAdd(r0, r), kir.NSub(s.limit, kir.NInt(1)))
		at := m.let(kir.NAdd(s.base, kir.NMul(row, m.param(s.o.Param+2))))
		list = append(list, m.let(m.four(s, at, v)))
	}
	return list
}

// deposit writes what fetch loaded to the tile.
func (m *attention) deposit(s *attentionTile, list []*kir.Node) {
	m.depositPart(s, s.whole(), s.width/4, list)
}

// depositPart writes what fetchPart loaded, rows of `units` vectors, to a place.
func (m *attention) depositPart(s *attentionTile, to rowsPlace, units int, list []*kir.Node) {
	for i, x := range list {
		q := kir.NAdd(kir.NLocal(), kir.NInt(i*m.t.threads()))
		if s.scaled {
			x = m.let(kir.NMul(x, kir.NParam(m.l.Scale, ir.F32)))
		}
		at := kir.NAdd(kir.NMul(kir.NDiv(q, kir.NInt(units)), kir.NInt(to.stride)), kir.NRem(q, kir.NInt(units)))
		m.emit(kir.Stmt{Op: kir.SSharedSet, Ref: to.array, A: m.let(kir.NAdd(at, kir.NInt(to.first))), B: x})
	}
}

// four is vector v of the row at element `at`; zeros beyond the operand's columns.
func (m *attention) four(s *attentionTile, at, v *kir.Node) *kir.Node {
	zero := kir.NConst(ir.F32, 0)
	if m.t.Vec {
		if m.t.Exact {
			return kir.NLoad(s.o.Buf, ir.F32, 4, m.let(kir.NAdd(kir.NDiv(at, kir.NInt(4)), v)))
		}
		n := m.let(kir.NDiv(m.param(s.cols), kir.NInt(4)))
		in := kir.N(kir.OpMin, ir.I32, v, kir.NSub(n, kir.NInt(1)))
		x := m.let(kir.NLoad(s.o.Buf, ir.F32, 4, m.let(kir.NAdd(kir.NDiv(at, kir.NInt(4)), in))))
		return kir.N(kir.OpSelect, ir.F32, kir.NLt(v, n), x, zero)
	}
	var x []*kir.Node
	for c := range 4 {
		col := m.let(kir.NAdd(kir.NMul(v, kir.NInt(4)), kir.NInt(c)))
		in := kir.N(kir.OpMin, ir.I32, col, kir.NSub(m.param(s.cols), kir.NInt(1)))
		y := m.let(kir.NLoad(s.o.Buf, ir.F32, 1, m.let(kir.NAdd(at, kir.NMul(in, m.param(s.o.Param+3))))))
		x = append(x, m.let(kir.N(kir.OpSelect, ir.F32, kir.NLt(col, m.param(s.cols)), y, zero)))
	}
	return kir.NVec4(x...)
}

// row is this thread's i-th row; its rows lie Rows/TM apart, its columns Lanes apart, so that the
// threads of a group of 32 read neighbouring rows of the tiles, which lie in different banks.
func (m *attention) row(i int) *kir.Node { return m.let(kir.NAdd(m.row0, m.tileRow(i))) }

func (m *attention) tileRow(i int) *kir.Node {
	return m.let(kir.NAdd(m.lr, kir.NInt(i*m.t.RowThreads)))
}

func (m *attention) tileCol(j int) *kir.Node { return m.let(kir.NAdd(m.lc, kir.NInt(j*m.t.Lanes))) }

// dots gives this thread's products of rows of mine[side] and theirs[side], as variables.
func (m *attention) dots(side int) [][]int {
	acc := m.scores()
	m.addDots(acc, m.mine[side].whole(), m.theirs[side].whole(), m.mine[side].width/4)
	return acc
}

// scores makes variables for this thread's scores, zeros.
func (m *attention) scores() [][]int {
	var acc [][]int
	for range m.t.tm() {
		var row []int
		for range m.t.tn() {
			v, _ := m.variable(kir.NFloat(ir.F32, 0))
			row = append(row, v)
		}
		acc = append(acc, row)
	}
	return acc
}

// addDots adds the products of rows of n vectors at x and y to this thread's scores.
func (m *attention) addDots(acc [][]int, x, y rowsPlace, n int) {
	var as, bs []*kir.Node
	for i := range m.t.tm() {
		as = append(as, m.let(kir.NAdd(kir.NMul(m.tileRow(i), kir.NInt(x.stride)), kir.NInt(x.first))))
	}
	for j := range m.t.tn() {
		bs = append(bs, m.let(kir.NAdd(kir.NMul(m.tileCol(j), kir.NInt(y.stride)), kir.NInt(y.first))))
	}
	m.repeat(n, m.t.Unroll, func(e *kir.Node) {
		read := func(array int, from []*kir.Node) []*kir.Node {
			var v []*kir.Node
			for _, f := range from {
				v = append(v, m.let(m.p.NShared(array, kir.NAdd(f, e))))
			}
			return v
		}
		a, b := read(x.array, as), read(y.array, bs)
		for c := range 4 {
			for i := range a {
				for j := range b {
					v := acc[i][j]
					m.assign(v, kir.N(kir.OpFma, ir.F32, kir.NLane(a[i], c), kir.NLane(b[j], c), m.p.NVar(v)))
				}
			}
		}
	})
}

// repeat runs body for 0 to n-1 in a loop whose text holds so many steps.
func (m *attention) repeat(n, unroll int, body func(k *kir.Node)) {
	u := min(unroll, n)
	for n%u != 0 {
		u--
	}
	m.loop(kir.NInt(0), kir.NInt(n), kir.NInt(u), func(k *kir.Node) {
		for i := range u {
			m.nestedInline(func() { body(m.let(kir.NAdd(k, kir.NInt(i)))) })
		}
	})
}

// restrict makes scores that do not count -inf: columns beyond the stream, keys after the query, and
// what the mask takes out; a mask of numbers is added.
func (m *attention) restrict(score [][]int, c0, mask *kir.Node) {
	end := m.let(kir.NAdd(c0, kir.NInt(m.t.Cols)))
	some := kir.NLt(m.ncols, end)
	if m.a.Causal {
		low, high := m.row0, end // the first query, and the key after the last
		if m.swapped() {
			low, high = c0, kir.NAdd(m.row0, kir.NInt(m.t.Rows))
		}
		some = kir.N(kir.OpOr, ir.Bool, some, kir.NLt(low, kir.NSub(high, kir.NInt(1))))
	}
	if mask != nil {
		m.restrictAll(score, c0, mask)
		return
	}
	m.emit(kir.Stmt{Op: kir.SIf, A: some, Body: m.nested(func() { m.restrictAll(score, c0, nil) })})
}

func (m *attention) restrictAll(score [][]int, c0, mask *kir.Node) {
	lowest := kir.NFloat(ir.F32, math.Inf(-1))
	for j := range m.t.tn() {
		col := m.let(kir.NAdd(c0, m.tileCol(j)))
		inside := m.let(kir.NLt(col, m.ncols))
		for i := range m.t.tm() {
			row, keep := m.row(i), inside
			key, query := col, row
			if m.swapped() {
				key, query = row, col
			}
			if m.a.Causal {
				keep = kir.NAnd(keep, kir.N(kir.OpLe, ir.Bool, key, query))
			}
			v := score[i][j]
			x := m.p.NVar(v)
			if mask != nil {
				clamp := func(n *kir.Node, size int) *kir.Node {
					return kir.N(kir.OpMin, ir.I32, n, kir.NSub(m.param(size), kir.NInt(1)))
				}
				o := m.l.Mask
				at := kir.NAdd(kir.NMul(clamp(query, m.l.Queries), m.param(o.Param+2)), kir.NMul(clamp(key, m.l.Keys), m.param(o.Param+3)))
				y := m.let(kir.NLoad(o.Buf, m.a.Mask.ComputeType(), 1, m.let(kir.NAdd(mask, at))))
				if m.a.Mask == ir.Bool {
					keep = kir.NAnd(keep, y)
				} else {
					x = kir.NAdd(x, y)
				}
			}
			m.assign(v, kir.N(kir.OpSelect, ir.F32, keep, x, lowest))
		}
	}
}

// larger is max without the care for NaN: a NaN score makes its row's sum NaN anyhow.
func larger(x, y *kir.Node) *kir.Node { return kir.N(kir.OpSelect, ir.F32, kir.NLt(x, y), y, x) }

func (m *attention) publishMaxima(score [][]int) {
	for i, row := range score {
		best := m.p.NVar(row[0])
		for _, v := range row[1:] {
			best = m.let(larger(best, m.p.NVar(v)))
		}
		m.publishRow(i, best)
	}
}

// softmax is one step of the running softmax: scores become exp(score - greatest so far), go to
// the tile, and what the rows gathered is scaled to the new greatest.
func (m *attention) softmax(score [][]int) {
	lowest := kir.NFloat(ir.F32, math.Inf(-1))
	exp := func(x *kir.Node) *kir.Node { return m.let(kir.N(kir.OpExp, ir.F32, x)) }
	for i, row := range score {
		old := m.let(m.p.NVar(m.top[i]))
		best := m.let(m.foldRow(i, larger))
		best = m.let(larger(best, old))
		base := m.let(kir.N(kir.OpSelect, ir.F32, kir.N(kir.OpEq, ir.Bool, best, lowest), kir.NFloat(ir.F32, 0), best))
		factor := exp(kir.NSub(old, base))
		m.assign(m.top[i], best)
		sum := m.let(kir.NMul(m.p.NVar(m.sum[i]), factor))
		for j, v := range row {
			p := exp(kir.NSub(m.p.NVar(v), base))
			sum = m.let(kir.NAdd(sum, p))
			m.setScore(i, j, m.kept(p, i, j))
		}
		m.assign(m.sum[i], sum)
		for _, v := range m.out[1][i] {
			m.assign(v, kir.NMul(m.p.NVar(v), factor))
		}
	}
}

func (m *attention) setScore(i, j int, x *kir.Node) {
	m.emit(kir.Stmt{Op: kir.SSharedSet, Ref: m.tile, A: m.scorePlace(i, j), B: x})
}

// scorePlace is the element of the scores' tile where this thread's score (i, j) lies.
func (m *attention) scorePlace(i, j int) *kir.Node {
	return m.let(kir.NAdd(kir.NMul(m.tileRow(i), kir.NInt(4*m.scoreStride())), m.tileCol(j)))
}

// publishRow gives the other threads of row i this thread's share; foldRow joins the shares after a barrier.
func (m *attention) publishRow(i int, x *kir.Node) {
	at := kir.NAdd(kir.NMul(m.tileRow(i), kir.NInt(m.t.Lanes)), m.lc)
	m.emit(kir.Stmt{Op: kir.SSharedSet, Ref: m.red, A: m.let(at), B: m.let(x)})
}

func (m *attention) foldRow(i int, join func(x, y *kir.Node) *kir.Node) *kir.Node {
	var all *kir.Node
	for c := range m.t.Lanes / 4 {
		at := kir.NAdd(kir.NMul(m.tileRow(i), kir.NInt(m.t.Lanes/4)), kir.NInt(c))
		v := m.let(m.p.NShared(m.red, m.let(at)))
		if all != nil {
			v = m.let(join(all, v))
		}
		all = v
	}
	x := m.let(join(kir.NLane(all, 0), kir.NLane(all, 1)))
	return join(x, m.let(join(kir.NLane(all, 2), kir.NLane(all, 3))))
}

// weights turns scores into weights after dropout, and dp, their cotangents, into those of the scores.
func (m *attention) weights(score, dp [][]int, queries, c0 *kir.Node) {
	lse, delta := make([]*kir.Node, m.t.tn()), make([]*kir.Node, m.t.tn())
	if m.swapped() {
		for j := range lse {
			col := kir.N(kir.OpMin, ir.I32, kir.NAdd(c0, m.tileCol(j)), kir.NSub(m.ncols, kir.NInt(1)))
			lse[j], delta[j] = m.statistics(queries, col, m.ncols)
		}
	}
	for i, row := range score {
		for j, v := range row {
			x, y := lse[j], delta[j]
			if !m.swapped() {
				x, y = m.lse[i], m.delta[i]
			}
			w := m.let(kir.N(kir.OpExp, ir.F32, kir.NSub(m.p.NVar(v), x)))
			m.assign(dp[i][j], kir.NMul(w, kir.NSub(m.kept(m.p.NVar(dp[i][j]), i, j), y)))
			m.assign(v, m.kept(w, i, j))
		}
	}
}

// statistics loads lse and delta of a query; n is the number of queries.
func (m *attention) statistics(head, query, n *kir.Node) (lse, delta *kir.Node) {
	at := m.let(kir.NAdd(kir.NMul(m.headNumber(head), n), query))
	at = m.let(kir.NMul(at, kir.NInt(2)))
	lse = m.let(kir.NLoad(m.l.Stats, ir.F32, 1, at))
	return lse, m.let(kir.NLoad(m.l.Stats, ir.F32, 1, m.let(kir.NAdd(at, kir.NInt(1)))))
}

func (m *attention) setScores(score [][]int) {
	for i, row := range score {
		for j, v := range row {
			m.setScore(i, j, m.p.NVar(v))
		}
	}
}

// gather adds the tile of scores times theirs[side] to this thread's rows of the result.
func (m *attention) gather(side int) {
	m.gatherRows(side, m.theirs[side].whole(), 0, m.t.Cols)
}

// gatherRows is gather over n rows of the stream, from number c of the tile, that lie at `from`.
func (m *attention) gatherRows(side int, from rowsPlace, c, n int) {
	var as []*kir.Node
	for i := range m.t.tm() {
		as = append(as, m.let(kir.NAdd(kir.NMul(m.tileRow(i), kir.NInt(m.scoreStride())), kir.NInt(c/4))))
	}
	m.repeat(n/4, cmp.Or(m.t.UnrollRows, m.t.Unroll), func(k *kir.Node) {
		var a []*kir.Node
		for _, f := range as {
			a = append(a, m.let(m.p.NShared(m.tile, kir.NAdd(f, k))))
		}
		for c := range 4 {
			row := m.let(kir.NAdd(kir.NMul(kir.NAdd(kir.NMul(k, kir.NInt(4)), kir.NInt(c)), kir.NInt(from.stride)), m.lc))
			for piece := range m.out[side][0] {
				b := m.let(m.p.NShared(from.array, kir.NAdd(row, kir.NInt(from.first+piece*m.t.Lanes))))
				for i := range a {
					v := m.out[side][i][piece]
					m.assign(v, kir.N(kir.OpFma, ir.F32, kir.NSplat(kir.NLane(a[i], c)), b, m.p.NVar(v)))
				}
			}
		}
	})
}

// store writes the results.
func (m *attention) store(head *kir.Node) {
	l := m.l
	one := kir.NFloat(ir.F32, 1)
	switch m.a.Pass {
	case kir.AttentionForward:
		m.storeForward(head)
	case kir.AttentionGradQ:
		for i := range m.t.tm() {
			m.storeRow(i, 0, l.Out[0], head, l.Heads, kir.NParam(l.Scale, ir.F32))
		}
	default:
		for i := range m.t.tm() {
			m.storeRow(i, 0, l.Out[0], head, l.KeyHeads, one)
			m.storeRow(i, 1, l.Out[1], head, l.KeyHeads, one)
		}
	}
}

// storeForward divides by the sums and writes lse. A row without keys has sum 0.
func (m *attention) storeForward(head *kir.Node) {
	for i, v := range m.sum {
		m.publishRow(i, m.p.NVar(v))
	}
	m.barrier()
	zero := kir.NFloat(ir.F32, 0)
	for i := range m.sum {
		sum := m.let(m.foldRow(i, kir.NAdd))
		dead := m.let(kir.N(kir.OpEq, ir.Bool, sum, zero))
		inverse := kir.N(kir.OpDiv, ir.F32, kir.NFloat(ir.F32, 1), sum)
		m.storeRow(i, 1, m.l.Out[0], head, m.l.Heads, m.let(kir.N(kir.OpSelect, ir.F32, dead, zero, inverse)))
		lse := kir.NAdd(m.p.NVar(m.top[i]), kir.N(kir.OpLog, ir.F32, sum))
		lse = m.let(kir.N(kir.OpSelect, ir.F32, dead, kir.NFloat(ir.F32, math.Inf(1)), lse))
		at := kir.NAdd(kir.NMul(m.headNumber(head), m.nrows), m.row(i))
		mine := kir.NAnd(kir.NLt(m.row(i), m.nrows), kir.N(kir.OpEq, ir.Bool, m.lc, kir.NInt(0)))
		body := m.nested(func() { m.emit(kir.Stmt{Op: kir.SStore, Ref: m.l.Out[1], A: m.let(at), B: lse}) })
		m.emit(kir.Stmt{Op: kir.SIf, A: mine, Body: body})
	}
}

// storeRow writes this thread's pieces of its i-th row, times factor, to a dense [batch, row, head, column].
func (m *attention) storeRow(i, side, buf int, head *kir.Node, heads int, factor *kir.Node) {
	s := m.theirs[side]
	if m.t.Vec {
		m.p.Bufs[buf].Vec = 4
	}
	row, width := m.row(i), m.param(s.cols)
	body := m.nested(func() {
		at := kir.NMul(kir.NAdd(kir.NMul(kir.NAdd(kir.NMul(m.batch, m.nrows), row), m.param(heads)), head), width)
		at = m.let(at)
		for piece, v := range m.out[side][i] {
			x := m.let(kir.NMul(m.p.NVar(v), factor))
			col := m.let(kir.NMul(kir.NAdd(m.lc, kir.NInt(piece*m.t.Lanes)), kir.NInt(4)))
			m.storeFour(buf, at, col, width, x)
		}
	})
	m.emit(kir.Stmt{Op: kir.SIf, A: kir.NLt(row, m.nrows), Body: body})
}

func (m *attention) storeFour(buf int, at, col, width, x *kir.Node) {
	guarded := func(c *kir.Node, s kir.Stmt) {
		if m.t.Exact {
			m.emit(s)
			return
		}
		m.emit(kir.Stmt{Op: kir.SIf, A: kir.NLt(c, width), Body: []kir.Stmt{s}})
	}
	if m.t.Vec {
		guarded(col, kir.Stmt{Op: kir.SStore, Ref: buf, A: m.let(kir.NDiv(kir.NAdd(at, col), kir.NInt(4))), B: x})
		return
	}
	for c := range 4 {
		n := m.let(kir.NAdd(col, kir.NInt(c)))
		guarded(n, kir.Stmt{Op: kir.SStore, Ref: buf, A: m.let(kir.NAdd(at, n)), B: m.let(kir.NLane(x, c))})
	}
}
