package devicetest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/kerneltest"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// attention runs random passes on the device and on the interpreter.
func (s *suite) attention(t *testing.T) {
	r := rand.New(rand.NewPCG(42, 1))
	for i, n := range []kerneltest.AttentionSize{
		{Batch: 2, Heads: 2, Group: 1, Queries: 5, Keys: 9, Width: 6, WidthV: 3},
		{Batch: 1, Heads: 4, Group: 2, Queries: 20, Keys: 17, Width: 32, WidthV: 32, Aligned: true},
	} {
		for _, pass := range []launch.AttentionPass{launch.AttentionForward, launch.AttentionGradQ, launch.AttentionGradKV,
			launch.AttentionGradMask} {
			for _, d := range []ir.DType{ir.F32, ir.F16} {
				t.Run(fmt.Sprintf("%d_%d_%v", i, pass, d),
					func(t *testing.T) { s.checkAttention(t, kerneltest.RandomAttention(r, d, pass, n)) })
			}
		}
	}
}

// attentionAppends runs passes that store new rows, of few keys and of so many that workgroups share them.
func (s *suite) attentionAppends(t *testing.T) {
	if s.d.Caps().AttentionAppends == 0 {
		t.Skip("the device's attention stores no new rows")
	}
	r := rand.New(rand.NewPCG(43, 1))
	for i, n := range []kerneltest.AttentionSize{
		{Batch: 2, Heads: 2, Group: 1, Queries: 1, Keys: 9, Width: 6, WidthV: 3},
		{Batch: 1, Heads: 4, Group: 2, Queries: 1, Keys: 300, Width: 64, WidthV: 64, Aligned: true},
		{Batch: 1, Heads: 2, Group: 2, Queries: 2, Keys: 1100, Width: 16, WidthV: 32, Aligned: true},
		{Batch: 1, Heads: 3, Group: 1, Queries: 1, Keys: 1025, Width: 20, WidthV: 12},
	} {
		for j, d := range []ir.DType{ir.F32, ir.F16} {
			place := []int64{0, n.Keys / 2, n.Keys - 1, n.Keys + 5}[(i+2*j)%4]
			t.Run(fmt.Sprintf("%d_%v_%d", i, d, place),
				func(t *testing.T) { s.checkAttention(t, kerneltest.RandomAppend(r, d, n, place)) })
		}
	}
}

func (s *suite) checkAttention(t *testing.T, c *kerneltest.AttentionCase) {
	l := c.Attention.Layout()
	var bufs []device.Buffer
	for i, b := range c.Bufs {
		if l.Bufs[i].Access == loopir.Write {
			clear(b)
		}
		bufs = append(bufs, s.put(t, l.Bufs[i].Type, b))
	}
	want := c.Copy()
	require.NoError(t, launch.InterpretAttention(c.Attention, want.Params, want.Bufs))
	s.run(t, []device.Step{launchStep(c.Attention, c.Params)}, bufs...)
	for _, i := range written(l.Bufs) {
		dt := l.Bufs[i].Type
		n := len(want.Bufs[i]) / dt.Size()
		got := s.get(t, bufs[i], dt, n)
		tol := 2e-5
		if dt == ir.F16 {
			tol = 4e-3
		}
		for e := range int64(n) {
			x := ir.DecodeFloat(dt.ComputeType(), loopir.LoadBits(dt, want.Bufs[i], e))
			y := ir.DecodeFloat(dt.ComputeType(), loopir.LoadBits(dt, got, e))
			if x != y { // both may be infinite
				require.InDelta(t, x, y, tol*(1+max(x, -x)), "%+v: result %d, element %d", *c.Attention, i, e)
			}
		}
	}
}

// written lists the buffers that a launch writes.
func written(bufs []loopir.Buf) (list []int) {
	for i := range bufs {
		if bufs[i].Access != loopir.Read {
			list = append(list, i)
		}
	}
	return list
}
