package gpucode

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Workgroups share a long row where that gains more than a second pass costs: a row in which a place is looked for
// sooner than one that is added up.
func TestLongRowsAreSharedByWorkgroups(t *testing.T) {
	caps := Caps{MaxWorkgroupBytes: 49152, MaxThreads: 1024, Units: 264, Subgroup: 32}.withDefaults()
	for _, tc := range []struct {
		place      bool
		rows, long uint64
		parts      int
	}{
		{false, 1, 50257, 1}, {false, 1, 131072, 16}, {true, 1, 16384, 1}, {true, 1, 50257, 16}, {true, 1, 131072, 64},
		{true, 8, 8192, 1}, {false, 8, 32768, 1}, {false, 8, 131072, 16}, {true, 300, 50257, 1},
	} {
		k := rowsOf(func(b *loopir.Builder, x int, out func(int, bool)) {
			b.Each()
			if tc.place {
				a := b.ReduceIdx(loopir.ArgMax, x, b.Index(1))
				b.Map()
				out(b.Cast(ir.F32, b.AccIdx(a)), false)
				return
			}
			s := b.Reduce(loopir.Sum, x)
			b.Map()
			out(b.Acc(s), false)
		})
		require.Equal(t, tc.parts, Choose(k, []uint64{tc.rows, tc.long}, caps).Parts, "%+v", tc)
	}
}
