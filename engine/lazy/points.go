package lazy

import (
	"slices"

	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// fold is a copy of a view of a dense value, in another shape.
type fold struct {
	layout ir.LayoutID
	offset int64
	to     ir.LayoutID // dense, of that shape
}

// readPoints makes a program read the views that the histories of values from outside belong to, where these are not
// all of the value: such as a point of func.grad that is expanded to the batch of a vmap. Such a view becomes a dense
// input. What reads it through further views finds its elements by the steps on the tape, since the layout does
// not tell dims of stride 0 apart. What reads the value without its history gets it as another operand.
func (k *capture) readPoints() {
	for i := range k.c.bound {
		if k.c.bound[i].tape != 0 && !k.ofWhole(i, k.c.bound[i].tape) && (k.inBody() || k.twinned(i)) {
			k.readPoint(i)
		}
	}
}

func (k *capture) readPoint(i int) {
	p, at := k.p, k.c.args+i
	edge, av := k.c.bound[i].tape, ir.AvalOf(p.Inputs[at].Aval)
	root := &k.s.tape.Node(edge).Out[autograd.Output(edge)].Val
	view := root.L().Whole()
	dense := ir.DenseLayout(view.Shape)
	point := ir.InternAval(av.DType, av.Device, dense).ID
	for n := range p.Edges {
		e := &p.Edges[n]
		if e.Value != program.InputRef(at) {
			continue
		}
		chain, has := k.chains[n]
		switch {
		case has:
			e.Layout, p.Offsets[n] = k.follow(e, dense, i, chain)
		case e.Layout == view.ID && p.Offsets[n] == root.Offset:
			e.Layout, p.Offsets[n] = dense.ID, 0
		default:
			e.Value = k.twin(i, 0, nil)
		}
	}
	b := &k.c.bound[i]
	p.Inputs[at].Aval, b.point = point, true
}

// follow returns the layout and the offset by which operand e reads the point of bound number i. It takes the steps of
// chain, the last one first, from the dense layout of the point. Where a reshape needs a copy, the operand reads a copy
// that is made before the loop.
func (k *capture) follow(e *program.Edge, dense *ir.Layout, i int, chain []*autograd.Node) (ir.LayoutID, int64) {
	l, offset := dense, int64(0)
	var folds []fold
	for _, n := range slices.Backward(chain) {
		in, out := n.In[0].Val, n.Out[0].Val
		next, ok := out.L().Whole(), true
		switch n.View.Kind {
		case op.ViewFlat:
		case op.ViewPermute:
			l = ir.PermuteLayout(l, n.View.Dims)
		case op.ViewExpand:
			l, ok = ir.ExpandLayout(l, next.Shape)
		case op.ViewReshape:
			to, fits := ir.ReshapeLayout(l, next.Shape)
			if !fits {
				folds = append(folds, fold{l.ID, offset, next.Contig})
				to, offset = ir.DenseLayout(next.Shape), 0
			}
			l = to
		default:
			var from int64
			l, from, ok = restride(&n.View, &in, &out, l)
			offset += from
		}
		if !ok {
			panic(ir.Errorf(ir.ErrNotImplemented, "the body of a loop reads a tensor from outside by as_strided, through a "+
				"view whose elements share memory, by which it is differentiated: make it a carry, or clone it before the loop"))
		}
	}
	if folds != nil {
		e.Value = k.twin(i, k.c.bound[i].tape, folds)
		to, at := &k.p.Inputs[e.Value.Index()], e.Value.Index()-k.c.args
		av := ir.AvalOf(to.Aval)
		to.Aval = ir.InternAval(av.DType, av.Device, ir.LayoutOf(folds[len(folds)-1].to)).ID
		k.c.bound[at].point = true
	}
	return l.ID, offset
}

// restride returns layout and offset of the strided view from in to out, in a value of layout l in place of in's.
func restride(step *op.ViewOp, in, out *op.Val, l *ir.Layout) (*ir.Layout, int64, bool) {
	from, to, at, toAt := in.L().Whole(), out.L().Whole(), in.Offset, out.Offset
	if n := len(step.Dims); n > 0 {
		from, at = ir.DenseLayout(from.Shape), 0
		to, toAt = ir.InternLayout(to.Shape, step.Dims[:n-1]), step.Dims[n-1]
	}
	return ir.Restride(from, at, to, toAt, l)
}

// folded returns the last one of the copies of a point.
func (s *Session) folded(v op.Val, folds []fold) op.Val {
	for _, f := range folds {
		v = prim.Contiguous(s, v)
		v = s.View(v, ir.LayoutOf(f.layout), v.Offset+f.offset, op.ViewOp{Kind: op.ViewStrided})
		v = prim.Reshape(s, v, ir.LayoutOf(f.to).Shape)
	}
	return v
}
