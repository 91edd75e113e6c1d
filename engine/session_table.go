package engine

import (
	"sync"

	"github.com/torchlette/torchlette/ir"
)

// sessions maps numbers to open sessions. It has a lock of its own, so that runs do not wait for the engine.
type sessions struct {
	mu   sync.RWMutex
	next uint64
	list map[uint64]*InferenceSession
}

// add gives a session a number.
func (t *sessions) add(s *InferenceSession) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.list == nil {
		t.list = map[uint64]*InferenceSession{}
	}
	t.next++
	t.list[t.next] = s
	return t.next
}

// SessionOf returns the session of a number.
func (e *Engine) SessionOf(id uint64) (*InferenceSession, *ir.Error) {
	e.sessions.mu.RLock()
	defer e.sessions.mu.RUnlock()
	if s := e.sessions.list[id]; s != nil {
		return s, nil
	}
	return nil, ir.Errorf(ir.ErrHandle, "session %d is unknown or closed", id)
}

// CloseSession closes a session.
func (e *Engine) CloseSession(id uint64) *ir.Error {
	s, err := e.SessionOf(id)
	if err != nil {
		return err
	}
	e.sessions.mu.Lock()
	delete(e.sessions.list, id)
	e.sessions.mu.Unlock()
	s.Close()
	return nil
}
