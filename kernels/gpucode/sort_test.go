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
)

func TestSortAsChosen(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, size := range [][4]int64{
		{1, 1, 1, 1}, {3, 2, 2, 2}, {2, 7, 3, 7}, {70, 16, 1, 3}, {2, 100, 2, 50}, {1, 1024, 1, 1024}, {1, 1025, 2, 1025},
		{1, 2049, 1, 40},
	} {
		types := []ir.DType{ir.F32, ir.F16, ir.I32, ir.I64, ir.U32, ir.Bool}
		if size[1] > 100 { // the interpreter of programs is slow: a key of one word and one of two
			types = []ir.DType{ir.F32, ir.I64}
		}
		for _, d := range types {
			alone := r.IntN(2) == 0
			t.Run(fmt.Sprintf("%v_%v_alone=%v", size, d, alone), func(t *testing.T) {
				c := kerneltest.RandomSort(r, d, size[0], size[1], size[2], size[3], alone)
				values, indices, err := c.Want()
				require.NoError(t, err)
				o := ChooseSort(c.Sort, c.Params, Caps{I64: true, Software: true})
				require.Equal(t, size[1] > launch.SortBlock, o.Merges > 0)
				procs, err := FromSort(c.Sort, o)
				require.NoError(t, err)
				for _, p := range procs {
					require.LessOrEqual(t, p.SharedBytes(), 16384)
					_, err = gpuir.Interpret(p, c.Params, c.Bufs)
					require.NoError(t, err)
				}
				require.Equal(t, values, c.Bufs[1])
				if !alone {
					require.Equal(t, indices, c.Bufs[2])
				}
			})
		}
	}
}
