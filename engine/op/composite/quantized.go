package composite

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

func registerQuantizedOps() {
	op.Register(op.Def{
		Sig: "_quantized_linear(Tensor input, Tensor weight, Tensor scale, Tensor? offset, Tensor? bias, int out_features, " +
			"int bits, int group, bool dynamic) -> Tensor",
		Where: op.Hidden, Eval: evalQuantizedLinear, NoGrad: "quantized programs are for inference",
		Doc: "input @ weight.T + bias with a weight of 8 or 4 bits, as torchlette.quantize makes it; computed in float32, " +
			"and rounded to input's dtype.",
	})
}

func evalQuantizedLinear(a *op.Args) []op.Val {
	x, w, scale, offset, bias, b := a.Val(), a.Val(), a.Val(), a.Val(), a.Val(), a.B
	q := prim.Quantized{Outputs: a.Int(), Bits: a.Int(), Group: a.Int(), Dynamic: a.Bool()}
	needFloat("quantized_linear", x)
	d, shape := x.DType(), x.Shape()
	r := len(shape)
	if r == 0 {
		fail(ir.ErrRuntime, "quantized_linear: got an input without dimensions, want at least one")
	}
	if bias.IsTensor() {
		bias = cast(b, bias, ir.F32)
	}
	rows := prim.Reshape(b, cast(b, x, ir.F32), []int64{ir.Numel(shape[:r-1]), shape[r-1]})
	y := prim.QuantizedProduct(b, q, rows, w, scale, offset, bias)
	return a.Ret(cast(b, prim.Reshape(b, y, append(slices.Clone(shape[:r-1]), q.Outputs)), d))
}
