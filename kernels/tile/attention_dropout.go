package tile

import (
	"math"

	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/kernels/kir"
)

// draw writes the factors of dropout of the block at c0 to the scores' tile; see kir.Attention.Dropout
// for their numbers. A Philox block serves four keys of one query: a vector of the tile or, where rows
// are keys, four elements of a column.
func (m *attention) draw(queries, c0 *kir.Node) {
	if !m.a.Dropout {
		return
	}
	perRow, items := m.t.Cols/4, m.t.Rows*m.t.Cols/4
	if m.swapped() {
		perRow = m.t.Cols
	}
	for first := 0; first < items; first += m.t.threads() {
		item := m.let(kir.NAdd(kir.NLocal(), kir.NInt(first)))
		one := func() {
			m.drawFour(queries, c0, m.let(kir.NDiv(item, kir.NInt(perRow))), m.let(kir.NRem(item, kir.NInt(perRow))))
		}
		if first+m.t.threads() <= items {
			one()
			continue
		}
		m.emit(kir.Stmt{Op: kir.SIf, A: kir.NLt(item, kir.NInt(items)), Body: m.nested(one)})
	}
}

// drawFour draws the factors of four keys: of row r of the tile and its vector c, or where rows are
// keys of column c and the r-th four rows.
func (m *attention) drawFour(queries, c0, r, c *kir.Node) {
	query, fours, length := kir.NAdd(m.row0, r), kir.NAdd(kir.NDiv(c0, kir.NInt(4)), c), m.nrows
	if m.swapped() {
		query, fours, length = kir.NAdd(c0, c), kir.NAdd(kir.NDiv(m.row0, kir.NInt(4)), r), m.ncols
	}
	row := m.let(kir.NAdd(kir.NMul(m.headNumber(queries), length), query))
	perQuery := m.let(kir.NDiv(kir.NAdd(m.param(m.l.Keys), kir.NInt(3)), kir.NInt(4)))
	lo, hi := m.wideProduct(m.unsigned(row), m.unsigned(perQuery), m.unsigned(m.let(fours)))
	half := func(param int, h uint64) *kir.Node {
		return &kir.Node{Op: kir.PHalf, Type: ir.U32, Width: 1, Imm: uint64(param)<<1 | h}
	}
	nonce, seed := m.l.Nonce, m.l.Seed
	words := m.let(&kir.Node{Op: kir.PPhilox, Type: ir.U32, Width: 4,
		Args: []*kir.Node{lo, hi, half(nonce, 0), half(nonce, 1), half(seed, 0), half(seed, 1)}})
	rate, one := kir.NParam(m.l.Rate, ir.F32), kir.NFloat(ir.F32, 1)
	scale := m.let(kir.N(kir.OpDiv, ir.F32, one, m.let(kir.NSub(one, rate))))
	var factor []*kir.Node
	for w := range 4 {
		top := kir.N(kir.OpShr, ir.U32, kir.NLane(words, w), kir.NConst(ir.U32, 8))
		u := m.let(kir.NMul(kir.N(kir.OpCast, ir.F32, top), kir.NFloat(ir.F32, math.Ldexp(1, -24))))
		factor = append(factor, m.let(kir.N(kir.OpSelect, ir.F32, kir.NLt(u, rate), kir.NFloat(ir.F32, 0), scale)))
	}
	if !m.swapped() {
		at := m.let(kir.NAdd(kir.NMul(r, kir.NInt(m.scoreStride())), c))
		m.emit(kir.Stmt{Op: kir.SSharedSet, Ref: m.tile, A: at, B: kir.NVec4(factor...)})
		return
	}
	for w, f := range factor {
		below := kir.NAdd(kir.NMul(r, kir.NInt(4)), kir.NInt(w))
		at := m.let(kir.NAdd(kir.NMul(below, kir.NInt(4*m.scoreStride())), c))
		m.emit(kir.Stmt{Op: kir.SSharedSet, Ref: m.tile, A: at, B: f})
	}
}

func (m *attention) unsigned(x *kir.Node) *kir.Node { return m.let(kir.N(kir.OpBitcast, ir.U32, x)) }

// wideProduct is x*y + z in 64 bits, by products of 16 bits.
func (m *attention) wideProduct(x, y, z *kir.Node) (lo, hi *kir.Node) {
	op := func(o kir.Op, a, b *kir.Node) *kir.Node { return m.let(kir.N(o, ir.U32, a, b)) }
	low := func(v *kir.Node) *kir.Node { return op(kir.OpAnd, v, kir.NConst(ir.U32, 0xffff)) }
	high := func(v *kir.Node) *kir.Node { return op(kir.OpShr, v, kir.NConst(ir.U32, 16)) }
	add := func(a, b *kir.Node) *kir.Node { return op(kir.OpAdd, a, b) }
	ll, lh, hl := op(kir.OpMul, low(x), low(y)), op(kir.OpMul, low(x), high(y)), op(kir.OpMul, high(x), low(y))
	mid := add(high(ll), add(low(lh), low(hl)))
	hi = add(op(kir.OpMul, high(x), high(y)), add(add(high(lh), high(hl)), high(mid)))
	product := op(kir.OpMul, x, y)
	lo = add(product, z)
	carry := m.let(kir.N(kir.OpSelect, ir.U32, kir.NLt(lo, product), kir.NConst(ir.U32, 1), kir.NConst(ir.U32, 0)))
	return lo, add(hi, carry)
}

// kept is x after dropout of this thread's score (i, j), whose factor is still in the scores' tile.
func (m *attention) kept(x *kir.Node, i, j int) *kir.Node {
	if !m.a.Dropout {
		return x
	}
	at := m.scorePlace(i, j)
	return m.let(kir.NMul(x, m.p.NSharedElement(m.tile, at)))
}
