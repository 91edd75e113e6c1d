package engine

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/reference"
)

// A run reads what the run before it wrote, on a device of its own and on a shared one. Runs that have no results, and
// other sessions, leave the state alone; a reset brings the first values back.
func TestSessionsKeepWhatRunsWrite(t *testing.T) {
	for _, own := range []bool{true, false} {
		r := newSessionRig(t, own)
		sum, x := r.floats(nil, 1, 2), r.floats(nil, 3, 4)
		text, _, err := r.exportFunction(func(a ...T) []T {
			r.inplace("add", r.do("detach", sum), a[0])
			return []T{r.do("mul", sum, 2.0)}
		}, []T{sum}, x)
		require.Nil(t, err, "%v", err)
		p := r.savedProgram(text, 2, 1, 1)
		f := p.Functions["forward"]
		f.State = []int{0}

		open := func() *InferenceSession {
			state := &savedSession{p: p, f: f}
			s, err := r.e.newSession(state, SessionOptions{Threads: 1})
			require.Nil(t, err)
			t.Cleanup(s.Close)
			require.Nil(t, s.inEngine(func() *ir.Error { return state.hold(r.e, handles([]T{sum})) }))
			require.Nil(t, s.openState(state))
			return s
		}
		s, other := open(), open()
		in := value("x0", []float32{10, 20}, 2)
		assert.Equal(t, []float32{22, 44}, runSession(t, s, in))
		_, err = s.Run([]SessionValue{in}, nil, nil)
		require.NotNil(t, err, "no room for results")
		_, err = s.Info("session_profile")
		require.Nil(t, err)
		assert.Equal(t, []float32{42, 84}, runSession(t, s, in))
		assert.Equal(t, []float32{22, 44}, runSession(t, other, in))
		assert.Equal(t, []float32{1, 2}, r.read(sum), "the program's tensor stays")
		require.Nil(t, s.Reset())
		assert.Equal(t, []float32{22, 44}, runSession(t, s, in))
		runtime.KeepAlive(in.Data)
	}
}

// On a GPU the state stays on the device: a run sends its argument and reads its result, and nothing else.
func TestTheStateOfASessionStaysOnTheGPU(t *testing.T) {
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	const gpuID ir.DeviceID = 1
	d := newGPU(t)()
	r := &rig{t: t, e: New(Config{Open: func(id ir.DeviceID) (device.Device, error) {
		if id == gpuID {
			return d, nil
		}
		return reference.New(), nil
	}})}
	sum, x := r.floats(nil, 1, 2), r.floats(nil, 3, 4)
	text, _, err := r.exportFunction(func(a ...T) []T {
		r.inplace("add", r.do("detach", sum), a[0])
		return []T{r.do("mul", sum, 2.0)}
	}, []T{sum}, x)
	require.Nil(t, err)
	p := r.savedProgram(text, 2, 1, 1)
	f := p.Functions["forward"]
	f.State = []int{0}
	state := &savedSession{p: p, f: f}
	s, err := r.e.newSession(state, SessionOptions{Device: gpuID})
	require.Nil(t, err)
	t.Cleanup(s.Close)
	require.Nil(t, s.inEngine(func() *ir.Error { return state.hold(r.e, handles([]T{sum})) }))
	require.Nil(t, s.openState(state))

	in := value("x0", []float32{10, 20}, 2)
	assert.Equal(t, []float32{22, 44}, runSession(t, s, in))
	count := func() (uploads, reads int64) {
		n := d.Stats()
		return n["uploads"], n["reads"]
	}
	uploads, reads := count()
	assert.Equal(t, []float32{42, 84}, runSession(t, s, in))
	assert.Equal(t, []float32{62, 124}, runSession(t, s, in))
	sent, read := count()
	assert.Equal(t, int64(2), sent-uploads, "the arguments")
	assert.Equal(t, int64(2), read-reads, "the results")
	runtime.KeepAlive(in.Data)
}
