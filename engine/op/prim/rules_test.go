package prim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/optest"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// TestTable checks each entry for what the engine relies on.
func TestTable(t *testing.T) {
	for _, p := range op.Prims() {
		require.NotEmpty(t, p.Doc, p.Name)
		require.True(t, p.NIn == -1 || p.NIn > 0, p.Name)
		require.True(t, (p.VJP == nil) == (p.NoVJP != ""), p.Name)
		if p.VJP == nil {
			require.Zero(t, p.SaveIn|p.SaveOut, "%s saves for a rule it does not have", p.Name)
		}
		if p.SaveFor != nil {
			for mask := range 4 {
				got := p.SaveFor([]bool{mask&1 != 0, mask&2 != 0, false})
				require.Zero(t, got&^p.SaveIn, "%s saves more than SaveIn", p.Name)
			}
		}
	}
	t.Logf("%d primitives", len(op.Prims()))
}

func tensor(e *optest.Eager, d ir.DType, shape ...int64) op.Val {
	return e.Tensor(d, shape, make([]float64, ir.Numel(shape))...)
}

// TestErrors: texts and classes are those that PyTorch raises for the same mistake.
func TestErrors(t *testing.T) {
	e := optest.New()
	x := tensor(e, ir.F32, 2, 3)
	long := func(shape ...int64) op.Val { return tensor(e, ir.I64, shape...) }
	cases := []struct {
		code ir.Code
		msg  string
		f    func()
	}{
		{ir.ErrRuntime, "permute(): duplicate dims are not allowed.", func() { prim.Permute(e, x, []int64{0, 0}) }},
		{ir.ErrRuntime, "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the " +
			"desired ordering of dimensions i.e. input.dim() = 2 is not equal to len(dims) = 1",
			func() { prim.Permute(e, x, []int64{0}) }},
		{ir.ErrRuntime,
			"The expanded size of the tensor (4) must match the existing size (3) at non-singleton dimension 1. " +
				" Target sizes: [2, 4].  Tensor sizes: [2, 3]",
			func() { prim.Expand(e, x, []int64{2, 4}) }},
		{ir.ErrRuntime, "expand(torch.FloatTensor{[2, 3]}, size=[3]): the number of sizes provided (1) must be greater or " +
			"equal to the number of dimensions in the tensor (2)",
			func() { prim.Expand(e, x, []int64{3}) }},
		{ir.ErrRuntime, "shape '[4, 4]' is invalid for input of size 6", func() { prim.Reshape(e, x, []int64{4, 4}) }},
		{ir.ErrIndex, "select(): index 5 out of range for tensor of size [2, 3] at dimension 1",
			func() { prim.Select(e, x, 1, 5) }},
		{ir.ErrIndex, "select() cannot be applied to a 0-dim tensor.", func() { prim.Select(e, tensor(e, ir.F32), 0, 0) }},
		{ir.ErrIndex, "Dimension out of range (expected to be in range of [-2, 1], but got 5)",
			func() { prim.Sum(e, x, []int64{5}) }},
		{ir.ErrIndex, "Dimension out of range (expected to be in range of [-2, 1], but got -3)",
			func() { prim.Softmax(e, x, -3) }},
		{ir.ErrRuntime, "dim 0 appears multiple times in the list of dims", func() { prim.Sum(e, x, []int64{0, -2}) }},
		{ir.ErrIndex, "amax(): Expected reduction dim 0 to have non-zero size.",
			func() { prim.Amax(e, tensor(e, ir.F32, 0), []int64{0}) }},
		{ir.ErrIndex, "argmax(): Expected reduction dim 0 to have non-zero size.",
			func() { prim.ArgMax(e, tensor(e, ir.F32, 0), 0) }},
		{ir.ErrIndex, "max(): Expected reduction dim 0 to have non-zero size.",
			func() { prim.MaxDim(e, tensor(e, ir.F32, 0, 3), 0) }},
		{ir.ErrRuntime, "selected index k out of range", func() { prim.Topk(e, x, 5, -1, true) }},
		{ir.ErrRuntime, "Size does not match at dimension 0 expected index [3, 2] to be no larger than self [2, 3] apart " +
			"from dimension 1", func() { prim.Gather(e, x, long(3, 2), 1) }},
		{ir.ErrRuntime, "Index tensor must have the same number of dimensions as input tensor",
			func() { prim.Gather(e, x, long(2), 1) }},
		{ir.ErrRuntime, "gather(): Expected dtype int32/int64 for index", func() { prim.Gather(e, x, x, 1) }},
		{ir.ErrIndex, "index_select(): Index is supposed to be a vector", func() { prim.IndexSelect(e, x, long(1, 1), 0) }},
		{ir.ErrRuntime,
			"Expected index [5, 9] to be no larger than self [2, 3] apart from dimension 0 and to have the size " +
				"of src [2, 3]", func() { prim.ScatterAdd(e, x, long(5, 9), x, 0) }},
		{ir.ErrRuntime, "scatter(): Expected self.dtype to be equal to src.dtype",
			func() { prim.Scatter(e, x, long(1, 1), tensor(e, ir.F64, 2, 3), 0) }},
		{ir.ErrRuntime,
			"Expected index [2, 4] to be no larger than self [2, 3] apart from dimension 0 and to have the size " +
				"of src [2, 4]",
			func() { prim.IndexAdd(e, x, long(2), tensor(e, ir.F32, 2, 4), 0) }},
		{ir.ErrRuntime, "Tensors must have same number of dimensions: got 2 and 1",
			func() { prim.Cat(e, []op.Val{x, tensor(e, ir.F32, 2)}, 0) }},
		{ir.ErrRuntime, "Sizes of tensors must match except in dimension 0. Expected size 3 but got size 4 for tensor " +
			"number 1 in the list.",
			func() { prim.Cat(e, []op.Val{x, tensor(e, ir.F32, 3, 4)}, 0) }},
		{ir.ErrRuntime, "zero-dimensional tensor (at position 0) cannot be concatenated",
			func() { prim.Cat(e, []op.Val{tensor(e, ir.F32)}, 0) }},
		{ir.ErrRuntime, "expected m1 and m2 to have the same dtype, but got: float != double",
			func() { prim.Matmul(e, x, tensor(e, ir.F64, 3, 2), op.Val{}) }},
		{ir.ErrNotImplemented, "\"addmm_impl_cpu_\" not implemented for 'Bool'",
			func() { m := tensor(e, ir.Bool, 2, 2); prim.Matmul(e, m, m, op.Val{}) }},
		{ir.ErrRuntime, "tril: input tensor must have at least 2 dimensions",
			func() { prim.Tri(e, tensor(e, ir.F32, 3), 0, false) }},
		{ir.ErrRuntime, "setStorage: sizes [5, 5], strides [5, 1], storage offset 0, and itemsize 4 requiring a storage " +
			"size of 100 are out of bounds for storage of size 24",
			func() { prim.AsStrided(e, x, []int64{5, 5}, []int64{5, 1}, 0) }},
		{ir.ErrRuntime, "where expected condition to be a boolean tensor, but got a tensor with dtype Float",
			func() { prim.Where(e, x, x, x) }},
		{ir.ErrNotImplemented, "\"softmax\" not implemented for 'Long'", func() { prim.Softmax(e, long(2), 0) }},
		{ir.ErrRuntime, "Expected weight to be of same shape as normalized_shape, but got weight of shape [2] and " +
			"normalized_shape = [3]",
			func() { prim.LayerNorm(e, x, tensor(e, ir.F32, 2), op.Val{}, op.FloatVal(1), 1) }},
		{ir.ErrRuntime, "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0",
			func() { ir.BroadcastShape([]int64{2}, []int64{3}) }},
	}
	for _, c := range cases {
		got := func() (err *ir.Error) {
			defer func() { err, _ = recover().(*ir.Error) }()
			c.f()
			return nil
		}()
		require.NotNil(t, got, c.msg)
		require.Equal(t, c.msg, got.Msg)
		require.Equal(t, c.code, got.Code, c.msg)
	}
}

func TestViewsShareStorage(t *testing.T) {
	e := optest.New()
	x := e.Tensor(ir.F32, []int64{2, 3}, 0, 1, 2, 3, 4, 5)
	cases := []struct {
		name  string
		v     op.Val
		shape []int64
		want  []float64
	}{
		{"transpose", prim.Transpose(e, x, 0, -1), []int64{3, 2}, []float64{0, 3, 1, 4, 2, 5}},
		{"select", prim.Select(e, x, -1, -2), []int64{2}, []float64{1, 4}},
		{"slice", prim.Slice(e, x, 1, -2, 100, 1), []int64{2, 2}, []float64{1, 2, 4, 5}},
		{"stepped slice", prim.Slice(e, x, 1, 0, 3, 2), []int64{2, 2}, []float64{0, 2, 3, 5}},
		{"empty slice", prim.Slice(e, x, 0, 2, 1, 1), []int64{0, 3}, nil},
		{"unsqueeze", prim.Unsqueeze(e, x, -1), []int64{2, 3, 1}, []float64{0, 1, 2, 3, 4, 5}},
		{"squeeze", prim.Squeeze(e, prim.Slice(e, x, 0, 1, 2, 1), []int64{0, 1}), []int64{3}, []float64{3, 4, 5}},
		{"expand", prim.Expand(e, prim.Slice(e, x, 1, 1, 2, 1), []int64{2, 2}), []int64{2, 2}, []float64{1, 1, 4, 4}},
		{"reshape", prim.Reshape(e, x, []int64{3, 1, 2}), []int64{3, 1, 2}, []float64{0, 1, 2, 3, 4, 5}},
		{"as_strided", prim.AsStrided(e, x, []int64{2, 2}, []int64{1, 1}, 2), []int64{2, 2}, []float64{2, 3, 3, 4}},
	}
	for _, c := range cases {
		require.Equal(t, x.Value, c.v.Value, "%s copies", c.name)
		require.Equal(t, c.shape, c.v.Shape(), c.name)
		require.Equal(t, c.want, append([]float64(nil), e.Floats(c.v)...), c.name)
	}
	y := prim.Transpose(e, x, 0, 1)
	require.False(t, prim.CanView(y, []int64{6}))
	flat := prim.Reshape(e, y, []int64{6})
	require.NotEqual(t, x.Value, flat.Value)
	require.Equal(t, []float64{0, 3, 1, 4, 2, 5}, e.Floats(flat))
	require.Equal(t, x, prim.Contiguous(e, x))
	a, b := prim.Broadcast(e, x, e.Tensor(ir.F32, []int64{4, 1, 1}, 1, 2, 3, 4))
	require.Equal(t, a.Shape(), b.Shape())
	require.Equal(t, []int64{4, 2, 3}, a.Shape())
}
