package autograd

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// Steps of values with hidden dims. Cotangents are whole between steps: the hidden dims of a step's value are their
// first dims. The gradient rule sees one element: hidden dims of the step get levels above those of any vmap in
// progress, because the cotangents may have hidden dims of their own.

// stepLevel is added to the levels of a step.
const stepLevel = 1 << 32

func ofLayout(v op.Val) []ir.HiddenDim {
	if !v.IsTensor() {
		return nil
	}
	return v.L().Hidden
}

// raised returns hidden dims with stepLevel added to their levels.
func raised(hidden []ir.HiddenDim) []ir.HiddenDim {
	out := slices.Clone(hidden)
	for i := range out {
		out[i].Level += stepLevel
	}
	return out
}

// hide gives the operands, results and cotangents of n in s.vals their hidden dims, and returns the raised levels; nil
// if n has none.
func (s *Walk) hide(n *Node) (batch []ir.HiddenDim) {
	if len(n.Out) > 0 {
		batch = raised(ofLayout(n.Out[0].Val))
	}
	if len(batch) == 0 {
		return nil
	}
	at := len(n.In) + len(n.Out)
	for i := range s.vals[:at] {
		v := &s.vals[i]
		if v.Value != 0 {
			*v = s.b.Settled(*v, n.Out[0].Val.L().Hidden)
		}
		if v.IsTensor() && v.L().Hidden != nil {
			l := v.L()
			v.Layout = ir.InternHidden(raised(l.Hidden), l.Shape, l.Stride).ID
		}
	}
	for k := range n.Out {
		if v := &s.vals[at+k]; v.IsTensor() {
			*v = s.b.Hide(*v, batch)
		}
	}
	return batch
}

// reveal makes cotangent v of operand in whole, and sums it over those levels of the step that in lacks.
func (s *Walk) reveal(v, in op.Val, batch []ir.HiddenDim) op.Val {
	if batch == nil {
		return v
	}
	own := raised(ofLayout(in))
	var extra []ir.HiddenDim
	var dims []int64
	for _, h := range batch {
		if !slices.ContainsFunc(own, func(o ir.HiddenDim) bool { return o.Level == h.Level }) {
			dims = append(dims, int64(len(extra)))
			extra = append(extra, h)
		}
	}
	return s.b.Reveal(prim.Sum(s.b, s.b.Reveal(v, extra), dims), own)
}
