package compile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// Bounds of a fusion group: its members, and how many of their values are needed later at any time. Each such value
// takes a register of every lane.
const (
	maxMembers = 32
	maxAlive   = 16
)

// fuseTable is the table of the pass "fuse".
type fuseTable struct {
	groups map[int]*group // by last member
	in     links          // by node: the last member of its group
}

// group is a fusion group: elementwise nodes of one shape that one kernel computes, at the place of the last of them.
// Between its members no other node runs.
type group struct {
	members []int
	stored  []int // the members whose values need memory
}

// growing is a group that may take further members, with what the bounds are about.
type growing struct {
	group
	caps    *device.Caps
	layout  *ir.Layout
	device  ir.DeviceID
	reads   []groupRead
	buffers int   // distinct values that are read
	slots   []int // that members write, as passes before have decided
	alive   int   // values of members that are needed later
	classes [maxClasses]classUse
}

// maxClasses is the number of size classes of a group's temporaries.
const maxClasses = 6

// classUse counts temporaries of one size class: those from outside that die in the group; the members' values that are
// needed later; and the most that the members need when they run one by one.
type classUse struct {
	bytes              int64 // of the class; 0: unused
	dying, held, apart int
	ends, own          int // of the last member
}

// groupRead is a read of a value from outside.
type groupRead struct {
	value program.Ref
	slot  int  // -1: not decided yet
	whole bool // each member reads its own element only
}

// fuse groups elementwise nodes that read each other's values, in record order, into one kernel each. A value that only
// members read has no memory. Every other value keeps its bits and its place: each member is computed and rounded as
// alone, and passes before have decided which buffers are written.
func (b *Builder) fuse() error {
	b.fused.groups = map[int]*group{}
	var g growing
	for i := range b.Program.Nodes {
		if !b.Program.Nodes[i].IsPrim() || b.folded.has(i) || b.summed.has(i) || b.elided[i] {
			continue // no kernel of its own
		}
		if len(g.members) > 0 && b.alike(&g, i) && b.joins(&g, i) {
			continue
		}
		b.closeGroup(&g)
		if b.fusible(i) {
			b.begin(&g, i)
		}
	}
	b.closeGroup(&g)
	return nil
}

func (b *Builder) noteFused(i int) string {
	last, ok := b.fused.in.at(i)
	if !ok {
		return ""
	}
	if last != i {
		return fmt.Sprintf("done with %%%d", last)
	}
	var names []string
	for _, m := range b.fused.groups[i].members {
		names = append(names, refText(program.NodeRef(m)))
	}
	return "fusion group " + strings.Join(names, " ")
}

// fusible reports that a group may contain node i.
func (b *Builder) fusible(i int) bool {
	n, p := &b.Program.Nodes[i], b.Program.Prim(i)
	if !p.Elementwise || n.Outputs != 1 || p.MayFail() || !lower.CanFuse(p, b.Program.Attrs(i)) {
		return false
	}
	_, view := b.through[i]
	return !view && b.aval(i).Layout.Numel > 0
}

// alike reports that node i may be in one kernel with the members of g: it has their shape and device.
func (b *Builder) alike(g *growing, i int) bool {
	av := b.aval(i)
	return av.Layout == g.layout && av.Device == g.device && b.fusible(i)
}

// begin makes node i the first member of g.
func (b *Builder) begin(g *growing, i int) {
	av := b.aval(i)
	*g = growing{group: group{members: g.members[:0]}, caps: b.Caps(av.Device), layout: av.Layout, device: av.Device,
		reads: g.reads[:0], slots: g.slots[:0]}
	if !b.joins(g, i) {
		g.members = g.members[:0]
	}
}

// joins adds node i to g, where that keeps the bounds.
func (b *Builder) joins(g *growing, i int) bool {
	if len(g.members) == maxMembers {
		return false
	}
	next := *g // appending to its slices leaves g as it is
	next.members = append(next.members, i)
	if slot, ok := b.slots.at(i); ok {
		next.slots = append(next.slots, slot)
	}
	if !b.addReads(&next, i) || !b.writesOwnElements(&next) {
		return false
	}
	if !b.account(&next, i) || next.alive > maxAlive || !b.bindable(&next, i) {
		return false
	}
	*g = next
	return true
}

// addReads adds the operands of node i. It reports that i may follow: it reads what a member makes at its own element,
// and it reads something that the members make or read.
func (b *Builder) addReads(g *growing, i int) (ok bool) {
	joined := len(g.members) == 1
	for j, e := range b.Program.OperandsOf(i) {
		if e.Value == 0 {
			continue
		}
		whole := b.Program.Whole(i, j)
		if e.Value.IsNode() && slices.Contains(g.members, e.Value.Index()) {
			if !whole {
				return false
			}
			joined = true
			continue
		}
		r := groupRead{value: e.Value, slot: b.slotOf(e.Value), whole: whole}
		if slices.ContainsFunc(g.reads, func(q groupRead) bool { return q.value == r.value }) {
			joined = true
		} else {
			g.buffers++
		}
		if !slices.Contains(g.reads, r) {
			g.reads = append(g.reads, r)
		}
	}
	return joined
}

// writesOwnElements reports that where members write a buffer that members read, each reads the element that it
// writes: a kernel reads all of an element's operands before it stores.
func (b *Builder) writesOwnElements(g *growing) bool {
	if len(g.slots) == 0 {
		return true
	}
	return !slices.ContainsFunc(g.reads, func(r groupRead) bool {
		return slices.Contains(g.slots, r.slot) && !(r.whole && b.Program.Aval(r.value).DType == b.writes(g, r.slot))
	})
}

// writes is the dtype that members write to a slot.
func (b *Builder) writes(g *growing, slot int) ir.DType {
	for _, m := range g.members {
		if s, ok := b.slots.at(m); ok && s == slot {
			return b.aval(m).DType
		}
	}
	return ir.InvalidDType
}

// account keeps count of what the members need, now that node i is one of them. It reports that the group needs no more
// memory than its members one by one: what they read lives until the last one runs.
func (b *Builder) account(g *growing, i int) (fits bool) {
	edges, freed := b.Program.OperandsOf(i), [maxMembers]int{}
	n, fits := 0, b.count(g, i, func(u *classUse) { u.own++ })
	for j, e := range edges {
		if !e.Value.IsNode() || b.uses.last[e.Value.Index()] != i ||
			slices.ContainsFunc(edges[:j], func(q program.Edge) bool { return q.Value == e.Value }) {
			continue
		}
		switch v := e.Value.Index(); {
		case !slices.Contains(g.members, v):
			fits = fits && b.count(g, v, func(u *classUse) { u.ends++ })
		case !b.live(v):
			freed[n] = v
			n++
		}
	}
	for k := range g.classes {
		u := &g.classes[k]
		u.dying += u.ends
		u.apart = max(u.apart+u.ends, u.held+u.own+u.ends)
		u.held += u.own
		u.ends, u.own = 0, 0
	}
	g.alive += 1 - n
	for _, v := range freed[:n] {
		b.count(g, v, func(u *classUse) { u.held-- })
	}
	return fits && !slices.ContainsFunc(g.classes[:], func(u classUse) bool { return u.dying+u.held > u.apart })
}

// count calls f with the counts of v's size class where v is a temporary. It fails where there are too many classes.
func (b *Builder) count(g *growing, v int, f func(u *classUse)) (ok bool) {
	if b.live(v) || b.slots.has(v) {
		return true
	}
	bytes := device.SizeClass(b.bytes(b.aval(v)))
	for k := range g.classes {
		if u := &g.classes[k]; u.bytes == bytes || u.bytes == 0 {
			u.bytes = bytes
			f(u)
			return true
		}
	}
	return false
}

// bindable reports that a kernel of the device can bind the buffers of g, whose last member is node i.
func (b *Builder) bindable(g *growing, i int) bool {
	n := g.buffers
	if n+len(g.members) <= g.caps.MaxStorageBuffers {
		return true
	}
	for _, m := range g.members {
		if b.live(m) || b.slots.has(m) || b.uses.last[m] > i || m == i {
			n++
		}
	}
	return n <= g.caps.MaxStorageBuffers
}

// closeGroup ends g. A group of several members goes into the table, and what its members read lives until the last one
// runs.
func (b *Builder) closeGroup(g *growing) {
	members := g.members
	g.members = g.members[:0]
	if len(members) < 2 {
		return
	}
	if g.caps.CostlyKernels && !b.Often && !b.inRegion(members) {
		b.p.Fusible++
		return
	}
	last := members[len(members)-1]
	done := &group{members: slices.Clone(members)}
	for k, m := range members {
		b.fused.in.set(m, last)
		slot, placed := b.slots.at(m)
		overwritten := func(q int) bool { s, ok := b.slots.at(q); return ok && s == slot }
		if m == last || b.live(m) || b.uses.last[m] > last || placed && !slices.ContainsFunc(members[k+1:], overwritten) {
			done.stored = append(done.stored, m)
		}
		for _, e := range b.Program.OperandsOf(m) {
			switch {
			case e.Value.IsInput():
				b.uses.input[e.Value.Index()] = max(b.uses.input[e.Value.Index()], last)
			case e.Value.IsNode():
				b.uses.last[e.Value.Index()] = max(b.uses.last[e.Value.Index()], last)
			}
		}
	}
	b.fused.groups[last] = done
	b.p.noteGroup(done.members)
}

// inRegion reports that all members are in compiled regions. Their kernels are compiled at the first run, as the user
// asked for.
func (b *Builder) inRegion(members []int) bool {
	return !slices.ContainsFunc(members, func(m int) bool { return b.Program.Nodes[m].Region == 0 })
}

// lowerGroup turns the members into one launch at the place of the last one.
func (b *Builder) lowerGroup(g *group) error {
	w, p := &b.lowering, b.Program
	last := g.members[len(g.members)-1]
	for _, m := range g.stored {
		b.assign(m)
	}
	w.slots, w.offs, w.scs = w.slots[:0], w.offs[:0], w.scs[:0]
	caps := b.Caps(b.aval(last).Device)
	ln := &w.node
	*ln = lower.Node{Prim: p.Prim(last), Attr: p.Attrs(last), In: ln.In[:0], Out: ln.Out[:0], Wide: caps.Wide,
		InOrder: caps.InOrder}
	for _, m := range g.members {
		ln.Members = append(ln.Members, b.member(g, m))
	}
	for k, m := range g.stored {
		av := b.aval(m)
		slot, _ := b.slots.at(m)
		ln.Out = append(ln.Out, lower.Output{DType: av.DType, Layout: av.Layout, Buf: b.local(slot)})
		ln.Members[slices.Index(g.members, m)].Out = k
		b.p.BytesWritten += av.Layout.Numel * int64(caps.Storage[av.DType])
	}
	ln.Bufs = len(w.slots)
	res, err := b.Lowered.Lower(ln)
	if err != nil {
		return err
	}
	b.steps(last, res, b.aval(last).Device, g.stored)
	return nil
}

// member describes node m to the lowering, and adds its operands from outside to those of the group.
func (b *Builder) member(g *group, m int) lower.Member {
	w, p := &b.lowering, b.Program
	l := lower.Member{Prim: p.Prim(m), Attr: p.Attrs(m), DType: b.aval(m).DType, Out: -1, Region: p.Nodes[m].Region}
	dts, scalars := p.ScalarTypes(m), 0
	for j, e := range p.OperandsOf(m) {
		if e.Value == 0 {
			l.In = append(l.In, len(w.node.In))
			w.node.In = append(w.node.In, lower.Operand{Scalar: true, DType: dts[j]})
			w.offs, w.scs = append(w.offs, -1), append(w.scs, int(p.Nodes[m].Scalar)+scalars)
			scalars++
			continue
		}
		if at := slices.Index(g.members, e.Value.Index()); e.Value.IsNode() && at >= 0 {
			l.In = append(l.In, ^at)
			continue
		}
		in := lower.Operand{DType: p.Aval(e.Value).DType, Layout: ir.LayoutOf(e.Layout), Buf: b.local(b.slotOf(e.Value)),
			Whole: p.Whole(m, j)}
		if at := slices.Index(w.node.In, in); in.Whole && at >= 0 {
			l.In = append(l.In, at)
			continue
		}
		l.In = append(l.In, len(w.node.In))
		w.node.In = append(w.node.In, in)
		w.offs = append(w.offs, int(p.Nodes[m].Edge)+j)
	}
	return l
}
