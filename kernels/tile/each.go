package tile

import (
	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/kernels/kir"
)

const (
	// eachVectors is the number of vectors of each operand that a thread of a large map
	// has in flight.
	eachVectors = 4
	// eachFrom is the number of vectors from which a map is large: all threads that
	// a device of many compute units runs at once have several.
	eachFrom = 2 << 20
)

// chooseEach is the number of vectors a thread of a map in the form o.
func chooseEach(k *kir.Kernel, params []uint64, o Options, caps Caps) int {
	if caps.Software || o.Vec != 4 || !eachForm(k) || product(params[:k.Outer])/4 < eachFrom {
		return 0
	}
	return max(1, eachVectors/max(1, mapLoads(k)))
}

// eachForm reports a map whose threads may work on several vectors: it is one stage, and
// none of its values depends on positions or on what it writes.
func eachForm(k *kir.Kernel) bool {
	return k.Inner == 0 && len(k.Stages) == 1 && !k.Checks && !writesLoaded(k) && !needsIndex(k, 0, k.Outer) && mapLoads(k) > 0
}

// mapLoads counts the vectors that a map reads at a position.
func mapLoads(k *kir.Kernel) int {
	n := 0
	for i, used := range k.Uses(&k.Stages[0]) {
		if e := k.Exprs[i]; used && e.Op == kir.OpLoad && k.Access[e.Imm].Linear {
			n++
		}
	}
	return n
}

// eachKernel is a map of Each vectors a thread, a workgroup's length apart; all of them are
// loaded before the first is stored.
func (g *gen) eachKernel(dims []int) {
	o, s := g.o, &g.k.Stages[0]
	g.p.Groups = []kir.GroupFactor{{Params: dims, Per: int64(o.Workgroup * o.Vec * o.Each)}}
	g.wide, g.active = true, kir.NTrue()
	g.setVectors()
	n := g.let(kir.NDiv(g.sizes(0, g.k.Outer), kir.NInt(4)))
	first := g.let(kir.NAdd(kir.NMul(kir.NGroup(), kir.NInt(o.Workgroup*o.Each)), kir.NLocal()))
	last := g.let(kir.NAdd(first, kir.NInt(o.Workgroup*(o.Each-1))))
	for i := range g.isInner {
		g.isInner[i] = true
	}
	at := func(id *kir.Node) *slot {
		return &slot{linear: id, vals: map[int]*kir.Node{}, philox: map[[3]int]*kir.Node{}}
	}
	whole := g.nested(func() {
		var slots []*slot
		for i := range o.Each {
			slots = append(slots, at(g.let(kir.NAdd(first, kir.NInt(i*o.Workgroup)))))
		}
		g.work(s, slots, nil, 0)
	})
	inside := g.let(kir.NLt(last, n))
	g.emit(kir.Stmt{Op: kir.SIf, A: inside, Body: whole})
	rest := g.nested(func() {
		g.loop(first, n, kir.NInt(o.Workgroup), func(id *kir.Node) { g.work(s, []*slot{at(id)}, nil, 0) })
	})
	g.emit(kir.Stmt{Op: kir.SIf, A: kir.N(kir.OpNot, ir.Bool, inside), Body: rest})
}
