package lazy

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// Trace is the recording of a captured function: the function runs on placeholders, and its effects on older tensors
// are undone.
type Trace struct {
	Mark Mark
	// Args are the handles of the placeholders.
	Args   []uint64
	values []op.Val       // of the placeholders when the function began
	grads  []tracedGrad   // in the order of their first use
	outer  *Trace         // the one that it interrupts: a loop's body is traced in a function that is captured
	levels []ir.HiddenDim // of vmap, of a loop's body: the placeholders are whole batches
	body   bool           // of a loop
	// derived: of a body that is derived from another one, for any loop that needs it.
	derived bool
	floor   uint32 // of a loop's body: the levels of forward mode up to this number are around the loop
	number  uint64 // of this trace, from 1; 0 of a derived body
	drawn   uint64 // the furthest offset of a draw before the function went back to an earlier state
	// rules are, by number of a step of one element, the results on the tape of what its batching rule recorded; owned.
	rules map[uint64][]uint32
	// restores: writes may change the histories of older tensors; histories are those before the writes.
	restores  bool
	histories []savedHistory
	operandNotes
}

// tracedGrad is a tensor whose gradient the function read or changed.
type tracedGrad struct {
	handle, before uint64
	replaced       bool // by another one, or by None; before is then owned
}

// CapturedGrad is the gradient that a captured function gives to a tensor.
type CapturedGrad struct {
	Handle uint64 // the tensor, unless it is an argument
	Arg    int    // number of the argument + 1
	Had    bool   // the tensor had a gradient when the function began
	Kept   bool   // the function does not replace it, but may write to it
	Result int    // number of the program's result + 1; 0: the gradient becomes None, unless it is kept
}

// BeginTrace starts a trace. Each argument has a placeholder with its dtype, device, shape and need of a gradient.
func (s *Session) BeginTrace(args []op.Val, body bool) (*Trace, *ir.Error) {
	s.traces++
	t := &Trace{Mark: s.Mark(), outer: s.trace, body: body, number: s.traces}
	switch {
	case body:
		t.levels, t.floor = s.levels(), s.tangents.opened
	case t.outer != nil:
		t.floor = t.outer.floor
	}
	s.TidyBegin()
	s.trace = t
	for _, like := range args {
		whole := s.Placeholder(like.DType().Real(), like.Device(), slices.Concat(sizesOf(t.levels), Pairs(like).Shape()))
		v := s.Hide(whole, t.levels)
		if like.Layout.IsComplex() {
			v = s.Complex(v)
		}
		h := s.Wrap(&v, nil)
		t.Args = append(t.Args, h)
		if like.Tape != 0 {
			if err := s.SetRequiresGrad(h, true); err != nil {
				s.EndTrace(true)
				return nil, err
			}
		}
		v, err := s.Resolve(h)
		if err != nil {
			s.EndTrace(true)
			return nil, err
		}
		s.graph.Retain(v.Value) // until EndTrace: the function may overwrite its argument
		v.Layout = whole.Layout
		t.values = append(t.values, v)
	}
	return t, nil
}

// Made reports that the function made the tensor.
func (s *Session) Made(hd uint64) bool {
	h, err := s.Handle(hd)
	if err != nil {
		return false
	}
	n := len(s.handles.scopes)
	for _, own := range s.handles.scopes[n-1] {
		if own == hd {
			return true
		}
	}
	return s.BornSince(h.Base, s.trace.Mark.births)
}

// CaptureTrace captures the recording: results and the changed gradients.
func (s *Session) CaptureTrace(results []op.Val) (*Captured, []CapturedGrad, *ir.Error) {
	t := s.trace
	var grads []CapturedGrad
	for _, g := range t.grads {
		x, err := s.tracedGrad(g)
		if err != nil {
			return nil, nil, err
		}
		if x.Result != 0 {
			v, err := s.Resolve(s.handles.list[uint32(g.handle)].Grad)
			if err != nil {
				return nil, nil, err
			}
			results = append(results, v)
			x.Result = len(results)
		}
		grads = append(grads, x)
	}
	c, err := s.Capture(t.Mark, t.values, results)
	return c, grads, err
}

// tracedGrad describes a changed gradient; Result is 1 where there is one.
func (s *Session) tracedGrad(g tracedGrad) (CapturedGrad, *ir.Error) {
	h, err := s.Handle(g.handle)
	if err != nil {
		return CapturedGrad{}, err
	}
	x := CapturedGrad{Handle: g.handle, Had: g.before != 0, Kept: !g.replaced}
	for i, a := range s.trace.Args {
		if a == g.handle {
			x.Handle, x.Arg = 0, i+1
		}
	}
	if h.Grad != 0 && g.replaced {
		now, _ := s.Handle(h.Grad)
		if !s.BornSince(now.Base, s.trace.Mark.births) {
			return x, ir.Errorf(ir.ErrRuntime, "capture: the function makes an older tensor the gradient of another one")
		}
		x.Result = 1
	}
	return x, nil
}

// EndTrace ends the trace: older tensors get back their gradients, and with undo their values and the generator its
// draws. The tensors that the function made become unusable.
func (s *Session) EndTrace(undo bool) {
	t := s.trace
	s.trace = t.outer
	defer func() {
		for i := range t.values {
			s.graph.Release(t.values[i].Value)
		}
		for _, outs := range t.rules {
			for _, edge := range outs {
				s.tape.Release(edge)
			}
		}
	}()
	for _, g := range t.grads {
		if !g.replaced {
			continue
		}
		h, err := s.Handle(g.handle)
		if err != nil {
			s.Release(g.before)
			continue
		}
		now := h.Grad
		h.Grad = g.before
		s.Release(now)
	}
	s.EachHandle(func(hd uint64, h *Handle) {
		if h.Flags&(FlagInternal|FlagDisposed) == 0 && s.BornSince(h.Base, t.Mark.births) {
			s.Dispose(hd)
			h.Flags |= FlagTraced
		}
	})
	s.restoreHistories(t)
	s.TidyEnd(nil)
	if undo {
		s.Rewind(t.Mark)
	}
}

// noteGrad notes that a traced function uses the gradient of a handle, which was old. With replaced it reports that the
// caller must not release old.
func (s *Session) noteGrad(hd, old uint64, replaced bool) (kept bool) {
	if s.trace == nil {
		return false
	}
	for i := range s.trace.grads {
		if g := &s.trace.grads[i]; g.handle == hd {
			first := replaced && !g.replaced
			g.replaced = g.replaced || replaced
			return first
		}
	}
	if h, _ := s.Handle(hd); s.BornSince(h.Base, s.trace.Mark.births) && !s.isArg(hd) {
		return false
	}
	s.trace.grads = append(s.trace.grads, tracedGrad{hd, old, replaced})
	return replaced
}

func (s *Session) isArg(hd uint64) bool {
	for _, a := range s.trace.Args {
		if a == hd {
			return true
		}
	}
	return false
}

// InlineGrads gives the gradients among the results of Inline to their tensors.
func (s *Session) InlineGrads(grads []CapturedGrad, args []uint64, results []op.Val) *ir.Error {
	for _, g := range grads {
		hd := g.Handle
		if g.Arg > 0 {
			hd = args[g.Arg-1]
		}
		if g.Kept {
			continue
		}
		if g.Result == 0 {
			if err := s.SetGrad(hd, 0); err != nil {
				return err
			}
			continue
		}
		if _, err := s.Handle(hd); err != nil {
			return err
		}
		s.setNewGrad(hd, results[g.Result-1], true)
	}
	return nil
}

// boundHandle returns the handle behind a state, 0 for a constant.
func (s *Session) boundHandle(b *bound) uint64 {
	if b.gradOf == 0 {
		return b.handle
	}
	h, err := s.Handle(b.gradOf)
	if err != nil {
		panic(err)
	}
	return h.Grad
}

// gradSlot returns the tensor from outside whose gradient had this base when the trace began, 0 for none.
func (s *Session) gradSlot(base uint32) uint64 {
	if s.trace == nil {
		return 0
	}
	for _, g := range s.trace.grads {
		if h, err := s.Handle(g.before); g.before != 0 && err == nil && h.Base == base {
			return g.handle
		}
	}
	return 0
}

// Fits reports that the tensors have gradients where they had some when the function was captured, and, where the
// function writes, that neither two arguments nor an argument and a state are aliases.
func (s *Session) Fits(c *Captured, grads []CapturedGrad, args []uint64) bool {
	for _, g := range grads {
		hd := g.Handle
		if g.Arg > 0 {
			hd = args[g.Arg-1]
		}
		h, err := s.Handle(hd)
		if err != nil || (h.Grad != 0) != g.Had {
			return false
		}
		if h.Grad == 0 {
			continue
		}
		if v, err := s.Resolve(h.Grad); err != nil || !v.IsWhole() {
			return false
		}
	}
	if len(c.Program.Stores) == 0 {
		return true
	}
	bases := make([]uint32, 0, len(args)+len(c.bound))
	for i := range c.bound {
		if hd := s.boundHandle(&c.bound[i]); hd != 0 {
			h, _ := s.Handle(hd)
			bases = append(bases, h.Base)
		}
	}
	for _, hd := range args {
		h, err := s.Handle(hd)
		if err != nil {
			return true // Inline says so
		}
		for _, b := range bases {
			if b == h.Base {
				return false
			}
		}
		bases = append(bases, h.Base)
	}
	return true
}
