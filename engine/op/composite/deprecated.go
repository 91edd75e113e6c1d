package composite

import "github.com/torchlette/torchlette/engine/op"

// Signatures of an earlier PyTorch, with the factors before the tensors: x.add_(-lr, g), x.addcmul_(v, g, g),
// x.addmm_(beta, alpha, a, b). Old optimizers and losses call them, and PyTorch still accepts them.
func registerOlderFormsOps() {
	pair, matrices, batches := "T(3), 0.5, T(3)", "T(2,3), 2, 0.5, T(2,4), T(4,3)", "T(2,2,3), 2, 0.5, T(2,2,4), T(2,4,3)"
	for _, f := range []struct {
		of, params, sample string
		where              op.Where
	}{
		{"add", "Tensor self, Scalar alpha, Tensor other", pair, op.Function | op.Method},
		{"sub", "Tensor self, Scalar alpha, Tensor other", pair, op.Function | op.Method},
		{"addcmul", "Tensor self, Scalar value, Tensor tensor1, Tensor tensor2", pair + ", T(3)", op.Function | op.Method},
		{"addcdiv", "Tensor self, Scalar value, Tensor tensor1, Tensor tensor2", pair + ", T(3;1,2)",
			op.Function | op.Method},
		{"addmm", "Tensor self, Scalar beta, Scalar alpha, Tensor mat1, Tensor mat2", matrices, op.Method},
		{"baddbmm", "Tensor self, Scalar beta, Scalar alpha, Tensor batch1, Tensor batch2", batches, op.Method},
	} {
		d := op.DefNamed(f.of)
		op.Register(op.Def{
			Sig: f.of + ".factors_first(" + f.params + ") -> Tensor", Doc: d.Doc, Where: f.where, InPlace: true, Eval: d.Eval,
			Samples: samples(f.sample),
		})
	}
}
