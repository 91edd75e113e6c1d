package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// deferrable calls full until it can be deferred and returns its number.
func (r *rig) deferrable(full string, args ...T) (n uint32, c Call) {
	c = Call{Op: op.DefNamed(full).ID, SourceLoc: r.sourceLoc}
	for _, a := range args {
		c.In = append(c.In, uint64(a))
	}
	if full == "add" {
		c.Scalars = []Scalar{{Kind: op.ScalarInt, Bits: 1}}
	}
	return r.numbered(&c), c
}

// numbered makes a call until it has a number and returns the number.
func (r *rig) numbered(c *Call) (n uint32) {
	for range 4 {
		var out [1]Out
		_, err := r.e.Op(c, out[:])
		require.Nil(r.t, err)
		r.e.Release([]uint64{out[0].Handle})
		n = out[0].DeferID
	}
	require.NotZero(r.t, n, "operator %d has a number after four like calls", c.Op)
	return n
}

// keep records a deferred call and gives its result.
func (r *rig) keep(n uint32, args ...T) T {
	q := r.queue(n, args...)
	r.e.Record([]DeferredCall{q}, nil)
	return T(q.Handle)
}

func (r *rig) queue(n uint32, args ...T) DeferredCall {
	var h [1]uint64
	r.e.Reserve(h[:])
	q := DeferredCall{DeferID: n, SourceLoc: r.sourceLoc, Handle: h[0]}
	for i, a := range args {
		q.In[i] = uint64(a)
	}
	return q
}

func TestADeferredCallIsRecordedWithoutItsRule(t *testing.T) {
	r := newRig(t)
	x, y := r.floats(nil, 1, 2), r.floats(nil, 10, 20)
	n, _ := r.deferrable("add", x, y)
	before := r.stat("calls_deferred")
	assert.Equal(t, []float32{20, 40}, r.read(r.keep(n, y, y)))
	assert.Equal(t, before+1, r.stat("calls_deferred"))
}

func TestDeferredCallsAreRecordedInOrder(t *testing.T) {
	r := newRig(t)
	x, y := r.floats(nil, 1, 2), r.floats(nil, 10, 20)
	n, c := r.deferrable("add", x, y)
	a := r.queue(n, x, y)
	b := r.queue(n, T(a.Handle), y)
	c.In, c.Deferred, c.Drop = []uint64{b.Handle, a.Handle}, []DeferredCall{a, b}, nil
	var out [1]Out
	_, err := r.e.Op(&c, out[:])
	require.Nil(t, err)
	assert.Equal(t, []float32{32, 64}, r.read(T(out[0].Handle)), "the queue comes before the call that brings it")
}

func TestADeferredCallOnOtherTensorsAsksTheRule(t *testing.T) {
	r := newRig(t)
	x := r.floats(nil, 1, 2)
	n, _ := r.deferrable("add", x, x)
	for _, c := range []struct {
		name string
		y    T
		want []float32
	}{
		{"another offset", r.do("narrow", r.floats(nil, 7, 8, 9), 0, 1, 2), []float32{16, 18}},
		{"another shape", r.floats(nil, 3), []float32{6}},
		{"a gradient", r.grad(r.floats(nil, 4, 5)), []float32{8, 10}},
	} {
		before := r.stat("calls_deferred")
		z := r.keep(n, c.y, c.y)
		assert.Equal(t, c.want, r.read(z), c.name)
		assert.Equal(t, before, r.stat("calls_deferred"), c.name)
	}
}

func TestADeferredCallIsTaped(t *testing.T) {
	r := newRig(t)
	x, y := r.grad(r.floats(nil, 3)), r.grad(r.floats(nil, 5))
	n, _ := r.deferrable("mul", x, y)
	require.Nil(t, r.backward(r.do("sum", r.keep(n, x, y)), 0))
	assert.Equal(t, []float32{5}, r.gradOf(x))
	assert.Equal(t, []float32{3}, r.gradOf(y))
}

func TestAReservedHandleIsNoTensorYet(t *testing.T) {
	r := newRig(t)
	live := r.stat("handles")
	var h [1]uint64
	r.e.Reserve(h[:])
	_, err := r.tryRead(T(h[0]))
	require.NotNil(t, err)
	assert.Equal(t, ir.ErrRuntime, err.Code)
	assert.Equal(t, live, r.stat("handles"), "it counts from when it is filled")
	r.e.Release(h[:])
	assert.Equal(t, live, r.stat("handles"))
}

func TestADeferredCallThatFailsIsRaisedAtTheNextRead(t *testing.T) {
	r := newRig(t)
	x := r.floats(nil, 1, 2)
	n, _ := r.deferrable("add", x, x)
	gone := r.floats(nil, 1, 2)
	r.e.Dispose(uint64(gone))
	z := r.keep(n, gone, gone)
	_, err := r.tryRead(x)
	require.NotNil(t, err)
	assert.Equal(t, ir.ErrDisposed, err.Code)
	assert.Equal(t, []float32{1, 2}, r.read(x), "it is raised once")
	_, err = r.tryRead(z)
	require.NotNil(t, err)
}

func TestANumberOfAnEarlierGenerationIsRefused(t *testing.T) {
	r := newRig(t)
	x := r.floats(nil, 1, 2)
	n, _ := r.deferrable("add", x, x)
	require.Nil(t, r.e.Reset())
	x = r.floats(nil, 1, 2)
	r.keep(n, x, x)
	_, err := r.tryRead(x)
	require.NotNil(t, err)
	assert.Equal(t, ir.ErrHandle, err.Code)
}

func TestIndicesThatAreLookedAtAreNotDeferred(t *testing.T) {
	r := newRig(t)
	x, i := r.floats(nil, 1, 2, 3), r.ints(0, 2)
	for range 5 {
		var out [1]Out
		c := Call{Op: op.DefNamed("index_select").ID, In: []uint64{uint64(x), uint64(i)}, Ints: []int64{0}}
		_, err := r.e.Op(&c, out[:])
		require.Nil(t, err)
		assert.Zero(t, out[0].DeferID)
	}
}

func TestANewGenerationKeepsTheNumbersOfTheBatchThatBeginsIt(t *testing.T) {
	r := newRig(t)
	x, y := r.floats(nil, 1, 2), r.floats(nil, 1, 2, 3)
	n, c := r.deferrable("add", x, x)
	c.In = []uint64{uint64(y), uint64(y)}
	for range 3 { // the next like call gets a number
		var out [1]Out
		_, err := r.e.Op(&c, out[:])
		require.Nil(t, err)
		require.Zero(t, out[0].DeferID)
	}
	const most = 1 << 13 // numbers per generation
	for i := int64(2); ; i++ {
		last := r.numbered(&Call{Op: c.Op, In: []uint64{uint64(x), uint64(x)},
			Scalars: []Scalar{{Kind: op.ScalarInt, Bits: uint64(i)}}})
		require.Equal(t, n>>16, last>>16)
		if last&0xFFFF == most {
			break
		}
	}
	a, b := r.queue(n, y, y), r.queue(n, x, x)
	r.e.Record([]DeferredCall{a, b}, nil)
	assert.NotEqual(t, n>>16, r.numbered(&c)>>16, "the first call, on other tensors, has a number of the next generation")
	assert.Equal(t, []float32{2, 4, 6}, r.read(T(a.Handle)))
	assert.Equal(t, []float32{2, 4}, r.read(T(b.Handle)))
}
