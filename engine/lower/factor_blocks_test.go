package lower_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/optest"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/launch"
)

// TestBlocksFactorAsTheLaunchDoes compares the steps that devices without launch.Factor run with the launch, for
// matrices of one block, of several, and of parts of blocks: in batches, of strided operands, and singular.
func TestBlocksFactorAsTheLaunchDoes(t *testing.T) {
	const side = 4 // panels of LU and QR have 32 columns
	for name, f := range map[string]func(e *optest.Eager, a, s, y op.Val) []op.Val{
		"cholesky": func(e *optest.Eager, _, s, _ op.Val) []op.Val {
			l, status := prim.Cholesky(e, s, prim.Unchecked)
			return []op.Val{l, status}
		},
		"lu": func(e *optest.Eager, a, _, _ op.Val) []op.Val {
			lu, pivots, status := prim.LUFactor(e, a, prim.Unchecked)
			return []op.Val{lu, pivots, status, prim.LUPermutation(e, pivots, a.Shape()[1])}
		},
		"wide and tall lu": func(e *optest.Eager, a, _, _ op.Val) []op.Val {
			n := a.Shape()[1]
			u, p, _ := prim.LUFactor(e, prim.Slice(e, a, 1, 0, (n+1)/2, 1), prim.Unchecked)
			v, q, _ := prim.LUFactor(e, prim.Slice(e, a, 2, 0, (n+1)/2, 1), prim.Unchecked)
			return []op.Val{u, p, v, q}
		},
		"solve": func(e *optest.Eager, _, s, y op.Val) []op.Val {
			x, lu, pivots, status := prim.LinearSolve(e, s, y, prim.Unchecked)
			return []op.Val{x, lu, pivots, status}
		},
		"triangular": func(e *optest.Eager, _, s, y op.Val) []op.Val {
			return []op.Val{prim.TriangularSolve(e, s, y, false, false), prim.TriangularSolve(e, s, y, true, false),
				prim.TriangularSolve(e, prim.Transpose(e, s, 1, 2), y, true, true)}
		},
		"qr": func(e *optest.Eager, a, _, y op.Val) []op.Val {
			q, r := prim.QR(e, a, false)
			u, v := prim.QR(e, y, true)
			w, x := prim.QR(e, prim.Transpose(e, y, 1, 2), false)
			return []op.Val{q, r, u, v, w, x}
		},
	} {
		for _, n := range []int64{1, 3, 4, 9, 37, 70, -70} {
			few := n < 0 // panels are of one column or two, as on a device that ends loops
			n = max(n, -n)
			t.Run(fmt.Sprintf("%s_%d_%v", name, n, few), func(t *testing.T) {
				var results [2][]op.Val
				var got [2]*optest.Eager
				for i := range got {
					r := rand.New(rand.NewPCG(5, uint64(n)))
					e := optest.New()
					if i == 1 {
						if e.FactorSide, e.Device = side, ir.CPU+1; few {
							e.MaxIterations = 20
						}
					}
					random := func(shape ...int64) op.Val {
						v := make([]float64, ir.Numel(shape))
						for j := range v {
							v[j] = r.NormFloat64()
						}
						return e.Tensor(ir.F32, shape, v...)
					}
					a, y := random(2, n, n), random(2, n, 3)
					s := prim.Add(e, e.Tensor(ir.F32, []int64{2, n, n}, definite(e.Floats(a), int(n))...), op.FloatVal(0))
					got[i], results[i] = e, f(e, prim.Transpose(e, a, 1, 2), s, y)
				}
				assert.Zero(t, got[1].Emitted["to_device"], "operands stay where they are")
				for k := range results[0] {
					want, have := got[0].Floats(results[0][k]), got[1].Floats(results[1][k])
					most := 1.0
					for _, x := range want {
						most = max(most, math.Abs(x))
					}
					assert.InDeltaSlice(t, want, have, 2e-4*most, "result %d", k)
				}
			})
		}
	}
}

// definite is a a' / n + 1 for two matrices of n rows.
func definite(a []float64, n int) []float64 {
	s := make([]float64, len(a))
	for e := range s {
		base, i, j := e/(n*n)*(n*n), e/n%n, e%n
		for k := range n {
			s[e] += a[base+i*n+k] * a[base+j*n+k] / float64(n)
		}
		if i == j {
			s[e]++
		}
	}
	return s
}

// TestBlocksKeepTheFirstFailure: the status of a matrix is its first minor or pivot at fault, in whichever block.
func TestBlocksKeepTheFirstFailure(t *testing.T) {
	const n = 11
	e := optest.New()
	e.FactorSide = 4
	v := make([]float64, 3*n*n)
	for i := range 3 {
		for j := range n {
			v[i*n*n+j*n+j] = 1
		}
	}
	v[n*n+6*n+6], v[n*n+9*n+9], v[2*n*n] = 0, 0, 0
	x := e.Tensor(ir.F32, []int64{3, n, n}, v...)
	_, status := prim.Cholesky(e, x, prim.Unchecked)
	assert.Equal(t, []float64{0, 7, 1}, e.Floats(status))
	_, _, status = prim.LUFactor(e, x, prim.Unchecked)
	assert.Equal(t, []float64{0, 7, 1}, e.Floats(status))
}

// TestPanelsOfTallMatricesAreNarrowWhereLoopsEnd: a panel has as few columns as the iterations of a thread allow.
func TestPanelsOfTallMatricesAreNarrowWhereLoopsEnd(t *testing.T) {
	const m, n = 1000, 16
	out := func(buf int, d ir.DType, shape ...int64) lower.Output {
		return lower.Output{DType: d, Layout: ir.DenseLayout(shape), Buf: buf}
	}
	for name, c := range map[string]struct {
		outs  []lower.Output
		least int64
	}{
		"lu_factor": {[]lower.Output{out(1, ir.F32, m, n), out(2, ir.I32, n), out(3, ir.I32)}, 8},
		"qr":        {[]lower.Output{out(1, ir.F32, m, n), out(2, ir.F32, n, n)}, 16},
	} {
		for most, width := range map[int64]int64{0: 16, 1 << 20: 16, 8000: 8, 1000: 4, 1: 1} {
			width = min(width, c.least)
			res, err := lower.Lower(&lower.Node{Prim: op.PrimNamed(name), Attr: []int64{0, 0}, Bufs: 1 + len(c.outs),
				Out:        c.outs,
				In:         []lower.Operand{{DType: ir.F32, Layout: ir.DenseLayout([]int64{m, n})}},
				FactorSide: 64, MaxIterations: most})
			require.NoError(t, err)
			columns, widest := int64(0), int64(0)
			for i := range res.Launches {
				st := &res.Launches[i]
				f, ok := st.Op.(*launch.FactorBlock)
				if ok && (f.Op == launch.BlockLU || f.Op == launch.BlockQR) {
					w := int64(st.Params[f.Layout().N].Bits)
					columns, widest = columns+w, max(widest, w)
				}
			}
			assert.EqualValues(t, n, columns, name)
			assert.Equal(t, width, widest, "%s, at most %d iterations", name, most)
		}
	}
}
