package lazy

import "github.com/torchlette/torchlette/ir"

// birth says when a base was made, among those made while there are fences; gen tells it from others of its number.
type birth struct {
	gen uint32
	at  uint64
}

// Fence lets refuse decide about writes from now on, and notes the ages of bases for it; nil ends that. rebinding:
// a tensor is to name another base in the place of this one.
func (s *Session) Fence(refuse func(base uint32, rebinding bool) *ir.Error) {
	switch {
	case refuse == nil:
		s.born = nil
	case s.fenced == nil:
		s.born = map[uint32]birth{}
	}
	s.fenced = refuse
}

// Births counts the bases made so far while there are fences.
func (s *Session) Births() uint64 { return s.births }

// Born gives the count of births when the base was made: 0 for one that is older than all fences.
func (s *Session) Born(base uint32) uint64 {
	if b, ok := s.born[base]; ok && b.gen == s.bases[base].Gen {
		return b.at
	}
	return 0
}
