package gpucode

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// draw is a [loopir.OpDraw]. A vector of four elements is one Philox block.
func (g *gen) draw(x loopir.Expr) *gpuir.Node {
	words, part := g.drawBlock(x), loopir.DrawPart(x.Imm)
	if g.wide {
		return drawVector(words, part)
	}
	lane := g.let(gpuir.NRem(g.linear, gpuir.NInt(4)))
	pick := func(low, high *gpuir.Node, from int) *gpuir.Node {
		return gpuir.N(loopir.OpSelect, ir.U32, gpuir.NLt(lane, gpuir.NInt(from)), low, high)
	}
	word := func(n int) *gpuir.Node { return gpuir.NLane(words, n) }
	switch part {
	case loopir.DrawFirst:
		return pick(word(0), word(2), 2)
	case loopir.DrawSecond:
		return pick(word(1), word(3), 2)
	case loopir.DrawOdd:
		return gpuir.N(loopir.OpBitcast, ir.U32, gpuir.NRem(lane, gpuir.NInt(2)))
	}
	return pick(pick(word(0), word(1), 1), pick(word(2), word(3), 3), 2)
}

// drawVector is a part of the four elements of a block.
func drawVector(words *gpuir.Node, part loopir.DrawPart) *gpuir.Node {
	word := func(n int) *gpuir.Node { return gpuir.NLane(words, n) }
	number := func(n uint64) *gpuir.Node { return gpuir.NConst(ir.U32, n) }
	vector := func(w ...*gpuir.Node) *gpuir.Node {
		return &gpuir.Node{Op: gpuir.PVec, Type: ir.U32, Width: 4, Args: w}
	}
	switch part {
	case loopir.DrawFirst:
		return vector(word(0), word(0), word(2), word(2))
	case loopir.DrawSecond:
		return vector(word(1), word(1), word(3), word(3))
	case loopir.DrawOdd:
		return vector(number(0), number(1), number(0), number(1))
	}
	return words
}

// drawBlock is the four words of the current element's Philox block (Salmon et al., SC 2011). All draws from one stream
// share it.
func (g *gen) drawBlock(x loopir.Expr) *gpuir.Node {
	key := [2]int{x.B, x.C}
	blocks := g.drawn
	if g.slot != nil {
		blocks = g.slot.drawn
	}
	if n, ok := blocks[key]; ok {
		return n
	}
	number := g.linear
	if !g.wide {
		number = gpuir.NDiv(number, gpuir.NInt(4))
	}
	words := []*gpuir.Node{gpuir.N(loopir.OpBitcast, ir.U32, g.let(number)), gpuir.NConst(ir.U32, 0)}
	for _, e := range key {
		lo, hi := g.halves(e)
		words = append(words, lo, hi)
	}
	n := g.let(&gpuir.Node{Op: gpuir.PPhilox, Type: ir.U32, Width: 4, Args: words})
	blocks[key] = n
	return n
}

// numbersDrawsOnly reports that the stage uses the number of its element for nothing but draws.
func numbersDrawsOnly(k *loopir.Kernel, st *loopir.Stage, used []bool) bool {
	only := true
	at := func(e int) { only = only && (e < 0 || k.Exprs[e].Op != loopir.OpLinear) }
	for i, u := range used {
		if e := k.Exprs[i]; u && e.Op != loopir.OpDraw {
			at(e.A)
			at(e.B)
			at(e.C)
		}
	}
	st.Roots(at)
	return only
}
