package lazy

import "github.com/torchlette/torchlette/ir"

// savedHistory is the history of a base before a traced function wrote to it: of its handles and of their groups.
type savedHistory struct {
	base    uint32
	handles map[uint64]uint32 // by handle: its edge on the tape, owned
	groups  map[uint32]group  // by number; their edges are owned
}

// RestoreHistories makes the trace accept writes that are part of the gradient. EndTrace then gives older tensors back
// the histories that they had. A captured function may not make such writes, for a call would have to repeat them.
func (s *Session) RestoreHistories() { s.trace.restores = true }

// keepHistory is told of a write of a traced function that would change the history of an older tensor.
func (s *Session) keepHistory(base uint32) {
	if s.trace == nil || s.BornSince(base, s.trace.Mark.births) {
		return
	}
	if !s.trace.restores {
		panic(ir.Errorf(ir.ErrRuntime, "a captured function writes in place to a tensor from outside, and the write is part "+
			"of the gradient: write under no_grad, or to a clone"))
	}
	for i := range s.trace.histories {
		if s.trace.histories[i].base == base {
			return
		}
	}
	saved := savedHistory{base, map[uint64]uint32{}, map[uint32]group{}}
	s.EachHandle(func(hd uint64, h *Handle) {
		if h.Base != base {
			return
		}
		s.tape.Retain(h.Tape)
		saved.handles[hd] = h.Tape
		if _, ok := saved.groups[h.Group]; h.Group != 0 && !ok {
			g := *s.groups.at(h.Group)
			s.tape.Retain(g.tape)
			saved.groups[h.Group] = g
		}
	})
	s.trace.histories = append(s.trace.histories, saved)
}

// restoreHistories gives older tensors back the histories that they had before the trace.
func (s *Session) restoreHistories(t *Trace) {
	for i := range t.histories {
		saved := &t.histories[i]
		s.EachHandle(func(hd uint64, h *Handle) {
			if h.Base != saved.base {
				return
			}
			edge, old := saved.handles[hd]
			if g, ok := saved.groups[h.Group]; old && h.Group != 0 && !ok {
				// The write made the group, for this handle alone.
				s.tape.Retain(edge)
				g.tape, g.root, g.rootOff = edge, h.Layout, h.Offset
				saved.groups[h.Group] = g
			}
			if !old || h.Group != 0 {
				s.tape.Release(edge)
				edge = 0 // the group's history, which is read anew
			}
			s.tape.Release(h.Tape)
			h.Tape = edge
		})
		for id, g := range saved.groups {
			now := s.groups.at(id)
			s.tape.Release(now.tape)
			now.tape, now.root, now.rootOff = g.tape, g.root, g.rootOff
			now.version++
		}
	}
}
