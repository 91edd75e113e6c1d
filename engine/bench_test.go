package engine

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/reference"
)

// addition makes an engine and the call a+a on four floats.
func addition(b *testing.B) (*Engine, Call) {
	dev := reference.New()
	e := New(Config{Open: func(ir.DeviceID) (device.Device, error) { return dev, nil }})
	var x Out
	if err := e.FromData(ir.F32, 0, []int64{4}, make([]byte, 16), false, 0, &x); err != nil {
		b.Fatal(err)
	}
	return e, Call{Op: op.DefNamed("add").ID, In: []uint64{x.Handle, x.Handle},
		Scalars: []Scalar{{Kind: op.ScalarInt, Bits: 1}}}
}

// BenchmarkRecordDeferred times recording a+a as a deferred call, in batches of 128.
func BenchmarkRecordDeferred(b *testing.B) {
	e, c := addition(b)
	var outs [1]Out
	for outs[0].DeferID == 0 {
		if _, err := e.Op(&c, outs[:]); err != nil {
			b.Fatal(err)
		}
		e.Release([]uint64{outs[0].Handle})
	}
	in := [MaxDeferredTensors]uint64{c.In[0], c.In[1]}
	calls, drop := make([]DeferredCall, 128), make([]uint64, 128)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if n%len(calls) != 0 {
			continue
		}
		e.Reserve(drop)
		for i := range calls {
			calls[i] = DeferredCall{DeferID: outs[0].DeferID, Handle: drop[i], In: in}
		}
		e.Record(calls, drop)
	}
}

// BenchmarkRecordAdd times recording a+b, with the result dropped at the next call.
func BenchmarkRecordAdd(b *testing.B) {
	e, c := addition(b)
	var outs [1]Out
	drop := make([]uint64, 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Op(&c, outs[:]); err != nil {
			b.Fatal(err)
		}
		drop[0] = outs[0].Handle
		c.Drop = drop
	}
}

// BenchmarkBackward times a chain of 100 maps of four floats on the CPU, its gradient, and reading that.
func BenchmarkBackward(b *testing.B) {
	d, failed := cpu.New(cpu.Options{Threads: 1})
	require.NoError(b, failed)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	e := New(Config{Open: func(ir.DeviceID) (device.Device, error) { return d, nil }})
	var x, w Out
	require.Nil(b, e.FromData(ir.F32, 0, []int64{4}, make([]byte, 16), false, 0, &x))
	require.Nil(b, e.FromData(ir.F32, 0, []int64{4}, make([]byte, 16), false, 0, &w))
	require.Nil(b, e.SetRequiresGrad(w.Handle, true))
	r := &caller{b: b, e: e}
	buf := make([]byte, 16)
	b.ReportAllocs()
	for b.Loop() {
		y, made := x.Handle, make([]uint64, 0, 101)
		next := func(h uint64) { y, made = h, append(made, h) }
		for range 25 {
			next(r.call("mul", Call{In: []uint64{y, w.Handle}}))
			next(r.call("add", Call{In: []uint64{y, x.Handle}, Scalars: []Scalar{one}}))
			next(r.call("tanh", Call{In: []uint64{y}}))
			next(r.number("sub", y, 0.1, one))
		}
		next(r.call("sum", Call{In: []uint64{y}, Ints: []int64{0}}))
		id, err := e.Backward([]uint64{y}, nil, nil, AccumulateGrad)
		require.Nil(b, err)
		var ev BackwardEvent
		require.Nil(b, e.BackwardNext(id, 0, &ev))
		var g Out
		_, err = e.Grad(w.Handle, &g)
		require.Nil(b, err)
		for pending := true; pending; {
			pending, err = e.Force(g.Handle, 1e9)
			require.Nil(b, err)
		}
		require.Nil(b, e.Read(g.Handle, buf))
		require.Nil(b, e.SetGrad(w.Handle, 0))
		e.Release(append(made, g.Handle))
	}
}
