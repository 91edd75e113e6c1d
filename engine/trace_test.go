package engine

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
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
	id, _, err := r.e.EndTrace(true, []uint64{uint64(f(x...))}, made)
	return id, err
}

// callCaptured calls a captured function with one result; ok is false if it does not fit.
func (r *rig) callCaptured(id uint64, args ...T) (out T, ok bool) {
	var hs []uint64
	for _, a := range args {
		hs = append(hs, uint64(a))
	}
	outs := make([]Out, 1)
	n, err := r.e.CallCaptured(id, hs, nil, 0, outs)
	require.Nil(r.t, err)
	return T(outs[0].Handle), n == 1
}

// The placeholder of a complex argument is a view of pairs of numbers, as complex tensors are.
func TestComplexArgumentsOfACaptureArePairs(t *testing.T) {
	r := newRig(t)
	complexes := func(re, im float32) T { return r.do("complex", r.floats(nil, re), r.floats(nil, im)) }
	id, err := r.captureFunction(func(a ...T) T {
		return r.do("mul", r.do("imag", r.do("mul", a[0], a[0])), 0.5)
	}, complexes(1, 2))
	require.Nil(t, err)
	y, ok := r.callCaptured(id, complexes(5, 6))
	require.True(t, ok)
	assert.Equal(t, []float32{30}, r.read(y))
}

// A capture computes nothing, and ends with an error if another thread records in between.
func TestNothingIsComputedInACapture(t *testing.T) {
	r := newRig(t)
	x, pending := r.floats(nil, 1, 2), T(0)
	pending = r.do("mul", x, 3.0)
	state := r.floats(nil, 1, 1)
	before := r.stat("windows")
	id, err := r.captureFunction(func(a ...T) T {
		r.inplace("add", state, a[0])
		require.Nil(t, r.e.Flush())
		return r.do("add", a[0], pending)
	}, x)
	require.Nil(t, err)
	assert.Equal(t, before, r.stat("windows"))
	y, ok := r.callCaptured(id, r.floats(nil, 5, 6))
	require.True(t, ok)
	assert.Equal(t, []float32{8, 12}, r.read(y))
	assert.Equal(t, []float32{6, 7}, r.read(state))
	require.NotNil(t, r.e.BeginTrace([]uint64{1}, make([]Out, 1)), "an unknown tensor")
	_, _, err = r.e.EndTrace(true, nil, nil)
	require.NotNil(t, err)
	assert.Contains(t, err.Msg, "no function is being captured")
	_, err = r.captureFunction(func(a ...T) T {
		require.NotNil(t, r.e.BeginTrace(nil, nil))
		r.e.Thread(1)
		r.e.Thread(0)
		return a[0]
	}, x)
	require.NotNil(t, err)
	assert.Contains(t, err.Msg, "another thread")
	_, err = r.e.CallCaptured(99, nil, nil, 0, nil)
	require.NotNil(t, err)
	assert.Equal(t, ir.ErrHandle, err.Code)
}

// Where the function writes, a call with aliases does not fit. What only reads takes any arguments.
func TestACapturedFunctionDoesNotFitOtherAliases(t *testing.T) {
	r := newRig(t)
	x, state := r.floats(nil, 1, 2), r.floats(nil, 3, 4)
	reads, err := r.captureFunction(func(a ...T) T { return r.do("mul", r.do("add", a[0], a[1]), state) }, x, x)
	require.Nil(t, err)
	writes, err := r.captureFunction(func(a ...T) T {
		r.inplace("add", a[0], a[1])
		return r.do("mul", a[0], state)
	}, x, x)
	require.Nil(t, err)
	view := r.do("as_strided", x, []int64{2}, []int64{1}, 0)
	for _, c := range []struct {
		a, b T
		fits bool
	}{{x, r.floats(nil, 5, 6), true}, {x, x, false}, {x, view, false}, {state, x, false}, {x, state, false}} {
		_, ok := r.callCaptured(reads, c.a, c.b)
		assert.True(t, ok)
		_, ok = r.callCaptured(writes, c.a, c.b)
		assert.Equal(t, c.fits, ok)
	}
}

// Ending a capture undoes the writes of the traced function to older tensors, and frees the tensors that it made.
func TestACaptureIsUndone(t *testing.T) {
	r := newRig(t)
	w, state := r.grad(r.floats(nil, 1, 2)), r.floats(nil, 3, 4)
	require.Nil(t, r.backward(r.do("sum", r.do("mul", w, w)), 0))
	rng := r.e.RNGState()
	var escaped T
	for _, keep := range []bool{true, false} {
		outs := make([]Out, 1)
		require.Nil(t, r.e.BeginTrace([]uint64{uint64(state)}, outs))
		x := T(outs[0].Handle)
		r.inplace("mul", state, 5.0)
		escaped = r.do("add", r.do("rand_like", x), x)
		require.Nil(t, r.e.SetGrad(uint64(w), 0))
		require.Nil(t, r.backward(r.do("sum", r.do("mul", w, x)), 0))
		_, _, err := r.e.EndTrace(keep, nil, nil)
		require.Nil(t, err)
		assert.Equal(t, []float32{3, 4}, r.read(state))
		assert.Equal(t, []float32{2, 4}, r.gradOf(w))
		assert.Equal(t, rng, r.e.RNGState())
		_, err = r.tryRead(escaped)
		require.NotNil(t, err)
		assert.Equal(t, ir.ErrTraceEscape, err.Code)
	}
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

// A supplied number of a program is the one that the call gives; a rule that would compute with it is refused.
func TestSuppliedNumbersAreDataOfEachCall(t *testing.T) {
	r := newRig(t)
	x := r.floats(nil, 1, 2)
	stands := math.Float64frombits(op.SuppliedBits)
	id, err := r.captureFunction(func(a ...T) T { return r.do("mul", a[0], r.do("_number", a[0], stands)) }, x)
	require.Nil(t, err)
	for _, v := range []float32{3, 5, -1} {
		outs := make([]Out, 1)
		n, err := r.e.CallCaptured(id, []uint64{uint64(x)}, []float64{float64(v)}, 0, outs)
		require.Nil(t, err)
		require.Equal(t, 1, n)
		assert.Equal(t, []float32{v, 2 * v}, r.read(T(outs[0].Handle)))
	}
	_, err = r.e.CallCaptured(id, []uint64{uint64(x)}, nil, 0, make([]Out, 1))
	require.NotNil(t, err)
	assert.Equal(t, ir.ErrValue, err.Code)
	require.Nil(t, r.e.BeginTrace(nil, nil))
	_, err = r.call(0, "mul", x, stands)
	require.NotNil(t, err)
	assert.Contains(t, err.Error(), "supplied at each call")
	_, _, err = r.e.EndTrace(false, nil, nil)
	require.Nil(t, err)
}

// After a copy two tensors have one version; a program reads the one that the function read.
func TestTensorsOfOneVersionAreToldApart(t *testing.T) {
	r := newRig(t)
	source, target, x := r.floats(nil, 1, 2), r.floats(nil, 0, 0), r.floats(nil, 1, 1)
	r.inplace("copy_", target, source)
	id, err := r.captureFunction(func(a ...T) T {
		out := r.do("mul", target, 2.0)
		r.inplace("add", source, a[0])
		return out
	}, x)
	require.Nil(t, err)
	for i := range 3 {
		y, ok := r.callCaptured(id, x)
		require.True(t, ok)
		assert.Equal(t, []float32{2, 4}, r.read(y))
		assert.Equal(t, []float32{float32(2 + i), float32(3 + i)}, r.read(source))
	}
}

// A program has no Python code, no leaves and no history of arguments: a capture that would need one is refused, and
// says that the function can only run.
func TestWhatAProgramCannotHaveIsNotCaptured(t *testing.T) {
	r := newRig(t)
	x, w := r.floats(nil, 1, 2), r.grad(r.floats(nil, 3, 4))
	hook := func(h T) T {
		_, err := r.e.AddHook(uint64(h), HookTensor)
		require.Nil(t, err)
		return h
	}
	for name, f := range map[string]func(a ...T) T{
		"a hook on the way":   func(a ...T) T { return r.do("mul", hook(r.do("mul", a[0], w)), a[0]) },
		"a leaf that it made": func(a ...T) T { return r.do("mul", r.grad(r.do("mul", a[0], 2.0)), a[0]) },
		"a write with a gradient": func(a ...T) T {
			r.inplace("mul", a[0], w)
			return r.do("sin", x)
		},
	} {
		_, err := r.captureFunction(f, x)
		require.NotNil(t, err, name)
		assert.Equal(t, ir.ErrNotImplemented, err.Code, "%s: %s", name, err.Msg)
		assert.Equal(t, []float32{1, 2}, r.read(x), name)
	}
	// A hook on what the function reads from outside, or on what no result depends on, is none of the program's.
	hook(w)
	_, err := r.captureFunction(func(a ...T) T {
		hook(r.do("mul", a[0], w))
		return r.do("mul", a[0], w)
	}, x)
	require.Nil(t, err)
}
