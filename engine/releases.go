package engine

import (
	"sync"
	"sync/atomic"
)

// releases queues handles whose owners are gone. Finalizers run at any time, so the queue has a lock of its own; the
// next call releases the handles.
type releases struct {
	mu      sync.Mutex
	queue   []uint64
	drained []uint64    // result of the last take; guarded by the engine's lock
	any     atomic.Bool // the queue is not empty
}

// add queues handles.
func (r *releases) add(hs []uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, hs...)
	r.any.Store(true)
}

// take empties the queue into a list of its own, since more handles may be queued meanwhile.
func (r *releases) take() []uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue, r.drained = r.drained[:0], r.queue
	r.any.Store(false)
	return r.drained
}

// Release queues handles whose owners are gone; the next safe point releases them. It never fails and never runs
// anything.
func (e *Engine) Release(hs []uint64) {
	e.releases.add(hs)
	e.drainIfFree()
}

// drain releases the queued handles. It runs no work.
func (e *Engine) drain() {
	for _, h := range e.releases.take() {
		e.copies.forget(h)
		e.session.Release(h)
	}
}
