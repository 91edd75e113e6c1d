package launch

import (
	"fmt"
	"strings"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// GroupLoop is a loop that one workgroup of a GPU runs: in each iteration the steps in turn, over values in workgroup
// memory. Parameters: iterations, and the offset in elements of each of the first Operands buffers. Iteration t works
// at place t; in reverse at place Length-1-t.
type GroupLoop struct {
	Steps    []GroupStep
	Slots    []GroupSlot
	Arrays   []GroupArray
	Bufs     []loopir.Buf
	Operands int
	Reverse  bool
	// Threads is the most threads of the workgroup that have work to do.
	Threads int
}

// GroupStep is a loop kernel or a product over slots. Its parameters are the same in all iterations.
type GroupStep struct {
	Op     Op
	Slots  []int // by buffer of Op
	Params []uint64
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
	if k, ok := s.Op.(*loopir.Kernel); ok {
		for i := range k.Stages {
			bytes += int64(len(k.Stages[i].Accs) * entry * threads)
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
	return list
}

// Key implements Op.
func (g *GroupLoop) Key() string {
	var b strings.Builder
	fmt.Fprint(&b, "group loop ", g.Slots, g.Arrays, g.Bufs, g.Operands, g.Reverse, g.Threads)
	for i := range g.Steps {
		s := &g.Steps[i]
		fmt.Fprint(&b, "\n", s.Slots, s.Params, s.Op.Key())
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
	mem := make([][]byte, len(g.Slots))
	for i := range g.Slots {
		mem[i] = make([]byte, g.Slots[i].bytes())
	}
	for t := range length {
		p := g.place(t, length)
		for i := range g.Slots {
			if err := g.enter(i, t, p, params, bufs, mem); err != nil {
				return loopir.Fault{}, err
			}
		}
		for i := range g.Steps {
			s := &g.Steps[i]
			list := make([][]byte, len(s.Slots))
			for k, slot := range s.Slots {
				list[k] = mem[slot]
			}
			if _, err := s.Op.Interpret(s.Params, list); err != nil {
				return loopir.Fault{}, fmt.Errorf("iteration %d: %w", t, err)
			}
		}
		for i := range g.Slots {
			if err := g.leave(i, t == length-1, p, bufs, mem); err != nil {
				return loopir.Fault{}, err
			}
		}
	}
	return loopir.Fault{}, nil
}

func (s *GroupSlot) bytes() int64 { return s.Numel * int64(s.Type.Size()) }

// enter gives slot i what it has before iteration t.
func (g *GroupLoop) enter(i int, t, place int64, params []uint64, bufs, mem [][]byte) error {
	s := &g.Slots[i]
	if s.In >= 0 && (t == 0 || !s.Carry) {
		at := int64(params[GroupOffsets+s.In]) * int64(s.Type.Size())
		if s.Moves {
			at += place * s.bytes()
		}
		from, err := bytesOf(bufs[s.In], uint64(at), uint64(s.bytes()))
		if err != nil {
			return fmt.Errorf("loop: operand %d: %w", s.In, err)
		}
		copy(mem[i], from)
	}
	if s.Kept < 0 {
		return nil
	}
	to, err := bytesOf(bufs[s.Kept], uint64(place*s.bytes()), uint64(s.bytes()))
	copy(to, mem[i])
	return err
}

// leave writes what slot i has after an iteration.
func (g *GroupLoop) leave(i int, last bool, place int64, bufs, mem [][]byte) error {
	s := &g.Slots[i]
	if s.Carry && s.Next >= 0 {
		copy(mem[i], mem[s.Next])
	}
	next := s.Turn == New
	if s.Out < 0 || next && !last {
		return nil
	}
	if next {
		place = 0
	}
	to, err := bytesOf(bufs[s.Out], uint64(place*s.bytes()), uint64(s.bytes()))
	copy(to, mem[i])
	return err
}
