package tile

import "github.com/torchlette/torchlette/kernels/kir"

// stages reports that results go through workgroup memory on their way to C: where its rows do not begin at
// vectors, so that neighbours in a row are stored by neighbouring threads. A thread's own four columns
// would be four stores, each of which touches every sector of the row.
// The room is that of B's tiles, which nobody reads any more.
func (m *gemm) stages() bool {
	o := m.t
	return !o.VecC && !m.g.CStrided && !o.Rolled && o.BM/o.TM*m.b.row <= 4*m.p.Shared[m.b.array].Len
}

// stagedEpilogue is the epilogue by way of workgroup memory. In each round every thread hands over one of its rows.
func (m *gemm) stagedEpilogue(batch []*kir.Node) {
	o := m.t
	base, width := m.result(batch)
	perTile := o.WM / o.TM // rows of a round in the tile of a group of 32
	tile, lane := kir.NDiv(m.rows[0], kir.NInt(o.WM)), kir.NDiv(kir.NRem(m.rows[0], kir.NInt(o.WM)), kir.NInt(4))
	mine := m.let(kir.NMul(kir.NAdd(kir.NMul(tile, kir.NInt(perTile)), lane), kir.NInt(m.b.row)))
	var bias []*kir.Node
	for _, col := range m.cols {
		bias = append(bias, m.bias(m.let(kir.NAdd(m.n0, col))))
	}
	for r := range o.TM {
		if r > 0 {
			m.barrier() // until the round before is read
		}
		m.nestedInline(func() {
			for j, col := range m.cols {
				m.emit(kir.Stmt{Op: kir.SSharedSet, Ref: m.b.array, A: m.let(kir.NDiv(kir.NAdd(mine, col), kir.NInt(4))), B: m.biased(m.p.NVar(m.acc4[r][j]), bias[j])})
			}
		})
		m.barrier()
		offset := 4*perTile*(r/4) + r%4 // of a thread's row number r from its first
		for i := range o.BM / o.TM * o.BN / o.threads() {
			m.nestedInline(func() { m.storeStaged(i, offset, base, width) })
		}
	}
}

// storeStaged stores element i of this thread's share of a round, whose rows lie at that offset.
func (m *gemm) storeStaged(i, offset int, base, width *kir.Node) {
	o := m.t
	perTile := kir.NInt(o.WM / o.TM)
	e := m.let(kir.NAdd(kir.NLocal(), kir.NInt(i*o.threads())))
	s, c := m.let(kir.NDiv(e, kir.NInt(o.BN))), m.let(kir.NRem(e, kir.NInt(o.BN)))
	row := kir.NAdd(kir.NMul(kir.NDiv(s, perTile), kir.NInt(o.WM)), kir.NMul(kir.NRem(s, perTile), kir.NInt(4)))
	row = m.let(kir.NAdd(kir.NAdd(m.m0, row), kir.NInt(offset)))
	col := m.let(kir.NAdd(m.n0, c))
	body := m.nested(func() {
		v := m.let(m.p.NSharedElement(m.b.array, m.let(kir.NAdd(kir.NMul(s, kir.NInt(m.b.row)), c))))
		at := m.let(kir.NAdd(kir.NAdd(base, kir.NMul(row, width)), col))
		m.emit(kir.Stmt{Op: kir.SStore, Ref: m.l.BufC, A: at, B: m.mapped(at, v, 1)})
	})
	m.emit(kir.Stmt{Op: kir.SIf, A: kir.NAnd(kir.NLt(row, m.param(m.l.M)), kir.NLt(col, m.param(m.l.N))), Body: body})
}
