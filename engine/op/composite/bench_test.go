package composite

import (
	"testing"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/optest"
	"github.com/torchlette/torchlette/ir"
)

// nothing is a builder that records nothing, so that a benchmark measures the operator alone.
type nothing struct {
	op.Builder
	out op.Val
}

func (n *nothing) Emit1(op.PrimID, op.Val) op.Val            { return n.out }
func (n *nothing) Emit2(op.PrimID, op.Val, op.Val) op.Val    { return n.out }
func (n *nothing) Emit(op.PrimID, []int64, ...op.Val) op.Val { return n.out }

func BenchmarkEvalAdd(b *testing.B) {
	x := optest.New().Tensor(ir.F32, []int64{4}, 1, 2, 3, 4)
	n := &nothing{Builder: optest.New(), out: x}
	d := op.DefNamed("add")
	for _, c := range []struct {
		name string
		y    op.Val
	}{{"tensor", x}, {"number", op.FloatVal(2)}} {
		b.Run(c.name, func(b *testing.B) {
			a := &op.Args{B: n, Op: d, In: []op.Val{x, c.y}, Scalars: []op.Val{op.IntVal(1)}}
			b.ReportAllocs()
			for b.Loop() {
				a.Reset()
				d.Eval(a)
			}
		})
	}
}
