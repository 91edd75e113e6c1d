package gpucode

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// epilogue adds the bias, applies the map to the rounded sums, and stores them.
func (m *gemm) epilogue(batch []*gpuir.Node) {
	l := m.l
	base, cm := m.result(batch)
	for j := range m.cols {
		col := m.let(gpuir.NAdd(m.n0, m.cols[j]))
		bias, places := m.bias(col), m.places(col)
		for r := range m.t.TM {
			row := m.let(gpuir.NAdd(m.m0, gpuir.NAdd(m.rows[r/4], gpuir.NInt(r%4))))
			inside := gpuir.NLt(row, m.param(l.M))
			if m.t.VecC {
				inside = gpuir.NAnd(inside, gpuir.NLt(col, m.param(l.N)))
			}
			body := m.nested(func() {
				at := m.let(gpuir.NAdd(base, gpuir.NMul(row, cm)))
				m.storeRow(at, col, places, m.biased(m.p.NVar(m.acc4[r][j]), bias))
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

// storeRow stores v as the four columns from col on of the row at `at`.
func (m *gemm) storeRow(at, col *gpuir.Node, places []*gpuir.Node, v *gpuir.Node) {
	if m.t.VecC {
		vector := m.let(gpuir.NDiv(gpuir.NAdd(at, places[0]), gpuir.NInt(4)))
		m.emit(gpuir.Stmt{Op: gpuir.SStore, Ref: m.l.BufC, A: vector, B: m.mapped(vector, v, 4)})
		return
	}
	for c := range 4 {
		x := m.let(gpuir.NAdd(col, gpuir.NInt(c)))
		body := m.nested(func() {
			element := m.let(gpuir.NAdd(at, places[c]))
			m.emit(gpuir.Stmt{Op: gpuir.SStore, Ref: m.l.BufC, A: element, B: m.mapped(element, gpuir.NLane(v, c), 1)})
		})
		m.emit(gpuir.Stmt{Op: gpuir.SIf, A: gpuir.NLt(x, m.param(m.l.N)), Body: body})
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

// mapped is the epilogue of v, the sums at an address of C. The map takes v as it would be read back from memory, so
// that the bits are those of a separate map. A map that has no vector form works on one lane after the other.
func (m *gemm) mapped(at, v *gpuir.Node, width int) *gpuir.Node {
	if m.g.Epilogue == nil {
		return v
	}
	if width == 1 || m.mapVectors {
		return m.mapOf(at, v, width)
	}
	first := m.let(gpuir.NMul(at, gpuir.NInt(4)))
	var lanes []*gpuir.Node
	for c := range 4 {
		lanes = append(lanes, m.mapOf(m.let(gpuir.NAdd(first, gpuir.NInt(c))), m.let(gpuir.NLane(v, c)), 1))
	}
	return m.let(gpuir.NVec4(lanes...))
}

// mapOf evaluates the map for `width` elements. Address at counts vectors of that width.
func (m *gemm) mapOf(at, v *gpuir.Node, width int) *gpuir.Node {
	k := m.g.Epilogue
	e := gen{k: k, o: m.o, p: m.p, out: m.out, given: map[int]*gpuir.Node{}, scalars: m.l.Scalars, linear: at}
	e.o.I64 = m.t.I64
	e.resetValues()
	for n, a := range k.Access {
		if a.Buf == 0 {
			e.given[n] = m.let(gpuir.NNarrow(m.g.Type, v))
		} else {
			e.given[n] = m.let(gpuir.NLoad(m.l.BufOperands[a.Buf-1], e.typ(k.Bufs[a.Buf].Type.ComputeType()), width, at))
		}
	}
	x := e.expr(k.Stages[0].Stores[0].Val)
	if width == 4 {
		return gpuir.NSplat(x)
	}
	return x
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
