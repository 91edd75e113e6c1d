package launch

import "github.com/torchlette/torchlette/ir"

// Factor factors each matrix of a batch. Operands and results are dense; elements are of Type (F32 or F64), pivots and
// status numbers int32, permutations int64. The parameters are sizes (matrices, rows m, columns n, columns k of a
// right-hand side), then the element offset of each input. Only the CPU runs it: these are loops over columns, each of
// which waits for the one before, and would leave a GPU's lanes idle.
type Factor struct {
	Op     FactorOp
	Type   ir.DType
	Option int64 // FactorUpper and so on, by Op
	// Check makes a matrix that cannot be factored a data error, with element matrix<<32 | status.
	Check bool
}

// FactorOp says what a Factor computes.
type FactorOp uint8

// The factorisations. least is the smaller of m and n.
const (
	FactorCholesky FactorOp = iota // a (the lower triangle is read) -> lower factor, status
	// a -> L and U in one [m,n], pivots from 1 [least], status: the first zero pivot, from 1
	FactorLU
	FactorPermutation // pivots [n] of a matrix of m rows -> the rows of a in the order of L U's rows [m]
	FactorSolve       // a, b [n,k] -> x, L and U, pivots, status
	FactorTriangular  // a, b [n,k] -> x; options FactorUpper, FactorUnit
	FactorQR          // a -> q [m,least], r [least,n]; option FactorFull: q [m,m], r [m,n]
	// a, symmetric, one triangle is read -> values ascending [n], vectors in columns; option FactorUpper
	FactorEigh
	// a -> u [m,least], s [least] descending, vt [least,n]; option FactorFull: u [m,m], vt [n,n]
	FactorSVD
	// a, the least singular values kept (absolute, and relative to the largest), one of each for each matrix -> [n,m];
	// option FactorHermitian
	FactorPinv
	FactorExp // a -> its exponential
	// a, symmetric, the lower triangle is read -> L and D in one matrix, pivots from 1 [n], negative for both rows of a
	// block of two, status: the first block that is zero, from 1
	FactorLDL
	FactorLDLSolve // L and D, b [n,k], pivots -> x
	FactorEig      // a, with FactorPairs -> values [n], vectors of norm 1 in columns
)

// Options of a Factor.
const (
	FactorUpper     = 1 // the upper triangle is read
	FactorUnit      = 2 // the diagonal counts as ones
	FactorFull      = 1 // all columns of the orthogonal matrices
	FactorHermitian = 1 // the lower triangle is read
	// Operands and results are complex, pairs of numbers; what is symmetric is Hermitian. Values of eigh and svd are real.
	FactorPairs = 4
)

// NotFinite is the status of a matrix with an infinity or a NaN, on which the algorithm would not end.
const NotFinite = 1<<32 - 1

func (o FactorOp) String() string {
	return [...]string{"cholesky", "lu", "lu_permutation", "solve", "triangular", "qr", "eigh", "svd", "pinv",
		"matrix_exp", "ldl", "ldl_solve", "eig"}[o]
}

// Inputs is the number of operands.
func (o FactorOp) Inputs() int {
	switch o {
	case FactorSolve, FactorTriangular:
		return 2
	case FactorPinv, FactorLDLSolve:
		return 3
	}
	return 1
}

// ParamCount is the number of launch parameters.
func (f *Factor) ParamCount() int { return 4 + f.Op.Inputs() }
