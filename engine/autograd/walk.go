package autograd

import (
	"container/heap"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// Sink receives the results of a backward walk.
type Sink interface {
	// Accumulate adds cot to the grad of a leaf handle.
	Accumulate(handle uint64, cot op.Val)
	// SetRetained stores cot as the grad of a non-leaf handle.
	SetRetained(handle uint64, cot op.Val)
}

// Rules calls gradient rules for a walk. It may replay a cached trace of a rule for like operands.
type Rules interface {
	op.Builder
	// Key begins the key of a call with the number of the rule. The caller appends every other input of the rule except
	// its operands' elements.
	Key(what uint64) []uint64
	// Call returns the results of rule for the operands, valid until the next call.
	Call(key []uint64, operands []op.Val, rule op.Rule) []op.Val
	// Hide turns the first dims of v into hidden dims of the levels, and Reveal turns them back, expanding v to levels
	// that it lacks.
	Hide(v op.Val, levels []ir.HiddenDim) op.Val
	Reveal(v op.Val, levels []ir.HiddenDim) op.Val
	// Settled is that of op.Forward.
	Settled(v op.Val, levels []ir.HiddenDim) op.Val
}

// Options of a backward walk.
type Options struct {
	RetainGraph bool
	CreateGraph bool
	Accumulate  bool     // deliver to leaves
	Inputs      []uint32 // optional: the edges whose cotangents are wanted; the walk takes only paths to them
	// Enter, optional, is called before each rule with the line of the operation that it differentiates.
	Enter func(sourceLoc uint32)
	// Inspect: the walk stops at each gradient that one function passes to another.
	Inspect bool
	// NoLeafHooks: leaf hooks do not run.
	NoLeafHooks bool
}

// EventKind says why a walk stops.
type EventKind uint32

// Kinds of events.
const (
	Done     EventKind = iota
	RunHook            // a tensor hook; its answer may replace Grad
	RunPost            // a hook of a leaf, after accumulation
	Inspect            // Grad is gradient Index of the function of edge From
	Unpack             // Hook; its answer is a saved value
	Pack               // saved values wait for NextPackHook
	GiveGrad           // Grad, or none, is the next of a function's gradients: Index 0 of its operands, 1 of its results
	RunPre             // a Pre hook, with the results' gradients
	RunAfter           // an After hook, with the operands' and the results' gradients
	AskGrad            // the answer is gradient Index that the last such hook leaves; none leaves no gradient
)

// Event describes why a walk stops.
type Event struct {
	Kind  EventKind
	Hook  uint64
	Grad  op.Val
	From  uint32
	Index int
	// Like is that of RunHook's hook.
	Like *ir.Layout
}

// Walk is a backward walk in progress. It stops at each hook and continues with the hook's answer. Stored cotangents
// hold references to values and, under CreateGraph, to tape nodes. A hook may begin another walk, which must end before
// this one continues.
type Walk struct {
	t    *Tape
	b    Rules
	sink Sink
	o    Options
	id   uint32
	heap seqHeap
	// The step whose hooks run.
	cur   uint32
	hook  int
	phase bool
	// captured: the gradients of the current step were kept, and its Pre hooks called.
	captured bool
	asked    EventKind // what the answer is: of RunHook, the cotangent at hook; of Unpack, a saved value; of Done, nothing
	queue    []Event   // events of the last step still to report; their gradients are held
	given    op.Val    // the gradient of the current queue event, held
	// packed lists the values of the current step that hooks still hold; unpacked has the values that hooks returned,
	// held.
	packed   []int
	unpacked []op.Val
	// running are functions with After hooks, calling is the call of a function's hooks in progress.
	running []*running
	calling *nodeCall
	// shadowed saves an outer walk's state of the nodes that this walk visits too.
	shadowed []shadow
	// Results holds the cotangents of o.Inputs.
	Results []op.Val
	all     []uint32 // visited nodes, retained until Close
	// Scratch of prim and view.
	vals []op.Val
	need []bool
}

// shadow is an outer walk's state of a node.
type shadow struct {
	id      uint32
	session uint32
	wanted  bool
	cot     []op.Val
}

// seqHeap orders node numbers by descending Seq. A parent's Seq is always smaller than its child's, so a popped node
// has received all its cotangents.
type seqHeap struct {
	t  *Tape
	id []uint32
}

func (h seqHeap) Len() int           { return len(h.id) }
func (h seqHeap) Less(i, j int) bool { return h.t.nodes[h.id[i]].Seq > h.t.nodes[h.id[j]].Seq }
func (h seqHeap) Swap(i, j int)      { h.id[i], h.id[j] = h.id[j], h.id[i] }
func (h *seqHeap) Push(x any)        { h.id = append(h.id, x.(uint32)) }
func (h *seqHeap) Pop() any {
	x := h.id[len(h.id)-1]
	h.id = h.id[:len(h.id)-1]
	return x
}

// Begin starts a walk from roots (values with a Tape edge) with the cotangents cots.
func (t *Tape) Begin(b Rules, sink Sink, roots, cots []op.Val, o Options) *Walk {
	t.sess++
	s := &Walk{t: t, b: b, sink: sink, o: o, id: t.sess, heap: seqHeap{t: t},
		Results: make([]op.Val, len(o.Inputs))}
	if len(o.Inputs) > 0 {
		s.markWanted(roots)
	}
	for i, r := range roots {
		s.deliver(r.Tape, cots[i])
	}
	return s
}

// markWanted marks the nodes on paths from a root to an input.
func (s *Walk) markWanted(roots []op.Val) {
	target := map[uint32]bool{}
	for _, e := range s.o.Inputs {
		target[e>>EdgeBits] = true
	}
	seen := map[uint32]bool{}
	type frame struct {
		id   uint32
		next int
	}
	want := map[uint32]bool{}
	for _, r := range roots {
		if seen[r.Tape>>EdgeBits] {
			continue
		}
		stack := []frame{{id: r.Tape >> EdgeBits}}
		seen[r.Tape>>EdgeBits] = true
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			n := s.t.nodes[f.id]
			if f.next < len(n.In) {
				e := n.In[f.next].Val.Tape
				f.next++
				if e != 0 && !seen[e>>EdgeBits] {
					seen[e>>EdgeBits] = true
					stack = append(stack, frame{id: e >> EdgeBits})
				}
				continue
			}
			if target[f.id] || slices.ContainsFunc(n.In, func(in Saved) bool { return want[in.Val.Tape>>EdgeBits] }) {
				want[f.id] = true
			}
			stack = stack[:len(stack)-1]
		}
	}
	for id := range want {
		n := s.t.nodes[id]
		s.visit(id, n)
		n.wanted = true
	}
}

func (s *Walk) visit(id uint32, n *Node) {
	if n.session == s.id {
		return
	}
	if n.session != 0 {
		s.shadowed = append(s.shadowed, shadow{id, n.session, n.wanted, n.cot})
		n.cot = nil
	}
	n.session = s.id
	n.wanted = len(s.o.Inputs) == 0
	n.Refs++
	s.all = append(s.all, id)
	n.cot = n.cot[:0]
	for range n.Out {
		n.cot = append(n.cot, op.Val{})
	}
}

// hold takes the references of a stored cotangent.
func (s *Walk) hold(v op.Val) op.Val {
	s.t.G.Retain(v.Value)
	s.t.Retain(v.Tape)
	return v
}

func (s *Walk) drop(v op.Val) {
	if v.IsTensor() {
		s.t.G.Release(v.Value)
		s.t.Release(v.Tape)
	}
}

// deliver adds cot to the cotangent of edge e and schedules the node.
func (s *Walk) deliver(e uint32, cot op.Val) {
	id, k := Split(e)
	n := s.t.nodes[id]
	fresh := n.session != s.id
	s.visit(id, n)
	if !n.wanted {
		return
	}
	if fresh || !s.scheduled(n) {
		heap.Push(&s.heap, id)
	}
	if n.cot[k].Kind == op.None {
		n.cot[k] = s.hold(cot)
		return
	}
	sum := s.hold(AddCotangents(s.t.G, s.b, n.cot[k], cot))
	s.drop(n.cot[k])
	n.cot[k] = sum
}

// scheduled reports that n has a cotangent, hence a place in the heap.
func (s *Walk) scheduled(n *Node) bool {
	for i := range n.cot {
		if n.cot[i].Kind != op.None {
			return true
		}
	}
	return false
}

// Next walks to the next event or the end. replacement answers the last event's hook; Kind None leaves the gradient
// unchanged.
func (s *Walk) Next(replacement op.Val) (Event, error) {
	s.drop(s.given)
	s.given = op.Val{}
	if err := s.answer(replacement); err != nil {
		return Event{}, err
	}
	for {
		if ev, waits := s.waiting(); waits {
			return ev, nil
		}
		if !s.phase {
			if len(s.running) > 0 && s.callAfter() {
				continue
			}
			if len(s.heap.id) == 0 {
				return Event{}, nil
			}
			s.cur = heap.Pop(&s.heap).(uint32)
			s.hook, s.phase, s.captured = 0, true, false
		}
		n := s.t.nodes[s.cur]
		if ev, more := s.before(n); more {
			return ev, nil
		}
		if s.calling != nil {
			continue
		}
		s.phase = false
		if err := s.stepInRegion(n); err != nil {
			return Event{}, err
		}
	}
}

// answer takes the answer to the last event.
func (s *Walk) answer(v op.Val) error {
	asked := s.asked
	s.asked = Done
	switch asked {
	case RunHook:
		s.replace(v)
	case Unpack:
		return s.unpackedAs(v)
	case AskGrad:
		s.answered(v)
	}
	return nil
}

// waiting returns an event that waits: of values to pack, of the queue, or of the hooks of a function.
func (s *Walk) waiting() (ev Event, waits bool) {
	if s.t.Awaits() {
		return Event{Kind: Pack}, true
	}
	if len(s.queue) > 0 {
		ev = s.queue[0]
		s.queue = s.queue[1:]
		s.given = ev.Grad
		return ev, true
	}
	if s.calling == nil {
		return Event{}, false
	}
	if ev, waits = s.calling.next(); waits {
		s.asked = ev.Kind
	} else {
		s.endCall()
	}
	return ev, waits
}

// before returns the next event of step n that comes before its rule: of a hook, or of a saved value to unpack. It may
// begin the call of Pre hooks instead.
func (s *Walk) before(n *Node) (ev Event, more bool) {
	if ev, more = s.nextHook(n); more {
		return ev, true
	}
	if !s.captured {
		s.captured = true
		s.capture(n)
		if len(n.Pre) > 0 && s.runs(n) {
			s.callPre(n)
			return Event{}, false
		}
	}
	if n.Packed && s.leadsOn(n) {
		return s.unpack(n)
	}
	return Event{}, false
}

// backwardRegion is set in the number of the region that holds the backward of a region.
const backwardRegion = 1 << 31

// stepInRegion is step for a node of a compiled region: the nodes that it records form a region too. A walk inside of a
// region belongs to that region.
func (s *Walk) stepInRegion(n *Node) error {
	if n.Region == 0 || s.t.G.Region != 0 {
		return s.step(n)
	}
	s.t.G.Region = n.Region | backwardRegion
	defer func() { s.t.G.Region = 0 }()
	return s.step(n)
}

// capture keeps the gradients of n that are results of the walk, or those of tensors that retain them.
func (s *Walk) capture(n *Node) {
	for i, e := range s.o.Inputs {
		if id, k := Split(e); s.t.nodes[id] == n && n.cot[k].Kind != op.None {
			s.Results[i] = s.hold(n.cot[k])
		}
	}
	for _, r := range n.Retain {
		if cot := n.cot[r.Out]; cot.Kind != op.None && ofLayout(cot) == nil { // one of a batch is no gradient of the tensor
			s.sink.SetRetained(r.Handle, cot)
		}
	}
}

// step runs the rule of one node and delivers to its parents.
func (s *Walk) step(n *Node) error {
	if len(n.After) > 0 && s.runs(n) {
		s.open(n)
	}
	var err error
	switch n.Kind {
	case KindLeaf:
		if s.o.Accumulate && n.cot[0].Kind != op.None {
			s.sink.Accumulate(n.Leaf, n.cot[0])
			for _, id := range n.Post {
				s.queue = append(s.queue, Event{Kind: RunPost, Hook: id})
			}
		}
	case KindView:
		if s.wants(n.In[0].Val.Tape) && n.cot[0].Kind != op.None {
			s.pass(n, 0, s.undo(n))
		}
	case KindPrim:
		if s.leadsOn(n) && s.scheduled(n) { // hooks may have left no gradient
			err = s.prim(n)
		}
	}
	for i := range n.cot {
		s.drop(n.cot[i])
		n.cot[i] = op.Val{}
	}
	return err
}

func (s *Walk) wants(e uint32) bool {
	if e == 0 {
		return false
	}
	if len(s.o.Inputs) == 0 {
		return true
	}
	n := s.t.nodes[e>>EdgeBits]
	return n.session == s.id && n.wanted
}

// leadsOn reports that a gradient of an operand of n is wanted. If a step is only an input of the walk, its rule does
// not run and its saved values stay.
func (s *Walk) leadsOn(n *Node) bool {
	if len(s.o.Inputs) == 0 {
		return true
	}
	for i := range n.In {
		if s.wants(n.In[i].Val.Tape) {
			return true
		}
	}
	return false
}

func (s *Walk) prim(n *Node) error {
	p := op.PrimOf(n.Prim)
	if n.Freed {
		return &ir.Error{Code: ir.ErrGraphFreed, SourceLoc: n.SourceLoc,
			Msg: "Trying to backward through the graph a second time (or directly access saved tensors after they have " +
				"already been freed). Saved intermediate values of the graph are freed when you call .backward() or " +
				"autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or " +
				"if you need to access saved tensors after calling backward."}
	}
	if p.VJP == nil {
		return ir.Errorf(ir.ErrRuntime, "derivative for %s is not implemented: %s", p.Name, p.NoVJP)
	}
	if err := s.gather(n); err != nil {
		return err
	}
	if s.o.Enter != nil {
		s.o.Enter(n.SourceLoc)
	}
	batch := s.hide(n)
	key := s.b.Key(ruleVJP | uint64(n.Prim) | uint64(n.Attr)<<16)
	mask := uint64(0)
	for i, wanted := range s.need {
		if wanted {
			mask |= 1 << (i & 63)
		}
		if i&63 == 63 {
			key, mask = append(key, mask), 0
		}
	}
	key = append(key, mask)
	for i := range s.vals {
		key = op.AppendOperand(key, &s.vals[i], false)
	}
	cots := s.b.Call(key, s.vals, (*vjpRule)(s))
	if batch != nil {
		cots = slices.Clone(cots)
	}
	for i, v := range cots {
		if s.need[i] && v.Kind != op.None {
			v = s.reveal(v, n.In[i].Val, batch)
			s.pass(n, i, v)
			if s.o.Inspect && (n.From.Call == 0 || s.t.Node(n.In[i].Val.Tape).From.Call != n.From.Call) {
				s.queue = append(s.queue, Event{Kind: Inspect, Grad: s.hold(v), From: Edge(s.cur, 0), Index: i})
			}
		}
	}
	s.dropUnpacked()
	if !s.o.RetainGraph {
		s.t.freeSaved(n)
	}
	return nil
}

// vjpRule is the gradient rule of the current step.
type vjpRule Walk

// Apply implements op.Rule. vals are the operands, results and cotangents of the step.
func (r *vjpRule) Apply(b op.Builder, vals []op.Val) []op.Val {
	n := r.t.nodes[r.cur]
	ni, no := len(n.In), len(n.Out)
	return op.PrimOf(n.Prim).VJP(&op.VJPCall{B: b, Attr: ir.AttrOf(n.Attr), In: vals[:ni:ni],
		Out: vals[ni : ni+no : ni+no], Cot: vals[ni+no:], Need: r.need})
}

// viewRule reverses the current view step.
type viewRule Walk

// Apply implements op.Rule. vals is the cotangent.
func (r *viewRule) Apply(b op.Builder, vals []op.Val) []op.Val {
	n := r.t.nodes[r.cur]
	in, out := n.In[0].Val, n.Out[0].Val
	vals[0] = prim.ViewVJP(b, n.View, vals[0], in.L(), out.L(), in.Offset, out.Offset)
	return vals
}

// Kinds of rules in a key, besides operators.
const (
	ruleVJP  = 1 << 63
	ruleView = 1 << 62
)

// gather fills s.vals with the saved operands, results and cotangents of n, in the order that the rule expects, and
// s.need with the operands that want a gradient.
func (s *Walk) gather(n *Node) error {
	s.vals, s.need = s.vals[:0], s.need[:0]
	for i := range n.In {
		if err := s.t.check(&n.In[i], n.In[i].Val.Tape, n.SourceLoc); err != nil {
			return err
		}
		v := s.t.value(&n.In[i])
		if n.In[i].Hook != 0 {
			v = s.unpacked[i]
		}
		s.need = append(s.need, s.wants(v.Tape))
		if !s.o.CreateGraph {
			v.Tape = 0
		}
		s.vals = append(s.vals, v)
	}
	for i := range n.Out {
		if err := s.t.check(&n.Out[i], Edge(s.cur, i), n.SourceLoc); err != nil {
			return err
		}
		v := s.t.value(&n.Out[i])
		if n.Out[i].Hook != 0 {
			v = s.unpacked[len(n.In)+i]
		}
		if s.o.CreateGraph && v.DType().IsFloat() {
			v.Tape = Edge(s.cur, i)
		}
		s.vals = append(s.vals, v)
	}
	s.vals = append(s.vals, n.cot...)
	return nil
}

// undo returns the cotangent of a view step's input.
func (s *Walk) undo(n *Node) op.Val {
	in, out := n.In[0].Val, n.Out[0].Val
	if n.View.Kind == op.ViewFlat {
		return s.flat(&n.In[0], n.cot[0])
	}
	key := append(s.b.Key(ruleView|uint64(n.View.Kind)), uint64(in.Layout)<<32|uint64(out.Layout), uint64(in.Offset),
		uint64(out.Offset))
	for _, d := range n.View.Dims {
		key = append(key, uint64(d))
	}
	s.vals = append(s.vals[:0], n.cot[0])
	key = op.AppendOperand(key, &s.vals[0], false)
	return s.b.Call(key, s.vals, (*viewRule)(s))[0]
}

// Close releases all references of the walk, those of Results included.
func (s *Walk) Close() {
	for _, id := range s.all {
		n := s.t.nodes[id]
		for i := range n.cot {
			s.drop(n.cot[i])
			n.cot[i] = op.Val{}
		}
		n.session = 0
	}
	for _, o := range s.shadowed {
		n := s.t.nodes[o.id]
		n.session, n.wanted, n.cot = o.session, o.wanted, o.cot
	}
	for i := range s.queue {
		s.drop(s.queue[i].Grad)
	}
	s.drop(s.given)
	s.given = op.Val{}
	s.dropUnpacked()
	s.closeHooks()
	for _, id := range s.all {
		s.t.Release(Edge(id, 0))
	}
	s.all, s.queue, s.shadowed = nil, nil, nil
	for i := range s.Results {
		s.drop(s.Results[i])
		s.Results[i] = op.Val{}
	}
}
