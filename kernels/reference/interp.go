package reference

import (
	"fmt"
	"time"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// Faults says which calls fail, counted from 1; 0: none.
type Faults struct {
	Alloc, Run, Build, Upload int
	// Lose makes the failing Run lose the device.
	Lose bool
}

// Device implements device.Device. With Lag set, submissions wait in a queue until a fence is waited for, as a GPU's
// do.
type Device struct {
	Faults   Faults
	Lag      bool
	Live     int // buffers allocated and not freed
	Programs int // programs built and not released
	caps     device.Caps
	counts   Faults
	queue    []queued
	done     device.Fence
	last     device.Fence
	fault    device.Fault
	failed   bool
	lost     bool
	steps    int64
}

type queued struct {
	fence device.Fence
	run   func() error
}

// Buffer is host memory.
type Buffer struct{ b []byte }

// Bytes implements device.Buffer.
func (b *Buffer) Bytes() int64 { return int64(len(b.b)) }

type program struct {
	d     *Device
	steps []device.Step
}

// Release implements device.Program.
func (p *program) Release() { p.d.Programs-- }

// New makes an interpreter device.
func New() *Device {
	d := &Device{caps: device.Caps{Name: "interpreter", Adapter: "interpreter", MaxBinding: 1 << 40, MaxBuffer: 1 << 40,
		MaxStorageBuffers: 64, GemmOperands: 4, GemmPrologues: 4, AttentionAppends: 256, Align: 64,
		F16: true, I64: true, F64: true, GemmSums: 1}}
	for t := ir.Bool; t < ir.NumStored; t++ {
		d.caps.Storage[t] = t.Size()
	}
	return d
}

// Caps implements device.Device.
func (d *Device) Caps() *device.Caps {
	d.caps.Async = d.Lag
	return &d.caps
}

func inject(count *int, at int, what string) error {
	*count++
	if *count == at {
		return ir.Errorf(ir.ErrOutOfMemory, "injected failure of %s %d", what, at)
	}
	return nil
}

// Alloc implements device.Device. The content is poisoned.
func (d *Device) Alloc(bytes int64) (device.Buffer, error) {
	if err := inject(&d.counts.Alloc, d.Faults.Alloc, "allocation"); err != nil {
		return nil, err
	}
	if bytes > d.caps.MaxBuffer {
		return nil, ir.Errorf(ir.ErrOutOfMemory, "expected a buffer of at most %d bytes, got %d", d.caps.MaxBuffer, bytes)
	}
	b := &Buffer{make([]byte, max(bytes, 1))}
	for i := range b.b {
		b.b[i] = 0xA5
	}
	d.Live++
	return b, nil
}

// Free implements device.Device.
func (d *Device) Free(device.Buffer) { d.Live-- }

func (d *Device) submit(f func() error) (device.Fence, error) {
	d.last++
	if !d.Lag {
		d.done = d.last
		return d.last, f()
	}
	d.queue = append(d.queue, queued{d.last, f})
	return d.last, nil
}

// Upload implements device.Device.
func (d *Device) Upload(b device.Buffer, t ir.DType, off int64, data []byte) error {
	if err := inject(&d.counts.Upload, d.Faults.Upload, "upload"); err != nil {
		return err
	}
	data = append([]byte(nil), data...)
	_, err := d.submit(func() error {
		copy(b.(*Buffer).b[off*int64(t.Size()):], data)
		return nil
	})
	return err
}

// Read implements device.Device.
func (d *Device) Read(b device.Buffer, t ir.DType, off int64, dst []byte) error {
	if err := d.Wait(d.last, 0, nil); err != nil {
		return err
	}
	copy(dst, b.(*Buffer).b[off*int64(t.Size()):])
	return nil
}

// Build implements device.Device.
func (d *Device) Build(steps []device.Step, slots int) (device.Program, error) {
	if err := inject(&d.counts.Build, d.Faults.Build, "pipeline"); err != nil {
		return nil, err
	}
	for i := range steps {
		for _, slot := range steps[i].Bufs {
			if slot >= slots {
				panic(fmt.Sprintf("BUG: step %d: slot %d of %d", i, slot, slots))
			}
		}
		if v, ok := steps[i].Op.(interface{ Verify() error }); ok {
			if err := v.Verify(); err != nil {
				return nil, ir.Errorf(ir.ErrInternal, "BUG: step %d: %v", i, err)
			}
		}
	}
	d.Programs++
	return &program{d, steps}, nil
}

// Run implements device.Device.
func (d *Device) Run(p device.Program, bind *device.Binding) (device.Fence, error) {
	d.counts.Run++
	if d.counts.Run == d.Faults.Run {
		if d.Faults.Lose {
			d.lost = true
			return 0, ir.Errorf(ir.ErrDeviceLost, "injected device loss at submit %d", d.counts.Run)
		}
		return 0, ir.Errorf(ir.ErrKernelExecution, "injected failure of submit %d", d.counts.Run)
	}
	if d.lost {
		return 0, ir.Errorf(ir.ErrDeviceLost, "the device is lost")
	}
	b := device.Binding{Bufs: append([]device.Buffer(nil), bind.Bufs...), Offsets: append([]int64(nil), bind.Offsets...),
		Scalars: append([]uint64(nil), bind.Scalars...)}
	steps := p.(*program).steps[bind.At.Step:]
	stopped := false
	for i := range steps {
		if stopped = bind.Asked(); stopped {
			bind.At.Step += i
			bind.At.Begun = bind.At.Step
			steps = steps[:i]
			break
		}
	}
	f, err := d.submit(func() error {
		for i := range steps {
			if err := d.step(&steps[i], &b); err != nil {
				return ir.Errorf(ir.ErrKernelExecution, "step %d: %v", i, err)
			}
		}
		return nil
	})
	if stopped && err == nil {
		err = device.ErrStopped
	}
	return f, err
}

func (d *Device) step(s *device.Step, b *device.Binding) error {
	d.steps++
	bufs := make([][]byte, len(s.Bufs))
	for i, k := range s.Bufs {
		bufs[i] = b.Bufs[k].(*Buffer).b
	}
	f, err := s.Op.Interpret(s.Values(b), bufs)
	if f.Failed && !d.failed {
		d.failed, d.fault = true, device.Fault{Event: s.Event, Element: f.Elem}
		if s.Inner > 0 {
			d.fault.Element = ir.LoopFault(s.Inner, f.Elem)
		}
	}
	return err
}

// Done implements device.Device.
func (d *Device) Done(f device.Fence) bool { return f <= d.done }

// Wait implements device.Device.
func (d *Device) Wait(f device.Fence, _ time.Duration, interrupt func() bool) error {
	for len(d.queue) > 0 && d.queue[0].fence <= f {
		if interrupt != nil && interrupt() {
			return ir.Errorf(ir.ErrInterrupted, "interrupted")
		}
		q := d.queue[0]
		d.queue = d.queue[1:]
		if err := q.run(); err != nil {
			return err
		}
		d.done = q.fence
	}
	if f > d.done {
		d.done = f
	}
	return nil
}

// TakeFault implements device.Device.
func (d *Device) TakeFault() (device.Fault, bool, error) {
	f, ok := d.fault, d.failed
	d.fault, d.failed = device.Fault{}, false
	return f, ok, nil
}

// Submitted implements device.Device.
func (d *Device) Submitted() device.Fence { return d.last }

// Stats implements device.Device.
func (d *Device) Stats() map[string]int64 {
	return map[string]int64{"dispatches": d.steps, "submits": int64(d.counts.Run), "programs": int64(d.Programs)}
}

// Close implements device.Device.
func (d *Device) Close() { d.lost = true }
