package composite

import (
	"fmt"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

func registerPoolOps() {
	for d := 1; d <= 3; d++ {
		registerMaxPool(d)
		registerAvgPool(d)
		registerAdaptive(d)
	}
	op.Register(op.Def{
		Sig: "_max_unpool(Tensor self, Tensor indices, int[] output_size) -> Tensor", Where: op.Hidden, Eval: evalMaxUnpool,
		Doc: "Zeros [N, C, *output_size] with self at the row-major places indices of each channel: the inverse of " +
			"max_poolNd_with_indices.",
		Samples: samples("T(2,3,2), torch.tensor([[[0, 3], [0, 3], [0, 3]], [[0, 3], [0, 3], [0, 3]]]), (5,)",
			"T(2,1,2), torch.tensor([[[4, 1]], [[4, 1]]]), (2,3)", "T(1,1,2,1,1), torch.tensor([[[[[3]], [[7]]]]]), (2,2,2)"),
	})
	op.Register(op.Def{
		Sig: "constant_pad_nd(Tensor self, int[] pad, Scalar value=0) -> Tensor", Where: op.Function, Eval: evalPad,
		Doc: "self with elements of one value before and behind: pairs of numbers, the last dim's first; negative " +
			"ones cut off.",
		Samples: samples("T(3,4), (1,2)", "T(3,4), (1,0,0,2), 2.5", "T(2,3,4), (-1,1)", "I(3,4;0,9), (1,1), 7",
			"T(3,4), (-1,-1,2,2)", "T(0,2), (1,1)"),
		ErrorSamples: samples("T(3,4), (1,)", "T(3), (1,1,1,1)", "T(3), (-2,-2)"),
	})
}

// functionFor is where PyTorch has the pools of d dims.
func functionFor(d int) op.Where {
	if d == 1 {
		return op.Function
	}
	return op.Functional
}

// poolSizes are sizes along each dim, for the shapes of samples, and a kernel.
func poolSizes(d int) (sizes, kernel, padding string) {
	return []string{"7", "7,6", "5,6,5"}[d-1], []string{"3", "(3,2)", "(2,3,2)"}[d-1],
		[]string{"1", "(1,1)", "(1,1,1)"}[d-1]
}

// pooling is a pool's geometry along each dim.
type pooling struct {
	kernel, stride, padding, dilation, out []int64
}

// poolingOf checks the arguments as PyTorch does, and finds the output's sizes.
func poolingOf(name string, x op.Val, d int, kernel, stride, padding, dilation []int64, ceil bool) pooling {
	in := pooled(name, x, d)
	list := func(what string, v []int64, missing []int64) []int64 {
		all, ok := perDim(v, d, missing)
		if !ok {
			fail(ir.ErrRuntime, "%s: %s must either be a single int, or a tuple of %d ints: got %s", name, what, d,
				ir.ShapeString(v))
		}
		return all
	}
	p := pooling{kernel: list("kernel_size", kernel, nil)}
	if p.kernel == nil {
		fail(ir.ErrRuntime, "%s: kernel_size must either be a single int, or a tuple of %d ints", name, d)
	}
	p.stride, p.padding, p.dilation = list("stride", stride, p.kernel), list("padding", padding, repeated(0, d)),
		list("dilation", dilation, repeated(1, d))
	for i, n := range in {
		k, s, pad := p.kernel[i], p.stride[i], p.padding[i]
		if k <= 0 || s <= 0 || p.dilation[i] <= 0 {
			fail(ir.ErrRuntime, "%s: kernel_size, stride and dilation should be greater than zero: got %d, %d and %d", name, k,
				s, p.dilation[i])
		}
		if pad < 0 || pad > ((k-1)*p.dilation[i]+1)/2 {
			fail(ir.ErrRuntime, "pad should be at most half of effective kernel size, but got pad=%d, kernel_size=%d and "+
				"dilation=%d", pad, k, p.dilation[i])
		}
		span := n + 2*pad - p.dilation[i]*(k-1) - 1
		out := ir.FloorDiv(span, s) + 1
		if ceil {
			out = ir.FloorDiv(span+s-1, s) + 1
			if (out-1)*s >= n+pad {
				out--
			}
		}
		p.out = append(p.out, out)
	}
	if slices.Min(p.out) < 1 {
		channels := x.Shape()[len(x.Shape())-d-1:][:1]
		fail(ir.ErrRuntime, "Given input size: (%s). Calculated output size: (%s). Output size is too small",
			ir.Joined(slices.Concat(channels, in), "x"), ir.Joined(slices.Concat(channels, p.out), "x"))
	}
	return p
}

func (p pooling) windows() op.Windows {
	return op.Windows{Kernel: p.kernel, Stride: p.stride, Lo: p.padding, Dilation: p.dilation,
		Base: repeated(1, len(p.kernel)), Out: p.out}
}

// pooled checks that x has d spatial dims after its channels, with or without a batch dim.
func pooled(name string, x op.Val, d int) []int64 {
	s := spatial(name, x, d)
	if slices.Contains(x.Shape()[len(x.Shape())-d-1:], 0) {
		fail(ir.ErrRuntime, "%s: Expected input with optional 0 dim batch size and other dims non-empty, but got: %s", name,
			ir.ShapeString(x.Shape()))
	}
	return s
}

// spatial is pooled for inputs that may have no channels.
func spatial(name string, x op.Val, d int) []int64 {
	s := x.Shape()
	if len(s) == 0 {
		fail(ir.ErrIndex, "Dimension specified as %d but tensor has no dimensions", -d-1)
	}
	if len(s) != d+1 && len(s) != d+2 {
		fail(ir.ErrRuntime, "%s: Expected %dD or %dD (batch mode) tensor for input, got %dD: %s", name, d+1, d+2, len(s),
			ir.ShapeString(s))
	}
	if slices.Contains(s[len(s)-d:], 0) {
		fail(ir.ErrRuntime, "%s: Expected input to have non-zero size for non-batch dimensions, but got: %s", name,
			ir.ShapeString(s))
	}
	return s[len(s)-d:]
}

func registerMaxPool(d int) {
	name := fmt.Sprintf("max_pool%dd", d)
	params := "(Tensor self, int[] kernel_size, int[] stride=(), int[] padding=(), int[] dilation=(), bool " +
		"ceil_mode=False)"
	eval := func(a *op.Args) (values, indices op.Val) {
		x := a.Val()
		kernel, _ := a.IntList()
		stride, _ := a.IntList()
		padding, _ := a.IntList()
		dilation, _ := a.IntList()
		w := poolingOf(name, x, d, kernel, stride, padding, dilation, a.Bool()).windows()
		return prim.WindowMax(a.B, prim.Flat(a.B, x), w)
	}
	sizes, kernel, padding := poolSizes(d)
	s := samples("T(2,3,"+sizes+"), "+kernel, "T(3,"+sizes+"), "+kernel+", 2", "T(2,3,"+sizes+"), "+kernel+", 2, "+padding+
		", 1, True", "T(2,1,"+sizes+"), 2, 1, 0, 2")
	op.Register(op.Def{
		Sig: name + params + " -> Tensor", Doc: fmt.Sprintf("The largest element of each window of the last %d dims.", d),
		Where: op.Function, Samples: s,
		ErrorSamples: samples("T(2,3,"+sizes+"), "+kernel+", 2, 5", "T(2,3,"+sizes+"), 0"),
		Eval: func(a *op.Args) []op.Val {
			v, _ := eval(a)
			return a.Ret(v)
		},
	})
	op.Register(op.Def{
		Sig: name + "_with_indices" + params + " -> (Tensor, Tensor)", Where: op.Hidden,
		Doc:     fmt.Sprintf("The largest element of each window of the last %d dims, and its row-major number in them.", d),
		Samples: s,
		Eval:    func(a *op.Args) []op.Val { return a.Ret(eval(a)) },
	})
}

func registerAvgPool(d int) {
	name := fmt.Sprintf("avg_pool%dd", d)
	sizes, kernel, padding := poolSizes(d)
	sig := name + "(Tensor self, int[] kernel_size, int[] stride=(), int[] padding=(), bool ceil_mode=False, bool " +
		"count_include_pad=True"
	s := samples("T(2,3,"+sizes+"), "+kernel, "T(3,"+sizes+"), "+kernel+", 2", "T(2,3,"+sizes+"), "+kernel+", 2, "+padding+
		", True", "T(2,3,"+sizes+"), "+kernel+", 2, "+padding+", True, False", "T(2,3,"+sizes+"), "+kernel+", 1, "+padding+
		", False, False")
	if d > 1 {
		sig += ", int? divisor_override=None"
		s = append(s, sample("T(2,3,"+sizes+"), "+kernel+", 2 | divisor_override=5"))
	}
	op.Register(op.Def{
		Sig: sig + ") -> Tensor", Doc: fmt.Sprintf("The mean of each window of the last %d dims.", d), Where: functionFor(d),
		Out: d > 1, Samples: s,
		ErrorSamples: samples("T(2,3,"+sizes+"), "+kernel+", 2, 5", "T(2,3,"+sizes+"), 0"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			kernel, _ := a.IntList()
			stride, _ := a.IntList()
			padding, _ := a.IntList()
			p := poolingOf(name, x, d, kernel, stride, padding, nil, a.Bool())
			include := a.Bool()
			sum := prim.WindowSum(a.B, prim.Flat(a.B, x), p.windows())
			if d > 1 {
				if over, given := a.OptInt(); given {
					if over == 0 {
						fail(ir.ErrRuntime, "divisor must be not zero")
					}
					return a.Ret(quotient(a.B, sum, op.IntVal(over)))
				}
			}
			return a.Ret(quotient(a.B, sum, p.counts(a.B, x, spatial(name, x, d), sum.Shape(), include)))
		},
	})
}

// quotient divides; integers truncate.
func quotient(b op.Builder, sum, n op.Val) op.Val {
	if sum.DType().IsInexact() {
		return prim.Div(b, sum, n)
	}
	return divide(b, sum, n, 0)
}

// counts is the number of elements in the mean of each window. Padding counts where include is set; what ceil_mode
// reaches beyond the padding never counts.
func (p pooling) counts(b op.Builder, x op.Val, in, shape []int64, include bool) op.Val {
	whole := true
	w := p.windows()
	ones := slices.Clone(in)
	for i, n := range in {
		reach := (p.out[i]-1)*p.stride[i] + p.kernel[i]
		if include {
			ones[i] += 2 * p.padding[i]
		} else {
			whole = whole && p.padding[i] == 0
		}
		whole = whole && reach <= n+2*p.padding[i]
	}
	if whole {
		return op.IntVal(ir.Numel(p.kernel))
	}
	if include {
		w.Lo = repeated(0, len(in))
	}
	full := prim.Fill(b, op.IntVal(1), x.DType(), x.Device(), ones)
	return expand(b, prim.WindowSum(b, full, w), shape)
}

func registerAdaptive(d int) {
	sizes, _, _ := poolSizes(d)
	half := []string{"3", "(3,2)", "(2,3,4)"}[d-1]
	s := samples("T(2,3,"+sizes+"), 1", "T(3,"+sizes+"), "+half, "T(2,2,"+sizes+"), "+half, "T(1,2,"+sizes+"), 8")
	mean := fmt.Sprintf("adaptive_avg_pool%dd", d)
	op.Register(op.Def{
		Sig: mean + "(Tensor self, int[] output_size) -> Tensor", Doc: "Means over windows placed so that the output has " +
			"the given size.", Where: functionFor(d), Samples: s,
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			in := spatial(mean, x, d)
			return a.Ret(adaptiveMean(a.B, prim.Flat(a.B, x), in, adaptiveSizes(a, in)))
		},
	})
	largest := fmt.Sprintf("adaptive_max_pool%dd", d)
	where := op.Hidden // nn.functional returns the indices only on request
	if d == 1 {
		where = op.Function
	}
	op.Register(op.Def{
		Sig:   largest + "(Tensor self, int[] output_size) -> (Tensor, Tensor)",
		Doc:   "Largest elements of windows placed so that the output has the given size, and their row-major numbers.",
		Where: where, Samples: s, ErrorSamples: samples("T(2,3,"+sizes+"), -1", "T(2), 1"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			in := spatial(largest, x, d)
			return a.Ret(adaptiveMax(a.B, prim.Flat(a.B, x), in, adaptiveSizes(a, in)))
		},
	})
}

func adaptiveSizes(a *op.Args, in []int64) []int64 {
	given, _ := a.IntList()
	out, ok := perDim(given, len(in), nil)
	if !ok || out == nil {
		fail(ir.ErrRuntime, "adaptive pool: output_size: got %d sizes, want %d", len(given), len(in))
	}
	for _, n := range out {
		if n < 0 {
			fail(ir.ErrRuntime, "elements of output_size must be greater than or equal to 0 but received %s",
				ir.ShapeString(out))
		}
	}
	return out
}

// evenly returns the pool whose windows tile the input, where the sizes allow it.
func evenly(in, out []int64) (w op.Windows, ok bool) {
	p := pooling{out: out, padding: repeated(0, len(in)), dilation: repeated(1, len(in))}
	for i, n := range in {
		if out[i] == 0 || n%out[i] != 0 {
			return w, false
		}
		p.kernel = append(p.kernel, n/out[i])
	}
	p.stride = p.kernel
	return p.windows(), true
}

// adaptiveMean is a product with a matrix of weights along each dim, unless windows tile the input.
func adaptiveMean(b op.Builder, x op.Val, in, out []int64) op.Val {
	if w, ok := evenly(in, out); ok {
		return prim.Mul(b, prim.WindowSum(b, x, w), op.FloatVal(1/float64(ir.Numel(w.Kernel))))
	}
	needFloat("adaptive_avg_pool", x)
	lead, d := len(x.Shape())-len(in), x.DType()
	x = cast(b, x, d.ComputeType())
	for i := range in {
		last := int64(len(x.Shape()) - 1)
		v := prim.Transpose(b, x, int64(lead+i), last)
		s := v.Shape()
		flat := prim.Reshape(b, v, []int64{ir.Numel(s[:last]), s[last]})
		v = prim.Matmul(b, flat, prim.Transpose(b, averages(b, x, in[i], out[i]), 0, 1), op.Val{})
		x = prim.Transpose(b, prim.Reshape(b, v, append(slices.Clone(s[:last]), out[i])), int64(lead+i), last)
	}
	return cast(b, x, d)
}

// bounds returns, as columns [out, 1], the first element of each of out windows over in elements, and the one after the
// last: floor(i*in/out) and ceil((i+1)*in/out).
func bounds(b op.Builder, x op.Val, in, out int64) (first, end op.Val) {
	i := prim.Unsqueeze(b, prim.Iota(b, op.IntVal(0), op.IntVal(1), ir.I64, x.Device(), out), 1)
	first = prim.FloorDivide(b, prim.Mul(b, i, op.IntVal(in)), op.IntVal(out))
	end = prim.Neg(b, prim.FloorDivide(b, prim.Mul(b, prim.Add(b, i, op.IntVal(1)), op.IntVal(-in)), op.IntVal(out)))
	return first, end
}

// averages is the matrix [out, in] of an adaptive mean along one dim.
func averages(b op.Builder, x op.Val, in, out int64) op.Val {
	shape := []int64{out, in}
	first, end := bounds(b, x, in, out)
	j := expand(b, prim.Iota(b, op.IntVal(0), op.IntVal(1), ir.I64, x.Device(), in), shape)
	inside := prim.BitwiseAnd(b, prim.Ge(b, j, expand(b, first, shape)), prim.Lt(b, j, expand(b, end, shape)))
	length := expand(b, cast(b, prim.Sub(b, end, first), x.DType()), shape)
	return prim.Div(b, cast(b, inside, x.DType()), length)
}

// adaptiveMax takes the maximum along one dim after the other, the last first: among equal elements the first in
// row-major order is taken.
func adaptiveMax(b op.Builder, x op.Val, in, out []int64) (values, indices op.Val) {
	if w, ok := evenly(in, out); ok {
		return prim.WindowMax(b, x, w)
	}
	needFloat("adaptive_max_pool", x)
	lead := len(x.Shape()) - len(in)
	below := int64(1)
	for i := len(in) - 1; i >= 0; i-- {
		dim, most := int64(lead+i), (in[i]+out[i]-1)/max(out[i], 1)+1
		first, end := bounds(b, x, in[i], out[i])
		shape := []int64{out[i], most}
		j := expand(b, prim.Iota(b, op.IntVal(0), op.IntVal(1), ir.I64, x.Device(), most), shape)
		// Windows shorter than the longest repeat their last element, which changes no maximum.
		at := prim.Minimum(b, prim.Add(b, expand(b, first, shape), j), expand(b, prim.Sub(b, end, op.IntVal(1)), shape))
		windows := func(v op.Val) op.Val {
			picked := prim.IndexSelect(b, v, prim.Reshape(b, at, []int64{out[i] * most}), dim)
			s := picked.Shape()
			return prim.Reshape(b, picked, append(append(slices.Clone(s[:dim]), out[i], most), s[dim+1:]...))
		}
		laid := windows(x)
		v, k := prim.MaxDim(b, laid, dim+1)
		pick := func(v op.Val) op.Val {
			return prim.Squeeze(b, prim.Gather(b, v, prim.Unsqueeze(b, k, dim+1), dim+1), []int64{dim + 1})
		}
		column := prim.Reshape(b, at, append(append(repeated(1, int(dim)), out[i], most),
			repeated(1, len(x.Shape())-int(dim)-1)...))
		here := prim.Mul(b, pick(expand(b, column, laid.Shape())), op.IntVal(below))
		if indices.IsTensor() {
			here = prim.Add(b, here, pick(windows(indices)))
		}
		x, indices = v, here
		below *= in[i]
	}
	return x, indices
}

func evalMaxUnpool(a *op.Args) []op.Val {
	x, i, b := a.Val(), a.Val(), a.B
	size, _ := a.IntList()
	if !ir.SameShape(x.Shape(), i.Shape()) {
		fail(ir.ErrRuntime, "Expected shape of indices to be same as that of the input tensor (%s) but got indices tensor "+
			"with shape: %s", ir.ShapeString(x.Shape()), ir.ShapeString(i.Shape()))
	}
	if i.DType() != ir.I64 {
		fail(ir.ErrRuntime, "elements in indices should be type int64 but got: %s", typeName(i.DType()))
	}
	lead := slices.Clone(x.Shape()[:len(x.Shape())-len(size)])
	flat := append(slices.Clone(lead), x.L().Numel/max(1, ir.Numel(lead)))
	last := int64(len(lead))
	y := prim.Zeros(b, x.DType(), x.Device(), append(slices.Clone(lead), ir.Numel(size)))
	y = prim.Scatter(b, y, prim.Reshape(b, i, flat), prim.Reshape(b, x, flat), last)
	return a.Ret(prim.Reshape(b, y, append(lead, size...)))
}

func evalPad(a *op.Args) []op.Val {
	x, b := a.Val(), a.B
	pad, _ := a.IntList()
	value := a.Scalar()
	s := slices.Clone(x.Shape())
	if len(pad)%2 != 0 || len(pad)/2 > len(s) {
		fail(ir.ErrRuntime, "Length of pad must be even and at most twice the number of dimensions of the input: got %d for "+
			"%d dims", len(pad), len(s))
	}
	lo := make([]int64, len(s))
	for i := 0; i < len(pad)/2; i++ {
		d := len(s) - 1 - i
		front, behind := pad[2*i], pad[2*i+1]
		if s[d]+front+behind < 0 {
			fail(ir.ErrRuntime, "The input size %d, plus negative padding %d and %d, resulted in a negative output size, which "+
				"is invalid. Check dimension %d of your input.", s[d], front, behind, d)
		}
		begin, end := max(0, -front), s[d]-max(0, -behind)
		x = prim.Slice(b, x, int64(d), begin, max(begin, end), 1)
		lo[d] = max(0, front)
		s[d] += front + behind
	}
	full := prim.Fill(b, asType(b, value, x.DType()), x.DType(), x.Device(), s)
	l := ir.DenseLayout(s)
	offset := int64(0)
	for d := range s {
		offset += lo[d] * l.Stride[d]
	}
	return a.Ret(prim.StridedScatter(b, full, x, ir.InternLayout(x.Shape(), l.Stride), offset))
}
