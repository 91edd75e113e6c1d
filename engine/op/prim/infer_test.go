package prim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/optest"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

const none = int64(0)

func spec(d ir.DType, shape ...int64) op.OutSpec { return op.OutSpec{DType: d, Shape: shape} }

// operands makes a tensor of each description.
func operands(specs []op.OutSpec) []op.Val {
	e := optest.New()
	var in []op.Val
	for _, s := range specs {
		in = append(in, tensor(e, s.DType, s.Shape...))
	}
	return in
}

// window is a window of three elements with stride 2 over five, padded by one.
var window = []int64{1, 3, 2, 1, 1, 1, 3}

func TestInferenceGivesTypesAndShapes(t *testing.T) {
	const f16, f32, f64, i32, i64, bools = ir.F16, ir.F32, ir.F64, ir.I32, ir.I64, ir.Bool
	for _, tc := range []struct {
		name string
		prim string
		attr []int64
		in   []op.OutSpec
		want []op.OutSpec
	}{
		{"bools add", "add", nil, []op.OutSpec{spec(bools, 2), spec(bools, 2)}, []op.OutSpec{spec(bools, 2)}},
		{"a comparison is bool", "compare", []int64{2}, []op.OutSpec{spec(i32, 2), spec(i32, 2)},
			[]op.OutSpec{spec(bools, 2)}},
		{"where has its branches' type", "where", nil, []op.OutSpec{spec(bools, 2), spec(f16, 2), spec(f16, 2)},
			[]op.OutSpec{spec(f16, 2)}},
		{"cast", "cast", []int64{int64(f16)}, []op.OutSpec{spec(bools, 2, 3)}, []op.OutSpec{spec(f16, 2, 3)}},
		{"exponents are floats", "special", []int64{int64(op.FnFrexpExponent)}, []op.OutSpec{spec(f64, 2)},
			[]op.OutSpec{spec(f64, 2)}},
		{"isnan", "isnan", nil, []op.OutSpec{spec(f16, 2)}, []op.OutSpec{spec(bools, 2)}},
		{"fill", "fill", []int64{int64(bools), none, 2, 3}, nil, []op.OutSpec{spec(bools, 2, 3)}},
		{"integers are drawn in any type", "random", []int64{int64(bools), none, 2, 4}, nil, []op.OutSpec{spec(bools, 4)}},
		{"sum over two dims", "sum", []int64{0, -1}, []op.OutSpec{spec(i64, 2, 3, 4)}, []op.OutSpec{spec(i64, 3)}},
		{"sum of an empty dim", "sum", []int64{1}, []op.OutSpec{spec(f32, 2, 0)}, []op.OutSpec{spec(f32, 2)}},
		{"any of an empty dim", "extremum", []int64{0, 1}, []op.OutSpec{spec(bools, 2, 0)}, []op.OutSpec{spec(bools, 2)}},
		{"argmax", "arg_extremum", []int64{0, 1}, []op.OutSpec{spec(f16, 2, 3)}, []op.OutSpec{spec(i64, 2)}},
		{"argmax of a number", "arg_extremum", []int64{0, 0}, []op.OutSpec{spec(f16)}, []op.OutSpec{spec(i64)}},
		{"max and index", "extremum_dim", []int64{0, 0}, []op.OutSpec{spec(f16, 2, 3)},
			[]op.OutSpec{spec(f16, 3), spec(i64, 3)}},
		{"variance and mean", "var", []int64{1}, []op.OutSpec{spec(f32, 2, 3)}, []op.OutSpec{spec(f32, 2), spec(f32, 2)}},
		{"the k greatest", "sort", []int64{2, -1, 1}, []op.OutSpec{spec(f32, 2, 3)},
			[]op.OutSpec{spec(f32, 2, 2), spec(i64, 2, 2)}},
		{"search", "search", []int64{0}, []op.OutSpec{spec(f32, 2, 9), spec(f32, 2, 4)}, []op.OutSpec{spec(i64, 2, 4)}},
		{"gather has the index's shape", "gather", []int64{1}, []op.OutSpec{spec(f32, 2, 3), spec(i64, 1, 7)},
			[]op.OutSpec{spec(f32, 1, 7)}},
		{"index_select", "index_select", []int64{1}, []op.OutSpec{spec(f32, 2, 3), spec(i32, 7)},
			[]op.OutSpec{spec(f32, 2, 7)}},
		{"cat", "cat", []int64{-1}, []op.OutSpec{spec(f32, 2, 3), spec(f32, 2, 1)}, []op.OutSpec{spec(f32, 2, 4)}},
		{"a batch of products", "matmul", []int64{0}, []op.OutSpec{spec(f16, 5, 2, 3), spec(f16, 5, 3, 4)},
			[]op.OutSpec{spec(f16, 5, 2, 4)}},
		{"conv in groups", "conv", append(window, 2), []op.OutSpec{spec(f32, 8, 4, 5), spec(f32, 6, 2, 3)},
			[]op.OutSpec{spec(f32, 8, 6, 3)}},
		{"conv_weight_grad", "conv_weight_grad", append(window, 2), []op.OutSpec{spec(f32, 8, 4, 5), spec(f32, 8, 6, 3)},
			[]op.OutSpec{spec(f32, 6, 2, 3)}},
		{"window_max", "window_max", window, []op.OutSpec{spec(f16, 2, 5)}, []op.OutSpec{spec(f16, 2, 3), spec(i64, 2, 3)}},
		{"statistics of halves are float32", "batch_norm", []int64{0, 0}, []op.OutSpec{spec(f16, 2, 3, 4)},
			[]op.OutSpec{spec(f16, 2, 3, 4), spec(f32, 3), spec(f32, 3), spec(f32, 3)}},
		{"cross_entropy", "cross_entropy", []int64{1, -100}, []op.OutSpec{spec(f16, 2, 3), spec(i64, 2)},
			[]op.OutSpec{spec(f16, 2), spec(f16, 2), spec(f32, 2), spec(f32, 2)}},
		{"lu_factor", "lu_factor", []int64{0, 0}, []op.OutSpec{spec(f64, 5, 2, 3)},
			[]op.OutSpec{spec(f64, 5, 2, 3), spec(i32, 5, 2), spec(i32, 5)}},
		{"qr", "qr", []int64{0, 0}, []op.OutSpec{spec(f64, 4, 3)}, []op.OutSpec{spec(f64, 4, 3), spec(f64, 3, 3)}},
		{"full qr", "qr", []int64{1, 0}, []op.OutSpec{spec(f64, 4, 3)}, []op.OutSpec{spec(f64, 4, 4), spec(f64, 4, 3)}},
		{"svd", "svd", []int64{0, 0}, []op.OutSpec{spec(f32, 4, 3)},
			[]op.OutSpec{spec(f32, 4, 3), spec(f32, 3), spec(f32, 3, 3)}},
		{"adam with a maximum", "adam_step", []int64{0, 1, 0, 0},
			[]op.OutSpec{spec(f32, 2), spec(f16, 2), spec(f32, 2), spec(f32, 2), spec(f32, 2)},
			[]op.OutSpec{spec(f32, 2), spec(f32, 2), spec(f32, 2), spec(f32, 2)}},
		{"recurrence that keeps nothing", "recurrence", []int64{int64(op.GRU), 0, 0, 0},
			[]op.OutSpec{spec(f32, 7, 2, 12), spec(f32, 12, 4), spec(f32, 2, 4)}, []op.OutSpec{spec(f32, 7, 2, 4)}},
		{"lstm that keeps for its gradient", "recurrence", []int64{int64(op.LSTM), 0, 0, 1},
			[]op.OutSpec{spec(f32, 7, 2, 16), spec(f32, 16, 4), spec(f32, 2, 4), spec(f32, 2, 4)},
			[]op.OutSpec{spec(f32, 7, 2, 4), spec(f32, 8, 2, 4), spec(f32, 7, 5, 2, 4), spec(f32, 8, 2, 4), spec(f32, 2, 4)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := op.FindPrim(tc.prim).Infer(operands(tc.in), tc.attr, nil)
			require.NoError(t, err)
			require.Len(t, got, len(tc.want))
			for i, w := range tc.want {
				require.Equal(t, w.DType, got[i].DType, "result %d", i)
				require.Equal(t, append([]int64{}, w.Shape...), append([]int64{}, got[i].Shape...), "result %d", i)
			}
		})
	}
}

func TestInferenceRefusesWhatDoesNotFit(t *testing.T) {
	const f16, f32, f64, i64, bools = ir.F16, ir.F32, ir.F64, ir.I64, ir.Bool
	far := append([]int64{1, 1 << 41, 1, 0, 1, 1, 3}, 1)
	for _, tc := range []struct {
		prim string
		attr []int64
		in   []op.OutSpec
		code ir.Code
		want string
	}{
		{"add", nil, []op.OutSpec{spec(f32, 2), spec(f64, 2)}, ir.ErrRuntime, "same dtype: got float32 and float64"},
		{"mul", nil, []op.OutSpec{spec(f32, 2), spec(f32, 3)}, ir.ErrRuntime, "must have one shape: got [2] and [3]"},
		{"sub", nil, []op.OutSpec{spec(bools, 2), spec(bools, 2)},
			ir.ErrNotImplemented, "\"sub\" not implemented for 'Bool'"},
		{"bitwise", []int64{1}, []op.OutSpec{spec(f32, 2), spec(f32, 2)},
			ir.ErrNotImplemented, "\"bitwise_or\" not implemented for 'Float'"},
		{"exp", nil, []op.OutSpec{spec(i64, 2)}, ir.ErrNotImplemented, "\"exp\" not implemented for 'Long'"},
		{"gelu", []int64{0}, []op.OutSpec{spec(i64, 2)}, ir.ErrNotImplemented, "'Long'"},
		{"dropout", nil, []op.OutSpec{spec(i64, 2)}, ir.ErrNotImplemented, "'Long'"},
		{"where", nil, []op.OutSpec{spec(bools, 3), spec(f32, 2), spec(f32, 2)},
			ir.ErrRuntime, "must have one shape: got [3] and [2]"},
		{"cast", []int64{99}, []op.OutSpec{spec(f32, 2)}, ir.ErrType, "unknown dtype 99"},
		{"fill", []int64{int64(f32), none, 2, -3}, nil, ir.ErrRuntime, "negative dimension -3: [2, -3]"},
		{"iota", []int64{int64(bools), none, 2}, nil, ir.ErrNotImplemented, "\"arange\" not implemented for 'Bool'"},
		{"random", []int64{int64(i64), none, 1, 2}, nil, ir.ErrNotImplemented, "\"rand_normal\" not implemented for 'Long'"},
		{"sum", []int64{0}, []op.OutSpec{spec(bools, 2)}, ir.ErrNotImplemented, "\"sum\" not implemented for 'Bool'"},
		{"var", []int64{0}, []op.OutSpec{spec(i64, 2)}, ir.ErrNotImplemented, "\"var\" not implemented for 'Long'"},
		{"scan", []int64{3, 0}, []op.OutSpec{spec(f32, 2)}, ir.ErrIndex, "but got 3"},
		{"scan", []int64{0, 4}, []op.OutSpec{spec(i64, 2)},
			ir.ErrNotImplemented, "\"logcumsumexp\" not implemented for 'Long'"},
		{"sort", []int64{4, 1, 0}, []op.OutSpec{spec(f32, 2, 3)}, ir.ErrRuntime, "selected index k out of range"},
		{"search", []int64{0}, []op.OutSpec{spec(f32, 2, 9), spec(f32, 3, 4)}, ir.ErrInternal, "BUG: search"},
		{"gather", []int64{0}, []op.OutSpec{spec(f32, 0), spec(i64, 1)}, ir.ErrRuntime, "dimension 0 has size 0"},
		{"index_select", []int64{0}, []op.OutSpec{spec(f32, 2), spec(f32, 1)}, ir.ErrRuntime, "int32 or int64 for index"},
		{"scatter", []int64{0, 0}, []op.OutSpec{spec(f32, 2), spec(f32, 1), spec(f32, 1)},
			ir.ErrRuntime, "int32/int64 for index"},
		{"cat", []int64{0}, nil, ir.ErrValue, "expected a non-empty list of Tensors"},
		{"cat", []int64{0}, []op.OutSpec{spec(f32, 2), spec(f64, 2)}, ir.ErrRuntime, "one dtype: got float32 and float64"},
		{"matmul", []int64{0}, []op.OutSpec{spec(f32, 2, 2, 3), spec(f32, 1, 3, 4)}, ir.ErrRuntime, "equal batch dims"},
		{"matmul", []int64{1}, []op.OutSpec{spec(f32, 2, 3), spec(f32, 3, 4), spec(f32, 3)},
			ir.ErrRuntime, "bias must have shape [4]"},
		{"conv", append(window, 1), []op.OutSpec{spec(f32, 8, 4, 5), spec(f16, 6, 4, 3)}, ir.ErrRuntime,
			"Input type (float) and weight type (c10::Half) should be the same"},
		{"conv", append(window, 2), []op.OutSpec{spec(f32, 8, 4, 5), spec(f32, 6, 4, 3)}, ir.ErrRuntime, "shapes do not fit"},
		{"conv", append(window, 4), []op.OutSpec{spec(f32, 8, 4, 5), spec(f32, 6, 1, 3)}, ir.ErrRuntime, "4 groups"},
		{"conv", append(window, 1), []op.OutSpec{spec(bools, 8, 4, 5), spec(bools, 6, 4, 3)}, ir.ErrNotImplemented, "'Bool'"},
		{"conv", far, []op.OutSpec{spec(f32, 8, 4, 5), spec(f32, 6, 4, 3)}, ir.ErrRuntime, "integer out of range"},
		{"conv_weight_grad", append(window, 1), []op.OutSpec{spec(f32, 8, 4, 5), spec(f32, 8, 6, 4)},
			ir.ErrRuntime, "do not fit"},
		{"window_sum", far[:7], []op.OutSpec{spec(f32, 5)}, ir.ErrRuntime, "integer out of range"},
		{"window_max", window, []op.OutSpec{spec(bools, 5)}, ir.ErrNotImplemented, "\"pool\" not implemented for 'Bool'"},
		{"batch_norm", []int64{0, 0}, []op.OutSpec{spec(f32, 4)}, ir.ErrRuntime, "got 1 dims, want at least 2"},
		{"batch_norm", []int64{1, 0}, []op.OutSpec{spec(f32, 2, 3), spec(f32, 2)}, ir.ErrRuntime, "got shape [2], want [3]"},
		{"batch_norm", []int64{0, 0}, []op.OutSpec{spec(i64, 2, 3)}, ir.ErrNotImplemented, "'Long'"},
		{"cross_entropy", []int64{1, -100}, []op.OutSpec{spec(f32, 2, 3), spec(i64, 3)}, ir.ErrRuntime, "got [3], want [2]"},
		{"cholesky", []int64{0, 0}, []op.OutSpec{spec(f16, 2, 2)},
			ir.ErrNotImplemented, "\"cholesky_cpu\" not implemented for 'Half'"},
		{"svd", []int64{0, 0}, []op.OutSpec{spec(f32, 2)}, ir.ErrRuntime, "must have at least 2 dimensions"},
		{"sgd_step", []int64{0, 0, 0, 0}, []op.OutSpec{spec(f32, 2), spec(f32, 3)}, ir.ErrRuntime, "got [3], want [2]"},
		{"adam_step", []int64{0, 0, 0, 0}, []op.OutSpec{spec(i64, 2), spec(i64, 2), spec(i64, 2), spec(i64, 2)},
			ir.ErrNotImplemented, "\"adam_step\" not implemented for 'Long'"},
		{"recurrence", []int64{int64(op.LSTM), 0, 0, 0}, []op.OutSpec{spec(f32, 7, 2, 15)}, ir.ErrRuntime, "4 * hidden]"},
		{"recurrence", []int64{int64(op.GRU), 0, 0, 0},
			[]op.OutSpec{spec(f32, 7, 2, 12), spec(f32, 12, 3), spec(f32, 2, 4)}, ir.ErrRuntime, "of shape [12, 4]"},
		{"strided_scatter", []int64{int64(ir.DenseLayout([]int64{2}).ID)}, []op.OutSpec{spec(f32, 4), spec(f32, 3)},
			ir.ErrRuntime, "got [3], want [2]"},
	} {
		t.Run(tc.prim+" "+tc.want, func(t *testing.T) {
			_, err := op.FindPrim(tc.prim).Infer(operands(tc.in), tc.attr, nil)
			var e *ir.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, tc.code, e.Code, "%v", err)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// What a kernel found is an error of the call that made it, in PyTorch's words.
func TestFactorisationsNameTheirFailure(t *testing.T) {
	p := op.FindPrim("cholesky")
	require.True(t, p.MayFail())
	seen := map[string]bool{}
	for call := int64(prim.FailCholesky); call <= int64(prim.FailPivots); call++ {
		one, batch := p.DataError([]int64{0, 2 * call}, 3), p.DataError([]int64{0, 2*call + 1}, 5<<32|3)
		require.NotContains(t, one.Msg, "Batch element")
		require.Contains(t, batch.Msg, "(Batch element 5): ")
		require.NotContains(t, one.Msg, "%!", "every text has its numbers")
		require.Equal(t, one.Code, batch.Code)
		seen[one.Msg] = true
	}
	for call, want := range map[prim.Failure]string{
		prim.FailCholesky: "linalg.cholesky: The factorization could not be completed because the input is not " +
			"positive-definite (the leading minor of order 3 is not positive-definite).",
		prim.FailTensorInv: "inv: The diagonal element 3 is zero, the inversion could not be completed because the input " +
			"matrix is singular.",
	} {
		require.Equal(t, want, p.DataError([]int64{0, 2 * int64(call)}, 3).Msg)
	}
	require.Len(t, seen, int(prim.FailPivots), "each call has its text")
}
