package runtime

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
	"github.com/torchlette/torchlette/kernels/reference"
)

const second = ir.DeviceID(1) // a second device

// rig is an executor over reference devices.
type rig struct {
	*Executor
	t *testing.T
	d *reference.Device
}

func newRig(t *testing.T) *rig {
	r := &rig{New(), t, reference.New()}
	r.AddDevice(ir.CPU, r.d)
	r.Stop = &device.Stop{}
	return r
}

// input makes a storage of four int32.
func (r *rig) input(v ...int32) uint32 {
	id, err := r.Allocate(ir.CPU, 16)
	require.NoError(r.t, err)
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, uint32(x))
	}
	require.NoError(r.t, r.d.Upload(r.Storage(id).Buf, ir.I32, 0, b))
	return id
}

func (r *rig) read(id uint32) (v [4]int32) {
	var b [16]byte
	require.NoError(r.t, r.Read(id, ir.I32, 0, b[:], 0))
	for i := range v {
		v[i] = int32(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v
}

// add is a step that stores the sum of two slots in a third.
func add(x, y, out int) device.Step {
	b := loopir.NewBuilder("add", 1, 0)
	sum := b.Add(b.Load(b.Linear(b.Buf(ir.I32, loopir.Read), -1)), b.Load(b.Linear(b.Buf(ir.I32, loopir.Read), -1)))
	access := b.Linear(b.Buf(ir.I32, loopir.Write), -1)
	b.Map()
	b.Store(access, sum)
	return device.Step{Op: b.Kernel(), Bufs: []int{x, y, out}, Params: []device.Param{{Bits: 4}}, Event: 1}
}

// inPlace adds slot x to slot y.
func inPlace(x, y int) device.Step {
	b := loopir.NewBuilder("add_", 1, 0)
	value := b.Load(b.Linear(b.Buf(ir.I32, loopir.Read), -1))
	access := b.Linear(b.Buf(ir.I32, loopir.ReadWrite), -1)
	b.Map()
	b.Store(access, b.Add(value, b.Load(access)))
	return device.Step{Op: b.Kernel(), Bufs: []int{x, y}, Params: []device.Param{{Bits: 4}}, Event: 2}
}

// Slots of the plan in most tests: 0 and 1 are the inputs a and b, 2 is a temporary, 3 an output.
const slotA, slotB, slotTemp, slotOut = 0, 1, 2, 3

// threeSteps computes temp = a + a and out = temp + a, and adds out to b in place. Its results are out and the new b.
func threeSteps() *compile.Plan {
	return &compile.Plan{Slots: []compile.Slot{{Kind: compile.External, Index: 0, Bytes: 16},
		{Kind: compile.External, Index: 1, Bytes: 16}, {Kind: compile.Temp, Bytes: 16}, {Kind: compile.Output, Bytes: 16}},
		Outputs: 1, Temps: 1, Number: 5, Kernels: 3, BytesWritten: 48,
		Results:    []compile.Result{{Slot: slotOut}, {Slot: slotB}},
		Overwrites: compile.StepPlace{Segment: 1, Step: 0},
		Segments: []compile.Segment{{Steps: []device.Step{add(slotA, slotA, slotTemp), add(slotTemp, slotA, slotOut)}},
			{Steps: []device.Step{inPlace(slotOut, slotB)}}}}
}

// inSections is threeSteps with a section for each step, and a temporary of the last one.
func inSections() *compile.Plan {
	p := threeSteps()
	p.Slots, p.Temps = append(p.Slots, compile.Slot{Kind: compile.Temp, Index: 1, Bytes: 16}), 2
	steps := p.Segments[0].Steps
	p.Segments = []compile.Segment{{Steps: steps[:1], Acquires: []int{slotTemp}},
		{Steps: steps[1:], Acquires: []int{slotOut}, Releases: []int{slotTemp}}, p.Segments[1]}
	p.Segments[2].Acquires, p.Segments[2].Releases = []int{slotOut + 1}, []int{slotOut + 1}
	p.Most, p.Overwrites.Segment = 2*device.SizeClass(16), 2
	return p
}

func (r *rig) pool() *Pool { return r.Devices[ir.CPU].Pool }

func TestARunGivesItsResultsAndReturnsItsTemporaries(t *testing.T) {
	r, p := newRig(t), threeSteps()
	a, b := r.input(1, 2, 3, 4), r.input(10, 10, 10, 10)
	require.NoError(t, r.Prepare(p))
	got, err := r.Run(p, []uint32{a, b}, nil, nil, nil)
	require.NoError(t, err)
	require.Len(t, got, 2)
	assert.Equal(t, [4]int32{3, 6, 9, 12}, r.read(got[0]))
	assert.Equal(t, b, got[1], "the value that was written in place has the storage of the one before")
	assert.Equal(t, [4]int32{13, 16, 19, 22}, r.read(b))
	assert.EqualValues(t, 1, r.Storage(b).Version)
	assert.EqualValues(t, 2, r.Storage(b).Refs)
	assert.EqualValues(t, 5, r.Storage(got[0]).Plan)
	assert.Equal(t, 3, r.pool().Count, "a, b and the output")
	assert.Equal(t, [3]int64{1, 3, 48}, [3]int64{r.Runs, r.Kernels, r.Bytes})
	for _, id := range []uint32{a, b, got[0], got[1]} {
		r.Drop(id)
	}
	assert.Zero(t, r.pool().Count)
	assert.Zero(t, r.LiveStorages)
	r.ReleasePlan(p)
	assert.Zero(t, r.d.Programs)
	assert.Equal(t, b, r.input(), "the number that came back last is used again")
}

func TestResultsOfOneSlotShareAStorage(t *testing.T) {
	r, p := newRig(t), threeSteps()
	p.Results = []compile.Result{{Slot: slotOut}, {Slot: slotOut}}
	require.NoError(t, r.Prepare(p))
	got, err := r.Run(p, []uint32{r.input(1), r.input(1)}, nil, nil, []uint32{77})
	require.NoError(t, err)
	require.Equal(t, uint32(77), got[0], "results are appended")
	require.Equal(t, got[1], got[2])
	require.EqualValues(t, 2, r.Storage(got[1]).Refs)
	r.Drop(got[1])
	require.NotNil(t, r.Storage(got[1]).Buf)
}

// Each allocation fails in turn, and the pool's limit is reached: both before the first submit, so nothing has changed.
func TestAFailedAdmissionLeavesEverythingAsItWas(t *testing.T) {
	for _, tc := range []struct {
		name string
		fail func(r *rig)
		heal func(r *rig)
	}{
		// The pool retries a failed allocation after it has freed its buffers, so the device must fail twice.
		{"the device is full", func(r *rig) { r.d.Faults.Alloc = 5 }, func(r *rig) { r.d.Faults.Alloc = 0 }},
		{"the limit is reached", func(r *rig) { r.pool().Limit = r.pool().Live + 2*device.SizeClass(16) },
			func(r *rig) { r.pool().Limit = 0 }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, p := newRig(t), threeSteps()
			p.Slots = append(p.Slots, compile.Slot{Kind: compile.Temp, Index: 1, Bytes: 16}) // its allocation fails
			p.Temps = 2
			var full device.Device = &fullDevice{r.d}
			r.Devices[ir.CPU].Dev, r.pool().dev = full, full
			a, b := r.input(1, 2, 3, 4), r.input(0, 0, 0, 0)
			require.NoError(t, r.Prepare(p))
			tc.fail(r)
			live := r.pool().Live
			_, err := r.Run(p, []uint32{a, b}, nil, nil, nil)
			var admission *ErrAdmission
			require.ErrorAs(t, err, &admission)
			var e *ir.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, ir.ErrOutOfMemory, e.Code)
			require.ErrorContains(t, err, "out of memory on interpreter: got a request of 16 bytes with")
			require.Equal(t, live, r.pool().Live, "what was acquired went back")
			tc.heal(r)
			got, err := r.Run(p, []uint32{a, b}, nil, nil, nil)
			require.NoError(t, err)
			require.Equal(t, [4]int32{3, 6, 9, 12}, r.read(got[0]))
		})
	}
}

// fullDevice fails every allocation from number Faults.Alloc on.
type fullDevice struct{ *reference.Device }

func (d *fullDevice) Alloc(bytes int64) (device.Buffer, error) {
	if d.Faults.Alloc > 0 && d.Live+1 >= d.Faults.Alloc {
		return nil, ir.Errorf(ir.ErrOutOfMemory, "full")
	}
	return d.Device.Alloc(bytes)
}

// A section that gets no buffer ends the run as if it had not begun. Temporaries go back when their last section ends.
func TestSectionsAcquireAndReturnBuffers(t *testing.T) {
	for allocs := range 3 {
		r, p := newRig(t), inSections()
		a, b := r.input(1, 2, 3, 4), r.input(0, 0, 0, 0)
		require.NoError(t, r.Prepare(p))
		live := r.pool().Live
		if allocs < 2 {
			var full device.Device = &fullDevice{r.d}
			r.Devices[ir.CPU].Dev, r.pool().dev, r.d.Faults.Alloc = full, full, r.d.Live+1+allocs
		} else {
			r.pool().Limit = live + p.Most - 1
		}
		_, err := r.Run(p, []uint32{a, b}, nil, nil, nil)
		var admission *ErrAdmission
		require.ErrorAs(t, err, &admission)
		require.ErrorContains(t, err, "out of memory on interpreter")
		require.Equal(t, live, r.pool().Live, "what was acquired went back")
		r.d.Faults.Alloc, r.pool().Limit = 0, 0
		got, err := r.Run(p, []uint32{a, b}, nil, nil, nil)
		require.NoError(t, err)
		require.Equal(t, [4]int32{3, 6, 9, 12}, r.read(got[0]))
		require.Equal(t, [4]int32{3, 6, 9, 12}, r.read(b))
		require.Equal(t, 3, r.pool().Count, "a, b and the output")
		require.Equal(t, live+p.Most, r.pool().Peak)
	}
}

func TestAFailedRunReturnsItsBuffers(t *testing.T) {
	for submit := 1; submit <= 5; submit++ {
		r, p := newRig(t), threeSteps()
		a, b := r.input(1, 2, 3, 4), r.input(0, 0, 0, 0)
		require.NoError(t, r.Prepare(p))
		live := r.pool().Live
		if r.d.Faults.Run = submit; submit > 2 {
			p, r.d.Faults.Run = inSections(), submit-2
			require.NoError(t, r.Prepare(p))
		}
		_, err := r.Run(p, []uint32{a, b}, nil, nil, nil)
		var e *ir.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, ir.ErrKernelExecution, e.Code)
		require.Equal(t, live, r.pool().Live, "submit %d", submit)
		require.False(t, r.Stopped())
		require.Zero(t, r.Runs)
		require.EqualValues(t, 0, r.Storage(b).Version)
		require.Equal(t, [4]int32{}, r.read(b), "the step that writes b did not run")
	}
}

func TestAPlanThatNoDeviceCanHoldIsRefusedAtOnce(t *testing.T) {
	r, p := newRig(t), threeSteps()
	p.Slots[slotOut].Bytes = 1 << 41
	require.ErrorContains(t, r.Prepare(p), "a buffer has at most 1099511627776 bytes")
	require.Zero(t, r.d.Programs)
	p = threeSteps()
	r.d.Faults.Build = 2
	require.Error(t, r.Prepare(p))
	require.Zero(t, r.d.Programs, "the first segment's program was released")
}

// A run can be stopped before each step. When resumed, it computes the values of an uninterrupted run. When given up,
// which is allowed until it has overwritten something, it leaves no values.
func TestARunStopsBetweenStepsAndGoesOn(t *testing.T) {
	for k := range int32(6) {
		step, plan := k%3+1, threeSteps
		if k >= 3 {
			plan = inSections
		}
		for _, resume := range []bool{true, false} {
			r, p := newRig(t), plan()
			a, b := r.input(1, 2, 3, 4), r.input(10, 10, 10, 10)
			require.NoError(t, r.Prepare(p))
			live := r.pool().Live
			r.Stop.AskAt(step)
			_, err := r.Run(p, []uint32{a, b}, nil, nil, nil)
			require.ErrorIs(t, err, device.ErrStopped)
			require.True(t, r.Stopped())
			require.False(t, r.Overwrote(), "b is written by the last step, which has not begun")
			require.Equal(t, [4]int32{10, 10, 10, 10}, r.read(b))
			r.Stop.Clear()
			if !resume {
				r.GiveUp()
				require.Equal(t, live, r.pool().Live)
				require.False(t, r.Stopped())
				_, err = r.Run(p, []uint32{a, b}, nil, nil, nil)
			} else {
				var got []uint32
				got, err = r.Resume()
				require.Equal(t, [4]int32{3, 6, 9, 12}, r.read(got[0]))
			}
			require.NoError(t, err)
			require.Equal(t, [4]int32{13, 16, 19, 22}, r.read(b), "stopped before step %d", step)
		}
	}
}

// A run that stopped after it wrote to an input must be resumed.
func TestAStoppedRunSaysThatItOverwrote(t *testing.T) {
	p := threeSteps()
	p.Segments[1].Steps = append(p.Segments[1].Steps, add(slotA, slotA, slotOut))
	p.Segments = append(p.Segments, compile.Segment{Steps: []device.Step{add(slotA, slotA, slotOut)}})
	for step, overwrote := range []bool{false, false, false, true, true} {
		r := newRig(t)
		require.NoError(t, r.Prepare(p))
		r.Stop.AskAt(int32(step + 1))
		_, err := r.Run(p, []uint32{r.input(1), r.input(1)}, nil, nil, nil)
		require.ErrorIs(t, err, device.ErrStopped)
		require.Equal(t, overwrote, r.Overwrote(), "before step %d", step)
		r.ReleasePlan(p)
	}
}

func TestTransfersMoveAViewBetweenDevices(t *testing.T) {
	r := newRig(t)
	other := reference.New()
	r.AddDevice(second, other)
	id, err := r.Allocate(second, 16)
	require.NoError(t, err)
	require.NoError(t, other.Upload(r.Storage(id).Buf, ir.I32, 0, []byte{1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0}))
	p := &compile.Plan{
		Slots:   []compile.Slot{{Kind: compile.External, Bytes: 16, Dev: second}, {Kind: compile.Output, Bytes: 16}},
		Outputs: 1, Results: []compile.Result{{Slot: 1}},
		Segments: []compile.Segment{{Transfer: true, FromDev: second, From: 0, To: 1, DType: ir.I32, Numel: 2, FromOff: 0}}}
	require.NoError(t, r.Prepare(p))
	r.Stop.Ask()
	_, err = r.Run(p, []uint32{id}, []int64{1}, nil, nil)
	require.ErrorIs(t, err, device.ErrStopped, "a transfer is a place to stop")
	r.Stop.Clear()
	got, err := r.Resume()
	require.NoError(t, err)
	v := r.read(got[0])
	require.Equal(t, []int32{2, 3}, v[:2])
	r.d.Faults.Upload = 2
	_, err = r.Run(p, []uint32{id}, []int64{1}, nil, nil)
	require.Error(t, err)
}

// On an asynchronous device at most two windows are in flight, and the wait for one can be stopped.
func TestWindowsInFlightAreBounded(t *testing.T) {
	r := newRig(t)
	r.d.Lag = true
	r.Devices[ir.CPU].Pool = NewPool(r.d, time.Minute)
	p := threeSteps()
	p.Segments = p.Segments[:1]
	p.Results = p.Results[:1]
	require.NoError(t, r.Prepare(p))
	ext := []uint32{r.input(1, 2, 3, 4), r.input()}
	require.NoError(t, r.Wait())
	before := r.d.Submitted()
	for range maxInFlight {
		_, err := r.Run(p, ext, nil, nil, nil)
		require.NoError(t, err)
	}
	require.False(t, r.d.Done(before+1), "nobody waited")
	r.Stop.Ask()
	_, err := r.Run(p, ext, nil, nil, nil)
	require.ErrorIs(t, err, device.ErrStopped)
	r.Stop.Clear()
	got, err := r.Resume()
	require.NoError(t, err)
	require.True(t, r.d.Done(before+1), "the first has ended")
	require.False(t, r.d.Done(before+2))
	require.Equal(t, [4]int32{3, 6, 9, 12}, r.read(got[0]))
}

// timed is a device that reports two passes of its first step and one of its second.
type timed struct {
	*reference.Device
	on bool
}

func (d *timed) Profile(on bool) error { d.on = on; return nil }

func (d *timed) Profiles() []device.StepTime {
	return []device.StepTime{{Step: 0, Start: 5, Duration: 10}, {Step: 0, Start: 15, Duration: 20},
		{Step: 1, Start: 35, Duration: 30, Op: launch.Fill{}}}
}

func TestProfilesCountTheWorkOfAStepOnce(t *testing.T) {
	r := newRig(t)
	d := &timed{Device: r.d}
	r.Devices[ir.CPU].Dev = d
	p := threeSteps()
	p.Segments, p.Results = p.Segments[:1], p.Results[:1]
	p.Segments[0].Steps[1].Params = []device.Param{{Bits: 4}, {Bits: 4}}
	p.Segments[0].Steps[1].Op = launch.Fill{}
	p.Segments[0].Steps[1].Bufs = []int{slotOut}
	require.NoError(t, r.Prepare(p))
	r.SetProfiling(true)
	require.True(t, d.on)
	_, err := r.Run(p, []uint32{r.input(1), r.input(1)}, nil, nil, nil)
	require.NoError(t, err)
	require.Len(t, r.Timings, 3)
	require.EqualValues(t, []int64{48, 0, 4}, []int64{r.Timings[0].Bytes, r.Timings[1].Bytes, r.Timings[2].Bytes})
	require.Equal(t, "fill_zero", r.Timings[2].Kernel)
	require.Equal(t, time.Duration(30), r.Timings[2].Start.Sub(r.Timings[0].Start), "of the device's clock")
	require.Equal(t, []time.Duration{30, 30}, p.Segments[0].Times)
	r.SetProfiling(false)
	require.Empty(t, r.Timings)
}

func TestADataErrorOfAnyDeviceIsTaken(t *testing.T) {
	r := newRig(t)
	b := loopir.NewBuilder("check", 1, 0)
	x := b.Load(b.Linear(b.Buf(ir.I32, loopir.Read), -1))
	out := b.Linear(b.Buf(ir.I32, loopir.Write), -1)
	b.Map()
	b.Check(b.Lt(x, b.Int(ir.I32, 3)), x)
	b.Store(out, x)
	p := threeSteps()
	p.Segments = []compile.Segment{{Steps: []device.Step{{Op: b.Kernel(), Bufs: []int{slotA, slotOut},
		Params: []device.Param{{Bits: 4}}, Event: 9}}}}
	require.NoError(t, r.Prepare(p))
	_, err := r.Run(p, []uint32{r.input(1, 2, 7, 8), r.input()}, nil, nil, nil)
	require.NoError(t, err)
	f, ok, err := r.TakeFault()
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, device.Fault{Event: 9, Element: 7}, f)
	_, ok, _ = r.TakeFault()
	require.False(t, ok, "it was taken")
}

func TestErrorsOfOtherKindsKeepTheirClass(t *testing.T) {
	r := newRig(t)
	pl := r.Devices[ir.CPU]
	lost := ir.Errorf(ir.ErrDeviceLost, "lost")
	require.Same(t, lost, r.wrap(pl, 8, lost))
	require.ErrorContains(t, r.wrap(pl, 8, errors.New("no room")), "out of memory on interpreter")
}

// A limit holds for every device, also one added later; ResetPeak and Trim act on all devices.
func TestLimitsAndTrimsAreForEveryDevice(t *testing.T) {
	r := newRig(t)
	r.SetLimit(1000)
	other := reference.New()
	r.AddDevice(second, other)
	for _, id := range []ir.DeviceID{ir.CPU, second} {
		_, err := r.Allocate(id, 2000)
		require.ErrorContains(t, err, "the memory limit of 1000 bytes")
		st, err := r.Allocate(id, 500)
		require.NoError(t, err)
		require.NoError(t, r.Upload(st, ir.I32, []byte{7, 0, 0, 0}))
		var b [4]byte
		require.NoError(t, r.Read(st, ir.I32, 0, b[:], 0))
		require.Equal(t, []byte{7, 0, 0, 0}, b[:])
		require.Nil(t, r.Mapped(st), "the reference device's memory is its own")
		r.Drop(st)
		require.Positive(t, r.Devices[id].Pool.Peak)
	}
	r.ResetPeak()
	require.NoError(t, r.Trim())
	require.Zero(t, r.Devices[ir.CPU].Pool.Peak+r.Devices[second].Pool.Peak)
	require.Zero(t, r.d.Live+other.Live)
	r.SetLimit(0)
	_, err := r.Allocate(second, 2000)
	require.NoError(t, err)
	require.Equal(t, "interpreter", r.Caps(second).Name)
	require.Nil(t, r.TileFuser(second))
	r.Close()
	prog, err := other.Build(nil, 0)
	require.NoError(t, err)
	_, err = other.Run(prog, &device.Binding{})
	require.ErrorContains(t, err, "the device is lost", "closed")
}
