package lazy

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// A Promise is a cached trace with the operands that it was found for: a later call whose tensors
// look alike needs no key.
type DeferredCall struct {
	trace    *cachedTrace
	mode     uint64
	operands []op.Val // operands and numbers; of tensors, what they must look like
	tensors  int      // operands from here on are numbers
	// Taped: steps of the tape are recorded.
	Taped bool
}

// Promise gives what Recall followed last, if later calls can do without it: nil after a
// rule was called, and where the values of indices are looked at when the call is recorded.
func (s *Session) Defer(operands, numbers []op.Val) *DeferredCall {
	r := s.traces.last
	if r == nil || slices.ContainsFunc(r.steps, func(st traceStep) bool {
		return st.prim != nil &&
			st.prim.IndexInput > 0
	}) {
		return nil
	}
	taped := s.taping && slices.ContainsFunc(operands, func(v op.Val) bool { return v.Tape != 0 })
	return &DeferredCall{trace: r, mode: r.key[1], operands: slices.Concat(operands, numbers), tensors: len(operands),
		Taped: taped}
}

// RecordDeferred records the call again on other tensors. ok is false when they, or the modes, differ from those of the
// promise: the rule is then to be asked. The results are valid until the next call; the operands are in Operands.
func (s *Session) RecordDeferred(p *DeferredCall, tensors []uint64) (outs []op.Val, ok bool, err *ir.Error) {
	m := &s.traces
	m.capture = nil
	if s.mode() != p.mode {
		return nil, false, nil
	}
	m.regs = append(m.regs[:0], p.operands...)
	k := 0
	for i := range m.regs[:p.tensors] {
		want, v := &p.operands[i], &m.regs[i]
		if !want.IsTensor() {
			continue
		}
		if err := s.ResolveTo(tensors[k], v); err != nil {
			return nil, false, err
		}
		k++
		if v.Aval != want.Aval || v.Layout != want.Layout || v.Offset != want.Offset || (v.Tape != 0) != (want.Tape != 0) {
			return nil, false, nil
		}
	}
	return s.replay(p.trace), true, nil
}

// Operands are the operands of the call that RecordDeferred recorded.
func (s *Session) Operands(p *DeferredCall) []op.Val { return s.traces.regs[:p.tensors] }
