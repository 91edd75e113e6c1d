package composite

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

func needNormType(name string, d ir.DType) {
	if !d.IsInexact() {
		fail(ir.ErrNotImplemented, "%s: Expected a floating point or complex tensor as input. Got %s", name, typeName(d))
	}
}

// vectorNorm is the p-norm over the marked dims.
func vectorNorm(b op.Builder, x op.Val, p float64, mask []bool, keepdim bool) op.Val {
	needNormType("linalg.vector_norm", x.DType())
	total := func(f reduceEmit, v op.Val) op.Val { return reduceDims(b, f, v, mask, keepdim) }
	for i, m := range mask {
		if m && x.Shape()[i] == 0 && (p < 0 || math.IsInf(p, 1)) {
			fail(ir.ErrRuntime, "linalg.vector_norm cannot compute the %v norm on the dimension %d because this dimension is "+
				"empty and the operation does not have an identity", p, i)
		}
	}
	switch {
	case p == 2:
		return sqrtFinite(b, total(prim.SumSquares, x))
	case p == 1:
		return total(prim.Sum, prim.Abs(b, x))
	case p == 0 && b.NeedsGrad(x): // a count with a gradient, which is 0
		if x.DType().IsComplex() {
			x = prim.Abs(b, x)
		}
		return total(prim.Sum, prim.Where(b, prim.Ne(b, b.Detach(x), op.FloatVal(0)), op.FloatVal(1), prim.Sign(b, x)))
	case p == 0:
		return total(prim.Sum, prim.Cast(b, prim.Ne(b, x, op.FloatVal(0)), x.DType().Real()))
	case math.IsInf(p, 1):
		return total(prim.MaxOfAll, prim.Abs(b, x))
	case math.IsInf(p, -1):
		return total(prim.MinOfAll, prim.Abs(b, x))
	}
	narrow := widen(b, x.DType(), &x) // powers would leave the range of halves
	if b.NeedsGrad(x) {
		return narrow(powerNormFinite(b, x, p, mask, total))
	}
	s := total(prim.Sum, prim.Pow(b, prim.Abs(b, x), op.FloatVal(p)))
	return narrow(prim.Pow(b, s, op.FloatVal(1/p)))
}

// powerNormFinite is the root of the sum of powers, with derivatives of 0 where a power of 0 has none: at a norm of 0,
// and with p < 2 at an element of 0.
func powerNormFinite(b op.Builder, x op.Val, p float64, mask []bool, total func(f reduceEmit, v op.Val) op.Val) op.Val {
	size := prim.Abs(b, x)
	zero, flat := none, none // elements left out of the powers; norms of 0
	if p < 2 {
		zero = prim.Eq(b, b.Detach(size), op.FloatVal(0))
	}
	if p < 0 { // an element of 0 makes the norm 0, where there is no NaN
		flat = prim.Eq(b, reduceDims(b, prim.Amin, b.Detach(size), mask, true), op.FloatVal(0))
		zero = expand(b, flat, x.Shape())
	}
	if p < 2 {
		size = prim.Where(b, zero, op.FloatVal(1), size)
	}
	powers := prim.Pow(b, size, op.FloatVal(p))
	if p < 2 {
		powers = prim.Where(b, zero, op.FloatVal(0), powers)
	}
	s := total(prim.Sum, powers)
	if p < 0 {
		flat = prim.Reshape(b, flat, s.Shape())
	} else {
		flat = prim.Eq(b, b.Detach(s), op.FloatVal(0))
	}
	return prim.Where(b, flat, op.FloatVal(0), prim.Pow(b, prim.Where(b, flat, op.FloatVal(1), s), op.FloatVal(1/p)))
}

func normArgs(a *op.Args, p float64) []op.Val {
	x := a.Val()
	nuc := false
	if a.Op.Parsed.Params[1].Type == "str" {
		nuc = a.Int() != 0
	} else if s := a.Scalar(); s.Kind != op.None {
		p = s.Float()
	}
	dims, listed := a.IntList()
	keepdim, d := a.Bool(), a.DType()
	if d != ir.InvalidDType {
		needNormType("linalg.vector_norm", d)
		x = cast(a.B, x, d)
	}
	if nuc {
		for i := range len(x.Shape()) {
			if !listed {
				dims = append(dims, int64(i))
			}
		}
		return a.Ret(matrixNorm(a.B, x, nuclear, dims, keepdim))
	}
	return a.Ret(vectorNorm(a.B, x, p, dimMask(dims, len(x.Shape())), keepdim))
}

func registerNorm() {
	op.Register(op.Def{
		Sig: "norm(Tensor self, Scalar? p=2, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
		Doc: "The p-norm, over all or some dims.",
		Out: true,
		Samples: samples("T(3,4)", "T(3,4), 1", "T(3,4), 2, 1", "T(3,4), float('inf'), 0", "T(3,4), 3, (0, 1), True",
			"T(3), 0", "T(2,3), 2, -1 | keepdim=True", "T(3), 2 | dtype=torch.float64", "torch.zeros(3)",
			"T(3,4), float('-inf'), 1"),
		ErrorSamples: samples("I(3;0,5)", "T(3), 2, 4"),
		Eval:         func(a *op.Args) []op.Val { return normArgs(a, 2) },
	})
	op.Register(op.Def{
		Sig: "norm.str(Tensor self, str(fro|nuc) p, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
		Doc: "The Frobenius norm, or of matrices the nuclear norm.", Out: true, Samples: samples("T(3,4), 'fro'",
			"T(3,4), 'fro', 1", "T(3,4), 'nuc'"), ErrorSamples: samples("T(2,3,4), 'nuc'"),
		Eval: func(a *op.Args) []op.Val { return normArgs(a, 2) },
	})
	op.Register(op.Def{
		Sig: "dist(Tensor self, Tensor other, Scalar p=2) -> Tensor", Doc: "The p-norm of self - other.",
		Samples:      samples("T(3,4), T(3,4)", "T(3,4), T(4), 1", "T(3), T(3), float('inf')"),
		ErrorSamples: samples("T(3), T(4)"),
		Eval: func(a *op.Args) []op.Val {
			x, y, p := a.Val(), a.Val(), a.Scalar().Float()
			promote(a.B, &x, &y)
			d := prim.Sub(a.B, x, y)
			return a.Ret(vectorNorm(a.B, d, p, all(d), false))
		},
	})
	op.Register(op.Def{
		Sig: "_foreach_norm(Tensor[] tensors, Scalar ord=2) -> Tensor",
		Doc: "The norm of all elements of a list of tensors, as one vector.", Where: op.Hidden,
		Samples: samples("[T(3,4), T(2)]", "[T(3), T(2)], 1", "[T(3), T(2)], float('inf')"), Eval: evalForeachNorm,
	})
	op.Register(op.Def{
		Sig:   "cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor",
		Doc:   "The cosine of the angle between vectors along a dim.",
		Where: op.Function | op.Functional, Samples: samples("T(3,4), T(3,4)", "T(3,4), T(1,4), 0", "T(5), T(5), -1"),
		Eval: func(a *op.Args) []op.Val {
			x, y, b := a.Val(), a.Val(), a.B
			d := floatType(b, resultType(b, x, y))
			align(b, d, &x, &y)
			narrow := widen(b, d, &x, &y)
			mask := dimMask([]int64{a.Int()}, len(x.Shape()))
			eps := a.Scalar()
			unit := func(v op.Val) op.Val {
				n := clampNumbers(b, vectorNorm(b, v, 2, mask, true), eps, op.Val{})
				return prim.Div(b, v, expand(b, n, v.Shape()))
			}
			return a.Ret(narrow(reduceDims(b, prim.Sum, prim.Mul(b, unit(x), unit(y)), mask, false)))
		},
	})
}

// evalForeachNorm stacks the norms and takes their norm, without reading them back.
func evalForeachNorm(a *op.Args) []op.Val {
	ts, p, b := a.Vals(), a.Scalar().Float(), a.B
	if len(ts) == 0 {
		return a.Ret(prim.Zeros(b, b.DefaultDType(), b.DefaultDevice(), nil))
	}
	part := func(t op.Val) op.Val { return vectorNorm(b, t, p, all(t), false) }
	// Squares are added without roots between them, except for halves, whose squares overflow.
	squares := p == 2 && !slices.ContainsFunc(ts, func(t op.Val) bool {
		return t.DType().Size() < 4 ||
			!t.DType().IsInexact()
	})
	if squares {
		part = func(t op.Val) op.Val { return reduceDims(b, prim.SumSquares, t, all(t), false) }
	}
	norms := make([]op.Val, len(ts))
	for i, t := range ts {
		n := prim.ToDevice(b, part(t), ts[0].Device())
		norms[i] = prim.Reshape(b, cast(b, n, ts[0].DType()), []int64{1})
	}
	v := norms[0]
	if len(norms) > 1 {
		v = prim.Cat(b, norms, 0)
	}
	if squares {
		return a.Ret(sqrtFinite(b, reduceDims(b, prim.Sum, v, all(v), false)))
	}
	return a.Ret(vectorNorm(b, v, p, all(v), false))
}

// logsumexp subtracts the maximum, which needs no gradient.
func logsumexp(b op.Builder, x op.Val, mask []bool, keepdim bool) op.Val {
	x = floating(b, x)
	if ir.MaskedNumel(mask, x.Shape()) == 0 {
		return prim.Log(b, reduceDims(b, prim.Sum, prim.Exp(b, x), mask, keepdim))
	}
	top := b.Detach(x)
	if x.DType().IsComplex() {
		top = prim.Real(b, top)
	}
	m := reduceDims(b, prim.Amax, top, mask, true)
	m = prim.Where(b, prim.IsInf(b, m), op.FloatVal(0), m)
	s := reduceDims(b, prim.Sum, prim.Exp(b, prim.Sub(b, x, expand(b, m, x.Shape()))), mask, keepdim)
	return prim.Add(b, prim.Log(b, s), prim.Reshape(b, m, s.Shape()))
}

func registerLogsumexp() {
	op.Register(op.Def{
		Sig:     "logsumexp(Tensor self, int[] dim, bool keepdim=False) -> Tensor",
		Doc:     "log(sum(exp(x))) over dims, without overflow.",
		Aliases: []string{"special_logsumexp"}, Where: op.Function | op.Method | op.Special, Out: true,
		Samples:      samples("T(3,4), 1", "T(2,3,4), (0, 2), True", "I(3;0,9), 0", "T(3;-200,200), 0", "T(), 0"),
		ErrorSamples: samples("T(3), 2"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			dims, _ := a.IntList()
			return a.Ret(logsumexp(a.B, x, dimMask(dims, len(x.Shape())), a.Bool()))
		},
	})
	for _, m := range []struct {
		name, kernel, doc string
		f                 func(b op.Builder, x op.Val, dim int64) op.Val
	}{
		{"softmax", "softmax_lastdim_kernel_impl", "exp(x) scaled to sum to 1 along a dim.", prim.Softmax},
		{"log_softmax", "log_softmax_lastdim_kernel_impl", "The logarithm of softmax.", prim.LogSoftmax},
	} {
		op.Register(op.Def{
			Sig: m.name + "(Tensor self, int dim, dtype? dtype=None) -> Tensor", Doc: m.doc,
			Aliases: []string{"special_" + m.name},
			Where:   op.Function | op.Method | op.Functional | op.Special, Out: true,
			Samples: samples("T(3,4), 1", "T(3,4), 0", "T(2,3,4), -2", "T(), 0", "I(4;0,5), 0 | dtype=torch.float32",
				"T(0,3), 1", "T(3,4;-90,90), 1"),
			ErrorSamples: samples("I(3;0,5), 0", "T(3), 2"),
			Eval: func(a *op.Args) []op.Val {
				x, dim := a.Val(), a.Int()
				if d := a.DType(); d != ir.InvalidDType {
					x = cast(a.B, x, d)
				}
				if x.L().Numel == 0 {
					ir.WrapDim(dim, len(x.Shape()))
					return a.Ret(prim.Copy(a.B, x))
				}
				needFloat(m.kernel, x)
				d := ir.WrapDim(dim, len(x.Shape()))
				if len(x.Shape()) == 0 {
					return a.Ret(prim.Reshape(a.B, m.f(a.B, prim.Reshape(a.B, x, []int64{1}), 0), nil))
				}
				return a.Ret(m.f(a.B, x, int64(d)))
			},
		})
	}
}
