package gpuir

import (
	"github.com/torchlette/torchlette/kernels/loopir"
)

import "github.com/torchlette/torchlette/ir"

// Constructors of GPU IR nodes. They fold constants, so that generators need no special cases for zeros and ones.

// NConst is a constant of type t from slot bits.
func NConst(t ir.DType, bits uint64) *Node {
	return &Node{Op: loopir.OpConst, Type: t, Width: 1, Imm: bits}
}

// NInt is an I32 constant.
func NInt(v int) *Node { return NConst(ir.I32, uint64(uint32(int32(v)))) }

// NFloat is a float constant of type t.
func NFloat(t ir.DType, v float64) *Node { return NConst(t, ir.EncodeFloat(t, v)) }

// NParam reads parameter p as t.
func NParam(p int, t ir.DType) *Node {
	return &Node{Op: loopir.OpParam, Type: t, Width: 1, Imm: uint64(p)}
}

// NVar reads variable v of p.
func (p *Program) NVar(v int) *Node {
	return &Node{Op: PVar, Type: p.Vars[v].Type, Width: p.Vars[v].Width, Imm: uint64(v)}
}

// NLocal is the thread number.
func NLocal() *Node { return &Node{Op: PLocalID, Type: ir.I32, Width: 1} }

// NGroup is the workgroup number.
func NGroup() *Node { return &Node{Op: PGroupID, Type: ir.I32, Width: 1} }

// NLoad reads a buffer as t: an element, or with width 4 a vector.
func NLoad(buf int, t ir.DType, width int, index *Node) *Node {
	return &Node{Op: PLoad, Type: t, Width: width, Imm: uint64(buf), Args: []*Node{index}}
}

// NShared reads entry index of workgroup array s.
func (p *Program) NShared(s int, index *Node) *Node {
	return &Node{Op: PShared, Type: p.Shared[s].Type, Width: p.Shared[s].Vec, Imm: uint64(s), Args: []*Node{index}}
}

// NSharedElement reads one element of workgroup array s, even where its entries are vectors.
func (p *Program) NSharedElement(s int, index *Node) *Node {
	return &Node{Op: PShared, Type: p.Shared[s].Type, Width: 1, Imm: uint64(s), Args: []*Node{index}}
}

// NShuffle is variable x of the thread whose number in the subgroup differs by exclusive or with mask.
func NShuffle(x *Node, mask int) *Node {
	return &Node{Op: PShuffle, Type: x.Type, Width: x.Width, Imm: uint64(mask), Args: []*Node{x}}
}

// NSplat widens x to four lanes; a wide node stays as it is.
func NSplat(x *Node) *Node {
	if x.Width == 4 {
		return x
	}
	return &Node{Op: PSplat, Type: x.Type, Width: 4, Args: []*Node{x}}
}

// NLane is one lane of x.
func NLane(x *Node, lane int) *Node {
	switch x.Op {
	case PSplat:
		return x.Args[0]
	case PVec:
		return x.Args[lane]
	}
	return &Node{Op: PLane, Type: x.Type, Width: 1, Imm: uint64(lane), Args: []*Node{x}}
}

// NVec4 makes a vector of four scalars.
func NVec4(x ...*Node) *Node {
	return &Node{Op: PVec, Type: x[0].Type, Width: 4, Args: x}
}

// N applies a pure operation with result type t. It splats scalar arguments where another is wide.
func N(op loopir.Op, t ir.DType, args ...*Node) *Node {
	width, constant := 1, true
	for _, a := range args {
		width = max(width, a.Width)
		constant = constant && a.Op == loopir.OpConst
	}
	if width == 4 {
		wide := make([]*Node, len(args))
		for i, a := range args {
			wide[i] = NSplat(a)
		}
		return &Node{Op: op, Type: t, Width: 4, Args: wide}
	}
	if constant {
		var v [3]uint64
		for i, a := range args {
			v[i] = a.Imm
		}
		return NConst(t, loopir.EvalOp(op, t, args[0].Type, 0, v[0], v[1], v[2]))
	}
	return &Node{Op: op, Type: t, Width: 1, Args: args}
}

// NNarrow is x rounded as a store in t rounds it.
func NNarrow(t ir.DType, x *Node) *Node {
	if t != ir.F16 && t != ir.BF16 {
		return x
	}
	return &Node{Op: loopir.OpNarrow, Type: ir.F32, Width: x.Width, Imm: uint64(t), Args: []*Node{x}}
}

func isConst(n *Node, v int64) bool {
	return n.Op == loopir.OpConst && n.Imm == ir.EncodeInt(n.Type, v)
}

// NAdd is x+y; it drops integer zeros.
func NAdd(x, y *Node) *Node {
	if !x.Type.IsFloat() {
		if isConst(x, 0) {
			return y
		}
		if isConst(y, 0) {
			return x
		}
	}
	return N(loopir.OpAdd, x.Type, x, y)
}

// NSub is x-y.
func NSub(x, y *Node) *Node { return N(loopir.OpSub, x.Type, x, y) }

// NMul is x*y; it drops integer zeros and ones.
func NMul(x, y *Node) *Node {
	if !x.Type.IsFloat() {
		switch {
		case isConst(x, 1):
			return y
		case isConst(y, 1):
			return x
		case isConst(x, 0), isConst(y, 0):
			return NConst(x.Type, 0)
		}
	}
	return N(loopir.OpMul, x.Type, x, y)
}

// NDiv is x/y of non-negative I32.
func NDiv(x, y *Node) *Node { return nIndex(PIndexDiv, loopir.OpDiv, x, y) }

// NRem is x%y of non-negative I32.
func NRem(x, y *Node) *Node { return nIndex(PIndexRem, loopir.OpRem, x, y) }

func nIndex(op, pure loopir.Op, x, y *Node) *Node {
	if isConst(y, 1) {
		if pure == loopir.OpDiv {
			return x
		}
		return NInt(0)
	}
	if x.Op == loopir.OpConst && y.Op == loopir.OpConst {
		return N(pure, ir.I32, x, y)
	}
	return &Node{Op: op, Type: ir.I32, Width: 1, Args: []*Node{x, y}}
}

// NLt is x < y.
func NLt(x, y *Node) *Node { return N(loopir.OpLt, ir.Bool, x, y) }

// NAnd is the bool and; it drops constants.
func NAnd(x, y *Node) *Node {
	switch {
	case x.Op == loopir.OpConst && x.Imm != 0:
		return y
	case y.Op == loopir.OpConst && y.Imm != 0:
		return x
	}
	return N(loopir.OpAnd, ir.Bool, x, y)
}

// NTrue is the bool constant true.
func NTrue() *Node { return NConst(ir.Bool, 1) }
