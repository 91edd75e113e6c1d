package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/reference"
)

// slowCompiler is a device whose kernels take long to compile.
type slowCompiler struct {
	*reference.Device
	refuse int // programs of fewer steps fail to build
}

func (s *slowCompiler) Caps() *device.Caps {
	c := *s.Device.Caps()
	c.CostlyKernels = true
	return &c
}

func (s *slowCompiler) Build(steps []device.Step, slots int) (device.Program, error) {
	if len(steps) < s.refuse {
		return nil, ir.Errorf(ir.ErrKernelExecution, "refused")
	}
	return s.Device.Build(steps, slots)
}

func newSlowRig(t *testing.T, refuse int) *rig {
	r := newRig(t)
	d := &slowCompiler{Device: r.dev, refuse: refuse}
	r.e = New(Config{Open: func(ir.DeviceID) (device.Device, error) { return d, nil }})
	return r
}

// steps runs a window with an intermediate and a store in place n times, and gives the dispatches of each run.
func (r *rig) steps(x T, n int) (dispatches []int64, values [][]float32) {
	for range n {
		before := r.stat("device_dispatches")
		y := r.do("mul", x, 0.5)
		z := r.do("add", y, 3.0)
		r.drop(y)
		r.inplace("add", x, z)
		values = append(values, r.read(x), r.read(z))
		dispatches = append(dispatches, r.stat("device_dispatches")-before)
		r.drop(z)
	}
	return dispatches, values
}

// A device whose kernels compile slowly runs a window twice as it is; the third run has the fusion groups. The values,
// the plan's number and its count of runs go on.
func TestAWindowIsFusedOnItsThirdRun(t *testing.T) {
	r := newSlowRig(t, 0)
	x := r.floats(nil, 1, 2)
	dispatches, values := r.steps(x, 5)
	assert.Equal(t, []int64{3, 3, 1, 1, 1}, dispatches)
	assert.EqualValues(t, 1, r.stat("plans_built"))
	assert.EqualValues(t, 1, r.stat("plans_fused"))
	plain := newRig(t)
	plain.e.planner.debug.Off = []string{"fuse"}
	_, want := plain.steps(plain.floats(nil, 1, 2), 5)
	assert.Equal(t, want, values)
	m, err := r.e.explain(uint64(x))
	require.Nil(t, err)
	plan := m["plan"].(map[string]any)
	assert.EqualValues(t, 5, plan["runs"])
	assert.EqualValues(t, 1, plan["number"])
	require.Len(t, plan["kernels"], 1)
	kernel := plan["kernels"].([]map[string]any)[0]
	assert.Equal(t, "mul+add+add", kernel["op"])
	assert.Len(t, kernel["members"], 3)
	assert.EqualValues(t, 1, r.dev.Programs, "the plan that it replaces is released")
}

// Where the kernels of a group cannot be made, the plan without it serves on.
func TestAPlanThatCannotBeFusedServesOn(t *testing.T) {
	r := newSlowRig(t, 2)
	dispatches, values := r.steps(r.floats(nil, 1, 2), 4)
	assert.Equal(t, []int64{3, 3, 3, 3}, dispatches)
	assert.Zero(t, r.stat("plans_fused"))
	assert.Equal(t, []float32{4.5, 6}, values[0])
}

// One plan takes another's place in the cache.
func TestAReplacedPlanIsReleased(t *testing.T) {
	var gone []*compile.Plan
	c := compile.NewCache(4, func(p *compile.Plan) { gone = append(gone, p) })
	w := lazy.Window{}
	old, next := &compile.Plan{Program: &w.Program, Runs: 2, Cause: "new"}, &compile.Plan{Program: &w.Program}
	c.Add(old)
	c.Replace(old, next)
	assert.Equal(t, []*compile.Plan{old}, gone)
	assert.Same(t, next, c.Numbered(old.Number))
	assert.EqualValues(t, 2, next.Runs)
	assert.Equal(t, "new", next.Cause)
}

func TestPassesAreDisabledByAnOption(t *testing.T) {
	r := newRig(t)
	x := r.floats(nil, 1, 2)
	fused, _ := r.steps(x, 1)
	require.Nil(t, r.e.SetOption("disable_passes", "fuse,donate"))
	apart, _ := r.steps(x, 1)
	require.Nil(t, r.e.SetOption("disable_passes", ""))
	again, _ := r.steps(x, 1)
	assert.Equal(t, [][]int64{{1}, {3}, {1}}, [][]int64{fused, apart, again})
	err := r.e.SetOption("disable_passes", "memory")
	require.NotNil(t, err)
	assert.Contains(t, err.Error(), `pass "memory" cannot be left out`)
}
