package gpucode

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Attention of few queries that stores the new row of its keys and values (launch.Attention.Append). All workgroups
// take the new row from where it comes, so that none depends on what another stores: a key with the row's number is
// loaded, and what was loaded gives way to the new row. Of the workgroups that share a key head, the first stores the
// row.

// appendBuffers is the most buffers of such a launch: q, k, v, the mask, the new rows, their number, both results, and
// scratch memory.
const appendBuffers = 10

// WidestAppend is the most columns of a head of an attention with launch.Attention.Append, 0 where the device runs
// none: every launch that it admits has options (see chooseQuery).
func WidestAppend(caps Caps) int64 {
	caps = caps.withDefaults()
	o := AttentionOptions{Cols: queryBlock, Width: widestQuery, WidthV: widestQuery}
	if caps.Software || caps.MaxThreads < queryBlock || caps.MaxBuffers < appendBuffers ||
		o.queryBytes() > caps.MaxWorkgroupBytes {
		return 0
	}
	return widestQuery
}

// newRows is the new row of a workgroup's key head.
type newRows struct {
	k, v  *attentionTile
	place *gpuir.Node // its number
	mine  *gpuir.Node // this workgroup stores it
	// Of blocks: its product with the query, and this thread's columns of its values.
	dot, value *gpuir.Node
}

// placeNewRows finds the number of the new row. The first workgroup of those that share a key head stores it: that of
// the first head, which is number 0 in its group, and of the first part.
func (x *query) placeNewRows(number *gpuir.Node) {
	m, t := x.attention, ir.I32
	if m.t.I64 {
		t = ir.I64
	}
	cast := func(t ir.DType, v *gpuir.Node) *gpuir.Node {
		if v.Type == t {
			return v
		}
		return m.let(gpuir.N(loopir.OpCast, t, v))
	}
	at := m.let(gpuir.NLoad(m.l.Place, t, 1, m.param(m.l.PlaceOffset)))
	last := cast(t, m.let(gpuir.NSub(m.ncols, gpuir.NInt(1))))
	at = m.let(gpuir.N(loopir.OpMax, t, gpuir.NConst(t, 0), m.let(gpuir.N(loopir.OpMin, t, at, last))))
	x.added.place = cast(ir.I32, at)
	first := func(n *gpuir.Node) *gpuir.Node { return m.let(gpuir.N(loopir.OpEq, ir.Bool, n, gpuir.NInt(0))) }
	x.added.mine = gpuir.NAnd(first(number), first(m.row0))
	if x.part != nil {
		x.added.mine = gpuir.NAnd(x.added.mine, first(x.part))
	}
	x.added.mine = m.let(x.added.mine)
}

// pick is added where a key has the number of the new row, else what was loaded.
func (x *query) pick(number, added, loaded *gpuir.Node) *gpuir.Node {
	same := gpuir.N(loopir.OpEq, ir.Bool, number, x.added.place)
	return x.let(gpuir.N(loopir.OpSelect, ir.F32, same, added, loaded))
}

func (x *query) pickAll(number *gpuir.Node, added, loaded []*gpuir.Node) []*gpuir.Node {
	if x.added == nil {
		return loaded
	}
	for i := range loaded {
		loaded[i] = x.pick(number, added[i], loaded[i])
	}
	return loaded
}

// loadNewRow loads, where threads work blocks of keys, what a thread needs of the new row.
func (x *query) loadNewRow() {
	if r := x.added; r != nil {
		r.dot = x.let(x.dot(r.k, r.k.base))
		r.value = x.let(x.four(r.v, r.v.base, x.column))
	}
}

// storeNewRows stores the new row.
func (x *query) storeNewRows() {
	m, r := x.attention, x.added
	if r == nil {
		return
	}
	body := m.nested(func() {
		for _, s := range []struct{ from, to *attentionTile }{{r.k, x.k}, {r.v, x.v}} {
			at := m.let(gpuir.NAdd(s.to.base, gpuir.NMul(r.place, m.param(s.to.o.Param+2))))
			m.loop(gpuir.NLocal(), gpuir.NInt(s.to.width/4), gpuir.NInt(m.p.Workgroup), func(v *gpuir.Node) {
				row := m.let(m.four(s.from, s.from.base, v))
				m.storeFour(s.to.o.Buf, at, m.let(gpuir.NMul(v, gpuir.NInt(4))), m.param(s.to.cols),
					m.param(s.to.o.Param+3), row)
			})
		}
	})
	m.emit(gpuir.Stmt{Op: gpuir.SIf, A: r.mine, Body: body})
}
