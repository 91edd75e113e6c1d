package lazy

import (
	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

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
	// Aside counts those of Scheduled that tensors made by .data have written: these count for themselves.
	Aside    uint64
	firstTok uint64 // no effect names the base before this token
	born     uint64 // Graph.Seq when it was made
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

// Handle flags.
const (
	FlagLeafGrad uint16 = 1 << iota // a leaf that requires grad
	FlagRetain
	FlagKept
	FlagDisposed
	FlagInternal // held by the engine, not by the user
	FlagReserved // given out ahead of its tensor: see Reserve
	FlagView     // made as a view of another tensor, whose history it shares
)

// Handle is one tensor object: a view of a base, with its place on the tape.
type Handle struct {
	Gen       uint32 // 0: free
	Base      uint32
	Layout    ir.LayoutID
	Offset    int64
	Group     uint32 // history group; 0: the handle's own Tape counts
	Tape      uint32 // cached edge, owned
	TapeV     uint32 // group version that Tape is of
	Flags     uint16
	SourceLoc uint32
	Grad      uint64 // internal handle of the grad, 0 for None
	// Writes counts the writes of a tensor made by .data and of its aliases; nil where the base counts.
	Writes *uint64
}

// Group is a history shared by a tensor and its views; a detached alias has another
// group over the same base.
type Group struct {
	Refs    int32
	Version uint32
	Tape    uint32 // edge of the root view's value, owned
	Root    ir.LayoutID
	RootOff int64
	Leaf    bool // the root is a leaf that requires grad
}

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

// State is everything the user's program has made. The engine's lock guards it.
type Session struct {
	Graph   *ir.Graph
	Tape    *autograd.Tape
	bases   []Base
	freeB   []uint32
	handles []Handle
	freeH   []uint32
	// reserved, when not 0, is the slot that the next NewHandle fills.
	reserved uint32
	groups   []Group
	freeG    []uint32
	locs     []Loc
	freeL    []uint32

	// Effects[0] has token TokenBase; tokGlobal is TokenBase+len(Effects).
	Effects   []Effect
	TokenBase uint64
	muts      uint64

	scratchV []uint32 // values with a reference of the call in progress
	scratchT []uint32 // tape edges likewise

	GradMode  bool
	Inference bool
	// Autocast is the dtype that operators cast to on the CPU and on GPUs; InvalidDType outside of such a context.
	Autocast [2]ir.DType
	// Deterministic: primitives that are op.Prim.Unordered are recorded with op.Deterministic.
	Deterministic bool
	// RefuseDraws: a draw of random numbers is an error, as in a function that vmap maps without a randomness.
	RefuseDraws  bool
	taping       bool // tape is on for the present recording
	Default      ir.DType
	DefaultDev   ir.DeviceID
	SourceLoc    uint32
	seed         uint64
	drawOffset   uint64
	scopes       [][]uint64
	Epoch        uint64
	LiveHandles  int
	LiveBases    int
	Recorded     uint64
	fast         map[fastKey]ir.DType
	lastFastKey  fastKey
	lastFastType ir.DType
	inBuf        [2]op.Val
	outBuf       []op.Val
	traces       traceCache
	scalarBuf    []uint64
	edgeBuf      []ir.Edge
	avalBuf      []ir.AvalID
	specBuf      []op.OutSpec
	// PendingBytes estimates what the unexecuted nodes will write.
	PendingBytes int64
	// fenced, when given, refuses writes; born has what was made since. See Fence.
	fenced func(base uint32, rebinding bool) *ir.Error
	born   map[uint32]birth
	births uint64
	// Choose finds the default device when it is first needed.
	Choose func() ir.DeviceID
	// Supports tells whether a device stores a dtype.
	Supports func(ir.DeviceID, ir.DType) bool
	// IndexRange bounds the elements of an index tensor that came from the host, so that a bad index raises at the
	// user's line: with exact these are the least and the greatest element of the view, else of all its storage.
	IndexRange func(v *op.Val, exact bool) (lo, hi int64, ok bool)
}

// New makes an empty state.
func New() *Session {
	s := &Session{Graph: ir.NewGraph(), bases: make([]Base, 1), handles: make([]Handle, 1), groups: make([]Group, 1),
		locs:     make([]Loc, 1),
		GradMode: true, Default: ir.F32, fast: map[fastKey]ir.DType{}}
	s.Tape = autograd.New(s.Graph, s)
	return s
}

// Commit implements autograd.Bases.
func (s *Session) Commit(base uint32) (gen uint32, commits uint64) {
	b := &s.bases[base]
	return b.Gen, b.Scheduled - b.Aside
}

// Version counts the writes that h sees as its own: those of its base, or of the aliases of one .data.
func (s *Session) Version(h *Handle) uint64 {
	if h.Writes != nil {
		return *h.Writes
	}
	_, commits := s.Commit(h.Base)
	return commits
}

// Base gives entry id.
func (s *Session) Base(id uint32) *Base { return &s.bases[id] }

// Loc gives entry id.
func (s *Session) Loc(id uint32) *Loc { return &s.locs[id] }

func take[T any](list *[]T, free *[]uint32) uint32 {
	if k := len(*free); k > 0 {
		id := (*free)[k-1]
		*free = (*free)[:k-1]
		return id
	}
	var zero T
	*list = append(*list, zero)
	return uint32(len(*list) - 1)
}

// NewBase makes an SSA base over value, taking a reference of its own.
func (s *Session) NewBase(value uint32) uint32 {
	id := take(&s.bases, &s.freeB)
	b := &s.bases[id]
	gen := b.Gen + 1
	*b = Base{}
	b.Gen, b.Value, b.Aval, b.born = gen, value, s.Graph.Node(value).Aval, s.Graph.Seq()
	if s.fenced != nil {
		s.births++
		s.born[id] = birth{gen, s.births}
	}
	s.Graph.Retain(value)
	s.LiveBases++
	return id
}

// dropBase frees a base that no handle names. Pending stores to it can no longer be
// observed and go too.
func (s *Session) dropBase(id uint32) {
	b := &s.bases[id]
	if b.Loc != 0 {
		first := uint64(0)
		if b.firstTok > s.TokenBase {
			first = b.firstTok - s.TokenBase
		}
		for i := first; i < uint64(len(s.Effects)); i++ {
			e := &s.Effects[i]
			if e.Base == id && e.Gen == b.Gen && (e.Kind == StoreSemantic || e.Kind == StoreMaterialize || e.Kind == Commit) {
				v := e.Value
				e.Kind, e.Value, e.Prev = Dropped, 0, 0
				s.Graph.Release(v)
			}
		}
		s.freeLoc(b.Loc)
	}
	s.Graph.Release(b.Value)
	gen := b.Gen + 1 // what autograd saved of it can no longer be modified
	*b = Base{}
	b.Gen = gen
	s.freeB = append(s.freeB, id)
	s.LiveBases--
}

func (s *Session) newLoc(base uint32, role Role) uint32 {
	id := take(&s.locs, &s.freeL)
	s.locs[id] = Loc{Base: base, Role: role}
	s.bases[base].firstTok = s.Token()
	return id
}

func (s *Session) freeLoc(id uint32) {
	s.Graph.Release(s.locs[id].Committed)
	s.locs[id] = Loc{}
	s.freeL = append(s.freeL, id)
}

// slot takes a free handle and starts its next generation.
func (s *Session) slot() uint32 {
	id := take(&s.handles, &s.freeH)
	h := &s.handles[id]
	h.Gen = (h.Gen&0x7FFFFFFF + 1) | 0x80000000
	return id
}

// Reserve gives out handles ahead of their tensors, which Fill then names. Until then using one is an error.
func (s *Session) Reserve(hs []uint64) {
	for i := range hs {
		id := s.slot()
		h := &s.handles[id]
		h.Flags = FlagReserved
		hs[i] = uint64(h.Gen)<<32 | uint64(id)
	}
}

// Fill makes the reserved handle hd that of the next tensor.
func (s *Session) Fill(hd uint64) *ir.Error {
	id := uint32(hd)
	if int(id) >= len(s.handles) || s.handles[id].Gen != uint32(hd>>32) || s.handles[id].Flags != FlagReserved {
		return ir.Errorf(ir.ErrHandle, "handle %#x was not reserved", hd)
	}
	s.reserved = id
	return nil
}

// NewHandle makes a handle for a view of base.
func (s *Session) NewHandle(base uint32, l ir.LayoutID, off int64, flags uint16) uint64 {
	id := s.reserved
	if s.reserved = 0; id == 0 {
		id = s.slot()
	}
	h := &s.handles[id]
	gen := h.Gen
	*h = Handle{} // then field by field: a literal would be made elsewhere and copied
	h.Gen, h.Base, h.Layout, h.Offset, h.Flags, h.SourceLoc = gen, base, l, off, flags, s.SourceLoc
	s.bases[base].Pins++
	s.LiveHandles++
	hd := uint64(h.Gen)<<32 | uint64(id)
	if n := len(s.scopes); n > 0 && flags&FlagInternal == 0 {
		s.scopes[n-1] = append(s.scopes[n-1], hd)
	}
	return hd
}

// Handle resolves hd. Stale, forged and disposed handles are errors.
func (s *Session) Handle(hd uint64) (*Handle, *ir.Error) {
	id := uint32(hd)
	if int(id) >= len(s.handles) || id == 0 || s.handles[id].Gen != uint32(hd>>32) || s.handles[id].Gen&0x80000000 == 0 {
		return nil, ir.Errorf(ir.ErrHandle, "handle %#x is stale or was never made by this engine", hd)
	}
	h := &s.handles[id]
	if h.Flags&FlagDisposed != 0 {
		return nil, ir.Errorf(ir.ErrDisposed, "tensor was disposed (by dispose() or at the end of its tidy scope)")
	}
	if h.Flags&FlagReserved != 0 {
		return nil, ir.Errorf(ir.ErrRuntime, "the tensor does not exist: the operator that was to make it failed")
	}
	return h, nil
}

// strip lets go of all that a handle owns but the slot itself.
func (s *Session) strip(h *Handle) {
	base, group, tape, grad := h.Base, h.Group, h.Tape, h.Grad
	h.Base, h.Group, h.Tape, h.Grad = 0, 0, 0, 0
	if tape != 0 {
		s.Tape.Release(tape)
	}
	s.dropGroup(group)
	if grad != 0 {
		s.Release(grad)
	}
	b := &s.bases[base]
	if b.Pins--; b.Pins == 0 {
		s.dropBase(base)
	}
}

// Release ends a handle; unknown handles are ignored.
func (s *Session) Release(hd uint64) {
	id := uint32(hd)
	if int(id) >= len(s.handles) || id == 0 || s.handles[id].Gen != uint32(hd>>32) {
		return
	}
	h := &s.handles[id]
	if h.Gen&0x80000000 == 0 {
		return
	}
	switch {
	case h.Flags&FlagReserved != 0:
		s.LiveHandles++ // it was not counted
	case h.Flags&FlagDisposed == 0:
		s.strip(h)
	}
	h.Gen &^= 0x80000000
	s.LiveHandles--
	s.freeH = append(s.freeH, id)
}

// Dispose ends what a handle refers to; the handle stays, and using it is an error.
// Idempotent; unknown handles are ignored.
func (s *Session) Dispose(hd uint64) {
	if h, err := s.Handle(hd); err == nil {
		h.Flags |= FlagDisposed
		s.strip(h)
	}
}

func (s *Session) dropGroup(id uint32) {
	if id == 0 {
		return
	}
	g := &s.groups[id]
	if g.Refs--; g.Refs == 0 {
		t := g.Tape
		*g = Group{}
		s.freeG = append(s.freeG, id)
		s.Tape.Release(t)
	}
}

// Scopes exchanges the open scopes.
func (s *Session) Scopes(next [][]uint64) (open [][]uint64) {
	open, s.scopes = s.scopes, next
	return open
}

// TidyBegin opens a scope.
func (s *Session) TidyBegin() { s.scopes = append(s.scopes, nil) }

// TidyEnd closes the innermost scope: its handles are disposed unless kept or returned.
// Returned handles are kept: no scope around disposes of them either.
func (s *Session) TidyEnd(returned []uint64) {
	n := len(s.scopes)
	if n == 0 {
		return
	}
	own := s.scopes[n-1]
	s.scopes = s.scopes[:n-1]
	for _, r := range returned {
		_ = s.Keep(r) // one that is disposed of stays so
	}
	for _, hd := range own {
		h, err := s.Handle(hd)
		if err != nil || h.Flags&FlagKept != 0 {
			continue
		}
		s.Dispose(hd)
	}
}

// Keep lets a handle outlive its scope.
func (s *Session) Keep(hd uint64) *ir.Error {
	h, err := s.Handle(hd)
	if err == nil {
		h.Flags |= FlagKept
	}
	return err
}

// Drain releases what the call in progress held.
func (s *Session) Drain() {
	s.traces.capture, s.reserved = nil, 0
	for _, v := range s.scratchV {
		s.Graph.Release(v)
	}
	s.scratchV = s.scratchV[:0]
	for _, e := range s.scratchT {
		s.Tape.Release(e)
	}
	s.scratchT = s.scratchT[:0]
}

// Token is tokGlobal: the index after the last effect.
func (s *Session) Token() uint64 { return s.TokenBase + uint64(len(s.Effects)) }

// log appends an effect: the join rule makes the log one line, so the new token is
// after every other.
func (s *Session) log(e Effect) uint64 {
	if e.Base != 0 {
		e.Gen = s.bases[e.Base].Gen
	}
	e.SourceLoc = s.SourceLoc
	s.Effects = append(s.Effects, e)
	return s.Token()
}

// EachHandle calls f for every live handle.
func (s *Session) EachHandle(f func(hd uint64, h *Handle)) {
	for i := range s.handles {
		if h := &s.handles[i]; h.Gen&0x80000000 != 0 && h.Flags&FlagReserved == 0 {
			f(uint64(h.Gen)<<32|uint64(i), h)
		}
	}
}

// Outdate makes every handle of old stale here: generations go on where old's ended.
func (s *Session) Outdate(old *Session) {
	s.handles = make([]Handle, len(old.handles))
	s.freeH = s.freeH[:0]
	for i := len(s.handles) - 1; i >= 1; i-- {
		s.handles[i].Gen = (old.handles[i].Gen + 1) &^ 0x80000000
		s.freeH = append(s.freeH, uint32(i))
	}
}
