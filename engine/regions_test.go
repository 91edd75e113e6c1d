package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// region calls f in a compiled region, or in the one that is open.
func (r *rig) region(f func()) {
	old := r.e.SetMode(ModeRegion, -1)
	if old == 0 {
		r.e.SetMode(ModeRegion, NewRegion)
	}
	f()
	r.e.SetMode(ModeRegion, old)
}

// program is the text of the program that computes a tensor.
func (r *rig) program(x T) string {
	v, err := r.e.session.Resolve(uint64(x))
	require.Nil(r.t, err)
	w, _ := r.e.planner.pending(v.Value, r.e.session.PendingEffects())
	defer r.e.planner.done()
	return w.Program.String()
}

// The region's plan has its groups at the first run; the same window outside of a region is another plan.
func TestRegionsAreInTheKeyAndFuseAtOnce(t *testing.T) {
	r := newSlowRig(t, 0)
	x := r.floats(nil, 1, 2)
	run := func() {
		y := r.do("mul", x, 0.5)
		z := r.do("add", y, 3.0)
		r.drop(y)
		assert.Equal(t, []float32{3.5, 4}, r.read(z))
		r.drop(z)
	}
	before := r.stat("device_dispatches")
	r.region(run)
	assert.EqualValues(t, 1, r.stat("device_dispatches")-before)
	before = r.stat("device_dispatches")
	run()
	assert.EqualValues(t, 2, r.stat("device_dispatches")-before)
	r.region(run)
	assert.EqualValues(t, 2, r.stat("plans_built"), "the region's plan comes again")
}

// What the gradient rules of a region's operators record is a region of its own. The rules of other operators are in
// none, and a walk in a region is in that region.
func TestTheBackwardOfARegionIsARegion(t *testing.T) {
	r := newRig(t)
	w := r.grad(r.floats(nil, 1, 2))
	var y T
	r.region(func() { y = r.do("mul", r.do("mul", w, w), 3.0) })
	require.Nil(t, r.backward(r.do("sum", r.do("sin", y)), 0))
	var g Out
	_, err := r.e.Grad(uint64(w), &g)
	require.Nil(t, err)
	assert.Equal(t, `input $0 : f32[2]
%0 = mul $0 $0 : f32[2] region 1 live
%1 = mul %0 3.0 : f32[2] region 1 live
%2 = fill{7,0} 1.0 : f32[]
%3 = cos %1 : f32[2]
%4 = mul %2[2](0) %3 : f32[2]
%5 = mul %4 3.0 : f32[2] region 2
%6 = mul %5 $0 : f32[2] region 2
%7 = mul %5 $0 : f32[2] region 2
%8 = add %6 %7 : f32[2] region 2 live
store %8 base 0 last exclusive
`, r.program(T(g.Handle)))
	assert.Zero(t, r.e.SetMode(ModeRegion, -1), "the walk leaves no mark")

	r.read(T(g.Handle))
	require.Nil(t, r.e.SetGrad(uint64(w), 0))
	loss := r.do("sum", r.do("mul", w, 2.0))
	r.region(func() { require.Nil(t, r.backward(loss, 0)) })
	_, err = r.e.Grad(uint64(w), &g)
	require.Nil(t, err)
	assert.Equal(t, `%0 = fill{7,0} 1.0 : f32[] region 1
%1 = mul %0[2](0) 2.0 : f32[2] region 1 live
store %1 base 0 last exclusive
`, r.program(T(g.Handle)))
}

func TestRegionsBelongToThreads(t *testing.T) {
	r := newRig(t)
	r.e.SetMode(ModeRegion, NewRegion)
	mine := r.e.SetMode(ModeRegion, -1)
	r.e.Thread(1)
	assert.Zero(t, r.e.SetMode(ModeRegion, -1))
	r.e.SetMode(ModeRegion, NewRegion)
	other := r.e.SetMode(ModeRegion, -1)
	assert.NotEqual(t, mine, other)
	r.e.Thread(0)
	assert.Equal(t, mine, r.e.SetMode(ModeRegion, 0))
}
