package wgsl

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

func (w *writer) expr(n *gpuir.Node) string {
	switch n.Op {
	case loopir.OpConst:
		return w.constant(n.Type, n.Imm)
	case loopir.OpParam:
		return w.param(n)
	case gpuir.PHalf:
		p := n.Imm >> 1
		if n.Imm&1 != 0 {
			return fmt.Sprintf("P.p%dh", p)
		}
		return fmt.Sprintf("P.p%d", p)
	case gpuir.PVar:
		return fmt.Sprintf("v%d", n.Imm)
	case gpuir.PLocalID:
		return "lid"
	case gpuir.PGroupID:
		return "gid"
	case gpuir.PLoad:
		return w.load(n)
	case gpuir.PShared:
		s := w.sharedPlace(int(n.Imm), w.expr(n.Args[0]), n.Width)
		if n.Type == ir.Bool {
			return "(" + s + " != 0u)"
		}
		return s
	}
	args := make([]string, len(n.Args))
	for i, a := range n.Args {
		args[i] = w.expr(a)
	}
	switch n.Op {
	case gpuir.PSplat, gpuir.PVec:
		return fmt.Sprintf("%s(%s)", typeName(n.Type, 4), strings.Join(args, ", "))
	case gpuir.PLane:
		return args[0] + "." + string("xyzw"[n.Imm])
	case gpuir.PIndexDiv:
		return fmt.Sprintf("i32(u32(%s) / u32(%s))", args[0], args[1])
	case gpuir.PIndexRem:
		return fmt.Sprintf("i32(u32(%s) %% u32(%s))", args[0], args[1])
	case gpuir.PShuffle:
		return w.shuffle(n, args[0])
	case gpuir.PPhilox:
		return fmt.Sprintf("%s(vec4<u32>(%s), vec2<u32>(%s))", w.philox(), strings.Join(args[:4], ", "),
			strings.Join(args[4:], ", "))
	case loopir.OpCast:
		return w.cast(n, args[0])
	case loopir.OpNarrow:
		return w.rounded(n, args[0])
	}
	return w.operation(n, args)
}

func (w *writer) param(n *gpuir.Node) string {
	p := w.p.Params[n.Imm]
	name := fmt.Sprintf("P.p%d", n.Imm)
	switch {
	case p.Kind != loopir.Scalar:
		if n.Type == ir.I64 {
			return "i64(" + name + ")"
		}
		return name
	case p.Type == ir.Bool:
		return "(" + name + " != 0u)"
	case p.Type == ir.I64 && n.Type == ir.I64:
		return fmt.Sprintf("bitcast<i64>(u64(%s) | (u64(%sh) << 32u))", name, name)
	case p.Type == ir.I64:
		return "bitcast<i32>(" + name + ")"
	}
	return name
}

// constant prints slot bits. WGSL has no literals for infinities and NaN, and evaluates bit casts of constants early,
// so these go through a function.
func (w *writer) constant(t ir.DType, bits uint64) string {
	switch t {
	case ir.Bool:
		return strconv.FormatBool(bits != 0)
	case ir.U32:
		return strconv.FormatUint(bits, 10) + "u"
	case ir.I32:
		return intLiteral(int64(int32(bits)), math.MinInt32, "i")
	case ir.I64:
		return intLiteral(int64(bits), math.MinInt64, "li")
	case ir.F32:
		f := float64(math.Float32frombits(uint32(bits)))
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Sprintf("%s(%#xu)", w.helper("from_bits", ir.F32, 1), uint32(bits))
		}
		s := strconv.FormatFloat(math.Abs(f), 'g', -1, 32) + "f"
		if math.Signbit(f) {
			return "(-" + s + ")"
		}
		return s
	}
	return w.fail("constant of type %v", t)
}

func intLiteral(v, lowest int64, suffix string) string {
	switch {
	case v == lowest:
		return fmt.Sprintf("(-%d%s - 1%s)", -(v + 1), suffix, suffix)
	case v < 0:
		return fmt.Sprintf("(-%d%s)", -v, suffix)
	}
	return strconv.FormatInt(v, 10) + suffix
}

func (w *writer) load(n *gpuir.Node) string {
	buf := int(n.Imm)
	b, f := w.p.Bufs[buf], w.bufs[buf]
	at := w.expr(n.Args[0])
	wide := n.Width == 4
	if f.packed {
		return w.loadPacked(n, b.Type, f, at)
	}
	s := w.place(buf, at, wide)
	if f.atomic {
		return w.fail("load from atomic buffer %d", buf)
	}
	switch b.Type {
	case ir.Bool:
		return fmt.Sprintf("(%s != %s(0u))", s, typeName(ir.U32, n.Width))
	case ir.F16:
		return fmt.Sprintf("%s(%s)", typeName(ir.F32, n.Width), s)
	case ir.U8, ir.U16: // a word holds a result that has not wrapped yet
		_, most := ir.Limits(b.Type)
		return fmt.Sprintf("(%s & %s(%di))", s, typeName(ir.I32, n.Width), most)
	case ir.I8, ir.I16: // a word holds a result that has not wrapped yet; the sign is that of the low bits
		return fmt.Sprintf("extractBits(%s, 0u, %du)", s, 8*b.Type.Size())
	case ir.I64:
		if w.o.I64 && n.Type == ir.I32 {
			return "i32(" + s + ")"
		}
		if !w.o.I64 && n.Type == ir.I64 {
			return w.fail("int64 arithmetic on a device without it")
		}
	}
	return s
}

func (w *writer) loadPacked(n *gpuir.Node, t ir.DType, f bufForm, at string) string {
	buf := fmt.Sprintf("b%d", n.Imm)
	if n.Width == 4 {
		word := fmt.Sprintf("%s[%s]", buf, at)
		if t == ir.F16 {
			return fmt.Sprintf("vec4<f32>(unpack2x16float(%s.x), unpack2x16float(%s.y))", word, word)
		}
		return fmt.Sprintf("bitcast<vec4<f32>>(vec4<u32>(%s.x << 16u, %s.x & 0xffff0000u, %s.y << 16u, %s.y & 0xffff0000u))",
			word, word, word, word)
	}
	word := fmt.Sprintf("%s[%s >> 1u]", buf, at)
	switch {
	case f.vec == 4:
		word = fmt.Sprintf("%s[%s >> 2u][(%s >> 1u) & 1i]", buf, at, at)
	case f.atomic:
		word = fmt.Sprintf("atomicLoad(&%s[%s >> 1u])", buf, at)
	}
	return w.halfValue(t, word, at)
}

// halfValue is the float in the half of word that holds element number at.
func (w *writer) halfValue(t ir.DType, word, at string) string {
	if t == ir.F16 {
		return fmt.Sprintf("unpack2x16float(%s)[%s & 1i]", word, at)
	}
	return fmt.Sprintf("bitcast<f32>((%s >> (16u * u32(%s & 1i))) << 16u)", word, at)
}

func (w *writer) halfBits(t ir.DType) string {
	if t == ir.F16 {
		return w.helper("half_bits", ir.F32, 1)
	}
	return w.helper("brain_bits", ir.F32, 1)
}

// rounded is a value as a store in a half type leaves it. The bits are computed with integers, also where there are
// halves: NVIDIA's compiler takes f32(f16(x)) for x, and naga knows no bitcast of halves.
func (w *writer) rounded(n *gpuir.Node, a string) string {
	t := ir.DType(n.Imm)
	if n.Width == 4 {
		lane := func(c string) string { return w.roundedLane(t, a+"."+c) }
		return fmt.Sprintf("vec4<f32>(%s, %s, %s, %s)", lane("x"), lane("y"), lane("z"), lane("w"))
	}
	return w.roundedLane(t, a)
}

func (w *writer) roundedLane(t ir.DType, a string) string {
	bits := fmt.Sprintf("%s(%s)", w.halfBits(t), a)
	if t == ir.F16 {
		return fmt.Sprintf("unpack2x16float(%s).x", bits)
	}
	return fmt.Sprintf("bitcast<f32>(%s << 16u)", bits)
}

// shuffle: WGSL has no shuffle of bool, and drivers need not have one of 64 bits.
func (w *writer) shuffle(n *gpuir.Node, a string) string {
	switch n.Type {
	case ir.Bool:
		return fmt.Sprintf("(subgroupShuffleXor(u32(%s), %du) != 0u)", a, n.Imm)
	case ir.I64:
		return fmt.Sprintf("%s(%s, %du)", w.helper("shuffle_xor", ir.I64, 1), a, n.Imm)
	}
	return fmt.Sprintf("subgroupShuffleXor(%s, %du)", a, n.Imm)
}

func (w *writer) cast(n *gpuir.Node, a string) string {
	from, to := n.Args[0].Type, n.Type
	t := typeName(to, n.Width)
	switch {
	case to == ir.Bool:
		return notEqual(from, a, fmt.Sprintf("%s(%s)", typeName(from, n.Width), zero(from)))
	case from == ir.Bool && to == ir.I64:
		return fmt.Sprintf("%s(%s(%s))", t, typeName(ir.I32, n.Width), a)
	case from == ir.U32 && to == ir.I64:
		// naga extends the sign of a u32 here.
		return fmt.Sprintf("%s(%s(%s))", t, strings.Replace(t, "i64", "u64", 1), a)
	}
	return fmt.Sprintf("%s(%s)", t, a)
}

// notEqual is true where an operand is NaN. naga compiles != of floats to an ordered comparison, which is false there;
// its == is right.
func notEqual(t ir.DType, a, b string) string {
	if t == ir.F32 {
		return fmt.Sprintf("(!(%s == %s))", a, b)
	}
	return fmt.Sprintf("(%s != %s)", a, b)
}

func zero(t ir.DType) string {
	if t == ir.F32 {
		return "0.0"
	}
	return "0"
}

// infix are the operations that WGSL spells the same for every type they are defined on.
var infix = map[loopir.Op]string{
	loopir.OpAdd: "+", loopir.OpSub: "-", loopir.OpMul: "*", loopir.OpAnd: "&", loopir.OpOr: "|",
	loopir.OpEq: "==", loopir.OpLt: "<", loopir.OpLe: "<=",
}

// builtin are the functions taken from WGSL unless Options.Poly names them.
var builtin = map[loopir.Op]struct {
	name string
	poly Func
}{
	loopir.OpAbs: {"abs", 0}, loopir.OpFma: {"fma", 0}, loopir.OpFloor: {"floor", 0}, loopir.OpCeil: {"ceil", 0},
	loopir.OpRound: {"round", 0}, loopir.OpTrunc: {"trunc", 0}, loopir.OpSqrt: {"sqrt", FuncSqrt},
	loopir.OpExp: {"exp", FuncExp}, loopir.OpLog: {"log", FuncLog}, loopir.OpSin: {"sin", FuncSin},
	loopir.OpCos: {"cos", FuncCos},
}

func (w *writer) operation(n *gpuir.Node, a []string) string {
	t := n.Args[0].Type
	call := func(name string) string { return fmt.Sprintf("%s(%s)", name, strings.Join(a, ", ")) }
	own := func(name string) string { return call(w.helper(name, t, n.Width)) }
	if s, ok := infix[n.Op]; ok {
		return fmt.Sprintf("(%s %s %s)", a[0], s, a[1])
	}
	if b, ok := builtin[n.Op]; ok {
		switch {
		case t == ir.U32 && n.Op == loopir.OpAbs:
			return a[0]
		case w.o.Poly&b.poly != 0:
			return own("our_" + b.name)
		}
		return call(b.name)
	}
	switch n.Op {
	case loopir.OpNe:
		return notEqual(t, a[0], a[1])
	case loopir.OpDiv:
		switch {
		case t != ir.F32:
			return own("div_int")
		case w.o.Poly&FuncDiv != 0:
			return own("our_div")
		}
		return fmt.Sprintf("(%s / %s)", a[0], a[1])
	case loopir.OpRem:
		if t == ir.F32 {
			return own("rem_float")
		}
		return own("rem_int")
	case loopir.OpMin, loopir.OpMax:
		if t == ir.F32 {
			return own(n.Op.String() + "_nan")
		}
		return call(n.Op.String())
	case loopir.OpNeg:
		if t == ir.U32 {
			return fmt.Sprintf("(~%s + %s(1u))", a[0], typeName(t, n.Width))
		}
		return fmt.Sprintf("(-%s)", a[0])
	case loopir.OpPow:
		if t == ir.F32 {
			return own("pow_float")
		}
		return w.lanes(n, a, "pow_int")
	case loopir.OpLogAdd:
		return own("log_add")
	case loopir.OpSelect:
		return fmt.Sprintf("select(%s, %s, %s)", a[2], a[1], a[0])
	case loopir.OpXor:
		if t == ir.Bool {
			return fmt.Sprintf("(%s != %s)", a[0], a[1])
		}
		return fmt.Sprintf("(%s ^ %s)", a[0], a[1])
	case loopir.OpNot:
		if t == ir.Bool {
			return fmt.Sprintf("(!%s)", a[0])
		}
		return fmt.Sprintf("(~%s)", a[0])
	case loopir.OpShl, loopir.OpShr:
		return w.shift(n, a)
	case loopir.OpTanh:
		if w.o.Poly&FuncTanh != 0 {
			return own("our_tanh")
		}
		return own("tanh_safe")
	case loopir.OpErf:
		return own("erf")
	case loopir.OpIsNaN:
		return own("is_nan")
	case loopir.OpBitcast:
		return fmt.Sprintf("bitcast<%s>(%s)", typeName(n.Type, n.Width), a[0])
	}
	return w.fail("operation %v", n.Op)
}

// lanes applies a scalar helper to each lane.
func (w *writer) lanes(n *gpuir.Node, a []string, name string) string {
	f := w.helper(name, n.Args[0].Type, 1)
	if n.Width == 1 {
		return fmt.Sprintf("%s(%s)", f, strings.Join(a, ", "))
	}
	parts := make([]string, 4)
	for i := range parts {
		args := make([]string, len(a))
		for j := range a {
			args[j] = a[j] + "." + string("xyzw"[i])
		}
		parts[i] = fmt.Sprintf("%s(%s)", f, strings.Join(args, ", "))
	}
	return fmt.Sprintf("%s(%s)", typeName(n.Type, 4), strings.Join(parts, ", "))
}

// shift: WGSL takes the count modulo the width; the loop IR shifts everything out.
func (w *writer) shift(n *gpuir.Node, a []string) string {
	op := "<<"
	if n.Op == loopir.OpShr {
		op = ">>"
	}
	c := n.Args[1]
	if c.Op == gpuir.PSplat {
		c = c.Args[0]
	}
	if c.Op == loopir.OpConst && c.Imm < uint64(8*n.Type.Size()) {
		return fmt.Sprintf("(%s %s %s(%du))", a[0], op, typeName(ir.U32, n.Width), c.Imm)
	}
	return fmt.Sprintf("%s(%s, %s)", w.helper(n.Op.String()+"_int", n.Type, n.Width), a[0], a[1])
}
