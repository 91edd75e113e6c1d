package tile

import (
	"math"

	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/kernels/kir"
)

// FromKernel makes the programs of k in the form o says, one a pass: see [Options.Passes].
func FromKernel(k *kir.Kernel, o Options) ([]*kir.Proc, error) {
	if err := o.check(k); err != nil {
		return nil, err
	}
	var procs []*kir.Proc
	for _, s := range o.Passes(k) {
		g := newGen(k, o)
		switch {
		case o.Across > 0:
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

// gen carries the state of one kernel's generation.
type gen struct {
	k *kir.Kernel
	o Options
	p *kir.Proc
	// out is the block being written.
	out *[]kir.Stmt
	// index[d] is the position along dim d; outer dims are set once, inner ones in loops.
	index  []*kir.Node
	outer  *kir.Node // number of the outer index (of the vector of four, in the four-element form)
	linear *kir.Node // number of the index as the stage sees it
	inner  *kir.Node // number of inner indices
	// from and to are the inner indices that this workgroup visits; part is its number
	// among those that share a row (nil: it has the row alone).
	from, to, part *kir.Node
	active         *kir.Node // whether this thread's outer index exists
	lane           *kir.Node
	// wide: accesses that move are of four elements, and indices count those.
	wide bool
	// isInner[e]: the expression differs between inner indices.
	isInner []bool
	vals    map[int]*kir.Node
	base    map[int]*kir.Node // outer part of an access's address
	philox  map[[3]int]*kir.Node
	acc     map[int]*kir.Node
	accIdx  map[int]*kir.Node
	shared  map[sharedKey]int
	slot    *slot   // the inner index being worked on; nil outside of inner stages
	held    []*slot // of the row, when lanes hold it
	// tiles are the workgroup arrays of operands read in squares; tileAt, when set, is
	// the element of the present index in each.
	tiles  map[int]int
	tileAt *kir.Node
	// given are the values of accesses that are known without a load.
	given map[int]*kir.Node
}

type sharedKey struct {
	t         ir.DType
	n, length int
}

func newGen(k *kir.Kernel, o Options) *gen {
	g := &gen{k: k, o: o, index: make([]*kir.Node, k.Outer+k.Inner),
		acc: map[int]*kir.Node{}, accIdx: map[int]*kir.Node{}, shared: map[sharedKey]int{}, tiles: map[int]int{}}
	g.p = &kir.Proc{Name: k.Name, Params: k.Params, Workgroup: o.Workgroup, Checks: k.Checks}
	for _, b := range k.Bufs {
		g.p.Bufs = append(g.p.Bufs, kir.ProcBuf{Type: b.Type, Access: b.Access, Vec: 1})
	}
	g.out = &g.p.Body
	g.isInner = innerExprs(k)
	g.resetValues()
	return g
}

// resetValues forgets expression values, at the end of their block.
func (g *gen) resetValues() {
	g.vals, g.base, g.philox, g.held = map[int]*kir.Node{}, map[int]*kir.Node{}, map[[3]int]*kir.Node{}, nil
}

// nested runs f with the statements going to a new block, and gives the block.
// Values computed inside do not outlive it.
func (g *gen) nested(f func()) []kir.Stmt {
	var body []kir.Stmt
	saved, vals, base, philox := g.out, g.vals, g.base, g.philox
	g.out, g.vals, g.base, g.philox = &body, clone(vals), clone(base), clone(philox)
	f()
	g.out, g.vals, g.base, g.philox = saved, vals, base, philox
	return body
}

func clone[K comparable, V any](m map[K]V) map[K]V {
	c := make(map[K]V, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
}

func (g *gen) emit(s kir.Stmt) { *g.out = append(*g.out, s) }

// let names a value unless it has a name or is a constant.
func (g *gen) let(n *kir.Node) *kir.Node {
	switch n.Op {
	case kir.OpConst, kir.OpParam, kir.PVar, kir.PHalf, kir.PLocalID, kir.PGroupID:
		return n
	case kir.PSplat:
		if n.Args[0].Op == kir.OpConst || n.Args[0].Op == kir.OpParam {
			return n
		}
	}
	v := g.p.NewVar(n.Type, n.Width)
	g.emit(kir.Stmt{Op: kir.SLet, Var: v, A: n})
	return g.p.NVar(v)
}

// variable defines a mutable variable.
func (g *gen) variable(init *kir.Node) (int, *kir.Node) {
	v := g.p.NewVar(init.Type, init.Width)
	g.emit(kir.Stmt{Op: kir.SVar, Var: v, A: init})
	return v, g.p.NVar(v)
}

// typ is the type in which the device works t.
func (g *gen) typ(t ir.DType) ir.DType {
	if t == ir.I64 && !g.o.I64 {
		return ir.I32
	}
	return t
}

// pairs places a thread in rows of n: neighbours are in one column, and those two apart in one row. Hardware that serves
// 16-byte reads of workgroup memory by quarters of a group of 32 serves two at once when threads one or two apart read
// the same vector.
func (g *gen) pairs(thread *kir.Node, n int) (row, col *kir.Node) {
	pair, two := kir.NInt(2*n), kir.NInt(2)
	row = g.let(kir.NAdd(kir.NMul(kir.NDiv(thread, pair), two), kir.NRem(thread, two)))
	return row, g.let(kir.NDiv(kir.NRem(thread, pair), two))
}

func (g *gen) param(p int) *kir.Node { return kir.NParam(p, ir.I32) }

// sizes is the product of size parameters from..to.
func (g *gen) sizes(from, to int) *kir.Node {
	n := kir.NInt(1)
	for d := from; d < to; d++ {
		n = kir.NMul(n, g.param(d))
	}
	return n
}

// unravel sets index[from:to] from the row-major number n.
func (g *gen) unravel(n *kir.Node, from, to int) {
	for d := to - 1; d > from; d-- {
		size := g.param(d)
		g.index[d] = g.let(kir.NRem(n, size))
		n = g.let(kir.NDiv(n, size))
	}
	if to > from {
		g.index[from] = n
	}
}

// mapKernel: one thread an outer index, or four of them.
func (g *gen) mapKernel() {
	k := g.k
	var all []int
	for d := range k.Outer {
		all = append(all, d)
	}
	if g.o.Each > 1 {
		g.eachKernel(all)
		return
	}
	g.p.Groups = []kir.GroupFactor{{Params: all, Per: int64(g.o.Workgroup * g.o.Vec)}}
	id := g.let(kir.NAdd(kir.NMul(kir.NGroup(), kir.NInt(g.o.Workgroup)), kir.NLocal()))
	n := g.sizes(0, k.Outer)
	if g.o.Vec == 4 {
		g.wide = true
		g.setVectors()
		n = kir.NDiv(n, kir.NInt(4))
	}
	g.outer, g.linear, g.active = id, id, kir.NTrue()
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
	g.emit(kir.Stmt{Op: kir.SIf, A: kir.NLt(id, n), Body: body})
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
func writesLoaded(k *kir.Kernel) bool {
	for _, b := range k.Bufs {
		if b.Access == kir.ReadWrite {
			return true
		}
	}
	return false
}

// needsIndex reports that positions along dims from..to are used.
func needsIndex(k *kir.Kernel, from, to int) bool {
	for _, e := range k.Exprs {
		if e.Op == kir.OpIndex && int(e.Imm) >= from && int(e.Imm) < to {
			return true
		}
	}
	for _, a := range k.Access {
		for d, s := range a.Stride {
			if d >= from && d < to && s != kir.Broadcast {
				return true
			}
		}
	}
	return false
}

// innerExprs marks the expressions that depend on the inner index.
func innerExprs(k *kir.Kernel) []bool {
	in := make([]bool, len(k.Exprs))
	linearInner := false
	for s := range k.Stages {
		if k.Stages[s].OverInner {
			for i, used := range k.Uses(&k.Stages[s]) {
				linearInner = linearInner || used && k.Exprs[i].Op == kir.OpLinear
			}
		}
	}
	for i, e := range k.Exprs {
		switch e.Op {
		case kir.OpIndex:
			in[i] = int(e.Imm) >= k.Outer
		case kir.OpLinear:
			in[i] = linearInner
		case kir.OpLoad:
			in[i] = accessMoves(k, k.Access[e.Imm])
		case kir.OpAccRun:
			in[i] = true
		}
		for _, a := range [...]int{e.A, e.B, e.C} {
			in[i] = in[i] || a >= 0 && in[a]
		}
	}
	return in
}

// accessMoves reports an access that may differ between inner indices. A
// linear one counts as such; used by an outer stage it is computed there all the same.
func accessMoves(k *kir.Kernel, a kir.Access) bool {
	if a.Linear {
		return k.Inner > 0
	}
	for _, s := range a.Stride[k.Outer:] {
		if s != kir.Broadcast {
			return true
		}
	}
	return false
}

// expr gives the value of expression e, computing it in the current block if need be.
func (g *gen) expr(e int) *kir.Node {
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

func (g *gen) make(x kir.Expr) *kir.Node {
	t := g.typ(x.Type)
	if n := g.narrowed(x); n != nil {
		return n
	}
	switch x.Op {
	case kir.OpConst:
		return g.constant(x.Type, x.Imm)
	case kir.OpParam:
		return kir.NParam(int(x.Imm), t)
	case kir.OpIndex:
		return kir.N(kir.OpCast, t, g.index[x.Imm])
	case kir.OpLinear:
		return kir.N(kir.OpCast, t, g.linear)
	case kir.OpLoad:
		return g.load(int(x.Imm), t)
	case kir.OpLoadAt:
		return kir.NLoad(int(x.Imm), t, 1, g.narrow(x.A))
	case kir.OpAcc, kir.OpAccRun:
		return g.acc[int(x.Imm)]
	case kir.OpAccIdx:
		return g.accIdx[int(x.Imm)]
	case kir.OpPhilox:
		return kir.NLane(g.philoxBlock(x), int(x.Imm))
	case kir.OpNarrow:
		return kir.NNarrow(ir.DType(x.Imm), g.expr(x.A))
	case kir.OpCast, kir.OpBitcast:
		a := g.expr(x.A)
		if a.Type == t {
			return a
		}
		return kir.N(x.Op, t, a)
	}
	var args []*kir.Node
	for _, a := range [...]int{x.A, x.B, x.C} {
		if a >= 0 {
			args = append(args, g.expr(a))
		}
	}
	return kir.N(x.Op, t, args...)
}

// constant is a level 1 constant; an I64 worked in I32 saturates, so that
// "the largest index" stays one.
func (g *gen) constant(t ir.DType, bits uint64) *kir.Node {
	if t == ir.I64 && !g.o.I64 {
		v := min(max(int64(bits), math.MinInt32), math.MaxInt32)
		return kir.NInt(int(v))
	}
	return kir.NConst(t, bits)
}

// address is the element of an access at the current index.
func (g *gen) address(n int) *kir.Node {
	a := g.k.Access[n]
	if a.Linear {
		if a.Offset < 0 {
			return g.linear
		}
		if g.wide {
			return kir.NAdd(kir.NDiv(g.param(a.Offset), kir.NInt(4)), g.linear)
		}
		return kir.NAdd(g.param(a.Offset), g.linear)
	}
	at := g.outerBase(n)
	if g.wide && accessMoves(g.k, a) {
		return kir.NAdd(g.let(kir.NDiv(at, kir.NInt(4))), g.index[g.k.Outer])
	}
	for d := g.k.Outer; d < len(a.Stride); d++ {
		at = kir.NAdd(at, g.term(a.Stride[d], d))
	}
	return at
}

func (g *gen) term(stride, dim int) *kir.Node {
	switch stride {
	case kir.Broadcast:
		return kir.NInt(0)
	case kir.Unit:
		return g.index[dim]
	}
	return kir.NMul(g.index[dim], g.param(stride))
}

// outerBase is the part of an affine address that the outer index decides.
func (g *gen) outerBase(n int) *kir.Node {
	if b, ok := g.base[n]; ok {
		return b
	}
	a := g.k.Access[n]
	at := kir.NInt(0)
	if a.Offset >= 0 {
		at = g.param(a.Offset)
	}
	for d := range g.k.Outer {
		at = kir.NAdd(at, g.term(a.Stride[d], d))
	}
	at = g.let(at)
	g.base[n] = at
	return at
}

func (g *gen) load(access int, t ir.DType) *kir.Node {
	a := g.k.Access[access]
	if v, ok := g.given[access]; ok {
		return v
	}
	if s, ok := g.tiles[access]; ok && g.tileAt != nil {
		return g.p.NShared(s, g.tileAt)
	}
	if g.wide && (a.Linear || accessMoves(g.k, a)) {
		return kir.NLoad(a.Buf, t, 4, g.let(g.address(access)))
	}
	return kir.NLoad(a.Buf, t, 1, g.let(g.address(access)))
}

// effects writes the checks and stores of a stage; guard (nil: none) limits
// them to one thread. All values are computed before the first store.
func (g *gen) effects(s *kir.Stage, guard *kir.Node) {
	if guard == nil {
		guard = kir.NTrue()
	}
	type effect struct {
		stmt kir.Stmt
		cond *kir.Node
	}
	var list []effect
	for _, c := range s.Checks {
		failed := g.let(kir.NAnd(guard, kir.N(kir.OpNot, ir.Bool, g.expr(c.Cond))))
		list = append(list, effect{kir.Stmt{Op: kir.SFault, A: failed, B: g.expr(c.Elem)}, kir.NTrue()})
	}
	for _, r := range s.Stores {
		cond := guard
		if r.Guard >= 0 {
			cond = kir.NAnd(guard, g.expr(r.Guard))
		}
		st := kir.Stmt{Op: kir.SStore, Ref: r.Buf, B: g.expr(r.Val)}
		if r.Mode != kir.Set {
			st.Op, st.Mode = kir.SAtomic, r.Mode
		}
		if r.Access >= 0 {
			st.Ref, st.A = g.k.Access[r.Access].Buf, g.let(g.address(r.Access))
		} else {
			st.A = g.let(g.narrow(r.Index))
		}
		if g.wide {
			st.B = kir.NSplat(st.B)
		}
		list = append(list, effect{st, g.let(cond)})
	}
	for _, e := range list {
		if e.cond.Op == kir.OpConst {
			g.emit(e.stmt)
			continue
		}
		g.emit(kir.Stmt{Op: kir.SIf, A: e.cond, Body: []kir.Stmt{e.stmt}})
	}
}
