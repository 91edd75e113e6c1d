package cpu

// #include "cpu.h"
import "C"

import (
	"unsafe"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Generator is a launch of a kind that this package does not know: it brings its own code for the CPU.
type Generator interface {
	launch.Op
	// CPUCode makes the code of a launch with these parameters, without what varies from run to run.
	CPUCode(params []uint64) (Code, error)
}

// Code runs a launch over the memory of its buffers, each as long as its allocation. The steps before it have ended.
type Code func(params []uint64, bufs [][]byte) (loopir.Fault, error)

// call is a step that runs in Go.
type call struct {
	index int // of the step
	step  device.Step
	code  Code
}

// generateCall makes step i a call of op's own code.
func (p *program) generateCall(i int, op Generator, s *device.Step) error {
	code, err := op.CPUCode(s.Constants())
	if err == nil {
		p.calls = append(p.calls, call{i, *s, code})
	}
	return err
}

// runAll runs the steps of p in order: stretches of them in C, with calls of Go between. Like C it gives the bytes
// that could not be allocated, or -1.
func (d *Device) runAll(p *program, bind *device.Binding, times []C.int64_t) (missing C.int64_t, err error) {
	from := 0
	for i := range p.calls {
		c := &p.calls[i]
		if missing = d.runSteps(p, from, c.index, bind, times); missing != 0 {
			return missing, nil
		}
		if err := d.runCall(c, bind); err != nil {
			return 0, err
		}
		from = c.index + 1
	}
	return d.runSteps(p, from, p.steps, bind, times), nil
}

// runSteps runs the steps from from up to to in C.
func (d *Device) runSteps(p *program, from, to int, bind *device.Binding, times []C.int64_t) C.int64_t {
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
	return C.tl_run(&part, d.pool, d.isa, offsets, scalars, d.fault, first(times))
}

// runCall runs one step in Go. The first data error of a device counts.
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
