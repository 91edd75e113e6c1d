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

// spread expands a 0-dim operand of an update to the parameter's shape; it returns an absent one as it is.
func spread(b op.Builder, name string, x, p op.Val) op.Val {
	if !x.IsTensor() {
		return x
	}
	if len(x.Shape()) != 0 {
		fail(ir.ErrRuntime, "%s: numbers on the device: got shape %s, want []", name, ir.ShapeString(x.Shape()))
	}
	return prim.Expand(b, x, p.Shape())
}

func registerOptimOps() {
	registerNumber()
	op.Register(op.Def{
		Sig: "_sgd_step(Tensor self, Tensor grad, Tensor? momentum_buffer, float lr, float momentum, float dampening, " +
			"float weight_decay, bool first, bool nesterov, bool maximize, Tensor? overflow=None) -> Tensor",
		Doc:   "One step of SGD on a parameter and its momentum buffer. It writes nothing where overflow is not 0.",
		Where: op.Hidden, InPlaceOnly: true,
		Stores: []int{0, 2}, NoGrad: isUpdate,
		PassThrough: []string{"lr", "momentum", "dampening", "weight_decay"},
		Samples: samples("T(3), T(3), None, 0.1, 0.0, 0.0, 0.01, True, False, False",
			"T(3), T(3), T(3), 0.1, 0.9, 0.0, 0.01, False, True, False",
			"T(3), T(3), T(3), 0.1, 0.9, 0.0, 0.01, False, True, False, T()"),
		Eval: func(a *op.Args) []op.Val {
			p, g, buf, b := a.Val(), a.Val(), a.Val(), a.B
			lr, momentum, dampening, decay := a.Scalar(), a.Scalar(), a.Scalar(), a.Scalar()
			first, nesterov, maximize := a.Bool(), a.Bool(), a.Bool()
			checkState("_sgd_step", p, g, buf)
			overflow := spread(b, "_sgd_step", a.Val(), p)
			np, nbuf := prim.SGDStep(b, p, g, buf, overflow, prim.SGD{LR: lr, Momentum: momentum, Dampening: dampening,
				WeightDecay: decay, First: op.BoolVal(first), Nesterov: nesterov, Maximize: maximize})
			if !buf.IsTensor() {
				return a.Ret(np)
			}
			return a.Ret(np, nbuf)
		},
	})
	op.Register(op.Def{
		Sig: "_adam_step(Tensor self, Tensor grad, Tensor exp_avg, Tensor exp_avg_sq, Tensor? max_exp_avg_sq, float lr, " +
			"float beta1, float beta2, float eps, float weight_decay, " +
			"float bias1, float bias2, bool decoupled, bool amsgrad, bool maximize, Tensor? overflow=None, " +
			"Tensor? bias1_at=None, Tensor? bias2_at=None) -> Tensor",
		Doc: "One step of Adam or AdamW on a parameter and its moments; bias1 and bias2 are 1 - beta**step. With overflow " +
			"they are the tensors bias1_at and bias2_at, and nothing is written where overflow is not 0.",
		Where: op.Hidden, InPlaceOnly: true,
		Stores: []int{0, 2, 3, 4}, NoGrad: isUpdate, Eval: evalAdamStep, PassThrough: []string{"lr", "eps", "weight_decay",
			"bias1", "bias2"},
		Samples: samples("T(3), T(3), T(3), T(3;0,1), None, 0.1, 0.9, 0.99, 1e-8, 0.01, 0.1, 0.01, False, False, False",
			"T(3), T(3), T(3), T(3;0,1), T(3;0,1), 0.1, 0.9, 0.99, 1e-8, 0.01, 0.1, 0.01, True, True, False",
			"T(3), T(3), T(3), T(3;0,1), None, 0.1, 0.9, 0.99, 1e-8, 0.01, 1.0, 1.0, False, False, False, T(), T(;0,1), "+
				"T(;0,1)"),
	})
}

func registerNumber() {
	op.Register(op.Def{
		Sig: "_number(Tensor self, float value) -> Tensor",
		Doc: "A 0-dim tensor of one number. Dtype and device are self's.", Where: op.Hidden, NoGrad: notOfData,
		PassThrough: []string{"value"}, Samples: samples("T(3), 2.5", "T(), -1.0"),
		Eval: func(a *op.Args) []op.Val {
			like := a.Val()
			needFloat("_number", like)
			return a.Ret(prim.Fill(a.B, a.Scalar(), like.DType(), like.Device(), nil))
		},
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
	overflow, bias1, bias2 := a.Val(), a.Val(), a.Val()
	if overflow.IsTensor() != bias1.IsTensor() || overflow.IsTensor() != bias2.IsTensor() {
		fail(ir.ErrValue, "_adam_step: bias1_at, bias2_at: expected both exactly when overflow is given")
	}
	if overflow.IsTensor() {
		o.Bias1, o.Bias2 = spread(a.B, "_adam_step", bias1, p), spread(a.B, "_adam_step", bias2, p)
	}
	np, nm, nv, nmax := prim.AdamStep(a.B, p, g, m, v, vmax, spread(a.B, "_adam_step", overflow, p), o)
	if !amsgrad {
		return a.Ret(np, nm, nv)
	}
	return a.Ret(np, nm, nv, nmax)
}
