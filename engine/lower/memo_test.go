package lower_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

func TestMemoLowersLikeNodesOnce(t *testing.T) {
	dense, turned := ir.DenseLayout([]int64{3, 4}), ir.InternLayout([]int64{3, 4}, []int64{1, 3})
	node := func(change func(*lower.Node)) *lower.Node {
		n := &lower.Node{Prim: op.PrimNamed("sum"), Attr: []int64{1}, Bufs: 2,
			In:  []lower.Operand{{DType: ir.F32, Layout: dense, Buf: 0}},
			Out: []lower.Output{{DType: ir.F32, Layout: ir.DenseLayout([]int64{3}), Buf: 1}}}
		if change != nil {
			change(n)
		}
		return n
	}
	var m lower.Memo
	first, err := m.Lower(node(nil))
	require.NoError(t, err)
	again, err := m.Lower(node(nil))
	require.NoError(t, err)
	assert.Same(t, first, again)
	for name, change := range map[string]func(*lower.Node){
		"primitive": func(n *lower.Node) { n.Prim = op.PrimNamed("prod") },
		"attribute": func(n *lower.Node) { n.Attr[0], n.Out[0].Layout = 0, ir.DenseLayout([]int64{4}) },
		"layout":    func(n *lower.Node) { n.In[0].Layout = turned },
		"dtype":     func(n *lower.Node) { n.In[0].DType, n.Out[0].DType = ir.F16, ir.F16 },
		"buffer":    func(n *lower.Node) { n.In[0].Buf, n.Out[0].Buf = 1, 0 },
		"output's layout": func(n *lower.Node) {
			n.Out[0].Layout, n.Out[0].Through = ir.InternLayout([]int64{3}, []int64{2}),
				true
		},
		"device":        func(n *lower.Node) { n.InOrder = true },
		"unread output": func(n *lower.Node) { n.Out[0].Unread = true },
	} {
		other, err := m.Lower(node(change))
		require.NoError(t, err, name)
		assert.NotSame(t, first, other, name)
		fresh, err := lower.Lower(node(change))
		require.NoError(t, err, name)
		assert.Equal(t, fresh, other, name)
	}
	bad := node(nil)
	bad.Prim = op.PrimNamed("to_device")
	_, err = m.Lower(bad)
	assert.ErrorContains(t, err, "no lowering for primitive to_device")
}

// TestMemoIsBoundedByLaunches: sequences that each have another length do not fill the memory.
func TestMemoIsBoundedByLaunches(t *testing.T) {
	node := func(steps int64) *lower.Node {
		n := &lower.Node{Prim: op.PrimNamed("recurrence"), Attr: []int64{int64(op.RNNTanh), 0, 0, 0}, Bufs: 4}
		for i, s := range [][]int64{{steps, 1, 2}, {2, 2}, {1, 2}} {
			n.In = append(n.In, lower.Operand{DType: ir.F32, Layout: ir.DenseLayout(s), Buf: i})
		}
		n.Out = []lower.Output{{DType: ir.F32, Layout: ir.DenseLayout([]int64{steps, 1, 2}), Buf: 3}}
		return n
	}
	var m lower.Memo
	get := func(steps int64) *lower.Result {
		r, err := m.Lower(node(steps))
		require.NoError(t, err)
		return r
	}
	first := get(1)
	for n := range int64(3) {
		get(1000 + n)
	}
	require.Same(t, first, get(1))
	get(2500)
	require.NotSame(t, first, get(1))
}
