package runtime

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/reference"
)

// TestReacquire: a buffer returns to its former user if nobody else has taken it, even while its last use runs.
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

// TestPoolInvariant: after any sequence of calls, bytes kept plus bytes handed out are at most the peak of bytes handed
// out, and all counts match the buffers.
func TestPoolInvariant(t *testing.T) {
	type held struct {
		device.Buffer
		bytes int64
	}
	for seed := range uint64(20) {
		r, d := rand.New(rand.NewPCG(seed, 1)), reference.New()
		p := NewPool(d, time.Minute)
		var out []held
		for range 400 {
			if len(out) > 0 && r.IntN(2) == 0 {
				i := r.IntN(len(out))
				p.Release(out[i].Buffer, out[i].bytes)
				out[i] = out[len(out)-1]
				out = out[:len(out)-1]
			} else {
				bytes := int64(1) << r.IntN(18)
				b, err := p.Acquire(bytes)
				require.NoError(t, err)
				require.GreaterOrEqual(t, b.Bytes(), bytes)
				out = append(out, held{b, bytes})
			}
			var live int64
			for _, h := range out {
				live += device.SizeClass(h.bytes)
			}
			require.Equal(t, live, p.Live)
			require.Equal(t, len(out), p.Count)
			require.LessOrEqual(t, p.Live+p.Pooled, p.Peak)
		}
		require.Positive(t, p.Hits)
		p.ResetPeak()
		require.Equal(t, p.Live, p.Peak)
		require.NoError(t, p.Trim())
		require.Equal(t, len(out), d.Live, "free buffers went back to the device")
	}
}

// TestAFullDeviceIsTriedAgain: after a failed allocation the pool frees its buffers and retries once.
func TestAFullDeviceIsTriedAgain(t *testing.T) {
	d := reference.New()
	p := NewPool(d, time.Minute)
	small, err := p.Acquire(100)
	require.NoError(t, err)
	big, err := p.Acquire(5000)
	require.NoError(t, err)
	p.Release(small, 100)
	p.Release(big, 5000)
	d.Faults.Alloc = 3
	_, err = p.Acquire(2000)
	require.NoError(t, err)
	assert.Equal(t, 1, d.Live, "the free buffers are gone")
	p.Limit = p.Live
	_, err = p.Acquire(1)
	require.ErrorContains(t, err, "the memory limit of")
}

// TestEviction: where all bytes are wanted, the largest buffer without a running user goes first; if all users run, the
// pool waits only for the first to end.
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
	require.NoError(t, p.evictOne(p.Pooled))
	assert.Equal(t, []bool{false, true, true}, []bool{has(0), has(1), has(2)}, "4000 bytes: the 64000 are in use")
	require.NoError(t, p.evictOne(p.Pooled))
	assert.Equal(t, []bool{false, false, true}, []bool{has(0), has(1), has(2)})
	require.NoError(t, p.evictOne(p.Pooled))
	assert.True(t, has(2), "it waited")
	assert.True(t, d.Done(fences[2]))
	require.NoError(t, p.evictOne(p.Pooled))
	assert.Zero(t, p.Pooled)
	assert.Zero(t, d.Live)
}

// A buffer is freed to make room: the smallest that is large enough, so that larger ones stay for those who need them.
func TestEvictionFreesTheSmallestBufferThatSuffices(t *testing.T) {
	for want, rest := range map[int64]int64{1: 7 << 12, 2 << 12: 6 << 12, 3 << 12: 3 << 12, 9 << 12: 3 << 12} {
		d := reference.New()
		p := NewPool(d, time.Minute)
		for _, bytes := range []int64{2 << 12, 1 << 12, 5 << 12} {
			b, err := d.Alloc(bytes)
			require.NoError(t, err)
			p.Live += bytes
			p.Release(b, bytes)
		}
		require.NoError(t, p.evictOne(want))
		assert.Equal(t, rest, p.Pooled, "%d bytes wanted", want)
	}
}
