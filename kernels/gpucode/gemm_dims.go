package gpucode

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// A depth of several dims: the operands' elements do not lie at multiples of one stride along k. Where they
// lie is worked out once a block, by a few threads, while the block before is multiplied, and handed to the others in
// workgroup memory: the divisions by the dims' sizes would cost each thread more than its loads.

// reach is a table of the elements at which the k of a block lie, of A and then of B: [stage][operand][k of the
// block], in units of the operands' loads.
type reach struct {
	array int
	stage *gpuir.Node // whose entries fetch reads
}

// tableReads has what was read of the table for the loads of a block, by buffer and entry; entries of rows that follow
// one another are read by fours.
type tableReads map[tableEntry]*gpuir.Node

type tableEntry struct {
	buf int
	k   place
}

// tableBytes is what the table takes.
func (o *GemmOptions) tableBytes(g *launch.Gemm) int {
	switch {
	case g.KDims == 0:
		return 0
	case o.Double:
		return 2 * 2 * o.BK * 4
	}
	return 2 * o.BK * 4
}

// addTable makes room for the table, where the depth is of several dims.
func (m *gemm) addTable() {
	m.reach.stage = gpuir.NInt(0)
	if n := m.t.tableBytes(m.g); n > 0 {
		m.reach.array = len(m.p.Shared)
		m.p.Shared = append(m.p.Shared, gpuir.SharedArray{Type: ir.I32, Len: n / 16, Vec: 4})
	}
}

// locate fills a stage of the table for the block that begins at k0; entries beyond K repeat the last.
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

// along is where number i of an index over dims of the sizes lies.
func (m *gemm) along(i *gpuir.Node, size []int, strides []*gpuir.Node) *gpuir.Node {
	at := gpuir.NInt(0)
	for d := len(size) - 1; d > 0; d-- {
		n := m.param(size[d])
		at = m.let(gpuir.NAdd(at, gpuir.NMul(gpuir.NRem(i, n), strides[d])))
		i = m.let(gpuir.NDiv(i, n))
	}
	return gpuir.NAdd(at, gpuir.NMul(i, strides[0]))
}

// located is where k of op's load ld lies in the block of the stage that is read.
func (m *gemm) located(op *operand, ld *tileLoad, reads tableReads) *gpuir.Node {
	first := gpuir.NMul(m.reach.stage, gpuir.NInt(2*m.t.BK))
	if op.buf == m.l.BufB {
		first = gpuir.NAdd(first, gpuir.NInt(m.t.BK))
	}
	// Without vectors a row is a k; rows that begin at a multiple of the number of this thread's loads follow one another.
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

// kUnit is the number of k of a load.
func (m *gemm) kUnit(op *operand) int {
	if op.alongK {
		return op.unit()
	}
	return 1
}

// column gives where column x lies, by strides over N's dims.
func (m *gemm) column(x *gpuir.Node, strides []int) *gpuir.Node {
	list := make([]*gpuir.Node, len(strides))
	for d, p := range strides {
		list[d] = m.param(p)
	}
	return m.along(x, m.l.NSize, list)
}

// fours reports that vectors along the dims of the sizes lie in one piece, at multiples of four: neighbours that
// follow one another count as one dim. The last has stride 1.
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
