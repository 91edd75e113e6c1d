package gpucode

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// spot is where elements of C lie: one, or four neighbours in a row.
type spot struct {
	at       *gpuir.Node // of the element, or of the vector
	row, col *gpuir.Node // the row among those of all matrices of the batch, and the first column
	// columns are, by operand, the values of four columns where these do not depend on the row; nil: not loaded yet. lane
	// is the one of these that a single element has.
	columns []*gpuir.Node
	lane    int
}

// epilogue adds the bias, applies the map to the rounded sums, and stores them.
func (m *gemm) epilogue(batch []*gpuir.Node) {
	l := m.l
	base, cm := m.result(batch)
	first := m.let(gpuir.NMul(m.flat(batch), m.param(l.M)))
	for j := range m.cols {
		col := m.let(gpuir.NAdd(m.n0, m.cols[j]))
		bias, places, columns := m.bias(col), m.places(col), m.columnViews(col)
		for r := range m.t.TM {
			row := m.let(gpuir.NAdd(m.m0, gpuir.NAdd(m.rows[r/4], gpuir.NInt(r%4))))
			inside := gpuir.NLt(row, m.param(l.M))
			if m.t.VecC {
				inside = gpuir.NAnd(inside, gpuir.NLt(col, m.param(l.N)))
			}
			body := m.nested(func() {
				at := m.let(gpuir.NAdd(base, gpuir.NMul(row, cm)))
				s := spot{at: at, row: gpuir.NAdd(first, row), col: col, columns: columns}
				m.storeRow(s, places, m.biased(m.p.NVar(m.acc4[r][j]), bias))
			})
			m.emit(gpuir.Stmt{Op: gpuir.SIf, A: inside, Body: body})
		}
	}
}

// result is where C of a batch index begins, and the stride of its rows.
func (m *gemm) result(batch []*gpuir.Node) (base, cm *gpuir.Node) {
	l := m.l
	if !m.g.CStrided {
		return m.let(gpuir.NMul(gpuir.NMul(m.flat(batch), m.param(l.M)), m.param(l.N))), m.param(l.N)
	}
	return m.batchBase(l.CBatch, l.COffset, batch), m.param(l.CM)
}

// flat is the number of a batch index.
func (m *gemm) flat(batch []*gpuir.Node) *gpuir.Node {
	n := gpuir.NInt(0)
	for i, b := range batch {
		n = gpuir.NAdd(gpuir.NMul(n, m.param(m.l.Batch[i])), b)
	}
	return n
}

// biased is v plus the bias, where there is one.
func (m *gemm) biased(v, bias *gpuir.Node) *gpuir.Node {
	if bias != nil {
		v = m.let(gpuir.NAdd(v, bias))
	}
	return v
}

// storeRow stores v as the four columns from s.col on of the row at s.at.
func (m *gemm) storeRow(s spot, places []*gpuir.Node, v *gpuir.Node) {
	start := s.at
	if m.t.VecC {
		s.at = m.let(gpuir.NDiv(gpuir.NAdd(start, places[0]), gpuir.NInt(4)))
		m.store(s, v, 4)
		return
	}
	for c := range 4 {
		one := s
		one.col, one.lane = m.let(gpuir.NAdd(s.col, gpuir.NInt(c))), c
		body := m.nested(func() {
			one.at = m.let(gpuir.NAdd(start, places[c]))
			m.store(one, gpuir.NLane(v, c), 1)
		})
		m.emit(gpuir.Stmt{Op: gpuir.SIf, A: gpuir.NLt(one.col, m.param(m.l.N)), Body: body})
	}
}

// places are the offsets of the four columns from col on in a row of C; with vectors, where they begin.
func (m *gemm) places(col *gpuir.Node) []*gpuir.Node {
	var list []*gpuir.Node
	for c := range 4 {
		x := m.let(gpuir.NAdd(col, gpuir.NInt(c)))
		switch {
		case m.g.CDims:
			x = m.let(m.column(x, m.l.CNDim))
		case m.g.CStrided && !m.t.VecC:
			x = m.let(gpuir.NMul(x, m.param(m.l.CN)))
		}
		if list = append(list, x); m.t.VecC {
			break
		}
	}
	return list
}

// store stores the epilogue of v, the sums at s, and its further results. The map takes v as it would be read back from
// memory, so that the bits are those of a separate map. A map that has no vector form works on one lane after the
// other.
func (m *gemm) store(s spot, v *gpuir.Node, width int) {
	put := func(buf int, at, x *gpuir.Node) { m.emit(gpuir.Stmt{Op: gpuir.SStore, Ref: buf, A: at, B: x}) }
	if m.g.Epilogue == nil {
		put(m.l.BufC, s.at, v)
		return
	}
	if width == 1 || m.mapVectors {
		list := m.mapOf(s, v, width)
		put(m.l.BufC, s.at, list[0])
		for i, b := range m.l.BufResults {
			put(b, s.at, list[1+i])
		}
		return
	}
	first := m.let(gpuir.NMul(s.at, gpuir.NInt(4)))
	var lanes, places []*gpuir.Node
	var further [][]*gpuir.Node
	for c := range 4 {
		one := s
		one.at, one.col, one.lane = m.let(gpuir.NAdd(first, gpuir.NInt(c))), gpuir.NAdd(s.col, gpuir.NInt(c)), c
		list := m.mapOf(one, m.let(gpuir.NLane(v, c)), 1)
		lanes, places, further = append(lanes, list[0]), append(places, one.at), append(further, list[1:])
	}
	put(m.l.BufC, s.at, m.let(gpuir.NVec4(lanes...)))
	for c, list := range further {
		for i, b := range m.l.BufResults {
			put(b, places[c], list[i])
		}
	}
}

// mapOf evaluates the map for `width` elements: the values of C and of the further results.
func (m *gemm) mapOf(s spot, v *gpuir.Node, width int) (list []*gpuir.Node) {
	k := m.g.Epilogue
	e := gen{k: k, o: m.o, p: m.p, out: m.out, given: map[int]*gpuir.Node{}, scalars: m.l.Scalars,
		linear: s.at, wide: width == 4}
	e.o.I64 = m.t.I64
	e.resetValues()
	stored := len(k.Bufs) - len(m.l.BufResults)
	for n, a := range k.Access {
		switch {
		case a.Buf == 0:
			e.given[n] = m.let(gpuir.NNarrow(m.g.Type, v))
		case a.Buf >= stored:
		case m.g.Viewed(a.Buf - 1):
			e.given[n] = m.view(s, a.Buf-1, e.typ(k.Bufs[a.Buf].Type.ComputeType()), width)
		default:
			e.given[n] = m.let(gpuir.NLoad(m.l.BufOperands[a.Buf-1], e.typ(k.Bufs[a.Buf].Type.ComputeType()), width, s.at))
		}
	}
	for _, r := range k.Stages[0].Stores {
		x := e.expr(r.Val)
		if width == 4 {
			x = gpuir.NSplat(x)
		}
		list = append(list, x)
	}
	return list
}

// view is what operand o of the epilogue, which is read by strides, has for the elements at s.
func (m *gemm) view(s spot, o int, t ir.DType, width int) *gpuir.Node {
	v, perRow := m.l.Views[o], m.g.Views[o] == 'm'
	if o < len(s.columns) && s.columns[o] != nil {
		if width == 4 {
			return s.columns[o]
		}
		return gpuir.NLane(s.columns[o], s.lane)
	}
	at := m.param(v.Offset)
	rest := s.row
	for d := len(v.Rows) - 1; d >= 0 && m.g.Views[o] != 'n'; d-- {
		digit := rest
		if d > 0 {
			rest = m.let(rest)
			digit, rest = gpuir.NRem(rest, m.param(m.l.RowSize[d])), gpuir.NDiv(rest, m.param(m.l.RowSize[d]))
		}
		at = m.let(gpuir.NAdd(at, gpuir.NMul(digit, m.param(v.Rows[d]))))
	}
	load := func(c int) *gpuir.Node {
		at := at
		if !perRow {
			at = gpuir.NAdd(at, gpuir.NMul(gpuir.NAdd(s.col, gpuir.NInt(c)), m.param(v.N)))
		}
		return m.let(gpuir.NLoad(m.l.BufOperands[o], t, 1, m.let(at)))
	}
	switch {
	case width == 1:
		return load(0)
	case perRow:
		return m.let(gpuir.NSplat(load(0)))
	}
	return m.let(gpuir.NVec4(load(0), load(1), load(2), load(3)))
}

// columnViews loads what does not depend on the row, for the four columns from col on.
func (m *gemm) columnViews(col *gpuir.Node) []*gpuir.Node {
	list := make([]*gpuir.Node, len(m.g.Views))
	for o := range list {
		if m.g.Views[o] != 'n' {
			continue
		}
		e := gen{o: m.o}
		e.o.I64 = m.t.I64
		t := e.typ(m.g.Epilogue.Bufs[1+o].Type.ComputeType())
		if t == ir.I64 { // has no vectors
			continue
		}
		var v []*gpuir.Node
		for c := range 4 {
			x := gpuir.N(loopir.OpMin, ir.I32, gpuir.NAdd(col, gpuir.NInt(c)), gpuir.NSub(m.param(m.l.N), gpuir.NInt(1)))
			v = append(v, m.view(spot{col: m.let(x)}, o, t, 1))
		}
		list[o] = m.let(gpuir.NVec4(v...))
	}
	return list
}

// bias is the four bias values from column col on, nil without a bias.
func (m *gemm) bias(col *gpuir.Node) *gpuir.Node {
	if !m.g.Bias {
		return nil
	}
	var v []*gpuir.Node
	for c := range 4 {
		x := gpuir.N(loopir.OpMin, ir.I32, gpuir.NAdd(col, gpuir.NInt(c)), gpuir.NSub(m.param(m.l.N), gpuir.NInt(1)))
		at := m.let(gpuir.NAdd(m.param(m.l.BiasOffset), gpuir.NMul(x, m.param(m.l.BiasN))))
		v = append(v, m.let(gpuir.NLoad(m.l.BufBias, m.work(), 1, at)))
	}
	return m.let(gpuir.NVec4(v...))
}
