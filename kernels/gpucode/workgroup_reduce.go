package gpucode

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// array is the n-th workgroup array of dtype t with length entries.
func (g *gen) array(t ir.DType, n, length int) int { return g.wideArray(t, n, length, 1) }

// wideArray is array with entries of width elements.
func (g *gen) wideArray(t ir.DType, n, length, width int) int {
	key := sharedKey{t, n, length, width}
	if s, ok := g.shared[key]; ok {
		return s
	}
	g.p.Shared = append(g.p.Shared, gpuir.SharedArray{Type: t, Len: length, Vec: width})
	s := len(g.p.Shared) - 1
	g.shared[key] = s
	return s
}

// arrays gives each accumulator workgroup arrays of length entries; the index array is -1 where there is no index.
func (g *gen) arrays(accs []accum, length int) (vals, idxs []int) {
	used := map[ir.DType]int{}
	next := func(x *gpuir.Node) int {
		used[x.Type]++
		return g.wideArray(x.Type, used[x.Type]-1, length, x.Width)
	}
	for _, a := range accs {
		vals = append(vals, next(a.val))
		if a.i >= 0 {
			idxs = append(idxs, next(a.idx))
		} else {
			idxs = append(idxs, -1)
		}
	}
	return vals, idxs
}

func (g *gen) barrier() { g.emit(gpuir.Stmt{Op: gpuir.SBarrier}) }

// publish writes the accumulators to entry at of the workgroup arrays, with a barrier before and after.
func (g *gen) publish(accs []accum, vals, idxs []int, at *gpuir.Node) {
	g.barrier()
	g.set(accs, vals, idxs, at)
	g.barrier()
}

// set writes the accumulators to entry at of the workgroup arrays.
func (g *gen) set(accs []accum, vals, idxs []int, at *gpuir.Node) {
	for i, a := range accs {
		g.emit(gpuir.Stmt{Op: gpuir.SSharedSet, Ref: vals[i], A: at, B: a.val})
		if a.i >= 0 {
			g.emit(gpuir.Stmt{Op: gpuir.SSharedSet, Ref: idxs[i], A: at, B: a.idx})
		}
	}
}

// get reads a's value and index from entry at of the workgroup arrays.
func (g *gen) get(a *accum, val, idx int, at *gpuir.Node) (v, x *gpuir.Node) {
	v = g.let(g.p.NShared(val, at))
	if a.i >= 0 {
		x = g.let(g.p.NShared(idx, at))
	}
	return v, x
}

// neighbour is the workgroup array entry of the lane `by` lanes further in the same row.
func (g *gen) neighbour(by int) *gpuir.Node {
	if g.o.OuterFast {
		by *= g.o.Workgroup / g.o.Lanes
	}
	if by < 0 {
		return gpuir.NSub(gpuir.NLocal(), gpuir.NInt(-by))
	}
	return gpuir.NAdd(gpuir.NLocal(), gpuir.NInt(by))
}

// laneSlot is the entry of a given lane of this thread's row.
func (g *gen) laneSlot(lane int) *gpuir.Node {
	if g.o.OuterFast {
		rows := g.o.Workgroup / g.o.Lanes
		return gpuir.NAdd(gpuir.NRem(gpuir.NLocal(), gpuir.NInt(rows)), gpuir.NInt(lane*rows))
	}
	return gpuir.NAdd(gpuir.NMul(gpuir.NDiv(gpuir.NLocal(), gpuir.NInt(g.o.Lanes)), gpuir.NInt(g.o.Lanes)),
		gpuir.NInt(lane))
}

// join reduces the accumulators over the lanes of each row; every lane then holds the result. The order of operations
// depends on the options alone.
func (g *gen) join(accs []accum) {
	switch s := g.o.Subgroup; {
	case g.o.Lanes == 1 || len(accs) == 0:
	case s > 1 && !g.o.OuterFast && g.o.Lanes <= s*s:
		g.joinSubgroups(accs)
	case s > 1 && g.o.OuterFast && g.o.Workgroup/g.o.Lanes < s:
		g.joinColumns(accs)
	default:
		g.joinTree(accs)
	}
}

// joinTree joins by a tree in workgroup memory.
func (g *gen) joinTree(accs []accum) {
	vals, idxs := g.arrays(accs, g.o.Workgroup)
	g.publish(accs, vals, idxs, gpuir.NLocal())
	for step := g.o.Lanes / 2; step > 0; step /= 2 {
		body := g.nested(func() {
			from := g.let(g.neighbour(step))
			for i := range accs {
				v, idx := g.get(&accs[i], vals[i], idxs[i], from)
				g.merge(&accs[i], v, idx)
			}
			g.set(accs, vals, idxs, gpuir.NLocal())
		})
		g.emit(gpuir.Stmt{Op: gpuir.SIf, A: gpuir.NLt(g.lane, gpuir.NInt(step)), Body: body})
		g.barrier()
	}
	from := g.let(g.laneSlot(0))
	for i := range accs {
		accs[i].val, accs[i].idx = g.get(&accs[i], vals[i], idxs[i], from)
	}
}

// joinSubgroups joins by shuffles within subgroups, then across them through workgroup memory.
func (g *gen) joinSubgroups(accs []accum) {
	s, lanes := g.o.Subgroup, g.o.Lanes
	g.butterfly(accs, min(lanes, s), 1)
	if lanes <= s {
		return
	}
	vals, idxs := g.arrays(accs, g.o.Workgroup/s)
	g.barrier()
	body := g.nested(func() { g.set(accs, vals, idxs, g.let(gpuir.NDiv(gpuir.NLocal(), gpuir.NInt(s)))) })
	g.emit(gpuir.Stmt{Op: gpuir.SIf, A: gpuir.N(loopir.OpEq, ir.Bool, gpuir.NRem(gpuir.NLocal(), gpuir.NInt(s)),
		gpuir.NInt(0)), Body: body})
	g.barrier()
	n := gpuir.NInt(lanes / s)
	from := g.let(gpuir.NAdd(gpuir.NMul(gpuir.NDiv(gpuir.NLocal(), gpuir.NInt(lanes)), n), gpuir.NRem(gpuir.NLocal(), n)))
	for i := range accs {
		v, idx := g.get(&accs[i], vals[i], idxs[i], from)
		g.assign(accs[i].v, v)
		if idx != nil {
			g.assign(accs[i].i, idx)
		}
	}
	g.butterfly(accs, lanes/s, 1)
}

// joinColumns is joinSubgroups where neighbouring threads have different rows of the kernel, fewer than a subgroup has
// threads.
func (g *gen) joinColumns(accs []accum) {
	s, rows := g.o.Subgroup, g.o.Workgroup/g.o.Lanes
	per, groups := s/rows, g.o.Workgroup/s // lanes of a row in a subgroup, and subgroups
	g.butterfly(accs, per, rows)
	if groups <= 1 {
		return
	}
	vals, idxs := g.arrays(accs, groups*rows)
	g.barrier()
	row, inside := g.let(gpuir.NRem(gpuir.NLocal(), gpuir.NInt(rows))), g.let(gpuir.NRem(gpuir.NLocal(), gpuir.NInt(s)))
	body := g.nested(func() {
		at := gpuir.NAdd(gpuir.NMul(gpuir.NDiv(gpuir.NLocal(), gpuir.NInt(s)), gpuir.NInt(rows)), row)
		g.set(accs, vals, idxs, g.let(at))
	})
	g.emit(gpuir.Stmt{Op: gpuir.SIf, A: gpuir.NLt(inside, gpuir.NInt(rows)), Body: body})
	g.barrier()
	share := min(per, groups) // lanes of a subgroup that have different groups' values
	lane := gpuir.NRem(gpuir.NDiv(inside, gpuir.NInt(rows)), gpuir.NInt(share))
	first := g.let(gpuir.NAdd(gpuir.NMul(lane, gpuir.NInt(rows)), row))
	for n := 0; n < groups; n += share {
		at := g.let(gpuir.NAdd(first, gpuir.NInt(n*rows)))
		for i := range accs {
			v, idx := g.get(&accs[i], vals[i], idxs[i], at)
			if n > 0 {
				g.merge(&accs[i], v, idx)
				continue
			}
			g.assign(accs[i].v, v)
			if idx != nil {
				g.assign(accs[i].i, idx)
			}
		}
	}
	g.butterfly(accs, share, rows)
}

// butterfly joins the accumulators of n threads that are so far apart. Each step joins the same two values in both
// threads of a pair, so that all end with the same bits.
func (g *gen) butterfly(accs []accum, n, apart int) {
	for step := n / 2; step > 0; step /= 2 {
		for i := range accs {
			a := &accs[i]
			v := g.let(gpuir.NShuffle(a.val, step*apart))
			var idx *gpuir.Node
			if a.i >= 0 {
				idx = g.let(gpuir.NShuffle(a.idx, step*apart))
			}
			g.merge(a, v, idx)
		}
	}
}
