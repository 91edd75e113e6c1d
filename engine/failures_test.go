package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
)

// failure requires that reading x raises an out-of-memory error.
func (r *rig) failure(x T) {
	r.t.Helper()
	_, err := r.tryRead(x)
	if assert.NotNil(r.t, err) {
		assert.Equal(r.t, ir.ErrOutOfMemory, err.Code, err.Msg)
		assert.Contains(r.t, err.Msg, "bytes", "the error tells sizes")
	}
}

// limited makes a rig whose device has 64 KiB.
func limited(t *testing.T) *rig {
	r := newRig(t)
	require.Nil(t, r.e.SetOption("memory_limit", "65536"))
	return r
}

// huge records a value too large for the device of limited.
func (r *rig) huge(like T) T { return r.do("mul", r.do("expand", like, []int64{1 << 20, 3}), 2.0) }

func TestAValueThatDoesNotFitFailsAloneInItsWindow(t *testing.T) {
	r := limited(t)
	a := r.floats(nil, 1, 2, 3)
	before := r.do("add", a, 1.0)
	big := r.huge(a)
	after := r.do("mul", before, 2.0)
	pair := r.do("cat", []T{before, r.do("narrow", r.do("reshape", big, []int64{-1}), 0, 0, 3)}, 0)
	r.failure(pair)
	assert.Equal(t, []float32{2, 3, 4}, r.read(before))
	assert.Equal(t, []float32{4, 6, 8}, r.read(after))
	r.failure(big)
	r.failure(big)
}

func TestWhatIsRecordedOfAFailedValueFailsForTheSameReason(t *testing.T) {
	r := limited(t)
	a := r.floats(nil, 1, 2, 3)
	big := r.huge(a)
	r.failure(big)
	row := r.do("select", big, 0, 0)
	sum := r.do("add", row, a)
	r.failure(sum)
	require.Nil(t, r.e.SetOption("memory_limit", "0"))
	r.failure(r.do("mul", sum, 2.0))
	assert.Equal(t, []float32{2, 4, 6}, r.read(r.do("add", a, a)))
}

func TestTheSafetyNetsFailureIsRaisedWhereTheValueIsRead(t *testing.T) {
	r := limited(t)
	require.Nil(t, r.e.SetOption("pending_bytes", "1000000"))
	a := r.floats(nil, 1, 2, 3)
	big := r.huge(a) // the safety net runs it
	assert.Equal(t, []float32{2, 3, 4}, r.read(r.do("add", a, 1.0)), "another value does not know of it")
	require.Nil(t, r.step())
	r.failure(big)
	r.drop(big)
	assert.Equal(t, []float32{2, 4, 6}, r.read(r.do("mul", a, 2.0)))
}

// Stores that run first may free the values that the safety net was to compute; it must then skip these.
func TestTheSafetyNetFailsBehindStores(t *testing.T) {
	r := limited(t)
	w, a := r.floats(nil, 1, 1, 1), r.floats(nil, 1, 2, 3)
	require.Nil(t, r.e.SetOption("pending_bytes", "1000000"))
	for range 3 {
		tmp := r.do("mul", r.do("exp", r.do("sub", a, a)), 2.0)
		r.inplace("add", w, tmp)
		r.drop(tmp)
	}
	big := r.huge(a)
	assert.Equal(t, []float32{7, 7, 7}, r.read(w))
	r.failure(big)
	require.Nil(t, r.step())
	assert.Equal(t, []float32{8, 8, 8}, r.read(r.do("add", w, 1.0)))
}

func TestAStoreThatFailsLeavesTheTensorAsItWas(t *testing.T) {
	r := limited(t)
	w, other, early := r.floats(nil, 1, 2, 3), r.floats(nil, 1, 1, 1), r.floats(nil, 0, 0, 0)
	r.inplace("add", early, 5.0)
	big := r.huge(w)
	r.inplace("mul", w, 0.5) // part of the update that fails
	r.inplace("add", w, r.do("select", big, 0, 0))
	r.inplace("add", early, r.do("select", big, 0, 0))
	r.inplace("add", other, 1.0)
	err := r.e.Flush()
	require.NotNil(t, err, "a write was lost: somebody must be told")
	assert.Equal(t, ir.ErrOutOfMemory, err.Code)
	assert.Equal(t, []float32{1, 2, 3}, r.read(w))
	assert.Equal(t, []float32{2, 2, 2}, r.read(other))
	assert.Equal(t, []float32{5, 5, 5}, r.read(early), "what was written before the failing operator stays")
	require.Nil(t, r.e.Flush(), "it is told once")
	r.inplace("add", w, 1.0)
	require.Nil(t, r.step())
	assert.Equal(t, []float32{2, 3, 4}, r.read(w))
}

func TestAWriteAfterAFailedOneCounts(t *testing.T) {
	r := limited(t)
	w := r.floats(nil, 1, 2, 3)
	r.inplace("add", w, r.do("select", r.huge(w), 0, 0))
	r.inplace("zero_", w)
	require.NotNil(t, r.e.Flush())
	assert.Equal(t, []float32{0, 0, 0}, r.read(w))
}

func TestAFailedWriteIsToldToWhoReadsTheTensor(t *testing.T) {
	r := limited(t)
	w := r.floats(nil, 1, 2, 3)
	r.inplace("add", w, r.do("select", r.huge(w), 0, 0))
	r.failure(w)
	assert.Equal(t, []float32{1, 2, 3}, r.read(w))
	require.Nil(t, r.e.Flush())
}

func TestAFailedGradientLeavesTheNextStepAlone(t *testing.T) {
	r := limited(t)
	w := r.grad(r.floats(nil, 1, 2, 3))
	for i, loss := range []func() T{
		func() T { return r.do("sum", r.do("mul", r.huge(w), r.huge(w))) },
		func() T { return r.do("sum", r.do("mul", w, w)) },
	} {
		require.Nil(t, r.e.SetGrad(uint64(w), 0))
		l := loss()
		require.Nil(t, r.backward(l, 0))
		var g Out
		has, err := r.e.Grad(uint64(w), &g)
		require.Nil(t, err)
		require.True(t, has)
		old := r.e.SetMode(ModeGrad, 0)
		step := r.do("mul", T(g.Handle), 0.5)
		_, err = r.call(1, "sub", w, step)
		require.Nil(t, err)
		r.e.SetMode(ModeGrad, old)
		err = r.e.Flush()
		if i == 0 {
			require.NotNil(t, err)
			assert.Equal(t, ir.ErrOutOfMemory, err.Code)
			assert.Equal(t, []float32{1, 2, 3}, r.read(w))
		}
		r.drop(l, step, T(g.Handle))
	}
	assert.Equal(t, []float32{0, 0, 0}, r.read(w))
}

// The gradient of b is a constant, which could be computed alone.
func TestTheGradientsOfAWalkFailTogether(t *testing.T) {
	r := limited(t)
	w, b, other := r.grad(r.floats(nil, 1, 2, 3)), r.grad(r.floats(nil, 1, 2, 3)), r.grad(r.floats(nil, 4))
	require.Nil(t, r.backward(r.do("sum", r.do("mul", other, other)), 0))
	big := r.huge(w)
	require.Nil(t, r.backward(r.do("sum", r.do("add", r.do("mul", big, big), b)), 0))
	err := r.e.Flush()
	require.NotNil(t, err)
	assert.Equal(t, ir.ErrOutOfMemory, err.Code)
	for _, x := range []T{w, b} {
		var g Out
		_, err := r.e.Grad(uint64(x), &g)
		require.Nil(t, err)
		r.failure(T(g.Handle))
	}
	assert.Equal(t, []float32{8}, r.gradOf(other))
	r.drop(big)
	require.Nil(t, r.backward(r.do("sum", r.do("add", w, b)), 0))
	assert.Len(t, r.e.failures.walks, 1, "walks whose gradients are computed are forgotten")
}
