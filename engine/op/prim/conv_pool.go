package prim

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

var pConv, pConvWeightGrad, pWindowSum, pWindowMax op.PrimID

func registerWindowPrims() {
	pConv = op.RegisterPrim(op.Prim{Name: "conv",
		Doc: "convolution (cross-correlation) of x with w, in groups of channels", NIn: 2, SaveIn: 3, SaveFor: swapped,
		Infer: convInfer, VJP: convVJP,
		FLOPs: func(in []op.Val, out []op.OutSpec) int64 {
			return 2 * ir.Numel(out[0].Shape) * ir.Numel(in[1].Shape()[1:])
		}})
	pConvWeightGrad = op.RegisterPrim(op.Prim{Name: "conv_weight_grad", Doc: "cotangent of conv's w, from x and the " +
		"output's cotangent", NIn: 2, SaveIn: 3, SaveFor: swapped,
		Infer: convWeightGradInfer, VJP: convWeightGradVJP,
		FLOPs: func(in []op.Val, out []op.OutSpec) int64 {
			return 2 * ir.Numel(in[1].Shape()) * ir.Numel(out[0].Shape[1:])
		}})
	pWindowSum = op.RegisterPrim(op.Prim{Name: "window_sum", Doc: "sum over each window of the last dims", NIn: 1,
		Infer: windowInfer(false),
		VJP: func(c *op.VJPCall) []op.Val {
			w, _ := op.WindowsOf(c.Attr)
			in := c.In[0].Shape()
			return []op.Val{WindowSum(c.B, c.Cot[0], w.Adjoint(in[len(in)-len(w.Kernel):]))}
		}})
	pWindowMax = op.RegisterPrim(op.Prim{Name: "window_max", Doc: "largest element of each window of the last dims, and " +
		"its row-major number there", NIn: 1, SaveOut: 2,
		Infer: windowInfer(true), VJP: windowMaxVJP})
}

// Conv is y[n,o,p] = sum over c, k of w[o,c,k] x[n,c,window element k of p], with x [N, C, in...] and w [O, C/groups,
// kernel...].
func Conv(b op.Builder, x, w op.Val, win op.Windows, groups int64) op.Val {
	if d := x.DType(); d.IsNarrow() && d == w.DType() {
		t := d.ComputeType()
		return Cast(b, Conv(b, Cast(b, x, t), Cast(b, w, t), win, groups), d)
	}
	return b.Emit(pConv, append(win.Attr(), groups), x, w)
}

// ConvTranspose is the adjoint of a convolution with w [C, O/groups, kernel...] in groups; win is the Adjoint of its
// windows.
func ConvTranspose(b op.Builder, x, w op.Val, win op.Windows, groups int64) op.Val {
	return Conv(b, x, reversed(b, w, groups), win, groups)
}

// ConvWeightGrad is the cotangent [O, C/groups, kernel...] of Conv's w.
func ConvWeightGrad(b op.Builder, x, gy op.Val, win op.Windows, groups int64) op.Val {
	return b.Emit(pConvWeightGrad, append(win.Attr(), groups), x, gy)
}

// WindowSum sums the windows of x's last dims.
func WindowSum(b op.Builder, x op.Val, win op.Windows) op.Val {
	return b.Emit(pWindowSum, win.Attr(), x)
}

// WindowMax returns the largest element of each window and its row-major number within x's last dims. Padding never
// wins.
func WindowMax(b op.Builder, x op.Val, win op.Windows) (values, indices op.Val) {
	o := b.EmitN(pWindowMax, win.Attr(), x)
	return o[0], o[1]
}

func windowsFar() error {
	return ir.Errorf(ir.ErrRuntime, "integer out of range: kernel sizes, strides, dilations and padding reach beyond any "+
		"tensor")
}

func convInfer(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
	win, rest := op.WindowsOf(attr)
	x, w, groups := in[0].Shape(), in[1].Shape(), rest[0]
	d := len(win.Kernel)
	if win.Far() {
		return nil, windowsFar()
	}
	if groups < 1 || !win.Steps() {
		return nil, ir.Errorf(ir.ErrRuntime, "conv: groups, strides and dilations must be positive: got %d groups, strides "+
			"of %s and dilations of %s", groups, ir.ShapeString(win.Stride), ir.ShapeString(win.Dilation))
	}
	if d := in[0].DType(); (d == ir.Bool || d == ir.U32) && ir.Numel(in[0].Shape()) > 0 {
		return nil, notImplemented("conv", d)
	}
	if in[0].DType() != in[1].DType() {
		return nil, ir.Errorf(ir.ErrRuntime, "Input type (%s) and weight type (%s) should be the same", in[0].DType().CName(),
			in[1].DType().CName())
	}
	if len(x) != d+2 || len(w) != d+2 || x[1] != w[1]*groups || w[0]%groups != 0 || !slices.Equal(w[2:], win.Kernel) {
		return nil, ir.Errorf(ir.ErrRuntime, "conv: shapes do not fit: got x %s, w %s, %d groups and a kernel of %s",
			ir.ShapeString(x), ir.ShapeString(w), groups, ir.ShapeString(win.Kernel))
	}
	return append(out, op.OutSpec{DType: in[0].DType(), Shape: append([]int64{x[0], w[0]}, win.Out...)}), nil
}

func convWeightGradInfer(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
	win, rest := op.WindowsOf(attr)
	x, gy, groups := in[0].Shape(), in[1].Shape(), rest[0]
	d := len(win.Kernel)
	if len(x) != d+2 || len(gy) != d+2 || x[0] != gy[0] || x[1]%groups != 0 || gy[1]%groups != 0 ||
		!slices.Equal(gy[2:], win.Out) {
		return nil, ir.Errorf(ir.ErrRuntime, "conv_weight_grad: shapes do not fit: got x %s, gy %s, %d groups",
			ir.ShapeString(x), ir.ShapeString(gy), groups)
	}
	return append(out, op.OutSpec{DType: in[0].DType(), Shape: append([]int64{gy[1], x[1] / groups}, win.Kernel...)}), nil
}

// reversed is w with its channels exchanged within each group and its kernel reversed: conv's adjoint convolves with
// it.
func reversed(b op.Builder, w op.Val, groups int64) op.Val {
	s := w.Shape()
	o, c, taps := s[0]/groups, s[1], ir.Numel(s[2:])
	v := Permute(b, Reshape(b, w, []int64{groups, o, c, taps}), []int64{0, 2, 1, 3})
	if taps > 1 { // a reversed kernel is its elements from the last to the first
		v = IndexSelect(b, v, Iota(b, op.IntVal(taps-1), op.IntVal(-1), ir.I64, w.Device(), taps), 3)
	}
	return Reshape(b, v, append([]int64{groups * c, o}, s[2:]...))
}

func convVJP(c *op.VJPCall) []op.Val {
	win, rest := op.WindowsOf(c.Attr)
	out := make([]op.Val, 2)
	if c.Need[0] {
		out[0] = ConvTranspose(c.B, c.Cot[0], c.In[1], win.Adjoint(c.In[0].Shape()[2:]), rest[0])
	}
	if c.Need[1] {
		out[1] = ConvWeightGrad(c.B, c.In[0], c.Cot[0], win, rest[0])
	}
	return out
}

// convWeightGradVJP: the primitive is linear in x and in gy; h takes w's place.
func convWeightGradVJP(c *op.VJPCall) []op.Val {
	win, rest := op.WindowsOf(c.Attr)
	out, h := make([]op.Val, 2), c.Cot[0]
	if c.Need[0] {
		out[0] = ConvTranspose(c.B, c.In[1], h, win.Adjoint(c.In[0].Shape()[2:]), rest[0])
	}
	if c.Need[1] {
		out[1] = Conv(c.B, c.In[0], h, win, rest[0])
	}
	return out
}

func windowInfer(index bool) inferFunc {
	return func(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
		win, _ := op.WindowsOf(attr)
		x := in[0].Shape()
		if win.Far() {
			return nil, windowsFar()
		}
		if !win.Steps() {
			return nil, ir.Errorf(ir.ErrRuntime, "windows: strides and dilations must be positive: got strides of %s and "+
				"dilations of %s", ir.ShapeString(win.Stride), ir.ShapeString(win.Dilation))
		}
		if d := in[0].DType(); d == ir.Bool || d == ir.U32 {
			return nil, notImplemented("pool", d)
		}
		shape := append(slices.Clone(x[:len(x)-len(win.Kernel)]), win.Out...)
		out = append(out, op.OutSpec{DType: in[0].DType(), Shape: shape})
		if index {
			out = append(out, op.OutSpec{DType: ir.I64, Shape: shape})
		}
		return out, nil
	}
}

func windowMaxVJP(c *op.VJPCall) []op.Val {
	b, g, in := c.B, c.Cot[0], c.In[0].Shape()
	if g.Kind == op.None {
		return make([]op.Val, 1)
	}
	win, _ := op.WindowsOf(c.Attr)
	lead := in[:len(in)-len(win.Kernel)]
	flat := func(v op.Val, n []int64) op.Val { return Reshape(b, v, []int64{ir.Numel(lead), ir.Numel(n)}) }
	zeros := Fill(b, op.FloatVal(0), g.DType(), g.Device(), []int64{ir.Numel(lead), ir.Numel(in[len(lead):])})
	return []op.Val{Reshape(b, ScatterAdd(b, zeros, flat(c.Out[1], win.Out), flat(g, win.Out), 1), in)}
}
