package engine

import (
	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// sessionState is a buffer that runs of a session write: an argument and a result of the plan beside the caller's. A
// run that succeeds replaces it, so a run that fails leaves the state as it was.
type sessionState struct {
	constant int // of the program
	dtype    ir.DType
	shape    []int64
}

// bytes is the size of the buffer.
func (t *sessionState) bytes() int64 { return ir.Numel(t.shape) * int64(t.dtype.Size()) }

// like returns placeholders of the plan's arguments: the caller's, then the state.
func (s *InferenceSession) like(f *frozenShape) (like []op.Val) {
	for i := range s.in {
		like = append(like, lazy.Like(s.in[i].DType, s.options.Device, f.shapes[i]))
	}
	for _, t := range s.state {
		like = append(like, lazy.Like(t.dtype, s.options.Device, t.shape))
	}
	return like
}

// resultDType is the dtype of a result of the program: an output's, or a state's.
func (s *InferenceSession) resultDType(k int) ir.DType {
	if k < len(s.out) {
		return s.out[k].DType
	}
	return s.state[k-len(s.out)].dtype
}

// arguments is the number of arguments of the session's plans.
func (s *InferenceSession) arguments() int { return len(s.in) + len(s.state) }

// openState makes buffers for the constants that the program's function changes, with their current values.
func (s *InferenceSession) openState(x *savedSession) *ir.Error {
	for _, k := range x.f.State {
		c := &x.p.Constants[k]
		t := &sessionState{constant: k, dtype: c.DType, shape: c.Shape}
		err := s.inEngine(func() *ir.Error {
			k, err := s.x.Keep(s.options.Device, t.dtype.Real(), t.bytes())
			if err != nil {
				return asError(err)
			}
			s.state, s.kept = append(s.state, t), append(s.kept, k)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return s.resetState(x)
}

// resetState gives the state the values that it had when the session was opened.
func (s *InferenceSession) resetState(x *savedSession) *ir.Error {
	for i, t := range s.state {
		first := make([]byte, t.bytes())
		if err := s.e.Read(x.constants[t.constant], first); err != nil {
			return err
		}
		err := s.inEngine(func() *ir.Error {
			if err := s.kept[i].Set(first); err != nil {
				return asError(err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// keepState makes the buffers that a run wrote the state.
func (s *InferenceSession) keepState() {
	for _, k := range s.kept {
		k.Swap()
	}
}

// Reset restores the values that the state had when the session was opened.
func (s *InferenceSession) Reset() *ir.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ir.Errorf(ir.ErrHandle, "session: it is closed")
	}
	x, saved := s.program.(*savedSession)
	if !saved {
		return nil
	}
	return s.resetState(x)
}
