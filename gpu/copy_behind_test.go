package gpu_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/gpu"
	"github.com/torchlette/torchlette/gpu/fake"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// A copy that a binding asks for has the elements of that moment, and takes no submission of its own.
func TestARunCopiesElementsInItsOwnSubmission(t *testing.T) {
	for name, o := range map[string]gpu.Options{"whole": {}, "in parts of one record": {Part: 1}} {
		t.Run(name, func(t *testing.T) {
			d := fake.New()
			d.Lag = 4
			dev := open(t, d, o)
			p, err := dev.Build([]device.Step{increment(8)}, 1)
			require.NoError(t, err)
			b := zeros(t, dev, 8)
			run := func(c *device.HostCopy) {
				_, err := dev.Run(p, &device.Binding{Bufs: []device.Buffer{b}, Copy: c})
				require.NoError(t, err)
			}
			run(nil)
			before := d.Calls.Submit
			c := device.HostCopy{DType: ir.F32, Off: 3, N: 2}
			run(&c)
			if o.Part == 0 {
				require.Equal(t, 1, d.Calls.Submit-before)
			}
			run(nil)
			got := make([]byte, 8)
			require.NoError(t, c.Read.Finish(got, nil))
			require.Equal(t, []float32{2, 2}, []float32{float(got), float(got[4:])})
		})
	}
}

// The copy of a run with a checking kernel tells that run's fault.
func TestACopyBehindARunTellsItsFault(t *testing.T) {
	dev := open(t, fake.New(), gpu.Options{})
	p, err := dev.Build([]device.Step{picking(3)}, 2)
	require.NoError(t, err)
	index, to := zeros(t, dev, 1), zeros(t, dev, 1)
	word := make([]byte, 4)
	for _, i := range []uint32{9, 1, 9} {
		binary.LittleEndian.PutUint32(word, i)
		require.NoError(t, dev.Upload(index, ir.I32, 0, word))
		c := device.HostCopy{Slot: 1, DType: ir.F32, N: 1}
		_, err := dev.Run(p, &device.Binding{Bufs: []device.Buffer{index, to}, Copy: &c})
		require.NoError(t, err)
		require.NoError(t, c.Read.Finish(word, nil))
		f, found := dev.TakeKnownFault()
		require.Equal(t, i == 9, found)
		if found {
			require.Equal(t, device.Fault{Event: 5, Element: 9}, f)
		}
	}
}

// A stopped run makes no copy, and keeps no memory. The run that continues it makes the copy.
func TestAStoppedRunLeavesTheCopyToTheNext(t *testing.T) {
	d := fake.New()
	dev := open(t, d, gpu.Options{Part: 1})
	p, err := dev.Build([]device.Step{increment(8), increment(8), increment(8)}, 1)
	require.NoError(t, err)
	b := zeros(t, dev, 8)
	stops := 0
	for poll := range int32(12) {
		c := device.HostCopy{DType: ir.F32, N: 1}
		bind := device.Binding{Bufs: []device.Buffer{b}, Copy: &c, Stop: &device.Stop{}}
		bind.Stop.AskAt(poll + 1)
		if _, err := dev.Run(p, &bind); err != nil {
			require.Equal(t, device.ErrStopped, err)
			require.Nil(t, c.Read)
			stops++
			bind.Stop = nil
			_, err = dev.Run(p, &bind)
			require.NoError(t, err)
		}
		got := make([]byte, 4)
		require.NoError(t, c.Read.Finish(got, nil))
		require.Equal(t, float32(3*(poll+1)), float(got))
	}
	require.Greater(t, stops, 2)
	require.Equal(t, int64(4096), dev.Stats()["readback_bytes"])
}

// A run that cannot copy leaves the request without a read, and keeps no memory: one of no elements, one of more than a
// copy takes, and one that is profiled.
func TestARunWithoutACopyKeepsNoMemory(t *testing.T) {
	d := fake.New()
	dev := open(t, d, gpu.Options{Part: 1})
	p, err := dev.Build([]device.Step{increment(8), increment(8)}, 1)
	require.NoError(t, err)
	b := zeros(t, dev, 16<<20)
	got := make([]byte, 4)
	require.NoError(t, dev.Read(b, ir.F32, 0, got))
	memory := dev.Stats()["readback_bytes"]
	bind := device.Binding{Bufs: []device.Buffer{b}, Copy: &device.HostCopy{DType: ir.F32}}
	run := func() {
		t.Helper()
		_, err := dev.Run(p, &bind)
		require.NoError(t, err)
		require.Nil(t, bind.Copy.Read)
		require.Equal(t, memory, dev.Stats()["readback_bytes"])
	}
	run()
	bind.Copy.N = 16 << 20
	run()
	bind.Copy.N = 1
	require.NoError(t, dev.Profile(true))
	run()
	require.NoError(t, dev.Profile(false))
	_, err = dev.Run(p, &bind)
	require.NoError(t, err)
	require.NoError(t, bind.Copy.Read.Finish(got, nil))
	require.Equal(t, float32(8), float(got))
}
