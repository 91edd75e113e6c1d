package engine

import (
	"encoding/binary"
	"math"

	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/ir"
)

// Modes of Numbers.
const (
	NumbersRead  = iota // reads values
	NumbersWrite        // writes values in place
	NumbersCount        // adds values in place and reads the sums
	NumbersPeek         // reads values, also while a function is captured, whose caller supplies them from then on
)

// Numbers reads or writes one-element tensors without recording anything, so that an optimizer's step counts never
// enter a window. A tensor qualifies if its number is computed and lies in host memory; for a write, the tensor must be
// the only holder of its version. Numbers stops at the first tensor that does not qualify and returns its index; the
// caller records that one as usual and calls again for the rest.
func (e *Engine) Numbers(hs []uint64, values []float64, mode int) (done int, err *ir.Error) {
	defer e.leave(&err)
	e.enter()
	if mode < NumbersRead || mode > NumbersPeek {
		return 0, ir.Errorf(ir.ErrValue, "numbers: mode: got %d, want 0 to %d", mode, NumbersPeek)
	}
	if e.captures.tracing && mode != NumbersPeek {
		return 0, ir.Errorf(ir.ErrHostRead, "a captured function reads or counts numbers on the host: do that outside of it")
	}
	for i, hd := range hs {
		if e.captures.tracing {
			if err := e.session.Count(hd); err != nil {
				return i, err
			}
		}
		if ok, err := e.number(hd, &values[i], mode); err != nil || !ok {
			return i, err
		}
	}
	return len(hs), nil
}

// number is Numbers of one tensor; ok is false if it does not qualify.
func (e *Engine) number(hd uint64, value *float64, mode int) (ok bool, err *ir.Error) {
	h, err := e.session.Handle(hd)
	if err != nil {
		return false, err
	}
	if err := readable(h); err != nil {
		return false, err
	}
	if mode == NumbersWrite {
		if !e.hostNumber(h) || !e.ownsNumber(h) {
			return false, nil
		}
		return true, e.writeNumber(h, *value)
	}
	if err := e.lostWriteTo(h.Base); err != nil {
		return false, err
	}
	if !e.hostNumber(h) || mode == NumbersCount && !e.ownsNumber(h) {
		return false, nil
	}
	read, err := e.readNumber(h)
	if err != nil {
		return false, err
	}
	if mode == NumbersRead || mode == NumbersPeek {
		*value = read
		return true, nil
	}
	*value += read
	return true, e.writeNumber(h, *value)
}

// hostNumber reports a floating tensor of one element, computed and in host memory.
func (e *Engine) hostNumber(h *lazy.Handle) bool {
	b := e.session.Base(h.Base)
	av, n := ir.AvalOf(b.Aval), e.graph.Node(b.Value)
	one := av.Layout.Numel == 1 && ir.LayoutOf(h.Layout).Numel == 1
	return one && (av.DType == ir.F32 || av.DType == ir.F64) && av.Device == ir.CPU && n.Op == ir.OpLeaf && n.Store != 0
}

// ownsNumber reports that the version of h has no holder but the base of h and its loc, and that h requires no
// gradient.
func (e *Engine) ownsNumber(h *lazy.Handle) bool {
	b := e.session.Base(h.Base)
	n, holds := e.graph.Node(b.Value), int32(1)
	if b.Binding != lazy.SSA {
		if e.session.Loc(b.Loc).Committed != b.Value || b.Committed != b.Scheduled {
			return false
		}
		holds = 2
	}
	return n.Refs == holds && e.runtime.Storage(n.Store).Refs == 1 && !e.session.RequiresGrad(h)
}

// readNumber reads the number of h from its buffer.
func (e *Engine) readNumber(h *lazy.Handle) (float64, *ir.Error) {
	b := e.session.Base(h.Base)
	dt := ir.AvalOf(b.Aval).DType
	word := e.word[:dt.Size()]
	if err := e.runtime.Read(e.graph.Node(b.Value).Store, dt, 0, word, 0); err != nil {
		return 0, e.failures.fail(err)
	}
	if dt == ir.F32 {
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(word))), nil
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(word)), nil
}

// writeNumber writes v to the buffer of h, as a committed version.
func (e *Engine) writeNumber(h *lazy.Handle, v float64) *ir.Error {
	b := e.session.Base(h.Base)
	dt := ir.AvalOf(b.Aval).DType
	store := e.graph.Node(b.Value).Store
	word := e.word[:dt.Size()]
	if dt == ir.F32 {
		binary.LittleEndian.PutUint32(word, math.Float32bits(float32(v)))
	} else {
		binary.LittleEndian.PutUint64(word, math.Float64bits(v))
	}
	if err := e.runtime.Upload(store, dt, word); err != nil {
		return e.failures.fail(err)
	}
	e.runtime.Storage(store).Version++
	b.Scheduled++
	b.Committed++
	if b.Binding != lazy.SSA {
		l := e.session.Loc(b.Loc)
		l.Version++
		l.Logical++
	}
	return nil
}
