package gpucode

import (
	"fmt"
	"math"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Attention of few queries, as in decoding. A workgroup works one query of one head over a part of the keys. With
// subgroups several threads share a key (attention_query_lanes.go). Without, keys are worked in blocks of Cols: each
// thread computes the score of one key, and then some columns of the result over a share of the block. Where the keys
// are many and the heads few, several workgroups share a query's keys, and a second pass joins what they
// leave in scratch memory (Dao, Haziza, Massa and Sizov, Flash-Decoding, 2023).
const (
	fewQueries   = 4   // the most queries of a launch; tiles read keys once for eight and more
	queryBlock   = 256 // keys of a block, and threads of a workgroup
	queryPart    = 512 // the fewest keys of a part: as many take about the time of the second pass
	mostKeyParts = 64
	queryThreads = 64   // of a workgroup of the second pass
	widestQuery  = 1024 // columns of v: a thread has four of them
	foldThreads  = 16   // that fold a block's values first
)

// chooseQuery picks the options for attention of few queries; false where tiles are for it.
func chooseQuery(a *launch.Attention, params []uint64, caps Caps) (o AttentionOptions, ok bool) {
	l := a.Layout()
	if a.Pass != launch.AttentionForward || a.Dropout || caps.Software || params[l.Queries] > fewQueries ||
		caps.MaxThreads < queryBlock || params[l.WidthV] > widestQuery {
		return o, false
	}
	o = AttentionOptions{Rows: 1, Cols: queryBlock, RowThreads: 1, Lanes: queryBlock, Parts: 1, Unroll: 8,
		MaxWorkgroupBytes: caps.MaxWorkgroupBytes, Vec: attentionVectors(a, params, &l)}
	o.Width, o.WidthV = padded(params[l.Width], 4), padded(params[l.WidthV], 4)
	o.Exact = uint64(o.Width) == params[l.Width] && uint64(o.WidthV) == params[l.WidthV]
	rows := params[l.Batch] * params[l.Heads] * params[l.Queries]
	for o.Parts < mostKeyParts && rows*uint64(2*o.Parts) <= uint64(caps.Units) &&
		params[l.Keys] >= uint64(2*o.Parts*queryPart) {
		o.Parts *= 2
	}
	o.shareKeys(params[l.Keys], caps)
	o.I64 = a.Append && caps.I64
	return o, o.sharedBytes(a) <= caps.MaxWorkgroupBytes
}

// ScratchBytes is the scratch memory that the passes of a need when launched with params.
func (o *AttentionOptions) ScratchBytes(a *launch.Attention, params []uint64) uint64 {
	if o.Parts <= 1 {
		return 0
	}
	l := a.Layout()
	return params[l.Batch] * params[l.Heads] * params[l.Queries] * uint64(o.Parts*o.recordVectors()) * 16
}

// recordVectors is the length of what a part leaves: its greatest score and its sum, then its columns.
func (o *AttentionOptions) recordVectors() int { return 1 + o.WidthV/4 }

// shares is the number of threads that have the same columns of the result, a power of two.
func (o *AttentionOptions) shares() int {
	n := 1
	for 2*n*o.WidthV/4 <= o.Cols {
		n *= 2
	}
	return n
}

func (o *AttentionOptions) queryBytes() int {
	if o.KeyLanes > 0 {
		return o.threads() / o.Subgroup * (8 + 4*o.WidthV)
	}
	return 4*o.Width + 4*o.Cols + 4*foldThreads + 4*o.shares()*o.WidthV
}

func (o *AttentionOptions) checkQuery(a *launch.Attention) error {
	switch {
	case a.Pass != launch.AttentionForward || a.Dropout:
		return fmt.Errorf("gpucode: attention: single queries are for the forward pass without dropout")
	case o.KeyLanes > 0:
		return o.checkKeyLanes()
	case o.Rows != 1 || o.RowThreads != 1 || o.Lanes != o.Cols || o.Cols%foldThreads != 0 || o.Cols&(o.Cols-1) != 0:
		return fmt.Errorf("gpucode: attention: a thread has one key of a single query, not tile %+v", *o)
	case o.Width%4 != 0 || o.WidthV%4 != 0 || o.WidthV/4 > o.Cols:
		return fmt.Errorf("gpucode: attention: %d threads do not cover the columns of tile %+v", o.Cols, *o)
	}
	return nil
}

// queryProgram begins a program of single queries.
func queryProgram(a *launch.Attention, o AttentionOptions, threads int) *attention {
	m := newAttention(a, o, threads)
	l := m.l
	if o.Parts > 1 {
		m.p.Bufs = append(m.p.Bufs, gpuir.Buf{Type: ir.F32, Access: loopir.ReadWrite, Vec: 4, Scratch: true})
	}
	m.nrows, m.ncols = m.param(l.Queries), m.param(l.Keys)
	m.p.Groups = []gpuir.GroupFactor{{Params: []int{l.Batch}, Per: 1}, {Params: []int{l.Heads}, Per: 1},
		{Params: []int{l.Queries}, Per: 1}}
	return m
}

// placeQuery finds the query of workgroup number n and returns its head.
func (m *attention) placeQuery(n *gpuir.Node) (head *gpuir.Node) {
	l := m.l
	all := m.let(gpuir.NMul(m.param(l.Batch), m.param(l.Heads)))
	m.row0 = m.let(gpuir.NDiv(n, all))
	rest := m.let(gpuir.NRem(n, all))
	m.batch = m.let(gpuir.NDiv(rest, m.param(l.Heads)))
	return m.let(gpuir.NRem(rest, m.param(l.Heads)))
}

// query is what the first pass of a single query has.
type query struct {
	*attention
	q, k, v          *attentionTile
	added            *newRows // nil without launch.Attention.Append
	scores, red, acc int      // workgroup arrays
	mask             *gpuir.Node
	from, to         *gpuir.Node // keys of this part
	part             *gpuir.Node
	top, sum, result int
	// share is this thread's share of the keys of a block, and column the vector of columns that it adds up. Threads
	// that are not active have none.
	share, column, active *gpuir.Node
}

func (m *attention) generateQuery() {
	x := &query{attention: m}
	group := gpuir.NGroup()
	if m.t.Parts > 1 {
		m.p.Repeat = int64(m.t.Parts)
		x.part = m.let(gpuir.NRem(group, gpuir.NInt(m.t.Parts)))
		group = m.let(gpuir.NDiv(group, gpuir.NInt(m.t.Parts)))
	}
	head := m.placeQuery(group)
	x.operands(head)
	x.bounds()
	if m.t.KeyLanes > 0 {
		x.generateLanes(head)
	} else {
		x.generateBlocks(head)
	}
	x.storeNewRows()
}

func (x *query) generateBlocks(head *gpuir.Node) {
	m := x.attention
	x.arrays()
	x.loadQuery()
	x.top, _ = m.variable(gpuir.NFloat(ir.F32, math.Inf(-1)))
	x.sum, _ = m.variable(gpuir.NFloat(ir.F32, 0))
	x.result, _ = m.variable(gpuir.NSplat(gpuir.NFloat(ir.F32, 0)))
	nv := gpuir.NInt(m.t.WidthV / 4)
	x.share, x.column = m.let(gpuir.NDiv(gpuir.NLocal(), nv)), m.let(gpuir.NRem(gpuir.NLocal(), nv))
	x.active = m.let(gpuir.NLt(gpuir.NLocal(), gpuir.NInt(m.t.shares()*m.t.WidthV/4)))
	x.loadNewRow()
	m.loop(x.from, x.to, gpuir.NInt(m.t.Cols), x.block)
	x.finish(head)
}

func (x *query) operands(head *gpuir.Node) {
	m, l := x.attention, x.l
	operand := func(o launch.AttentionOperand, cols, width int, h *gpuir.Node) *attentionTile {
		if m.t.Vec {
			m.p.Bufs[o.Buf].Vec = 4
		}
		return &attentionTile{o: o, cols: cols, width: width, base: m.headBase(o, h)}
	}
	group := m.let(gpuir.NDiv(m.param(l.Heads), m.param(l.KeyHeads)))
	shared := m.let(gpuir.NDiv(head, group))
	x.q = operand(l.Q, l.Width, m.t.Width, head)
	x.k, x.v = operand(l.K, l.Width, m.t.Width, shared), operand(l.V, l.WidthV, m.t.WidthV, shared)
	if m.a.Mask != ir.InvalidDType {
		row := gpuir.NMul(m.row0, m.param(l.Mask.Param+2))
		x.mask = m.let(gpuir.NAdd(m.headBase(l.Mask, head), row))
	}
	if m.a.Append {
		x.added = &newRows{k: operand(l.NewK, l.Width, m.t.Width, shared), v: operand(l.NewV, l.WidthV, m.t.WidthV, shared)}
		x.placeNewRows(gpuir.NRem(head, group))
	}
}

// arrays makes the workgroup arrays.
func (x *query) arrays() {
	m := x.attention
	x.tile, x.acc = m.sharedArray(m.t.Width/4), m.sharedArray(m.t.shares()*m.t.WidthV/4)
	x.scores, x.red = x.elements(m.t.Cols), x.elements(foldThreads)
}

// elements makes a workgroup array of n numbers.
func (x *query) elements(n int) int {
	x.p.Shared = append(x.p.Shared, gpuir.SharedArray{Type: ir.F32, Len: n, Vec: 1})
	return len(x.p.Shared) - 1
}

// bounds sets the keys of this part, up to the last that the query sees.
func (x *query) bounds() {
	m := x.attention
	x.from, x.to = gpuir.NInt(0), m.ncols
	least := func(a, b *gpuir.Node) *gpuir.Node { return m.let(gpuir.N(loopir.OpMin, ir.I32, a, b)) }
	if m.t.Parts > 1 {
		each := m.let(gpuir.NDiv(gpuir.NAdd(m.ncols, gpuir.NInt(m.t.Parts-1)), gpuir.NInt(m.t.Parts)))
		x.from = m.let(gpuir.NMul(x.part, each))
		x.to = least(m.ncols, gpuir.NAdd(x.from, each))
	}
	if m.a.Causal {
		x.to = least(x.to, gpuir.NAdd(m.row0, gpuir.NInt(1)))
	}
}

// loadQuery puts the query, scaled, into workgroup memory.
func (x *query) loadQuery() {
	m := x.attention
	at := m.let(gpuir.NAdd(x.q.base, gpuir.NMul(m.row0, m.param(x.q.o.Param+2))))
	n := gpuir.NInt(m.t.Width / 4)
	m.loop(gpuir.NLocal(), n, gpuir.NInt(m.t.Cols), func(v *gpuir.Node) {
		y := m.let(gpuir.NMul(m.four(x.q, at, v), gpuir.NParam(m.l.Scale, ir.F32)))
		m.emit(gpuir.Stmt{Op: gpuir.SSharedSet, Ref: x.tile, A: v, B: y})
	})
	m.barrier()
}

// block adds the keys from c0 on to the result: one step of the online softmax.
func (x *query) block(c0 *gpuir.Node) {
	m := x.attention
	score := x.score(c0)
	m.emit(gpuir.Stmt{Op: gpuir.SSharedSet, Ref: x.scores, A: gpuir.NLocal(), B: score})
	old := m.let(m.p.NVar(x.top))
	best := m.let(larger(x.fold(larger), old))
	base := m.finite(best)
	factor, p := m.exp(gpuir.NSub(old, base)), m.exp(gpuir.NSub(score, base))
	m.assign(x.top, best)
	m.assign(x.sum, gpuir.N(loopir.OpFma, ir.F32, m.p.NVar(x.sum), factor, p))
	m.emit(gpuir.Stmt{Op: gpuir.SSharedSet, Ref: x.scores, A: gpuir.NLocal(), B: p})
	m.barrier()
	body := m.nested(func() {
		m.assign(x.result, gpuir.NMul(m.p.NVar(x.result), factor))
		x.gatherBlock(c0)
	})
	m.emit(gpuir.Stmt{Op: gpuir.SIf, A: x.active, Body: body})
	m.barrier()
}

// score is the score of this thread's key in the block from c0 on, -inf where it does not count.
func (x *query) score(c0 *gpuir.Node) *gpuir.Node {
	m := x.attention
	key := m.let(gpuir.NAdd(c0, gpuir.NLocal()))
	inside := m.let(gpuir.N(loopir.OpMin, ir.I32, key, gpuir.NSub(x.to, gpuir.NInt(1))))
	at := m.let(gpuir.NAdd(x.k.base, gpuir.NMul(inside, m.param(x.k.o.Param+2))))
	dot := x.dot(x.k, at)
	if x.added != nil {
		dot = x.pick(inside, x.added.dot, dot)
	}
	return x.masked(dot, x.maskAt(inside), gpuir.NLt(key, x.to))
}

// dot is the product of the query with the row of s at element `at`.
func (x *query) dot(s *attentionTile, at *gpuir.Node) *gpuir.Node {
	m := x.attention
	dot, _ := m.variable(gpuir.NFloat(ir.F32, 0))
	m.repeat(m.t.Width/4, m.t.Unroll, func(e *gpuir.Node) {
		a, b := m.let(m.p.NShared(x.tile, e)), m.let(m.four(s, at, e))
		for c := range 4 {
			m.assign(dot, gpuir.N(loopir.OpFma, ir.F32, gpuir.NLane(a, c), gpuir.NLane(b, c), m.p.NVar(dot)))
		}
	})
	return m.p.NVar(dot)
}

// maskAt is the mask's element for a key, nil where there is no mask.
func (x *query) maskAt(key *gpuir.Node) *gpuir.Node {
	if x.mask == nil {
		return nil
	}
	m, o := x.attention, x.l.Mask
	at := m.let(gpuir.NAdd(x.mask, gpuir.NMul(key, m.param(o.Param+3))))
	return m.let(gpuir.NLoad(o.Buf, m.a.Mask.ComputeType(), 1, at))
}

// masked is a score with its mask, -inf where it does not count.
func (x *query) masked(score, mask, keep *gpuir.Node) *gpuir.Node {
	switch {
	case mask == nil:
	case x.a.Mask == ir.Bool:
		keep = gpuir.NAnd(keep, mask)
	default:
		score = gpuir.NAdd(score, mask)
	}
	return x.let(gpuir.N(loopir.OpSelect, ir.F32, keep, score, gpuir.NFloat(ir.F32, math.Inf(-1))))
}

// fold joins the values that threads have put into the array of scores. All threads get the result, after two barriers.
func (x *query) fold(join func(x, y *gpuir.Node) *gpuir.Node) *gpuir.Node {
	m := x.attention
	m.barrier()
	body := m.nested(func() {
		all := m.let(m.p.NShared(x.scores, gpuir.NLocal()))
		for i := 1; i < m.t.Cols/foldThreads; i++ {
			at := gpuir.NAdd(gpuir.NLocal(), gpuir.NInt(i*foldThreads))
			all = m.let(join(all, m.let(m.p.NShared(x.scores, at))))
		}
		m.emit(gpuir.Stmt{Op: gpuir.SSharedSet, Ref: x.red, A: gpuir.NLocal(), B: all})
	})
	m.emit(gpuir.Stmt{Op: gpuir.SIf, A: gpuir.NLt(gpuir.NLocal(), gpuir.NInt(foldThreads)), Body: body})
	m.barrier()
	all := m.let(m.p.NShared(x.red, gpuir.NInt(0)))
	for i := 1; i < foldThreads; i++ {
		all = m.let(join(all, m.let(m.p.NShared(x.red, gpuir.NInt(i)))))
	}
	return all
}

// gatherBlock adds the weighted values of this thread's share of a block. Weights beyond the last key are 0.
func (x *query) gatherBlock(c0 *gpuir.Node) {
	m := x.attention
	shares := m.t.shares()
	unroll := min(m.t.Unroll, m.t.Cols/shares)
	for m.t.Cols/shares%unroll != 0 {
		unroll--
	}
	n := m.let(gpuir.N(loopir.OpMin, ir.I32, gpuir.NSub(x.to, c0), gpuir.NInt(m.t.Cols)))
	m.loop(x.share, n, gpuir.NInt(shares*unroll), func(j *gpuir.Node) {
		var weights, values []*gpuir.Node
		for i := range unroll {
			at := m.let(gpuir.NAdd(j, gpuir.NInt(i*shares)))
			row := m.let(gpuir.N(loopir.OpMin, ir.I32, gpuir.NAdd(c0, at), gpuir.NSub(x.to, gpuir.NInt(1))))
			first := m.let(gpuir.NAdd(x.v.base, gpuir.NMul(row, m.param(x.v.o.Param+2))))
			weights = append(weights, m.let(m.p.NShared(x.scores, at)))
			value := m.let(m.four(x.v, first, x.column))
			if x.added != nil {
				value = x.pick(row, x.added.value, value)
			}
			values = append(values, value)
		}
		for i, w := range weights {
			m.assign(x.result, gpuir.N(loopir.OpFma, ir.F32, gpuir.NSplat(w), values[i], m.p.NVar(x.result)))
		}
	})
}

// finish joins the threads' sums and results, and stores them: as results, or as the record of this part.
func (x *query) finish(head *gpuir.Node) {
	m := x.attention
	m.emit(gpuir.Stmt{Op: gpuir.SSharedSet, Ref: x.scores, A: gpuir.NLocal(), B: m.p.NVar(x.sum)})
	body := m.nested(func() {
		m.emit(gpuir.Stmt{Op: gpuir.SSharedSet, Ref: x.acc, A: gpuir.NLocal(), B: m.p.NVar(x.result)})
	})
	m.emit(gpuir.Stmt{Op: gpuir.SIf, A: x.active, Body: body})
	sum := x.fold(gpuir.NAdd)
	columns := m.t.WidthV / 4
	body = m.nested(func() {
		all := m.let(m.p.NShared(x.acc, gpuir.NLocal()))
		for i := 1; i < m.t.shares(); i++ {
			all = m.let(gpuir.NAdd(all, m.let(m.p.NShared(x.acc, gpuir.NAdd(gpuir.NLocal(), gpuir.NInt(i*columns))))))
		}
		x.storePart(head, m.p.NVar(x.top), sum, all)
	})
	m.emit(gpuir.Stmt{Op: gpuir.SIf, A: gpuir.NLt(gpuir.NLocal(), gpuir.NInt(columns)), Body: body})
}

// storePart stores this thread's vector of columns: as results, or in the record of this part.
func (x *query) storePart(head, top, sum, all *gpuir.Node) {
	m := x.attention
	if m.t.Parts == 1 {
		m.storeQuery(head, gpuir.NLocal(), top, sum, all)
		return
	}
	record := m.record(head, x.part)
	store := func(at, v *gpuir.Node) gpuir.Stmt {
		return gpuir.Stmt{Op: gpuir.SStore, Ref: len(m.p.Bufs) - 1, A: m.let(at), B: v}
	}
	m.emit(store(gpuir.NAdd(record, gpuir.NAdd(gpuir.NLocal(), gpuir.NInt(1))), all))
	zero := gpuir.NFloat(ir.F32, 0)
	first := store(record, m.let(gpuir.NVec4(top, sum, zero, zero)))
	m.emit(gpuir.Stmt{Op: gpuir.SIf, A: gpuir.N(loopir.OpEq, ir.Bool, gpuir.NLocal(), gpuir.NInt(0)),
		Body: []gpuir.Stmt{first}})
}

// record is where the record of a part of this query begins, in vectors.
func (m *attention) record(head, part *gpuir.Node) *gpuir.Node {
	row := gpuir.NAdd(gpuir.NMul(m.headNumber(head), m.nrows), m.row0)
	at := gpuir.NAdd(gpuir.NMul(row, gpuir.NInt(m.t.Parts)), part)
	return m.let(gpuir.NMul(m.let(at), gpuir.NInt(m.t.recordVectors())))
}

// storeQuery writes four columns of the result, and the first thread lse. A query without keys has sum 0 and becomes 0.
func (m *attention) storeQuery(head, column, top, sum, result *gpuir.Node) {
	l := m.l
	dead, factor := m.inverse(sum)
	if m.t.Vec {
		m.p.Bufs[l.Out[0]].Vec = 4
	}
	width := m.param(l.WidthV)
	at := gpuir.NAdd(gpuir.NMul(m.batch, m.nrows), m.row0)
	at = m.let(gpuir.NMul(gpuir.NAdd(gpuir.NMul(at, m.param(l.Heads)), head), width))
	m.storeFour(l.Out[0], at, m.let(gpuir.NMul(column, gpuir.NInt(4))), width, gpuir.NInt(1),
		m.let(gpuir.NMul(result, factor)))
	lse := m.logarithm(dead, top, sum)
	row := m.let(gpuir.NAdd(gpuir.NMul(m.headNumber(head), m.nrows), m.row0))
	m.emit(gpuir.Stmt{Op: gpuir.SIf, A: gpuir.N(loopir.OpEq, ir.Bool, column, gpuir.NInt(0)),
		Body: []gpuir.Stmt{{Op: gpuir.SStore, Ref: l.Out[1], A: row, B: lse}}})
}

// joinQuery is the second pass: a workgroup joins the parts of a query, a thread four columns at a time.
func (m *attention) joinQuery() {
	head := m.placeQuery(gpuir.NGroup())
	scratch, columns := len(m.p.Bufs)-1, m.t.WidthV/4
	load := func(at *gpuir.Node) *gpuir.Node { return m.let(gpuir.NLoad(scratch, ir.F32, 4, m.let(at))) }
	first := m.record(head, gpuir.NInt(0))
	top, _ := m.variable(gpuir.NFloat(ir.F32, math.Inf(-1)))
	each := func(body func(record *gpuir.Node)) {
		m.loop(gpuir.NInt(0), gpuir.NInt(m.t.Parts), gpuir.NInt(1), func(part *gpuir.Node) {
			body(m.let(gpuir.NAdd(first, gpuir.NMul(part, gpuir.NInt(m.t.recordVectors())))))
		})
	}
	each(func(r *gpuir.Node) { m.assign(top, larger(m.p.NVar(top), m.let(gpuir.NLane(load(r), 0)))) })
	best := m.let(m.p.NVar(top))
	base := m.finite(best)
	m.loop(gpuir.NLocal(), gpuir.NInt(columns), gpuir.NInt(queryThreads), func(column *gpuir.Node) {
		sum, _ := m.variable(gpuir.NFloat(ir.F32, 0))
		all, _ := m.variable(gpuir.NSplat(gpuir.NFloat(ir.F32, 0)))
		each(func(r *gpuir.Node) {
			head := load(r)
			factor := m.exp(gpuir.NSub(gpuir.NLane(head, 0), base))
			m.assign(sum, gpuir.N(loopir.OpFma, ir.F32, gpuir.NLane(head, 1), factor, m.p.NVar(sum)))
			x := load(gpuir.NAdd(r, gpuir.NAdd(column, gpuir.NInt(1))))
			m.assign(all, gpuir.N(loopir.OpFma, ir.F32, x, gpuir.NSplat(factor), m.p.NVar(all)))
		})
		m.storeQuery(head, column, best, m.p.NVar(sum), m.p.NVar(all))
	})
}
