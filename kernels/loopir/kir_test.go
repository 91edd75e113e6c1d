package loopir_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/kerneltest"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Reference vectors of Random123, kat_vectors, philox4x32 10.
func TestPhiloxKnownAnswers(t *testing.T) {
	const ones = 0xffffffff
	for _, tc := range []struct {
		ctr  [4]uint32
		key  [2]uint32
		want [4]uint32
	}{
		{[4]uint32{}, [2]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{ones, ones, ones, ones}, [2]uint32{ones, ones}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		require.Equal(t, tc.want, loopir.Philox(tc.ctr, tc.key))
	}
}

func TestHalfConversions(t *testing.T) {
	for h := range 1 << 16 {
		f := loopir.HalfToFloat(uint16(h))
		if f != f {
			require.Equal(t, 0x7c00, h&0x7c00)
			require.True(t, math.IsNaN(float64(loopir.HalfToFloat(loopir.FloatToHalf(f)))))
			continue
		}
		require.Equal(t, uint16(h), loopir.FloatToHalf(f))
	}
	for _, tc := range []struct {
		f    float32
		half uint16
	}{
		{65504, 0x7bff}, {65519.99, 0x7bff}, {65520, 0x7c00}, {1e10, 0x7c00}, {-1e10, 0xfc00},
		{1 + 1.0/2048, 0x3c00}, {1 + 3.0/2048, 0x3c02}, // ties go to even
		{1.0 / (1 << 25), 0}, {1.5 / (1 << 25), 1}, {3.0 / (1 << 25), 2},
		{0.000061035155, 0x0400}, // rounds up into the normal range
	} {
		require.Equal(t, tc.half, loopir.FloatToHalf(tc.f), "%g", tc.f)
	}
	require.Equal(t, uint16(0x3f80), loopir.FloatToBrain(1+1.0/256))
	require.Equal(t, uint16(0x3f82), loopir.FloatToBrain(1+3.0/256))
	require.Equal(t, uint16(0x7f80), loopir.FloatToBrain(math.MaxFloat32))
}

func bits(t ir.DType, v float64) uint64 { return ir.EncodeFloat(t, v) }

func TestScalarSemantics(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	f := func(op loopir.Op, a, b float64) float64 {
		return ir.DecodeFloat(ir.F32, loopir.EvalOp(op, ir.F32, ir.F32, 0, bits(ir.F32, a), bits(ir.F32, b), 0))
	}
	require.True(t, math.IsNaN(f(loopir.OpMax, inf, nan)))
	require.True(t, math.IsNaN(f(loopir.OpMin, nan, -inf)))
	require.Equal(t, 2.0, f(loopir.OpRound, 2.5, 0))
	require.Equal(t, -1.0, f(loopir.OpRem, -7, 3))
	require.Equal(t, 1.0, f(loopir.OpPow, nan, 0))
	i := func(op loopir.Op, dt ir.DType, a, b int64) int64 {
		v := loopir.EvalOp(op, dt, dt, 0, ir.EncodeInt(dt, a), ir.EncodeInt(dt, b), 0)
		if dt == ir.I32 {
			return int64(int32(v))
		}
		return int64(v)
	}
	require.Equal(t, int64(0), i(loopir.OpDiv, ir.I32, 5, 0))
	require.Equal(t, int64(0), i(loopir.OpRem, ir.I64, 5, 0))
	require.Equal(t, int64(math.MinInt32), i(loopir.OpDiv, ir.I32, math.MinInt32, -1))
	require.Equal(t, int64(-3), i(loopir.OpDiv, ir.I32, -7, 2))
	require.Equal(t, int64(-1), i(loopir.OpRem, ir.I32, -7, 2))
	require.Equal(t, int64(math.MinInt32), i(loopir.OpAdd, ir.I32, math.MaxInt32, 1))
	require.Equal(t, int64(math.MaxUint32), i(loopir.OpSub, ir.U32, 0, 1))
	require.Equal(t, int64(-1), i(loopir.OpShr, ir.I32, -8, 40))
	require.Equal(t, int64(0), i(loopir.OpShl, ir.I32, 1, 32))
	require.Equal(t, int64(0), i(loopir.OpPow, ir.I64, 3, -1))
	require.Equal(t, int64(-1), i(loopir.OpPow, ir.I64, -1, -3))
	require.Equal(t, int64(-27), i(loopir.OpPow, ir.I64, -3, 3))
	cast := func(from, to ir.DType, v float64) uint64 {
		return loopir.EvalOp(loopir.OpCast, to, from, 0, bits(from, v), 0, 0)
	}
	require.Equal(t, ir.EncodeInt(ir.I32, -3), cast(ir.F32, ir.I32, -3.9))
	require.Equal(t, uint64(1), cast(ir.F32, ir.Bool, nan))
	require.Equal(t, uint64(0), cast(ir.F32, ir.Bool, math.Copysign(0, -1)))
	require.Equal(t, uint64(0xffffffff), cast(ir.I64, ir.U32, -1))
}

// Reductions: NaN is the extreme, the first index wins.
func TestArgReductions(t *testing.T) {
	nan := math.NaN()
	for _, tc := range []struct {
		op   loopir.ReduceOp
		in   []float64
		want int64
	}{
		{loopir.ArgMax, []float64{1, 3, 3, 2}, 1},
		{loopir.ArgMin, []float64{1, 0, 3, 0}, 1},
		{loopir.ArgMax, []float64{1, nan, 3, nan}, 1},
		{loopir.ArgMin, []float64{nan, -1}, 0},
		{loopir.ArgMax, []float64{math.Inf(-1), math.Inf(-1)}, 0},
	} {
		b := loopir.NewBuilder("arg", 0, 1)
		x := b.Load(b.Linear(b.Buf(ir.F64, loopir.Read), -1))
		b.Each()
		a := b.ReduceIdx(tc.op, x, b.Index(0))
		b.Map()
		b.Store(b.Linear(b.Buf(ir.I64, loopir.Write), -1), b.AccIdx(a))
		data, out := make([]byte, 8*len(tc.in)), make([]byte, 8)
		for i, v := range tc.in {
			loopir.StoreBits(ir.F64, data, int64(i), math.Float64bits(v))
		}
		_, err := loopir.Interpret(b.Kernel(), []uint64{uint64(len(tc.in))}, [][]byte{data, out})
		require.NoError(t, err)
		require.Equal(t, tc.want, int64(loopir.LoadBits(ir.I64, out, 0)), "%v", tc)
	}
}

func TestBuilderFoldsAndShares(t *testing.T) {
	b := loopir.NewBuilder("fold", 1, 0)
	x := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1))
	zero, one := b.Float(ir.F32, 0), b.Float(ir.F32, 1)
	require.Equal(t, x, b.Mul(x, one))
	require.Equal(t, x, b.Mul(one, x))
	require.Equal(t, x, b.Div(x, one))
	require.Equal(t, x, b.Sub(x, zero))
	require.NotEqual(t, x, b.Add(x, zero), "-0 + 0 is 0")
	require.Equal(t, x, b.Add(x, b.Float(ir.F32, math.Copysign(0, -1))))
	require.Equal(t, x, b.Neg(b.Neg(x)))
	require.Equal(t, b.Add(x, one), b.Add(one, x))
	require.Equal(t, b.Float(ir.F32, 3), b.Add(one, b.Float(ir.F32, 2)))
	require.Equal(t, x, b.Select(b.Lt(zero, one), x, one))
	i := b.Index(0)
	require.Equal(t, i, b.Add(b.I64(0), i))
	require.Equal(t, b.I64(0), b.Mul(i, b.I64(0)))
	require.NotEqual(t, zero, b.Mul(x, zero), "NaN * 0 is NaN")
	require.Equal(t, b.Bool(true), b.Eq(i, i))
	require.NotEqual(t, b.Bool(true), b.Eq(x, x))
}

func TestSimplifyIsIdempotentAndKeepsMeaning(t *testing.T) {
	for seed := range uint64(300) {
		c := kerneltest.Random(rand.New(rand.NewPCG(seed, 7)), kerneltest.Limits{F64: true})
		once := loopir.Simplify(c.Kernel)
		require.Equal(t, once, loopir.Simplify(once))
		require.Equal(t, loopir.Key(once), loopir.Key(c.Kernel), "the builder simplifies already")
		// A kernel with dead, duplicate and constant expressions means the same.
		noisy := *c.Kernel
		noisy.Exprs = append([]loopir.Expr(nil), noisy.Exprs...)
		noisy.Exprs = append(noisy.Exprs, c.Kernel.Exprs...)
		require.NoError(t, loopir.Verify(&noisy))
		require.Equal(t, loopir.Key(c.Kernel), loopir.Key(loopir.Simplify(&noisy)))
	}
}

func TestKeyIgnoresTheNameOnly(t *testing.T) {
	keys := map[string]uint64{}
	for seed := range uint64(300) {
		c := kerneltest.Random(rand.New(rand.NewPCG(seed, 8)), kerneltest.Limits{})
		k := *c.Kernel
		key := loopir.Key(&k)
		k.Name = "other"
		require.Equal(t, key, loopir.Key(&k))
		k.NoVec = !k.NoVec
		require.NotEqual(t, key, loopir.Key(&k))
		if _, ok := keys[key]; ok {
			continue
		}
		keys[key] = seed
	}
	require.Greater(t, len(keys), 250)
}

// Each case breaks one rule of a correct kernel.
func TestVerifyRefuses(t *testing.T) {
	good := func() *loopir.Kernel {
		b := loopir.NewBuilder("softmax", 1, 1)
		x := b.Load(b.Access(b.Buf(ir.F32, loopir.Read), b.Offset(), b.Stride(), loopir.Unit))
		out := b.Linear(b.Buf(ir.F32, loopir.Write), -1)
		b.Each()
		s := b.Reduce(loopir.Sum, x)
		b.Each()
		b.Store(out, b.Div(x, b.Acc(s)))
		return b.Kernel()
	}
	require.NoError(t, loopir.Verify(good()))
	for _, tc := range []struct {
		name  string
		spoil func(k *loopir.Kernel)
		want  string
	}{
		{"size", func(k *loopir.Kernel) { k.Params[0].Kind = loopir.Offset }, "must be sizes"},
		{"param type", func(k *loopir.Kernel) { k.Params[2].Type = ir.F32 }, "want int64"},
		{"stride kind", func(k *loopir.Kernel) { k.Access[0].Stride[0] = 2 }, "not of kind"},
		{"stride count", func(k *loopir.Kernel) { k.Access[0].Stride = k.Access[0].Stride[:1] }, "1 strides for 2 dims"},
		{"linear stride", func(k *loopir.Kernel) { k.Access[1].Stride = []int{loopir.Unit, loopir.Unit} },
			"linear with strides"},
		{"buffer", func(k *loopir.Kernel) { k.Access[0].Buf = 7 }, "does not exist"},
		{"order", func(k *loopir.Kernel) { k.Exprs[2].A = 2 }, "not an earlier expression"},
		{"missing argument", func(k *loopir.Kernel) { k.Exprs[2].B = -1 }, "not an earlier expression"},
		{"result type", func(k *loopir.Kernel) { k.Exprs[2].Type = ir.F64 }, "result is"},
		{"storage type", func(k *loopir.Kernel) { k.Exprs[0].Type = ir.F16 }, "no compute type"},
		{"accumulator too early", func(k *loopir.Kernel) { k.Stages[0], k.Stages[1] = k.Stages[1], k.Stages[0] },
			"not final"},
		{"read only", func(k *loopir.Kernel) { k.Bufs[1].Access = loopir.Read }, "read only"},
		{"write only", func(k *loopir.Kernel) { k.Bufs[0].Access = loopir.Write }, "not readable"},
		{"set on atomic", func(k *loopir.Kernel) { k.Bufs[1].Access = loopir.Atomic }, "plain store to the atomic"},
		{"store type", func(k *loopir.Kernel) { k.Bufs[1].Type = ir.I32 }, "into a buffer"},
		{"bool sum", func(k *loopir.Kernel) { k.Stages[0].Accs[0].Op = loopir.Any }, "reduction"},
		{"idx", func(k *loopir.Kernel) { k.Stages[0].Accs[0].Idx = 0 }, "index without"},
		{"outer stage", func(k *loopir.Kernel) { k.Stages[1].OverInner = false }, "outside the inner space"},
		{"checks", func(k *loopir.Kernel) { k.Checks = true }, "field Checks is"},
		{"no stages", func(k *loopir.Kernel) { k.Stages = nil }, "no stages"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := good()
			tc.spoil(k)
			require.ErrorContains(t, loopir.Verify(k), tc.want)
		})
	}
}

func TestInterpretReportsWrongAddresses(t *testing.T) {
	b := loopir.NewBuilder("copy", 1, 0)
	x := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), b.Offset()))
	b.Map()
	b.Store(b.Linear(b.Buf(ir.F32, loopir.Write), -1), x)
	k := b.Kernel()
	bufs := [][]byte{make([]byte, 16), make([]byte, 16)}
	_, err := loopir.Interpret(k, []uint64{4, 0}, bufs)
	require.NoError(t, err)
	_, err = loopir.Interpret(k, []uint64{4, 1}, bufs)
	require.ErrorContains(t, err, "element 4 is outside")
}
