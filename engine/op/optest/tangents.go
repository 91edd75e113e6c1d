package optest

import (
	"math"
	"slices"
	"testing"

	"github.com/torchlette/torchlette/engine/op"
)

// checkTangents checks the JVP rules of the recorded primitives: with directions t and cotangents g, <g, J t> must be
// <J' g, t>, where the gradient rule gives J' g.
func checkTangents(t *testing.T, e *Eager) {
	t.Helper()
	defer func(off bool) { e.off = off }(e.off)
	e.off = true
	for _, st := range slices.Clone(e.steps) {
		directions, need := make([]op.Val, len(st.in)), make([]bool, len(st.in))
		for i, v := range st.in {
			if need[i] = v.Tape != 0 && v.DType().IsFloat(); need[i] {
				directions[i] = e.spread(v, 0.5698402909980532*float64(i+1))
			}
		}
		tangents := st.prim.JVP(&op.JVPCall{B: e, Prim: st.prim, Attr: st.attr, In: st.in, Out: st.out, Tan: directions})
		if tangents == nil {
			continue // the rule leaves these attributes to the derived one
		}
		cots := make([]op.Val, len(st.out))
		for k, v := range st.out {
			if v.DType().IsFloat() {
				cots[k] = e.spread(v, 0.7548776662466927*float64(k+1))
			}
		}
		back := st.prim.VJP(&op.VJPCall{B: e, Attr: st.attr, In: st.in, Out: st.out, Cot: cots, Need: need})
		forward, backward := e.dot(cots, tangents), e.dot(back, directions)
		if math.Abs(forward-backward) > 1e-8*(1+math.Abs(backward)) {
			t.Errorf("%s: the product of cotangents and tangents is %v, that of gradients and directions %v", st.prim.Name,
				forward, backward)
		}
	}
}

// spread returns numbers in [-0.5, 0.5) like v, which differ by a step that is no fraction.
func (e *Eager) spread(v op.Val, step float64) op.Val {
	list := make([]float64, v.L().Numel)
	for i := range list {
		list[i] = math.Mod(float64(i+1)*step, 1) - 0.5
	}
	return e.Tensor(v.DType(), v.Shape(), list...)
}

// dot is the sum of products of all elements; absent tensors are zeros.
func (e *Eager) dot(x, y []op.Val) (sum float64) {
	for k := range x {
		if !x[k].IsTensor() || !y[k].IsTensor() {
			continue
		}
		b := e.Floats(y[k])
		for i, v := range e.Floats(x[k]) {
			sum += v * b[i]
		}
	}
	return sum
}
