package autograd

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
)

// Hooks of a function of two steps run once: before the first step, and when both have run. Between an event and the
// next, the walk asks for each gradient that the hook leaves.
func TestHooksOfAFunctionSeeAllOfItsGradients(t *testing.T) {
	r := newRig(t)
	x, y := r.leaf(1, 3), r.leaf(2, 5)
	r.tape.From = Source{Call: 7}
	out := prim.Mul(r, prim.Mul(r, x, op.FloatVal(2)), y)
	r.tape.From = Source{}
	total := prim.Mul(r, out, op.FloatVal(10))
	node := r.tape.Node(out.Tape)
	node.Pre, node.After = []uint64{40}, []uint64{41, 42}
	var seen []string
	var given [2][]float64
	var hook uint64
	answer := func(ev Event) op.Val {
		switch ev.Kind {
		case GiveGrad:
			given[ev.Index] = append(given[ev.Index], r.Floats(ev.Grad)...)
		case RunPre, RunAfter:
			seen = append(seen, fmt.Sprint(ev.Hook, given))
			given, hook = [2][]float64{}, ev.Hook
		case AskGrad:
			if hook == 42 && ev.Index == 0 {
				return op.Val{} // no gradient goes to x
			}
			return r.constant(float64(hook) + float64(ev.Index))
		}
		return op.Val{}
	}
	w := r.begin(Options{Accumulate: true, RetainGraph: true}, total)
	require.NoError(t, r.walk(w, answer))
	w.Close()
	// The Pre hook leaves 40: x gets 40*5*2 and y gets 40*3*2, which the After hooks replace in turn.
	require.Equal(t, []string{"40 [[] [10]]", "41 [[400 240] [40]]", "42 [[41 42] [40]]"}, seen)
	require.Equal(t, map[uint64][]float64{2: {43}}, r.grads)

	// A walk that ends within the hooks of a function gives everything back.
	w = r.begin(Options{Accumulate: true, RetainGraph: true}, total)
	for range 6 {
		_, err := w.Next(r.constant(1))
		require.NoError(t, err)
	}
	w.Close()
	node.RemoveHook(40)
	node.RemoveHook(41)
	require.Equal(t, []uint64{42}, node.After)
	require.Empty(t, node.Pre)
	r.settled()
}
