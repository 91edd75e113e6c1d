package engine

import (
	"sync"
	"sync/atomic"
)

// releases are handles whose owners are gone. They are queued under a lock of their own, because finalizers run at any
// time, and released at the next call.
type releases struct {
	mu      sync.Mutex
	queue   []uint64
	drained []uint64    // of the last take; guarded by the engine's lock
	any     atomic.Bool // the queue is not empty
}

// add queues handles.
func (r *releases) add(hs []uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, hs...)
	r.any.Store(true)
}

// take gives what is queued. It is in a list of its own: more may be queued meanwhile.
func (r *releases) take() []uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue, r.drained = r.drained[:0], r.queue
	r.any.Store(false)
	return r.drained
}

// Release ends handles whose owners are gone. It never fails and never runs anything:
// the handles are queued and released at the next safe point.
func (e *Engine) Release(hs []uint64) {
	e.releases.add(hs)
	e.drainIfFree()
}

// drain releases the handles whose owners are gone: cleanup only, never execution.
func (e *Engine) drain() {
	for _, h := range e.releases.take() {
		e.session.Release(h)
	}
}
