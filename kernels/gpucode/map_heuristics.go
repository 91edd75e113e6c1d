package gpucode

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

const (
	// vectorsInFlight is the number of vectors of each operand that a thread of a large map has in flight.
	vectorsInFlight = 4
	// largeMapVectors is the number of vectors from which a map is large: on a device of many compute units every resident
	// thread then has several.
	largeMapVectors = 2 << 20
)

// chooseVecPerThread is the number of vectors for each thread of a map with options o.
func chooseVecPerThread(k *loopir.Kernel, params []uint64, o Options, caps Caps) int {
	if caps.Software || o.Vec != 4 || !allowsSeveralVectors(k) || product(params[:k.Outer])/4 < largeMapVectors {
		return 0
	}
	return max(1, vectorsInFlight/max(1, mapLoads(k)))
}

// allowsSeveralVectors reports a map whose threads may work on several vectors: it has one stage, and no value depends
// on positions or on what the map writes.
func allowsSeveralVectors(k *loopir.Kernel) bool {
	return k.Inner == 0 && len(k.Stages) == 1 && !k.Checks && !writesLoaded(k) && !needsIndex(k, 0, k.Outer) &&
		mapLoads(k) > 0
}

// mapLoads counts the vectors that a map reads at one position.
func mapLoads(k *loopir.Kernel) int {
	n := 0
	for i, used := range k.Uses(&k.Stages[0]) {
		if e := k.Exprs[i]; used && e.Op == loopir.OpLoad && k.Access[e.Imm].Linear {
			n++
		}
	}
	return n
}

// multiVectorMap is a map of VecPerThread vectors for each thread, a workgroup's length apart. All are loaded before
// the first is stored.
func (g *gen) multiVectorMap(dims []int) {
	o, s := g.o, &g.k.Stages[0]
	g.p.Groups = []gpuir.GroupFactor{{Params: dims, Per: int64(o.Workgroup * o.Vec * o.VecPerThread)}}
	g.wide, g.active = true, gpuir.NTrue()
	g.setVectors()
	n := g.let(gpuir.NDiv(g.sizes(0, g.k.Outer), gpuir.NInt(4)))
	first := g.let(gpuir.NAdd(gpuir.NMul(gpuir.NGroup(), gpuir.NInt(o.Workgroup*o.VecPerThread)), gpuir.NLocal()))
	last := g.let(gpuir.NAdd(first, gpuir.NInt(o.Workgroup*(o.VecPerThread-1))))
	for i := range g.isInner {
		g.isInner[i] = true
	}
	at := func(id *gpuir.Node) *slot {
		return &slot{linear: id, vals: map[int]*gpuir.Node{}, drawn: map[[2]int]*gpuir.Node{}}
	}
	whole := g.nested(func() {
		var slots []*slot
		for i := range o.VecPerThread {
			slots = append(slots, at(g.let(gpuir.NAdd(first, gpuir.NInt(i*o.Workgroup)))))
		}
		g.work(s, slots, nil, 0)
	})
	inside := g.let(gpuir.NLt(last, n))
	g.emit(gpuir.Stmt{Op: gpuir.SIf, A: inside, Body: whole})
	rest := g.nested(func() {
		g.loop(first, n, gpuir.NInt(o.Workgroup), func(id *gpuir.Node) { g.work(s, []*slot{at(id)}, nil, 0) })
	})
	g.emit(gpuir.Stmt{Op: gpuir.SIf, A: gpuir.N(loopir.OpNot, ir.Bool, inside), Body: rest})
}
