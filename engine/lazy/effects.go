package lazy

import "github.com/torchlette/torchlette/ir"

// EffectKind names an ordered access.
type EffectKind uint8

// The ordered accesses.
const (
	Load EffectKind = iota
	StoreSemantic
	StoreMaterialize
	Commit
	Draw    // a Philox offset reservation
	Dropped // its base is gone: nothing can observe it
)

// IsStore reports an access that writes a loc.
func (k EffectKind) IsStore() bool { return k == StoreSemantic || k == StoreMaterialize }

// Effect is one entry of the log. Stores own a reference to Value.
type Effect struct {
	Kind  EffectKind
	Aside bool // a Commit that the base counts in Aside
	Base  uint32
	Gen   uint32 // of the base
	Loc   uint32
	Value uint32
	// Prev is the version before, without a reference: it counts only while PrevSeq matches.
	Prev      uint32
	PrevSeq   uint64
	Mut       uint64 // mutation id
	SourceLoc uint32
}

// effects is the log of ordered accesses that have not run. All accesses are in one line, so a new one comes after
// every other. A token is the index after an effect, counted from the session's begin.
type effects struct {
	list []Effect // list[0] has token first
	// first counts the effects that have been committed.
	first uint64
	muts  uint64 // mutations so far
}

// token is the index after the last effect.
func (t *effects) token() uint64 { return t.first + uint64(len(t.list)) }

func (t *effects) nextMut() uint64 {
	t.muts++
	return t.muts
}

// dropBase drops the pending stores to base id, of which b is the entry, and their references to values.
func (t *effects) dropBase(id uint32, b *Base, g *ir.Graph) {
	from := uint64(0)
	if b.firstTok > t.first {
		from = b.firstTok - t.first
	}
	for i := from; i < uint64(len(t.list)); i++ {
		e := &t.list[i]
		if e.Base == id && e.Gen == b.Gen && (e.Kind.IsStore() || e.Kind == Commit) {
			e.drop(g)
		}
	}
}

// drop makes nothing of an effect.
func (e *Effect) drop(g *ir.Graph) {
	v := e.Value
	e.Kind, e.Value, e.Prev = Dropped, 0, 0
	g.Release(v)
}

// cut removes the first n effects.
func (t *effects) cut(n int) {
	t.list = append(t.list[:0], t.list[n:]...)
	t.first += uint64(n)
}

// log appends an effect and gives the token after it.
func (s *Session) log(e Effect) uint64 {
	if e.Base != 0 {
		e.Gen = s.bases.at(e.Base).Gen
	}
	e.SourceLoc = s.SourceLoc
	s.effects.list = append(s.effects.list, e)
	return s.effects.token()
}

// PendingEffects counts the entries of the log.
func (s *Session) PendingEffects() int { return len(s.effects.list) }

// LoggedEffects counts the effects so far, committed or not.
func (s *Session) LoggedEffects() uint64 { return s.effects.token() }

// CommitEffects commits and removes the first n effects, whose values have been computed.
func (s *Session) CommitEffects(n int) {
	for i := range s.effects.list[:n] {
		e := &s.effects.list[i]
		switch {
		case e.Kind.IsStore():
			l := s.bases.loc(e.Loc)
			l.Version++
			l.HasValue = true
			old := l.Committed
			l.Committed = e.Value // the effect's reference moves to the loc
			s.graph.Release(old)
		case e.Kind == Commit:
			if b := s.bases.at(e.Base); b.Gen == e.Gen {
				b.Committed++
			}
		}
	}
	if n > 0 {
		s.effects.cut(n)
	}
}

// ReadyEffects counts the first entries of the log, limit at most, whose values are computed or were recorded up to
// seq. None comes after a store of a value that was recorded after barrier.
func (s *Session) ReadyEffects(limit int, seq, barrier uint64) int {
	for i := range s.effects.list[:limit] {
		e := &s.effects.list[i]
		if !e.Kind.IsStore() {
			continue
		}
		if n := s.graph.Node(e.Value); n.Op != ir.OpLeaf && n.Seq > seq || n.Seq > barrier {
			return i
		}
	}
	return limit
}

// LostWrite is a store that failed, for the tensor of generation Gen of a base.
type LostWrite struct {
	Base, Gen uint32
	Why       *ir.Failure
}

// undoing is what is known of the stores to one loc of which some fail.
type undoing struct {
	last int // of the failing stores: index in the log
	why  *ir.Failure
	kept uint32 // the value that the tensor goes back to
	cut  bool   // stores from here to the last failing one are undone
}

// UndoStores takes failed stores out of the log and gives the writes that are lost so. Stores before a failed one, back
// to the operator at fault, belong to the same update and go too; a later one that does not fail stays. failure says
// why a value cannot be computed, nil: it can.
func (s *Session) UndoStores(failure func(value uint32) *ir.Failure) (lost []LostWrite) {
	byLoc := map[uint32]*undoing{}
	for i := range s.effects.list {
		e := &s.effects.list[i]
		if !e.Kind.IsStore() {
			continue
		}
		f := failure(e.Value)
		if f == nil {
			continue
		}
		u := byLoc[e.Loc]
		if u == nil {
			u = &undoing{why: f, kept: s.bases.loc(e.Loc).Committed}
			byLoc[e.Loc] = u
		}
		if u.last = i; f.Seq < u.why.Seq {
			u.why = f
		}
	}
	if len(byLoc) == 0 {
		return nil
	}
	for i := range s.effects.list {
		e := &s.effects.list[i]
		if u := byLoc[e.Loc]; e.Kind.IsStore() && u != nil && s.undoStore(i, e, u) {
			lost = append(lost, LostWrite{e.Base, e.Gen, u.why})
		}
	}
	return lost
}

// undoStore decides over store i of a loc that lost a write. It reports the last failing one.
func (s *Session) undoStore(i int, e *Effect, u *undoing) (last bool) {
	g, b := s.graph, s.bases.at(e.Base)
	if i > u.last {
		e.Prev, e.PrevSeq = 0, 0 // it may have been undone
		return false
	}
	if n := g.Node(e.Value); !u.cut && i < u.last && g.Failure(e.Value) == nil && n.Seq < u.why.Seq {
		u.kept = e.Value
		return false
	}
	u.cut = true
	if i == u.last && b.Value == e.Value && u.kept != 0 { // no later store
		g.Retain(u.kept)
		b.Value = u.kept
		g.Release(e.Value)
	}
	e.drop(g)
	return i == u.last
}
