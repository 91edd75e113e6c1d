package lower

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
	_ "github.com/torchlette/torchlette/engine/op/prim" // registers the primitives
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

func TestEveryPrimitiveHasALowering(t *testing.T) {
	names := map[string]bool{}
	for _, p := range op.Prims() {
		members := p.Variants
		if members == nil {
			members = []string{p.Name}
		}
		for _, name := range members {
			names[name] = true
			if name == "to_device" || name == "loop" {
				require.Nil(t, table[name], "to_device is the executor's, loop the planner's")
				continue
			}
			require.NotNil(t, table[name], "primitive %s has no lowering for %s", p.Name, name)
		}
	}
	for name := range table {
		require.True(t, names[name], "lowering of %s, which is no primitive", name)
	}
	_, err := Lower(&Node{Prim: op.PrimNamed("to_device")})
	require.ErrorContains(t, err, "no lowering for primitive to_device")
}

func TestCollapse(t *testing.T) {
	cases := []struct {
		shape  []int64
		stride [][]int64
		fixed  int
		size   []int64
		want   [][]int64
	}{
		{[]int64{2, 3, 4}, [][]int64{{12, 4, 1}}, 0, []int64{24}, [][]int64{{1}}},
		{[]int64{2, 3, 4}, [][]int64{{12, 4, 1}, {0, 0, 1}}, 0, []int64{6, 4}, [][]int64{{4, 1}, {0, 1}}},
		{[]int64{2, 1, 4}, [][]int64{{4, 99, 1}, {8, 7, 2}}, 0, []int64{8}, [][]int64{{1}, {2}}},
		{nil, [][]int64{nil}, 0, []int64{1}, [][]int64{{1}}},
		{[]int64{2, 3, 4}, [][]int64{{12, 4, 1}}, 2, []int64{2, 3, 4}, [][]int64{{12, 4, 1}}},
		{[]int64{5, 1, 1}, [][]int64{{1, 1, 1}}, 2, []int64{5, 1, 1}, [][]int64{{1, 1, 1}}},
		{[]int64{3, 4}, [][]int64{{1, 3}}, 0, []int64{3, 4}, [][]int64{{1, 3}}},
	}
	for _, c := range cases {
		size, out := collapse(c.shape, c.stride, c.fixed)
		require.Equal(t, c.size, size)
		require.Equal(t, c.want, out)
	}
}

// TestTextDependsOnClassesOnly: other sizes, offsets and strides of the same classes give the same kernel.
func TestTextDependsOnClassesOnly(t *testing.T) {
	build := func(shape []int64, strides ...[]int64) any {
		n := &Node{Prim: op.PrimNamed("add"), Bufs: 3}
		for i, s := range strides {
			n.In = append(n.In, Operand{DType: ir.F32, Layout: ir.InternLayout(shape, s), Buf: i})
		}
		n.Out = []Output{{DType: ir.F32, Layout: ir.DenseLayout(shape), Buf: 2}}
		res, err := Lower(n)
		require.NoError(t, err)
		require.Len(t, res.Launches, 1)
		return res.Launches[0].Op.(*loopir.Kernel)
	}
	dense := build([]int64{2, 3}, []int64{3, 1}, []int64{3, 1})
	require.Equal(t, dense, build([]int64{7, 1, 5, 2}, []int64{10, 10, 2, 1}, []int64{10, 3, 2, 1}))
	require.Equal(t, dense, build(nil, nil, nil))
	rows := build([]int64{2, 3}, []int64{3, 1}, []int64{0, 1})
	require.NotEqual(t, dense, rows)
	require.Equal(t, rows, build([]int64{4, 5, 6}, []int64{30, 6, 1}, []int64{0, 6, 1}))
}
