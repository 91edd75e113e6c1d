package engine

import (
	"sync"

	"github.com/torchlette/torchlette/ir"
)

// table maps numbers to open sessions. Its own lock lets runs proceed without the engine's lock.
type table[T any] struct {
	mu   sync.RWMutex
	next uint64
	list map[uint64]*T
}

// add gives a session a number.
func (t *table[T]) add(s *T) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.list == nil {
		t.list = map[uint64]*T{}
	}
	t.next++
	t.list[t.next] = s
	return t.next
}

// of returns the session of a number.
func (t *table[T]) of(id uint64) (*T, *ir.Error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if s := t.list[id]; s != nil {
		return s, nil
	}
	return nil, ir.Errorf(ir.ErrHandle, "session %d is unknown or closed", id)
}

// take removes a session.
func (t *table[T]) take(id uint64) (*T, *ir.Error) {
	s, err := t.of(id)
	if err == nil {
		t.mu.Lock()
		delete(t.list, id)
		t.mu.Unlock()
	}
	return s, err
}

// SessionOf returns the session of a number.
func (e *Engine) SessionOf(id uint64) (*InferenceSession, *ir.Error) { return e.sessions.of(id) }

// CloseSession closes a session.
func (e *Engine) CloseSession(id uint64) *ir.Error {
	s, err := e.sessions.take(id)
	if err == nil {
		s.Close()
	}
	return err
}
