package autograd

import (
	"slices"
	"strings"

	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/engine/op"
)

// Name is the name of the function that made edge e: PyTorch's, where it has one.
func (t *Tape) Name(e uint32) string {
	n := t.Node(e)
	switch {
	case n.Kind == KindLeaf:
		return "AccumulateGrad"
	case n.From.Label != "":
		return n.From.Label
	case n.From.InPlace && n.Kind == KindPrim && op.PrimOf(n.Prim).Name == "strided_scatter":
		return "CopySlices"
	case n.From.Op != 0:
		return operatorName(op.DefOf(n.From.Op), t, n)
	case n.Kind == KindView:
		return [...]string{"AsStridedBackward0", "ViewBackward0", "PermuteBackward0", "ExpandBackward0"}[n.View.Kind]
	}
	return camel(op.PrimOf(n.Prim).Name) + "Backward0"
}

// functionNames holds the operators whose function in PyTorch has not the plain name: the operator's in
// capitals and Backward0. PyTorch numbers the derivatives of the overloads of a name, and some
// operators are another's call there. A word in place of a number is the whole stem.
var functionNames = map[string]string{
	"amax": "AmaxBackward0",
}

// operatorName names the function of an operator.
func operatorName(d *op.Def, t *Tape, n *Node) string {
	if name, ok := functionNames[d.Parsed.Full]; ok {
		return name
	}
	switch d.Parsed.Name {
	case "matmul", "linear":
		return productName(d, n)
	}
	return camel(strings.TrimSuffix(d.Parsed.Name, "_")) + "Backward0"
}

// productName names PyTorch's function for a product, by the number of dims.
func productName(d *op.Def, n *Node) string {
	switch rank := len(n.Out[0].Val.Shape()); {
	case rank == 0:
		return "DotBackward0"
	case rank == 1:
		return "MvBackward0"
	case rank > 2:
		return "UnsafeViewBackward0"
	case d.Parsed.Name == "linear" && len(n.In) == 3:
		return "AddmmBackward0"
	}
	return "MmBackward0"
}

// camel writes an operator's name as PyTorch's functions do: words and letters after digits begin
// with a capital.
func camel(s string) string {
	b := make([]byte, 0, len(s))
	up := true
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '_' {
			up = true
			continue
		}
		if up && c >= 'a' && c <= 'z' {
			c -= 32
		}
		up = c >= '0' && c <= '9'
		b = append(b, c)
	}
	return string(b)
}

// Next lists the edges to the functions whose results the function of edge e took, in the
// order of its operands; 0 stands for an operand that requires no gradient.
func (t *Tape) Next(e uint32) []uint32 {
	var found []uint32
	seen := map[uint32]bool{e >> 4: true}
	var visit func(n *Node)
	visit = func(n *Node) {
		for i := range n.In {
			v := &n.In[i].Val
			switch p := v.Tape; {
			case p == 0:
				if v.Kind == op.Tensor && v.Base != 0 && n.From.Op != 0 {
					found = append(found, 0)
				}
			case n.From.Call != 0 && t.Node(p).From.Call == n.From.Call && t.Node(p).Kind != KindLeaf:
				if !seen[p>>4] {
					seen[p>>4] = true
					visit(t.Node(p))
				}
			default:
				found = append(found, p)
			}
		}
	}
	visit(t.Node(e))
	return found
}

// Leaves lists the handles that the history of the given edges ends in, in the order of a walk that goes
// first where the first operand leads.
func (t *Tape) Leaves(edges []uint32) []uint64 {
	var found []uint64
	seen := map[uint32]bool{}
	work := slices.Clone(edges)
	slices.Reverse(work)
	for len(work) > 0 {
		id := work[len(work)-1] >> 4
		work = work[:len(work)-1]
		if id == 0 || seen[id] {
			continue
		}
		seen[id] = true
		n := t.nodes[id]
		if n.Kind == KindLeaf {
			found = append(found, n.Leaf)
		}
		for i := len(n.In) - 1; i >= 0; i-- {
			work = append(work, n.In[i].Val.Tape)
		}
	}
	return found
}

// modified is the error of a saved value that was written to since; producer is the edge of what made it, 0 for
// a leaf, and site the line that recorded the step that needs it.
func (t *Tape) modified(v *Saved, producer uint32, now uint64, site uint32) error {
	from := ""
	if producer != 0 && t.Node(producer).Kind != KindLeaf {
		from = ", which is output " + string('0'+rune(producer&15)) + " of " + t.Name(producer) + ","
	}
	err := ir.Errorf(ir.ErrSavedModified, "one of the variables needed for gradient computation has been modified by an inplace operation: [torch.%s %s]%s is at version %d; "+
		"expected version %d instead. Hint: enable anomaly detection to find the operation that failed to compute its gradient, with torch.autograd.set_detect_anomaly(True).",
		typeNames[v.Val.DType()], ir.ShapeString(v.Val.Shape()), from, now, v.Commit)
	err.Site = site
	return err
}

// typeNames are PyTorch's old names of tensor types.
var typeNames = map[ir.DType]string{ir.Bool: "BoolTensor", ir.I32: "IntTensor", ir.I64: "LongTensor", ir.U32: "UInt32Tensor",
	ir.F16: "HalfTensor", ir.BF16: "BFloat16Tensor", ir.F32: "FloatTensor", ir.F64: "DoubleTensor"}
