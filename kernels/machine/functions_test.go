package machine

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// TestFunctionsAreInstructionsOfTheLoop: a loop over exp, log, tanh or erf of float32 calls no C, so carries stay in
// registers. Other functions and types have no formula.
func TestFunctionsAreInstructionsOfTheLoop(t *testing.T) {
	for op, has := range map[loopir.Op]bool{loopir.OpExp: true, loopir.OpLog: true, loopir.OpTanh: true,
		loopir.OpErf: true, loopir.OpSin: false} {
		for _, typ := range []ir.DType{ir.F32, ir.F64} {
			p := NewLoop(AVX512, 16)
			x := p.Carry(Place{}, typ)
			before := len(p.code)
			y, ok := p.Function(op, x)
			assert.Equal(t, has && typ == ir.F32, ok, "%v of %v", op, typ)
			if !ok {
				assert.Len(t, p.code, before)
				continue
			}
			p.End([]Value{x}, []Value{y}, Value{})
			assert.Zero(t, count(p, kCall))
			assert.Greater(t, count(p, kFma), 5, "%v", op)
			a := newAllocator(p.code, AVX512.registers())
			assert.GreaterOrEqual(t, a.reg[x.lo], 0, "the carry has a register")
		}
	}
}
