package lower_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/optest"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// The primitive of docs/howto/add-a-primitive.md: an entry and a lowering.

var pCube = op.RegisterPrim(op.Prim{
	Name: "cube", Doc: "x*x*x", Form: "x -> y", NIn: 1, Elementwise: true,
	SaveIn: 1 << 0, // the rule reads x
	Infer: func(in []op.Val, _ []int64, out []op.OutSpec) ([]op.OutSpec, error) {
		if !in[0].DType().IsFloat() {
			return nil, ir.Errorf(ir.ErrRuntime, "cube: expected a float dtype, got %s", in[0].DType())
		}
		return append(out, op.OutSpec{DType: in[0].DType(), Shape: in[0].Shape()}), nil
	},
	VJP: func(c *op.VJPCall) []op.Val {
		x := c.In[0]
		return []op.Val{prim.Mul(c.B, c.Cot[0], prim.Mul(c.B, prim.Mul(c.B, x, x), op.FloatVal(3)))}
	},
})

// Cube is x*x*x.
func Cube(b op.Builder, x op.Val) op.Val { return b.Emit1(pCube, x) }

func init() {
	lower.Register(map[string]lower.Lowering{
		"cube": lower.Mapping("cube", func(k *lower.Kernel, _ ir.DType, x []int) int {
			return k.Mul(k.Mul(x[0], x[0]), x[0])
		}),
	})
}

func TestThePrimitiveOfThePageWorks(t *testing.T) {
	e := optest.New()
	y := Cube(e, e.Tensor(ir.F32, []int64{3}, -1, 2, 0.5))
	assert.Equal(t, []float64{-1, 8, 0.125}, e.Floats(y))
	optest.CheckGrad(t, prim.ViewVJP, func(b op.Builder, x []op.Val) op.Val { return Cube(b, x[0]) }, true,
		optest.Input{Shape: []int64{3}, V: []float64{-1, 2, 0.5}})
	assert.PanicsWithError(t, "cube: expected a float dtype, got int32", func() {
		Cube(e, e.Tensor(ir.I32, []int64{1}, 2))
	})
}
