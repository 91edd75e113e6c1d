package launch

import (
	"math"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Interpret implements Op. It computes in float64; elements are rounded where a matrix is stored.
func (f *FactorBlock) Interpret(params []uint64, bufs [][]byte) (loopir.Fault, error) {
	if err := CheckArguments(f, params, bufs); err != nil {
		return loopir.Fault{}, err
	}
	l := f.Layout()
	x := &blockStep{f: f, l: &l, params: params, bufs: bufs, m: int(params[l.M]), n: int(params[l.N]),
		at: int64(params[l.At])}
	for i := range int64(params[l.Matrices]) {
		x.one(i)
	}
	return x.fault, x.err
}

// blockStep is one interpretation of a FactorBlock.
type blockStep struct {
	f      *FactorBlock
	l      *BlockLayout
	params []uint64
	bufs   [][]byte
	m, n   int
	at     int64
	fault  loopir.Fault
	err    error // the first wrong address
}

func (x *blockStep) inside(buf int, at int64) bool {
	err := loopir.Inside(x.l.Bufs[buf].Type, x.bufs[buf], at)
	if err != nil && x.err == nil {
		x.err = err
	}
	return err == nil
}

// number and setNumber access pivots and status numbers.
func (x *blockStep) number(buf int, at int64) int64 {
	if !x.inside(buf, at) {
		return 0
	}
	return int64(int32(loopir.LoadBits(ir.I32, x.bufs[buf], at)))
}

func (x *blockStep) setNumber(buf int, at, v int64) {
	if t := x.l.Bufs[buf].Type; x.inside(buf, at) {
		loopir.StoreBits(t, x.bufs[buf], at, ir.EncodeInt(t, v))
	}
}

func (x *blockStep) p(i int) int64 { return int64(x.params[i]) }

// place is the element of a matrix of the batch.
func (x *blockStep) place(s *[4]int, matrix int64, i, j int) int64 {
	return x.p(s[3]) + matrix*x.p(s[0]) + int64(i)*x.p(s[1]) + int64(j)*x.p(s[2])
}

func (x *blockStep) read(buf int, s *[4]int, matrix int64, m, n int) mat {
	return build(m, n, func(i, j int) float64 {
		at := x.place(s, matrix, i, j)
		if !x.inside(buf, at) {
			return 0
		}
		return ir.DecodeFloat(ir.F32, loopir.LoadBits(ir.F32, x.bufs[buf], at))
	})
}

func (x *blockStep) write(buf int, s *[4]int, matrix int64, v mat) {
	for i := range v.m {
		for j := range v.n {
			if at := x.place(s, matrix, i, j); x.inside(buf, at) {
				loopir.StoreBits(ir.F32, x.bufs[buf], at, ir.EncodeFloat(ir.F32, *v.at(i, j)))
			}
		}
	}
}

// note keeps the first status of a matrix.
func (x *blockStep) note(matrix int64, status int) {
	if status != 0 && x.number(x.l.BufS, matrix) == 0 {
		x.setNumber(x.l.BufS, matrix, x.at+int64(status))
	}
}

func (x *blockStep) one(matrix int64) {
	l := x.l
	if f := x.f.Op; f == BlockPermutation || f == BlockStatus {
		x.check(matrix)
		return
	}
	if x.f.Op == BlockSwap {
		x.swap(matrix)
		return
	}
	a := x.read(l.BufX, &l.X, matrix, x.m, x.n)
	switch x.f.Op {
	case BlockCholesky:
		x.note(matrix, blockCholesky(a))
	case BlockLU:
		pivots, status := plainLU(a)
		for j, p := range pivots {
			x.setNumber(l.BufPivots, matrix*x.p(l.PivotStride)+x.at+int64(j), x.at+int64(p))
		}
		x.note(matrix, status)
	case BlockTriangular:
		x.substitute(x.read(l.BufY, &l.Y, matrix, x.m, x.m), a)
	case BlockQR:
		v, t := blockQR(a)
		x.write(l.BufY, &l.Y, matrix, v)
		x.write(l.BufZ, &l.Z, matrix, t)
	}
	x.write(l.BufX, &l.X, matrix, a)
}

func (x *blockStep) swap(matrix int64) {
	l := x.l
	a := x.read(l.BufX, &l.X, matrix, x.rows(matrix), x.n)
	for j := range x.m {
		p := int(x.number(l.BufPivots, matrix*x.p(l.PivotStride)+x.at+int64(j))) - 1
		for c := range x.n {
			if c < int(x.p(l.Skip)) || c >= int(x.p(l.Skip)+x.p(l.Width)) {
				u, v := a.at(int(x.at)+j, c), a.at(p, c)
				*u, *v = *v, *u
			}
		}
	}
	x.write(l.BufX, &l.X, matrix, a)
}

// rows is the number of rows that the pivots of a swap reach.
func (x *blockStep) rows(matrix int64) int {
	n := x.at + int64(x.m)
	for j := range x.m {
		n = max(n, x.number(x.l.BufPivots, matrix*x.p(x.l.PivotStride)+x.at+int64(j)))
	}
	return int(n)
}

// check is BlockPermutation and BlockStatus.
func (x *blockStep) check(matrix int64) {
	fail := func(status int64) {
		if status != 0 && !x.fault.Failed {
			x.fault = loopir.Fault{Failed: true, Elem: matrix<<32 | status}
		}
	}
	if x.f.Op == BlockStatus {
		fail(x.number(x.l.BufS, matrix))
		return
	}
	order := make([]int64, x.m)
	for i := range order {
		order[i] = int64(i)
	}
	for i := range x.n {
		p := x.number(x.l.BufPivots, x.p(x.l.Pivots)+matrix*int64(x.n)+int64(i)) - 1
		if p < 0 || p >= int64(x.m) || i >= x.m {
			fail(int64(i) + 1)
			break
		}
		order[i], order[p] = order[p], order[i]
	}
	for i, v := range order {
		x.setNumber(x.l.BufOrder, matrix*int64(x.m)+int64(i), v)
	}
}

// blockCholesky returns the order of the first minor that is not positive, or 0.
func blockCholesky(a mat) (status int) {
	for j := range a.n {
		if d := *a.at(j, j); !(d > 0) && status == 0 {
			status = j + 1
		}
		*a.at(j, j) = math.Sqrt(*a.at(j, j))
		for i := j + 1; i < a.n; i++ {
			*a.at(i, j) /= *a.at(j, j)
			*a.at(j, i) = 0
		}
		for i := j + 1; i < a.n; i++ {
			for c := j + 1; c <= i; c++ {
				*a.at(i, c) -= *a.at(i, j) * *a.at(c, j)
			}
		}
	}
	return status
}

// substitute solves a x = b in place of b.
func (x *blockStep) substitute(a, b mat) {
	for s := range a.n {
		i := s
		if x.f.Upper {
			i = a.n - 1 - s
		}
		for c := range b.n {
			v := *b.at(i, c)
			for q := range s {
				r := q
				if x.f.Upper {
					r = a.n - 1 - q
				}
				v -= *a.at(i, r) * *b.at(r, c)
			}
			if !x.f.Unit {
				v /= *a.at(i, i)
			}
			*b.at(i, c) = v
		}
	}
}

// blockQR reflects a's columns and returns the reflections in columns, and T.
func blockQR(a mat) (v, t mat) {
	v, t = newMat(a.m, a.n), newMat(a.n, a.n)
	for j := range a.n {
		alpha, tail := *a.at(j, j), 0.0
		for i := j + 1; i < a.m; i++ {
			tail = math.Hypot(tail, *a.at(i, j))
		}
		beta, tau, scale := alpha, 0.0, 0.0
		if tail > 0 {
			beta = -math.Copysign(math.Hypot(alpha, tail), alpha)
			tau, scale = (beta-alpha)/beta, 1/(alpha-beta)
		}
		*v.at(j, j) = 1
		for i := j + 1; i < a.m; i++ {
			*v.at(i, j) = *a.at(i, j) * scale
		}
		for c := j + 1; c < a.n; c++ {
			w := tau * dotOf(v.column(j), a.column(c))
			for i := j; i < a.m; i++ {
				*a.at(i, c) -= w * *v.at(i, j)
			}
		}
		*t.at(j, j) = tau
		for r := range j {
			for q := r; q < j; q++ {
				*t.at(r, j) -= tau * *t.at(r, q) * dotOf(v.column(q), v.column(j))
			}
		}
		for i := j + 1; i < a.m; i++ {
			*a.at(i, j) = *v.at(i, j)
		}
		*a.at(j, j) = beta
	}
	return v, t
}
