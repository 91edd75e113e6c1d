package lazy

// Tensor.data is an alias whose writes backward does not see in the tensor: it counts them for itself, and its aliases
// count with it. The base counts them in Aside, too, so that what is left are the writes of the others.

// ownWrites is a count that some handles share.
type ownWrites struct {
	refs int32
	n    uint64
}

// ownCounts is the table of such counts. Entry 0 is none: the base counts.
type ownCounts struct {
	list []ownWrites
	free []uint32
}

// shareWrites lets h count with f, or for itself if own.
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

// countAside counts the commit that was logged last for h alone, if h was made by Tensor.data.
func (s *Session) countAside(h *Handle) {
	if h.Writes != 0 {
		s.ownCounts.list[h.Writes].n++
		s.bases.at(h.Base).Aside++
		s.effects.list[len(s.effects.list)-1].Aside = true
	}
}

// Version counts the writes that h sees as its own.
func (s *Session) Version(h *Handle) uint64 {
	if h.Writes != 0 {
		return s.ownCounts.list[h.Writes].n
	}
	_, commits := s.Commit(h.Base)
	return commits
}
