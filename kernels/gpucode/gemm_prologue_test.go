package gpucode

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/kerneltest"
	"github.com/torchlette/torchlette/kernels/launch"
)

func checkNorm(t *testing.T, c *kerneltest.GemmCase, o GemmOptions) {
	t.Helper()
	want, got := c.Copy(), c.Copy()
	require.NoError(t, launch.InterpretGemm(c.Gemm, want.Params, want.Bufs))
	p, err := FromGemm(c.Gemm, o)
	require.NoError(t, err)
	_, err = run(p, got.Params, got.Bufs)
	require.NoError(t, err, "%+v %+v %v", *c.Gemm, o, c.Params)
	tolerance := 1e-4
	switch c.Gemm.Type { // an element of the norm may be rounded the other way
	case ir.F16:
		tolerance = 2e-2
	case ir.BF16:
		tolerance = 0.15
	}
	require.NoError(t, kerneltest.Close(asKernel(c.Gemm), got.Bufs, want.Bufs, tolerance, tolerance), "%+v %+v %v",
		*c.Gemm, o, c.Params)
}

// Rows of all layouts, in loops and held in registers, by vectors and not, in one pass and in several.
func TestProductsNormalizeTheirRows(t *testing.T) {
	held, vectors, loops, columns := 0, 0, 0, 0
	for seed := range uint64(80) {
		r := rand.New(rand.NewPCG(seed, 7))
		d := []ir.DType{ir.F32, ir.F32, ir.F16, ir.BF16}[r.IntN(4)]
		aligned := r.IntN(2) == 0
		c := kerneltest.RandomGemmNorm(r, d, 1+r.Int64N(4), 1+r.Int64N(24), 1+r.Int64N(150), aligned)
		o := ChooseGemm(c.Gemm, c.Params, Caps{Software: r.IntN(3) == 0})
		require.True(t, o.Dot)
		require.Equal(t, o.Row.Hold > 0, o.Row.Ahead)
		checkNorm(t, c, o)
		if o.Row.Hold > 0 {
			held++
		} else {
			loops++
		}
		if o.Row.Vec == 4 {
			vectors++
		}
		if o.Row.OuterVec {
			columns++
		}
		if seed%4 == 0 {
			o.Row.Hold, o.Row.Full, o.Row.Ahead, o.Row.OuterVec, o.Row.Parts = 0, false, false, false, 2
			checkNorm(t, c, o)
		}
	}
	require.Greater(t, min(held, loops), 15)
	require.Greater(t, min(vectors, columns), 3)
}

// The products of a token of GPT-2, and of a small Llama, share their work as without the norm, but where a thread has
// four columns: there the norm takes registers, and its rounding takes threads.
func TestANormLeavesTheChoiceOfLanes(t *testing.T) {
	caps := Caps{MaxWorkgroupBytes: 49152, MaxThreads: 1024, Units: 264, Subgroup: 32}
	for _, tc := range []struct {
		n, k uint64
		unit byte
	}{{2304, 768, 'n'}, {3072, 768, 'n'}, {50257, 768, 'k'}, {2048, 2048, 'k'}, {5632, 2048, 'k'}, {1024, 8192, 'n'}} {
		g := &launch.Gemm{Type: ir.F32, AUnit: 'k', BUnit: tc.unit}
		params := []uint64{1, tc.n, tc.k, tc.k, 1, 0, tc.n, 1, 0}
		if tc.unit == 'k' {
			params = []uint64{1, tc.n, tc.k, tc.k, 1, 0, 1, tc.k, 0}
		}
		plain := ChooseGemm(g, params, caps)
		g.Prologue = kerneltest.Norm(ir.F32, true, true, true)
		o := ChooseGemm(g, append(params, tc.k, 0), caps)
		procs, err := FromGemm(g, o)
		require.NoError(t, err)
		require.Len(t, procs, 1, "%v", tc)
		require.Equal(t, o.Row.Hold > 0, o.Row.Ahead)
		o.Row.Ahead = false
		if tc.unit == 'k' {
			require.Equal(t, plain, o, "%v", tc)
		}
	}
}

func TestANormChangesTheShareOfFourColumns(t *testing.T) {
	caps := Caps{MaxWorkgroupBytes: 49152, MaxThreads: 1024, Units: 264, Subgroup: 32}
	for _, tc := range []struct {
		d             ir.DType
		n, k          uint64
		norm          bool
		threads, hold int
	}{
		{ir.F32, 2304, 768, false, 512, 12}, {ir.F16, 2304, 768, false, 512, 12},
		{ir.F32, 2304, 768, true, 256, 24}, {ir.F16, 2304, 768, true, 1024, 6},
		{ir.F32, 768, 3072, false, 1024, 12}, {ir.F32, 4800, 1600, true, 1024, 0},
		{ir.F32, 4096, 4096, false, 1024, 0}, {ir.F16, 64, 64, false, 256, 1},
	} {
		g := &launch.Gemm{Type: tc.d, AUnit: 'k', BUnit: 'n'}
		params := []uint64{1, tc.n, tc.k, tc.k, 1, 0, tc.n, 1, 0}
		if tc.norm {
			g.Prologue = kerneltest.Norm(tc.d, true, true, true)
			params = append(params, tc.k, 0)
		}
		o := ChooseGemm(g, params, caps)
		require.True(t, o.Row.OuterVec, "%+v", tc)
		require.Equal(t, []int{tc.threads, tc.hold}, []int{o.Row.Workgroup, o.Row.Hold}, "%+v", tc)
	}
}

// Devices may run workgroups of any number of threads; a workgroup has a power of two.
func TestFourColumnsHavePowersOfTwoOfThreads(t *testing.T) {
	g := &launch.Gemm{Type: ir.F32, AUnit: 'k', BUnit: 'n'}
	params := []uint64{1, 4096, 16384, 16384, 1, 0, 4096, 1, 0}
	for most, want := range map[int]int{1024: 1024, 768: 512, 384: 256} {
		o := ChooseGemm(g, params[:9], Caps{MaxThreads: most, Units: 16})
		_, err := FromGemm(g, o)
		require.NoError(t, err)
		require.True(t, o.Row.OuterVec)
		require.Equal(t, want, o.Row.Workgroup)
	}
}

// loadsBefore counts loads of a buffer before the first barrier, and all of them.
func loadsBefore(p *gpuir.Program, buf int) (early, all int) {
	barrier := false
	var visit func(body []gpuir.Stmt)
	visit = func(body []gpuir.Stmt) {
		for _, s := range body {
			barrier = barrier || s.Op == gpuir.SBarrier
			if s.Op == gpuir.SLet && s.A.Op == gpuir.PLoad && int(s.A.Imm) == buf {
				if all++; !barrier {
					early++
				}
			}
			visit(s.Body)
		}
	}
	visit(p.Body)
	return early, all
}

// Lanes load the long operands before they wait for a fold of the row, and vectors that all columns share after it. A
// lane of four columns loads these before, too.
func TestHeldRowsAreLoadedAheadOfTheirFolds(t *testing.T) {
	for n, shared := range map[uint64]bool{2304: true, 2302: false} {
		g := &launch.Gemm{Type: ir.F32, AUnit: 'k', BUnit: 'n', Prologue: kerneltest.Norm(ir.F32, true, true, true)}
		o := ChooseGemm(g, []uint64{1, n, 768, 768, 1, 0, n, 1, 0, 768, 0}, Caps{MaxThreads: 1024, Units: 264})
		procs, err := FromGemm(g, o)
		require.NoError(t, err)
		require.Equal(t, shared, o.Row.OuterVec)
		vectors := 0
		if shared {
			vectors = o.Row.Hold
		}
		l := g.Layout()
		for buf, want := range map[int]int{l.BufA: o.Row.Hold, l.BufB: o.Row.Hold, l.BufVectors[0]: vectors} {
			early, all := loadsBefore(procs[0], buf)
			require.Equal(t, []int{want, o.Row.Hold}, []int{early, all}, "buffer %d", buf)
		}
	}
}

func TestTilesRefuseNorms(t *testing.T) {
	g := &launch.Gemm{Type: ir.F32, AUnit: 'k', BUnit: 'n', Prologue: kerneltest.Norm(ir.F32, true, false, false)}
	_, err := FromGemm(g, candidates[0].GemmOptions)
	require.ErrorContains(t, err, "tiles do not work the rows of A first")
	_, ok := GemmTile{BM: 32, BN: 32, BK: 8, WM: 16, WN: 32, TM: 4, TN: 4, Rolled: true, Parts: 1}.Options(g,
		[]uint64{4, 64, 64, 64, 1, 0, 64, 1, 0, 64, 0}, Caps{})
	require.False(t, ok)
}

func TestANormOfHalvesIsRounded(t *testing.T) {
	c := kerneltest.GemmNormOfHalves()
	want := c.Copy()
	require.NoError(t, launch.InterpretGemm(c.Gemm, want.Params, want.Bufs))
	p, err := FromGemm(c.Gemm, ChooseGemm(c.Gemm, c.Params, Caps{}))
	require.NoError(t, err)
	_, err = run(p, c.Params, c.Bufs)
	require.NoError(t, err)
	require.NoError(t, kerneltest.Close(asKernel(c.Gemm), c.Bufs, want.Bufs, 0, 0))
}
