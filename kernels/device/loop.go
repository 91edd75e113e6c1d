package device

import (
	"fmt"
	"slices"
	"strings"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Loop runs a list of steps a number of times in one launch. Between iterations only buffers move, and the Philox
// offset of draws.
type Loop struct {
	Steps []Step // over slots of its own
	Slots int    // slots with memory; see Device.Build
	Wires []Wire // by slot
	// Offsets and Scalars are what Steps take as run-time numbers. Draws names the scalars that are Philox offsets; the
	// scalar before each is the seed.
	Offsets []int64
	Scalars []uint64
	Draws   []int
	// Length is the number of iterations. Iteration t works at place t; in reverse at place Length-1-t.
	Length  int64
	Reverse bool
	// While: carry 0 is a bool, and iterations end when it is false.
	While bool
	// Drawn is how many Philox offsets each place takes. The last two parameters are then the seed and the first offset.
	Drawn int64
	// Uses are the buffers of the launch. The first parameters are the offsets, in elements, of the first buffers.
	Uses     []loopir.Buf
	Operands int // number of buffers that have an offset
	// Lanes are counts of independent elements to try for the resident form: leading dims of a carry or result.
	Lanes []int64
}

// Route says how the memory of a slot moves.
type Route uint8

// The routes.
const (
	// Stays: a value that all iterations read, or a temporary.
	Stays Route = iota
	// Advances: place p is Bytes * p behind the buffer's beginning.
	Advances
	// CarryIn: the buffer to which the previous iteration wrote carry Carry; in the first iteration Buf.
	CarryIn
	// CarryOut: Buf in the last iteration. Before it, the place of the next iteration in buffer Kept, or buffers Spare and
	// Buf in turn.
	CarryOut
)

// Wire gives a slot of a loop's steps its memory.
type Wire struct {
	Route Route
	Buf   int // number of the launch's buffer
	// Operand is the parameter with the buffer's offset in elements, Width the bytes of an element; -1: no offset.
	Operand, Width int
	Bytes          int64 // of one place or carry
	Carry          int
	Kept, Spare    int // buffers; -1: none
	Last           int // of CarryIn: the buffer of the last carry
}

var _ launch.Op = (*Loop)(nil)

// Label implements launch.Op.
func (l *Loop) Label() string { return "loop" }

// Buffers implements launch.Op.
func (l *Loop) Buffers() []loopir.Buf { return l.Uses }

// Parameters implements launch.Op.
func (l *Loop) Parameters() []loopir.Param {
	list := slices.Repeat([]loopir.Param{{Kind: loopir.Offset, Type: ir.I64}}, l.Operands)
	if l.Drawn > 0 {
		n := loopir.Param{Kind: loopir.Scalar, Type: ir.I64}
		list = append(list, n, n)
	}
	return list
}

// Key implements launch.Op.
func (l *Loop) Key() string {
	var b strings.Builder
	fmt.Fprint(&b, "loop ", l.Slots, l.Wires, l.Offsets, l.Scalars, l.Draws, l.Length, l.Reverse, l.While, l.Drawn,
		l.Uses,
		l.Operands)
	for i := range l.Steps {
		s := &l.Steps[i]
		fmt.Fprint(&b, "\n", s.Bufs, s.Params, s.Op.Key())
	}
	return b.String()
}

// Cost implements launch.Op.
func (l *Loop) Cost(_ []uint64, width *loopir.Widths) (sum loopir.Cost) {
	for i := range l.Steps {
		s := &l.Steps[i]
		c := s.Op.Cost(s.Values(&Binding{Offsets: l.Offsets, Scalars: l.Scalars}), width)
		sum.Flops += c.Flops * l.Length
		sum.Bytes += c.Bytes * l.Length
	}
	return sum
}

// Place is the place of iteration t.
func (l *Loop) Place(t int64) int64 {
	if l.Reverse {
		return l.Length - 1 - t
	}
	return t
}

// Interpret implements launch.Op.
func (l *Loop) Interpret(params []uint64, bufs [][]byte) (loopir.Fault, error) {
	if err := launch.CheckArguments(l, params, bufs); err != nil {
		return loopir.Fault{}, err
	}
	carries := map[int][]byte{}
	slots := make([][]byte, len(l.Wires))
	first := loopir.Fault{}
	t := int64(0)
	for ; t < l.Length; t++ {
		for i := range l.Wires {
			slots[i] = l.memory(&l.Wires[i], t, params, bufs, carries)
		}
		if l.While && l.condition(slots)[0] == 0 {
			break
		}
		f, err := l.iteration(t, params, slots)
		if err != nil {
			return first, fmt.Errorf("iteration %d: %w", t, err)
		}
		if !first.Failed {
			first = f
		}
		for i := range l.Wires {
			if w := &l.Wires[i]; w.Route == CarryOut {
				carries[w.Carry] = slots[i]
			}
		}
	}
	if l.While { // the last carries may lie elsewhere
		for i := range l.Wires {
			if w := &l.Wires[i]; w.Route == CarryIn {
				copy(bufs[w.Last][:w.Bytes], l.memory(w, t, params, bufs, carries)[:w.Bytes])
			}
		}
	}
	return first, nil
}

// condition is the memory of carry 0 at the beginning of an iteration.
func (l *Loop) condition(slots [][]byte) []byte {
	for i := range l.Wires {
		if w := &l.Wires[i]; w.Route == CarryIn && w.Carry == 0 {
			return slots[i]
		}
	}
	panic("BUG: a loop without its condition")
}

// iteration interprets the steps of iteration t and returns their first fault.
func (l *Loop) iteration(t int64, params []uint64, slots [][]byte) (first loopir.Fault, err error) {
	scalars := slices.Clone(l.Scalars)
	for _, d := range l.Draws {
		scalars[d-1] = params[l.Operands]
		scalars[d] = params[l.Operands+1] + uint64(l.Place(t)*l.Drawn) + l.Scalars[d]
	}
	for i := range l.Steps {
		f, err := l.step(&l.Steps[i], slots, scalars)
		if err != nil {
			return first, err
		}
		if f.Failed && !first.Failed {
			first = loopir.Fault{Failed: true, Elem: ir.LoopFault(l.Steps[i].Event, f.Elem)}
		}
	}
	return first, nil
}

func (l *Loop) step(s *Step, slots [][]byte, scalars []uint64) (loopir.Fault, error) {
	bufs := make([][]byte, len(s.Bufs))
	for n, b := range s.Bufs {
		bufs[n] = slots[b]
	}
	return s.Op.Interpret(s.Values(&Binding{Offsets: l.Offsets, Scalars: scalars}), bufs)
}

// memory is the memory of a slot in iteration t.
func (l *Loop) memory(w *Wire, t int64, params []uint64, bufs [][]byte, carries map[int][]byte) []byte {
	b := bufs[w.Buf]
	if w.Operand >= 0 {
		b = b[int64(params[w.Operand])*int64(w.Width):]
	}
	switch w.Route {
	case Advances:
		return b[l.Place(t)*w.Bytes:]
	case CarryIn:
		if t > 0 {
			return carries[w.Carry]
		}
		if w.Kept >= 0 {
			copy(bufs[w.Kept][l.Place(0)*w.Bytes:], b[:w.Bytes])
		}
	case CarryOut:
		switch {
		case t == l.Length-1:
		case w.Kept >= 0:
			return bufs[w.Kept][l.Place(t+1)*w.Bytes:]
		case (l.Length-t)%2 == 0:
			return bufs[w.Spare]
		}
	}
	return b
}
