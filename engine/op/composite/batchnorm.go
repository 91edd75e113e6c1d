package composite

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

func registerBatchnormOps() {
	op.Register(op.Def{
		Sig: "batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool " +
			"training, float momentum, float eps, bool cudnn_enabled) -> Tensor",
		Doc: "Each channel of dim 1 less its mean, over its standard deviation, then scaled and shifted: with running " +
			"statistics outside training.",
		Where: op.Function, Eval: func(a *op.Args) []op.Val { return a.Ret(batchNorm(a)) },
		Samples: samples("T(4,3), T(3), T(3), T(3), T(3;0.5,2), False, 0.1, 1e-5, True",
			"T(2,3,4), None, None, T(3), T(3;0.5,2), False, 0.1, 1e-5, True",
			"T(4,3), T(3), T(3), None, None, True, 0.1, 1e-5, True",
			"T(2,3,4,2), T(3), None, None, None, True, 0.1, 1e-3, True"),
		ErrorSamples: samples("T(4,3), T(2), None, None, None, True, 0.1, 1e-5, True",
			"T(4,3), None, None, None, None, False, 0.1, 1e-5, True"),
	})
	op.Register(op.Def{
		Sig: "_batch_norm_stats(Tensor input, Tensor? weight, Tensor? bias, float eps) -> (Tensor output, Tensor mean, " +
			"Tensor variance)",
		Doc:   "batch_norm by the batch's own statistics, with these: the mean and the unbiased variance of each channel.",
		Where: op.Hidden, Eval: evalBatchNormStats,
		NoGrad: "the statistics carry no gradient", Samples: samples("T(4,3), T(3), T(3), 1e-5",
			"T(2,3,4), None, None, 1e-5"),
	})
	op.Register(op.Def{
		Sig:   "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) -> Tensor",
		Doc:   "Each group of channels less its mean, over its standard deviation, then scaled and shifted by channel.",
		Where: op.Function | op.Functional, Eval: evalGroupNorm,
		Samples: samples("T(2,4,3), 2", "T(2,4,3,2), 4, T(4), T(4)", "T(3,6,5), 3, T(6)",
			"T(2,4,3), 1, None, T(4), 1e-3"),
		ErrorSamples: samples("T(2,4,3), 3", "T(2,4,3), 2, T(3)"),
	})
}

func checkChannels(what string, v op.Val, n int64) {
	if v.IsTensor() && (len(v.Shape()) != 1 || v.Shape()[0] != n) {
		fail(ir.ErrRuntime, "%s should contain %d elements not %d", what, n, ir.Numel(v.Shape()))
	}
}

func batchNorm(a *op.Args) op.Val {
	x, w, bias, rm, rv, b := a.Val(), a.Val(), a.Val(), a.Val(), a.Val(), a.B
	training := a.Bool()
	a.Scalar()
	eps := a.Scalar()
	s := x.Shape()
	if x.L().Numel == 0 {
		return batchNormOfNone(b, x, w, bias)
	}
	features := int64(0)
	if len(s) > 1 {
		features = s[1]
	}
	checkChannels("running_mean", rm, features)
	checkChannels("running_var", rv, features)
	checkChannels("weight", w, features)
	checkChannels("bias", bias, features)
	if len(s) < 2 {
		fail(ir.ErrIndex, "Dimension out of range (expected to be in range of [-%d, %d], but got 1)", max(1, len(s)),
			max(0, len(s)-1))
	}
	if training {
		wide, w, bias := mixed(b, x, w, bias)
		y, _, _ := prim.BatchNorm(b, wide, w, bias, eps)
		return cast(b, y, x.DType())
	}
	if !rm.IsTensor() || !rv.IsTensor() {
		fail(ir.ErrRuntime, "Expected running_mean and running_var to be defined when training=False")
	}
	// One factor and one summand for each channel, as in PyTorch's CPU kernel.
	t := x.DType().ComputeType()
	factor := prim.Rsqrt(b, prim.Add(b, cast(b, rv, t), eps))
	if w.IsTensor() {
		factor = prim.Mul(b, factor, cast(b, w, t))
	}
	shift := prim.Neg(b, prim.Mul(b, cast(b, rm, t), factor))
	if bias.IsTensor() {
		shift = prim.Add(b, shift, cast(b, bias, t))
	}
	wide := prim.Add(b, prim.Mul(b, cast(b, x, t), byChannel(b, factor, s)), byChannel(b, shift, s))
	return cast(b, wide, x.DType())
}

// batchNormOfNone is the batch norm of an x without elements: x. The gradients of x, weight and bias are zeros.
func batchNormOfNone(b op.Builder, x, w, bias op.Val) op.Val {
	s := x.Shape()
	y := x
	for _, v := range []op.Val{w, bias} {
		if v.IsTensor() && len(s) > 1 && slices.Equal(v.Shape(), s[1:2]) {
			y = prim.Add(b, y, byChannel(b, cast(b, v, x.DType()), s))
		}
	}
	return y
}

func evalBatchNormStats(a *op.Args) []op.Val {
	x, w, bias, b := a.Val(), a.Val(), a.Val(), a.B
	wide, w, bias := mixed(b, x, w, bias)
	y, mean, variance := prim.BatchNorm(b, wide, w, bias, a.Scalar())
	n := float64(x.L().Numel / max(1, x.Shape()[1]))
	return a.Ret(cast(b, y, x.DType()), b.Detach(mean), b.Detach(prim.Mul(b, variance, op.FloatVal(n/(n-1)))))
}

func evalGroupNorm(a *op.Args) []op.Val {
	x, groups, w, bias, eps, b := a.Val(), a.Int(), a.Val(), a.Val(), a.Scalar(), a.B
	s := x.Shape()
	needFloat("GroupNormKernelImpl", x)
	if len(s) == 0 {
		fail(ir.ErrIndex, "Dimension specified as 0 but tensor has no dimensions")
	}
	if len(s) < 2 {
		fail(ir.ErrRuntime, "Expected at least 2 dimensions for input tensor but received %d", len(s))
	}
	if s[1] == 0 || slices.Contains(s[2:], 0) {
		fail(ir.ErrRuntime, "Expected number of channels and HxW to be greater than 0, but got input of shape %s",
			ir.ShapeString(s))
	}
	if groups <= 0 || s[1]%groups != 0 {
		fail(ir.ErrRuntime, "Expected number of channels in input to be divisible by num_groups, but got input of shape %s "+
			"and num_groups=%d", ir.ShapeString(s), groups)
	}
	for i, v := range []op.Val{w, bias} {
		if what := []string{"weight", "bias"}[i]; v.IsTensor() && (len(v.Shape()) != 1 || v.Shape()[0] != s[1]) {
			fail(ir.ErrRuntime, "Expected %s to be a vector of size equal to the number of channels in input, but got %s of "+
				"shape %s and input of shape %s", what, what, ir.ShapeString(v.Shape()), ir.ShapeString(s))
		}
	}
	t := x.DType().ComputeType()
	places := ir.Numel(s[2:])
	flat := prim.Reshape(b, cast(b, x, t), []int64{s[0], groups, s[1] / groups * places})
	// In this shape, which has a dim for the channels, weight and bias are views.
	y, _, _ := prim.LayerNorm(b, prim.Reshape(b, flat, []int64{s[0], groups, s[1] / groups, places}), op.Val{}, op.Val{},
		eps, 2)
	y = prim.Reshape(b, y, s)
	if w.IsTensor() {
		y = prim.Mul(b, y, byChannel(b, cast(b, w, t), s))
	}
	if bias.IsTensor() {
		y = prim.Add(b, y, byChannel(b, cast(b, bias, t), s))
	}
	return a.Ret(cast(b, y, x.DType()))
}
