package compile

import (
	"fmt"
	"slices"

	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// lowering is the state of the pass "lower".
type lowering struct {
	at    int         // the node that is being produced
	temps []temporary // in the order in which they are made
	// Of the node being lowered: itself, the nodes of its outputs, the slots of its local buffers, and its operands'
	// offsets and numbers.
	node      lower.Node
	outs      []int
	slots     []int
	offs, scs []int
	// Of the operands of its epilogue, its norm and its new rows: the offsets, -1 for none, and the program's numbers.
	foldOffs, foldScs []int

	stepBufs   []int          // of the plan's steps: a block that their lists are cut from
	stepParams []device.Param // of the plan's steps: a block that their lists are cut from
}

// bytes is the size of a value on its device.
func (b *Builder) bytes(av *ir.Aval) int64 {
	c := b.Caps(av.Device)
	w := int64(c.Storage[av.DType])
	if w == 0 && av.DType != ir.InvalidDType {
		panic(ir.Errorf(ir.ErrType, "%s", ir.NotStored(av.DType, av.Device)))
	}
	return max(w*av.Layout.Numel, 1)
}

func (b *Builder) slot(s Slot) int {
	b.p.Slots = append(b.p.Slots, s)
	return len(b.p.Slots) - 1
}

func (b *Builder) outputSlot(i int) int {
	av := b.aval(i)
	b.p.Outputs++
	return b.slot(Slot{Kind: Output, Index: b.p.Outputs - 1, Bytes: b.bytes(av), Dev: av.Device})
}

// assign gives value i a slot where it has none.
func (b *Builder) assign(i int) {
	if b.live(i) {
		if !b.slots.has(i) {
			b.slots.set(i, b.outputSlot(i))
		}
		slot, _ := b.slots.at(i)
		b.p.Results = append(b.p.Results, Result{Local: i, Slot: slot})
		return
	}
	if b.slots.has(i) {
		return
	}
	last := i
	for taker, ok := b.donations.at(last); ok; taker, ok = b.donations.at(last) {
		last = taker
	}
	av := b.aval(i)
	slot := b.temp(av.Device, b.bytes(av), max(b.uses.last[last], last))
	b.slots.set(i, slot)
	for taker, ok := b.donations.at(i); ok; taker, ok = b.donations.at(taker) {
		b.slots.set(taker, slot)
	}
}

// temp makes a temporary that node dies is the last to read.
func (b *Builder) temp(dev ir.DeviceID, bytes int64, dies int) int {
	s := b.slot(Slot{Kind: Temp, Bytes: bytes, Dev: dev})
	b.lowering.temps = append(b.lowering.temps, temporary{slot: s, born: b.lowering.at, dies: dies})
	return s
}

// lowerNodes lowers every node that is not fused into another one.
func (b *Builder) lowerNodes() error {
	for i := range b.Program.Nodes {
		if !b.Program.Nodes[i].IsPrim() || b.folded.has(i) || b.summed.has(i) || b.normed.has(i) {
			continue // assigned with its main node, or computed by another node
		}
		b.lowering.at = i
		if last, ok := b.fused.in.at(i); ok && last != i {
			continue // computed with the last member of its group
		}
		if err := b.produce(i); err != nil {
			return err
		}
	}
	return nil
}

func (b *Builder) noteSteps(i int) string {
	n := 0
	for k := range b.p.Segments {
		for _, st := range b.p.Segments[k].Steps {
			if int(st.Event) == i+1 {
				n++
			}
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("steps: %d", n)
}

// produce assigns the outputs of node i, or of the last node in its epilogue, and lowers it.
func (b *Builder) produce(i int) error {
	if g := b.fused.groups[i]; g != nil {
		return b.lowerGroup(g)
	}
	outs := []int{i}
	if e := b.epilogues[i]; e != nil {
		outs = slices.Clone(e.kept)
		b.p.noteEpilogue(i, e.folds)
	}
	for _, v := range outs {
		b.assign(v)
	}
	if !b.slots.has(i) {
		b.slots[i] = b.slots[outs[0]] // where the result is before the epilogue
	}
	for k := 1; k < int(b.Program.Nodes[i].Outputs); k++ {
		j, held := b.uses.results[i].at(k)
		if !held {
			outs = append(outs, unheld)
			continue
		}
		b.assign(j)
		outs = append(outs, j)
	}
	if s, ok := b.sums[i]; ok {
		b.assign(s.node)
		outs = append(outs, s.node)
	}
	if b.elided[i] || b.appended.has(i) {
		return nil
	}
	return b.lower(i, outs)
}

// unheld stands in a list of outputs for an output that nobody holds.
const unheld = -1

// lower turns node i into steps of the current segment.
func (b *Builder) lower(i int, outs []int) error {
	g := b.Program
	p := g.Prim(i)
	if p.Moves {
		return b.transfer(i)
	}
	av := b.aval(i)
	dev := av.Device
	caps := b.Caps(dev)
	w := &b.lowering
	ln := &w.node
	*ln = lower.Node{Prim: p, Attr: g.Attrs(i), In: ln.In[:0], Out: ln.Out[:0], GemmDims: slices.Contains(caps.GemmDims,
		av.DType), GemmPads: caps.GemmPads, Wide: caps.Wide,
		InOrder: caps.InOrder, Fourier: caps.Fourier, Quantized: caps.Quantized, FactorSide: caps.FactorSide,
		MaxIterations: caps.MaxIterations,
		Sums:          b.sums[i].operand}
	w.slots = w.slots[:0]
	dts := g.ScalarTypes(i)
	for j, e := range g.OperandsOf(i) {
		if e.Value == 0 {
			ln.In = append(ln.In, lower.Operand{Scalar: true, DType: dts[j]})
			continue
		}
		in, value := lower.Operand{DType: g.Aval(e.Value).DType, Layout: ir.LayoutOf(e.Layout)}, e.Value
		if v, ok := b.norms[i]; ok && j == 0 {
			in.Layout, _ = b.normView(i, v)
			value = g.OperandsOf(v)[0].Value
		}
		in.Buf = b.local(b.slotOf(value))
		ln.In = append(ln.In, in)
	}
	b.lowerFolds(i)
	b.lowerNorm(i)
	b.lowerAppend(i)
	for k, j := range outs {
		if j == unheld {
			av := b.unheldAval(i, k)
			s := b.temp(av.Device, b.bytes(av), i)
			ln.Out = append(ln.Out, lower.Output{DType: av.DType, Layout: av.Layout, Buf: b.local(s),
				Unread: true})
			continue
		}
		av := b.aval(j)
		slot, _ := b.slots.at(j)
		o := lower.Output{DType: av.DType, Layout: av.Layout, Buf: b.local(slot)}
		if k == 0 {
			o.Layout = b.aval(i).Layout // that of an epilogue's value may have another shape
		}
		if t, ok := b.through[j]; ok {
			o.Layout, o.Through = t.layout, true
		}
		b.p.BytesWritten += o.Layout.Numel * int64(caps.Storage[av.DType])
		ln.Out = append(ln.Out, o)
	}
	ln.Bufs = len(w.slots)
	lowered := b.Lowered.Lower
	if b.isLoop(i) {
		lowered = b.lowerLoop
	}
	res, err := lowered(ln)
	if err != nil {
		return err
	}
	b.dropUnread(ln, res)
	for _, t := range res.Temps {
		w.slots = append(w.slots, b.temp(dev, max(t.Numel*int64(caps.Storage[t.DType]), 1), i))
	}
	b.steps(i, res, dev, outs)
	return nil
}

// dropUnread takes the temporaries of unread results from the plan that no launch writes.
func (b *Builder) dropUnread(n *lower.Node, res *lower.Result) {
	w := &b.lowering
	for _, o := range n.Out {
		written := func(l device.Step) bool { return slices.Contains(l.Bufs, o.Buf) }
		if o.Unread && !slices.ContainsFunc(res.Launches, written) {
			w.temps = slices.DeleteFunc(w.temps, func(t temporary) bool { return t.slot == w.slots[o.Buf] })
		}
	}
}

// local returns the number that a slot has in the node being lowered.
func (b *Builder) local(slot int) int {
	if l := slices.Index(b.lowering.slots, slot); l >= 0 {
		return l
	}
	b.lowering.slots = append(b.lowering.slots, slot)
	return len(b.lowering.slots) - 1
}

// unheldAval is the abstract value of output k of node i, which nobody holds; the primitive's rule infers it again.
func (b *Builder) unheldAval(i, k int) *ir.Aval {
	outs, err := b.Program.Infer(i)
	if err != nil {
		panic(fmt.Sprintf("BUG: %s inferred once and fails now: %v", b.Program.Prim(i).Name, err))
	}
	return ir.InternAval(outs[k].DType, b.aval(i).Device, ir.DenseLayout(outs[k].Shape))
}

// segment returns the open segment of a device, or opens one.
func (b *Builder) segment(dev ir.DeviceID) *Segment {
	if n := len(b.p.Segments); n > 0 && b.p.Segments[n-1].runs() && b.p.Segments[n-1].Dev == dev {
		return &b.p.Segments[n-1]
	}
	b.p.Segments = append(b.p.Segments, Segment{Dev: dev})
	return &b.p.Segments[len(b.p.Segments)-1]
}

// steps maps a lowered node's local buffers, offsets and scalars to the plan's.
func (b *Builder) steps(i int, res *lower.Result, dev ir.DeviceID, outs []int) {
	seg := b.segment(dev)
	if b.fused.groups[i] == nil {
		b.operandNumbers(i)
	}
	if slices.ContainsFunc(outs, b.external) || b.appendsExternal(i) {
		b.p.overwritesFrom(StepPlace{len(b.p.Segments) - 1, len(seg.Steps)})
	}
	w := &b.lowering
	w.outs = outs
	b.movingNumbers(res)
	var open []*Repeat
	for k := range res.Launches {
		if len(res.Repeats) > 0 {
			open = b.repeats(res, k, dev, open)
			seg = b.segment(dev)
		}
		l := &res.Launches[k]
		st := device.Step{Op: l.Op, Event: uint32(i + 1), Inner: l.Inner,
			Bufs: cut(&w.stepBufs, len(l.Bufs)), Params: cut(&w.stepParams, len(l.Params))}
		for n, lb := range l.Bufs {
			st.Bufs[n] = w.slots[lb]
		}
		for n, q := range l.Params {
			st.Params[n] = b.param(q)
		}
		seg.Steps = append(seg.Steps, st)
		b.p.Kernels++
	}
	b.repeats(res, len(res.Launches), dev, open)
}

// movingNumbers gives each moving number of a lowered node a run-time scalar in the plan.
func (b *Builder) movingNumbers(res *lower.Result) {
	for _, q := range res.Moving {
		b.p.Moving = append(b.p.Moving, b.param(q))
	}
	for i := range res.Moving {
		b.lowering.scs = append(b.lowering.scs, len(b.Program.Scalars)+len(b.p.Moving)-len(res.Moving)+i)
	}
}

// repeats adds the segments that end and begin repeats before launch k, and returns the open ones.
func (b *Builder) repeats(res *lower.Result, k int, dev ir.DeviceID, open []*Repeat) []*Repeat {
	for i := len(res.Repeats) - 1; i >= 0; i-- {
		if r := &res.Repeats[i]; r.To == k {
			last := open[len(open)-1]
			open = open[:len(open)-1]
			last.End = len(b.p.Segments)
			b.p.Segments = append(b.p.Segments, Segment{Dev: dev, Repeat: last})
		}
	}
	for i := range res.Repeats {
		if r := &res.Repeats[i]; r.From == k {
			s := &Repeat{Begin: len(b.p.Segments), Flag: -1, Number: b.p.Repeats, Most: r.Most, Exact: r.Exact,
				Ahead: r.Ahead}
			if r.Flag >= 0 {
				s.Flag = b.lowering.slots[r.Flag]
			}
			for _, m := range r.Moves {
				s.Moves = append(s.Moves, lower.Move{Number: len(b.p.Moving) - len(res.Moving) + m.Number, By: m.By})
			}
			b.p.Repeats++
			open = append(open, s)
			b.p.Segments = append(b.p.Segments, Segment{Dev: dev, Repeat: s})
		}
	}
	return open
}

// external reports that node i writes a buffer that the plan did not make.
func (b *Builder) external(i int) bool {
	if i == unheld {
		return false
	}
	slot, ok := b.slots.at(i)
	return ok && b.p.Slots[slot].Kind == External
}

// param replaces numbers of the lowered node in a parameter by the plan's.
func (b *Builder) param(q device.Param) device.Param {
	w := &b.lowering
	at := int(q.Index)
	var view through
	writesView := false
	if out := at - len(w.offs); q.From == device.Offset && out >= 0 && out < len(w.outs) {
		view, writesView = b.through[w.outs[out]]
	}
	switch {
	case q.From == device.Scalar:
		q.Index = int32(w.scs[at])
	case q.From == device.Offset && at < len(w.offs) && w.offs[at] >= 0:
		q.Index = int32(w.offs[at])
	case writesView:
		q.From, q.Index = device.Scalar, int32(view.scalar)
	case q.From == device.Offset: // of a result that is no view, or of an epilogue's operand, which is whole
		q.From, q.Index = device.Constant, 0
	}
	return q
}

// cut takes n elements from the front of a block, or from a new block.
func cut[T any](block *[]T, n int) []T {
	const size = 1024
	if len(*block) < n {
		*block = make([]T, max(n, size))
	}
	c := (*block)[:n:n]
	*block = (*block)[n:]
	return c
}

// operandNumbers finds, for each operand of node i, its index into the program's offsets, -1 for a number; and for each
// number its index into the program's scalars.
func (b *Builder) operandNumbers(i int) {
	w, n := &b.lowering, &b.Program.Nodes[i]
	w.offs, w.scs = w.offs[:0], w.scs[:0]
	for j, e := range b.Program.OperandsOf(i) {
		if e.Value != 0 {
			w.offs = append(w.offs, int(n.Edge)+j)
			continue
		}
		w.offs = append(w.offs, -1)
		w.scs = append(w.scs, int(n.Scalar)+len(w.scs))
	}
	if v, ok := b.norms[i]; ok {
		w.offs[0] = int(b.Program.Nodes[v].Edge)
	}
	w.offs, w.scs = append(w.offs, w.foldOffs...), append(w.scs, w.foldScs...)
}

// transfer ends the segment: the source is read back and uploaded.
func (b *Builder) transfer(i int) error {
	g := b.Program
	e := g.OperandsOf(i)[0]
	src, dst := g.Aval(e.Value), b.aval(i)
	if l := ir.LayoutOf(e.Layout); !l.Dense {
		return ir.Errorf(ir.ErrInternal, "BUG: to_device of a view that is not dense")
	}
	to, _ := b.slots.at(i)
	if b.external(i) {
		b.p.overwritesFrom(StepPlace{Segment: len(b.p.Segments)})
	}
	b.p.Segments = append(b.p.Segments, Segment{Transfer: true, Dev: dst.Device, FromDev: src.Device,
		From: b.slotOf(e.Value), To: to,
		DType: src.DType, Numel: dst.Layout.Numel, FromOff: int(g.Nodes[i].Edge),
		Event: uint32(i + 1)})
	return nil
}
