package composite

import (
	"math"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// Systems, inverses and determinants. Matrices are the last two dims; the dims before are a batch.

// forms registers one operator under several signatures, each in the place that its name says: linalg_det and det.
func forms(d op.Def, sigs ...string) {
	elsewhere := d.Where
	for _, s := range sigs {
		d.Sig, d.Where = s, elsewhere
		if len(s) > 7 && s[:7] == "linalg_" {
			d.Where = op.Linalg
		} else if elsewhere == 0 {
			d.Where = op.Function | op.Method
		}
		op.Register(d)
	}
}

// matrixSize returns rows and columns, or raises PyTorch's error.
func matrixSize(name string, x op.Val) (m, n int64) {
	s := x.Shape()
	if len(s) < 2 {
		fail(ir.ErrRuntime, "%s: The input tensor A must have at least 2 dimensions.", name)
	}
	return s[len(s)-2], s[len(s)-1]
}

// matrixOf checks the dtype and the rank of a matrix; squareOf also that it is square.
func matrixOf(name string, x op.Val) op.Val {
	matrixSize(name, x)
	needNormType(name, x.DType())
	return x
}

func squareOf(name string, x op.Val) op.Val {
	if m, n := matrixSize(name, x); m != n {
		fail(ir.ErrRuntime, "%s: A must be batches of square matrices, but they are %d by %d matrices", name, m, n)
	}
	needNormType(name, x.DType())
	return x
}

func mT(b op.Builder, x op.Val) op.Val { return prim.Transpose(b, x, -2, -1) }

// mH is the conjugate transpose.
func mH(b op.Builder, x op.Val) op.Val { return prim.Conj(b, mT(b, x)) }

// leading is the batch dims of matrices.
func leading(x op.Val) []int64 { return x.Shape()[:len(x.Shape())-2] }

// eyeLike is a batch of identities of n rows with x's dtype and device.
func eyeLike(b op.Builder, x op.Val, lead []int64, n int64) op.Val {
	one := prim.Fill(b, op.IntVal(1), x.DType(), x.Device(), slices.Concat(lead, []int64{n, n}))
	return prim.Tri(b, prim.Tri(b, one, 0, true), 0, false)
}

// sameBatch broadcasts the batches of two matrices.
func sameBatch(b op.Builder, x, y *op.Val) {
	lead := ir.BroadcastShape(leading(*x), leading(*y))
	*x = expand(b, *x, slices.Concat(lead, x.Shape()[len(x.Shape())-2:]))
	*y = expand(b, *y, slices.Concat(lead, y.Shape()[len(y.Shape())-2:]))
}

// luDiagonal returns the diagonal of U and the sign of the permutation.
func luDiagonal(b op.Builder, x op.Val) (d, sign op.Val) {
	lu, pivots, _ := prim.LUFactor(b, x, prim.Unchecked)
	n := x.Shape()[len(x.Shape())-1]
	at := prim.Iota(b, op.IntVal(1), op.IntVal(1), ir.I32, x.Device(), n)
	moved := prim.Ne(b, pivots, expand(b, at, pivots.Shape()))
	turn := prim.Where(b, moved, op.FloatVal(-1), prim.Fill(b, op.IntVal(1), x.DType(), x.Device(), pivots.Shape()))
	return diagonal(b, lu, 0, -2, -1), prim.Prod(b, turn, []int64{-1})
}

// det is the product of U's diagonal. In the gradient a pivot of 0 counts as Epsilon, as in lu_factor's own gradient,
// which then is the adjugate of a matrix nearby. What Epsilon adds to the value is subtracted again.
func det(b op.Builder, x op.Val) op.Val {
	d, sign := luDiagonal(b, x)
	last := []int64{-1}
	if !b.NeedsGrad(d) {
		return prim.Mul(b, prim.Prod(b, d, last), sign)
	}
	zero := prim.Cast(b, prim.Eq(b, d, op.FloatVal(0)), d.DType())
	near := prim.Prod(b, prim.Add(b, d, prim.Mul(b, zero, op.FloatVal(prim.Epsilon(d.DType().Real())))), last)
	off := prim.Sub(b, b.Detach(near), prim.Prod(b, b.Detach(d), last))
	return prim.Mul(b, prim.Sub(b, near, off), sign)
}

func slogdet(b op.Builder, x op.Val) (sign, logabs op.Val) {
	d, turns := luDiagonal(b, x)
	sign = prim.Mul(b, prim.Prod(b, prim.Sign(b, d), []int64{-1}), turns)
	return sign, prim.Sum(b, prim.Log(b, prim.Abs(b, d)), []int64{-1})
}

// isVector reports that the right-hand side of a system is a vector, or a batch of vectors.
func isVector(a, y op.Val) bool {
	s := a.Shape()
	return len(y.Shape()) == 1 || len(y.Shape()) == len(s)-1 && ir.SameShape(y.Shape(), s[:len(s)-1])
}

// linearSystem prepares a system a x = y, or x a = y without left. It broadcasts the batches; solve gives x for a y of
// matrices.
func linearSystem(b op.Builder, name string, a, y op.Val, left bool, solve func(a, y op.Val) op.Val) op.Val {
	squareOf(name, a)
	if a.DType() != y.DType() {
		fail(ir.ErrRuntime, "%s: Expected A and B to have the same dtype, but found A of type %s and B of type %s instead",
			name, typeName(a.DType()), typeName(y.DType()))
	}
	vector := isVector(a, y)
	if vector {
		if !left {
			fail(ir.ErrRuntime, "%s: Vector broadcasting of the left hand side is not supported for left=False.", name)
		}
		y = prim.Unsqueeze(b, y, -1)
	}
	n := a.Shape()[len(a.Shape())-1]
	if s := y.Shape(); len(s) < 2 || left && s[len(s)-2] != n || !left && s[len(s)-1] != n {
		r := max(len(s), 2)
		s = append(make([]int64, r-len(s)), s...)
		fail(ir.ErrRuntime, "%s: Incompatible shapes of A and B for the equation %s (%dx%d and %dx%d)", name,
			map[bool]string{true: "AX = B", false: "XA = B"}[left], n, n, s[r-2], s[r-1])
	}
	sameBatch(b, &a, &y)
	if !left {
		return mT(b, solve(mT(b, a), mT(b, y)))
	}
	x := solve(a, y)
	if vector {
		return prim.Squeeze(b, x, []int64{-1})
	}
	return x
}

func solve(b op.Builder, a, y op.Val, left bool, f prim.Failure) (x, status op.Val) {
	x = linearSystem(b, "linalg.solve", a, y, left, func(a, y op.Val) (x op.Val) {
		x, _, _, status = prim.LinearSolve(b, a, y, f)
		return x
	})
	return x, status
}

func inverse(b op.Builder, x op.Val, f prim.Failure) (y, status op.Val) {
	y, _, _, status = prim.LinearSolve(b, x, eyeLike(b, x, leading(x), x.Shape()[len(x.Shape())-1]), f)
	return y, status
}

func checked(check bool, f prim.Failure) prim.Failure {
	if check {
		return f
	}
	return prim.Unchecked
}

// wellPosed are samples of matrices far from singular: determinants and inverses are compared.
const wellPosed = "torch.tensor([[2.0, -1.0, 0.5], [0.25, 3.0, -1.0], [1.0, 0.5, 1.5]])"

func registerLinalgOps() {
	forms(op.Def{
		Doc: "The determinants of square matrices: the product of the pivots of LU.", Out: true,
		Samples: samples("T(3,3)", "T(2,2,2)", "T(1,1)", "T(0,0)", wellPosed), ErrorSamples: samples("T(3)", "T(2,3)",
			"I(2,2;0,5)"),
		Eval: func(a *op.Args) []op.Val { return a.Ret(det(a.B, squareOf("linalg.det", a.Val()))) },
	}, "linalg_det(Tensor A) -> Tensor", "det(Tensor self) -> Tensor")
	forms(op.Def{
		Doc: "Sign and logarithm of the absolute value of the determinant.", Out: true,
		Samples: samples("T(3,3)", "T(2,2,2)", wellPosed), ErrorSamples: samples("T(3)", "T(2,3)"),
		Eval: func(a *op.Args) []op.Val {
			sign, logabs := slogdet(a.B, squareOf("linalg.slogdet", a.Val()))
			return a.Ret(sign, logabs)
		},
	}, "linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)",
		"slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)")
	op.Register(op.Def{
		Sig: "logdet(Tensor self) -> Tensor", Doc: "The logarithm of the determinant: NaN where it is negative.",
		Samples: samples(wellPosed, "P(2,3,3)"), ErrorSamples: samples("T(2,3)"),
		Eval: func(a *op.Args) []op.Val {
			sign, logabs := slogdet(a.B, squareOf("logdet", a.Val()))
			if sign.DType().IsComplex() {
				return a.Ret(prim.Add(a.B, prim.Log(a.B, sign), logabs))
			}
			return a.Ret(prim.Where(a.B, prim.Lt(a.B, sign, op.FloatVal(0)), op.FloatVal(math.NaN()), logabs))
		},
	})
	registerInverses()
	registerSystems()
	registerTriangularSystems()
}

func registerInverses() {
	forms(op.Def{
		Doc: "The inverses of square matrices; a singular one raises LinAlgError where the result is read.", Out: true,
		Samples: samples("P(3,3)", "P(2,2,2)", wellPosed, "T(0,0)"), ErrorSamples: samples("T(3)", "T(2,3)"),
		Eval: func(a *op.Args) []op.Val {
			y, _ := inverse(a.B, squareOf("linalg.inv", a.Val()), prim.FailInv)
			return a.Ret(y)
		},
	}, "linalg_inv(Tensor A) -> Tensor", "inverse(Tensor self) -> Tensor")
	forms(op.Def{
		Doc: "The inverses of square matrices, and the number of the first pivot that is 0, or 0.", Out: true,
		Samples: samples("P(3,3)", "P(2,2,2) | check_errors=True", wellPosed), ErrorSamples: samples("T(2,3)"),
		Eval: func(a *op.Args) []op.Val {
			y, status := inverse(a.B, squareOf("linalg.inv", a.Val()), checked(a.Bool(), prim.FailInvEx))
			return a.Ret(y, status)
		},
	}, "linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)")
	forms(op.Def{
		Doc: "The inverse of the linear map from the last dims, after ind, to the first ones.", Out: true,
		Samples: samples("P(4,4) | ind=1"), ErrorSamples: samples("T(2,3), 1", "T(2,2), 0"), Eval: evalTensorInv,
	}, "linalg_tensorinv(Tensor self, int ind=2) -> Tensor")
	forms(op.Def{
		Doc: "x of tensordot(self, x, x.ndim) = other, with the dims listed moved to the end first.", Out: true,
		Samples: samples("P(4,4), T(4)"), ErrorSamples: samples("T(2,3), T(2)"), Eval: evalTensorSolve,
	}, "linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor")
}

func evalTensorInv(a *op.Args) []op.Val {
	x, ind, b := a.Val(), a.Int(), a.B
	if ind <= 0 {
		fail(ir.ErrRuntime, "Expected a strictly positive integer for 'ind'")
	}
	s := x.Shape()
	if len(s) == 0 {
		fail(ir.ErrRuntime, "linalg.tensorinv: got a 0-dim tensor, want at least %d dims", ind)
	}
	cut := min(ind, int64(len(s)))
	n, m := ir.Numel(s[:cut]), ir.Numel(s[cut:])
	if n != m {
		fail(ir.ErrRuntime, "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but "+
			"got %d != %d", m, n)
	}
	y, _ := inverse(b, squareOf("inv", prim.Reshape(b, x, []int64{n, n})), prim.FailTensorInv)
	return a.Ret(prim.Reshape(b, y, slices.Concat(s[cut:], s[:cut])))
}

func evalTensorSolve(a *op.Args) []op.Val {
	x, y, b := a.Val(), a.Val(), a.B
	dims, _ := a.IntList()
	r := len(x.Shape())
	perm := make([]int64, 0, r)
	last := make([]int64, 0, len(dims))
	for _, d := range dims {
		last = append(last, int64(ir.WrapDim(d, r)))
	}
	for i := range int64(r) {
		if !slices.Contains(last, i) {
			perm = append(perm, i)
		}
	}
	x = prim.Permute(b, x, append(perm, last...))
	n := y.L().Numel
	rest := x.Shape()[min(len(y.Shape()), r):]
	if ir.Numel(rest) != n || x.L().Numel != n*n {
		fail(ir.ErrRuntime, "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "+
			"prod(self.shape[:other.ndim]), but got %d != %d", ir.Numel(rest), n)
	}
	v, _ := solve(b, prim.Reshape(b, x, []int64{n, n}), prim.Reshape(b, y, []int64{n}), true, prim.FailSolve)
	return a.Ret(prim.Reshape(b, v, rest))
}

func registerSystems() {
	forms(op.Def{
		Doc: "x of A x = B, or with left=False of x A = B; B may be a vector. A singular A raises LinAlgError where the " +
			"result is read.", Out: true,
		Samples: samples("P(3,3), T(3,2)", "P(3,3), T(3)", "P(2,3,3), T(2,3)", "P(2,3,3), T(3,2)",
			"P(3,3), T(2,3) | left=False", wellPosed+", T(2,3,1)", "T(0,0), T(0,2)"),
		ErrorSamples: samples("T(2,3), T(2)", "P(3,3), T(2,3)", "P(2,2), I(2;0,3)"),
		Eval: func(a *op.Args) []op.Val {
			x, _ := solve(a.B, a.Val(), a.Val(), a.Bool(), prim.FailSolve)
			return a.Ret(x)
		},
	}, "linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor")
	forms(op.Def{
		Doc: "linalg.solve, and the number of the first pivot that is 0, or 0.", Out: true,
		Samples: samples("P(3,3), T(3,2)", "P(3,3), T(3) | check_errors=True"),
		Eval: func(a *op.Args) []op.Val {
			x, y, left := a.Val(), a.Val(), a.Bool()
			v, status := solve(a.B, x, y, left, checked(a.Bool(), prim.FailSolveEx))
			return a.Ret(v, status)
		},
	}, "linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor info)")
	forms(op.Def{
		Doc: "x of A x = B, or of A' x = B with adjoint, from A's lu_factor; with left=False A is on the right.", Out: true,
		Samples: samples("P(3,3), torch.tensor([2, 2, 3], dtype=torch.int32), T(3,2)",
			"P(3,3), torch.tensor([3, 2, 3], dtype=torch.int32), T(2,3) | left=False, adjoint=True"),
		ErrorSamples: samples("T(3,2), torch.tensor([1, 2], dtype=torch.int32), T(3,2)",
			"T(2,3,3), torch.tensor([1, 2, 3], dtype=torch.int32), T(2,3,2)",
			"T(3,3), torch.tensor([1, 2], dtype=torch.int32), T(3,2)"),
		Eval: func(a *op.Args) []op.Val {
			lu, pivots, y := a.Val(), a.Val(), a.Val()
			left, adjoint := a.Bool(), a.Bool()
			return a.Ret(luSolve(a.B, "linalg.lu_solve", lu, pivots, y, left, adjoint))
		},
	}, "linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor")
	op.Register(op.Def{
		Sig: "lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor",
		Doc: "linalg.lu_solve with the right-hand side first.", Out: true,
		Samples: samples("T(3,2), P(3,3), torch.tensor([2, 2, 3], dtype=torch.int32)"),
		Eval: func(a *op.Args) []op.Val {
			y, lu, pivots := a.Val(), a.Val(), a.Val()
			return a.Ret(luSolve(a.B, "torch.lu_solve", lu, pivots, y, true, false))
		},
	})
}

func luSolve(b op.Builder, name string, lu, pivots, y op.Val, left, adjoint bool) op.Val {
	if pivots.DType() != ir.I32 {
		fail(ir.ErrRuntime, "%s: Expected LU_pivots to be of torch.int32 dtype, but got %s", name, typeName(pivots.DType()))
	}
	n := squareOf(name, lu).Shape()[len(lu.Shape())-1]
	if len(y.Shape()) < 2 {
		matrixSize(name, y)
	}
	if p := pivots.Shape(); !slices.Equal(p, lu.Shape()[:len(lu.Shape())-1]) {
		fail(ir.ErrRuntime,
			"%s: Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots with shape %s instead", name,
			ir.ShapeString(p))
	}
	if !left {
		return mH(b, luSolve(b, name, lu, pivots, mH(b, y), true, !adjoint))
	}
	if y.Shape()[len(y.Shape())-2] != n || y.DType() != lu.DType() {
		fail(ir.ErrRuntime, "%s: Incompatible shapes of A and B for the equation AX = B (%dx%d and %s)", name, n, n,
			ir.ShapeString(y.Shape()))
	}
	sameBatch(b, &lu, &y)
	return prim.LUSolve(b, lu, expand(b, pivots, slices.Concat(leading(lu), []int64{n})), y, adjoint)
}

// triangularSystem is linearSystem for one triangle of a.
func triangularSystem(b op.Builder, name string, a, y op.Val, upper, left, unit bool) op.Val {
	if len(y.Shape()) < 2 {
		matrixSize(name, y)
	}
	up := upper == left // of the transpose where a is on the right
	return linearSystem(b, name, a, y, left, func(a, y op.Val) op.Val { return prim.TriangularSolve(b, a, y, up, unit) })
}

func registerTriangularSystems() {
	forms(op.Def{
		Doc: "x of A x = B, or with left=False of x A = B, reading one triangle of A.", Out: true,
		Samples: samples("P(3,3), T(3,2) | upper=True", "P(3,3), T(2,3) | upper=False, left=False",
			"T(2,3,3;-0.5,0.5), T(3,2) | upper=False, unitriangular=True"),
		ErrorSamples: samples("T(2,3), T(2,1) | upper=True", "T(3,3), T(2,2) | upper=True", "T(3,3), T(3) | upper=True"),
		Eval: func(a *op.Args) []op.Val {
			x, y := a.Val(), a.Val()
			upper, left, unit := a.Bool(), a.Bool(), a.Bool()
			return a.Ret(triangularSystem(a.B, "linalg.solve_triangular", x, y, upper, left, unit))
		},
	}, "linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor")
	op.Register(op.Def{
		Sig: "triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) -> " +
			"(Tensor solution, Tensor cloned_coefficient)",
		Doc: "x of A x = self, or of A' x = self, reading one triangle of A, and a copy of A.", Out: true,
		Samples: samples("T(3,2), P(3,3)", "T(3,2), P(3,3), False, True", "T(3,2), P(2,3,3)"),
		Eval: func(a *op.Args) []op.Val {
			y, x, b := a.Val(), a.Val(), a.B
			upper, transpose, unit := a.Bool(), a.Bool(), a.Bool()
			matrixSize("triangular_solve", y)
			matrixSize("triangular_solve", x)
			sameBatch(b, &x, &y)
			t := x
			if transpose {
				t, upper = mT(b, x), !upper
			}
			return a.Ret(triangularSystem(b, "triangular_solve", t, y, upper, true, unit), prim.Copy(b, x))
		},
	})
	op.Register(op.Def{
		Sig: "cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor",
		Doc: "x of A x = self, from A's Cholesky factor.", Out: true,
		Samples:      samples("T(3,2), P(3,3)", "T(3,2), P(3,3), True", "T(3,2), P(2,3,3)"),
		ErrorSamples: samples("T(3,2), P(2,2)"),
		Eval: func(a *op.Args) []op.Val {
			y, l, upper := a.Val(), a.Val(), a.Bool()
			for _, v := range []struct {
				name string
				val  op.Val
			}{{"b", y}, {"u", l}} {
				if n := len(v.val.Shape()); n < 2 {
					fail(ir.ErrRuntime, "%s should have at least 2 dimensions, but has %d dimensions instead", v.name, n)
				}
			}
			return a.Ret(linearSystem(a.B, "cholesky_solve", l, y, true, func(l, y op.Val) op.Val {
				return choleskySolve(a.B, l,
					y, upper)
			}))
		},
	})
	op.Register(op.Def{
		Sig: "cholesky_inverse(Tensor self, bool upper=False) -> Tensor",
		Doc: "The inverse of a matrix, from its Cholesky factor.", Out: true,
		Samples: samples("P(3,3)", "P(2,3,3), True"), ErrorSamples: samples("T(2,3)", "T(3)"),
		Eval: func(a *op.Args) []op.Val {
			l := squareOf("cholesky_inverse", a.Val())
			return a.Ret(choleskySolve(a.B, l, eyeLike(a.B, l, leading(l), l.Shape()[len(l.Shape())-1]), a.Bool()))
		},
	})
}

// choleskySolve is l'^-1 l^-1 y for the lower factor l or its transpose. As in PyTorch, the gradient is that of solving
// with l l', for all of l and not for its triangle alone.
func choleskySolve(b op.Builder, l, y op.Val, upper bool) op.Val {
	if upper {
		l = mH(b, l)
	}
	if !b.NeedsGrad(l) {
		return prim.TriangularSolve(b, mH(b, l), prim.TriangularSolve(b, l, y, false, false), true, false)
	}
	whole := prim.Add(b, prim.Tri(b, b.Detach(l), 0, false), prim.Sub(b, l, b.Detach(l)))
	x, _, _, _ := prim.LinearSolve(b, matrix(b, whole, mH(b, whole), none), y, prim.Unchecked)
	return prim.Add(b, x, prim.Sub(b, choleskySolve(b, b.Detach(l), b.Detach(y), false), b.Detach(x)))
}
