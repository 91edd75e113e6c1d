package autograd

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// nextHook returns the event of n's next hook that has a gradient; more is false after the last hook.
func (s *Walk) nextHook(n *Node) (ev Event, more bool) {
	for s.hook < len(n.Hooks) && (n.Kind != KindLeaf || !s.o.NoLeafHooks) {
		h := n.Hooks[s.hook]
		if h.ID != 0 && n.cot[h.Out].Kind != op.None {
			s.asked = RunHook
			return Event{Kind: RunHook, Hook: h.ID, Grad: n.cot[h.Out], From: Edge(s.cur, h.Out), Like: h.Like}, true
		}
		s.hook++
	}
	return Event{}, false
}

// replace takes the answer of the current hook and advances to the next.
func (s *Walk) replace(answer op.Val) {
	n := s.t.nodes[s.cur]
	k := n.Hooks[s.hook].Out
	if answer.IsTensor() {
		r := s.hold(answer)
		s.drop(n.cot[k])
		n.cot[k] = r
	}
	s.hook++
}

// AddHook adds a tensor hook on a tensor of layout l.
func (t *Tape) AddHook(edge uint32, id uint64, l *ir.Layout) {
	n := t.Node(edge)
	n.Hooks = append(n.Hooks, Hook{Out: Output(edge), ID: id, Like: l})
	if n.hooked == nil && l.Hidden != nil {
		n.hooked = l
		t.countHooks(n, 1)
	}
}

// countHooks adds by to the steps with hooks at the levels of vmap that n's hooks have.
func (t *Tape) countHooks(n *Node, by int) {
	if n.hooked == nil {
		return
	}
	if t.hooksAt == nil {
		t.hooksAt = map[int64]int{}
	}
	for _, h := range n.hooked.Hidden {
		if t.hooksAt[h.Level] += by; t.hooksAt[h.Level] == 0 {
			delete(t.hooksAt, h.Level)
		}
	}
}

// HooksAt reports that a step has a tensor hook at a level of vmap.
func (t *Tape) HooksAt(level int64) bool { return t.hooksAt[level] > 0 }

// RemoveHook removes hook id from the step. While a walk visits the step, the entry stays with ID 0.
func (n *Node) RemoveHook(id uint64) {
	is := func(p uint64) bool { return p == id }
	n.Post, n.Pre, n.After = slices.DeleteFunc(n.Post, is), slices.DeleteFunc(n.Pre, is), slices.DeleteFunc(n.After, is)
	for i := range n.Hooks {
		if n.Hooks[i].ID == id {
			n.Hooks[i].ID = 0
		}
	}
	if n.session == 0 {
		n.Hooks = slices.DeleteFunc(n.Hooks, func(h Hook) bool { return h.ID == 0 })
	}
}

// slot is an operand of a function: operand in of step id, which the step at edge made; 0 for none.
type slot struct {
	id   uint32
	in   int
	edge uint32
}

// slots lists the operands of edge e's function that other functions made, in the operands' order. An operand that
// requires no gradient has edge 0.
func (t *Tape) slots(e uint32) []slot {
	var found []slot
	seen := map[uint32]bool{e >> EdgeBits: true}
	var visit func(id uint32)
	visit = func(id uint32) {
		n := t.nodes[id]
		for i := range n.In {
			v := &n.In[i].Val
			switch p := v.Tape; {
			case p == 0:
				if v.Kind == op.Tensor && v.Base != 0 && n.From.Op != 0 {
					found = append(found, slot{id, i, 0})
				}
			case n.From.Call != 0 && t.Node(p).From.Call == n.From.Call && t.Node(p).Kind != KindLeaf:
				if !seen[p>>EdgeBits] {
					seen[p>>EdgeBits] = true
					visit(p >> EdgeBits)
				}
			default:
				found = append(found, slot{id, i, p})
			}
		}
	}
	visit(e >> EdgeBits)
	return found
}

// running is a function whose After hooks wait: its first step has run, others may follow. ins has the gradients that
// it passes to other functions, by slot; they are delivered when all its steps have run.
type running struct {
	call  uint64 // 0: the function is one step
	hooks []uint64
	slots []slot
	ins   []op.Val
	outs  []op.Val
}

// nodeCall calls the hooks of a function in turn: it gives each the gradients, runs it, and asks for the answers.
type nodeCall struct {
	pre   bool
	hooks []uint64
	ins   []op.Val // not of a Pre hook
	outs  []op.Val
	hook  int
	step  int // events of the current hook so far
	f     *running
}

// answers is the list that the hooks may replace.
func (c *nodeCall) answers() []op.Val {
	if c.pre {
		return c.outs
	}
	return c.ins
}

// next returns the next event; more is false after the last hook.
func (c *nodeCall) next() (ev Event, more bool) {
	for ; c.hook < len(c.hooks); c.hook, c.step = c.hook+1, 0 {
		k := c.step
		c.step++
		if k < len(c.ins) {
			return Event{Kind: GiveGrad, Grad: c.ins[k], Index: 0}, true
		}
		if k -= len(c.ins); k < len(c.outs) {
			return Event{Kind: GiveGrad, Grad: c.outs[k], Index: 1}, true
		}
		if k -= len(c.outs); k == 0 {
			kind := RunAfter
			if c.pre {
				kind = RunPre
			}
			return Event{Kind: kind, Hook: c.hooks[c.hook]}, true
		}
		if k--; k < len(c.answers()) {
			return Event{Kind: AskGrad, Index: k}, true
		}
	}
	return Event{}, false
}

// answered takes the answer to the last AskGrad; Kind None leaves no gradient.
func (s *Walk) answered(v op.Val) {
	c := s.calling
	list := c.answers()
	k := c.step - 2 - len(c.ins) - len(c.outs)
	r := s.hold(v)
	s.drop(list[k])
	list[k] = r
}

// runs reports that the rule of n runs, or that the leaf n accumulates: only then its function's hooks run.
func (s *Walk) runs(n *Node) bool {
	if n.Kind == KindLeaf {
		return s.o.Accumulate
	}
	return s.leadsOn(n)
}

// shown returns the gradients of n's results that hooks see: none of trailing results that no tensor has, as the
// statistics of a norm.
func shown(n *Node) []op.Val {
	k := len(n.cot)
	for k > 1 && n.cot[k-1].Kind == op.None && n.Out[k-1].Val.Base == 0 {
		k--
	}
	return n.cot[:k]
}

// callPre begins the call of the Pre hooks of the current step.
func (s *Walk) callPre(n *Node) {
	s.calling = &nodeCall{pre: true, hooks: slices.Clone(n.Pre), outs: shown(n)}
}

// open notes that the current step n begins a function with After hooks.
func (s *Walk) open(n *Node) {
	f := &running{call: n.From.Call, hooks: slices.Clone(n.After), outs: s.holdAll(shown(n))}
	if n.Kind != KindLeaf {
		f.slots = s.t.slots(Edge(s.cur, 0))
	}
	f.ins = make([]op.Val, len(f.slots))
	s.running = append(s.running, f)
}

func (s *Walk) holdAll(list []op.Val) []op.Val {
	for _, v := range list {
		s.hold(v)
	}
	return slices.Clone(list)
}

// pass delivers the gradient v of operand i of the current step, or keeps it for the hooks of the function that passes
// it to another.
func (s *Walk) pass(n *Node, i int, v op.Val) {
	for _, f := range s.running {
		for k, at := range f.slots {
			if at.id == s.cur && at.in == i && f.ins[k].Kind == op.None {
				f.ins[k] = s.hold(v)
				return
			}
		}
	}
	s.deliver(n.In[i].Val.Tape, v)
}

// callAfter begins the call of the After hooks of a function whose steps have all run; ok is false if there is none.
func (s *Walk) callAfter() (ok bool) {
	for i, f := range s.running {
		waits := func(id uint32) bool {
			n := s.t.nodes[id]
			return f.call != 0 && n.From.Call == f.call && n.Kind != KindLeaf
		}
		if !slices.ContainsFunc(s.heap.id, waits) {
			s.running = slices.Delete(s.running, i, i+1)
			s.calling = &nodeCall{hooks: f.hooks, ins: f.ins, outs: f.outs, f: f}
			return true
		}
	}
	return false
}

// endCall delivers the gradients after the hooks.
func (s *Walk) endCall() {
	f := s.calling.f
	s.calling = nil
	if f == nil {
		return
	}
	for k, at := range f.slots {
		if f.ins[k].Kind != op.None {
			s.deliver(at.edge, f.ins[k])
		}
	}
	s.dropRunning(f)
}

func (s *Walk) dropRunning(f *running) {
	for _, list := range [2][]op.Val{f.ins, f.outs} {
		for i := range list {
			s.drop(list[i])
			list[i] = op.Val{}
		}
	}
}

// closeHooks releases what interrupted calls of hooks hold.
func (s *Walk) closeHooks() {
	if s.calling != nil && s.calling.f != nil {
		s.dropRunning(s.calling.f)
	}
	for _, f := range s.running {
		s.dropRunning(f)
	}
	s.calling, s.running = nil, nil
}
