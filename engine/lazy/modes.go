package lazy

import (
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// Modes are the settings that recording looks at.
type Modes struct {
	ThreadModes
	// Deterministic: primitives that are op.Prim.Unordered are recorded with op.Deterministic.
	Deterministic bool
	// RefuseDraws: a draw of random numbers is an error, as in a function that vmap maps without a randomness.
	RefuseDraws bool
	// Default is the dtype of new floating-point tensors.
	Default ir.DType
	// SourceLoc is the line that records.
	SourceLoc uint32
	taping    bool // primitives of the present recording are taped
}

// ThreadModes are the modes of a thread.
type ThreadModes struct {
	GradMode  bool
	Inference bool
	// Autocast is the dtype that operators cast to on the CPU and on GPUs; InvalidDType outside of such a context.
	Autocast [2]ir.DType
	// DefaultDev is the device of new tensors. Unless the thread has set it, it is what Devices chooses.
	DefaultDev ir.DeviceID
	DeviceSet  bool
}

// Taping sets whether primitives are taped and returns the former setting.
func (m *Modes) Taping(on bool) (old bool) {
	old, m.taping = m.taping, on
	return old
}

// TapeUserCalls lets primitives be taped as the user's modes say.
func (m *Modes) TapeUserCalls() { m.taping = m.GradMode && !m.Inference }

// IsTaping reports that primitives are taped.
func (m *Modes) IsTaping() bool { return m.taping }

// NeedsGrad implements op.Builder.
func (m *Modes) NeedsGrad(v op.Val) bool { return m.taping && v.Tape != 0 }

// DefaultDType implements op.Builder.
func (m *Modes) DefaultDType() ir.DType { return m.Default }

// ModeKey is a word of all modes that a rule may look at.
func (m *Modes) ModeKey() uint64 {
	key := uint64(m.Default)<<8 | uint64(m.DefaultDev)
	if m.taping {
		key |= 1 << 16
	}
	if m.Deterministic {
		key |= 1 << 17
	}
	return key | uint64(m.Autocast[0])<<24 | uint64(m.Autocast[1])<<32
}

// ThreadState is what a session keeps of a thread: its modes, whether its saved tensors wait for hooks, and its tidy
// scopes.
type ThreadState struct {
	ThreadModes
	Packing bool
	scopes  [][]uint64
}

// SwapThread makes next the present thread's state and gives the former one.
func (s *Session) SwapThread(next ThreadState) ThreadState {
	old := ThreadState{ThreadModes: s.ThreadModes, Packing: s.tape.Packing, scopes: s.handles.scopes}
	s.ThreadModes, s.tape.Packing, s.handles.scopes = next.ThreadModes, next.Packing, next.scopes
	return old
}
