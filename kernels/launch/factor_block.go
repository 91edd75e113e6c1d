package launch

import (
	"fmt"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// FactorBlock is one step of a factorisation on a device that does not run [Factor]. A step updates a window of each
// float32 matrix in place; products between the steps do most of the work (see engine/lower). Buffers and parameters
// depend on Op; FactorBlock.Layout numbers them.
type FactorBlock struct {
	Op   BlockOp
	Unit bool // BlockTriangular: the diagonal counts as ones
	// Upper: BlockTriangular reads the upper triangle.
	Upper bool
	// Same: BlockTriangular's triangle is in the buffer of the right-hand side.
	Same bool
}

// BlockOp says what a FactorBlock computes.
type BlockOp uint8

// The steps of factorisations. X is a matrix of M rows and N columns; its first element is number At on the diagonal of
// the whole matrix.
const (
	BlockCholesky BlockOp = iota // X, of which the lower triangle is read, becomes its lower factor
	// X becomes L and U, with rows exchanged; pivots At to At+min(M,N)
	BlockLU
	// exchanges rows of X, which is the whole matrix, as M pivots from At on say, except in Width columns from Skip on
	BlockSwap
	BlockTriangular // X becomes x of a x = X, of the triangle Y of M rows
	// X, of no more columns than rows, becomes R, with what reflects below the diagonal; Y gets the reflections with their
	// ones and zeros, and Z, of N rows and columns, T, so that the orthogonal factor is I - Y T Y'
	BlockQR
	BlockPermutation // pivots [N] -> order of M rows; a pivot out of range is a data error
	BlockStatus      // the first matrix with a status is a data error, with element matrix<<32 | status
)

func (o BlockOp) String() string {
	return [...]string{"cholesky", "lu", "swap", "triangular", "qr", "permutation", "status"}[o]
}

// BlockLayout numbers the parameters and buffers of a FactorBlock; -1 where there is none. X and Y have strides of
// matrix, row and column, and an offset.
type BlockLayout struct {
	Matrices, M, N, At                int
	X, Y, Z                           [4]int
	Pivots, PivotStride               int
	Status, Skip, Width               int
	BufX, BufY, BufZ, BufPivots, BufS int
	BufOrder                          int
	Params                            []loopir.Param
	Bufs                              []loopir.Buf
}

// Layout returns the numbers of f's parameters and buffers.
func (f *FactorBlock) Layout() BlockLayout {
	none := [4]int{-1, -1, -1, -1}
	l := BlockLayout{X: none, Y: none, Z: none, Pivots: -1, PivotStride: -1, Skip: -1, Width: -1, BufX: -1, BufY: -1,
		BufZ: -1, BufPivots: -1, BufS: -1, BufOrder: -1}
	one := func(k loopir.ParamKind) int {
		l.Params = append(l.Params, loopir.Param{Kind: k, Type: ir.I64})
		return len(l.Params) - 1
	}
	buf := func(t ir.DType, a loopir.BufAccess) int {
		l.Bufs = append(l.Bufs, loopir.Buf{Type: t, Access: a})
		return len(l.Bufs) - 1
	}
	matrix := func() [4]int {
		return [4]int{one(loopir.Stride), one(loopir.Stride), one(loopir.Stride), one(loopir.Offset)}
	}
	l.Matrices, l.M, l.N, l.At = one(loopir.Size), one(loopir.Size), one(loopir.Size), one(loopir.Stride)
	switch f.Op {
	case BlockPermutation, BlockStatus:
	default:
		l.X, l.BufX = matrix(), buf(ir.F32, loopir.ReadWrite)
	}
	switch f.Op {
	case BlockCholesky:
		l.BufS = buf(ir.I32, loopir.ReadWrite)
	case BlockLU:
		l.PivotStride, l.BufPivots, l.BufS = one(loopir.Stride), buf(ir.I32, loopir.ReadWrite), buf(ir.I32, loopir.ReadWrite)
	case BlockSwap:
		l.PivotStride, l.BufPivots = one(loopir.Stride), buf(ir.I32, loopir.Read)
		l.Skip, l.Width = one(loopir.Stride), one(loopir.Stride)
	case BlockTriangular:
		if l.Y, l.BufY = matrix(), l.BufX; !f.Same {
			l.BufY = buf(ir.F32, loopir.Read)
		}
	case BlockQR:
		l.Y, l.BufY = matrix(), buf(ir.F32, loopir.ReadWrite)
		l.Z, l.BufZ = matrix(), buf(ir.F32, loopir.ReadWrite)
	case BlockPermutation:
		l.Pivots, l.BufPivots, l.BufOrder = one(loopir.Offset), buf(ir.I32, loopir.Read), buf(ir.I64, loopir.ReadWrite)
	case BlockStatus:
		l.BufS = buf(ir.I32, loopir.Read)
	}
	return l
}

// Label implements Op.
func (f *FactorBlock) Label() string { return "block_" + f.Op.String() }

// Buffers implements Op.
func (f *FactorBlock) Buffers() []loopir.Buf { return f.Layout().Bufs }

// Parameters implements Op.
func (f *FactorBlock) Parameters() []loopir.Param { return f.Layout().Params }

// Key implements Op.
func (f *FactorBlock) Key() string { return fmt.Sprintf("factorblock%+v", *f) }

// Cost implements Op. A step works through its matrix once for each column.
func (f *FactorBlock) Cost(params []uint64, width *loopir.Widths) loopir.Cost {
	l := f.Layout()
	matrices, m, n := int64(params[l.Matrices]), int64(params[l.M]), int64(params[l.N])
	c := loopir.Cost{Bytes: 2 * matrices * m * n * int64(width[ir.F32])}
	switch f.Op {
	case BlockCholesky, BlockLU:
		c.Flops = matrices * m * n * min(m, n)
	case BlockTriangular:
		c.Flops = matrices * m * m * n
	case BlockQR:
		c.Flops = 3 * matrices * m * n * n
	case BlockStatus:
		c.Bytes = matrices * int64(width[ir.I32])
	}
	return c
}
