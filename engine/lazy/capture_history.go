package lazy

import (
	"fmt"

	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// visit is a step on the tape and the node of the program that has its value. A checkpoint computes the values of a
// step more than once.
type visit struct {
	step uint32
	node int
}

// history walks the tape from the edge of a value, which is that of r. It reports whether gradients that reach the
// value go on. at is the number of the operand that reads r, -1 for none.
func (k *capture) history(r program.Ref, edge uint32, at int, seen map[visit]bool) bool {
	var chain []*autograd.Node
	for edge != 0 {
		n := k.s.tape.Node(edge)
		k.hooked(n)
		if of, ok := k.s.ofRule(n, edge); ok {
			edge = of
			continue
		}
		if n.Kind != autograd.KindView || r.IsInput() && at >= 0 && k.point(n) {
			break
		}
		edge, chain = n.In[0].Val.Tape, append(chain, n)
	}
	if edge == 0 || r == 0 {
		return false
	}
	n := k.s.tape.Node(edge)
	if (k.inBody() || k.derived()) && n.Kind == autograd.KindLeaf && n.Seq > k.m.step && !k.argumentLeaf(r, edge) {
		return false // the point of a transform or a rule in the body, whose value may have a history that ends there
	}
	if r.IsInput() {
		k.inputHistory(r, edge, at)
		if k.chains == nil {
			k.chains = map[int][]*autograd.Node{}
		}
		k.chains[at] = chain
		return true
	}
	i := r.Index()
	if x := &k.p.Nodes[i]; !x.IsPrim() {
		i = k.p.OperandsOf(i)[0].Value.Index()
	}
	if n.Kind == autograd.KindLeaf && k.s.trace != nil && !k.inBody() && n.Seq > k.m.step {
		panic(ir.Errorf(ir.ErrNotImplemented, "a result of the captured function is, or depends on, a leaf that it made"))
	}
	v := visit{edge >> autograd.EdgeBits, i}
	if n.Kind == autograd.KindLeaf || seen[v] {
		return true
	}
	k.ofStep(n, i)
	seen[v] = true
	k.operandHistories(n, i, seen)
	return true
}

// operandHistories marks the operands of node i, which step n of the tape made, through which gradients flow.
func (k *capture) operandHistories(n *autograd.Node, i int, seen map[visit]bool) {
	operands, j := k.p.OperandsOf(i), 0
	for _, in := range n.In {
		if in.Val.Kind == op.None {
			continue
		}
		if in.Val.Tape != 0 && j < len(operands) {
			e := int(k.p.Nodes[i].Edge) + j
			k.p.History[e] = k.history(operands[j].Value, in.Val.Tape, e, seen)
			k.flat(in.Val.Tape, e)
		}
		j++
	}
}

// flat notes the alias through which operand number at reads its value with the history at edge, if gradients flow
// there and a piecewise linear function reads it.
func (k *capture) flat(edge uint32, at int) {
	if !k.p.History[at] {
		return
	}
	r := k.p.Edges[at].Value
	for edge != 0 {
		n := k.s.tape.Node(edge)
		if n.Kind != autograd.KindView || r.IsInput() && k.point(n) {
			return
		}
		if n.View.Kind == op.ViewFlat {
			if k.flats == nil {
				k.flats, k.p.Flat = map[*autograd.Node]uint32{}, make([]uint32, len(k.p.Edges))
			}
			if k.flats[n] == 0 {
				k.flats[n] = uint32(len(k.flats) + 1)
			}
			k.p.Flat[at] = k.flats[n]
			return
		}
		edge = n.In[0].Val.Tape
	}
}

// ofStep refuses a node that is not of the primitive of step n, whose history it has. Zeros have the history of another
// value where a walk went through a step from before the mark: see autograd's ViewFlat.
func (k *capture) ofStep(n *autograd.Node, node int) {
	switch is := k.p.Nodes[node].Op; {
	case is == uint16(n.Prim):
	case is == uint16(prim.Known.Fill) && n.Seq <= k.m.step:
		panic(ir.Errorf(ir.ErrNotImplemented, "the captured function computes the gradient of a gradient through %s, "+
			"which was recorded before: record it in the function", op.PrimOf(n.Prim).Name))
	default:
		panic(ir.Errorf(ir.ErrInternal, "BUG: capture: %s has the history of %s", k.p.Prim(node).Name,
			op.PrimOf(n.Prim).Name))
	}
}

// argumentLeaf reports that r is an argument and edge its history.
func (k *capture) argumentLeaf(r program.Ref, edge uint32) bool {
	return r.IsInput() && r.Index() < len(k.leaves) && k.leaves[r.Index()]>>autograd.EdgeBits == edge>>autograd.EdgeBits
}

// inputHistory notes the history of a value from outside that operand number at reads, -1 for a result. One value may
// have several histories, such as the points of func.grad within func.grad, or views with hooks. The program then has
// an input for each. Results and writes need all of the value, so only an input of its own reads a view.
func (k *capture) inputHistory(r program.Ref, edge uint32, at int) {
	i := r.Index() - k.c.args
	if i < 0 || k.c.bound[i].tape == edge {
		return
	}
	own := at >= 0 && !k.inBody() && !k.ofWhole(i, edge)
	switch {
	case k.c.bound[i].tape == 0 && !own:
		k.s.tape.Retain(edge)
		k.c.bound[i].tape = edge
	case at >= 0:
		k.p.Edges[at].Value = k.twin(i, edge, nil)
	default:
		panic(ir.Errorf(ir.ErrNotImplemented, "the captured function returns a view of a tensor from outside that it also "+
			"reads with another history: return a copy"))
	}
}

// ofWhole reports that the history at edge is one of all of bound number i's value.
func (k *capture) ofWhole(i int, edge uint32) bool {
	root := &k.s.tape.Node(edge).Out[autograd.Output(edge)].Val
	return root.L().Whole().IsWhole(root.Offset, ir.AvalOf(k.p.Inputs[k.c.args+i].Aval).Layout)
}

// twin returns another input for the value behind bound number i, with the history at edge and folds.
func (k *capture) twin(i int, edge uint32, folds []fold) program.Ref {
	key := fmt.Sprint(i, edge, folds)
	if r, ok := k.twins[key]; ok {
		return r
	}
	b := k.c.bound[i]
	switch {
	case b.handle != 0:
		h, err := k.s.Handle(b.handle)
		if err != nil {
			panic(err)
		}
		b = k.state(h.Base)
	case b.gradOf == 0:
		k.s.graph.Retain(b.value)
	}
	b.tape, b.folds = edge, folds
	k.s.tape.Retain(edge)
	r := program.InputRef(len(k.p.Inputs))
	k.p.Inputs, k.c.bound = append(k.p.Inputs, k.p.Inputs[k.c.args+i]), append(k.c.bound, b)
	if k.twins == nil {
		k.twins = map[string]program.Ref{}
	}
	k.twins[key] = r
	return r
}

// twinned reports that bound number i is a twin: results and writes do not use it.
func (k *capture) twinned(i int) bool {
	for _, r := range k.twins {
		if r.Index() == k.c.args+i {
			return true
		}
	}
	return false
}
