package engine

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
)

func TestValuesOfAChainAreRight(t *testing.T) {
	r := newRig(t)
	a, b := r.floats(nil, 1, 2, 3), r.floats(nil, 10, 20, 30)
	assert.Equal(t, []float32{11, 22, 33}, r.read(r.do("add", a, b)))
	assert.Equal(t, []float32{66}, r.read(r.do("sum", r.do("add", a, b))))
}

func TestInPlaceIsSeenThroughViewsAndRunsInPlace(t *testing.T) {
	r := newRig(t)
	p := r.floats([]int64{2, 3}, 1, 2, 3, 4, 5, 6)
	v := r.do("select", p, 0, 1)
	r.inplace("add", v, 10.0)
	assert.Equal(t, []float32{1, 2, 3, 14, 15, 16}, r.read(p))
	assert.Equal(t, []float32{14, 15, 16}, r.read(v))
	assert.Equal(t, int64(1), r.stat("stores_in_place"))
	assert.Equal(t, int64(1), r.stat("stores_through_view"))
	assert.Equal(t, int64(12), r.stat("bytes_written"), "one row is written, the base is not copied")
}

func TestAnEarlierReaderSeesTheOldVersion(t *testing.T) {
	r := newRig(t)
	a, b := r.floats(nil, 1, 2), r.floats(nil, 5, 5)
	c := r.do("mul", a, 2.0)
	r.inplace("add", a, b)
	assert.Equal(t, []float32{2, 4}, r.read(c))
	assert.Equal(t, []float32{6, 7}, r.read(a))
}

func TestStoreIsInPlaceOnceTheReaderIsGone(t *testing.T) {
	r := newRig(t)
	a := r.floats(nil, 1, 2)
	c := r.do("mul", a, 2.0)
	r.inplace("add", a, 1.0)
	r.drop(c)
	assert.Equal(t, []float32{2, 3}, r.read(a))
	assert.Equal(t, int64(1), r.stat("stores_in_place"))
}

func TestReplayBuildsOnePlan(t *testing.T) {
	r := newRig(t)
	x := r.floats(nil, 1, 1)
	for i := 0; i < 10; i++ {
		r.inplace("mul", x, 1.0+float64(i))
		r.read(x)
	}
	assert.Equal(t, int64(1), r.stat("plans_built"))
	assert.Equal(t, int64(9), r.stat("plans_replayed"))
}

func TestBackwardGivesTheGradientsOfALinearLayer(t *testing.T) {
	r := newRig(t)
	x := r.floats([]int64{1, 2}, 1, 2)
	w := r.grad(r.floats([]int64{2, 2}, 1, 2, 3, 4))
	y := r.do("sum", r.do("matmul", x, w))
	require.Nil(t, r.backward(y, 0))
	assert.Equal(t, []float32{1, 1, 2, 2}, r.gradOf(w))
	err := r.backward(y, 0)
	require.NotNil(t, err)
	assert.Equal(t, ir.ErrGraphFreed, err.Code)
}

func TestGradientsAccumulateAcrossBackwards(t *testing.T) {
	r := newRig(t)
	w := r.grad(r.floats(nil, 2, 3))
	for i := 0; i < 3; i++ {
		require.Nil(t, r.backward(r.do("sum", r.do("mul", w, w)), 0))
	}
	assert.Equal(t, []float32{12, 18}, r.gradOf(w))
}

func TestSavedValueModifiedInPlaceRaises(t *testing.T) {
	r := newRig(t)
	a := r.grad(r.floats(nil, 2, 3))
	b := r.do("exp", a)
	y := r.do("sum", b)
	r.inplace("mul", b, 2.0)
	err := r.backward(y, 0)
	require.NotNil(t, err)
	assert.Equal(t, ir.ErrSavedModified, err.Code)
}

func TestHistoryFollowsAWriteThroughAView(t *testing.T) {
	r := newRig(t)
	a := r.grad(r.floats([]int64{2, 2}, 1, 2, 3, 4))
	x := r.do("mul", a, 3.0)
	v := r.do("select", x, 0, 0)
	r.inplace("mul", v, 2.0)
	require.Nil(t, r.backward(r.do("sum", x), 0))
	assert.Equal(t, []float32{6, 6, 3, 3}, r.gradOf(a))
}

func TestInPlaceOnALeafThatRequiresGradIsRefused(t *testing.T) {
	r := newRig(t)
	a := r.grad(r.floats(nil, 1))
	_, err := r.call(1, "add", a, 1.0)
	require.NotNil(t, err)
	assert.Equal(t, ir.ErrRuntime, err.Code)
	assert.Contains(t, err.Msg, "leaf Variable")
}

func TestNothingIsLeftWhenHandlesGo(t *testing.T) {
	r := newRig(t)
	a := r.grad(r.floats([]int64{2, 2}, 1, 2, 3, 4))
	x := r.do("mul", a, 3.0)
	v := r.do("select", x, 0, 0)
	r.inplace("mul", v, 2.0)
	y := r.do("sum", x)
	require.Nil(t, r.backward(y, 0))
	r.gradOf(a)
	require.Nil(t, r.e.SetGrad(uint64(a), 0))
	r.drop(a, x, v, y)
	require.Nil(t, r.step())
	for _, k := range []string{"live_handles", "live_bases", "live_nodes", "tape_nodes", "live_storages", "live_buffers",
		"live_bytes"} {
		assert.Zero(t, r.stat(k), k)
	}
}

func TestStaleAndForgedHandlesAreErrors(t *testing.T) {
	r := newRig(t)
	a := r.floats(nil, 1)
	r.drop(a)
	for _, h := range []uint64{uint64(a), 0xFFFF_FFFF_FFFF, 12345, 1 << 40} {
		_, err := r.e.Meta(h)
		require.NotNil(t, err)
		assert.Equal(t, ir.ErrHandle, err.Code)
	}
}

func TestOutOfMemoryRollsBackAndTheNextStepWorks(t *testing.T) {
	r := newRig(t)
	p := r.floats(nil, 1, 2, 3, 4)
	big := r.do("expand", p, []int64{1000, 4})
	require.Nil(t, r.e.SetOption("memory_limit", "4096"))
	r.inplace("add", p, r.do("sum.dim", r.do("exp", big), []int64{0}))
	_, err := r.tryRead(p)
	require.NotNil(t, err)
	assert.Equal(t, ir.ErrOutOfMemory, err.Code)
	assert.Equal(t, []float32{1, 2, 3, 4}, r.read(p), "the parameter keeps its committed version")
	r.inplace("add", p, 1.0)
	assert.Equal(t, []float32{2, 3, 4, 5}, r.read(p))
}

func TestDeviceLossPoisonsAndResetStartsAnew(t *testing.T) {
	r := newRig(t)
	a := r.floats(nil, 1)
	r.dev.Faults.Run, r.dev.Faults.Lose = 1, true
	_, err := r.tryRead(r.do("add", a, 1.0))
	require.NotNil(t, err)
	assert.Equal(t, ir.ErrDeviceLost, err.Code)
	_, err = r.call(0, "add", a, 1.0)
	require.NotNil(t, err)
	assert.Equal(t, ir.ErrPoisoned, err.Code)
	r.drop(a)
	require.Nil(t, r.e.Reset())
	r.dev.Faults.Run = 0
	_, err = r.e.Meta(uint64(a))
	require.NotNil(t, err, "handles from before the reset are stale")
}

func TestABadIndexRaisesAtTheUsersLine(t *testing.T) {
	r := newRig(t)
	x := r.floats(nil, 1, 2, 3)
	_, err := r.call(0, "index_select", x, 0, r.ints(0, 3))
	require.NotNil(t, err)
	assert.Equal(t, ir.ErrIndex, err.Code)
}

func TestABadIndexFromTheDeviceRaisesAtTheBoundary(t *testing.T) {
	r := newRig(t)
	x := r.floats(nil, 1, 2, 3)
	r.sourceLoc = r.e.SourceLoc("user.py", "f", 7)
	i := r.do("add", r.ints(0, 2), 1)
	y := r.do("index_select", x, 0, i)
	_, err := r.tryRead(y)
	require.NotNil(t, err)
	assert.Equal(t, ir.ErrIndex, err.Code)
	assert.Equal(t, r.sourceLoc, err.SourceLoc)
	assert.Equal(t, []float32{2, 4, 6}, r.read(r.do("add", x, x)), "the engine goes on")
}

func TestTheSafetyNetRunsALongLoopInLikeWindows(t *testing.T) {
	r := newRig(t)
	x := r.floats(nil, 1)
	s1, s2 := r.e.SourceLoc("u.py", "f", 1), r.e.SourceLoc("u.py", "f", 2)
	for i := 0; i < 40000; i++ {
		r.sourceLoc = s1
		y := r.do("mul", x, 0.5)
		r.sourceLoc = s2
		z := r.do("add", y, 1.0)
		r.drop(x, y)
		x = z
	}
	assert.InDelta(t, 2, r.read(x)[0], 1e-6)
	assert.LessOrEqual(t, r.stat("plans_built"), int64(4))
	assert.Greater(t, r.stat("windows"), int64(3))
}

func TestCopyOfAnEarlierValueDoesNotShareTheOldVersionsStorage(t *testing.T) {
	r := newRig(t)
	x := r.floats(nil, 1, -2)
	early := r.do("mul", x, 3.0)
	y := r.do("abs", early)
	r.inplace("mul", y, 0.0)
	r.inplace("copy_", y, early)
	assert.Equal(t, []float32{3, -6}, r.read(y))
	assert.Equal(t, []float32{3, -6}, r.read(early))
}

func TestADetachedAliasHasAHistoryOfItsOwn(t *testing.T) {
	r := newRig(t)
	w := r.grad(r.floats(nil, 1, 2))
	plain := r.floats(nil, 5, 5)
	d := r.do("detach", plain)
	r.inplace("sub", d, w)
	h, err := r.e.session.Handle(uint64(plain))
	require.Nil(t, err)
	assert.False(t, r.e.session.RequiresGrad(h), "the original stays off the tape")
	require.Nil(t, r.backward(r.do("sum", d), 0))
	assert.Equal(t, []float32{-1, -1}, r.gradOf(w))
}

// A write through Tensor.data changes the values of the tensor and leaves the version that backward checks.
func TestWritesThroughDataCountApart(t *testing.T) {
	r := newRig(t)
	version := func(h T) uint64 {
		m, err := r.e.Meta(uint64(h))
		require.Nil(t, err)
		return m.Commits
	}
	for range 4 { // recorded, captured, replayed, deferred
		w := r.grad(r.floats(nil, 1, 2))
		y := r.do("mul", w, w)
		d := r.do("_data", w)
		r.inplace("add", d, 1.0)
		r.inplace("mul", r.do("view", d, []int64{2}), 2.0)
		require.Equal(t, []uint64{0, 2, 0}, []uint64{version(w), version(d), version(r.do("_data", d))})
		assert.Equal(t, []float32{4, 6}, r.read(w))
		require.Nil(t, r.backward(r.do("sum", y), 0), "the saved value is that of the forward pass")
		assert.Equal(t, []float32{2, 4}, r.gradOf(w))
		z := r.do("mul", w, w)
		r.inplace("add", r.do("detach", w), 1.0)
		require.Equal(t, uint64(1), version(w))
		require.NotNil(t, r.backward(r.do("sum", z), 0), "the saved value was written to")
	}
}

func TestCopyOfALeafIsAStepOnTheTape(t *testing.T) {
	r := newRig(t)
	w := r.grad(r.floats(nil, 1, 2))
	y := r.do("mul", r.floats(nil, 0, 0), 1.0)
	r.inplace("copy_", y, w)
	h, err := r.e.session.Handle(uint64(y))
	require.Nil(t, err)
	assert.False(t, r.e.session.IsLeaf(h))
	require.Nil(t, r.backward(r.do("sum", y), 0))
	assert.Equal(t, []float32{1, 1}, r.gradOf(w))
}

func TestSavedOutputsAreGuardedThroughAReshape(t *testing.T) {
	r := newRig(t)
	w := r.grad(r.floats([]int64{2, 2}, 1, 2, 3, 4))
	y := r.do("amax", w, []int64{0}, true)
	z := r.do("sum", y)
	r.inplace("mul", y, 2.0)
	err := r.backward(z, 0)
	require.NotNil(t, err)
	assert.Equal(t, ir.ErrSavedModified, err.Code)
}

func TestNaNShareTheGradientOfAnExtremumOfAll(t *testing.T) {
	nan := float32(math.NaN())
	for _, name := range []string{"max", "min", "median"} {
		r := newRig(t)
		w := r.grad(r.floats([]int64{4}, nan, 1, nan, 2))
		require.Nil(t, r.backward(r.do(name, w), 0))
		assert.Equal(t, []float32{0.5, 0, 0.5, 0}, r.gradOf(w), name)
	}
}

func TestCopyingATensorToItselfDoesNothing(t *testing.T) {
	r := newRig(t)
	x := r.do("expand", r.floats(nil, 1), []int64{3})
	r.inplace("copy_", x, x)
	assert.Equal(t, []float32{1, 1, 1}, r.read(x))
}

func TestAWriteThroughAnotherShapeKeepsTheHistorysShape(t *testing.T) {
	r := newRig(t)
	w := r.grad(r.floats([]int64{3, 1}, 1, 2, 3))
	h := r.do("mul", w, 2.0)
	flat := r.do("t", h)
	r.inplace("mul", flat, 5.0)
	require.Nil(t, r.backward(r.do("sum", r.do("mul", h, h)), 0))
	assert.Equal(t, []float32{200, 400, 600}, r.gradOf(w))
}
