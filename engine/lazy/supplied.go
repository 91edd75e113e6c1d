package lazy

import (
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// operandNotes are the numbers of a trace that the caller supplies at each call, and where its operands come from.
type operandNotes struct {
	slots   map[uint32][]suppliedSlot // by node
	noted   int
	from    map[uint32]readBases
	counted map[uint32]bool // bases whose numbers the caller reads and writes at each call
}

// suppliedSlot says that a number slot of a node takes the number at a place.
type suppliedSlot struct {
	seq         uint64 // of the node
	slot, place int
}

// readBases are the bases from which the operands of a node were read, 0 for none, and which of the operands are read
// without their tangents.
type readBases struct {
	seq     uint64 // of the node
	bases   []uint32
	severed []bool // nil: none
}

// IsTracing reports that a function is being captured.
func (s *Session) IsTracing() bool { return s.trace != nil }

// NoteOperands notes which operands of the newest node are supplied numbers, and which were read from a base.
func (s *Session) NoteOperands(in []op.Val, node uint32) {
	t, slot := &s.trace.operandNotes, 0
	from := readBases{seq: s.graph.Node(node).Seq}
	for i := range in {
		if in[i].Kind == op.None {
			continue
		}
		if from.bases = append(from.bases, in[i].Base); in[i].Severed && from.severed == nil {
			from.severed = make([]bool, len(in))
		}
		if in[i].Severed {
			from.severed[len(from.bases)-1] = true
		}
		if !in[i].IsScalar() {
			continue
		}
		if place, ok := in[i].Supplied(); ok {
			if t.slots == nil {
				t.slots = map[uint32][]suppliedSlot{}
			}
			t.slots[node] = append(t.slots[node], suppliedSlot{seq: s.graph.Node(node).Seq, slot: slot, place: place})
			t.noted++
		}
		slot++
	}
	if t.from == nil {
		t.from = map[uint32]readBases{}
	}
	t.from[node] = from
}

// readFrom returns the base from which operand j of a node was read, 0 for none, and whether the operand counts without
// its tangents.
func (k *capture) readFrom(node uint32, j int) (base uint32, severed bool) {
	if k.s.trace == nil {
		return 0, false
	}
	from, ok := k.s.trace.from[node]
	if !ok || from.seq != k.s.graph.Node(node).Seq || j >= len(from.bases) {
		return 0, false
	}
	return from.bases[j], from.severed != nil && from.severed[j]
}

// Supplied counts the supplied numbers that the traced function has passed to primitives so far.
func (s *Session) Supplied() int { return s.trace.noted }

// Count notes that the caller reads the number of hd at each call of the function, and may write it.
func (s *Session) Count(hd uint64) *ir.Error {
	h, err := s.Handle(hd)
	if err != nil {
		return err
	}
	if s.trace.counted == nil {
		s.trace.counted = map[uint32]bool{}
	}
	s.trace.counted[h.Base] = true
	return nil
}

// notCounted refuses a base whose number the caller writes after the call: the program would see the former number.
func (k *capture) notCounted(base uint32) {
	if k.s.trace != nil && k.s.trace.counted[base] {
		panic(ir.Errorf(ir.ErrRuntime, "a captured function reads or writes the step count of an optimizer as a tensor: do "+
			"that outside of it"))
	}
}

// supplied finds the number slots of node i that the caller supplies.
func (k *capture) supplied(id uint32, i int) {
	if k.s.trace == nil {
		return
	}
	for _, x := range k.s.trace.slots[id] {
		if x.seq == k.s.graph.Node(id).Seq {
			if k.c.supplied == nil {
				k.c.supplied = map[int]int{}
			}
			k.c.supplied[int(k.p.Nodes[i].Scalar)+x.slot] = x.place
			k.c.Supplied = max(k.c.Supplied, x.place+1)
		}
	}
}
