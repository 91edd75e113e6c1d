package composite

import (
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

const isUpdate = "an update of parameters"

// checkState checks that the operands of an update agree with the parameter.
func checkState(name string, p op.Val, others ...op.Val) {
	for _, v := range others {
		if !v.IsTensor() {
			continue
		}
		if !ir.SameShape(v.Shape(), p.Shape()) {
			fail(ir.ErrRuntime, "%s: state: got shape %s, want %s", name, ir.ShapeString(v.Shape()), ir.ShapeString(p.Shape()))
		}
		if v.DType() != p.DType() {
			fail(ir.ErrRuntime, "%s: state: got dtype %s, want %s", name, v.DType(), p.DType())
		}
	}
}

func registerOptimOps() {
	op.Register(op.Def{
		Sig: "_sgd_step(Tensor self, Tensor grad, Tensor? momentum_buffer, float lr, float momentum, float dampening, " +
			"float weight_decay, bool first, bool nesterov, bool maximize) -> Tensor",
		Doc: "One step of SGD on a parameter and its momentum buffer.", Where: op.Hidden, InPlaceOnly: true,
		Stores: []int{0, 2}, NoGrad: isUpdate,
		PassThrough: []string{"lr", "momentum", "dampening", "weight_decay"},
		Samples: samples("T(3), T(3), None, 0.1, 0.0, 0.0, 0.01, True, False, False",
			"T(3), T(3), T(3), 0.1, 0.9, 0.0, 0.01, False, True, False"),
		Eval: func(a *op.Args) []op.Val {
			p, g, buf, b := a.Val(), a.Val(), a.Val(), a.B
			lr, momentum, dampening, decay := a.Scalar(), a.Scalar(), a.Scalar(), a.Scalar()
			first, nesterov, maximize := a.Bool(), a.Bool(), a.Bool()
			checkState("_sgd_step", p, g, buf)
			np, nbuf := prim.SGDStep(b, p, g, buf, lr, momentum, dampening, decay, op.BoolVal(first), nesterov, maximize)
			if !buf.IsTensor() {
				return a.Ret(np)
			}
			return a.Ret(np, nbuf)
		},
	})
	op.Register(op.Def{
		Sig: "_adam_step(Tensor self, Tensor grad, Tensor exp_avg, Tensor exp_avg_sq, Tensor? max_exp_avg_sq, float lr, " +
			"float beta1, float beta2, float eps, float weight_decay, " +
			"float bias1, float bias2, bool decoupled, bool amsgrad, bool maximize) -> Tensor",
		Doc:   "One step of Adam or AdamW on a parameter and its moments; bias1 and bias2 are 1 - beta**step.",
		Where: op.Hidden, InPlaceOnly: true,
		Stores: []int{0, 2, 3, 4}, NoGrad: isUpdate, Eval: evalAdamStep, PassThrough: []string{"lr", "eps", "weight_decay",
			"bias1", "bias2"},
		Samples: samples("T(3), T(3), T(3), T(3;0,1), None, 0.1, 0.9, 0.99, 1e-8, 0.01, 0.1, 0.01, False, False, False",
			"T(3), T(3), T(3), T(3;0,1), T(3;0,1), 0.1, 0.9, 0.99, 1e-8, 0.01, 0.1, 0.01, True, True, False"),
	})
}

func evalAdamStep(a *op.Args) []op.Val {
	p, g, m, v, vmax := a.Val(), a.Val(), a.Val(), a.Val(), a.Val()
	o := prim.Adam{LR: a.Scalar(), Beta1: a.Scalar(), Beta2: a.Scalar(), Eps: a.Scalar(), WeightDecay: a.Scalar(),
		Bias1: a.Scalar(), Bias2: a.Scalar()}
	o.Decoupled = a.Bool()
	amsgrad := a.Bool()
	o.Maximize = a.Bool()
	checkState("_adam_step", p, g, m, v, vmax)
	if amsgrad != vmax.IsTensor() {
		fail(ir.ErrValue, "_adam_step: amsgrad: got %t, want it exactly when max_exp_avg_sq is given", amsgrad)
	}
	np, nm, nv, nmax := prim.AdamStep(a.B, p, g, m, v, vmax, o)
	if !amsgrad {
		return a.Ret(np, nm, nv)
	}
	return a.Ret(np, nm, nv, nmax)
}
