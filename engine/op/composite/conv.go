package composite

import (
	"fmt"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

func registerConvOps() {
	for d := 1; d <= 3; d++ {
		registerConv(d)
		registerConvTranspose(d)
	}
}

// perDim expands a list argument to d dims: missing where there is none, a single number for each dim. ok is false
// where the list has another length.
func perDim(list []int64, d int, missing []int64) (all []int64, ok bool) {
	switch len(list) {
	case d:
		return list, true
	case 0:
		return missing, true
	case 1:
		return repeated(list[0], d), true
	}
	return nil, false
}

// lists is perDim for the arguments of convolutions; v stands for missing ones.
func lists(name, arg string, list []int64, d int, v int64) []int64 {
	all, ok := perDim(list, d, repeated(v, d))
	if !ok {
		fail(ir.ErrRuntime, "%s: expected %s to be a single integer value or a list of %d values to match the convolution "+
			"dimensions, but got %s=%s", name, arg, d, arg, ir.ShapeString(list))
	}
	return all
}

func repeated(v int64, d int) []int64 { return slices.Repeat([]int64{v}, d) }

// withBatch gives a tensor of d spatial dims a batch dim where it has none.
func withBatch(b op.Builder, name string, x op.Val, d int) (op.Val, bool) {
	switch n := len(x.Shape()); n {
	case d + 2:
		return x, false
	case d + 1:
		return prim.Unsqueeze(b, x, 0), true
	default:
		fail(ir.ErrRuntime, "Expected %dD (unbatched) or %dD (batched) input to %s, but got input of size: %s", d+1, d+2,
			name, ir.ShapeString(x.Shape()))
	}
	return x, false
}

func withoutBatch(b op.Builder, y op.Val, single bool) op.Val {
	if single {
		return prim.Select(b, y, 0, 0)
	}
	return y
}

// shifted adds a bias to the channels.
func shifted(b op.Builder, y, bias op.Val) op.Val {
	if !bias.IsTensor() {
		return y
	}
	if s := bias.Shape(); len(s) != 1 || s[0] != y.Shape()[1] {
		fail(ir.ErrRuntime, "expected bias to be 1-dimensional with %d elements, but got bias of size %s instead",
			y.Shape()[1], ir.ShapeString(s))
	}
	if bias.DType() != y.DType() {
		fail(ir.ErrRuntime, "Input type (%s) and bias type (%s) should be the same", typeName(y.DType()),
			typeName(bias.DType()))
	}
	return prim.Add(b, y, byChannel(b, bias, y.Shape()))
}

// byChannel broadcasts a value of each channel, dim 1, to shape.
func byChannel(b op.Builder, v op.Val, shape []int64) op.Val {
	return expand(b, prim.Reshape(b, v, append([]int64{shape[1]}, repeated(1, len(shape)-2)...)), shape)
}

func needPositive(what string, list []int64) {
	for _, v := range list {
		if v <= 0 {
			fail(ir.ErrRuntime, "non-positive %s is not supported", what)
		}
	}
}

func registerConv(d int) {
	name := fmt.Sprintf("conv%dd", d)
	sizes := []string{"5", "5,6", "4,5,3"}[d-1]
	kernel := []string{"3", "3,2", "2,3,2"}[d-1]
	doc := fmt.Sprintf("Convolution (cross-correlation) over %d dims: input [N, C, ...], weight [O, C/groups, ...].", d)
	op.Register(op.Def{
		Sig: name +
			"(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=(), int[] padding=(), int[] dilation=(), " +
			"int groups=1) -> Tensor", Doc: doc,
		Where: op.Function | op.Functional,
		Eval: func(a *op.Args) []op.Val {
			x, w, bias := a.Val(), a.Val(), a.Val()
			stride, _ := a.IntList()
			padding, _ := a.IntList()
			dilation, _ := a.IntList()
			lo := lists(name, "padding", padding, d, 0)
			for _, p := range lo {
				if p < 0 {
					fail(ir.ErrRuntime, "negative padding is not supported")
				}
			}
			return a.Ret(convolve(a.B, name, x, w, bias, lists(name, "stride", stride, d, 1), lo, lo,
				lists(name, "dilation", dilation, d, 1), a.Int()))
		},
		Samples: samples("T(2,4,"+sizes+"), T(6,4,"+kernel+")", "T(2,4,"+sizes+"), T(6,2,"+kernel+"), T(6), 2, 1, 1, 2",
			"T(4,"+sizes+"), T(3,4,"+kernel+"), T(3), 1, 2, 2", "T(1,2,"+sizes+"), T(2,1,"+kernel+"), None, 1, 1, 1, 2",
			"T(0,4,"+sizes+"), T(6,4,"+kernel+")"),
		ErrorSamples: samples("T(2,3,"+sizes+"), T(6,4,"+kernel+")", "T(2,4,"+sizes+"), T(6,4,"+kernel+"), T(5)",
			"T(2,4), T(6,4,"+kernel+")", "T(2,4,"+sizes+"), T(6,4,"+kernel+"), None, 0"),
	})
	op.Register(op.Def{
		Sig: name + ".padding(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=(), str(valid|same) " +
			"padding='valid', int[] dilation=(), int groups=1) -> Tensor", Doc: doc,
		Where: op.Function | op.Functional,
		Eval: func(a *op.Args) []op.Val {
			x, w, bias := a.Val(), a.Val(), a.Val()
			list, _ := a.IntList()
			same := a.Int() == 1
			dil, _ := a.IntList()
			stride, dilation := lists(name, "stride", list, d, 1), lists(name, "dilation", dil, d, 1)
			lo, hi := repeated(0, d), repeated(0, d)
			if same {
				checkConv(name, w, stride, dilation, 1, d)
				for i, s := range stride {
					if s != 1 {
						fail(ir.ErrRuntime, "padding='same' is not supported for strided convolutions")
					}
					total := dilation[i] * (w.Shape()[i+2] - 1)
					lo[i], hi[i] = total/2, total-total/2
				}
			}
			return a.Ret(convolve(a.B, name, x, w, bias, stride, lo, hi, dilation, a.Int()))
		},
		Samples: samples("T(2,4,"+sizes+"), T(6,4,"+kernel+"), T(6) | padding='same'", "T(2,4,"+sizes+"), T(6,4,"+kernel+
			") | padding='valid', stride=2"),
		ErrorSamples: samples("T(), T() | padding='same'", "T(2,4,"+sizes+"), T(6,4) | padding='same'",
			"T(2,4,"+sizes+"), T(6,4,"+kernel+") | padding='same', stride=2"),
	})
}

// convolve pads by lo in front and hi behind.
func convolve(b op.Builder, name string, x, w, bias op.Val, stride, lo, hi, dilation []int64, groups int64) op.Val {
	d := len(stride)
	checkConv(name, w, stride, dilation, groups, d)
	x, single := withBatch(b, name, x, d)
	s, k := x.Shape(), w.Shape()
	if s[1] != k[1]*groups {
		fail(ir.ErrRuntime, "Given groups=%d, weight of size %s, expected input%s to have %d channels, but got %d channels "+
			"instead", groups, ir.ShapeString(k), ir.ShapeString(s), k[1]*groups, s[1])
	}
	if k[0] < groups {
		fail(ir.ErrRuntime, "Given groups=%d, expected weight to be at least %d at dimension 0, but got weight of size %s "+
			"instead", groups, groups, ir.ShapeString(k))
	}
	if k[0]%groups != 0 {
		fail(ir.ErrRuntime, "Given groups=%d, expected weight to be divisible by %d at dimension 0, but got weight of size "+
			"%s instead", groups, groups, ir.ShapeString(k))
	}
	win := op.Windows{Kernel: k[2:], Stride: stride, Lo: lo, Dilation: dilation, Base: repeated(1, d)}
	var padded, reach []int64
	for i, n := range s[2:] {
		padded, reach = append(padded, n+lo[i]+hi[i]), append(reach, dilation[i]*(k[i+2]-1)+1)
		win.Out = append(win.Out, ir.FloorDiv(padded[i]-reach[i], stride[i])+1)
	}
	if slices.Min(win.Out) < 1 {
		fail(ir.ErrRuntime, "Calculated padded input size per channel: (%s). Kernel size: (%s). Kernel size can't be "+
			"greater than actual input size", ir.Joined(padded, " x "), ir.Joined(reach, " x "))
	}
	y := wide(b, x, w, bias, func(x, w, bias op.Val) op.Val { return shifted(b, prim.Conv(b, x, w, win, groups), bias) })
	return withoutBatch(b, y, single)
}

// wide computes with a bias in float32 where the operands are halves, so that the sum is rounded once.
func wide(b op.Builder, x, w, bias op.Val, f func(x, w, bias op.Val) op.Val) op.Val {
	d := x.DType()
	t := d.ComputeType()
	if t == d || !bias.IsTensor() || w.DType() != d || bias.DType() != d {
		return f(x, w, bias)
	}
	return cast(b, f(cast(b, x, t), cast(b, w, t), cast(b, bias, t)), d)
}

func checkConv(name string, w op.Val, stride, dilation []int64, groups int64, d int) {
	if len(w.Shape()) != d+2 {
		fail(ir.ErrRuntime, "%s: weight: got %d dims, want %d", name, len(w.Shape()), d+2)
	}
	needPositive("stride", stride)
	needPositive("dilation", dilation)
	if groups <= 0 {
		fail(ir.ErrRuntime, "non-positive groups is not supported")
	}
}

func registerConvTranspose(d int) {
	name := fmt.Sprintf("conv_transpose%dd", d)
	sizes := []string{"4", "4,3", "2,3,2"}[d-1]
	kernel := []string{"3", "3,2", "2,3,2"}[d-1]
	op.Register(op.Def{
		Sig: name + "(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=(), int[] padding=(), int[] " +
			"output_padding=(), int groups=1, int[] dilation=()) -> Tensor",
		Doc: fmt.Sprintf("Transposed convolution over %d dims: input [N, C, ...], weight [C, O/groups, ...]; the adjoint of "+
			"a convolution.", d), Where: op.Function | op.Functional,
		Eval: func(a *op.Args) []op.Val {
			x, w, bias := a.Val(), a.Val(), a.Val()
			stride, _ := a.IntList()
			padding, _ := a.IntList()
			extra, _ := a.IntList()
			groups := a.Int()
			dilation, _ := a.IntList()
			return a.Ret(transposed(a.B, name, x, w, bias, lists(name, "stride", stride, d, 1), lists(name, "padding", padding,
				d, 0), lists(name, "output_padding", extra, d, 0), lists(name, "dilation", dilation, d, 1), groups))
		},
		Samples: samples("T(2,4,"+sizes+"), T(4,3,"+kernel+")", "T(2,4,"+sizes+"), T(4,3,"+kernel+"), T(6), 2, 1, 1, 2",
			"T(4,"+sizes+"), T(4,3,"+kernel+"), T(3), 3, 0, 2, 1, 2"),
		ErrorSamples: samples("T(2,3,"+sizes+"), T(4,3,"+kernel+")", "T(2,4,"+sizes+"), T(4,3,"+kernel+"), None, 1, 0, 1"),
	})
}

func transposed(b op.Builder, name string, x, w, bias op.Val, stride, padding, extra, dilation []int64,
	groups int64) op.Val {
	d := len(stride)
	checkConv(name, w, stride, dilation, groups, d)
	x, single := withBatch(b, name, x, d)
	s, k := x.Shape(), w.Shape()
	if s[1] != k[0] || k[0]%groups != 0 {
		fail(ir.ErrRuntime, "Given transposed=1, weight of size %s, expected input%s to have %d channels, but got %d "+
			"channels instead", ir.ShapeString(k), ir.ShapeString(s), k[0], s[1])
	}
	forward := op.Windows{Kernel: k[2:], Stride: stride, Lo: padding, Dilation: dilation, Base: repeated(1, d), Out: s[2:]}
	var out []int64
	for i, n := range s[2:] {
		if extra[i] >= max(stride[i], dilation[i]) {
			fail(ir.ErrRuntime, "output padding must be smaller than either stride or dilation, but got output_padding: %d, "+
				"stride: %d, dilation: %d", extra[i], stride[i], dilation[i])
		}
		m := (n-1)*stride[i] - 2*padding[i] + dilation[i]*(k[i+2]-1) + extra[i] + 1
		if m <= 0 {
			fail(ir.ErrRuntime, "Given input size per channel: %s. Calculated output size per channel: (%d). Output size is "+
				"too small", ir.ShapeString(s[2:]), m)
		}
		out = append(out, m)
	}
	win := forward.Adjoint(out)
	y := wide(b, x, w, bias, func(x, w, bias op.Val) op.Val {
		return shifted(b, prim.ConvTranspose(b, x, w, win, groups),
			bias)
	})
	return withoutBatch(b, y, single)
}
