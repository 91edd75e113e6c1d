package gpucode

import (
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/launch"
)

// stage is a part of the work on a block of the stream, for tiles too large for workgroup memory. Operands come in
// chunks, of columns for the scores and of rows for the results; the chunks use one area in turn.
type stage struct {
	fetch   func() []*gpuir.Node // loads this thread's part of the chunks
	begin   func()               // runs before the chunks are in place
	fence   bool                 // begin needs what all threads did in the stage before
	deposit func([]*gpuir.Node)
	work    func()
}

// walkStages walks the stream by stages. The chunks of a stage are loaded while the stage before it computes.
func (m *attention) walkStages(queries, from, to, mask *gpuir.Node) {
	var ahead []int
	for _, v := range m.fetchScores(m.firstSide(), 0, from) {
		n, _ := m.variable(v)
		ahead = append(ahead, n)
	}
	m.loop(from, to, gpuir.NInt(m.t.Cols), func(c0 *gpuir.Node) {
		m.draw(queries, c0)
		var loaded []*gpuir.Node
		for _, n := range ahead {
			loaded = append(loaded, m.p.NVar(n))
		}
		list := m.stages(queries, c0, mask)
		for i, s := range list {
			if m.half = 0; m.t.Double && i%2 == 1 {
				m.half = m.t.areaVectors()
			}
			if s.begin != nil {
				if s.fence && m.t.Double {
					m.barrier()
				}
				s.begin()
			}
			s.deposit(loaded)
			m.barrier()
			if i+1 < len(list) {
				loaded = list[i+1].fetch()
			} else {
				for k, v := range m.fetchScores(m.firstSide(), 0, m.let(gpuir.NAdd(c0, gpuir.NInt(m.t.Cols)))) {
					m.assign(ahead[k], v)
				}
			}
			s.work()
			// With two areas the next stage's chunks may be written while a stage is still at work.
			if !m.t.Double || i+1 == len(list) && (m.a.Dropout || len(list)%2 == 1) {
				m.barrier()
			}
		}
	})
}

// firstSide is the pair of operands whose products come first.
func (m *attention) firstSide() int {
	if m.a.Pass == launch.AttentionForward {
		return 0
	}
	return 1
}

// stages lists the work on the block at c0.
func (m *attention) stages(queries, c0, mask *gpuir.Node) []stage {
	var score, dp [][]int
	var list []stage
	if m.a.Pass != launch.AttentionForward {
		list = m.scoreStages(1, c0, &dp)
	}
	list = append(list, m.scoreStages(0, c0, &score)...)
	last := &list[len(list)-1]
	work := last.work
	last.work = func() {
		work()
		m.restrict(score, c0, mask)
		if m.a.Pass == launch.AttentionForward {
			m.publishMaxima(score)
		} else {
			m.weights(score, dp, queries, c0)
		}
	}
	if m.a.Pass == launch.AttentionForward {
		return append(list, m.gatherStages(1, c0, func() { m.softmax(score) })...)
	}
	list = append(list, m.gatherStages(0, c0, func() { m.setScores(dp) })...)
	if m.swapped() {
		list = append(list, m.gatherStages(1, c0, func() { m.setScores(score) })...)
	}
	return list
}

// chunkPlaces is where the chunks of both sides are in this stage.
func (m *attention) chunkPlaces() (mine, theirs rowsPlace) {
	stride := (m.t.Chunk + pad) / 4
	return rowsPlace{m.area, m.half, stride}, rowsPlace{m.area, m.half + m.t.Rows*stride, stride}
}

func (m *attention) fetchScores(side, chunk int, c0 *gpuir.Node) []*gpuir.Node {
	units := m.t.Chunk / 4
	x := m.fetchPart(m.mine[side], m.row0, m.t.Rows, chunk*units, units)
	return append(x, m.fetchPart(m.theirs[side], c0, m.t.Cols, chunk*units, units)...)
}

// scoreStages adds the products of rows of a side, chunk by chunk, to variables that it makes.
func (m *attention) scoreStages(side int, c0 *gpuir.Node, acc *[][]int) []stage {
	units, at := m.t.Chunk/4, 0
	own := m.t.Rows * units / m.t.threads()
	var list []stage
	for chunk := range m.mine[side].width / m.t.Chunk {
		s := stage{
			fetch: func() []*gpuir.Node { return m.fetchScores(side, chunk, c0) },
			deposit: func(v []*gpuir.Node) {
				mine, theirs := m.chunkPlaces()
				m.depositPart(m.mine[side], mine, units, v[:own])
				m.depositPart(m.theirs[side], theirs, units, v[own:])
			},
			work: func() {
				mine, theirs := m.chunkPlaces()
				m.addDots(*acc, mine, theirs, units)
			},
		}
		if at++; at == 1 {
			s.begin = func() { *acc = m.scores() }
		}
		list = append(list, s)
	}
	return list
}

// gatherStages puts scores into the tile by begin, and adds the tile times the rows of a side to the results.
func (m *attention) gatherStages(side int, c0 *gpuir.Node, begin func()) []stage {
	s := m.theirs[side]
	units, rows := s.width/4, m.t.ChunkRows
	place := func() rowsPlace { return rowsPlace{m.area, m.half, s.stride()} }
	var list []stage
	for r := 0; r < m.t.Cols; r += rows {
		list = append(list, stage{
			fetch:   func() []*gpuir.Node { return m.fetchPart(s, m.let(gpuir.NAdd(c0, gpuir.NInt(r))), rows, 0, units) },
			begin:   begin,
			fence:   true,
			deposit: func(v []*gpuir.Node) { m.depositPart(s, place(), units, v) },
			work:    func() { m.gatherRows(side, place(), r, rows) },
		})
		begin = nil
	}
	return list
}
