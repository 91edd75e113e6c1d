package gpucode

import (
	"math"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// draw writes the factors of dropout of the block at c0 to the scores' tile; launch.Attention.Dropout numbers them. One
// Philox block serves four keys of one query: a vector of the tile, or four elements of a column where rows are keys.
func (m *attention) draw(queries, c0 *gpuir.Node) {
	if !m.a.Dropout {
		return
	}
	perRow, items := m.t.Cols/4, m.t.Rows*m.t.Cols/4
	if m.swapped() {
		perRow = m.t.Cols
	}
	for first := 0; first < items; first += m.t.threads() {
		item := m.let(gpuir.NAdd(gpuir.NLocal(), gpuir.NInt(first)))
		one := func() {
			m.drawFour(queries, c0, m.let(gpuir.NDiv(item, gpuir.NInt(perRow))), m.let(gpuir.NRem(item, gpuir.NInt(perRow))))
		}
		if first+m.t.threads() <= items {
			one()
			continue
		}
		m.emit(gpuir.Stmt{Op: gpuir.SIf, A: gpuir.NLt(item, gpuir.NInt(items)), Body: m.nested(one)})
	}
}

// drawFour draws the factors of four keys: those of row r and vector c of the tile; or, where rows are keys, those of
// column c and the r-th four rows.
func (m *attention) drawFour(queries, c0, r, c *gpuir.Node) {
	query, fours, length := gpuir.NAdd(m.row0, r), gpuir.NAdd(gpuir.NDiv(c0, gpuir.NInt(4)), c), m.nrows
	if m.swapped() {
		query, fours, length = gpuir.NAdd(c0, c), gpuir.NAdd(gpuir.NDiv(m.row0, gpuir.NInt(4)), r), m.ncols
	}
	row := m.let(gpuir.NAdd(gpuir.NMul(m.headNumber(queries), length), query))
	perQuery := m.let(gpuir.NDiv(gpuir.NAdd(m.param(m.l.Keys), gpuir.NInt(3)), gpuir.NInt(4)))
	lo, hi := m.wideProduct(m.unsigned(row), m.unsigned(perQuery), m.unsigned(m.let(fours)))
	half := func(param int, h uint64) *gpuir.Node {
		return &gpuir.Node{Op: gpuir.PHalf, Type: ir.U32, Width: 1, Imm: uint64(param)<<1 | h}
	}
	drawOffset, seed := m.l.DrawOffset, m.l.Seed
	words := m.let(&gpuir.Node{Op: gpuir.PPhilox, Type: ir.U32, Width: 4,
		Args: []*gpuir.Node{lo, hi, half(drawOffset, 0), half(drawOffset, 1), half(seed, 0), half(seed, 1)}})
	rate, one := gpuir.NParam(m.l.Rate, ir.F32), gpuir.NFloat(ir.F32, 1)
	scale := m.let(gpuir.N(loopir.OpDiv, ir.F32, one, m.let(gpuir.NSub(one, rate))))
	var factor []*gpuir.Node
	for w := range 4 {
		top := gpuir.N(loopir.OpShr, ir.U32, gpuir.NLane(words, w), gpuir.NConst(ir.U32, 8))
		u := m.let(gpuir.NMul(gpuir.N(loopir.OpCast, ir.F32, top), gpuir.NFloat(ir.F32, math.Ldexp(1, -24))))
		factor = append(factor, m.let(gpuir.N(loopir.OpSelect, ir.F32, gpuir.NLt(u, rate), gpuir.NFloat(ir.F32, 0), scale)))
	}
	if !m.swapped() {
		at := m.let(gpuir.NAdd(gpuir.NMul(r, gpuir.NInt(m.scoreStride())), c))
		m.emit(gpuir.Stmt{Op: gpuir.SSharedSet, Ref: m.tile, A: at, B: gpuir.NVec4(factor...)})
		return
	}
	for w, f := range factor {
		below := gpuir.NAdd(gpuir.NMul(r, gpuir.NInt(4)), gpuir.NInt(w))
		at := m.let(gpuir.NAdd(gpuir.NMul(below, gpuir.NInt(4*m.scoreStride())), c))
		m.emit(gpuir.Stmt{Op: gpuir.SSharedSet, Ref: m.tile, A: at, B: f})
	}
}

func (m *attention) unsigned(x *gpuir.Node) *gpuir.Node {
	return m.let(gpuir.N(loopir.OpBitcast, ir.U32, x))
}

// wideProduct is x*y + z in 64 bits, from products of 16 bits.
func (m *attention) wideProduct(x, y, z *gpuir.Node) (lo, hi *gpuir.Node) {
	op := func(o loopir.Op, a, b *gpuir.Node) *gpuir.Node { return m.let(gpuir.N(o, ir.U32, a, b)) }
	low := func(v *gpuir.Node) *gpuir.Node { return op(loopir.OpAnd, v, gpuir.NConst(ir.U32, 0xffff)) }
	high := func(v *gpuir.Node) *gpuir.Node { return op(loopir.OpShr, v, gpuir.NConst(ir.U32, 16)) }
	add := func(a, b *gpuir.Node) *gpuir.Node { return op(loopir.OpAdd, a, b) }
	ll, lh, hl := op(loopir.OpMul, low(x), low(y)), op(loopir.OpMul, low(x), high(y)), op(loopir.OpMul, high(x), low(y))
	mid := add(high(ll), add(low(lh), low(hl)))
	hi = add(op(loopir.OpMul, high(x), high(y)), add(add(high(lh), high(hl)), high(mid)))
	product := op(loopir.OpMul, x, y)
	lo = add(product, z)
	carry := m.let(gpuir.N(loopir.OpSelect, ir.U32, gpuir.NLt(lo, product), gpuir.NConst(ir.U32, 1),
		gpuir.NConst(ir.U32, 0)))
	return lo, add(hi, carry)
}

// kept is x times the dropout factor of this thread's score (i, j), which is still in the scores' tile.
func (m *attention) kept(x *gpuir.Node, i, j int) *gpuir.Node {
	if !m.a.Dropout {
		return x
	}
	at := m.scorePlace(i, j)
	return m.let(gpuir.NMul(x, m.p.NSharedElement(m.tile, at)))
}
