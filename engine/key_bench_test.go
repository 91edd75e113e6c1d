package engine

import (
	"testing"

	"github.com/torchlette/torchlette/engine/dispatch"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/reference"
)

// window records 1,400 nodes of one or two operands, views, numbers and stores, and gives what to collect.
func window(b *testing.B) (e *Engine, values []uint32, effects int) {
	dev := reference.New()
	e = New(Config{Open: func(ir.DeviceID) (device.Device, error) { return dev, nil }})
	var x Out
	if err := e.FromData(ir.F32, 0, []int64{4, 4}, make([]byte, 64), false, 0, &x); err != nil {
		b.Fatal(err)
	}
	var outs [8]Out
	run := func(c Call) uint64 {
		if _, err := e.Op(&c, outs[:]); err != nil {
			b.Fatal(err)
		}
		return outs[0].Handle
	}
	add, mul, tr, sum := op.DefNamed("add").ID, op.DefNamed("mul").ID, op.DefNamed("t").ID, op.DefNamed("sum.dim").ID
	h := x.Handle
	for i := range 200 {
		h = run(Call{Op: add, In: []uint64{h, x.Handle}, Scalars: []Scalar{{Kind: op.ScalarInt, Bits: 1}}})
		v := run(Call{Op: tr, In: []uint64{h}})
		m := run(Call{Op: mul, In: []uint64{v, dispatch.ScalarOperand},
			Scalars: []Scalar{{Kind: op.ScalarFloat, Bits: 0x4000000000000000}}})
		s := run(Call{Op: sum, In: []uint64{m}, Ints: []int64{1, 0, 1, 0, 0}})
		h = run(Call{Op: add, In: []uint64{m, s}, Scalars: []Scalar{{Kind: op.ScalarInt, Bits: 1}}})
		n := run(Call{Op: mul, In: []uint64{h, h}})
		h = run(Call{Op: add, Mode: 1, In: []uint64{n, x.Handle}, Scalars: []Scalar{{Kind: op.ScalarInt, Bits: 1}}})
		if i%2 == 0 {
			e.Release([]uint64{v, m, s})
		}
	}
	hd, err := e.session.Handle(h)
	if err != nil {
		b.Fatal(err)
	}
	values, effects = []uint32{e.session.Base(hd.Base).Value}, e.session.PendingEffects()
	if !e.planner.window.Collect(values, effects) {
		b.Fatal("nothing to run")
	}
	return e, values, effects
}

// BenchmarkWindowKey times what a window that has a plan costs before it runs: collecting it, its key, and finding
// the plan.
func BenchmarkWindowKey(b *testing.B) {
	e, values, effects := window(b)
	nodes := len(e.planner.window.Nodes)
	if _, err := e.build(); err != nil {
		b.Fatal(err)
	}
	e.planner.window.Clear()
	b.ReportAllocs()
	for b.Loop() {
		e.planner.window.Collect(values, effects)
		if e.planner.cache.Find(&e.planner.window.Program) == nil {
			b.Fatal("no plan")
		}
		e.planner.window.Clear()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(nodes), "ns/node")
}

// BenchmarkBuildPlan times what a window without a plan costs beside: making one.
func BenchmarkBuildPlan(b *testing.B) {
	e, _, _ := window(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.build(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(e.planner.window.Nodes)), "ns/node")
}
