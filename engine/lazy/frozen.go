package lazy

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// Like is a value without contents: what BeginTrace asks of an argument.
func Like(d ir.DType, dev ir.DeviceID, shape []int64) op.Val {
	l := ir.DenseLayout(shape)
	if !d.IsComplex() {
		return op.Val{Kind: op.Tensor, Aval: ir.InternAval(d, dev, l).ID, Layout: l.ID}
	}
	pairs := ir.PairLayout(l)
	l, _ = ir.ComplexLayout(pairs)
	return op.Val{Kind: op.Tensor, Aval: ir.InternAval(d.Real(), dev, pairs).ID, Layout: l.ID}
}

// Dense copies each result that is no whole value of a node of its own: a view, an argument or a state, or a value that
// is a result already.
func (s *Session) Dense(results []op.Val) []op.Val {
	var seen []uint32
	out := slices.Clone(results)
	for i, v := range out {
		n := s.graph.Node(v.Value)
		if !v.IsWhole() || n.Seq <= s.trace.Mark.seq || n.Op == ir.OpLeaf || slices.Contains(seen, v.Value) {
			v = prim.Copy(s, v)
			v.Base = 0
			out[i] = v
		}
		seen = append(seen, v.Value)
	}
	return out
}

// Bound returns the present values of the constants and states of c, in the order of the program's inputs after the
// arguments. Each has a reference, which the caller owns.
func (s *Session) Bound(c *Captured) (values []uint32, err *ir.Error) {
	for i := range c.bound {
		b := &c.bound[i]
		id := b.value
		if hd := s.boundHandle(b); hd != 0 {
			v, err := s.Resolve(hd)
			if err != nil {
				return values, err
			}
			id = v.Value
		}
		s.graph.Retain(id)
		values = append(values, id)
	}
	return values, nil
}

// WritesState reports that a call of c writes to a tensor other than its arguments.
func (c *Captured) WritesState() bool {
	return slices.ContainsFunc(c.Program.Stores, func(st program.Store) bool { return st.Into.Index() >= c.args })
}
