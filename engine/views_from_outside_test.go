package engine

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// gradBy returns the gradient of a root by one tensor, which the walk must reach. It has a history.
func (r *rig) gradBy(root, input T) T {
	id, err := r.e.Backward([]uint64{uint64(root)}, nil, []uint64{uint64(input)}, CreateGraph|RetainGraph)
	require.Nil(r.t, err)
	var ev BackwardEvent
	require.Nil(r.t, r.e.BackwardNext(id, 0, &ev))
	outs, has := make([]Out, 1), make([]bool, 1)
	require.Nil(r.t, r.e.BackwardResults(id, outs, has))
	require.True(r.t, has[0], "the walk reaches the tensor")
	return T(outs[0].Handle)
}

// views are views with a history of 1, 2, 3, and weights of their elements. want is 4 times their product.
var views = []struct {
	name          string
	of            func(r *rig, x T) T
	shape         []int64
	weights, want []float32
}{
	{"narrow", func(r *rig, x T) T { return r.do("narrow", x, 0, 1, 2) }, []int64{2}, []float32{1, 2}, []float32{8, 24}},
	{"reshape", func(r *rig, x T) T { return r.do("view", x, []int64{3, 1}) }, []int64{3, 1}, []float32{1, 2, 3},
		[]float32{4, 16, 36}},
	{"all", func(r *rig, x T) T { return r.do("view", x, []int64{3}) }, []int64{3}, []float32{1, 2, 3},
		[]float32{4, 16, 36}},
	{"expand", func(r *rig, x T) T { return r.do("expand", x, []int64{2, 3}) }, []int64{2, 3},
		[]float32{1, 2, 3, 4, 5, 6}, []float32{4, 16, 36, 16, 40, 72}},
	{"of a result", func(r *rig, x T) T { return r.do("narrow", r.do("mul", x, 1.0), 0, 0, 1) }, []int64{1}, []float32{1},
		[]float32{4}},
}

// A loop's body reads a view from outside: the gradient by the view is asked for, not that by its base.
func TestALoopHasTheGradientByAViewFromOutside(t *testing.T) {
	for _, c := range views {
		r := newRig(t)
		x := r.grad(r.floats(nil, 1, 2, 3))
		y, w := c.of(r, x), r.floats(c.shape, c.weights...)
		square := func() T { return r.do("sum", r.do("mul", r.do("mul", y, y), w)) }
		outs, err := r.loop(func(in []T) []T { return []T{r.do("add", in[0], square())} }, LoopCall{Length: 2},
			[]T{r.grad(r.floats([]int64{}, 0))}, nil, nil)
		require.Nil(t, err)
		assert.Equal(t, c.want, r.read(r.gradBy(outs[0], y)), c.name)
	}
}

// A captured function reads a view from outside, beside the base of the view: both have their own gradient.
func TestACapturedFunctionHasTheGradientByAViewFromOutside(t *testing.T) {
	for _, c := range views {
		r := newRig(t)
		x, two := r.grad(r.floats(nil, 1, 2, 3)), r.floats([]int64{}, 2)
		y, w := c.of(r, x), r.floats(c.shape, c.weights...)
		id, err := r.captureFunction(func(a ...T) T {
			return r.do("add", r.do("mul", a[0], r.do("sum", r.do("mul", r.do("mul", y, y), w))), r.do("sum", x))
		}, two)
		require.Nil(t, err)
		for range 2 {
			out, ok := r.callCaptured(id, two)
			require.True(t, ok)
			assert.Equal(t, c.want, r.read(r.gradBy(out, y)), c.name)
		}
		r.e.ForgetCaptured(id)
	}
}

// A captured function that returns a view of a view from outside is refused: calls would lose the history between both.
func TestACapturedFunctionReturnsNoViewOfAViewWithAHistory(t *testing.T) {
	r := newRig(t)
	y := r.do("narrow", r.grad(r.floats(nil, 1, 2, 3)), 0, 1, 2)
	_, err := r.captureFunction(func(...T) T { return r.do("select", y, 0, 1) }, r.floats(nil, 1))
	require.NotNil(t, err)
	assert.Contains(t, err.Msg, "return a copy")
}

// In a loop's body, gradients of a batched operator have the tangents of what its batching rule computes on its way.
func TestABodyKeepsTheTangentsOfWhatABatchingRuleComputes(t *testing.T) {
	r := newRig(t)
	w, directions := r.floats(nil, 0.5, -1, 2), r.floats([]int64{2, 3}, 1, 0, 0, 0, 1, 0)
	mixed := func(x T) (out T) {
		r.vmap(2, func(level int) {
			r.forward(func(forward int) {
				y := r.do("_make_dual", x, r.do("_vmap_in", directions, 0, level), forward)
				point := r.grad(r.do("detach", r.do("_vmap_spread", w, level, 2)))
				norm := r.do("layer_norm", r.do("mul", y, y), []int64{3}, point)
				got, err := r.call(ModeFunctional, "_tangent", r.gradBy(r.do("sum", norm), point), forward)
				require.Nil(t, err)
				out = r.do("_vmap_out", got[0], 0, level, 2)
			})
		})
		return out
	}
	x := r.floats([]int64{1, 3}, 0.3, -0.4, 0.7)
	want := r.read(mixed(r.do("select", x, 0, 0)))
	outs, err := r.loop(func(in []T) []T { return []T{in[0], mixed(in[1])} }, LoopCall{Length: 1},
		[]T{r.floats([]int64{}, 0)}, []T{r.do("select", x, 0, 0)}, []T{x})
	require.Nil(t, err)
	assert.InDeltaSlice(t, want, r.read(outs[1]), 1e-5)
	assert.NotZero(t, want[0])
}

// The gradient through leaky_relu depends on its operand, with derivative 0, in loops and captured functions too.
func TestAPiecewiseLinearFunctionHasASecondGradientOfZero(t *testing.T) {
	r := newRig(t)
	w, one := r.grad(r.floats(nil, 1, -2)), r.floats([]int64{}, 1)
	slope := func(scale T) T {
		y := r.do("mul", w, scale)
		return r.do("mul", r.gradBy(r.do("sum", r.do("leaky_relu", y, 0.5)), y), 3.0)
	}
	id, err := r.captureFunction(func(a ...T) T { return slope(a[0]) }, one)
	require.Nil(t, err)
	for range 2 {
		out, ok := r.callCaptured(id, one)
		require.True(t, ok)
		assert.Equal(t, []float32{3, 1.5}, r.read(out))
		assert.Equal(t, []float32{0, 0}, r.read(r.gradBy(r.do("sum", out), w)))
	}
	r.e.ForgetCaptured(id)
	outs, err := r.loop(func(in []T) []T { return []T{r.do("add", in[0], slope(one))} }, LoopCall{Length: 2},
		[]T{r.floats(nil, 0, 0)}, nil, nil)
	require.Nil(t, err)
	assert.Equal(t, []float32{6, 3}, r.read(outs[0]))
	assert.Equal(t, []float32{0, 0}, r.read(r.gradBy(r.do("sum", outs[0]), w)))
}

// The gradient of a call depends on the operand of leaky_relu too, once per call of leaky_relu.
func TestACallOfAPiecewiseLinearFunctionHasASecondGradientOfZero(t *testing.T) {
	for _, c := range views {
		r := newRig(t)
		x := r.grad(r.floats(nil, 1, 2, 3))
		y, two := c.of(r, x), r.floats([]int64{}, 2)
		id, err := r.captureFunction(func(a ...T) T {
			z := r.do("leaky_relu", y, 0.5)
			return r.do("mul", r.do("sum", r.do("add", r.do("leaky_relu", r.do("t", z), 0.25), r.do("t", z))), a[0])
		}, two)
		require.Nil(t, err)
		for range 2 {
			out, ok := r.callCaptured(id, two)
			require.True(t, ok)
			slope := r.gradBy(out, y)
			zero := r.gradBy(r.do("sum", slope), y)
			assert.Equal(t, slices.Repeat([]float32{4}, len(c.weights)), r.read(slope), c.name)
			assert.Equal(t, make([]float32, len(c.weights)), r.read(zero), c.name)
		}
		r.e.ForgetCaptured(id)
	}
}

// A walk in a captured function through such a function that was called before is refused: the program has no value
// with its history.
func TestASecondGradientThroughAnOlderStepIsRefused(t *testing.T) {
	r := newRig(t)
	x := r.grad(r.floats(nil, 1, -2))
	y := r.do("sum", r.do("leaky_relu", r.do("mul", x, 2.0), 0.5))
	_, err := r.captureFunction(func(a ...T) T { return r.do("mul", r.gradBy(y, x), a[0]) }, r.floats([]int64{}, 1))
	require.NotNil(t, err)
	assert.Contains(t, err.Msg, "record it in the function")
}
