package gpucode

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// FactorBlockOptions decide the form of a step of a factorisation.
type FactorBlockOptions struct {
	Threads int // of a workgroup, a power of two
	Columns int // threads along a row, a power of two; the others are along columns
	// Cells is the room in workgroup memory for the matrix, in elements; with 0 it stays in its buffer.
	Cells int
	I64   bool // the device has 64-bit integers; otherwise I64 is computed in I32
}

// swapThreads is the number of columns that a workgroup exchanges rows of, and the threads of small steps.
const swapThreads = 64

// triangularColumns is the number of columns of the right-hand side that a workgroup solves.
const triangularColumns = 32

// FactorSide is the number of rows of the triangles that steps take, and of the matrices of BlockCholesky.
func FactorSide(caps Caps) int64 {
	if caps.withDefaults().MaxWorkgroupBytes >= 32768 {
		return 64
	}
	return 32
}

// ChooseFactorBlock picks the options of f launched with params.
func ChooseFactorBlock(f *launch.FactorBlock, params []uint64, caps Caps) FactorBlockOptions {
	caps = caps.withDefaults()
	l := f.Layout()
	m, n := int(min(params[l.M], math.MaxInt32)), int(min(params[l.N], math.MaxInt32))
	o := FactorBlockOptions{Threads: swapThreads, Columns: 1, I64: caps.I64}
	most := caps.MaxThreads
	if caps.Software {
		most = swapThreads
	}
	power := func(n int) int { return 1 << bits.Len(uint(max(n, 1)-1)) }
	switch f.Op {
	case launch.BlockTriangular:
		o.Columns, o.Threads = triangularColumns, min(most, max(64, 4*power(m)))
		o.Cells = power(m) * power(m)
	case launch.BlockCholesky:
		o.Columns = power(n)
		o.Threads, o.Cells = min(most, max(64, o.Columns*o.Columns/8)), o.Columns*o.Columns
	case launch.BlockLU, launch.BlockQR:
		o.Columns = power(n)
		o.Threads = max(64, o.Columns, min(most, power(m*o.Columns/8)))
		if cells := power(m * n); 4*cells+panelBytes(f.Op, o) <= caps.MaxWorkgroupBytes {
			o.Cells = cells
		}
	case launch.BlockPermutation:
		if cells := power(m); 4*cells+4*swapThreads <= caps.MaxWorkgroupBytes {
			o.Cells = cells
		}
	}
	return o
}

// panelBytes is the workgroup memory of a panel beside the matrix.
func panelBytes(op launch.BlockOp, o FactorBlockOptions) int {
	if op == launch.BlockLU {
		return 8 * o.Threads
	}
	return 12*o.Threads + 4*o.Columns*(o.Columns+1) + 16
}

// FromFactorBlock makes the program of f with the options o. One workgroup works on one matrix, or on some columns of
// it: threads share the rows and columns that a pivot changes, and wait for each other between pivots.
func FromFactorBlock(f *launch.FactorBlock, o FactorBlockOptions) (*gpuir.Program, error) {
	if o.Threads <= 0 || o.Columns <= 0 || o.Threads%o.Columns != 0 || o.Threads&(o.Threads-1) != 0 {
		return nil, fmt.Errorf("gpucode: factor: %d threads in rows of %d", o.Threads, o.Columns)
	}
	l := f.Layout()
	p := newProgram(f.Label(), l.Params, l.Bufs, o.Threads)
	p.Groups = []gpuir.GroupFactor{{Params: []int{l.Matrices}, Per: 1}}
	w := &factorGen{gen: gen{p: p, o: Options{I64: o.I64}, out: &p.Body, shared: map[sharedKey]int{}}, f: f, fo: o, l: l,
		cells: -1, matrix: gpuir.NGroup()}
	w.resetValues()
	w.m, w.n = w.param(l.M), w.param(l.N)
	w.row, w.col = w.let(gpuir.NDiv(gpuir.NLocal(), gpuir.NInt(o.Columns))),
		w.let(gpuir.NRem(gpuir.NLocal(), gpuir.NInt(o.Columns)))
	switch f.Op {
	case launch.BlockCholesky:
		w.cholesky()
	case launch.BlockLU:
		w.panelLU()
	case launch.BlockSwap:
		w.swap()
	case launch.BlockTriangular:
		w.triangular()
	case launch.BlockQR:
		w.panelQR()
	case launch.BlockPermutation:
		w.permutation()
	case launch.BlockStatus:
		w.status()
	}
	return p, nil
}

// factorGen generates one step of a factorisation.
type factorGen struct {
	gen
	f        *launch.FactorBlock
	fo       FactorBlockOptions
	l        launch.BlockLayout
	matrix   *gpuir.Node // number of the matrix
	m, n     *gpuir.Node
	row, col *gpuir.Node // of this thread in the workgroup
	base     *gpuir.Node // of X
	cells    int         // workgroup array of X; -1: X stays in its buffer
}

func (w *factorGen) i32(op loopir.Op, x, y *gpuir.Node) *gpuir.Node { return gpuir.N(op, ir.I32, x, y) }
func (w *factorGen) f32(op loopir.Op, x ...*gpuir.Node) *gpuir.Node {
	return w.let(gpuir.N(op, ir.F32, x...))
}
func (w *factorGen) when(c *gpuir.Node, f func()) {
	w.emit(gpuir.Stmt{Op: gpuir.SIf, A: c, Body: w.nested(f)})
}

// leads is true in the first thread.
func (w *factorGen) leads() *gpuir.Node { return gpuir.NLt(gpuir.NLocal(), gpuir.NInt(1)) }

// sync is a barrier for what threads share of X.
func (w *factorGen) sync() {
	ref := 1
	if w.cells >= 0 {
		ref = 0
	}
	w.emit(gpuir.Stmt{Op: gpuir.SBarrier, Ref: ref})
}

// first is the offset of this workgroup's matrix.
func (w *factorGen) first(s *[4]int) *gpuir.Node {
	return w.let(gpuir.NAdd(w.param(s[3]), gpuir.NMul(w.matrix, w.param(s[0]))))
}

func (w *factorGen) place(base *gpuir.Node, s *[4]int, i, j *gpuir.Node) *gpuir.Node {
	return w.let(gpuir.NAdd(base, gpuir.NAdd(gpuir.NMul(i, w.param(s[1])), gpuir.NMul(j, w.param(s[2])))))
}

func (w *factorGen) fromBuffer(i, j *gpuir.Node) *gpuir.Node {
	return w.let(gpuir.NLoad(w.l.BufX, ir.F32, 1, w.place(w.base, &w.l.X, i, j)))
}

func (w *factorGen) toBuffer(i, j, v *gpuir.Node) {
	w.emit(gpuir.Stmt{Op: gpuir.SStore, Ref: w.l.BufX, A: w.place(w.base, &w.l.X, i, j), B: v})
}

// get and set access an element of X where the step keeps it.
func (w *factorGen) get(i, j *gpuir.Node) *gpuir.Node {
	if w.cells < 0 {
		return w.fromBuffer(i, j)
	}
	return w.let(w.p.NShared(w.cells, w.let(gpuir.NAdd(gpuir.NMul(i, w.n), j))))
}

func (w *factorGen) set(i, j, v *gpuir.Node) {
	if w.cells < 0 {
		w.toBuffer(i, j, v)
		return
	}
	w.emit(gpuir.Stmt{Op: gpuir.SSharedSet, Ref: w.cells, A: w.let(gpuir.NAdd(gpuir.NMul(i, w.n), j)), B: v})
}

// rows calls body for the rows of this thread from row `from` on.
func (w *factorGen) rows(from *gpuir.Node, body func(i *gpuir.Node)) {
	w.loop(w.let(gpuir.NAdd(from, w.row)), w.m, gpuir.NInt(w.fo.Threads/w.fo.Columns), body)
}

// tall calls body for every Threads-th row from row `from` on: threads are along one column.
func (w *factorGen) tall(from *gpuir.Node, body func(i *gpuir.Node)) {
	w.loop(w.let(gpuir.NAdd(from, gpuir.NLocal())), w.m, gpuir.NInt(w.fo.Threads), body)
}

// elements calls body for the elements of X that this thread has.
func (w *factorGen) elements(body func(i *gpuir.Node)) {
	w.when(gpuir.NLt(w.col, w.n), func() { w.rows(gpuir.NInt(0), body) })
}

// enter brings X into workgroup memory, where it has room there.
func (w *factorGen) enter() {
	w.base = w.first(&w.l.X)
	if w.fo.Cells == 0 {
		return
	}
	cells := w.array(ir.F32, 9, w.fo.Cells)
	w.elements(func(i *gpuir.Node) {
		v := w.fromBuffer(i, w.col)
		w.cells = cells
		w.set(i, w.col, v)
		w.cells = -1
	})
	w.cells = cells
	w.sync()
}

// leave brings X back.
func (w *factorGen) leave() {
	if w.cells >= 0 {
		w.elements(func(i *gpuir.Node) { w.toBuffer(i, w.col, w.get(i, w.col)) })
	}
}

// note keeps the first status of the matrix; 0 is none.
func (w *factorGen) note(status *gpuir.Node) {
	here := gpuir.NLoad(w.l.BufS, ir.I32, 1, w.matrix)
	zero := gpuir.NInt(0)
	w.when(w.leads(), func() {
		w.when(gpuir.NAnd(gpuir.N(loopir.OpNe, ir.Bool, status, zero), gpuir.N(loopir.OpEq, ir.Bool, here, zero)), func() {
			w.emit(gpuir.Stmt{Op: gpuir.SStore, Ref: w.l.BufS, A: w.matrix, B: status})
		})
	})
}

// joinAll combines values of all threads by a tree; every thread gets the result. join combines the
// values x and y of two threads.
func (w *factorGen) joinAll(values []*gpuir.Node, join func(x, y []*gpuir.Node) []*gpuir.Node) []*gpuir.Node {
	var arrays []int
	for i, v := range values {
		arrays = append(arrays, w.array(v.Type, i, w.fo.Threads))
	}
	set := func(v []*gpuir.Node) {
		for i, a := range arrays {
			w.emit(gpuir.Stmt{Op: gpuir.SSharedSet, Ref: a, A: gpuir.NLocal(), B: v[i]})
		}
	}
	get := func(at *gpuir.Node) (v []*gpuir.Node) {
		for _, a := range arrays {
			v = append(v, w.let(w.p.NShared(a, at)))
		}
		return v
	}
	set(values)
	w.barrier()
	for step := w.fo.Threads / 2; step > 0; step /= 2 {
		w.when(gpuir.NLt(gpuir.NLocal(), gpuir.NInt(step)), func() {
			set(join(get(gpuir.NLocal()), get(w.let(gpuir.NAdd(gpuir.NLocal(), gpuir.NInt(step))))))
		})
		w.barrier()
	}
	all := get(gpuir.NInt(0))
	w.barrier()
	return all
}

// cholesky keeps columns without their scale until the end, so that there is one barrier for each.
func (w *factorGen) cholesky() {
	w.enter()
	one, zero := gpuir.NFloat(ir.F32, 1), gpuir.NFloat(ir.F32, 0)
	root := func(j *gpuir.Node) (d, r *gpuir.Node) {
		d = w.get(j, j)
		return d, w.f32(loopir.OpDiv, one, w.f32(loopir.OpSqrt, d))
	}
	bad, badNow := w.variable(gpuir.NInt(0))
	w.loop(gpuir.NInt(0), w.n, gpuir.NInt(1), func(j *gpuir.Node) {
		d, r := root(j)
		next := w.let(gpuir.NAdd(j, gpuir.NInt(1)))
		negative := gpuir.N(loopir.OpNot, ir.Bool, gpuir.NLt(zero, d))
		w.when(gpuir.NAnd(negative, gpuir.N(loopir.OpEq, ir.Bool, badNow, gpuir.NInt(0))), func() {
			w.assign(bad, gpuir.NAdd(w.param(w.l.At), next))
		})
		w.when(gpuir.NAnd(gpuir.NLt(j, w.col), gpuir.NLt(w.col, w.n)), func() {
			mine := w.f32(loopir.OpMul, w.get(w.col, j), r)
			w.rows(next, func(i *gpuir.Node) {
				w.when(gpuir.N(loopir.OpLe, ir.Bool, w.col, i), func() {
					l := w.f32(loopir.OpMul, w.get(i, j), r)
					w.set(i, w.col, gpuir.NSub(w.get(i, w.col), gpuir.NMul(l, mine)))
				})
			})
		})
		w.sync()
	})
	w.elements(func(i *gpuir.Node) {
		d, r := root(w.col)
		v := gpuir.N(loopir.OpSelect, ir.F32, gpuir.N(loopir.OpEq, ir.Bool, i, w.col), w.f32(loopir.OpSqrt, d),
			w.f32(loopir.OpMul, w.get(i, w.col), r))
		w.toBuffer(i, w.col, w.f32(loopir.OpSelect, gpuir.NLt(i, w.col), zero, w.let(v)))
	})
	w.note(badNow)
}

// swap exchanges rows of a column in each thread.
func (w *factorGen) swap() {
	l := &w.l
	w.p.Groups = append(w.p.Groups, gpuir.GroupFactor{Params: []int{l.N}, Per: int64(w.fo.Threads)})
	parts := w.let(gpuir.NDiv(gpuir.NAdd(w.n, gpuir.NInt(w.fo.Threads-1)), gpuir.NInt(w.fo.Threads)))
	w.matrix = w.let(gpuir.NDiv(gpuir.NGroup(), parts))
	w.base = w.first(&l.X)
	c := w.let(gpuir.NAdd(gpuir.NMul(gpuir.NRem(gpuir.NGroup(), parts), gpuir.NInt(w.fo.Threads)), gpuir.NLocal()))
	from := w.param(l.Skip)
	skipped := gpuir.NAnd(gpuir.N(loopir.OpLe, ir.Bool, from, c), gpuir.NLt(c, gpuir.NAdd(from, w.param(l.Width))))
	w.when(gpuir.NAnd(gpuir.NLt(c, w.n), gpuir.N(loopir.OpNot, ir.Bool, skipped)), func() {
		first := w.let(gpuir.NAdd(gpuir.NMul(w.matrix, w.param(l.PivotStride)), w.param(l.At)))
		w.loop(gpuir.NInt(0), w.m, gpuir.NInt(1), func(j *gpuir.Node) {
			to := w.let(gpuir.NSub(gpuir.NLoad(l.BufPivots, ir.I32, 1, w.let(gpuir.NAdd(first, j))), gpuir.NInt(1)))
			at := w.let(gpuir.NAdd(w.param(l.At), j))
			w.when(gpuir.N(loopir.OpNe, ir.Bool, to, at), func() {
				x, y := w.fromBuffer(at, c), w.fromBuffer(to, c)
				w.toBuffer(at, c, y)
				w.toBuffer(to, c, x)
			})
		})
	})
}

// triangular solves some columns of a right-hand side. Rows keep their scale until the end, so that each has one
// barrier.
func (w *factorGen) triangular() {
	l := &w.l
	c := gpuir.NInt(triangularColumns)
	w.p.Groups = append(w.p.Groups, gpuir.GroupFactor{Params: []int{l.N}, Per: triangularColumns})
	parts := w.let(gpuir.NDiv(gpuir.NAdd(w.n, gpuir.NInt(triangularColumns-1)), c))
	w.matrix = w.let(gpuir.NDiv(gpuir.NGroup(), parts))
	w.base = w.first(&l.X)
	column := w.let(gpuir.NAdd(gpuir.NMul(gpuir.NRem(gpuir.NGroup(), parts), c), w.col))
	inside := w.let(gpuir.NLt(column, w.n))
	side := 1 << ((bits.Len(uint(w.fo.Cells)) - 1) / 2)
	a, x := w.array(ir.F32, 9, w.fo.Cells), w.array(ir.F32, 8, side*triangularColumns)
	base := w.first(&l.Y)
	w.loop(gpuir.NLocal(), w.let(gpuir.NMul(w.m, w.m)), gpuir.NInt(w.fo.Threads), func(e *gpuir.Node) {
		v := w.let(gpuir.NLoad(l.BufY, ir.F32, 1, w.place(base, &l.Y, w.let(gpuir.NDiv(e, w.m)), w.let(gpuir.NRem(e, w.m)))))
		w.emit(gpuir.Stmt{Op: gpuir.SSharedSet, Ref: a, A: e, B: v})
	})
	cell := func(i *gpuir.Node) *gpuir.Node { return w.let(gpuir.NAdd(gpuir.NMul(i, c), w.col)) }
	put := func(i, v *gpuir.Node) { w.emit(gpuir.Stmt{Op: gpuir.SSharedSet, Ref: x, A: cell(i), B: v}) }
	zero, one := gpuir.NInt(0), gpuir.NInt(1)
	w.when(inside, func() { w.rows(zero, func(i *gpuir.Node) { put(i, w.fromBuffer(i, column)) }) })
	w.barrier()
	coefficient := func(i, j *gpuir.Node) *gpuir.Node {
		return w.let(w.p.NShared(a, w.let(gpuir.NAdd(gpuir.NMul(i, w.m), j))))
	}
	solved := func(i *gpuir.Node) *gpuir.Node {
		v := w.let(w.p.NShared(x, cell(i)))
		if w.f.Unit {
			return v
		}
		return w.f32(loopir.OpDiv, v, coefficient(i, i))
	}
	w.loop(zero, w.m, one, func(s *gpuir.Node) {
		i, from, to := s, w.let(gpuir.NAdd(s, one)), w.m
		if w.f.Upper {
			i = w.let(gpuir.NSub(gpuir.NSub(w.m, one), s))
			from, to = zero, i
		}
		w.when(inside, func() {
			v := solved(i)
			w.loop(w.let(gpuir.NAdd(from, w.row)), to, gpuir.NInt(w.fo.Threads/triangularColumns), func(r *gpuir.Node) {
				put(r, gpuir.NSub(w.let(w.p.NShared(x, cell(r))), w.f32(loopir.OpMul, coefficient(r, i), v)))
			})
		})
		w.barrier()
	})
	w.when(inside, func() { w.rows(zero, func(i *gpuir.Node) { w.toBuffer(i, column, solved(i)) }) })
}

// status reports the first matrix that has a status.
func (w *factorGen) status() {
	w.p.Checks, w.p.Groups = true, []gpuir.GroupFactor{{Params: []int{w.l.Matrices}, Per: math.MaxInt32}}
	least, leastNow := w.variable(gpuir.NInt(math.MaxInt32))
	of := func(i *gpuir.Node) *gpuir.Node { return w.let(gpuir.NLoad(w.l.BufS, ir.I32, 1, i)) }
	low := func(x, y *gpuir.Node) *gpuir.Node { return w.let(w.i32(loopir.OpMin, x, y)) }
	w.loop(gpuir.NLocal(), w.param(w.l.Matrices), gpuir.NInt(w.fo.Threads), func(i *gpuir.Node) {
		w.when(gpuir.N(loopir.OpNe, ir.Bool, of(i), gpuir.NInt(0)), func() { w.assign(least, low(leastNow, i)) })
	})
	first := w.joinAll([]*gpuir.Node{leastNow}, func(x, y []*gpuir.Node) []*gpuir.Node {
		return []*gpuir.Node{low(x[0], y[0])}
	})[0]
	w.when(gpuir.NAnd(w.leads(), gpuir.NLt(first, gpuir.NInt(math.MaxInt32))), func() {
		w.emit(gpuir.Stmt{Op: gpuir.SFault, A: gpuir.NTrue(), B: of(first), C: first})
	})
}

// permutation exchanges numbers in the first thread; the others fetch its pivots.
func (w *factorGen) permutation() {
	w.p.Checks = true
	l, t := &w.l, gpuir.NInt(w.fo.Threads)
	order := w.let(gpuir.NMul(w.matrix, w.m))
	cells := -1
	if w.fo.Cells > 0 {
		cells = w.array(ir.I32, 9, w.fo.Cells)
	}
	w.cells = cells
	wide := func(v *gpuir.Node) *gpuir.Node { return gpuir.N(loopir.OpCast, w.typ(ir.I64), v) }
	put := func(i, v *gpuir.Node) {
		if cells >= 0 {
			w.emit(gpuir.Stmt{Op: gpuir.SSharedSet, Ref: cells, A: i, B: v})
			return
		}
		w.emit(gpuir.Stmt{Op: gpuir.SStore, Ref: l.BufOrder, A: w.let(gpuir.NAdd(order, i)), B: wide(v)})
	}
	of := func(i *gpuir.Node) *gpuir.Node {
		if cells >= 0 {
			return w.let(w.p.NShared(cells, i))
		}
		v := w.let(gpuir.NLoad(l.BufOrder, w.typ(ir.I64), 1, w.let(gpuir.NAdd(order, i))))
		return w.let(gpuir.N(loopir.OpCast, ir.I32, v))
	}
	all := func(n *gpuir.Node, body func(i *gpuir.Node)) { w.loop(gpuir.NLocal(), n, t, body) }
	all(w.m, func(i *gpuir.Node) { put(i, i) })
	pivots := w.array(ir.I32, 8, w.fo.Threads)
	bad, badNow := w.variable(gpuir.NInt(0))
	one := gpuir.NInt(1)
	w.loop(gpuir.NInt(0), w.n, t, func(start *gpuir.Node) {
		w.sync()
		mine := w.let(gpuir.NAdd(start, gpuir.NLocal()))
		w.when(gpuir.NLt(mine, w.n), func() {
			at := w.let(gpuir.NAdd(gpuir.NAdd(w.param(l.Pivots), gpuir.NMul(w.matrix, w.n)), mine))
			w.emit(gpuir.Stmt{Op: gpuir.SSharedSet, Ref: pivots, A: gpuir.NLocal(),
				B: gpuir.NSub(gpuir.NLoad(l.BufPivots, ir.I32, 1, at), one)})
		})
		w.sync()
		w.when(w.leads(), func() {
			count := w.let(w.i32(loopir.OpMin, t, gpuir.NSub(w.n, start)))
			w.loop(gpuir.NInt(0), count, one, func(j *gpuir.Node) {
				i, p := w.let(gpuir.NAdd(start, j)), w.let(w.p.NShared(pivots, j))
				good := gpuir.NAnd(gpuir.NAnd(gpuir.N(loopir.OpLe, ir.Bool, gpuir.NInt(0), p), gpuir.NLt(p, w.m)),
					gpuir.NAnd(gpuir.NLt(i, w.m), gpuir.N(loopir.OpEq, ir.Bool, badNow, gpuir.NInt(0))))
				x := w.nested(func() {
					u, v := of(i), of(p)
					put(i, v)
					put(p, u)
				})
				w.emit(gpuir.Stmt{Op: gpuir.SIf, A: good, Body: x, Else: w.nested(func() {
					w.when(gpuir.N(loopir.OpEq, ir.Bool, badNow, gpuir.NInt(0)), func() { w.assign(bad, gpuir.NAdd(i, one)) })
				})})
			})
		})
	})
	w.sync()
	if cells >= 0 {
		all(w.m, func(i *gpuir.Node) {
			w.emit(gpuir.Stmt{Op: gpuir.SStore, Ref: l.BufOrder, A: w.let(gpuir.NAdd(order, i)), B: wide(of(i))})
		})
	}
	w.emit(gpuir.Stmt{Op: gpuir.SFault, A: gpuir.N(loopir.OpNe, ir.Bool, badNow, gpuir.NInt(0)), B: badNow, C: w.matrix})
}
