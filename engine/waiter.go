package engine

import (
	"time"

	"github.com/torchlette/torchlette/ir"
)

// waiter says who computes, and keeps work that outlives its call.
type waiter struct {
	lock     execLock
	jobs     jobs
	held     *heldWindow // a window whose run has stopped midway; see stop.go
	pausable bool        // the caller can wait for a job
	read     readCache
}

// deadline is when a run that begins now pauses: where its caller can wait for a job. The zero time is never.
func (w *waiter) deadline(began time.Time) time.Time {
	if !w.pausable {
		return time.Time{}
	}
	return began.Add(pauseAfter)
}

// readCache holds the dense copy that was made of a view until Read has copied it.
type readCache struct {
	handle uint64 // of the view; 0: there is no copy
	value  uint32
	of     uint64 // Seq of the version that the copy was made of
}

// holds reports the copy of view h of version n.
func (c *readCache) holds(h uint64, n *ir.Node) bool { return c.handle == h && c.of == n.Seq }

// drop forgets the copy.
func (c *readCache) drop(g *ir.Graph) {
	if c.value != 0 {
		g.Release(c.value)
		*c = readCache{}
	}
}
