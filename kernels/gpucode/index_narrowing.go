package gpucode

import (
	"math"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// 64-bit integers are slow on GPUs, divisions most of all, and most I64 expressions are indices. This file computes in
// 32 bits where the result is the same.

// small returns I64 expression e as I32 where its value is known to fit: index arithmetic, constants, widened I32. Else
// it returns nil.
func (g *gen) small(e int) (n *gpuir.Node, nonNegative bool) {
	x := g.k.Exprs[e]
	if x.Type != ir.I64 {
		return nil, false
	}
	switch x.Op {
	case loopir.OpConst:
		v := int64(x.Imm)
		if v < math.MinInt32 || v > math.MaxInt32 {
			return nil, false
		}
		return gpuir.NInt(int(v)), v >= 0
	case loopir.OpIndex:
		return g.index[x.Imm], true
	case loopir.OpLinear:
		return g.linear, true
	case loopir.OpParam:
		if g.k.Params[x.Imm].Kind == loopir.Size {
			return g.param(int(x.Imm)), true
		}
	case loopir.OpCast:
		if g.k.Exprs[x.A].Type == ir.I32 {
			return g.expr(x.A), false
		}
	case loopir.OpDiv, loopir.OpRem:
		return g.smallQuotient(x)
	}
	return nil, false
}

// smallQuotient divides a non-negative small value by a positive constant.
func (g *gen) smallQuotient(x loopir.Expr) (*gpuir.Node, bool) {
	if c := g.k.Exprs[x.B]; c.Op != loopir.OpConst || int64(c.Imm) <= 0 || int64(c.Imm) > math.MaxInt32 {
		return nil, false
	}
	a, ok := g.small(x.A)
	if !ok {
		return nil, false
	}
	b, _ := g.small(x.B)
	n := gpuir.NDiv(a, b)
	if x.Op == loopir.OpRem {
		n = gpuir.NRem(a, b)
	}
	return g.let(n), true
}

// narrowed is x computed in 32 bits; nil where that may differ.
func (g *gen) narrowed(x loopir.Expr) *gpuir.Node {
	if !g.o.I64 || x.A < 0 || g.k.Exprs[x.A].Type != ir.I64 {
		return nil
	}
	if x.Op.IsCompare() {
		a, _ := g.small(x.A)
		b, _ := g.small(x.B)
		if a != nil && b != nil {
			return gpuir.N(x.Op, ir.Bool, a, b)
		}
	}
	if x.Op == loopir.OpDiv || x.Op == loopir.OpRem {
		if n, ok := g.smallQuotient(x); ok {
			return gpuir.N(loopir.OpCast, ir.I64, n)
		}
	}
	return nil
}

// narrow is the low 32 bits of I64 expression e as I32, computed in 32 bits as far as the result is the same.
func (g *gen) narrow(e int) *gpuir.Node {
	x := g.k.Exprs[e]
	switch x.Op {
	case loopir.OpAdd, loopir.OpSub, loopir.OpMul:
		a, b := g.narrow(x.A), g.narrow(x.B)
		switch x.Op {
		case loopir.OpAdd:
			return gpuir.NAdd(a, b)
		case loopir.OpMul:
			return gpuir.NMul(a, b)
		}
		return gpuir.NSub(a, b)
	case loopir.OpSelect:
		return gpuir.N(loopir.OpSelect, ir.I32, g.expr(x.A), g.narrow(x.B), g.narrow(x.C))
	case loopir.OpConst:
		return gpuir.NConst(ir.I32, uint64(uint32(x.Imm)))
	case loopir.OpParam:
		if g.k.Params[x.Imm].Kind != loopir.Scalar {
			return g.param(int(x.Imm))
		}
	case loopir.OpIndex:
		return g.index[x.Imm]
	case loopir.OpLinear:
		return g.linear
	}
	n := g.expr(e)
	if n.Type == ir.I32 {
		return n
	}
	return g.let(gpuir.N(loopir.OpCast, ir.I32, n))
}

// halves splits an I64 expression into two words. Scalars keep all 64 bits even where I64 is computed in I32.
func (g *gen) halves(e int) (lo, hi *gpuir.Node) {
	x := g.k.Exprs[e]
	if x.Op == loopir.OpConst {
		return gpuir.NConst(ir.U32, uint64(uint32(x.Imm))), gpuir.NConst(ir.U32, x.Imm>>32)
	}
	if x.Op == loopir.OpParam && g.k.Params[x.Imm].Kind == loopir.Scalar {
		half := func(h uint64) *gpuir.Node {
			return &gpuir.Node{Op: gpuir.PHalf, Type: ir.U32, Width: 1, Imm: uint64(g.paramNumber(x))<<1 | h}
		}
		return half(0), half(1)
	}
	if n, nonNegative := g.small(e); nonNegative {
		return gpuir.N(loopir.OpBitcast, ir.U32, n), gpuir.NConst(ir.U32, 0)
	}
	n := g.expr(e)
	if n.Type == ir.I64 {
		high := gpuir.N(loopir.OpShr, ir.I64, n, gpuir.NConst(ir.I64, 32))
		return gpuir.N(loopir.OpCast, ir.U32, n), gpuir.N(loopir.OpCast, ir.U32, high)
	}
	return gpuir.N(loopir.OpBitcast, ir.U32, n), gpuir.N(loopir.OpBitcast, ir.U32, gpuir.N(loopir.OpShr, ir.I32, n,
		gpuir.NInt(31)))
}
