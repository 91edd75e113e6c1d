package lazy

import "github.com/torchlette/torchlette/ir"

// Handle flags.
const (
	FlagLeafGrad uint16 = 1 << iota // a leaf that requires grad
	FlagRetain
	FlagKept
	FlagDisposed
	FlagInternal // held by the engine rather than the user
	FlagReserved // its tensor comes later: see Reserve
	FlagView     // a view of another tensor, whose history it shares
	FlagTraced   // made by a function while it was captured, and disposed since
	FlagSevered  // detached from the tangents that its value had
)

// Handle is one tensor object: a view of a base, with its place on the tape.
type Handle struct {
	Gen       uint32 // 0: free
	Base      uint32
	Layout    ir.LayoutID
	Offset    int64
	Group     uint32 // history group; 0: Tape alone is the history
	Tape      uint32 // cached edge, owned
	TapeV     uint32 // group version of Tape
	Flags     uint16
	SourceLoc uint32
	Grad      uint64 // internal handle of the grad, 0 for None
	Writes    uint32 // index of its own write count: see ownWrites; 0: the base counts
}

// live is set in the generation of a slot in use.
const live = 0x80000000

// handles is the table of tensor objects. A handle's number combines a slot and its generation, so a stale number is
// detected. Slot 0 is unused.
type handles struct {
	list     []Handle
	free     []uint32
	reserved uint32     // slot for the next make; 0: any free slot
	scopes   [][]uint64 // of tidy, innermost last
	count    int        // of tensors
}

// number returns the handle number of a slot.
func (t *handles) number(id uint32) uint64 { return uint64(t.list[id].Gen)<<32 | uint64(id) }

// slot takes a free slot and begins its next generation.
func (t *handles) slot() uint32 {
	id := take(&t.list, &t.free)
	h := &t.list[id]
	h.Gen = (h.Gen&^live + 1) | live
	return id
}

// known returns the slot of hd; 0 if hd is stale or forged.
func (t *handles) known(hd uint64) uint32 {
	id := uint32(hd)
	if int(id) >= len(t.list) || t.list[id].Gen != uint32(hd>>32) || t.list[id].Gen&live == 0 {
		return 0
	}
	return id
}

// find resolves hd. Stale, forged and disposed handles are errors.
func (t *handles) find(hd uint64) (*Handle, *ir.Error) {
	if id := uint32(hd); int(id) < len(t.list) {
		h := &t.list[id]
		if h.Gen == uint32(hd>>32) && h.Gen&live != 0 && h.Flags&(FlagDisposed|FlagReserved) == 0 {
			return h, nil
		}
	}
	return nil, t.refuse(hd)
}

// refuse returns the error of a handle that find cannot resolve.
func (t *handles) refuse(hd uint64) *ir.Error {
	id := t.known(hd)
	switch {
	case id == 0:
		return ir.Errorf(ir.ErrHandle, "handle %#x is stale or was never made by this engine", hd)
	case t.list[id].Flags&FlagTraced != 0:
		return ir.Errorf(ir.ErrTraceEscape, "the tensor was made while a function was captured, and does not exist "+
			"outside of it: return it from the function")
	case t.list[id].Flags&FlagDisposed != 0:
		return ir.Errorf(ir.ErrDisposed, "tensor was disposed (by dispose() or at the end of its tidy scope)")
	}
	return ir.Errorf(ir.ErrRuntime, "the tensor does not exist: the operator that was to make it failed")
}

// make makes a handle of a view of a base.
func (t *handles) make(base uint32, l ir.LayoutID, off int64, flags uint16, sourceLoc uint32) uint64 {
	id := t.reserved
	if t.reserved = 0; id == 0 {
		id = t.slot()
	}
	h := &t.list[id]
	gen := h.Gen
	*h = Handle{} // field by field, because a literal is built elsewhere and copied
	h.Gen, h.Base, h.Layout, h.Offset, h.Flags, h.SourceLoc = gen, base, l, off, flags, sourceLoc
	t.count++
	hd := uint64(gen)<<32 | uint64(id)
	if n := len(t.scopes); n > 0 && flags&FlagInternal == 0 {
		t.scopes[n-1] = append(t.scopes[n-1], hd)
	}
	return hd
}

// drop frees a slot.
func (t *handles) drop(id uint32) {
	h := &t.list[id]
	if h.Flags&FlagReserved == 0 {
		t.count--
	}
	h.Gen &^= live
	t.free = append(t.free, id)
}

// outdate makes all handles of old stale in this table: its generations continue those of old.
func (t *handles) outdate(old *handles) {
	t.list = make([]Handle, len(old.list))
	t.free = t.free[:0]
	for i := len(t.list) - 1; i >= 1; i-- {
		t.list[i].Gen = (old.list[i].Gen + 1) &^ live
		t.free = append(t.free, uint32(i))
	}
}

// Reserve returns handles for future tensors; see Fill. Using one before that is an error.
func (s *Session) Reserve(hs []uint64) {
	for i := range hs {
		id := s.handles.slot()
		s.handles.list[id].Flags = FlagReserved
		hs[i] = s.handles.number(id)
	}
}

// Fill makes the next new tensor take the reserved handle hd.
func (s *Session) Fill(hd uint64) *ir.Error {
	id := s.handles.known(hd)
	if id == 0 || s.handles.list[id].Flags != FlagReserved {
		return ir.Errorf(ir.ErrHandle, "handle %#x was not reserved", hd)
	}
	s.handles.reserved = id
	return nil
}

// NewHandle makes a handle of a view of base.
func (s *Session) NewHandle(base uint32, l ir.LayoutID, off int64, flags uint16) uint64 {
	s.bases.at(base).Pins++
	hd := s.handles.make(base, l, off, flags, s.SourceLoc)
	if len(s.exports.byBase) > 0 {
		s.countHandle(uint32(hd), base, 1)
	}
	return hd
}

// Handle resolves hd. Stale, forged and disposed handles are errors.
func (s *Session) Handle(hd uint64) (*Handle, *ir.Error) { return s.handles.find(hd) }

// LiveHandles counts the tensors.
func (s *Session) LiveHandles() int { return s.handles.count }

// strip releases everything that a handle owns; the slot stays.
func (s *Session) strip(id uint32, h *Handle) {
	if len(s.exports.byBase) > 0 {
		s.countHandle(id, h.Base, -1)
	}
	base, group, tape, grad, writes := h.Base, h.Group, h.Tape, h.Grad, h.Writes
	h.Base, h.Group, h.Tape, h.Grad, h.Writes = 0, 0, 0, 0, 0
	if writes != 0 {
		s.dropWrites(writes)
	}
	if tape != 0 {
		s.tape.Release(tape)
	}
	if group != 0 {
		s.dropGroup(group)
	}
	if grad != 0 {
		s.Release(grad)
	}
	b := s.bases.at(base)
	if b.Pins--; b.Pins == 0 {
		s.dropBase(base)
	}
}

// Release ends a handle; unknown handles are ignored.
func (s *Session) Release(hd uint64) {
	id := s.handles.known(hd)
	if id == 0 {
		return
	}
	if h := &s.handles.list[id]; h.Flags&(FlagReserved|FlagDisposed) == 0 {
		s.strip(id, h)
	}
	s.handles.drop(id)
	if len(s.tangents.dropped) > 0 {
		s.releaseTangents()
	}
}

// Dispose frees the tensor of a handle. The handle stays, and using it is an error. It is idempotent; unknown handles
// are ignored.
func (s *Session) Dispose(hd uint64) {
	if h, err := s.Handle(hd); err == nil {
		h.Flags |= FlagDisposed
		s.strip(uint32(hd), h)
	}
}

// TidyBegin opens a scope.
func (s *Session) TidyBegin() { s.handles.scopes = append(s.handles.scopes, nil) }

// TidyEnd closes the innermost scope and disposes its handles, unless kept or returned. Returned handles survive the
// outer scopes too.
func (s *Session) TidyEnd(returned []uint64) {
	n := len(s.handles.scopes)
	if n == 0 {
		return
	}
	own := s.handles.scopes[n-1]
	s.handles.scopes = s.handles.scopes[:n-1]
	for _, r := range returned {
		_ = s.Keep(r) // fails for a disposed handle, which stays disposed
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

// EachHandle calls f for every live handle.
func (s *Session) EachHandle(f func(hd uint64, h *Handle)) {
	for i := range s.handles.list {
		if h := &s.handles.list[i]; h.Gen&live != 0 && h.Flags&FlagReserved == 0 {
			f(s.handles.number(uint32(i)), h)
		}
	}
}
