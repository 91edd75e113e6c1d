package cpu

// #include "vector/cpu.h"
import "C"

import (
	"unsafe"

	"github.com/torchlette/torchlette/kernels/machine"
)

// machineCode says whether a kernel gets machine code, and for which instruction set.
type machineCode struct {
	on    bool
	level machine.Level
}

// Work is counted in operations on one lane. Machine code takes about as long to make as hotWork operations; callWork
// stands for the fixed cost of a small kernel.
const (
	hotWork  = 1 << 20
	callWork = 1 << 10
)

// codeEach bounds the kernels that get machine code before one run of a program.
const codeEach = 8

// hotOf returns the work after which kernels get machine code on an instruction set.
func hotOf(isa C.int, opts int64) int64 {
	switch {
	case isa == C.TLK_ISA_PLAIN:
		return -1
	case opts == 0:
		return hotWork
	}
	return opts
}

// heat counts a run of p's kernels and loops, and makes machine code for the hot ones. No run is under way.
func (d *Device) heat(p *program) {
	m := machineCode{on: true, level: machine.AVX2}
	if d.isa >= C.TLK_ISA_AVX512 {
		m.level = machine.AVX512
	}
	p.hot = d.hot < 0 || !d.warm(p, m, 1)
}

// warm counts runs of p and reports that something in it waits for machine code.
func (d *Device) warm(p *program, m machineCode, runs int64) (waiting bool) {
	made := 0
	due := func(heat *int64, work int64) bool {
		const most = 1 << 40
		if *heat < 0 {
			return false
		}
		if *heat = min(most, *heat+min(most, work*runs)); *heat < d.hot || made == codeEach {
			waiting = true
			return false
		}
		*heat = -1
		made++
		return true
	}
	for _, l := range p.loops {
		if due(&l.heat, l.work()) && l.addCode(p, d.isa, m.level) {
			d.stats.loops++
		}
	}
	for _, f := range p.codes {
		if due(&f.heat, f.work()) && f.addCode(d.isa, m) {
			d.stats.compiled++
		}
	}
	for i, b := range p.bodies { // a loop with a resident form does not run its steps
		if p.loops[i].c.resident == nil && d.warm(b, m, runs*min(p.loops[i].op.Length, hotWork)) {
			waiting = true
		}
	}
	return waiting
}

// addCode gives f machine code. If that is not possible, the block program stays.
func (f *kernelCode) addCode(isa C.int, m machineCode) bool {
	var err error
	func() {
		defer recovered(&err)
		err = f.build(isa, m)
	}()
	return err == nil && f.code.at != nil
}

// work estimates the operations of a run of f.
func (f codeUse) work() int64 {
	n := f.elements
	if n == 0 {
		n = int64(f.kern.outer.tiles * f.kern.inner.tiles * f.kern.fcap)
	}
	return callWork + n*int64(len(f.key.kernel.Exprs))
}

// codePages holds the machine code of a kernel.
type codePages struct {
	at    unsafe.Pointer
	bytes int64
}

// mapCode is replaced by tests.
var mapCode = func(code []byte) unsafe.Pointer {
	return C.tl_code_map(unsafe.Pointer(&code[0]), C.int64_t(len(code)))
}

// place assembles runs, with the final numbers of their registers, and maps their code. It reports false where there is
// none.
func (c *codePages) place(runs []*run, a *allocation) bool {
	var code []byte
	starts := make([]int, len(runs))
	for i, r := range runs {
		for len(code)%16 > 0 {
			code = append(code, 0xCC)
		}
		starts[i] = len(code)
		code = append(code, r.prog.Assemble(func(reg int) int { return a.number[reg] })...)
	}
	if len(code) == 0 {
		return false
	}
	if c.at = mapCode(code); c.at == nil {
		return false
	}
	c.bytes = int64(len(code))
	for i, r := range runs {
		r.address = uintptr(c.at) + uintptr(starts[i])
	}
	return true
}

func (c *codePages) release() {
	if c.at != nil {
		C.tl_code_unmap(c.at, C.int64_t(c.bytes))
		c.at = nil
	}
}
