package lazy

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// Results on Meta are leaves: nothing is pending, and no node holds the operands. Writes count, and are in no window.
func TestMetaValuesAreNeverPending(t *testing.T) {
	r := newRig(t)
	x := r.do(func(...op.Val) op.Val { return prim.Zeros(r, ir.F32, ir.Meta, []int64{2, 3}) })
	held := r.graph().Live()
	for range 3 {
		x2 := r.do(func(x ...op.Val) op.Val { return r.computed(prim.Mul(r, x[0], op.FloatVal(2))) }, x)
		require.Equal(t, []int64{2, 3}, r.resolve(x2).Shape())
		require.Equal(t, ir.Meta, r.resolve(x2).Device())
		r.mulIn(x, 2)
		r.Release(x2)
	}
	require.Equal(t, held, r.graph().Live())
	require.Empty(t, r.graph().Pending)
	require.Zero(t, r.PendingEffects())
	require.Zero(t, r.PendingBytes())
	h, err := r.Handle(x)
	require.Nil(t, err)
	require.EqualValues(t, 3, r.Version(h))
	require.PanicsWithError(t, ir.NoData().Error(), func() { prim.ToDevice(r, r.resolve(x), ir.CPU) })
	r.settled(x)
}
