package prim_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/optest"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// TestMain fails a run of all tests in which no test met the gradient rule of a primitive.
func TestMain(m *testing.M) {
	// The reference device factors no complex matrices; python/tests/ops/test_linalg.py meets the rule of eig.
	met := map[string]bool{"eig": true}
	for _, p := range op.Prims() {
		if rule := p.VJP; rule != nil {
			p.VJP = func(c *op.VJPCall) []op.Val {
				met[p.Name] = true
				return rule(c)
			}
		}
	}
	code := m.Run()
	given := func(name string) bool { return flag.Lookup("test."+name).Value.String() != "" }
	if code == 0 && !given("run") && !given("skip") && !given("list") {
		for _, p := range op.Prims() {
			if p.VJP != nil && !met[p.Name] {
				fmt.Printf("FAIL: no test calls the gradient rule of primitive %s\n", p.Name)
				code = 1
			}
		}
	}
	os.Exit(code)
}

// windows1d are windows over one dim of in elements.
func windows1d(in, kernel, stride, lo, dilation int64) op.Windows {
	reach := (kernel-1)*dilation + 1
	return op.Windows{Kernel: []int64{kernel}, Stride: []int64{stride}, Lo: []int64{lo}, Dilation: []int64{dilation},
		Base: []int64{1}, Out: []int64{(in+2*lo-reach)/stride + 1}}
}

func TestWindowGradients(t *testing.T) {
	for _, w := range []op.Windows{windows1d(7, 3, 1, 0, 1), windows1d(7, 3, 2, 1, 1), windows1d(7, 2, 1, 2, 3)} {
		for _, groups := range []int64{1, 2} {
			x, weight := spreadOut(-1, 1, 2, 4, 7), spreadOut(-1, 1, 2, 4/groups, w.Kernel[0])
			conv := func(b op.Builder, x, y op.Val) op.Val { return prim.Conv(b, x, y, w, groups) }
			checkGrad(t, bin(conv), true, x, weight)
			weights := func(b op.Builder, x, y op.Val) op.Val { return prim.ConvWeightGrad(b, x, y, w, groups) }
			checkGrad(t, bin(weights), true, x, spreadOut(-1, 1, 2, 2, w.Out[0]))
		}
		squares := func(f func(op.Builder, op.Val) op.Val) func(op.Builder, op.Val) op.Val {
			return func(b op.Builder, x op.Val) op.Val { y := f(b, x); return prim.Mul(b, y, y) }
		}
		sums := func(b op.Builder, x op.Val) op.Val { return prim.WindowSum(b, x, w) }
		largest := func(b op.Builder, x op.Val) op.Val { y, _ := prim.WindowMax(b, x, w); return y }
		checkGrad(t, un(squares(sums)), true, spreadOut(-1, 1, 2, 3, 7))
		checkGrad(t, un(squares(largest)), true, spreadOut(1, 4, 2, 3, 7))
	}
	plane := op.Windows{Kernel: []int64{2, 3}, Stride: []int64{1, 2}, Lo: []int64{1, 0}, Dilation: []int64{1, 1},
		Base: []int64{1, 1}, Out: []int64{5, 2}}
	conv2d := func(b op.Builder, x, y op.Val) op.Val { return prim.Conv(b, x, y, plane, 1) }
	checkGrad(t, bin(conv2d), false, spreadOut(-1, 1, 1, 2, 4, 5), spreadOut(-1, 1, 2, 2, 2, 3))
}

// A transposed convolution is the adjoint: <conv(x), y> = <x, conv_transpose(y)>.
func TestTransposedConvolutionIsTheAdjoint(t *testing.T) {
	e := optest.New()
	for _, w := range []op.Windows{windows1d(8, 3, 1, 1, 1), windows1d(8, 3, 2, 0, 2), windows1d(8, 2, 3, 1, 1)} {
		operand := func(in optest.Input) op.Val { return e.Tensor(ir.F64, in.Shape, in.V...) }
		x, y := operand(spreadOut(-1, 1, 1, 4, 8)), operand(spreadOut(-1, 1, 1, 6, w.Out[0]))
		kernel := operand(spreadOut(-1, 1, 6, 2, w.Kernel[0]))
		dot := func(a, b op.Val) (s float64) {
			u, v := e.Floats(a), e.Floats(b)
			for i := range u {
				s += u[i] * v[i]
			}
			return s
		}
		forward := prim.Conv(e, x, kernel, w, 2)
		back := prim.ConvTranspose(e, y, kernel, w.Adjoint([]int64{8}), 2)
		require.Equal(t, x.Shape(), back.Shape())
		require.InDelta(t, dot(forward, y), dot(x, back), 1e-12, "%+v", w)
	}
}

func TestBatchNormGradients(t *testing.T) {
	eps := op.FloatVal(0.1)
	x, w, bias := spreadOut(-1, 2, 3, 2, 4), spreadOut(0.5, 2, 2), spreadOut(-1, 1, 2)
	full := func(b op.Builder, in []op.Val) op.Val {
		y, _, _ := prim.BatchNorm(b, in[0], in[1], in[2], eps)
		return y
	}
	checkGrad(t, full, true, x, w, bias)
	plain := func(b op.Builder, in []op.Val) op.Val {
		y, _, _ := prim.BatchNorm(b, in[0], op.Val{}, op.Val{}, eps)
		return y
	}
	checkGrad(t, plain, true, x)
	onlyBias := func(b op.Builder, in []op.Val) op.Val {
		y, _, _ := prim.BatchNorm(b, in[0], op.Val{}, in[1], eps)
		return y
	}
	checkGrad(t, onlyBias, false, x, bias)
	statistics := func(b op.Builder, in []op.Val) op.Val {
		_, mean, variance := prim.BatchNorm(b, in[0], op.Val{}, op.Val{}, eps)
		return prim.Add(b, prim.Mul(b, mean, mean), prim.Mul(b, variance, variance))
	}
	checkGrad(t, statistics, true, x)
}

// The cotangent of a converted or moved value goes back in the type and to the device of the operand.
func TestCotangentsReturnToTheTypeAndDevice(t *testing.T) {
	e := optest.New()
	x := e.Tensor(ir.F64, []int64{2}, 1, 2)
	back := op.FindPrim("cast").VJP(&op.VJPCall{B: e, In: []op.Val{x}, Attr: []int64{int64(ir.F32)}, Need: []bool{true},
		Cot: []op.Val{e.Tensor(ir.F32, []int64{2}, 3, 4)}})
	require.Equal(t, ir.F64, back[0].DType())
	require.Equal(t, []float64{3, 4}, e.Floats(back[0]))
	e.Device = 2
	cot := e.Tensor(ir.F64, []int64{2}, 5, 6)
	back = op.FindPrim("to_device").VJP(&op.VJPCall{B: e, In: []op.Val{x}, Attr: []int64{2}, Need: []bool{true},
		Cot: []op.Val{cot}})
	require.Equal(t, ir.CPU, back[0].Device())
	require.Equal(t, []float64{5, 6}, e.Floats(back[0]))
}
