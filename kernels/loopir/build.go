package loopir

import (
	"fmt"

	"github.com/torchlette/torchlette/ir"
)

// Builder makes a Kernel. It infers types, folds constants and shares equal expressions. It panics with a "BUG: " text
// on misuse, since kernels come from lowerings and not from users.
//
//	b := loopir.NewBuilder("map_add_float32", 2, 0)
//	x := b.Load(b.Access(b.Buf(ir.F32, loopir.Read), b.Offset(), b.Stride(), loopir.Unit))
//	y := b.Load(b.Linear(b.Buf(ir.F32, loopir.Read), -1))
//	out := b.Linear(b.Buf(ir.F32, loopir.Write), -1)
//	b.Map()
//	b.Store(out, b.Add(x, y))
//	k := b.Kernel()
type Builder struct {
	k    *Kernel
	seen map[Expr]int
	accs []Acc // of all stages, by number
}

// NewBuilder starts a kernel with these numbers of outer and inner dims; parameters 0 to outer+inner-1 are their sizes.
func NewBuilder(name string, outer, inner int) *Builder {
	b := &Builder{k: &Kernel{Name: name, Outer: outer, Inner: inner}, seen: make(map[Expr]int, 32)}
	for range outer + inner {
		b.param(Size, ir.I64)
	}
	return b
}

// Kernel simplifies, verifies and returns the kernel.
func (b *Builder) Kernel() *Kernel {
	k := Simplify(b.k)
	if err := Verify(k); err != nil {
		panic(fmt.Sprintf("BUG: kernel %s: %v", k.Name, err))
	}
	return k
}

func (b *Builder) param(kind ParamKind, t ir.DType) int {
	b.k.Params = append(b.k.Params, Param{Kind: kind, Type: t})
	return len(b.k.Params) - 1
}

// Stride adds a stride parameter.
func (b *Builder) Stride() int { return b.param(Stride, ir.I64) }

// Offset adds an offset parameter.
func (b *Builder) Offset() int { return b.param(Offset, ir.I64) }

// Size adds a size parameter beyond those of the index space, such as the length of a gathered dim.
func (b *Builder) Size() int { return b.param(Size, ir.I64) }

// Scalar adds a scalar parameter whose slot holds bits of t's compute type.
func (b *Builder) Scalar(t ir.DType) int { return b.param(Scalar, t.ComputeType()) }

// Buf adds a buffer.
func (b *Builder) Buf(t ir.DType, a BufAccess) int {
	b.k.Bufs = append(b.k.Bufs, Buf{Type: t, Access: a})
	return len(b.k.Bufs) - 1
}

// Linear adds a dense access; offset is a parameter number or -1.
func (b *Builder) Linear(buf, offset int) int {
	b.k.Access = append(b.k.Access, Access{Buf: buf, Offset: offset, Linear: true})
	return len(b.k.Access) - 1
}

// Access adds an affine access with one stride for each dim, outer dims first: a parameter number, Broadcast or Unit.
// Missing trailing strides are Broadcast.
func (b *Builder) Access(buf, offset int, strides ...int) int {
	s := make([]int, 0, b.k.Outer+b.k.Inner)
	s = append(s, strides...)
	for len(s) < b.k.Outer+b.k.Inner {
		s = append(s, Broadcast)
	}
	b.k.Access = append(b.k.Access, Access{Buf: buf, Offset: offset, Stride: s})
	return len(b.k.Access) - 1
}

// Type is the result type of expression e.
func (b *Builder) Type(e int) ir.DType { return b.k.Exprs[e].Type }

func (b *Builder) emit(e Expr) int {
	e, same := simplifyExpr(b.k.Exprs, e)
	if same >= 0 {
		return same
	}
	if n, ok := b.seen[e]; ok {
		return n
	}
	b.k.Exprs = append(b.k.Exprs, e)
	n := len(b.k.Exprs) - 1
	b.seen[e] = n
	return n
}

// Bits is a constant of t's compute type from slot bits.
func (b *Builder) Bits(t ir.DType, bits uint64) int {
	return b.emit(Expr{Op: OpConst, Type: t.ComputeType(), A: -1, B: -1, C: -1, Imm: bits})
}

// Float is the constant v in t's compute type.
func (b *Builder) Float(t ir.DType, v float64) int { return b.Bits(t, ir.EncodeFloat(t, v)) }

// Int is the constant v in t's compute type.
func (b *Builder) Int(t ir.DType, v int64) int { return b.Bits(t, ir.EncodeInt(t, v)) }

// I64 is an index constant.
func (b *Builder) I64(v int64) int { return b.Bits(ir.I64, uint64(v)) }

// Bool is a bool constant.
func (b *Builder) Bool(v bool) int {
	if v {
		return b.Bits(ir.Bool, 1)
	}
	return b.Bits(ir.Bool, 0)
}

// Param reads parameter p; sizes, strides and offsets are I64.
func (b *Builder) Param(p int) int {
	return b.emit(Expr{Op: OpParam, Type: b.k.Params[p].Type.ComputeType(), A: -1, B: -1, C: -1, Imm: uint64(p)})
}

// Index is the position along dim d, outer dims first.
func (b *Builder) Index(d int) int {
	return b.emit(Expr{Op: OpIndex, Type: ir.I64, A: -1, B: -1, C: -1, Imm: uint64(d)})
}

// LinearIndex is the row-major number of the index of the stage that uses it.
func (b *Builder) LinearIndex() int {
	return b.emit(Expr{Op: OpLinear, Type: ir.I64, A: -1, B: -1, C: -1})
}

// Load reads through an access.
func (b *Builder) Load(access int) int {
	t := b.k.Bufs[b.k.Access[access].Buf].Type.ComputeType()
	return b.emit(Expr{Op: OpLoad, Type: t, A: -1, B: -1, C: -1, Imm: uint64(access)})
}

// LoadAt reads element number index (I64, in bounds) of buf.
func (b *Builder) LoadAt(buf, index int) int {
	return b.emit(Expr{Op: OpLoadAt, Type: b.k.Bufs[buf].Type.ComputeType(), A: index, B: -1, C: -1, Imm: uint64(buf)})
}

// Acc is accumulator n's final value.
func (b *Builder) Acc(n int) int { return b.accExpr(OpAcc, n) }

// AccIdx is accumulator n's final index.
func (b *Builder) AccIdx(n int) int { return b.accExpr(OpAccIdx, n) }

// AccRun is accumulator n's running value, in the stores of its Prefix stage.
func (b *Builder) AccRun(n int) int { return b.accExpr(OpAccRun, n) }

func (b *Builder) accExpr(op Op, n int) int {
	e := b.accs[n].Val
	if op == OpAccIdx {
		e = b.accs[n].Idx
	}
	return b.emit(Expr{Op: op, Type: b.Type(e), A: -1, B: -1, C: -1, Imm: uint64(n)})
}

// Cast converts by value to t's compute type.
func (b *Builder) Cast(t ir.DType, x int) int {
	return b.emit(Expr{Op: OpCast, Type: t.ComputeType(), A: x, B: -1, C: -1})
}

// Narrow rounds x as a store in t and a load would; dtypes that are computed as they are stored leave x as it is.
func (b *Builder) Narrow(t ir.DType, x int) int {
	if t != ir.F16 && t != ir.BF16 {
		return x
	}
	return b.emit(Expr{Op: OpNarrow, Type: ir.F32, A: x, B: -1, C: -1, Imm: uint64(t)})
}

// Bitcast reinterprets x as a type of the same width.
func (b *Builder) Bitcast(t ir.DType, x int) int {
	return b.emit(Expr{Op: OpBitcast, Type: t, A: x, B: -1, C: -1})
}

// Un applies a unary operation.
func (b *Builder) Un(op Op, x int) int {
	t := b.Type(x)
	if op == OpIsNaN {
		t = ir.Bool
	}
	return b.emit(Expr{Op: op, Type: t, A: x, B: -1, C: -1})
}

// Bin applies a binary operation; comparisons give Bool.
func (b *Builder) Bin(op Op, x, y int) int {
	t := b.Type(x)
	if op.IsCompare() {
		t = ir.Bool
	}
	return b.emit(Expr{Op: op, Type: t, A: x, B: y, C: -1})
}

// Arithmetic.

// Add is x+y.
func (b *Builder) Add(x, y int) int { return b.Bin(OpAdd, x, y) }

// Sub is x-y.
func (b *Builder) Sub(x, y int) int { return b.Bin(OpSub, x, y) }

// Mul is x*y.
func (b *Builder) Mul(x, y int) int { return b.Bin(OpMul, x, y) }

// Div is x/y: IEEE, or truncated for integers.
func (b *Builder) Div(x, y int) int { return b.Bin(OpDiv, x, y) }

// Rem is the truncated remainder.
func (b *Builder) Rem(x, y int) int { return b.Bin(OpRem, x, y) }

// Min is the smaller operand; NaN propagates.
func (b *Builder) Min(x, y int) int { return b.Bin(OpMin, x, y) }

// Max is the larger operand; NaN propagates.
func (b *Builder) Max(x, y int) int { return b.Bin(OpMax, x, y) }

// Pow is x to the power y.
func (b *Builder) Pow(x, y int) int { return b.Bin(OpPow, x, y) }

// Neg is -x.
func (b *Builder) Neg(x int) int { return b.Un(OpNeg, x) }

// Abs is |x|.
func (b *Builder) Abs(x int) int { return b.Un(OpAbs, x) }

// Fma is x*y+z, rounded once.
func (b *Builder) Fma(x, y, z int) int {
	return b.emit(Expr{Op: OpFma, Type: b.Type(x), A: x, B: y, C: z})
}

// Comparisons and logic.

// Eq is x == y.
func (b *Builder) Eq(x, y int) int { return b.Bin(OpEq, x, y) }

// Ne is x != y.
func (b *Builder) Ne(x, y int) int { return b.Bin(OpNe, x, y) }

// Lt is x < y.
func (b *Builder) Lt(x, y int) int { return b.Bin(OpLt, x, y) }

// Le is x <= y.
func (b *Builder) Le(x, y int) int { return b.Bin(OpLe, x, y) }

// Gt is x > y.
func (b *Builder) Gt(x, y int) int { return b.Bin(OpLt, y, x) }

// Ge is x >= y.
func (b *Builder) Ge(x, y int) int { return b.Bin(OpLe, y, x) }

// And is the bool or bitwise and.
func (b *Builder) And(x, y int) int { return b.Bin(OpAnd, x, y) }

// Or is the bool or bitwise or.
func (b *Builder) Or(x, y int) int { return b.Bin(OpOr, x, y) }

// Xor is the bool or bitwise exclusive or.
func (b *Builder) Xor(x, y int) int { return b.Bin(OpXor, x, y) }

// Not is the bool or bitwise complement.
func (b *Builder) Not(x int) int { return b.Un(OpNot, x) }

// Select is x where c, else y.
func (b *Builder) Select(c, x, y int) int {
	return b.emit(Expr{Op: OpSelect, Type: b.Type(x), A: c, B: x, C: y})
}

// Draw is the random word of the current element that part names, see [OpDraw]. drawOffset and seed are I64; U32.
func (b *Builder) Draw(part DrawPart, drawOffset, seed int) int {
	return b.emit(Expr{Op: OpDraw, Type: ir.U32, A: b.LinearIndex(), B: drawOffset, C: seed, Imm: uint64(part)})
}

// Stages. Accumulators, stores and checks belong to the stage begun last.

// Map begins a stage that runs once for each outer index.
func (b *Builder) Map() { b.k.Stages = append(b.k.Stages, Stage{}) }

// Each begins a stage over the inner space.
func (b *Builder) Each() { b.k.Stages = append(b.k.Stages, Stage{OverInner: true}) }

// Scan begins a Prefix stage over the inner space.
func (b *Builder) Scan() { b.k.Stages = append(b.k.Stages, Stage{OverInner: true, Prefix: true}) }

func (b *Builder) stage() *Stage {
	if len(b.k.Stages) == 0 {
		panic("BUG: loopir.Builder: no stage begun")
	}
	return &b.k.Stages[len(b.k.Stages)-1]
}

// Reduce adds an accumulator over val and returns its number.
func (b *Builder) Reduce(op ReduceOp, val int) int { return b.ReduceIdx(op, val, -1) }

// Dot adds a Sum of the products x*y, which a device may add without rounding them first.
func (b *Builder) Dot(x, y int) int {
	n := b.Reduce(Sum, b.Mul(x, y))
	s := b.stage()
	s.Accs[len(s.Accs)-1].Unrounded = true
	return n
}

// ReduceIdx adds an ArgMax or ArgMin accumulator that carries idx.
func (b *Builder) ReduceIdx(op ReduceOp, val, idx int) int {
	a := Acc{Op: op, Val: val, Idx: idx}
	s := b.stage()
	s.Accs = append(s.Accs, a)
	b.accs = append(b.accs, a)
	return len(b.accs) - 1
}

// Store writes val through an access.
func (b *Builder) Store(access, val int) { b.StoreIf(-1, access, val) }

// StoreIf writes val through an access where guard holds (-1: always).
func (b *Builder) StoreIf(guard, access, val int) {
	s := b.stage()
	s.Stores = append(s.Stores, Store{Access: access, Buf: -1, Index: -1, Val: val, Guard: guard})
}

// StoreAdd adds val to the element of an access.
func (b *Builder) StoreAdd(access, val int) {
	s := b.stage()
	s.Stores = append(s.Stores, Store{Access: access, Buf: -1, Index: -1, Val: val, Mode: Add, Guard: -1})
}

// StoreAt writes val to element index of buf where guard holds (-1: always).
func (b *Builder) StoreAt(guard, buf, index, val int, mode StoreMode) {
	s := b.stage()
	s.Stores = append(s.Stores, Store{Access: -1, Buf: buf, Index: index, Val: val, Mode: mode, Guard: guard})
}

// Check reports elem where cond is false.
func (b *Builder) Check(cond, elem int) {
	b.k.Checks = true
	s := b.stage()
	s.Checks = append(s.Checks, Check{Cond: cond, Elem: elem})
}

// InBounds checks 0 <= i < size and returns i clamped into that range, which is a safe address unless size is 0; the
// caller's index space is empty then.
func (b *Builder) InBounds(i, size int) int {
	b.Check(b.And(b.Le(b.I64(0), i), b.Lt(i, size)), i)
	return b.Clamped(i, size)
}

// Clamped returns i clamped into 0 <= i < size.
func (b *Builder) Clamped(i, size int) int {
	return b.Max(b.I64(0), b.Min(i, b.Sub(size, b.I64(1))))
}

// Again emits e over expressions of b, simplified and shared.
func (b *Builder) Again(e Expr) int { return b.emit(e) }

// Exprs returns the expressions so far.
func (b *Builder) Exprs() []Expr { return b.k.Exprs }

// Inline adds the expressions of k to b, with the values bufs in place of what k loads, by buffer, and params in place
// of its parameters after the sizes. It begins k's stages but for the last one, whose stored values it returns; of a
// map it begins none. b has no accumulators where k has some.
func (k *Kernel) Inline(b *Builder, bufs, params []int) (stored []int) {
	num := make([]int, len(k.Exprs))
	ref := func(n int) int {
		if n < 0 {
			return n
		}
		return num[n]
	}
	next := 0 // stage
	begin := func() {
		begun := Stage{OverInner: k.Stages[next].OverInner, Prefix: k.Stages[next].Prefix}
		for _, a := range k.Stages[next].Accs {
			a.Val, a.Idx = ref(a.Val), ref(a.Idx)
			begun.Accs, b.accs = append(begun.Accs, a), append(b.accs, a)
		}
		b.k.Stages = append(b.k.Stages, begun)
		next++
	}
	for i, e := range k.Exprs {
		switch e.Op {
		case OpLoad:
			num[i] = bufs[k.Access[e.Imm].Buf]
			continue
		case OpParam:
			num[i] = params[int(e.Imm)-k.Outer-k.Inner]
			continue
		case OpAcc, OpAccIdx:
			for len(b.accs) <= int(e.Imm) {
				begin()
			}
		}
		e.A, e.B, e.C = ref(e.A), ref(e.B), ref(e.C)
		num[i] = b.emit(e)
	}
	for next < len(k.Stages)-1 {
		begin()
	}
	for _, s := range k.Stages[next].Stores {
		stored = append(stored, num[s.Val])
	}
	return stored
}
