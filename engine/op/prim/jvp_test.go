package prim_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/optest"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// Primitives of models and of their gradients have rules that record few nodes; others are derived. optest.CheckGrad
// checks the values.
func TestCommonPrimitivesHaveTheirOwnRulesOfTangents(t *testing.T) {
	for name, kind := range map[string]op.JVPKind{
		"mul": op.JVPMap, "tanh": op.JVPMap, "where": op.JVPMap, "gelu_grad": op.JVPMap, "special": op.JVPMap,
		"cast": op.JVPLinear, "sum": op.JVPLinear, "strided_scatter": op.JVPLinear, "cat": op.JVPLinear,
		"conv": op.JVPProduct, "matmul": op.JVPRule, "softmax_grad": op.JVPRule, "layer_norm": op.JVPRule,
		"attention": op.JVPDerived, "cholesky": op.JVPDerived, "batch_norm": op.JVPDerived,
	} {
		assert.Equal(t, kind, op.PrimNamed(name).JVPKind, name)
	}
	for _, p := range op.Prims() {
		if p.VJP == nil {
			assert.Nil(t, p.JVP, p.Name)
		}
	}
}

// A rule may leave some attributes to the derived one.
func TestARunningProductHasDerivedTangents(t *testing.T) {
	e := optest.New()
	x := e.Tensor(ir.F64, []int64{3}, 1, 2, 3)
	push := func(operation int64) []op.Val {
		y := prim.Scan(e, x, 0, operation)
		return op.PrimNamed("scan").JVP(&op.JVPCall{B: e, Attr: []int64{0, operation}, In: []op.Val{x}, Out: []op.Val{y},
			Tan: []op.Val{x}})
	}
	assert.Nil(t, push(prim.ScanProd))
	assert.Equal(t, []float64{1, 3, 6}, e.Floats(push(prim.ScanSum)[0]))
}
