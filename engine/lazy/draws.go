package lazy

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// draws is the random generator: a seed, the Philox offset of the last draw, and how often the user set them.
type draws struct{ seed, offset, seeded uint64 }

// RNG implements op.Builder. It reserves one draw in program order.
func (s *Session) RNG() (seed, drawOffset op.Val) { return s.DrawMany(1) }

// DrawMany implements op.BodyBuilder.
func (s *Session) DrawMany(n int64) (seed, drawOffset op.Val) {
	if slices.ContainsFunc(s.vmapLevels, func(l vmapLevel) bool { return l.refuses }) {
		panic(ir.Errorf(ir.ErrRuntime, "vmap: called random operation while in randomness error mode. Please either use the "+
			"'same' or 'different' randomness flags on vmap or perform the randomness operation out of vmap"))
	}
	first := s.draws.offset + 1
	s.draws.offset += uint64(n)
	s.log(Effect{Kind: Draw, Mut: s.draws.offset})
	return op.IntVal(int64(s.draws.seed)), op.IntVal(int64(first))
}

// Seed restarts the generator with a seed.
func (s *Session) Seed(seed uint64) { s.draws = draws{seed: seed, seeded: s.draws.seeded + 1} }

// RNGState returns the state for SetRNGState: seed, offset, and the number of the trace in progress.
func (s *Session) RNGState() [4]uint64 {
	v := [4]uint64{s.draws.seed, s.draws.offset}
	if s.trace != nil {
		v[2] = s.trace.number
	}
	return v
}

// SetRNGState restores the generator's state. A traced function may go back to a state of its own, as the second run of
// a checkpoint does: its draws have offsets after the function's first one, so a program can repeat them.
func (s *Session) SetRNGState(v [4]uint64) {
	if t := s.trace; t != nil && t.number != 0 && v[2] == t.number && v[0] == s.draws.seed {
		t.drawn = max(t.drawn, s.draws.offset)
		s.draws.offset = v[1]
		return
	}
	s.draws = draws{seed: v[0], offset: v[1], seeded: s.draws.seeded + 1}
}
