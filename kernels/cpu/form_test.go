package cpu_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// over returns a step of the same kernel on other buffers, of n elements.
func over(s device.Step, n int64, bufs ...int) device.Step {
	s.Bufs, s.Params = bufs, []device.Param{device.Const(n)}
	return s
}

func TestStepsOfOneFormShareTheirKernel(t *testing.T) {
	const n = 1000
	first := mapStep(loopir.OpAdd, ir.F32, ir.F32, n, -1, 0, 1, 2)
	each(t, func(t *testing.T, d *cpu.Device) {
		bind := &device.Binding{}
		for range 5 {
			b, err := d.Alloc(4 * n)
			require.NoError(t, err)
			defer d.Free(b)
			require.NoError(t, d.Upload(b, ir.Bool, 0, data(ir.F32, n)))
			bind.Bufs = append(bind.Bufs, b)
		}
		held := func() int64 { return d.Stats()["kernels"] }
		build := func(steps ...device.Step) device.Program {
			p, err := d.Build(steps, len(bind.Bufs))
			require.NoError(t, err)
			return p
		}
		one := build(first, over(first, n, 2, 1, 3), over(first, n, 3, 0, 4))
		require.EqualValues(t, 1, held(), "other buffers")
		two := build(first, over(first, n-1, 0, 1, 2), over(first, n, 0, 0, 2), over(first, n, 0, 1, 1))
		require.EqualValues(t, 4, held(), "another size, one operand, in place")
		sum := func() []byte {
			_, err := d.Run(one, bind)
			require.NoError(t, err)
			out := make([]byte, 4*n)
			require.NoError(t, d.Read(bind.Bufs[4], ir.F32, 0, out))
			return out
		}
		before := sum()
		two.Release()
		require.EqualValues(t, 1, held(), "what one program has left stays with the other")
		require.Equal(t, before, sum())
		one.Release()
		require.Zero(t, held())

		broken := over(first, n, 0, 1, 2)
		broken.Params[0].From = device.Scalar
		_, err := d.Build([]device.Step{first, broken}, len(bind.Bufs))
		require.ErrorContains(t, err, "size or stride 0 is not constant")
		require.Zero(t, held(), "a program that cannot be built holds nothing")
	})
}
