package lazy

import "github.com/torchlette/torchlette/ir"

// BindingKind says where the current value of a base is.
type BindingKind uint8

// Kinds of bindings.
const (
	SSA        BindingKind = iota // the value Base.Value
	PendingLoc                    // a loc whose first store is not committed
	LocBound                      // a loc with a committed value
)

// String returns the binding's name in explain.
func (k BindingKind) String() string { return [...]string{"ssa", "pending_loc", "loc"}[k] }

// Base is an alias identity: the storage that a tensor and its views share.
type Base struct {
	Gen     uint32
	Pins    int32 // handles that name it
	Aval    ir.AvalID
	Binding BindingKind
	// Value is the newest value in program order, executed or not; the base holds a reference. An ordered load of a loc
	// returns it.
	Value uint32
	Loc   uint32
	// InitTok is the effect that initialises a pending loc.
	InitTok        uint64
	BindingVersion uint64
	LogicalVersion uint64
	// Scheduled counts the base_commits in program order, Committed the executed ones.
	Scheduled uint64
	Committed uint64
	Aside     uint64 // commits in Scheduled that only some handles see: see ownWrites
	firstTok  uint64 // no effect on the base has an earlier token
	born      uint64 // births after this base was made
}

// Role is the purpose of a loc.
type Role uint8

// Roles of locs.
const (
	TensorState Role = iota
	GradState
)

// String returns the role's name in explain.
func (r Role) String() string {
	return [...]string{"tensor_state", "grad_state"}[r]
}

// Loc is ordered external state.
type Loc struct {
	Base     uint32
	Role     Role
	HasValue bool
	Version  uint64 // committed stores
	Logical  uint64 // scheduled semantic stores
	// Committed is the leaf of the last committed store. The loc holds a reference, which keeps the storage alive.
	Committed uint32
}

// bases is the table of alias identities and of their locs. Entry 0 is unused.
type bases struct {
	list     []Base
	free     []uint32
	locs     []Loc
	freeLocs []uint32
	count    int
	births   uint64 // bases made so far
}

func (t *bases) at(id uint32) *Base { return &t.list[id] }

func (t *bases) loc(id uint32) *Loc { return &t.locs[id] }

// make enters an SSA base over a value.
func (t *bases) make(value uint32, aval ir.AvalID) uint32 {
	id := take(&t.list, &t.free)
	b := &t.list[id]
	gen := b.Gen + 1
	t.births++
	*b = Base{}
	b.Gen, b.Value, b.Aval, b.born = gen, value, aval, t.births
	t.count++
	return id
}

// drop frees a base. Its generation ends, so later writes no longer concern values that autograd saved from it.
func (t *bases) drop(id uint32) {
	b := &t.list[id]
	gen := b.Gen + 1
	*b = Base{}
	b.Gen = gen
	t.free = append(t.free, id)
	t.count--
}

// bind binds a base to a pending loc. Its stores come after token.
func (t *bases) bind(id uint32, role Role, token uint64) *Loc {
	loc := take(&t.locs, &t.freeLocs)
	t.locs[loc] = Loc{Base: id, Role: role}
	b := &t.list[id]
	b.Loc, b.Binding, b.firstTok = loc, PendingLoc, token
	b.BindingVersion++
	return &t.locs[loc]
}

// Base returns entry id.
func (s *Session) Base(id uint32) *Base { return s.bases.at(id) }

// Loc returns entry id.
func (s *Session) Loc(id uint32) *Loc { return s.bases.loc(id) }

// Newest returns the newest value of a base in program order, executed or not.
func (s *Session) Newest(base uint32) uint32 { return s.bases.at(base).Value }

// AvalOf returns the abstract value of a base.
func (s *Session) AvalOf(base uint32) *ir.Aval { return ir.AvalOf(s.bases.at(base).Aval) }

// IsOrdered reports that reads of a base must come after the stores in the log.
func (s *Session) IsOrdered(base uint32) bool { return s.bases.at(base).Binding != SSA }

// Generation distinguishes a base from earlier ones with the same number.
func (s *Session) Generation(base uint32) uint32 { return s.bases.at(base).Gen }

// LiveBases counts the live bases.
func (s *Session) LiveBases() int { return s.bases.count }

// Births counts the bases made so far; see BornSince.
func (s *Session) Births() uint64 { return s.bases.births }

// BornSince reports that a base was made after Births returned mark.
func (s *Session) BornSince(base uint32, mark uint64) bool { return s.bases.at(base).born > mark }

// Fence may refuse writes.
type Fence interface {
	// Refuse returns the error of a write to a base, nil if the write is allowed. rebinding: the write replaces a
	// tensor's base by another one.
	Refuse(base uint32, rebinding bool) *ir.Error
}

// SetFence makes f check all writes from now on; nil allows every write.
func (s *Session) SetFence(f Fence) { s.fence = f }

// Commit implements autograd.Bases.
func (s *Session) Commit(base uint32) (gen uint32, commits uint64) {
	b := s.bases.at(base)
	return b.Gen, b.Scheduled - b.Aside
}

// NewBase makes an SSA base over value, with its own reference.
func (s *Session) NewBase(value uint32) uint32 {
	if len(s.exports.byStore) > 0 {
		value = s.private(value)
	}
	s.graph.Retain(value)
	return s.bases.make(value, s.graph.Node(value).Aval)
}

// dropBase frees a base that no handle names, and drops its pending stores, which nothing can observe.
func (s *Session) dropBase(id uint32) {
	b := s.bases.at(id)
	if b.Loc != 0 {
		s.effects.dropBase(id, b, s.graph)
		l := s.bases.loc(b.Loc)
		s.graph.Release(l.Committed)
		*l = Loc{}
		s.bases.freeLocs = append(s.bases.freeLocs, b.Loc)
	}
	s.graph.Release(b.Value)
	if x := s.exports.byBase[id]; x != nil {
		s.dropExport(x)
	}
	s.bases.drop(id)
}

// Promote turns pending locs whose first store is committed into locs. A stored SSA base stays SSA: its leaf holds the
// value as strongly as a loc does.
func (s *Session) Promote() {
	for i := range s.bases.list {
		b := &s.bases.list[i]
		if b.Pins > 0 && b.Binding == PendingLoc && s.bases.loc(b.Loc).HasValue {
			b.Binding = LocBound
			b.BindingVersion++
		}
	}
}
