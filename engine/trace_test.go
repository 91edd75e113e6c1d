package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
)

// captureFunction captures f on placeholders like args. f returns one result.
func (r *rig) captureFunction(f func(x ...T) T, args ...T) (uint64, *ir.Error) {
	var hs []uint64
	for _, a := range args {
		hs = append(hs, uint64(a))
	}
	outs := make([]Out, len(args))
	require.Nil(r.t, r.e.BeginTrace(hs, outs))
	var x []T
	for _, o := range outs {
		x = append(x, T(o.Handle))
	}
	made := make([]bool, 1)
	return r.e.EndTrace(true, []uint64{uint64(f(x...))}, made)
}

// callCaptured calls a captured function with one result; ok is false if it does not fit.
func (r *rig) callCaptured(id uint64, args ...T) (out T, ok bool) {
	var hs []uint64
	for _, a := range args {
		hs = append(hs, uint64(a))
	}
	outs := make([]Out, 1)
	n, err := r.e.CallCaptured(id, hs, 0, outs)
	require.Nil(r.t, err)
	return T(outs[0].Handle), n == 1
}

// The first gradient of a tensor is given, later ones are added: two programs, each for its own case.
func TestACapturedBackwardGivesGradients(t *testing.T) {
	r := newRig(t)
	w := r.grad(r.floats(nil, 1, 2))
	f := func(x ...T) T {
		y := r.do("mul", x[0], w)
		require.Nil(t, r.backward(r.do("sum", y), 0))
		return r.do("detach", y)
	}
	x := r.floats(nil, 3, 4)
	first, err := r.captureFunction(f, x)
	require.Nil(t, err)
	var g Out
	has, err := r.e.Grad(uint64(w), &g)
	require.Nil(t, err)
	assert.False(t, has, "the capture leaves no gradient")
	y, ok := r.callCaptured(first, x)
	require.True(t, ok)
	assert.Equal(t, []float32{3, 8}, r.read(y))
	assert.Equal(t, []float32{3, 4}, r.gradOf(w))
	_, ok = r.callCaptured(first, x)
	assert.False(t, ok, "there is a gradient now")
	later, err := r.captureFunction(f, x)
	require.Nil(t, err)
	assert.Equal(t, []float32{3, 4}, r.gradOf(w))
	_, ok = r.callCaptured(later, x)
	require.True(t, ok)
	assert.Equal(t, []float32{6, 8}, r.gradOf(w))
	require.Nil(t, r.e.SetGrad(uint64(w), 0))
	_, ok = r.callCaptured(later, x)
	assert.False(t, ok)
	_, ok = r.callCaptured(first, x)
	require.True(t, ok)
	assert.Equal(t, []float32{3, 4}, r.gradOf(w))
	_, ok = r.callCaptured(later, x)
	require.True(t, ok)
	assert.Equal(t, []float32{6, 8}, r.gradOf(w), "the gradient of now, not that of the capture")
	r.e.ForgetCaptured(first)
	r.e.ForgetCaptured(later)
}
