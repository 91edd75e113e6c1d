package autograd

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// A step that saved a value detects later writes to its base.
func TestSavedValuesAreCheckedAgainstCommits(t *testing.T) {
	for _, tc := range []struct {
		name  string
		save  func(r *rig, x op.Val) op.Val // the function to differentiate
		write func(r *rig, x op.Val)        // afterwards
		want  string                        // "" if the walk succeeds
	}{
		{"nobody wrote", func(r *rig, x op.Val) op.Val { return prim.Mul(r, x, x) }, func(*rig, op.Val) {}, ""},
		{"written to", func(r *rig, x op.Val) op.Val { return prim.Mul(r, x, x) },
			func(r *rig, x op.Val) { r.commits[x.Base]++ },
			"modified by an inplace operation: [torch.DoubleTensor [2]] is at version 1; expected version 0 instead."},
		{"the rule does not read it", func(r *rig, x op.Val) op.Val { return prim.Add(r, x, x) },
			func(r *rig, x op.Val) { r.commits[x.Base]++ }, ""},
		{"the number of the base is another tensor's now", func(r *rig, x op.Val) op.Val { return prim.Mul(r, x, x) },
			func(r *rig, x op.Val) { r.commits[x.Base]++; r.gens[x.Base]++ }, ""},
		{"the step keeps the old version", func(r *rig, x op.Val) op.Val {
			x.Overwritten = true
			return prim.Mul(r, x, x)
		}, func(r *rig, x op.Val) { r.commits[x.Base]++ }, ""},
		{"mutation is allowed", func(r *rig, x op.Val) op.Val {
			r.tape.AllowMutation = true
			return prim.Mul(r, x, x)
		}, func(r *rig, x op.Val) { r.commits[x.Base]++ }, ""},
		{"a result that became a base", func(r *rig, x op.Val) op.Val {
			y := prim.Exp(r, x)
			r.tape.AdoptOutput(y.Tape, 9)
			return y
		}, func(r *rig, _ op.Val) { r.commits[9] = 2 },
			"[torch.DoubleTensor [2]], which is output 0 of Exp, is at version 2; expected version 0"},
		{"a view of a result that became a base", func(r *rig, x op.Val) op.Val {
			y := prim.Reshape(r, prim.Exp(r, x), []int64{2, 1})
			r.tape.AdoptOutput(y.Tape, 9)
			return y
		}, func(r *rig, _ op.Val) { r.commits[9] = 1 }, "which is output 0 of Exp"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			x := r.leaf(1, 2, 3)
			y := tc.save(r, x)
			tc.write(r, x)
			err := r.backward(y, Options{})
			if tc.want == "" {
				require.NoError(t, err)
			} else {
				var e *ir.Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, ir.ErrSavedModified, e.Code)
				require.Contains(t, e.Msg, tc.want)
				require.EqualValues(t, 1, e.SourceLoc)
			}
			r.settled()
		})
	}
}

// A step holds exactly the values that its rule reads, until a walk or the step's release.
func TestStepsHoldWhatTheirRulesRead(t *testing.T) {
	r := newRig(t)
	x, c := r.leaf(1, 2), r.constant(5)
	held := func(v op.Val) int32 { return r.g.Node(v.Value).Refs - 1 }
	y := prim.Mul(r, x, c) // d/dx reads c alone
	require.Equal(t, []int32{0, 1, 0}, []int32{held(x), held(c), held(y)})
	z := prim.Exp(r, y) // reads its result
	require.Equal(t, []int32{0, 1}, []int32{held(y), held(z)})
	require.NoError(t, r.backward(z, Options{RetainGraph: true}))
	require.Equal(t, []int32{1, 1}, []int32{held(c), held(z)})
	require.NoError(t, r.backward(z, Options{}))
	require.Equal(t, []int32{0, 0}, []int32{held(c), held(z)})
	require.Len(t, leaves(r.tape, []uint32{z.Tape}), 1, "the steps stay while somebody holds them")
	r.settled()
}

func TestAChainOfStepsGoesWithItsLastReference(t *testing.T) {
	r := newRig(t)
	x := r.leaf(1, 2)
	var edges []uint32
	e := x.Tape
	p := op.FindPrim("neg")
	for range 200_000 { // freed without recursion
		v := x
		v.Tape = e
		e = Edge(r.tape.Record(p, 0, 0, []op.Val{v}, []op.Val{x}), 0)
		edges = append(edges, e)
	}
	for _, e := range edges[:len(edges)-1] {
		r.tape.Release(e)
	}
	require.Equal(t, 200_001, r.tape.Live(), "each holds the one before")
	r.tape.Release(e)
	require.Equal(t, 1, r.tape.Live())
	again := Edge(r.tape.Record(p, 0, 0, []op.Val{x}, []op.Val{x}), 0)
	require.Contains(t, edges, again, "numbers of steps are used again")
	r.tape.Release(again)
	r.settled()
	require.Panics(t, func() { r.tape.Release(x.Tape) }, "released too often")
}

func TestStepsOfATapeThatContinuesAreNewer(t *testing.T) {
	r := newRig(t)
	prim.Exp(r, r.leaf(1, 2))
	last := r.tape.Node(r.edges[1]).Seq
	next := New(r.g, r)
	next.Continue(r.tape)
	n := next.RecordLeaf(1, op.Val{})
	require.Greater(t, next.Node(Edge(n, 0)).Seq, last)
	id, k := Split(Edge(77, 5))
	require.Equal(t, []int{77, 5}, []int{int(id), k})
}

// autograd's graph has one function per operator call, with PyTorch's name.
func TestFunctionsOfTheGraph(t *testing.T) {
	r := newRig(t)
	x, y := r.leaf(1, 2, 3), r.leaf(2, 4, 5)
	name := func(v op.Val) string { return r.tape.Name(v.Tape) }
	require.Equal(t, "AccumulateGrad", name(x))
	require.Equal(t, "ExpBackward0", name(prim.Exp(r, x)))
	require.Equal(t, "ViewBackward0", name(prim.Reshape(r, x, []int64{2, 1})))
	require.Equal(t, "ExpandBackward0", name(prim.Expand(r, x, []int64{3, 2})))
	require.Equal(t, "PermuteBackward0", name(prim.Permute(r, prim.Reshape(r, x, []int64{2, 1}), []int64{1, 0})))
	require.Equal(t, "AsStridedBackward0", name(prim.Slice(r, x, 0, 1, 2, 1)))
	require.Equal(t, "MaximumBackward0", name(prim.Maximum(r, x, y)), "the member of a family")
	r.tape.From = Source{Label: "MyFunctionBackward"}
	require.Equal(t, "MyFunctionBackward", name(prim.Exp(r, x)))

	// Steps of one call are one function: its operands are the edges that lead out of it.
	r.tape.From = Source{Call: 1}
	inner := prim.Mul(r, prim.Exp(r, x), y)
	outer := prim.Add(r, inner, prim.Exp(r, x))
	r.tape.From = Source{Call: 2}
	next := prim.Exp(r, outer)
	r.tape.From = Source{}
	require.Equal(t, []uint32{x.Tape, y.Tape, x.Tape}, r.tape.Next(outer.Tape))
	require.Equal(t, []uint32{outer.Tape}, r.tape.Next(next.Tape))
	require.Equal(t, []uint64{1, 2}, leaves(r.tape, []uint32{next.Tape, x.Tape}))
	require.Equal(t, []uint64{2, 1}, leaves(r.tape, []uint32{y.Tape, next.Tape}))

	require.Equal(t, []bool{true, true, false}, r.tape.LeadsOutside([]uint32{next.Tape, y.Tape, 0}))
	r.tape.Close(x.Tape)
	require.Equal(t, []bool{true, false, false},
		r.tape.LeadsOutside([]uint32{next.Tape, prim.Exp(r, x).Tape, x.Tape}), "closed leaves count for nothing")
	r.tape.Close(y.Tape)
	require.Equal(t, []bool{false}, r.tape.LeadsOutside([]uint32{next.Tape}))
	r.settled()
}

// Under saved-tensor hooks, hooks hold the saved values, and a walk asks for them.
func TestPackedValuesComeBackFromTheirHooks(t *testing.T) {
	r := newRig(t)
	x, y := r.leaf(1, 2, 3), r.leaf(2, 4, 5)
	r.tape.Packing = true
	z := prim.Mul(r, x, y)
	r.tape.Packing = false
	require.True(t, r.tape.Awaits())
	packed := map[uint64]op.Val{}
	for id := uint64(10); ; id++ {
		v, compact, ok := r.tape.NextPackHook(id)
		if !ok {
			break
		}
		require.Equal(t, v.Shape(), compact.Shape())
		packed[id] = v
		r.g.Release(v.Value) // NextPackHook handed over the step's reference
	}
	require.Len(t, packed, 2)
	require.Equal(t, []float64{4, 5}, r.Floats(packed[10]), "PyTorch packs other before self")
	require.Equal(t, []float64{2, 3}, r.Floats(packed[11]))
	require.Zero(t, r.g.Node(x.Value).Refs-1+r.g.Node(y.Value).Refs-1, "the step holds neither")
	state, name, hook := r.tape.SavedValue(z.Tape, 0)
	require.Equal(t, []any{SavedPacked, "self", uint64(11)}, []any{state, name, hook})

	unpack := func(answer func(id uint64) op.Val) error {
		w := r.begin(Options{Accumulate: true, RetainGraph: true}, z)
		defer w.Close()
		return r.walk(w, func(ev Event) op.Val {
			require.Equal(t, Unpack, ev.Kind)
			return answer(ev.Hook)
		})
	}
	twice := func(id uint64) op.Val { v := packed[id]; v.Tape = 0; return prim.Add(r, v, v) }
	require.NoError(t, unpack(twice), "what a hook gives is what the rule reads")
	require.Equal(t, []float64{8, 10}, r.grads[1])
	elsewhere := op.Val{Kind: op.Tensor, Layout: x.Layout, Aval: ir.InternAval(ir.F64, 1, x.L()).ID}
	for want, answer := range map[string]op.Val{
		"has no unpack hook any more":                    {},
		"got float64 of shape [3], want float64 of":      r.constant(1, 2, 3),
		"got float32 of shape [2], want float64 of":      prim.Cast(r, r.constant(1, 2), ir.F32),
		"unpack_hook returned a tensor on another devic": elsewhere,
	} {
		require.ErrorContains(t, unpack(func(uint64) op.Val { return answer }), want)
	}
	require.NoError(t, unpack(func(uint64) op.Val { return r.constant(7) }), "it is broadcast")
	r.settled()
	require.ElementsMatch(t, []uint64{10, 11}, r.freed, "hooks go with the step")
}

func TestSavedValuesAreShown(t *testing.T) {
	r := newRig(t)
	x := r.leaf(1, 2)
	y := prim.Mul(r, x, prim.Expand(r, r.leaf(2, 4), []int64{1}))
	state := func(i int) (SavedState, string) { s, name, _ := r.tape.SavedValue(y.Tape, i); return s, name }
	for i, want := range []string{"self", "other"} {
		s, name := state(i)
		require.Equal(t, SavedHeld, s)
		require.Equal(t, want, name)
	}
	s, _ := state(2)
	require.Equal(t, NotSaved, s, "the result")
	s, _ = state(3)
	require.Equal(t, SavedEnd, s)
	v, err := r.tape.ReadSaved(y.Tape, 0)
	require.NoError(t, err)
	require.Equal(t, []float64{2}, r.Floats(v))
	require.Equal(t, x.Tape, v.Tape, "with its history")
	require.Equal(t, y.Tape, r.tape.HistoryOf(y.Tape, -1))

	// Without a walk, a value that waits for its hook may stay in its step.
	r.tape.Repack(y.Tape, 0)
	require.True(t, r.tape.Awaits())
	r.tape.SkipPackHooks()
	require.False(t, r.tape.Awaits())
	s, _ = state(0)
	require.Equal(t, SavedHeld, s)

	r.commits[1]++
	_, err = r.tape.ReadSaved(y.Tape, 0)
	require.ErrorContains(t, err, "modified by an inplace operation")
	r.commits[1]--
	require.NoError(t, r.backward(y, Options{}))
	s, _ = state(0)
	require.Equal(t, SavedFreed, s)
	r.settled()
}
