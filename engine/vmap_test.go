package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
)

// vmap runs f at a level of that size.
func (r *rig) vmap(size int64, f func(level int)) {
	level := r.e.SetMode(ModeVmap, size<<2|lazy.VmapRefuses) + 1
	f(int(level))
	require.Equal(r.t, level, r.e.SetMode(ModeVmap, lazy.VmapEnd))
}

// A rule sees the shape of one element. Its results hold all elements of the batch.
func TestAnOperatorOfABatchSeesOneElement(t *testing.T) {
	r := newRig(t)
	x := r.floats([]int64{2, 3}, 1, 2, 3, 4, 5, 6)
	r.vmap(2, func(level int) {
		row := r.do("_vmap_in", x, 0, level)
		m, err := r.e.Meta(uint64(row))
		require.Nil(t, err)
		assert.Equal(t, []int64{3}, m.Shape)
		y := r.do("mul", row, r.do("sum", row))
		y = r.do("_vmap_out", y, 1, level, 2)
		assert.Equal(t, []float32{6, 60, 12, 75, 18, 90}, r.read(y))
	})
}

// The gradient of an operand without the batch is the sum over it.
func TestTheGradientOfASharedOperandIsASum(t *testing.T) {
	r := newRig(t)
	x, w := r.floats([]int64{2, 3}, 1, 2, 3, 4, 5, 6), r.grad(r.floats(nil, 1, 1, 1))
	var loss T
	r.vmap(2, func(level int) {
		loss = r.do("_vmap_out", r.do("sum", r.do("mul", r.do("_vmap_in", x, 0, level), w)), 0, level, 2)
	})
	require.Nil(t, r.backward(r.do("sum", loss), 0))
	assert.Equal(t, []float32{5, 7, 9}, r.gradOf(w))
}

// A batched value cannot be written into a tensor without the batch; the elements of a batch cannot be read.
func TestABatchIsNeitherReadNorWrittenAsOneElement(t *testing.T) {
	r := newRig(t)
	x, shared := r.floats([]int64{2, 3}, 1, 2, 3, 4, 5, 6), r.floats(nil, 0, 0, 0)
	r.vmap(2, func(level int) {
		row := r.do("_vmap_in", x, 0, level)
		_, err := r.call(ModeInPlace, "add", shared, row)
		require.NotNil(t, err)
		assert.Contains(t, err.Msg, "vmap: inplace arithmetic")
		_, err = r.tryRead(row)
		require.NotNil(t, err)
		assert.Contains(t, err.Msg, "We don't support vmap over calling .item()")
	})
	assert.Equal(t, []float32{0, 0, 0}, r.read(shared))
}

// Only primitives that a page of the documentation names are computed in a loop over the batch.
func TestEveryPrimitiveHasABatchingRule(t *testing.T) {
	for _, p := range op.Prims() {
		assert.NotEqual(t, op.BatchLoop, p.BatchKind, p.Name)
	}
}

// A hook keeps the number of its level: a walk within another level may call it.
func TestALevelHasNoNumberOfAHook(t *testing.T) {
	r := newRig(t)
	var y T
	r.vmap(2, func(level int) {
		x := r.grad(r.floats([]int64{2, 3}, 1, 2, 3, 4, 5, 6))
		y = r.do("mul", r.do("_vmap_in", x, 0, level), 2.0)
		for range 2 {
			_, err := r.e.AddHook(uint64(y), HookTensor)
			require.Nil(t, err)
		}
	})
	numbers := func() (list []int) {
		r.vmap(3, func(outer int) {
			r.e.SetMode(ModeVmap, lazy.VmapLeave)
			r.vmap(2, func(level int) { list = append(list, level) })
			r.e.SetMode(ModeVmap, lazy.VmapReturn)
			r.vmap(2, func(inner int) { list = append(list, outer, inner) })
		})
		return list
	}
	assert.Equal(t, []int{2, 2, 3}, numbers())
	r.e.Release([]uint64{uint64(y)})
	assert.Equal(t, []int{1, 1, 2}, numbers())
}

// A captured function maps an operator whose batching rule records others: a call has the gradient of those.
func TestACallHasTheGradientOfWhatABatchingRuleRecords(t *testing.T) {
	for _, c := range []struct {
		name string
		f    func(r *rig, row, w T) T
		want []float32
	}{
		{"layer_norm", func(r *rig, row, w T) T { return r.do("sum", r.do("layer_norm", row, []int64{3}, w)) },
			[]float32{-2.449489, 0, 2.449489}},
		{"index_select", func(r *rig, row, w T) T {
			return r.do("sum", r.do("index_select", r.do("mul", row, w), 0, r.ints(2, 2, 0)))
		}, []float32{5, 0, 18}},
		{"twice", func(r *rig, row, w T) T {
			y := r.do("sum", r.do("layer_norm", row, []int64{3}, r.do("mul", w, w)))
			return r.do("sum", r.do("mul", r.gradBy(y, w), w))
		}, []float32{-19.5958, 0, 19.5958}},
	} {
		r := newRig(t)
		x, w := r.floats([]int64{2, 3}, 1, 2, 3, 4, 5, 6), r.grad(r.floats(nil, 1, 1, 1))
		id, err := r.captureFunction(func(a ...T) (loss T) {
			r.vmap(2, func(level int) {
				loss = r.do("_vmap_out", c.f(r, r.do("_vmap_in", a[0], 0, level), w), 0, level, 2)
			})
			return r.do("sum", loss)
		}, x)
		require.Nil(t, err, c.name)
		for range 2 {
			out, ok := r.callCaptured(id, x)
			require.True(t, ok)
			assert.InDeltaSlice(t, c.want, r.read(r.gradBy(out, w)), 1e-4, c.name)
		}
		r.e.ForgetCaptured(id)
	}
}
