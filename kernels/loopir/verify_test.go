package loopir_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

func TestOperationsTakeTheirTypesOnly(t *testing.T) {
	const f32, f64, i32, i64, u32, b = ir.F32, ir.F64, ir.I32, ir.I64, ir.U32, ir.Bool
	for _, tc := range []struct {
		name string
		op   loopir.Op
		imm  uint64
		args [3]ir.DType
		res  ir.DType
		want string // "" for a correct one
	}{
		{"sum of floats", loopir.OpAdd, 0, [3]ir.DType{f32, f32}, f32, ""},
		{"sum of mixed types", loopir.OpAdd, 0, [3]ir.DType{f32, f64}, f32, "arguments are float32 and float64"},
		{"sum of bools", loopir.OpAdd, 0, [3]ir.DType{b, b}, b, "not defined on bool"},
		{"sum into another type", loopir.OpAdd, 0, [3]ir.DType{i32, i32}, i64, "result is int64, want int32"},
		{"comparison", loopir.OpLt, 0, [3]ir.DType{i64, i64}, b, ""},
		{"comparison into a number", loopir.OpLt, 0, [3]ir.DType{i64, i64}, i64, "result is int64, want bool"},
		{"order of bools", loopir.OpLe, 0, [3]ir.DType{b, b}, b, "not defined on bool"},
		{"equality of bools", loopir.OpEq, 0, [3]ir.DType{b, b}, b, ""},
		{"isnan of integers", loopir.OpIsNaN, 0, [3]ir.DType{i32}, b, "not defined on int32"},
		{"bits of floats", loopir.OpXor, 0, [3]ir.DType{f32, f32}, f32, "not defined on float32"},
		{"and of bools", loopir.OpAnd, 0, [3]ir.DType{b, b}, b, ""},
		{"shift of bools", loopir.OpShl, 0, [3]ir.DType{b, b}, b, "not defined on bool"},
		{"shift", loopir.OpShr, 0, [3]ir.DType{u32, u32}, u32, ""},
		{"function of integers", loopir.OpExp, 0, [3]ir.DType{i32}, i32, "not defined on int32"},
		{"fma of integers", loopir.OpFma, 0, [3]ir.DType{i32, i32, i32}, i32, "not defined on int32"},
		{"fma with a foreign addend", loopir.OpFma, 0, [3]ir.DType{f32, f32, f64}, f32, "arguments are"},
		{"select", loopir.OpSelect, 0, [3]ir.DType{b, i64, i64}, i64, ""},
		{"select by a number", loopir.OpSelect, 0, [3]ir.DType{i32, i64, i64}, i64, "types int32"},
		{"select of mixed types", loopir.OpSelect, 0, [3]ir.DType{b, i64, f32}, i64, "types bool"},
		{"bitcast", loopir.OpBitcast, 0, [3]ir.DType{f32}, u32, ""},
		{"bitcast to another width", loopir.OpBitcast, 0, [3]ir.DType{f32}, i64, "from float32 to int64"},
		{"bitcast of a bool", loopir.OpBitcast, 0, [3]ir.DType{b}, b, "from bool to bool"},
		{"cast", loopir.OpCast, 0, [3]ir.DType{b}, f64, ""},
		{"narrow to half", loopir.OpNarrow, uint64(ir.F16), [3]ir.DType{f32}, f32, ""},
		{"narrow to float32", loopir.OpNarrow, uint64(ir.F32), [3]ir.DType{f32}, f32, "not defined on"},
		{"draw", loopir.OpDraw, 3, [3]ir.DType{i64, i64, i64}, u32, ""},
		{"draw part 4", loopir.OpDraw, 4, [3]ir.DType{i64, i64, i64}, u32, "part 4"},
		{"draw of int32", loopir.OpDraw, 0, [3]ir.DType{i32, i64, i64}, u32, "draw of"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := loopir.CheckTypes(tc.op, tc.res, tc.args, tc.imm)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// everything is a kernel with each kind of expression, accumulator, check and store.
func everything() *loopir.Kernel {
	b := loopir.NewBuilder("everything", 1, 1)
	in, table := b.Buf(ir.F16, loopir.Read), b.Buf(ir.I64, loopir.Read)
	x := b.Load(b.Access(in, b.Offset(), b.Stride(), loopir.Unit))
	length := b.Param(b.Size())
	scale := b.Param(b.Scalar(ir.F32))
	b.Each()
	best := b.ReduceIdx(loopir.ArgMax, x, b.Index(1))
	b.Scan()
	sum := b.Reduce(loopir.Sum, b.Mul(x, scale))
	b.Store(b.Linear(b.Buf(ir.F32, loopir.Write), -1), b.AccRun(sum))
	b.Map()
	at := b.InBounds(b.LoadAt(table, b.AccIdx(best)), length)
	b.StoreAt(b.Lt(b.Index(0), length), b.Buf(ir.F32, loopir.Atomic), at, b.Add(b.Acc(best), b.Acc(sum)), loopir.Add)
	return b.Kernel()
}

// find is the number of the first expression with the operation.
func find(k *loopir.Kernel, op loopir.Op) int {
	for i, e := range k.Exprs {
		if e.Op == op {
			return i
		}
	}
	panic("no " + op.String())
}

// Each case breaks one rule of a correct kernel.
func TestVerifierRefusesWhatAStageMayNotDo(t *testing.T) {
	require.NoError(t, loopir.Verify(everything()))
	const each, scan, once = 0, 1, 2
	for _, tc := range []struct {
		name  string
		spoil func(k *loopir.Kernel)
		want  string
	}{
		{"buffer of no type", func(k *loopir.Kernel) { k.Bufs[0].Type = ir.InvalidDType }, "bad type or access"},
		{"unknown parameter kind", func(k *loopir.Kernel) { k.Params[2].Kind = loopir.Scalar + 1 }, "unknown kind"},
		{"scalar of a storage type", func(k *loopir.Kernel) { k.Params[5].Type = ir.F16 }, "no compute type"},
		{"fewer parameters than dims", func(k *loopir.Kernel) { k.Params = k.Params[:1] }, "with 1 parameters"},
		{"offset that is a stride", func(k *loopir.Kernel) { k.Access[0].Offset = 3 }, "offset: parameter 3"},
		{"unknown operation", func(k *loopir.Kernel) { k.Exprs[0].Op = loopir.NumOps }, "unknown operation"},
		{"superfluous argument", func(k *loopir.Kernel) { k.Exprs[find(k, loopir.OpLoad)].B = 0 }, "want -1"},
		{"constant with foreign bits", func(k *loopir.Kernel) {
			k.Exprs[0] = loopir.Expr{Op: loopir.OpConst, Type: ir.F32, A: -1, B: -1, C: -1, Imm: 1 << 32}
		}, "are not those of a float32"},
		{"load of an unknown access", func(k *loopir.Kernel) { k.Exprs[find(k, loopir.OpLoad)].Imm = 9 }, "out of range"},
		{"index of an unknown dim", func(k *loopir.Kernel) { k.Exprs[find(k, loopir.OpIndex)].Imm = 2 }, "out of range"},
		{"table read by a float", func(k *loopir.Kernel) {
			k.Exprs[find(k, loopir.OpLoadAt)].A = find(k, loopir.OpLoad)
		}, "element number is float32"},
		{"index of a sum", func(k *loopir.Kernel) { k.Exprs[find(k, loopir.OpAccIdx)].Imm = 1 }, "want "},
		{"accumulator outside the inner space", func(k *loopir.Kernel) { k.Stages[each].OverInner = false },
			"need OverInner"},
		{"prefix outside the inner space", func(k *loopir.Kernel) { k.Stages[once].Prefix = true }, "need OverInner"},
		{"running value without prefix", func(k *loopir.Kernel) { k.Stages[scan].Prefix = false }, "no running value"},
		{"accumulator of its own running value", func(k *loopir.Kernel) {
			// The product gives way to the running value, and the sum adds that up.
			run := find(k, loopir.OpAccRun)
			k.Stages[scan].Accs[0].Val = run
		}, "no running value"},
		{"store of nothing", func(k *loopir.Kernel) { k.Stages[scan].Stores[0].Val = -1 }, "value, mode or guard"},
		{"unknown mode", func(k *loopir.Kernel) { k.Stages[once].Stores[0].Mode = loopir.NumStoreModes },
			"value, mode or guard"},
		{"guard that is a number", func(k *loopir.Kernel) {
			k.Stages[once].Stores[0].Guard = find(k, loopir.OpLoadAt)
		}, "value, mode or guard"},
		{"store by an access and by an index", func(k *loopir.Kernel) { k.Stages[scan].Stores[0].Buf = 0 },
			"access 1 and buffer 0"},
		{"combining into a plain buffer", func(k *loopir.Kernel) { k.Bufs[3].Access = loopir.ReadWrite }, "needs an atomic"},
		{"check of a number", func(k *loopir.Kernel) {
			k.Stages[once].Checks[0].Cond = find(k, loopir.OpLoadAt)
		}, "check: want a bool condition"},
		{"root that does not exist", func(k *loopir.Kernel) { k.Stages[once].Checks[0].Elem = len(k.Exprs) },
			"does not exist"},
		{"log-sum of integers", func(k *loopir.Kernel) {
			sum := loopir.Acc{Op: loopir.LogSum, Val: find(k, loopir.OpIndex), Idx: -1}
			k.Stages[scan].Accs = append(k.Stages[scan].Accs, sum)
		}, "unknown reduction"},
		{"linear access inside and outside", func(k *loopir.Kernel) {
			k.Stages[once].Stores = append(k.Stages[once].Stores, k.Stages[scan].Stores[0])
			k.Stages[once].Stores[1].Val = find(k, loopir.OpAcc)
		}, "both inside and outside"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := everything()
			tc.spoil(k)
			require.ErrorContains(t, loopir.Verify(k), tc.want)
		})
	}
}

func TestInterpretRefusesWrongCounts(t *testing.T) {
	k := everything()
	_, err := loopir.Interpret(k, make([]uint64, len(k.Params)-1), make([][]byte, len(k.Bufs)))
	require.ErrorContains(t, err, "5 parameters and 4 buffers, want 6 and 4")
}
