package launch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// GroupLoop is a loop that one workgroup of a GPU runs: in each iteration the steps in turn, over values in workgroup
// memory. Parameters: iterations, the offset in elements of each of the first Operands buffers, and of a loop that
// draws the seed and the Philox offset. Iteration t works at place t; in reverse at place Length-1-t.
type GroupLoop struct {
	Steps    []GroupStep
	Slots    []GroupSlot
	Arrays   []GroupArray
	Bufs     []loopir.Buf
	Operands int
	Reverse  bool
	// Condition is the slot of the carry without which no iteration runs, -1 for none. All carries then have slots.
	Condition int
	// Drawn is how many Philox offsets an iteration takes.
	Drawn int64
	// Threads is the most threads of the workgroup that have work to do.
	Threads int
}

// GroupStep is a loop kernel, a product or a loop over slots. Its parameters are the same in all iterations, except
// those of draws.
type GroupStep struct {
	Op     Op
	Slots  []int // by buffer of Op
	Params []uint64
	// Seeds are the parameters that are the loop's seed. Drawn are Philox offsets: the loop's one and those that
	// iterations at places before take are added to them.
	Seeds, Drawn []int
	// Event is the number of the step in the body, of one that checks data. A fault has it above the element's bits
	// (ir.LoopEventBits).
	Event uint32
}

// Checks reports a step that checks data.
func (s *GroupStep) Checks() bool {
	k, ok := s.Op.(*loopir.Kernel)
	return ok && k.Checks
}

// Checks reports that a step checks data.
func (g *GroupLoop) Checks() bool {
	return slices.ContainsFunc(g.Steps, func(s GroupStep) bool { return s.Checks() })
}

// ByElement reports a product whose elements are sums of their own: one of 64-bit integers, or of few rows or columns.
func (s *GroupStep) ByElement() bool {
	g, ok := s.Op.(*Gemm)
	if !ok {
		return false
	}
	const few = 4
	l := g.Layout()
	return g.Type.ComputeType() != ir.F32 && g.Type.ComputeType() != ir.I32 || min(s.Params[l.M], s.Params[l.N]) <= few
}

// Scratch bounds the workgroup memory, in bytes, that a step of so many threads needs beside its values.
func (s *GroupStep) Scratch(threads int) (bytes int64) {
	const entry = 16 // a value and an index
	if s.ByElement() {
		return int64(entry * threads)
	}
	switch op := s.Op.(type) {
	case *loopir.Kernel:
		for i := range op.Stages {
			bytes += int64(len(op.Stages[i].Accs) * entry * threads)
		}
	case *GroupLoop:
		for i := range op.Arrays {
			bytes += op.Arrays[i].Bytes()
		}
		for i := range op.Steps {
			bytes += op.Steps[i].Scratch(threads)
		}
	}
	return bytes
}

// GroupSlot is a value of the steps.
type GroupSlot struct {
	Type  ir.DType
	Numel int64
	// Array is the workgroup array that holds the value; -1: it stays in its buffer. Of an array with two halves Turn
	// says which one: they change places after each iteration.
	Array int
	Turn  Turn
	// In is the buffer that the value comes from, -1 for none: a carry before the first iteration, else before each
	// one. Moves: the buffer has one for each place.
	In    int
	Moves bool
	// Carry: the value is a carry. After an iteration it is that of slot Next; -1: no step reads the carry.
	Carry bool
	Next  int
	// Out is the buffer that gets the value, -1 for none: that of a next carry after the last iteration, another at its
	// place after each one. Kept, of a carry, gets it before each iteration.
	Out, Kept int
}

// Turn is a half of an array.
type Turn uint8

// The halves.
const (
	Whole Turn = iota // the array has one value
	Old               // where the carry of this iteration lies
	New               // where the carry of the next one lies
)

// GroupArray is workgroup memory for Numel elements, or twice as many.
type GroupArray struct {
	Type  ir.DType
	Numel int64
	Two   bool
}

// Width is the bytes of an element in workgroup memory. Types of 2 bytes are computed in 4, and so are bools.
func (a *GroupArray) Width() int64 { return int64(max(4, a.Type.Size())) }

// Bytes is the memory of an array. Arrays are vectors of four elements.
func (a *GroupArray) Bytes() int64 {
	n := (a.Numel + 3) &^ 3
	if a.Two {
		n *= 2
	}
	return (n*a.Width() + 15) &^ 15
}

// Numbers of GroupLoop's parameters; the offsets follow.
const (
	GroupLength = iota
	GroupOffsets
)

var _ Op = (*GroupLoop)(nil)

// Label implements Op.
func (*GroupLoop) Label() string { return "loop" }

// Buffers implements Op.
func (g *GroupLoop) Buffers() []loopir.Buf { return g.Bufs }

// Parameters implements Op.
func (g *GroupLoop) Parameters() []loopir.Param {
	list := []loopir.Param{{Kind: loopir.Size, Type: ir.I64}}
	for range g.Operands {
		list = append(list, loopir.Param{Kind: loopir.Offset, Type: ir.I64})
	}
	if g.Drawn > 0 {
		list = append(list, slices.Repeat([]loopir.Param{{Kind: loopir.Scalar, Type: ir.I64}}, 2)...)
	}
	return list
}

// Key implements Op.
func (g *GroupLoop) Key() string {
	var b strings.Builder
	fmt.Fprint(&b, "group loop ", g.Slots, g.Arrays, g.Bufs, g.Operands, g.Reverse, g.Condition, g.Drawn, g.Threads)
	for i := range g.Steps {
		s := &g.Steps[i]
		fmt.Fprint(&b, "\n", s.Slots, s.Params, s.Seeds, s.Drawn, s.Event, s.Op.Key())
	}
	return b.String()
}

// Cost implements Op.
func (g *GroupLoop) Cost(params []uint64, width *loopir.Widths) (sum loopir.Cost) {
	for i := range g.Steps {
		sum.Flops += g.Steps[i].Op.Cost(g.Steps[i].Params, width).Flops * int64(params[GroupLength])
	}
	for i := range g.Slots {
		s := &g.Slots[i]
		if s.Moves || s.Kept >= 0 || s.Out >= 0 {
			sum.Bytes += s.Numel * int64(width[s.Type]) * int64(params[GroupLength])
		}
	}
	return sum
}

// place is the place of iteration t.
func (g *GroupLoop) place(t, length int64) int64 {
	if g.Reverse {
		return length - 1 - t
	}
	return t
}

// Interpret implements Op.
func (g *GroupLoop) Interpret(params []uint64, bufs [][]byte) (loopir.Fault, error) {
	if err := CheckArguments(g, params, bufs); err != nil {
		return loopir.Fault{}, err
	}
	length := int64(params[GroupLength])
	var fault loopir.Fault
	mem := make([][]byte, len(g.Slots))
	for i := range g.Slots {
		mem[i] = make([]byte, g.Slots[i].bytes())
	}
	for i := range g.Slots {
		if s := &g.Slots[i]; s.Carry && s.In >= 0 {
			if err := g.fetch(i, 0, params, bufs, mem); err != nil {
				return loopir.Fault{}, err
			}
		}
	}
	for t := int64(0); t < length && g.goes(mem); t++ {
		f, err := g.iterate(g.place(t, length), params, bufs, mem)
		if err != nil {
			return loopir.Fault{}, fmt.Errorf("iteration %d: %w", t, err)
		}
		if !fault.Failed {
			fault = f
		}
	}
	return fault, g.finish(bufs, mem)
}

// iterate interprets the iteration at place p. It returns the first fault of its steps.
func (g *GroupLoop) iterate(p int64, params []uint64, bufs, mem [][]byte) (fault loopir.Fault, err error) {
	for i := range g.Slots {
		if err := g.enter(i, p, params, bufs, mem); err != nil {
			return fault, err
		}
	}
	for i := range g.Steps {
		f, err := g.step(&g.Steps[i], p, params, mem)
		if err != nil {
			return fault, err
		}
		if !fault.Failed {
			fault = f
		}
	}
	for i := range g.Slots {
		if err := g.leave(i, p, bufs, mem); err != nil {
			return fault, err
		}
	}
	return fault, nil
}

// step interprets a step at a place.
func (g *GroupLoop) step(s *GroupStep, place int64, params []uint64, mem [][]byte) (loopir.Fault, error) {
	bufs := make([][]byte, len(s.Slots))
	for k, slot := range s.Slots {
		bufs[k] = mem[slot]
	}
	values := slices.Clone(s.Params)
	for _, i := range s.Seeds {
		values[i] = params[g.Seed()]
	}
	for _, i := range s.Drawn {
		values[i] += params[g.Seed()+1] + uint64(place*g.Drawn)
	}
	f, err := s.Op.Interpret(values, bufs)
	if f.Failed {
		f.Elem = ir.LoopFault(s.Event, f.Elem)
	}
	return f, err
}

// Seed is the parameter for the seed; that for the Philox offset follows.
func (g *GroupLoop) Seed() int { return GroupOffsets + g.Operands }

// goes reports that the condition is true, or that there is none.
func (g *GroupLoop) goes(mem [][]byte) bool { return g.Condition < 0 || mem[g.Condition][0] != 0 }

func (s *GroupSlot) bytes() int64 { return s.Numel * int64(s.Type.Size()) }

// fetch copies slot i from its operand.
func (g *GroupLoop) fetch(i int, place int64, params []uint64, bufs, mem [][]byte) error {
	s := &g.Slots[i]
	at := int64(params[GroupOffsets+s.In]) * int64(s.Type.Size())
	if s.Moves {
		at += place * s.bytes()
	}
	from, err := bytesOf(bufs[s.In], uint64(at), uint64(s.bytes()))
	if err != nil {
		return fmt.Errorf("loop: operand %d: %w", s.In, err)
	}
	copy(mem[i], from)
	return nil
}

// enter gives slot i what it has before an iteration.
func (g *GroupLoop) enter(i int, place int64, params []uint64, bufs, mem [][]byte) error {
	s := &g.Slots[i]
	if s.In >= 0 && !s.Carry {
		if err := g.fetch(i, place, params, bufs, mem); err != nil {
			return err
		}
	}
	if s.Kept < 0 {
		return nil
	}
	to, err := bytesOf(bufs[s.Kept], uint64(place*s.bytes()), uint64(s.bytes()))
	copy(to, mem[i])
	return err
}

// leave writes what slot i has after an iteration.
func (g *GroupLoop) leave(i int, place int64, bufs, mem [][]byte) error {
	s := &g.Slots[i]
	if s.Carry && s.Next >= 0 {
		copy(mem[i], mem[s.Next])
	}
	if s.Out < 0 || s.Turn == New {
		return nil
	}
	to, err := bytesOf(bufs[s.Out], uint64(place*s.bytes()), uint64(s.bytes()))
	copy(to, mem[i])
	return err
}

// finish writes the last carries: those that no iteration has changed are the first ones.
func (g *GroupLoop) finish(bufs, mem [][]byte) error {
	for i := range g.Slots {
		s := &g.Slots[i]
		if s.Turn != New || s.Out < 0 {
			continue
		}
		from := mem[i]
		for k := range g.Slots {
			if c := &g.Slots[k]; c.Carry && c.Next == i {
				from = mem[k]
			}
		}
		to, err := bytesOf(bufs[s.Out], 0, uint64(s.bytes()))
		if err != nil {
			return err
		}
		copy(to, from)
	}
	return nil
}
