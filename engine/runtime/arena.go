package runtime

import (
	"slices"
	"unsafe"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// arena is the memory of the temporaries of frozen plans. All plans of an executor share it, since one of them runs at
// a time.
type arena struct {
	buf   device.Buffer // nil: there is none
	bytes int64
	plans []*Frozen
}

// arenaPart is a temporary in the arena.
type arenaPart struct {
	window        device.Window
	offset, bytes int64
}

// growArena makes the arena at least as large as that.
func (x *Executor) growArena(bytes int64) error {
	a, pl := &x.arena, x.Devices[ir.CPU]
	if bytes <= a.bytes {
		return nil
	}
	b, err := pl.Pool.Acquire(bytes)
	if err != nil {
		return x.wrap(pl, bytes, err)
	}
	if a.buf != nil {
		pl.Pool.Discard(a.buf, a.bytes)
	}
	a.buf, a.bytes = b, bytes
	for _, f := range a.plans {
		a.place(f)
	}
	return nil
}

// join places the temporaries of a plan.
func (a *arena) join(f *Frozen) {
	if len(f.temp) > 0 {
		a.plans = append(a.plans, f)
		a.place(f)
	}
}

func (a *arena) place(f *Frozen) {
	first := a.buf.(device.Mapped).Pointer()
	for _, p := range f.temp {
		p.window.Set(unsafe.Add(first, p.offset), p.bytes)
	}
}

// leaveArena releases the arena with its last plan.
func (x *Executor) leaveArena(f *Frozen) {
	a := &x.arena
	a.plans = slices.DeleteFunc(a.plans, func(g *Frozen) bool { return g == f })
	if len(a.plans) == 0 && a.buf != nil {
		x.Devices[ir.CPU].Pool.Discard(a.buf, a.bytes)
		*a = arena{}
	}
}

// ArenaBytes is the size of the arena that the frozen plans share.
func (x *Executor) ArenaBytes() int64 { return x.arena.bytes }
