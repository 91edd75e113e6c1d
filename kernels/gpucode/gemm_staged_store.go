package gpucode

import "github.com/torchlette/torchlette/kernels/gpuir"

// stages reports that results go through workgroup memory on their way to C: where its rows do not begin at
// vectors, so that neighbours in a row are stored by neighbouring threads. A thread's own four columns
// would be four stores, each of which touches every sector of the row.
// The room is that of B's tiles, which nobody reads any more.
func (m *gemm) stages() bool {
	o := m.t
	return !o.VecC && !m.g.CStrided && !o.Rolled && o.BM/o.TM*m.b.row <= 4*m.p.Shared[m.b.array].Len
}

// stagedEpilogue is the epilogue by way of workgroup memory. In each round every thread hands over one of its rows.
func (m *gemm) stagedEpilogue(batch []*gpuir.Node) {
	o := m.t
	base, width := m.result(batch)
	first := m.let(gpuir.NMul(m.flat(batch), m.param(m.l.M)))
	perTile := o.WM / o.TM // rows of a round in the tile of a group of 32
	tile, lane := gpuir.NDiv(m.rows[0], gpuir.NInt(o.WM)), gpuir.NDiv(gpuir.NRem(m.rows[0], gpuir.NInt(o.WM)),
		gpuir.NInt(4))
	mine := m.let(gpuir.NMul(gpuir.NAdd(gpuir.NMul(tile, gpuir.NInt(perTile)), lane), gpuir.NInt(m.b.row)))
	var bias []*gpuir.Node
	for _, col := range m.cols {
		bias = append(bias, m.bias(m.let(gpuir.NAdd(m.n0, col))))
	}
	for r := range o.TM {
		if r > 0 {
			m.barrier() // until the round before is read
		}
		m.nestedInline(func() {
			for j, col := range m.cols {
				m.emit(gpuir.Stmt{Op: gpuir.SSharedSet, Ref: m.b.array, A: m.let(gpuir.NDiv(gpuir.NAdd(mine, col), gpuir.NInt(4))),
					B: m.biased(m.p.NVar(m.acc4[r][j]), bias[j])})
			}
		})
		m.barrier()
		offset := 4*perTile*(r/4) + r%4 // of a thread's row number r from its first
		for i := range o.BM / o.TM * o.BN / o.threads() {
			m.nestedInline(func() { m.storeStaged(i, offset, base, width, first) })
		}
	}
}

// storeStaged stores element i of this thread's share of a round, whose rows lie at that offset; first is
// the number of the matrix's first row.
func (m *gemm) storeStaged(i, offset int, base, width, first *gpuir.Node) {
	o := m.t
	perTile := gpuir.NInt(o.WM / o.TM)
	e := m.let(gpuir.NAdd(gpuir.NLocal(), gpuir.NInt(i*o.threads())))
	s, c := m.let(gpuir.NDiv(e, gpuir.NInt(o.BN))), m.let(gpuir.NRem(e, gpuir.NInt(o.BN)))
	row := gpuir.NAdd(gpuir.NMul(gpuir.NDiv(s, perTile), gpuir.NInt(o.WM)), gpuir.NMul(gpuir.NRem(s, perTile),
		gpuir.NInt(4)))
	row = m.let(gpuir.NAdd(gpuir.NAdd(m.m0, row), gpuir.NInt(offset)))
	col := m.let(gpuir.NAdd(m.n0, c))
	body := m.nested(func() {
		v := m.let(m.p.NSharedElement(m.b.array, m.let(gpuir.NAdd(gpuir.NMul(s, gpuir.NInt(m.b.row)), c))))
		at := m.let(gpuir.NAdd(gpuir.NAdd(base, gpuir.NMul(row, width)), col))
		m.store(spot{at: at, row: gpuir.NAdd(first, row), col: col}, v, 1)
	})
	m.emit(gpuir.Stmt{Op: gpuir.SIf, A: gpuir.NAnd(gpuir.NLt(row, m.param(m.l.M)), gpuir.NLt(col, m.param(m.l.N))),
		Body: body})
}
