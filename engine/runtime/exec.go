package runtime

import (
	"errors"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// DeviceStorage is memory that holds a value beyond one run. Each graph leaf on it is a reference; several versions may
// use one storage in turn.
type DeviceStorage struct {
	Buf     device.Buffer
	Dev     ir.DeviceID
	Bytes   int64
	Refs    int32
	Version uint64 // in-place stores committed to it
	Plan    int64  // number of the plan that last wrote it, 0 for none
	Window  int64  // number of that run, counted over all plans
	Owner   uint64 // of memory that no pool owns; it is released after the storage, see Executor.Orphans
	Free    func() // instead of an owner: it returns such memory
	Pages   bool   // such memory, or Source, is pages of a file, and nothing outside has written the elements
	// Source has the elements, not aligned, if the buffer is a copy of pages; without a buffer they are only there. The
	// owner keeps it.
	Source unsafe.Pointer
}

// DeviceState is a device with its pool.
type DeviceState struct {
	Dev    device.Device
	Pool   *Pool
	fences []device.Fence // windows in flight
}

// Executor runs plans on devices.
type Executor struct {
	Devices  map[ir.DeviceID]*DeviceState
	storages []DeviceStorage
	free     []uint32
	bind     device.Binding
	outs     []device.Buffer
	temps    []device.Buffer
	made     []uint32
	Timeout  time.Duration
	Limit    int64 // of each pool; 0 for none
	// Stop ends runs and waits early; see Run.
	Stop *device.Stop
	// Deadline ends runs like Stop; the zero time: never.
	Deadline time.Time
	run      *stopped // the stopped run, until Resume completes it or GiveUp drops it
	repeats  []repeated
	fault    *device.Fault    // that ended a repeat
	arena    arena            // of frozen plans
	copy     *device.HostCopy // that the next Run makes; nil: none
	// Profiling makes Run record in Timings when each step ran.
	Profiling bool
	Timings   []Timing
	// Counters.
	Kernels, Bytes, Runs int64
	LiveStorages         int
	// Orphans are the owners of storages that are gone. The caller releases them.
	Orphans []uint64
}

// maxInFlight is how many windows may run ahead on an asynchronous device.
const maxInFlight = 2

// New makes an executor without devices.
func New() *Executor {
	return &Executor{Devices: map[ir.DeviceID]*DeviceState{}, storages: make([]DeviceStorage, 1),
		Timeout: 120 * time.Second}
}

// AddDevice adds an open device.
func (x *Executor) AddDevice(id ir.DeviceID, d device.Device) *DeviceState {
	p := &DeviceState{Dev: d, Pool: NewPool(d, x.Timeout)}
	p.Pool.Limit = x.Limit
	x.Devices[id] = p
	x.profile(d)
	return p
}

// Storage returns entry id.
func (x *Executor) Storage(id uint32) *DeviceStorage { return &x.storages[id] }

// NewStorage adds a buffer with one reference.
func (x *Executor) NewStorage(buf device.Buffer, dev ir.DeviceID, bytes int64) uint32 {
	x.LiveStorages++
	s := DeviceStorage{Buf: buf, Dev: dev, Bytes: bytes, Refs: 1}
	if k := len(x.free); k > 0 {
		id := x.free[k-1]
		x.free = x.free[:k-1]
		x.storages[id] = s
		return id
	}
	x.storages = append(x.storages, s)
	return uint32(len(x.storages) - 1)
}

// Caps describes an open device.
func (x *Executor) Caps(id ir.DeviceID) *device.Caps { return x.Devices[id].Dev.Caps() }

// TileFuser returns the device as a fuser of tiled steps, nil if it is none.
func (x *Executor) TileFuser(id ir.DeviceID) device.TileFuser {
	c, _ := x.Devices[id].Dev.(device.TileFuser)
	return c
}

// Upload copies dense elements in canonical form to a storage.
func (x *Executor) Upload(id uint32, d ir.DType, data []byte) error {
	s := &x.storages[id]
	return x.Devices[s.Dev].Dev.Upload(s.Buf, d, 0, data)
}

// SetLimit bounds the bytes in use on each device; 0: no bound.
func (x *Executor) SetLimit(n int64) {
	x.Limit = n
	for _, pl := range x.Devices {
		pl.Pool.Limit = n
	}
}

// ResetPeak restarts the peak of each device.
func (x *Executor) ResetPeak() {
	for _, pl := range x.Devices {
		pl.Pool.ResetPeak()
	}
}

// Trim frees the unused buffers of all devices.
func (x *Executor) Trim() error {
	for _, pl := range x.Devices {
		if err := pl.Pool.Trim(); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the devices.
func (x *Executor) Close() {
	for _, pl := range x.Devices {
		pl.Dev.Close()
	}
}

// Retain adds a reference.
func (x *Executor) Retain(id uint32) { x.storages[id].Refs++ }

// Drop removes a reference; the last one returns the buffer to the pool.
func (x *Executor) Drop(id uint32) {
	s := &x.storages[id]
	if s.Refs--; s.Refs > 0 {
		return
	}
	if s.Buf != nil && (s.Source != nil || s.Free == nil && s.Owner == 0) {
		x.Devices[s.Dev].Pool.Release(s.Buf, s.Bytes)
	}
	switch {
	case s.Free != nil:
		s.Free()
	case s.Owner != 0:
		x.Orphans = append(x.Orphans, s.Owner)
	}
	*s = DeviceStorage{}
	x.LiveStorages--
	x.free = append(x.free, id)
}

// Allocate makes a storage of that many bytes.
func (x *Executor) Allocate(dev ir.DeviceID, bytes int64) (uint32, error) {
	pl := x.Devices[dev]
	b, err := pl.Pool.Acquire(bytes)
	if err != nil {
		return 0, x.wrap(pl, bytes, err)
	}
	return x.NewStorage(b, dev, bytes), nil
}

func (x *Executor) wrap(pl *DeviceState, bytes int64, err error) error {
	if err == nil {
		return nil
	}
	var e *ir.Error
	if errors.As(err, &e) && e.Code != ir.ErrOutOfMemory {
		return e
	}
	return outOfMemory(pl.Dev, bytes, pl.Pool, err)
}

// Prepare builds the device programs of a new plan. A plan with a buffer larger than its device allows gets none.
func (x *Executor) Prepare(p *compile.Plan) error {
	return x.prepare(p, func(s *compile.Segment) (err error) {
		s.Program, err = x.Devices[s.Dev].Dev.Build(s.Steps, len(p.Slots))
		if b, ok := s.Program.(device.BriefProgram); ok && err == nil {
			p.Brief = p.Brief || b.Brief()
		}
		return err
	})
}

// Compile begins the work of Prepare. A device that compiles in the background does not make the caller wait; see
// Compiled.
func (x *Executor) Compile(p *compile.Plan) error {
	return x.prepare(p, func(s *compile.Segment) (err error) {
		if c, ok := x.Devices[s.Dev].Dev.(device.Compiler); ok {
			s.Compiling, err = c.Compile(s.Steps, len(p.Slots))
		} else {
			s.Program, err = x.Devices[s.Dev].Dev.Build(s.Steps, len(p.Slots))
		}
		return err
	})
}

// Compiled reports, without waiting, whether the device programs of a plan given to Compile exist. After an error the
// plan has none.
func (x *Executor) Compiled(p *compile.Plan) (ok bool, err error) {
	for i := range p.Segments {
		if c := p.Segments[i].Compiling; c != nil && !c.Done() {
			return false, nil
		}
	}
	for i := range p.Segments {
		s := &p.Segments[i]
		if s.Compiling == nil {
			continue
		}
		if s.Program, err = s.Compiling.Program(); err != nil {
			s.Program = nil
			x.ReleasePlan(p)
			return false, err
		}
		s.Compiling = nil
	}
	return true, nil
}

// prepare calls build for each segment of p without a program.
func (x *Executor) prepare(p *compile.Plan, build func(s *compile.Segment) error) error {
	for i := range p.Slots {
		s := &p.Slots[i]
		if most := x.Devices[s.Dev].Dev.Caps().MaxBuffer; s.Kind != compile.External && most > 0 && s.Bytes > most {
			pl := x.Devices[s.Dev]
			return outOfMemory(pl.Dev, s.Bytes, pl.Pool, fmt.Errorf("a buffer has at most %d bytes", most))
		}
	}
	for i := range p.Segments {
		s := &p.Segments[i]
		if s.Transfer || s.Repeat != nil || s.Program != nil {
			continue
		}
		if err := build(s); err != nil {
			s.Program = nil
			x.ReleasePlan(p)
			return err
		}
	}
	return nil
}

// ReleasePlan frees the device programs of p and of its successor.
func (x *Executor) ReleasePlan(p *compile.Plan) {
	for i := range p.Segments {
		s := &p.Segments[i]
		if s.Compiling = nil; s.Program != nil {
			s.Program.Release()
			s.Program = nil
		}
	}
	if p.Next != nil {
		x.ReleasePlan(p.Next)
		p.Next = nil
	}
}

// ErrAdmission is a failure before the first submit: nothing has run.
type ErrAdmission struct{ Err error }

// Error returns the cause's text.
func (e *ErrAdmission) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ErrAdmission) Unwrap() error { return e.Err }

// Run runs p on the storages ext and returns the storages of its results in order, each with one reference. A failure
// before the first submit, or of a section that gets no buffer, is an *ErrAdmission and changes nothing. After
// device.ErrStopped (Stop ended the run early), // Resume or GiveUp must come before another Run.
func (x *Executor) Run(p *compile.Plan, ext []uint32, offsets []int64, scalars []uint64, results []uint32) ([]uint32,
	error) {
	if err := x.admit(p); err != nil {
		return nil, &ErrAdmission{err}
	}
	b := &x.bind
	b.Offsets, b.Scalars, b.Stop = offsets, scalars, x.Stop
	b.Bufs = b.Bufs[:0]
	for i := range p.Slots {
		switch s := &p.Slots[i]; s.Kind {
		case compile.External:
			buf := x.storages[ext[s.Index]].Buf
			if buf == nil {
				var err error
				if buf, err = x.absent(p, i, ext[s.Index]); err != nil {
					x.giveBack(p, compile.Output)
					x.giveBack(p, compile.Temp)
					return nil, &ErrAdmission{err}
				}
			}
			b.Bufs = append(b.Bufs, buf)
		case compile.Output:
			b.Bufs = append(b.Bufs, x.outs[s.Index])
		default:
			b.Bufs = append(b.Bufs, x.temps[s.Index])
		}
	}
	b.At = device.Position{}
	x.beginRepeats(p)
	return x.from(p, ext, 0, results)
}

// from runs p from the given segment on.
func (x *Executor) from(p *compile.Plan, ext []uint32, segment int, results []uint32) ([]uint32, error) {
	x.bind.Deadline = x.Deadline
	at, err := x.segments(p, segment)
	if errors.Is(err, device.ErrStopped) {
		x.run = &stopped{plan: p, ext: ext, segment: at}
		return nil, err
	}
	x.giveBack(p, compile.Temp)
	if err != nil {
		x.giveBack(p, compile.Output)
		return nil, err
	}
	x.Runs++
	x.Kernels += int64(p.Kernels)
	x.Bytes += p.BytesWritten
	return x.settle(p, ext, results), nil
}

// settle makes storages of the outputs that results names; the other outputs return to the pool.
func (x *Executor) settle(p *compile.Plan, ext, results []uint32) []uint32 {
	x.made = append(x.made[:0], make([]uint32, p.Outputs)...) // by output: its storage, 0 for none
	for _, r := range p.Results {
		s := &p.Slots[r.Slot]
		if s.Kind == compile.External {
			id := ext[s.Index]
			x.Retain(id)
			x.storages[id].Version++
			x.wrote(id, p)
			results = append(results, id)
			continue
		}
		if id := x.made[s.Index]; id != 0 {
			x.Retain(id)
			results = append(results, id)
			continue
		}
		id := x.NewStorage(x.outs[s.Index], s.Dev, s.Bytes)
		x.made[s.Index], x.outs[s.Index] = id, nil
		x.wrote(id, p)
		results = append(results, id)
	}
	x.giveBack(p, compile.Output)
	return results
}

// wrote notes which run wrote a storage.
func (x *Executor) wrote(id uint32, p *compile.Plan) {
	s := &x.storages[id]
	s.Plan, s.Window = p.Number, x.Runs
}

// admit acquires all buffers of the plan, or none; without effect where sections acquire them.
func (x *Executor) admit(p *compile.Plan) error {
	x.outs, x.temps = cleared(x.outs, p.Outputs), cleared(x.temps, p.Temps)
	if p.Most > 0 {
		pl := x.Devices[p.Segments[0].Dev]
		return x.wrap(pl, p.Most, pl.Pool.Fits(p.Most))
	}
	x.again(p)
	for i := range p.Slots {
		s := &p.Slots[i]
		if s.Kind == compile.External {
			continue
		}
		b := x.held(s)
		if *b == nil {
			var err error
			pl := x.Devices[s.Dev]
			if *b, err = pl.Pool.Acquire(s.Bytes); err != nil {
				*b = nil
				x.giveBack(p, compile.Output)
				x.giveBack(p, compile.Temp)
				return x.wrap(pl, s.Bytes, err)
			}
		}
	}
	for i := range p.Slots {
		if s := &p.Slots[i]; s.Kind != compile.External && *x.held(s) != s.Last[1] {
			s.Last = [2]device.Buffer{s.Last[1], *x.held(s)}
		}
	}
	return nil
}

// again assigns slots their former buffers if these are free, because the device keeps bind groups for them.
func (x *Executor) again(p *compile.Plan) {
	for i := range p.Slots {
		s := &p.Slots[i]
		if s.Kind == compile.External {
			continue
		}
		for _, b := range s.Last {
			if b != nil && x.Devices[s.Dev].Pool.Reacquire(b, s.Bytes) {
				*x.held(s) = b
				break
			}
		}
	}
}

// cleared returns n empty entries in the memory of list.
func cleared(list []device.Buffer, n int) []device.Buffer {
	list = slices.Grow(list[:0], n)[:n]
	clear(list)
	return list
}

// held returns the place of an output's or temporary's buffer during a run.
func (x *Executor) held(s *compile.Slot) *device.Buffer {
	if s.Kind == compile.Output {
		return &x.outs[s.Index]
	}
	return &x.temps[s.Index]
}

// giveBack returns the buffers of one kind that the run holds.
func (x *Executor) giveBack(p *compile.Plan, kind compile.SlotKind) {
	for i := range p.Slots {
		s := &p.Slots[i]
		if s.Kind != kind {
			continue
		}
		if b := x.held(s); *b != nil {
			x.Devices[s.Dev].Pool.Release(*b, s.Bytes)
			*b = nil
		}
	}
}

// segments runs the plan's segments in order from one on, and returns the one that it reached.
func (x *Executor) segments(p *compile.Plan, from int) (int, error) {
	for i := from; i < len(p.Segments); {
		s, next := &p.Segments[i], i+1
		var err error
		switch {
		case s.Repeat != nil:
			next, err = x.repeat(p, s, i)
		case s.Transfer && x.bind.Asked():
			err = device.ErrStopped
		case s.Transfer:
			err = x.transfer(s)
		default:
			err = x.steps(p, s)
		}
		if err != nil {
			return i, err
		}
		i = next
	}
	return len(p.Segments), nil
}

// steps runs a segment of steps.
func (x *Executor) steps(p *compile.Plan, s *compile.Segment) error {
	pl := x.Devices[s.Dev]
	if err := x.throttle(pl); err != nil {
		return err
	}
	if err := x.acquire(p, s); err != nil {
		return &ErrAdmission{err}
	}
	x.joinCopy(p, s)
	began := time.Now()
	f, err := pl.Dev.Run(s.Program, &x.bind)
	if pl.Dev.Caps().Async && (err == nil || errors.Is(err, device.ErrStopped)) {
		pl.fences = append(pl.fences, f)
	}
	if err != nil {
		return err
	}
	if x.Profiling {
		x.note(s, pl.Dev, began)
	}
	x.bind.At = device.Position{}
	x.release(p, s)
	return nil
}

// acquire acquires the buffers that a section is the first to use. A section that goes on after a stop has them.
func (x *Executor) acquire(p *compile.Plan, s *compile.Segment) error {
	for _, n := range s.Acquires {
		slot := &p.Slots[n]
		b, pl := x.held(slot), x.Devices[slot.Dev]
		if *b != nil {
			continue
		}
		var err error
		if *b, err = pl.Pool.Acquire(slot.Bytes); err != nil {
			*b = nil
			return x.wrap(pl, slot.Bytes, err)
		}
		x.bind.Bufs[n] = *b
	}
	return nil
}

// release returns the temporaries that a section was the last to use.
func (x *Executor) release(p *compile.Plan, s *compile.Segment) {
	for _, n := range s.Releases {
		slot := &p.Slots[n]
		b := x.held(slot)
		x.Devices[slot.Dev].Pool.Release(*b, slot.Bytes)
		*b = nil
	}
}

// throttle waits until fewer than maxInFlight windows run.
func (x *Executor) throttle(pl *DeviceState) error {
	for len(pl.fences) > 0 && pl.Dev.Done(pl.fences[0]) {
		pl.fences = append(pl.fences[:0], pl.fences[1:]...)
	}
	if len(pl.fences) < maxInFlight {
		return nil
	}
	err := pl.Dev.Wait(pl.fences[0], x.Timeout, x.bind.Asked)
	if interrupted(err) {
		return device.ErrStopped
	}
	pl.fences = append(pl.fences[:0], pl.fences[1:]...)
	return err
}

func interrupted(err error) bool {
	var e *ir.Error
	return errors.As(err, &e) && e.Code == ir.ErrInterrupted
}

// transfer copies a value from one device to another. A device copies to and from host memory in place; a copy between
// them would fault in fresh pages.
func (x *Executor) transfer(s *compile.Segment) error {
	if s.Numel == 0 {
		return nil
	}
	from, to := x.Devices[s.FromDev].Dev, x.Devices[s.Dev].Dev
	src, dst, off := x.bind.Bufs[s.From], x.bind.Bufs[s.To], x.bind.Offsets[s.FromOff]
	size := int64(s.DType.Size())
	n := s.Numel * size
	if m, ok := src.(device.Mapped); ok {
		return to.Upload(dst, s.DType, 0, contents(m)[off*size:][:n])
	}
	if m, ok := dst.(device.Mapped); ok {
		return from.Read(src, s.DType, off, contents(m)[:n])
	}
	data := make([]byte, n)
	if err := from.Read(src, s.DType, off, data); err != nil {
		return err
	}
	return to.Upload(dst, s.DType, 0, data)
}

// contents is the memory of a buffer.
func contents(m device.Mapped) []byte { return unsafe.Slice((*byte)(m.Pointer()), m.Bytes()) }

// RunsBehind reports that some device is asynchronous, so that waiting takes time.
func (x *Executor) RunsBehind() bool {
	for _, pl := range x.Devices {
		if pl.Dev.Caps().Async {
			return true
		}
	}
	return false
}

// Wait blocks until every device is idle, or Stop ends the wait with ErrInterrupted.
func (x *Executor) Wait() error {
	for _, pl := range x.Devices {
		if err := pl.Dev.Wait(pl.Dev.Submitted(), x.Timeout, x.Stop.Asked); err != nil {
			return err
		}
		pl.fences = pl.fences[:0]
	}
	return nil
}
