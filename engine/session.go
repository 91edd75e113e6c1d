package engine

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/torchlette/torchlette/engine/runtime"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// MaxSessionName is the room for a name in SessionValue, with a final zero.
const MaxSessionName = 128

// SessionValue describes an argument or a result of a session, with its memory; it has the memory layout of
// tl_session_value. In descriptions a size that may differ from run to run is -1.
type SessionValue struct {
	DType uint8
	Rank  int32
	Shape [MaxRank]int64
	Data  unsafe.Pointer // dense and row-major
	Bytes uint64
	Name  [MaxSessionName]byte
}

// SessionPort is an argument or a result of a session's program.
type SessionPort struct {
	Name  string
	DType ir.DType
	Shape []int64  // -1 where the size may differ from run to run
	Dims  []string // by dim: the name of such a size, "" for none
}

// SessionOptions are the options of OpenSession.
type SessionOptions struct {
	Device ir.DeviceID
	// Threads is the number of threads on the CPU; 0: as many as cores.
	Threads int
	// Precision is the dtype that products and convolutions of float32 values cast to; InvalidDType for none.
	Precision ir.DType
	// Sole says that nothing but the session uses the constants, so that it may free those that it can read again.
	Sole bool
}

// sessionProgram is a program that a session records for each shape of its arguments.
type sessionProgram interface {
	ports() (in, out []SessionPort)
	// example returns shapes of arguments that fit.
	example() ([][]int64, *ir.Error)
	// record records the program on tensors, within the engine's lock, and returns its results.
	record(e *Engine, args []uint64) ([]uint64, *ir.Error)
	// close releases what the program holds, within the engine's lock.
	close(e *Engine)
}

// InferenceSession runs one program on changing arguments. The first run with arguments of a shape records the program
// and freezes its plan. Later ones call the device with bound buffers: they record nothing and look no plan up. Any
// thread may call its methods; runs of one session wait for each other. Buffers that the program writes are the
// session's, and keep what a run wrote for the next one.
//
// A session on the CPU has a device of its own, with threads and packed constants. So it runs beside other sessions and
// beside the engine. A session on a GPU shares the device with the engine, and takes the engine's lock.
type InferenceSession struct {
	mu      sync.Mutex // of everything below; before the engine's locks
	e       *Engine
	program sessionProgram
	options SessionOptions
	in, out []SessionPort
	state   []*sessionState
	kept    []*runtime.Kept // the values of state
	graph   *ir.Graph       // the engine's; a reset replaces it
	x       *runtime.Executor
	own     bool           // x is the session's
	shapes  []*frozenShape // the latest one first
	args    []unsafe.Pointer
	results []unsafe.Pointer
	order   []int // by argument: its place in the caller's list
	thread  int64 // whose locks of the engine a run takes; 0: the calling thread's
	stop    *device.Stop
	tensors map[uint64]*constant // the program's, by handle
	folded  map[string]*constant // those that folding made and plans read where they lie, by key
	unnamed int                  // constants so far that are no tensors of the program
	// While a plan is made: constants that folding made, and elements that a device had; nil: they were not fetched.
	loaded  []*constant
	fetched map[*constant][]byte
	closed  bool
}

// maxShapes bounds the frozen shapes of a session. The one used least recently makes room for a new one.
const maxShapes = 16

// newSession opens a session on a program, which it owns from then on.
func (e *Engine) newSession(p sessionProgram, o SessionOptions) (s *InferenceSession, err *ir.Error) {
	s = &InferenceSession{e: e, program: p, options: o}
	s.in, s.out = p.ports()
	for _, q := range slices.Concat(s.in, s.out) {
		if len(q.Name) >= MaxSessionName {
			return nil, ir.Errorf(ir.ErrValue, "session: a name has %d bytes, want at most %d: %q", len(q.Name),
				MaxSessionName-1, q.Name)
		}
	}
	s.args, s.results = make([]unsafe.Pointer, len(s.in)), make([]unsafe.Pointer, len(s.out))
	s.order = make([]int, len(s.in))
	err = s.inEngine(func() *ir.Error {
		s.graph, s.x = e.graph, e.runtime
		return e.devices.ensure(o.Device)
	})
	if err != nil || o.Device != ir.CPU || e.cfg.OpenHost == nil {
		return s, err
	}
	d, x := e.cfg.OpenHost(o.Threads)
	if x != nil {
		return nil, asError(x)
	}
	if d != nil {
		s.x, s.own = runtime.New(), true
		s.x.AddDevice(ir.CPU, d)
	}
	return s, nil
}

// inEngine runs work within the engine's locks, for which it waits.
func (s *InferenceSession) inEngine(work func() *ir.Error) (err *ir.Error) {
	e, id := s.e, s.thread
	if id == 0 {
		id = threadID()
	}
	e.waiter.await(id)
	defer e.waiter.release()
	defer e.leave(&err)
	e.enter()
	if err := e.failures.poisoned(); err != nil {
		return err
	}
	return work()
}

// Ports describes the arguments and the results.
func (s *InferenceSession) Ports() (in, out []SessionPort) { return s.in, s.out }

// Run runs the program on arguments, which it matches by name, and describes its results in out. It writes each result
// to the memory in out or, where that is nil, to memory that the caller's function gives for it.
func (s *InferenceSession) Run(in, out []SessionValue, memory func(k int, bytes int64) unsafe.Pointer) (n int,
	err *ir.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := s.prepare(in)
	if err != nil {
		return 0, err
	}
	return len(s.out), s.runInto(f, out, memory)
}

// runInto runs a frozen plan on s.args. It describes and writes the results as Run does.
func (s *InferenceSession) runInto(f *frozenShape, out []SessionValue,
	memory func(k int, bytes int64) unsafe.Pointer) *ir.Error {
	if len(out) < len(s.out) {
		return ir.Errorf(ir.ErrValue, "session: results: got room for %d, want %d", len(out), len(s.out))
	}
	for i, p := range s.args {
		if p == nil && !slices.Contains(f.shapes[i], 0) {
			return ir.Errorf(ir.ErrValue, "session: input %q has no memory: its data is NULL", s.in[i].Name)
		}
	}
	for k := range s.out {
		if err := s.result(f, k, &out[k], memory); err != nil {
			return err
		}
	}
	var err *ir.Error
	if s.own {
		err = s.run(f)
	} else {
		err = s.inEngine(func() *ir.Error { return s.run(f) })
	}
	if err == nil {
		s.keepState()
	}
	return err
}

// Prepare describes the results of a run on such arguments, whose memory it does not read. It freezes the plan.
func (s *InferenceSession) Prepare(in, out []SessionValue) (n int, err *ir.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := s.prepare(in)
	if err != nil {
		return 0, err
	}
	s.describe(f, out)
	return len(s.out), nil
}

// describe describes the results of a frozen plan, as many as there is room for.
func (s *InferenceSession) describe(f *frozenShape, out []SessionValue) {
	for k := range min(len(s.out), len(out)) {
		f.describe(&s.out[k], k, &out[k])
	}
}

// prepare matches the arguments and returns the frozen plan of their shapes.
func (s *InferenceSession) prepare(in []SessionValue) (*frozenShape, *ir.Error) {
	f, err := s.known(in)
	if f != nil || err != nil {
		return f, err
	}
	return s.freeze(in)
}

// known matches the arguments and returns the frozen plan of their shapes, nil if there is none yet.
func (s *InferenceSession) known(in []SessionValue) (*frozenShape, *ir.Error) {
	if s.closed {
		return nil, ir.Errorf(ir.ErrHandle, "session: it is closed")
	}
	if s.graph != s.e.graph {
		return nil, ir.Errorf(ir.ErrRuntime, "session: the engine was reset: open the session again")
	}
	if err := s.match(in); err != nil {
		return nil, err
	}
	for at, f := range s.shapes {
		if f.fits(in, s.order) {
			if at > 0 {
				copy(s.shapes[1:at+1], s.shapes[:at])
				s.shapes[0] = f
			}
			return f, nil
		}
	}
	return nil, nil
}

// match finds the place of each argument in the caller's list, and checks it.
func (s *InferenceSession) match(in []SessionValue) *ir.Error {
	for i := range s.in {
		s.order[i] = -1
	}
	for k := range in {
		i := k
		if i >= len(s.in) || !named(&in[k], s.in[i].Name) {
			i = slices.IndexFunc(s.in, func(q SessionPort) bool { return named(&in[k], q.Name) })
		}
		if i < 0 {
			return ir.Errorf(ir.ErrValue, "session: unknown input %q: want %s", nameOf(&in[k]), s.names())
		}
		if s.order[i] >= 0 {
			return ir.Errorf(ir.ErrValue, "session: input %q is given twice", s.in[i].Name)
		}
		s.order[i] = k
		if err := s.in[i].check(&in[k]); err != nil {
			return err
		}
		s.args[i] = in[k].Data
	}
	for i, k := range s.order {
		if k < 0 {
			return ir.Errorf(ir.ErrValue, "session: missing input %q: want %s", s.in[i].Name, s.names())
		}
	}
	return nil
}

func (s *InferenceSession) names() string {
	list := make([]string, len(s.in))
	for i := range s.in {
		list[i] = s.in[i].Name
	}
	return fmt.Sprintf("%q", list)
}

func named(v *SessionValue, name string) bool {
	return string(v.Name[:len(name)]) == name && v.Name[len(name)] == 0
}

func nameOf(v *SessionValue) string {
	if n := slices.Index(v.Name[:], 0); n >= 0 {
		return string(v.Name[:n])
	}
	return string(v.Name[:])
}

// shape is the shape of a value.
func (v *SessionValue) shape() []int64 { return v.Shape[:v.Rank] }

// check refuses a value that does not fit.
func (q *SessionPort) check(v *SessionValue) *ir.Error {
	if ir.DType(v.DType) != q.DType {
		return ir.Errorf(ir.ErrValue, "session: input %q: dtype: got %s, want %s", q.Name, dtypeName(v.DType), q.DType)
	}
	fits := int(v.Rank) == len(q.Shape)
	for d := 0; fits && d < len(q.Shape); d++ {
		fits = v.Shape[d] == q.Shape[d] || q.Shape[d] < 0 && v.Shape[d] >= 0
	}
	if !fits {
		got := []int64{}
		if v.Rank >= 0 && v.Rank <= MaxRank {
			got = v.shape()
		}
		return ir.Errorf(ir.ErrValue, "session: input %q: shape: got %s, want %s", q.Name, ir.ShapeString(got), q.text())
	}
	want := uint64(q.DType.Size())
	for _, n := range v.shape() {
		if n > 0 && want > 1<<62/uint64(n) {
			return ir.Errorf(ir.ErrValue, "session: input %q: shape %s is too large", q.Name, ir.ShapeString(v.shape()))
		}
		want *= uint64(n)
	}
	if v.Bytes != want {
		return ir.Errorf(ir.ErrValue, "session: input %q: got %d bytes, want %d", q.Name, v.Bytes, want)
	}
	if v.Data != nil && uintptr(v.Data)%uintptr(q.DType.Real().Size()) != 0 {
		return ir.Errorf(ir.ErrValue, "session: input %q: its memory is not aligned to elements of %s", q.Name, q.DType)
	}
	return nil
}

func dtypeName(d uint8) string {
	if d == 0 || ir.DType(d) >= ir.NumDTypes {
		return fmt.Sprintf("number %d", d)
	}
	return ir.DType(d).String()
}

// text is the shape with the names of sizes that may differ.
func (q *SessionPort) text() string {
	list := make([]string, len(q.Shape))
	for d, n := range q.Shape {
		if list[d] = fmt.Sprint(n); n < 0 {
			if list[d] = q.Dims[d]; list[d] == "" {
				list[d] = "any"
			}
		}
	}
	return fmt.Sprint(list)
}

// result describes result k, and finds its memory.
func (s *InferenceSession) result(f *frozenShape, k int, v *SessionValue,
	memory func(int, int64) unsafe.Pointer) *ir.Error {
	given, room := v.Data, v.Bytes
	f.describe(&s.out[k], k, v)
	switch {
	case given == nil && memory != nil:
		given = memory(k, int64(v.Bytes))
	case room < v.Bytes:
		return ir.Errorf(ir.ErrValue, "session: output %q: got %d bytes, want %d", s.out[k].Name, room, v.Bytes)
	case uintptr(given)%uintptr(ir.DType(v.DType).Real().Size()) != 0:
		return ir.Errorf(ir.ErrValue, "session: output %q: its memory is not aligned to elements of %s", s.out[k].Name,
			ir.DType(v.DType))
	}
	if given == nil && v.Bytes > 0 {
		return ir.Errorf(ir.ErrOutOfMemory, "session: output %q: no memory for %d bytes", s.out[k].Name, v.Bytes)
	}
	v.Data, s.results[k] = given, given
	return nil
}

// run runs a frozen plan on s.args and s.results.
func (s *InferenceSession) run(f *frozenShape) *ir.Error {
	if err := s.stopped(); err != nil {
		return err
	}
	if err := f.draw(s.e, s.own); err != nil {
		return err
	}
	err := f.plan.Run(s.args, s.results, s.kept, s.stop)
	if errors.Is(err, device.ErrStopped) {
		_, _, err = s.x.TakeFault() // of a run that has no results
		if err == nil {
			err = errInterrupted
		}
	}
	if err != nil {
		return asError(err)
	}
	fault, found, err := s.x.TakeFault()
	if err != nil {
		return asError(err)
	}
	if found {
		return f.plan.Plan.Program.DataError(int(fault.Event), fault.Element)
	}
	return nil
}

// Close releases the session. Its methods then fail.
func (s *InferenceSession) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.e.alone(func() {
		if s.graph != s.e.graph {
			return
		}
		for _, f := range s.shapes {
			f.release(s)
		}
		for _, k := range s.kept {
			k.Release()
		}
		s.shapes, s.kept = nil, nil
		s.program.close(s.e)
		s.e.session.Drain()
	})
	if s.own {
		s.x.Close()
	}
}
