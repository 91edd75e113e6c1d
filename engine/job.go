package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// job is work that outlives the call that began it.
type job struct {
	kind     string
	key      uint64
	owner    int64 // the thread that waits for it
	done     chan struct{}
	err      *ir.Error
	stopping bool // Interrupt was called
	over     bool
}

// jobs holds the one job there can be. Its lock is never held while the job runs, so a waiter can always look.
type jobs struct {
	mu   sync.Mutex
	cur  atomic.Pointer[job]
	stop device.Stop
	// interrupt: the stop was requested by Interrupt rather than for a pause.
	interrupt bool
}

// pauseAfter is how long a run keeps its caller's thread. Then it pauses and continues as a job.
const pauseAfter = 20 * time.Millisecond

// current returns the job that runs, or whose result nobody has taken yet.
func (j *jobs) current() *job { return j.cur.Load() }

// forget drops a finished job.
func (j *jobs) forget(old *job) { j.cur.CompareAndSwap(old, nil) }

// end clears the stop request of a job that has just ended.
func (j *jobs) end(old *job) {
	j.mu.Lock()
	old.over = true
	if old.stopping {
		j.interrupt = false
		j.stop.Clear()
	}
	j.mu.Unlock()
}

// askToStop asks the job of a thread to stop and returns it, nil for none.
func (j *jobs) askToStop(owner int64) *job {
	j.mu.Lock()
	defer j.mu.Unlock()
	cur := j.current()
	if cur == nil || cur.owner != owner {
		return nil
	}
	if !cur.over {
		cur.stopping, j.interrupt = true, true
		j.stop.Ask()
	}
	return cur
}

// interrupted reports whether Interrupt caused the stop. It clears the request, so a pause ends here.
func (j *jobs) interrupted() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.interrupt {
		j.stop.Clear()
	}
	return j.interrupt
}

// run runs work for at most one time slice. Longer work continues in its goroutine: the call then reports pending, and
// the caller calls again to wait on. The work keeps the execution lock until it is done, whoever waits.
func (e *Engine) run(kind string, key uint64, slice time.Duration, work func() *ir.Error) (pending bool,
	err *ir.Error) {
	id := threadID()
	if e.waiter.heldByOther(id) {
		return false, busy()
	}
	j := e.waiter.current()
	if j != nil && (j.kind != kind || j.key != key || j.owner != id || j.stopping) {
		// The job of another caller, or one that was interrupted: finish it first.
		if !waitFor(j.done, slice) {
			return true, nil
		}
		e.waiter.forget(j)
		j = nil
	}
	if j == nil {
		ok, err := e.waiter.acquireWithin(id, slice)
		if !ok {
			return err == nil, err
		}
		atomic.StoreInt32(&e.cfg.State.Busy, 1)
		j = &job{kind: kind, key: key, owner: id, done: make(chan struct{})}
		e.waiter.cur.Store(j)
		go func() {
			defer close(j.done)
			defer e.waiter.release()
			defer func() {
				atomic.StoreInt32(&e.cfg.State.Busy, 0)
				e.waiter.end(j)
			}()
			j.err = work()
		}()
	}
	if !waitFor(j.done, slice) {
		return true, nil
	}
	e.waiter.forget(j)
	return false, j.err
}

// hereOrJob runs work within both locks: in the calling thread or, if it takes long, as a job. It reports pending when
// slice has passed; call it again. work learns whether it runs in the calling thread. long runs within the locks and
// reports that the work is known to be long.
func (e *Engine) hereOrJob(kind string, key uint64, slice time.Duration, long func() bool,
	work func(here bool) *ir.Error) (pending bool, err *ir.Error) {
	if e.waiter.current() == nil {
		if pending, err = e.here(slice, long, work); err != errPaused {
			return pending, err
		}
	}
	return e.run(kind, key, slice, func() (err *ir.Error) {
		defer e.leave(&err)
		e.enter()
		return work(false)
	})
}

// here runs work in the calling thread. It returns errPaused if the work must become a job: long said so, or a run has
// paused.
func (e *Engine) here(slice time.Duration, long func() bool, work func(here bool) *ir.Error) (pending bool,
	err *ir.Error) {
	if ok, err := e.waiter.acquireWithin(threadID(), slice); !ok {
		return err == nil, err
	}
	defer e.waiter.release()
	defer e.leave(&err)
	e.enter()
	if long() {
		return false, errPaused
	}
	e.waiter.pausable = true
	defer func() { e.waiter.pausable = false }()
	return false, work(true)
}

// Idle waits until no job runs, whoever waits for it. It reports pending when slice has passed.
func (e *Engine) Idle(slice time.Duration) (pending bool) {
	j := e.waiter.current()
	return j != nil && !waitFor(j.done, slice)
}

// Interrupt stops the work that the calling thread waits for, as when a signal handler raises an exception. It waits at
// most patience for the work to stop; the stop itself then completes later. Values not computed yet stay pending, and
// the next read computes them.
func (e *Engine) Interrupt(patience time.Duration) {
	if j := e.waiter.askToStop(threadID()); j != nil && waitFor(j.done, patience) {
		e.waiter.forget(j)
	}
}
