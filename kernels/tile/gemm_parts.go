package tile

import (
	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/kernels/kir"
)

// joinThreads is the workgroup of the pass that adds up the parts of a product; a
// workgroup works on one row of C.
const joinThreads = 64

// divideK sets this workgroup's range of k and gives its number among those of its part.
func (m *gemm) divideK() *kir.Node {
	o := m.t
	k := m.param(m.l.K)
	m.k0, m.k1 = kir.NInt(0), k
	if o.Parts <= 1 {
		return kir.NGroup()
	}
	m.p.Repeat = int64(o.Parts)
	m.part = m.let(kir.NRem(kir.NGroup(), kir.NInt(o.Parts)))
	whole := kir.NInt(o.Parts * o.BK) // parts are of whole blocks
	each := m.let(kir.NMul(kir.NDiv(kir.NAdd(k, kir.NSub(whole, kir.NInt(1))), whole), kir.NInt(o.BK)))
	m.k0 = m.let(kir.NMul(m.part, each))
	m.k1 = m.let(kir.N(kir.OpMin, ir.I32, k, kir.NAdd(m.k0, each)))
	return m.let(kir.NDiv(kir.NGroup(), kir.NInt(o.Parts)))
}

// rowVectors is the length of a row of C in scratch memory, which is padded to vectors.
func (m *gemm) rowVectors() *kir.Node {
	return m.let(kir.NDiv(kir.NAdd(m.param(m.l.N), kir.NInt(3)), kir.NInt(4)))
}

// leaveParts stores the sums of this part of K: [part][batch][row] of vectors of columns.
func (m *gemm) leaveParts(batch []*kir.Node) {
	l, scratch := m.l, len(m.p.Bufs)-1
	count := kir.NInt(1)
	for _, p := range l.Batch {
		count = kir.NMul(count, m.param(p))
	}
	matrix := m.let(kir.NMul(kir.NAdd(kir.NMul(m.part, count), m.flat(batch)), m.param(l.M)))
	width := m.rowVectors()
	for j := range m.cols {
		col := m.let(kir.NAdd(m.n0, m.cols[j]))
		for r := range m.t.TM {
			row := m.let(kir.NAdd(m.m0, kir.NAdd(m.rows[r/4], kir.NInt(r%4))))
			body := m.nested(func() {
				at := kir.NAdd(kir.NMul(kir.NAdd(matrix, row), width), kir.NDiv(col, kir.NInt(4)))
				m.emit(kir.Stmt{Op: kir.SStore, Ref: scratch, A: m.let(at), B: m.p.NVar(m.acc4[r][j])})
			})
			inside := kir.NAnd(kir.NLt(row, m.param(l.M)), kir.NLt(col, m.param(l.N)))
			m.emit(kir.Stmt{Op: kir.SIf, A: inside, Body: body})
		}
	}
}

// joinParts is the second pass: four columns a thread.
func (m *gemm) joinParts() {
	l, scratch := m.l, len(m.p.Bufs)-1
	rows := append(append([]int(nil), l.Batch...), l.M)
	m.p.Groups = []kir.GroupFactor{{Params: rows, Per: 1}, {Params: []int{l.N}, Per: 4 * joinThreads}}
	span := kir.NInt(4 * joinThreads)
	across := m.let(kir.NDiv(kir.NAdd(m.param(l.N), kir.NInt(4*joinThreads-1)), span))
	flat := m.let(kir.NDiv(kir.NGroup(), across)) // row of the batch's matrices, one below the other
	col := m.let(kir.NAdd(kir.NMul(kir.NRem(kir.NGroup(), across), span), kir.NMul(kir.NLocal(), kir.NInt(4))))
	body := m.nested(func() {
		width := m.rowVectors()
		all := kir.NInt(1)
		for _, p := range rows {
			all = kir.NMul(all, m.param(p))
		}
		stride := m.let(kir.NMul(all, width))
		at := m.let(kir.NAdd(kir.NMul(flat, width), kir.NDiv(col, kir.NInt(4))))
		load := func(part int) *kir.Node {
			return m.let(kir.NLoad(scratch, m.work(), 4, kir.NAdd(at, kir.NMul(stride, kir.NInt(part)))))
		}
		var parts []*kir.Node
		for part := range m.t.Parts {
			parts = append(parts, load(part))
		}
		sum := parts[0]
		for _, v := range parts[1:] {
			sum = m.let(kir.NAdd(sum, v))
		}
		base, cm := m.result(m.batchIndex(m.let(kir.NDiv(flat, m.param(l.M)))))
		row := m.let(kir.NRem(flat, m.param(l.M)))
		m.storeRow(m.let(kir.NAdd(base, kir.NMul(row, cm))), col, m.places(col), m.biased(sum, m.bias(col)))
		m.joinSums(flat, col)
	})
	m.emit(kir.Stmt{Op: kir.SIf, A: kir.NLt(col, m.param(l.N)), Body: body})
}
