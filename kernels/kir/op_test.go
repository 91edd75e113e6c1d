package kir_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/kernels/kir"
)

// kinds has a launch of each kind, with parameters.
func kinds() map[string]struct {
	op     kir.LaunchOp
	params []uint64
} {
	b := kir.NewBuilder("square", 1, 0)
	x := b.Load(b.Linear(b.Buf(ir.F32, kir.Read), -1))
	out := b.Linear(b.Buf(ir.F32, kir.Write), -1)
	b.Map()
	b.Store(out, b.Mul(x, x))
	attention := append([]uint64{2, 4, 2, 5, 6, 3, 8}, make([]uint64, 16)...) // all elements of an operand are its first
	return map[string]struct {
		op     kir.LaunchOp
		params []uint64
	}{
		"square":            {b.Kernel(), []uint64{10}},
		"gemm_float32":      {&kir.Gemm{Type: ir.F32, AUnit: 'k', BUnit: 'n'}, []uint64{2, 3, 4, 4, 1, 0, 3, 1, 0}},
		"attention_float32": {&kir.Attention{Type: ir.F32}, attention},
		"cholesky_float64":  {&kir.Factor{Op: kir.FactorCholesky, Type: ir.F64}, []uint64{2, 3, 3, 0, 0}},
		"sort_int32":        {&kir.Sort{Type: ir.I32}, []uint64{2, 8, 1, 4, 8, 1, 1, 0}},
		"copy_bytes":        {kir.Copy{}, []uint64{0, 4, 8}},
		"fill_zero":         {kir.Fill{}, []uint64{4, 8}},
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
			if b.Access != kir.Read {
				written++
			}
		}
		require.Positive(t, written, label)
		_, err := c.op.Interpret(c.params, bufs)
		require.NoError(t, err, label)
		require.Error(t, kir.CheckArguments(c.op, c.params, bufs[1:]), label)
		_, err = c.op.Interpret(c.params[1:], bufs)
		require.Error(t, err, label)
		if _, ok := c.op.(*kir.Factor); ok {
			continue // its reference indexes directly
		}
		_, err = c.op.Interpret(c.params, make([][]byte, len(bufs)))
		require.Error(t, err, label)
	}
}

// TestKeysTellLaunchesApart: whatever changes the code is in the key.
func TestKeysTellLaunchesApart(t *testing.T) {
	for _, pair := range [][2]kir.LaunchOp{
		{&kir.Gemm{Type: ir.F32}, &kir.Gemm{Type: ir.F32, Bias: true}},
		{&kir.Gemm{Type: ir.F32}, &kir.Gemm{Type: ir.F16}},
		{&kir.Attention{Type: ir.F32}, &kir.Attention{Type: ir.F32, Causal: true}},
		{&kir.Attention{Type: ir.F32}, &kir.Attention{Type: ir.F32, Pass: kir.AttentionGradQ}},
		{&kir.Sort{Type: ir.F32}, &kir.Sort{Type: ir.F32, Descending: true}},
		{&kir.Factor{Type: ir.F32}, &kir.Factor{Type: ir.F32, Op: kir.FactorQR}},
		{kir.Copy{}, kir.Fill{}},
	} {
		require.NotEqual(t, pair[0].Key(), pair[1].Key())
	}
	require.Equal(t, (&kir.Gemm{Type: ir.F32}).Key(), (&kir.Gemm{Type: ir.F32}).Key())
}

// TestCostsOfLaunches counts by hand.
func TestCostsOfLaunches(t *testing.T) {
	width := &kir.Widths{ir.F32: 4, ir.F64: 8, ir.I32: 4, ir.I64: 8}
	const pairs, in, results = 2 * 4 * 5 * 6, 2*4*5*3 + 2*2*6*(3+8), 2 * 4 * 5 * 8
	for label, want := range map[string]kir.Cost{
		"square":            {Flops: 10, Bytes: 80},
		"gemm_float32":      {Flops: 2 * 2 * 3 * 4, Bytes: 4 * (2*4 + 4*3 + 2*3)},
		"attention_float32": {Flops: 2 * pairs * (3 + 8), Bytes: 4 * (in + results)},
		"cholesky_float64":  {Flops: 2 * 2 * 27 / 3, Bytes: 2 * 2 * 9 * 8},
		"sort_int32":        {Bytes: 2 * (8*4 + 4*(4+8))},
		"copy_bytes":        {Bytes: 16},
		"fill_zero":         {Bytes: 8},
	} {
		c := kinds()[label]
		require.Equal(t, want, c.op.Cost(c.params, width), label)
	}
	sums := &kir.Gemm{Type: ir.F32, Sums: 'b'}
	require.Equal(t, kir.Cost{Flops: 2*24 + 12, Bytes: 4 * (26 + 3)}, sums.Cost(kinds()["gemm_float32"].params, width))
}

// TestAJointPassOfAttentionSharesTheForwardProducts: it costs what both passes cost, less what they have in common.
func TestAJointPassOfAttentionSharesTheForwardProducts(t *testing.T) {
	width := &kir.Widths{ir.F32: 4}
	for _, causal := range []bool{false, true} {
		cost := func(p kir.AttentionPass) kir.Cost {
			a := kir.Attention{Type: ir.F32, Pass: p, Causal: causal}
			return a.Cost([]uint64{2, 4, 2, 5, 6, 3, 8}, width)
		}
		q, kv := cost(kir.AttentionGradQ), cost(kir.AttentionGradKV)
		forward, joint := cost(kir.AttentionForward), cost(kir.AttentionGradQKV)
		require.Equal(t, q.Flops+kv.Flops-forward.Flops, joint.Flops)
		require.Equal(t, q.Bytes+kv.Bytes-forward.Bytes, joint.Bytes)
	}
}
