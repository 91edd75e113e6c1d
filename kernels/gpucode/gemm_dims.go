package gpucode

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Where K has several dims, the operands' elements are not at multiples of one stride along k. Their offsets are
// computed once for each block, by a few threads, while the block before is multiplied, and shared through workgroup
// memory. In each thread the divisions by the dims' sizes would cost more than its loads.

// reach is a table of element offsets along k, of A and then of B: [stage][operand][k of the block], in units of the
// operands' loads.
type reach struct {
	array int
	stage *gpuir.Node // the stage whose entries fetch reads
}

// tableReads caches what was read of the table for the loads of a block, by buffer and entry. Entries of consecutive
// rows are read four at a time.
type tableReads map[tableEntry]*gpuir.Node

type tableEntry struct {
	buf int
	k   coord
}

// tableBytes is the workgroup memory of the table.
func (o *GemmOptions) tableBytes(g *launch.Gemm) int {
	switch {
	case g.KDims == 0:
		return 0
	case o.Double:
		return 2 * 2 * o.BK * 4
	}
	return 2 * o.BK * 4
}

// addTable makes the table where K has several dims.
func (m *gemm) addTable() {
	m.reach.stage = gpuir.NInt(0)
	if n := m.t.tableBytes(m.g); n > 0 {
		m.reach.array = len(m.p.Shared)
		m.p.Shared = append(m.p.Shared, gpuir.SharedArray{Type: ir.I32, Len: n / 16, Vec: 4})
	}
}

// locate fills a stage of the table for the block that begins at k0. Entries beyond K repeat the last.
func (m *gemm) locate(k0, stage *gpuir.Node) {
	l, bk := m.l, gpuir.NInt(m.t.BK)
	body := m.nested(func() {
		k := m.let(gpuir.N(loopir.OpMin, ir.I32, gpuir.NAdd(k0, gpuir.NRem(gpuir.NLocal(), bk)),
			gpuir.NSub(m.param(l.K), gpuir.NInt(1))))
		ofA := gpuir.NLt(gpuir.NLocal(), bk)
		strides := make([]*gpuir.Node, m.g.KDims)
		for d := range strides {
			strides[d] = gpuir.N(loopir.OpSelect, ir.I32, ofA, m.param(l.AKDim[d]), m.param(l.BKDim[d]))
		}
		at := m.let(m.along(k, l.KSize, strides))
		at = m.let(gpuir.N(loopir.OpSelect, ir.I32, ofA, gpuir.NDiv(at, gpuir.NInt(m.a.unit())),
			gpuir.NDiv(at, gpuir.NInt(m.b.unit()))))
		m.emit(gpuir.Stmt{Op: gpuir.SSharedSet, Ref: m.reach.array,
			A: m.let(gpuir.NAdd(gpuir.NMul(stage, gpuir.NInt(2*m.t.BK)), gpuir.NLocal())), B: at})
	})
	m.emit(gpuir.Stmt{Op: gpuir.SIf, A: gpuir.NLt(gpuir.NLocal(), gpuir.NInt(2*m.t.BK)), Body: body})
}

// along is the offset of index number i over dims of these sizes.
func (m *gemm) along(i *gpuir.Node, size []int, strides []*gpuir.Node) *gpuir.Node {
	at := gpuir.NInt(0)
	for d := len(size) - 1; d > 0; d-- {
		n := m.param(size[d])
		at = m.let(gpuir.NAdd(at, gpuir.NMul(gpuir.NRem(i, n), strides[d])))
		i = m.let(gpuir.NDiv(i, n))
	}
	return gpuir.NAdd(at, gpuir.NMul(i, strides[0]))
}

// located is the offset of k of op's load ld in the block of the current stage.
func (m *gemm) located(op *operand, ld *tileLoad, reads tableReads) *gpuir.Node {
	first := gpuir.NMul(m.reach.stage, gpuir.NInt(2*m.t.BK))
	if op.buf == m.l.BufB {
		first = gpuir.NAdd(first, gpuir.NInt(m.t.BK))
	}
	// Without vectors a row is a k. Rows that begin at a multiple of the number of this thread's loads are consecutive.
	fours := !op.vec && !op.alongK && (ld.row.base == nil || len(op.loads)%4 == 0 && m.t.threads()%op.bx == 0)
	e, lane := tableEntry{op.buf, ld.row}, 0
	if fours {
		lane = ld.row.added % 4
		e.k.added -= lane
	}
	if reads[e] == nil {
		at := gpuir.NAdd(first, gpuir.NMul(m.node(e.k), gpuir.NInt(m.kUnit(op))))
		if fours {
			reads[e] = m.let(m.p.NShared(m.reach.array, m.let(gpuir.NDiv(at, gpuir.NInt(4)))))
		} else {
			reads[e] = m.let(m.p.NSharedElement(m.reach.array, m.let(at)))
		}
	}
	if fours {
		return gpuir.NLane(reads[e], lane)
	}
	return reads[e]
}

// kUnit is the number of k of one load.
func (m *gemm) kUnit(op *operand) int {
	if op.alongK {
		return op.unit()
	}
	return 1
}

// column is the offset of column x, by strides over N's dims.
func (m *gemm) column(x *gpuir.Node, strides []int) *gpuir.Node {
	list := make([]*gpuir.Node, len(strides))
	for d, p := range strides {
		list[d] = m.param(p)
	}
	return m.along(x, m.l.NSize, list)
}

// fours reports that groups of four along the dims of these sizes are contiguous and begin at multiples of four. Dims
// that follow one another in memory count as one. The last has stride 1.
func fours(params []uint64, size, strides []int) bool {
	run, d := params[size[len(size)-1]], len(size)-2
	for ; d >= 0 && params[strides[d]] == run; d-- {
		run *= params[size[d]]
	}
	for ; d >= 0; d-- {
		if params[strides[d]]%4 != 0 {
			return false
		}
	}
	return run%4 == 0
}
