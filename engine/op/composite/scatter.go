package composite

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

func registerScatterOps() {
	registerScatters()
	registerIndexWrites()
	registerScatterReduce()
	registerMaskedScatter()
	registerViewScatters()
}

// scatterArgs checks and prepares the operands of a scatter; src may be a number.
func scatterArgs(b op.Builder, name string, x, i, src op.Val, dim int64) (op.Val, op.Val, op.Val, int64) {
	d := ir.WrapDim(dim, len(x.Shape()))
	needIndex("scatter", i)
	if src.IsTensor() && src.DType() != x.DType() {
		fail(ir.ErrRuntime, "scatter(): Expected self.dtype to be equal to src.dtype")
	}
	x, i = asVector(b, x), asVector(b, i)
	checkGatherShape(x, i, d, "self")
	if !src.IsTensor() {
		return x, i, asType(b, src, x.DType()), int64(d)
	}
	src = asVector(b, src)
	if i.L().Numel == 0 && (len(src.Shape()) != len(i.Shape()) || len(x.Shape()) != len(i.Shape())) {
		return x, i, src, int64(d) // an index without elements may have any shape
	}
	if len(src.Shape()) != len(i.Shape()) {
		fail(ir.ErrRuntime, "Index tensor must have the same number of dimensions as src tensor")
	}
	for k, n := range i.Shape() {
		if n > src.Shape()[k] {
			fail(ir.ErrRuntime, "Expected index %s to be no larger than self %s apart from dimension %d and to be no larger "+
				"size than src %s", ir.ShapeString(i.Shape()), ir.ShapeString(x.Shape()), d, ir.ShapeString(src.Shape()))
		}
		src = prim.Slice(b, src, int64(k), 0, n, 1)
	}
	return x, i, src, int64(d)
}

// scatterOp is an operator of the scatter group: f of the checked operands.
func scatterOp(a *op.Args, name string, self op.Val, dim int64, i, src op.Val, f func(b op.Builder, x, i, src op.Val,
	dim int64) op.Val) []op.Val {
	x, i, src, d := scatterArgs(a.B, name, self, i, src, dim)
	if i.L().Numel == 0 && (src.IsScalar() || !ir.SameShape(src.Shape(), i.Shape())) {
		return a.Ret(prim.Copy(a.B, self))
	}
	return a.Ret(prim.Reshape(a.B, f(a.B, x, i, src, d), self.Shape()))
}

// scatterModes are the words of scatter's reduce, None first.
var scatterModes = []func(b op.Builder, x, i, src op.Val, dim int64) op.Val{
	prim.Scatter, overInts(prim.ScatterAdd), overInts(reducing(prim.ScatterProd)),
}

func registerScatters() {
	op.Register(op.Def{
		Sig: "scatter(Tensor self, int dim, Tensor index, Tensor src, *, str(add|multiply)? reduce=None) -> Tensor",
		Doc: "src written, added or multiplied in at indices along a dim.", InPlace: true, Out: true,
		Samples: samples("T(3,4), 0, torch.tensor([[0, 1, 2, 0]]), T(1,4)",
			"T(3,4), 1, torch.tensor([[0, 1], [2, 3]]), T(2,2)", "T(5), 0, torch.tensor([4, 0]), T(3)",
			"T(3,4), 0, torch.tensor([[0, 1, 2, 0]]), T(1,4) | reduce='add'",
			"T(5), 0, torch.tensor([4, 4, 0]), T(3) | reduce='multiply'"),
		ErrorSamples: samples("T(3,4), 0, I(2;0,3), T(2)", "T(3), 0, I(2;0,3), I(2;0,3)", "T(3), 0, I(4;0,3), T(2)"),
		Eval: func(a *op.Args) []op.Val {
			x, dim, i, src := a.Val(), a.Int(), a.Val(), a.Val()
			return scatterOp(a, "scatter", x, dim, i, src, scatterModes[a.Int()+1])
		},
	})
	op.Register(op.Def{
		Sig: "scatter.value(Tensor self, int dim, Tensor index, Scalar value, *, str(add|multiply)? reduce=None) -> Tensor",
		Doc: "A number written, added or multiplied in at indices along a dim.", InPlace: true, Out: true,
		Samples: samples("T(3,4), 0, I(2,4;0,3), 2.5", "I(5;0,9), 0, I(2;0,5), 7",
			"T(5), 0, I(7;0,5), 1.5 | reduce='add'", "T(3,4), 1, I(2,4;0,3), 2 | reduce='multiply'"),
		ErrorSamples: samples("T(3,4), 0, I(2;0,3), 1.0"),
		Eval: func(a *op.Args) []op.Val {
			x, dim, i, v := a.Val(), a.Int(), a.Val(), a.Scalar()
			mode := a.Int() + 1
			if mode > 0 {
				v = prim.Expand(a.B, prim.Fill(a.B, asType(a.B, v, x.DType()), x.DType(), x.Device(), nil), i.Shape())
			}
			return scatterOp(a, "scatter", x, dim, i, v, scatterModes[mode])
		},
	})
	op.Register(op.Def{
		Sig: "scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
		Doc: "src added at indices along a dim.", InPlace: true, Out: true,
		Samples: samples("T(3,4), 0, I(2,4;0,3), T(2,4)", "T(5), 0, I(9;0,5), T(9)", "I(5;0,9), 0, I(3;0,5), I(3;0,9)",
			"T(3,4), 1, I(3,6;0,4), T(3,6)"),
		ErrorSamples: samples("T(3,4), 0, I(2;0,3), T(2)", "T(3), 0, I(2;0,3), I(2;0,3)"),
		Eval: func(a *op.Args) []op.Val {
			x, dim, i, src := a.Val(), a.Int(), a.Val(), a.Val()
			return scatterOp(a, "scatter_add", x, dim, i, src, overInts(prim.ScatterAdd))
		},
	})
}

// overInts counts sums of bools in integers, since a sum of bools is or, and combines integers of 8 and 16 bits in
// int32.
func overInts(f func(b op.Builder, x, i, src op.Val, dim int64) op.Val) func(b op.Builder, x, i, src op.Val,
	dim int64) op.Val {
	return func(b op.Builder, x, i, src op.Val, dim int64) op.Val {
		d := x.DType()
		if d != ir.Bool && !d.IsNarrow() {
			return f(b, x, i, src, dim)
		}
		return prim.Cast(b, f(b, prim.Cast(b, x, ir.I32), i, prim.Cast(b, src, ir.I32), dim), d)
	}
}

// indexWriteArgs checks the arguments of index_add and index_copy.
func indexWriteArgs(name string, b op.Builder, x, i, src op.Val, dim int64) (op.Val, op.Val, op.Val, int64) {
	d := ir.WrapDim(dim, len(x.Shape()))
	if len(i.Shape()) > 1 {
		fail(ir.ErrIndex, "%s_(): Index is supposed to be a vector, but got dim: %d with type: %s and size: %s", name,
			len(i.Shape()), typeName(i.DType()), ir.ShapeString(i.Shape()))
	}
	if d := i.DType(); d != ir.I64 && d != ir.I32 {
		fail(ir.ErrRuntime, "%s_(): Expected dtype int32/int64 for index but got: %s", name, typeName(d))
	}
	if src.DType() != x.DType() {
		fail(ir.ErrRuntime, "%s_(): self (%s) and source (%s) must have the same scalar type", name, typeName(x.DType()),
			typeName(src.DType()))
	}
	x, i, src = asVector(b, x), asVector(b, i), asVector(b, src)
	if n, m := i.L().Numel, src.Shape(); d >= len(m) || m[d] != n {
		got := int64(1)
		if d < len(m) {
			got = m[d]
		}
		if name == "index_copy" {
			fail(ir.ErrIndex, "index_copy_(): Number of indices (%d) should be equal to source.size(dim) (%d)", n, got)
		}
		fail(ir.ErrRuntime, "%s_(): Number of indices (%d) should be equal to source.size(dim): (%d), for dim: %d", name, n,
			got, d)
	}
	want := slices.Clone(x.Shape())
	want[d] = i.L().Numel
	if !ir.SameShape(want, src.Shape()) {
		fail(ir.ErrRuntime, "source tensor shape must match self tensor shape, excluding the specified dimension. Got "+
			"self.shape = %s source.shape = %s", ir.ShapeString(x.Shape()), ir.ShapeString(src.Shape()))
	}
	return x, i, src, int64(d)
}

func registerIndexWrites() {
	op.Register(op.Def{
		Sig:     "index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
		Doc:     "Slices of source added at indices of a dim.",
		InPlace: true, Out: true, Samples: samples("T(5,4), 0, I(3;0,5), T(3,4)", "T(2,4), 1, I(6;0,4), T(2,6) | alpha=0.5",
			"I(5;0,9), 0, I(3;0,5), I(3;0,9)"),
		ErrorSamples: samples("T(3,4), 0, I(1;0,3), T(3,4)", "T(3), 0, I(1,1;0,3), T(1)", "T(3), 0, I(2;0,3), I(2;0,3)"),
		Eval: func(a *op.Args) []op.Val {
			self, dim, i, src := a.Val(), a.Int(), a.Val(), a.Val()
			x, i, src, d := indexWriteArgs("index_add", a.B, self, i, src, dim)
			src = times(a.B, src, a.Scalar())
			return a.Ret(prim.Reshape(a.B, overInts(prim.IndexAdd)(a.B, x, i, src, d), self.Shape()))
		},
	})
	copied := func(scatter func(b op.Builder, x, i, src op.Val, dim int64) op.Val) func(a *op.Args) []op.Val {
		return func(a *op.Args) []op.Val {
			self, dim, i, src := a.Val(), a.Int(), a.Val(), a.Val()
			x, i, src, d := indexWriteArgs("index_copy", a.B, self, i, src, dim)
			y := scatter(a.B, x, prim.Along(a.B, i, src.Shape(), d), src, d)
			return a.Ret(prim.Reshape(a.B, y, self.Shape()))
		}
	}
	op.Register(op.Def{
		Sig: "index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
		Doc: "Slices of source written at indices of a dim.", InPlace: true, Out: true,
		Samples:      samples("T(5,4), 0, torch.tensor([0, 4, 2]), T(3,4)", "T(2,4), 1, torch.tensor([3]), T(2,1)"),
		ErrorSamples: samples("T(3,4), 0, I(1;0,3), T(3,4)"), Eval: copied(prim.Scatter),
	})
	op.Register(op.Def{
		Sig:   "_unsafe_index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
		Where: op.Hidden,
		Doc:   "index_copy with indices that are known to be in range: kernels do not check them.", InPlace: true,
		Samples: samples("T(5,4), 0, torch.tensor([0, 4, 2]), T(3,4)", "T(2,4), 1, torch.tensor([3]), T(2,1)"),
		Eval:    copied(prim.ScatterInBounds),
	})
	op.Register(op.Def{
		Sig: "index_fill(Tensor self, int dim, Tensor index, Operand value) -> Tensor",
		Doc: "A value written at indices of a dim.", InPlace: true,
		Samples: samples("T(5,4), 0, I(3;0,5), 2.5", "T(2,4), 1, I(2;0,4), -1", "T(5), 0, I(2;0,5), torch.ones(())",
			"T(5,2), 0, torch.tensor([1, 1, 3]), T()"), ErrorSamples: samples("T(3), 0, I(1,1;0,3), 1.0"),
		Eval: func(a *op.Args) []op.Val {
			self, dim, i, v, b := a.Val(), a.Int(), a.Val(), a.Val(), a.B
			d := ir.WrapDim(dim, len(self.Shape()))
			if len(i.Shape()) > 1 {
				fail(ir.ErrRuntime, "Index has to be a vector/scalar")
			}
			if i.DType() != ir.I64 {
				fail(ir.ErrRuntime, "index_fill_(): Expected dtype int64 for index.")
			}
			if v.IsTensor() && len(v.Shape()) > 0 {
				fail(ir.ErrRuntime, "index_fill_ only supports a 0-dimensional value tensor, but got tensor with %d dimension(s).",
					len(v.Shape()))
			}
			x, i := asVector(b, self), asVector(b, i)
			row := prim.Scatter(b, prim.Zeros(b, ir.Bool, x.Device(), []int64{x.Shape()[d]}), i, op.BoolVal(true), 0)
			y := maskedFill(b, x, prim.Along(b, row, x.Shape(), int64(d)), v)
			return a.Ret(prim.Reshape(b, y, self.Shape()))
		},
	})
}

// reducing is prim.ScatterReduce in one mode. GPUs combine 64-bit integers atomically by sums only.
func reducing(mode int64) func(b op.Builder, x, i, src op.Val, dim int64) op.Val {
	return func(b op.Builder, x, i, src op.Val, dim int64) op.Val {
		if x.DType() == ir.I64 && x.Device() != ir.CPU {
			return reduceMatched(b, x, i, src, dim, mode)
		}
		return prim.ScatterReduce(b, x, i, src, dim, mode)
	}
}

// reduceMatched is prim.ScatterReduce without atomics: each place along dim compares itself with all of src.
func reduceMatched(b op.Builder, x, i, src op.Val, dim, mode int64) op.Val {
	n := x.Shape()[dim]
	region := func(base op.Val) op.Val {
		for k, m := range i.Shape() {
			if int64(k) != dim {
				base = prim.Slice(b, base, int64(k), 0, m, 1)
			}
		}
		return base
	}
	shape := slices.Insert(slices.Clone(i.Shape()), int(dim), n)
	places := prim.Along(b, prim.Iota(b, op.IntVal(0), op.IntVal(1), ir.I64, x.Device(), n), shape, dim)
	wide := func(v op.Val) op.Val { return prim.Expand(b, prim.Unsqueeze(b, v, dim), shape) }
	hit := prim.Eq(b, wide(cast(b, i, ir.I64)), places)
	found := prim.Where(b, hit, wide(src), identity(mode, ir.I64))
	at := []int64{dim + 1}
	old := region(x)
	var y op.Val
	switch mode {
	case prim.ScatterProd:
		y = prim.Mul(b, old, prim.Prod(b, found, at))
	case prim.ScatterMax:
		y = prim.Maximum(b, old, prim.Amax(b, found, at))
	default:
		y = prim.Minimum(b, old, prim.Amin(b, found, at))
	}
	return writeView(b, x, y, region)
}

// identity is the number that a reduction of elements of dtype d starts from.
func identity(mode int64, d ir.DType) op.Val {
	switch {
	case mode == prim.ScatterProd:
		return op.IntVal(1)
	case d.IsFloat():
		return op.FloatVal(math.Inf(map[bool]int{true: -1, false: 1}[mode == prim.ScatterMax]))
	}
	lowest, highest := ir.Limits(d)
	if mode == prim.ScatterMax {
		return op.IntVal(lowest)
	}
	return op.IntVal(highest)
}

// reduceAt is scatter_reduce of checked operands; how is a word of "sum|mean|prod|amax|amin". Without includeSelf the
// elements that i names start from the identity.
func reduceAt(b op.Builder, x, i, src op.Val, dim, how int64, includeSelf bool) op.Val {
	if d := x.DType(); d == ir.Bool || d.IsNarrow() {
		return prim.Cast(b, reduceAt(b, prim.Cast(b, x, ir.I32), i, prim.Cast(b, src, ir.I32), dim, how, includeSelf), d)
	}
	if how > 1 {
		mode := []int64{prim.ScatterProd, prim.ScatterMax, prim.ScatterMin}[how-2]
		if !includeSelf {
			x = prim.Scatter(b, x, i, identity(mode, x.DType()), dim)
		}
		return reducing(mode)(b, x, i, src, dim)
	}
	count := prim.OnesLike(b, x)
	if !includeSelf {
		x, count = prim.Scatter(b, x, i, op.IntVal(0), dim), prim.ZerosLike(b, x)
	}
	y := prim.ScatterAdd(b, x, i, src, dim)
	if how == 0 {
		return y
	}
	count = prim.Maximum(b, prim.ScatterAdd(b, count, i, prim.OnesLike(b, src), dim), op.IntVal(1))
	if x.DType().IsInexact() {
		return prim.Div(b, y, count)
	}
	return prim.FloorDivide(b, y, count)
}

func registerScatterReduce() {
	op.Register(op.Def{
		Sig: "scatter_reduce(Tensor self, int dim, Tensor index, Tensor src, str(sum|mean|prod|amax|amin) reduce, *, bool " +
			"include_self=True) -> Tensor",
		Doc:     "src reduced into the elements at indices along a dim; without include_self their old values do not count.",
		InPlace: true, Out: true,
		Samples: samples("T(3,4), 0, I(2,4;0,3), T(2,4), 'sum'", "T(5), 0, I(9;0,5), T(9), 'mean'",
			"T(5), 0, I(9;0,5), T(9), 'mean' | include_self=False", "T(3,4), 1, I(2,6;0,4), T(3,7), 'prod'",
			"T(3,4), 1, I(3,6;0,4), T(3,6), 'amax'", "T(4,4), 0, I(6,3;0,4), T(6,3), 'amin' | include_self=False",
			"I(5;0,9), 0, I(3;0,5), I(3;0,9), 'amax'", "I(5,2;1,9), 0, I(3,2;0,5), I(3,2;0,9), 'prod'",
			"B(5), 0, I(7;0,5), B(7), 'amin'"),
		ErrorSamples: samples("T(3,4), 0, I(2;0,3), T(2), 'sum'", "T(3), 0, I(2;0,3), I(2;0,3), 'sum'"),
		Eval: func(a *op.Args) []op.Val {
			x, dim, i, src := a.Val(), a.Int(), a.Val(), a.Val()
			how, include := a.Int(), a.Bool()
			return scatterOp(a, "scatter_reduce", x, dim, i, src, func(b op.Builder, x, i, src op.Val, dim int64) op.Val {
				narrow := widen(b, x.DType(), &x, &src) // unlike index_reduce, PyTorch rounds once
				return narrow(reduceAt(b, x, i, src, dim, how, include))
			})
		},
	})
	op.Register(op.Def{
		Sig: "index_reduce(Tensor self, int dim, Tensor index, Tensor source, str(mean|prod|amax|amin) reduce, *, bool " +
			"include_self=True) -> Tensor",
		Doc: "Slices of source reduced into the slices at indices of a dim.", InPlace: true, Out: true,
		Samples: samples("T(5,4), 0, I(3;0,5), T(3,4), 'prod'", "T(2,4), 1, I(6;0,4), T(2,6), 'mean' | include_self=False",
			"I(5;0,9), 0, I(3;0,5), I(3;0,9), 'amax'", "T(5,2), 0, I(7;0,5), T(7,2), 'amin' | include_self=False"),
		ErrorSamples: samples("T(3,4), 0, I(1;0,3), T(3,4), 'prod'", "T(3), 0, I(1,1;0,3), T(1), 'prod'"),
		Eval: func(a *op.Args) []op.Val {
			self, dim, i, src, b := a.Val(), a.Int(), a.Val(), a.Val(), a.B
			x, i, src, d := indexWriteArgs("index_reduce", b, self, i, src, dim)
			how := a.Int() + 1
			y := reduceAt(b, x, prim.Along(b, i, src.Shape(), d), src, d, how, a.Bool())
			return a.Ret(prim.Reshape(b, y, self.Shape()))
		},
	})
}

func registerMaskedScatter() {
	op.Register(op.Def{
		Sig: "masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor",
		Doc: "The elements of source, in order, where a mask holds; mask and self broadcast.", InPlace: true,
		Samples: samples("T(3,4), B(3,4), T(12)", "T(3,4), B(4), T(4,4)", "T(4), B(3,4), T(12)",
			"I(5;0,9), B(5), I(5;0,9)", "T(0), B(0), T(0)"),
		ErrorSamples: samples("T(3), I(3;0,2), T(3)", "T(3), B(3), I(3;0,4)"), Eval: evalMaskedScatter,
	})
	op.Register(op.Def{
		Sig: "put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor",
		Doc: "source written (or added) at indices of the flattened tensor.", InPlace: true,
		Samples: samples("T(3,4), torch.tensor([[0, 11], [-3, 2]]), T(4)", "T(5), I(7;-5,5), T(7), True",
			"T(), torch.tensor([0]), T(1)", "I(5;0,9), torch.tensor([1, 1]), I(2;0,9), True"),
		ErrorSamples: samples("T(3), T(2), T(2)", "T(3), I(2;0,3), I(2;0,3)", "T(3), I(2;0,3), T(3)", "T(0), I(2;0,3), T(2)"),
		Eval: func(a *op.Args) []op.Val {
			x, i, src, b := a.Val(), a.Val(), a.Val(), a.B
			f := prim.Scatter
			if a.Bool() {
				f = overInts(prim.ScatterAdd)
			}
			checkPut(x, i, src)
			y := f(b, flat(b, x), wrapped(b, flat(b, i), x.L().Numel), flat(b, src), 0)
			return a.Ret(prim.Reshape(b, y, x.Shape()))
		},
	})
}

func checkPut(x, i, src op.Val) {
	switch n := i.L().Numel; {
	case i.DType() != ir.I64:
		fail(ir.ErrRuntime, "put_(): Expected a long tensor for index, but got %s", typeName(i.DType()))
	case src.DType() != x.DType():
		fail(ir.ErrRuntime, "put_(): self and source expected to have the same dtype, but got self.dtype = %s and "+
			"source.dtype = %s", typeName(x.DType()), typeName(src.DType()))
	case n != src.L().Numel:
		fail(ir.ErrIndex, "put_(): Expected source and index to have the same number of elements, but got source.numel() = "+
			"%d, index.numel() = %d", src.L().Numel, n)
	case n > 0 && x.L().Numel == 0:
		fail(ir.ErrIndex, "put_(): Tried to put elements into an empty tensor")
	}
}

// evalMaskedScatter gives the k-th element under the mask the k-th element of source. The kernel checks that source is
// long enough.
func evalMaskedScatter(a *op.Args) []op.Val {
	x, mask, src, b := a.Val(), a.Val(), a.Val(), a.B
	if mask.DType() != ir.Bool {
		fail(ir.ErrRuntime, "masked_scatter_ only supports boolean masks, but got mask with dtype %s", mask.DType().CName())
	}
	if x.DType() != src.DType() {
		fail(ir.ErrRuntime, "masked_scatter: expected self and source to have same dtypes but got %s and %s",
			typeName(x.DType()), typeName(src.DType()))
	}
	shape := align(b, ir.InvalidDType, &x, &mask)
	first := op.IntVal(1) // the number, among the trues, of the mask's first true
	src = flat(b, src)
	if src.L().Numel == 0 { // one element that no true may take
		src, first = prim.Cat(b, []op.Val{src, prim.Zeros(b, x.DType(), x.Device(), []int64{1})}, 0), op.IntVal(0)
	}
	m := flat(b, mask)
	number := prim.Sub(b, prim.Cumsum(b, prim.Cast(b, m, ir.I64), 0), first)
	found := prim.IndexSelect(b, src, prim.Where(b, m, number, op.IntVal(0)), 0)
	return a.Ret(prim.Where(b, mask, prim.Reshape(b, found, shape), x))
}

// writeView is x with a view of it replaced by src, cast and expanded to the view's shape.
func writeView(b op.Builder, x, src op.Val, view func(base op.Val) op.Val) op.Val {
	base := prim.Contiguous(b, x)
	v := view(base)
	if !ir.SameShape(src.Shape(), v.Shape()) {
		fail(ir.ErrRuntime, "expected src to have a size equal to the slice of self. src size = %s, slice size = %s",
			ir.ShapeString(src.Shape()), ir.ShapeString(v.Shape()))
	}
	for d, n := range v.Shape() {
		if n > 1 && v.L().Stride[d] == 0 {
			fail(ir.ErrRuntime, "unsupported operation: more than one element of the written-to tensor refers to a single "+
				"memory location. Please clone() the tensor before performing the operation.")
		}
	}
	return prim.StridedScatter(b, base, cast(b, src, x.DType()), v.L(), v.Offset-base.Offset)
}

func registerViewScatters() {
	op.Register(op.Def{
		Sig:     "select_scatter(Tensor self, Tensor src, int dim, int index) -> Tensor",
		Doc:     "A copy with src in place of select(dim, index).",
		Samples: samples("T(3,4), T(3), 1, -1", "T(3,4), T(4), 0, 1"), ErrorSamples: samples("T(3,4), T(4), 1, 0",
			"T(3,4), T(4), 0, 3"),
		Eval: func(a *op.Args) []op.Val {
			x, src, d, i := a.Val(), a.Val(), a.Int(), a.Int()
			return a.Ret(writeView(a.B, x, src, func(v op.Val) op.Val { return prim.Select(a.B, v, d, i) }))
		},
	})
	op.Register(op.Def{
		Sig: "slice_scatter(Tensor self, Tensor src, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor",
		Doc: "A copy with src in place of a slice of a dim.", Out: true,
		Samples:      samples("T(5,2), T(2,2), 0, 1, 3", "T(5,2), T(5,1), 1 | start=-1", "T(5), T(3), 0, None, None, 2"),
		ErrorSamples: samples("T(5), T(3), 0, 0, 2", "T(5), T(3), 0, 0, 2, 0"),
		Eval: func(a *op.Args) []op.Val {
			x, src, d := a.Val(), a.Val(), a.Int()
			start, _ := a.OptInt()
			end, given := a.OptInt()
			if !given {
				end = math.MaxInt64
			}
			step := a.Int()
			return a.Ret(writeView(a.B, x, src, func(v op.Val) op.Val { return prim.Slice(a.B, v, d, start, end, step) }))
		},
	})
	op.Register(op.Def{
		Sig:          "diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
		Doc:          "A copy with src in place of diagonal(offset, dim1, dim2).",
		Samples:      samples("T(3,4), T(3)", "T(3,4), T(2), 2", "T(2,3,4), T(3,2), 1, 0, -1"),
		ErrorSamples: samples("T(3,4), T(4)", "T(3), T(3)"),
		Eval: func(a *op.Args) []op.Val {
			x, src, offset, i, j := a.Val(), a.Val(), a.Int(), a.Int(), a.Int()
			return a.Ret(writeView(a.B, x, src, func(v op.Val) op.Val { return diagonal(a.B, v, offset, i, j) }))
		},
	})
	op.Register(op.Def{
		Sig: "as_strided_scatter(Tensor self, Tensor src, int[] size, int[] stride, int? storage_offset=None) -> " +
			"Tensor",
		Doc:          "A copy of the storage with src in place of as_strided(size, stride, storage_offset).",
		Samples:      samples("T(12), T(3,2), (3,2), (4,1)", "T(3,4), T(2,2), (2,2), (1,2), 3"),
		ErrorSamples: samples("T(12), T(2), (3,2), (4,1)", "T(12), T(3,2), (3,2), (0,1)"),
		Eval: func(a *op.Args) []op.Val {
			x, src, b := a.Val(), a.Val(), a.B
			batched := x.L().Hidden != nil
			if x.L().Overlap || batched {
				x = prim.Copy(b, x)
			}
			size := ir.AvalOf(x.Aval).Layout.Numel
			if x.DType().IsComplex() {
				size /= 2
			}
			if batched { // the storage of an element is its own copy
				size = x.L().Numel
			}
			l, offset := stridedArgs(a, x)
			store := prim.AsStrided(b, x, []int64{size}, []int64{1}, 0)
			y := writeView(b, store, src, func(v op.Val) op.Val {
				return prim.AsStrided(b, v, l.Shape, l.Stride,
					v.Offset+offset)
			})
			return a.Ret(prim.AsStrided(b, y, x.Shape(), x.L().Stride, elementOffset(x)))
		},
	})
}
