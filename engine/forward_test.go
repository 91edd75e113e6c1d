package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
)

// forward runs f at a level of forward mode.
func (r *rig) forward(f func(level int)) {
	level := r.e.SetMode(ModeForwardLevel, 0)
	f(int(level))
	r.e.SetMode(ModeForwardLevel, level)
}

// tangent returns the elements of x's tangent at a level; nil for none.
func (r *rig) tangent(x T, level int) []float32 {
	found, err := r.call(ModeFunctional, "_tangent", x, level)
	require.Nil(r.t, err)
	if len(found) == 0 {
		return nil
	}
	return r.read(found[0])
}

// A view makes no node, so its tangent is found by the value and seen through the view.
func TestTheTangentOfAViewIsThatViewOfTheTangent(t *testing.T) {
	r := newRig(t)
	x, d := r.floats([]int64{2, 3}, 1, 2, 3, 4, 5, 6), r.floats([]int64{2, 3}, 10, 20, 30, 40, 50, 60)
	r.forward(func(level int) {
		dual := r.do("_make_dual", x, d, level)
		column := r.do("select", dual, 1, 2)
		assert.Equal(t, []float32{30, 60}, r.tangent(column, level))
		assert.Equal(t, []float32{90, 180}, r.tangent(r.do("mul", column, 3.0), level))
		assert.Nil(t, r.tangent(r.do("select", x, 1, 2), level), "the primal has no tangent")
		assert.Nil(t, r.tangent(r.do("detach", column), level))
	})
}

// A write through a view makes a new value of the base, with its tangent.
func TestAWriteInPlaceGivesTheBaseItsTangent(t *testing.T) {
	r := newRig(t)
	base, x, d := r.floats(nil, 1, 2, 3, 4), r.floats(nil, 5, 6), r.floats(nil, 50, 60)
	r.forward(func(level int) {
		dual := r.do("_make_dual", x, d, level)
		r.inplace("mul", r.do("narrow", base, 0, 1, 2), dual)
		assert.Equal(t, []float32{0, 100, 180, 0}, r.tangent(base, level))
		assert.Equal(t, []float32{1, 10, 18, 4}, r.read(base))
	})
}

// A tangent lives as long as its value and its level. A pending tangent that reads its value, as that of exp does,
// keeps both until they are computed.
func TestTangentsAreReleasedWithTheirValues(t *testing.T) {
	r := newRig(t)
	x, d := r.floats(nil, 1, 2), r.floats(nil, 3, 4)
	before := r.e.graph.Live()
	r.forward(func(level int) {
		dual := r.do("_make_dual", x, d, level)
		held := r.do("sin", dual)
		during := r.e.graph.Live()
		for range 3 {
			r.drop(r.do("cos", dual))
		}
		assert.Equal(t, during, r.e.graph.Live())
		r.drop(dual, held)
		assert.Equal(t, before, r.e.graph.Live())
	})
	var held T
	r.forward(func(level int) { held = r.do("_make_dual", x, d, level) })
	assert.Equal(t, before+1, r.e.graph.Live(), "the level took the tangent with it")
	r.drop(held)
}

// For primitives with a written rule, the derived rule gives the same tangents.
func TestDerivedTangentsEqualThoseOfWrittenRules(t *testing.T) {
	r := newRig(t)
	x, y := r.floats([]int64{2, 3}, 1, 2.5, -3, 0.4, 5, -6), r.floats([]int64{2, 3}, 0.7, -1, 2, 0.3, 1.5, 2)
	dx, dy := r.floats([]int64{2, 3}, 1, -2, 0.5, 4, 0.1, 6), r.floats([]int64{2, 3}, 0.2, 1, -1, 2, 0.3, 1)
	w, index := r.floats([]int64{3}, 1, -2, 0.5), r.ints(2, 0)
	calls := map[string]func(x, y T) T{
		"add": func(x, y T) T { return r.do("add", x, y) }, "mul": func(x, y T) T { return r.do("mul", x, y) },
		"div": func(x, y T) T { return r.do("div", x, y) }, "exp": func(x, y T) T { return r.do("exp", x) },
		"tanh": func(x, y T) T { return r.do("tanh", x) }, "clip": func(x, y T) T { return r.do("maximum", x, y) },
		"sum":         func(x, y T) T { return r.do("sum.dim", x, []int64{1}) },
		"matmul":      func(x, y T) T { return r.do("matmul", x, r.do("t", y)) },
		"softmax":     func(x, y T) T { return r.do("softmax", x, 1) },
		"log_softmax": func(x, y T) T { return r.do("log_softmax", x, 1) },
		"cat":         func(x, y T) T { return r.do("cat", []T{x, y}, 1) },
		"cumsum":      func(x, y T) T { return r.do("cumsum", x, 0) },
		"layer_norm":  func(x, y T) T { return r.do("layer_norm", x, []int64{3}, w, nil, 1e-5) },
		"index":       func(x, y T) T { return r.do("index_select", x, 1, index) },
	}
	tangents := func() map[string][]float32 {
		found := map[string][]float32{}
		r.forward(func(level int) {
			x, y := r.do("_make_dual", x, dx, level), r.do("_make_dual", y, dy, level)
			for name, f := range calls {
				found[name] = r.tangent(f(x, y), level)
			}
		})
		return found
	}
	want := tangents()
	for _, p := range op.Prims() {
		if rule := p.JVP; rule != nil && p.Name != "copy" {
			p.JVP = nil
			defer func() { p.JVP = rule }()
		}
	}
	got := tangents()
	for name := range calls {
		require.Len(t, got[name], len(want[name]), name)
		for i := range want[name] {
			assert.InDelta(t, want[name][i], got[name][i], 1e-4, name)
		}
	}
}
