package gpucode

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/kerneltest"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// TestMergedKernelsMatchTheirMembers: a merged program leaves what its members leave one after the other, with data of
// their own and with buffers that all of them read.
func TestMergedKernelsMatchTheirMembers(t *testing.T) {
	shares := 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 9))
		i64 := r.IntN(2) == 0
		first := kerneltest.Random(r, kerneltest.Limits{Small: !i64})
		if first.Kernel.Checks {
			continue
		}
		for _, o := range forms(r, first, i64) {
			procs, err := FromKernel(first.Kernel, o)
			require.NoError(t, err, "seed %d", seed)
			if len(procs) > 1 {
				continue // passes share scratch memory: they are not merged
			}
			p := procs[0]
			n := 1 << (1 + r.IntN(3))
			shared := make([]bool, len(p.Bufs))
			for b := range shared {
				shared[b] = p.Bufs[b].Access == loopir.Read && r.IntN(3) == 0
				if shared[b] {
					shares++
				}
			}
			q := gpuir.Merge(p, n, shared)
			var params [][]uint64
			var bufs, want [][]byte
			for i := range n {
				c := variation(r, first, i, shared)
				params = append(params, c.Params)
				for b := range c.Bufs {
					if i == 0 || !shared[b] {
						bufs = append(bufs, c.Copy().Bufs[b])
						want = append(want, c.Bufs[b])
					}
				}
				_, err := gpuir.Interpret(p, c.Params, c.Bufs)
				require.NoError(t, err, "seed %d", seed)
			}
			_, err = gpuir.Interpret(q, append(slices.Concat(params...), gpuir.MergedEnds(p, params)...), bufs)
			require.NoError(t, err, "seed %d, %s, %+v", seed, first.Kernel.Name, o)
			require.Equal(t, want, bufs, "seed %d, %s, %+v: bit for bit", seed, first.Kernel.Name, o)
		}
	}
	require.Greater(t, shares, 100)
}

// variation is c for member i: the bytes of the buffers that it does not share are rotated, which keeps every value
// valid for its type; some members are empty.
func variation(r *rand.Rand, c *kerneltest.Case, i int, shared []bool) *kerneltest.Case {
	v := c.Copy()
	if i == 0 {
		return v
	}
	for b, mem := range v.Bufs {
		if shared[b] || len(mem) == 0 {
			continue
		}
		at := r.IntN(len(mem)/c.Kernel.Bufs[b].Type.Size()) * c.Kernel.Bufs[b].Type.Size()
		copy(mem, append(append([]byte(nil), c.Bufs[b][at:]...), c.Bufs[b][:at]...))
	}
	if c.Kernel.Outer > 0 && r.IntN(4) == 0 {
		v.Params = append([]uint64(nil), v.Params...)
		v.Params[0] = 0
	}
	return v
}

// TestMergedGemm: products with workgroup memory and barriers in a branch.
func TestMergedGemm(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 10))
		random := kerneltest.RandomGemm
		if seed >= 8 {
			random = kerneltest.RandomGemmSums
		}
		c := random(r, ir.F32, 9+r.Int64N(40), 5+r.Int64N(40), 3+r.Int64N(30), seed%2 == 0)
		procs, err := FromGemm(c.Gemm, ChooseGemm(c.Gemm, c.Params, Caps{Software: seed%3 == 0}))
		require.NoError(t, err)
		p := procs[0]
		shared := make([]bool, len(p.Bufs))
		shared[0] = seed%2 == 0
		q := gpuir.Merge(p, 2, shared)
		var params [][]uint64
		var bufs, want [][]byte
		for i := range 2 {
			one := c.Copy()
			params = append(params, one.Params)
			_, err := gpuir.Interpret(p, one.Params, one.Bufs)
			require.NoError(t, err)
			for b, mem := range one.Bufs {
				if i == 0 || !shared[b] {
					bufs, want = append(bufs, c.Copy().Bufs[b]), append(want, mem)
				}
			}
		}
		_, err = gpuir.Interpret(q, append(slices.Concat(params...), gpuir.MergedEnds(p, params)...), bufs)
		require.NoError(t, err)
		require.Equal(t, want, bufs)
	}
}
