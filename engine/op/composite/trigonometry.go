package composite

import (
	"math"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

func registerTrigonometryOps() {
	inside := samples("T(3,4;-1,1)", "T(;-1,1)", "I(3;-1,2)", "torch.tensor([-1.0, 1.0, 0.0, -0.0, 2.0])")
	beyond := append(anyReal(), sample("torch.tensor([1e30, -1e30, 1e-30, -0.0, float('inf')])"))
	for _, m := range []struct {
		name, doc string
		f         op.Fn
		s         []op.Sample
	}{
		{"acos", "The angle in [0, pi] whose cosine is x.", op.FnAcos, inside},
		{"asin", "The angle in [-pi/2, pi/2] whose sine is x.", op.FnAsin, inside},
		{"atan", "The angle in [-pi/2, pi/2] whose tangent is x.", op.FnAtan, beyond},
		{"acosh", "The inverse of cosh, for x >= 1.", op.FnAcosh, samples("T(3,4;1,4)", "T(;1,2)", "I(3;1,5)",
			"torch.tensor([1e30, 1.0, 0.5, -3.0])")},
		{"asinh", "The inverse of sinh.", op.FnAsinh, beyond},
		{"atanh", "The inverse of tanh.", op.FnAtanh, inside},
	} {
		unary(m.name, m.doc, []string{"arc" + m.name[1:]}, inFloat(fn(m.f)), m.s...)
	}
	op.Register(op.Def{
		Sig: "atan2(Tensor self, Tensor other) -> Tensor", Doc: "The angle of the point (other, self) in [-pi, pi].",
		Aliases: []string{"arctan2"}, InPlace: true, Out: true,
		Samples: samples("T(3,4), T(3,4)", "T(3,4), T(4)", "I(3;-2,3), T(3)", "I(3;1,3), I(3;1,3)",
			"torch.tensor([0.0, -0.0, 0.0, -0.0, float('inf')]), torch.tensor([1.0, -1.0, -0.0, 1.0, -float('inf')])"),
		ErrorSamples: samples("T(3), T(4)"),
		Eval:         func(a *op.Args) []op.Val { return a.Ret(fn2(op.FnAtan2)(a.B, a.Val(), a.Val())) },
	})
	op.Register(op.Def{
		Sig: "angle(Tensor self) -> Tensor", Doc: "pi where an element is negative, 0 elsewhere; NaN stays.", Out: true,
		Samples: anyReal(),
		Eval: func(a *op.Args) []op.Val {
			b, x := a.B, floating(a.B, a.Val())
			// A step of Sign: the gradient is zero and not absent.
			y := prim.Mul(b, prim.Relu(b, prim.Neg(b, prim.Sign(b, x))), op.FloatVal(math.Pi))
			return a.Ret(prim.Where(b, prim.IsNaN(b, x), x, y))
		},
	})
	registerComplexForms()
}

// registerComplexForms registers operators of complex tensors; of a real tensor they are the tensor itself.
func registerComplexForms() {
	for _, m := range []struct {
		name  string
		where op.Where
	}{{"conj", op.Function | op.Method}, {"resolve_conj", op.Function | op.Method},
		{"resolve_neg", op.Function | op.Method}, {"real", op.Function}} {
		op.Register(op.Def{
			Sig: m.name + "(Tensor self) -> Tensor", Doc: "The tensor itself: it is real.", View: true, Where: m.where,
			Samples: samples("T(3,4)", "I(3;0,5)", "B(2)"),
			Eval:    func(a *op.Args) []op.Val { return a.Ret(a.Val()) },
		})
	}
	unary("conj_physical", "A copy of the tensor, which is real.", nil, prim.Copy, anyReal()...)
	op.Register(op.Def{
		Sig: "isreal(Tensor self) -> Tensor", Doc: "True everywhere: all tensors are real.", Samples: samples("T(3,4)",
			"I(3;0,5)"), NoGrad: "the result is boolean",
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			return a.Ret(prim.Fill(a.B, op.BoolVal(true), ir.Bool, x.Device(), x.Shape()))
		},
	})
}
