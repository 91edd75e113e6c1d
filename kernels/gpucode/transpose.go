package gpucode

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// A map that reads some operands along another dim than the one it writes along works on squares over both dims. It
// reads such operands along their contiguous dim into workgroup memory, so that reads and writes touch whole cache
// lines.

const (
	// square is the side of a tile: 128 bytes of float32.
	square = 32
	// squareRow is the length of a row of a tile in workgroup memory. An odd length spreads a column over the banks.
	squareRow = square + 1
	// squareThreads is the number of threads of a workgroup, which gives each four elements of a tile.
	squareThreads = 256
)

// chooseCrossDim is the CrossDim of a map: one more than the dim along which some operands are better read; 0: none.
func chooseCrossDim(k *loopir.Kernel, params []uint64, caps Caps) int {
	if caps.Software || caps.MaxThreads < squareThreads || k.Inner != 0 || k.Outer < 2 || k.Checks || writesLoaded(k) {
		return 0
	}
	// A narrower tile reads less of each row than a sector of 32 bytes.
	const least = 8
	if params[k.Outer-1] < least {
		return 0
	}
	for d := range k.Outer - 1 {
		if params[d] >= least && len(staged(k, d)) > 0 {
			return d + 1
		}
	}
	return 0
}

// staged lists the accesses that are contiguous along dim d and not along the last: at most two, which fit workgroup
// memory.
func staged(k *loopir.Kernel, d int) []int {
	loaded := make([]bool, len(k.Access))
	for _, e := range k.Exprs {
		if e.Op == loopir.OpLoad {
			loaded[e.Imm] = true
		}
	}
	var list []int
	for n, a := range k.Access {
		if loaded[n] && !a.Linear && a.Stride[d] == loopir.Unit && a.Stride[k.Outer-1] >= 0 && len(list) < 2 {
			list = append(list, n)
		}
	}
	return list
}

// squareKernel makes the map in squares over dim CrossDim-1 and the last.
func (g *gen) squareKernel() {
	k, d, last := g.k, g.o.CrossDim-1, g.k.Outer-1
	d0, last0 := g.placeSquare(d, last)
	across, down := g.let(gpuir.NRem(gpuir.NLocal(), gpuir.NInt(square))),
		g.let(gpuir.NDiv(gpuir.NLocal(), gpuir.NInt(square)))
	const rows = squareThreads / square
	// at sets the index to (x along dx, y along dy), clamped to the tensor, and returns whether it lies inside.
	at := func(dx int, x *gpuir.Node, dy int, y *gpuir.Node) *gpuir.Node {
		inside := gpuir.NTrue()
		for _, p := range []struct {
			dim int
			at  *gpuir.Node
		}{{dx, x}, {dy, y}} {
			v, size := g.let(p.at), g.param(p.dim)
			inside = gpuir.NAnd(inside, gpuir.NLt(v, size))
			g.index[p.dim] = g.let(gpuir.N(loopir.OpMin, ir.I32, v, gpuir.NSub(size, gpuir.NInt(1))))
		}
		return g.let(inside)
	}
	var fill []gpuir.Stmt
	for i := range square / rows {
		y := g.let(gpuir.NAdd(down, gpuir.NInt(i*rows)))
		at(d, gpuir.NAdd(d0, across), last, gpuir.NAdd(last0, y))
		g.base = map[int]*gpuir.Node{}
		for _, access := range staged(k, d) {
			v := g.let(g.load(access, g.accessType(access)))
			to := g.let(gpuir.NAdd(gpuir.NMul(y, gpuir.NInt(squareRow)), across))
			fill = append(fill, gpuir.Stmt{Op: gpuir.SSharedSet, Ref: g.tile(access), A: to, B: v})
		}
	}
	*g.out = append(*g.out, fill...)
	g.barrier()
	for i := range square / rows {
		*g.out = append(*g.out, g.nested(func() {
			g.base = map[int]*gpuir.Node{}
			y := g.let(gpuir.NAdd(down, gpuir.NInt(i*rows)))
			inside := at(last, gpuir.NAdd(last0, across), d, gpuir.NAdd(d0, y))
			g.tileAt = g.let(gpuir.NAdd(gpuir.NMul(across, gpuir.NInt(squareRow)), y))
			g.linear = gpuir.NInt(0)
			for dim := range k.Outer {
				g.linear = gpuir.NAdd(gpuir.NMul(g.linear, g.param(dim)), g.index[dim])
			}
			g.linear = g.let(g.linear)
			for s := range k.Stages {
				g.effects(&k.Stages[s], inside)
			}
		})...)
	}
}

// placeSquare sets the index along the other dims, and returns where the tile begins.
func (g *gen) placeSquare(d, last int) (d0, last0 *gpuir.Node) {
	tiles := func(dim int) *gpuir.Node {
		return g.let(gpuir.NDiv(gpuir.NAdd(g.param(dim), gpuir.NInt(square-1)), gpuir.NInt(square)))
	}
	var others []int
	for dim := range g.k.Outer {
		if dim != d && dim != last {
			others = append(others, dim)
		}
	}
	g.p.Groups = []gpuir.GroupFactor{{Params: others, Per: 1}, {Params: []int{d}, Per: square},
		{Params: []int{last}, Per: square}}
	n := gpuir.NGroup()
	next := func(count *gpuir.Node) *gpuir.Node {
		i := g.let(gpuir.NRem(n, count))
		n = g.let(gpuir.NDiv(n, count))
		return i
	}
	last0 = g.let(gpuir.NMul(next(tiles(last)), gpuir.NInt(square)))
	d0 = g.let(gpuir.NMul(next(tiles(d)), gpuir.NInt(square)))
	for i := len(others) - 1; i >= 0; i-- {
		if i == 0 {
			g.index[others[0]] = n
			break
		}
		g.index[others[i]] = next(g.param(others[i]))
	}
	return d0, last0
}

// tile is the workgroup array that holds the tile of an access.
func (g *gen) tile(access int) int {
	if s, ok := g.tiles[access]; ok {
		return s
	}
	g.p.Shared = append(g.p.Shared, gpuir.SharedArray{Type: g.accessType(access), Len: square * squareRow, Vec: 1})
	g.tiles[access] = len(g.p.Shared) - 1
	return g.tiles[access]
}

// accessType is the dtype in which the values of an access are computed.
func (g *gen) accessType(access int) ir.DType {
	return g.typ(g.k.Bufs[g.k.Access[access].Buf].Type.ComputeType())
}
