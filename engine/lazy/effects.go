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
	Dropped // its base is gone, so nothing can observe it
)

// IsStore reports that the access writes a loc.
func (k EffectKind) IsStore() bool { return k == StoreSemantic || k == StoreMaterialize }

// Effect is one entry of the log. Stores own a reference to Value.
type Effect struct {
	Kind  EffectKind
	Aside bool // the base counts this Commit in Aside
	Base  uint32
	Gen   uint32 // of the base
	Loc   uint32
	Value uint32
	// Prev is the former version, without a reference: it is valid only while PrevSeq matches.
	Prev      uint32
	PrevSeq   uint64
	Mut       uint64 // mutation id
	SourceLoc uint32
}

// effects is the log of ordered accesses that have not run. Every new access comes after all others. A token is the
// index after an effect, counted from the session's begin.
type effects struct {
	list []Effect // list[0] has token first
	// first counts the effects that have been committed.
	first uint64
	muts  uint64 // mutations so far
}

// token returns the index after the last effect.
func (t *effects) token() uint64 { return t.first + uint64(len(t.list)) }

func (t *effects) nextMut() uint64 {
	t.muts++
	return t.muts
}

// dropBase drops the pending stores to base id, with entry b, and their references to values.
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

// drop turns an effect into Dropped.
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

// log appends an effect and returns the token after it.
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

// LoggedEffects counts the effects logged so far, committed or not.
func (s *Session) LoggedEffects() uint64 { return s.effects.token() }

// CommitEffects commits and removes the first n effects, whose values are computed.
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

// ReadyEffects counts the entries at the front of the log, at most limit, whose values are computed or were recorded up
// to seq. It stops before a store of a value recorded after barrier.
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

// LostWrite is a failed store to the tensor that is generation Gen of a base.
type LostWrite struct {
	Base, Gen uint32
	Why       *ir.Failure
}

// undoing is the state of UndoStores for one loc with failed stores.
type undoing struct {
	last int // index in the log of the last failed store
	why  *ir.Failure
	kept uint32 // the value that the tensor goes back to
	cut  bool   // all further stores, up to the last failed one, are undone
}

// UndoStores removes failed stores from the log and returns the lost writes. Earlier stores back to the operator at
// fault belong to the same update and are removed too. A later store that does not fail stays. failure returns why a
// value cannot be computed, nil if it can.
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

// undoStore keeps or removes store i of a loc with a lost write. It reports true for the last failed store.
func (s *Session) undoStore(i int, e *Effect, u *undoing) (last bool) {
	g, b := s.graph, s.bases.at(e.Base)
	if i > u.last {
		e.Prev, e.PrevSeq = 0, 0 // the former version may have been undone
		return false
	}
	if n := g.Node(e.Value); !u.cut && i < u.last && g.Failure(e.Value) == nil && n.Seq < u.why.Seq {
		u.kept = e.Value
		return false
	}
	u.cut = true
	if i == u.last && b.Value == e.Value && u.kept != 0 { // there is no later store
		g.Retain(u.kept)
		b.Value = u.kept
		g.Release(e.Value)
	}
	e.drop(g)
	return i == u.last
}
