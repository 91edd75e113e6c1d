package lazy

import "github.com/torchlette/torchlette/ir"

// BindingKind says where the truth about a base lives.
type BindingKind uint8

// The bindings.
const (
	SSA        BindingKind = iota // the value Base.Value
	PendingLoc                    // a loc whose first store is not committed
	LocBound                      // a loc with a committed value
)

// String names the binding as explain prints it.
func (k BindingKind) String() string { return [...]string{"ssa", "pending_loc", "loc"}[k] }

// Base is an alias identity: what a tensor and its views share.
type Base struct {
	Gen     uint32
	Pins    int32 // handles that name it
	Aval    ir.AvalID
	Binding BindingKind
	// Value is the newest value in program order, executed or not; the base holds a
	// reference. For a loc it is what an ordered load returns.
	Value uint32
	Loc   uint32
	// InitTok is the effect that initialises a pending loc.
	InitTok        uint64
	BindingVersion uint64
	LogicalVersion uint64
	// Scheduled counts base_commits in program order; Committed those executed.
	Scheduled uint64
	Committed uint64
	Aside     uint64 // those of Scheduled that are not for all to see: see ownWrites
	firstTok  uint64 // no effect names the base before this token
	born      uint64 // count of bases made when it was made, itself included
}

// Role classes a loc.
type Role uint8

// The roles.
const (
	TensorState Role = iota
	GradState
)

// String names the role as explain prints it.
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
	// Committed is the leaf of the last committed store: the loc's strong storage. The loc
	// holds a reference.
	Committed uint32
}

// bases is the table of alias identities and of the locs that they are bound to. Entry 0 is none.
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

// drop frees a base. What autograd saved of it can no longer be modified: its generation ends.
func (t *bases) drop(id uint32) {
	b := &t.list[id]
	gen := b.Gen + 1
	*b = Base{}
	b.Gen = gen
	t.free = append(t.free, id)
	t.count--
}

// bind gives a base a pending loc, whose stores come after token.
func (t *bases) bind(id uint32, role Role, token uint64) *Loc {
	loc := take(&t.locs, &t.freeLocs)
	t.locs[loc] = Loc{Base: id, Role: role}
	b := &t.list[id]
	b.Loc, b.Binding, b.firstTok = loc, PendingLoc, token
	b.BindingVersion++
	return &t.locs[loc]
}

// Base gives entry id.
func (s *Session) Base(id uint32) *Base { return s.bases.at(id) }

// Loc gives entry id.
func (s *Session) Loc(id uint32) *Loc { return s.bases.loc(id) }

// Newest gives the newest value of a base in program order, executed or not.
func (s *Session) Newest(base uint32) uint32 { return s.bases.at(base).Value }

// AvalOf describes the values of a base.
func (s *Session) AvalOf(base uint32) *ir.Aval { return ir.AvalOf(s.bases.at(base).Aval) }

// IsOrdered reports a base whose reads come after the stores that the log has.
func (s *Session) IsOrdered(base uint32) bool { return s.bases.at(base).Binding != SSA }

// Generation tells a base from others that had its number before.
func (s *Session) Generation(base uint32) uint32 { return s.bases.at(base).Gen }

// LiveBases counts the bases.
func (s *Session) LiveBases() int { return s.bases.count }

// Births counts the bases made so far. It is a mark: see BornSince.
func (s *Session) Births() uint64 { return s.bases.births }

// BornSince reports a base that was made after Births gave mark.
func (s *Session) BornSince(base uint32, mark uint64) bool { return s.bases.at(base).born > mark }

// Fence decides about writes.
type Fence interface {
	// Refuse gives the error of a write to a base, nil where it is allowed. rebinding: a tensor is to name another base
	// in the place of this one.
	Refuse(base uint32, rebinding bool) *ir.Error
}

// SetFence lets f decide about writes from now on; nil allows all.
func (s *Session) SetFence(f Fence) { s.fence = f }

// Commit implements autograd.Bases.
func (s *Session) Commit(base uint32) (gen uint32, commits uint64) {
	b := s.bases.at(base)
	return b.Gen, b.Scheduled - b.Aside
}

// NewBase makes an SSA base over value, taking a reference of its own.
func (s *Session) NewBase(value uint32) uint32 {
	s.graph.Retain(value)
	return s.bases.make(value, s.graph.Node(value).Aval)
}

// dropBase frees a base that no handle names. Pending stores to it can no longer be
// observed and go too.
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
	s.bases.drop(id)
}

// Promote makes locs of the pending locs whose first store is committed. An SSA base whose value is stored stays one:
// its leaf holds the value as strongly as a loc does.
func (s *Session) Promote() {
	for i := range s.bases.list {
		b := &s.bases.list[i]
		if b.Pins > 0 && b.Binding == PendingLoc && s.bases.loc(b.Loc).HasValue {
			b.Binding = LocBound
			b.BindingVersion++
		}
	}
}
