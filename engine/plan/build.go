package plan

import (
	"fmt"
	"slices"

	"github.com/torchlette/torchlette/engine/device"
	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/engine/live"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/kernels/kir"
	"github.com/torchlette/torchlette/kernels/lower"
)

// node is what the builder knows of a local value.
type node struct {
	n       *ir.Node
	edges   []ir.Edge
	lastUse int // greatest local number that reads it; -1 for none
	slot    int // -1 until assigned
	main    int // local number of the node that computes it (itself but for projections)
	output  int // which of its outputs
	// through: the value is written through a view of a store's base.
	through     *ir.Layout
	throughSlot int
	throughScal int // window scalar that holds the view's offset
	skip        bool
	// A node with an epilogue applies act to its result, adds residual (the mark of a value, 0 for none), and writes the
	// value of node writes; the nodes that did so are folded into it, their into being its local number. -1: none.
	act      kir.Activation
	residual uint32
	writes   int
	into     int
	heir     int // local number of the value that goes on in this one's buffer; -1 for none
	// sums is the local number of the sum that a product makes of operand summed ('a' or 'b') beside its result; with is, of
	// that sum, the product's. -1: none.
	sums, with int
	summed     byte
	offBase    int // index of the first edge's offset
	scalBase   int
}

// Builder makes a plan for a window. Caps gives a device's description, Chainer, which may be nil, what makes its chains, nil for none; Lowered
// keeps what nodes become.
type Builder struct {
	W       *Window
	S       *live.State
	Caps    func(ir.DeviceID) *device.Caps
	Chainer func(ir.DeviceID) device.Chainer
	Lowered *lower.Memo
	nodes   []node
	extLast []int
	extSlot []int
	p       *Plan
	at      int         // local number of the node being produced
	temps   []temporary // in the order in which they are made
	// Of the node being lowered: itself, the slots of its local buffers, and its operands' numbers.
	ln         lower.Node
	slots      []int
	offs, scs  []int
	stepBufs   []int          // of the plan's steps, which take their lists from here
	stepParams []device.Param // likewise
}

// Build makes the plan.
func (b *Builder) Build() (p *Plan, err error) {
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*ir.Error)
			if !ok {
				panic(r)
			}
			err = e
		}
	}()
	b.p = &Plan{Key: append([]uint32(nil), b.W.Key...), Hash: b.W.Hash}
	for _, id := range b.W.Nodes {
		b.p.Ops = append(b.p.Ops, b.S.G.Node(id).Op)
	}
	b.analyse()
	b.placeStores()
	b.takeOver()
	b.writeThrough()
	b.foldEpilogues()
	b.foldSums()
	for i := range b.nodes {
		if err := b.emit(i); err != nil {
			return nil, err
		}
	}
	if err := b.place(); err != nil {
		return nil, err
	}
	return b.p, nil
}

// analyse finds uses and numbers the run-time offsets and scalars.
func (b *Builder) analyse() {
	g := b.S.G
	b.nodes = make([]node, len(b.W.Nodes))
	b.extLast = make([]int, len(b.W.Ext))
	b.extSlot = make([]int, len(b.W.Ext))
	off, sc := 0, 0
	for i, id := range b.W.Nodes {
		n := g.Node(id)
		x := &b.nodes[i]
		*x = node{n: n, edges: g.Edges(n), lastUse: -1, slot: -1, heir: -1, writes: -1, into: -1, sums: -1, with: -1, main: i, throughSlot: -1, offBase: off, scalBase: sc}
		for _, e := range x.edges {
			if e.Value == 0 {
				continue
			}
			off++
			m := g.Node(e.Value).Mark
			if m&extBit != 0 {
				b.extLast[m&^extBit] = i
			} else {
				b.nodes[m-1].lastUse = i
			}
			if n.Op == ir.OpProj {
				x.main, x.output = int(m-1), int(n.Attr)
			}
		}
		sc += int(n.NScal)
	}
	for j, id := range b.W.Ext {
		av := ir.AvalOf(g.Node(id).Aval)
		b.extSlot[j] = b.slot(Slot{Kind: External, Index: j, Bytes: b.bytes(av), Dev: av.Device})
	}
}

func (b *Builder) bytes(av *ir.Aval) int64 {
	c := b.Caps(av.Device)
	w := int64(c.Storage[av.DType])
	if w == 0 && av.DType != ir.InvalidDType {
		panic(ir.Errorf(ir.ErrType, "%s is not supported on device %s: convert with .to(torch.float32) first", av.DType, live.DeviceName(av.Device)))
	}
	return max(w*av.Layout.Numel, 1)
}

func (b *Builder) slot(s Slot) int {
	b.p.Slots = append(b.p.Slots, s)
	return len(b.p.Slots) - 1
}

// placeStores decides which stores write the storage of the version before.
func (b *Builder) placeStores() {
	for i := range b.W.Stores {
		st := &b.W.Stores[i]
		if st.Value&extBit != 0 || st.Prev == noPrev {
			continue
		}
		v := int(st.Value - 1)
		if b.nodes[v].slot >= 0 || !b.W.exclusive(st) {
			continue
		}
		prevSlot, last := -1, -1
		if st.Prev&extBit != 0 {
			prevSlot, last = b.extSlot[st.Prev&^extBit], b.extLast[st.Prev&^extBit]
		} else {
			pn := &b.nodes[st.Prev-1]
			if b.W.Out[st.Prev-1] {
				continue
			}
			if pn.slot < 0 {
				// The version before ends as this one's storage: give it an output slot now.
				pn.slot = b.outputSlot(pn)
			}
			prevSlot, last = pn.slot, pn.lastUse
		}
		x := &b.nodes[v]
		if st.Prev&extBit == 0 && b.nodes[st.Prev-1].main >= x.main {
			continue // the new version was there before the old one: copy_ of an earlier value
		}
		if last > x.main || !b.mayWriteOver(x, st.Prev) || b.p.Slots[prevSlot].Bytes != b.bytes(ir.AvalOf(x.n.Aval)) {
			continue
		}
		x.slot = prevSlot
		b.p.InPlace++
	}
}

func (b *Builder) outputSlot(x *node) int {
	av := ir.AvalOf(x.n.Aval)
	b.p.Outputs++
	return b.slot(Slot{Kind: Output, Index: b.p.Outputs - 1, Bytes: b.bytes(av), Dev: av.Device})
}

// mayWriteOver is condition (iii): every read of the old version by the storing kernel
// is of the very element that is written.
func (b *Builder) mayWriteOver(x *node, prev uint32) bool {
	m := &b.nodes[x.main]
	if m.n.Op == ir.OpProj || m.n.Op == ir.OpLeaf {
		return false
	}
	p := op.PrimOf(op.PrimID(m.n.Op))
	g := b.S.G
	if m.n.Op == scatterOp {
		return g.Node(m.edges[1].Value).Mark != prev && wholeEdge(g, m.edges[0])
	}
	for j, e := range m.edges {
		if e.Value == 0 || g.Node(e.Value).Mark != prev {
			continue
		}
		if !wholeEdge(g, e) || !(p.Elementwise || pairs(p, x.output, j)) {
			return false
		}
	}
	return true
}

func pairs(p *op.Prim, out, in int) bool {
	for _, q := range p.InPlace {
		if q[0] == out && q[1] == in {
			return true
		}
	}
	return false
}

// wholeEdge reports an edge that reads the whole dense value in order.
func wholeEdge(g *ir.Graph, e ir.Edge) bool {
	l := ir.LayoutOf(e.Layout)
	return l.Dense && e.Offset == 0 && l.Numel == ir.AvalOf(g.Node(e.Value).Aval).Layout.Numel
}

// writeThrough lets the elementwise producer of an in-place scatter's value write the
// view itself: copy, scatter and store are one kernel.
func (b *Builder) writeThrough() {
	g := b.S.G
	for i := range b.nodes {
		x := &b.nodes[i]
		if x.n.Op != scatterOp || x.slot < 0 || x.edges[0].Value == 0 {
			continue
		}
		ve := x.edges[1]
		vm := g.Node(ve.Value).Mark
		pm := g.Node(x.edges[0].Value).Mark
		if vm&extBit != 0 || !wholeEdge(g, ve) {
			continue
		}
		v := &b.nodes[vm-1]
		target := ir.LayoutOf(ir.LayoutID(ir.AttrOf(x.n.Attr)[0]))
		if v.main != int(vm-1) || v.n.Uses != 1 || b.W.Out[vm-1] || v.slot >= 0 || v.n.Op >= ir.OpProj || v.n.NProj > 0 ||
			!op.PrimOf(op.PrimID(v.n.Op)).Elementwise || !slices.Equal(target.Shape, ir.AvalOf(v.n.Aval).Shape()) || b.slotOf(pm) != x.slot {
			continue
		}
		if pm&extBit == 0 && b.nodes[pm-1].main > v.main {
			continue // the base comes after the value
		}
		if !b.readsOnlyView(v, pm, x) || b.usedBetween(pm, int(vm-1), i) {
			continue
		}
		v.through, v.throughSlot, v.throughScal = target, x.slot, x.scalBase
		v.slot = x.slot
		x.skip = true
		b.p.Through++
	}
}

// readsOnlyView reports that v reads the base through nothing but the written view.
func (b *Builder) readsOnlyView(v *node, pm uint32, scatter *node) bool {
	rel := b.W.relation(scatter.n)
	for j, e := range v.edges {
		if e.Value != 0 && b.S.G.Node(e.Value).Mark == pm && (j >= maxEdge || rel>>uint(j)&1 == 0) {
			return false
		}
	}
	return true
}

// usedBetween reports a reader of value m after local number v other than the scatter at i.
func (b *Builder) usedBetween(m uint32, v, i int) bool {
	for k := v + 1; k < i; k++ {
		for _, e := range b.nodes[k].edges {
			if e.Value != 0 && b.S.G.Node(e.Value).Mark == m {
				return true
			}
		}
	}
	return false
}

func (b *Builder) slotOf(mark uint32) int {
	if mark&extBit != 0 {
		return b.extSlot[mark&^extBit]
	}
	return b.nodes[mark-1].slot
}

// assign gives value i a slot when it has none.
func (b *Builder) assign(i int) {
	x := &b.nodes[i]
	if b.W.Out[i] {
		if x.slot < 0 {
			x.slot = b.outputSlot(x)
		}
		b.p.Results = append(b.p.Results, Result{Local: i, Slot: x.slot})
		return
	}
	if x.slot >= 0 {
		return
	}
	last := i
	for b.nodes[last].heir >= 0 {
		last = b.nodes[last].heir
	}
	av := ir.AvalOf(x.n.Aval)
	x.slot = b.temp(av.Device, b.bytes(av), max(b.nodes[last].lastUse, last))
	for last = i; b.nodes[last].heir >= 0; b.nodes[last].slot = x.slot {
		last = b.nodes[last].heir
	}
}

// temp makes a temporary that node dies reads last.
func (b *Builder) temp(dev ir.DeviceID, bytes int64, dies int) int {
	s := b.slot(Slot{Kind: Temp, Bytes: bytes, Dev: dev})
	b.temps = append(b.temps, temporary{slot: s, born: b.at, dies: dies})
	return s
}

// emit produces node i.
func (b *Builder) emit(i int) error {
	x := &b.nodes[i]
	if x.n.Op == ir.OpProj || x.into >= 0 || x.with >= 0 {
		return nil // assigned with its main node, or made by another one
	}
	b.at = i
	return b.produce(i)
}

// produce assigns the outputs of node i, or that of the last node that its epilogue stands for, and lowers it.
func (b *Builder) produce(i int) error {
	x := &b.nodes[i]
	if x.writes >= 0 {
		b.assign(x.writes)
		x.slot = b.nodes[x.writes].slot
	} else {
		b.assign(i)
	}
	outs := []int{i}
	for _, e := range b.S.G.Projs(x.n) {
		if e.Value == 0 {
			outs = append(outs, -1)
			continue
		}
		j := int(b.S.G.Node(e.Value).Mark - 1)
		b.assign(j)
		outs = append(outs, j)
	}
	if x.sums >= 0 {
		b.assign(x.sums)
		outs = append(outs, x.sums)
	}
	if x.skip {
		return nil
	}
	return b.lower(i, x, outs)
}

// lower turns node i into steps of the current segment.
func (b *Builder) lower(i int, x *node, outs []int) error {
	g := b.S.G
	p := op.PrimOf(op.PrimID(x.n.Op))
	if p.Name == "to_device" {
		return b.transfer(x)
	}
	av := ir.AvalOf(x.n.Aval)
	dev := av.Device
	caps := b.Caps(dev)
	ln := &b.ln
	*ln = lower.Node{Prim: p, Attr: x.attrOf(), In: ln.In[:0], Out: ln.Out[:0], GemmDims: slices.Contains(caps.GemmDims, av.DType), Wide: caps.Wide,
		InOrder: caps.InOrder, Residual: x.residual != 0, Sums: x.summed}
	b.slots = b.slots[:0]
	dts := scalarTypes(p, g, x)
	for j, e := range x.edges {
		if e.Value == 0 {
			ln.In = append(ln.In, lower.Operand{Scalar: true, DType: dts[j]})
			continue
		}
		m := g.Node(e.Value)
		ln.In = append(ln.In, lower.Operand{DType: ir.AvalOf(m.Aval).DType, Layout: ir.LayoutOf(e.Layout), Buf: b.local(b.slotOf(m.Mark))})
	}
	if x.residual != 0 {
		av := ir.AvalOf(x.n.Aval)
		ln.In = append(ln.In, lower.Operand{DType: av.DType, Layout: av.Layout, Buf: b.local(b.slotOf(x.residual))})
	}
	for k, j := range outs {
		if j < 0 {
			av := ir.AvalOf(unheldAval(p, g, x, k))
			s := b.temp(av.Device, b.bytes(av), i)
			ln.Out = append(ln.Out, lower.Output{DType: av.DType, Layout: av.Layout, Buf: b.local(s)})
			continue
		}
		y := &b.nodes[j]
		av := ir.AvalOf(y.n.Aval)
		o := lower.Output{DType: av.DType, Layout: av.Layout, Buf: b.local(y.slot)}
		if y.through != nil {
			o.Layout, o.Through = y.through, true
		}
		b.p.BytesWritten += o.Layout.Numel * int64(caps.Storage[av.DType])
		ln.Out = append(ln.Out, o)
	}
	ln.Bufs = len(b.slots)
	res, err := b.Lowered.Lower(ln)
	if err != nil {
		return err
	}
	for _, t := range res.Temps {
		b.slots = append(b.slots, b.temp(dev, max(t.Numel*int64(caps.Storage[t.DType]), 1), i))
	}
	b.steps(i, x, res, dev)
	return nil
}

// local numbers a slot among those of the node being lowered.
func (b *Builder) local(slot int) int {
	if l := slices.Index(b.slots, slot); l >= 0 {
		return l
	}
	b.slots = append(b.slots, slot)
	return len(b.slots) - 1
}

// unheldAval is the abstract value of an output that nobody holds: the primitive's
// rule gives it again.
func unheldAval(p *op.Prim, g *ir.Graph, x *node, k int) ir.AvalID {
	in := make([]op.Val, len(x.edges))
	sc := 0
	for j, e := range x.edges {
		if e.Value == 0 {
			in[j] = op.Number(op.ScalarInt, g.Scalars(x.n)[sc])
			sc++
			continue
		}
		in[j] = op.Val{Kind: op.Tensor, Value: e.Value, Layout: e.Layout, Offset: e.Offset, Aval: g.Node(e.Value).Aval}
	}
	outs, err := p.Infer(in, ir.AttrOf(x.n.Attr), nil)
	if err != nil {
		panic(fmt.Sprintf("BUG: %s inferred once and fails now: %v", p.Name, err))
	}
	return ir.InternAval(outs[k].DType, ir.AvalOf(x.n.Aval).Device, ir.DenseLayout(outs[k].Shape)).ID
}

// scalarTypes gives the slot types of scalar operands, by the rule of recording; nil without any.
func scalarTypes(p *op.Prim, g *ir.Graph, x *node) []ir.DType {
	if x.n.NScal == 0 {
		return nil
	}
	t := make([]ir.DType, len(x.edges))
	in := make([]op.Val, len(x.edges))
	first := ir.AvalOf(x.n.Aval).DType
	seen := false
	for j, e := range x.edges {
		if e.Value == 0 {
			in[j] = op.Val{Kind: op.ScalarFloat}
			continue
		}
		in[j] = op.Val{Kind: op.Tensor, Value: e.Value, Layout: e.Layout, Aval: g.Node(e.Value).Aval}
		if !seen {
			first, seen = in[j].DType(), true
		}
	}
	outs := []op.OutSpec{{DType: ir.AvalOf(x.n.Aval).DType, Shape: ir.AvalOf(x.n.Aval).Shape()}}
	for j := range x.edges {
		t[j] = first
		if p.ScalarDType != nil && in[j].IsScalar() {
			t[j] = p.ScalarDType(in, outs, j)
		}
	}
	return t
}

// segment gives the open segment of a device.
func (b *Builder) segment(dev ir.DeviceID) *Segment {
	if n := len(b.p.Segments); n > 0 && !b.p.Segments[n-1].Transfer && b.p.Segments[n-1].Dev == dev {
		return &b.p.Segments[n-1]
	}
	b.p.Segments = append(b.p.Segments, Segment{Dev: dev})
	return &b.p.Segments[len(b.p.Segments)-1]
}

// steps maps a lowered node's local buffers, offsets and scalars to the plan's.
func (b *Builder) steps(i int, x *node, res *lower.Result, dev ir.DeviceID) {
	seg := b.segment(dev)
	b.operandNumbers(x)
	for k := range res.Launches {
		l := &res.Launches[k]
		st := device.Step{Op: l.Op, Event: uint32(i + 1), Bufs: cut(&b.stepBufs, len(l.Bufs)), Params: cut(&b.stepParams, len(l.Params))}
		for n, lb := range l.Bufs {
			st.Bufs[n] = b.slots[lb]
		}
		for n, q := range l.Params {
			st.Params[n] = b.param(x, q)
		}
		seg.Steps = append(seg.Steps, st)
		b.p.Kernels++
	}
}

// param gives a lowered node's parameter the plan's numbers.
func (b *Builder) param(x *node, q device.Param) device.Param {
	switch at := int(q.Index); {
	case q.From == device.Scalar:
		q.Index = int32(b.scs[at])
	case q.From == device.Offset && at < len(b.offs):
		q.Index = int32(b.offs[at])
	case q.From == device.Offset && at == len(b.offs) && x.through != nil:
		q.From, q.Index = device.Scalar, int32(x.throughScal)
	case q.From == device.Offset: // of a result that is no view
		q.From, q.Index = device.Constant, 0
	}
	return q
}

// cut takes n elements from the front of a block, or from a new one.
func cut[T any](block *[]T, n int) []T {
	const size = 1024
	if len(*block) < n {
		*block = make([]T, max(n, size))
	}
	c := (*block)[:n:n]
	*block = (*block)[n:]
	return c
}

// operandNumbers finds each operand's index into the window's offsets, and each scalar
// operand's index into its scalars.
func (b *Builder) operandNumbers(x *node) {
	b.offs, b.scs = b.offs[:0], b.scs[:0]
	o, s := x.offBase, x.scalBase
	for _, e := range x.edges {
		if e.Value == 0 {
			b.offs = append(b.offs, -1)
			b.scs = append(b.scs, s)
			s++
			continue
		}
		b.offs = append(b.offs, o)
		o++
	}
}

// transfer cuts the plan: the source is read back and uploaded.
func (b *Builder) transfer(x *node) error {
	g := b.S.G
	e := x.edges[0]
	m := g.Node(e.Value)
	src, dst := ir.AvalOf(m.Aval), ir.AvalOf(x.n.Aval)
	if l := ir.LayoutOf(e.Layout); !l.Dense {
		return ir.Errorf(ir.ErrInternal, "BUG: to_device of a view that is not dense")
	}
	b.p.Segments = append(b.p.Segments, Segment{Transfer: true, Dev: dst.Device, FromDev: src.Device, From: b.slotOf(m.Mark), To: x.slot,
		DType: src.DType, Numel: dst.Layout.Numel, FromOff: x.offBase})
	return nil
}
