package runtime

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/reference"
)

// TestReacquire: a buffer comes back to who had it while nobody else has it, also while its last user runs.
func TestReacquire(t *testing.T) {
	d := reference.New()
	d.Lag = true
	p := NewPool(d, time.Minute)
	var bufs []device.Buffer
	for range 3 {
		b, err := p.Acquire(1000)
		require.NoError(t, err)
		bufs = append(bufs, b)
	}
	for _, b := range bufs {
		assert.False(t, p.Reacquire(b, 1000), "it is handed out")
	}
	for _, b := range bufs {
		p.Release(b, 1000)
	}
	assert.False(t, p.Reacquire(bufs[0], 5000), "of another class")
	assert.True(t, p.Reacquire(bufs[0], 1000))
	assert.False(t, p.Reacquire(bufs[0], 1000))
	assert.True(t, p.Reacquire(bufs[2], 1000))
	got, err := p.Acquire(1000)
	require.NoError(t, err)
	assert.Same(t, bufs[1], got, "what is left")
	assert.Equal(t, 3, p.Count)
	assert.Zero(t, p.Pooled)

	p.Release(bufs[0], 1000)
	require.NoError(t, p.Trim())
	assert.False(t, p.Reacquire(bufs[0], 1000), "it went back to the device")

	prog, err := d.Build(nil, 0)
	require.NoError(t, err)
	f, err := d.Run(prog, &device.Binding{})
	require.NoError(t, err)
	p.Release(bufs[1], 1000)
	assert.False(t, d.Done(f), "its last user runs")
	assert.True(t, p.Reacquire(bufs[1], 1000))
}

// TestEviction: of what has ended the largest goes first; where nothing has, the pool waits for who ends next, not for
// all.
func TestEviction(t *testing.T) {
	d := reference.New()
	d.Lag = true
	p := NewPool(d, time.Minute)
	prog, err := d.Build(nil, 0)
	require.NoError(t, err)
	var fences []device.Fence
	sizes := []int64{4000, 1000, 64000}
	var bufs []device.Buffer
	for _, bytes := range sizes {
		b, err := p.Acquire(bytes)
		require.NoError(t, err)
		bufs = append(bufs, b)
	}
	for i, b := range bufs {
		f, err := d.Run(prog, &device.Binding{})
		require.NoError(t, err)
		fences = append(fences, f)
		p.Release(b, sizes[i])
	}
	require.NoError(t, d.Wait(fences[1], time.Minute, nil))
	p.done = fences[1]
	has := func(i int) bool { _, ok := p.at[bufs[i]]; return ok }
	require.NoError(t, p.evictOne())
	assert.Equal(t, []bool{false, true, true}, []bool{has(0), has(1), has(2)}, "4000 bytes: the 64000 are in use")
	require.NoError(t, p.evictOne())
	assert.Equal(t, []bool{false, false, true}, []bool{has(0), has(1), has(2)})
	require.NoError(t, p.evictOne())
	assert.True(t, has(2), "it waited")
	assert.True(t, d.Done(fences[2]))
	require.NoError(t, p.evictOne())
	assert.Zero(t, p.Pooled)
	assert.Zero(t, d.Live)
}
