package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// job is work that outlives the time slice of the call that began it.
type job struct {
	kind     string
	key      uint64
	owner    int64 // the thread that waits for it
	done     chan struct{}
	err      *ir.Error
	stopping bool // Interrupt asked it to stop
	over     bool
}

// jobs holds the one job there is. Its lock is not held while anything runs, so that a waiter can always look.
type jobs struct {
	mu   sync.Mutex
	cur  atomic.Pointer[job]
	stop device.Stop
	// interrupt: the stop is asked for by Interrupt, and not by a pause.
	interrupt bool
}

// pauseAfter is how long a run keeps the thread that called it: then it pauses and goes on as a job.
const pauseAfter = 20 * time.Millisecond

// current gives the job that runs or whose result nobody has taken.
func (j *jobs) current() *job { return j.cur.Load() }

// forget ends what is known of a job that is done.
func (j *jobs) forget(old *job) { j.cur.CompareAndSwap(old, nil) }

// end clears what was asked of a job that has just ended.
func (j *jobs) end(old *job) {
	j.mu.Lock()
	old.over = true
	if old.stopping {
		j.interrupt = false
		j.stop.Clear()
	}
	j.mu.Unlock()
}

// askToStop asks the job of a thread to stop and gives it, nil where there is none.
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

// interrupted reports whether a stop was an interrupt. A pause ends here.
func (j *jobs) interrupted() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.interrupt {
		j.stop.Clear()
	}
	return j.interrupt
}

// run does work within a time slice. Work that takes longer goes on in its goroutine;
// the call reports pending and is made again to wait further. The execution lock is
// held until the work is done, whoever waits.
func (e *Engine) run(kind string, key uint64, slice time.Duration, work func() *ir.Error) (pending bool,
	err *ir.Error) {
	id := threadID()
	if e.waiter.heldByOther(id) {
		return false, busy()
	}
	j := e.waiter.current()
	if j != nil && (j.kind != kind || j.key != key || j.owner != id || j.stopping) {
		// Another one's, or one that was interrupted: finish it first.
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

// hereOrJob does work within both locks: in the calling thread, or as a job where that takes long. It then reports
// pending when slice passes; call it again. work is told whether it is in the calling thread. long, asked within the
// locks, says that the work is known to be long.
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

// here does work in the calling thread. errPaused says that it takes too long for that: long said so, or a run has
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

// Idle waits until no job is under way, whoever waits for it. It reports pending when slice passes.
func (e *Engine) Idle(slice time.Duration) (pending bool) {
	j := e.waiter.current()
	return j != nil && !waitFor(j.done, slice)
}

// Interrupt stops the work that the calling thread waits for, as when a signal handler has raised an exception. What
// has not been computed is computed by the next read. It waits up to patience for the work to stop, which goes on
// stopping after that.
func (e *Engine) Interrupt(patience time.Duration) {
	if j := e.waiter.askToStop(threadID()); j != nil && waitFor(j.done, patience) {
		e.waiter.forget(j)
	}
}
