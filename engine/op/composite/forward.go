package composite

import (
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
)

// registerForwardOps registers the operators at the ends of forward mode. Levels count from 1, the outermost.
func registerForwardOps() {
	forward := func(a *op.Args) op.Forward { return a.B.(op.Forward) }
	hidden := func(sig, doc string, view bool, eval func(a *op.Args, f op.Forward) []op.Val) {
		op.Register(op.Def{Sig: sig, Doc: doc, Where: op.Hidden, View: view,
			Eval: func(a *op.Args) []op.Val { return eval(a, forward(a)) }})
	}
	hidden("_make_dual(Tensor self, Tensor tangent, int level) -> Tensor", "Self with a tangent at a level.", false,
		func(a *op.Args, f op.Forward) []op.Val {
			x, t := a.Val(), a.Val()
			if !x.DType().IsComplex() {
				return a.Ret(f.Dual(x, t, a.Int()))
			}
			t = op.PairsOf(a.B, prim.Cast(a.B, t, x.DType()))
			return a.Ret(op.ComplexOf(a.B, f.Dual(op.PairsOf(a.B, x), t, a.Int())))
		})
	hidden("_tangent(Tensor self, int level) -> Tensor[]", "The tangent of self at a level, none where it is zero.", false,
		func(a *op.Args, f op.Forward) []op.Val {
			x := a.Val()
			if t := f.Tangent(op.PairsOf(a.B, x), a.Int()); t.IsTensor() {
				if x.DType().IsComplex() {
					t = prim.AsComplex(a.B, t)
				}
				return a.Ret(t)
			}
			return nil
		})
	hidden("_primal(Tensor self, int level) -> Tensor", "An alias without tangents at a level and above.", true,
		func(a *op.Args, f op.Forward) []op.Val {
			x := a.Val()
			return a.Ret(f.Primal(x, a.Int()))
		})
	hidden("_untaped(Tensor self) -> Tensor", "An alias without history, with the tangents of self.", true,
		func(a *op.Args, f op.Forward) []op.Val { return a.Ret(f.Untaped(a.Val())) })
}
