package lazy

import (
	"fmt"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// dependence is the kind of operands from which a value of a joint body, of values and tangents, is computed.
type dependence uint8

const (
	onOutside   dependence = iota // what all iterations read
	onIteration                   // carries and xs
	onTangents
)

// LinearBodies implements op.BodyBuilder.
func (s *Session) LinearBodies(l *op.Loop, id int64, tangents []bool) *op.LinearBodies {
	key := fmt.Sprint("linear", l.ID, l.Carries, l.Xs, id, tangents)
	b, ok := s.derived.linear[key]
	if !ok {
		g := &linearSplit{s: s, id: id, p: op.BodyOf(id).(*program.Program),
			t: tangentRecorder{s: s, l: l, ops: l.Body().Operands(), has: tangents}}
		b = g.bodies(key)
		if s.derived.linear == nil {
			s.derived.linear = map[string]*op.LinearBodies{}
		}
		s.derived.linear[key] = b
	}
	return b
}

// linearSplit is a LinearBodies in progress.
type linearSplit struct {
	s      *Session
	id     int64 // of the joint body
	p      *program.Program
	t      tangentRecorder
	inputs []dependence
	values []int // by operand of the loop's body: its number in the joint body
	twins  []int // its tangent's, -1 for none
	nodes  []dependence
	kept   []program.Ref // values that the tangents need, from the iteration
}

func (g *linearSplit) bodies(key string) *op.LinearBodies {
	if !g.classify() {
		return nil
	}
	b := &op.LinearBodies{Kept: len(g.kept)}
	for _, r := range g.kept {
		b.Bytes += g.p.Aval(r).Bytes()
	}
	const most = 255 // results of a loop
	if len(g.t.l.Body().Outcomes())+len(g.kept)+g.t.l.Carries > most {
		return nil
	}
	b.Values = g.s.derive(key+"values", g.t.ops, g.recordValues)
	operands, first := g.linearOperands()
	b.Linear, b.Read = g.s.needed(g.s.derive(key+"tangents", operands, g.recordLinear), first)
	return b
}

// classify finds the dependence of each value, and the values to keep. It reports whether the tangents draw nothing,
// and the values depend on no tangent.
func (g *linearSplit) classify() bool {
	g.classifyInputs()
	return g.classifyNodes() && g.keepValues()
}

func (g *linearSplit) classifyInputs() {
	at := g.t.groups()
	for n := range 3 {
		from := onIteration
		if n == 2 {
			from = onOutside
		}
		for range at[n+1] - at[n] {
			g.values, g.inputs = append(g.values, len(g.inputs)), append(g.inputs, from)
		}
		for i := at[n]; i < at[n+1]; i++ {
			twin := -1
			if g.t.has[i] {
				twin, g.inputs = len(g.inputs), append(g.inputs, onTangents)
			}
			g.twins = append(g.twins, twin)
		}
	}
}

// classifyNodes reports whether the tangents draw nothing.
func (g *linearSplit) classifyNodes() bool {
	for i := range g.p.Nodes {
		d := onOutside
		for _, e := range g.p.OperandsOf(i) {
			if e.Value != 0 {
				d = max(d, g.of(e.Value))
			}
		}
		if x := &g.p.Nodes[i]; x.IsPrim() && draw(g.p.Prim(i), g.p.Attrs(i)) {
			if d == onTangents {
				return false
			}
			d = onIteration
		}
		g.nodes = append(g.nodes, d)
	}
	return true
}

// keepValues keeps what tangents read of the iteration. It reports whether the values depend on no tangent.
func (g *linearSplit) keepValues() bool {
	for k, r := range g.p.Results {
		d := g.of(r.Value)
		if !g.isTangent(k) && d == onTangents {
			return false
		}
		if g.isTangent(k) && d == onIteration {
			g.keep(r.Value)
		}
	}
	for i, d := range g.nodes {
		for _, e := range g.p.OperandsOf(i) {
			if d == onTangents && e.Value != 0 && g.of(e.Value) == onIteration {
				g.keep(e.Value)
			}
		}
	}
	return true
}

func (g *linearSplit) of(r program.Ref) dependence {
	if r.IsInput() {
		return g.inputs[r.Index()]
	}
	return g.nodes[r.Index()]
}

// keep keeps a value, unless it is an element of xs.
func (g *linearSplit) keep(r program.Ref) {
	if x := r.IsInput() && r.Index() >= g.t.l.Carries; !x && !slices.Contains(g.kept, r) {
		g.kept = append(g.kept, r)
	}
}

// isTangent reports that result k of the joint body is a tangent.
func (g *linearSplit) isTangent(k int) bool {
	n := g.t.l.Carries
	for _, is := range g.t.has[:n] {
		if is {
			n++
		}
	}
	return k >= g.t.l.Carries && k < n || k >= n+len(g.t.l.Body().Outcomes())-g.t.l.Carries
}

// recordValues records the values on the operands of the loop's body. It returns results, then kept values.
func (g *linearSplit) recordValues(in []op.Val) (outs []op.Val) {
	args := make([]op.Val, len(g.inputs))
	for i, v := range in {
		if args[g.values[i]] = v; g.twins[i] >= 0 {
			args[g.twins[i]] = prim.ZerosLike(g.s, v)
		}
	}
	all, nodes := g.s.inline(g.s.capturedBody(g.id), args, nil, nil)
	for k, v := range all {
		if !g.isTangent(k) {
			outs = append(outs, v)
		}
	}
	for _, r := range g.kept {
		if r.IsInput() {
			outs = append(outs, args[r.Index()])
		} else {
			outs = append(outs, nodes[r.Index()])
		}
	}
	return outs
}

// linearOperands returns the operands of the body of tangents, and how many of them are carries. Carries come first.
func (g *linearSplit) linearOperands() (list []ir.AvalID, carries int) {
	at := g.t.groups()
	twins := func(n int) {
		for i := at[n]; i < at[n+1]; i++ {
			if g.t.has[i] {
				list = append(list, g.t.ops[i])
			}
		}
	}
	twins(0)
	carries = len(list)
	for _, r := range g.kept {
		list = append(list, g.p.AvalID(r))
	}
	for n := 1; n < 3; n++ {
		list = append(list, g.t.ops[at[n]:at[n+1]]...)
		twins(n)
	}
	return list, carries
}

// recordLinear records the nodes that depend on tangents, and the operands of these nodes that no iteration changes.
func (g *linearSplit) recordLinear(in []op.Val) (outs []op.Val) {
	args, at := make([]op.Val, len(g.inputs)), g.t.groups()
	take := func(to *op.Val) { *to, in = in[0], in[1:] }
	twins := func(n int) {
		for i := at[n]; i < at[n+1]; i++ {
			if g.twins[i] >= 0 {
				take(&args[g.twins[i]])
			}
		}
	}
	twins(0)
	kept := map[int]op.Val{}
	for _, r := range g.kept {
		var v op.Val
		if take(&v); r.IsInput() {
			args[r.Index()] = v
		} else {
			kept[r.Index()] = v
		}
	}
	for n := 1; n < 3; n++ {
		for i := at[n]; i < at[n+1]; i++ {
			take(&args[g.values[i]])
		}
		twins(n)
	}
	for i, v := range args {
		if !v.IsTensor() { // a carry that no tangent needs
			av := ir.AvalOf(g.p.Inputs[i].Aval)
			args[i] = prim.Zeros(g.s, av.DType, av.Device, av.Shape())
		}
	}
	all, _ := g.s.inline(g.s.capturedBody(g.id), args, nil, func(node int) (op.Val, bool) {
		return kept[node], g.nodes[node] == onIteration
	})
	for k, v := range all {
		if g.isTangent(k) {
			outs = append(outs, v)
		}
	}
	return outs
}
