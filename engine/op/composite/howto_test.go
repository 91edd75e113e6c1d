package composite

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/optest"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// The operator of docs/howto/add-an-operator.md: one entry, which the tests of all operators find in the registry.

func init() { registerHowtoOps() }

func registerHowtoOps() {
	op.Register(op.Def{
		Sig: "root_mean_square(Tensor self, int dim=-1, bool keepdim=False) -> Tensor",
		Doc: "sqrt(mean(x**2)) along a dim.", Where: op.Function | op.Method, Out: true,
		Samples:      samples("T(3,4)", "T(2,3,4), 1", "T(3,4), 0, True"),
		ErrorSamples: samples("T(3,4), 2", "I(3;0,5)"),
		Eval:         evalRootMeanSquare,
	})
}

func evalRootMeanSquare(a *op.Args) []op.Val {
	x, dim, keepdim := a.Val(), a.Int(), a.Bool()
	needFloat("root_mean_square", x)
	d := ir.WrapDim(dim, len(x.Shape()))
	squares := reduceDims(a.B, prim.SumSquares, x, dimMask([]int64{int64(d)}, len(x.Shape())), keepdim)
	mean := prim.Div(a.B, squares, op.FloatVal(float64(x.Shape()[d])))
	return a.Ret(prim.Sqrt(a.B, mean))
}

// A new operator takes no more than an entry: its values, its gradient and its errors follow from primitives.
func TestTheOperatorOfThePageWorks(t *testing.T) {
	d := op.DefNamed("root_mean_square")
	require.NotNil(t, d)
	e := optest.New()
	x := e.Tensor(ir.F32, []int64{2, 3}, 1, 2, 2, 3, 4, 12)
	y := d.Eval(&op.Args{B: e, Op: d, In: []op.Val{x}, Ints: []int64{-1, 0}})
	assert.Equal(t, []int64{2}, y[0].Shape())
	assert.InDeltaSlice(t, []float64{math.Sqrt(3), 13 / math.Sqrt(3)}, e.Floats(y[0]), 1e-5)
	optest.CheckGrad(t, prim.ViewVJP, func(b op.Builder, x []op.Val) op.Val {
		return d.Eval(&op.Args{B: b, Op: d, In: x, Ints: []int64{0, 1}})[0]
	}, true, optest.Input{Shape: []int64{2, 3}, V: []float64{1, -2, 2, 3, 4, -5}})
	for _, s := range d.ErrorSamples {
		_, _, _, err := call(d, s)
		assert.Error(t, err, "%v", s)
	}
}
