package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An exported function may write to tensors from outside, as part of the gradient: they get their histories back.
func TestAnExportGivesHistoriesBack(t *testing.T) {
	r := newRig(t)
	w := r.grad(r.floats([]int64{2, 2}, 1, 2, 3, 4))

	whole, part, tracked := r.floats([]int64{2, 2}, 0, 0, 0, 0), r.floats([]int64{2, 2}, 0, 0, 0, 0), r.do("mul", w, 2.0)
	view := r.do("select", tracked, 0, 0)
	outs := make([]Out, 1)
	require.Nil(t, r.e.BeginExport([]uint64{uint64(r.floats([]int64{2, 2}, 1, 1, 1, 1))},
		[]uint64{uint64(whole), uint64(part), uint64(w), uint64(tracked)}, outs))
	y := r.do("mul", T(outs[0].Handle), w)
	r.inplace("add", whole, y)
	r.inplace("add", r.do("select", part, 0, 1), r.do("select", y, 0, 0))
	r.inplace("add", tracked, y)
	text, _, err := r.e.EndExport(true, []uint64{uint64(y)})
	require.Nil(t, err)
	assert.Contains(t, string(text), `"changed":[false,true,true,false,true]`)
	for _, x := range []T{whole, part} {
		h, err := r.e.session.Handle(uint64(x))
		require.Nil(t, err)
		assert.False(t, r.e.session.RequiresGrad(h))
	}
	assert.Equal(t, []float32{0, 0, 0, 0}, r.read(whole))
	r.inplace("add", part, 1.0)
	assert.Equal(t, []float32{1, 1, 1, 1}, r.read(part))
	// The older history goes on.
	for _, x := range []T{tracked, view} {
		assert.Equal(t, map[T][]float32{tracked: {2, 2, 2, 2}, view: {2, 2, 0, 0}}[x],
			r.read(r.gradBy(r.do("sum", x), w)), "of the product alone")
	}
}
