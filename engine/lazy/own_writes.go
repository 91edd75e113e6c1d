package lazy

// Tensor.data is an alias with a write count of its own: backward ignores its writes when it checks the tensor. Aliases
// of the alias share this count. The base counts such writes in Aside too, so Scheduled - Aside counts the others.

// ownWrites is a write count shared by some handles.
type ownWrites struct {
	refs int32
	n    uint64
}

// ownCounts is the table of such counts. Entry 0 means that the base counts.
type ownCounts struct {
	list []ownWrites
	free []uint32
}

// shareWrites makes h share the write count of f, or have a new one with own.
func (s *Session) shareWrites(h, f *Handle, own bool) {
	h.Writes = f.Writes
	if own {
		h.Writes = take(&s.ownCounts.list, &s.ownCounts.free)
	}
	if h.Writes != 0 {
		s.ownCounts.list[h.Writes].refs++
	}
}

func (s *Session) dropWrites(id uint32) {
	if id == 0 {
		return
	}
	c := &s.ownCounts.list[id]
	if c.refs--; c.refs == 0 {
		*c = ownWrites{}
		s.ownCounts.free = append(s.ownCounts.free, id)
	}
}

// countAside counts the last logged commit for h alone, if h has its own count.
func (s *Session) countAside(h *Handle) {
	if h.Writes != 0 {
		s.ownCounts.list[h.Writes].n++
		s.bases.at(h.Base).Aside++
		s.effects.list[len(s.effects.list)-1].Aside = true
	}
}

// Version returns the number of writes that h sees.
func (s *Session) Version(h *Handle) uint64 {
	if h.Writes != 0 {
		return s.ownCounts.list[h.Writes].n
	}
	_, commits := s.Commit(h.Base)
	return commits
}
