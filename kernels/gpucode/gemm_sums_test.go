package gpucode

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/kerneltest"
	"github.com/torchlette/torchlette/kernels/launch"
)

// Blocks of which the last, or the only one, is short; parts of which the last may be empty; operands that are
// contiguous along either dim, with and without vectors.
func TestEveryTileSumsAnOperand(t *testing.T) {
	all := []GemmOptions{rolled}
	for _, c := range candidates {
		all = append(all, c.GemmOptions)
	}
	seen := map[string]bool{}
	for i, o := range all {
		t.Run(fmt.Sprintf("%dx%dx%d", o.BM, o.BN, o.BK), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(i), 5))
			for n := range 8 {
				aligned, short := n%2 == 0, n >= 6
				k := 3*int64(o.BK) + int64(r.IntN(5))
				if short {
					k = int64(o.BK) - 3
				}
				c := kerneltest.RandomGemmSums(r, []ir.DType{ir.F32, ir.F32, ir.I32, ir.BF16}[r.IntN(4)], int64(o.BM)+5,
					int64(o.BN)+3, k, aligned)
				o := o
				o.MaxWorkgroupBytes = 48 << 10
				o.Parts = []int{1, 2, 3}[r.IntN(3)]
				Align(c.Gemm, &o, c.Params)
				o.KTail, o.Short = true, short
				checkGemm(t, c.Gemm, c, o)
				if c.Gemm.Sums == 'a' {
					seen[fmt.Sprint("a", c.Gemm.AUnit, o.VecA, o.Parts > 1)] = true
				} else {
					seen[fmt.Sprint("b", c.Gemm.BUnit, o.VecB, o.Parts > 1)] = true
				}
			}
		})
	}
	require.GreaterOrEqual(t, len(seen), 16, "both operands along both dims, by vectors and not, in one part and several")
}

func TestRandomSumsAsChosen(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 6))
		d := []ir.DType{ir.F32, ir.F32, ir.F16, ir.BF16}[r.IntN(4)]
		c := kerneltest.RandomGemmSums(r, d, LeastSums+r.Int64N(60), LeastSums+r.Int64N(60), r.Int64N(90), r.IntN(2) == 0)
		o := ChooseGemm(c.Gemm, c.Params, Caps{I64: true, Software: r.IntN(2) == 0})
		require.False(t, o.Dot)
		checkGemm(t, c.Gemm, c, o)
	}
}

// The accumulators limit the tile: those of C take up to 128 numbers of a thread's registers.
func TestSumsTakeOneVectorOfRegisters(t *testing.T) {
	for _, c := range candidates {
		g := &launch.Gemm{Type: ir.F32, AUnit: 'm', BUnit: 'n', Sums: 'a'}
		m := newGemm(g, c.GemmOptions, c.threads())
		m.t.VecA, m.t.VecB, m.t.VecC = true, true, true
		m.generate()
		for _, v := range m.sums {
			require.Equal(t, m.sums[0], v, "%+v", c.GemmOptions)
		}
	}
}

func TestSumsOfABatchAndByRowReductionsAreRefused(t *testing.T) {
	g := &launch.Gemm{Type: ir.F32, AUnit: 'k', BUnit: 'n', Sums: 'a'}
	_, err := FromGemm(g, GemmOptions{Dot: true})
	require.ErrorContains(t, err, "no sums")
	g.Batch = 1
	_, err = FromGemm(g, rolled)
	require.ErrorContains(t, err, "no sums")
}
