package prim_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/optest"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// spreadOut returns n distinct numbers in (lo, hi), no two of them close, in scrambled order.
func spreadOut(lo, hi float64, shape ...int64) optest.Input {
	n := ir.Numel(shape)
	v := make([]float64, n)
	for i := range v {
		k := float64((int64(i)*7+3)%max(n, 1)) + 0.37
		v[i] = lo + (hi-lo)*k/float64(max(n, 1))
	}
	return optest.Input{Shape: shape, V: v}
}

func un(f func(op.Builder, op.Val) op.Val) optest.Func {
	return func(b op.Builder, x []op.Val) op.Val { return f(b, x[0]) }
}

func bin(f func(op.Builder, op.Val, op.Val) op.Val) optest.Func {
	return func(b op.Builder, x []op.Val) op.Val { return f(b, x[0], x[1]) }
}

func fn(f op.Fn) func(op.Builder, op.Val) op.Val {
	return func(b op.Builder, x op.Val) op.Val { return prim.Special(b, f, x) }
}

func checkGrad(t *testing.T, f optest.Func, second bool, in ...optest.Input) {
	t.Helper()
	optest.CheckGrad(t, prim.ViewVJP, f, second, in...)
}

func TestUnaryGradients(t *testing.T) {
	cases := []struct {
		name   string
		f      func(op.Builder, op.Val) op.Val
		lo, hi float64
	}{
		{"neg", prim.Neg, -2, 2}, {"abs", prim.Abs, -2, 2}, {"sign", prim.Sign, -2, 2},
		{"floor", prim.Floor, -2, 2}, {"ceil", prim.Ceil, -2, 2}, {"round", prim.Round, -2, 2.1}, {"trunc", prim.Trunc, -2,
			2},
		{"exp", prim.Exp, -2, 2}, {"expm1", prim.Expm1, -2, 2}, {"log", prim.Log, 0.2, 3}, {"log1p", prim.Log1p, -0.8, 3},
		{"sqrt", prim.Sqrt, 0.2, 3}, {"rsqrt", prim.Rsqrt, 0.3, 3}, {"reciprocal", prim.Reciprocal, 0.3, 3},
		{"sin", prim.Sin, -3, 3}, {"cos", prim.Cos, -3, 3}, {"tan", prim.Tan, -1, 1}, {"tanh", prim.Tanh, -2, 2},
		{"erf", prim.Erf, -2, 2}, {"sigmoid", prim.Sigmoid, -3, 3}, {"relu", prim.Relu, -2, 2},
		{"acos", fn(op.FnAcos), -0.9, 0.9}, {"acosh", fn(op.FnAcosh), 1.2, 4}, {"asin", fn(op.FnAsin), -0.9, 0.9},
		{"asinh", fn(op.FnAsinh), -3, 3},
		{"atan", fn(op.FnAtan), -3, 3}, {"atanh", fn(op.FnAtanh), -0.9, 0.9}, {"digamma", fn(op.FnDigamma), 0.5, 5},
		{"below 0", fn(op.FnDigamma), -2.9, -2.2},
		{"j0", fn(op.FnBesselJ0), -12, 12}, {"j1", fn(op.FnBesselJ1), -12, 12}, {"y0", fn(op.FnBesselY0), 0.5, 12},
		{"y1", fn(op.FnBesselY1), 0.5, 12},
		{"k0", fn(op.FnBesselK0), 0.5, 4}, {"k0e", fn(op.FnBesselK0e), 0.5, 4}, {"k1", fn(op.FnBesselK1), 0.5, 4},
		{"k1e", fn(op.FnBesselK1e), 0.5, 4},
		{"erfc", fn(op.FnErfc), -2, 2}, {"erfcx", fn(op.FnErfcx), -1, 3}, {"erfinv", fn(op.FnErfinv), -0.9, 0.9},
		{"i0", fn(op.FnI0), -3, 3},
		{"i0e", fn(op.FnI0e), 0.3, 9}, {"i1", fn(op.FnI1), -3, 3}, {"i1e", fn(op.FnI1e), 0.3, 9}, {"lgamma", fn(op.FnLgamma),
			0.3, 7},
		{"log10", fn(op.FnLog10), 0.3, 7}, {"log2", fn(op.FnLog2), 0.3, 7}, {"log_ndtr", fn(op.FnLogNdtr), -3, 3},
		{"ndtri", fn(op.FnNdtri), 0.05, 0.95},
		{"frexp", fn(op.FnFrexpMantissa), 4.2, 7.8}, {"gelu", prim.Gelu, -3, 3}, {"gelu_tanh", prim.GeluTanh, -3, 3},
		{"silu", prim.Silu, -3, 3}, {"copy", prim.Copy, -1, 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { checkGrad(t, un(c.f), true, spreadOut(c.lo, c.hi, 2, 4)) })
	}
}

func TestBinaryGradients(t *testing.T) {
	x, y := spreadOut(0.5, 3, 2, 3), spreadOut(0.7, 2.9, 2, 3)
	cases := map[string]func(op.Builder, op.Val, op.Val) op.Val{
		"add": prim.Add, "sub": prim.Sub, "mul": prim.Mul, "div": prim.Div, "pow": prim.Pow, "maximum": prim.Maximum,
		"minimum":   prim.Minimum,
		"remainder": prim.Remainder, "floor_divide": prim.FloorDivide, "gelu_grad": prim.GeluGrad,
		"gelu_tanh_grad": prim.GeluTanhGrad,
	}
	for name, f := range cases {
		t.Run(name, func(t *testing.T) {
			checkGrad(t, bin(f), true, x, y)
			if name == "gelu_grad" || name == "gelu_tanh_grad" {
				return
			}
			left := func(b op.Builder, x []op.Val) op.Val { return f(b, op.FloatVal(1.7), x[0]) }
			right := func(b op.Builder, x []op.Val) op.Val { return f(b, x[0], op.FloatVal(1.7)) }
			checkGrad(t, left, true, x)
			checkGrad(t, right, true, x)
		})
	}
	checkGrad(t, func(b op.Builder, x []op.Val) op.Val { return prim.Special(b, op.FnAtan2, x...) }, true, x, y)
	for _, f := range []op.Fn{op.FnIgamma, op.FnIgammac, op.FnZeta} { // these have no derivative in the first operand
		last := func(b op.Builder, x []op.Val) op.Val {
			return prim.Special(b, f, prim.Fill(b, op.FloatVal(2.5), ir.F64, x[0].Device(), x[0].Shape()), x[0])
		}
		checkGrad(t, last, true, x)
	}
	where := func(b op.Builder, x []op.Val) op.Val {
		return prim.Where(b, prim.Lt(b, x[0], op.FloatVal(1.5)), prim.Mul(b, x[0], x[1]), x[1])
	}
	checkGrad(t, where, true, x, y)
	checkGrad(t, un(func(b op.Builder, v op.Val) op.Val {
		return prim.Require(b, prim.Ge(b, v, op.FloatVal(-9)), prim.Mul(b, v, v), prim.RequireRate)
	}), true, x)
}

func TestSelectionAndReductionGradients(t *testing.T) {
	cases := map[string]func(op.Builder, op.Val) op.Val{
		"tril":    func(b op.Builder, x op.Val) op.Val { return prim.Tri(b, x, 0, false) },
		"triu":    func(b op.Builder, x op.Val) op.Val { return prim.Tri(b, x, -1, true) },
		"sum":     func(b op.Builder, x op.Val) op.Val { return prim.Sum(b, prim.Mul(b, x, x), []int64{0, 2}) },
		"squares": func(b op.Builder, x op.Val) op.Val { return prim.SumSquares(b, x, []int64{0, 2}) },
		"prod":    func(b op.Builder, x op.Val) op.Val { return prim.Prod(b, x, []int64{1, 2}) },
		"amax":    func(b op.Builder, x op.Val) op.Val { return prim.Amax(b, x, []int64{0, 2}) },
		"amin":    func(b op.Builder, x op.Val) op.Val { return prim.Amin(b, x, []int64{1}) },
		"max_dim": func(b op.Builder, x op.Val) op.Val { v, _ := prim.MaxDim(b, x, 1); return v },
		"min_dim": func(b op.Builder, x op.Val) op.Val { v, _ := prim.MinDim(b, x, -1); return v },
		"var":     func(b op.Builder, x op.Val) op.Val { v, _ := prim.Var(b, x, op.IntVal(1), []int64{0, 1}); return v },
		"var mean": func(b op.Builder, x op.Val) op.Val {
			v, m := prim.Var(b, x, op.IntVal(0), []int64{2})
			return prim.Mul(b, v, m)
		},
		"softmax":    func(b op.Builder, x op.Val) op.Val { return prim.Softmax(b, x, 1) },
		"logsoftmax": func(b op.Builder, x op.Val) op.Val { return prim.LogSoftmax(b, x, -1) },
		"cumsum":     func(b op.Builder, x op.Val) op.Val { return prim.Scan(b, prim.Mul(b, x, x), 1, prim.ScanSum) },
		"cumprod":    func(b op.Builder, x op.Val) op.Val { return prim.Scan(b, x, 1, prim.ScanProd) },
		"logcumsum":  func(b op.Builder, x op.Val) op.Val { return prim.Scan(b, x, 1, prim.ScanLogSum) },
		"sort":       func(b op.Builder, x op.Val) op.Val { v, _ := prim.Sort(b, x, 1, true); return prim.Mul(b, v, v) },
		"topk":       func(b op.Builder, x op.Val) op.Val { v, _ := prim.Topk(b, x, 2, 1, true); return prim.Mul(b, v, v) },
		"cat":        func(b op.Builder, x op.Val) op.Val { return prim.Cat(b, []op.Val{x, prim.Mul(b, x, x)}, 1) },
		"dropout": func(b op.Builder, x op.Val) op.Val {
			return prim.Mul(b, x, prim.Dropout(b, x, op.IntVal(3), op.IntVal(4), op.FloatVal(0.4)))
		},
		"cast": func(b op.Builder, x op.Val) op.Val { return prim.Cast(b, x, ir.F64) },
	}
	for name, f := range cases {
		t.Run(name, func(t *testing.T) { checkGrad(t, un(f), true, spreadOut(-1.5, 2, 2, 3, 4)) })
	}
}

// TestGradientAgain differentiates row gradients once more: softmax_grad and its like are primitives with rules of
// their own.
func TestGradientAgain(t *testing.T) {
	x, g := spreadOut(-1, 1, 2, 3), spreadOut(-2, 1, 2, 3)
	checkGrad(t, bin(func(b op.Builder, x, y op.Val) op.Val { return prim.SoftmaxGrad(b, x, y, 1) }), true, g, x)
	checkGrad(t, bin(func(b op.Builder, x, y op.Val) op.Val { return prim.LogSoftmaxGrad(b, x, y, 0) }), true, g, x)
}

// TestCrossEntropyGradients differentiates the loss twice, through the statistics too; one row is ignored.
func TestCrossEntropyGradients(t *testing.T) {
	const ignore = -1
	for dim, classes := range []float64{2, 4} {
		f := func(b op.Builder, x []op.Val) op.Val {
			rows := int64([]float64{4, 2}[dim])
			v := make([]float64, rows)
			for i := range v {
				v[i] = float64(i * 3 % int(classes))
			}
			v[rows-1] = ignore
			loss, _ := prim.CrossEntropy(b, x[0], b.(*optest.Eager).Tensor(ir.I64, []int64{rows}, v...), int64(dim), ignore)
			return prim.Mul(b, loss, loss)
		}
		checkGrad(t, f, true, spreadOut(-2, 3, 2, 4))
	}
}

func TestLayerNormGradients(t *testing.T) {
	x, w, bias := spreadOut(-2, 3, 3, 2, 2), spreadOut(0.5, 2, 2, 2), spreadOut(-1, 1, 2, 2)
	full := func(b op.Builder, x []op.Val) op.Val {
		y, _, _ := prim.LayerNorm(b, x[0], x[1], x[2], op.FloatVal(1e-2), 2)
		return y
	}
	checkGrad(t, full, true, x, w, bias)
	plain := func(b op.Builder, x []op.Val) op.Val {
		y, _, _ := prim.LayerNorm(b, x[0], op.Val{}, op.Val{}, op.FloatVal(1e-2), 1)
		return y
	}
	checkGrad(t, plain, true, x)
	onlyBias := func(b op.Builder, x []op.Val) op.Val {
		y, _, _ := prim.LayerNorm(b, x[0], op.Val{}, x[1], op.FloatVal(1e-2), 2)
		return y
	}
	checkGrad(t, onlyBias, true, x, bias)
	rms := func(b op.Builder, x []op.Val) op.Val { return prim.RMSNorm(b, x[0], x[1], op.FloatVal(1e-2), 2) }
	checkGrad(t, rms, true, x, w)
	plainRMS := func(b op.Builder, x []op.Val) op.Val {
		return prim.RMSNorm(b, x[0], op.Val{}, op.FloatVal(1e-2), 1)
	}
	checkGrad(t, plainRMS, true, x)
}

func TestIndexGradients(t *testing.T) {
	x := spreadOut(-1, 2, 3, 4)
	idx := func(b op.Builder, shape []int64, v ...float64) op.Val {
		return b.(*optest.Eager).Tensor(ir.I64, shape, v...)
	}
	square := func(b op.Builder, x op.Val) op.Val { return prim.Mul(b, x, x) }
	cases := map[string]struct {
		f  optest.Func
		in []optest.Input
	}{
		"gather": {func(b op.Builder, x []op.Val) op.Val {
			return square(b, prim.Gather(b, x[0], idx(b, []int64{2, 3}, 0, 2, 2, 1, 1, 0), 0))
		}, []optest.Input{x}},
		"index_select": {func(b op.Builder, x []op.Val) op.Val {
			return square(b, prim.IndexSelect(b, x[0], idx(b, []int64{3}, 3, 0, 3), 1))
		}, []optest.Input{x}},
		"scatter_add": {func(b op.Builder, x []op.Val) op.Val {
			return square(b, prim.ScatterAdd(b, x[0], idx(b, []int64{2, 3}, 0, 2, 2, 1, 2, 0), x[1], 0))
		}, []optest.Input{x, spreadOut(0, 1, 2, 3)}},
		"scatter_reduce prod": {func(b op.Builder, x []op.Val) op.Val {
			return prim.ScatterReduce(b, x[0], idx(b, []int64{2, 3}, 0, 2, 2, 1, 2, 0), x[1], 0, prim.ScatterProd)
		}, []optest.Input{x, spreadOut(0.5, 1, 2, 3)}},
		"scatter_reduce amax": {func(b op.Builder, x []op.Val) op.Val {
			return square(b, prim.ScatterReduce(b, x[0], idx(b, []int64{2, 3}, 0, 2, 2, 1, 2, 0), x[1], 0, prim.ScatterMax))
		}, []optest.Input{x, spreadOut(0, 1.7, 2, 3)}},
		"scatter_reduce amin": {func(b op.Builder, x []op.Val) op.Val {
			return square(b, prim.ScatterReduce(b, x[0], idx(b, []int64{2, 3}, 0, 2, 2, 1, 2, 0), x[1], 0, prim.ScatterMin))
		}, []optest.Input{x, spreadOut(0, 1.7, 2, 3)}},
		"scatter": {func(b op.Builder, x []op.Val) op.Val {
			return square(b, prim.Scatter(b, x[0], idx(b, []int64{2, 3}, 0, 2, 1, 1, 3, 0), x[1], 1))
		}, []optest.Input{x, spreadOut(0, 1, 2, 3)}},
		"scatter number": {func(b op.Builder, x []op.Val) op.Val {
			return square(b, prim.Scatter(b, x[0], idx(b, []int64{2, 3}, 0, 2, 1, 1, 3, 0), op.FloatVal(2), 1))
		}, []optest.Input{x}},
		"index_add": {func(b op.Builder, x []op.Val) op.Val {
			return square(b, prim.IndexAdd(b, x[0], idx(b, []int64{3}, 2, 0, 2), x[1], 0))
		}, []optest.Input{x, spreadOut(0, 1, 3, 4)}},
		"strided_scatter": {func(b op.Builder, x []op.Val) op.Val {
			return square(b, prim.StridedScatter(b, x[0], x[1], ir.InternLayout([]int64{2, 2}, []int64{1, 4}), 5))
		}, []optest.Input{x, spreadOut(0, 1, 2, 2)}},
		"strided_scatter_add": {func(b op.Builder, x []op.Val) op.Val {
			return square(b, prim.StridedScatterAdd(b, x[0], x[1], ir.InternLayout([]int64{2, 3}, []int64{1, 1}), 2))
		}, []optest.Input{x, spreadOut(0, 1, 2, 3)}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { checkGrad(t, c.f, true, c.in...) })
	}
}

func TestMatmulGradients(t *testing.T) {
	f := func(b op.Builder, x []op.Val) op.Val { return prim.Matmul(b, x[0], x[1], x[2]) }
	checkGrad(t, f, true, spreadOut(-1, 1, 2, 3), spreadOut(-1, 1, 3, 4), spreadOut(-1, 1, 4))
	batched := func(b op.Builder, x []op.Val) op.Val {
		y := prim.Expand(b, x[1], []int64{2, 3, 2})
		return prim.Matmul(b, x[0], prim.Transpose(b, prim.Transpose(b, y, 1, 2), -1, -2), op.Val{})
	}
	checkGrad(t, batched, true, spreadOut(-1, 1, 2, 2, 3), spreadOut(-1, 1, 3, 2))
	transposed := func(b op.Builder, x []op.Val) op.Val {
		return prim.Matmul(b, x[0], prim.Transpose(b, x[1], 0, 1), op.Val{})
	}
	checkGrad(t, transposed, true, spreadOut(-1, 1, 2, 3), spreadOut(-1, 1, 4, 3))
}

func TestAttentionGradients(t *testing.T) {
	heads := func(b op.Builder, x op.Val, h int64) op.Val { // [b, l, h*e] as [b, h, l, e]
		s := x.Shape()
		return prim.Transpose(b, prim.Reshape(b, x, []int64{s[0], s[1], h, s[2] / h}), 1, 2)
	}
	attention := func(causal, masked bool, group int64) optest.Func {
		return func(b op.Builder, x []op.Val) op.Val {
			mask := op.Val{}
			if masked {
				m := b.(*optest.Eager).Tensor(ir.Bool, []int64{3, 4}, 1, 0, 1, 1, 0, 0, 0, 0, 0, 1, 1, 0)
				mask = prim.Expand(b, m, []int64{2, 2, 3, 4})
			}
			return prim.Attention(b, heads(b, x[0], 2), heads(b, x[1], 2/group), heads(b, x[2], 2/group), mask, op.FloatVal(0.7),
				causal, prim.Dropping{})
		}
	}
	// The last operand is a mask of numbers.
	biased := func(drop prim.Dropping) optest.Func {
		return func(b op.Builder, x []op.Val) op.Val {
			return prim.Attention(b, heads(b, x[0], 2), heads(b, x[1], 2), heads(b, x[2], 2), x[3], op.FloatVal(0.7), false,
				drop)
		}
	}
	q := spreadOut(-1, 1, 2, 3, 4)
	for _, group := range []int64{1, 2} {
		k, v := spreadOut(-1.5, 1, 2, 4, 4/group), spreadOut(-1, 2, 2, 4, 6/group)
		checkGrad(t, attention(false, false, group), true, q, k, v)
		checkGrad(t, attention(true, false, group), true, q, k, v)
		checkGrad(t, attention(false, true, group), true, q, k, v)
	}
	drop := prim.Dropping{Seed: op.IntVal(5), DrawOffset: op.IntVal(1 << 40), Rate: op.FloatVal(0.3)}
	k, v := spreadOut(-1.5, 1, 2, 4, 4), spreadOut(-1, 2, 2, 4, 6)
	for _, mask := range [][]int64{{2, 2, 3, 4}, {1, 2, 3, 4}, {2, 1, 1, 4}, {1, 1, 3, 1}} {
		checkGrad(t, biased(prim.Dropping{}), true, q, k, v, spreadOut(-1, 1, mask...))
		checkGrad(t, biased(drop), true, q, k, v, spreadOut(-1, 1, mask...))
	}
}

func TestViewGradients(t *testing.T) {
	square := func(b op.Builder, x op.Val) op.Val { return prim.Mul(b, x, x) }
	cases := map[string]func(op.Builder, op.Val) op.Val{
		"expand": func(b op.Builder, x op.Val) op.Val {
			return prim.Expand(b, prim.Unsqueeze(b, x, 1), []int64{2, 5, 3, 4})
		},
		"permute":   func(b op.Builder, x op.Val) op.Val { return prim.Permute(b, x, []int64{2, 0, 1}) },
		"transpose": func(b op.Builder, x op.Val) op.Val { return prim.Transpose(b, x, 0, -1) },
		"reshape":   func(b op.Builder, x op.Val) op.Val { return prim.Reshape(b, x, []int64{6, 4}) },
		"copying":   func(b op.Builder, x op.Val) op.Val { return prim.Reshape(b, prim.Transpose(b, x, 0, 1), []int64{24}) },
		"squeeze":   func(b op.Builder, x op.Val) op.Val { return prim.Squeeze(b, prim.Slice(b, x, 1, 1, 2, 1), nil) },
		"select":    func(b op.Builder, x op.Val) op.Val { return prim.Select(b, x, 1, -1) },
		"slice":     func(b op.Builder, x op.Val) op.Val { return prim.Slice(b, x, 2, 1, 4, 2) },
		"of a view": func(b op.Builder, x op.Val) op.Val {
			return prim.Select(b, prim.Slice(b, prim.Transpose(b, x, 0, 2), 0, 1, 4, 2), 1, 1)
		},
		"of expanded": func(b op.Builder, x op.Val) op.Val {
			return prim.Select(b, prim.Expand(b, prim.Unsqueeze(b, x, 0), []int64{3, 2, 3, 4}), 0, 1)
		},
		"overlapping": func(b op.Builder, x op.Val) op.Val { return prim.AsStrided(b, x, []int64{4, 3}, []int64{2, 1}, 3) },
	}
	for name, f := range cases {
		t.Run(name, func(t *testing.T) {
			checkGrad(t, func(b op.Builder, x []op.Val) op.Val { return square(b, f(b, x[0])) }, true, spreadOut(-1, 2, 2, 3, 4))
		})
	}
}

func grads(t *testing.T, f optest.Func, in ...optest.Input) [][]float64 {
	t.Helper()
	e := optest.New()
	e.ViewVJP = prim.ViewVJP
	var x []op.Val
	for _, a := range in {
		x = append(x, e.Watch(e.Tensor(ir.F64, a.Shape, a.V...)))
	}
	y := f(e, x)
	var out [][]float64
	for _, g := range e.Backward(y, prim.OnesLike(e, y), false, x...) {
		out = append(out, e.Floats(g))
	}
	return out
}

func vec(v ...float64) optest.Input { return optest.Input{Shape: []int64{int64(len(v))}, V: v} }

// TestGradientConventions checks PyTorch's gradients where the derivative does not exist.
func TestGradientConventions(t *testing.T) {
	nan := math.NaN()
	row := []int64{0}
	cases := []struct {
		name string
		f    optest.Func
		in   []optest.Input
		want [][]float64
	}{
		{"abs at 0", un(prim.Abs), []optest.Input{vec(-1, 0, 2)}, [][]float64{{-1, 0, 1}}},
		{"relu at 0", un(prim.Relu), []optest.Input{vec(-1, 0, 2)}, [][]float64{{0, 0, 1}}},
		{"maximum ties", bin(prim.Maximum), []optest.Input{vec(1, 2, 3), vec(1, 3, 2)},
			[][]float64{{0.5, 0, 1}, {0.5, 1, 0}}},
		{"minimum ties", bin(prim.Minimum), []optest.Input{vec(1, 2, 3), vec(1, 3, 2)},
			[][]float64{{0.5, 1, 0}, {0.5, 0, 1}}},
		{"clamp edges pass", func(b op.Builder, x []op.Val) op.Val {
			return prim.Minimum(b, prim.Maximum(b, x[0], op.FloatVal(-1)), op.FloatVal(1))
		}, []optest.Input{vec(-2, -1, 0, 1, 2)}, [][]float64{{0, 1, 1, 1, 0}}},
		{"amax ties", un(func(b op.Builder, x op.Val) op.Val { return prim.Amax(b, x, row) }),
			[]optest.Input{vec(3, 1, 3, 2)}, [][]float64{{0.5, 0, 0.5, 0}}},
		{"amin ties", un(func(b op.Builder, x op.Val) op.Val { return prim.Amin(b, x, row) }),
			[]optest.Input{vec(3, 1, 1, 1)}, [][]float64{{0, 1. / 3, 1. / 3, 1. / 3}}},
		{"max_dim ties", un(func(b op.Builder, x op.Val) op.Val { v, _ := prim.MaxDim(b, x, 0); return v }),
			[]optest.Input{vec(1, 3, 3)}, [][]float64{{0, 1, 0}}},
		{"prod one zero", un(func(b op.Builder, x op.Val) op.Val { return prim.Prod(b, x, row) }),
			[]optest.Input{vec(2, 0, 3)}, [][]float64{{0, 6, 0}}},
		{"prod two zeros", un(func(b op.Builder, x op.Val) op.Val { return prim.Prod(b, x, row) }),
			[]optest.Input{vec(0, 0, 3)}, [][]float64{{0, 0, 0}}},
		{"pow 0 exponent", un(func(b op.Builder, x op.Val) op.Val { return prim.Pow(b, x, op.FloatVal(0)) }),
			[]optest.Input{vec(0, 2)}, [][]float64{{0, 0}}},
		{"pow base 0", bin(prim.Pow), []optest.Input{vec(0, 0, 2), vec(0, 2, 3)},
			[][]float64{{0, 0, 12}, {0, 0, 8 * math.Ln2}}},
		{"pow number base 0", un(func(b op.Builder, y op.Val) op.Val { return prim.Pow(b, op.FloatVal(0), y) }),
			[]optest.Input{vec(0, 1)}, [][]float64{{0, 0}}},
		{"where drops NaN", un(func(b op.Builder, x op.Val) op.Val {
			return prim.Where(b, prim.IsNaN(b, x), op.FloatVal(0), x)
		}), []optest.Input{vec(nan, 1)}, [][]float64{{0, 1}}},
		{"sqrt at 0", un(prim.Sqrt), []optest.Input{vec(0, 4)}, [][]float64{{math.Inf(1), 0.25}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := grads(t, c.f, c.in...)
			for i := range c.want {
				require.InDeltaSlice(t, c.want[i], finite(got[i], c.want[i]), 1e-12)
			}
		})
	}
}

// finite replaces infinities where both agree: InDelta cannot subtract them.
func finite(got, want []float64) []float64 {
	for i := range got {
		if math.IsInf(got[i], 0) && got[i] == want[i] {
			got[i], want[i] = 0, 0
		}
	}
	return got
}

func TestProdSecondGradientAtZero(t *testing.T) {
	f := func(b op.Builder, x []op.Val) op.Val { return prim.Prod(b, x[0], []int64{1}) }
	checkGrad(t, f, true, optest.Input{Shape: []int64{2, 3}, V: []float64{2, 0, 3, 1, -1, 0.5}})
	whole := func(b op.Builder, x []op.Val) op.Val { return prim.Prod(b, x[0], []int64{0, 2}) }
	checkGrad(t, whole, true, optest.Input{Shape: []int64{2, 2, 2}, V: []float64{2, 0, 3, 1, -1, 0.5, 0, 4}})
}

func TestCumprodGradientAtZero(t *testing.T) {
	f := func(b op.Builder, x []op.Val) op.Val { return prim.Scan(b, x[0], 1, prim.ScanProd) }
	checkGrad(t, f, false, optest.Input{Shape: []int64{3, 4}, V: []float64{2, 0, 3, 1, -1, 0.5, 0, 0, 0, 2, 0, 4}})
}

func TestZeroDimGradients(t *testing.T) {
	cases := map[string]func(op.Builder, op.Val) op.Val{
		"max_dim": func(b op.Builder, x op.Val) op.Val { v, _ := prim.MaxDim(b, x, 0); return v },
		"softmax": func(b op.Builder, x op.Val) op.Val { return prim.Softmax(b, x, -1) },
		"cumsum":  func(b op.Builder, x op.Val) op.Val { return prim.Scan(b, x, 0, prim.ScanSum) },
		"sum":     func(b op.Builder, x op.Val) op.Val { return prim.Sum(b, prim.Mul(b, x, x), []int64{0}) },
		"prod":    func(b op.Builder, x op.Val) op.Val { return prim.Prod(b, x, []int64{-1}) },
		"topk":    func(b op.Builder, x op.Val) op.Val { v, _ := prim.Topk(b, x, 1, 0, true); return v },
	}
	for name, f := range cases {
		t.Run(name, func(t *testing.T) { checkGrad(t, un(f), true, optest.Input{V: []float64{1.25}}) })
	}
	gather := func(b op.Builder, x []op.Val) op.Val {
		return prim.Gather(b, x[0], b.(*optest.Eager).Tensor(ir.I64, nil, 0), 0)
	}
	checkGrad(t, gather, true, optest.Input{V: []float64{1.25}})
}

// TestFactorisationGradients checks first and second derivatives of what a factorisation determines. Factors that are
// unique up to signs are multiplied first.
func TestFactorisationGradients(t *testing.T) {
	mul := func(b op.Builder, x, y op.Val) op.Val { return prim.Matmul(b, x, y, op.Val{}) }
	tr := func(b op.Builder, x op.Val) op.Val { return prim.Transpose(b, x, -1, -2) }
	heavy := spreadOut(-0.3, 0.4, 2, 3, 3) // far from singular, with eigenvalues apart
	for i := range heavy.V {
		if i%9%4 == 0 {
			heavy.V[i] += float64(2 + i%9/4)
		}
	}
	sym := func(b op.Builder, x op.Val) op.Val { return prim.Add(b, x, tr(b, x)) }
	square := map[string]func(op.Builder, op.Val) op.Val{
		"cholesky": func(b op.Builder, x op.Val) op.Val { l, _ := prim.Cholesky(b, sym(b, x), prim.Unchecked); return l },
		"lu":       func(b op.Builder, x op.Val) op.Val { lu, _, _ := prim.LUFactor(b, x, prim.Unchecked); return lu },
		"exp":      prim.MatrixExp,
		"eigh": func(b op.Builder, x op.Val) op.Val {
			w, v := prim.Eigh(b, sym(b, x), false)
			return prim.Mul(b, prim.Mul(b, v, v), prim.Expand(b, prim.Unsqueeze(b, w, -2), v.Shape()))
		},
	}
	for name, f := range square {
		t.Run(name, func(t *testing.T) { checkGrad(t, un(f), true, heavy) })
	}
	for _, shape := range [][]int64{{3, 3}, {4, 2}, {2, 4}} {
		x := spreadOut(-1, 2, shape...)
		for i := int64(0); i < min(shape[0], shape[1]); i++ {
			x.V[i*shape[1]+i] += float64(3 + 2*i)
		}
		t.Run("qr", func(t *testing.T) {
			checkGrad(t, un(func(b op.Builder, x op.Val) op.Val {
				q, r := prim.QR(b, x, false)
				return mul(b, prim.Mul(b, q, q), prim.Mul(b, r, r))
			}), true, x)
		})
		t.Run("svd", func(t *testing.T) {
			checkGrad(t, un(func(b op.Builder, x op.Val) op.Val {
				u, s, vt := prim.SVD(b, x, true)
				u, vt = prim.Slice(b, u, 1, 0, s.Shape()[0], 1), prim.Slice(b, vt, 0, 0, s.Shape()[0], 1)
				return mul(b, prim.Mul(b, prim.Mul(b, u, u), prim.Expand(b, s, u.Shape())), prim.Mul(b, vt, vt))
			}), true, x)
		})
		t.Run("lu", func(t *testing.T) {
			checkGrad(t, un(func(b op.Builder, x op.Val) op.Val { lu, _, _ := prim.LUFactor(b, x, prim.Unchecked); return lu }),
				true, x)
		})
		t.Run("pinv", func(t *testing.T) {
			checkGrad(t, un(func(b op.Builder, x op.Val) op.Val {
				zero := prim.Fill(b, op.FloatVal(1e-9), x.DType(), x.Device(), nil)
				return prim.Pinv(b, x, zero, zero, false)
			}), true, x)
		})
	}
	y := spreadOut(-1, 1, 2, 3, 2)
	checkGrad(t, bin(func(b op.Builder, a, y op.Val) op.Val {
		x, _, _, _ := prim.LinearSolve(b, a, y, prim.Unchecked)
		return x
	}), true, heavy, y)
	for _, upper := range []bool{false, true} {
		for _, unit := range []bool{false, true} {
			checkGrad(t, bin(func(b op.Builder, a, y op.Val) op.Val { return prim.TriangularSolve(b, a, y, upper, unit) }), true,
				heavy, y)
		}
	}
}

// TestRecurrentGradients differentiates cells and layers twice: by their own primitives, and by elementary ones.
func TestRecurrentGradients(t *testing.T) {
	const batch, hidden = 2, 3
	for r := op.LSTM; r <= op.RNNRelu; r++ {
		gates := r.Gates() * hidden
		state, c := spreadOut(-1, 1, batch, hidden), spreadOut(-1.1, 0.9, batch, hidden)
		t.Run(op.RecurrenceNames[r]+"_cell", func(t *testing.T) {
			in := []optest.Input{spreadOut(-1.3, 1.5, batch, gates), spreadOut(-0.8, 1.1, batch, gates)}
			if !r.Plain() {
				in = append(in, state)
			}
			for part := range 3 { // h, c, both
				if part > 0 && r != op.LSTM {
					break
				}
				checkGrad(t, func(b op.Builder, x []op.Val) op.Val {
					h, c := prim.Cell(b, r, x[0], x[1], append(x, op.Val{})[2])
					return append([]op.Val{h, c}, prim.Cat(b, append([]op.Val{h, c}, h)[part/2:][:1+part/2], 0))[part]
				}, true, in...)
			}
		})
		for _, backwards := range []bool{false, true} {
			t.Run(op.RecurrenceNames[r], func(t *testing.T) {
				in := []optest.Input{spreadOut(-1.3, 1.5, 3, batch, gates), spreadOut(-0.6, 0.7, gates, hidden), state}
				if r == op.LSTM {
					in = append(in, c)
				}
				in = append(in, spreadOut(-0.3, 0.4, gates))
				checkGrad(t, func(b op.Builder, x []op.Val) op.Val {
					cell := op.Val{}
					if r == op.LSTM {
						cell = x[3]
					}
					states, last := prim.Recur(b, r, backwards, x[0], x[1], x[2], cell, x[len(x)-1])
					if r == op.LSTM {
						return prim.Cat(b, []op.Val{states, prim.Unsqueeze(b, last, 0)}, 0)
					}
					return states
				}, true, in...)
			})
		}
	}
}
