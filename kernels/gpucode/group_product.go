package gpucode

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// groupProduct makes the program of a product whose operands are read where they lie, in workgroup memory or not. It
// has no workgroup arrays and no barriers.
func groupProduct(g *launch.Gemm, params []uint64, o GemmOptions) *gpuir.Program {
	m := &direct{gemm: newGemm(g, o, o.threads()), params: params}
	l := m.l
	m.p.Groups = []gpuir.GroupFactor{{Params: l.Batch, Per: 1}, {Params: []int{l.M}, Per: int64(o.BM)},
		{Params: []int{l.N}, Per: int64(o.BN)}}
	batch := m.place()
	m.lanes()
	m.accumulators()
	first, second := m.batchBase(l.ABatch, l.AOffset, batch), m.batchBase(l.BBatch, l.BOffset, batch)
	m.left = m.plan(l.BufA, o.VecA, g.AUnit == 'k', l.M, l.AM, l.AK, first, m.m0, m.rows)
	m.right = m.plan(l.BufB, o.VecB, g.BUnit == 'k', l.N, l.BN, l.BK, second, m.n0, m.cols)
	m.sum()
	m.epilogue(batch)
	return m.p
}

// groupTile is the tile of a product for a workgroup of so many threads, each of which computes 4x4 elements. A group
// of 32 threads reads few rows and many columns, since rows lie where they share banks of memory.
func groupTile(m, n uint64, threads int) GemmOptions {
	o := GemmOptions{TM: 4, TN: 4, WM: 8, WN: 64, BK: 4, Parts: 1}
	for o.WN > 16 && uint64(o.WN/2) >= n {
		o.WM, o.WN = 2*o.WM, o.WN/2
	}
	down := 1
	for down < threads/32 && uint64(down*o.WM) < m {
		down *= 2
	}
	o.BM, o.BN = down*o.WM, threads/32/down*o.WN
	return o
}

// direct multiplies without tiles in workgroup memory.
type direct struct {
	*gemm
	params      []uint64
	left, right side
}

// side is an operand of a product. x stands for rows of A and for columns of B.
type side struct {
	buf        int
	vec        bool
	alongK     bool // vectors run along k
	k          *gpuir.Node
	xs         []*gpuir.Node // by element of the thread: where its row or column begins
	pieces     []*gpuir.Node // by four of them: where the first begins, where vectors run along x
	perElement bool
}

// plan finds where the thread's rows or columns begin. Those outside of the matrix are computed from its last one.
func (m *direct) plan(buf int, vec, alongK bool, size, xStride, kStride int, base, x0 *gpuir.Node,
	first []*gpuir.Node) side {
	s := side{buf: buf, vec: vec, alongK: alongK, k: m.param(kStride), perElement: !vec || alongK}
	m.p.Bufs[buf].Vec = 1
	if vec {
		m.p.Bufs[buf].Vec = 4
	}
	for _, f := range first {
		x := gpuir.NAdd(x0, f)
		if !s.perElement {
			x = gpuir.N(loopir.OpMin, ir.I32, x, gpuir.NSub(m.param(size), gpuir.NInt(4)))
			s.pieces = append(s.pieces, m.let(gpuir.NAdd(base, x)))
			continue
		}
		for c := range 4 {
			at := gpuir.N(loopir.OpMin, ir.I32, gpuir.NAdd(x, gpuir.NInt(c)), gpuir.NSub(m.param(size), gpuir.NInt(1)))
			s.xs = append(s.xs, m.let(gpuir.NAdd(base, gpuir.NMul(m.let(at), m.param(xStride)))))
		}
	}
	return s
}

// read returns piece number i of an operand for each of `steps` places along k: four rows or columns.
func (m *direct) read(s *side, i int, k *gpuir.Node, steps int) (list []*gpuir.Node) {
	at := m.let(gpuir.NMul(k, s.k))
	along := func(q int) *gpuir.Node { return gpuir.NAdd(at, gpuir.NMul(gpuir.NInt(q), s.k)) }
	load := func(width int, at *gpuir.Node) *gpuir.Node {
		if width == 4 {
			at = gpuir.NDiv(at, gpuir.NInt(4))
		}
		return m.let(gpuir.NLoad(s.buf, m.work(), width, m.let(at)))
	}
	if !s.perElement {
		for q := range steps {
			list = append(list, load(4, gpuir.NAdd(s.pieces[i], along(q))))
		}
		return list
	}
	four := make([][]*gpuir.Node, steps) // by place along k: four elements
	for c := range 4 {
		x := s.xs[4*i+c]
		if s.vec {
			v := load(4, gpuir.NAdd(x, k))
			for q := range steps {
				four[q] = append(four[q], gpuir.NLane(v, q))
			}
			continue
		}
		for q := range steps {
			four[q] = append(four[q], load(1, gpuir.NAdd(x, along(q))))
		}
	}
	for _, v := range four {
		list = append(list, gpuir.NVec4(v...))
	}
	return list
}

// sum adds the products over k, in order.
func (m *direct) sum() {
	steps := 1
	if m.params[m.l.K]%4 == 0 {
		steps = 4
	}
	m.loop(gpuir.NInt(0), m.param(m.l.K), gpuir.NInt(steps), func(k *gpuir.Node) {
		var a, b [][]*gpuir.Node // by piece, by place along k
		for i := range m.rows {
			a = append(a, m.read(&m.left, i, k, steps))
		}
		for j := range m.cols {
			b = append(b, m.read(&m.right, j, k, steps))
		}
		for q := range steps {
			right := make([]*gpuir.Node, len(b))
			for j := range b {
				right[j] = m.let(b[j][q])
			}
			for r := range m.t.TM {
				left := gpuir.NSplat(gpuir.NLane(a[r/4][q], r%4))
				for j := range b {
					acc := m.acc4[r][j]
					m.assign(acc, m.multiplyAdd(left, right[j], m.p.NVar(acc)))
				}
			}
		}
	})
}
