package gpucode

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/kerneltest"
	"github.com/torchlette/torchlette/kernels/launch"
)

// Held and in loops, with whole rows of lanes and not, with and without shuffles, with all epilogues.
func TestThreadsWorkOnFourColumns(t *testing.T) {
	columns, held, loops := 0, 0, 0
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 11))
		d := []ir.DType{ir.F32, ir.F32, ir.F16, ir.BF16}[r.IntN(4)]
		c := kerneltest.RandomGemm(r, d, 1+r.Int64N(4), 4+r.Int64N(150), 1+r.Int64N(120), true)
		o := ChooseGemm(c.Gemm, c.Params, Caps{Subgroup: []int{0, 4, 32}[r.IntN(3)], Units: 2 + r.IntN(40)})
		if !o.Dot || !o.Row.OuterVec {
			continue
		}
		columns++
		if r.IntN(2) == 0 {
			o.Row.Hold, o.Row.Full, o.Row.Unroll = 0, false, 1+r.IntN(3)
			loops++
		} else {
			held++
		}
		checkGemm(t, c.Gemm, c, o)
	}
	require.Greater(t, min(held, loops), 10)
	t.Log(columns, held, loops)
}

// A product with a weight of [in, out] loads the weight by vectors and the row by elements, so it has a quarter of the
// loads. Odd offsets, strides and lengths exclude vectors.
func TestColumnsAreLoadedAsVectors(t *testing.T) {
	caps := Caps{MaxWorkgroupBytes: 49152, MaxThreads: 1024, Units: 264, Subgroup: 32}
	for _, tc := range []struct {
		name                string
		d                   ir.DType
		n, stride, offset   uint64
		groups, width, rows int
	}{
		{"wide", ir.F32, 2304, 2304, 0, 72, 4, 12},
		{"narrow", ir.F32, 768, 768, 4, 48, 4, 6},
		{"halves", ir.F16, 768, 768, 0, 48, 4, 6},
		{"odd offset", ir.F32, 768, 768, 2, 96, 1, 12},
		{"odd stride", ir.F32, 768, 770, 0, 96, 1, 12},
		{"odd length", ir.F32, 766, 768, 0, 96, 1, 12},
	} {
		g := &launch.Gemm{Type: tc.d, AUnit: 'k', BUnit: 'n'}
		params := []uint64{1, tc.n, 768, 768, 1, 0, tc.stride, 1, tc.offset}
		o := ChooseGemm(g, params, caps)
		procs, err := FromGemm(g, o)
		require.NoError(t, err)
		l := g.Layout()
		require.Equal(t, tc.width, procs[0].Bufs[l.BufB].Vec, tc.name)
		require.Equal(t, 1, procs[0].Bufs[l.BufA].Vec, tc.name)
		require.Equal(t, tc.rows, o.Row.Hold, tc.name)
		require.Equal(t, [3]uint32{uint32(tc.groups), 1, 1}, procs[0].Grid(params), tc.name)
	}
}

func TestFourColumnsNeedTheirForm(t *testing.T) {
	g := &launch.Gemm{Type: ir.F32, AUnit: 'k', BUnit: 'n'}
	o := ChooseGemm(g, []uint64{1, 768, 768, 768, 1, 0, 768, 1, 0}, Caps{MaxThreads: 1024, Units: 264})
	require.True(t, o.Row.OuterVec)
	for name, change := range map[string]func(o *Options){
		"parts":   func(o *Options) { o.Parts = 2 },
		"lanes":   func(o *Options) { o.Lanes = 2 },
		"vectors": func(o *Options) { o.Vec = 4 },
	} {
		bad := o
		change(&bad.Row)
		_, err := FromGemm(g, bad)
		require.ErrorContains(t, err, "threads cannot work on four rows", name)
	}
	integers := &launch.Gemm{Type: ir.I32, AUnit: 'k', BUnit: 'n'}
	require.False(t, outerVecForm(dotKernel(integers)))
	_, err := FromGemm(integers, o)
	require.ErrorContains(t, err, "threads cannot work on four rows")
}
