package prim

import (
	"fmt"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// The factorisations of the matrices in the last two dims. Those that ownDevice names run on the operands' device. The
// others run on the CPU: operands on another device are copied there and the results back, in the same window.
// Attributes: the option bits of launch.Factor; and twice a Failure, plus 1 where there is a batch of matrices.

var (
	pCholesky, pLUFactor, pLUPermutation, pLinearSolve, pTriangularSolve op.PrimID
	pQR, pEigh, pSVD, pPinv, pMatrixExp, pLDLFactor, pLDLSolve, pEig     op.PrimID
)

// Failure says which call the error names where a matrix has no factorisation. Unchecked: no error, only the status
// number.
type Failure int64

// The calls that check.
const (
	Unchecked Failure = iota
	FailCholesky
	FailCholeskyEx
	FailInv
	FailInvEx
	FailSolve
	FailSolveEx
	FailTensorInv
	FailLU
	FailLUEx
	FailEigh
	FailSVD
	FailPivots
	FailLDL
	FailLDLEx
	FailLDLSolve
	FailEig
)

const (
	notPositive = "The factorization could not be completed because the input is not positive-definite (the leading " +
		"minor of order %d is not positive-definite)."
	notInverted = "The diagonal element %d is zero, the inversion could not be completed because the input matrix is " +
		"singular."
	notSolved = "The solver failed because the input matrix is singular (pivot %d is 0)."
	zeroPivot = "U[%d,%[1]d] is zero and using it on lu_solve would result in a division by zero. If you still want to " +
		"perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
	zeroBlock = "The block %d of D is zero. If you still want to perform the factorization, consider calling " +
		"linalg.ldl_factor_ex(A)"
	notFinite = "The algorithm failed to converge because the input matrix contained non-finite values."
)

var failures = [...]struct {
	call, text string
	code       ir.Code
}{
	FailCholesky:   {"linalg.cholesky", notPositive, ir.ErrLinAlg},
	FailCholeskyEx: {"linalg.cholesky_ex", notPositive, ir.ErrLinAlg},
	FailInv:        {"linalg.inv", notInverted, ir.ErrLinAlg},
	FailInvEx:      {"linalg.inv_ex", notInverted, ir.ErrLinAlg},
	FailSolve:      {"torch.linalg.solve", notSolved, ir.ErrLinAlg},
	FailSolveEx:    {"torch.linalg.solve_ex", notSolved, ir.ErrLinAlg},
	FailTensorInv:  {"inv", notInverted, ir.ErrLinAlg},
	FailLU:         {"torch.linalg.lu_factor", zeroPivot, ir.ErrRuntime},
	FailLUEx:       {"torch.linalg.lu_factor_ex", zeroPivot, ir.ErrRuntime},
	FailEigh:       {"linalg.eigh", notFinite, ir.ErrLinAlg},
	FailSVD:        {"linalg.svd", notFinite, ir.ErrLinAlg},
	FailPivots: {"torch.lu_unpack", "the pivot number %d is out of range: LU_pivots must be between 1 and LU.size(-2)",
		ir.ErrRuntime},
	FailEig:   {"linalg.eig", notFinite, ir.ErrLinAlg},
	FailLDL:   {"torch.linalg.ldl_factor", zeroBlock, ir.ErrRuntime},
	FailLDLEx: {"torch.linalg.ldl_factor_ex", zeroBlock, ir.ErrRuntime},
	FailLDLSolve: {"torch.linalg.ldl_solve", "the pivot number %d is not one that ldl_factor returns",
		ir.ErrRuntime},
}

// factorError is the error for matrix<<32 | status, which the kernel reports.
func factorError(attr []int64, element int64) *ir.Error {
	f := failures[attr[1]/2]
	text := f.call + ": "
	if attr[1]%2 != 0 {
		text += fmt.Sprintf("(Batch element %d): ", element>>32)
	}
	if f.text != notFinite {
		return ir.Errorf(f.code, text+f.text, element&(1<<32-1))
	}
	return ir.Errorf(f.code, "%s", text+f.text)
}

// matrices describes an operand: the dims before the last two, rows and columns.
type matrices struct {
	d     ir.DType
	lead  []int64
	m, n  int64
	pairs bool // complex elements, as pairs of numbers
}

func (x matrices) spec(sizes ...int64) op.OutSpec {
	if x.pairs {
		sizes = append(sizes, 2)
	}
	return x.real(sizes...)
}

func (x matrices) real(sizes ...int64) op.OutSpec {
	return op.OutSpec{DType: x.d, Shape: slices.Concat(x.lead, sizes)}
}

func (x matrices) ints(sizes ...int64) op.OutSpec {
	return op.OutSpec{DType: ir.I32, Shape: slices.Concat(x.lead, sizes)}
}

// factorInfer checks the first operand and calls results for the outputs. kernel is the name in PyTorch's error for a
// dtype.
func factorInfer(kernel string, results func(x matrices, in []op.Val, option int64) []op.OutSpec) inferFunc {
	return func(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
		d, s := in[0].DType(), in[0].Shape()
		r := len(s)
		if d != ir.F32 && d != ir.F64 {
			return nil, notImplemented(kernel, d)
		}
		pairs := attr[0]&pairsOption != 0
		if pairs {
			r--
		}
		if r < 2 {
			return nil, ir.Errorf(ir.ErrRuntime, "%s: The input tensor must have at least 2 dimensions.", kernel)
		}
		return append(out, results(matrices{d, s[:r-2], s[r-2], s[r-1], pairs}, in, attr[0]&^pairsOption)...), nil
	}
}

func registerLinalgPrims() {
	register := func(p op.Prim) op.PrimID {
		p.DataError = factorError
		if p.VJP != nil {
			p.VJP = ofPairs(p.VJP)
		}
		return op.RegisterPrim(p)
	}
	pCholesky = register(op.Prim{Name: "cholesky", Doc: "the lower factor of positive-definite matrices, and a status",
		NIn: 1, SaveOut: 1, VJP: choleskyVJP,
		Infer: factorInfer("cholesky_cpu", func(x matrices, _ []op.Val, _ int64) []op.OutSpec {
			return []op.OutSpec{x.spec(x.m, x.n), x.ints()}
		})})
	pLUFactor = register(op.Prim{Name: "lu_factor", Doc: "L and U in one matrix, pivots from 1, and a status", NIn: 1,
		SaveOut: 3, VJP: luVJP,
		Infer: factorInfer("lu_cpu", func(x matrices, _ []op.Val, _ int64) []op.OutSpec {
			return []op.OutSpec{x.spec(x.m, x.n), x.ints(min(x.m, x.n)), x.ints()}
		})})
	pLUPermutation = register(op.Prim{Name: "lu_permutation", Doc: "the order of rows that pivots make", NIn: 1,
		NoVJP: "an index",
		Infer: func(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
			s := slices.Clone(in[0].Shape())
			s[len(s)-1] = attr[2]
			return append(out, op.OutSpec{DType: ir.I64, Shape: s}), nil
		}})
	pLinearSolve = register(op.Prim{Name: "linear_solve", Doc: "x of a x = b, with a's LU factors, pivots and a status",
		NIn: 2, SaveIn: 1, SaveOut: 7, VJP: solveVJP,
		Infer: factorInfer("linalg_solve", func(x matrices, in []op.Val, _ int64) []op.OutSpec {
			return []op.OutSpec{{DType: x.d, Shape: in[1].Shape()}, x.spec(x.m, x.n), x.ints(x.n), x.ints()}
		})})
	pTriangularSolve = register(op.Prim{Name: "triangular_solve", Doc: "x of a x = b, of a's upper or lower triangle",
		NIn: 2, SaveIn: 1, SaveOut: 1, VJP: triangularVJP,
		Infer: factorInfer("triangular_solve_cpu", func(x matrices, in []op.Val, _ int64) []op.OutSpec {
			return []op.OutSpec{{DType: x.d, Shape: in[1].Shape()}}
		})})
	pQR = register(op.Prim{Name: "qr", Doc: "orthogonal and upper triangular factors", NIn: 1, SaveIn: 1, SaveOut: 3,
		VJP: qrVJP,
		Infer: factorInfer("geqrf_cpu", func(x matrices, _ []op.Val, full int64) []op.OutSpec {
			q := min(x.m, x.n)
			if full != 0 {
				q = x.m
			}
			return []op.OutSpec{x.spec(x.m, q), x.spec(q, x.n)}
		})})
	pEigh = register(op.Prim{Name: "eigh", Doc: "eigenvalues, ascending, and vectors of symmetric matrices", NIn: 1,
		SaveOut: 3, VJP: eighVJP,
		Infer: factorInfer("linalg_eigh_cpu", func(x matrices, _ []op.Val, _ int64) []op.OutSpec {
			return []op.OutSpec{x.real(x.n), x.spec(x.n, x.n)}
		})})
	pSVD = register(op.Prim{Name: "svd", Doc: "singular values, descending, with the vectors: u, s, vt", NIn: 1,
		SaveOut: 7, VJP: svdVJP,
		Infer: factorInfer("svd_cpu", func(x matrices, _ []op.Val, full int64) []op.OutSpec {
			k := min(x.m, x.n)
			rows, cols := k, k
			if full != 0 {
				rows, cols = x.m, x.n
			}
			return []op.OutSpec{x.spec(x.m, rows), x.real(k), x.spec(cols, x.n)}
		})})
	pPinv = register(op.Prim{Name: "pinv", Doc: "the pseudoinverse; the other operands bound the singular values kept",
		NIn: 3, SaveIn: 1, SaveOut: 1, VJP: pinvVJP,
		Infer: factorInfer("svd_cpu", func(x matrices, _ []op.Val, _ int64) []op.OutSpec {
			return []op.OutSpec{x.spec(x.n, x.m)}
		})})
	pMatrixExp = register(op.Prim{Name: "matrix_exp", Doc: "the matrix exponential", NIn: 1, SaveIn: 1, VJP: matrixExpVJP,
		Infer: factorInfer("matrix_exp", func(x matrices, _ []op.Val, _ int64) []op.OutSpec {
			return []op.OutSpec{x.spec(x.n, x.n)}
		})})
	pLDLFactor = register(op.Prim{Name: "ldl_factor", Doc: "L and D of symmetric matrices in one matrix, pivots from 1 " +
		"(negative: blocks of two rows), and a status", NIn: 1, NoVJP: "as in PyTorch",
		Infer: factorInfer("ldl_factor_kernel_cpu", func(x matrices, _ []op.Val, _ int64) []op.OutSpec {
			return []op.OutSpec{x.spec(x.n, x.n), x.ints(x.n), x.ints()}
		})})
	pLDLSolve = register(op.Prim{Name: "ldl_solve", Doc: "x of L D L' x = b", NIn: 3, NoVJP: "as in PyTorch",
		Infer: factorInfer("ldl_solve_cpu", func(x matrices, in []op.Val, _ int64) []op.OutSpec {
			return []op.OutSpec{{DType: x.d, Shape: in[1].Shape()}}
		})})
}

// ownDevice reports that p runs on any device, for matrices of this dtype.
func ownDevice(p op.PrimID, d ir.DType, option int64) bool {
	switch p {
	case pLUPermutation:
		return true
	case pCholesky, pLUFactor, pLinearSolve, pTriangularSolve, pQR:
		return d == ir.F32 && option&pairsOption == 0
	}
	return false
}

// factored emits p on a device that runs it, or on Meta, and returns the results on the operands' device.
func factored(b op.Builder, p op.PrimID, option int64, f Failure, more []int64, in ...op.Val) []op.Val {
	dev, work, one := in[0].Device(), ir.CPU, 2 // ranks are those of complex elements
	if dev == ir.Meta || ownDevice(p, in[0].DType(), option) {
		work = dev
	}
	if p == pLUPermutation {
		one = 1
	}
	attr := append([]int64{option, 2*int64(f) + flag(len(in[0].Shape()) > one)}, more...)
	d := in[0].DType()
	wide := d.IsFloat() && in[0].L().Numel == 0 // halves are refused, except where there is nothing to compute
	for i := range in {
		in[i] = ToDevice(b, in[i], work)
		if wide && in[i].DType() == d {
			in[i] = Cast(b, in[i], d.ComputeType())
		}
	}
	out := slices.Clone(b.EmitN(p, attr, in...))
	for i := range out {
		if wide && out[i].DType() == d.ComputeType() {
			out[i] = Cast(b, out[i], d)
		}
		out[i] = ToDevice(b, out[i], dev)
	}
	return out
}

// Cholesky returns the lower factor of positive-definite matrices, of which it reads the lower triangle, and a status:
// the order of the first leading minor that is not positive, or 0.
func Cholesky(b op.Builder, x op.Val, f Failure) (l, status op.Val) {
	o := factored(b, pCholesky, 0, f, nil, x)
	return o[0], o[1]
}

// LUFactor factors P' x = L U: L below the diagonal, which is 1 in L, and U on and above it. Pivots count rows from 1.
// The status is the number of the first pivot that is 0, or 0.
func LUFactor(b op.Builder, x op.Val, f Failure) (lu, pivots, status op.Val) {
	o := factored(b, pLUFactor, 0, f, nil, x)
	return o[0], o[1], o[2]
}

// LUPermutation returns, for each row of L U, the row of the matrix that it is; rows is the number of rows.
func LUPermutation(b op.Builder, pivots op.Val, rows int64) op.Val {
	return factored(b, pLUPermutation, 0, FailPivots, []int64{rows}, pivots)[0]
}

// LinearSolve returns x with a x = y, the LU factors of a, and the status of LUFactor.
func LinearSolve(b op.Builder, a, y op.Val, f Failure) (x, lu, pivots, status op.Val) {
	o := factored(b, pLinearSolve, 0, f, nil, a, y)
	return o[0], o[1], o[2], o[3]
}

// TriangularSolve returns x with a x = y from one triangle of a; with unit the diagonal counts as 1.
func TriangularSolve(b op.Builder, a, y op.Val, upper, unit bool) op.Val {
	return factored(b, pTriangularSolve, flag(upper)|flag(unit)<<1, Unchecked, nil, a, y)[0]
}

// QR factors x into orthogonal columns and an upper triangle, with the signs of Householder's reflections. There are as
// many columns as the smaller dim; with full, as many as rows.
func QR(b op.Builder, x op.Val, full bool) (q, r op.Val) {
	o := factored(b, pQR, flag(full), Unchecked, nil, x)
	return o[0], o[1]
}

// Eigh returns the eigenvalues of symmetric matrices in ascending order, and the eigenvectors in columns. It reads one
// triangle.
func Eigh(b op.Builder, x op.Val, upper bool) (values, vectors op.Val) {
	o := factored(b, pEigh, flag(upper), FailEigh, nil, x)
	return o[0], o[1]
}

// SVD factors x into u diag(s) vt with s descending; full completes u and vt to square matrices.
func SVD(b op.Builder, x op.Val, full bool) (u, s, vt op.Val) {
	o := factored(b, pSVD, flag(full), FailSVD, nil, x)
	return o[0], o[1], o[2]
}

// Pinv returns the pseudoinverse of x from the singular values above absolute and above relative times the largest,
// both tensors with one number for each matrix. Of a hermitian x it reads the lower triangle.
func Pinv(b op.Builder, x, absolute, relative op.Val, hermitian bool) op.Val {
	return factored(b, pPinv, flag(hermitian), FailSVD, nil, x, absolute, relative)[0]
}

// MatrixExp returns the exponentials of square matrices.
func MatrixExp(b op.Builder, x op.Val) op.Val {
	return factored(b, pMatrixExp, 0, Unchecked, nil, x)[0]
}

// LDLFactor factors symmetric matrices, of which it reads the lower triangle, into L D L' with diagonal blocks of one
// and two rows, and LAPACK's pivots. The status is the number of the first block that is zero, or 0.
func LDLFactor(b op.Builder, x op.Val, hermitian bool, f Failure) (ld, pivots, status op.Val) {
	o := factored(b, pLDLFactor, ldlOption(x, hermitian), f, nil, x)
	return o[0], o[1], o[2]
}

// LDLSolve returns x with a x = y, from the factors of LDLFactor.
func LDLSolve(b op.Builder, ld, pivots, y op.Val, hermitian bool) op.Val {
	return factored(b, pLDLSolve, ldlOption(ld, hermitian), FailLDLSolve, nil, ld, y, pivots)[0]
}

// ldlOption is 1 for Hermitian matrices. Real ones are symmetric either way.
func ldlOption(x op.Val, hermitian bool) int64 {
	if hermitian && x.Layout.IsComplex() {
		return 1
	}
	return 0
}

// PermuteRows returns row order[i] of x as row i; with back, row i as row order[i].
func PermuteRows(b op.Builder, x, order op.Val, back bool) op.Val {
	i, dim := Expand(b, Unsqueeze(b, order, -1), x.Shape()), int64(len(x.Shape())-2)
	if back {
		return Scatter(b, ZerosLike(b, x), i, x, dim)
	}
	return Gather(b, x, i, dim)
}

// LUSolve returns x with a x = y, or with adjoint a^H x = y, from the factors of LUFactor.
func LUSolve(b op.Builder, lu, pivots, y op.Val, adjoint bool) op.Val {
	order := LUPermutation(b, pivots, lu.Shape()[len(lu.Shape())-2])
	if adjoint {
		t := mH(b, lu)
		return PermuteRows(b, TriangularSolve(b, t, TriangularSolve(b, t, y, false, false), true, true), order, true)
	}
	return TriangularSolve(b, lu, TriangularSolve(b, lu, PermuteRows(b, y, order, false), false, true), true, false)
}
