package tile

import (
	"math"

	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/kernels/kir"
)

// 64-bit integers are dear on GPUs, divisions most of all; most I64 expressions
// are indices. This file works them in 32 bits where that is the same.

// small gives I64 expression e as I32 when its value is known to fit: index
// arithmetic, constants, widened I32. It is nil otherwise.
func (g *gen) small(e int) (n *kir.Node, nonNegative bool) {
	x := g.k.Exprs[e]
	if x.Type != ir.I64 {
		return nil, false
	}
	switch x.Op {
	case kir.OpConst:
		v := int64(x.Imm)
		if v < math.MinInt32 || v > math.MaxInt32 {
			return nil, false
		}
		return kir.NInt(int(v)), v >= 0
	case kir.OpIndex:
		return g.index[x.Imm], true
	case kir.OpLinear:
		return g.linear, true
	case kir.OpParam:
		if g.k.Params[x.Imm].Kind == kir.Size {
			return g.param(int(x.Imm)), true
		}
	case kir.OpCast:
		if g.k.Exprs[x.A].Type == ir.I32 {
			return g.expr(x.A), false
		}
	case kir.OpDiv, kir.OpRem:
		return g.smallQuotient(x)
	}
	return nil, false
}

// smallQuotient divides non-negative small values by a positive constant.
func (g *gen) smallQuotient(x kir.Expr) (*kir.Node, bool) {
	if c := g.k.Exprs[x.B]; c.Op != kir.OpConst || int64(c.Imm) <= 0 || int64(c.Imm) > math.MaxInt32 {
		return nil, false
	}
	a, ok := g.small(x.A)
	if !ok {
		return nil, false
	}
	b, _ := g.small(x.B)
	n := kir.NDiv(a, b)
	if x.Op == kir.OpRem {
		n = kir.NRem(a, b)
	}
	return g.let(n), true
}

// narrowed is x by way of 32 bits, or nil.
func (g *gen) narrowed(x kir.Expr) *kir.Node {
	if !g.o.I64 || x.A < 0 || g.k.Exprs[x.A].Type != ir.I64 {
		return nil
	}
	if x.Op.IsCompare() {
		a, _ := g.small(x.A)
		b, _ := g.small(x.B)
		if a != nil && b != nil {
			return kir.N(x.Op, ir.Bool, a, b)
		}
	}
	if x.Op == kir.OpDiv || x.Op == kir.OpRem {
		if n, ok := g.smallQuotient(x); ok {
			return kir.N(kir.OpCast, ir.I64, n)
		}
	}
	return nil
}

// narrow is the low 32 bits of I64 expression e as I32, computed in 32 bits as
// far as that is the same.
func (g *gen) narrow(e int) *kir.Node {
	x := g.k.Exprs[e]
	switch x.Op {
	case kir.OpAdd, kir.OpSub, kir.OpMul:
		a, b := g.narrow(x.A), g.narrow(x.B)
		switch x.Op {
		case kir.OpAdd:
			return kir.NAdd(a, b)
		case kir.OpMul:
			return kir.NMul(a, b)
		}
		return kir.NSub(a, b)
	case kir.OpSelect:
		return kir.N(kir.OpSelect, ir.I32, g.expr(x.A), g.narrow(x.B), g.narrow(x.C))
	case kir.OpConst:
		return kir.NConst(ir.I32, uint64(uint32(x.Imm)))
	case kir.OpParam:
		if g.k.Params[x.Imm].Kind != kir.Scalar {
			return g.param(int(x.Imm))
		}
	case kir.OpIndex:
		return g.index[x.Imm]
	case kir.OpLinear:
		return g.linear
	}
	n := g.expr(e)
	if n.Type == ir.I32 {
		return n
	}
	return g.let(kir.N(kir.OpCast, ir.I32, n))
}

// philoxBlock is the four words of a block, shared by the words that use it.
func (g *gen) philoxBlock(x kir.Expr) *kir.Node {
	key := [3]int{x.A, x.B, x.C}
	blocks := g.philox
	if g.slot != nil {
		blocks = g.slot.philox
	}
	if n, ok := blocks[key]; ok {
		return n
	}
	var words []*kir.Node
	for _, e := range key {
		lo, hi := g.halves(e)
		words = append(words, lo, hi)
	}
	n := g.let(&kir.Node{Op: kir.PPhilox, Type: ir.U32, Width: 4, Args: words})
	blocks[key] = n
	return n
}

// halves splits an I64 expression. Scalars keep all 64 bits also where I64 is worked in I32.
func (g *gen) halves(e int) (lo, hi *kir.Node) {
	x := g.k.Exprs[e]
	if x.Op == kir.OpConst {
		return kir.NConst(ir.U32, uint64(uint32(x.Imm))), kir.NConst(ir.U32, x.Imm>>32)
	}
	if x.Op == kir.OpParam && g.k.Params[x.Imm].Kind == kir.Scalar {
		half := func(h uint64) *kir.Node {
			return &kir.Node{Op: kir.PHalf, Type: ir.U32, Width: 1, Imm: x.Imm<<1 | h}
		}
		return half(0), half(1)
	}
	if n, nonNegative := g.small(e); nonNegative {
		return kir.N(kir.OpBitcast, ir.U32, n), kir.NConst(ir.U32, 0)
	}
	n := g.expr(e)
	if n.Type == ir.I64 {
		high := kir.N(kir.OpShr, ir.I64, n, kir.NConst(ir.I64, 32))
		return kir.N(kir.OpCast, ir.U32, n), kir.N(kir.OpCast, ir.U32, high)
	}
	return kir.N(kir.OpBitcast, ir.U32, n), kir.N(kir.OpBitcast, ir.U32, kir.N(kir.OpShr, ir.I32, n, kir.NInt(31)))
}
