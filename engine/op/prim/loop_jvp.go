package prim

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// loopJVP is the rule of loop in forward mode: one loop computes values and tangents together. Its values replace those
// of the loop without tangents if nothing else uses that loop. If no result has a tangent, no loop is recorded.
func loopJVP(c *op.JVPCall) []op.Val {
	l, bb := op.LoopOf(c.Attr), c.B.(op.BodyBuilder)
	avals, results := l.Body().Operands(), len(l.Body().Outcomes())
	has := make([]bool, len(avals))
	for i := range avals {
		has[i] = c.Tan[i].IsTensor() && ir.AvalOf(avals[i]).DType.IsFloat()
	}
	id, carries, ys := bb.TangentBody(l, has, c.Apart)
	tangents := make([]op.Val, len(c.Out))
	if !slices.Contains(carries, true) && !slices.Contains(ys, true) { // the body detaches what has a tangent
		return tangents
	}
	copy(has, carries)
	got := loopApart(c, l, id, has)
	if got == nil {
		got = loopJoint(c, l, id, has)
	}
	alone := !l.Keep && !slices.ContainsFunc(c.Out, func(v op.Val) bool { return v.Tape != 0 })
	take := func(at, n int, has []bool) {
		first := got
		got = got[n:]
		for k := range n {
			if alone && first[k].L().Hidden == nil {
				c.Out[at+k] = first[k]
			}
			if has[k] {
				tangents[at+k], got = got[0], got[1:]
			}
		}
	}
	take(0, l.Carries, carries)
	take(l.Carries, results-l.Carries, ys)
	if l.Keep {
		take(results, l.Carries, carries)
	}
	return tangents
}

// tangentOperand returns the tangent of operand i.
func tangentOperand(c *op.JVPCall, i int) op.Val {
	if t := c.Tan[i]; t.IsTensor() {
		return Contiguous(c.B, t)
	}
	return ZerosLike(c.B, c.In[i])
}

// loopJoint records one loop over values and tangents of the operands that have one.
func loopJoint(c *op.JVPCall, l *op.Loop, id int64, has []bool) []op.Val {
	joint := *l
	joint.ID = id
	var in []op.Val
	group := func(from, to int) int {
		in = append(in, c.In[from:to]...)
		for i := from; i < to; i++ {
			if has[i] {
				in = append(in, tangentOperand(c, i))
			}
		}
		return len(in)
	}
	joint.Carries = group(0, l.Carries)
	joint.Xs = group(l.Carries, l.Carries+l.Xs) - joint.Carries
	group(l.Carries+l.Xs, len(has))
	in = append(in, c.In[len(has):]...)
	joint.Keep = l.Keep || slices.ContainsFunc(in, c.B.(op.BodyBuilder).OnTape) && !l.While
	return emitLoop(c.B, joint, in)
}

// loopApart records a loop over values, which keeps the values that the tangents need, and a loop over tangents. Its
// results have the order of loopJoint's. It returns nil if the tangents form no program, or if more bytes would be kept
// than for a gradient. The joint loop keeps nothing.
func loopApart(c *op.JVPCall, l *op.Loop, id int64, has []bool) (got []op.Val) {
	if !c.Apart || l.While {
		return nil
	}
	bb := c.B.(op.BodyBuilder)
	a := bb.LinearBodies(l, id, has)
	if a == nil || a.Bytes*l.Length > keepBytes {
		return nil
	}
	results := len(l.Body().Outcomes())
	values := *l
	values.ID, values.Keep = a.Values, l.Keep || slices.ContainsFunc(c.In, bb.OnTape)
	outs := emitLoop(c.B, values, c.In)
	kept, carries := outs[results:results+a.Kept], outs[results+a.Kept:]
	var in []op.Val
	group := func(from, to int) {
		for i := from; i < to; i++ {
			if has[i] {
				in = append(in, tangentOperand(c, i))
			}
		}
	}
	group(0, l.Carries)
	linear := op.Loop{ID: a.Linear, Carries: len(in), Length: l.Length, Reverse: l.Reverse}
	xs := l.Carries + l.Xs
	in = append(append(in, kept...), c.In[l.Carries:xs]...)
	group(l.Carries, xs)
	n := len(in)
	in = append(in, c.In[xs:len(has)]...)
	group(xs, len(has))
	in = onlyRead(in, a.Read)
	for _, read := range a.Read[linear.Carries:n] {
		if read {
			linear.Xs++
		}
	}
	linear.Keep = l.Keep || slices.ContainsFunc(in, bb.OnTape)
	tangents := emitLoop(c.B, linear, in)
	first, stacked := linear.Carries, len(op.BodyOf(a.Linear).Outcomes())
	got = slices.Concat(outs[:l.Carries], tangents[:first], outs[l.Carries:results], tangents[first:stacked])
	if l.Keep {
		got = slices.Concat(got, carries, tangents[stacked:])
	}
	return got
}
