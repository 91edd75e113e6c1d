package launch_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/launch"
)

// table is a matrix by rows.
type table struct {
	m, n int
	v    []float64
}

func (a table) t() table {
	b := table{a.n, a.m, make([]float64, len(a.v))}
	for i := range a.m {
		for j := range a.n {
			b.v[j*a.m+i] = a.v[i*a.n+j]
		}
	}
	return b
}

func times(list ...table) table {
	a := list[0]
	for _, b := range list[1:] {
		c := table{a.m, b.n, make([]float64, a.m*b.n)}
		for i := range a.m {
			for j := range b.n {
				for k := range a.n {
					c.v[i*b.n+j] += a.v[i*a.n+k] * b.v[k*b.n+j]
				}
			}
		}
		a = c
	}
	return a
}

func diagonal(v []float64) table {
	a := table{len(v), len(v), make([]float64, len(v)*len(v))}
	for i, x := range v {
		a.v[i*len(v)+i] = x
	}
	return a
}

func unit(n int) table {
	v := make([]float64, n)
	for i := range v {
		v[i] = 1
	}
	return diagonal(v)
}

func random(r *rand.Rand, m, n int) table {
	a := table{m, n, make([]float64, m*n)}
	for i := range a.v {
		a.v[i] = r.NormFloat64()
	}
	return a
}

// factor runs one matrix of m x n (and a right-hand side of k columns) and gives the results.
func factor(t *testing.T, f launch.Factor, m, n, k int, in ...table) (out [][]float64, fault int64) {
	t.Helper()
	f.Type = ir.F64
	params := make([]uint64, f.ParamCount())
	params[0], params[1], params[2], params[3] = 1, uint64(m), uint64(n), uint64(k)
	var bufs [][]byte
	for i, b := range f.Buffers() {
		if i < len(in) {
			bufs = append(bufs, of(b.Type, in[i].v...))
			continue
		}
		bufs = append(bufs, make([]byte, 512))
	}
	got, err := f.Interpret(params, bufs)
	require.NoError(t, err)
	for i, b := range f.Buffers()[len(in):] {
		out = append(out, values(b.Type, bufs[len(in)+i]))
	}
	return out, got.Elem
}

// What each factorisation must satisfy, on tall, wide and square matrices.
func TestFactorsMultiplyToTheirMatrix(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	same := func(want, got table, what string) { t.Helper(); require.InDeltaSlice(t, want.v, got.v, 1e-9, what) }
	for _, size := range [][2]int{{3, 3}, {5, 3}, {3, 5}, {1, 4}} {
		m, n := size[0], size[1]
		least := min(m, n)
		a := random(r, m, n)
		name := fmt.Sprintf("%dx%d", m, n)

		out, _ := factor(t, launch.Factor{Op: launch.FactorLU}, m, n, 0, a)
		l, u := table{m, least, make([]float64, m*least)}, table{least, n, make([]float64, least*n)}
		for i := range m {
			for j := range n {
				v := out[0][i*n+j]
				if j < i {
					l.v[i*least+j] = v
				} else if i < least {
					u.v[i*n+j] = v
				}
			}
			if i < least {
				l.v[i*least+i] = 1
			}
		}
		order, _ := factor(t, launch.Factor{Op: launch.FactorPermutation}, m, least, 0, table{1, least, out[1][:least]})
		permuted := table{m, n, nil}
		for _, row := range order[0][:m] {
			permuted.v = append(permuted.v, a.v[int(row)*n:int(row+1)*n]...)
		}
		same(permuted, times(l, u), "rows of a = L U, "+name)

		for full, k := range map[int64]int{0: least, launch.FactorFull: m} {
			out, _ = factor(t, launch.Factor{Op: launch.FactorQR, Option: full}, m, n, 0, a)
			q := table{m, k, out[0][:m*k]}
			same(a, times(q, table{k, n, out[1][:k*n]}), "a = Q R, "+name)
			same(unit(k), times(q.t(), q), "Q is orthogonal, "+name)
		}

		out, _ = factor(t, launch.Factor{Op: launch.FactorSVD}, m, n, 0, a)
		same(a, times(table{m, least, out[0][:m*least]}, diagonal(out[1][:least]), table{least, n, out[2][:least*n]}),
			"a = U S V', "+name)
		require.IsNonIncreasing(t, out[1][:least])

		zero := table{1, 1, []float64{0}}
		out, _ = factor(t, launch.Factor{Op: launch.FactorPinv}, m, n, 0, a, zero, zero)
		p := table{n, m, out[0][:n*m]}
		same(a, times(a, p, a), "a = a pinv(a) a, "+name)
		same(p, times(p, a, p), "pinv(a) = pinv(a) a pinv(a), "+name)
	}
}

func TestFactorsOfSquareMatrices(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	same := func(want, got table) { t.Helper(); require.InDeltaSlice(t, want.v, got.v, 1e-9) }
	const n, k = 4, 2
	a, b := random(r, n, n), random(r, n, k)
	s := times(a, a.t())
	for i := range n {
		s.v[i*n+i]++
	}
	lower := s
	lower.v = append([]float64(nil), s.v...)
	for i := range n {
		for j := i + 1; j < n; j++ {
			lower.v[i*n+j] = 99 // the other triangle is not read
		}
	}
	out, _ := factor(t, launch.Factor{Op: launch.FactorCholesky}, n, n, 0, lower)
	l := table{n, n, out[0][:n*n]}
	same(s, times(l, l.t()))

	out, _ = factor(t, launch.Factor{Op: launch.FactorEigh}, n, n, 0, lower)
	v := table{n, n, out[1][:n*n]}
	same(s, times(v, diagonal(out[0][:n]), v.t()))
	require.IsNonDecreasing(t, out[0][:n])
	upper, _ := factor(t, launch.Factor{Op: launch.FactorEigh, Option: launch.FactorUpper}, n, n, 0, lower.t())
	require.InDeltaSlice(t, out[0][:n], upper[0][:n], 1e-9)

	out, _ = factor(t, launch.Factor{Op: launch.FactorSolve}, n, n, k, a, b)
	same(b, times(a, table{n, k, out[0][:n*k]}))
	for _, option := range []int64{0, launch.FactorUpper, launch.FactorUnit, launch.FactorUpper | launch.FactorUnit} {
		half := table{n, n, append([]float64(nil), a.v...)}
		for i := range n {
			for j := range n {
				switch {
				case i == j && option&launch.FactorUnit != 0:
					half.v[i*n+j] = 1
				case i != j && (i < j) != (option&launch.FactorUpper != 0):
					half.v[i*n+j] = 0
				}
			}
		}
		out, _ = factor(t, launch.Factor{Op: launch.FactorTriangular, Option: option}, n, n, k, a, b)
		same(b, times(half, table{n, k, out[0][:n*k]}))
	}

	nilpotent := table{3, 3, []float64{0, 1, 2, 0, 0, 3, 0, 0, 0}}
	out, _ = factor(t, launch.Factor{Op: launch.FactorExp}, 3, 3, 0, nilpotent)
	same(table{3, 3, []float64{1, 1, 3.5, 0, 1, 3, 0, 0, 1}}, table{3, 3, out[0][:9]})
	out, _ = factor(t, launch.Factor{Op: launch.FactorExp}, 2, 2, 0, diagonal([]float64{-3, 4}))
	same(diagonal([]float64{math.Exp(-3), math.Exp(4)}), table{2, 2, out[0][:4]})
}

// The status of a matrix without the factorisation is the first bad minor, from 1; with Check it is a fault.
func TestFactorsReportMatricesThatHaveNone(t *testing.T) {
	nan := math.NaN()
	for _, tc := range []struct {
		name   string
		op     launch.FactorOp
		a      []float64
		status int64
	}{
		{"positive definite", launch.FactorCholesky, []float64{2, 1, 1, 2}, 0},
		{"indefinite", launch.FactorCholesky, []float64{1, 2, 2, 1}, 2},
		{"negative", launch.FactorCholesky, []float64{-1, 0, 0, 1}, 1},
		{"singular", launch.FactorLU, []float64{1, 2, 2, 4}, 2},
		{"NaN", launch.FactorSVD, []float64{1, 2, nan, 4}, launch.NotFinite},
		{"infinite", launch.FactorEigh, []float64{math.Inf(1), 0, 0, 1}, launch.NotFinite},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := table{2, 2, tc.a}
			_, fault := factor(t, launch.Factor{Op: tc.op, Check: true}, 2, 2, 0, a)
			require.Equal(t, tc.status, fault)
			out, fault := factor(t, launch.Factor{Op: tc.op}, 2, 2, 0, a)
			require.Zero(t, fault, "without Check")
			switch tc.op {
			case launch.FactorCholesky:
				require.Equal(t, float64(tc.status), out[1][0])
			case launch.FactorLU:
				require.Equal(t, float64(tc.status), out[2][0])
			default: // worked as zeros, so that the algorithm ends with numbers
				for _, v := range slices.Concat(out...) {
					require.False(t, math.IsNaN(v))
				}
			}
		})
	}
}
