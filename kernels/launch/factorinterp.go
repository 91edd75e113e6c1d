package launch

import (
	"fmt"
	"math"
	"slices"

	"github.com/torchlette/torchlette/ir"

	"github.com/torchlette/torchlette/kernels/loopir"
)

// mat is a matrix, by rows.
type mat struct {
	m, n int
	v    []float64
}

func newMat(m, n int) mat          { return mat{m, n, make([]float64, m*n)} }
func (a mat) at(i, j int) *float64 { return &a.v[i*a.n+j] }
func (a mat) row(i int) []float64  { return a.v[i*a.n : (i+1)*a.n] }
func (a mat) transpose() mat       { return build(a.n, a.m, func(i, j int) float64 { return *a.at(j, i) }) }
func (a mat) clone() mat           { return mat{a.m, a.n, slices.Clone(a.v)} }
func unitMat(n int) mat            { return build(n, n, func(i, j int) float64 { return b2f(i == j) }) }
func (a mat) swapRows(i, j int) {
	for c := range a.n {
		x, y := a.at(i, c), a.at(j, c)
		*x, *y = *y, *x
	}
}
func (a mat) finite() bool {
	return !slices.ContainsFunc(a.v, func(x float64) bool { return math.IsNaN(x - x) })
}
func (a mat) column(j int) (v []float64) { return a.transpose().row(j) }

func b2f(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func build(m, n int, f func(i, j int) float64) mat {
	a := newMat(m, n)
	for i := range m {
		for j := range n {
			*a.at(i, j) = f(i, j)
		}
	}
	return a
}

func dotOf(x, y []float64) (s float64) {
	for i := range x {
		s += x[i] * y[i]
	}
	return s
}

func product(a, b mat) mat {
	bt := b.transpose()
	return build(a.m, b.n, func(i, j int) float64 { return dotOf(a.row(i), bt.row(j)) })
}

// factoring is one interpretation of a Factor.
type factoring struct {
	f              *Factor
	params         []uint64
	bufs           [][]byte
	m, n, k, least int
	fault          loopir.Fault
	err            error // the first wrong address
}

// InterpretFactor computes f over canonical host bytes in float64 by plain algorithms. Results are rounded once, at the
// store.
func InterpretFactor(f *Factor, params []uint64, bufs [][]byte) (loopir.Fault, error) {
	if err := CheckArguments(f, params, bufs); err != nil {
		return loopir.Fault{}, err
	}
	if f.Option&FactorPairs != 0 {
		return loopir.Fault{}, fmt.Errorf("%v of complex matrices: only the CPU's kernels compute it", f.Op)
	}
	x := &factoring{f: f, params: params, bufs: bufs, m: int(params[1]), n: int(params[2]), k: int(params[3])}
	x.least = min(x.m, x.n)
	for i := range int(params[0]) {
		x.one(i)
	}
	return x.fault, x.err
}

// inside notes an element that its buffer does not have.
func (x *factoring) inside(buf int, t ir.DType, at int64) bool {
	err := loopir.Inside(t, x.bufs[buf], at)
	if err != nil && x.err == nil {
		x.err = fmt.Errorf("%v: buffer %d: %w", x.f.Op, buf, err)
	}
	return err == nil
}

func (x *factoring) load(buf int, t ir.DType, at int64) uint64 {
	if !x.inside(buf, t, at) {
		return 0
	}
	return loopir.LoadBits(t, x.bufs[buf], at)
}

func (x *factoring) store(result int, t ir.DType, at int64, bits uint64) {
	if buf := x.f.Op.Inputs() + result; x.inside(buf, t, at) {
		loopir.StoreBits(t, x.bufs[buf], at, bits)
	}
}

// in reads matrix i of an input, out writes one of a result.
func (x *factoring) in(which, i, m, n int) mat {
	return build(m, n, func(r, c int) float64 {
		at := int64(x.params[4+which]) + int64((i*m+r)*n+c)
		return ir.DecodeFloat(x.f.Type, x.load(which, x.f.Type, at))
	})
}

func (x *factoring) out(which, i int, a mat) {
	for e, v := range a.v {
		x.store(which, x.f.Type, int64(i*len(a.v)+e), ir.EncodeFloat(x.f.Type, v))
	}
}

func (x *factoring) ints(which, i int, d ir.DType, v ...int) {
	for e, n := range v {
		x.store(which, d, int64(i*len(v)+e), ir.EncodeInt(d, int64(n)))
	}
}

func (x *factoring) report(i, status int) {
	if x.f.Check && status != 0 && !x.fault.Failed {
		x.fault = loopir.Fault{Failed: true, Elem: int64(i)<<32 | int64(status)}
	}
}

func (x *factoring) one(i int) {
	f := x.f
	option := func(bit int64) bool { return f.Option&bit != 0 }
	switch f.Op {
	case FactorCholesky:
		l, status := plainCholesky(x.in(0, i, x.n, x.n))
		x.out(0, i, l)
		x.ints(1, i, ir.I32, status)
		x.report(i, status)
	case FactorLU:
		a := x.in(0, i, x.m, x.n)
		pivots, status := plainLU(a)
		x.out(0, i, a)
		x.ints(1, i, ir.I32, pivots...)
		x.ints(2, i, ir.I32, status)
		x.report(i, status)
	case FactorPermutation:
		x.permutation(i)
	case FactorSolve:
		a, b := x.in(0, i, x.n, x.n), x.in(1, i, x.n, x.k)
		pivots, status := plainLU(a)
		for r, p := range pivots {
			b.swapRows(r, p-1)
		}
		x.out(0, i, plainTriangular(a, plainTriangular(a, b, false, true), true, false))
		x.out(1, i, a)
		x.ints(2, i, ir.I32, pivots...)
		x.ints(3, i, ir.I32, status)
		x.report(i, status)
	case FactorTriangular:
		x.out(0, i, plainTriangular(x.in(0, i, x.n, x.n), x.in(1, i, x.n, x.k), option(FactorUpper), option(FactorUnit)))
	case FactorQR:
		q, r := plainQR(x.in(0, i, x.m, x.n), option(FactorFull))
		x.out(0, i, q)
		x.out(1, i, r)
	case FactorExp:
		x.out(0, i, plainExp(x.in(0, i, x.n, x.n)))
	case FactorLDL:
		x.ldl(i)
	case FactorLDLSolve:
		x.ldlSolve(i)
	default:
		x.spectrum(i)
	}
}

func (x *factoring) permutation(i int) {
	order := make([]int, x.m)
	for r := range order {
		order[r] = r
	}
	for r := range x.n {
		p := int(int32(x.load(0, ir.I32, int64(x.params[4])+int64(i*x.n+r))))
		if p < 1 || p > x.m {
			x.report(i, r+1)
			break
		}
		order[r], order[p-1] = order[p-1], order[r]
	}
	x.ints(0, i, ir.I64, order...)
}

// spectrum computes the factorisations that iterate.
func (x *factoring) spectrum(i int) {
	a := x.in(0, i, x.m, x.n)
	if !a.finite() {
		x.report(i, NotFinite)
		clear(a.v)
	}
	if x.f.Op == FactorEigh || x.f.Op == FactorPinv && x.f.Option&FactorHermitian != 0 {
		upper := x.f.Op == FactorEigh && x.f.Option&FactorUpper != 0
		whole := a
		a = build(x.n, x.n, func(r, c int) float64 {
			if (r < c) != upper {
				r, c = c, r
			}
			return *whole.at(r, c)
		})
	}
	switch x.f.Op {
	case FactorEigh:
		w, v := plainEigh(a)
		x.out(0, i, mat{1, x.n, w})
		x.out(1, i, v)
	case FactorSVD:
		u, s, vt := plainSVD(a, x.f.Option&FactorFull != 0)
		x.out(0, i, u)
		x.out(1, i, mat{1, x.least, s})
		x.out(2, i, vt)
	case FactorPinv:
		u, s, vt := plainSVD(a, false)
		cut := *x.in(1, i, 1, 1).at(0, 0)
		if x.least > 0 {
			cut = max(cut, *x.in(2, i, 1, 1).at(0, 0)*s[0])
		}
		x.out(0, i, build(x.n, x.m, func(r, c int) (v float64) {
			for j := range s {
				if s[j] > cut {
					v += *vt.at(j, r) / s[j] * *u.at(c, j)
				}
			}
			return v
		}))
	}
}

func plainCholesky(a mat) (l mat, status int) {
	l = newMat(a.n, a.n)
	for i := range a.n {
		for j := range i + 1 {
			s := *a.at(i, j) - dotOf(l.row(i)[:j], l.row(j)[:j])
			switch {
			case i != j:
				*l.at(i, j) = s / *l.at(j, j)
			case s > 0:
				*l.at(i, i) = math.Sqrt(s)
			default:
				return l, i + 1
			}
		}
	}
	return l, 0
}

// plainLU returns the row that was exchanged with each, from 1, and the number of the first pivot that is 0, or 0.
func plainLU(a mat) (pivots []int, status int) {
	for j := range min(a.m, a.n) {
		top := j
		for i := j + 1; i < a.m; i++ {
			if math.Abs(*a.at(i, j)) > math.Abs(*a.at(top, j)) {
				top = i
			}
		}
		pivots = append(pivots, top+1)
		a.swapRows(j, top)
		if *a.at(j, j) == 0 {
			if status == 0 {
				status = j + 1
			}
			continue
		}
		for i := j + 1; i < a.m; i++ {
			*a.at(i, j) /= *a.at(j, j)
			for c := j + 1; c < a.n; c++ {
				*a.at(i, c) -= *a.at(i, j) * *a.at(j, c)
			}
		}
	}
	return pivots, status
}

func plainTriangular(t, b mat, upper, unit bool) mat {
	x := b.clone()
	for s := range t.n {
		i, from, to := s, 0, s
		if upper {
			i = t.n - 1 - s
			from, to = i+1, t.n
		}
		for c := range x.n {
			for j := from; j < to; j++ {
				*x.at(i, c) -= *t.at(i, j) * *x.at(j, c)
			}
			if !unit {
				*x.at(i, c) /= *t.at(i, i)
			}
		}
	}
	return x
}

// plainQR applies Householder reflections to a and to the identity.
func plainQR(a mat, full bool) (q, r mat) {
	r, qt := a.clone(), unitMat(a.m)
	for j := range min(a.m, a.n) {
		v := r.column(j)
		clear(v[:j])
		length := math.Sqrt(dotOf(v, v))
		if length == math.Abs(v[j]) {
			continue
		}
		v[j] += math.Copysign(length, v[j])
		scale := 2 / dotOf(v, v)
		for _, y := range []mat{r, qt} {
			yt := y.transpose()
			for c := range y.n {
				w := scale * dotOf(v, yt.row(c))
				for i := range v {
					*y.at(i, c) -= w * v[i]
				}
			}
		}
	}
	k := min(a.m, a.n)
	if full {
		k = a.m
	}
	return build(a.m, k, func(i, j int) float64 { return *qt.at(j, i) }),
		build(k, a.n, func(i, j int) float64 { return b2f(j >= i) * *r.at(i, j) })
}

func plainExp(a mat) mat {
	norm, squares := 0.0, 0
	for _, v := range a.v {
		norm = max(norm, math.Abs(v)*float64(a.n))
	}
	for ; norm > 0.5 && !math.IsInf(norm, 0); norm /= 2 {
		squares++
	}
	scaled := build(a.n, a.n, func(i, j int) float64 { return math.Ldexp(*a.at(i, j), -squares) })
	e := unitMat(a.n)
	for term := 20; term > 0; term-- {
		p := product(scaled, e)
		e = build(a.n, a.n, func(i, j int) float64 { return *p.at(i, j)/float64(term) + b2f(i == j) })
	}
	for range squares {
		e = product(e, e)
	}
	return e
}

// plainSVD rotates pairs of columns until all are orthogonal: one-sided Jacobi (Hestenes, 1958).
func plainSVD(a mat, full bool) (u mat, s []float64, vt mat) {
	if a.m < a.n {
		v, s, ut := plainSVD(a.transpose(), full)
		return ut.transpose(), s, v.transpose()
	}
	x, turns := a.transpose(), unitMat(a.n) // rows are columns of a
	for sweep := 0; sweep < 60; sweep++ {
		for p := range a.n {
			for q := p + 1; q < a.n; q++ {
				xp, xq := x.row(p), x.row(q)
				angle := math.Atan2(2*dotOf(xp, xq), dotOf(xp, xp)-dotOf(xq, xq)) / 2
				for _, y := range []mat{x, turns} {
					turn(y.row(p), y.row(q), angle)
				}
			}
		}
	}
	order := make([]int, a.n)
	for i := range order {
		order[i] = i
		s = append(s, math.Sqrt(dotOf(x.row(i), x.row(i))))
	}
	slices.SortStableFunc(order, func(i, j int) int { return -cmpFloat(s[i], s[j]) })
	sorted := make([]float64, a.n)
	ut := newMat(a.n, a.m)
	if full {
		ut = newMat(a.m, a.m)
	}
	for i, o := range order {
		sorted[i] = s[o]
		for c := range a.m {
			if s[o] > 0 {
				*ut.at(i, c) = *x.at(o, c) / s[o]
			}
		}
	}
	for i := range ut.m {
		completeRow(ut, i)
	}
	return ut.transpose(), sorted, build(a.n, a.n, func(i, j int) float64 { return *turns.at(order[i], j) })
}

func cmpFloat(x, y float64) int { return int(b2f(x > y)) - int(b2f(x < y)) }

func turn(x, y []float64, angle float64) {
	c, s := math.Cos(angle), math.Sin(angle)
	for i := range x {
		x[i], y[i] = c*x[i]+s*y[i], c*y[i]-s*x[i]
	}
}

// completeRow makes a row of zeros a unit vector orthogonal to the rows above.
func completeRow(a mat, i int) {
	row := a.row(i)
	for axis := 0; dotOf(row, row) < 0.25/float64(a.n); axis++ {
		clear(row)
		row[axis] = 1
		for range 2 {
			for j := range i {
				d := dotOf(row, a.row(j))
				for c, v := range a.row(j) {
					row[c] -= d * v
				}
			}
		}
	}
	length := math.Sqrt(dotOf(row, row))
	for c := range row {
		row[c] /= length
	}
}

// plainEigh takes the singular values of a shifted, positive matrix: a + shift has the eigenvectors of a.
func plainEigh(a mat) (w []float64, v mat) {
	shift := 1.0
	for i := range a.n {
		sum := 0.0
		for _, x := range a.row(i) {
			sum += math.Abs(x)
		}
		shift = max(shift, sum)
	}
	u, s, _ := plainSVD(build(a.n, a.n, func(i, j int) float64 { return *a.at(i, j) + shift*b2f(i == j) }), false)
	for i := range s {
		w = append(w, s[a.n-1-i]-shift)
	}
	return w, build(a.n, a.n, func(i, j int) float64 { return *u.at(i, a.n-1-j) })
}
