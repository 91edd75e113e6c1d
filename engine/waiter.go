package engine

import (
	"time"
)

// waiter says who computes, and keeps work that outlives its call.
type waiter struct {
	execLock
	jobs
	held     *heldWindow // a window whose run has stopped midway; see stop.go
	pausable bool        // the caller can wait for a job
}

// deadline is when a run that begins now pauses: where its caller can wait for a job. The zero time is never.
func (w *waiter) deadline(began time.Time) time.Time {
	if !w.pausable {
		return time.Time{}
	}
	return began.Add(pauseAfter)
}
