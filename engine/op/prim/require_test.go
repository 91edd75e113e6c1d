package prim_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// TestRequirementsHaveTexts checks the operands of require, and that each requirement has a text of its own.
func TestRequirementsHaveTexts(t *testing.T) {
	p := op.FindPrim("require")
	require.True(t, p.MayFail(), "no fusion group takes it: the error names its node")
	seen := map[string]bool{}
	for r := int64(prim.RequireProbability); r <= int64(prim.RequireRows); r++ {
		e := p.DataError([]int64{r}, 0)
		assert.Equal(t, ir.ErrRuntime, e.Code)
		seen[e.Msg] = true
		out, err := p.Infer(operands([]op.OutSpec{spec(ir.Bool, 2), spec(ir.F32, 2)}), []int64{r}, nil)
		require.NoError(t, err)
		assert.Equal(t, []op.OutSpec{spec(ir.F32, 2)}, out)
	}
	assert.Len(t, seen, int(prim.RequireRows)+1)
	for _, in := range [][]op.OutSpec{{spec(ir.F32, 2), spec(ir.F32, 2)}, {spec(ir.Bool, 3), spec(ir.F32, 2)}} {
		_, err := p.Infer(operands(in), []int64{0}, nil)
		assert.ErrorContains(t, err, "require: expected a bool tensor of shape [2]")
	}
	_, err := p.Infer(operands([]op.OutSpec{spec(ir.Bool, 2), spec(ir.F32, 2)}), []int64{99}, nil)
	assert.ErrorContains(t, err, "unknown requirement 99")
}
