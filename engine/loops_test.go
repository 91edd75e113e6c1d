package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
)

// loop traces f on placeholders like the carries and elements of xs, and runs the loop.
func (r *rig) loop(f func(x []T) []T, c LoopCall, carries, elements, xs []T) ([]T, *ir.Error) {
	var like []uint64
	for _, t := range append(append([]T{}, carries...), elements...) {
		like = append(like, uint64(t))
	}
	outs := make([]Out, len(like))
	require.Nil(r.t, r.e.BeginBody(like, outs))
	var in []T
	for _, o := range outs {
		in = append(in, T(o.Handle))
	}
	var results []uint64
	for _, t := range f(in) {
		results = append(results, uint64(t))
	}
	id, err := r.e.EndBody(true, results, 0)
	if err != nil {
		return nil, err
	}
	defer r.e.ForgetCaptured(id)
	c.Body, c.Carries, c.Xs = id, len(carries), len(xs)
	for _, t := range append(append([]T{}, carries...), xs...) {
		c.Args = append(c.Args, uint64(t))
	}
	outs = make([]Out, len(results))
	n, err := r.e.Loop(&c, outs)
	var list []T
	for _, o := range outs[:n] {
		list = append(list, T(o.Handle))
	}
	return list, err
}

// The interpreter runs loops as the CPU does: both directions, values from outside, and results that are the old carry.
func TestALoopRunsItsBodyAtEachPlace(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		r := newRig(t)
		w, xs, init := r.floats([]int64{}, 2), r.floats(nil, 1, 2, 3), r.floats([]int64{}, 0.5)
		outs, err := r.loop(func(x []T) []T { return []T{r.do("add", r.do("mul", x[0], w), x[1]), x[0]} },
			LoopCall{Length: 3, Reverse: reverse}, []T{init}, []T{init}, []T{xs})
		require.Nil(t, err)
		last, ys := float32(15), []float32{0.5, 2, 6}
		if reverse {
			last, ys = 21, []float32{10, 4, 0.5}
		}
		assert.Equal(t, []float32{last}, r.read(outs[0]))
		assert.Equal(t, ys, r.read(outs[1]))
	}
}

// A loop with large carries keeps those before each of sqrt(length) segments; its gradient runs the segments again.
func TestTheGradientOfALoopInSegments(t *testing.T) {
	r := newRig(t)
	const n, length = 1 << 19, 18
	x := r.grad(r.do("zeros", []int64{n}))
	before := r.stat("live_bytes")
	outs, err := r.loop(func(x []T) []T { return []T{r.do("sin", x[0])} }, LoopCall{Length: length}, []T{x}, nil, nil)
	require.Nil(t, err)
	loss := r.do("sum", outs[0])
	r.read(loss)
	assert.Less(t, r.stat("live_bytes")-before, int64(4*n*10), "bytes of carries that are kept")
	require.Nil(t, r.backward(loss, 0))
	assert.Equal(t, float32(1), r.gradOf(x)[n-1])
}

// Traces of bodies end in the reverse order, and leave the trace around them as it was.
func TestErrorsOfLoopCalls(t *testing.T) {
	r := newRig(t)
	_, err := r.e.EndBody(true, nil, 0)
	require.NotNil(t, err)
	assert.Contains(t, err.Msg, "no body of a loop")
	_, err = r.e.Loop(&LoopCall{Body: 99}, nil)
	require.NotNil(t, err)
	assert.Equal(t, ir.ErrHandle, err.Code)
	require.NotNil(t, r.e.BeginBody([]uint64{1}, make([]Out, 1)), "an unknown tensor")
	x := r.floats(nil, 1, 2)
	_, err = r.loop(func(in []T) []T {
		_, err := r.call(1, "add", x, in[0])
		require.NotNil(t, err)
		assert.Equal(t, ir.ErrImpure, err.Code)
		return in
	}, LoopCall{Length: 2}, []T{r.floats(nil, 0, 0)}, nil, nil)
	require.Nil(t, err)
}

// TestAnElementOfABatchKeepsItsCarriesFromItsEndOn: a loop whose condition differs in the batch ends with the last one.
func TestAnElementOfABatchKeepsItsCarriesFromItsEndOn(t *testing.T) {
	r := newRig(t)
	x, flag := r.floats([]int64{3}, 1, 4, 30), r.do("gt", r.floats([]int64{3}, 1, 1, 0), 0.5)
	r.vmap(3, func(level int) {
		in := []T{r.do("_vmap_in", flag, 0, level), r.do("_vmap_in", x, 0, level)}
		outs, err := r.loop(func(x []T) []T {
			next := r.do("mul", x[1], 2.0)
			return []T{r.do("lt", next, 10.0), next}
		}, LoopCall{Length: 1 << 40, While: true}, in, nil, nil)
		require.Nil(t, err)
		assert.Equal(t, []float32{16, 16, 30}, r.read(r.do("_vmap_out", outs[1], 0, level, 3)))
	})
}

// A tangent from outside of a body reaches the results, and no value that the body detaches.
func TestTangentsGoThroughALoopAndNotThroughDetachedValues(t *testing.T) {
	r := newRig(t)
	x, d, init := r.floats([]int64{}, 3), r.floats([]int64{}, 10), r.floats([]int64{}, 1)
	r.forward(func(level int) {
		w := r.do("_make_dual", x, d, level)
		outs, err := r.loop(func(c []T) []T { return []T{r.do("mul", c[0], w), r.do("mul", r.do("detach", c[0]), w)} },
			LoopCall{Length: 3}, []T{init}, nil, nil)
		require.Nil(t, err)
		assert.Equal(t, []float32{27}, r.read(outs[0]))
		assert.Equal(t, []float32{270}, r.tangent(outs[0], level), "10 * 3 * 9")
		assert.Equal(t, []float32{10, 30, 90}, r.tangent(outs[1], level), "of w alone")
	})
}

// The gradient of a loop reads carries only where its body does: otherwise the loop need not run.
func TestTheGradientOfALinearLoopReadsNoCarries(t *testing.T) {
	r := newRig(t)
	executed := func(name string) int64 {
		x := r.grad(r.floats(nil, 1, 2))
		outs, err := r.loop(func(c []T) []T { return []T{r.do(name, r.do("mul", c[0], 0.5))} }, LoopCall{Length: 4},
			[]T{x}, nil, nil)
		require.Nil(t, err)
		loss := r.do("sum", outs[0])
		require.Nil(t, r.backward(loss, 0))
		r.drop(loss, outs[0])
		before := r.stat("nodes_executed")
		r.gradOf(x)
		return r.stat("nodes_executed") - before
	}
	assert.Less(t, executed("neg"), executed("sin"))
}

// A body reads one value with two histories, and makes a leaf with the same elements. Each history gets a gradient of
// its own.
func TestABodyKeepsTheHistoriesOfOneValueApart(t *testing.T) {
	r := newRig(t)
	x := r.floats([]int64{}, 3)
	a, b := r.grad(r.do("detach", x)), r.grad(r.do("detach", x))
	outs, err := r.loop(func(c []T) []T {
		inner := r.grad(r.do("detach", x))
		return []T{r.do("add", c[0], r.do("mul", r.do("mul", r.do("mul", a, a), b), inner))}
	}, LoopCall{Length: 2}, []T{r.grad(r.floats([]int64{}, 0))}, nil, nil)
	require.Nil(t, err)
	require.Nil(t, r.backward(outs[0], 0))
	assert.Equal(t, []float32{2 * 54}, r.gradOf(a), "2 a b")
	assert.Equal(t, []float32{2 * 27}, r.gradOf(b), "a a")
}

// A detached value gets no gradient through a leaf that the body makes of it.
func TestALeafInABodyEndsTheHistoryOfItsValue(t *testing.T) {
	r := newRig(t)
	a := r.grad(r.floats([]int64{}, 3))
	outs, err := r.loop(func(c []T) []T {
		square := r.do("mul", a, a)
		leaf := r.grad(r.do("detach", square))
		return []T{r.do("add", c[0], r.do("add", r.do("mul", a, leaf), square))}
	}, LoopCall{Length: 2}, []T{r.grad(r.floats([]int64{}, 0))}, nil, nil)
	require.Nil(t, err)
	require.Nil(t, r.backward(outs[0], 0))
	assert.Equal(t, []float32{2 * (9 + 6)}, r.gradOf(a), "of leaf and square")
}

// A body is recorded without the tangents of levels around its loop: to read one is an error, and the loop has its own.
func TestABodyHasNoTangentsOfTheLevelsAroundIt(t *testing.T) {
	r := newRig(t)
	x := r.floats([]int64{}, 3)
	r.forward(func(level int) {
		w := r.do("_make_dual", x, x, level)
		outs, err := r.loop(func(c []T) []T {
			_, err := r.call(ModeFunctional, "_tangent", w, level)
			require.NotNil(t, err)
			assert.Equal(t, ir.ErrNotImplemented, err.Code)
			return []T{r.do("mul", c[0], w)}
		}, LoopCall{Length: 2}, []T{x}, nil, nil)
		require.Nil(t, err)
		assert.Equal(t, []float32{54}, r.tangent(outs[0], level), "of x w w")
	})
}

// A body reads a leaf whose elements share memory through a view that its strides do not tell: each element has a
// gradient of its own.
func TestABodyReadsAPointThroughViews(t *testing.T) {
	r := newRig(t)
	point := r.grad(r.do("expand", r.floats([]int64{1, 1}, 3), []int64{2, 2}))
	weights := r.floats([]int64{2, 2}, 1, 2, 3, 4)
	outs, err := r.loop(func(c []T) []T {
		return []T{r.do("add", c[0], r.do("mul", weights, r.do("transpose", point, 0, 1)))}
	}, LoopCall{Length: 2}, []T{r.grad(r.floats([]int64{2, 2}, 0, 0, 0, 0))}, nil, nil)
	require.Nil(t, err)
	require.Nil(t, r.backward(r.do("sum", outs[0]), 0))
	assert.Equal(t, []float32{2, 6, 4, 8}, r.gradOf(point), "the weights, transposed")
}

// What computes the tangents of a loop at a level of linearize computes no values.
func TestTheTangentsOfALoopAreComputedApart(t *testing.T) {
	r := newRig(t)
	x, d := r.floats(nil, 0.5, 1), r.do("mul", r.floats(nil, 1, 2), 1.0)
	level := r.e.SetMode(ModeForwardLevel, -1)
	outs, err := r.loop(func(c []T) []T { return []T{r.do("exp", r.do("sin", c[0]))} }, LoopCall{Length: 3},
		[]T{r.do("_make_dual", x, d, int(level))}, nil, nil)
	require.Nil(t, err)
	found, err := r.call(ModeFunctional, "_tangent", outs[0], int(level))
	require.Nil(t, err)
	r.e.SetMode(ModeForwardLevel, level)
	id, err := r.e.CaptureTangents([]uint64{uint64(d)}, []uint64{uint64(found[0])})
	require.Nil(t, err)
	defer r.e.ForgetCaptured(id)
	text, err := r.e.capturedText(id)
	require.Nil(t, err)
	assert.Regexp(t, `= loop\{\d+,1,\d+,3,`, text, "the tangent is its only carry")
	assert.Contains(t, text, "f32[3,2]", "values that are kept")
}

// Where the body detaches all that has a tangent, no loop of tangents is recorded: it would have no results.
func TestALoopWhoseResultsHaveNoTangentsRecordsNoOther(t *testing.T) {
	r := newRig(t)
	level := r.e.SetMode(ModeForwardLevel, -1)
	defer r.e.SetMode(ModeForwardLevel, level)
	x := r.do("_make_dual", r.floats(nil, 0.5, 1), r.floats(nil, 1, 1), int(level))
	body := func(c []T) []T { return []T{r.do("mul", c[0], r.do("detach", x))} }
	outs, err := r.loop(body, LoopCall{Length: 3}, []T{r.floats(nil, 1, 2)}, nil, nil)
	require.Nil(t, err)
	assert.Nil(t, r.tangent(outs[0], int(level)))
	assert.Equal(t, []float32{0.125, 2}, r.read(outs[0]))
}

// A derived body computes what a level around its loop may need: the tangents of a solution need its matrix's, although
// the body that they are derived from has no gradient by the matrix.
func TestADerivedBodyServesFurtherLevels(t *testing.T) {
	r := newRig(t)
	x, one := r.floats([]int64{1, 1}, 2), r.floats([]int64{1, 1}, 1)
	r.forward(func(outer int) {
		z := r.do("_make_dual", x, one, outer)
		r.forward(func(inner int) {
			q := r.do("_make_dual", z, one, inner)
			outs, err := r.loop(func(c []T) []T { return []T{r.do("add", c[0], r.do("linalg_inv", q))} },
				LoopCall{Length: 1}, []T{r.floats([]int64{1, 1}, 0)}, nil, nil)
			require.Nil(t, err)
			slope, err := r.call(ModeFunctional, "_tangent", outs[0], inner)
			require.Nil(t, err)
			assert.Equal(t, []float32{-0.25}, r.read(slope[0]))
			assert.Equal(t, []float32{0.25}, r.tangent(slope[0], outer), "2 / x^3")
		})
	})
}
