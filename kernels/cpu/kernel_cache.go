package cpu

// #include "vector/cpu.h"
import "C"

import (
	"encoding/binary"
	"slices"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// kernelKey identifies a block program. Equal steps, such as those of many layers or of the time steps of a recurrence,
// have equal keys.
type kernelKey struct {
	kernel *loopir.Kernel // compared by address: the planner gives equal steps the same kernel
	sizes  string         // sizes and strides: 8 bytes for each parameter, 0 for parameters of other kinds
	shared string         // for each buffer, in 8 bytes, the first buffer with the same slot
	once   uint8          // of an epilogue: buffers of whose elements a call reads the first, in all lanes
}

// kernelCode is the block program of a kernel in C memory. All steps with its key share it.
type kernelCode struct {
	key        kernelKey
	mem        arena
	kern       *C.tl_kern
	tileAccess *tileAccess
	users      int   // steps of programs that hold it
	lanes      int64 // most lanes of a map's tile
	heat       int64 // work of all runs so far
	code       codePages
	readsOnce  bool // the code reads the elements of key.once once a call
}

// codeUse is a use of code by a step. elements is how many an epilogue computes, which is not planned for their number;
// 0 stands for those of the plan.
type codeUse struct {
	*kernelCode
	elements int64
}

// codeOf returns the code of kernel k for step s, whose key has this field once, and builds it if there is none.
// Program p holds it until p is released.
func (d *Device) codeOf(p *program, k *loopir.Kernel, s *device.Step, once uint8) (*kernelCode, error) {
	if len(s.Params) != len(k.Params) || len(s.Bufs) != len(k.Bufs) {
		return nil, ir.Errorf(ir.ErrInternal, "BUG: cpu: kernel %s: %d parameters and %d buffers, want %d and %d", k.Name,
			len(s.Params), len(s.Bufs), len(k.Params), len(k.Bufs))
	}
	d.sizes, d.shared = d.sizes[:0], d.shared[:0]
	for i, x := range k.Params {
		v := uint64(0)
		if x.Kind == loopir.Size || x.Kind == loopir.Stride {
			if v = s.Params[i].Bits; s.Params[i].Varies() {
				return nil, ir.Errorf(ir.ErrInternal, "BUG: cpu: kernel %s: size or stride %d is not constant", k.Name, i)
			}
		}
		d.sizes = binary.LittleEndian.AppendUint64(d.sizes, v)
	}
	for _, b := range s.Bufs {
		d.shared = binary.LittleEndian.AppendUint64(d.shared, uint64(slices.Index(s.Bufs, b)))
	}
	key := kernelKey{k, string(d.sizes), string(d.shared), once}
	f := d.kernels[key]
	made := f == nil
	if made {
		f = &kernelCode{key: key}
		d.kernels[f.key] = f
	}
	f.users++
	p.codes = append(p.codes, codeUse{kernelCode: f}) // p releases it, even if the build below fails
	if made {
		return f, f.build(d.isa, machineCode{})
	}
	return f, nil
}

// forget ends one use of f; the last one frees it.
func (d *Device) forget(f *kernelCode) {
	if f.users--; f.users == 0 {
		delete(d.kernels, f.key)
		f.code.release()
		f.mem.release()
	}
}

// sizesAndSlots returns the numbers of the key. Only which slots are equal matters.
func (key *kernelKey) sizesAndSlots() (sizes []int64, slots []int) {
	for at := 0; at < len(key.sizes); at += 8 {
		sizes = append(sizes, int64(binary.LittleEndian.Uint64([]byte(key.sizes[at:at+8]))))
	}
	for at := 0; at < len(key.shared); at += 8 {
		slots = append(slots, int(binary.LittleEndian.Uint64([]byte(key.shared[at:at+8]))))
	}
	return sizes, slots
}

// emit plans the kernel and emits its instructions. Machine code has the tiles that the block program has.
func (f *kernelCode) emit(m machineCode) (e *emitter, a allocation, runs []*run, err error) {
	sizes, slots := f.key.sizesAndSlots()
	if f.lanes == 0 {
		f.lanes = mapLanes
	}
	pl, err := newPlan(f.key.kernel, sizes, slots, f.lanes)
	if err != nil {
		return nil, a, nil, ir.Errorf(ir.ErrKernelExecution, "cpu: %v", err)
	}
	e = emit(pl)
	if m.on {
		runs = e.code(m.level, f.key.once)
		if f.readsOnce = f.key.once != 0 && e.direct(); f.key.once != 0 && !f.readsOnce { // rows may share a call
			e = emit(pl)
			runs = e.code(m.level, 0)
		}
	}
	if a = e.allocate(); pl.passes == 0 && a.arena > mapRegisters && f.lanes > tileLanes {
		f.lanes = tileLanes
		return f.emit(m)
	}
	return e, a, runs, nil
}

// direct reports a map that is one call of machine code; tl_map_direct does so for epilogues in C memory.
func (e *emitter) direct() bool {
	n := len(e.stages[0].outer.code) - 1
	return len(e.stages) == 1 && n >= 0 && e.stages[0].outer.code[n].op == C.TLK_CODE &&
		!slices.ContainsFunc(e.stages[0].outer.code[:n], func(x instr) bool { return x.op != C.TLK_DIRECT })
}

// build compiles the kernel into C memory. With machine code it replaces the block program, whose memory stays until
// the kernel is forgotten; where the system refuses memory for code, the block program stays too.
func (f *kernelCode) build(isa C.int, m machineCode) error {
	name := f.key.kernel.Name
	e, a, runs, err := f.emit(m)
	if err != nil {
		return err
	}
	if a.overflow {
		return ir.Errorf(ir.ErrKernelExecution, "cpu: kernel %s needs more than 4 GiB of registers", name)
	}
	if m.on && !f.code.place(runs, &a) {
		return nil
	}
	k := &array[C.tl_kern](&f.mem, 1)[0]
	e.layRegisters(&f.mem, k, &a)
	e.laySpaces(k)
	e.layMaps(&f.mem, k)
	e.layAccs(&f.mem, k)
	e.layCode(&f.mem, k, &a)
	e.laySchedule(k)
	if n := C.tl_kern_link(k, isa); n > 0 {
		return ir.Errorf(ir.ErrInternal, "BUG: cpu: kernel %s: %d instructions do not exist: %s", name, int(n), e.missing(k))
	}
	if f.kern != nil { // steps of programs point to it
		*f.kern = *k
		return nil
	}
	f.kern, f.tileAccess = k, e.tileAccess()
	return nil
}
