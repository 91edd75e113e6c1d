package gpucode

import (
	"math"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// FromKernel makes the programs of k with the options o, one for each pass; see [Options.Passes].
func FromKernel(k *loopir.Kernel, o Options) ([]*gpuir.Program, error) {
	if err := o.check(k); err != nil {
		return nil, err
	}
	var procs []*gpuir.Program
	for _, s := range o.Passes(k) {
		g := newGen(k, o)
		switch {
		case o.CrossDim > 0:
			g.squareKernel()
		case k.Inner == 0:
			g.mapKernel()
		default:
			g.rowKernel(s)
		}
		if err := checkShared(g.p, o.MaxWorkgroupBytes); err != nil {
			return nil, err
		}
		procs = append(procs, g.p)
	}
	return procs, nil
}

// gen is the state of the generation of one program.
type gen struct {
	k *loopir.Kernel // the kernel
	o Options        // the options chosen for it
	p *gpuir.Program // the program being made
	// out is the block that statements go to.
	out *[]gpuir.Stmt
	// index[d] is the position along dim d. Outer dims are set once, inner ones in loops.
	index  []*gpuir.Node
	outer  *gpuir.Node // number of the outer index; in the four-element form, of its vector of four
	linear *gpuir.Node // number of the index as the current stage sees it
	inner  *gpuir.Node // number of inner indices
	// from and to bound the inner indices of this workgroup. part is its number among the workgroups that share a row;
	// nil: it has the row alone.
	from, to, part *gpuir.Node
	// columnBases and columnSteps are the parts of addresses of vectors along the last outer dim: what depends on the
	// outer index, by access, and strides.
	columnBases, columnSteps map[int]*gpuir.Node
	active                   *gpuir.Node // whether this thread's outer index exists
	lane                     *gpuir.Node // number of this thread among those that share its row
	// wide: accesses that vary have four elements, and indices count those.
	wide bool
	// inColumns: the stage works on four consecutive indices of the last outer dim (Options.OuterVec).
	inColumns bool
	// isInner[e]: expression e varies between inner indices. isColumn[e]: with OuterVec, along the last outer dim.
	isInner, isColumn []bool
	vals              map[int]*gpuir.Node    // value of an expression, in the current block
	base              map[int]*gpuir.Node    // the outer part of an access's address
	drawn             map[[2]int]*gpuir.Node // the Philox block of the current element, by offset and seed
	acc               map[int]*gpuir.Node    // final value of an accumulator
	accIdx            map[int]*gpuir.Node    // final index of an accumulator
	shared            map[sharedKey]int      // workgroup arrays
	slot              *slot                  // the current inner index; nil outside of inner stages
	held              []*slot                // the row, where lanes hold it in registers
	// tiles are the workgroup arrays of operands read in squares; tileAt, where set, is the element of the current
	// index in each.
	tiles  map[int]int
	tileAt *gpuir.Node
	// given are the values of accesses that are known without a load. scalars are the program's numbers of the kernel's
	// parameters from 1 on, where these are not its own.
	given   map[int]*gpuir.Node
	scalars []int
}

type sharedKey struct {
	t                ir.DType
	n, length, width int
}

// newProgram makes a program without statements, whose buffers have single elements.
func newProgram(name string, params []loopir.Param, bufs []loopir.Buf, threads int) *gpuir.Program {
	p := &gpuir.Program{Name: name, Params: params, Workgroup: threads}
	for _, b := range bufs {
		p.Bufs = append(p.Bufs, gpuir.Buf{Type: b.Type, Access: b.Access, Vec: 1})
	}
	return p
}

func newGen(k *loopir.Kernel, o Options) *gen {
	g := &gen{k: k, o: o, index: make([]*gpuir.Node, k.Outer+k.Inner),
		acc: map[int]*gpuir.Node{}, accIdx: map[int]*gpuir.Node{}, shared: map[sharedKey]int{}, tiles: map[int]int{}}
	g.p = newProgram(k.Name, k.Params, k.Bufs, o.Workgroup)
	g.p.Checks = k.Checks
	g.out = &g.p.Body
	g.isInner = innerExprs(k)
	if o.OuterVec {
		g.isColumn = columnExprs(k)
	}
	g.resetValues()
	return g
}

// resetValues forgets expression values at the end of their block.
func (g *gen) resetValues() {
	g.vals, g.base, g.drawn, g.held = map[int]*gpuir.Node{}, map[int]*gpuir.Node{}, map[[2]int]*gpuir.Node{}, nil
	g.columnBases, g.columnSteps = map[int]*gpuir.Node{}, map[int]*gpuir.Node{}
}

// nested runs f with its statements going to a new block, and returns the block. Values computed inside are not used
// after it.
func (g *gen) nested(f func()) []gpuir.Stmt {
	var body []gpuir.Stmt
	saved, vals, base, blocks := g.out, g.vals, g.base, g.drawn
	bases, steps := g.columnBases, g.columnSteps
	g.out, g.vals, g.base, g.drawn = &body, clone(vals), clone(base), clone(blocks)
	g.columnBases, g.columnSteps = clone(bases), clone(steps)
	f()
	g.out, g.vals, g.base, g.drawn = saved, vals, base, blocks
	g.columnBases, g.columnSteps = bases, steps
	return body
}

func clone[K comparable, V any](m map[K]V) map[K]V {
	c := make(map[K]V, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
}

func (g *gen) emit(s gpuir.Stmt) { *g.out = append(*g.out, s) }

// let names a value, unless it has a name or is a constant.
func (g *gen) let(n *gpuir.Node) *gpuir.Node {
	switch n.Op {
	case loopir.OpConst, loopir.OpParam, gpuir.PVar, gpuir.PHalf, gpuir.PLocalID, gpuir.PGroupID:
		return n
	case gpuir.PSplat:
		if n.Args[0].Op == loopir.OpConst || n.Args[0].Op == loopir.OpParam {
			return n
		}
	}
	v := g.p.NewVar(n.Type, n.Width)
	g.emit(gpuir.Stmt{Op: gpuir.SLet, Var: v, A: n})
	return g.p.NVar(v)
}

// variable defines a mutable variable.
func (g *gen) variable(init *gpuir.Node) (int, *gpuir.Node) {
	v := g.p.NewVar(init.Type, init.Width)
	g.emit(gpuir.Stmt{Op: gpuir.SVar, Var: v, A: init})
	return v, g.p.NVar(v)
}

// typ is the dtype in which the device computes t.
func (g *gen) typ(t ir.DType) ir.DType {
	if t == ir.I64 && !g.o.I64 {
		return ir.I32
	}
	return t
}

// pairs places a thread in rows of n: neighbours are in one column, and threads two apart in one row. Hardware that
// serves 16-byte reads of workgroup memory by quarters of a group of 32 serves two quarters at once where threads one
// or two apart read the same vector.
func (g *gen) pairs(thread *gpuir.Node, n int) (row, col *gpuir.Node) {
	pair, two := gpuir.NInt(2*n), gpuir.NInt(2)
	row = g.let(gpuir.NAdd(gpuir.NMul(gpuir.NDiv(thread, pair), two), gpuir.NRem(thread, two)))
	return row, g.let(gpuir.NDiv(gpuir.NRem(thread, pair), two))
}

func (g *gen) param(p int) *gpuir.Node { return gpuir.NParam(p, ir.I32) }

// sizes is the product of size parameters [from, to).
func (g *gen) sizes(from, to int) *gpuir.Node {
	n := gpuir.NInt(1)
	for d := from; d < to; d++ {
		n = gpuir.NMul(n, g.param(d))
	}
	return n
}

// unravel sets index[from:to] from the row-major number n.
func (g *gen) unravel(n *gpuir.Node, from, to int) {
	for d := to - 1; d > from; d-- {
		size := g.param(d)
		g.index[d] = g.let(gpuir.NRem(n, size))
		n = g.let(gpuir.NDiv(n, size))
	}
	if to > from {
		g.index[from] = n
	}
}

// mapKernel gives each thread one outer index, or four.
func (g *gen) mapKernel() {
	k := g.k
	var all []int
	for d := range k.Outer {
		all = append(all, d)
	}
	if g.o.VecPerThread > 1 {
		g.multiVectorMap(all)
		return
	}
	g.p.Groups = []gpuir.GroupFactor{{Params: all, Per: int64(g.o.Workgroup * g.o.Vec)}}
	id := g.let(gpuir.NAdd(gpuir.NMul(gpuir.NGroup(), gpuir.NInt(g.o.Workgroup)), gpuir.NLocal()))
	n := g.sizes(0, k.Outer)
	if g.o.Vec == 4 {
		g.wide = true
		g.setVectors()
		n = gpuir.NDiv(n, gpuir.NInt(4))
	}
	g.outer, g.linear, g.active = id, id, gpuir.NTrue()
	body := g.nested(func() {
		if needsIndex(k, 0, k.Outer) {
			g.unravel(id, 0, k.Outer)
		}
		for s := range k.Stages {
			st := &k.Stages[s]
			g.effects(st, nil)
			if writesLoaded(k) {
				g.resetValues()
			}
		}
	})
	g.emit(gpuir.Stmt{Op: gpuir.SIf, A: gpuir.NLt(id, n), Body: body})
}

// setVectors binds the buffers of four-element accesses as vectors.
func (g *gen) setVectors() {
	for n, used := range wideAccesses(g.k) {
		if used {
			g.p.Bufs[g.k.Access[n].Buf].Vec = 4
		}
	}
}

// writesLoaded reports that some buffer is both loaded and stored.
func writesLoaded(k *loopir.Kernel) bool {
	for _, b := range k.Bufs {
		if b.Access == loopir.ReadWrite {
			return true
		}
	}
	return false
}

// needsIndex reports that positions along dims [from, to) are used.
func needsIndex(k *loopir.Kernel, from, to int) bool {
	for _, e := range k.Exprs {
		if e.Op == loopir.OpIndex && int(e.Imm) >= from && int(e.Imm) < to {
			return true
		}
	}
	for _, a := range k.Access {
		for d, s := range a.Stride {
			if d >= from && d < to && s != loopir.Broadcast {
				return true
			}
		}
	}
	return false
}

// innerExprs marks the expressions that depend on the inner index.
func innerExprs(k *loopir.Kernel) []bool {
	in := make([]bool, len(k.Exprs))
	linearInner := false
	for s := range k.Stages {
		if k.Stages[s].OverInner {
			for i, used := range k.Uses(&k.Stages[s]) {
				linearInner = linearInner || used && k.Exprs[i].Op == loopir.OpLinear
			}
		}
	}
	for i, e := range k.Exprs {
		switch e.Op {
		case loopir.OpIndex:
			in[i] = int(e.Imm) >= k.Outer
		case loopir.OpLinear:
			in[i] = linearInner
		case loopir.OpLoad:
			in[i] = accessMoves(k, k.Access[e.Imm])
		case loopir.OpAccRun:
			in[i] = true
		}
		for _, a := range [...]int{e.A, e.B, e.C} {
			in[i] = in[i] || a >= 0 && in[a]
		}
	}
	return in
}

// accessMoves reports an access that may vary between inner indices. A linear one counts as such; in an outer stage its
// value is computed there all the same.
func accessMoves(k *loopir.Kernel, a loopir.Access) bool {
	if a.Linear {
		return k.Inner > 0
	}
	for _, s := range a.Stride[k.Outer:] {
		if s != loopir.Broadcast {
			return true
		}
	}
	return false
}

// expr returns the value of expression e, and computes it in the current block where it is not known.
func (g *gen) expr(e int) *gpuir.Node {
	vals := g.vals
	if g.slot != nil && g.isInner[e] {
		vals = g.slot.vals
	}
	if n, ok := vals[e]; ok {
		return n
	}
	n := g.let(g.make(g.k.Exprs[e]))
	vals[e] = n
	return n
}

func (g *gen) make(x loopir.Expr) *gpuir.Node {
	t := g.typ(x.Type)
	if n := g.narrowed(x); n != nil {
		return n
	}
	switch x.Op {
	case loopir.OpConst:
		return g.constant(x.Type, x.Imm)
	case loopir.OpParam:
		return gpuir.NParam(g.paramNumber(x), t)
	case loopir.OpIndex:
		return gpuir.N(loopir.OpCast, t, g.index[x.Imm])
	case loopir.OpLinear:
		return gpuir.N(loopir.OpCast, t, g.linear)
	case loopir.OpLoad:
		return g.load(int(x.Imm), t)
	case loopir.OpLoadAt:
		return gpuir.NLoad(int(x.Imm), t, 1, g.narrow(x.A))
	case loopir.OpAcc, loopir.OpAccRun:
		return g.acc[int(x.Imm)]
	case loopir.OpAccIdx:
		return g.accIdx[int(x.Imm)]
	case loopir.OpDraw:
		return g.draw(x)
	case loopir.OpNarrow:
		return gpuir.NNarrow(ir.DType(x.Imm), g.expr(x.A))
	case loopir.OpCast, loopir.OpBitcast:
		a := g.expr(x.A)
		if a.Type == t {
			return a
		}
		return gpuir.N(x.Op, t, a)
	}
	var args []*gpuir.Node
	for _, a := range [...]int{x.A, x.B, x.C} {
		if a >= 0 {
			args = append(args, g.expr(a))
		}
	}
	return gpuir.N(x.Op, t, args...)
}

// paramNumber is the program's number of the parameter that x reads.
func (g *gen) paramNumber(x loopir.Expr) int {
	if g.scalars != nil {
		return g.scalars[x.Imm-1]
	}
	return int(x.Imm)
}

// constant is a constant of the loop IR. Where I64 is computed in I32 it saturates, so that "the largest index" stays
// the largest.
func (g *gen) constant(t ir.DType, bits uint64) *gpuir.Node {
	if t == ir.I64 && !g.o.I64 {
		v := min(max(int64(bits), math.MinInt32), math.MaxInt32)
		return gpuir.NInt(int(v))
	}
	return gpuir.NConst(t, bits)
}

// address is the element of an access at the current index.
func (g *gen) address(n int) *gpuir.Node {
	a := g.k.Access[n]
	if a.Linear {
		if a.Offset < 0 {
			return g.linear
		}
		if g.wide {
			return gpuir.NAdd(gpuir.NDiv(g.param(a.Offset), gpuir.NInt(4)), g.linear)
		}
		return gpuir.NAdd(g.param(a.Offset), g.linear)
	}
	at := g.outerBase(n)
	if g.wide && accessMoves(g.k, a) {
		return gpuir.NAdd(g.let(gpuir.NDiv(at, gpuir.NInt(4))), g.index[g.k.Outer])
	}
	for d := g.k.Outer; d < len(a.Stride); d++ {
		at = gpuir.NAdd(at, g.term(a.Stride[d], d))
	}
	return at
}

func (g *gen) term(stride, dim int) *gpuir.Node {
	switch stride {
	case loopir.Broadcast:
		return gpuir.NInt(0)
	case loopir.Unit:
		return g.index[dim]
	}
	return gpuir.NMul(g.index[dim], g.param(stride))
}

// outerBase is the part of an affine address that depends on the outer index only.
func (g *gen) outerBase(n int) *gpuir.Node {
	if b, ok := g.base[n]; ok {
		return b
	}
	a := g.k.Access[n]
	at := gpuir.NInt(0)
	if a.Offset >= 0 {
		at = g.param(a.Offset)
	}
	for d := range g.k.Outer {
		at = gpuir.NAdd(at, g.term(a.Stride[d], d))
	}
	at = g.let(at)
	g.base[n] = at
	return at
}

func (g *gen) load(access int, t ir.DType) *gpuir.Node {
	a := g.k.Access[access]
	if v, ok := g.given[access]; ok {
		return v
	}
	if s, ok := g.tiles[access]; ok && g.tileAt != nil {
		return g.p.NShared(s, g.tileAt)
	}
	switch {
	case g.wide && (a.Linear || accessMoves(g.k, a)):
		return gpuir.NLoad(a.Buf, t, 4, g.let(g.address(access)))
	case g.inColumns && columnAccess(g.k, a):
		return gpuir.NLoad(a.Buf, t, 4, g.let(g.columnAddress(access)))
	}
	return gpuir.NLoad(a.Buf, t, 1, g.let(g.address(access)))
}

// effects writes the checks and stores of a stage. guard, unless nil, limits them to one thread. All values are
// computed before the first store.
func (g *gen) effects(s *loopir.Stage, guard *gpuir.Node) {
	if guard == nil {
		guard = gpuir.NTrue()
	}
	type effect struct {
		stmt gpuir.Stmt
		cond *gpuir.Node
	}
	var list []effect
	for _, c := range s.Checks {
		failed := g.let(gpuir.NAnd(guard, gpuir.N(loopir.OpNot, ir.Bool, g.expr(c.Cond))))
		list = append(list, effect{gpuir.Stmt{Op: gpuir.SFault, A: failed, B: g.expr(c.Elem)}, gpuir.NTrue()})
	}
	for _, r := range s.Stores {
		cond := guard
		if r.Guard >= 0 {
			cond = gpuir.NAnd(guard, g.expr(r.Guard))
		}
		st := gpuir.Stmt{Op: gpuir.SStore, Ref: r.Buf, B: g.expr(r.Val)}
		if r.Mode != loopir.Set {
			st.Op, st.Mode = gpuir.SAtomic, r.Mode
		}
		if r.Access >= 0 {
			st.Ref, st.A = g.k.Access[r.Access].Buf, g.let(g.address(r.Access))
		} else {
			st.A = g.let(g.narrow(r.Index))
		}
		if g.wide {
			st.B = gpuir.NSplat(st.B)
		}
		list = append(list, effect{st, g.let(cond)})
	}
	for _, e := range list {
		if e.cond.Op == loopir.OpConst {
			g.emit(e.stmt)
			continue
		}
		g.emit(gpuir.Stmt{Op: gpuir.SIf, A: e.cond, Body: []gpuir.Stmt{e.stmt}})
	}
}
