package engine

import (
	"unsafe"

	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/runtime"
	"github.com/torchlette/torchlette/ir"
)

// sessionState is a buffer that runs of a session write: an argument and a result of the plan beside the caller's. A
// run reads now and writes next. If it succeeds they change places, so a run that fails leaves the state as it was. On
// a device with memory of its own the buffer is there, as a kept value of the runtime's.
type sessionState struct {
	constant  int // of the program
	dtype     ir.DType
	shape     []int64
	now, next []uint64      // nil where the state is kept
	kept      *runtime.Kept // nil: the state is in the host's memory
}

// bytes is the size of the buffer.
func (t *sessionState) bytes() int64 { return ir.Numel(t.shape) * int64(t.dtype.Size()) }

// view is memory of the buffer as bytes.
func (t *sessionState) view(of []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(of))), t.bytes())
}

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

// openState makes room for the constants that the program's function changes, with the values of now.
func (s *InferenceSession) openState(x *savedSession) *ir.Error {
	for _, k := range x.f.State {
		c := &x.p.Constants[k]
		t := &sessionState{constant: k, dtype: c.DType, shape: c.Shape}
		if err := s.allocate(t); err != nil {
			return err
		}
		s.state = append(s.state, t)
	}
	s.args = append(s.args, make([]unsafe.Pointer, len(s.state))...)
	s.results = append(s.results, make([]unsafe.Pointer, len(s.state))...)
	return s.resetState(x)
}

// allocate makes room for a buffer of the state.
func (s *InferenceSession) allocate(t *sessionState) *ir.Error {
	err := s.inEngine(func() *ir.Error {
		k, err := s.x.Keep(s.options.Device, t.dtype.Real(), t.bytes())
		if t.kept = k; err != nil {
			return asError(err)
		}
		return nil
	})
	if t.kept != nil {
		s.kept = append(s.kept, t.kept)
	} else if err == nil {
		n := t.bytes()/8 + 1
		t.now, t.next = make([]uint64, n), make([]uint64, n)
	}
	return err
}

// resetState gives the state the values that it had when the session was opened.
func (s *InferenceSession) resetState(x *savedSession) *ir.Error {
	for _, t := range s.state {
		first := t.now
		if t.kept != nil {
			first = make([]uint64, t.bytes()/8+1)
		}
		if err := s.e.Read(x.constants[t.constant], t.view(first)); err != nil {
			return err
		}
		if t.kept == nil {
			continue
		}
		err := s.inEngine(func() *ir.Error {
			if err := t.kept.Set(t.view(first)); err != nil {
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

// bindState lets the next run read and write the state.
func (s *InferenceSession) bindState() {
	for i, t := range s.state {
		s.args[len(s.in)+i] = unsafe.Pointer(unsafe.SliceData(t.now))
		s.results[len(s.out)+i] = unsafe.Pointer(unsafe.SliceData(t.next))
	}
}

// keepState makes what a run wrote the state.
func (s *InferenceSession) keepState() {
	for _, t := range s.state {
		if t.now, t.next = t.next, t.now; t.kept != nil {
			t.kept.Swap()
		}
	}
}

// Reset gives buffers that runs write the values that they had when the session was opened.
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
