package engine

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/saved"
	"github.com/torchlette/torchlette/ir"
)

// Functions of training programs: steps have names that begin with stepPrefix.
const stepPrefix, evaluateName = "step", "evaluate"

// TrainingSession trains from a saved program: it holds the program's constants, which steps change, and its numbers.
// Its methods are for one thread at a time, and wait for each other.
type TrainingSession struct {
	mu        sync.Mutex
	e         *Engine
	program   uint64
	p         *saved.Program
	steps     []*saved.Function
	constants []uint64
	numbers   []float64
	device    ir.DeviceID
}

// OpenTraining opens a file of a training program on a device.
func (e *Engine) OpenTraining(path string, dev ir.DeviceID) (id uint64, err *ir.Error) {
	program, err := e.OpenProgram(path)
	if err != nil {
		return 0, err
	}
	s := &TrainingSession{e: e, program: program, device: dev}
	if err := s.open(); err != nil {
		s.close()
		return 0, err
	}
	return e.trainings.add(s), nil
}

func (s *TrainingSession) open() (err *ir.Error) {
	if s.p, err = s.e.ProgramOf(s.program); err != nil {
		return err
	}
	var names []string
	for name := range s.p.Functions {
		if strings.HasPrefix(name, stepPrefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		s.steps = append(s.steps, s.p.Functions[name])
	}
	if len(names) == 0 || s.p.Functions[evaluateName] == nil {
		return ir.Errorf(ir.ErrValue, "training: the program has no steps: it infers")
	}
	for _, n := range s.p.Numbers {
		s.numbers = append(s.numbers, n.Value)
	}
	for i := range s.p.Constants {
		var out Out
		if err := s.e.ProgramConstant(s.program, i, &out); err != nil {
			return err
		}
		s.constants = append(s.constants, out.Handle)
		if err := s.place(i); err != nil {
			return err
		}
	}
	return nil
}

// place brings a constant to the session's device, where it is a leaf of autograd if the program says so.
func (s *TrainingSession) place(i int) (err *ir.Error) {
	e := s.e
	defer e.leave(&err)
	e.enter()
	v, err := e.session.Resolve(s.constants[i])
	if err != nil {
		return err
	}
	if v.Device() != s.device {
		if err := e.devices.ensure(s.device); err != nil {
			return err
		}
		v = prim.ToDevice(e.session, v, s.device)
		e.session.Release(s.constants[i])
		s.constants[i] = e.session.Wrap(&v, nil)
	}
	if s.p.Constants[i].RequiresGrad {
		return e.session.SetRequiresGrad(s.constants[i], true)
	}
	return nil
}

// Step does a step on inputs, which it matches by name, and returns the loss before the update. An evaluation gives the
// loss in evaluation mode, and changes nothing.
func (s *TrainingSession) Step(in []SessionValue, evaluation bool) (loss float64, err *ir.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.p.Functions[evaluateName]
	var supplied, after []float64
	if !evaluation {
		if f, supplied, after = s.fitting(); f == nil {
			return 0, ir.Errorf(ir.ErrRuntime, "training: no step of the program is for these numbers of the optimizer")
		}
	}
	inputs, err := s.inputs(f, in)
	defer func() { s.e.Release(inputs) }()
	if err != nil {
		return 0, err
	}
	outs, err := s.e.RunProgram(&ProgramRun{Program: s.p, Function: f, Constants: s.constants, Inputs: inputs,
		Numbers: supplied, Evaluation: evaluation})
	var hs []uint64
	for i := range outs {
		hs = append(hs, outs[i].Handle)
	}
	defer func() { s.e.Release(hs) }()
	if err != nil {
		return 0, err
	}
	if !evaluation {
		s.numbers = after
	}
	if err := s.e.Flush(); err != nil {
		return 0, err
	}
	return s.number(hs[0], &outs[0])
}

// fitting finds the step whose guards hold.
func (s *TrainingSession) fitting() (f *saved.Function, supplied, after []float64) {
	for _, f := range s.steps {
		if supplied, after, fits := f.Compute(s.p, s.numbers); fits {
			return f, supplied, after
		}
	}
	return nil, nil, nil
}

// inputs makes tensors of the inputs, in the function's order.
func (s *TrainingSession) inputs(f *saved.Function, in []SessionValue) (hs []uint64, err *ir.Error) {
	x := &savedSession{p: s.p, f: f}
	ports, _ := x.ports()
	m := &InferenceSession{in: ports, order: make([]int, len(ports)), args: make([]unsafe.Pointer, len(ports))}
	if err := m.match(in); err != nil {
		return nil, err
	}
	for _, k := range m.order {
		v := &in[k]
		var out Out
		if err := s.e.FromData(ir.DType(v.DType), s.device, v.shape(), v.bytes(), false, 0, &out); err != nil {
			return hs, err
		}
		hs = append(hs, out.Handle)
	}
	return hs, nil
}

// bytes is the memory of a value.
func (v *SessionValue) bytes() []byte {
	if v.Data == nil {
		return nil
	}
	return unsafe.Slice((*byte)(v.Data), v.Bytes)
}

// number reads a float32 or float64 without dims.
func (s *TrainingSession) number(h uint64, o *Out) (float64, *ir.Error) {
	var b [8]byte
	d := ir.DType(o.DType)
	if d != ir.F32 && d != ir.F64 {
		return 0, ir.Errorf(ir.ErrNotImplemented, "training: the loss is %s, want float32 or float64", d)
	}
	if err := s.e.Read(h, b[:d.Size()]); err != nil {
		return 0, err
	}
	if d == ir.F64 {
		return math.Float64frombits(binary.LittleEndian.Uint64(b[:])), nil
	}
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(b[:4]))), nil
}

// Describe describes the inputs of a step or, with state, the constants and the numbers, which are float64 without
// dims. It returns how many there are.
func (s *TrainingSession) Describe(state bool, values []SessionValue) int {
	var ports []SessionPort
	if state {
		for i := range s.p.Constants {
			c := &s.p.Constants[i]
			ports = append(ports, SessionPort{Name: c.Name, DType: c.DType, Shape: c.Shape})
		}
		for _, n := range s.p.Numbers {
			ports = append(ports, SessionPort{Name: n.Name, DType: ir.F64})
		}
	} else {
		ports, _ = (&savedSession{p: s.p, f: s.steps[0]}).ports()
	}
	for i := range min(len(ports), len(values)) {
		ports[i].describe(&values[i])
	}
	return len(ports)
}

// find returns the place of a name among the constants, then the numbers.
func (s *TrainingSession) find(name string) (int, *ir.Error) {
	for i := range s.p.Constants {
		if s.p.Constants[i].Name == name {
			return i, nil
		}
	}
	for i := range s.p.Numbers {
		if s.p.Numbers[i].Name == name {
			return len(s.p.Constants) + i, nil
		}
	}
	return 0, ir.Errorf(ir.ErrValue, "training: the program has no state %q", name)
}

// Read describes a constant or number in v, and returns its elements.
func (s *TrainingSession) Read(name string, v *SessionValue) ([]byte, *ir.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.find(name)
	if err != nil {
		return nil, err
	}
	n := len(s.p.Constants)
	if i >= n {
		(&SessionPort{Name: name, DType: ir.F64}).describe(v)
		return binary.LittleEndian.AppendUint64(nil, math.Float64bits(s.numbers[i-n])), nil
	}
	c := &s.p.Constants[i]
	(&SessionPort{Name: name, DType: c.DType, Shape: c.Shape}).describe(v)
	return s.contents(i)
}

// contents reads constant i.
func (s *TrainingSession) contents(i int) ([]byte, *ir.Error) {
	c := &s.p.Constants[i]
	b := make([]byte, ir.Numel(c.Shape)*int64(c.DType.Size()))
	return b, s.e.Read(s.constants[i], b)
}

// Write replaces a constant or number, of the name, dtype and shape of v.
func (s *TrainingSession) Write(v *SessionValue) *ir.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.find(nameOf(v))
	if err != nil {
		return err
	}
	q := SessionPort{Name: nameOf(v), DType: ir.F64}
	n := len(s.p.Constants)
	if i < n {
		q.DType, q.Shape = s.p.Constants[i].DType, s.p.Constants[i].Shape
	}
	if err := q.check(v); err != nil {
		return err
	}
	if i >= n {
		s.numbers[i-n] = math.Float64frombits(binary.LittleEndian.Uint64(v.bytes()))
		return nil
	}
	var out Out
	if err := s.e.FromData(q.DType, s.device, v.shape(), v.bytes(), false, 0, &out); err != nil {
		return err
	}
	s.e.Release([]uint64{s.constants[i]})
	s.constants[i] = out.Handle
	return s.place(i)
}

// Save writes the program with the constants and numbers of now to a file.
func (s *TrainingSession) Save(path string) *ir.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, x := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if x != nil {
		return ir.Errorf(ir.ErrRuntime, "%v", x)
	}
	err := saved.WriteFile(f, s.p, s.numbers, s.contents)
	if x = f.Close(); x == nil && err == nil {
		x = os.Rename(f.Name(), path)
	}
	if x != nil && err == nil {
		err = ir.Errorf(ir.ErrRuntime, "%v", x)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// close releases the session.
func (s *TrainingSession) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.e.Release(s.constants)
	s.constants = nil
	s.e.ForgetCaptured(s.program)
}

// TrainingOf returns the training session of a number.
func (e *Engine) TrainingOf(id uint64) (*TrainingSession, *ir.Error) { return e.trainings.of(id) }

// CloseTraining closes a training session.
func (e *Engine) CloseTraining(id uint64) *ir.Error {
	s, err := e.trainings.take(id)
	if err == nil {
		s.close()
	}
	return err
}
