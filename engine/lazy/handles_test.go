package lazy

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
)

func TestOnlyLiveHandlesNameTensors(t *testing.T) {
	r := newRig(t)
	h := r.vector(1)
	var reserved [1]uint64
	r.Reserve(reserved[:])
	gone := r.vector(2)
	disposed := r.vector(3)
	r.Dispose(disposed)
	r.Dispose(disposed)
	r.Release(gone)
	for _, tc := range []struct {
		name   string
		handle uint64
		code   ir.Code
		want   string // "" if the handle names a tensor
	}{
		{"live", h, ir.OK, ""},
		{"released", gone, ir.ErrHandle, "is stale or was never made"},
		{"none", 0, ir.ErrHandle, "is stale"},
		{"slot 0 with a generation", 1<<63 | 1<<32, ir.ErrHandle, "is stale"},
		{"the next generation", h + 1<<32, ir.ErrHandle, "is stale"},
		{"a slot that was never made", 1<<63 | 1<<32 | 99, ir.ErrHandle, "is stale"},
		{"disposed of", disposed, ir.ErrDisposed, "tensor was disposed"},
		{"reserved", reserved[0], ir.ErrRuntime, "the operator that was to make it failed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := r.Resolve(tc.handle)
			if tc.want == "" {
				require.Nil(t, err)
				return
			}
			require.Equal(t, tc.code, err.Code)
			require.Contains(t, err.Msg, tc.want)
		})
	}
	again := r.vector(4)
	require.Equal(t, uint32(gone), uint32(again), "the slot is used again")
	require.NotEqual(t, gone, again)
	_, err := r.Handle(gone)
	require.NotNil(t, err)
	r.Release(gone) // no effect
	require.Equal(t, []float64{4}, r.read(again))

	var seen []uint64
	r.EachHandle(func(hd uint64, _ *Handle) { seen = append(seen, hd) })
	require.ElementsMatch(t, []uint64{h, again, disposed}, seen)
	next := newRig(t)
	next.Outdate(r.Session)
	for range 8 {
		require.NotContains(t, append(seen, gone, reserved[0]), next.vector(1), "a session after this one has its own")
	}
	r.settled(h, again, disposed, reserved[0])
}

// A deferred call gets its handle before its tensor exists.
func TestAReservedHandleIsThatOfTheNextTensor(t *testing.T) {
	r := newRig(t)
	x := r.vector(1, 2)
	hs := make([]uint64, 3)
	r.Reserve(hs)
	require.Equal(t, 1, r.handles(), "a reserved one is no tensor yet")
	require.Nil(t, r.Fill(hs[1]))
	y := r.mul(x, 3)
	require.Equal(t, hs[1], y)
	require.Equal(t, []float64{3, 6}, r.read(y))
	require.NotEqual(t, hs[0], r.mul(x, 1), "only the one")
	require.Contains(t, r.Fill(hs[1]).Msg, "was not reserved")
	require.Contains(t, r.Fill(x).Msg, "was not reserved")
	require.Nil(t, r.Fill(hs[2]))
	r.Drain() // the call failed
	z := r.vector(5)
	require.NotEqual(t, hs[2], z)
	live := r.handles()
	r.Release(hs[0])
	require.Equal(t, live, r.handles())
}

func TestScopesDisposeOfWhatIsNotKept(t *testing.T) {
	r := newRig(t)
	outside := r.vector(0)
	r.TidyBegin()
	kept := r.vector(1)
	require.Nil(t, r.Keep(kept))
	dropped := r.vector(2)
	r.TidyBegin()
	returned, inner := r.vector(3), r.vector(4)
	r.TidyEnd([]uint64{returned})
	gone := func(h uint64) bool { _, err := r.Handle(h); return err != nil && err.Code == ir.ErrDisposed }
	require.True(t, gone(inner))
	require.False(t, gone(returned))
	released := r.vector(5)
	r.Release(released)
	r.TidyEnd(nil)
	require.Equal(t, []bool{false, false, true, false}, []bool{gone(outside), gone(kept), gone(dropped), gone(returned)},
		"what an inner scope returned outlives the scopes around")
	r.TidyEnd(nil) // no scope is open
	require.NotNil(t, r.Keep(dropped))
	r.settled(outside, kept, dropped, returned, inner)
}
