package cpu_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/kerneltest"
	"github.com/torchlette/torchlette/kernels/launch"
)

// runAttention runs one pass in place on the case's buffers.
func runAttention(t testing.TB, d *cpu.Device, c *kerneltest.AttentionCase) {
	t.Helper()
	step := device.Step{Op: c.Attention}
	bind := device.Binding{}
	for i, b := range c.Bufs {
		x, err := d.Alloc(int64(len(b)))
		require.NoError(t, err)
		defer d.Free(x)
		require.NoError(t, d.Upload(x, ir.Bool, 0, b))
		step.Bufs, bind.Bufs = append(step.Bufs, i), append(bind.Bufs, x)
	}
	for _, v := range c.Params {
		step.Params = append(step.Params, device.Const(int64(v)))
	}
	p, err := d.Build([]device.Step{step}, len(c.Bufs))
	require.NoError(t, err)
	defer p.Release()
	_, err = d.Run(p, &bind)
	require.NoError(t, err)
	for i, b := range c.Bufs {
		require.NoError(t, d.Read(bind.Bufs[i], ir.Bool, 0, b))
	}
}

var passes = []launch.AttentionPass{launch.AttentionForward, launch.AttentionGradQ, launch.AttentionGradKV,
	launch.AttentionGradMask}

func TestAttention(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 1))
	var cases, want []*kerneltest.AttentionCase
	for _, n := range []kerneltest.AttentionSize{
		{Batch: 1, Heads: 1, Group: 1, Queries: 1, Keys: 1, Width: 1, WidthV: 1},
		{Batch: 2, Heads: 2, Group: 1, Queries: 5, Keys: 7, Width: 3, WidthV: 4},
		{Batch: 2, Heads: 4, Group: 2, Queries: 1, Keys: 150, Width: 64, WidthV: 40, Aligned: true},
		{Batch: 1, Heads: 1, Group: 1, Queries: 3, Keys: 131, Width: 21, WidthV: 35},
		{Batch: 1, Heads: 4, Group: 2, Queries: 70, Keys: 33, Width: 17, WidthV: 40},
		{Batch: 1, Heads: 2, Group: 2, Queries: 40, Keys: 150, Width: 64, WidthV: 64, Aligned: true},
		{Batch: 1, Heads: 1, Group: 1, Queries: 140, Keys: 140, Width: 20, WidthV: 8},
	} {
		for range 4 {
			for _, pass := range passes {
				for _, dt := range []ir.DType{ir.F32, ir.F16} {
					c := kerneltest.RandomAttention(r, dt, pass, n)
					w := c.Copy()
					require.NoError(t, launch.InterpretAttention(w.Attention, w.Params, w.Bufs))
					cases, want = append(cases, c), append(want, w)
				}
			}
		}
	}
	each(t, func(t *testing.T, d *cpu.Device) {
		for i, c := range cases {
			got := c.Copy()
			runAttention(t, d, got)
			l := c.Attention.Layout()
			for b := range got.Bufs {
				dt := l.Bufs[b].Type
				same(t, dt, want[i].Bufs[b], got.Bufs[b], map[ir.DType]float64{ir.F32: 3e-5, ir.F16: 3e-3}[dt],
					fmt.Sprintf("%+v %v buffer %d", *c.Attention, c.Params, b))
			}
		}
	})
}

// TestAttentionGradients runs both gradients in one program, where short heads share a pass.
func TestAttentionGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 3))
	each(t, func(t *testing.T, d *cpu.Device) {
		for _, n := range []kerneltest.AttentionSize{
			{Batch: 2, Heads: 4, Group: 2, Queries: 150, Keys: 70, Width: 17, WidthV: 40},
			{Batch: 1, Heads: 2, Group: 1, Queries: 64, Keys: 64, Width: 32, WidthV: 32, Aligned: true},
			{Batch: 1, Heads: 1, Group: 1, Queries: 3, Keys: 260, Width: 4, WidthV: 4},
		} {
			if testing.Short() {
				n.Batch, n.Heads = 1, n.Group
			}
			for _, dt := range []ir.DType{ir.F32, ir.F16} {
				kv := kerneltest.RandomAttention(r, dt, launch.AttentionGradKV, n)
				pass := *kv.Attention
				pass.Pass = launch.AttentionGradQ
				at := pass.Layout().Out[0]
				dq := make([]byte, n.Batch*n.Heads*n.Queries*n.Width*int64(dt.Size()))
				q := &kerneltest.AttentionCase{Attention: &pass, Params: kv.Params, Bufs: append(slices.Clone(kv.Bufs[:at]), dq)}
				wantQ, wantKV := q.Copy(), kv.Copy()
				require.NoError(t, launch.InterpretAttention(wantQ.Attention, wantQ.Params, wantQ.Bufs))
				require.NoError(t, launch.InterpretAttention(wantKV.Attention, wantKV.Params, wantKV.Bufs))
				got := append(slices.Clone(kv.Bufs), dq)
				times := runGradients(t, d, q, kv, got)
				if n.Keys <= 256 { // one pass, which the profile tells
					require.Len(t, times, 1)
					joint := *kv.Attention
					joint.Pass = launch.AttentionGradQKV
					require.Equal(t, device.StepTime{Step: 1, Op: &joint, Start: times[0].Start, Duration: times[0].Duration},
						times[0])
					requireJoint(t, &joint, kv.Params, got[:at], append(slices.Clone(wantKV.Bufs[at:]), wantQ.Bufs[at]))
				} else {
					require.Len(t, times, 2)
				}
				tolerance := map[ir.DType]float64{ir.F32: 3e-5, ir.F16: 3e-3}[dt]
				for i, want := range [][]byte{wantKV.Bufs[at], wantKV.Bufs[at+1], wantQ.Bufs[at]} {
					same(t, dt, want, got[at+i], tolerance, fmt.Sprintf("%+v %v result %d", pass, kv.Params, i))
				}
			}
		}
	})
}

// requireJoint compares the reference of a joint pass with the results of the two passes that it replaces.
func requireJoint(t testing.TB, a *launch.Attention, params []uint64, operands, want [][]byte) {
	t.Helper()
	bufs := slices.Clone(operands)
	for _, w := range want {
		bufs = append(bufs, make([]byte, len(w)))
	}
	require.NoError(t, launch.InterpretAttention(a, params, bufs))
	require.Equal(t, want, bufs[len(operands):])
}

// runGradients runs the pass of q and the pass of k and v, in place on bufs: the operands, dk, dv, dq. It returns the
// steps' times.
func runGradients(t testing.TB, d *cpu.Device, q, kv *kerneltest.AttentionCase, bufs [][]byte) []device.StepTime {
	t.Helper()
	steps := []device.Step{{Op: q.Attention}, {Op: kv.Attention}}
	bind := device.Binding{}
	for i, b := range bufs {
		x, err := d.Alloc(int64(len(b)))
		require.NoError(t, err)
		defer d.Free(x)
		require.NoError(t, d.Upload(x, ir.Bool, 0, b))
		bind.Bufs = append(bind.Bufs, x)
		if i < len(kv.Bufs) {
			steps[1].Bufs = append(steps[1].Bufs, i)
		}
	}
	steps[0].Bufs = append(slices.Clone(steps[1].Bufs[:len(q.Bufs)-1]), len(bufs)-1)
	for i := range steps {
		for _, v := range kv.Params {
			steps[i].Params = append(steps[i].Params, device.Const(int64(v)))
		}
	}
	p, err := d.Build(steps, len(bufs))
	require.NoError(t, err)
	defer p.Release()
	require.NoError(t, d.Profile(true))
	_, err = d.Run(p, &bind)
	require.NoError(t, err)
	require.NoError(t, d.Profile(false))
	for i := range bufs {
		require.NoError(t, d.Read(bind.Bufs[i], ir.Bool, 0, bufs[i]))
	}
	return d.Profiles()
}

// TestAttentionSpecialValues: a row without keys is 0 with lse +inf; NaN and inf reach their own rows only; weights
// that underflow make no NaN.
func TestAttentionSpecialValues(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	q := []float64{1, nan, 1, inf, 200}
	k := []float64{1, -1, 2}
	masks := []float64{0, 0, -inf, 0, 0, -inf, -inf, -inf, -inf, 0, 0, 0, 0, 0, -inf} // [query, key]
	floats := func(v []float64) []byte {
		var b []byte
		for _, x := range v {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(x)))
		}
		return b
	}
	c := &kerneltest.AttentionCase{Attention: &launch.Attention{Type: ir.F32, Mask: ir.F32}, Params: []uint64{1, 1, 1, 5,
		3, 1, 1, ir.EncodeFloat(ir.F32, 1)}}
	for _, strides := range [][]uint64{{0, 0, 1, 1, 0}, {0, 0, 1, 1, 0}, {0, 0, 1, 1, 0}, {0, 0, 3, 1, 0}} {
		c.Params = append(c.Params, strides...)
	}
	c.Bufs = [][]byte{floats(q), floats(k), floats([]float64{3, 5, 7}), floats(masks), make([]byte, 20), make([]byte, 20)}
	e := math.Exp(-2.0)
	wantOut := []float64{(3 + 5*e) / (1 + e), nan, 0, nan, 3}
	wantLSE := []float64{1 + math.Log1p(e), nan, inf, nan, 200}
	each(t, func(t *testing.T, d *cpu.Device) {
		got := c.Copy()
		runAttention(t, d, got)
		same(t, ir.F32, floats(wantOut), got.Bufs[4], 1e-6, "out")
		same(t, ir.F32, floats(wantLSE), got.Bufs[5], 1e-6, "lse")
	})
}

// TestAttentionDoesNotDependOnThreads compares bits.
func TestAttentionDoesNotDependOnThreads(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 2))
	for _, pass := range passes {
		c := kerneltest.RandomAttention(r, ir.F32, pass, kerneltest.AttentionSize{Batch: 1, Heads: 2, Group: 1, Queries: 200,
			Keys: 180, Width: 16, WidthV: 16})
		one, many := c.Copy(), c.Copy()
		runAttention(t, newDevice(t, cpu.Options{Threads: 1}), one)
		runAttention(t, newDevice(t, cpu.Options{Threads: 4}), many)
		require.Equal(t, one.Bufs, many.Bufs)
	}
}
