package compile

import (
	"fmt"
	"slices"

	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
)

var (
	attentionOp = uint16(prim.Known.Attention)
	scatterOp   = uint16(prim.Known.Scatter)
)

// The operands of a scatter.
const (
	scatterBase = iota
	scatterIndex
	scatterSource
)

// fuseAppends lets attention of few queries store the new row of its keys and values, which scatters store in place,
// where it alone reads what they make. The rows and their number are then read at its place. Nothing may write them
// before, and they live until then.
//
// A loop's body has no such attention: its inputs have offsets of their own.
func (b *Builder) fuseAppends() error {
	b.appends = map[int][2]int{}
	if b.Moving {
		return nil
	}
	var t *touches
	for i := range b.Program.Nodes {
		if !b.mayAppend(i) {
			continue
		}
		if t == nil {
			t = b.touches()
		}
		rows, ok := b.rowsStored(t, i)
		if !ok {
			continue
		}
		if b.Caps(b.aval(i).Device).CostlyKernels && !b.Often {
			b.p.Fusible++
			continue
		}
		b.appends[i] = rows
		for _, s := range rows {
			b.appended.set(s, i)
			for _, e := range b.Program.OperandsOf(s)[scatterIndex:] {
				b.readUntil(e.Value, i)
			}
		}
	}
	return nil
}

// readUntil notes that node i reads a value.
func (b *Builder) readUntil(r program.Ref, i int) {
	if last := b.uses.input; r.IsInput() {
		last[r.Index()] = max(last[r.Index()], i)
	}
	if last := b.uses.last; r.IsNode() {
		last[r.Index()] = max(last[r.Index()], i)
	}
}

func (b *Builder) noteAppend(i int) string {
	if at, ok := b.appended.at(i); ok {
		return fmt.Sprintf("done by %%%d", at)
	}
	if rows, ok := b.appends[i]; ok {
		return fmt.Sprintf("stores the rows of %%%d and %%%d", rows[0], rows[1])
	}
	return ""
}

// mayAppend reports that node i is attention that its device can let store new rows: without dropout, of few queries,
// with heads that are not too wide.
func (b *Builder) mayAppend(i int) bool {
	n, p := &b.Program.Nodes[i], b.Program
	if !n.IsPrim() || n.Op != attentionOp || p.Attrs(i)[2] != 0 || b.aval(i).Layout.Numel == 0 {
		return false
	}
	edges := p.OperandsOf(i)
	q, columns := ir.LayoutOf(edges[0].Layout).Shape, b.aval(i).Shape()[3]
	return q[2] <= launch.AppendQueries && q[3] > 0 && max(q[3], columns) <= b.Caps(b.aval(i).Device).AttentionAppends
}

// rowsStored returns the scatters that store the new rows of the keys and of the values of attention i.
func (b *Builder) rowsStored(t *touches, i int) (rows [2]int, ok bool) {
	p := b.Program
	for j := range rows {
		e := p.OperandsOf(i)[1+j]
		if !e.Value.IsNode() || !p.Whole(i, 1+j) || !b.storesRow(e.Value.Index()) {
			return rows, false
		}
		rows[j] = e.Value.Index()
		if !slices.Equal(t.readers[rows[j]], []int{i}) || !b.keepsRow(t, rows[j], i) {
			return rows, false
		}
	}
	keys, values := p.OperandsOf(rows[0]), p.OperandsOf(rows[1])
	return rows, rows[0] != rows[1] && keys[scatterIndex].Value == values[scatterIndex].Value
}

// storesRow reports that node s is a scatter that stores one row for each batch and key head in the buffer of its base,
// all at the place that one number names. The place needs no check. A value of one element has no other view, so that
// scatters which read it have one place.
func (b *Builder) storesRow(s int) bool {
	n, p := &b.Program.Nodes[s], b.Program
	if !n.IsPrim() || n.Op != scatterOp {
		return false
	}
	attr, edges, shape := p.Attrs(s), p.OperandsOf(s), b.aval(s).Shape()
	if d := attr[0]; len(shape) != 4 || d != 2 && d != -2 || attr[1] != prim.ScatterSet ||
		!slices.Contains(attr[2:], op.InBounds) {
		return false
	}
	base, index, source := edges[scatterBase].Value, edges[scatterIndex], edges[scatterSource]
	if slot, ok := b.slots.at(s); !ok || base == 0 || b.slotOf(base) != slot || source.Value == 0 {
		return false
	}
	place := p.Aval(index.Value)
	return place.DType == ir.I64 && place.Layout.Numel == 1 &&
		slices.Equal(ir.LayoutOf(index.Layout).Shape, []int64{shape[0], shape[1], 1, shape[3]})
}

// keepsRow reports that the row which scatter s stores, and its number, are as they are until attention i has run: no
// node after s, and not i itself, writes them or takes their buffers. Memory grows by no more than one cache.
func (b *Builder) keepsRow(t *touches, s, i int) bool {
	for _, e := range b.Program.OperandsOf(s)[scatterIndex:] {
		if slot := b.slotOf(e.Value); slot >= 0 && between(t.writes[slot], s, i+1) {
			return false
		}
		if !e.Value.IsNode() {
			continue
		}
		x := e.Value.Index()
		if taker, given := b.donations.at(x); given && taker <= i {
			return false
		}
		if b.uses.last[x] < i && !b.live(x) && !b.slots.has(x) &&
			device.SizeClass(b.bytes(b.aval(x))) > device.SizeClass(b.bytes(b.aval(s))) {
			return false
		}
	}
	return true
}

// lowerAppend adds the new rows of attention i, and their number, to the node that is being lowered.
func (b *Builder) lowerAppend(i int) {
	rows, ok := b.appends[i]
	if !ok {
		return
	}
	w, p := &b.lowering, b.Program
	w.node.Append = true
	add := func(s, j int) {
		e := p.OperandsOf(s)[j]
		b.foldOperand(lower.Operand{DType: p.Aval(e.Value).DType, Layout: ir.LayoutOf(e.Layout),
			Buf: b.local(b.slotOf(e.Value))})
		w.foldOffs[len(w.foldOffs)-1] = int(p.Nodes[s].Edge) + j
		if j == scatterSource {
			b.p.BytesWritten += ir.LayoutOf(e.Layout).Numel * b.bytes(b.aval(s)) / b.aval(s).Layout.Numel
		}
	}
	add(rows[0], scatterSource)
	add(rows[1], scatterSource)
	add(rows[0], scatterIndex)
	b.p.notePrologue(i, rows[0], rows[1])
}

// appendsExternal reports that node i stores a row in a buffer that the plan did not make.
func (b *Builder) appendsExternal(i int) bool {
	rows, ok := b.appends[i]
	return ok && slices.ContainsFunc(rows[:], b.external)
}
