package lazy

import (
	"slices"

	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// Mark is a point in the recording, the start of a capture.
type Mark struct {
	seq, realized uint64
	births        uint64
	token         uint64
	step          uint64 // of the tape
	draws         draws
}

// Mark returns the current point.
func (s *Session) Mark() Mark {
	s.shared.since = s.graph.Seq() // a captured function has nodes of its own
	return Mark{seq: s.graph.Seq(), realized: s.graph.Realized(), births: s.Births(), token: s.effects.token(),
		step: s.tape.Steps(), draws: s.draws}
}

// Placeholder makes a value that stands for an argument during a capture. It is never computed: reading it, or a value
// made from it, is an error. It is freed at the end of the call unless something refers to it.
func (s *Session) Placeholder(d ir.DType, dev ir.DeviceID, shape []int64) op.Val {
	av := ir.InternAval(d, dev, ir.DenseLayout(shape)).ID
	id := s.graph.AddPlaceholder(av, s.SourceLoc)
	s.held.values = append(s.held.values, id)
	return s.value(id, av)
}

// Captured is a program with the values of its constants and states. It holds references until Forget.
type Captured struct {
	Program *program.Program
	args    int           // inputs[:args] are arguments
	tracked []bool        // by argument: it had a history when the function was captured, so writes were under no_grad
	bound   []bound       // the other inputs: constants and states
	avals   [][]ir.AvalID // by node: all its outputs, held or not
	types   [][]ir.DType  // by node: the dtypes of its number slots
	// Supplied is the number of numbers that a call takes. supplied maps number slots of the program to them.
	Supplied int
	supplied map[int]int
}

// bound is the constant or state behind an input.
type bound struct {
	value  uint32 // constant: its value
	handle uint64 // state: an internal handle, which keeps its base
	gradOf uint64 // state that is a gradient: the tensor's handle
	tape   uint32 // history of the value that was read, 0 for none; owned
	point  bool   // of a loop's body: it reads the view that the history belongs to, and nothing else of the value
	folds  []fold // of a point: copies that the body reads instead
}

// capture is a Capture in progress.
type capture struct {
	s    *Session
	m    Mark
	c    *Captured
	p    *program.Program
	refs map[uint32]program.Ref // by graph value
	need map[uint32]bool        // graph nodes that are part of the program
	// By graph value: the bases that had this version at the mark. After a copy two tensors have one version.
	owners map[uint32][]uint32
	stays  map[uint32]program.Ref // by base: its input
	// twins are further inputs for a value from outside that is read with several histories, by input and history.
	twins map[string]program.Ref
	// chains are the views on the tape from the history of an operand to that of the value from outside, by operand.
	chains map[int][]*autograd.Node
	flats  map[*autograd.Node]uint32 // numbers of the aliases of piecewise linear functions, see program.Flat
	leaves []uint32                  // by argument: its history
	// within, of a capture of tangents, has the nodes that depend on the arguments; nil for other captures.
	within map[uint32]bool
}

// Capture makes a program of the recording since the mark: a function from args to results, which are views of recorded
// values. A value from before the mark that a tensor holds is state: each call reads the tensor's newest value. Another
// one is a constant. Of the stores to a base that is older than the mark, or that is an argument's, only the last one
// is kept. Offsets of draws are relative to the call's first draw.
//
// Each argument is a whole value, usually a Placeholder. Nothing may have been computed since the mark. The recording
// itself stays: see Rewind.
func (s *Session) Capture(m Mark, args, results []op.Val) (c *Captured, err *ir.Error) {
	k := &capture{s: s, m: m, c: &Captured{Program: &program.Program{}, args: len(args)}, refs: map[uint32]program.Ref{},
		need:   map[uint32]bool{},
		owners: map[uint32][]uint32{}, stays: map[uint32]program.Ref{}}
	k.p = k.c.Program
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*ir.Error)
			if !ok {
				panic(r)
			}
			s.Forget(k.c)
			c, err = nil, e
		}
	}()
	if s.graph.Realized() != m.realized || s.effects.first > m.token {
		return nil, ir.Errorf(ir.ErrRuntime, "capture: a value was computed inside of the function: its inputs are gone")
	}
	if s.draws.seeded != m.draws.seeded || s.trace != nil && s.trace.drawn > s.draws.offset {
		return nil, ir.Errorf(ir.ErrRuntime, "capture: the random generator was seeded inside of the function")
	}
	for i := range args {
		k.argument(&args[i])
	}
	k.findOwners()
	stores := k.lastStores()
	k.nodes(results, stores)
	if n := len(k.p.Severed); n > 0 {
		k.p.Severed = append(k.p.Severed, make([]bool, len(k.p.Edges)-n)...)
	}
	k.stores(stores)
	for i := range results {
		k.result(&results[i])
	}
	k.histories(results, stores)
	k.readPoints()
	k.p.Drawn = s.draws.offset - m.draws.offset
	k.p.Seal()
	if err := k.p.Verify(); err != nil {
		panic(ir.Errorf(ir.ErrInternal, "BUG: capture: %v", err))
	}
	return k.c, nil
}

// Forget releases the references of c.
func (s *Session) Forget(c *Captured) {
	for _, b := range c.bound {
		s.graph.Release(b.value)
		if b.handle != 0 {
			s.Release(b.handle)
		}
		s.tape.Release(b.tape)
	}
	c.bound = nil
}

// Rewind undoes the stores and draws recorded since the mark, so that older tensors have their former values. Nothing
// may have been computed since the mark. The caller releases the tensors made since then.
func (s *Session) Rewind(m Mark) {
	from := int(m.token - s.effects.first)
	first, commits := map[uint32]*Effect{}, map[uint32]uint64{}
	for i := from; i < len(s.effects.list); i++ {
		e := &s.effects.list[i]
		if e.Kind == Dropped || e.Base == 0 || s.bases.at(e.Base).Gen != e.Gen || s.BornSince(e.Base, m.births) {
			continue
		}
		switch {
		case e.Kind == StoreSemantic && first[e.Base] == nil:
			first[e.Base] = e
		case e.Kind == Commit:
			commits[e.Base]++
			if e.Aside {
				s.bases.at(e.Base).Aside--
			}
		}
	}
	for id, e := range first {
		// A reference exists: an older effect, or the loc's committed value, holds the former version.
		b := s.bases.at(id)
		s.graph.Retain(e.Prev)
		s.graph.Release(b.Value)
		b.Value = e.Prev
	}
	for id, n := range commits {
		s.bases.at(id).Scheduled -= n
	}
	for i := from; i < len(s.effects.list); i++ {
		if e := &s.effects.list[i]; e.Kind.IsStore() {
			if l := s.bases.loc(e.Loc); e.Kind == StoreSemantic {
				l.Logical--
			}
			s.graph.Release(e.Value)
		}
	}
	s.effects.list = s.effects.list[:from]
	for id := range s.bases.list {
		b := s.bases.at(uint32(id))
		b.firstTok = min(b.firstTok, m.token)
		if b.InitTok > m.token {
			b.InitTok = 0
		}
	}
	s.draws = m.draws
}

func (k *capture) argument(v *op.Val) {
	if !v.IsTensor() || !v.IsWhole() {
		panic(ir.Errorf(ir.ErrRuntime, "capture: an argument is a view or a number"))
	}
	if k.refs[v.Value] != 0 {
		panic(ir.Errorf(ir.ErrRuntime, "capture: two arguments are one value"))
	}
	ref := program.InputRef(len(k.p.Inputs))
	k.p.Inputs = append(k.p.Inputs, program.Input{Aval: v.Aval, Role: program.Argument})
	k.refs[v.Value], k.c.tracked = ref, append(k.c.tracked, v.Tape != 0)
	k.leaves = append(k.leaves, v.Tape)
	if v.Base != 0 {
		k.stays[v.Base] = ref
	}
}

// findOwners finds the bases that are state, and their versions at the mark.
func (k *capture) findOwners() {
	s := k.s
	first := map[uint32]*Effect{} // by base: its first store since the mark
	for i := k.m.token - s.effects.first; i < uint64(len(s.effects.list)); i++ {
		if e := &s.effects.list[i]; e.Kind.IsStore() && first[e.Base] == nil {
			first[e.Base] = e
		}
	}
	for id := range s.bases.list {
		b := s.bases.at(uint32(id))
		if id == 0 || b.Pins == 0 || s.BornSince(uint32(id), k.m.births) {
			continue
		}
		value := b.Value
		if e := first[uint32(id)]; e != nil && e.Prev != 0 {
			value = e.Prev
		}
		k.owners[value] = append(k.owners[value], uint32(id))
	}
}

// lastStores returns the last store since the mark to each base that the caller can see.
func (k *capture) lastStores() []*Effect {
	s := k.s
	last := map[uint32]*Effect{}
	var order []uint32
	for i := k.m.token - s.effects.first; i < uint64(len(s.effects.list)); i++ {
		e := &s.effects.list[i]
		if !e.Kind.IsStore() || s.BornSince(e.Base, k.m.births) && k.stays[e.Base] == 0 {
			continue
		}
		if last[e.Base] == nil {
			order = append(order, e.Base)
		}
		last[e.Base] = e
	}
	var out []*Effect
	for _, b := range order {
		out = append(out, last[b])
	}
	return out
}

// inside reports that the function recorded the node.
func (k *capture) inside(id uint32) bool {
	if k.within != nil {
		return k.within[id] && k.refs[id] == 0
	}
	n := k.s.graph.Node(id)
	return n.Seq > k.m.seq && n.Op != ir.OpLeaf && k.refs[id] == 0
}

// nodes adds the nodes that results and stores need, in record order.
func (k *capture) nodes(results []op.Val, stores []*Effect) {
	g := k.s.graph
	want := func(id uint32) {
		if id != 0 && k.inside(id) {
			k.need[id] = true
		}
	}
	for i := range results {
		want(results[i].Value)
	}
	for _, e := range stores {
		want(e.Value)
	}
	var reverse []uint32
	for i := len(g.Pending) - 1; i >= 0 && g.Pending[i].Seq > k.m.seq; i-- {
		id := g.Pending[i].ID
		n := g.Node(id)
		if n.Seq != g.Pending[i].Seq || !k.need[id] {
			continue
		}
		reverse = append(reverse, id)
		for _, e := range g.Edges(n) {
			want(e.Value)
		}
	}
	slices.Reverse(reverse)
	for _, id := range reverse {
		k.node(id)
	}
}

// node adds one node.
func (k *capture) node(id uint32) {
	g, p := k.s.graph, k.p
	n := g.Node(id)
	x := program.Node{Op: n.Op, Operands: n.NEdge, Outputs: uint8(n.NProj + 1), Attr: n.Attr, Aval: n.Aval,
		Edge: uint32(len(p.Edges)), Scalar: uint32(len(p.Scalars))}
	for j, e := range g.Edges(n) {
		edge := program.Edge{Layout: e.Layout}
		if e.Value != 0 {
			from, severed := k.readFrom(id, j)
			edge.Value = k.ref(e.Value, from)
			if severed {
				k.severed(len(p.Edges))
			}
		}
		p.Edges, p.Offsets = append(p.Edges, edge), append(p.Offsets, e.Offset)
	}
	p.Scalars = append(p.Scalars, g.Scalars(n)...)
	p.SourceLocs = append(p.SourceLocs, n.SourceLoc)
	p.Nodes = append(p.Nodes, x)
	i := len(p.Nodes) - 1
	k.refs[id] = program.NodeRef(i)
	k.draw(i)
	k.supplied(id, i)
	if n.Op == viewWriter {
		p.Nodes[i].SameView = p.Relate(i)
	}
	k.c.avals = append(k.c.avals, k.outputs(i))
	var types []ir.DType
	if p.Nodes[i].IsPrim() {
		types = p.ScalarTypes(i)
	}
	k.c.types = append(k.c.types, types)
}

// severed notes that edge number e is read without its value's tangents.
func (k *capture) severed(e int) {
	k.p.Severed = append(k.p.Severed, make([]bool, e+1-len(k.p.Severed))...)
	k.p.Severed[e] = true
}

// outputs returns the abstract values of all outputs of node i, held or not.
func (k *capture) outputs(i int) []ir.AvalID {
	x := &k.p.Nodes[i]
	if x.Outputs == 1 {
		return []ir.AvalID{x.Aval}
	}
	outs, err := k.p.Infer(i)
	if err != nil {
		panic(ir.Errorf(ir.ErrInternal, "BUG: capture: %v", err))
	}
	var avals []ir.AvalID
	for _, o := range outs {
		avals = append(avals, ir.InternAval(o.DType, ir.AvalOf(x.Aval).Device, ir.DenseLayout(o.Shape)).ID)
	}
	return avals
}

// draw makes a draw's offset relative to the function's first draw.
func (k *capture) draw(i int) {
	x := &k.p.Nodes[i]
	if !x.IsPrim() || k.p.Prim(i).Seed == nil {
		return
	}
	number, ok := k.p.Prim(i).Seed(k.p.Attrs(i))
	if !ok {
		return
	}
	at := int(x.Scalar) + number
	if drawOffset := k.p.Scalars[at+1]; drawOffset > k.m.draws.offset && drawOffset <= k.s.draws.offset &&
		k.p.Scalars[at] == k.m.draws.seed {
		k.p.Scalars[at], k.p.Scalars[at+1] = 0, drawOffset-k.m.draws.offset-1
		k.p.Draws = append(k.p.Draws, program.Draw{Scalar: uint32(at + 1)})
	}
}

// ref names a value, which was read from a base if that is not 0; a value from outside becomes an input.
func (k *capture) ref(id, from uint32) program.Ref {
	if r, ok := k.refs[id]; ok {
		return r
	}
	r := program.InputRef(len(k.p.Inputs))
	in, b := program.Input{Aval: k.s.graph.Node(id).Aval, Role: program.Constant}, bound{}
	owners := k.owners[id]
	if len(owners) == 0 {
		b.value = id
		k.s.graph.Retain(id)
	} else {
		if len(owners) == 1 {
			from = owners[0]
		} else if !slices.Contains(owners, from) {
			panic(ir.Errorf(ir.ErrRuntime, "capture: the function reads a value that is the state of two tensors"))
		}
		if old := k.stays[from]; old != 0 {
			return old
		}
		k.stays[from] = r
		in.Role, b = program.State, k.state(from)
	}
	k.p.Inputs = append(k.p.Inputs, in)
	k.c.bound = append(k.c.bound, b)
	if len(owners) <= 1 {
		k.refs[id] = r
	}
	return r
}

// state holds a base through an internal handle over all of it.
func (k *capture) state(base uint32) bound {
	k.notCounted(base)
	if hd := k.s.gradSlot(base); hd != 0 {
		return bound{gradOf: hd}
	}
	av := ir.AvalOf(k.s.bases.at(base).Aval)
	return bound{handle: k.s.NewHandle(base, av.Layout.ID, 0, FlagInternal)}
}

// stores adds the stores to the program; a base that is only written becomes an input too.
func (k *capture) stores(list []*Effect) {
	p := k.p
	for i, e := range list {
		into := k.stays[e.Base]
		if into == 0 {
			into = program.InputRef(len(p.Inputs))
			k.stays[e.Base] = into
			p.Inputs = append(p.Inputs, program.Input{Aval: k.s.bases.at(e.Base).Aval, Role: program.State})
			k.c.bound = append(k.c.bound, k.state(e.Base))
		}
		p.Stores = append(p.Stores, program.Store{Value: k.held(e.Value, 0), Prev: into, Base: uint32(i), Into: into,
			Flags: program.Last})
	}
}

// held names a value that outlives a call; from is as in ref.
func (k *capture) held(id, from uint32) program.Ref {
	r := k.ref(id, from)
	if r.IsNode() {
		k.p.Nodes[r.Index()].Live = program.LiveOutside
	}
	return r
}

func (k *capture) result(v *op.Val) {
	if !v.IsTensor() {
		panic(ir.Errorf(ir.ErrRuntime, "capture: a result is no tensor"))
	}
	k.p.Results = append(k.p.Results, program.Result{Value: k.held(v.Value, v.Base), Layout: v.Layout, Offset: v.Offset,
		Of: k.stays[v.Base]})
}

// histories marks the operands through which gradients flow, and keeps the history of values from outside.
func (k *capture) histories(results []op.Val, stores []*Effect) {
	k.p.History = make([]bool, len(k.p.Edges))
	seen := map[visit]bool{}
	for i := range results {
		r := k.p.Results[i].Value
		if r.IsInput() && k.readsPoint(results[i].Tape) {
			panic(ir.Errorf(ir.ErrNotImplemented, "the captured function returns a view of a view from outside, through which "+
				"gradients flow: return a copy"))
		}
		k.history(r, results[i].Tape, -1, seen)
	}
	for i, e := range stores {
		k.s.EachHandle(func(_ uint64, h *Handle) {
			if h.Base == e.Base {
				k.written(k.s.tapeOf(h))
				k.history(k.p.Stores[i].Value, k.s.tapeOf(h), -1, seen)
			}
		})
	}
	if !slices.Contains(k.p.History, true) {
		k.p.History = nil
	}
}

// written refuses a store that gave its tensor the history at edge: a call would have to give the argument a history.
func (k *capture) written(edge uint32) {
	if edge == 0 || k.within != nil || k.inBody() {
		return
	}
	n := k.s.tape.Node(edge)
	for n.Kind == autograd.KindView {
		n = k.s.tape.Node(n.In[0].Val.Tape)
	}
	if n.Kind != autograd.KindLeaf && n.Seq > k.m.step {
		panic(ir.Errorf(ir.ErrNotImplemented, "the captured function writes to an argument, and the write is part of the "+
			"gradient"))
	}
}

// inBody reports that a loop's body is captured.
func (k *capture) inBody() bool { return k.s.trace != nil && k.s.trace.body }

// derived reports that a body that is derived from another one is captured.
func (k *capture) derived() bool { return k.s.trace != nil && k.s.trace.derived }

// hooked refuses hooks, and retained gradients, of a step that the function recorded: a call runs no Python code.
func (k *capture) hooked(n *autograd.Node) {
	if len(n.Hooks)+len(n.Post)+len(n.Retain) == 0 || k.s.trace == nil || n.Seq <= k.m.step {
		return
	}
	if k.inBody() {
		panic(ir.Errorf(ir.ErrNotImplemented, "the body of a loop has a hook, or calls an autograd.Function written in "+
			"Python: its gradient is computed without Python"))
	}
	panic(ir.Errorf(ir.ErrNotImplemented, "a result of the captured function has a hook, or comes from an "+
		"autograd.Function written in Python: its gradient needs Python"))
}

// point reports that n is a view from before the function. The view itself is an input of the program, and not its base
// value, since a transform, autograd.grad or a hook may ask for the view's gradient.
func (k *capture) point(n *autograd.Node) bool { return k.within == nil && n.Seq <= k.m.step }

// readsPoint reports that the views at edge begin with a point.
func (k *capture) readsPoint(edge uint32) bool {
	for edge != 0 {
		n := k.s.tape.Node(edge)
		if n.Kind != autograd.KindView || k.point(n) {
			return n.Kind == autograd.KindView
		}
		edge = n.In[0].Val.Tape
	}
	return false
}
