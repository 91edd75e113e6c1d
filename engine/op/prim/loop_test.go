package prim

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// body is a body of given operands and results.
type body struct {
	op.Body
	in, out []ir.AvalID
	draws   uint64
}

func (b *body) Operands() []ir.AvalID { return b.in }
func (b *body) Outcomes() []ir.AvalID { return b.out }
func (b *body) DrawsTaken() uint64    { return b.draws }
func (b *body) Digest() uint64        { return uint64(len(b.in)) }
func (b *body) Like(o op.Body) bool   { return o == op.Body(b) }

func floats32(shape ...int64) ir.AvalID { return ir.InternAval(ir.F32, 0, ir.DenseLayout(shape)).ID }

// The results of a loop follow from its body; what does not fit it is refused.
func TestLoopInfersItsResults(t *testing.T) {
	vec, one := floats32(3), floats32()
	flag := ir.InternAval(ir.Bool, 0, ir.DenseLayout(nil)).ID
	id := func(in, out []ir.AvalID, draws uint64) int64 {
		return op.InternBody(&body{in: in, out: out, draws: draws})
	}
	val := func(a ir.AvalID) op.Val {
		return op.Val{Kind: op.Tensor, Value: 1, Aval: a, Layout: ir.AvalOf(a).Layout.ID}
	}
	plain := id([]ir.AvalID{vec, one, one}, []ir.AvalID{vec, one}, 0)
	good := op.Loop{ID: plain, Carries: 1, Xs: 1, Length: 5, Keep: true}
	in := []op.Val{val(vec), val(floats32(5)), val(one)}
	outs, err := loopInfer(in, good.Attr(), nil)
	require.NoError(t, err)
	assert.Equal(t, [][]int64{{3}, {5}, {5, 3}}, [][]int64{outs[0].Shape, outs[1].Shape, outs[2].Shape})
	assert.Equal(t, &good, op.LoopOf(good.Attr()))
	bad := map[string]struct {
		l  op.Loop
		in []op.Val
	}{
		"no body":         {op.Loop{ID: -1, Length: 1}, nil},
		"no iteration":    {op.Loop{ID: plain}, in},
		"operands":        {good, in[:2]},
		"want float":      {good, []op.Val{in[0], in[0], in[2]}},
		"changes":         {op.Loop{ID: id([]ir.AvalID{vec}, []ir.AvalID{one}, 0), Carries: 1, Length: 1}, in[:1]},
		"no xs and no ys": {op.Loop{ID: plain, Carries: 1, Length: 1, While: true}, in},
		"no scalar": {op.Loop{ID: id([]ir.AvalID{ir.InternAval(ir.Bool, 0, ir.DenseLayout([]int64{2})).ID},
			[]ir.AvalID{ir.InternAval(ir.Bool, 0, ir.DenseLayout([]int64{2})).ID}, 0), Carries: 1, Length: 1, While: true},
			[]op.Val{val(flag)}},
	}
	for want, c := range bad {
		_, err := loopInfer(c.in, c.l.Attr(), nil)
		require.Error(t, err, want)
		assert.Contains(t, err.Error(), want)
	}
	number, draws := loopSeed((&op.Loop{ID: id([]ir.AvalID{vec}, []ir.AvalID{vec}, 2)}).Attr())
	assert.True(t, draws && number == 0)
}

// How many carries a loop without a known length would have to keep is unknown.
func TestALoopThatAConditionEndsHasNoGradientRule(t *testing.T) {
	flag := ir.InternAval(ir.Bool, 0, ir.DenseLayout(nil)).ID
	id := op.InternBody(&body{in: []ir.AvalID{flag}, out: []ir.AvalID{flag}})
	l := op.Loop{ID: id, Carries: 1, Length: 9, While: true}
	defer func() {
		e, ok := recover().(*ir.Error)
		require.True(t, ok)
		assert.Contains(t, e.Msg, "Reverse-mode differentiation does not work")
	}()
	op.PrimOf(pLoop).VJP(&op.VJPCall{Attr: l.Attr()})
}

// The gradient of a loop takes the operands that its body reads, and seed and offset behind them.
func TestTheGradientOfALoopTakesTheOperandsThatItsBodyReads(t *testing.T) {
	vals := []op.Val{op.IntVal(1), op.IntVal(2), op.IntVal(3), op.IntVal(4)}
	for _, c := range []struct {
		read []bool
		want []op.Val
	}{
		{nil, vals},
		{[]bool{true, true, true, true}, vals},
		{[]bool{false, true}, vals[1:]},
		{[]bool{true, false, true, false}, []op.Val{vals[0], vals[2]}},
		{[]bool{false, false, false, false}, nil},
	} {
		assert.Equal(t, c.want, onlyRead(vals, c.read))
	}
}
