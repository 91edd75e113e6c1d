package lazy

import (
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// Modes are the settings that recording reads.
type Modes struct {
	ThreadModes
	// Deterministic: primitives with op.Prim.Unordered are recorded with op.Deterministic.
	Deterministic bool
	// Default is the dtype of new floating-point tensors.
	Default ir.DType
	// SourceLoc is the line of the current call.
	SourceLoc uint32
	taping    bool // the tape records primitives
}

// ThreadModes are the modes that each thread has for itself.
type ThreadModes struct {
	GradMode  bool
	Inference bool
	// Autocast is the dtype that autocast casts to, on the CPU and on GPUs; InvalidDType outside of autocast.
	Autocast [2]ir.DType
	// DefaultDev is the device of new tensors: the thread's setting, else the choice of Devices.
	DefaultDev ir.DeviceID
	DeviceSet  bool
	// vmapLevels are the levels of vmap in progress, outermost first; that of index i is level i+1.
	vmapLevels []vmapLevel
	vmapsLeft  []vmapLevel // by VmapLeave
	// ceiling: tangents of this level and of those above it do not count; 0 for none.
	ceiling uint32
}

// Taping turns the tape on or off for primitives and returns the former setting.
func (m *Modes) Taping(on bool) (old bool) {
	old, m.taping = m.taping, on
	return old
}

// TapeUserCalls sets taping from the user's modes.
func (m *Modes) TapeUserCalls() { m.taping = m.GradMode && !m.Inference }

// IsTaping reports that the tape records primitives.
func (m *Modes) IsTaping() bool { return m.taping }

// taped reports that an operation on v is recorded on the tape now.
func (m *Modes) taped(v op.Val) bool { return m.taping && v.Tape != 0 }

// DefaultDType implements op.Builder.
func (m *Modes) DefaultDType() ir.DType { return m.Default }

// ModeKey encodes in one word all modes that a rule may read.
func (m *Modes) ModeKey() uint64 {
	key := uint64(m.Default)<<8 | uint64(m.DefaultDev)
	if m.taping {
		key |= 1 << 16
	}
	if m.Deterministic {
		key |= 1 << 17
	}
	if len(m.vmapLevels) > 0 {
		key |= 1 << 18
	}
	return key | uint64(m.Autocast[0])<<24 | uint64(m.Autocast[1])<<32
}

// ThreadState is the state of one thread: modes, packing of saved tensors, compiled region, and tidy scopes.
type ThreadState struct {
	ThreadModes
	Packing bool
	Region  uint32
	scopes  [][]uint64
}

// SwapThread installs the state of the next thread and returns the former one.
func (s *Session) SwapThread(next ThreadState) ThreadState {
	old := ThreadState{ThreadModes: s.ThreadModes, Packing: s.tape.Packing, Region: s.graph.Region,
		scopes: s.handles.scopes}
	s.ThreadModes, s.tape.Packing, s.handles.scopes = next.ThreadModes, next.Packing, next.scopes
	s.graph.Region = next.Region
	return old
}
