package lazy

import (
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// CaptureTangents makes a program of the part of the recording that depends on args, which are pending: a function from
// them to results. All else is a constant, pending or not, which is computed once. ok is false where args were computed
// before, so that the recording is gone.
func (s *Session) CaptureTangents(args, results []op.Val) (c *Captured, ok bool) {
	k := &capture{s: s, m: Mark{draws: s.draws}, c: &Captured{Program: &program.Program{}, args: len(args)},
		refs: map[uint32]program.Ref{}, need: map[uint32]bool{}, owners: map[uint32][]uint32{},
		stays: map[uint32]program.Ref{}, within: map[uint32]bool{}}
	k.p = k.c.Program
	g := s.graph
	for i := range args {
		if g.Node(args[i].Value).Op == ir.OpLeaf {
			return nil, false
		}
		args[i].Base = 0
		k.argument(&args[i])
		k.within[args[i].Value] = true
	}
	for _, p := range g.Pending {
		n := g.Node(p.ID)
		if n.Seq != p.Seq || n.Op == ir.OpLeaf {
			continue
		}
		for _, e := range g.Edges(n) {
			if k.within[e.Value] {
				k.within[p.ID] = true
			}
		}
	}
	k.nodes(results, nil)
	for i := range results {
		results[i].Base = 0
		k.result(&results[i])
	}
	k.p.History = make([]bool, len(k.p.Edges))
	for i, e := range k.p.Edges {
		k.p.History[i] = e.Value.IsNode() || e.Value.IsInput() && e.Value.Index() < len(args)
	}
	k.p.Seal()
	if err := k.p.Verify(); err != nil {
		panic(ir.Errorf(ir.ErrInternal, "BUG: capture: %v", err))
	}
	return k.c, true
}
