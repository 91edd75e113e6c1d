package lazy

import (
	"sync/atomic"

	"github.com/torchlette/torchlette/ir"
)

// Export is a storage on the CPU whose memory code outside of the engine may read and write. The export holds its leaf,
// so that no window updates the memory in place or gives it to another value.
type Export struct {
	Value    uint32 // the leaf over the memory
	Store    uint32
	Uses     int  // exports that will end
	Pinned   bool // the memory stays exported as long as its base lives
	ReadOnly bool // the memory cannot be written: a write to the base moves it elsewhere
	Imported bool // code outside owns the memory and may use it
	base     uint32
	gen      uint32 // of the base; another one: the base is gone
}

// copiedBytes is the size up to which an operand in exported memory is copied when it is recorded. A larger one is read
// by its reader, which then runs before the call returns.
const copiedBytes = 1 << 16

// exports keeps the engine and code outside in step. Memory is read before the call that reads it returns, and a write
// to a base is in the memory before the call that writes returns: see Session.ExportWork.
type exports struct {
	byStore map[uint32]*Export
	byBase  map[uint32]*Export
	orphans []*Export // their bases are gone, but saved values read them
	written []*Export
	readers []uint32 // nodes that read exported memory; each with a reference
	edges   []ir.Edge
	count   *int32 // length of byStore, for the caller of the engine
	handles *[SharedSlots]int32
}

// SharedSlots is the number of counters of handles whose base is exported: a handle's counter is its slot modulo this.
const SharedSlots = 256

// CountExports makes the session keep the number of exported storages in n, and in handles how many handles name their
// bases.
func (s *Session) CountExports(n *int32, handles *[SharedSlots]int32) {
	s.exports.count, s.exports.handles = n, handles
	*handles = [SharedSlots]int32{}
	s.exports.counted()
}

// countHandle notes that a handle begins or ends to name a base, if that is exported.
func (s *Session) countHandle(slot, base uint32, d int32) {
	if x := s.exports.byBase[base]; x != nil && s.exports.byStore[x.Store] == x && s.exports.handles != nil {
		atomic.AddInt32(&s.exports.handles[slot%SharedSlots], d)
	}
}

// countHandles is countHandle for all handles of a base.
func (s *Session) countHandles(base uint32, d int32) {
	if base == 0 || s.bases.at(base).Pins == 0 {
		return
	}
	s.EachHandle(func(hd uint64, h *Handle) {
		if h.Base == base {
			s.countHandle(uint32(hd), base, d)
		}
	})
}

func (x *exports) counted() {
	if x.count != nil {
		atomic.StoreInt32(x.count, int32(len(x.byStore)))
	}
}

// live reports that the base of an export lives.
func (s *Session) live(x *Export) bool { return x.base != 0 && s.bases.at(x.base).Gen == x.gen }

// Export exports the memory of a base, whose newest value is computed and has all its stores committed.
func (s *Session) Export(base uint32) *Export {
	b := s.bases.at(base)
	if x := s.exports.byBase[base]; x != nil {
		if !x.ReadOnly {
			return x
		}
		leaf := s.copyLeaf(b.Value)
		s.rebind(base, leaf)
		s.graph.Release(leaf)
		s.dropExport(x)
	}
	n, holds := s.graph.Node(b.Value), int32(1)
	if b.Loc != 0 && s.bases.loc(b.Loc).Committed == b.Value {
		holds = 2
	}
	if n.Refs != holds || s.exports.byStore[n.Store] != nil || s.devices.SharesStorage(n.Store) {
		leaf := s.copyLeaf(b.Value) // others keep the version
		s.rebind(base, leaf)
		s.graph.Release(leaf)
	}
	x := &Export{Value: b.Value, Store: s.graph.Node(b.Value).Store, base: base, gen: b.Gen}
	s.graph.Retain(x.Value)
	s.sweepExports()
	if s.exports.byStore == nil {
		s.exports.byStore, s.exports.byBase = map[uint32]*Export{}, map[uint32]*Export{}
	}
	s.exports.byStore[x.Store], s.exports.byBase[base] = x, x
	s.exports.counted()
	s.countHandles(base, 1)
	return x
}

// EndExport ends one use of an export. With the last one the memory is the base's alone.
func (s *Session) EndExport(x *Export) {
	if x.Uses--; x.Uses <= 0 && !x.Pinned && x.Value != 0 && (x.base != 0 || s.graph.Node(x.Value).Refs == 1) {
		s.forget(x)
	}
	s.sweepExports()
}

// Private ends the use of imported memory by code outside. Memory that cannot be written stays the leaf's alone.
func (s *Session) Private(x *Export) {
	x.Imported = false
	switch {
	case x.base == 0:
		s.sweepExports()
	case x.ReadOnly:
		s.countHandles(x.base, -1)
		delete(s.exports.byStore, x.Store)
		s.exports.counted()
	default:
		x.Pinned = false
		if x.Uses <= 0 {
			s.forget(x)
		}
	}
}

// Sole reports that an export's memory has a single user: the base is gone, and nothing else uses the memory.
func (s *Session) Sole(x *Export) bool { return !s.live(x) && x.Uses == 1 && !x.Imported }

// forget makes the memory of an export ordinary.
func (s *Session) forget(x *Export) {
	if x.Value == 0 {
		return
	}
	if s.exports.byBase[x.base] == x {
		s.countHandles(x.base, -1)
		delete(s.exports.byBase, x.base)
	}
	delete(s.exports.byStore, x.Store)
	s.exports.counted()
	v := x.Value
	x.Value = 0
	s.graph.Release(v)
}

// dropExport releases the export of a freed base. The memory lives until the last use ends, and stays exported while a
// saved value reads it.
func (s *Session) dropExport(x *Export) {
	s.countHandles(x.base, -1)
	delete(s.exports.byBase, x.base)
	x.base, x.Pinned = 0, false
	s.exports.orphans = append(s.exports.orphans, x)
	s.sweepExports()
}

// sweepExports looks for exports without a base that no saved value reads any more.
func (s *Session) sweepExports() {
	kept := s.exports.orphans[:0]
	for _, x := range s.exports.orphans {
		switch {
		case x.Value == 0:
		case s.graph.Node(x.Value).Refs > 1:
			kept = append(kept, x)
		case x.Uses <= 0:
			s.forget(x)
		default:
			delete(s.exports.byStore, x.Store)
			s.exports.counted()
		}
	}
	clear(s.exports.orphans[len(kept):])
	s.exports.orphans = kept
}

// copyLeaf returns a leaf with a copy of a stored value. The caller owns its reference.
func (s *Session) copyLeaf(value uint32) uint32 {
	n := s.graph.Node(value)
	av := ir.AvalOf(n.Aval)
	return s.graph.AddLeaf(av.ID, s.copied(n.Store, av.DType, 0, av.Layout.Numel), s.SourceLoc)
}

// copied copies elements of a storage to a new one.
func (s *Session) copied(store uint32, d ir.DType, first, n int64) uint32 {
	st, err := s.devices.CopyStorage(store, d, first, n)
	if err != nil {
		panic(err)
	}
	return st
}

// rebind makes a leaf with the present elements of a base its value. All stores to the base are committed.
func (s *Session) rebind(base, leaf uint32) {
	b := s.bases.at(base)
	s.graph.Retain(leaf)
	old := b.Value
	b.Value = leaf
	if b.Loc != 0 {
		l := s.bases.loc(b.Loc)
		if l.Committed != 0 {
			s.graph.Retain(leaf)
			s.graph.Release(l.Committed)
			l.Committed = leaf
		}
	}
	s.graph.Release(old)
}

// private returns a value that a base may hold: value, or a copy if value lies in exported memory.
func (s *Session) private(value uint32) uint32 {
	n := s.graph.Node(value)
	if s.trace != nil || n.Op != ir.OpLeaf || n.Store == 0 || s.exports.byStore[n.Store] == nil {
		return value
	}
	leaf := s.copyLeaf(value)
	s.held.values = append(s.held.values, leaf)
	return leaf
}

// present returns the edges of a node to be recorded. Small operands in exported memory are copied now. reads: the node
// reads exported memory, so that it must run before the call returns.
func (s *Session) present(edges []ir.Edge) (_ []ir.Edge, reads bool) {
	if s.trace != nil {
		return edges, false // each call of the captured function reads the memory
	}
	copied := false
	for i := range edges {
		e := &edges[i]
		if e.Value == 0 {
			continue
		}
		n := s.graph.Node(e.Value)
		if n.Op != ir.OpLeaf || n.Store == 0 || s.exports.byStore[n.Store] == nil {
			continue
		}
		av, l := ir.AvalOf(n.Aval), ir.LayoutOf(e.Layout).Whole()
		if l.Span*int64(av.DType.Size()) > copiedBytes {
			reads = true
			continue
		}
		if !copied {
			copied = true
			s.exports.edges = append(s.exports.edges[:0], edges...)
			edges = s.exports.edges
			e = &edges[i]
		}
		of := av.Layout
		if !l.IsWhole(e.Offset, of) {
			of = ir.DenseLayout([]int64{l.Span})
			if l.Dense {
				of = ir.LayoutOf(l.Contig)
			}
		}
		st := s.copied(n.Store, av.DType, e.Offset, l.Span)
		leaf := s.graph.AddLeaf(ir.InternAval(av.DType, av.Device, of).ID, st, s.SourceLoc)
		s.held.values = append(s.held.values, leaf)
		e.Value, e.Offset = leaf, 0
	}
	return edges, reads
}

// noteReader makes a node run before the call returns.
func (s *Session) noteReader(id uint32) {
	s.graph.Retain(id)
	s.exports.readers = append(s.exports.readers, id)
}

// noteWrite makes the write to a base reach its exported memory before the call returns.
func (s *Session) noteWrite(base uint32) {
	x := s.exports.byBase[base]
	if x == nil || s.trace != nil {
		return
	}
	for _, y := range s.exports.written {
		if y == x {
			return
		}
	}
	s.exports.written = append(s.exports.written, x)
}

// ExportsDue reports that ExportWork has work.
func (s *Session) ExportsDue() bool { return len(s.exports.written)+len(s.exports.readers) > 0 }

// ExportWork returns the values that must be computed before code outside of the engine runs again, and whether the log
// of effects must run too.
func (s *Session) ExportWork() (values []uint32, effects bool) {
	for _, id := range s.exports.readers {
		if n := s.graph.Node(id); n.Op != ir.OpLeaf && n.Refs > 1 {
			values = append(values, id)
		}
	}
	for _, x := range s.exports.written {
		if s.live(x) {
			values = append(values, s.bases.at(x.base).Value)
			effects = true
		}
	}
	return values, effects
}

// EndExportWork ends the work of ExportWork, which ran unless it failed. publish copies the elements of a storage to an
// exported one.
func (s *Session) EndExportWork(publish func(from, to uint32) *ir.Error) (err *ir.Error) {
	for _, id := range s.exports.readers {
		s.graph.Release(id)
	}
	for _, x := range s.exports.written {
		if x.Value == 0 || !s.live(x) {
			continue
		}
		n := s.graph.Node(s.bases.at(x.base).Value)
		if n.Op != ir.OpLeaf || n.Store == 0 || n.Store == x.Store {
			continue // the write failed: the base has its former value
		}
		if x.ReadOnly {
			s.dropExport(x)
			continue
		}
		if e := publish(n.Store, x.Store); e != nil {
			err = e
			continue
		}
		s.rebind(x.base, x.Value)
	}
	s.exports.readers, s.exports.written = s.exports.readers[:0], s.exports.written[:0]
	return err
}
