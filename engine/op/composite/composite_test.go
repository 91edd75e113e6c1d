package composite

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/optest"
	samplelang "github.com/torchlette/torchlette/engine/op/samples"
	"github.com/torchlette/torchlette/ir"
)

func TestEntriesAreComplete(t *testing.T) {
	names := map[string]bool{}
	// These take a level of forward mode, which a session opens, complex numbers, or packed words: tests in Python call
	// them.
	unsampled := map[string]bool{"_make_dual": true, "_tangent": true, "_primal": true, "_untaped": true, "imag": true,
		"view_as_real": true, "linalg_eig": true, "linalg_eigvals": true, "_quantized_linear": true}
	for _, d := range op.Defs() {
		names[d.Parsed.Name] = true
		assert.NotEmpty(t, d.Doc, d.Parsed.Full)
		assert.NotEqual(t, unsampled[d.Parsed.Name], len(d.Samples) > 0, d.Parsed.Full)
		assert.NotNil(t, d.Eval, d.Parsed.Full)
		assert.NotEmpty(t, d.Parsed.Results, d.Parsed.Full)
		for _, p := range d.Parsed.Params {
			assert.Equal(t, p.Type == "str", len(p.Words) > 0, "%s: words of %s", d.Parsed.Full, p.Name)
		}
		if d.InPlace || d.InPlaceOnly {
			first := d.Parsed.Params[0]
			assert.False(t, first.List, d.Parsed.Full)
			assert.Contains(t, []string{"Tensor", "Operand"}, first.Type, d.Parsed.Full)
		}
	}
	t.Logf("%d primitives, %d operators, %d overloads", len(op.Prims()), len(names), len(op.Defs()))
}

func TestSamplesEvaluate(t *testing.T) {
	for _, d := range op.Defs() {
		t.Run(d.Parsed.Full, func(t *testing.T) {
			for _, s := range d.Samples {
				e, a, out, err := call(d, s)
				if err != nil {
					t.Errorf("%v: %v", s, err)
					continue
				}
				if !d.Parsed.Results[0].List && d.Stores == nil {
					require.Len(t, out, len(d.Parsed.Results), "%v", s)
				}
				for _, v := range out {
					require.True(t, v.IsTensor(), "%v", s)
					require.Len(t, e.Floats(v), int(ir.Numel(v.Shape())), "%v", s)
					for _, in := range a.In {
						// Any other result would alias an operand that a later write changes.
						if in.IsTensor() && !d.View && !d.InPlaceOnly {
							require.NotEqual(t, in.Value, v.Value, "%v: the result is a view of an operand", s)
						}
					}
				}
				if d.InPlaceOnly && d.Stores == nil {
					require.Equal(t, a.In[0].Shape(), out[0].Shape(), "%v", s)
				}
				if d.View && !d.Parsed.Results[0].List {
					require.Equal(t, a.In[0].Device(), out[0].Device())
				}
			}
		})
	}
}

func TestErrorSamplesRaise(t *testing.T) {
	for _, d := range op.Defs() {
		for _, s := range d.ErrorSamples {
			_, _, _, err := call(d, s)
			assert.Error(t, err, "%s %v", d.Parsed.Full, s)
		}
	}
}

// call evaluates one sample; err is what it raised, or why the parser would refuse its arguments.
func call(d *op.Def, s op.Sample) (e *optest.Eager, a *op.Args, out []op.Val, err error) {
	e = optest.New()
	if a, err = samplelang.Read(e, d, s, ir.InvalidDType); err != nil {
		return e, a, nil, err
	}
	defer func() {
		if r := recover(); r != nil {
			x, ok := r.(*ir.Error)
			if !ok {
				panic(r)
			}
			err = x
		}
	}()
	out = append(out, d.Eval(a)...)
	return e, a, out, nil
}

func TestResultTypes(t *testing.T) {
	cases := []struct {
		op, args, kwargs string
		want             ir.DType
		shape            []int64
	}{
		{"add", "I(3;0,5), 2", "", ir.I64, []int64{3}},
		{"add", "I(3;0,5), 2.5", "", ir.F32, []int64{3}},
		{"add", "I(3;0,5), T()", "", ir.F32, []int64{3}},
		{"add", "T(3), torch.tensor(2)", "", ir.F32, []int64{3}},
		{"add", "B(3), True", "", ir.Bool, []int64{3}},
		{"add", "B(3), 1", "", ir.I64, []int64{3}},
		{"add", "T(3,1), T(1,4)", "", ir.F32, []int64{3, 4}},
		{"add", "1, 2", "", ir.I64, nil},
		{"div", "I(3;1,5), I(3;1,5)", "", ir.F32, []int64{3}},
		{"div", "I(3;1,5), I(3;1,5)", "rounding_mode='floor'", ir.I64, []int64{3}},
		{"pow", "2, I(3;0,5)", "", ir.I64, []int64{3}},
		{"eq", "I(3;0,5), 1.5", "", ir.Bool, []int64{3}},
		{"where", "B(3), 1, 2", "", ir.I64, []int64{3}},
		{"where", "B(3), I(3;0,5), 1.5", "", ir.F32, []int64{3}},
		{"clamp", "I(3;0,5), 0.5", "", ir.F32, []int64{3}},
		{"sum", "B(3,4)", "", ir.I64, nil},
		{"sum.dim", "I(3,4;0,5), (0,), True", "", ir.I64, []int64{1, 4}},
		{"prod", "B(3)", "", ir.I64, nil},
		{"cumsum", "B(3), 0", "", ir.I64, []int64{3}},
		{"argmax", "T(3,4), 1, True", "", ir.I64, []int64{3, 1}},
		{"exp", "I(3;0,5)", "", ir.F32, []int64{3}},
		{"square", "B(3)", "", ir.I64, []int64{3}},
		{"cat", "[I(2;0,5), T(2)], 0", "", ir.F32, []int64{4}},
		{"full", "(2,), True", "", ir.Bool, []int64{2}},
		{"arange", "2.5", "", ir.F32, []int64{3}},
		{"matmul", "T(2,1,3,4), T(5,4,2)", "", ir.F32, []int64{2, 5, 3, 2}},
		{"_index_tensor", "T(2,5,3), [I(4;0,2), I(4;0,3)], [0, 2]", "", ir.F32, []int64{4, 5}},
		{"_index_tensor", "T(2,5,3), [I(4;0,5), I(4;0,3)], [1, 2]", "", ir.F32, []int64{2, 4}},
		{"_index", "T(3,4), [2, 1, 7, 1, 4, 2, 0, 0]", "", ir.F32, []int64{1, 1}},
	}
	for _, c := range cases {
		_, _, out, err := call(op.DefNamed(c.op), op.Sample{Args: c.args, Kwargs: c.kwargs})
		if !assert.Nil(t, err, c.op+" "+c.args) {
			continue
		}
		assert.Equal(t, c.want, out[0].DType(), c.op+" "+c.args)
		assert.Equal(t, append([]int64{}, c.shape...), append([]int64{}, out[0].Shape()...), c.op+" "+c.args)
	}
}

func TestErrorTexts(t *testing.T) {
	cases := []struct {
		op, args string
		code     ir.Code
		text     string
	}{
		{"add", "T(3), T(4)", ir.ErrRuntime,
			"The size of tensor a (3) must match the size of tensor b (4) at non-singleton " +
				"dimension 0"},
		{"sum.dim", "T(2,3), 5", ir.ErrIndex, "Dimension out of range (expected to be in range of [-2, 1], but got 5)"},
		{"sum.dim", "T(2,3), (0,0)", ir.ErrRuntime, "dim 0 appears multiple times in the list of dims"},
		{"matmul", "T(2,3), T(2,3)", ir.ErrRuntime, "mm: mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)"},
		{"view", "T(2,3), (4,)", ir.ErrRuntime, "shape '[4]' is invalid for input of size 6"},
		{"linear", "T(2,3), T(5,4), T(5)", ir.ErrRuntime, "addmm: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"},
		{"linear", "T(2,2,3), T(5,4)", ir.ErrRuntime, "mm: mat1 and mat2 shapes cannot be multiplied (4x3 and 4x5)"},
		{"_index", "T(2,3), [0, 2]", ir.ErrIndex, "index 2 is out of bounds for dimension 0 with size 2"},
		{"_index", "T(2,3), [1, 0, 0, 0, 0, 0, 5]", ir.ErrIndex, "index 5 is out of bounds for dimension 1 with size 3"},
		{"mean", "I(3;0,5)", ir.ErrNotImplemented, "mean(): could not infer output dtype. Input dtype must be either a " +
			"floating point or complex dtype. Got: Long"},
		{"floor_divide", "I(3;0,5), 0", ir.ErrRuntime, "ZeroDivisionError"},
		{"cat", "[T(2,3), T(2,2)], 0", ir.ErrRuntime, "Sizes of tensors must match except in dimension 0. Expected size 3 " +
			"but got size 2 for tensor number 1 in the list."},
		{"cross_entropy", "T(2,3), I(1;0,3)", ir.ErrValue, "Expected input batch_size (2) to match target batch_size (1)."},
	}
	for _, c := range cases {
		_, _, _, err := call(op.DefNamed(c.op), op.Sample{Args: c.args})
		if assert.NotNil(t, err, c.op+" "+c.args) {
			var x *ir.Error
			require.ErrorAs(t, err, &x)
			assert.Equal(t, c.code, x.Code, c.op)
			assert.Equal(t, c.text, x.Msg)
		}
	}
}

func TestValues(t *testing.T) {
	nan := math.NaN()
	cases := []struct {
		op, args string
		want     []float64
	}{
		{"sinh", "torch.tensor([-20.0, -1.0, -0.001, 0.0, 0.001, 20.0])", []float64{math.Sinh(-20), math.Sinh(-1),
			math.Sinh(-0.001), 0, math.Sinh(0.001), math.Sinh(20)}},
		{"fmod", "torch.tensor([5.5, -5.5, 5.5, -5.5]), torch.tensor([2.0, 2.0, -2.0, -2.0])", []float64{1.5, -1.5, 1.5,
			-1.5}},
		{"remainder", "torch.tensor([5, -5, 5, -5]), torch.tensor([3, 3, -3, -3])", []float64{2, 1, -1, -2}},
		{"logsumexp", "torch.tensor([1000.0, 1000.0]), 0", []float64{1000 + math.Ln2}},
		{"nanmean", "torch.tensor([1.0, float('nan'), 3.0])", []float64{2}},
		{"xlogy", "torch.tensor([0.0, 0.0, 2.0]), torch.tensor([0.0, float('nan'), 1.0])", []float64{0, nan, 0}},
		{"cross_entropy", "torch.tensor([[0.0, 0.0], [0.0, 0.0]]), torch.tensor([1, -100])", []float64{math.Ln2}},
		{"roll", "torch.tensor([1, 2, 3, 4]), 1", []float64{4, 1, 2, 3}},
		{"flip", "torch.tensor([1, 2, 3]), (0,)", []float64{3, 2, 1}},
		{"diag", "torch.tensor([1, 2]), 1", []float64{0, 1, 0, 0, 0, 2, 0, 0, 0}},
		{"clamp", "torch.tensor([1.0, 2.0, 3.0]), 2.5, 1.5", []float64{1.5, 1.5, 1.5}},
		{"div", "torch.tensor([-7, 7]), 2", []float64{-3, 3}},
		{"arange.start_step", "0, 1, 0.25", []float64{0, 0.25, 0.5, 0.75}},
		{"_index_tensor", "torch.tensor([[1, 2], [3, 4]]), [torch.tensor([-1, 0]), torch.tensor([0, 1])], [0, 1]",
			[]float64{3, 2}},
		{"_index_put_", "torch.tensor([1, 2, 3]), [torch.tensor([0, 0])], [0], 5, True", []float64{11, 2, 3}},
		{"scaled_dot_product_attention", "torch.tensor([[1.0], [1.0]]), torch.tensor([[1.0]]), torch.tensor([[7.0]]), " +
			"torch.tensor([[True], [False]])", []float64{7, 0}},
	}
	for _, c := range cases {
		s := op.Sample{Args: c.args}
		if c.op == "div" {
			s = op.Sample{Args: "torch.tensor([-7, 7]), 2", Kwargs: "rounding_mode='trunc'"}
		}
		e, _, out, err := call(op.DefNamed(c.op), s)
		if !assert.Nil(t, err, c.op) {
			continue
		}
		got := e.Floats(out[0])
		require.Len(t, got, len(c.want), c.op)
		for i, w := range c.want {
			if math.IsNaN(w) {
				assert.True(t, math.IsNaN(got[i]), c.op)
			} else {
				assert.InDelta(t, w, got[i], 1e-6*max(1, math.Abs(w)), c.op)
			}
		}
	}
}

func TestDrawsAreReproducible(t *testing.T) {
	for _, name := range []string{"rand", "randn"} {
		e1, _, a, _ := call(op.DefNamed(name), op.Sample{Args: "(64,)"})
		e2, _, b, _ := call(op.DefNamed(name), op.Sample{Args: "(64,)"})
		assert.Equal(t, e1.Floats(a[0]), e2.Floats(b[0]), name)
	}
	e, _, out, _ := call(op.DefNamed("randperm"), op.Sample{Args: "33"})
	seen := map[float64]bool{}
	for _, v := range e.Floats(out[0]) {
		seen[v] = true
	}
	assert.Len(t, seen, 33)
}
