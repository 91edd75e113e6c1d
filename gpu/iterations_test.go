package gpu_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/gpu"
	"github.com/torchlette/torchlette/gpu/fake"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// twice adds 1 to a row of n floats in place, two times in turn: one thread has the row, since the second stage reads
// what the first one has written.
func twice(n int) device.Step {
	b := loopir.NewBuilder("twice", 1, 1)
	at := b.Linear(b.Buf(ir.F32, loopir.ReadWrite), -1)
	for range 2 {
		b.Each()
		b.Store(at, b.Add(b.Load(at), b.Float(ir.F32, 1)))
	}
	return device.Step{Op: b.Kernel(), Bufs: []int{0}, Params: []device.Param{device.Const(1), device.Const(int64(n))}}
}

// TestALaunchWhoseLoopsADeviceEndsIsRefused: Mesa's software devices end the loops of a thread, others do not.
func TestALaunchWhoseLoopsADeviceEndsIsRefused(t *testing.T) {
	for _, c := range []struct {
		kind gpu.AdapterKind
		n    int
		fits bool
	}{{gpu.Software, 32001, true}, {gpu.Software, 33001, false}, {gpu.Discrete, 33001, true}} {
		d := fake.New()
		d.Kind = c.kind
		_, err := open(t, d, gpu.Options{}).Build([]device.Step{twice(c.n)}, 1)
		if c.fits {
			require.NoError(t, err)
			continue
		}
		code(t, err, ir.ErrRuntime)
		require.ErrorContains(t, err, "twice: too long for wgpu:0: a thread has 66003 iterations, want at most 65535")
	}
}

// TestTheIterationsOfALaunch are those of its longest pass.
func TestTheIterationsOfALaunch(t *testing.T) {
	d := fake.New()
	d.Kind = gpu.Software
	dev := open(t, d, gpu.Options{})
	st := twice(1001)
	require.EqualValues(t, 2003, dev.Caps().Iterations(st.Op, []uint64{1, 1001}))
	require.Nil(t, open(t, fake.New(), gpu.Options{}).Caps().Iterations)
}
