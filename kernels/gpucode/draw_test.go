package gpucode

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// drawing is a map that stores a random word, and the number of the element where numbered is set.
func drawing(numbered bool) *loopir.Kernel {
	b := loopir.NewBuilder("draw", 1, 0)
	seed, drawOffset := b.Scalar(ir.I64), b.Scalar(ir.I64)
	b.Map()
	v := b.Draw(loopir.DrawWord, b.Param(drawOffset), b.Param(seed))
	if numbered {
		v = b.Add(v, b.Cast(ir.U32, b.LinearIndex()))
	}
	b.Store(b.Linear(b.Buf(ir.U32, loopir.Write), -1), v)
	return b.Kernel()
}

func TestFourDrawsAreOnePhiloxBlock(t *testing.T) {
	k := drawing(false)
	require.True(t, CanVec(k, []uint64{64, 7, 3}))
	list, err := FromKernel(k, Options{Workgroup: 64, Vec: 4, Lanes: 1})
	require.NoError(t, err)
	require.Equal(t, 1, blocksIn(list[0].Body), "the block of a vector")
}

func TestNumbersOfElementsHaveNoVectors(t *testing.T) {
	require.False(t, CanVec(drawing(true), []uint64{64, 7, 3}))
}

func blocksIn(body []gpuir.Stmt) (n int) {
	for _, s := range body {
		if s.A != nil && s.A.Op == gpuir.PPhilox {
			n++
		}
		n += blocksIn(s.Body)
	}
	return n
}
