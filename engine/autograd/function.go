package autograd

import (
	"slices"
	"strings"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// Name returns the name of the function that made edge e, PyTorch's where PyTorch has one.
func (t *Tape) Name(e uint32) string {
	n := t.Node(e)
	switch {
	case n.Kind == KindLeaf:
		return "AccumulateGrad"
	case n.From.Label != "":
		return n.From.Label
	case n.From.InPlace && n.Kind == KindPrim && op.PrimOf(n.Prim).WritesView:
		return "CopySlices"
	case n.From.Op != 0:
		return operatorName(op.DefOf(n.From.Op), n)
	case n.Kind == KindView:
		return [...]string{"AsStridedBackward0", "ViewBackward0", "PermuteBackward0", "ExpandBackward0"}[n.View.Kind]
	}
	return op.GradFnName(op.PrimOf(n.Prim).NameFor(ir.AttrOf(n.Attr)))
}

// operatorName returns the name of an operator's function.
func operatorName(d *op.Def, n *Node) string {
	switch f := &d.GradFn; {
	case f.Choose != nil:
		in := make([]op.Val, len(n.In))
		for i := range in {
			in[i] = n.In[i].Val
		}
		return f.Choose(in, n.Out[0].Val)
	case f.Name == "":
		return op.GradFnName(d.Parsed.Name)
	case f.Tensors != "" && !n.From.Number:
		return f.Tensors
	case f.Reversed != "" && n.In[0].Val.IsScalar():
		return f.Reversed
	case f.Several != "" && n.From.First > 1:
		return f.Several
	case f.Mode != "" && n.From.First >= 0:
		return f.Mode
	default:
		return f.Name
	}
}

// Next lists the edges to the functions that made the operands of edge e's function, in the operands' order; 0 stands
// for an operand that requires no gradient.
func (t *Tape) Next(e uint32) []uint32 {
	slots := t.slots(e)
	found := make([]uint32, len(slots))
	for i := range slots {
		found[i] = slots[i].edge
	}
	return found
}

// walk calls enter once for each step in the history of edges, depth first, first operand first. It goes on to the
// operands of a step if enter returns true.
func (t *Tape) walk(edges []uint32, enter func(n *Node) bool) {
	seen := map[uint32]bool{}
	work := slices.Clone(edges)
	slices.Reverse(work)
	for len(work) > 0 {
		id := work[len(work)-1] >> EdgeBits
		work = work[:len(work)-1]
		if id == 0 || seen[id] {
			continue
		}
		seen[id] = true
		n := t.nodes[id]
		if !enter(n) {
			continue
		}
		for i := len(n.In) - 1; i >= 0; i-- {
			work = append(work, n.In[i].Val.Tape)
		}
	}
}

// Close marks leaf e as an argument of a transform that has finished its call: gradients by the leaf stay possible, but
// no history is kept for it.
func (t *Tape) Close(e uint32) { t.Node(e).Closed = true }

// LeadsOutside reports for each edge whether its history ends in a leaf that is not closed. The results of a transform
// keep such a history. A history that ends in closed leaves only is useless outside the transform.
func (t *Tape) LeadsOutside(edges []uint32) []bool {
	found := make([]bool, len(edges))
	inside := map[uint64]bool{} // steps already searched without success
	for i, e := range edges {
		var searched []uint64
		t.walk([]uint32{e}, func(n *Node) bool {
			if found[i] || inside[n.Seq] {
				return false
			}
			searched = append(searched, n.Seq)
			found[i] = n.Kind == KindLeaf && !n.Closed
			return !found[i]
		})
		for _, seq := range searched {
			inside[seq] = !found[i]
		}
	}
	return found
}

// modified makes the error of a saved value that was written to after it was saved. producer is the edge of the step
// that made the value (0: a leaf), sourceLoc the line of the step that needs it.
func (t *Tape) modified(v *Saved, producer uint32, now uint64, sourceLoc uint32) error {
	from := ""
	if producer != 0 && t.Node(producer).Kind != KindLeaf {
		from = ", which is output " + string('0'+rune(producer&maxOutput)) + " of " +
			strings.Replace(strings.TrimSuffix(t.Name(producer), "0"), "Backward", "", 1) + ","
	}
	err := ir.Errorf(ir.ErrSavedModified, "one of the variables needed for gradient computation has been modified by an "+
		"inplace operation: [torch.%s %s]%s is at version %d; "+
		"expected version %d instead. Hint: enable anomaly detection to find the operation that failed to compute its "+
		"gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False).",
		v.Val.DType().ScalarType()+"Tensor", ir.ShapeString(v.Val.Shape()), from, now, v.Commit)
	err.SourceLoc = sourceLoc
	return err
}
