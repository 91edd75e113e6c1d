package autograd

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

func TestCotangentsSumOverEveryPath(t *testing.T) {
	for _, tc := range []struct {
		name  string
		f     func(r *rig, x, y op.Val) op.Val
		gradX []float64
		gradY []float64
	}{
		{"product", func(r *rig, x, y op.Val) op.Val { return prim.Mul(r, x, y) }, []float64{4, 5}, []float64{2, 3}},
		{"one operand twice", func(r *rig, x, _ op.Val) op.Val { return prim.Mul(r, x, x) }, []float64{4, 6}, nil},
		{"two paths that meet", func(r *rig, x, y op.Val) op.Val {
			s := prim.Add(r, x, y)
			return prim.Add(r, prim.Mul(r, s, x), s)
		}, []float64{2*2 + 4 + 1, 2*3 + 5 + 1}, []float64{2 + 1, 3 + 1}},
		{"views", func(r *rig, x, y op.Val) op.Val {
			return prim.Mul(r, prim.Select(r, x, 0, 1), prim.Select(r, y, 0, 0))
		}, []float64{0, 4}, []float64{3, 0}},
		{"a view and what it views", func(r *rig, x, _ op.Val) op.Val {
			return prim.Add(r, prim.Expand(r, prim.Slice(r, x, 0, 0, 1, 1), []int64{2}), x)
		}, []float64{3, 1}, nil},
		{"two results of one step", func(r *rig, x, _ op.Val) op.Val {
			v, mean := prim.Var(r, x, op.IntVal(0), []int64{0})
			return prim.Add(r, v, mean)
		}, []float64{-0.5 + 0.5, 0.5 + 0.5}, nil},
		{"an index carries none", func(r *rig, x, _ op.Val) op.Val {
			v, i := prim.MaxDim(r, x, 0)
			return prim.Mul(r, v, prim.Cast(r, i, ir.F64))
		}, []float64{0, 1}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			x, y := r.leaf(1, 2, 3), r.leaf(2, 4, 5)
			require.NoError(t, r.backward(tc.f(r, x, y), Options{}))
			require.InDeltaSlice(t, tc.gradX, r.grads[1], 1e-12)
			require.Len(t, r.grads[2], len(tc.gradY))
			if tc.gradY != nil {
				require.InDeltaSlice(t, tc.gradY, r.grads[2], 1e-12)
			}
			r.settled()
		})
	}
}

// A rule runs once, after the rules of all steps that read its results: in reverse order of recording. With inputs
// given, only the steps between run.
func TestRulesRunOnceInReverseOrder(t *testing.T) {
	for seed := range uint64(30) {
		rnd, r := rand.New(rand.NewPCG(seed, 1)), newRig(t)
		vals := []op.Val{r.leaf(1, 0.5), r.leaf(2, 0.25)}
		below := []map[int]bool{{0: true}, {1: true}} // the values that each reaches
		for range 25 {
			i, j := rnd.IntN(len(vals)), rnd.IntN(len(vals))
			reach := map[int]bool{len(vals): true}
			for k := range below[i] {
				reach[k] = true
			}
			for k := range below[j] {
				reach[k] = true
			}
			vals, below = append(vals, prim.Mul(r, vals[i], vals[j])), append(below, reach)
		}
		last := len(vals) - 1
		target := rnd.IntN(last)
		var all, between []uint32
		for k := last; k >= 2; k-- {
			if below[last][k] {
				all = append(all, uint32(k-1))
				if below[k][target] && k != target {
					between = append(between, uint32(k-1))
				}
			}
		}
		require.NoError(t, r.backward(vals[last], Options{RetainGraph: true}))
		require.Equal(t, all, r.entered)
		r.entered = nil
		w := r.begin(Options{Inputs: []uint32{vals[target].Tape}}, vals[last])
		require.NoError(t, r.walk(w, nil))
		require.Equal(t, below[last][target], w.Results[0].IsTensor())
		require.Equal(t, between, r.entered, "seed %d, target %d", seed, target)
		w.Close()
		r.settled()
	}
}

func TestASecondWalkNeedsTheGraph(t *testing.T) {
	r := newRig(t)
	x := r.leaf(1, 2)
	y := prim.Mul(r, prim.Exp(r, x), x)
	require.NoError(t, r.backward(y, Options{RetainGraph: true}))
	once := r.grads[1][0]
	require.NoError(t, r.backward(y, Options{}))
	require.InDelta(t, 2*once, r.grads[1][0], 1e-12)
	err := r.backward(y, Options{})
	var e *ir.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, ir.ErrGraphFreed, e.Code)
	require.Contains(t, e.Msg, "Trying to backward through the graph a second time")
	require.EqualValues(t, 2, e.SourceLoc, "the line of the step")
	r.settled()
}

// The gradient of an intermediate input is complete before the rule of its own step. That rule does not run, keeps its
// saved values, and skips the check for writes.
func TestTheStepOfAnInputIsNotRun(t *testing.T) {
	r := newRig(t)
	x := r.leaf(1, 3)
	m := prim.Mul(r, x, x)
	w := r.begin(Options{Inputs: []uint32{m.Tape}}, prim.Exp(r, m))
	require.NoError(t, r.walk(w, nil))
	w.Close()
	r.taping = true
	require.Equal(t, []uint32{2}, r.entered, "the rule of exp alone")
	r.commits[x.Base]++
	w = r.begin(Options{Inputs: []uint32{m.Tape}}, prim.Exp(r, m))
	require.NoError(t, r.walk(w, nil))
	w.Close()
	r.commits[x.Base]--
	require.NoError(t, r.backward(m, Options{}), "what m saved is there")
	require.Equal(t, []float64{6}, r.grads[1])
	r.settled()
}

// Under create_graph gradients have a history: the third derivative of x**4 is 24 x.
func TestGradientsOfGradients(t *testing.T) {
	r := newRig(t)
	x := r.leaf(1, 1.5)
	y := prim.Pow(r, x, op.FloatVal(4))
	for _, want := range []float64{4 * 1.5 * 1.5 * 1.5, 12 * 1.5 * 1.5, 24 * 1.5} {
		w := r.begin(Options{CreateGraph: true, RetainGraph: true, Inputs: []uint32{x.Tape}}, y)
		require.NoError(t, r.walk(w, nil))
		y = w.Results[0]
		r.tape.Retain(r.own(y.Tape))
		w.Close()
		r.taping = true
		require.InDelta(t, want, r.Floats(y)[0], 1e-9)
		require.NotZero(t, y.Tape)
	}
	require.Empty(t, r.grads, "grad() accumulates nowhere")
	w := r.begin(Options{RetainGraph: true, Inputs: []uint32{x.Tape}}, y)
	require.NoError(t, r.walk(w, nil))
	require.Zero(t, w.Results[0].Tape, "without create_graph there is no history")
	w.Close()
	r.settled()
}

// Hooks run in the order in which they were added, on the sum over all paths; each sees the previous hook's answer.
// Retained gradients are taken after the hooks. Leaf hooks that run after accumulation come last.
func TestHooksRunInOrderOnTheWholeGradient(t *testing.T) {
	r := newRig(t)
	x := r.leaf(1, 3)
	m := prim.Mul(r, x, op.FloatVal(2))
	y := prim.Mul(r, m, m) // two paths lead to its gradient: 2*m = 12
	node, leaf := r.tape.Node(m.Tape), r.tape.Node(x.Tape)
	node.Hooks = []Hook{{ID: 10}, {ID: 11}}
	node.Retain = []Retain{{Handle: 7}}
	leaf.Hooks, leaf.Post = []Hook{{ID: 20}}, []uint64{30}
	var seen []string
	hook := func(ev Event) op.Val {
		if ev.Kind == RunPost {
			seen = append(seen, fmt.Sprintf("post %d", ev.Hook))
			require.Equal(t, []float64{26}, r.grads[1], "it has accumulated")
			return op.Val{}
		}
		seen = append(seen, fmt.Sprintf("%d sees %v", ev.Hook, r.Floats(ev.Grad)[0]))
		if ev.Hook == 11 {
			return op.Val{}
		}
		return prim.Add(r, ev.Grad, op.FloatVal(0.5))
	}
	w := r.begin(Options{Accumulate: true, RetainGraph: true}, y)
	require.NoError(t, r.walk(w, func(ev Event) op.Val {
		if ev.Hook == 20 { // the answer leaves the gradient unchanged
			seen = append(seen, fmt.Sprintf("20 sees %v", r.Floats(ev.Grad)[0]))
			return prim.Add(r, ev.Grad, op.FloatVal(1))
		}
		return hook(ev)
	}))
	w.Close()
	require.Equal(t, []string{"10 sees 12", "11 sees 12.5", "20 sees 25", "post 30"}, seen)
	require.Equal(t, []float64{12.5}, r.kept[7])

	// While the walk is at its step, a hook can remove itself or a later one.
	node.Hooks, leaf.Hooks, leaf.Post, seen = []Hook{{ID: 10}, {ID: 11}, {ID: 12}, {ID: 13}}, nil, nil, nil
	w = r.begin(Options{RetainGraph: true}, y)
	require.NoError(t, r.walk(w, func(ev Event) op.Val {
		seen = append(seen, fmt.Sprint(ev.Hook))
		node.RemoveHook(10)
		node.RemoveHook(13)
		return op.Val{}
	}))
	w.Close()
	require.Equal(t, []string{"10", "11", "12"}, seen)
	node.RemoveHook(11)
	require.Equal(t, []Hook{{ID: 12}}, node.Hooks)
	leaf.Hooks = []Hook{{ID: 20}}
	w = r.begin(Options{RetainGraph: true, NoLeafHooks: true}, y)
	require.NoError(t, r.walk(w, func(ev Event) op.Val { require.EqualValues(t, 12, ev.Hook); return op.Val{} }))
	w.Close()
	r.settled()
	require.Equal(t, []uint64{12, 20}, slices.Sorted(slices.Values(r.freed)), "hooks go with their steps")
}

// A hook may walk the same steps without an effect on the outer walk.
func TestAWalkWithinAHookLeavesTheOuterOne(t *testing.T) {
	r := newRig(t)
	x := r.leaf(1, 3)
	m := prim.Mul(r, x, x)
	y := prim.Mul(r, m, m) // x**4
	r.tape.Node(m.Tape).Hooks = []Hook{{ID: 1}}
	depth := 0
	w := r.begin(Options{Accumulate: true, RetainGraph: true}, y)
	var hook func(ev Event) op.Val
	hook = func(Event) op.Val {
		if depth++; depth == 1 {
			inner := r.begin(Options{RetainGraph: true, Inputs: []uint32{x.Tape}}, y)
			require.NoError(t, r.walk(inner, hook))
			require.Equal(t, []float64{108}, r.Floats(inner.Results[0]))
			inner.Close()
		}
		return op.Val{}
	}
	require.NoError(t, r.walk(w, hook))
	w.Close()
	require.Equal(t, []float64{108}, r.grads[1])
	require.Equal(t, 2, depth)
	r.settled()
}

// A walk that is abandoned at any event releases everything that it held.
func TestAWalkThatIsGivenUpHoldsNothing(t *testing.T) {
	for stop := range 12 {
		r := newRig(t)
		x := r.leaf(1, 3)
		m := prim.Mul(r, x, x)
		y := prim.Add(r, prim.Mul(r, m, m), x)
		for i, v := range []op.Val{y, m, x} {
			r.tape.Node(v.Tape).Hooks = []Hook{{ID: uint64(i + 1)}}
		}
		w := r.begin(Options{Accumulate: true, CreateGraph: true, Inspect: true}, y)
		for range stop {
			_, err := w.Next(op.Val{})
			require.NoError(t, err)
		}
		w.Close()
		r.settled()
	}
}

func TestInspectShowsWhatFunctionsHandOn(t *testing.T) {
	r := newRig(t)
	x := r.leaf(1, 3)
	y := prim.Mul(r, prim.Exp(r, x), x)
	var got []string
	w := r.begin(Options{Inspect: true}, y)
	require.NoError(t, r.walk(w, func(ev Event) op.Val {
		require.Equal(t, Inspect, ev.Kind)
		got = append(got, fmt.Sprintf("%s %d", r.tape.Name(ev.From), ev.Index))
		return op.Val{}
	}))
	w.Close()
	require.Equal(t, []string{"MulBackward0 0", "MulBackward0 1", "ExpBackward0 0"}, got)
	r.settled()
}
