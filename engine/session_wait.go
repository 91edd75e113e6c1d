package engine

import (
	"time"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// sessionRun is a run of a session in a goroutine. Its caller waits for it in time slices.
type sessionRun struct {
	stop device.Stop
	done chan struct{}
	err  *ir.Error
}

// BeginSession does what Run does on results with memory or, with prepare, what Prepare does. A plan that is known to
// be brief runs in the calling thread. Other work runs in a goroutine: after slice the call reports pending and returns
// the run's number, for WaitSession. Until WaitSession reports an end, the memory of in and out belongs to the run.
func (e *Engine) BeginSession(id uint64, in, out []SessionValue, prepare bool, slice time.Duration) (run uint64,
	pending bool, err *ir.Error) {
	s, err := e.SessionOf(id)
	if err != nil {
		return 0, false, err
	}
	if done, err := s.briefly(in, out, prepare); done {
		return 0, false, err
	}
	r := s.beside(in, out, prepare)
	if waitFor(r.done, slice) {
		return 0, false, r.err
	}
	return e.sessionRuns.add(r), true, nil
}

// WaitSession waits for a run that BeginSession has left pending. With stop it asks the run to end early, and waits for
// the end, whatever slice is.
func (e *Engine) WaitSession(run uint64, stop bool, slice time.Duration) (pending bool, err *ir.Error) {
	r, err := e.sessionRuns.of(run)
	if err != nil {
		return false, err
	}
	if stop {
		r.stop.Ask()
		<-r.done
	}
	if !waitFor(r.done, slice) {
		return true, nil
	}
	_, err = e.sessionRuns.take(run)
	if err == nil {
		err = r.err
	}
	return false, err
}

// briefly does the work in the calling thread if nobody else runs the session and if the plan is there and brief.
func (s *InferenceSession) briefly(in, out []SessionValue, prepare bool) (done bool, err *ir.Error) {
	if !s.mu.TryLock() {
		return false, nil
	}
	defer s.mu.Unlock()
	f, err := s.known(in)
	switch {
	case err != nil:
		return true, err
	case f == nil || !f.brief && !prepare:
		return false, nil
	case prepare:
		s.describe(f, out)
		return true, nil
	}
	return true, s.runInto(f, out, nil)
}

// beside does the work in a goroutine. Its calls of the engine count as the calling thread's.
func (s *InferenceSession) beside(in, out []SessionValue, prepare bool) *sessionRun {
	r, caller := &sessionRun{done: make(chan struct{})}, threadID()
	go func() {
		defer close(r.done)
		defer func() {
			if x := recover(); x != nil {
				r.err = caught(x)
			}
		}()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.thread, s.stop = caller, &r.stop
		defer func() { s.thread, s.stop = 0, nil }()
		f, err := s.prepare(in)
		switch {
		case err != nil:
		case prepare:
			s.describe(f, out)
		default:
			began := time.Now()
			err = s.runInto(f, out, nil)
			f.brief = !f.open && time.Since(began) < pauseAfter
		}
		r.err = err
	}()
	return r
}

// stopped is an error if the run is asked to end early.
func (s *InferenceSession) stopped() *ir.Error {
	if s.stop.Asked() {
		return errInterrupted
	}
	return nil
}

// openEnded reports that the run time of a program depends on values: it has a loop that a condition ends.
func openEnded(g *program.Program) bool {
	for i := range g.Nodes {
		if !g.Nodes[i].IsPrim() || g.Prim(i).ID != prim.Known.Loop {
			continue
		}
		l := op.LoopOf(g.Attrs(i))
		body, ok := l.Body().(*program.Program)
		if l.While || !ok || openEnded(body) {
			return true
		}
	}
	return false
}
