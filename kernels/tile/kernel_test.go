package tile

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/kernels/kir"
	"github.com/torchlette/torchlette/kernels/kir/kirtest"
)

// forms are options to try on a case: what Choose says and drawn ones.
func forms(r *rand.Rand, c *kirtest.Case, i64 bool) []Options {
	chosen := Choose(c.Kernel, c.Params, Caps{I64: i64})
	drawn := chosen
	drawn.Workgroup = 1 << (3 + r.IntN(3))
	drawn.Lanes = 1 << r.IntN(4)
	drawn.OuterFast = r.IntN(2) == 0
	if r.IntN(2) == 0 {
		drawn.Vec = 1
	}
	return []Options{chosen, drawn}
}

func TestRandomKernelsMatchTheInterpreter(t *testing.T) {
	vecs, rowVecs, lanes := 0, 0, 0
	for seed := range uint64(700) {
		r := rand.New(rand.NewPCG(seed, 1))
		i64 := r.IntN(2) == 0
		c := kirtest.Random(r, kirtest.Limits{Small: !i64})
		want := c.Copy()
		fault, err := kir.Interpret(want.Kernel, want.Params, want.Bufs)
		require.NoError(t, err, "seed %d", seed)
		for _, o := range forms(r, c, i64) {
			got := c.Copy()
			p, err := FromKernel(c.Kernel, o)
			require.NoError(t, err, "seed %d", seed)
			gf, err := kir.InterpretProc(p, got.Params, got.Bufs)
			require.NoError(t, err, "seed %d, %s, %+v", seed, c.Kernel.Name, o)
			require.Equal(t, fault, gf, "seed %d", seed)
			require.NoError(t, kirtest.Close(c.Kernel, got.Bufs, want.Bufs, 1e-5, 1e-6), "seed %d, %s, %+v", seed, c.Kernel.Name, o)
			switch {
			case o.Vec == 4 && c.Kernel.Inner > 0:
				rowVecs++
			case o.Vec == 4:
				vecs++
			}
			if c.Kernel.Inner > 0 && o.Lanes > 1 {
				lanes++
			}
		}
	}
	require.Greater(t, vecs, 20)
	require.Greater(t, rowVecs, 20)
	require.Greater(t, lanes, 100)
}
