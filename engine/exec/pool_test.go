package exec

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/device"
	"github.com/torchlette/torchlette/kernels/interp"
)

// TestReacquire: a buffer comes back to who had it, once its last user has ended, and while
// nobody else has it.
func TestReacquire(t *testing.T) {
	d := interp.New()
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
	assert.False(t, p.Reacquire(bufs[1], 1000), "its last user runs")
	require.NoError(t, d.Wait(f, time.Minute, nil))
	p.collect()
	assert.True(t, p.Reacquire(bufs[1], 1000))
}
