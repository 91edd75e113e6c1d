package loopir

import (
	"math"

	"github.com/torchlette/torchlette/ir"
)

// Identity is the neutral slot bits of a reduction over type t. For ArgMax and ArgMin its index is [NoIndex].
func Identity(op ReduceOp, t ir.DType) uint64 {
	switch op {
	case Sum, Any:
		return 0
	case Prod:
		return ir.EncodeInt(t, 1)
	case All:
		return 1
	case Max, ArgMax, LogSum:
		return extreme(t, -1)
	case Min, ArgMin:
		return extreme(t, 1)
	}
	panic("BUG: loopir.Identity")
}

// NoIndex is the Idx of an empty ArgMax or ArgMin: it loses against every index.
func NoIndex(t ir.DType) uint64 { return extreme(t, 1) }

func extreme(t ir.DType, sign int) uint64 {
	switch t {
	case ir.F32, ir.F64:
		return ir.EncodeFloat(t, math.Inf(sign))
	case ir.I32:
		if sign < 0 {
			return ir.EncodeInt(t, math.MinInt32)
		}
		return ir.EncodeInt(t, math.MaxInt32)
	case ir.I64:
		if sign < 0 {
			return 1 << 63
		}
		return math.MaxInt64
	case ir.U32:
		if sign < 0 {
			return 0
		}
		return math.MaxUint32
	case ir.U64:
		if sign < 0 {
			return 0
		}
		return math.MaxUint64
	}
	panic("BUG: loopir: no extremes of " + t.String())
}

// Op is the scalar operation of a reduction other than ArgMax and ArgMin.
func (r ReduceOp) Op() Op {
	return [...]Op{Sum: OpAdd, Prod: OpMul, Max: OpMax, Min: OpMin, ArgMax: OpMax, ArgMin: OpMin, Any: OpOr, All: OpAnd,
		LogSum: OpLogAdd}[r]
}

// IsArg reports ArgMax and ArgMin.
func (r ReduceOp) IsArg() bool { return r == ArgMax || r == ArgMin }

// Combine joins two partial results: a value of type t and an index of type it each.
func Combine(op ReduceOp, t, it ir.DType, a, ai, b, bi uint64) (v, vi uint64) {
	if !op.IsArg() {
		return EvalOp(op.Op(), t, t, 0, a, b, 0), 0
	}
	if argBetter(op, t, it, b, bi, a, ai) {
		return b, bi
	}
	return a, ai
}

// argBetter reports that (x, xi) beats (y, yi): NaN is the extreme, then the value decides, then the smaller index.
func argBetter(op ReduceOp, t, it ir.DType, x, xi, y, yi uint64) bool {
	earlier := Compare(OpLt, it, xi, yi)
	if t.IsFloat() {
		xn := EvalOp(OpIsNaN, ir.Bool, t, 0, x, 0, 0) != 0
		yn := EvalOp(OpIsNaN, ir.Bool, t, 0, y, 0, 0) != 0
		if xn || yn {
			return xn && (!yn || earlier)
		}
	}
	if Compare(OpEq, t, x, y) {
		return earlier
	}
	if op == ArgMax {
		return Compare(OpLt, t, y, x)
	}
	return Compare(OpLt, t, x, y)
}
