package composite

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// Factorisations of the matrices in the last two dims.

func cholesky(b op.Builder, x op.Val, upper bool, f prim.Failure) (l, status op.Val) {
	squareOf("linalg.cholesky", x)
	if !upper {
		return prim.Cholesky(b, x, f)
	}
	l, status = prim.Cholesky(b, mH(b, x), f)
	return mH(b, l), status
}

// noneOf is no element of x, with a place in its history.
func noneOf(b op.Builder, x op.Val) op.Val {
	return prim.Copy(b, prim.Slice(b, prim.Reshape(b, x, []int64{x.L().Numel}), 0, 0, 0, 1))
}

// emptyLike is a result that was not asked for.
func emptyLike(b op.Builder, x op.Val, d ir.DType) op.Val {
	return prim.Zeros(b, d, x.Device(), []int64{0})
}

func registerLinalgFactorOps() {
	forms(op.Def{
		Doc: "The Cholesky factor of positive-definite matrices, of which one triangle is read; another matrix raises " +
			"LinAlgError where the result is read.", Out: true,
		Samples: samples("P(3,3)", "P(2,2,2)", "P(3,3) | upper=True", "T(0,0)"), ErrorSamples: samples("T(3)", "T(2,3)"),
		Eval: func(a *op.Args) []op.Val {
			l, _ := cholesky(a.B, a.Val(), a.Bool(), prim.FailCholesky)
			return a.Ret(l)
		},
	}, "linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor")
	forms(op.Def{
		Doc: "The Cholesky factor, and the order of the first leading minor that is not positive, or 0.", Out: true,
		Samples: samples("P(3,3)", "P(2,2,2) | upper=True, check_errors=True"), ErrorSamples: samples("T(2,3)"),
		Eval: func(a *op.Args) []op.Val {
			x, upper := a.Val(), a.Bool()
			l, status := cholesky(a.B, x, upper, checked(a.Bool(), prim.FailCholeskyEx))
			return a.Ret(l, status)
		},
	}, "linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)")
	registerLU()
	registerLDL()
	registerOrthogonal()
	registerEigen()
	registerSVD()
}

// luFactor reads the pivot argument: the CPU has no LU without pivoting.
func luFactor(a *op.Args, name string, check func() prim.Failure) (lu, pivots, status op.Val) {
	x := matrixOf(name, a.Val())
	if !a.Bool() {
		fail(ir.ErrRuntime, "%s: LU without pivoting is not implemented on the CPU", name)
	}
	return prim.LUFactor(a.B, x, check())
}

// unpackLU returns L, with ones on its diagonal, and U.
func unpackLU(b op.Builder, lu op.Val) (l, u op.Val) {
	s := lu.Shape()
	m, n := s[len(s)-2], s[len(s)-1]
	k := min(m, n)
	below := prim.Tri(b, prim.Slice(b, lu, -1, 0, k, 1), -1, false)
	ones := prim.Tri(b, prim.Tri(b, prim.OnesLike(b, b.Detach(below)), 0, true), 0, false)
	return prim.Add(b, below, ones), prim.Tri(b, prim.Slice(b, lu, -2, 0, k, 1), 0, true)
}

// permutationMatrix is P of P L U.
func permutationMatrix(b op.Builder, lu, pivots op.Val) op.Val {
	m := lu.Shape()[len(lu.Shape())-2]
	return prim.PermuteRows(b, eyeLike(b, lu, leading(lu), m), prim.LUPermutation(b, pivots, m), true)
}

func registerLU() {
	forms(op.Def{
		Doc: "P, L and U with A = P L U, by partial pivoting.", Out: true, Samples: samples("T(3,3)", "T(4,2)", "T(2,2,3)",
			"P(3,3)"),
		ErrorSamples: samples("T(3)", "T(2,2) | pivot=False"),
		Eval: func(a *op.Args) []op.Val {
			lu, pivots, _ := luFactor(a, "linalg.lu", func() prim.Failure { return prim.Unchecked })
			l, u := unpackLU(a.B, lu)
			return a.Ret(permutationMatrix(a.B, lu, pivots), l, u)
		},
	}, "linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)")
	forms(op.Def{
		Doc: "L and U in one matrix, and the pivots, which count rows from 1; a zero pivot raises where the result is " +
			"read.",
		Out:     true,
		Samples: samples("T(3,3)", "T(4,2)", "T(2,2,3)"), ErrorSamples: samples("T(3)"),
		Eval: func(a *op.Args) []op.Val {
			lu, pivots, _ := luFactor(a, "linalg.lu_factor", func() prim.Failure { return prim.FailLU })
			return a.Ret(lu, pivots)
		},
	}, "linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)")
	forms(op.Def{
		Doc: "linalg.lu_factor, and the number of the first pivot that is 0, or 0.", Out: true,
		Samples: samples("T(3,3)", "T(4,2)", "T(2,2,3) | check_errors=True"), ErrorSamples: samples("T(3)"),
		Eval: func(a *op.Args) []op.Val {
			lu, pivots, status := luFactor(a, "linalg.lu_factor",
				func() prim.Failure { return checked(a.Bool(), prim.FailLUEx) })
			return a.Ret(lu, pivots, status)
		},
	}, "linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, Tensor "+
		"info)")
	op.Register(op.Def{
		Sig: "lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> (Tensor P, " +
			"Tensor L, Tensor U)",
		Doc: "P, L and U of what lu_factor gives; what is not asked for is empty.", Out: true, Where: op.Function,
		Samples: samples("T(3,3), torch.tensor([2, 3, 3], dtype=torch.int32)",
			"T(4,2), torch.tensor([4, 2], dtype=torch.int32)", "T(3,3), torch.tensor([2, 3, 3], dtype=torch.int32), False",
			"T(3,3), torch.tensor([2, 3, 3], dtype=torch.int32), True, False"),
		ErrorSamples: samples("T(3,3), T(3)", "T(3,3), torch.tensor([1, 2], dtype=torch.int32)"), Eval: evalUnpackLU,
	})
}

func evalUnpackLU(a *op.Args) []op.Val {
	lu, pivots, b := a.Val(), a.Val(), a.B
	data, perm := a.Bool(), a.Bool()
	m, n := matrixSize("torch.lu_unpack", lu)
	if perm && pivots.DType() != ir.I32 {
		fail(ir.ErrRuntime, "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype. Note: "+
			"this function is intended to be used with the output produced by torch.linalg.lu_factor")
	}
	if want := slices.Concat(leading(lu), []int64{min(m, n)}); perm && !ir.SameShape(pivots.Shape(), want) {
		fail(ir.ErrValue, "Expected LU_pivots to have shape %s but got %s instead.", ir.ShapeString(want),
			ir.ShapeString(pivots.Shape()))
	}
	p, l, u := emptyLike(b, lu, lu.DType()), emptyLike(b, lu, lu.DType()), emptyLike(b, lu, lu.DType())
	if data {
		l, u = unpackLU(b, lu)
	}
	if perm {
		p = permutationMatrix(b, lu, pivots)
	}
	return a.Ret(p, l, u)
}

func registerOrthogonal() {
	forms(op.Def{
		Doc: "Q with orthogonal columns and R upper triangular, by Householder's reflections; mode r gives an " +
			"empty Q.",
		Out:          true,
		Samples:      samples("T(3,3)", "T(4,2)", "T(2,2,3)", "T(4,2), 'r'", "T(2,3), 'complete'"),
		ErrorSamples: samples("T(3)", "I(2,2;0,3)", "T(2,2), 'full'"),
		Eval: func(a *op.Args) []op.Val {
			x, mode := matrixOf("linalg.qr", a.Val()), a.Int()
			q, r := prim.QR(a.B, x, mode == 1)
			if mode == 2 {
				q = emptyLike(a.B, x, x.DType())
			}
			return a.Ret(q, r)
		},
	}, "linalg_qr(Tensor A, str(reduced|complete|r) mode='reduced') -> (Tensor Q, Tensor R)")
	forms(op.Def{
		Doc: "The first columns of a product of reflections 1 - tau v v', v in the columns below the diagonal.", Out: true,
		Samples: samples("T(3,3;-0.5,0.5), T(3;0.5,1)", "T(4,2;-0.5,0.5), T(1;0.5,1)",
			"T(2,3,2;-0.5,0.5), T(2,2;0.5,1)"),
		ErrorSamples: samples("T(2,3), T(2)", "T(3,2), T(3)"), Eval: evalHouseholder,
	}, "linalg_householder_product(Tensor input, Tensor tau) -> Tensor", "orgqr(Tensor self, Tensor input2) -> Tensor")
	op.Register(op.Def{
		Sig: "ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor",
		Doc: "input3 times the orthogonal matrix of the reflections in self and input2, on its left or right.",
		Out: true, ErrorSamples: samples("T(2), T(2), T(2)", "T(3,3), T(3), T(2,2)", "T(3,2), T(3), T(3,3)"),
		Samples: samples("T(3,3;-0.5,0.5), T(3;0.5,1), T(3,2)", "T(4,2;-0.5,0.5), T(2;0.5,1), T(3,4) | left=False",
			"T(2,3,2;-0.5,0.5), T(2,2;0.5,1), T(2,3,3) | transpose=True",
			"T(3,2;-0.5,0.5), T(2;0.5,1), T(2,3) | left=False, transpose=True"),
		Eval: evalOrmqr,
	})
	op.Register(op.Def{
		Sig: "geqrf(Tensor self) -> (Tensor a, Tensor tau)", Doc: "The QR factorization as reflections: R in and above the " +
			"diagonal, the vectors below it, and their factors.", Out: true,
		NoGrad: "PyTorch has no derivative of it", Samples: samples("T(3,3)", "T(4,2)", "T(2,2,3)"),
		ErrorSamples: samples("T(3)", "I(2,2;0,3)"), Eval: evalGeqrf,
	})
}

// evalHouseholder applies the reflections to the first columns of the identity, the last one first.
func evalHouseholder(a *op.Args) []op.Val {
	x, tau, b := matrixOf("torch.linalg.householder_product", a.Val()), a.Val(), a.B
	s := x.Shape()
	m, n, k := s[len(s)-2], s[len(s)-1], int64(0)
	if r := len(tau.Shape()); r > 0 {
		k = tau.Shape()[r-1]
	}
	if m < n || n < k {
		fail(ir.ErrRuntime, "torch.linalg.householder_product: got a matrix of %d rows and %d columns and %d reflections, "+
			"want rows >= columns >= reflections", m, n, k)
	}
	if tau.DType() != x.DType() || !ir.SameShape(tau.Shape(), slices.Concat(leading(x), []int64{k})) {
		fail(ir.ErrRuntime, "torch.linalg.householder_product: tau: got %s of shape %s, want %s of shape %s",
			typeName(tau.DType()), ir.ShapeString(tau.Shape()), typeName(x.DType()),
			ir.ShapeString(slices.Concat(leading(x), []int64{k})))
	}
	q := attached(b, x, prim.Slice(b, eyeLike(b, x, leading(x), m), -1, 0, n, 1))
	return a.Ret(reflected(b, x, tau, q, false))
}

// reflected is Q c, or Q' c, for the product Q of the reflections 1 - tau v v'; the v are in the columns of x below the
// diagonal.
func reflected(b op.Builder, x, tau, c op.Val, transpose bool) op.Val {
	if transpose {
		tau = prim.Conj(b, tau)
	}
	v, _ := unpackLU(b, x)
	k := tau.Shape()[len(tau.Shape())-1]
	for i := range k {
		j := k - 1 - i
		if transpose {
			j = i
		}
		vj := prim.Slice(b, v, -1, j, j+1, 1)
		t := prim.Unsqueeze(b, prim.Slice(b, tau, -1, j, j+1, 1), -1)
		w := matrix(b, mH(b, vj), c, none)
		c = prim.Sub(b, c, matrix(b, prim.Mul(b, vj, prim.Expand(b, t, vj.Shape())), w, none))
	}
	return c
}

func evalOrmqr(a *op.Args) []op.Val {
	b, x, tau, c, left, transpose := a.B, matrixOf("torch.ormqr", a.Val()), a.Val(), a.Val(), a.Bool(), a.Bool()
	xs, ts, cs := x.Shape(), tau.Shape(), c.Shape()
	r := len(xs)
	if len(cs) != r || len(ts) != r-1 || !ir.SameShape(ts[:r-2], xs[:r-2]) || !ir.SameShape(cs[:r-2], xs[:r-2]) {
		fail(ir.ErrRuntime, "torch.ormqr: got shapes %s, %s and %s, want equal leading dims and a vector of factors",
			ir.ShapeString(xs), ir.ShapeString(ts), ir.ShapeString(cs))
	}
	side := r - 1
	if left {
		side = r - 2
	}
	if cs[side] != xs[r-2] || ts[r-2] != min(xs[r-2], xs[r-1]) {
		fail(ir.ErrRuntime, "torch.ormqr: got %d rows, %d columns, %d factors and an operand of size %d in dim %d, want as "+
			"many factors as the least of rows and columns, and the operand's size rows",
			xs[r-2], xs[r-1], ts[r-2], cs[side], side)
	}
	if x.DType() != tau.DType() || x.DType() != c.DType() {
		fail(ir.ErrRuntime, "torch.ormqr: got dtypes %s, %s and %s, want equal ones", typeName(x.DType()),
			typeName(tau.DType()), typeName(c.DType()))
	}
	if left {
		return a.Ret(reflected(b, x, tau, c, transpose))
	}
	return a.Ret(mH(b, reflected(b, x, tau, mH(b, c), !transpose)))
}

// evalGeqrf reflects column after column onto its first element. In each step the rest of the matrix loses a row and a
// column; the parts are put together from the last one on.
func evalGeqrf(a *op.Args) []op.Val {
	b, rest := a.B, a.B.Detach(matrixOf("torch.geqrf", a.Val()))
	s := rest.Shape()
	down, across := int64(len(s)-2), int64(len(s)-1)
	steps := min(s[down], s[across])
	var heads, rows, vectors, taus []op.Val
	for range steps {
		m := rest.Shape()[down]
		column, others := prim.Slice(b, rest, -1, 0, 1, 1), prim.Slice(b, rest, -1, 1, rest.Shape()[across], 1)
		first, below := prim.Slice(b, column, -2, 0, 1, 1), prim.Slice(b, column, -2, 1, m, 1)
		norm, side := safeNorm(b, column, down), first
		same := prim.Eq(b, prim.Unsqueeze(b, prim.Sum(b, prim.Abs(b, below), []int64{down}), -2), op.FloatVal(0))
		if first.DType().IsComplex() { // R has a real diagonal
			side = prim.Real(b, first)
			same = prim.BitwiseAnd(b, same, prim.Eq(b, prim.Imag(b, first), op.FloatVal(0)))
		}
		head := prim.Where(b, prim.Lt(b, side, op.FloatVal(0)), norm, prim.Neg(b, norm))
		head = prim.Where(b, same, first, cast(b, head, first.DType()))
		tau := prim.Where(b, same, op.FloatVal(0), prim.Div(b, prim.Sub(b, head, first), prim.Where(b, same, op.FloatVal(1),
			head)))
		span := prim.Where(b, same, op.FloatVal(1), prim.Sub(b, first, head))
		v := prim.Div(b, below, prim.Expand(b, span, below.Shape()))
		full := prim.Cat(b, []op.Val{prim.OnesLike(b, first), v}, down)
		w := matrix(b, mH(b, full), others, none)
		turn := prim.Expand(b, prim.Conj(b, tau), full.Shape())
		others = prim.Sub(b, others, matrix(b, prim.Mul(b, full, turn), w, none))
		heads, vectors, taus = append(heads, head), append(vectors, v), append(taus, tau)
		rows = append(rows, prim.Slice(b, others, -2, 0, 1, 1))
		rest = prim.Slice(b, others, -2, 1, m, 1)
	}
	for i := int(steps) - 1; i >= 0; i-- {
		left := prim.Cat(b, []op.Val{heads[i], vectors[i]}, down)
		rest = prim.Cat(b, []op.Val{left, prim.Cat(b, []op.Val{rows[i], rest}, down)}, across)
	}
	tau := prim.Zeros(b, rest.DType(), rest.Device(), slices.Concat(leading(rest), []int64{0}))
	if steps > 0 {
		tau = prim.Reshape(b, prim.Cat(b, taus, across), slices.Concat(leading(rest), []int64{steps}))
	}
	return a.Ret(rest, tau)
}

// safeNorm is the 2-norm along a dim, which is kept. It is scaled by the greatest element, so that no square overflows
// and not all of them underflow.
func safeNorm(b op.Builder, x op.Val, dim int64) op.Val {
	most := prim.Unsqueeze(b, prim.Amax(b, prim.Abs(b, x), []int64{dim}), dim)
	most = prim.Where(b, prim.Eq(b, most, op.FloatVal(0)), op.FloatVal(1), most)
	part := prim.Div(b, x, prim.Expand(b, most, x.Shape()))
	return prim.Mul(b, most, prim.Sqrt(b, prim.Unsqueeze(b, prim.SumSquares(b, part, []int64{dim}), dim)))
}

// registerEig registers the eigenvalues of general matrices, which are complex.
func registerEig() {
	eig := func(b op.Builder, x op.Val) (values, vectors op.Val) {
		x = squareOf("linalg.eig", x)
		return prim.Eig(b, prim.Cast(b, x, x.DType().Complex()))
	}
	forms(op.Def{
		Doc: "The eigenvalues of square matrices, and eigenvectors of norm 1 in columns; both are complex.", Out: true,
		ErrorSamples: samples("T(3)", "T(2,3)"),
		Eval: func(a *op.Args) []op.Val {
			w, v := eig(a.B, a.Val())
			return a.Ret(w, v)
		},
	}, "linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)")
	forms(op.Def{
		Doc: "The eigenvalues of square matrices, which are complex.", Out: true, ErrorSamples: samples("T(3)", "T(2,3)"),
		Eval: func(a *op.Args) []op.Val {
			w, _ := eig(a.B, a.Val())
			return a.Ret(w)
		},
	}, "linalg_eigvals(Tensor self) -> Tensor")
}

func registerEigen() {
	registerEig()
	uplo := "str(L|U|l|u) UPLO='L'"
	forms(op.Def{
		Doc:     "Eigenvalues, ascending, and eigenvectors, in columns, of symmetric matrices. One triangle is read.",
		Out:     true,
		Samples: samples("P(3,3)"), ErrorSamples: samples("T(3)", "T(2,3)", "P(2,2), 'X'"),
		Eval: func(a *op.Args) []op.Val {
			x := squareOf("linalg.eigh", a.Val())
			w, v := prim.Eigh(a.B, x, a.Int()%2 != 0)
			return a.Ret(w, v)
		},
	}, "linalg_eigh(Tensor self, "+uplo+") -> (Tensor eigenvalues, Tensor eigenvectors)")
	op.Register(op.Def{
		Sig: "linalg_matrix_sqrth(Tensor A) -> Tensor", Doc: "The positive definite square root of symmetric positive " +
			"definite matrices, of which the lower triangle is read.",
		Where: op.Linalg, Samples: samples("P(3,3)", "P(2,2,2)"), ErrorSamples: samples("T(3)", "T(2,3)", "I(2,2;0,3)"),
		Eval: func(a *op.Args) []op.Val {
			b := a.B
			w, v := prim.Eigh(b, squareOf("linalg.matrix_sqrth", a.Val()), false)
			scale := prim.Expand(b, prim.Unsqueeze(b, prim.Sqrt(b, w), -2), v.Shape())
			return a.Ret(matrix(b, prim.Mul(b, v, scale), mH(b, v), none))
		},
	})
	forms(op.Def{
		Doc: "The eigenvalues, ascending, of symmetric matrices. One triangle is read.", Out: true,
		Samples: samples("P(3,3)", "P(2,2,2)", "P(3,3), 'U'"), ErrorSamples: samples("T(3)", "T(2,3)"),
		Eval: func(a *op.Args) []op.Val {
			x := squareOf("linalg.eigvalsh", a.Val())
			w, _ := prim.Eigh(a.B, x, a.Int()%2 != 0)
			return a.Ret(w)
		},
	}, "linalg_eigvalsh(Tensor self, "+uplo+") -> Tensor")
}

func singularValues(b op.Builder, x op.Val) op.Val {
	_, s, _ := prim.SVD(b, x, false)
	return s
}

// noDriver refuses the choice of an algorithm, as PyTorch does on the CPU.
func noDriver(a *op.Args) {
	if a.Int() >= 0 {
		fail(ir.ErrRuntime, "linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend.")
	}
}

func registerSVD() {
	driver := "*, str(gesvd|gesvdj|gesvda)? driver=None"
	forms(op.Def{
		Doc: "A = U diag(S) Vh with S descending; full_matrices completes U and Vh to square matrices.", Out: true,
		Samples: samples("T(1,1), False"), ErrorSamples: samples("T(3)", "I(2,2;0,3)", "T(2,2) | driver='gesvd'"),
		Eval: func(a *op.Args) []op.Val {
			x, full := matrixOf("linalg.svd", a.Val()), a.Bool()
			noDriver(a)
			u, s, vt := prim.SVD(a.B, x, full)
			return a.Ret(u, s, vt)
		},
	}, "linalg_svd(Tensor A, bool full_matrices=True, "+driver+") -> (Tensor U, Tensor S, Tensor Vh)")
	forms(op.Def{
		Doc: "The singular values, descending.", Out: true, Samples: samples("T(3,3)", "T(4,2)", "T(2,2,3)"),
		ErrorSamples: samples("T(3)"),
		Eval: func(a *op.Args) []op.Val {
			x := matrixOf("linalg.svdvals", a.Val())
			noDriver(a)
			return a.Ret(singularValues(a.B, x))
		},
	}, "linalg_svdvals(Tensor A, "+driver+") -> Tensor")
	op.Register(op.Def{
		Sig: "linalg_polar(Tensor A) -> (Tensor U, Tensor H)", Doc: "A = U H of matrices with no more columns than rows: U " +
			"has orthonormal columns, H is symmetric and has no negative eigenvalue.",
		Where: op.Linalg, Out: true, Samples: samples("T(1,1)"), ErrorSamples: samples("T(3)", "T(2,3)", "I(2,2;0,3)"),
		Eval: func(a *op.Args) []op.Val {
			x, b := matrixOf("linalg.polar", a.Val()), a.B
			if m, n := matrixSize("linalg.polar", x); m < n {
				fail(ir.ErrRuntime, "linalg.polar: expected a matrix with at least as many rows as columns, but got %d by %d", m, n)
			}
			u, s, vt := prim.SVD(b, x, false)
			scale := prim.Expand(b, prim.Unsqueeze(b, s, -1), vt.Shape())
			return a.Ret(matrix(b, u, vt, none), matrix(b, mH(b, vt), prim.Mul(b, scale, vt), none))
		},
	})
	op.Register(op.Def{
		Sig: "svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)",
		Doc: "self = U diag(S) V'; without compute_uv U and V are zeros.", Out: true,
		Samples: samples("T(3,2), True, False"), ErrorSamples: samples("T(3)"),
		Eval: func(a *op.Args) []op.Val {
			x, some, b := matrixOf("linalg.svd", a.Val()), a.Bool(), a.B
			m, n := matrixSize("linalg.svd", x)
			if !a.Bool() {
				zeros := func(n int64) op.Val {
					return prim.Zeros(b, x.DType(), x.Device(), slices.Concat(leading(x), []int64{n, n}))
				}
				return a.Ret(zeros(m), singularValues(b, x), zeros(n))
			}
			u, s, vt := prim.SVD(b, x, !some)
			return a.Ret(u, s, mH(b, vt))
		},
	})
}
