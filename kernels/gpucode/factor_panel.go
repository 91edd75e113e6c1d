package gpucode

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// absolute is the greatest absolute value of a column from row `from` on, and its row.
func (w *factorGen) absolute(j, from *gpuir.Node) (most, row *gpuir.Node) {
	v, now := w.variable(gpuir.NFloat(ir.F32, -1))
	at, atNow := w.variable(j)
	w.tall(from, func(i *gpuir.Node) {
		x := w.f32(loopir.OpAbs, w.get(i, j))
		w.when(gpuir.NLt(now, x), func() {
			w.assign(v, x)
			w.assign(at, i)
		})
	})
	best := w.joinAll([]*gpuir.Node{now, atNow}, func(x, y []*gpuir.Node) []*gpuir.Node {
		tie := gpuir.NAnd(gpuir.N(loopir.OpEq, ir.Bool, x[0], y[0]), gpuir.NLt(y[1], x[1]))
		better := w.let(gpuir.N(loopir.OpOr, ir.Bool, gpuir.NLt(x[0], y[0]), tie))
		return []*gpuir.Node{gpuir.N(loopir.OpSelect, ir.F32, better, y[0], x[0]),
			gpuir.N(loopir.OpSelect, ir.I32, better, y[1], x[1])}
	})
	return best[0], best[1]
}

// panelLU keeps columns of L without their scale until the end: the pivot divides where they are read.
func (w *factorGen) panelLU() {
	w.enter()
	l, one, zero := &w.l, gpuir.NInt(1), gpuir.NFloat(ir.F32, 0)
	reciprocal := func(j *gpuir.Node) (pivot, r *gpuir.Node) {
		pivot = w.get(j, j)
		safe := w.f32(loopir.OpSelect, gpuir.N(loopir.OpEq, ir.Bool, pivot, zero), gpuir.NFloat(ir.F32, 1), pivot)
		return pivot, w.f32(loopir.OpDiv, gpuir.NFloat(ir.F32, 1), safe)
	}
	bad, badNow := w.variable(gpuir.NInt(0))
	least := w.let(w.i32(loopir.OpMin, w.m, w.n))
	first := w.let(gpuir.NAdd(gpuir.NMul(w.matrix, w.param(l.PivotStride)), w.param(l.At)))
	w.loop(gpuir.NInt(0), least, one, func(j *gpuir.Node) {
		_, p := w.absolute(j, j)
		next := w.let(gpuir.NAdd(j, one))
		w.when(w.leads(), func() {
			w.emit(gpuir.Stmt{Op: gpuir.SStore, Ref: l.BufPivots, A: w.let(gpuir.NAdd(first, j)),
				B: gpuir.NAdd(gpuir.NAdd(w.param(l.At), p), one)})
		})
		// The first row of threads has one for each column.
		mine := gpuir.NAnd(gpuir.NLt(w.row, one), gpuir.NLt(w.col, w.n))
		w.when(gpuir.NAnd(mine, gpuir.N(loopir.OpNe, ir.Bool, p, j)), func() {
			x, y := w.get(j, w.col), w.get(p, w.col)
			w.set(j, w.col, y)
			w.set(p, w.col, x)
		})
		w.sync()
		pivot, r := reciprocal(j)
		singular := gpuir.NAnd(gpuir.N(loopir.OpEq, ir.Bool, pivot, zero), gpuir.N(loopir.OpEq, ir.Bool, badNow,
			gpuir.NInt(0)))
		w.when(singular, func() { w.assign(bad, gpuir.NAdd(w.param(l.At), next)) })
		w.when(gpuir.NAnd(gpuir.NLt(j, w.col), gpuir.NLt(w.col, w.n)), func() {
			u := w.f32(loopir.OpMul, w.get(j, w.col), r)
			w.rows(next, func(i *gpuir.Node) {
				w.set(i, w.col, gpuir.NSub(w.get(i, w.col), w.f32(loopir.OpMul, w.get(i, j), u)))
			})
		})
		w.sync()
	})
	w.when(gpuir.NLt(w.col, least), func() {
		_, r := reciprocal(w.col)
		w.rows(w.let(gpuir.NAdd(w.col, one)), func(i *gpuir.Node) {
			w.set(i, w.col, w.f32(loopir.OpMul, w.get(i, w.col), r))
		})
	})
	w.sync()
	w.leave()
	w.note(badNow)
}

// reflection is the reflection of column j from row j on onto its first element.
type reflection struct{ beta, tau, scale *gpuir.Node }

// reflect scales the column by its greatest element, so that no square overflows and not all of them underflow.
func (w *factorGen) reflect(j, next *gpuir.Node) reflection {
	zero, one := gpuir.NFloat(ir.F32, 0), gpuir.NFloat(ir.F32, 1)
	most, _ := w.absolute(j, j)
	big := w.f32(loopir.OpSelect, gpuir.NLt(zero, most), most, one)
	part := func(i *gpuir.Node) *gpuir.Node { return w.f32(loopir.OpDiv, w.get(i, j), big) }
	sum, sumNow := w.variable(zero)
	w.tall(next, func(i *gpuir.Node) {
		x := part(i)
		w.assign(sum, gpuir.NAdd(sumNow, gpuir.NMul(x, x)))
	})
	tail := w.joinAll([]*gpuir.Node{sumNow}, func(x, y []*gpuir.Node) []*gpuir.Node {
		return []*gpuir.Node{gpuir.NAdd(x[0], y[0])}
	})[0]
	alpha, a := w.get(j, j), part(j)
	norm := w.f32(loopir.OpMul, big, w.f32(loopir.OpSqrt, gpuir.NAdd(gpuir.NMul(a, a), tail)))
	same := w.let(gpuir.N(loopir.OpEq, ir.Bool, tail, zero))
	choose := func(x, y *gpuir.Node) *gpuir.Node { return w.f32(loopir.OpSelect, same, x, y) }
	beta := choose(alpha, w.f32(loopir.OpSelect, gpuir.NLt(alpha, zero), norm, gpuir.N(loopir.OpNeg, ir.F32, norm)))
	tau := choose(zero, w.f32(loopir.OpDiv, gpuir.NSub(beta, alpha), choose(one, beta)))
	scale := choose(zero, w.f32(loopir.OpDiv, one, choose(one, w.let(gpuir.NSub(alpha, beta)))))
	w.sync()
	return reflection{beta, tau, scale}
}

// panelQR reflects the columns in turn, and multiplies each reflection with all columns. Products with later columns
// update those columns. Products with earlier columns give a column of T (Schreiber and Van Loan, 1989).
func (w *factorGen) panelQR() {
	w.enter()
	c, lanes := w.fo.Columns, w.fo.Threads/w.fo.Columns
	parts, products, t := w.array(ir.F32, 1, w.fo.Threads), w.array(ir.F32, 7, c), w.array(ir.F32, 8, c*c)
	zero, one := gpuir.NInt(0), gpuir.NInt(1)
	cell := func(r, q *gpuir.Node) *gpuir.Node { return w.let(gpuir.NAdd(gpuir.NMul(r, gpuir.NInt(c)), q)) }
	put := func(a int, at, v *gpuir.Node) { w.emit(gpuir.Stmt{Op: gpuir.SSharedSet, Ref: a, A: at, B: v}) }
	from := func(a int, at *gpuir.Node) *gpuir.Node { return w.let(w.p.NShared(a, at)) }
	w.loop(gpuir.NLocal(), gpuir.NInt(c*c), gpuir.NInt(w.fo.Threads), func(e *gpuir.Node) {
		put(t, e, gpuir.NFloat(ir.F32, 0))
	})
	leading := w.let(gpuir.NLt(w.row, one))
	w.barrier()
	w.loop(zero, w.n, one, func(j *gpuir.Node) {
		next := w.let(gpuir.NAdd(j, one))
		h := w.reflect(j, next)
		w.tall(next, func(i *gpuir.Node) { w.set(i, j, gpuir.NMul(w.get(i, j), h.scale)) })
		w.sync()
		sum, sumNow := w.variable(gpuir.NFloat(ir.F32, 0))
		other := w.let(gpuir.NAnd(gpuir.NLt(w.col, w.n), gpuir.N(loopir.OpNe, ir.Bool, w.col, j)))
		w.when(other, func() {
			w.when(leading, func() { w.assign(sum, w.get(j, w.col)) })
			w.rows(next, func(i *gpuir.Node) {
				w.assign(sum, gpuir.NAdd(sumNow, gpuir.NMul(w.get(i, j), w.get(i, w.col))))
			})
		})
		put(parts, gpuir.NLocal(), sumNow)
		w.barrier()
		whole, wholeNow := w.variable(gpuir.NFloat(ir.F32, 0))
		w.loop(zero, gpuir.NInt(lanes), one, func(q *gpuir.Node) {
			w.assign(whole, gpuir.NAdd(wholeNow, from(parts, cell(q, w.col))))
		})
		w.when(gpuir.NAnd(gpuir.NLt(j, w.col), gpuir.NLt(w.col, w.n)), func() {
			u := w.f32(loopir.OpMul, h.tau, wholeNow)
			w.when(leading, func() { w.set(j, w.col, gpuir.NSub(w.get(j, w.col), u)) })
			w.rows(next, func(i *gpuir.Node) {
				w.set(i, w.col, gpuir.NSub(w.get(i, w.col), w.f32(loopir.OpMul, w.get(i, j), u)))
			})
		})
		w.when(leading, func() {
			w.when(gpuir.NLt(w.col, j), func() { put(products, w.col, wholeNow) })
			w.when(gpuir.N(loopir.OpEq, ir.Bool, w.col, j), func() {
				w.set(j, j, h.beta)
				put(t, cell(j, j), h.tau)
			})
		})
		w.sync()
		w.when(gpuir.NLt(gpuir.NLocal(), j), func() {
			v, now := w.variable(gpuir.NFloat(ir.F32, 0))
			r := gpuir.NLocal()
			w.loop(r, j, one, func(q *gpuir.Node) {
				w.assign(v, gpuir.NAdd(now, gpuir.NMul(from(t, cell(r, q)), from(products, q))))
			})
			put(t, cell(r, j), gpuir.NMul(gpuir.N(loopir.OpNeg, ir.F32, h.tau), now))
		})
		w.barrier()
	})
	w.leave()
	w.storeReflections(func(r, q *gpuir.Node) *gpuir.Node { return from(t, cell(r, q)) })
}

// storeReflections stores the reflections with their ones and zeros, and T.
func (w *factorGen) storeReflections(t func(r, q *gpuir.Node) *gpuir.Node) {
	l := &w.l
	y, z := w.first(&l.Y), w.first(&l.Z)
	w.elements(func(i *gpuir.Node) {
		unit := gpuir.N(loopir.OpSelect, ir.F32, gpuir.N(loopir.OpEq, ir.Bool, i, w.col), gpuir.NFloat(ir.F32, 1),
			gpuir.NFloat(ir.F32, 0))
		v := w.f32(loopir.OpSelect, gpuir.NLt(w.col, i), w.get(i, w.col), w.let(unit))
		w.emit(gpuir.Stmt{Op: gpuir.SStore, Ref: l.BufY, A: w.place(y, &l.Y, i, w.col), B: v})
		w.when(gpuir.NLt(i, w.n), func() {
			w.emit(gpuir.Stmt{Op: gpuir.SStore, Ref: l.BufZ, A: w.place(z, &l.Z, i, w.col), B: t(i, w.col)})
		})
	})
}
