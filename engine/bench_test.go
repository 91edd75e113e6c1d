package engine

import (
	"testing"

	"github.com/torchlette/torchlette/engine/device"
	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/kernels/interp"
)

// BenchmarkRecordAdd times recording a+b, with the result dropped at the next call.
func BenchmarkRecordAdd(b *testing.B) {
	dev := interp.New()
	e := New(Config{Open: func(ir.DeviceID) (device.Device, error) { return dev, nil }})
	var x Out
	if err := e.FromData(ir.F32, 0, []int64{4}, make([]byte, 16), false, 0, &x); err != nil {
		b.Fatal(err)
	}
	c := Call{Op: op.DefNamed("add").ID, In: []uint64{x.Handle, x.Handle}, Scalars: []Scalar{{op.ScalarInt, 1}}}
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
