package cpu

// #include "vector/cpu.h"
import "C"

import (
	"unsafe"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Generator is a kind of launch that this package does not know and that brings its own code for the CPU.
type Generator interface {
	launch.Op
	// CPUCode makes the code of a launch with these parameters. Parameters that vary from run to run are 0 here.
	CPUCode(params []uint64) (Code, error)
}

// Code runs a launch over the memory of its buffers; each slice is as long as the buffer's allocation. The steps before
// it have finished.
type Code func(params []uint64, bufs [][]byte) (loopir.Fault, error)

// call is a step that runs in Go.
type call struct {
	index int // of the step
	step  device.Step
	code  Code
}

// generateCall makes step i call op's own code.
func (p *program) generateCall(i int, op Generator, s *device.Step) error {
	code, err := op.CPUCode(s.Constants())
	if err == nil {
		p.calls = append(p.calls, call{i, *s, code})
	}
	return err
}

// runAll runs the steps of p from bind.At on, in order. Consecutive C steps run in one call of C; calls of Go run
// between them. missing is 0, the bytes that could not be allocated, or TLK_UNFUSED. After a request to stop, bind.At
// is where the next run begins and the error is device.ErrStopped.
func (d *Device) runAll(p *program, bind *device.Binding, times []C.int64_t) (missing C.int64_t, err error) {
	at := C.tl_place{step: C.int64_t(bind.At.Step), tile: C.int64_t(bind.At.Tile), begun: C.int64_t(bind.At.Begun)}
	stopped := func() error {
		bind.At = device.Position{Step: int(at.step), Tile: int64(at.tile), Begun: int(at.begun)}
		return device.ErrStopped
	}
	for i := range p.calls {
		c := &p.calls[i]
		if int(at.step) > c.index {
			continue // done before the stop
		}
		if missing = d.runSteps(p, &at, c.index, bind, times); missing == C.TLK_STOPPED {
			return 0, stopped()
		} else if missing != 0 {
			return missing, nil
		}
		if bind.Asked() {
			return 0, stopped()
		}
		if err := d.runCall(c, bind); err != nil {
			return 0, err
		}
		at = advance(at, c.index+1)
	}
	if missing = d.runSteps(p, &at, p.steps, bind, times); missing == C.TLK_STOPPED {
		return 0, stopped()
	}
	return missing, nil
}

// advance returns the position at the beginning of a step. All steps before it have run.
func advance(at C.tl_place, step int) C.tl_place {
	return C.tl_place{step: C.int64_t(step), begun: max(at.begun, C.int64_t(step))}
}

// runSteps runs the steps [at, to) in C and moves at to where it stopped.
func (d *Device) runSteps(p *program, at *C.tl_place, to int, bind *device.Binding, times []C.int64_t) C.int64_t {
	from := int(at.step)
	if len(times) > 0 {
		times = times[from:]
		times[0] = C.tl_nanoseconds()
	}
	if from == to {
		return 0
	}
	part := *p.prog
	part.step = (*C.tl_step)(unsafe.Add(unsafe.Pointer(part.step), uintptr(from)*unsafe.Sizeof(C.tl_step{})))
	part.nstep = C.int32_t(to - from)
	var offsets *C.int64_t
	var scalars *C.uint64_t
	if len(bind.Offsets) > 0 {
		offsets = (*C.int64_t)(unsafe.Pointer(&bind.Offsets[0]))
	}
	if len(bind.Scalars) > 0 {
		scalars = (*C.uint64_t)(unsafe.Pointer(&bind.Scalars[0]))
	}
	local := C.tl_place{tile: at.tile} // its steps count from the part's first one
	stop := (*C.int32_t)(unsafe.Pointer(bind.Stop.Word()))
	rest := C.tl_run(&part, d.pool, d.isa, offsets, scalars, d.fault, first(times), stop,
		C.int64_t(bind.Patience()), &local)
	switch rest {
	case 0:
		*at = advance(*at, to)
	case C.TLK_STOPPED:
		begun := max(at.begun, C.int64_t(from)+local.begun)
		*at = C.tl_place{step: C.int64_t(from) + local.step, tile: local.tile, begun: begun}
	}
	return rest
}

// runCall runs one step in Go. Of several data errors the device keeps the first.
func (d *Device) runCall(c *call, bind *device.Binding) error {
	bufs := make([][]byte, len(c.step.Bufs))
	for i, slot := range c.step.Bufs {
		b := bind.Bufs[slot].(*buffer)
		bufs[i] = unsafe.Slice((*byte)(b.p), b.size)
	}
	fault, err := c.code(c.step.Values(bind), bufs)
	if fault.Failed && d.fault.set == 0 {
		d.fault.set, d.fault.event, d.fault.elem = 1, C.uint32_t(c.step.Event), C.int64_t(fault.Elem)
	}
	if err != nil {
		return ir.Errorf(ir.ErrKernelExecution, "cpu: %s: %v", c.step.Op.Label(), err)
	}
	return nil
}
