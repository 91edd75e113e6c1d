package loopir_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

var computeTypes = []ir.DType{ir.Bool, ir.I32, ir.I64, ir.U32, ir.F32, ir.F64}

// corners are values where identities go wrong: zeros of both signs, ones, all bits, extremes, NaN.
func corners(t ir.DType) []uint64 {
	switch {
	case t == ir.Bool:
		return []uint64{0, 1}
	case t.IsFloat():
		var out []uint64
		for _, v := range []float64{0, math.Copysign(0, -1), 1, -1, 2.5, -3, math.Inf(1), math.Inf(-1), math.NaN(), 1e30} {
			out = append(out, ir.EncodeFloat(t, v))
		}
		return out
	}
	var out []uint64
	for _, v := range []int64{0, 1, -1, 2, -7, math.MinInt32, math.MaxInt32} {
		out = append(out, ir.EncodeInt(t, v))
	}
	return out
}

// raw gives a kernel whose expressions no builder has seen: loads, constants and random operations on them. Every
// expression is stored.
func raw(r *rand.Rand, steps int) (k *loopir.Kernel, bufs [][]byte) {
	const n = 24
	k = &loopir.Kernel{Name: "raw", Outer: 1, Params: []loopir.Param{{Kind: loopir.Size, Type: ir.I64}},
		Stages: make([]loopir.Stage, 1)}
	buffer := func(t ir.DType, a loopir.BufAccess) (access int) {
		data := make([]byte, n*t.Size())
		for i := range int64(n) {
			c := corners(t)
			loopir.StoreBits(t, data, i, c[r.IntN(len(c))])
		}
		bufs = append(bufs, data)
		k.Bufs = append(k.Bufs, loopir.Buf{Type: t, Access: a})
		k.Access = append(k.Access, loopir.Access{Buf: len(k.Bufs) - 1, Offset: -1, Linear: true})
		return len(k.Access) - 1
	}
	for _, t := range computeTypes {
		for range 2 {
			k.Exprs = append(k.Exprs,
				loopir.Expr{Op: loopir.OpLoad, Type: t, A: -1, B: -1, C: -1, Imm: uint64(buffer(t, loopir.Read))})
		}
		for _, v := range corners(t)[:2] {
			k.Exprs = append(k.Exprs, loopir.Expr{Op: loopir.OpConst, Type: t, A: -1, B: -1, C: -1, Imm: v})
		}
		c := corners(t)
		k.Exprs = append(k.Exprs, loopir.Expr{Op: loopir.OpConst, Type: t, A: -1, B: -1, C: -1, Imm: c[r.IntN(len(c))]})
	}
	for leaves := len(k.Exprs); len(k.Exprs) < leaves+steps; {
		op := loopir.OpCast + loopir.Op(r.IntN(int(loopir.OpIsNaN-loopir.OpCast)+1))
		e := loopir.Expr{Op: op, Type: computeTypes[r.IntN(len(computeTypes))], A: -1, B: -1, C: -1}
		if op == loopir.OpBitcast {
			continue // shows the payloads of NaN, which may change
		}
		if op == loopir.OpNarrow {
			e.Imm = uint64([]ir.DType{ir.F16, ir.BF16}[r.IntN(2)])
		}
		var t [3]ir.DType
		for i, arg := range []*int{&e.A, &e.B, &e.C}[:op.Arity()] {
			*arg = r.IntN(len(k.Exprs))
			t[i] = k.Exprs[*arg].Type
		}
		if loopir.CheckTypes(op, e.Type, t, e.Imm) == nil {
			k.Exprs = append(k.Exprs, e)
		}
	}
	for i, e := range k.Exprs {
		k.Stages[0].Stores = append(k.Stages[0].Stores,
			loopir.Store{Access: buffer(e.Type, loopir.Write), Buf: -1, Index: -1, Val: i, Guard: -1})
	}
	return k, bufs
}

func TestSimplifiedExpressionsKeepEveryValue(t *testing.T) {
	shorter := 0
	for seed := range uint64(200) {
		k, bufs := raw(rand.New(rand.NewPCG(seed, 1)), 40)
		s := loopir.Simplify(k)
		shorter += len(k.Exprs) - len(s.Exprs)
		run := func(k *loopir.Kernel) [][]byte {
			var own [][]byte
			for _, b := range bufs {
				own = append(own, append([]byte(nil), b...))
			}
			_, err := loopir.Interpret(k, []uint64{24}, own)
			require.NoError(t, err)
			return own
		}
		want, got := run(k), run(s)
		for i, st := range k.Stages[0].Stores {
			b := k.Access[st.Access].Buf
			dt := k.Bufs[b].Type
			for at := range int64(24) {
				x, y := loopir.LoadBits(dt, want[b], at), loopir.LoadBits(dt, got[b], at)
				if dt.IsFloat() && math.IsNaN(ir.DecodeFloat(dt, x)) && math.IsNaN(ir.DecodeFloat(dt, y)) {
					continue
				}
				require.Equal(t, x, y, "seed %d: expression %d, %+v, element %d", seed, i, k.Exprs[i], at)
			}
		}
	}
	require.Greater(t, shorter, 3000, "something was simplified")
}

func TestSimplifyLeavesItsKernelAlone(t *testing.T) {
	k, _ := raw(rand.New(rand.NewPCG(1, 2)), 40)
	key := loopir.Key(k)
	loopir.Simplify(k)
	require.Equal(t, key, loopir.Key(k))
}

// Inline must give the value that the inlined map would have stored.
func TestInlinedMapGivesTheValueThatItStored(t *testing.T) {
	m := loopir.NewBuilder("scale", 1, 0)
	x := m.Load(m.Linear(m.Buf(ir.F32, loopir.Read), -1))
	y := m.Load(m.Linear(m.Buf(ir.F32, loopir.Read), -1))
	m.Map()
	m.Store(m.Linear(m.Buf(ir.F32, loopir.Write), -1), m.Sub(m.Mul(x, m.Param(m.Scalar(ir.F32))), y))
	inner := m.Kernel()

	b := loopir.NewBuilder("outer", 1, 0)
	a := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1))
	b.Map()
	v := inner.Inline(b, []int{b.Add(a, a), b.Float(ir.F32, 1)}, []int{b.Float(ir.F32, 3)})[0]
	b.Store(b.Linear(b.Buf(ir.F32, loopir.Write), -1), v)
	got := runFloats(t, b.Kernel(), []uint64{3}, []float64{1, 2, -0.5}, 3)
	require.Equal(t, []float64{5, 11, -4}, got)
}
