package lazy

import (
	"fmt"
	"slices"

	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// derivedBodies are the bodies of loops that were derived from other bodies, and bodies ready to be inlined.
type derivedBodies struct {
	ids      map[string]int64
	tangents map[string]*tangentBody
	needed   map[int64]neededBody
	linear   map[string]*op.LinearBodies
	captured map[int64]*Captured
}

// LoopReason implements op.BodyBuilder.
func (s *Session) LoopReason(l *op.Loop, dev ir.DeviceID) string { return s.Residency(l, dev) }

// CaptureBody ends the trace of a body: it captures results as a function of the trace's arguments. The values from
// outside that the function reads become further operands: see Outside. The results after the first, fresh of them, are
// carries that the body does not read: it gets operands for them.
func (s *Session) CaptureBody(results []op.Val, fresh int) (id int64, c *Captured, err *ir.Error) {
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*ir.Error)
			if !ok {
				panic(r)
			}
			if c != nil {
				s.Forget(c)
			}
			id, c, err = 0, nil, e
		}
	}()
	for _, g := range s.trace.grads {
		if g.replaced {
			return 0, nil, ir.Errorf(ir.ErrImpure, "a loop's body changes the gradient of a tensor from outside: use "+
				"torchlette.autograd.grad or torchlette.func.grad, which return it")
		}
	}
	s.TapeUserCalls()
	levels := s.trace.levels
	defer func(old bool) { s.vmaps.inRule = old }(s.vmaps.inRule)
	s.vmaps.inRule = true
	for k := range results {
		results[k] = s.Reveal(results[k], levels)
	}
	c, err = s.Capture(s.trace.Mark, s.trace.values, s.bodyResults(s.trace.Mark, s.trace.values, results))
	if err != nil {
		return 0, nil, err
	}
	if c.Supplied > 0 {
		panic(ir.Errorf(ir.ErrRuntime, "a loop's body uses a number that a captured function gets at each call"))
	}
	if fresh > 0 {
		insertInputs(c, 1, c.Program.Results[1:1+fresh])
	}
	return internBody(c.Program.On(ir.CPU), c.args), c, nil
}

// insertInputs adds inputs like results before input number at. Nothing reads them.
func insertInputs(c *Captured, at int, results []program.Result) {
	p, n := c.Program, len(results)
	shift := func(r *program.Ref) {
		if r.IsInput() && r.Index() >= at {
			*r = program.InputRef(r.Index() + n)
		}
	}
	for i := range p.Edges {
		shift(&p.Edges[i].Value)
	}
	for k := range p.Results {
		shift(&p.Results[k].Value)
		shift(&p.Results[k].Of)
	}
	for i := range p.Stores {
		shift(&p.Stores[i].Prev)
		shift(&p.Stores[i].Into)
	}
	fresh := make([]program.Input, n)
	for k, r := range results {
		fresh[k].Aval = p.AvalID(r.Value)
	}
	p.Inputs, c.args = slices.Insert(p.Inputs, at, fresh...), c.args+n
}

// LoopLevels reveals the levels of vmap in progress in a loop's operands: they come after the dim of iterations. back
// hides them again in the results. The body of such a loop computes the whole batch. The caller calls end at the end.
func (s *Session) LoopLevels(in []op.Val, carries int) (whole []op.Val, back func(outs []op.Val) []op.Val, end func()) {
	levels := s.levels()
	n := len(levels)
	if n == 0 {
		return in, func(outs []op.Val) []op.Val { return outs }, func() {}
	}
	turn := func(v op.Val, from, to int) op.Val {
		perm := make([]int64, v.L().Rank())
		for i := range perm {
			perm[i] = int64(i)
		}
		d := perm[from]
		return prim.Permute(s, v, slices.Insert(slices.Delete(perm, from, from+1), to, d))
	}
	whole = make([]op.Val, len(in))
	for i, v := range in {
		if whole[i] = s.Reveal(v, levels); i >= carries {
			whole[i] = turn(whole[i], n, 0)
		}
	}
	old := s.vmaps.inRule
	end = func() { s.vmaps.inRule = old }
	s.vmaps.inRule = true
	return whole, func(outs []op.Val) []op.Val {
		end()
		for k, v := range outs {
			if k >= carries {
				v = turn(v, 0, n)
			}
			outs[k] = s.Hide(v, levels)
		}
		return outs
	}, end
}

// levels lists the levels of vmap in progress. One without size only refuses draws.
func (s *Session) levels() (list []ir.HiddenDim) {
	for i, l := range s.vmapLevels {
		if l.size == 0 {
			continue
		}
		list = append(list, ir.HiddenDim{Level: int64(i + 1), Size: l.size})
	}
	return list
}

// Outside returns the values from outside that a body reads, with their histories, in the order of its further
// operands.
func (s *Session) Outside(c *Captured) (list []op.Val) {
	k := &inlining{s: s, c: c, p: c.Program}
	for i := range c.bound {
		list = append(list, k.bound(&c.bound[i]))
	}
	return list
}

// internBody numbers the program as a body. Writes to the placeholders of its arguments end with the trace.
func internBody(p *program.Program, args int) int64 {
	for _, st := range p.Stores {
		if !st.Into.IsInput() || st.Into.Index() >= args {
			panic(ir.Errorf(ir.ErrImpure, "a loop's body writes in place to a tensor from outside: make it a carry"))
		}
	}
	p.Stores = nil
	for i := range p.Inputs {
		p.Inputs[i].Role = program.Argument
	}
	for k := range p.Results {
		p.Results[k].Of = 0
	}
	p.Seal()
	if why := p.Body(); why != "" {
		panic(ir.Errorf(ir.ErrInternal, "BUG: the body of a loop is none: %s", why))
	}
	return op.InternBody(p)
}

// bodyResults copies results that are no distinct whole values recorded since the mark, or count without tangents.
func (s *Session) bodyResults(m Mark, args, results []op.Val) []op.Val {
	out, seen := make([]op.Val, len(results)), map[uint32]bool{}
	for _, a := range args {
		seen[a.Value] = true
	}
	for k, v := range results {
		n := s.graph.Node(v.Value)
		whole := v.Layout == ir.AvalOf(v.Aval).Layout.ID && v.Offset == 0
		if v.Severed || seen[v.Value] || n.Seq <= m.seq || n.Op == ir.OpLeaf || !whole {
			v = prim.Copy(s, v)
		}
		seen[v.Value] = true
		out[k] = v
	}
	return out
}

// derive makes the body that f records on operands with these abstract values. key identifies f.
func (s *Session) derive(key string, operands []ir.AvalID, f func(in []op.Val) []op.Val) int64 {
	if id, ok := s.derived.ids[key]; ok {
		return id
	}
	var id int64
	s.aside(operands, func(m Mark, in []op.Val) {
		c, err := s.Capture(m, in, s.bodyResults(m, in, f(slices.Clone(in))))
		if err != nil {
			panic(err)
		}
		if len(c.bound) > 0 {
			panic("BUG: a derived body reads a value from outside")
		}
		id = internBody(c.Program, c.args)
	})
	if s.derived.ids == nil {
		s.derived.ids = map[string]int64{}
	}
	s.derived.ids[key] = id
	return id
}

// aside calls f on placeholders with these abstract values, and undoes what it records.
func (s *Session) aside(operands []ir.AvalID, f func(m Mark, in []op.Val)) {
	m, modes, vmaps, bytes, packing := s.Mark(), s.Modes, s.vmaps, s.emitter.pendingBytes, s.tape.Packing
	trace, from := s.trace, s.tape.From
	defer func() {
		s.Rewind(m)
		s.Modes, s.vmaps, s.emitter.pendingBytes, s.tape.Packing = modes, vmaps, bytes, packing
		s.trace, s.tape.From = trace, from
	}()
	s.vmaps.inRule, s.taping, s.tape.Packing, s.tape.From = true, true, false, autograd.Source{}
	s.trace = &Trace{Mark: m, derived: true}
	s.Inference, s.ceiling = false, 0
	in := make([]op.Val, len(operands))
	for i, id := range operands {
		av := ir.AvalOf(id)
		if in[i] = s.Placeholder(av.DType, av.Device, av.Shape()); av.DType.IsFloat() {
			in[i] = s.leaf(in[i]) // a derived body is differentiated too
		}
	}
	f(m, in)
}

// leaf puts v on the tape.
func (s *Session) leaf(v op.Val) op.Val {
	v.Tape = autograd.Edge(s.tape.RecordLeaf(0, v), 0)
	s.held.edges = append(s.held.edges, v.Tape)
	return v
}

// inlineBody records a body on operands.
func (s *Session) inlineBody(id int64, in []op.Val) []op.Val {
	return s.Inline(s.capturedBody(id), in, nil)
}

// capturedBody is a body as a captured function.
func (s *Session) capturedBody(id int64) *Captured {
	c := s.derived.captured[id]
	if c == nil {
		p := op.BodyOf(id).(*program.Program)
		c = &Captured{Program: p, args: len(p.Inputs)}
		k := &capture{s: s, p: p, c: c}
		for i := range p.Nodes {
			c.avals = append(c.avals, k.outputs(i))
			var types []ir.DType
			if p.Nodes[i].IsPrim() {
				types = p.ScalarTypes(i)
			}
			c.types = append(c.types, types)
		}
		if s.derived.captured == nil {
			s.derived.captured = map[int64]*Captured{}
		}
		s.derived.captured[id] = c
	}
	return c
}

// BatchBody implements op.BodyBuilder.
func (s *Session) BatchBody(l *op.Loop, batched []bool, sizes []int64) int64 {
	operands := slices.Clone(l.Body().Operands())
	for i, id := range operands {
		if av := ir.AvalOf(id); batched[i] {
			operands[i] = ir.InternAval(av.DType, av.Device, ir.DenseLayout(slices.Concat(sizes, av.Shape()))).ID
		}
	}
	return s.derive(fmt.Sprint("batch", l.ID, l.While, batched, sizes), operands, func(in []op.Val) []op.Val {
		levels := make([]ir.HiddenDim, len(sizes))
		for i, n := range sizes {
			levels[i] = ir.HiddenDim{Level: int64(i + 1), Size: n}
		}
		s.vmaps.inRule, s.vmaps.plain, s.vmapLevels = false, true, nil
		for i := range in {
			if batched[i] {
				in[i] = s.Hide(in[i], levels)
			}
		}
		outs := s.inlineBody(l.ID, in)
		s.vmaps.inRule = true
		for k := range outs {
			if k > 0 || !l.While || batched[0] || hasBatch(outs[k]) { // a condition may be one for all
				outs[k] = s.Reveal(outs[k], levels)
			}
		}
		return outs
	})
}

// MaskedBody implements op.BodyBuilder.
func (s *Session) MaskedBody(l *op.Loop) int64 {
	flag := ir.InternAval(ir.Bool, ir.CPU, ir.DenseLayout(nil)).ID
	operands := slices.Concat([]ir.AvalID{flag}, l.Body().Operands())
	return s.derive(fmt.Sprint("masked", l.ID, l.Carries), operands, func(in []op.Val) []op.Val {
		old := in[1:]
		outs := slices.Clone(s.inlineBody(l.ID, old))
		goesOn, batch := old[0], old[0].Shape()
		for k := 1; k < l.Carries; k++ {
			shape := old[k].Shape()
			mask := prim.Reshape(s, goesOn, slices.Concat(batch, slices.Repeat([]int64{1}, len(shape)-len(batch))))
			outs[k] = prim.Where(s, prim.Expand(s, mask, shape), outs[k], old[k])
		}
		outs[0] = prim.Where(s, goesOn, outs[0], goesOn)
		return slices.Concat([]op.Val{prim.AnyElement(s, outs[0])}, outs)
	})
}

// SegmentBody implements op.BodyBuilder.
func (s *Session) SegmentBody(l *op.Loop, n int64) int64 {
	inner := *l
	inner.Length, inner.Keep = n, false
	operands := append([]ir.AvalID(nil), l.Body().Operands()...)
	for i := l.Carries; i < l.Carries+l.Xs; i++ {
		operands[i] = stackedAval(operands[i], n)
	}
	return s.derive(fmt.Sprint("segment", inner), operands, func(in []op.Val) []op.Val {
		if d := int64(l.Body().DrawsTaken()); d > 0 {
			seed, first := s.DrawMany(n * d)
			in = append(in, seed, first)
		}
		return s.EmitN(prim.Known.Loop, inner.Attr(), in...)
	})
}

func stackedAval(id ir.AvalID, n int64) ir.AvalID {
	av := ir.AvalOf(id)
	return ir.InternAval(av.DType, av.Device, ir.DenseLayout(append([]int64{n}, av.Shape()...))).ID
}

// gradientBody is a GradientBody in progress.
type gradientBody struct {
	s           *Session
	l           *op.Loop
	need, given []bool
	ops, outs   []ir.AvalID // of the loop's body
	xs          int         // number of the first operand that all iterations read
}

// GradientBody implements op.BodyBuilder.
func (s *Session) GradientBody(l *op.Loop, need, given []bool) (id int64, read []bool) {
	g := &gradientBody{s: s, l: l, need: need, given: given, ops: l.Body().Operands(), outs: l.Body().Outcomes(),
		xs: l.Carries + l.Xs}
	id = s.derive(fmt.Sprint("gradient", l.ID, l.Carries, l.Xs, l.While, need, given), g.operands(), g.record)
	if l.While {
		return id, slices.Repeat([]bool{true}, len(op.BodyOf(id).Operands()))
	}
	return s.needed(id, g.carries())
}

func isFloat(id ir.AvalID) bool { return ir.AvalOf(id).DType.IsFloat() }

// carries counts the carries of the derived body.
func (g *gradientBody) carries() (n int) {
	for i, id := range g.ops {
		if i < g.l.Carries && isFloat(id) || i >= g.xs && g.need[i] {
			n++
		}
	}
	return n
}

// operands are the abstract values of the derived body's operands.
func (g *gradientBody) operands() (list []ir.AvalID) {
	if g.l.While {
		list = append(list, g.ops[0])
	}
	for i, id := range g.ops {
		if i < g.l.Carries && isFloat(id) || i >= g.xs && g.need[i] {
			list = append(list, id)
		}
	}
	list = append(list, g.ops[g.l.Carries:g.xs]...)
	list = append(list, g.ops[:g.l.Carries]...)
	for k, given := range g.given {
		if given {
			list = append(list, g.result(k))
		}
	}
	return append(list, g.ops[g.xs:]...)
}

// result is the abstract value of stacked result k in one iteration: a further result, or a carry that is kept.
func (g *gradientBody) result(k int) ir.AvalID {
	if ys := len(g.outs) - g.l.Carries; k >= ys {
		return g.ops[k-ys]
	}
	return g.outs[g.l.Carries+k]
}

// record records the body once, walks back from its results, and returns the derived body's results.
func (g *gradientBody) record(in []op.Val) []op.Val {
	take := func(n int) []op.Val {
		list := in[:n:n]
		in = in[n:]
		return list
	}
	cots := make([]op.Val, len(g.outs)+g.l.Carries) // of the results, then of the kept carries
	sums := make([]op.Val, len(g.ops))
	var outs []op.Val
	if g.l.While {
		outs = take(1) // a single iteration: the condition stays as it is
	}
	for i, id := range g.ops {
		switch {
		case i < g.l.Carries && isFloat(id):
			cots[i] = take(1)[0]
		case i >= g.xs && g.need[i]:
			sums[i] = take(1)[0]
		}
	}
	xs, carries := take(g.l.Xs), take(g.l.Carries)
	for k, given := range g.given {
		if given {
			cots[g.l.Carries+k] = take(1)[0]
		}
	}
	args := append(append(append([]op.Val{}, carries...), xs...), in...)
	grads := g.walk(args, cots)
	for i, id := range g.ops {
		switch v := grads[i]; {
		case i < g.l.Carries && isFloat(id):
			outs = append(outs, g.sum(args[i], v, cots[len(g.outs)+i]))
		case i >= g.xs && g.need[i]:
			outs = append(outs, g.sum(args[i], sums[i], v))
		}
	}
	for i := g.l.Carries; i < g.xs; i++ {
		if g.need[i] {
			outs = append(outs, g.sum(args[i], grads[i], op.Val{}))
		}
	}
	return outs
}

// sum adds two cotangents of v, which may be absent.
func (g *gradientBody) sum(v, a, b op.Val) op.Val {
	switch {
	case a.Kind == op.None && b.Kind == op.None:
		return prim.ZerosLike(g.s, v)
	case a.Kind == op.None:
		return b
	case b.Kind == op.None:
		return a
	}
	return prim.Add(g.s, a, b)
}

// walk returns the cotangents of the body's operands for those of its results; Kind None where there is none.
func (g *gradientBody) walk(args, cots []op.Val) []op.Val {
	s := g.s
	var leaves []uint32
	var of []int
	for i := range args {
		if i < g.l.Carries && isFloat(g.ops[i]) || i >= g.l.Carries && g.need[i] {
			leaves, of = append(leaves, args[i].Tape), append(of, i)
		}
	}
	outs := s.inlineBody(g.l.ID, args)
	var roots, given []op.Val
	for k := range g.outs {
		if outs[k].Tape != 0 && cots[k].Kind != op.None {
			roots, given = append(roots, outs[k]), append(given, cots[k])
		}
	}
	grads := make([]op.Val, len(args))
	if len(roots) == 0 || len(leaves) == 0 {
		return grads
	}
	w := s.tape.Begin(plainRules{s}, nil, roots, given, autograd.Options{Inputs: leaves, CreateGraph: true,
		RetainGraph: true})
	defer w.Close()
	if _, err := w.Next(op.Val{}); err != nil {
		panic(ir.Errorf(ir.ErrRuntime, "%s", err.Error()))
	}
	for n, v := range w.Results {
		grads[of[n]] = v
	}
	return grads
}
