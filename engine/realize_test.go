package engine

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
)

// realize waits like capi.
func (r *rig) realize(ts ...T) *ir.Error {
	var hs []uint64
	for _, t := range ts {
		hs = append(hs, uint64(t))
	}
	for {
		pending, err := r.e.Realize(hs, time.Millisecond)
		if err != nil || !pending {
			return err
		}
	}
}

// TestRealizeRunsOneWindow: values that share work are computed together, and their views are not copied.
func TestRealizeRunsOneWindow(t *testing.T) {
	r := newRig(t)
	x := r.floats(nil, 1, 2, 3, 4)
	shared := r.do("neg", x)
	y, z := r.do("exp", shared), r.view(r.do("mul", shared, 2.0), []int64{2}, []int64{2}, 0)
	windows := r.e.stats.windows
	require.Nil(t, r.realize(y, z))
	require.Equal(t, windows+1, r.e.stats.windows)
	executed := r.e.stats.executed
	require.Nil(t, r.realize(x, y, z))
	require.Equal(t, executed, r.e.stats.executed, "nothing was left to run")
	require.Equal(t, []float32{-2, -6}, r.read(z))
}

// TestRealizeRunsWrites: the pending stores of a written base run too.
func TestRealizeRunsWrites(t *testing.T) {
	r := newRig(t)
	x := r.floats(nil, 1, 2, 3, 4)
	r.inplace("mul", r.view(x, []int64{2}, []int64{2}, 1), 10.0)
	require.NotZero(t, r.e.session.PendingEffects())
	require.Nil(t, r.realize(x))
	require.Zero(t, r.e.session.PendingEffects())
	require.Equal(t, []float32{1, 20, 3, 40}, r.read(x))
}

// TestRealizeRaises: data errors and unknown tensors raise.
func TestRealizeRaises(t *testing.T) {
	r := newRig(t)
	x, i := r.floats(nil, 1, 2), r.do("add", r.ints(5), 0)
	err := r.realize(r.do("index_select", x, 0, i))
	require.NotNil(t, err)
	require.Equal(t, ir.ErrIndex, err.Code)
	require.Nil(t, r.realize(r.do("neg", x)), "the error was raised once")
	require.NotNil(t, r.realize(T(1<<40)))
}

func TestMuchWorkWithAPlanRunsInTheThreadThatReads(t *testing.T) {
	r := newRig(t)
	x, self := r.floats(nil, 1), threadID()
	elsewhere := func() (n int) {
		y := x
		for range 4200 {
			z := r.do("add", y, x)
			if y != x {
				r.drop(y)
			}
			y = z
		}
		var mu sync.Mutex
		r.e.trap = func() {
			mu.Lock()
			defer mu.Unlock()
			if threadID() != self {
				n++
			}
		}
		assert.Equal(t, []float32{4201}, r.read(y))
		r.e.trap = nil
		r.drop(y)
		return n
	}
	assert.Positive(t, elsewhere(), "it has no plan")
	elsewhere()
	assert.Zero(t, elsewhere(), "the last window had a plan")
}
