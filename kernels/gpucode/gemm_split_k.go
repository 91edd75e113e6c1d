package gpucode

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// joinThreads is the number of threads of a workgroup in the pass that adds up the parts; a workgroup works on one row
// of C.
const joinThreads = 64

// divideK sets this workgroup's range of k and returns its number among the workgroups of its part.
func (m *gemm) divideK() *gpuir.Node {
	o := m.t
	k := m.param(m.l.K)
	m.k0, m.k1 = gpuir.NInt(0), k
	if o.Parts <= 1 {
		return gpuir.NGroup()
	}
	m.p.Repeat = int64(o.Parts)
	m.part = m.let(gpuir.NRem(gpuir.NGroup(), gpuir.NInt(o.Parts)))
	whole := gpuir.NInt(o.Parts * o.BK) // parts are of whole blocks
	each := m.let(gpuir.NMul(gpuir.NDiv(gpuir.NAdd(k, gpuir.NSub(whole, gpuir.NInt(1))), whole), gpuir.NInt(o.BK)))
	m.k0 = m.let(gpuir.NMul(m.part, each))
	m.k1 = m.let(gpuir.N(loopir.OpMin, ir.I32, k, gpuir.NAdd(m.k0, each)))
	return m.let(gpuir.NDiv(gpuir.NGroup(), gpuir.NInt(o.Parts)))
}

// rowVectors is the length of a row of C in scratch memory, padded to vectors.
func (m *gemm) rowVectors() *gpuir.Node {
	return m.let(gpuir.NDiv(gpuir.NAdd(m.param(m.l.N), gpuir.NInt(3)), gpuir.NInt(4)))
}

// storeParts stores the sums of this part of K: [part][batch][row] of vectors of columns.
func (m *gemm) storeParts(batch []*gpuir.Node) {
	l, scratch := m.l, len(m.p.Bufs)-1
	count := gpuir.NInt(1)
	for _, p := range l.Batch {
		count = gpuir.NMul(count, m.param(p))
	}
	matrix := m.let(gpuir.NMul(gpuir.NAdd(gpuir.NMul(m.part, count), m.flat(batch)), m.param(l.M)))
	width := m.rowVectors()
	for j := range m.cols {
		col := m.let(gpuir.NAdd(m.n0, m.cols[j]))
		for r := range m.t.TM {
			row := m.let(gpuir.NAdd(m.m0, gpuir.NAdd(m.rows[r/4], gpuir.NInt(r%4))))
			body := m.nested(func() {
				at := gpuir.NAdd(gpuir.NMul(gpuir.NAdd(matrix, row), width), gpuir.NDiv(col, gpuir.NInt(4)))
				m.emit(gpuir.Stmt{Op: gpuir.SStore, Ref: scratch, A: m.let(at), B: m.p.NVar(m.acc4[r][j])})
			})
			inside := gpuir.NAnd(gpuir.NLt(row, m.param(l.M)), gpuir.NLt(col, m.param(l.N)))
			m.emit(gpuir.Stmt{Op: gpuir.SIf, A: inside, Body: body})
		}
	}
}

// joinParts is the second pass: four columns for each thread.
func (m *gemm) joinParts() {
	l, scratch := m.l, len(m.p.Bufs)-1
	rows := append(append([]int(nil), l.Batch...), l.M)
	m.p.Groups = []gpuir.GroupFactor{{Params: rows, Per: 1}, {Params: []int{l.N}, Per: 4 * joinThreads}}
	span := gpuir.NInt(4 * joinThreads)
	across := m.let(gpuir.NDiv(gpuir.NAdd(m.param(l.N), gpuir.NInt(4*joinThreads-1)), span))
	flat := m.let(gpuir.NDiv(gpuir.NGroup(), across)) // row, counted over the matrices of the batch
	col := m.let(gpuir.NAdd(gpuir.NMul(gpuir.NRem(gpuir.NGroup(), across), span), gpuir.NMul(gpuir.NLocal(),
		gpuir.NInt(4))))
	body := m.nested(func() {
		width := m.rowVectors()
		all := gpuir.NInt(1)
		for _, p := range rows {
			all = gpuir.NMul(all, m.param(p))
		}
		stride := m.let(gpuir.NMul(all, width))
		at := m.let(gpuir.NAdd(gpuir.NMul(flat, width), gpuir.NDiv(col, gpuir.NInt(4))))
		load := func(part int) *gpuir.Node {
			return m.let(gpuir.NLoad(scratch, m.work(), 4, gpuir.NAdd(at, gpuir.NMul(stride, gpuir.NInt(part)))))
		}
		var parts []*gpuir.Node
		for part := range m.t.Parts {
			parts = append(parts, load(part))
		}
		sum := parts[0]
		for _, v := range parts[1:] {
			sum = m.let(gpuir.NAdd(sum, v))
		}
		base, cm := m.result(m.batchIndex(m.let(gpuir.NDiv(flat, m.param(l.M)))))
		row := m.let(gpuir.NRem(flat, m.param(l.M)))
		s := spot{at: m.let(gpuir.NAdd(base, gpuir.NMul(row, cm))), row: flat, col: col, columns: m.columnViews(col)}
		m.storeRow(s, m.places(col), m.biased(sum, m.bias(col)))
		m.joinSums(flat, col)
	})
	m.emit(gpuir.Stmt{Op: gpuir.SIf, A: gpuir.NLt(col, m.param(l.N)), Body: body})
}
