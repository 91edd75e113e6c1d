package engine

import (
	"sync"
	"time"

	"github.com/torchlette/torchlette/ir"
)

// execLock serialises what runs work: one owner thread, nested entry counted.
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

// acquire enters for thread id, or says that another thread is inside.
func (l *execLock) acquire(id int64) *ir.Error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cond == nil {
		l.cond = sync.NewCond(&l.mu)
	}
	for l.depth > 0 && l.owner != id {
		if !l.wait {
			return busy()
		}
		l.cond.Wait()
	}
	l.owner = id
	l.depth++
	return nil
}

// tryAcquire enters when no other thread is inside, whatever the policy.
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

// heldByOther reports that another thread than id is inside.
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

// enterExec takes the execution lock, then the engine's: always in this order.
func (e *Engine) enterExec() *ir.Error {
	if err := e.lock.acquire(threadID()); err != nil {
		return err
	}
	e.enter()
	return nil
}

// leaveExec gives both back.
func (e *Engine) leaveExec() {
	e.leave()
	e.lock.release()
}

// job is work that outlives the time slice of the call that began it.
type job struct {
	kind string
	key  uint64
	done chan struct{}
	err  *ir.Error
}

// run does work within a time slice. Work that takes longer goes on in its goroutine;
// the call reports pending and is made again to wait further. The execution lock is
// held until the work is done, whoever waits.
func (e *Engine) run(kind string, key uint64, slice time.Duration, work func() *ir.Error) (pending bool,
	err *ir.Error) {
	if e.lock.heldByOther(threadID()) {
		return false, busy()
	}
	e.mu.Lock()
	j := e.job
	if j != nil && (j.kind != kind || j.key != key) {
		// An abandoned wait (Ctrl-C): finish it first.
		e.mu.Unlock()
		if !waitFor(j.done, slice) {
			return true, nil
		}
		e.mu.Lock()
		if e.job == j {
			e.job = nil
		}
		j = nil
	}
	if j == nil {
		e.mu.Unlock()
		if err := e.lock.acquire(threadID()); err != nil {
			return false, err
		}
		j = &job{kind: kind, key: key, done: make(chan struct{})}
		e.mu.Lock()
		e.job = j
		go func() {
			defer close(j.done)
			defer e.lock.release()
			j.err = work()
		}()
	}
	e.mu.Unlock()
	if !waitFor(j.done, slice) {
		return true, nil
	}
	e.mu.Lock()
	if e.job == j {
		e.job = nil
	}
	e.mu.Unlock()
	return false, j.err
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
