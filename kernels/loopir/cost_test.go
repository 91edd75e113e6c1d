package loopir_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// An operation on floats counts as one at every index of its stage; an element that is reached again moves once.
func TestCostCountsFloatsAndElementsReached(t *testing.T) {
	width := loopir.Widths{}
	for dt := range ir.NumStored {
		width[dt] = dt.Size()
	}
	for _, tc := range []struct {
		name   string
		kernel func() *loopir.Kernel
		params []uint64
		want   loopir.Cost
	}{
		{"map: x*x + row", func() *loopir.Kernel {
			b := loopir.NewBuilder("map", 2, 0)
			x := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1))
			row := b.Load(b.Access(b.Buf(ir.F32, loopir.Read), -1, loopir.Broadcast, loopir.Unit))
			b.Map()
			b.Store(b.Linear(b.Buf(ir.F32, loopir.Write), -1), b.Add(b.Mul(x, x), row))
			return b.Kernel()
		}, []uint64{5, 7}, loopir.Cost{Flops: 2 * 35, Bytes: 4 * (35 + 7 + 35)}},
		{"sum of rows in half", func() *loopir.Kernel {
			b := loopir.NewBuilder("sum", 1, 1)
			x := b.Load(b.Linear(b.Buf(ir.F16, loopir.Read), -1))
			out := b.Buf(ir.F16, loopir.Write)
			b.Each()
			sum := b.Reduce(loopir.Sum, x)
			b.Map()
			b.Store(b.Linear(out, -1), b.Un(loopir.OpSqrt, b.Acc(sum)))
			return b.Kernel()
		}, []uint64{3, 10}, loopir.Cost{Flops: 30 + 3, Bytes: 2 * (30 + 3)}},
		{"rows less their greatest: read by two stages", func() *loopir.Kernel {
			b := loopir.NewBuilder("shift", 1, 1)
			x := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1))
			out := b.Linear(b.Buf(ir.F32, loopir.Write), -1)
			b.Each()
			top := b.Reduce(loopir.Max, x)
			b.Each()
			b.Store(out, b.Sub(x, b.Acc(top)))
			return b.Kernel()
		}, []uint64{2, 8}, loopir.Cost{Flops: 32, Bytes: 4 * 32}},
		{"gather: integers are free", func() *loopir.Kernel {
			b := loopir.NewBuilder("gather", 1, 0)
			i := b.Load(b.Linear(b.Buf(ir.I64, loopir.Read), -1))
			table, out := b.Buf(ir.F32, loopir.Read), b.Buf(ir.F32, loopir.Write)
			b.Map()
			b.StoreAt(-1, out, b.Index(0), b.LoadAt(table, b.Add(i, b.I64(1))), loopir.Set)
			return b.Kernel()
		}, []uint64{6}, loopir.Cost{Flops: 0, Bytes: 6*8 + 6*4 + 6*4}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, tc.kernel().Cost(tc.params, &width))
		})
	}
}
