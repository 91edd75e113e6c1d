package gpucode

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// sumOf is a map that adds n operands; in place, into the first of them.
func sumOf(n int, inPlace bool) *loopir.Kernel {
	b := loopir.NewBuilder("sum", 1, 0)
	b.Map()
	access := loopir.Read
	if inPlace {
		access = loopir.ReadWrite
	}
	out := b.Linear(b.Buf(ir.F32, access), -1)
	sum := b.Load(out)
	for range n - 1 {
		sum = b.Add(sum, b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1)))
	}
	if !inPlace {
		out = b.Linear(b.Buf(ir.F32, loopir.Write), -1)
	}
	b.Store(out, sum)
	return b.Kernel()
}

// TestLargeMapsWorkOnSeveralVectorsAThread: a thread works on as many vectors as leave four loads in flight. In small
// maps, maps that write what they read, and on software devices it works on one.
func TestLargeMapsWorkOnSeveralVectorsAThread(t *testing.T) {
	const large = 64 << 20
	for _, tc := range []struct {
		operands int
		inPlace  bool
		size     uint64
		software bool
		each     int
	}{
		{1, false, large, false, 4},
		{2, false, large, false, 2},
		{5, false, large, false, 1},
		{2, false, 1 << 20, false, 0},
		{2, false, large + 1, false, 0},
		{2, true, large, false, 0},
		{2, false, large, true, 0},
	} {
		o := Choose(sumOf(tc.operands, tc.inPlace), []uint64{tc.size}, Caps{Software: tc.software})
		require.Equal(t, tc.each, o.VecPerThread, "%+v", tc)
	}
}

// TestRowsThatBeginInALineArePeeled: rows of a length that is no multiple of 8 are written from the next cache line on,
// where many lanes loop over them. Others, and sums of rows, are worked from their beginning.
func TestRowsThatBeginInALineArePeeled(t *testing.T) {
	scaled := func(store bool) *loopir.Kernel {
		b := loopir.NewBuilder("scaled", 1, 1)
		x := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1))
		b.Each()
		sum := b.Reduce(loopir.Sum, x)
		if store {
			out := b.Linear(b.Buf(ir.F32, loopir.Write), -1)
			b.Each()
			b.Store(out, b.Mul(x, b.Acc(sum)))
		} else {
			out := b.Linear(b.Buf(ir.F32, loopir.Write), -1)
			b.Map()
			b.Store(out, b.Acc(sum))
		}
		return b.Kernel()
	}
	for _, tc := range []struct {
		store, software bool
		inner           uint64
		peel            bool
	}{
		{true, false, 50257, true},
		{true, false, 50256, false},
		{true, true, 50257, false},
		{false, false, 50257, false},
	} {
		o := Choose(scaled(tc.store), []uint64{2048, tc.inner}, Caps{MaxThreads: 1024, MaxWorkgroupBytes: 48 << 10,
			Units: 264, Software: tc.software})
		require.Equal(t, tc.peel, o.Prologue, "%+v", tc)
	}
}
