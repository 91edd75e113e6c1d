package composite

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// Factorisations of symmetric matrices that may be indefinite.

func registerLDL() {
	forms(op.Def{
		Doc: "L and D of symmetric matrices in one matrix with D = L^-1 P' A P L'^-1 of blocks of one and two rows, and " +
			"LAPACK's pivots; the lower triangle is read. A zero block raises where the result is read.", Out: true,
		NoGrad: "PyTorch has no derivative of it", Samples: samples("T(3,3)", "T(2,4,4) | hermitian=True", "T(0,0)"),
		ErrorSamples: samples("T(3)", "T(2,3)", "I(2,2;0,3)"),
		Eval: func(a *op.Args) []op.Val {
			ld, pivots, _ := ldlFactor(a, "torch.linalg.ldl_factor_ex", func() prim.Failure { return prim.FailLDL })
			return a.Ret(ld, pivots)
		},
	}, "linalg_ldl_factor(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)")
	forms(op.Def{
		Doc: "linalg.ldl_factor, and the number of the first block that is zero, or 0.", Out: true,
		NoGrad: "PyTorch has no derivative of it", Samples: samples("T(3,3)", "T(2,2,2) | check_errors=True"),
		ErrorSamples: samples("T(2,3)"),
		Eval: func(a *op.Args) []op.Val {
			ld, pivots, status := ldlFactor(a, "torch.linalg.ldl_factor_ex",
				func() prim.Failure { return checked(a.Bool(), prim.FailLDLEx) })
			return a.Ret(ld, pivots, status)
		},
	}, "linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) -> (Tensor LD, Tensor "+
		"pivots, Tensor info)")
	forms(op.Def{
		Doc: "x of A x = B from A's ldl_factor.", Out: true, NoGrad: "PyTorch has no derivative of it",
		Samples: samples("P(3,3), torch.tensor([2, 2, 3], dtype=torch.int32), T(3,2)",
			"P(3,3), torch.tensor([-3, -3, 3], dtype=torch.int32), T(2,3,1)"),
		ErrorSamples: samples("T(3,2), torch.tensor([1, 2], dtype=torch.int32), T(3,2)",
			"P(2,2), torch.tensor([1], dtype=torch.int32), T(2,1)",
			"P(2,2), torch.tensor([1, 2], dtype=torch.int32), T(3,1)", "P(2,2), T(2), T(2,1)"),
		Eval: func(a *op.Args) []op.Val {
			ld, pivots, y := a.Val(), a.Val(), a.Val()
			return a.Ret(ldlSolve(a.B, ld, pivots, y, a.Bool()))
		},
	}, "linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor")
}

// ldlFactor reads the argument hermitian.
func ldlFactor(a *op.Args, name string, check func() prim.Failure) (ld, pivots, status op.Val) {
	x := squareOf(name, a.Val())
	hermitian := a.Bool()
	return prim.LDLFactor(a.B, x, hermitian, check())
}

func ldlSolve(b op.Builder, ld, pivots, y op.Val, hermitian bool) op.Val {
	const name = "torch.linalg.ldl_solve"
	squareOf(name, ld)
	if !pivots.DType().IsInt() {
		fail(ir.ErrRuntime, "%s: Expected pivots to be integers. Got %s", name, typeName(pivots.DType()))
	}
	s := ld.Shape()
	if p := pivots.Shape(); !slices.Equal(p, s[:len(s)-1]) {
		fail(ir.ErrRuntime, "%s: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape %s "+
			"instead", name, ir.ShapeString(p))
	}
	rows, columns := matrixSize(name, y)
	if n := s[len(s)-1]; rows != n {
		fail(ir.ErrRuntime, "Incompatible matrix sizes for %s: each A matrix is %d by %d but each b matrix is %d by %d", name,
			n, n, rows, columns)
	}
	if ld.DType() != y.DType() {
		fail(ir.ErrRuntime, "%s: Expected LD and B to have the same dtype, but found LD of type %s and B of type %s instead",
			name, typeName(ld.DType()), typeName(y.DType()))
	}
	n := s[len(s)-1]
	sameBatch(b, &ld, &y)
	pivots = expand(b, prim.Cast(b, pivots, ir.I32), slices.Concat(leading(ld), []int64{n}))
	return prim.LDLSolve(b, ld, pivots, y, hermitian)
}
