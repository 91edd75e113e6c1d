package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
)

func TestModesAreOfAThread(t *testing.T) {
	for name, c := range map[string]struct {
		mode Mode
		set  int64
	}{
		"grad":         {ModeGrad, 0},
		"inference":    {ModeInference, 1},
		"autocast CPU": {ModeAutocastCPU, int64(ir.BF16)},
		"autocast GPU": {ModeAutocastGPU, int64(ir.F16)},
		"device":       {ModeDefaultDevice, 1},
		"packing":      {ModeSavedTensorHooks, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			before := r.e.SetMode(c.mode, -1)
			r.e.SetMode(c.mode, c.set)
			r.e.Thread(7)
			assert.Equal(t, before, r.e.SetMode(c.mode, -1), "a new thread begins with the defaults")
			r.e.Thread(0)
			assert.Equal(t, c.set, r.e.SetMode(c.mode, before))
			r.e.Thread(7)
			r.e.SetMode(c.mode, c.set)
			r.e.Thread(0)
			assert.Equal(t, before, r.e.SetMode(c.mode, -1))
			r.e.EndThread(7)
			r.e.Thread(7)
			assert.Equal(t, before, r.e.SetMode(c.mode, -1), "a thread of a number used before is another one")
		})
	}
}

func TestADefaultDeviceCanBeUnset(t *testing.T) {
	r := newRig(t)
	own := r.e.SetMode(ModeDefaultDevice, -1)
	assert.EqualValues(t, NoDevice, r.e.SetMode(ModeDefaultDevice, 1), "setting asks for no default")
	assert.EqualValues(t, 1, r.e.SetMode(ModeDefaultDevice, NoDevice))
	assert.Equal(t, own, r.e.SetMode(ModeDefaultDevice, -1))
}

func TestSettingsOfTheProcessAreNotOfAThread(t *testing.T) {
	r := newRig(t)
	r.e.SetMode(ModeDefaultDType, int64(ir.F64))
	r.e.SetMode(ModeDeterministic, 1)
	r.e.Thread(7)
	assert.Equal(t, int64(ir.F64), r.e.SetMode(ModeDefaultDType, -1))
	assert.Equal(t, int64(1), r.e.SetMode(ModeDeterministic, -1))
}

func TestScopesAndLabelsAreOfAThread(t *testing.T) {
	r := newRig(t)
	r.e.TidyBegin()
	r.e.BeginFunction("Mine")
	mine := r.floats(nil, 1)
	r.e.Thread(7)
	w := r.grad(r.floats(nil, 2))
	y := r.do("exp", w)
	f, err := r.e.GradFunction(uint64(y), false)
	require.Nil(t, err)
	assert.Contains(t, string(f.Name[:]), "ExpBackward")
	r.e.ReleaseFunction(f.ID)
	r.e.EndThread(7) // later calls belong to thread 0
	r.e.EndFunction()
	r.e.TidyEnd(nil)
	assert.Equal(t, []float32{2}, r.read(w), "another thread's tensors are not in the scope")
	_, err = r.tryRead(mine)
	require.NotNil(t, err)
	assert.Equal(t, ir.ErrDisposed, err.Code)
}
