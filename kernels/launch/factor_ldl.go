package launch

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/ir"
)

// ldl interprets FactorLDL. Unlike the kernel it exchanges whole rows and columns of the trailing matrix.
func (x *factoring) ldl(i int) {
	a, n, status := x.in(0, i, x.n, x.n), x.n, 0
	for r := range n {
		for c := r + 1; c < n; c++ {
			*a.at(r, c) = *a.at(c, r)
		}
	}
	out, pivots := newMat(n, n), make([]int, n)
	for k := 0; k < n; {
		row, rows := bunchKaufman(a, k)
		if rows == 0 && status == 0 {
			status = k + 1
		}
		last := k + max(rows, 1) - 1
		a.swapRows(last, row)
		for r := range n {
			s, t := a.at(r, last), a.at(r, row)
			*s, *t = *t, *s
		}
		f := eliminate(a, k, rows)
		for r := k; r < n; r++ {
			for c := k; c <= min(last, r); c++ {
				*out.at(r, c) = *a.at(r, c)
				if r > last && rows > 0 {
					*out.at(r, c) = *f.at(r, c-k)
				}
			}
		}
		pivots[k], pivots[last] = row+1, row+1
		if rows == 2 {
			pivots[k], pivots[last] = -row-1, -row-1
		}
		k = last + 1
	}
	x.out(0, i, out)
	x.ints(1, i, ir.I32, pivots...)
	x.ints(2, i, ir.I32, status)
	x.report(i, status)
}

// bunchKaufman chooses the pivot of column k: the row that moves to the end of the block, and the rows of the block, 0
// where the column is zero.
func bunchKaufman(a mat, k int) (row, rows int) {
	largest := func(c, from int) (at int, most float64) {
		at = k
		for r := from; r < a.n; r++ {
			if v := math.Abs(*a.at(r, c)); r != c && v > most {
				at, most = r, v
			}
		}
		return at, most
	}
	alpha, own := (1+math.Sqrt(17))/8, math.Abs(*a.at(k, k))
	big, most := largest(k, k+1)
	if math.IsNaN(own) || own == 0 && most == 0 {
		return k, 0
	}
	if own >= alpha*most {
		return k, 1
	}
	_, rowMost := largest(big, k)
	switch {
	case own >= alpha*most*(most/rowMost):
		return k, 1
	case math.Abs(*a.at(big, big)) >= alpha*rowMost:
		return big, 1
	}
	return big, 2
}

// eliminate subtracts X D^-1 X' from the matrix behind the block D at k, X being the columns below it. It returns
// X D^-1.
func eliminate(a mat, k, rows int) mat {
	f := newMat(a.n, max(rows, 1))
	if rows == 0 {
		return f
	}
	inverse := mat{1, 1, []float64{1 / *a.at(k, k)}}
	if rows == 2 {
		p, q, r := *a.at(k, k), *a.at(k+1, k), *a.at(k+1, k+1)
		det := p*r - q*q
		inverse = mat{2, 2, []float64{r / det, -q / det, -q / det, p / det}}
	}
	for r := k + rows; r < a.n; r++ {
		for c := range rows {
			*f.at(r, c) = dotOf(a.row(r)[k:k+rows], inverse.column(c))
		}
	}
	for r := k + rows; r < a.n; r++ {
		for c := k + rows; c < a.n; c++ {
			*a.at(r, c) -= dotOf(f.row(r), a.row(c)[k:k+rows])
		}
	}
	return f
}

// ldlSolve interprets FactorLDLSolve by the products of its factors: P L is the product of each block's exchange and
// columns, in order.
func (x *factoring) ldlSolve(i int) {
	ld, b, n := x.in(0, i, x.n, x.n), x.in(1, i, x.n, x.k), x.n
	pivots := make([]int, n)
	for r := range pivots {
		pivots[r] = int(int32(x.load(2, ir.I32, int64(x.params[6])+int64(i*n+r))))
	}
	for r := 0; r < n; r++ {
		p := max(pivots[r], -pivots[r])
		if pivots[r] < 0 && r+1 < n && pivots[r+1] < 0 {
			r++
		} else if pivots[r] < 0 {
			p = 0
		}
		if p < 1 || p > n {
			x.report(i, r+1)
			x.out(0, i, b)
			return
		}
	}
	pl, d := unitMat(n), newMat(n, n)
	for r, rows := 0, 0; r < n; r += rows {
		rows = 1
		if pivots[r] < 0 {
			rows = 2
		}
		last, l, p := r+rows-1, unitMat(n), unitMat(n)
		p.swapRows(last, max(pivots[r], -pivots[r])-1)
		for c := r; c <= last; c++ {
			for q := c; q < n; q++ {
				if q <= last {
					*d.at(q, c), *d.at(c, q) = *ld.at(q, c), *ld.at(q, c)
				} else {
					*l.at(q, c) = *ld.at(q, c)
				}
			}
		}
		pl = product(pl, product(p, l))
	}
	x.out(0, i, plainSolve(product(product(pl, d), pl.transpose()), b))
}

// plainSolve returns a^-1 b.
func plainSolve(a, b mat) mat {
	b = mat{b.m, b.n, slices.Clone(b.v)}
	pivots, _ := plainLU(a)
	for r, p := range pivots {
		b.swapRows(r, p-1)
	}
	return plainTriangular(a, plainTriangular(a, b, false, true), true, false)
}
