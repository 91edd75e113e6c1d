package engine

import (
	"time"
)

// waiter serialises runs and keeps work that outlives its call.
type waiter struct {
	execLock
	jobs
	held     *heldWindow // a window whose run stopped midway; see stop.go
	pausable bool        // the caller can wait for a job
}

// deadline returns when a run that begins now pauses; the zero time, never, if its caller cannot wait for a job.
func (w *waiter) deadline(began time.Time) time.Time {
	if !w.pausable {
		return time.Time{}
	}
	return began.Add(pauseAfter)
}
