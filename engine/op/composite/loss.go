package composite

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// Words of the reduction parameter, in order.
const (
	reduceNone = iota
	reduceMean
	reduceSum
)

const reductionParam = "str(none|mean|sum) reduction='mean'"

func reduced(b op.Builder, x op.Val, how int64) op.Val {
	switch how {
	case reduceMean:
		return mean(b, x, all(x), false, ir.InvalidDType)
	case reduceSum:
		return sum(b, x, all(x), false, ir.InvalidDType)
	}
	return x
}

// pointwise registers a loss of input and target, with further parameters.
func pointwise(name, params, doc string, f func(a *op.Args, x, t op.Val) op.Val, s []op.Sample, errs ...op.Sample) {
	op.Register(op.Def{
		Sig: name + "(Tensor input, Tensor target, " + params + ") -> Tensor", Doc: doc, Where: op.Functional, Samples: s,
		ErrorSamples: errs,
		Eval: func(a *op.Args) []op.Val {
			x, t := a.Val(), a.Val()
			return a.Ret(f(a, x, t))
		},
	})
}

// difference is input - target, aligned.
func difference(b op.Builder, x, t op.Val) op.Val {
	promote(b, &x, &t)
	return prim.Sub(b, x, t)
}

func registerLossOps() {
	s := samples("T(3,4), T(3,4)", "T(3,4), T(3,4) | reduction='sum'", "T(3,4), T(3,4) | reduction='none'", "T(), T()")
	pointwise("mse_loss", reductionParam, "The squared error.", func(a *op.Args, x, t op.Val) op.Val {
		d := difference(a.B, x, t)
		return reduced(a.B, prim.Mul(a.B, d, d), a.Int())
	}, s, sample("T(3), T(4)"))
	pointwise("l1_loss", reductionParam, "The absolute error.", func(a *op.Args, x, t op.Val) op.Val {
		return reduced(a.B, prim.Abs(a.B, difference(a.B, x, t)), a.Int())
	}, s, sample("T(3), T(4)"))
	pointwise("smooth_l1_loss", reductionParam+", float beta=1.0",
		"Squared error over 2 beta below beta, absolute error less beta/2 above.", evalSmoothL1,
		append(s, samples("T(3,4), T(3,4) | beta=0.5", "T(3), T(3) | beta=0.0")...), sample("T(3), T(3) | beta=-1.0"))
	pointwise("huber_loss", reductionParam+", float delta=1.0", "Half the squared error below delta, linear above.",
		evalHuber, append(s, samples("T(3,4), T(3,4) | delta=0.5")...), sample("T(3), T(3) | delta=0.0"))
	pointwise("kl_div", reductionParam+", *, bool log_target=False",
		"target * (log(target) - input), input being log probabilities.", func(a *op.Args, x, t op.Val) op.Val {
			how, logTarget, b := a.Int(), a.Bool(), a.B
			promote(b, &x, &t)
			if logTarget {
				return reduced(b, prim.Mul(b, prim.Exp(b, t), prim.Sub(b, t, x)), how)
			}
			return reduced(b, prim.Sub(b, xlogy(b, t, t), prim.Mul(b, t, x)), how)
		}, samples("T(3,4), T(3,4;0.1,1)", "T(3), T(3;0.1,1) | reduction='sum'", "T(3), T(3) | log_target=True, "+
			"reduction='none'"))
	pointwise("binary_cross_entropy", "Tensor? weight=None, "+reductionParam,
		"The cross entropy of probabilities; logarithms not below -100.", evalBCE, samples("T(3,4;0.05,0.95), T(3,4;0,1)",
			"T(3;0.1,0.9), T(3;0,1), T(3) | reduction='sum'", "T(3;0.1,0.9), T(3;0,1) | reduction='none'"),
		sample("T(3;0,1), T(4;0,1)"))
	pointwise("binary_cross_entropy_with_logits", "Tensor? weight=None, "+reductionParam+", Tensor? pos_weight=None",
		"binary_cross_entropy of sigmoid(input), without overflow.", evalBCELogits, samples("T(3,4), T(3,4;0,1)",
			"T(3;-90,90), T(3;0,1), T(3) | reduction='sum'", "T(3,4), T(3,4;0,1) | pos_weight=T(4;0.5,2), reduction='none'"),
		sample("T(3), T(4)"))
	registerClassLosses()
}

func evalSmoothL1(a *op.Args, x, t op.Val) op.Val {
	how, beta, b := a.Int(), a.Float(), a.B
	if beta < 0 {
		fail(ir.ErrRuntime, "smooth_l1_loss does not support negative values for beta.")
	}
	d := difference(b, x, t)
	n := prim.Abs(b, d)
	if beta == 0 {
		return reduced(b, n, how)
	}
	square := prim.Mul(b, prim.Mul(b, d, d), op.FloatVal(0.5/beta))
	return reduced(b, prim.Where(b, prim.Lt(b, n, op.FloatVal(beta)), square, prim.Sub(b, n, op.FloatVal(0.5*beta))), how)
}

func evalHuber(a *op.Args, x, t op.Val) op.Val {
	how, delta, b := a.Int(), a.Float(), a.B
	if delta <= 0 {
		fail(ir.ErrRuntime, "huber_loss does not support non-positive values for delta.")
	}
	d := difference(b, x, t)
	n := prim.Abs(b, d)
	square := prim.Mul(b, prim.Mul(b, d, d), op.FloatVal(0.5))
	linear := prim.Mul(b, prim.Sub(b, n, op.FloatVal(0.5*delta)), op.FloatVal(delta))
	return reduced(b, prim.Where(b, prim.Le(b, n, op.FloatVal(delta)), square, linear), how)
}

// weighted multiplies by an optional weight that broadcasts.
func weighted(b op.Builder, loss, w op.Val) op.Val {
	if !w.IsTensor() {
		return loss
	}
	return multiply(b, loss, w)
}

func torchSize(shape []int64) string { return "torch.Size(" + ir.ShapeString(shape) + ")" }

// evalBCE clamps the logarithms at -100. Where one is clamped, the logarithm sees 1 and not the probability, so that
// the gradient is 0 and not 0 times infinity.
func evalBCE(a *op.Args, x, t op.Val) op.Val {
	w, how, b := a.Val(), a.Int(), a.B
	if !ir.SameShape(x.Shape(), t.Shape()) {
		fail(ir.ErrValue, "Using a target size (%s) that is different to the input size (%s) is deprecated. Please ensure "+
			"they have the same size.", torchSize(t.Shape()), torchSize(x.Shape()))
	}
	promote(b, &x, &t)
	needFloat("binary_cross_entropy", x)
	inside := prim.BitwiseAnd(b, prim.Ge(b, x, op.FloatVal(0)), prim.Le(b, x, op.FloatVal(1)))
	x = prim.Require(b, inside, x, prim.RequireUnit)
	logOf := func(p op.Val) op.Val {
		low := prim.Lt(b, p, op.FloatVal(math.Exp(-100)))
		return prim.Where(b, low, op.FloatVal(-100), prim.Log(b, prim.Where(b, low, op.FloatVal(1), p)))
	}
	oneMinus := func(p op.Val) op.Val { return prim.Add(b, prim.Neg(b, p), op.FloatVal(1)) }
	loss := prim.Add(b, prim.Mul(b, t, logOf(x)), prim.Mul(b, oneMinus(t), logOf(oneMinus(x))))
	return reduced(b, weighted(b, prim.Neg(b, loss), w), how)
}

func evalBCELogits(a *op.Args, x, t op.Val) op.Val {
	w, how, pos, b := a.Val(), a.Int(), a.Val(), a.B
	if !ir.SameShape(x.Shape(), t.Shape()) {
		fail(ir.ErrValue, "Target size (%s) must be the same as input size (%s)", torchSize(t.Shape()), torchSize(x.Shape()))
	}
	promote(b, &x, &t)
	needFloat("binary_cross_entropy_with_logits", x)
	ls := logSigmoid(b, x)
	if pos.IsTensor() {
		lw := prim.Add(b, multiply(b, t, prim.Sub(b, pos, op.FloatVal(1))), op.FloatVal(1))
		ls = multiply(b, ls, lw)
	}
	rest := prim.Mul(b, prim.Add(b, prim.Neg(b, t), op.FloatVal(1)), x)
	return reduced(b, weighted(b, prim.Sub(b, rest, ls), w), how)
}

func registerClassLosses() {
	op.Register(op.Def{
		Sig: "nll_loss(Tensor input, Tensor target, Tensor? weight=None, int ignore_index=-100, " + reductionParam +
			") -> Tensor",
		Doc: "The negative of the log probabilities at the target classes.", Where: op.Functional,
		Samples: samples("T(5,4), I(5;0,4)", "T(5,4), I(5;0,4), T(4;0.5,2)",
			"T(5,4), torch.tensor([0, 1, 2, 1, 3]) | ignore_index=1", "T(4), I(;0,4)",
			"T(5,4), torch.tensor([0, -100, 2, -100, 3])", "T(2,4), torch.tensor([9, 1]) | ignore_index=9, reduction='sum'",
			"T(5,4), torch.tensor([0, -100, 2, -100, 3]), T(4;0.5,2)", "T(2,4,3), I(2,3;0,4) | reduction='none'",
			"T(5,4), I(5;0,4), T(4;0.5,2) | reduction='sum'"),
		ErrorSamples: samples("T(3,4), T(3)", "T(3,4), I(2;0,4)"),
		Eval: func(a *op.Args) []op.Val {
			x, t, w, ignore, how := a.Val(), a.Val(), a.Val(), a.Int(), a.Int()
			if len(x.Shape()) == 0 {
				fail(ir.ErrValue, "Expected 1 or more dimensions (got 0)")
			}
			t = checkClasses(a.B, x, t)
			return a.Ret(classLoss(a.B, prim.Flat(a.B, x), t, w, ignore, how, 0))
		},
	})
	op.Register(op.Def{
		Sig: "cross_entropy(Tensor input, Tensor target, Tensor? weight=None, int ignore_index=-100, " + reductionParam +
			", float label_smoothing=0.0) -> Tensor",
		Doc: "The cross entropy of logits against class indices or class probabilities.", Where: op.Functional,
		Eval: evalCrossEntropy,
		Samples: samples("T(5,4), I(5;0,4)", "T(5,4), I(5;0,4), T(4;0.5,2)",
			"T(5,4), torch.tensor([0, 1, 2, 1, 3]) | ignore_index=1", "T(4), I(;0,4)",
			"T(5,4), torch.tensor([0, -100, 2, -100, 3])", "T(2,4), torch.tensor([9, 1]) | ignore_index=9, reduction='sum'",
			"T(5,4), torch.tensor([0, -100, 2, -100, 3]), T(4;0.5,2)", "T(2,4,3), I(2,3;0,4)",
			"T(5,4), I(5;0,4) | label_smoothing=0.1", "T(5,4), I(5;0,4), T(4;0.5,2) | label_smoothing=0.1",
			"T(5,4), T(5,4;0,1)", "T(5,4), T(5,4;0,1) | reduction='none', label_smoothing=0.2",
			"T(5,4), T(5,4;0,1), T(4;0.5,2) | reduction='sum'",
			"T(4), T(4;0,1)", "T(5,4), I(5;0,4) | reduction='none'"),
		ErrorSamples: samples("T(3,4), T(3)", "T(), I(2;0,2)", "T(3,4), I(2;0,4)", "T(3,4), T(3,4;0,1) | ignore_index=1",
			"T(3,4), I(3;0,4) | label_smoothing=2.0"),
	})
}

// classDim is the dim of the classes.
func classDim(x op.Val) int {
	if len(x.Shape()) == 1 {
		return 0
	}
	return 1
}

// checkClasses refuses targets that are no classes of x, and returns them as int64.
func checkClasses(b op.Builder, x, t op.Val) op.Val {
	s, u := x.Shape(), t.Shape()
	d := classDim(x)
	want := slices.Delete(slices.Clone(s), d, d+1)
	if len(s) > 1 && (len(u) == 0 || u[0] != s[0]) {
		n := int64(1)
		if len(u) > 0 {
			n = u[0]
		}
		fail(ir.ErrValue, "Expected input batch_size (%d) to match target batch_size (%d).", s[0], n)
	}
	if len(s) <= 2 && len(u) > 1 {
		fail(ir.ErrRuntime, "0D or 1D target tensor expected, multi-target not supported")
	}
	if !ir.SameShape(u, want) {
		fail(ir.ErrRuntime, "Expected target size %s, got %s", ir.ShapeString(want), ir.ShapeString(u))
	}
	if d := t.DType(); d != ir.I64 && d != ir.U8 {
		fail(ir.ErrRuntime, "expected target dtype to be Long or Byte, but got %s", typeName(t.DType()))
	}
	if s[d] == 0 && t.L().Numel > 0 {
		fail(ir.ErrIndex, "Target is out of bounds: there are no classes.")
	}
	return cast(b, t, ir.I64)
}

// pickClass takes the values of x at the classes t.
func pickClass(b op.Builder, x, t op.Val) op.Val {
	d := int64(classDim(x))
	return prim.Reshape(b, prim.Gather(b, x, prim.Unsqueeze(b, t, d), d), t.Shape())
}

// classTarget is what the class losses derive from their targets: which are not ignored, the classes with 0 for ignored
// ones, and the classes' weights where there are any.
type classTarget struct{ valid, safe, weights op.Val }

func targetOf(b op.Builder, x, t, w op.Val, ignore int64) classTarget {
	c := classTarget{valid: prim.Ne(b, t, op.IntVal(ignore))}
	c.safe = prim.Where(b, c.valid, t, op.IntVal(0))
	if w.IsTensor() {
		classes := x.Shape()[classDim(x)]
		if len(w.Shape()) != 1 || w.Shape()[0] != classes {
			fail(ir.ErrRuntime, "weight tensor should be defined either for all %d classes or no classes but got weight tensor "+
				"of shape: %s", classes, ir.ShapeString(w.Shape()))
		}
		flat := prim.IndexSelect(b, cast(b, w, x.DType()), prim.Reshape(b, c.safe, []int64{c.safe.L().Numel}), 0)
		c.weights = prim.Where(b, c.valid, prim.Reshape(b, flat, t.Shape()), op.FloatVal(0))
	}
	return c
}

// classLoss is the nll loss of the log probabilities lp. With smoothing it is mixed with the loss against the uniform
// distribution (Szegedy et al., 2016).
func classLoss(b op.Builder, lp, t, w op.Val, ignore, how int64, smoothing float64) op.Val {
	c, zero := targetOf(b, lp, t, w, ignore), op.FloatVal(0)
	loss, count := prim.Neg(b, pickClass(b, lp, c.safe)), c.weights
	if w.IsTensor() {
		loss = prim.Mul(b, loss, c.weights)
	}
	loss = prim.Where(b, c.valid, loss, zero)
	if smoothing > 0 {
		loss = smoothed(b, loss, lp, cast(b, w, lp.DType()), c.valid, int64(classDim(lp)), smoothing)
	}
	if how == reduceMean && !w.IsTensor() {
		count = prim.Cast(b, c.valid, lp.DType())
	}
	return reducedBy(b, loss, count, how)
}

// reducedBy reduces losses; their mean is over count.
func reducedBy(b op.Builder, loss, count op.Val, how int64) op.Val {
	if how != reduceMean {
		return reduced(b, loss, how)
	}
	return prim.Div(b, reduced(b, loss, reduceSum), reduced(b, count, reduceSum))
}

// smoothed mixes in the mean over classes of the (weighted) negative log probability.
func smoothed(b op.Builder, loss, x, w, valid op.Val, d int64, smoothing float64) op.Val {
	u := x
	if w.IsTensor() {
		u = prim.Mul(b, u, prim.Along(b, w, x.Shape(), d))
	}
	mask := make([]bool, len(x.Shape()))
	mask[d] = true
	s := reduceDims(b, prim.Sum, prim.Neg(b, u), mask, false)
	s = prim.Where(b, valid, s, op.FloatVal(0))
	c := smoothing / float64(x.Shape()[d])
	return prim.Add(b, prim.Mul(b, loss, op.FloatVal(1-smoothing)), prim.Mul(b, s, op.FloatVal(c)))
}

func evalCrossEntropy(a *op.Args) []op.Val {
	x, t, w, ignore, how, smoothing, b := a.Val(), a.Val(), a.Val(), a.Int(), a.Int(), a.Float(), a.B
	if smoothing < 0 || smoothing > 1 {
		fail(ir.ErrRuntime, "label_smoothing must be between 0.0 and 1.0. Got: %g", smoothing)
	}
	probabilities := t.DType().IsFloat()
	if !ir.SameShape(x.Shape(), t.Shape()) {
		ir.WrapDim(int64(classDim(x)), len(x.Shape()))
	}
	switch {
	case !probabilities && ir.SameShape(x.Shape(), t.Shape()):
		fail(ir.ErrRuntime, "Expected floating point type for target with class probabilities, got %s", typeName(t.DType()))
	case probabilities && !ir.SameShape(x.Shape(), t.Shape()):
		t = checkClasses(b, x, t)
	case probabilities && ignore >= 0:
		fail(ir.ErrRuntime, "ignore_index is not supported for floating point target")
	case !probabilities:
		t = checkClasses(b, x, t)
	}
	ir.WrapDim(int64(classDim(x)), len(x.Shape()))
	needFloat("log_softmax_lastdim_kernel_impl", x)
	d := int64(classDim(x))
	if !probabilities && smoothing == 0 {
		loss, count := prim.CrossEntropy(b, x, t, d, ignore)
		if w.IsTensor() {
			count = targetOf(b, x, t, w, ignore).weights
			loss = prim.Mul(b, loss, count)
		}
		return a.Ret(reducedBy(b, loss, count, how))
	}
	lp := prim.LogSoftmax(b, x, d)
	if !probabilities {
		return a.Ret(classLoss(b, lp, t, w, ignore, how, smoothing))
	}
	classes := x.Shape()[d]
	t = cast(b, t, x.DType())
	if smoothing > 0 {
		t = prim.Add(b, prim.Mul(b, t, op.FloatVal(1-smoothing)), op.FloatVal(smoothing/float64(classes)))
	}
	p := prim.Mul(b, lp, t)
	if w.IsTensor() {
		p = prim.Mul(b, p, prim.Along(b, cast(b, w, x.DType()), x.Shape(), d))
	}
	mask := make([]bool, len(x.Shape()))
	mask[d] = true
	if how == reduceMean {
		total := prim.Neg(b, reduceDims(b, prim.Sum, p, all(p), false))
		return a.Ret(prim.Div(b, total, op.FloatVal(float64(p.L().Numel)/float64(classes))))
	}
	return a.Ret(reduced(b, prim.Neg(b, reduceDims(b, prim.Sum, p, mask, false)), how))
}
