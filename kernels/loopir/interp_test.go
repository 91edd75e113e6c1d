package loopir_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

func encode(t ir.DType, v ...float64) []byte {
	out := make([]byte, len(v)*t.Size())
	for i, x := range v {
		loopir.StoreBits(t, out, int64(i), ir.EncodeFloat(t.ComputeType(), x))
	}
	return out
}

func decode(t ir.DType, b []byte) []float64 {
	out := make([]float64, len(b)/t.Size())
	for i := range out {
		out[i] = ir.DecodeFloat(t.ComputeType(), loopir.LoadBits(t, b, int64(i)))
	}
	return out
}

// runFloats runs a kernel whose first buffer is the float32 input and whose second is the output of n elements.
func runFloats(t *testing.T, k *loopir.Kernel, params []uint64, in []float64, n int) []float64 {
	t.Helper()
	out := make([]byte, n*k.Bufs[1].Type.Size())
	_, err := loopir.Interpret(k, params, [][]byte{encode(k.Bufs[0].Type, in...), out})
	require.NoError(t, err)
	return decode(k.Bufs[1].Type, out)
}

// Stages of one outer index run in order, each over all inner indices, and see the final accumulators of earlier ones.
func TestSoftmaxOfThreeStages(t *testing.T) {
	b := loopir.NewBuilder("softmax", 1, 1)
	x := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1))
	out := b.Linear(b.Buf(ir.F32, loopir.Write), -1)
	b.Each()
	top := b.Reduce(loopir.Max, x)
	b.Each()
	e := b.Un(loopir.OpExp, b.Sub(x, b.Acc(top)))
	sum := b.Reduce(loopir.Sum, e)
	b.Each()
	b.Store(out, b.Div(e, b.Acc(sum)))
	in := []float64{1, 2, 3, -1, 0, 500}
	got := runFloats(t, b.Kernel(), []uint64{2, 3}, in, 6)
	for row := range 2 {
		r := in[3*row : 3*row+3]
		top := max(r[0], r[1], r[2])
		total := 0.0
		for _, v := range r {
			total += math.Exp(v - top)
		}
		for i, v := range r {
			require.InDelta(t, math.Exp(v-top)/total, got[3*row+i], 1e-6)
		}
	}
}

func TestPrefixStagesSeeTheRunningValue(t *testing.T) {
	for _, tc := range []struct {
		op   loopir.ReduceOp
		want []float64
	}{
		{loopir.Sum, []float64{2, 1, 4, 5, 5, 12}},
		{loopir.Prod, []float64{2, -2, -6, 5, 0, 0}},
		{loopir.Max, []float64{2, 2, 3, 5, 5, 7}},
		{loopir.Min, []float64{2, -1, -1, 5, 0, 0}},
	} {
		b := loopir.NewBuilder("scan", 1, 1)
		x := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1))
		b.Scan()
		run := b.AccRun(b.Reduce(tc.op, x))
		b.Store(b.Linear(b.Buf(ir.F32, loopir.Write), -1), run)
		require.Equal(t, tc.want, runFloats(t, b.Kernel(), []uint64{2, 3}, []float64{2, -1, 3, 5, 0, 7}, 6), "%v", tc.op)
	}
}

func TestStoresCombineByTheirMode(t *testing.T) {
	nan := math.NaN()
	for _, tc := range []struct {
		name string
		mode loopir.StoreMode
		in   []float64
		want []float64 // of a buffer that starts with 3, 3: even elements go to 0, odd ones to 1
	}{
		{"add", loopir.Add, []float64{1, 2, 3, 4}, []float64{7, 9}},
		{"multiply", loopir.Multiply, []float64{1, 2, 3, 4}, []float64{9, 24}},
		{"maximize", loopir.Maximize, []float64{1, 2, 5, 1}, []float64{5, 3}},
		{"minimize", loopir.Minimize, []float64{1, 2, 5, 9}, []float64{1, 2}},
		{"maximize keeps NaN", loopir.Maximize, []float64{nan, 2, 5, 4}, []float64{nan, 4}},
		{"minimize takes NaN", loopir.Minimize, []float64{1, 2, nan, 4}, []float64{nan, 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := loopir.NewBuilder("scatter", 1, 0)
			x := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1))
			out := b.Buf(ir.F32, loopir.Atomic)
			b.Map()
			b.StoreAt(-1, out, b.Rem(b.Index(0), b.I64(2)), x, tc.mode)
			target := encode(ir.F32, 3, 3)
			_, err := loopir.Interpret(b.Kernel(), []uint64{4}, [][]byte{encode(ir.F32, tc.in...), target})
			require.NoError(t, err)
			got := decode(ir.F32, target)
			for i, w := range tc.want {
				if math.IsNaN(w) {
					require.True(t, math.IsNaN(got[i]), "%v", got)
				} else {
					require.Equal(t, w, got[i])
				}
			}
		})
	}
}

// The first failed check is reported, the kernel goes on with clamped indices, and guarded stores leave their elements.
func TestChecksReportTheFirstFaultAndGuardsHold(t *testing.T) {
	b := loopir.NewBuilder("gather", 1, 0)
	index := b.Load(b.Linear(b.Buf(ir.I64, loopir.Read), -1))
	out := b.Linear(b.Buf(ir.F32, loopir.Write), -1)
	table := b.Buf(ir.F32, loopir.Read)
	b.Map()
	at := b.InBounds(index, b.I64(3))
	b.StoreIf(b.Ne(index, b.I64(1)), out, b.LoadAt(table, at))
	k := b.Kernel()
	got := encode(ir.F32, 9, 9, 9, 9)
	indices := make([]byte, 32)
	for i, v := range []int64{2, 1, 7, -4} {
		loopir.StoreBits(ir.I64, indices, int64(i), uint64(v))
	}
	fault, err := loopir.Interpret(k, []uint64{4}, [][]byte{indices, got, encode(ir.F32, 10, 20, 30)})
	require.NoError(t, err)
	require.Equal(t, loopir.Fault{Failed: true, Elem: 7}, fault)
	require.Equal(t, []float64{30, 9, 30, 10}, decode(ir.F32, got))
}

// Strides and offsets are parameters: the kernel of a transposed, shifted view is the kernel of any other.
func TestAccessesFollowOffsetAndStrides(t *testing.T) {
	b := loopir.NewBuilder("transpose", 2, 0)
	x := b.Load(b.Access(b.Buf(ir.F32, loopir.Read), b.Offset(), loopir.Unit, b.Stride()))
	b.Map()
	b.Store(b.Linear(b.Buf(ir.F32, loopir.Write), -1), x)
	in := []float64{99, 0, 1, 2, 3, 4, 5}
	got := runFloats(t, b.Kernel(), []uint64{3, 2, 1, 3}, in, 6)
	require.Equal(t, []float64{0, 3, 1, 4, 2, 5}, got)
}

// The neutral value of a reduction changes nothing, from either side; float32 sums are rounded once.
func TestIdentitiesAreNeutral(t *testing.T) {
	for _, dt := range computeTypes {
		for op := loopir.Sum; op <= loopir.LogSum; op++ {
			logical := op == loopir.Any || op == loopir.All
			if op.IsArg() || logical != (dt == ir.Bool) || op == loopir.LogSum && !dt.IsFloat() {
				continue
			}
			id := loopir.Identity(op, dt)
			for _, x := range corners(dt) {
				v := ir.DecodeFloat(dt, x)
				if dt.IsFloat() && (math.IsNaN(v) || v == 0 && op.Op() != loopir.OpMul) {
					continue // -0 + 0 is 0
				}
				left, _ := loopir.Combine(op, dt, 0, id, 0, x, 0)
				right, _ := loopir.Combine(op, dt, 0, x, 0, id, 0)
				require.Equal(t, []uint64{x, x}, []uint64{left, right}, "reduction %d of %v", op, dt)
			}
		}
	}
	b := loopir.NewBuilder("sum", 0, 1)
	x := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1))
	out := b.Buf(ir.F32, loopir.Write)
	b.Each()
	sum := b.Reduce(loopir.Sum, x)
	b.Map()
	b.Store(b.Linear(out, -1), b.Acc(sum))
	require.Equal(t, []float64{3}, runFloats(t, b.Kernel(), []uint64{4}, []float64{1 << 24, 1, 2, -(1 << 24)}, 1))
}

func TestCastsSaturateAndLogAddHoldsInfinities(t *testing.T) {
	inf := math.Inf(1)
	for _, tc := range []struct {
		to   ir.DType
		v    float64
		want int64
	}{
		{ir.I32, 1e10, math.MaxInt32}, {ir.I32, -1e10, math.MinInt32}, {ir.U32, -1, 0}, {ir.U32, 1e10, math.MaxUint32},
		{ir.I64, inf, math.MaxInt64}, {ir.I64, -inf, math.MinInt64}, {ir.I32, math.NaN(), 0}, {ir.I32, -2.9, -2},
	} {
		got := loopir.CastBits(ir.F64, tc.to, ir.EncodeFloat(ir.F64, tc.v))
		require.Equal(t, ir.EncodeInt(tc.to, tc.want), got, "%v of %v", tc.to, tc.v)
	}
	for _, tc := range [][3]float64{
		{-inf, -inf, -inf}, {inf, inf, inf}, {-inf, 5, 5}, {inf, 5, inf}, {0, 0, math.Ln2}, {1000, 0, 1000},
	} {
		got := loopir.EvalOp(loopir.OpLogAdd, ir.F64, ir.F64, 0, bits(ir.F64, tc[0]), bits(ir.F64, tc[1]), 0)
		require.Equal(t, tc[2], ir.DecodeFloat(ir.F64, got), "%v", tc)
	}
	fused := loopir.EvalOp(loopir.OpFma, ir.F64, ir.F64, 0,
		bits(ir.F64, 1+0x1p-52), bits(ir.F64, 1-0x1p-52), bits(ir.F64, -1))
	require.Equal(t, -0x1p-104, ir.DecodeFloat(ir.F64, fused), "a product and sum that are rounded once")
}
