package devicetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/kerneltest"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// sorts compares sorts of short, long and very long rows with the interpreter's, with positions and without.
func (s *suite) sorts(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	for _, size := range [][4]int64{
		{1, 1, 1, 1}, {3, 2, 2, 2}, {300, 9, 1, 9}, {2, 50, 3, 50}, {5, 1000, 1, 10}, {2, 1025, 2, 1025}, {1, 5000, 1, 30},
		{1, 70000, 1, 70000}, {1, 40000, 1, 20},
	} {
		for _, d := range []ir.DType{ir.F32, ir.F16, ir.BF16, ir.I32, ir.I64, ir.U32, ir.Bool, ir.F64} {
			if s.d.Caps().Storage[d] == 0 || d == ir.I64 && s.d.Caps().Storage[d] != 8 {
				continue
			}
			if size[1] > 20000 && !slices.Contains([]ir.DType{ir.F32, ir.F16, ir.I64}, d) {
				continue // one type for each number of digits: interpreters are slow
			}
			for _, alone := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v_%v_alone=%v", size, d, alone), func(t *testing.T) {
					s.sort(t, kerneltest.RandomSort(r, d, size[0], size[1], size[2], size[3], alone), d)
				})
			}
		}
	}
}

// sort compares one sort.
func (s *suite) sort(t *testing.T, c *kerneltest.SortCase, d ir.DType) {
	values, indices, err := c.Want()
	require.NoError(t, err)
	l := c.Sort.Layout()
	var bufs []device.Buffer
	for i, b := range l.Bufs {
		bufs = append(bufs, s.put(t, b.Type, c.Bufs[i]))
	}
	s.run(t, []device.Step{launchStep(c.Sort, c.Params)}, bufs...)
	if l.Indices >= 0 {
		require.Equal(t, indices, s.get(t, bufs[l.Indices], ir.I64, len(indices)/8))
	}
	got := s.get(t, bufs[l.Values], d, len(values)/d.Size())
	for e := range int64(len(values) / d.Size()) {
		ct := d.ComputeType()
		want, have := loopir.LoadBits(d, values, e), loopir.LoadBits(d, got, e)
		if !ct.IsFloat() || ir.DecodeFloat(ct, want) == ir.DecodeFloat(ct, want) {
			require.Equal(t, want, have)
		}
	}
}
