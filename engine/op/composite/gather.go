package composite

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// asVector gives a 0-dim tensor one dim.
func asVector(b op.Builder, x op.Val) op.Val {
	if len(x.Shape()) > 0 {
		return x
	}
	return prim.Reshape(b, x, []int64{1})
}

// wrapped makes negative indices of a dim of size n count from the end.
func wrapped(b op.Builder, i op.Val, n int64) op.Val {
	return prim.Where(b, prim.Lt(b, i, op.IntVal(0)), prim.Add(b, i, op.IntVal(n)), i)
}

// flat is x with one dim.
func flat(b op.Builder, x op.Val) op.Val { return prim.Reshape(b, x, []int64{x.L().Numel}) }

func needIndex(name string, i op.Val) {
	if d := i.DType(); d != ir.I64 && d != ir.I32 {
		fail(ir.ErrRuntime, "%s(): Expected dtype int32/int64 for index", name)
	}
}

func registerGatherOps() {
	op.Register(op.Def{
		Sig: "gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
		Doc: "Elements at indices along a dim.", Out: true, ExactOut: true, OutApart: true,
		Samples: samples("T(5,4), 0, I(3,4;0,5)", "T(5,4), 1, I(5,2;0,4)", "T(5,4), -1, I(2,3;0,4)", "T(), 0, I(;0,1)",
			"T(5), 0, I(0;0,5)"),
		ErrorSamples: samples("T(3,4), 0, I(2;0,3)", "T(3,4), 0, T(2,4)", "T(3,4), 0, I(2,5;0,3)", "T(3), 1, I(2;0,3)"),
		Eval:         evalGather,
	})
	op.Register(op.Def{
		Sig: "index_select(Tensor self, int dim, Tensor index) -> Tensor", Doc: "Slices at indices of a dim.", Out: true,
		ExactOut:     true,
		OutApart:     true,
		Samples:      samples("T(5,4), 0, I(3;0,5)", "T(5,4), -1, I(6;0,4)", "T(5), 0, I(;0,5)", "T(5,2), 0, I(0;0,5)"),
		ErrorSamples: samples("T(3), 0, I(1,1;0,3)", "T(3), 0, T(2)", "T(3), 1, I(2;0,3)"),
		Eval: func(a *op.Args) []op.Val {
			x, dim, i, b := a.Val(), a.Int(), a.Val(), a.B
			d := ir.WrapDim(dim, len(x.Shape()))
			if len(i.Shape()) > 1 {
				fail(ir.ErrIndex, "index_select(): Index is supposed to be a vector")
			}
			if d := i.DType(); !d.IsInt() || d.IsNarrow() {
				fail(ir.ErrRuntime, "index_select(): Expected dtype int32 or int64 for index")
			}
			if len(x.Shape()) == 0 {
				y := prim.IndexSelect(b, asVector(b, x), asVector(b, i), 0)
				return a.Ret(prim.Reshape(b, y, nil))
			}
			return a.Ret(prim.IndexSelect(b, x, asVector(b, i), int64(d)))
		},
	})
	op.Register(op.Def{
		Sig: "take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor", Doc: "gather with broadcasting.",
		Out:          true,
		Samples:      samples("T(5,4), I(1,4;0,5), 0", "T(5,4), I(3;0,20)", "T(1,4), I(5,2;-4,4), 1"),
		ErrorSamples: samples("T(3,4), I(2;0,3), 0"),
		Eval:         evalTakeAlongDim,
	})
	op.Register(op.Def{
		Sig: "take(Tensor self, Tensor index) -> Tensor", Doc: "Elements at indices of the flattened tensor.", Out: true,
		ExactOut: true, OutApart: true,
		Samples:      samples("T(3,4), I(2,2;0,12)", "T(5), I(3;-5,5)", "T(0), I(0;0,1)"),
		ErrorSamples: samples("T(3), T(2)", "T(0), I(2;0,1)"),
		Eval: func(a *op.Args) []op.Val {
			x, i, b := a.Val(), a.Val(), a.B
			if i.DType() != ir.I64 {
				fail(ir.ErrRuntime, "take(): Expected a long tensor for index, but got %s", typeName(i.DType()))
			}
			if x.L().Numel == 0 && i.L().Numel > 0 {
				fail(ir.ErrIndex, "take(): tried to take from an empty tensor")
			}
			y := prim.IndexSelect(b, flat(b, x), wrapped(b, flat(b, i), x.L().Numel), 0)
			return a.Ret(prim.Reshape(b, y, i.Shape()))
		},
	})
	registerEmbedding()
}

func evalGather(a *op.Args) []op.Val {
	x, dim, i, b := a.Val(), a.Int(), a.Val(), a.B
	d := ir.WrapDim(dim, len(x.Shape()))
	shape := i.Shape()
	if ir.Numel(shape) == 0 { // it names nothing, in any dtype and number of dims
		none := prim.Zeros(b, ir.I64, i.Device(), []int64{0})
		return a.Ret(prim.Reshape(b, prim.Gather(b, flat(b, x), none, 0), shape))
	}
	needIndex("gather", i)
	x, i = asVector(b, x), asVector(b, i)
	checkGatherShape(x, i, d, "input")
	return a.Ret(prim.Reshape(b, prim.Gather(b, x, i, int64(d)), shape))
}

// checkGatherShape checks that index lies within x in every dim except d.
func checkGatherShape(x, i op.Val, d int, what string) {
	s, t := x.Shape(), i.Shape()
	if i.L().Numel == 0 {
		return
	}
	if len(s) != len(t) {
		fail(ir.ErrRuntime, "Index tensor must have the same number of dimensions as %s tensor", what)
	}
	for k := range t {
		if k != d && t[k] > s[k] {
			fail(ir.ErrRuntime, "Size does not match at dimension %d expected index %s to be no larger than self %s apart from "+
				"dimension %d", k, ir.ShapeString(t), ir.ShapeString(s), d)
		}
	}
}

func evalTakeAlongDim(a *op.Args) []op.Val {
	x, i, b := a.Val(), a.Val(), a.B
	dim, given := a.OptInt()
	if i.DType() != ir.I64 {
		fail(ir.ErrRuntime, "torch.take_along_dim(): dtype of indices should be Long but got %s", typeName(i.DType()))
	}
	if !given {
		return a.Ret(prim.Gather(b, flat(b, x), wrapped(b, flat(b, i), x.L().Numel), 0))
	}
	if len(x.Shape()) != len(i.Shape()) {
		fail(ir.ErrRuntime, "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "+
			"%d dimensions for input, and %d dimensions for indices", len(x.Shape()), len(i.Shape()))
	}
	needDim(x, int(dim))
	d := ir.WrapDim(dim, len(x.Shape()))
	like := func(of, with []int64) []int64 {
		s := slices.Clone(with)
		s[d] = of[d]
		return s
	}
	si, sx := i.Shape(), x.Shape()
	indexShape := ir.BroadcastShape(si, like(si, sx))
	selfShape := ir.BroadcastShape(sx, like(sx, si))
	return a.Ret(prim.Gather(b, expand(b, x, selfShape), wrapped(b, expand(b, i, indexShape), sx[d]), int64(d)))
}

func registerEmbedding() {
	op.Register(op.Def{
		Sig: "embedding(Tensor weight, Tensor indices, int padding_idx=-1, bool scale_grad_by_freq=False, bool " +
			"sparse=False) -> Tensor",
		Doc: "The rows of weight at indices; the row padding_idx gets no gradient, with scale_grad_by_freq a row's " +
			"gradient is divided by how often it occurs. sparse changes nothing: gradients are dense.", Where: op.Function,
		Samples: samples("T(5,4), I(3;0,5)", "T(5,4), I(2,3;0,5)", "T(5,4), I(;0,5)", "T(5,4), I(6;0,5), 2",
			"T(3,4), I(8;0,3), 1, True"),
		ErrorSamples: samples("T(3,4), T(2)", "T(3), I(2;0,3)"), Eval: evalEmbedding,
	})
	op.Register(op.Def{
		Sig: "embedding_renorm_(Tensor self, Tensor indices, float max_norm, float norm_type) -> Tensor", Where: op.Function,
		InPlaceOnly:  true,
		Doc:          "The rows of self [rows, n] that occur in indices, scaled down to max_norm where their norm is larger.",
		Samples:      samples("T(5,4), I(3;0,5), 1.0, 2.0", "T(5,4), I(2,3;0,5), 0.5, 1.0"),
		ErrorSamples: samples("T(3), I(2;0,3), 1.0, 2.0"), NoGrad: "PyTorch computes none", Eval: evalEmbeddingRenorm,
	})
	op.Register(op.Def{
		Sig: "one_hot(Tensor self, int num_classes=-1) -> Tensor", Doc: "1 at the class, 0 elsewhere, along a new last dim.",
		Where: op.Functional, NoGrad: "of integers",
		Samples: samples("I(5;0,3), 3", "I(2,3;0,4), 6", "I(;0,3), 3"), ErrorSamples: samples("T(3), 3"),
		Eval: func(a *op.Args) []op.Val {
			x, n, b := a.Val(), a.Int(), a.B
			if x.DType() != ir.I64 {
				fail(ir.ErrRuntime, "one_hot is only applicable to index tensor of type LongTensor.")
			}
			if n == -1 {
				fail(ir.ErrValue, "one_hot: num_classes: got -1, want a number: the largest class is data that recording does not "+
					"read")
			}
			if n <= 0 {
				fail(ir.ErrRuntime, "num_classes should be positive")
			}
			shape := append(slices.Clone(x.Shape()), n)
			zeros := prim.Zeros(b, ir.I64, x.Device(), shape)
			return a.Ret(prim.Scatter(b, zeros, prim.Unsqueeze(b, x, -1), op.IntVal(1), int64(len(shape)-1)))
		},
	})
}

func evalEmbedding(a *op.Args) []op.Val {
	w, i, b := a.Val(), a.Val(), a.B
	pad := a.Int()
	scale := a.Bool()
	if len(w.Shape()) != 2 {
		fail(ir.ErrRuntime, "'weight' must be 2-D")
	}
	if d := i.DType(); d != ir.I64 && d != ir.I32 {
		fail(ir.ErrRuntime, "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, "+
			"Int; but got torch.%sTensor instead (while checking arguments for embedding)", typeName(d))
	}
	if w.Shape()[0] == 0 && i.L().Numel > 0 {
		fail(ir.ErrRuntime, "index_select(): self indexing axis dim should be positive")
	}
	if pad >= 0 && b.NeedsGrad(w) {
		row := prim.Eq(b, prim.Iota(b, op.IntVal(0), op.IntVal(1), ir.I64, w.Device(), w.Shape()[0]), op.IntVal(pad))
		w = prim.Where(b, prim.Expand(b, prim.Unsqueeze(b, row, 1), w.Shape()), b.Detach(w), w)
	}
	flat := prim.Reshape(b, i, []int64{i.L().Numel})
	y := prim.IndexSelect(b, w, flat, 0)
	if scale && b.NeedsGrad(w) {
		// The value is y's; the gradient of each row is divided by its number of occurrences.
		counts := prim.Zeros(b, w.DType(), w.Device(), w.Shape()[:1])
		counts = prim.ScatterAdd(b, counts, flat, prim.Fill(b, op.IntVal(1), w.DType(), w.Device(), flat.Shape()), 0)
		often := prim.Along(b, prim.IndexSelect(b, counts, flat, 0), y.Shape(), 0)
		still := b.Detach(y)
		y = prim.Add(b, still, prim.Div(b, prim.Sub(b, y, still), often))
	}
	return a.Ret(prim.Reshape(b, y, append(slices.Clone(i.Shape()), w.Shape()[1])))
}

// evalEmbeddingRenorm scales the rows that occur and are longer than max_norm down to it.
func evalEmbeddingRenorm(a *op.Args) []op.Val {
	w, i, most, p, b := a.Val(), a.Val(), a.Float(), a.Float(), a.B
	if len(w.Shape()) != 2 {
		fail(ir.ErrRuntime, "'weight' must be 2-D")
	}
	needIndex("embedding_renorm_", i)
	flat := prim.Reshape(b, i, []int64{i.L().Numel})
	norm := vectorNorm(b, w, p, []bool{false, true}, false)
	occurs := prim.Scatter(b, prim.Zeros(b, ir.Bool, w.Device(), norm.Shape()), flat, op.BoolVal(true), 0)
	long := prim.BitwiseAnd(b, occurs, prim.Gt(b, norm, op.FloatVal(most)))
	// PyTorch's formula: the small term keeps the quotient finite.
	factor := prim.Mul(b, prim.Reciprocal(b, affine(b, norm, 1, 1e-7)), op.FloatVal(most))
	factor = prim.Where(b, long, factor, op.FloatVal(1))
	return a.Ret(prim.Mul(b, w, prim.Along(b, factor, w.Shape(), 0)))
}
