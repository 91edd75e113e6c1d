package gpucode

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/kerneltest"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// normalizer is a kernel that stores the maximum of rows and the sum of exp(x - maximum).
func normalizer() *loopir.Kernel {
	b := loopir.NewBuilder("normalizer", 1, 1)
	x := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1))
	tops, sums := b.Linear(b.Buf(ir.F32, loopir.Write), -1), b.Linear(b.Buf(ir.F32, loopir.Write), -1)
	b.Each()
	top := b.Reduce(loopir.Max, x)
	b.Each()
	sum := b.Reduce(loopir.Sum, b.Un(loopir.OpExp, b.Sub(x, b.Acc(top))))
	b.Map()
	b.Store(tops, b.Acc(top))
	b.Store(sums, b.Acc(sum))
	return b.Kernel()
}

// TestMaximumAndSumOfExponentialsReadARowOnce: the two stages are one loop, and agree with the interpreter on rows that
// begin with -Inf, have nothing else, or have a NaN or +Inf.
func TestMaximumAndSumOfExponentialsReadARowOnce(t *testing.T) {
	const rows = 6
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 7, 64, 150, 260} {
		k := normalizer()
		floats := make([]byte, 4*rows*n)
		for i := range rows * n {
			v := 40 * r.Float64()
			switch {
			case i < n/2, i/n == 1:
				v = math.Inf(-1)
			case i == 2*n:
				v = math.NaN()
			case i == 4*n-1:
				v = math.Inf(1)
			}
			binary.LittleEndian.PutUint32(floats[4*i:], math.Float32bits(float32(v)))
		}
		c := &kerneltest.Case{Kernel: k, Params: []uint64{rows, uint64(n)}, Bufs: [][]byte{floats, make([]byte, 4*rows),
			make([]byte, 4*rows)}}
		want := c.Copy()
		_, err := loopir.Interpret(k, want.Params, want.Bufs)
		require.NoError(t, err)
		for _, o := range []Options{
			{Workgroup: 8, Vec: 1, Lanes: 1}, {Workgroup: 32, Vec: 1, Lanes: 8, Unroll: 4}, {Workgroup: 64, Vec: 1, Lanes: 32,
				Subgroup: 8, Unroll: 3},
			{Workgroup: 32, Vec: 4, Lanes: 16, Unroll: 2}, {Workgroup: 32, Vec: 1, Lanes: 4, OuterFast: true},
		} {
			if o.Vec == 4 && !CanVec(k, c.Params) {
				continue
			}
			procs, err := FromKernel(k, o)
			require.NoError(t, err)
			require.Equal(t, o.Unroll > 1, loops(procs[0].Body, 0) == 2, "loops over the row")
			got := c.Copy()
			_, err = run(procs, got.Params, got.Bufs)
			require.NoError(t, err)
			require.NoError(t, kerneltest.Close(k, got.Bufs, want.Bufs, 1e-5, 1e-6), "%d %+v", n, o)
		}
	}
}

// loops counts the loops of a program.
func loops(body []gpuir.Stmt, n int) int {
	for i := range body {
		if body[i].Op == gpuir.SFor {
			n++
		}
		n = loops(body[i].Else, loops(body[i].Body, n))
	}
	return n
}
