package engine

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/reference"
)

// panicsIn runs f with a panic at the n-th entry into the engine and reports whether that panic happened.
func (r *rig) panicsIn(n int, f func()) (fired bool) {
	r.e.trap = func() {
		if n--; n == 0 {
			fired = true
			panic("injected")
		}
	}
	defer func() {
		r.e.trap = nil
		if x := recover(); x != nil {
			require.Equal(r.t, "injected", x)
		}
	}()
	f()
	return fired
}

// free requires that no lock is held and that a computation works.
func (r *rig) free(what string) {
	r.t.Helper()
	require.True(r.t, r.e.mu.TryLock(), "%s: the engine's lock is held", what)
	r.e.mu.Unlock()
	require.True(r.t, r.e.releases.mu.TryLock(), "%s: the lock of released handles is held", what)
	r.e.releases.mu.Unlock()
	require.Zero(r.t, r.e.waiter.execLock.depth, "%s: the execution lock is held", what)
	require.Zero(r.t, r.e.backward.open, what)
	w := r.grad(r.floats(nil, 1, 2))
	require.Nil(r.t, r.backward(r.do("sum", r.do("mul", w, w)), 0), what)
	require.Equal(r.t, []float32{2, 4}, r.gradOf(w), what)
	require.Nil(r.t, r.step(), what)
	r.drop(w)
}

// Only one file takes and releases the engine's lock.
func TestTheLockHasOnePlace(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	uses := regexp.MustCompile(`\be\.mu\.|&e\.mu\b`)
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		assert.Equal(t, name == "calls.go", uses.Match(text), name)
	}
}

// callsWithoutTheLock use tables with locks of their own, take the lock themselves, or read a file before it.
var callsWithoutTheLock = []string{"SourceLoc", "SourceLocString", "Release", "Reset", "Idle", "Interrupt",
	"OpenProgram", "ParseProgram", "OpenSession", "SessionOf", "CloseSession", "BeginSession", "WaitSession",
	"OpenTraining", "TrainingOf", "CloseTraining"}

func TestAPanicInAnyCallLeavesTheEngineFree(t *testing.T) {
	calls := reflect.TypeFor[*Engine]()
	require.Greater(t, calls.NumMethod(), 40)
	for i := range calls.NumMethod() {
		m := calls.Method(i)
		if slices.Contains(callsWithoutTheLock, m.Name) {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			r := newRig(t)
			args := []reflect.Value{reflect.ValueOf(r.e)}
			for k := 1; k < m.Type.NumIn(); k++ {
				args = append(args, argument(m.Type.In(k)))
			}
			for n := 1; ; n++ {
				var err *ir.Error
				fired := r.panicsIn(n, func() {
					for _, out := range m.Func.Call(args) {
						if x, ok := out.Interface().(*ir.Error); ok {
							err = x
						}
					}
				})
				require.True(t, fired || n > 1, "the trap is in every call")
				if !fired {
					break
				}
				r.free(m.Name)
				if err != nil {
					assert.Equal(t, ir.ErrInternal, err.Code)
					assert.Contains(t, err.Msg, "injected (at ")
					assert.Contains(t, err.Msg, "calls_test.go:", "it names the line that panicked")
				}
			}
		})
	}
}

// argument makes a value that every call accepts without effect.
func argument(t reflect.Type) reflect.Value {
	if t.Kind() == reflect.Pointer {
		return reflect.New(t.Elem())
	}
	if t.PkgPath() == "time" {
		return reflect.ValueOf(int64(1e9)).Convert(t)
	}
	return reflect.Zero(t)
}

func TestAPanicInAJobIsTheErrorOfWhoWaits(t *testing.T) {
	r := newRig(t)
	x := r.floats(nil, 1, 2)
	y := r.do("add", x, 1.0)
	r.do("add", r.do("expand", x, []int64{heavyElements, 2}), 1.0) // much pending work runs in a goroutine
	require.True(t, r.e.heavy())
	var err *ir.Error
	fired := r.panicsIn(2, func() { _, err = r.e.Force(uint64(y), 1e9) })
	require.True(t, fired)
	require.NotNil(t, err)
	assert.Equal(t, ir.ErrInternal, err.Code)
	r.free("Force")
	assert.Equal(t, []float32{2, 3}, r.read(y))
}

func TestAPanicInAPassFailsTheValuesOfTheWindow(t *testing.T) {
	var names []string
	r := newRig(t)
	r.e.planner.trap = func(pass string) { names = append(names, pass) }
	r.read(r.do("add", r.floats(nil, 1), 1.0))
	require.Greater(t, len(names), 5)
	for _, name := range names {
		r := newRig(t)
		w := r.floats(nil, 1, 2)
		r.e.planner.trap = func(pass string) {
			if pass == name {
				panic("injected")
			}
		}
		r.inplace("mul", w, 3.0)
		y := r.do("add", w, 1.0)
		_, err := r.tryRead(y)
		require.NotNil(t, err, name)
		assert.Equal(t, ir.ErrInternal, err.Code, name)
		assert.Contains(t, err.Msg, "injected (at ", name)
		r.e.planner.trap = nil
		assert.Nil(t, r.e.failures.poison, "nothing has run")
		r.free(name)
		assert.Equal(t, []float32{1, 2}, r.read(w), "%s: the write failed too", name)
		_, err = r.tryRead(y)
		require.NotNil(t, err, name)
		assert.Equal(t, []float32{2, 3}, r.read(r.do("add", w, 1.0)), name)
	}
}

// A panic during the collection of a window leaves marks on its nodes, which must be removed.
func TestAPanicWhileAWindowIsCollectedIsForgotten(t *testing.T) {
	r := newRig(t)
	x := r.floats(nil, 1, 2)
	y := r.do("mul", r.do("add", x, 1.0), 2.0)
	pending := r.e.graph.Pending
	r.e.graph.Pending = nil // the closure reaches nodes outside of the pending list
	_, err := r.tryRead(y)
	require.NotNil(t, err)
	assert.Equal(t, ir.ErrInternal, err.Code)
	assert.Contains(t, err.Msg, "BUG")
	r.e.graph.Pending = pending
	r.free("Collect")
	assert.Equal(t, []float32{4, 6}, r.read(y))
}

func TestAPanicInABackwardWalkEndsIt(t *testing.T) {
	r := newRig(t)
	w := r.grad(r.floats(nil, 1, 2, 3))
	loss := r.do("sum", r.do("mul", w, w))
	hook, err := r.e.AddHook(uint64(w), HookTensor)
	require.Nil(t, err)
	id, err := r.e.Backward([]uint64{uint64(loss)}, nil, nil, AccumulateGrad)
	require.Nil(t, err)
	var ev BackwardEvent
	require.Nil(t, r.e.BackwardNext(id, 0, &ev))
	require.Equal(t, hook, ev.Hook)
	require.Positive(t, r.e.waiter.execLock.depth, "the walk waits for its hook")
	accumulate := r.e.backward.byID[id].w
	r.e.backward.byID[id].w = nil // makes the next call panic
	err = r.e.BackwardNext(id, 0, &ev)
	require.NotNil(t, err)
	assert.Equal(t, ir.ErrInternal, err.Code)
	accumulate.Close()
	r.e.RemoveHook(hook)
	r.free("BackwardNext")
}

// panicking is a device that panics in a chosen call.
type panicking struct {
	*reference.Device
	in string
}

func (d *panicking) at(call string) {
	if d.in == call {
		d.in = ""
		panic("injected")
	}
}

func (d *panicking) Alloc(bytes int64) (device.Buffer, error) {
	d.at("Alloc")
	return d.Device.Alloc(bytes)
}

func (d *panicking) Upload(b device.Buffer, t ir.DType, off int64, data []byte) error {
	d.at("Upload")
	return d.Device.Upload(b, t, off, data)
}

func (d *panicking) Read(b device.Buffer, t ir.DType, off int64, dst []byte) error {
	d.at("Read")
	return d.Device.Read(b, t, off, dst)
}

func (d *panicking) Build(steps []device.Step, slots int) (device.Program, error) {
	d.at("Build")
	return d.Device.Build(steps, slots)
}

func (d *panicking) Run(p device.Program, b *device.Binding) (device.Fence, error) {
	d.at("Run")
	return d.Device.Run(p, b)
}

func TestAPanicInADeviceLeavesTheEngineFree(t *testing.T) {
	poisonsIn := map[string]bool{"Alloc": true, "Upload": false, "Read": false, "Build": false, "Run": true}
	for call, poisons := range poisonsIn {
		t.Run(call, func(t *testing.T) {
			r := newRig(t)
			d := &panicking{Device: reference.New()}
			r.e = New(Config{Open: func(ir.DeviceID) (device.Device, error) { return d, nil }})
			x := r.floats(nil, 1, 2)
			d.in = call
			_, err := r.tryRead(r.do("add", x, 1.0))
			if call == "Upload" {
				var o Out
				err = r.e.FromData(ir.F32, 0, []int64{1}, make([]byte, 4), false, 0, &o)
			}
			require.Empty(t, d.in, "the device was called")
			if call != "Build" { // a failed Build is tried again
				require.NotNil(t, err)
				assert.Equal(t, ir.ErrInternal, err.Code)
			}
			require.Equal(t, poisons, r.e.failures.poison != nil)
			if poisons { // the run may have begun
				d = &panicking{Device: reference.New()}
				require.Nil(t, r.e.Reset())
			}
			r.free(call)
		})
	}
}
