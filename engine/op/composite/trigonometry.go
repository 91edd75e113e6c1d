package composite

import "github.com/torchlette/torchlette/engine/op"

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
	registerComplexParts()
}
