package gpucode

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/kerneltest"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// asKernel lets kerneltest.Close compare a product's buffers.
func asKernel(g *launch.Gemm) *loopir.Kernel {
	return &loopir.Kernel{Bufs: g.Layout().Bufs}
}

func checkGemm(t *testing.T, g *launch.Gemm, c *kerneltest.GemmCase, o GemmOptions) {
	t.Helper()
	want, got := c.Copy(), c.Copy()
	require.NoError(t, launch.InterpretGemm(g, want.Params, want.Bufs))
	p, err := FromGemm(g, o)
	require.NoError(t, err)
	_, err = run(p, got.Params, got.Bufs)
	require.NoError(t, err, "%+v %+v %v", *g, o, c.Params)
	require.NoError(t, kerneltest.Close(asKernel(g), got.Bufs, want.Bufs, 1e-4, 1e-4), "%+v %+v %v", *g, o, c.Params)
}

func TestEveryTileMultiplies(t *testing.T) {
	all := []GemmOptions{rolled}
	for _, c := range candidates {
		all = append(all, c.GemmOptions)
	}
	for i, o := range all {
		t.Run(fmt.Sprintf("%dx%dx%d", o.BM, o.BN, o.BK), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(i), 3))
			for n := range 4 {
				aligned, short := n%2 == 0, n >= 2
				k := int64(o.BK) + 3
				if short {
					k = int64(o.BK) - 3
				}
				c := kerneltest.RandomGemm(r, []ir.DType{ir.F32, ir.I32}[r.IntN(2)], int64(o.BM)+5, int64(o.BN)-3, k, aligned)
				l := c.Gemm.Layout()
				o := o
				o.VecA, o.VecB, o.VecC = vectors(c.Gemm, c.Params, &l)
				o.KTail, o.Short = true, short
				o.MaxWorkgroupBytes = 48 << 10
				o.Parts = []int{1, 2, 3}[r.IntN(3)]
				checkGemm(t, c.Gemm, c, o)
			}
		})
	}
}

func TestEveryTileReadsWindowsWhereTheyLie(t *testing.T) {
	all := []GemmOptions{rolled}
	for _, c := range candidates {
		all = append(all, c.GemmOptions)
	}
	vecA, vecB, vecC, tails, short := 0, 0, 0, 0, 0
	for i, o := range all {
		t.Run(fmt.Sprintf("%dx%dx%d", o.BM, o.BN, o.BK), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(i), 9))
			for n := range 12 {
				c := kerneltest.RandomGemmDims(r, []ir.DType{ir.F32, ir.F16, ir.I32}[r.IntN(3)], 1+r.Int64N(int64(o.BM)+5),
					n%2 == 0, n%3 == 0)
				o := o
				Align(c.Gemm, &o, c.Params)
				o.MaxWorkgroupBytes = 48 << 10
				o.Parts = []int{1, 2, 3}[r.IntN(3)]
				checkGemm(t, c.Gemm, c, o)
				for count, is := range map[*int]bool{&vecA: o.VecA, &vecB: o.VecB, &vecC: o.VecC && c.Gemm.CDims, &tails: o.KTail,
					&short: o.Short} {
					if is {
						*count++
					}
				}
			}
		})
	}
	require.Greater(t, min(vecA, vecB, vecC, tails, short), 5)
}

func TestRandomGemmsAsChosen(t *testing.T) {
	dots, vecs, tails := 0, 0, 0
	for seed := range uint64(120) {
		r := rand.New(rand.NewPCG(seed, 2))
		types := []ir.DType{ir.F32, ir.F32, ir.F16, ir.BF16, ir.I32, ir.I64}
		c := kerneltest.RandomGemm(r, types[r.IntN(len(types))], int64(1+r.IntN(40)), int64(1+r.IntN(40)), int64(r.IntN(40)),
			r.IntN(2) == 0)
		o := ChooseGemm(c.Gemm, c.Params, Caps{I64: true, Software: r.IntN(2) == 0})
		checkGemm(t, c.Gemm, c, o)
		if o.Dot {
			dots++
		}
		if o.VecA || o.VecB || o.VecC {
			vecs++
		}
		if o.KTail {
			tails++
		}
	}
	require.Greater(t, dots, 20)
	require.Greater(t, vecs, 20)
	require.Greater(t, tails, 20)
}

// A product in several passes has scratch memory, in parts of K by tiles and by row reductions. One row of results
// with a short K takes one pass.
func TestPassesOfProductsHaveScratchMemory(t *testing.T) {
	caps := Caps{MaxWorkgroupBytes: 49152, MaxThreads: 1024, Units: 264}
	for _, tc := range []struct {
		m, n, k uint64
		dot     bool
		passes  int
	}{{1, 768, 768, true, 1}, {1, 768, 65536, true, 2}, {31, 768, 768, false, 2}, {512, 512, 512, false, 1}} {
		g := &launch.Gemm{Type: ir.F32, AUnit: 'k', BUnit: 'n'}
		params := []uint64{tc.m, tc.n, tc.k, tc.k, 1, 0, tc.n, 1, 0}
		o := ChooseGemm(g, params, caps)
		procs, err := FromGemm(g, o)
		require.NoError(t, err)
		require.Equal(t, tc.dot, o.Dot, "%v", tc)
		require.Len(t, procs, tc.passes, "%v", tc)
		require.Equal(t, tc.passes > 1, o.ScratchBytes(g, params) > 0, "%v", tc)
	}
}

// A workgroup reads a part of a line of columns where whole lines would leave most of the device idle, and rows are
// short.
func TestFewColumnsAreDividedFurther(t *testing.T) {
	caps := Caps{Units: 264}
	for _, tc := range []struct {
		outer, inner uint64
		columns      int
	}{{768, 768, 8}, {768, 65536, line}, {264 * line, 768, line}, {3, 768, 4}} {
		o := Options{OuterFast: true}
		require.Equal(t, tc.columns, o.columns(tc.outer, tc.inner, caps), "%v", tc)
	}
}

func TestChooseGemmFollowsTheMeasurements(t *testing.T) {
	caps := Caps{MaxWorkgroupBytes: 49152, MaxThreads: 1024, Units: 264}
	for _, tc := range []struct {
		m, n, k           uint64
		bm, bn, bk, parts int
	}{
		{4096, 4096, 4096, 64, 256, 8, 1},
		{2048, 2048, 2048, 64, 256, 8, 1},
		{1024, 1024, 1024, 64, 64, 16, 1},
		{512, 512, 512, 32, 64, 16, 1},
		{512, 768, 3072, 64, 128, 8, 8},
		{2048, 768, 3072, 64, 128, 8, 2},
		{50257, 768, 512, 64, 256, 8, 1},
		{31, 768, 768, 32, 64, 16, 8},
		{31, 768, 50257, 32, 64, 8, 64},
		{512, 50257, 768, 128, 64, 8, 1},
		{512, 50256, 768, 64, 256, 8, 1},
	} {
		g := &launch.Gemm{Type: ir.F32, AUnit: 'k', BUnit: 'n'}
		params := []uint64{tc.m, tc.n, tc.k, tc.k, 1, 0, tc.n, 1, 0}
		o := ChooseGemm(g, params, caps)
		require.Equal(t, []int{tc.bm, tc.bn, tc.bk, tc.parts}, []int{o.BM, o.BN, o.BK, o.Parts}, "%d x %d x %d", tc.m, tc.n,
			tc.k)
		require.Equal(t, []bool{tc.k%4 == 0, tc.n%4 == 0, tc.n%4 == 0, tc.k%16 != 0}, []bool{o.VecA, o.VecB, o.VecC, o.KTail})
		require.True(t, GemmAligned(g, o, params))
		params[5] = 2
		require.Equal(t, !o.VecA, GemmAligned(g, o, params))
	}
}

func TestWindowsHaveTilesOfTheirOwn(t *testing.T) {
	caps := Caps{MaxWorkgroupBytes: 49152, MaxThreads: 1024, Units: 264}
	// 64 kernels of 3x3 over 64 channels of 32 pictures of 56x56, padded: as windows, and as the same product of a
	// dense B.
	windows := &launch.Gemm{Type: ir.F32, Batch: 1, AUnit: 'k', BUnit: 'n', CStrided: true, KDims: 3, NDims: 2}
	params := []uint64{32, 64, 3136, 576, 0, 576, 1, 0, 64 * 3364, 1, 1, 0, 64 * 3136, 3136, 1, 0, 64, 3, 3, 9, 3, 1, 3364,
		58, 1, 56, 56, 58, 1}
	o := ChooseGemm(windows, params, caps)
	require.Equal(t, []int{64, 64, 8}, []int{o.BM, o.BN, o.BK})
	plain := &launch.Gemm{Type: ir.F32, Batch: 1, AUnit: 'k', BUnit: 'n'}
	o = ChooseGemm(plain, []uint64{32, 64, 3136, 576, 0, 576, 1, 0, 576 * 3136, 3136, 1, 0}, caps)
	require.Equal(t, []int{64, 64, 16}, []int{o.BM, o.BN, o.BK})
}

// In serpentine order the next row of a thread's results begins with the columns at which the row before ends.
func TestSerpentineOrderUsesAVectorTwiceInARow(t *testing.T) {
	g := &launch.Gemm{Type: ir.F32, AUnit: 'k', BUnit: 'n'}
	for _, serpentine := range []bool{false, true} {
		o := GemmOptions{BM: 32, BN: 64, BK: 8, WM: 32, WN: 64, TM: 8, TN: 8, Serpentine: serpentine, Double: true}
		p, err := FromGemm(g, o)
		require.NoError(t, err)
		again := 0
		var before *gpuir.Node
		var visit func(body []gpuir.Stmt)
		visit = func(body []gpuir.Stmt) {
			for _, s := range body {
				visit(s.Body)
				if s.Op == gpuir.SAssign && s.A.Op == loopir.OpFma {
					if s.A.Args[1] == before {
						again++
					}
					before = s.A.Args[1]
				}
			}
		}
		visit(p[0].Body)
		want := 0
		if serpentine {
			want = o.BK * (o.TM - 1)
		}
		require.Equal(t, want, again)
	}
}

func TestGemmRespectsWorkgroupMemory(t *testing.T) {
	g := &launch.Gemm{Type: ir.F32, AUnit: 'k', BUnit: 'n'}
	params := []uint64{4096, 4096, 4096, 4096, 1, 0, 4096, 1, 0}
	for _, limit := range []int{16384, 32768, 49152} {
		o := ChooseGemm(g, params, Caps{MaxWorkgroupBytes: limit, MaxThreads: 256})
		p, err := FromGemm(g, o)
		require.NoError(t, err)
		require.LessOrEqual(t, p[0].SharedBytes(), limit)
	}
	o := candidates[2].GemmOptions
	o.MaxWorkgroupBytes = 16384
	_, err := FromGemm(g, o)
	require.ErrorContains(t, err, "workgroup memory")
}
