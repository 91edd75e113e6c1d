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

// group is a fusion group: nodes that one kernel computes, at the place of the last of them. A member is elementwise in
// the group's shape or in a view of it, or reduces the rows of that shape, or is elementwise with one element for each
// row. No other node runs between the members.
type group struct {
	members []int
	stored  []int // the values that need memory
	layout  *ir.Layout
	rows    *rowShape
}

// growing is a group that may take further members, with the state for its bounds.
type growing struct {
	group
	caps    *device.Caps
	device  ir.DeviceID
	part    bool // a member writes a part of a buffer: rows do not join
	joins   bool // a member is a cat
	reads   []groupRead
	buffers int // distinct values that are read
	writes  []groupWrite
	alive   int  // values of members that are needed later
	sealed  bool // nothing may follow
	settled bool // the next node joins whatever memory it takes
	classes [maxClasses]classUse
}

// maxClasses is the number of size classes of a group's temporaries.
const maxClasses = 6

// classUse counts temporaries of one size class: operands from outside that die in the group, values of members that
// are needed later, and the peak when the members run one by one.
type classUse struct {
	bytes              int64 // of the class; 0: unused
	dying, held, apart int
	ends, own          int // of the last member
	given              int // buffers that a value which dies gives to one that is needed later
}

// more is the bytes that the group needs beyond those of its members one by one.
func (u classUse) more() int64 { return int64(u.dying+u.held-u.given-u.apart) * u.bytes }

// grows reports that the group needs more memory than its members one by one: of any size class, as a buffer serves one
// class; of all together with a cat, as it has another class than its parts.
func (g *growing) grows() bool {
	most, sum := int64(0), int64(0)
	for _, u := range g.classes {
		most, sum = max(most, u.more()), sum+u.more()
	}
	return most > 0 && (!g.joins || sum > 0)
}

// groupRead is a read of a value from outside.
type groupRead struct {
	value program.Ref
	slot  int  // -1: not decided yet
	whole bool // each member reads its own element only
}

// groupWrite is a slot that members write, as passes before have decided; part: through a view.
type groupWrite struct {
	slot  int
	dtype ir.DType
	part  bool
}

// fuse groups elementwise nodes and row nodes that read each other's values, in record order. One kernel computes a
// group. A value that only members read has no memory. Every other value keeps its bits, since each member is computed
// and rounded as in its own kernel, and its buffer, which earlier passes have chosen.
func (b *Builder) fuse() error {
	b.fused.groups = map[int]*group{}
	b.takeBack()
	order, moved := b.fuseOrder()
	var g growing
	for at := 0; at < len(order) || len(g.members) > 0; at++ {
		i := -1
		if at < len(order) {
			if i = order[at]; !b.hasKernel(i) {
				continue
			}
			follows := at > 0 && moved[order[at-1]]
			g.settled = follows // formGroup has accounted for what moved
			if len(g.members) > 0 && (follows || !moved[i]) && b.alike(&g, i) && b.joins(&g, i) {
				continue
			}
			if follows {
				panic("BUG: fuse: a node that moved and its reader are no group")
			}
		}
		if cut := b.kept(&g, i, moved); cut < len(g.members) {
			for at--; order[at] != g.members[cut]; at-- {
			}
			at--
			g.members = g.members[:cut]
			b.closeGroup(&g)
			continue
		}
		b.closeGroup(&g)
		if i >= 0 && b.fusible(i) && !b.isCat(i) {
			b.begin(&g, i)
		}
	}
	return nil
}

// hasKernel reports that no earlier pass has fused node i into another kernel.
func (b *Builder) hasKernel(i int) bool {
	return b.Program.Nodes[i].IsPrim() && !b.folded.has(i) && !b.summed.has(i) && !b.normed.has(i) && !b.appended.has(i) &&
		!b.elided[i]
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
	n := &b.Program.Nodes[i]
	if !n.IsPrim() { // a further result of a node
		return false
	}
	p := b.Program.Prim(i)
	if b.rowsOf(i) != nil {
		return b.epilogues[i] == nil && b.rowShapeOf(i) != nil
	}
	switch {
	case b.isCat(i):
		return b.aval(i).Layout.Numel > 0
	case b.isScatter(i):
		return b.scatters(i)
	}
	return lower.CanFuse(p, b.Program.Attrs(i)) && (n.Outputs == 1 || lower.IsStep(p)) && !p.MayFail() &&
		b.aval(i).Layout.Numel > 0
}

// alike reports that node i has the device and the shape of a member of g. A group with rows also takes nodes with one
// element for each row. A group without rows also takes nodes of other shapes with as many elements.
func (b *Builder) alike(g *growing, i int) bool {
	av := b.aval(i)
	if g.sealed || av.Device != g.device || !b.fusible(i) {
		return false
	}
	if b.rowsOf(i) != nil {
		s := b.rowShapeOf(i)
		if g.rows != nil {
			return !g.part && s.full == g.layout && slices.Equal(s.reduced, g.rows.reduced)
		}
		return !g.part && b.seenAs(g.members, s)
	}
	if b.storesPieces(i) {
		return g.rows == nil && b.pieces(g.members, i, g.layout) != nil
	}
	_, view := b.through[i]
	if g.rows != nil {
		return av.Layout == g.rows.outer || !view && (av.Layout == g.layout || b.reshapes(i, g.layout))
	}
	return av.Layout == g.layout || !view && b.shapeWith(g, i) != nil
}

// seenAs reports that every member has the shape of s, or can be viewed in it. A member that is viewed so requires rows
// of several elements: with rows of one element it would look like a value for each row.
func (b *Builder) seenAs(members []int, s *rowShape) bool {
	own := !slices.ContainsFunc(members, func(m int) bool { return b.aval(m).Layout != s.full })
	return own || s.outer.Numel < s.full.Numel && b.allReshape(members, s.full)
}

// allReshape reports that all members can be viewed in the shape of a layout.
func (b *Builder) allReshape(members []int, to *ir.Layout) bool {
	return !slices.ContainsFunc(members, func(m int) bool {
		if b.storesPieces(m) {
			return b.pieces(members, m, to) == nil
		}
		return !b.reshapes(m, to)
	})
}

// shapeWith is the shape in which the members and node i can be viewed: the group's or the node's; nil if neither
// works.
func (b *Builder) shapeWith(g *growing, i int) *ir.Layout {
	own := b.aval(i).Layout
	switch {
	case own == g.layout || b.reshapes(i, g.layout):
		return g.layout
	case own.Numel != g.layout.Numel || slices.ContainsFunc(g.writes, func(w groupWrite) bool { return w.part }):
		return nil
	case b.allReshape(g.members, own):
		return own
	}
	return nil
}

// reshapes reports that node i and its operands can be viewed in the shape of a layout.
func (b *Builder) reshapes(i int, to *ir.Layout) bool {
	if b.aval(i).Layout.Numel != to.Numel {
		return false
	}
	for j, e := range b.Program.OperandsOf(i) {
		if e.Value == 0 || b.Program.Whole(i, j) {
			continue
		}
		if _, ok := ir.ReshapeLayout(ir.LayoutOf(e.Layout), to.Shape); !ok {
			return false
		}
	}
	return true
}

// begin makes node i the first member of g.
func (b *Builder) begin(g *growing, i int) {
	av := b.aval(i)
	*g = growing{group: group{members: g.members[:0], layout: av.Layout}, caps: b.Caps(av.Device), device: av.Device,
		reads: g.reads[:0], writes: g.writes[:0]}
	switch {
	case b.rowsOf(i) != nil:
		g.layout = b.rowShapeOf(i).full
	case b.isScatter(i):
		g.layout = b.scattered(i)
	}
	if !b.joins(g, i) {
		g.members = g.members[:0]
	}
}

// joins adds node i to g if the group stays within its bounds.
func (b *Builder) joins(g *growing, i int) bool {
	if len(g.members) == maxMembers {
		return false
	}
	next := *g // appending to its slices leaves g as it is
	next.members = append(next.members, i)
	if b.rowsOf(i) != nil {
		next.rows, next.sealed = b.rowShapeOf(i), b.Program.Prim(i).MayFail()
	}
	_, part := b.through[i]
	part, next.joins = part || b.storesPieces(i), g.joins || b.isCat(i)
	switch {
	case next.rows != nil:
		next.layout = next.rows.full
	case b.storesPieces(i):
	case b.aval(i).Layout != g.layout:
		next.layout = b.shapeWith(g, i)
	}
	next.part = next.part || part
	for _, v := range b.valuesOf(i) {
		if slot, ok := b.slots.at(v); ok {
			next.writes = append(next.writes, groupWrite{slot, b.aval(v).DType, part})
		}
	}
	if !b.addReads(&next, i) || !b.writesOwnElements(&next) {
		return false
	}
	if !b.bindable(&next) || !b.lowers(&next.group) || !(b.account(&next, i) || g.settled) ||
		next.alive > maxAlive {
		return false
	}
	*g = next
	return true
}

// addReads adds the operands of node i, and reports that i may follow. It may if it shares an operand with the members
// or reads their values, these at its own element or row; or if it reads no tensor and other nodes read it.
func (b *Builder) addReads(g *growing, i int) (ok bool) {
	edges := b.Program.OperandsOf(i)
	joined := len(g.members) == 1 || b.uses.last[i] > i &&
		!slices.ContainsFunc(edges, func(e program.Edge) bool { return e.Value != 0 })
	_, part := b.through[i]
	slot, _ := b.slots.at(i)
	for j, e := range edges {
		if e.Value == 0 || j == scatterBase && b.isScatter(i) {
			continue
		}
		if b.isMember(g.members, e.Value) {
			if !b.readsOwn(&g.group, i, j) || b.storesPieces(e.Value.Index()) && !b.storesPieces(i) {
				return false
			}
			joined = true
			continue
		}
		r := groupRead{value: e.Value, slot: b.slotOf(e.Value), whole: b.Program.Whole(i, j) && !b.storesPieces(i) &&
			(g.rows == nil || b.readerLevel(&g.group, i, j) == lower.Full && ir.LayoutOf(e.Layout).Numel == g.layout.Numel)}
		if part && r.slot == slot { // of the view's own elements
			g.buffers++
			continue
		}
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

// kept is the number of members that stay in g; the others begin the next group. i is the next node, or -1.
func (b *Builder) kept(g *growing, i int, moved []bool) int {
	switch {
	case len(g.members) == 0:
		return 0
	case g.rows != nil:
		return len(g.members) - b.tail(g)
	case i >= 0 && b.continues(g, i):
		return b.narrowest(g, moved)
	}
	return len(g.members)
}

// continues reports that node i reads the value of a member, so that only the bounds keep it out of g.
func (b *Builder) continues(g *growing, i int) bool {
	return b.alike(g, i) && slices.ContainsFunc(b.Program.OperandsOf(i), func(e program.Edge) bool {
		return b.isMember(g.members, e.Value)
	})
}

// narrowest is the number of members, at least half of them, after which the fewest temporaries cross to the next
// kernel; the largest such number. A node that moved stays with its reader.
func (b *Builder) narrowest(g *growing, moved []bool) int {
	n := len(g.members)
	best, fewest := n, n+1
	for c := n; c >= max(2, (n+1)/2); c-- {
		last, left := g.members[c-1], 0
		if moved[last] {
			continue
		}
		for _, v := range b.storedOf(g.members[:c]) {
			if !b.live(v) && !b.slots.has(v) && b.uses.last[v] > last {
				left++
			}
		}
		if left < fewest {
			best, fewest = c, left
		}
	}
	return best
}

// isMember reports that the value is a member's.
func (b *Builder) isMember(members []int, r program.Ref) bool {
	return r.IsNode() && slices.Contains(members, b.uses.main[r.Index()])
}

// valuesOf lists the values of node i that somebody holds.
func (b *Builder) valuesOf(i int) []int {
	list := []int{i}
	for k := 1; k < int(b.Program.Nodes[i].Outputs); k++ {
		if v, held := b.uses.results[i].at(k); held {
			list = append(list, v)
		}
	}
	return list
}

// writesOwnElements reports that in-place writes are safe. A member that reads a buffer which a member writes reads it
// at the element that it writes, since a kernel reads all operands of an element before it stores. If a member writes a
// part of a buffer, no other member uses the buffer.
func (b *Builder) writesOwnElements(g *growing) bool {
	for k, w := range g.writes {
		if slices.ContainsFunc(g.reads, func(r groupRead) bool {
			return r.slot == w.slot && (w.part || !r.whole || b.Program.Aval(r.value).DType != w.dtype)
		}) || slices.ContainsFunc(g.writes[:k], func(v groupWrite) bool {
			return v.slot == w.slot && (v.part || w.part)
		}) {
			return false
		}
	}
	return true
}

// lowers reports that one kernel can compute the members.
func (b *Builder) lowers(g *group) bool {
	return g.rows == nil || lower.CanFuseRows(b.groupNode(g, b.storedOf(g.members)))
}

// gifts pairs operands that die in g with values that g stores. The values take the buffers of the operands.
func (b *Builder) gifts(g *growing) (pairs [][2]int) {
	last := g.members[len(g.members)-1]
	stored := b.storedOf(g.members)
	for _, r := range g.reads {
		if !r.value.IsNode() {
			continue
		}
		v := r.value.Index()
		if b.uses.last[v] > last || b.live(v) || b.slots.has(v) || b.donations.has(v) ||
			slices.ContainsFunc(g.reads, func(q groupRead) bool { return q.value == r.value && !q.whole }) {
			continue
		}
		av := b.aval(v)
		at := slices.IndexFunc(stored, func(s int) bool {
			of := b.aval(s)
			return of.DType == av.DType && of.Layout.Numel == av.Layout.Numel && !b.live(s) && !b.slots.has(s) &&
				b.levelOf(&g.group, s) == lower.Full && !slices.Contains(b.donations, int32(s+1))
		})
		if at >= 0 {
			pairs = append(pairs, [2]int{v, stored[at]})
			stored = slices.Delete(stored, at, at+1)
		}
	}
	return pairs
}

// account adds the memory of member i. It reports that the group needs no more memory than its members one by one: an
// operand lives until the last member runs, or gives its buffer to a stored value.
func (b *Builder) account(g *growing, i int) (fits bool) {
	edges, freed := b.Program.OperandsOf(i), [maxMembers]int{}
	n, fits, values := 0, true, b.valuesOf(i)
	for _, v := range values {
		fits = fits && b.count(g, v, func(u *classUse) { u.own++ })
	}
	for j, e := range edges {
		if !e.Value.IsNode() || b.uses.last[e.Value.Index()] != i ||
			slices.ContainsFunc(edges[:j], func(q program.Edge) bool { return q.Value == e.Value }) {
			continue
		}
		switch v := e.Value.Index(); {
		case !b.isMember(g.members, e.Value):
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
	g.alive += len(values) - n
	for _, v := range freed[:n] {
		b.count(g, v, func(u *classUse) { u.held-- })
	}
	for k := range g.classes {
		g.classes[k].given = 0
	}
	if g.grows() {
		for _, pair := range b.gifts(g) {
			b.count(g, pair[0], func(u *classUse) { u.given++ })
		}
	}
	fits = fits && !g.grows()
	for _, v := range values {
		if b.uses.last[v] == v && !b.live(v) { // nobody reads it
			b.count(g, v, func(u *classUse) { u.held-- })
			g.alive--
		}
	}
	return fits
}

// count calls f with the counts of v's size class if v is a temporary. It reports false if there are too many classes.
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

// bindable reports that a kernel of the device can bind the buffers of g, and the error word where a member may fail.
func (b *Builder) bindable(g *growing) bool {
	n := g.buffers
	if g.sealed {
		n++
	}
	for _, v := range b.storedOf(g.members) {
		slot, placed := b.slots.at(v)
		if !placed || !slices.ContainsFunc(g.reads, func(r groupRead) bool { return r.slot == slot }) {
			n++ // else it shares the binding of what it overwrites
		}
	}
	return n <= g.caps.MaxStorageBuffers
}

// storedOf lists the values that a group of these members stores: those that are read later, those that are live
// outside, and the last write to each buffer.
func (b *Builder) storedOf(members []int) (stored []int) {
	last := members[len(members)-1]
	for k, m := range members {
		for _, v := range b.valuesOf(m) {
			slot, placed := b.slots.at(v)
			overwritten := func(q int) bool { s, ok := b.slots.at(q); return ok && s == slot }
			if v == last || b.live(v) || b.uses.last[v] > last || placed && !slices.ContainsFunc(members[k+1:], overwritten) {
				stored = append(stored, v)
			}
		}
	}
	return stored
}

// closeGroup ends g. A group of several members goes into the table, and its operands live until the last member runs.
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
	done := &group{members: slices.Clone(members), stored: b.storedOf(members), layout: g.layout, rows: g.rows}
	g.members = done.members
	for _, pair := range b.gifts(g) {
		b.donations.set(pair[0], pair[1])
	}
	g.members = members[:0]
	for _, m := range members {
		b.fused.in.set(m, last)
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
