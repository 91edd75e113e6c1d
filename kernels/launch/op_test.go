package launch_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// kinds has a launch of each kind, with parameters.
func kinds() map[string]struct {
	op     launch.Op
	params []uint64
} {
	b := loopir.NewBuilder("square", 1, 0)
	x := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1))
	out := b.Linear(b.Buf(ir.F32, loopir.Write), -1)
	b.Map()
	b.Store(out, b.Mul(x, x))
	attention := append([]uint64{2, 4, 2, 5, 6, 3, 8}, make([]uint64, 16)...) // all elements of an operand are its first
	return map[string]struct {
		op     launch.Op
		params []uint64
	}{
		"square":            {b.Kernel(), []uint64{10}},
		"gemm_float32":      {&launch.Gemm{Type: ir.F32, AUnit: 'k', BUnit: 'n'}, []uint64{2, 3, 4, 4, 1, 0, 3, 1, 0}},
		"attention_float32": {&launch.Attention{Type: ir.F32}, attention},
		"cholesky_float64":  {&launch.Factor{Op: launch.FactorCholesky, Type: ir.F64}, []uint64{2, 3, 3, 0, 0}},
		"block_lu":          {&launch.FactorBlock{Op: launch.BlockLU}, []uint64{2, 3, 3, 0, 9, 3, 1, 0, 3}},
		"sort_int32":        {&launch.Sort{Type: ir.I32}, []uint64{2, 8, 1, 4, 8, 1, 1, 0}},
		"copy_bytes":        {launch.Copy{}, []uint64{0, 4, 8}},
		"fill_zero":         {launch.Fill{}, []uint64{4, 8}},
	}
}

// TestKindsDeclareWhatTheyTake: a reference runs over what is declared, and refuses another number of parameters or
// buffers, or buffers that are too small.
func TestKindsDeclareWhatTheyTake(t *testing.T) {
	keys := map[string]bool{}
	for label, c := range kinds() {
		require.Equal(t, label, c.op.Label())
		require.False(t, keys[c.op.Key()], label)
		keys[c.op.Key()] = true
		require.Len(t, c.params, len(c.op.Parameters()), label)
		bufs := make([][]byte, len(c.op.Buffers()))
		written := 0
		for i, b := range c.op.Buffers() {
			bufs[i] = make([]byte, 4096)
			if b.Access != loopir.Read {
				written++
			}
		}
		require.Positive(t, written, label)
		_, err := c.op.Interpret(c.params, bufs)
		require.NoError(t, err, label)
		require.Error(t, launch.CheckArguments(c.op, c.params, bufs[1:]), label)
		_, err = c.op.Interpret(c.params[1:], bufs)
		require.Error(t, err, label)
		_, err = c.op.Interpret(c.params, make([][]byte, len(bufs)))
		require.Error(t, err, label)
	}
}

// TestKeysTellLaunchesApart: whatever changes the code is in the key.
func TestKeysTellLaunchesApart(t *testing.T) {
	for _, pair := range [][2]launch.Op{
		{&launch.Gemm{Type: ir.F32}, &launch.Gemm{Type: ir.F32, Bias: true}},
		{&launch.Gemm{Type: ir.F32}, &launch.Gemm{Type: ir.F16}},
		{&launch.Attention{Type: ir.F32}, &launch.Attention{Type: ir.F32, Causal: true}},
		{&launch.Attention{Type: ir.F32}, &launch.Attention{Type: ir.F32, Pass: launch.AttentionGradQ}},
		{&launch.Sort{Type: ir.F32}, &launch.Sort{Type: ir.F32, Descending: true}},
		{&launch.Factor{Type: ir.F32}, &launch.Factor{Type: ir.F32, Op: launch.FactorQR}},
		{&launch.FactorBlock{Op: launch.BlockTriangular}, &launch.FactorBlock{Op: launch.BlockTriangular, Upper: true}},
		{launch.Copy{}, launch.Fill{}},
	} {
		require.NotEqual(t, pair[0].Key(), pair[1].Key())
	}
	require.Equal(t, (&launch.Gemm{Type: ir.F32}).Key(), (&launch.Gemm{Type: ir.F32}).Key())
}

// TestCostsOfLaunches counts by hand.
func TestCostsOfLaunches(t *testing.T) {
	width := &loopir.Widths{ir.F32: 4, ir.F64: 8, ir.I32: 4, ir.I64: 8}
	const pairs, in, results = 2 * 4 * 5 * 6, 2*4*5*3 + 2*2*6*(3+8), 2 * 4 * 5 * 8
	for label, want := range map[string]loopir.Cost{
		"square":            {Flops: 10, Bytes: 80},
		"gemm_float32":      {Flops: 2 * 2 * 3 * 4, Bytes: 4 * (2*4 + 4*3 + 2*3)},
		"attention_float32": {Flops: 2 * pairs * (3 + 8), Bytes: 4 * (in + results)},
		"cholesky_float64":  {Flops: 2 * 2 * 27 / 3, Bytes: 2 * 2 * 9 * 8},
		"block_lu":          {Flops: 2 * 27, Bytes: 2 * 2 * 9 * 4},
		"sort_int32":        {Bytes: 2 * (8*4 + 4*(4+8))},
		"copy_bytes":        {Bytes: 16},
		"fill_zero":         {Bytes: 8},
	} {
		c := kinds()[label]
		require.Equal(t, want, c.op.Cost(c.params, width), label)
	}
	sums := &launch.Gemm{Type: ir.F32, Sums: 'b'}
	require.Equal(t, loopir.Cost{Flops: 2*24 + 12, Bytes: 4 * (26 + 3)}, sums.Cost(kinds()["gemm_float32"].params, width))
}

// TestAJointPassOfAttentionSharesTheForwardProducts: it costs what both passes cost, less what they have in common.
func TestAJointPassOfAttentionSharesTheForwardProducts(t *testing.T) {
	width := &loopir.Widths{ir.F32: 4}
	for _, causal := range []bool{false, true} {
		cost := func(p launch.AttentionPass) loopir.Cost {
			a := launch.Attention{Type: ir.F32, Pass: p, Causal: causal}
			return a.Cost([]uint64{2, 4, 2, 5, 6, 3, 8}, width)
		}
		q, kv := cost(launch.AttentionGradQ), cost(launch.AttentionGradKV)
		forward, joint := cost(launch.AttentionForward), cost(launch.AttentionGradQKV)
		require.Equal(t, q.Flops+kv.Flops-forward.Flops, joint.Flops)
		require.Equal(t, q.Bytes+kv.Bytes-forward.Bytes, joint.Bytes)
	}
}
