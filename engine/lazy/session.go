package lazy

import (
	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// Devices answers questions of recording about devices and their storages.
type Devices interface {
	// Default returns the default device for threads that have set none. The first call may choose it.
	Default() ir.DeviceID
	// Stores reports that a device can store a dtype.
	Stores(dev ir.DeviceID, d ir.DType) bool
	// IndexRange bounds the elements of an index tensor from the host, so that a bad index raises at the user's line.
	// With exact it returns the least and greatest element of the view, else bounds of the whole storage.
	IndexRange(v *op.Val, exact bool) (lo, hi int64, ok bool)
	// CopyStorage returns a new storage with n elements of another one, on the CPU.
	CopyStorage(store uint32, d ir.DType, first, n int64) (uint32, *ir.Error)
	// SharesStorage reports that a storage holds more than one version.
	SharesStorage(store uint32) bool
}

// Session is the recorded state of the user's program. The engine's lock guards it. It implements op.Builder.
type Session struct {
	Modes
	devices   Devices
	graph     *ir.Graph
	tape      *autograd.Tape
	handles   handles
	bases     bases
	groups    groups
	ownCounts ownCounts
	effects   effects
	draws     draws
	inference inference
	held      held
	emitter   emitter
	shared    shared
	exports   exports
	vmaps     vmaps
	tangents  tangents
	fence     Fence  // nil: every write is allowed
	regions   uint32 // number of the last compiled region
	trace     *Trace // of the function that is captured, nil for none
	traces    uint64 // begun so far
	derived   derivedBodies
	// Residency says what keeps a loop from running on a device other than the CPU; see op.BodyBuilder.
	Residency func(l *op.Loop, dev ir.DeviceID) string
	// Epoch counts the steps that mark_step has ended.
	Epoch uint64
}

// New makes an empty session that records on g.
func New(g *ir.Graph, d Devices) *Session {
	s := &Session{devices: d, graph: g, handles: handles{list: make([]Handle, 1)},
		bases: bases{list: make([]Base, 1), locs: make([]Loc, 1)}, groups: groups{list: make([]group, 1)},
		ownCounts: ownCounts{list: make([]ownWrites, 1)},
		inference: inference{fast: map[fastKey]ir.DType{}}}
	s.GradMode, s.Default = true, ir.F32
	s.tape = autograd.New(g, s)
	return s
}

// Tape returns the tape that the session records on.
func (s *Session) Tape() *autograd.Tape { return s.tape }

// Outdate makes all handles of old stale in this session and continues the step numbers of old's tape.
func (s *Session) Outdate(old *Session) {
	s.handles.outdate(&old.handles)
	s.tape.Continue(old.tape)
}

// Region returns the compiled region that records, 0 for none.
func (s *Session) Region() uint32 { return s.graph.Region }

// EnterRegion makes a compiled region record from now on; 0 ends the current one.
func (s *Session) EnterRegion(n uint32) { s.graph.Region = n }

// firstRegion is the least number of a compiled region.
const firstRegion = 2

// BeginRegion is EnterRegion for a new region. Numbers stay below 1<<31 and come again after 2 billion regions.
func (s *Session) BeginRegion() {
	s.regions = max((s.regions+1)&^(1<<31), firstRegion)
	s.graph.Region = s.regions
}

// DefaultDevice implements op.Builder.
func (s *Session) DefaultDevice() ir.DeviceID {
	if !s.DeviceSet {
		s.DefaultDev = s.devices.Default()
	}
	return s.DefaultDev
}

// held lists the references of the call in progress.
type held struct {
	values []uint32
	edges  []uint32
}

// Drain releases the references of the call in progress.
func (s *Session) Drain() {
	s.handles.reserved = 0
	for _, v := range s.held.values {
		s.graph.Release(v)
	}
	s.held.values = s.held.values[:0]
	for _, e := range s.held.edges {
		s.tape.Release(e)
	}
	s.held.edges = s.held.edges[:0]
	if len(s.tangents.dropped) > 0 {
		s.releaseTangents()
	}
}

// take returns a free entry of a table.
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
