package gpu

import (
	"syscall"
	"time"
)

// sleep pauses the thread. time.Sleep rounds up to a millisecond here, since Go's scheduler waits in epoll, which
// counts in milliseconds: a kernel of 200 microseconds would be waited for six times as long.
func sleep(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&t, nil) // a signal ends it early: the caller polls again
}
