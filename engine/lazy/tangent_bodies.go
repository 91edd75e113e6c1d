package lazy

import (
	"fmt"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// neededBody is a body without the operands that nothing reads.
type neededBody struct {
	id   int64
	read []bool // by operand of the body that it comes from
}

// needed returns the body without the operands, after the first ones, that nothing reads. The values behind them then
// need not be kept, nor computed.
func (s *Session) needed(id int64, first int) (int64, []bool) {
	if n, ok := s.derived.needed[id]; ok {
		return n.id, n.read
	}
	p := op.BodyOf(id).(*program.Program)
	n := neededBody{id, p.Reads()}
	for i := range first {
		n.read[i] = true
	}
	if slices.Contains(n.read, false) {
		n.id = op.InternBody(p.Keeping(n.read))
	}
	if s.derived.needed == nil {
		s.derived.needed = map[int64]neededBody{}
	}
	s.derived.needed[id] = n
	return n.id, n.read
}

// tangentBody is the body of a loop of values and tangents.
type tangentBody struct {
	id          int64
	carries, ys []bool // which carries and further results have a tangent
}

// TangentBody implements op.BodyBuilder. A carry has a tangent where it begins with one or gets one in an iteration.
func (s *Session) TangentBody(l *op.Loop, tangents []bool, apart bool) (id int64, carries, ys []bool) {
	key := fmt.Sprint("tangent", l.ID, l.Carries, l.Xs, tangents, apart)
	if b := s.derived.tangents[key]; b != nil {
		return b.id, b.carries, b.ys
	}
	g := &tangentRecorder{s: s, l: l, ops: l.Body().Operands(), has: slices.Clone(tangents), apart: apart}
	for grown := true; grown; {
		grown = false
		s.aside(g.operands(), func(_ Mark, in []op.Val) { g.record(in) })
		for i, is := range g.found[:l.Carries] {
			grown = grown || is && !g.has[i]
			g.has[i] = g.has[i] || is
		}
	}
	b := &tangentBody{id: s.derive(key, g.operands(), g.record), carries: g.has[:l.Carries], ys: g.found[l.Carries:]}
	if s.derived.tangents == nil {
		s.derived.tangents = map[string]*tangentBody{}
	}
	s.derived.tangents[key] = b
	return b.id, b.carries, b.ys
}

// tangentRecorder is a TangentBody in progress.
type tangentRecorder struct {
	s     *Session
	l     *op.Loop
	ops   []ir.AvalID // of the loop's body
	has   []bool      // by operand: it has a tangent
	found []bool      // by result: it got a tangent
	apart bool
}

// groups are where carries, xs and what all iterations read begin and end.
func (g *tangentRecorder) groups() [4]int {
	return [4]int{0, g.l.Carries, g.l.Carries + g.l.Xs, len(g.ops)}
}

// operands are the abstract values of the derived body's operands: each group, then its tangents.
func (g *tangentRecorder) operands() (list []ir.AvalID) {
	at := g.groups()
	for n := range 3 {
		list = append(list, g.ops[at[n]:at[n+1]]...)
		for i := at[n]; i < at[n+1]; i++ {
			if g.has[i] {
				list = append(list, g.ops[i])
			}
		}
	}
	return list
}

// record records the body on values with tangents and returns the derived body's results: carries, their tangents,
// further results, their tangents.
func (g *tangentRecorder) record(in []op.Val) (outs []op.Val) {
	s, at := g.s, g.groups()
	level := s.OpenLevel(g.apart)
	defer s.CloseLevel(level)
	args := make([]op.Val, len(g.ops))
	for n := range 3 {
		for i := at[n]; i < at[n+1]; i++ {
			args[i], in = in[0], in[1:]
		}
		for i := at[n]; i < at[n+1]; i++ {
			if g.has[i] {
				s.give(level, &args[i], in[0])
				in = in[1:]
			}
		}
	}
	results := s.inlineBody(g.l.ID, args)
	tangents := make([]op.Val, len(results))
	g.found = make([]bool, len(results))
	for k, v := range results {
		if v.DType().IsFloat() {
			tangents[k] = s.Tangent(v, level)
		}
		g.found[k] = tangents[k].IsTensor()
	}
	defer s.below(uint32(level))()
	for k := range results {
		if k < g.l.Carries && g.has[k] && !g.found[k] {
			tangents[k] = prim.ZerosLike(s, results[k])
		}
	}
	missing := func(v op.Val) bool { return !v.IsTensor() }
	n := g.l.Carries
	return slices.Concat(results[:n], slices.DeleteFunc(tangents[:n:n], missing), results[n:],
		slices.DeleteFunc(slices.Clone(tangents[n:]), missing))
}

// give gives a placeholder a tangent at a level.
func (s *Session) give(level int64, v *op.Val, t op.Val) {
	s.graph.Retain(t.Value)
	s.tape.Retain(t.Tape)
	s.level(level).of[v.Value] = tangent{val: t}
}
