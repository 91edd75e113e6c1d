package gpu

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A wait spins at first, then sleeps for a share of the time that it has lasted.
func TestWaitsSleepForAShareOfTheirLength(t *testing.T) {
	for _, c := range []struct{ waited, want time.Duration }{
		{0, 0},
		{100 * time.Microsecond, 0},
		{101 * time.Microsecond, 20 * time.Microsecond},
		{6400 * time.Microsecond, 100 * time.Microsecond},
		{time.Minute, 500 * time.Microsecond},
	} {
		assert.Equal(t, c.want, sleepAfter(c.waited), "after %v", c.waited)
	}
}

// A short sleep is shorter than the tick of Go's own timers, which is a millisecond on Linux.
func TestShortSleepsAreShort(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("time.Sleep is used")
	}
	took := make([]time.Duration, 32)
	for i := range took {
		began := time.Now()
		sleep(minSleep)
		took[i] = time.Since(began)
	}
	slices.Sort(took) // other programs only add to a sleep
	assert.Less(t, took[len(took)/4], time.Millisecond)
}
