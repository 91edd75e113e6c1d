package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
)

// write adds 1 to x in place and returns the error's code.
func (r *rig) write(x T) ir.Code {
	if _, err := r.call(ModeInPlace, "add", x, 1.0); err != nil {
		return err.Code
	}
	return ir.OK
}

func (r *rig) fence(t *testing.T, kind FenceKind, writable ...uint64) bool {
	t.Helper()
	recomputing, err := r.e.Fence(kind, writable)
	require.Nil(t, err)
	return recomputing
}

func TestAFenceRefusesWritesToWhatIsOlder(t *testing.T) {
	r := newRig(t)
	old, given := r.floats(nil, 1, 2), r.floats(nil, 3, 4)
	view := r.do("unsqueeze", old, 0)

	r.fence(t, FenceTransform, uint64(given))
	young := r.floats(nil, 5, 6)
	assert.Equal(t, ir.ErrRuntime, r.write(old))
	assert.Equal(t, ir.ErrRuntime, r.write(view), "a view is as old as its base")
	assert.Equal(t, ir.OK, r.write(given))
	assert.Equal(t, ir.OK, r.write(young))

	assert.False(t, r.fence(t, FenceRecomputation))
	assert.True(t, r.fence(t, FenceQuery))
	assert.Equal(t, ir.ErrImpureRegion, r.write(young), "older than the inner fence")
	assert.Equal(t, ir.ErrImpureRegion, r.write(given), "what the outer fence allows, the inner one refuses")

	assert.True(t, r.fence(t, FenceNone))
	assert.Equal(t, ir.OK, r.write(old))
	assert.True(t, r.fence(t, FenceEnd), "still in the recomputation")
	assert.Equal(t, ir.ErrImpureRegion, r.write(old))

	r.fence(t, FenceEnd)
	assert.False(t, r.fence(t, FenceQuery))
	assert.Equal(t, ir.ErrRuntime, r.write(old))
	r.fence(t, FenceEnd)
	r.fence(t, FenceEnd) // no fence is left: ignored
	assert.Equal(t, ir.OK, r.write(old))
	assert.Equal(t, []float32{3, 4}, r.read(old))
	assert.Equal(t, []float32{4, 5}, r.read(given))
}

func TestAnInnerFenceDoesNotAllowWhatAnOuterOneRefuses(t *testing.T) {
	r := newRig(t)
	old := r.floats(nil, 1)
	r.fence(t, FenceRecomputation)
	r.fence(t, FenceTransform, uint64(old))
	assert.Equal(t, ir.ErrImpureRegion, r.write(old))
	require.Nil(t, r.e.Reset())
	assert.Equal(t, ir.OK, r.write(r.floats(nil, 1)), "a reset ends all fences")
}

func TestResetEndsABrokenBackwardSession(t *testing.T) {
	r := newRig(t)
	x := r.grad(r.floats(nil, 2))
	y := r.do("mul", x, 3.0)
	_, err := r.e.AddHook(uint64(y), HookTensor)
	require.Nil(t, err)
	for range 2 {
		id, err := r.e.Backward([]uint64{uint64(y)}, nil, nil, AccumulateGrad|RetainGraph)
		require.Nil(t, err)
		var ev BackwardEvent
		require.Nil(t, r.e.BackwardNext(id, 0, &ev), "the walk stops at the hook, and is left there")
	}
	require.Nil(t, r.e.Reset())
	assert.Zero(t, r.e.backward.open)
	assert.Empty(t, r.e.backward.byID)
	assert.False(t, r.e.waiter.heldByOther(-1), "the execution lock is free for other threads")

	z := r.grad(r.floats(nil, 2))
	require.Nil(t, r.backward(r.do("mul", z, 3.0), 0))
	assert.Zero(t, r.e.backward.open)
}
