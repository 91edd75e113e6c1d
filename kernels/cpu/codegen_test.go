package cpu

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// forms counts the instructions of a kernel over sizes by operation and variant; every buffer is a different one.
func forms(t *testing.T, k *loopir.Kernel, sizes ...int64) (of map[[2]int]int) {
	t.Helper()
	slots := make([]int, len(k.Bufs))
	for i := range slots {
		slots[i] = i
	}
	pl, err := newPlan(k, sizes, slots, mapLanes)
	require.NoError(t, err)
	of = map[[2]int]int{}
	e := emit(pl)
	for _, s := range e.stages {
		for _, g := range []segment{s.outer, s.prologue, s.inner} {
			for _, i := range g.code {
				of[[2]int{i.op, i.variant}]++
			}
		}
	}
	return of
}

// rowNorm begins a kernel over rows, or over columns, of g and x, with a mean and a scale for each row.
func rowNorm(columns bool) (b *loopir.Builder, g, centred, scale int) {
	b = loopir.NewBuilder("norm", 1, 1)
	full := func() int {
		if columns {
			return b.Access(b.Buf(ir.F32, loopir.Read), -1, loopir.Unit, b.Stride())
		}
		return b.Linear(b.Buf(ir.F32, loopir.Read), -1)
	}
	dims := []int{loopir.Unit, loopir.Broadcast}
	if columns {
		dims[0], dims[1] = loopir.Broadcast, loopir.Unit
	}
	g, x := b.Load(full()), b.Load(full())
	mean, scale := b.Load(b.Access(b.Buf(ir.F32, loopir.Read), -1, dims...)),
		b.Load(b.Access(b.Buf(ir.F32, loopir.Read), -1, dims...))
	b.Each()
	return b, g, b.Sub(x, mean), scale
}

// TestGradientsOfNormsTakeOneInstructionAPass: differences from a row's mean are computed where they are used, and no
// product is stored before it is added.
func TestGradientsOfNormsTakeOneInstructionAPass(t *testing.T) {
	sum, fma := int(opSum), int(opFma)
	t.Run("input", func(t *testing.T) {
		b, g, centred, scale := rowNorm(false)
		dot := b.Acc(b.Dot(g, centred))
		b.Each()
		b.Store(b.Linear(b.Buf(ir.F32, loopir.Write), -1), b.Fma(centred, b.Neg(dot), b.Fma(g, scale, b.Neg(dot))))
		of := forms(t, b.Kernel(), 70, 768)
		assert.Equal(t, []int{1, 1}, []int{of[[2]int{sum, sumDistances}], of[[2]int{fma, fmaTwo}]}, of)
	})
	t.Run("variance", func(t *testing.T) {
		b, _, centred, _ := rowNorm(false)
		dot := b.Acc(b.Dot(centred, centred))
		b.Map()
		b.Store(b.Access(b.Buf(ir.F32, loopir.Write), -1, loopir.Unit, loopir.Broadcast), dot)
		of := forms(t, b.Kernel(), 70, 768)
		assert.Equal(t, 1, of[[2]int{sum, sumSquares}], of)
	})
	t.Run("weight", func(t *testing.T) {
		b, g, centred, scale := rowNorm(true)
		dot := b.Acc(b.Dot(g, b.Mul(centred, scale)))
		b.Map()
		b.Store(b.Access(b.Buf(ir.F32, loopir.Write), -1, loopir.Unit, loopir.Broadcast), dot)
		of := forms(t, b.Kernel(), 600, 700, 600, 600)
		assert.Equal(t, 1, of[[2]int{sum, sumColumnDot}], of)
	})
}

// TestRowsThatSeveralStagesVisitAreBundled: a bundle has as many rows as take 16 KiB in buffers, where rows are long
// enough and there are bundles enough for all threads.
func TestRowsThatSeveralStagesVisitAreBundled(t *testing.T) {
	b, g, centred, scale := rowNorm(false)
	dot := b.Acc(b.Dot(g, centred))
	b.Each()
	b.Store(b.Linear(b.Buf(ir.F32, loopir.Write), -1), b.Fma(centred, b.Neg(dot), b.Fma(g, scale, b.Neg(dot))))
	k := b.Kernel()
	for _, c := range []struct{ rows, length, bundled int64 }{{4096, 256, 5}, {4096, 512, 2}, {96, 256, 3}, {4096, 255, 0},
		{4096, 700, 0}, {63, 256, 0}} {
		p, err := newPlan(k, []int64{c.rows, c.length}, []int{0, 1, 2, 3, 4}, mapLanes)
		require.NoError(t, err)
		rows := int64(0)
		if p.bundle {
			rows = p.capacity(laneOuter)
		}
		assert.Equal(t, c.bundled, rows, "%d rows of %d", c.rows, c.length)
	}
}
