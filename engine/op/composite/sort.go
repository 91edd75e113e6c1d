package composite

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

func registerSortOps() {
	registerSort()
	registerRanks()
	registerMedians()
	registerQuantiles()
}

// sorted is x in stable order along dim, and the indices; a 0-dim tensor is in order.
func sorted(b op.Builder, x op.Val, dim int64, descending bool) (values, indices op.Val) {
	d := ir.WrapDim(dim, len(x.Shape()))
	values, indices = prim.Sort(b, asVector(b, x), int64(d), descending)
	return prim.Reshape(b, values, x.Shape()), prim.Reshape(b, indices, x.Shape())
}

func registerSort() {
	const params = "(Tensor self, int dim=-1, bool descending=False, *, bool? stable=None) -> "
	order := func(a *op.Args) (values, indices op.Val) {
		x, dim, descending := a.Val(), a.Int(), a.Bool()
		a.OptBool() // the order is stable in any case
		return sorted(a.B, x, dim, descending)
	}
	s := samples("T(7)", "T(3,6), 0", "T(2,5,3), 1, True", "I(40;0,5) | stable=True", "T(4,5) | stable=True, dim=0", "T()",
		"T(0)", "T(3,0), 0", "torch.tensor([2.0, float('nan'), -0.0, 0.0, float('-inf'), float('nan')])",
		"torch.tensor([2.0, float('nan'), -0.0, 0.0]), 0, True",
		"T(2,1500) | stable=True", "I(3000;-9,9) | stable=True, descending=True")
	errs := samples("T(3), 1", "T(3), -2")
	op.Register(op.Def{
		Sig: "sort" + params + "(Tensor values, Tensor indices)", Doc: "The elements in order along a dim and their " +
			"indices; equal ones stay in order, NaN is last.",
		Out: true, Samples: s, ErrorSamples: errs,
		Eval: func(a *op.Args) []op.Val { return a.Ret(order(a)) },
	})
	op.Register(op.Def{
		Sig: "argsort" + params + "Tensor", Doc: "The indices that sort along a dim.", NoGrad: "an index", Samples: s,
		ErrorSamples: errs,
		Eval:         func(a *op.Args) []op.Val { _, i := order(a); return a.Ret(i) },
	})
	op.Register(op.Def{
		Sig: "msort(Tensor self) -> Tensor", Doc: "The elements in order along the first dim.", Out: true,
		Samples: samples("T(5,3)", "T(4)", "T()"),
		Eval:    func(a *op.Args) []op.Val { v, _ := sorted(a.B, a.Val(), 0, false); return a.Ret(v) },
	})
	op.Register(op.Def{
		Sig: "topk(Tensor self, int k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)",
		Doc: "The k largest (or smallest) elements along a dim, in order, and their indices.", Out: true,
		Samples: samples("T(7), 3", "T(3,6), 2", "T(6,3), 2, 0", "T(3,6), 4, 1, False", "T(), 1", "T(3), 0", "T(), 0",
			"T(2,2000), 3", "T(2000,2), 700, 0, False"),
		ErrorSamples: samples("T(3), 5", "T(3), 1, 1", "T(3), -1"), Eval: evalTopk,
	})
}

func evalTopk(a *op.Args) []op.Val {
	x, k, dim, largest, b := a.Val(), a.Int(), a.Int(), a.Bool(), a.B
	d := ir.WrapDim(dim, len(x.Shape()))
	v := asVector(b, x)
	if k < 0 || k > v.Shape()[d] {
		fail(ir.ErrRuntime, "selected index k out of range")
	}
	if len(x.Shape()) == 0 { // a 0-dim tensor is its own choice, whatever k
		return a.Ret(prim.Copy(b, x), prim.Zeros(b, ir.I64, x.Device(), nil))
	}
	return a.Ret(prim.Topk(b, v, k, int64(d), largest))
}

// at takes the elements of x at an index tensor of size 1 along dim d; the dim is removed unless it is kept.
func at(b op.Builder, x, i op.Val, d int, keepdim bool) op.Val {
	y := prim.Gather(b, x, i, int64(d))
	if keepdim {
		return y
	}
	return prim.Squeeze(b, y, []int64{int64(d)})
}

// choose returns the element at a position (size 1 along dim) of the order of x, and its index. The gradient goes to
// that element. Without a gradient the element is taken from values: who reads it alone needs no order.
func choose(b op.Builder, x, values, order, place op.Val, d int, keepdim bool) (value, index op.Val) {
	index = at(b, order, place, d, keepdim)
	if !b.NeedsGrad(x) {
		return at(b, values, place, d, keepdim), index
	}
	return at(b, x, prim.Gather(b, order, place, int64(d)), d, keepdim), index
}

// ranked registers name(self, ..., dim, keepdim) -> (values, indices); pick gives the position in the order.
func ranked(name, params, doc string, s, errs []op.Sample, pick func(a *op.Args, x op.Val) func(b op.Builder, values,
	order op.Val, d int) op.Val) {
	op.Register(op.Def{
		Sig: name + params + " -> (Tensor values, Tensor indices)", Doc: doc, Out: true, OutApart: true, Samples: s,
		ErrorSamples: errs, Eval: func(a *op.Args) []op.Val {
			x, b := a.Val(), a.B
			place := pick(a, x)
			d := ir.WrapDim(a.Int(), len(x.Shape()))
			keepdim, v := a.Bool(), asVector(b, x)
			if v.Shape()[d] == 0 {
				fail(ir.ErrIndex, "%s(): Expected reduction dim %d to have non-zero size.", parsedName(name), d)
			}
			values, order := prim.Sort(b, b.Detach(v), int64(d), false)
			y, i := choose(b, v, values, order, place(b, values, order, d), d, keepdim || len(x.Shape()) == 0)
			if len(x.Shape()) == 0 {
				y, i = prim.Reshape(b, y, nil), prim.Reshape(b, i, nil)
			}
			return a.Ret(y, i)
		},
	})
}

// parsedName is the name without its overload.
func parsedName(full string) string {
	if i := slices.Index([]byte(full), '.'); i >= 0 {
		return full[:i]
	}
	return full
}

// one is the shape of x with size 1 along dim d.
func one(x op.Val, d int) []int64 {
	s := slices.Clone(x.Shape())
	s[d] = 1
	return s
}

func registerRanks() {
	ranked("kthvalue", "(Tensor self, int k, int dim=-1, bool keepdim=False)",
		"The k-th smallest element along a dim and its index.", samples("T(7), 3", "T(3,6), 2, 0", "T(3,6), 6, 1, True",
			"I(9;0,99), 4", "T(), 1"), samples("T(3), 4", "T(3), 0", "T(3), 1, 1", "T(0,3), 1, 0"),
		func(a *op.Args, x op.Val) func(op.Builder, op.Val, op.Val, int) op.Val {
			k := a.Int()
			return func(b op.Builder, values, _ op.Val, d int) op.Val {
				if k < 1 || k > values.Shape()[d] {
					fail(ir.ErrRuntime, "kthvalue(): selected number k out of range for dimension %d", d)
				}
				return prim.Fill(b, op.IntVal(k-1), ir.I64, x.Device(), one(values, d))
			}
		})
	ranked("mode", "(Tensor self, int dim=-1, bool keepdim=False)",
		"The most frequent element along a dim, the smallest of several, and an index of it.",
		samples("I(9;0,3)", "I(4,9;0,3), 0", "I(4,9;0,3), 1, True", "T(7)", "T()"), samples("T(3), 1", "T(0,3), 0"),
		func(*op.Args, op.Val) func(op.Builder, op.Val, op.Val, int) op.Val { return longestRun })
}

// positions is the position of each element along dim d of a tensor of x's shape.
func positions(b op.Builder, x op.Val, d int) op.Val {
	return prim.Along(b, prim.Iota(b, op.IntVal(0), op.IntVal(1), ir.I64, x.Device(), x.Shape()[d]), x.Shape(), int64(d))
}

// longestRun is the position of the last element of the first longest run of equal elements.
func longestRun(b op.Builder, values, _ op.Val, d int) op.Val {
	n := values.Shape()[d]
	dim, at := int64(d), positions(b, values, d)
	differs := prim.Ne(b, prim.Slice(b, values, dim, 1, n, 1), prim.Slice(b, values, dim, 0, n-1, 1))
	first := prim.Cat(b, []op.Val{prim.Fill(b, op.BoolVal(true), ir.Bool, values.Device(), one(values, d)), differs}, dim)
	start := prim.Scan(b, prim.Where(b, first, at, op.IntVal(0)), dim, prim.ScanMax)
	return prim.Unsqueeze(b, prim.ArgMax(b, prim.Sub(b, at, start), dim), dim)
}

// nans counts the NaN along dim d, which keeps size 1.
func nans(b op.Builder, x op.Val, d int) op.Val {
	n := prim.Sum(b, prim.Cast(b, prim.IsNaN(b, x), ir.I64), []int64{int64(d)})
	return prim.Reshape(b, n, one(x, d))
}

// middle is the position of the lower median. Where there is a NaN it is that of the first; with skip NaN are left out.
func middle(skip bool) func(b op.Builder, values, _ op.Val, d int) op.Val {
	return func(b op.Builder, values, _ op.Val, d int) op.Val {
		n := values.Shape()[d]
		half := prim.Fill(b, op.IntVal((n-1)/2), ir.I64, values.Device(), one(values, d))
		if !values.DType().IsFloat() {
			return half
		}
		k := nans(b, values, d)
		rest := prim.Sub(b, op.IntVal(n), k)
		if skip {
			return prim.Maximum(b, prim.FloorDivide(b, prim.Sub(b, rest, op.IntVal(1)), op.IntVal(2)), op.IntVal(0))
		}
		return prim.Where(b, prim.Eq(b, k, op.IntVal(0)), half, rest)
	}
}

func registerMedians() {
	nan := "torch.tensor([3.0, float('nan'), 1.0, float('nan'), 2.0, 0.0])"
	for i, name := range []string{"median", "nanmedian"} {
		place := middle(i == 1)
		doc := []string{"The lower median", "The lower median of the elements that are not NaN,"}[i]
		ranked(name+".dim", "(Tensor self, int dim, bool keepdim=False)", doc+" along a dim, and its index.",
			samples("T(7), 0", "T(3,6), 0", "T(3,6), 1, True", "I(9;0,99), 0", "T(), 0", nan+", 0"),
			samples("T(3), 1", "T(0,3), 0"),
			func(*op.Args, op.Val) func(op.Builder, op.Val, op.Val, int) op.Val { return place })
		op.Register(op.Def{
			Sig: name + "(Tensor self) -> Tensor", Doc: doc + " of all elements; equal elements share the gradient.",
			Samples: samples("T(3,4)", "T(7)", "I(9;0,99)", "T()", "T(0)", nan),
			Eval: func(a *op.Args) []op.Val {
				x, b := a.Val(), a.B
				v := prim.Reshape(b, x, []int64{x.L().Numel})
				if x.L().Numel == 0 && x.DType().IsFloat() { // NaN, with a gradient of nothing
					return a.Ret(prim.Add(b, prim.Sum(b, v, []int64{0}), op.FloatVal(inf-inf)))
				}
				if x.L().Numel == 0 {
					return a.Ret(prim.Zeros(b, x.DType(), x.Device(), nil))
				}
				values, order := prim.Sort(b, b.Detach(v), 0, false)
				m := at(b, values, place(b, values, order, 0), 0, true)
				if b.NeedsGrad(x) {
					all, fixed := prim.Expand(b, m, v.Shape()), b.Detach(v)
					own := prim.BitwiseOr(b, prim.Eq(b, fixed, all), prim.BitwiseAnd(b, prim.IsNaN(b, fixed), prim.IsNaN(b, all)))
					m = prim.Reshape(b, prim.MaxOfAll(b, prim.Where(b, own, v, op.FloatVal(-inf)), []int64{0}), []int64{1})
				}
				return a.Ret(prim.Reshape(b, m, nil))
			},
		})
	}
}

func registerQuantiles() {
	s := samples("T(7), 0.3", "T(3,6), 0.5, 1", "T(3,6), torch.tensor([0.1, 0.75]), 0",
		"T(3,6), torch.tensor([0.1, 0.75]), 1, True", "T(5), torch.tensor(0.4) | interpolation='lower'",
		"T(5), 0.4 | interpolation='higher'", "T(5), 0.4 | interpolation='nearest'", "T(6), 0.35 | interpolation='midpoint'",
		"T(2,3), 0.5 | keepdim=True",
		"torch.tensor([[3.0, float('nan'), 1.0], [2.0, 1.0, 5.0]]), 0.5, 1", "T(), 0.5")
	errs := samples("I(3;0,5), 0.5", "T(3), 1.5", "T(0), 0.5", "T(3), T(2,2;0,1)", "T(3), 0.5, 1")
	for i, name := range []string{"quantile", "nanquantile"} {
		op.Register(op.Def{
			Sig: name + "(Tensor self, Operand q, int? dim=None, bool keepdim=False, *, " +
				"str(linear|lower|higher|nearest|midpoint) interpolation='linear') -> Tensor",
			Doc: []string{"Quantiles along a dim; NaN where there is one.", "Quantiles along a dim of the elements that are " +
				"not NaN."}[i], Out: true, Samples: s, ErrorSamples: errs,
			Eval: func(a *op.Args) []op.Val { return a.Ret(quantile(a, name, i == 1)) },
		})
	}
}

// The words of interpolation.
const (
	linearly = iota
	lower
	higher
	nearest
	midpoint
)

func quantile(a *op.Args, name string, skip bool) op.Val {
	x, q, b := a.Val(), a.Val(), a.B
	dim, given := a.OptInt()
	keepdim, how := a.Bool(), a.Int()
	checkQuantile(name, x, q)
	shape := x.Shape()
	kept := slices.Clone(shape)
	v := x
	if given {
		d := ir.WrapDim(dim, len(shape))
		v = prim.Transpose(b, asVector(b, x), int64(d), -1)
		if len(shape) > 0 {
			kept[d] = 1
		}
	} else {
		v = prim.Reshape(b, x, []int64{x.L().Numel})
		for i := range kept {
			kept[i] = 1
		}
	}
	last := len(v.Shape()) - 1
	n := v.Shape()[last]
	values, _ := prim.Sort(b, v, int64(last), false)
	// rank: [..., number of q].
	var qs op.Val
	count := int64(1)
	if q.IsTensor() {
		count = q.L().Numel
		qs = prim.Reshape(b, q, []int64{count})
	} else {
		qs = prim.Fill(b, q, x.DType(), x.Device(), []int64{1})
	}
	k := nans(b, b.Detach(values), last)
	ranks := slices.Clone(v.Shape())
	ranks[last] = count
	spread := func(y op.Val) op.Val { return prim.Expand(b, y, ranks) }
	var rank op.Val
	if skip {
		most := prim.Maximum(b, prim.Sub(b, op.IntVal(n-1), k), op.IntVal(0))
		rank = prim.Mul(b, spread(prim.Cast(b, most, x.DType())), spread(qs))
	} else {
		rank = prim.Mul(b, spread(qs), op.FloatVal(float64(n-1)))
		rank = prim.Where(b, spread(prim.Eq(b, k, op.IntVal(0))), rank, op.FloatVal(float64(n-1)))
	}
	y := interpolate(b, values, rank, last, int(how))
	return quantileShape(b, y, q, shape, kept, dim, given, keepdim)
}

func checkQuantile(name string, x, q op.Val) {
	switch {
	case x.L().Numel == 0:
		fail(ir.ErrRuntime, "%s() input tensor must be non-empty", name)
	case x.DType() != ir.F32 && x.DType() != ir.F64:
		fail(ir.ErrRuntime, "%s() input tensor must be either float or double dtype", name)
	case q.IsTensor() && len(q.Shape()) > 1:
		fail(ir.ErrRuntime, "%s() q must be a scalar or 1D tensor", name)
	case q.IsTensor() && q.DType() != x.DType():
		fail(ir.ErrRuntime, "%s() q tensor must be same dtype as the input tensor", name)
	case !q.IsTensor() && !(q.Float() >= 0 && q.Float() <= 1):
		fail(ir.ErrRuntime, "%s() q must be in the range [0, 1] but got %g", name, q.Float())
	}
}

// interpolate takes values at fractional ranks along dim d.
func interpolate(b op.Builder, values, rank op.Val, d, how int) op.Val {
	take := func(r op.Val) op.Val { return prim.Gather(b, values, prim.Cast(b, b.Detach(r), ir.I64), int64(d)) }
	switch how {
	case lower:
		return take(prim.Floor(b, rank))
	case higher:
		return take(prim.Ceil(b, rank))
	case nearest:
		return take(prim.Round(b, rank))
	}
	floor := prim.Floor(b, rank)
	below, above := take(floor), take(prim.Ceil(b, rank))
	between := prim.Sub(b, above, below)
	if how == midpoint {
		return prim.Sub(b, above, prim.Mul(b, between, op.FloatVal(0.5)))
	}
	w := prim.Sub(b, rank, floor)
	up := prim.Add(b, below, prim.Mul(b, between, w))
	down := prim.Sub(b, above, prim.Mul(b, between, prim.Sub(b, op.FloatVal(1), w)))
	return prim.Where(b, prim.Lt(b, w, op.FloatVal(0.5)), up, down)
}

// quantileShape brings y [..., number of q], whose last dim stands for dim, to PyTorch's shape, where the dim of a list
// q comes first.
func quantileShape(b op.Builder, y, q op.Val, shape, kept []int64, dim int64, given, keepdim bool) op.Val {
	last := int64(len(y.Shape()) - 1)
	y = prim.Unsqueeze(b, y, 0)
	y = prim.Transpose(b, y, 0, last+1) // [q, ..., 1]
	if given && len(shape) > 0 {
		y = prim.Transpose(b, y, int64(ir.WrapDim(dim, len(shape)))+1, last+1)
	}
	out := kept
	if !keepdim {
		out = nil
		for i, n := range shape {
			if given && i != ir.WrapDim(dim, len(shape)) {
				out = append(out, n)
			}
		}
	}
	if q.IsTensor() && len(q.Shape()) == 1 {
		out = append([]int64{q.Shape()[0]}, out...)
	}
	return prim.Reshape(b, y, out)
}
