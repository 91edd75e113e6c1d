package device

import (
	"errors"
	"sync/atomic"
	"time"
)

// ErrStopped is what Run returns when Stop ended it early. Binding.At says where.
var ErrStopped = errors.New("the run was stopped")

// Stop asks a run to end early. Runs poll it between steps and between the pieces of long steps. The zero value asks
// for nothing.
type Stop struct {
	// word is 0: go on; 1: stop; -n: the n-th poll from now stops, for tests.
	word atomic.Int32
}

// Ask makes the current runs stop at their next poll.
func (s *Stop) Ask() { s.word.Store(1) }

// AskAt makes the n-th poll from now stop, for tests that stop at every poll.
func (s *Stop) AskAt(n int32) { s.word.Store(-n) }

// Clear lets runs go on.
func (s *Stop) Clear() { s.word.Store(0) }

// Asked polls. A nil Stop asks for nothing.
func (s *Stop) Asked() bool {
	if s == nil {
		return false
	}
	switch v := s.word.Load(); {
	case v == 0:
		return false
	case v > 0:
		return true
	}
	return s.word.Add(1) == 0 && s.word.CompareAndSwap(0, 1)
}

// Asked polls the requests to end the run: Stop's, and the deadline.
func (b *Binding) Asked() bool {
	return b.Stop.Asked() || !b.Deadline.IsZero() && !time.Now().Before(b.Deadline)
}

// Patience is the time left until the deadline, at least 1; 0: there is no deadline.
func (b *Binding) Patience() time.Duration {
	if b.Deadline.IsZero() {
		return 0
	}
	return max(time.Until(b.Deadline), 1)
}

// Word is the word that kernels in C poll by the rule of Asked; nil for a nil Stop.
func (s *Stop) Word() *atomic.Int32 {
	if s == nil {
		return nil
	}
	return &s.word
}

// Position is where in a program a run stops or begins. The zero value is the beginning. Only the device reads Step and
// Tile.
type Position struct {
	Step int
	Tile int64
	// Begun: steps of the list given to Build from number Begun on have written nothing.
	Begun int
}
