package lazy

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// realize turns a recorded value into a stored one, like a window that ran.
func (r *rig) realize(id uint32) {
	x := r.eval(op.Val{Kind: op.Tensor, Value: id, Layout: r.layout(id)}, map[uint32][]op.Val{})
	r.graph().Realize(id, 1)
	r.leaves[id] = x
}

func (r *rig) layout(id uint32) ir.LayoutID { return ir.AvalOf(r.graph().Node(id).Aval).Layout.ID }

// Committed effects are removed from the front of the log, and their stores become the values of the locs.
func TestCommitsMoveValuesIntoLocs(t *testing.T) {
	r := newRig(t)
	x := r.vector(1, 2)
	h, _ := r.Handle(x)
	b := r.Base(h.Base)
	r.mulIn(x, 2)
	r.mulIn(x, 3)
	first := r.log()[0].Value
	require.Equal(t, 3, r.ReadyEffects(len(r.log()), r.graph().Node(first).Seq, ^uint64(0)),
		"the store of what was recorded up to there, its commit, and the load before the next store")
	token := r.LoggedEffects()
	r.realize(first)
	r.CommitEffects(2)
	l := r.Loc(b.Loc)
	require.Equal(t, []any{first, uint64(1), true}, []any{l.Committed, l.Version, l.HasValue})
	require.Equal(t, []uint64{2, 1}, []uint64{b.Scheduled, b.Committed})
	require.Equal(t, token, r.LoggedEffects(), "tokens count from the session's begin")
	require.Equal(t, PendingLoc, b.Binding)
	r.Promote()
	require.Equal(t, LocBound, b.Binding, "its first store is committed")
	n := r.PendingEffects()
	require.Equal(t, n, r.ReadyEffects(n, ^uint64(0), ^uint64(0)))
	require.Less(t, r.ReadyEffects(n, ^uint64(0), r.graph().Node(first).Seq), n, "nothing after a barrier")
	r.realize(r.log()[n-2].Value)
	r.CommitEffects(n)
	require.Empty(t, r.log())
	require.Equal(t, []float64{6, 12}, r.read(x))
	require.EqualValues(t, 2, b.Committed)
	r.settled(x)
}

// A failed store takes back the update that it belongs to, back to the operator at fault. Independent stores stay.
func TestFailedStoresAreTakenBack(t *testing.T) {
	for _, tc := range []struct {
		name   string
		record func(r *rig, x uint64) (fails []uint32) // values that cannot be computed
		want   []float64                               // of x, which starts as 1, 2
		lost   int
	}{
		{"nothing fails", func(r *rig, x uint64) []uint32 { r.mulIn(x, 2); return nil }, []float64{2, 4}, 0},
		{"the only store", func(r *rig, x uint64) []uint32 {
			r.mulIn(x, 2)
			return []uint32{r.newest(x)}
		}, []float64{1, 2}, 1},
		{"the last of two", func(r *rig, x uint64) []uint32 {
			r.mulIn(x, 2)
			r.mulIn(x, 3)
			return []uint32{r.newest(x)}
		}, []float64{2, 4}, 1},
		{"both, for the second reads the first", func(r *rig, x uint64) []uint32 {
			r.mulIn(x, 2)
			first := r.newest(x)
			r.mulIn(x, 3)
			return []uint32{first, r.newest(x)}
		}, []float64{1, 2}, 1},
		{"a later store of something else stays", func(r *rig, x uint64) []uint32 {
			r.mulIn(x, 2)
			first := r.newest(x)
			require.Nil(r.t, r.write(x, func(v op.Val) op.Val {
				return prim.Fill(r, op.FloatVal(7), ir.F64, ir.CPU, v.Shape())
			}))
			return []uint32{first}
		}, []float64{7, 7}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			x, other := r.vector(1, 2), r.vector(5)
			r.mulIn(other, 2)
			bad := map[uint32]*ir.Failure{}
			for _, id := range tc.record(r, x) {
				bad[id] = &ir.Failure{Err: ir.Errorf(ir.ErrOutOfMemory, "full"), Seq: r.graph().Node(id).Seq}
			}
			for _, f := range bad { // the first is the operator at fault
				for id := range bad {
					f.Seq = min(f.Seq, r.graph().Node(id).Seq)
				}
			}
			lost := r.UndoStores(func(id uint32) *ir.Failure { return bad[id] })
			require.Len(t, lost, tc.lost)
			h, _ := r.Handle(x)
			for _, w := range lost {
				require.Equal(t, []uint32{h.Base, r.Base(h.Base).Gen}, []uint32{w.Base, w.Gen})
				require.Equal(t, "full", w.Why.Err.Msg)
			}
			require.Equal(t, tc.want, r.read(x))
			require.Equal(t, []float64{10}, r.read(other), "another tensor loses nothing")
			r.settled(x, other)
		})
	}
}

// newest returns the value of a tensor's last store.
func (r *rig) newest(hd uint64) uint32 {
	h, err := r.Handle(hd)
	require.Nil(r.t, err)
	return r.Base(h.Base).Value
}

// Each thread has its own modes, scopes and packing.
func TestThreadsHaveTheirModes(t *testing.T) {
	r := newRig(t)
	r.TidyBegin()
	mine := r.vector(1)
	r.GradMode = false
	old := r.SwapThread(ThreadState{ThreadModes: ThreadModes{GradMode: true}})
	require.True(t, r.GradMode)
	r.TapeUserCalls()
	require.True(t, r.IsTaping())
	r.Inference = true
	r.TapeUserCalls()
	require.False(t, r.IsTaping())
	r.TidyEnd(nil) // this thread has no open scope
	_, err := r.Handle(mine)
	require.Nil(t, err)
	r.SwapThread(old)
	require.False(t, r.GradMode)
	require.False(t, r.Inference)
	r.TidyEnd(nil)
	_, err = r.Handle(mine)
	require.NotNil(t, err)

	keys := map[uint64]bool{}
	for _, change := range []func(){
		func() {}, func() { r.Default = ir.F64 }, func() { r.Deterministic = true }, func() { r.Taping(true) },
		func() { r.DefaultDev = 3 }, func() { r.Autocast[0] = ir.F16 }, func() { r.Autocast[1] = ir.F16 },
	} {
		change()
		require.False(t, keys[r.ModeKey()], "a rule may look at each of these")
		keys[r.ModeKey()] = true
	}
	r.settled(mine)
}
