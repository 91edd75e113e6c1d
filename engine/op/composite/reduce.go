package composite

import (
	"math"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

var inf = math.Inf(1)

type reduceEmit = func(b op.Builder, x op.Val, dims []int64) op.Val

// reduceDims applies f over the marked dims, and restores them with size 1 for keepdim.
func reduceDims(b op.Builder, f reduceEmit, x op.Val, mask []bool, keepdim bool) op.Val {
	dims, kept := maskedDims(mask, x.Shape())
	if len(dims) == 0 { // a 0-dim tensor reduces over nothing
		x = prim.Reshape(b, x, []int64{1})
		return prim.Reshape(b, f(b, x, []int64{0}), nil)
	}
	y := f(b, x, dims)
	if keepdim {
		y = prim.Reshape(b, y, kept)
	}
	return y
}

// sumType is the dtype of a sum: int64 for bools and integers, unless one is given.
func sumType(x op.Val, given ir.DType) ir.DType {
	if given != ir.InvalidDType {
		return given
	}
	if x.DType().IsInexact() {
		return x.DType()
	}
	return ir.I64
}

func sum(b op.Builder, x op.Val, mask []bool, keepdim bool, d ir.DType) op.Val {
	return reduceDims(b, prim.Sum, cast(b, x, sumType(x, d)), mask, keepdim)
}

// mean sums in at least float32, so that a sum of halves cannot overflow.
func mean(b op.Builder, x op.Val, mask []bool, keepdim bool, d ir.DType) op.Val {
	if d == ir.InvalidDType {
		if d = x.DType(); !d.IsInexact() {
			fail(ir.ErrNotImplemented, "mean(): could not infer output dtype. Input dtype must be either a floating point or "+
				"complex dtype. Got: %s", typeName(d))
		}
	} else if !d.IsInexact() {
		fail(ir.ErrNotImplemented, "mean(): could not infer output dtype. Optional dtype must be either a floating point or "+
			"complex dtype. Got: %s", typeName(d))
	}
	n := ir.MaskedNumel(mask, x.Shape())
	x = cast(b, x, d)
	y := reduceDims(b, prim.Sum, cast(b, x, d.ComputeType()), mask, keepdim)
	return cast(b, prim.Div(b, y, op.FloatVal(float64(n))), d)
}

func all(x op.Val) []bool { return dimMask(nil, len(x.Shape())) }

// reduction registers name(self, *, dtype) and name(self, dim, keepdim, *, dtype).
func reduction(name, doc string, f func(b op.Builder, x op.Val, mask []bool, keepdim bool, d ir.DType) op.Val, s,
	errs []op.Sample) {
	op.Register(op.Def{Sig: name + "(Tensor self, *, dtype? dtype=None) -> Tensor", Doc: doc, Out: name != "sum",
		Samples: samples("T(3,4)", "T()", "T(0)", "T(3) | dtype=torch.float64"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			return a.Ret(f(a.B, x, all(x), false, a.DType()))
		},
	})
	op.Register(op.Def{
		Sig: name + ".dim(Tensor self, int[]? dim, bool keepdim=False, *, dtype? dtype=None) -> Tensor", Doc: doc, Out: true,
		Samples: append(samples("T(2,3,4), 1", "T(2,3,4), (0,2)", "T(2,3,4), -1, True", "T(3,4), None", "T(0,3), 0",
			"T(3,4), (), True", "T(2,3), 0 | keepdim=True, dtype=torch.float64", "T(), 0"), s...),
		ErrorSamples: append(samples("T(3,4), 5", "T(3,4), (0, 0)"), errs...),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			dims, _ := a.IntList()
			keepdim := a.Bool()
			return a.Ret(f(a.B, x, dimMask(dims, len(x.Shape())), keepdim, a.DType()))
		},
	})
}

func registerReduceOps() {
	ints := samples("I(3,4;0,9), 0", "B(3,4), 1", "I(3;0,9), 0 | dtype=torch.float32")
	reduction("sum", "The sum, over all or some dims.", sum, ints, nil)
	reduction("mean", "The mean, over all or some dims.", mean, samples("I(3;0,9), 0 | dtype=torch.float32"),
		samples("I(3;0,9), 0"))
	reduction("nansum", "The sum, NaN counting as 0.", func(b op.Builder, x op.Val, mask []bool, keepdim bool,
		d ir.DType) op.Val {
		return sum(b, dropNaN(b, x), mask, keepdim, d)
	}, ints, nil)
	reduction("nanmean", "The mean of the elements that are no NaN.", nanmean, nil, nil)
	registerProd()
	registerTruthReductions()
	registerMoments()
	registerNorm()
	registerLogsumexp()
}

func dropNaN(b op.Builder, x op.Val) op.Val {
	if !x.DType().IsInexact() {
		return x
	}
	return prim.Where(b, prim.IsNaN(b, x), op.FloatVal(0), x)
}

func nanmean(b op.Builder, x op.Val, mask []bool, keepdim bool, d ir.DType) op.Val {
	if !x.DType().IsInexact() {
		fail(ir.ErrRuntime, "nanmean(): expected input to have floating point or complex dtype but got %s",
			typeName(x.DType()))
	}
	s := sum(b, dropNaN(b, x), mask, keepdim, d)
	there := prim.LogicalNot(b, prim.IsNaN(b, x))
	return prim.Div(b, s, reduceDims(b, prim.Sum, prim.Cast(b, there, s.DType()), mask, keepdim))
}

// product of bools, which dtype may ask for, is whether all are true.
func product(b op.Builder, x op.Val, mask []bool, keepdim bool, d ir.DType) op.Val {
	d = sumType(x, d)
	if x = cast(b, x, d); d == ir.Bool {
		return reduceDims(b, prim.Amin, x, mask, keepdim)
	}
	return reduceDims(b, prim.Prod, x, mask, keepdim)
}

func registerProd() {
	op.Register(op.Def{
		Sig: "prod(Tensor self, *, dtype? dtype=None) -> Tensor", Doc: "The product of all elements.",
		Samples: samples("T(3,4)", "T()", "T(0)", "I(3;1,4)", "B(3)", "torch.tensor([1.0, 0.0, 3.0])"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			return a.Ret(product(a.B, x, all(x), false, a.DType()))
		},
	})
	op.Register(op.Def{
		Sig: "prod.dim_int(Tensor self, int dim, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
		Doc: "The product along a dim.", Out: true,
		Samples: samples("T(3,4), 0", "T(3,4), -1, True", "I(3,4;1,4), 1", "T(2,0), 1", "T(3), 0 | dtype=torch.float64",
			"B(3,4), 1 | dtype=torch.bool"),
		ErrorSamples: samples("T(3), 2"),
		Eval: func(a *op.Args) []op.Val {
			x, d, keepdim := a.Val(), a.Int(), a.Bool()
			return a.Ret(product(a.B, x, dimMask([]int64{d}, len(x.Shape())), keepdim, a.DType()))
		},
	})
	op.Register(op.Def{
		Sig: "count_nonzero(Tensor self, int[]? dim=None) -> Tensor", Doc: "The number of elements that are not 0.",
		NoGrad:  "a count",
		Samples: samples("I(3,4;0,2)", "I(3,4;0,2), 1", "T(3), (0,)"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			dims, _ := a.IntList()
			return a.Ret(sum(a.B, truth(a.B, x), dimMask(dims, len(x.Shape())), false, ir.I64))
		},
	})
}

// asTruth returns uint8 where x is uint8: any and all keep that dtype, as PyTorch does.
func asTruth(b op.Builder, y, x op.Val) op.Val {
	if x.DType() != ir.U8 {
		return y
	}
	return prim.Cast(b, y, ir.U8)
}

func registerTruthReductions() {
	for _, m := range []struct {
		name, doc string
		f         reduceEmit
	}{{"any", "Whether any element is true.", prim.Amax}, {"all", "Whether all elements are true.", prim.Amin}} {
		op.Register(op.Def{
			Sig: m.name + "(Tensor self) -> Tensor", Doc: m.doc, Out: true, NoGrad: "the result is boolean",
			Samples: samples("B(3,4)", "B(0)", "I(3;0,2)", "T(3)", "B()"),
			Eval: func(a *op.Args) []op.Val {
				x := a.Val()
				return a.Ret(asTruth(a.B, reduceDims(a.B, m.f, truth(a.B, x), all(x), false), x))
			},
		})
		op.Register(op.Def{
			Sig: m.name + ".dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", Doc: m.doc, Out: true,
			NoGrad:       "the result is boolean",
			Samples:      samples("B(3,4), 0", "B(2,3,4), (0, 2)", "B(3,4), -1, True", "I(3,4;0,2), 1", "B(0,3), 0"),
			ErrorSamples: samples("B(3), 4"),
			Eval: func(a *op.Args) []op.Val {
				x := a.Val()
				dims, given := a.IntList()
				keepdim := a.Bool()
				mask := dimMask(dims, len(x.Shape()))
				if given && len(dims) == 0 && len(mask) > 0 { // an empty list reduces nothing here
					return a.Ret(asTruth(a.B, prim.Copy(a.B, truth(a.B, x)), x))
				}
				return a.Ret(asTruth(a.B, reduceDims(a.B, m.f, truth(a.B, x), mask, keepdim), x))
			},
		})
	}
}

// moments returns var and mean with the given correction.
func moments(b op.Builder, x op.Val, mask []bool, keepdim bool, correction op.Val) (variance, mean op.Val) {
	if !x.DType().IsInexact() {
		fail(ir.ErrNotImplemented, "std and var only support floating point and complex dtypes")
	}
	dims, kept := maskedDims(mask, x.Shape())
	shape := []int64(nil)
	if len(dims) == 0 {
		x, dims = prim.Reshape(b, x, []int64{1}), []int64{0}
	} else if keepdim {
		shape = kept
	}
	variance, mean = prim.Var(b, x, correction, dims)
	if len(mask) == 0 || keepdim {
		variance, mean = prim.Reshape(b, variance, shape), prim.Reshape(b, mean, shape)
	}
	return variance, mean
}

// sqrtFinite is the square root with gradient 0 at 0, as in PyTorch's std and norm.
func sqrtFinite(b op.Builder, s op.Val) op.Val {
	if !b.NeedsGrad(s) {
		return prim.Sqrt(b, s)
	}
	zero := prim.Eq(b, s, op.FloatVal(0))
	return prim.Where(b, zero, op.FloatVal(0), prim.Sqrt(b, prim.Where(b, zero, op.FloatVal(1), s)))
}

// momentForms reads the three overloads of var and std.
func momentForms(name, doc, results string, f func(b op.Builder, x op.Val, mask []bool, keepdim bool,
	c op.Val) []op.Val) {
	out := results == "Tensor"
	unbiased := func(v bool) op.Val {
		if v {
			return op.IntVal(1)
		}
		return op.IntVal(0)
	}
	op.Register(op.Def{
		Sig: name + "(Tensor self, bool unbiased=True) -> " + results, Doc: doc, Samples: samples("T(3,4)", "T(5), False",
			"T(2,0)"),
		ErrorSamples: samples("I(3;0,5)"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			return f(a.B, x, all(x), false, unbiased(a.Bool()))
		},
	})
	op.Register(op.Def{
		Sig: name + ".dim(Tensor self, int[]? dim, bool unbiased=True, bool keepdim=False) -> " + results, Doc: doc, Out: out,
		Samples:      samples("T(3,4), 1", "T(2,3,4), (0, 2), False", "T(3,4), -1, True, True", "T(3,4), None"),
		ErrorSamples: samples("T(3), 5"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			dims, _ := a.IntList()
			c, keepdim := unbiased(a.Bool()), a.Bool()
			return f(a.B, x, dimMask(dims, len(x.Shape())), keepdim, c)
		},
	})
	op.Register(op.Def{
		Sig: name + ".correction(Tensor self, int[]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> " + results,
		Doc: doc, Out: out,
		Samples: samples("T(3,4) | correction=0", "T(3,4), 1 | correction=2, keepdim=True", "T(4,3) | dim=0, correction=0.5"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			dims, _ := a.IntList()
			c := a.Scalar()
			if c.Kind == op.None {
				c = op.IntVal(1)
			}
			return f(a.B, x, dimMask(dims, len(x.Shape())), a.Bool(), c)
		},
	})
}

func registerMoments() {
	variance := func(b op.Builder, x op.Val, mask []bool, keepdim bool, c op.Val) []op.Val {
		v, _ := moments(b, x, mask, keepdim, c)
		return []op.Val{v}
	}
	momentForms("var", "The variance.", "Tensor", variance)
	momentForms("std", "The standard deviation.", "Tensor", func(b op.Builder, x op.Val, mask []bool, keepdim bool,
		c op.Val) []op.Val {
		return []op.Val{sqrtFinite(b, variance(b, x, mask, keepdim, c)[0])}
	})
	momentForms("var_mean", "The variance and the mean.", "(Tensor, Tensor)", func(b op.Builder, x op.Val, mask []bool,
		keepdim bool, c op.Val) []op.Val {
		v, m := moments(b, x, mask, keepdim, c)
		return []op.Val{v, m}
	})
	momentForms("std_mean", "The standard deviation and the mean.", "(Tensor, Tensor)", func(b op.Builder, x op.Val,
		mask []bool, keepdim bool, c op.Val) []op.Val {
		v, m := moments(b, x, mask, keepdim, c)
		return []op.Val{sqrtFinite(b, v), m}
	})
}
