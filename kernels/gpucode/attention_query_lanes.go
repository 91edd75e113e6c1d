package gpucode

import (
	"fmt"
	"math"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Attention of a single query with subgroups. KeyLanes threads share a key: each has some vectors of its columns, so
// that they read a key, and a value, from contiguous memory. Shuffles add their products. Each such group of threads
// computes an online softmax over its own keys, so that blocks need no barrier and all loads of a block are in flight
// at once. At the end shuffles join the groups of a subgroup, and workgroup memory joins the subgroups.
const (
	mostQueryThreads = 1024
	// queryVectors is the most vectors of keys and values that a thread has in flight, for keysInFlight keys at most.
	queryVectors, keysInFlight = 16, 4
)

// shareKeys lets threads share keys where the device has subgroups and heads have a width for it.
func (o *AttentionOptions) shareKeys(keys uint64, caps Caps) {
	lanes := caps.Subgroup
	for lanes > 1 && (o.Width/4%lanes != 0 || o.WidthV/4%lanes != 0) {
		lanes /= 2
	}
	if lanes < 4 {
		return
	}
	each := (o.Width + o.WidthV) / 4 / lanes // vectors of a key
	unroll := max(1, min(keysInFlight, queryVectors/each))
	threads := max(queryThreads, caps.Subgroup)
	fits := func(threads int) bool { return threads/caps.Subgroup*(8+4*o.WidthV) <= caps.MaxWorkgroupBytes }
	for 2*threads <= min(mostQueryThreads, caps.MaxThreads) && uint64(threads/lanes*unroll) < keys && fits(2*threads) {
		threads *= 2
	}
	if threads%caps.Subgroup != 0 || threads < o.WidthV/4 || !fits(threads) {
		return
	}
	o.KeyLanes, o.Subgroup, o.Unroll, o.RowThreads, o.Lanes = lanes, caps.Subgroup, unroll, threads/lanes, lanes
	o.Cols = o.RowThreads * unroll
}

func (o *AttentionOptions) checkKeyLanes() error {
	pow2 := func(n int) bool { return n > 0 && n&(n-1) == 0 }
	if o.Rows != 1 || !pow2(o.KeyLanes) || !pow2(o.Subgroup) || o.KeyLanes > o.Subgroup || o.threads()%o.Subgroup != 0 ||
		o.Lanes != o.KeyLanes || o.Unroll < 1 || o.Cols != o.RowThreads*o.Unroll || o.Width%(4*o.KeyLanes) != 0 ||
		o.WidthV%(4*o.KeyLanes) != 0 || o.WidthV/4 > o.threads() {
		return fmt.Errorf("gpucode: attention: threads cannot share the keys of tile %+v", *o)
	}
	return nil
}

// softmax is the state of an online softmax: the greatest score, the sum of weights, and the weighted sums of vectors
// of columns. All are variables.
type softmax struct {
	top, sum int
	acc      []int
}

// key is what a thread has of a key.
type key struct{ k, v []*gpuir.Node }

func (x *query) generateLanes(head *gpuir.Node) {
	m := x.attention
	m.p.Subgroup = m.t.Subgroup
	lanes := gpuir.NInt(m.t.KeyLanes)
	lane, share := m.let(gpuir.NRem(gpuir.NLocal(), lanes)), m.let(gpuir.NDiv(gpuir.NLocal(), lanes))
	vectors := func(s *attentionTile, at *gpuir.Node) (list []*gpuir.Node) {
		for i := 0; i < s.width/4; i += m.t.KeyLanes {
			list = append(list, m.let(m.four(s, at, m.let(gpuir.NAdd(lane, gpuir.NInt(i))))))
		}
		return list
	}
	row := func(s *attentionTile, n *gpuir.Node) []*gpuir.Node {
		return vectors(s, m.let(gpuir.NAdd(s.base, gpuir.NMul(n, m.param(s.o.Param+2)))))
	}
	q := row(x.q, m.row0)
	for i, v := range q {
		q[i] = m.let(gpuir.NMul(v, gpuir.NParam(m.l.Scale, ir.F32)))
	}
	var s softmax
	s.top, _ = m.variable(gpuir.NFloat(ir.F32, math.Inf(-1)))
	s.sum, _ = m.variable(gpuir.NFloat(ir.F32, 0))
	for range x.v.width / 4 / m.t.KeyLanes {
		v, _ := m.variable(gpuir.NSplat(gpuir.NFloat(ir.F32, 0)))
		s.acc = append(s.acc, v)
	}
	last := m.let(gpuir.NSub(x.to, gpuir.NInt(1)))
	var added key
	if x.added != nil {
		added = key{k: vectors(x.added.k, x.added.k.base), v: vectors(x.added.v, x.added.v.base)}
	}
	m.loop(x.from, x.to, gpuir.NInt(m.t.Cols), func(c0 *gpuir.Node) {
		var keys []key
		var masks, keep []*gpuir.Node
		for u := range m.t.Unroll {
			n := m.let(gpuir.NAdd(c0, gpuir.NAdd(share, gpuir.NInt(u*m.t.RowThreads))))
			inside := m.let(gpuir.N(loopir.OpMin, ir.I32, n, last))
			keys = append(keys, key{k: x.pickAll(inside, added.k, row(x.k, inside)),
				v: x.pickAll(inside, added.v, row(x.v, inside))})
			masks, keep = append(masks, x.maskAt(inside)), append(keep, gpuir.NLt(n, x.to))
		}
		var scores []*gpuir.Node
		for u := range keys {
			scores = append(scores, x.masked(x.dotLanes(q, keys[u].k), masks[u], keep[u]))
		}
		x.addKeys(&s, keys, scores)
	})
	x.joinLanes(&s)
	x.joinSubgroups(&s, head)
}

// dotLanes is the product of the query with a key, by all lanes that share it.
func (x *query) dotLanes(q, k []*gpuir.Node) *gpuir.Node {
	m := x.attention
	sum := m.let(gpuir.NMul(q[0], k[0]))
	for i := 1; i < len(q); i++ {
		sum = m.let(gpuir.N(loopir.OpFma, ir.F32, q[i], k[i], sum))
	}
	dot := m.let(gpuir.NAdd(gpuir.NAdd(gpuir.NLane(sum, 0), gpuir.NLane(sum, 1)),
		gpuir.NAdd(gpuir.NLane(sum, 2), gpuir.NLane(sum, 3))))
	for step := m.t.KeyLanes / 2; step > 0; step /= 2 {
		dot = m.let(gpuir.NAdd(dot, m.let(gpuir.NShuffle(dot, step))))
	}
	return dot
}

// addKeys adds keys to a softmax.
func (x *query) addKeys(s *softmax, keys []key, scores []*gpuir.Node) {
	m := x.attention
	old := m.let(m.p.NVar(s.top))
	best := old
	for _, y := range scores {
		best = m.let(larger(best, y))
	}
	base := m.finite(best)
	factor := m.exp(gpuir.NSub(old, base))
	m.assign(s.top, best)
	m.assign(s.sum, gpuir.NMul(m.p.NVar(s.sum), factor))
	for i := range s.acc {
		m.assign(s.acc[i], gpuir.NMul(m.p.NVar(s.acc[i]), factor))
	}
	for u, y := range scores {
		weight := m.exp(gpuir.NSub(y, base))
		m.assign(s.sum, gpuir.NAdd(m.p.NVar(s.sum), weight))
		for i, v := range keys[u].v {
			m.assign(s.acc[i], gpuir.N(loopir.OpFma, ir.F32, gpuir.NSplat(weight), v, m.p.NVar(s.acc[i])))
		}
	}
}

// joinLanes joins the groups of a subgroup. The first group has the result.
func (x *query) joinLanes(s *softmax) {
	m := x.attention
	for step := m.t.KeyLanes; step < m.t.Subgroup; step *= 2 {
		other := func(v int) *gpuir.Node { return m.let(gpuir.NShuffle(m.p.NVar(v), step)) }
		top, sum := other(s.top), other(s.sum)
		mine := m.let(m.p.NVar(s.top))
		best := m.let(larger(mine, top))
		base := m.finite(best)
		a, b := m.exp(gpuir.NSub(mine, base)), m.exp(gpuir.NSub(top, base))
		add := func(v int, y *gpuir.Node) {
			m.assign(v, gpuir.N(loopir.OpFma, ir.F32, m.p.NVar(v), a, m.let(gpuir.NMul(y, b))))
		}
		m.assign(s.top, best)
		add(s.sum, sum)
		for _, v := range s.acc {
			add(v, other(v))
		}
	}
}

// joinSubgroups joins the subgroups in workgroup memory, and stores.
func (x *query) joinSubgroups(s *softmax, head *gpuir.Node) {
	m := x.attention
	groups, columns := m.t.threads()/m.t.Subgroup, m.t.WidthV/4
	tops, sums, accs := x.elements(groups), x.elements(groups), m.sharedArray(groups*columns)
	group := m.let(gpuir.NDiv(gpuir.NLocal(), gpuir.NInt(m.t.Subgroup)))
	lane := m.let(gpuir.NRem(gpuir.NLocal(), gpuir.NInt(m.t.Subgroup)))
	body := m.nested(func() {
		for i, v := range s.acc {
			at := gpuir.NAdd(gpuir.NMul(group, gpuir.NInt(columns)), gpuir.NAdd(lane, gpuir.NInt(i*m.t.KeyLanes)))
			m.emit(gpuir.Stmt{Op: gpuir.SSharedSet, Ref: accs, A: m.let(at), B: m.p.NVar(v)})
		}
	})
	m.emit(gpuir.Stmt{Op: gpuir.SIf, A: gpuir.NLt(lane, gpuir.NInt(m.t.KeyLanes)), Body: body})
	m.emit(gpuir.Stmt{Op: gpuir.SIf, A: gpuir.N(loopir.OpEq, ir.Bool, lane, gpuir.NInt(0)), Body: []gpuir.Stmt{
		{Op: gpuir.SSharedSet, Ref: tops, A: group, B: m.p.NVar(s.top)},
		{Op: gpuir.SSharedSet, Ref: sums, A: group, B: m.p.NVar(s.sum)}}})
	m.barrier()
	body = m.nested(func() {
		var list []*gpuir.Node
		best := gpuir.NFloat(ir.F32, math.Inf(-1))
		for i := range groups {
			list = append(list, m.let(m.p.NShared(tops, gpuir.NInt(i))))
			best = m.let(larger(best, list[i]))
		}
		base := m.finite(best)
		sum, all := gpuir.NFloat(ir.F32, 0), gpuir.NSplat(gpuir.NFloat(ir.F32, 0))
		for i, top := range list {
			factor := m.exp(gpuir.NSub(top, base))
			at := m.let(gpuir.NAdd(gpuir.NLocal(), gpuir.NInt(i*columns)))
			sum = m.let(gpuir.N(loopir.OpFma, ir.F32, m.let(m.p.NShared(sums, gpuir.NInt(i))), factor, sum))
			all = m.let(gpuir.N(loopir.OpFma, ir.F32, m.let(m.p.NShared(accs, at)), gpuir.NSplat(factor), all))
		}
		x.storePart(head, best, sum, all)
	})
	m.emit(gpuir.Stmt{Op: gpuir.SIf, A: gpuir.NLt(gpuir.NLocal(), gpuir.NInt(columns)), Body: body})
}
