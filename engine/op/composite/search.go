package composite

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

func registerSearchOps() {
	op.Register(op.Def{
		Sig: "searchsorted(Tensor sorted_sequence, Operand self, *, bool out_int32=False, bool right=False, " +
			"str(left|right)? side=None, Tensor? sorter=None) -> Tensor",
		Doc: "Where values go in rows that are in order, before or after equal elements.", Where: op.Function, Out: true,
		NoGrad: "an index",
		Samples: samples("torch.tensor([1, 3, 5, 7, 9]), I(3,4;0,12)", "torch.tensor([1., 3., 5.]), T(7;0,6) | right=True",
			"torch.tensor([[1., 2., 5.], [2., 3., 4.]]), T(2,4;0,6) | side='left'",
			"torch.tensor([1, 3, 5]), 3 | out_int32=True", "torch.tensor([5, 1, 3]), I(4;0,6) | sorter=torch.tensor([1, 2, 0])",
			"torch.tensor([1, 3]), T(0)"),
		ErrorSamples: samples("T(2,3), T(3, 4)", "T(3), T(2) | right=True, side='left'", "T(2,3), 1.0",
			"T(3), T(2) | sorter=torch.tensor([0, 1])", "T(3), T(2) | sorter=T(3)", "T(), T() | sorter=torch.tensor(0)"),
		Eval: func(a *op.Args) []op.Val {
			rows, x, small, right, side, sorter := a.Val(), a.Val(), a.Bool(), a.Bool(), a.Int(), a.Val()
			if side == 0 && right {
				fail(ir.ErrRuntime, "torch.searchsorted(): side and right can't be set to opposites, got side of left while right "+
					"was True")
			}
			if sorter.Kind != op.None {
				rows = inOrder(a.B, rows, sorter)
			}
			return a.Ret(search(a.B, "searchsorted", rows, x, right || side == 1, small))
		},
	})
	op.Register(op.Def{
		Sig:   "bucketize(Operand self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
		Doc:   "The number of the bucket between boundaries that each value falls into.",
		Where: op.Function, Out: true, NoGrad: "an index",
		Samples: samples("I(3,4;0,12), torch.tensor([1, 3, 5, 7, 9])",
			"T(7;0,6), torch.tensor([1., 3., 5.]) | right=True", "3, torch.tensor([1, 3, 5]) | out_int32=True"),
		ErrorSamples: samples("T(3), T(2,3)"),
		Eval: func(a *op.Args) []op.Val {
			x, edges, small, right := a.Val(), a.Val(), a.Bool(), a.Bool()
			if len(edges.Shape()) != 1 {
				fail(ir.ErrRuntime, "bucketize(): boundaries tensor must be 1 dimension, but got dim(%d)", len(edges.Shape()))
			}
			return a.Ret(search(a.B, "bucketize", edges, x, right, small))
		},
	})
	op.Register(op.Def{
		Sig:   "isin(Operand elements, Operand test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor",
		Doc:   "Whether each element is one of the test elements.",
		Where: op.Function, Out: true, NoGrad: "the result is boolean",
		Samples: samples("I(3,4;0,9), I(3;0,9)", "T(3), T(4)", "I(5;0,4), 2", "2, I(5;0,4)", "I(3;0,4), I(0;0,4)",
			"I(6;0,9), I(2,2;0,9) | invert=True", "I(4;0,3), torch.tensor([1.0, 2.5])"),
		ErrorSamples: samples("B(3), B(2)"), Eval: evalIsin,
	})
	op.Register(op.Def{
		Sig: "histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
		Doc: "Counts of the elements in bins of equal width, from min to max or from the least to the largest element.",
		Out: true, NoGrad: "counts", Samples: samples("T(50), 5", "T(4,5), 3, -1, 1", "T(20), 4, 2, 2", "T(0), 3",
			"torch.tensor([1.0, 1.0, 1.0, 1.0]), 3"), ErrorSamples: samples("T(3), 0", "T(3), 2, 1, 0", "I(3;0,5), 2"),
		Eval: evalHistc,
	})
}

// inOrder takes each row of x in the order that sorter gives.
func inOrder(b op.Builder, x, sorter op.Val) op.Val {
	if sorter.DType() != ir.I64 {
		fail(ir.ErrRuntime, "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype %s",
			typeName(sorter.DType()))
	}
	if !slices.Equal(x.Shape(), sorter.Shape()) {
		fail(ir.ErrRuntime, "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor %s "+
			"and got sorter tensor %s", ir.ShapeString(x.Shape()), ir.ShapeString(sorter.Shape()))
	}
	if len(x.Shape()) == 0 {
		fail(ir.ErrRuntime, "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension")
	}
	return prim.Gather(b, x, sorter, int64(len(x.Shape())-1))
}

// search counts the elements of rows before x, in the dtype that both promote to.
func search(b op.Builder, name string, rows, x op.Val, right, small bool) op.Val {
	n := len(rows.Shape())
	value := tensor(b, x, rows.Device())
	shape := value.Shape()
	switch {
	case n == 0:
		fail(ir.ErrRuntime, "torch.%s(): boundaries tensor should have positive dimension, but got 0 dimension", name)
	case n > 1 && !x.IsTensor(), n > 1 && len(shape) == 0:
		fail(ir.ErrRuntime, "torch.%s(): input value can be a scalar only when boundaries tensor dimension is 1, but we got "+
			"boundaries tensor dim(%d) and input value's dim(%d) numel(1)", name, n, len(shape))
	case n > 1 && (n != len(shape) || !slices.Equal(rows.Shape()[:n-1], shape[:n-1])):
		fail(ir.ErrRuntime, "torch.%s(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "+
			"tensor and input value tensor must match, but we got boundaries tensor %s and input value tensor %s",
			name, ir.ShapeString(rows.Shape()), ir.ShapeString(shape))
	}
	t := resultType(b, rows, x)
	values := asVector(b, cast(b, value, t))
	lead := values.Shape()[:len(values.Shape())-1]
	all := prim.Expand(b, cast(b, rows, t), append(slices.Clone(lead), rows.Shape()[n-1]))
	i := prim.Reshape(b, prim.Search(b, b.Detach(all), b.Detach(values), right), shape)
	if small {
		i = prim.Cast(b, i, ir.I32)
	}
	return i
}

// evalIsin looks each element up among the sorted test elements.
func evalIsin(a *op.Args) []op.Val {
	x, set, _, invert, b := a.Val(), a.Val(), a.Bool(), a.Bool(), a.B
	if !x.IsTensor() && !set.IsTensor() || x.IsTensor() && x.DType() == ir.Bool || set.IsTensor() &&
		set.DType() == ir.Bool {
		fail(ir.ErrNotImplemented, "Unsupported input type encountered for isin(): want a tensor of numbers and no Bool")
	}
	t := resultType(b, x, set)
	dev := commonDevice(b, []op.Val{x, set})
	x, set = b.Detach(cast(b, tensor(b, x, dev), t)), b.Detach(cast(b, tensor(b, set, dev), t))
	n := set.L().Numel
	hit := prim.Fill(b, op.BoolVal(false), ir.Bool, dev, x.Shape())
	if n > 0 {
		order, _ := prim.Sort(b, prim.Reshape(b, set, []int64{n}), 0, false)
		flat := prim.Reshape(b, x, []int64{x.L().Numel})
		i := prim.Minimum(b, prim.Search(b, order, flat, false), op.IntVal(n-1))
		hit = prim.Reshape(b, prim.Eq(b, prim.IndexSelect(b, order, i, 0), flat), x.Shape())
	}
	if invert {
		hit = prim.LogicalNot(b, hit)
	}
	return a.Ret(hit)
}

func evalHistc(a *op.Args) []op.Val {
	x, bins, low, high, b := a.B.Detach(a.Val()), a.Int(), a.Scalar(), a.Scalar(), a.B
	needFloat("histogram_cpu", x)
	switch {
	case bins <= 0:
		fail(ir.ErrRuntime, "torch.histc(): bins must be > 0, got %d", bins)
	case low.Float() > high.Float():
		fail(ir.ErrRuntime, "torch.histc: max must be larger than min")
	}
	d, dev, n := x.DType(), x.Device(), x.L().Numel
	counts := prim.Zeros(b, d, dev, []int64{bins})
	if n == 0 {
		return a.Ret(counts)
	}
	v := prim.Reshape(b, cast(b, x, d.ComputeType()), []int64{n})
	lo, hi := prim.Fill(b, low, v.DType(), dev, nil), prim.Fill(b, high, v.DType(), dev, nil)
	if low.Float() == high.Float() {
		lo, hi = prim.Amin(b, v, []int64{0}), prim.Amax(b, v, []int64{0})
		same := prim.Eq(b, lo, hi)
		lo, hi = prim.Where(b, same, prim.Sub(b, lo, op.FloatVal(1)), lo),
			prim.Where(b, same, prim.Add(b, hi, op.FloatVal(1)), hi)
	}
	lo, hi = prim.Expand(b, lo, v.Shape()), prim.Expand(b, hi, v.Shape())
	inside := prim.BitwiseAnd(b, prim.Ge(b, v, lo), prim.Le(b, v, hi))
	place := prim.Div(b, prim.Mul(b, prim.Sub(b, v, lo), op.FloatVal(float64(bins))), prim.Sub(b, hi, lo))
	i := prim.Cast(b, prim.Minimum(b, prim.Where(b, inside, place, op.FloatVal(0)), op.FloatVal(float64(bins-1))), ir.I64)
	return a.Ret(prim.IndexAdd(b, counts, i, prim.Cast(b, inside, d), 0))
}
