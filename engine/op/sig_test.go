package op_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
	_ "github.com/torchlette/torchlette/engine/op/composite" // registers the operators
	"github.com/torchlette/torchlette/ir"
)

func TestSignaturesParse(t *testing.T) {
	for _, tc := range []struct {
		sig  string
		want op.Sig
	}{
		{"f() -> Tensor", op.Sig{Full: "f", Name: "f", Results: []op.Result{{}}}},
		{"max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", op.Sig{
			Full: "max.dim", Name: "max", Params: []op.Param{{Name: "self", Type: "Tensor"}, {Name: "dim", Type: "int"},
				{Name: "keepdim", Type: "bool", Default: "False"}},
			Results: []op.Result{{Name: "values"}, {Name: "indices"}}}},
		{"split(Tensor self, int[] sizes) -> Tensor[]", op.Sig{Full: "split", Name: "split",
			Params:  []op.Param{{Name: "self", Type: "Tensor"}, {Name: "sizes", Type: "int", List: true}},
			Results: []op.Result{{List: true}}}},
		{"g(Tensor[] xs, Operand y, int[]* size, *, float? p=None, int[]? dim=None, device? device=None) -> Tensor", op.Sig{
			Full: "g", Name: "g", Params: []op.Param{{Name: "xs", Type: "Tensor", List: true}, {Name: "y", Type: "Operand"},
				{Name: "size", Type: "int", List: true, Spread: true},
				{Name: "p", Type: "float", Opt: true, Default: "None", KwOnly: true},
				{Name: "dim", Type: "int", List: true, Opt: true, Default: "None", KwOnly: true},
				{Name: "device", Type: "device", Opt: true, Default: "None", KwOnly: true}},
			Results: []op.Result{{}}}},
		// Commas and bars within brackets and defaults separate nothing.
		{"h(int[] stride=(1, 1), str(mean|sum|none) how=mean, str(a|b)? way=None) -> Tensor", op.Sig{Full: "h", Name: "h",
			Params: []op.Param{{Name: "stride", Type: "int", List: true, Default: "(1, 1)"},
				{Name: "how", Type: "str", Words: []string{"mean", "sum", "none"}, Default: "mean"},
				{Name: "way", Type: "str", Words: []string{"a", "b"}, Opt: true, Default: "None"}},
			Results: []op.Result{{}}}},
	} {
		got, err := op.ParseSig(tc.sig)
		require.NoError(t, err, tc.sig)
		assert.Equal(t, tc.want, *got, tc.sig)
	}
	full, err := op.ParseSig("zeros(int[]* size, *, bool requires_grad=False) -> Tensor")
	require.NoError(t, err)
	assert.Equal(t, 1, full.RequiresGrad())
	assert.Equal(t, -1, op.DefNamed("add").Parsed.RequiresGrad())
}

func TestMalformedSignaturesAreRefused(t *testing.T) {
	for sig, want := range map[string]string{
		"f(Tensor self)":              "no result",
		"f Tensor self) -> Tensor":    "no parameter list",
		"f(Tensor) -> Tensor":         "parameter \"Tensor\"",
		"f(Tensr self) -> Tensor":     "unknown type \"Tensr\"",
		"f(Tensor? self) -> int":      "result type int",
		"f(Tensor self) -> (Tensor?)": "result type Tensor?",
	} {
		_, err := op.ParseSig(sig)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, sig)
	}
}

// The call is read in the order of the parameters, each kind from its own list.
func TestArgumentsAreReadInTheOrderOfParameters(t *testing.T) {
	number := op.FloatVal(2.5)
	a := &op.Args{In: []op.Val{{Kind: op.Tensor, Value: 7}, {}, {Kind: op.Tensor, Value: 8}, {Kind: op.Tensor, Value: 9}},
		Ints:    []int64{2, 4, 1, -5, 0, 0, 1, 1, 1, 3, 10, 20, 30, -1, int64(ir.F64), 2, -1},
		Scalars: []op.Val{number, {}, op.IntVal(3)}}
	for range 2 {
		assert.EqualValues(t, 7, a.Val().Value)
		assert.Equal(t, op.None, a.Val().Kind)
		assert.Len(t, a.Vals(), 2)
		assert.EqualValues(t, 4, a.Int())
		i, given := a.OptInt()
		assert.Equal(t, []any{int64(-5), true}, []any{i, given})
		_, given = a.OptInt()
		assert.False(t, given)
		assert.True(t, a.Bool())
		v, given := a.OptBool()
		assert.True(t, v && given)
		list, given := a.IntList()
		assert.Equal(t, []any{[]int64{10, 20, 30}, true}, []any{list, given})
		_, given = a.IntList()
		assert.False(t, given)
		assert.Equal(t, ir.F64, a.DType())
		d, given := a.Device()
		assert.Equal(t, []any{ir.DeviceID(2), true}, []any{d, given})
		_, given = a.Device()
		assert.False(t, given)
		assert.Equal(t, number, a.Scalar())
		assert.Equal(t, op.None, a.Scalar().Kind)
		assert.InDelta(t, 3, a.Float(), 0)
		a.Reset()
	}
}

// A number among operands has PyTorch's type for its kind, and keeps its value.
func TestNumbersHaveTheTypeOfTheirKind(t *testing.T) {
	for _, tc := range []struct {
		v     op.Val
		dtype ir.DType
		value float64
	}{
		{op.BoolVal(true), ir.Bool, 1}, {op.BoolVal(false), ir.Bool, 0}, {op.IntVal(-1 << 53), ir.I64, -1 << 53},
		{op.FloatVal(-0.1), ir.F32, -0.1}, {op.Val{}, ir.InvalidDType, 0},
	} {
		assert.Equal(t, tc.dtype, tc.v.DType())
		assert.InDelta(t, tc.value, tc.v.Float(), 0)
		assert.Equal(t, tc.v.Kind != op.None, tc.v.IsScalar())
		assert.False(t, tc.v.IsTensor())
		assert.Nil(t, tc.v.Shape())
	}
}

// A cached trace serves calls of one key, so whatever a rule may see of an operand is in it.
func TestKeysHoldWhatARuleSeesOfAnOperand(t *testing.T) {
	l := ir.DenseLayout([]int64{2, 3})
	aval := func(d ir.DType, dev ir.DeviceID) ir.AvalID { return ir.InternAval(d, dev, l).ID }
	plain := op.Val{Kind: op.Tensor, Value: 5, Layout: l.ID, Aval: aval(ir.F32, 0)}
	key := func(v op.Val, opaque bool) string { return fmt.Sprint(op.AppendOperand(nil, &v, opaque)) }
	seen := map[string]string{key(plain, false): "plain"}
	for name, change := range map[string]func(v *op.Val){
		"layout":      func(v *op.Val) { v.Layout = ir.DenseLayout([]int64{6}).ID },
		"offset":      func(v *op.Val) { v.Offset = 1 },
		"dtype":       func(v *op.Val) { v.Aval = aval(ir.F64, 0) },
		"device":      func(v *op.Val) { v.Aval = aval(ir.F32, 1) },
		"tape":        func(v *op.Val) { v.Tape = 3 },
		"base":        func(v *op.Val) { v.Base = 3 },
		"detached":    func(v *op.Val) { v.Detached = true },
		"overwritten": func(v *op.Val) { v.Overwritten = true },
		"no value":    func(v *op.Val) { v.Value = 0 },
		"an int":      func(v *op.Val) { *v = op.IntVal(1) },
		"another int": func(v *op.Val) { *v = op.IntVal(2) },
		"a bool":      func(v *op.Val) { *v = op.BoolVal(true) },
		"a float":     func(v *op.Val) { *v = op.FloatVal(1) },
		"nothing":     func(v *op.Val) { *v = op.Val{} },
	} {
		v := plain
		change(&v)
		require.NotContains(t, seen, key(v, false), "%s and %s", name, seen[key(v, false)])
		seen[key(v, false)] = name
	}
	same := plain
	same.Value, same.CaptureReg = 99, 4
	assert.Equal(t, key(plain, false), key(same, false), "which value it is, is none of it")
	assert.Equal(t, key(op.IntVal(1), true), key(op.IntVal(2), true), "opaque numbers are alike")
	assert.NotEqual(t, key(op.IntVal(1), true), key(op.FloatVal(1), true))
}

// Adjoint windows collect what each input element gave: position o reads input i at window element k exactly if the
// adjoint's position i reads output o at element K-1-k.
func TestAdjointWindowsReadBackWhatWasRead(t *testing.T) {
	type read struct{ out, k, in int64 }
	reads := func(w op.Windows, in int64) (list []read) {
		for o := range w.Out[0] {
			for k := range w.Kernel[0] {
				at := o*w.Stride[0] + k*w.Dilation[0] - w.Lo[0]
				if at%w.Base[0] == 0 && at >= 0 && at/w.Base[0] < in {
					list = append(list, read{o, k, at / w.Base[0]})
				}
			}
		}
		return list
	}
	for _, tc := range []struct{ in, kernel, stride, lo, dilation, base, out int64 }{
		{7, 3, 1, 0, 1, 1, 5}, {7, 3, 2, 1, 1, 1, 4}, {9, 2, 1, 2, 3, 1, 10}, {5, 3, 1, 1, 1, 2, 9}, {6, 2, 2, -1, 1, 1, 2},
	} {
		one := func(v int64) []int64 { return []int64{v} }
		w := op.Windows{Kernel: one(tc.kernel), Stride: one(tc.stride), Lo: one(tc.lo), Dilation: one(tc.dilation),
			Base: one(tc.base), Out: one(tc.out)}
		var want []read
		for _, r := range reads(w, tc.in) {
			want = append(want, read{r.in, tc.kernel - 1 - r.k, r.out})
		}
		require.ElementsMatch(t, want, reads(w.Adjoint(one(tc.in)), tc.out), "%+v", tc)
		again, rest := op.WindowsOf(append(w.Attr(), 42))
		require.Equal(t, w, again)
		require.Equal(t, []int64{42}, rest)
	}
}

func TestWindowsThatReachTooFarAreSeen(t *testing.T) {
	near := func() op.Windows {
		return op.Windows{Kernel: []int64{3}, Stride: []int64{1}, Lo: []int64{0}, Dilation: []int64{1}, Base: []int64{1},
			Out: []int64{5}}
	}
	w := near()
	require.False(t, w.Far())
	for i := range w.Lists() {
		w = near()
		(*w.Lists()[i])[0] = 1<<40 + 1
		require.True(t, w.Far(), "list %d", i)
	}
	w = near()
	w.Kernel[0], w.Dilation[0] = 1<<21, 1<<20
	require.True(t, w.Far(), "their product")
	w = near()
	w.Lo[0] = -1<<40 - 1
	require.True(t, w.Far())
}

func TestNamesOfAutogradFunctions(t *testing.T) {
	for name, want := range map[string]string{
		"exp": "ExpBackward0", "log_softmax": "LogSoftmaxBackward0", "atan2": "Atan2Backward0", "log1p": "Log1PBackward0",
		"_softmax": "SoftmaxBackward0", "grid_sampler_2d": "GridSampler2DBackward0",
	} {
		assert.Equal(t, want, op.GradFnName(name))
	}
	names, ok := op.SavedNames("MaxBackward0")
	assert.True(t, ok)
	assert.Equal(t, "self|values indices", names)
	_, ok = op.SavedNames("AddBackward0")
	assert.False(t, ok)
}

func TestFunctionsHaveANameAndAnArity(t *testing.T) {
	seen := map[string]bool{}
	for f := range op.NumFns {
		require.NotEmpty(t, f.String())
		require.False(t, seen[f.String()], f.String())
		seen[f.String()] = true
	}
	require.Len(t, op.FnNames(), int(op.NumFns))
	assert.Equal(t, 1, op.FnTan.Arity())
	assert.Equal(t, 2, op.FnAtan2.Arity())
	assert.Equal(t, "zeta", op.FnZeta.String())
	for r, name := range op.RecurrenceNames {
		assert.Equal(t, name[:3] == "rnn", op.Recurrence(r).Plain(), name)
		assert.Equal(t, op.Recurrence(r).Plain(), op.Recurrence(r).Gates() == 1, name)
		assert.GreaterOrEqual(t, op.Recurrence(r).Kept(), op.Recurrence(r).Gates(), name)
	}
}

func TestTablesAreNumberedFromOne(t *testing.T) {
	for i, d := range op.Defs() {
		require.EqualValues(t, i+1, d.ID)
		require.Same(t, d, op.DefOf(d.ID))
		require.Same(t, d, op.DefNamed(d.Parsed.Full))
	}
	require.Nil(t, op.DefOf(0))
	require.Nil(t, op.DefOf(op.OpID(len(op.Defs())+1)))
	require.Panics(t, func() { op.DefNamed("no_such_operator") })
	for i, p := range op.Prims() {
		require.EqualValues(t, i+1, p.ID)
		require.Same(t, p, op.PrimOf(p.ID))
		require.Same(t, p, op.PrimNamed(p.Name))
		require.Same(t, p, op.PrimAt(uint16(p.ID)))
	}
	require.Nil(t, op.PrimAt(ir.OpProj))
	require.Nil(t, op.FindPrim("no_such_primitive"))
	require.Panics(t, func() { op.PrimNamed("no_such_primitive") })
	require.Equal(t, "amin", op.FindPrim("extremum").NameFor([]int64{1, 0}))
	require.Equal(t, "sum", op.FindPrim("sum").NameFor(nil))
}
