package engine

import (
	"sync"
	"time"

	"github.com/torchlette/torchlette/ir"
)

// execLock lets one thread at a time run work; its owner may enter it again.
type execLock struct {
	mu    sync.Mutex
	cond  *sync.Cond
	owner int64
	depth int
	wait  bool // policy "wait": block instead of failing
}

func busy() *ir.Error {
	return ir.Errorf(ir.ErrBusy, "the engine is busy in another thread; call again later, or set_busy_policy(\"wait\")")
}

// acquire enters for thread id. It fails if another thread is inside, unless the policy is to wait.
func (l *execLock) acquire(id int64) *ir.Error { return l.acquireOr(id, busy) }

// await enters for thread id, whatever the policy.
func (l *execLock) await(id int64) { _ = l.acquireOr(id, nil) }

// acquireOr enters for thread id. If another thread is inside, it waits, or fails with refuse where the policy is not
// to wait.
func (l *execLock) acquireOr(id int64, refuse func() *ir.Error) *ir.Error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cond == nil {
		l.cond = sync.NewCond(&l.mu)
	}
	for l.depth > 0 && l.owner != id {
		if !l.wait && refuse != nil {
			return refuse()
		}
		l.cond.Wait()
	}
	l.owner = id
	l.depth++
	return nil
}

// acquireWithin is acquire with a limit: after slice it returns false without an error.
func (l *execLock) acquireWithin(id int64, slice time.Duration) (bool, *ir.Error) {
	if l.tryAcquire(id) {
		return true, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cond == nil {
		l.cond = sync.NewCond(&l.mu)
	}
	late := false
	t := time.AfterFunc(slice, func() {
		l.mu.Lock()
		late = true
		l.cond.Broadcast()
		l.mu.Unlock()
	})
	defer t.Stop()
	for l.depth > 0 && l.owner != id {
		if !l.wait {
			return false, busy()
		}
		if late {
			return false, nil
		}
		l.cond.Wait()
	}
	l.owner = id
	l.depth++
	return true, nil
}

// tryAcquire enters if no other thread is inside, under either policy.
func (l *execLock) tryAcquire(id int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.depth > 0 && l.owner != id {
		return false
	}
	l.owner = id
	l.depth++
	return true
}

// heldByOther reports that a thread other than id is inside.
func (l *execLock) heldByOther(id int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.depth > 0 && l.owner != id && !l.wait
}

func (l *execLock) release() {
	l.mu.Lock()
	l.depth--
	if l.depth == 0 && l.cond != nil {
		l.cond.Broadcast()
	}
	l.mu.Unlock()
}

func waitFor(done chan struct{}, slice time.Duration) bool {
	select {
	case <-done:
		return true
	default:
	}
	t := time.NewTimer(slice)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}
