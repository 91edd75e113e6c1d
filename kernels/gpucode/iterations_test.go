package gpucode

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/kerneltest"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// early is a device that ends the loops of a thread early.
var early = Caps{Software: true, MaxIterations: 64, I64: true}

// rowsOf makes one kernel over rows of an operand, with 32-bit results.
func rowsOf(body func(b *loopir.Builder, x int, out func(v int, linear bool))) *loopir.Kernel {
	b := loopir.NewBuilder("long", 1, 1)
	x := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1))
	body(b, x, func(v int, linear bool) {
		to := b.Buf(ir.F32, loopir.Write)
		if linear {
			b.Store(b.Linear(to, -1), v)
		} else {
			b.Store(b.Access(to, -1, loopir.Unit, loopir.Broadcast), v)
		}
	})
	return b.Kernel()
}

// TestLongRowsStayWithinTheIterationsOfADevice: sums, arguments of extremes, normalisations and scans of rows that are
// too long for the loops of one workgroup have more workgroups, or passes.
func TestLongRowsStayWithinTheIterationsOfADevice(t *testing.T) {
	kernels := map[string]*loopir.Kernel{
		"sum": rowsOf(func(b *loopir.Builder, x int, out func(int, bool)) {
			b.Each()
			s := b.Reduce(loopir.Sum, x)
			b.Map()
			out(b.Acc(s), false)
		}),
		"argmax": rowsOf(func(b *loopir.Builder, x int, out func(int, bool)) {
			b.Each()
			a := b.ReduceIdx(loopir.ArgMax, x, b.Index(1))
			b.Map()
			out(b.Cast(ir.F32, b.AccIdx(a)), false)
		}),
		"norm": rowsOf(func(b *loopir.Builder, x int, out func(int, bool)) {
			b.Each()
			s := b.Reduce(loopir.Sum, x)
			b.Each()
			out(b.Sub(x, b.Acc(s)), true)
		}),
		"scan": rowsOf(func(b *loopir.Builder, x int, out func(int, bool)) {
			b.Scan()
			sum, most := b.Reduce(loopir.Sum, x), b.Reduce(loopir.Max, x)
			out(b.AccRun(sum), true)
			out(b.AccRun(most), true)
		}),
	}
	r := rand.New(rand.NewPCG(1, 2))
	for name, k := range kernels {
		for _, size := range []uint64{100, 3000, 20011} {
			const rows = 3
			params := []uint64{rows, size}
			memory := func() (bufs [][]byte) {
				for i, n := range []uint64{rows * size, rows * size, rows * size}[:len(k.Bufs)] {
					if bufs = append(bufs, make([]byte, 4*n)); i > 0 && name != "scan" && name != "norm" {
						bufs[i] = bufs[i][:4*rows]
					}
				}
				return bufs
			}
			want, got := memory(), memory()
			for i := range rows * size {
				loopir.StoreBits(ir.F32, want[0], int64(i), ir.EncodeFloat(ir.F32, r.Float64()))
			}
			copy(got[0], want[0])
			_, err := loopir.Interpret(k, params, want)
			require.NoError(t, err)
			o := Choose(k, params, early)
			procs, err := FromKernel(k, o)
			require.NoError(t, err)
			require.Equal(t, size > 100, len(procs) > 1, "%s of %d: %+v", name, size, o)
			for _, p := range procs {
				require.LessOrEqual(t, p.Iterations(params, 0), early.MaxIterations, "%s of %d", name, size)
			}
			_, err = run(procs, params, got)
			require.NoError(t, err, name)
			require.NoError(t, kerneltest.Close(k, got, want, 1e-4, 1e-3), "%s of %d", name, size)
		}
	}
}

// TestDeepProductsStayWithinTheIterationsOfADevice: their depth is shared by workgroups, in tiles and by element.
func TestDeepProductsStayWithinTheIterationsOfADevice(t *testing.T) {
	for _, m := range []int64{3, 9} {
		for _, k := range []int64{40, 3000, 20000} {
			c := kerneltest.RandomGemm(rand.New(rand.NewPCG(uint64(k), 4)), ir.F32, m, 7, k, true)
			o := ChooseGemm(c.Gemm, c.Params, early)
			require.Equal(t, k > 40, o.Passes(c.Gemm) > 1, "%d of %d: %+v", m, k, o)
			procs, err := FromGemm(c.Gemm, o)
			require.NoError(t, err)
			for _, p := range procs {
				require.LessOrEqual(t, p.Iterations(c.Params, 0), early.MaxIterations, "%d of %d", m, k)
			}
			checkGemm(t, c.Gemm, c, o)
		}
	}
}

// TestPanelsHaveTheIterationsThatLoweringExpects: those of m rows and n columns, each of which goes twice over all,
// have at most 2 m n (n + 3) / 64.
func TestPanelsHaveTheIterationsThatLoweringExpects(t *testing.T) {
	for _, op := range []launch.BlockOp{launch.BlockLU, launch.BlockQR} {
		for _, size := range [][2]uint64{{1 << 16, 1}, {1 << 16, 2}, {1 << 16, 4}, {1 << 15, 8}, {1 << 14, 16}, {20000, 16}} {
			f := &launch.FactorBlock{Op: op}
			l, params := f.Layout(), make([]uint64, len(f.Parameters()))
			params[l.Matrices], params[l.M], params[l.N] = 1, size[0], size[1]
			p, err := FromFactorBlock(f, ChooseFactorBlock(f, params, early))
			require.NoError(t, err)
			most := 2 * size[0] * size[1] * (size[1] + 3) / 64
			require.LessOrEqual(t, p.Iterations(params, 0), int64(most), "%d x %d", size[0], size[1])
		}
	}
}
