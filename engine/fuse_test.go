package engine

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/gpu"
	"github.com/torchlette/torchlette/gpu/fake"
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

// gatedGPU is an engine on a GPU device over memory, whose driver holds pipelines back while gate is set.
func gatedGPU(t *testing.T) (r *rig, d *fake.Driver, gate *atomic.Pointer[chan struct{}]) {
	r, d, gate = newRig(t), fake.New(), new(atomic.Pointer[chan struct{}])
	d.Kind = gpu.Software
	d.Compile = func(*gpu.Shader) {
		if c := gate.Load(); c != nil {
			select {
			case <-*c:
			case <-time.After(10 * time.Second): // runs wait for it: the test fails
			}
		}
	}
	dev, err := gpu.Open(d, gpu.Options{AllowSoftware: true, CacheDir: "-", Merge: 8})
	require.NoError(t, err)
	t.Cleanup(dev.Close)
	r.e = New(Config{Open: func(ir.DeviceID) (device.Device, error) { return dev, nil }})
	return r, d, gate
}

// While the device compiles the kernels of the fusion groups, runs go on with the first plan. Then the plan with the
// groups takes its place, its number and its history.
func TestNoRunWaitsForTheKernelsOfFusionGroups(t *testing.T) {
	r, _, gate := gatedGPU(t)
	x := r.floats(nil, 1, 2)
	before, values := r.steps(x, 2)
	assert.Equal(t, []int64{3, 3}, before)
	closed := make(chan struct{})
	gate.Store(&closed)
	held, more := r.steps(x, 4) // ends although no pipeline can be made
	values = append(values, more...)
	assert.Equal(t, []int64{3, 3, 3, 3}, held)
	assert.EqualValues(t, 1, r.stat("plans_compiling"))
	assert.Zero(t, r.stat("plans_fused"))
	close(closed)
	compiled := func() bool { return r.stat("plans_compiling") == 0 } // without a run of the window
	require.Eventually(t, compiled, 10*time.Second, time.Millisecond)
	assert.Zero(t, r.stat("plans_fused"))
	fused, more := r.steps(x, 2)
	runs := 6
	values = append(values, more...)
	assert.Equal(t, []int64{1, 1}, fused)
	assert.EqualValues(t, 1, r.stat("plans_built"))
	assert.EqualValues(t, 1, r.stat("plans_fused"))
	plain := newRig(t)
	plain.e.planner.debug.Off = []string{"fuse"}
	_, want := plain.steps(plain.floats(nil, 1, 2), runs+2)
	assert.Equal(t, want, values)
	m, err := r.e.explain(uint64(x))
	require.Nil(t, err)
	plan := m["plan"].(map[string]any)
	assert.EqualValues(t, runs+2, plan["runs"])
	assert.EqualValues(t, 1, plan["number"])
}

// A kernel that cannot be compiled leaves the first plan in use. It is not tried again, and explain tells why.
func TestAFailedKernelOfAFusionGroupHarmsNothing(t *testing.T) {
	r, d, _ := gatedGPU(t)
	x := r.floats(nil, 1, 2)
	_, values := r.steps(x, 2)
	d.Faults.Pipeline = d.Calls.Pipeline + 1
	runs := 2
	for ; r.stat("plans_unfused") == 0 && runs < 5000; runs++ {
		_, more := r.steps(x, 1)
		values = append(values, more...)
		time.Sleep(time.Millisecond)
	}
	made := d.Calls.Pipeline
	after, more := r.steps(x, 3)
	values = append(values, more...)
	assert.Equal(t, []int64{3, 3, 3}, after)
	assert.Equal(t, made, d.Calls.Pipeline)
	assert.Equal(t, []int64{1, 0, 0}, []int64{r.stat("plans_unfused"), r.stat("plans_fused"), r.stat("plans_compiling")})
	m, err := r.e.explain(uint64(x))
	require.Nil(t, err)
	assert.Contains(t, m["plan"].(map[string]any)["built_because"], "its fusion groups are left out: ")
	plain := newRig(t)
	_, want := plain.steps(plain.floats(nil, 1, 2), runs+3)
	assert.Equal(t, want, values)
}

// A plan whose successor is being compiled can be forgotten, and the engine can be reset.
func TestPlansAreForgottenWhileKernelsAreCompiled(t *testing.T) {
	for name, forget := range map[string]func(r *rig){
		"clear": func(r *rig) { require.Nil(t, r.e.clearPlans()) },
		"reset": func(r *rig) { require.Nil(t, r.e.Reset()) },
	} {
		t.Run(name, func(t *testing.T) {
			r, d, gate := gatedGPU(t)
			x := r.floats(nil, 1, 2)
			r.steps(x, 2)
			closed := make(chan struct{})
			gate.Store(&closed)
			r.steps(x, 1)
			time.AfterFunc(10*time.Millisecond, func() { close(closed) })
			forget(r)
			assert.Zero(t, r.stat("plans_compiling"))
			r.e.runtime.Close()
			assert.Zero(t, d.Live.Pipelines)
		})
	}
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

// The first runs of a window take kernels that compile soon. The third begins to make those that run fast.
func TestKernelsThatCompileSoonAreReplaced(t *testing.T) {
	r, _, _ := gatedGPU(t)
	var xs []T
	for i := range 8 {
		xs = append(xs, r.floats(nil, 1, float32(i+2)))
	}
	var dispatches []int64
	var values [][]float32
	for run := 0; r.stat("plans_fused") == 0 && run < 5000; run++ {
		before := r.stat("device_dispatches")
		var ys []T
		for _, x := range xs { // nothing to fuse
			ys = append(ys, r.do("digamma", x))
		}
		require.Nil(t, r.realize(ys...))
		dispatches = append(dispatches, r.stat("device_dispatches")-before)
		values = append(values, r.read(ys[7]))
		r.drop(ys...)
		time.Sleep(time.Millisecond)
	}
	n := len(dispatches) - 1
	assert.GreaterOrEqual(t, n, 2)
	assert.Less(t, dispatches[n], dispatches[0])
	assert.Equal(t, values[0], values[n])
}
