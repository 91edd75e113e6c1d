package cpu

// #include "vector/cpu.h"
import "C"

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
)

// fftKey identifies the tables and the form of a transform.
type fftKey struct {
	f            launch.FFT
	column, wide bool // lanes are transforms; along the outer dim
}

// fftPlan is the C form of a transform. Programs share it.
type fftPlan struct {
	key   fftKey
	mem   arena
	c     *C.tl_fft
	bytes int64
	users int // programs that hold it
	turn  int64
}

// fftKept bounds the bytes of plans that no program holds.
const fftKept = 32 << 20

// fft returns the C form of a transform for step s. Program p holds it until p is released.
func (d *Device) fft(p *program, f *launch.FFT, s *device.Step) (*C.tl_fft, error) {
	if len(s.Params) != 6 || s.Params[0].Varies() || s.Params[1].Varies() {
		return nil, ir.Errorf(ir.ErrInternal, "BUG: cpu: %s: parameters %v", f.Label(), s.Params)
	}
	if f.Type != ir.F32 && f.Type != ir.F64 {
		return nil, ir.Errorf(ir.ErrKernelExecution, "cpu: no code for %s", f.Label())
	}
	lanes := int64(C.tl_fft_lanes(d.isa, C.int(f.Type)))
	key := fftKey{f: *f}
	key.column, key.wide = formOf(f, lanes, s)
	plan := d.ffts[key]
	if plan == nil {
		plan = &fftPlan{key: key}
		plan.build(lanes)
		d.stats.roots++
		d.ffts[key] = plan
	}
	d.fftTurn++
	plan.turn = d.fftTurn
	plan.users++
	p.ffts = append(p.ffts, plan)
	return plan.c, nil
}

// formOf chooses between lanes that are transforms, along the inner or the outer dim, and rows, each in all lanes. It
// compares how many elements pass through vectors, the unused lanes among them.
func formOf(f *launch.FFT, lanes int64, s *device.Step) (column, wide bool) {
	outer, inner := int64(s.Params[0].Bits), int64(s.Params[1].Bits)
	n := f.N
	if f.Kind >= launch.FFTOfReals && n%2 == 0 {
		n /= 2
	}
	up := func(x int64) int64 { return (x + lanes - 1) / lanes * lanes }
	wide = inner == 1 // a row's elements are neighbours: several are loaded at once, and transposed
	each := outer * up(inner)
	if wide {
		each = up(outer) * inner
	}
	cost := (&fourier{lanes: lanes}).rowCost(n)
	if inner > 1 {
		cost += cost / 2 // rows are copied
	}
	// Long columns leave the caches.
	many := each * n
	if !smooth(n) {
		many = each * 2 * convolution(n)
	}
	switch size := n * lanes * int64(f.Type.Size()); { // half of a buffer
	case size > 1<<19:
		many *= 2
	case size > 1<<13 && inner == 1:
		many += many / 2
	}
	if inner == 1 {
		many += many / 8 // transposed twice
	}
	return cost == 0 || many <= cost*outer*inner, wide
}

// rowCost is what split counts, of two steps a unit of each element in a vector; a convolution has four.
func (p *fourier) rowCost(n int64) int64 {
	if !smooth(n) {
		_, _, cost := p.split(convolution(n))
		return cost
	}
	_, _, cost := p.split(n)
	return cost / 2
}

func (x *fftPlan) build(lanes int64) {
	f := &x.key.f
	t := &fourier{mem: &x.mem, d: f.Type, lanes: lanes}
	c := &array[C.tl_fft](&x.mem, 1)[0]
	x.c = c
	c._type, c.kind, c.n, c.scale = C.int32_t(f.Type), C.int32_t(f.Kind), C.int64_t(f.N), C.double(f.Scale)
	if x.key.wide {
		c.lanes_outer = 1
	}
	n := f.N
	if f.Kind >= launch.FFTOfReals && n%2 == 0 {
		n /= 2
		c.root = t.pairs(n/2+1, func(k int64) (re, im float64) { return launch.RootOfUnity(k, 2*n) })
	}
	if x.key.column {
		c.column = t.column(n)
	} else {
		c.row = t.row(n)
	}
	if f.Kind == launch.FFTAllOfReals {
		t.rows = max(t.rows, (f.N+lanes)/lanes*lanes)
	}
	c.rows, c.between, c.room = C.int64_t(t.rows), C.int64_t(t.between), C.int64_t(t.room)
	x.bytes = x.mem.total
}

// dropFFT ends a program's use of a plan. Of the plans without users the ones used last stay, up to fftKept bytes.
func (d *Device) dropFFT(x *fftPlan) {
	x.users--
	for {
		var oldest *fftPlan
		kept := int64(0)
		for _, y := range d.ffts {
			if y.users > 0 {
				continue
			}
			if kept += y.bytes; oldest == nil || y.turn < oldest.turn {
				oldest = y
			}
		}
		if kept <= fftKept {
			return
		}
		delete(d.ffts, oldest.key)
		oldest.mem.release()
	}
}
