package compile

import (
	"slices"

	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/kernels/device"
)

// Programs scale all gradients before they take the first norm or update the first parameter. So the pass "fuse" moves
// some elementwise nodes to right before their first reader, if that is an optimizer's step or a reduction to one
// value. No node between may use the buffers of a node that moves.

// maxDelay bounds the nodes of a chain that moves.
const maxDelay = 4

// touches says which nodes use which values and buffers, in record order.
type touches struct {
	readers       [][]int       // by node: of its value
	reads, writes map[int][]int // by slot
	kernels       []int         // by node: nodes with a kernel of their own before it
}

// fuseOrder is the order in which the pass visits nodes; moved marks nodes that are later than recorded. Their operands
// live until then.
func (b *Builder) fuseOrder() (order []int, moved []bool) {
	n := len(b.Program.Nodes)
	order, moved = make([]int, 0, n), make([]bool, n)
	var t *touches
	moves := map[int][]int{} // by reader
	for i := range n {
		if !b.hasKernel(i) || !b.takesDelayed(i) {
			continue
		}
		if t == nil {
			t = b.touches()
		}
		var list []int
		for j, e := range b.Program.OperandsOf(i) {
			if e.Value.IsNode() && b.Program.Whole(i, j) {
				list = b.delay(t, e.Value.Index(), i, i, list)
			}
		}
		later := b.Caps(b.aval(i).Device).CostlyKernels && !b.Often
		if !b.formGroup(list, i, !later) {
			continue
		}
		if later { // and the order of nodes is as recorded
			b.p.Fusible++
			continue
		}
		moves[i] = list
		for _, k := range list {
			moved[k] = true
		}
	}
	for i := range n {
		if !moved[i] {
			order = append(append(order, moves[i]...), i)
		}
	}
	return order, moved
}

// formGroup reports that a list of nodes, not empty, may begin a group with node i. If the nodes move, their operands
// live until i.
func (b *Builder) formGroup(list []int, i int, move bool) bool {
	if len(list) == 0 {
		return false
	}
	old := map[int]int{}
	for _, k := range list {
		for _, e := range b.Program.OperandsOf(k) {
			if v := e.Value.Index(); e.Value.IsNode() && b.uses.last[v] < i {
				if _, seen := old[v]; !seen {
					old[v] = b.uses.last[v]
				}
				b.uses.last[v] = i
			}
		}
	}
	var g growing
	b.begin(&g, list[0])
	joined := len(g.members) > 0
	for _, k := range append(slices.Clone(list[1:]), i) {
		joined = joined && b.alike(&g, k) && b.joins(&g, k)
	}
	if !joined || !move {
		for v, last := range old {
			b.uses.last[v] = last
		}
	}
	return joined
}

// takesDelayed reports an optimizer's step, or a reduction of everything to one value.
func (b *Builder) takesDelayed(i int) bool {
	if lower.IsStep(b.Program.Prim(i)) {
		return b.fusible(i)
	}
	r := b.rowsOf(i)
	return r != nil && !r.Whole && b.fusible(i) && b.rowShapeOf(i).outer.Numel == 1
}

// touches walks the program once.
func (b *Builder) touches() *touches {
	p, n := b.Program, len(b.Program.Nodes)
	t := &touches{readers: make([][]int, n), reads: map[int][]int{}, writes: map[int][]int{}, kernels: make([]int, n+1)}
	note := func(m map[int][]int, slot, i int) {
		if l := m[slot]; len(l) == 0 || l[len(l)-1] != i {
			m[slot] = append(l, i)
		}
	}
	for i := range n {
		t.kernels[i+1] = t.kernels[i]
		if b.hasKernel(i) {
			t.kernels[i+1]++
		}
		for _, e := range p.OperandsOf(i) {
			if e.Value.IsNode() {
				t.readers[e.Value.Index()] = append(t.readers[e.Value.Index()], i)
			}
			if e.Value != 0 && b.slotOf(e.Value) >= 0 {
				note(t.reads, b.slotOf(e.Value), i)
			}
		}
		if slot, ok := b.slots.at(i); ok {
			note(t.writes, slot, b.uses.main[i])
		}
	}
	return t
}

// between reports that a node after k and before i is in a list.
func between(list []int, k, i int) bool {
	at, _ := slices.BinarySearch(list, k+1)
	return at < len(list) && list[at] < i
}

// delay appends node k, which moves to right before node i, to list, after those of its operands that move with it.
// Before i only reader reads k. The list is unchanged if k cannot move.
func (b *Builder) delay(t *touches, k, reader, i int, list []int) []int {
	if len(list) == maxDelay || slices.Contains(list, k) || between(t.readers[k], k, reader) ||
		between(t.readers[k], reader, i) || !b.movable(t, k, i) {
		return list
	}
	next := list
	for j, e := range b.Program.OperandsOf(k) {
		if !e.Value.IsNode() || !b.Program.Whole(k, j) {
			continue
		}
		made := e.Value.Index()
		next = b.delay(t, made, k, i, next)
		if t.kernels[k] == t.kernels[made]+1 && b.fusible(made) && !slices.Contains(next, made) {
			return list // k is next to what it reads: they may be a group where they are
		}
	}
	if len(next) == len(list) && t.kernels[reader] == t.kernels[k]+1 && reader == i {
		return list // k is next to i
	}
	return append(next, k)
}

// movable reports that node k may run right before node i: no node between writes an operand of k or uses the buffer
// that k writes.
func (b *Builder) movable(t *touches, k, i int) bool {
	if !b.hasKernel(k) || b.rowsOf(k) != nil || !b.fusible(k) || b.Program.Nodes[k].Outputs > 1 ||
		lower.IsStep(b.Program.Prim(k)) || b.aval(k).Device != b.aval(i).Device {
		return false
	}
	if _, part := b.through[k]; part {
		return false
	}
	if slot, ok := b.slots.at(k); ok && (between(t.writes[slot], k, i) || between(t.reads[slot], k, i)) {
		return false
	}
	var dying []int
	edges := b.Program.OperandsOf(k)
	for j, e := range edges {
		if e.Value == 0 || slices.ContainsFunc(edges[:j], func(q program.Edge) bool { return q.Value == e.Value }) {
			continue
		}
		if slot := b.slotOf(e.Value); slot >= 0 && between(t.writes[slot], k, i) {
			return false
		}
		if !e.Value.IsNode() {
			continue
		}
		v := e.Value.Index()
		if taker, ok := b.donations.at(v); ok && taker != k {
			return false
		}
		if b.uses.last[v] == k && !b.live(v) && !b.slots.has(v) {
			dying = append(dying, v)
		}
	}
	return b.givesPlace(dying, k, i)
}

// givesPlace reports that memory does not grow if node k, the last reader of these temporaries, runs right before node
// i: they live longer, and its value lives shorter.
func (b *Builder) givesPlace(dying []int, k, i int) bool {
	if len(dying) == 0 {
		return true
	}
	x, y := b.aval(dying[0]), b.aval(k)
	if len(dying) > 1 || b.live(k) || b.slots.has(k) {
		return false
	}
	return b.uses.last[k] <= i && device.SizeClass(b.bytes(x)) <= device.SizeClass(b.bytes(y)) ||
		x.DType == y.DType && x.Layout.Numel == y.Layout.Numel
}
