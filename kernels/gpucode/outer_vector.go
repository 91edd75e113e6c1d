package gpucode

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Rows whose elements are contiguous along the last outer dim, as in the product of a row with a matrix. With
// Options.OuterVec a thread works on four of these rows: one load of 16 bytes replaces four of 4. A value that is the
// same for all rows, as the other operand and its norm, stays a scalar. The last stage gives each row to a lane.

// CanOuterVec reports that threads may work on four rows of k at a time: the last outer dim is a multiple of four, and
// so are the offsets and strides at which vectors begin.
func CanOuterVec(k *loopir.Kernel, params []uint64) bool {
	if !outerVecForm(k) || params[k.Outer-1]%4 != 0 {
		return false
	}
	for n, used := range columnLoads(k) {
		if used && !aligned(k.Access[n], params, k.Outer-1) {
			return false
		}
	}
	return true
}

// outerVecForm reports that k's text allows it: stages over the inner dims add up floats and store nothing, and one
// stage of the outer dims, the last, does the rest.
func outerVecForm(k *loopir.Kernel) bool {
	last := len(k.Stages) - 1
	if k.NoVec || k.Checks || k.Inner == 0 || k.Outer == 0 || last < 1 || k.Stages[last].OverInner || ordered(k) {
		return false
	}
	for s := range k.Stages[:last] {
		if st := &k.Stages[s]; !st.OverInner || !columnStage(k, st) {
			return false
		}
	}
	return true
}

// columnStage reports that a stage may work on four rows at a time.
func columnStage(k *loopir.Kernel, st *loopir.Stage) bool {
	if st.Prefix || len(st.Stores)+len(st.Checks) > 0 {
		return false
	}
	for _, a := range st.Accs {
		if a.Op.IsArg() || k.Exprs[a.Val].Type != ir.F32 {
			return false
		}
	}
	for i, used := range k.Uses(st) {
		switch e := k.Exprs[i]; {
		case !used:
		case e.Op == loopir.OpLinear, e.Op == loopir.OpLoadAt, e.Op == loopir.OpDraw, e.Op == loopir.OpAccRun,
			e.Op == loopir.OpIndex && int(e.Imm) == k.Outer-1:
			return false
		case e.Op == loopir.OpLoad:
			a := k.Access[e.Imm]
			if a.Linear || !columnAccess(k, a) && a.Stride[k.Outer-1] != loopir.Broadcast || k.Bufs[a.Buf].Type == ir.I64 ||
				columnAccess(k, a) && units(a) > 1 {
				return false
			}
		}
	}
	return true
}

// columnAccess reports an access whose elements are contiguous along the last outer dim.
func columnAccess(k *loopir.Kernel, a loopir.Access) bool {
	return !a.Linear && a.Stride[k.Outer-1] == loopir.Unit
}

// units is the number of dims along which the elements of an access are contiguous.
func units(a loopir.Access) int {
	n := 0
	for _, s := range a.Stride {
		if s == loopir.Unit {
			n++
		}
	}
	return n
}

// columnLoads marks the accesses that stages over the inner dims load as vectors.
func columnLoads(k *loopir.Kernel) []bool {
	list := make([]bool, len(k.Access))
	for s := range k.Stages {
		if !k.Stages[s].OverInner {
			continue
		}
		for i, used := range k.Uses(&k.Stages[s]) {
			if e := k.Exprs[i]; used && e.Op == loopir.OpLoad {
				list[e.Imm] = columnAccess(k, k.Access[e.Imm])
			}
		}
	}
	return list
}

// columnExprs marks the expressions that vary along the last outer dim in stages over the inner dims.
func columnExprs(k *loopir.Kernel) []bool {
	in := make([]bool, len(k.Exprs))
	for i, e := range k.Exprs {
		in[i] = e.Op == loopir.OpLoad && columnAccess(k, k.Access[e.Imm])
		for _, a := range [...]int{e.A, e.B, e.C} {
			in[i] = in[i] || a >= 0 && in[a]
		}
	}
	return in
}

// setColumnVectors binds the buffers that are loaded as vectors.
func (g *gen) setColumnVectors() {
	for n, used := range columnLoads(g.k) {
		if used {
			g.p.Bufs[g.k.Access[n].Buf].Vec = 4
		}
	}
}

// columnBase is the part of the number of the vector that access n loads which depends on the outer index only.
func (g *gen) columnBase(n int) *gpuir.Node {
	at, ok := g.columnBases[n]
	if !ok {
		at = g.let(gpuir.NDiv(g.outerBase(n), gpuir.NInt(4)))
		g.columnBases[n] = at
	}
	for _, s := range g.k.Access[n].Stride[g.k.Outer:] {
		if s >= 0 {
			g.columnStep(s)
		}
	}
	return at
}

// columnStep is a stride in vectors.
func (g *gen) columnStep(stride int) *gpuir.Node {
	step, ok := g.columnSteps[stride]
	if !ok {
		step = g.let(gpuir.NDiv(g.param(stride), gpuir.NInt(4)))
		g.columnSteps[stride] = step
	}
	return step
}

// columnAddress is the number of the vector that access n loads at the current index.
func (g *gen) columnAddress(n int) *gpuir.Node {
	at := g.columnBase(n)
	for d, s := range g.k.Access[n].Stride[g.k.Outer:] {
		if s >= 0 {
			at = gpuir.NAdd(at, gpuir.NMul(g.index[g.k.Outer+d], g.columnStep(s)))
		}
	}
	return at
}

// leaveColumns gives each of the first four lanes one of the four rows, for the stage that stores.
func (g *gen) leaveColumns() {
	g.inColumns = false
	g.resetValues() // those of other rows
	column := g.let(gpuir.N(loopir.OpMin, ir.I32, g.lane, gpuir.NInt(3)))
	last := g.k.Outer - 1
	g.index[last] = g.let(gpuir.NAdd(g.index[last], column))
	g.outer = g.let(gpuir.NAdd(gpuir.NMul(g.outer, gpuir.NInt(4)), column))
	for i, v := range g.acc {
		if v.Width == 4 {
			g.acc[i] = g.element(v, column)
		}
	}
}

// element is the element of a vector whose number is n.
func (g *gen) element(v, n *gpuir.Node) *gpuir.Node {
	x := gpuir.NLane(v, 3)
	for i := 2; i >= 0; i-- {
		here := gpuir.N(loopir.OpEq, ir.Bool, n, gpuir.NInt(i))
		x = g.let(gpuir.N(loopir.OpSelect, v.Type, here, gpuir.NLane(v, i), x))
	}
	return x
}
