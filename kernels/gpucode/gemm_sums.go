package gpucode

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// The sums of an operand over k (launch.Gemm.Sums). Each thread adds up what it loads of the operand. The threads of a
// workgroup join their sums in the operand's tile. Of the workgroups that share rows of A, or columns of B, the first
// stores the sums.

// LeastSums is the least M and N of products that make sums: those worked by tiles.
const LeastSums = dotLimit + 1

// summed is the operand whose sums are asked for; nil for none.
func (m *gemm) summed() *operand {
	switch m.g.Sums {
	case 'a':
		return &m.a
	case 'b':
		return &m.b
	}
	return nil
}

// beginSums makes the accumulators: vectors where a load covers four places along x, else numbers. Loads of a thread at
// one place along x share an accumulator.
func (m *gemm) beginSums() {
	op := m.summed()
	if op == nil {
		return
	}
	zero := gpuir.NConst(m.work(), 0)
	if op.acrossX() {
		zero = gpuir.NSplat(zero)
	}
	for i := range op.loads {
		if i > 0 && m.onePlace(op) {
			m.sums = append(m.sums, m.sums[0])
			continue
		}
		v, _ := m.variable(zero)
		m.sums = append(m.sums, v)
	}
}

// acrossX reports that a load covers four places along x.
func (op *operand) acrossX() bool { return op.vec && !op.alongK }

// onePlace reports that all loads of a thread are at one place along x.
func (m *gemm) onePlace(op *operand) bool {
	return !op.alongK && m.t.threads()%(op.bx/op.unit()) == 0
}

// addToSum adds v, load i of op, to its sum where op is summed. It returns v.
func (m *gemm) addToSum(op *operand, i int, v *gpuir.Node) *gpuir.Node {
	if op != m.summed() {
		return v
	}
	v = m.let(v)
	x := v
	if op.vec && op.alongK {
		x = gpuir.NAdd(gpuir.NAdd(gpuir.NLane(v, 0), gpuir.NLane(v, 1)), gpuir.NAdd(gpuir.NLane(v, 2), gpuir.NLane(v, 3)))
	}
	m.assign(m.sums[i], gpuir.NAdd(m.p.NVar(m.sums[i]), x))
	return v
}

// addFetched adds the block that is in registers at the beginning of an iteration of the doubly buffered loop, since
// the last fetched block has no iteration. Loads of one sum are first added to each other by a tree, which rounds less.
func (m *gemm) addFetched() {
	op := m.summed()
	if op == nil {
		return
	}
	if !m.onePlace(op) {
		for i := range op.loads {
			m.addToSum(op, i, m.p.NVar(op.loads[i].reg))
		}
		return
	}
	var tree func(loads []tileLoad) *gpuir.Node
	tree = func(loads []tileLoad) *gpuir.Node {
		n := len(loads)
		if n == 1 {
			return m.p.NVar(loads[0].reg)
		}
		return gpuir.NAdd(tree(loads[:n/2]), tree(loads[n/2:]))
	}
	m.addToSum(op, 0, tree(op.loads))
}

// sumsAt returns the parameter of the number of sums, this workgroup's first sum, and the first column of a summed A or
// row of a summed B.
func (m *gemm) sumsAt() (size, first, other *gpuir.Node) {
	if m.g.Sums == 'a' {
		return m.param(m.l.M), m.m0, m.n0
	}
	return m.param(m.l.N), m.n0, m.m0
}

// storeJoinedSums joins the threads' sums and stores them, or leaves those of this part of K in scratch memory. A
// thread's sums go to the tile's elements of its first load, so that sums of one place along x are in rows of the
// tile, stride elements apart.
func (m *gemm) storeJoinedSums() {
	op := m.summed()
	if op == nil {
		return
	}
	o, stride, holders := m.t, op.row, m.t.BK
	switch {
	case op.alongK && op.vec:
		stride, holders = 4*op.row, o.BK/4
	case m.onePlace(op):
		holders = o.BK / len(op.loads)
	}
	for i, v := range m.sums {
		if i > 0 && v == m.sums[0] {
			break
		}
		ld := op.loads[i]
		m.emit(gpuir.Stmt{Op: gpuir.SSharedSet, Ref: op.array, A: ld.vector, B: m.p.NVar(v), C: ld.lane})
	}
	m.barrier()
	size, first, other := m.sumsAt()
	for at := 0; at < op.bx/4; at += o.threads() {
		vector := m.let(gpuir.NAdd(gpuir.NLocal(), gpuir.NInt(at)))
		x := m.let(gpuir.NAdd(first, gpuir.NMul(vector, gpuir.NInt(4))))
		body := m.nested(func() {
			sum := m.let(m.p.NShared(op.array, vector))
			for h := 1; h < holders; h++ {
				sum = m.let(gpuir.NAdd(sum, m.p.NShared(op.array, gpuir.NAdd(vector, gpuir.NInt(h*stride/4)))))
			}
			if o.Parts > 1 {
				at, step := m.scratchSums(x)
				m.emit(gpuir.Stmt{Op: gpuir.SStore, Ref: len(m.p.Bufs) - 1, A: m.let(gpuir.NAdd(at, gpuir.NMul(m.part, step))),
					B: sum})
			} else {
				m.storeSums(x, sum)
			}
		})
		here := gpuir.NAnd(gpuir.NLt(other, gpuir.NInt(1)), gpuir.NLt(vector, gpuir.NInt(op.bx/4)))
		m.emit(gpuir.Stmt{Op: gpuir.SIf, A: gpuir.NAnd(here, gpuir.NLt(x, size)), Body: body})
	}
	if op == &m.b && o.Parts <= 1 && m.stages() {
		m.barrier() // results use B's tile too
	}
}

// storeSums stores the four sums from x on, as far as they exist.
func (m *gemm) storeSums(x, sums *gpuir.Node) {
	size, _, _ := m.sumsAt()
	for c := range 4 {
		at := m.let(gpuir.NAdd(x, gpuir.NInt(c)))
		store := []gpuir.Stmt{{Op: gpuir.SStore, Ref: m.l.BufSums, A: at, B: gpuir.NLane(sums, c)}}
		m.emit(gpuir.Stmt{Op: gpuir.SIf, A: gpuir.NLt(at, size), Body: store})
	}
}

// scratchSums is the vector of the first part's sums from x on in scratch memory, after the parts of C, and the
// distance in vectors from part to part.
func (m *gemm) scratchSums(x *gpuir.Node) (at, step *gpuir.Node) {
	size, _, _ := m.sumsAt()
	before := gpuir.NMul(gpuir.NMul(gpuir.NInt(m.t.Parts), m.param(m.l.M)), m.rowVectors())
	step = m.let(gpuir.NDiv(gpuir.NAdd(size, gpuir.NInt(3)), gpuir.NInt(4)))
	return m.let(gpuir.NAdd(before, gpuir.NDiv(x, gpuir.NInt(4)))), step
}

// sumBytes is the scratch memory of the parts' sums of an operand.
func sumBytes(g *launch.Gemm, params []uint64, parts int) uint64 {
	l := g.Layout()
	switch g.Sums {
	case 'a':
		return uint64(parts) * ceil(params[l.M], 4) * 16
	case 'b':
		return uint64(parts) * ceil(params[l.N], 4) * 16
	}
	return 0
}

// joinSums adds up the parts' sums in order. Sums of rows are worked by the threads at the first column, each for four
// rows; sums of columns by the threads at the first row.
func (m *gemm) joinSums(row, col *gpuir.Node) {
	equal := func(n *gpuir.Node, v int) *gpuir.Node { return gpuir.N(loopir.OpEq, ir.Bool, n, gpuir.NInt(v)) }
	var x, here *gpuir.Node
	switch m.g.Sums {
	case 'a':
		x, here = row, gpuir.NAnd(equal(col, 0), equal(gpuir.NRem(row, gpuir.NInt(4)), 0))
	case 'b':
		x, here = col, equal(row, 0)
	default:
		return
	}
	body := m.nested(func() {
		var sum *gpuir.Node
		at, step := m.scratchSums(x)
		for part := range m.t.Parts {
			v := m.let(gpuir.NLoad(len(m.p.Bufs)-1, m.work(), 4, gpuir.NAdd(at, gpuir.NMul(step, gpuir.NInt(part)))))
			if sum != nil {
				v = m.let(gpuir.NAdd(sum, v))
			}
			sum = v
		}
		m.storeSums(x, sum)
	})
	m.emit(gpuir.Stmt{Op: gpuir.SIf, A: here, Body: body})
}
