package composite

import (
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// extrema are the two directions of max and min.
var extrema = []struct {
	name, word       string
	over, ofAll      reduceEmit
	along            func(b op.Builder, x op.Val, dim int64) (values, indices op.Val)
	arg              func(b op.Builder, x op.Val, dim int64) op.Val
	pair, pairOfBool binaryEmit
}{
	{"max", "largest", prim.Amax, prim.MaxOfAll, prim.MaxDim, prim.ArgMax, prim.Maximum, prim.BitwiseOr},
	{"min", "smallest", prim.Amin, prim.MinOfAll, prim.MinDim, prim.ArgMin, prim.Minimum, prim.BitwiseAnd},
}

func registerExtremumOps() {
	for _, m := range extrema {
		registerAmax(m.name, m.word, m.over)
		registerMax(m.name, m.word, m.ofAll, m.along)
		op.Register(op.Def{
			Sig: m.name + ".other(Tensor self, Tensor other) -> Tensor", Doc: "The elementwise " + m.name + "imum.", Out: true,
			Samples: samples("T(3,4), T(4)", "I(3;0,5), T(3)"), ErrorSamples: samples("T(3), T(4)"),
			Eval: func(a *op.Args) []op.Val { return a.Ret(extremum(a.B, m.pair, m.pairOfBool, a.Val(), a.Val())) },
		})
		registerArg("arg"+m.name, m.word, m.arg)
	}
	op.Register(op.Def{
		Sig: "aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)",
		Doc: "The smallest and the largest element.", Out: true, ExactOut: true,
		Samples: samples("T(3,4)", "T(3,4) | dim=1", "T(3,4) | dim=0, keepdim=True"), ErrorSamples: samples("T(3) | dim=2"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			d, given := a.OptInt()
			keepdim, mask := a.Bool(), all(x)
			if given {
				mask = dimMask([]int64{d}, len(x.Shape()))
			}
			if x.L().Numel == 0 && !given {
				fail(ir.ErrRuntime, "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.")
			}
			refuseEmpty("aminmax", x, mask)
			return a.Ret(reduceDims(a.B, prim.Amin, x, mask, keepdim), reduceDims(a.B, prim.Amax, x, mask, keepdim))
		},
	})
}

// refuseEmpty raises where a marked dim has size 0: an extremum has no identity.
func refuseEmpty(name string, x op.Val, mask []bool) {
	for i, m := range mask {
		if m && x.Shape()[i] == 0 {
			fail(ir.ErrIndex, "%s(): Expected reduction dim %d to have non-zero size.", name, i)
		}
	}
}

func registerAmax(name, word string, over reduceEmit) {
	full := "a" + name
	op.Register(op.Def{
		Sig: full + "(Tensor self, int[] dim=(), bool keepdim=False) -> Tensor", Doc: "The " + word +
			" element over dims; ties share the gradient.", Out: true, ExactOut: true,
		Samples: samples("T(3,4)", "T(3,4), 1", "T(2,3,4), (0, 2), True", "I(3,4;0,9), 0", "B(3,4), 1", "T()",
			"I(6;0,3)"),
		ErrorSamples: samples("T(0,3), 0", "T(3), 2"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			dims, _ := a.IntList()
			mask := dimMask(dims, len(x.Shape()))
			if len(dims) == 0 && x.L().Numel == 0 {
				fail(ir.ErrRuntime, "%s(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction "+
					"dim with the 'dim' argument.", full)
			}
			refuseEmpty(full, x, mask)
			return a.Ret(reduceDims(a.B, over, x, mask, a.Bool()))
		},
	})
}

func registerMax(name, word string, ofAll reduceEmit, along func(b op.Builder, x op.Val, dim int64) (op.Val, op.Val)) {
	op.Register(op.Def{
		Sig: name + "(Tensor self) -> Tensor", Doc: "The " + word + " element.", Out: true,
		Samples: samples("T(3,4)", "T()", "I(5;0,9)", "B(3)"), ErrorSamples: samples("T(0)"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			if x.L().Numel == 0 {
				fail(ir.ErrRuntime, "%s(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction "+
					"dim with the 'dim' argument.", name)
			}
			return a.Ret(reduceDims(a.B, ofAll, x, all(x), false))
		},
	})
	op.Register(op.Def{
		Sig: name + ".dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
		Doc: "The " + word + " elements along a dim and their indices.", Out: true,
		Samples:      samples("T(3,4), 1", "T(3,4), 0, True", "T(2,3,4), -2", "I(3,4;0,99), 1", "T(), 0", "T(3,0), 0"),
		ErrorSamples: samples("T(3), 2", "T(0,3), 0"),
		Eval: func(a *op.Args) []op.Val {
			x, dim, keepdim, b := a.Val(), a.Int(), a.Bool(), a.B
			d := ir.WrapDim(dim, len(x.Shape()))
			mask := dimMask([]int64{int64(d)}, len(x.Shape()))
			refuseEmpty(name, x, mask)
			_, kept := maskedDims(mask, x.Shape())
			scalar, asBool := len(x.Shape()) == 0, x.DType() == ir.Bool
			if scalar {
				x = prim.Reshape(b, x, []int64{1})
			}
			if asBool {
				x = prim.Cast(b, x, ir.I32)
			}
			v, i := along(b, x, int64(d))
			if asBool {
				v = prim.Cast(b, v, ir.Bool)
			}
			if keepdim && !scalar {
				v, i = prim.Reshape(b, v, kept), prim.Reshape(b, i, kept)
			}
			return a.Ret(v, i)
		},
	})
}

func registerArg(name, word string, arg func(b op.Builder, x op.Val, dim int64) op.Val) {
	op.Register(op.Def{
		Sig: name + "(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", Doc: "The index of the " + word +
			" element.", Out: true, NoGrad: "an index",
		Samples: samples("T(3,4)", "T(3,4), 1", "T(3,4), 0, True", "T(2,3) | keepdim=True", "T()", "I(7;0,99)",
			"T(), 0"),
		ErrorSamples: samples("T(0)", "T(3), 2", "T(0,3), 0", "B(3)"),
		Eval: func(a *op.Args) []op.Val {
			x, b := a.Val(), a.B
			d, given := a.OptInt()
			keepdim, shape := a.Bool(), x.Shape()
			if x.DType() == ir.Bool {
				fail(ir.ErrNotImplemented, "%s(): does not support bool input", name)
			}
			mask := all(x)
			if given {
				d = int64(ir.WrapDim(d, len(shape)))
				mask = dimMask([]int64{d}, len(shape))
				refuseEmpty(name, x, mask)
			} else if x.L().Numel == 0 {
				fail(ir.ErrIndex, "%s(): Expected reduction dim to be specified for input.numel() == 0.", name)
			}
			if !given || len(shape) == 0 {
				x, d = prim.Reshape(b, x, []int64{x.L().Numel}), 0
			}
			i := arg(b, x, d)
			if keepdim {
				_, kept := maskedDims(mask, shape)
				i = prim.Reshape(b, i, kept)
			}
			return a.Ret(i)
		},
	})
}
