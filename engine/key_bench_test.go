package engine

import (
	"math"
	"testing"

	"github.com/torchlette/torchlette/engine/dispatch"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/reference"
)

// caller records the operators of a window for a benchmark.
type caller struct {
	b    *testing.B
	e    *Engine
	x    uint64 // the input, float32 of 4x4
	outs [8]Out
}

func (r *caller) call(name string, c Call) uint64 {
	c.Op = op.DefNamed(name).ID
	if _, err := r.e.Op(&c, r.outs[:]); err != nil {
		r.b.Fatal(err)
	}
	return r.outs[0].Handle
}

var one = Scalar{Kind: op.ScalarInt, Bits: 1}

// number calls an operator on a tensor and a number.
func (r *caller) number(name string, x uint64, v float64, further ...Scalar) uint64 {
	return r.call(name, Call{In: []uint64{x, dispatch.ScalarOperand},
		Scalars: append([]Scalar{{Kind: op.ScalarFloat, Bits: math.Float64bits(v)}}, further...)})
}

// recorded lists windows, each with the tensor that ends it.
var recorded = []struct {
	name   string
	record func(r *caller) uint64
}{
	{"products, views, sums and stores", func(r *caller) uint64 {
		h := r.x
		for i := range 200 {
			h = r.call("add", Call{In: []uint64{h, r.x}, Scalars: []Scalar{one}})
			v := r.call("t", Call{In: []uint64{h}})
			m := r.number("mul", v, 2)
			s := r.call("sum.dim", Call{In: []uint64{m}, Ints: []int64{1, 0, 1, 0, 0}})
			h = r.call("add", Call{In: []uint64{m, s}, Scalars: []Scalar{one}})
			n := r.call("mul", Call{In: []uint64{h, h}})
			h = r.call("add", Call{Mode: 1, In: []uint64{n, r.x}, Scalars: []Scalar{one}})
			if i%2 == 0 {
				r.e.Release([]uint64{v, m, s})
			}
		}
		return h
	}},
	{"a chain of maps with numbers", func(r *caller) uint64 {
		h := r.number("add", r.x, 0.5, one)
		for range 750 {
			m := r.number("mul", h, 0.999)
			r.e.Release([]uint64{h})
			h = r.number("add", m, 0.5, one)
			r.e.Release([]uint64{m})
		}
		return h
	}},
}

// window records on a new engine and returns the arguments of Collect.
func window(b *testing.B, record func(r *caller) uint64) (e *Engine, values []uint32, effects int) {
	dev := reference.New()
	e = New(Config{Open: func(ir.DeviceID) (device.Device, error) { return dev, nil }})
	var x Out
	if err := e.FromData(ir.F32, 0, []int64{4, 4}, make([]byte, 64), false, 0, &x); err != nil {
		b.Fatal(err)
	}
	hd, err := e.session.Handle(record(&caller{b: b, e: e, x: x.Handle}))
	if err != nil {
		b.Fatal(err)
	}
	values, effects = []uint32{e.session.Base(hd.Base).Value}, e.session.PendingEffects()
	if _, ok := e.planner.collect(values, effects); !ok {
		b.Fatal("nothing to run")
	}
	return e, values, effects
}

func perNode(b *testing.B, nodes int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(nodes), "ns/node")
}

// BenchmarkWindowKey times the work before a window with a plan can run: collection, key, and lookup.
func BenchmarkWindowKey(b *testing.B) {
	for _, c := range recorded {
		b.Run(c.name, func(b *testing.B) {
			e, values, effects := window(b, c.record)
			w := e.planner.collected()
			nodes := len(w.Nodes)
			if _, err := e.build(); err != nil {
				b.Fatal(err)
			}
			w.Clear()
			b.ReportAllocs()
			for b.Loop() {
				e.planner.collect(values, effects)
				if e.planner.find() == nil {
					b.Fatal("no plan")
				}
				w.Clear()
			}
			perNode(b, nodes)
		})
	}
}

// BenchmarkBuildPlan times the compilation of a plan, the additional work for a window without one.
func BenchmarkBuildPlan(b *testing.B) {
	for _, c := range recorded {
		b.Run(c.name, func(b *testing.B) {
			e, _, _ := window(b, c.record)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.build(); err != nil {
					b.Fatal(err)
				}
			}
			perNode(b, len(e.planner.collected().Nodes))
		})
	}
}
