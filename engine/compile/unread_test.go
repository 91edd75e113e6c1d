package compile_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/launch"
)

// The launch of a sort has no buffer for positions that nobody holds, and the plan has none.
func TestSortWithoutPositions(t *testing.T) {
	d, err := cpu.New(cpu.Options{Threads: 1})
	require.NoError(t, err)
	defer d.Close()
	const values = "input $0 : f32[2,8]\n%0 = sort{8,1,0} $0 : f32[2,8] live\n"
	for text, alone := range map[string]bool{values: true, values + "%1 = result{1} %0 : i64[2,8] live\n": false} {
		p, err := program.Parse(text)
		require.NoError(t, err)
		pl := build(t, d, p)
		require.Len(t, pl.Segments[0].Steps, 1)
		require.Equal(t, alone, pl.Segments[0].Steps[0].Op.(*launch.Sort).Alone)
		require.Zero(t, pl.Temps)
		require.Equal(t, run(t, d, build(t, d, p))[0], run(t, d, pl)[0])
	}
}
