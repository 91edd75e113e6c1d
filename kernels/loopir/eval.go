package loopir

import (
	"math"

	"github.com/torchlette/torchlette/ir"
)

// IsCompare reports an operation whose result is Bool for arguments of any type.
func (o Op) IsCompare() bool { return o >= OpEq && o <= OpLe }

// IsCommutative reports x op y == y op x, bit for bit up to NaN payloads. Min and Max are not: of two zeros with
// different signs a device may give the first or the second.
func (o Op) IsCommutative() bool {
	switch o {
	case OpAdd, OpMul, OpEq, OpNe, OpAnd, OpOr, OpXor:
		return true
	}
	return false
}

// Arity is the number of arguments of each operation.
func (o Op) Arity() int {
	switch o {
	case OpConst, OpParam, OpIndex, OpLinear, OpLoad, OpAcc, OpAccIdx, OpAccRun:
		return 0
	case OpFma, OpSelect, OpDraw:
		return 3
	case OpAdd, OpSub, OpMul, OpDiv, OpRem, OpMin, OpMax, OpPow, OpLogAdd, OpEq, OpNe, OpLt, OpLe, OpAnd, OpOr, OpXor,
		OpShl, OpShr:
		return 2
	}
	return 1
}

// IsLeaf reports an operation that reads a parameter, an index, memory or an accumulator.
func (o Op) IsLeaf() bool {
	return o.Arity() == 0 || o == OpLoadAt
}

// EvalOp computes one pure operation on slot bits. t is the result type; at is the type of the first argument, or of
// the second for OpSelect, whose first is Bool. It defines every operation: constant folding and both interpreters call
// it.
func EvalOp(op Op, t, at ir.DType, imm, a, b, c uint64) uint64 {
	switch op {
	case OpConst:
		return imm
	case OpCast:
		return CastBits(at, t, a)
	case OpBitcast:
		return a
	case OpNarrow:
		var b [2]byte
		StoreBits(ir.DType(imm), b[:], 0, a)
		return LoadBits(ir.DType(imm), b[:], 0)
	case OpSelect:
		if a != 0 {
			return b
		}
		return c
	case OpDraw:
		return uint64(Draw(DrawPart(imm), a, b, c))
	}
	if op.IsCompare() {
		return boolBits(Compare(op, at, a, b))
	}
	switch at {
	case ir.Bool:
		return evalBool(op, a, b)
	case ir.F32:
		if op == OpIsNaN {
			return boolBits(isNaN32(uint32(a)))
		}
		return uint64(math.Float32bits(evalF32(op, f32(a), f32(b), f32(c))))
	case ir.F64:
		if op == OpIsNaN {
			return boolBits(math.IsNaN(f64(a)))
		}
		return math.Float64bits(evalF64(op, f64(a), f64(b), f64(c)))
	case ir.U32:
		return uint64(uint32(evalUint(op, uint64(uint32(a)), uint64(uint32(b)))))
	case ir.U64:
		return evalUint(op, a, b)
	case ir.I32:
		return uint64(uint32(evalInt(op, int64(int32(a)), int64(int32(b)), 32)))
	case ir.I64:
		return uint64(evalInt(op, int64(a), int64(b), 64))
	}
	panic("BUG: loopir.EvalOp: " + op.String() + " of " + at.String())
}

func f32(b uint64) float32 { return math.Float32frombits(uint32(b)) }
func f64(b uint64) float64 { return math.Float64frombits(b) }

func isNaN32(b uint32) bool { return b&0x7fffffff > 0x7f800000 }

func boolBits(v bool) uint64 {
	if v {
		return 1
	}
	return 0
}

func evalBool(op Op, a, b uint64) uint64 {
	switch op {
	case OpAnd:
		return a & b
	case OpOr:
		return a | b
	case OpXor:
		return a ^ b
	case OpNot:
		return a ^ 1
	}
	panic("BUG: loopir: bool " + op.String())
}

// Compare is x op y of two slots of type t, for a comparison op.
func Compare(op Op, t ir.DType, a, b uint64) bool {
	var eq, lt bool
	switch t {
	case ir.F32:
		eq, lt = f32(a) == f32(b), f32(a) < f32(b)
	case ir.F64:
		eq, lt = f64(a) == f64(b), f64(a) < f64(b)
	case ir.I32:
		eq, lt = int32(a) == int32(b), int32(a) < int32(b)
	case ir.I64:
		eq, lt = a == b, int64(a) < int64(b)
	default:
		eq, lt = a == b, a < b
	}
	switch op {
	case OpEq:
		return eq
	case OpNe:
		return !eq
	case OpLt:
		return lt
	}
	return lt || eq
}

// evalF32 rounds once where IEEE arithmetic does; functions are computed in float64.
func evalF32(op Op, a, b, c float32) float32 {
	switch op {
	case OpAdd:
		return a + b
	case OpSub:
		return a - b
	case OpMul:
		return a * b
	case OpDiv:
		return a / b
	}
	return float32(evalF64(op, float64(a), float64(b), float64(c)))
}

func evalF64(op Op, a, b, c float64) float64 {
	switch op {
	case OpAdd:
		return a + b
	case OpSub:
		return a - b
	case OpMul:
		return a * b
	case OpDiv:
		return a / b
	case OpRem:
		return math.Mod(a, b)
	case OpMin:
		if math.IsNaN(a) || math.IsNaN(b) {
			return math.NaN() // Go's Min and Max prefer infinities to NaN
		}
		return math.Min(a, b)
	case OpMax:
		if math.IsNaN(a) || math.IsNaN(b) {
			return math.NaN()
		}
		return math.Max(a, b)
	case OpNeg:
		return -a
	case OpAbs:
		return math.Abs(a)
	case OpFma:
		return math.FMA(a, b, c)
	case OpPow:
		return math.Pow(a, b)
	case OpLogAdd:
		if a == b {
			return a + math.Ln2 // infinities stay
		}
		return math.Max(a, b) + math.Log1p(math.Exp(-math.Abs(a-b)))
	case OpFloor:
		return math.Floor(a)
	case OpCeil:
		return math.Ceil(a)
	case OpRound:
		return math.RoundToEven(a)
	case OpTrunc:
		return math.Trunc(a)
	}
	return evalFloatFunc(op, a)
}

func evalFloatFunc(op Op, a float64) float64 {
	switch op {
	case OpSqrt:
		return math.Sqrt(a)
	case OpExp:
		return math.Exp(a)
	case OpLog:
		return math.Log(a)
	case OpSin:
		return math.Sin(a)
	case OpCos:
		return math.Cos(a)
	case OpTanh:
		return math.Tanh(a)
	case OpErf:
		return math.Erf(a)
	}
	panic("BUG: loopir: float " + op.String())
}

func evalInt(op Op, a, b int64, width uint64) int64 {
	switch op {
	case OpAdd:
		return a + b
	case OpSub:
		return a - b
	case OpMul:
		return a * b
	case OpDiv:
		if b == 0 {
			return 0
		}
		return a / b // Go wraps the one overflow, MinInt / -1
	case OpRem:
		if b == 0 {
			return 0
		}
		return a % b
	case OpMin:
		return min(a, b)
	case OpMax:
		return max(a, b)
	case OpNeg:
		return -a
	case OpAbs:
		return max(a, -a)
	case OpPow:
		return powInt(a, b)
	case OpAnd:
		return a & b
	case OpOr:
		return a | b
	case OpXor:
		return a ^ b
	case OpNot:
		return ^a
	case OpShl:
		return a << uint64(b)
	case OpShr:
		return a >> min(uint64(b), width-1)
	}
	panic("BUG: loopir: int " + op.String())
}

func evalUint(op Op, a, b uint64) uint64 {
	switch op {
	case OpDiv:
		if b == 0 {
			return 0
		}
		return a / b
	case OpRem:
		if b == 0 {
			return 0
		}
		return a % b
	case OpMin:
		return min(a, b)
	case OpMax:
		return max(a, b)
	case OpAbs:
		return a
	case OpShr:
		return a >> b
	case OpShl:
		return a << b
	case OpPow:
		return powUint(a, b)
	}
	return uint64(evalInt(op, int64(a), int64(b), 64))
}

// powInt wraps; a negative exponent gives the truncated reciprocal power, as in PyTorch.
func powInt(a, b int64) int64 {
	if b < 0 {
		switch a {
		case 1:
			return 1
		case -1:
			return 1 - 2*(b&1)
		}
		return 0
	}
	r := int64(1)
	for ; b > 0; b >>= 1 {
		if b&1 != 0 {
			r *= a
		}
		a *= a
	}
	return r
}

// powUint wraps.
func powUint(a, b uint64) uint64 {
	r := uint64(1)
	for ; b > 0; b >>= 1 {
		if b&1 != 0 {
			r *= a
		}
		a *= a
	}
	return r
}

// CastBits converts by value. A float outside an integer type's range saturates and NaN gives 0; devices may differ
// there, as PyTorch leaves it undefined.
func CastBits(from, to ir.DType, v uint64) uint64 {
	if to == ir.Bool {
		switch from {
		case ir.F32:
			return boolBits(f32(v) != 0)
		case ir.F64:
			return boolBits(f64(v) != 0)
		}
		return boolBits(v != 0)
	}
	if from.IsFloat() {
		x := ir.DecodeFloat(from, v)
		switch to {
		case ir.F32:
			return uint64(math.Float32bits(float32(x)))
		case ir.F64:
			return math.Float64bits(x)
		}
		return saturate(to, x)
	}
	var i int64
	switch from {
	case ir.I32:
		i = int64(int32(v))
	default:
		i = int64(v)
	}
	if to == ir.F32 && from == ir.U64 {
		return uint64(math.Float32bits(float32(v)))
	}
	if to == ir.F32 {
		return uint64(math.Float32bits(float32(i)))
	}
	if to == ir.F64 && from == ir.U64 {
		return math.Float64bits(float64(v))
	}
	return ir.EncodeInt(to, i)
}

func saturate(to ir.DType, x float64) uint64 {
	lo, hi := math.MinInt64, math.MaxInt64
	switch to {
	case ir.I32:
		lo, hi = math.MinInt32, math.MaxInt32
	case ir.U32:
		lo, hi = 0, math.MaxUint32
	}
	switch {
	case math.IsNaN(x):
		return 0
	case to == ir.U64 && x >= 1<<64:
		return math.MaxUint64
	case to == ir.U64 && x > 0:
		return uint64(x)
	case x <= float64(lo):
		return ir.EncodeInt(to, int64(lo))
	case x >= float64(hi):
		return ir.EncodeInt(to, int64(hi))
	}
	return ir.EncodeInt(to, int64(x))
}
