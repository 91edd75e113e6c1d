package tile

import (
	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/kernels/kir"
)

// A depth of several dims: the operands' elements do not lie at multiples of one stride along k. Where they
// lie is worked out once a block, by a few threads, while the block before is multiplied, and handed to the others in
// workgroup memory: the divisions by the dims' sizes would cost each thread more than its loads.

// reach is a table of the elements at which the k of a block lie, of A and then of B: [stage][operand][k of the
// block], in units of the operands' loads.
type reach struct {
	array int
	stage *kir.Node // whose entries fetch reads
}

// tableReads has what was read of the table for the loads of a block, by buffer and entry; entries of rows that follow one
// another are read by fours.
type tableReads map[tableEntry]*kir.Node

type tableEntry struct {
	buf int
	k   place
}

// tableBytes is what the table takes.
func (o *GemmOptions) tableBytes(g *kir.Gemm) int {
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
	m.reach.stage = kir.NInt(0)
	if n := m.t.tableBytes(m.g); n > 0 {
		m.reach.array = len(m.p.Shared)
		m.p.Shared = append(m.p.Shared, kir.SharedArray{Type: ir.I32, Len: n / 16, Vec: 4})
	}
}

// locate fills a stage of the table for the block that begins at k0; entries beyond K repeat the last.
func (m *gemm) locate(k0, stage *kir.Node) {
	l, bk := m.l, kir.NInt(m.t.BK)
	body := m.nested(func() {
		k := m.let(kir.N(kir.OpMin, ir.I32, kir.NAdd(k0, kir.NRem(kir.NLocal(), bk)), kir.NSub(m.param(l.K), kir.NInt(1))))
		ofA := kir.NLt(kir.NLocal(), bk)
		strides := make([]*kir.Node, m.g.KDims)
		for d := range strides {
			strides[d] = kir.N(kir.OpSelect, ir.I32, ofA, m.param(l.AKDim[d]), m.param(l.BKDim[d]))
		}
		at := m.let(m.along(k, l.KSize, strides))
		at = m.let(kir.N(kir.OpSelect, ir.I32, ofA, kir.NDiv(at, kir.NInt(m.a.unit())), kir.NDiv(at, kir.NInt(m.b.unit()))))
		m.emit(kir.Stmt{Op: kir.SSharedSet, Ref: m.reach.array, A: m.let(kir.NAdd(kir.NMul(stage, kir.NInt(2*m.t.BK)), kir.NLocal())), B: at})
	})
	m.emit(kir.Stmt{Op: kir.SIf, A: kir.NLt(kir.NLocal(), kir.NInt(2*m.t.BK)), Body: body})
}

// along is where number i of an index over dims of the sizes lies.
func (m *gemm) along(i *kir.Node, size []int, strides []*kir.Node) *kir.Node {
	at := kir.NInt(0)
	for d := len(size) - 1; d > 0; d-- {
		n := m.param(size[d])
		at = m.let(kir.NAdd(at, kir.NMul(kir.NRem(i, n), strides[d])))
		i = m.let(kir.NDiv(i, n))
	}
	return kir.NAdd(at, kir.NMul(i, strides[0]))
}

// located is where k of op's load ld lies in the block of the stage that is read.
func (m *gemm) located(op *operand, ld *tileLoad, reads tableReads) *kir.Node {
	first := kir.NMul(m.reach.stage, kir.NInt(2*m.t.BK))
	if op.buf == m.l.BufB {
		first = kir.NAdd(first, kir.NInt(m.t.BK))
	}
	// Without vectors a row is a k; rows that begin at a multiple of the number of this thread's loads follow one another.
	fours := !op.vec && !op.alongK && (ld.row.base == nil || len(op.loads)%4 == 0 && m.t.threads()%op.bx == 0)
	e, lane := tableEntry{op.buf, ld.row}, 0
	if fours {
		lane = ld.row.added % 4
		e.k.added -= lane
	}
	if reads[e] == nil {
		at := kir.NAdd(first, kir.NMul(m.node(e.k), kir.NInt(m.kUnit(op))))
		if fours {
			reads[e] = m.let(m.p.NShared(m.reach.array, m.let(kir.NDiv(at, kir.NInt(4)))))
		} else {
			reads[e] = m.let(m.p.NSharedElement(m.reach.array, m.let(at)))
		}
	}
	if fours {
		return kir.NLane(reads[e], lane)
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
func (m *gemm) column(x *kir.Node, strides []int) *kir.Node {
	list := make([]*kir.Node, len(strides))
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
