package device

import (
	"slices"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// mostExprs bounds the expressions of a resident form: beyond it instructions leave the first cache.
const mostExprs = 3000

// Resident returns the resident form of l, or what keeps l from one.
func (l *Loop) Resident() (r *launch.Resident, reason string) {
	if l.Drawn > 0 {
		return nil, "the body draws random numbers"
	}
	for _, n := range append(slices.Clone(l.Lanes), 1) {
		form, why := l.flatten(n)
		// A step whose indices are no multiple of the lanes is computed by each lane, so more lanes may have more to do.
		if form != nil && (r == nil || len(form.Exprs) < len(r.Exprs)) {
			r = form
		}
		if reason == "" || why != "" && why != tooMany { // one lane only fails because it has all elements
			reason = why
		}
	}
	if r != nil {
		return r, ""
	}
	return nil, reason
}

const tooMany = "the body computes too many elements in each iteration"

// refusal is what keeps a body from a resident form.
type refusal string

func refuse(why string) { panic(refusal(why)) }

// cell is an element that a step has written or loaded.
type cell struct {
	val  int
	typ  ir.DType
	lane int64 // bytes from a lane's element to the next lane's
}

// flattener runs the steps of a body once, on expressions in place of numbers, for the first of the lanes.
type flattener struct {
	l     *Loop
	lanes int64
	b     *loopir.Builder
	ports []launch.Port
	slots map[int]map[int64]cell // by slot, by byte
	zeros map[int][][2]int64     // by slot: bytes [from, to) that are 0
	work  int
}

// flatten returns the resident form of l with that many lanes.
func (l *Loop) flatten(lanes int64) (r *launch.Resident, reason string) {
	defer func() {
		if why, ok := recover().(refusal); ok {
			r, reason = nil, string(why)
		}
	}()
	f := &flattener{l: l, lanes: lanes, b: loopir.NewBuilder("loop", 1, 0), slots: map[int]map[int64]cell{},
		zeros: map[int][][2]int64{}}
	for i := range l.Steps {
		f.step(&l.Steps[i])
	}
	return f.finish(), ""
}

// wire is the wire of a slot; nil for a temporary without memory of its own.
func (f *flattener) wire(slot int) *Wire {
	if slot < len(f.l.Wires) {
		return &f.l.Wires[slot]
	}
	return nil
}

// given reports a slot that has its content from outside.
func (f *flattener) given(slot int) bool {
	w := f.wire(slot)
	return w != nil && w.Operand >= 0
}

// load returns the element of type t at a byte of a slot.
func (f *flattener) load(slot int, t ir.DType, at, lane int64) int {
	if c, ok := f.slots[slot][at]; ok {
		if c.typ != t {
			refuse("the body reads a value as another dtype")
		}
		if c.lane != lane {
			refuse("an element needs other elements of a carry or value")
		}
		return c.val
	}
	for _, z := range f.zeros[slot] {
		if at >= z[0] && at < z[1] {
			return f.b.Bits(t, 0)
		}
	}
	if !f.given(slot) {
		refuse("an element needs other elements of a carry or value")
	}
	w := f.wire(slot)
	if f.l.Uses[w.Buf].Type != t {
		refuse("the body reads a value as another dtype")
	}
	size := int64(t.Size())
	p := launch.Port{Buf: w.Buf, Operand: w.Operand, Type: t, At: at / size, Lane: lane / size, Carry: w.Route == CarryIn}
	if w.Route == Advances {
		p.Place = w.Bytes / size
	}
	v := f.port(p)
	f.set(slot, at, cell{v, t, lane})
	return v
}

// port adds a port and returns its value.
func (f *flattener) port(p launch.Port) int {
	f.ports = append(f.ports, p)
	return f.b.Load(f.b.Linear(f.b.Buf(p.Type, loopir.Read), -1))
}

func (f *flattener) set(slot int, at int64, c cell) {
	if f.slots[slot] == nil {
		f.slots[slot] = map[int64]cell{}
	}
	f.slots[slot][at] = c
}

// store writes an element as a store and a load would leave it.
func (f *flattener) store(slot int, t ir.DType, at, lane int64, v int) {
	if f.given(slot) {
		refuse("the body writes an operand in place")
	}
	f.set(slot, at, cell{f.wrapped(t, v), t, lane})
}

// wrapped is v after a store as t and a load.
func (f *flattener) wrapped(t ir.DType, v int) int {
	b := f.b
	shifted := func(n int64) int {
		by := b.Int(ir.I32, n)
		return b.Bin(loopir.OpShr, b.Bin(loopir.OpShl, v, by), by)
	}
	switch t {
	case ir.U8, ir.U16:
		_, most := ir.Limits(t)
		return b.And(v, b.Int(ir.I32, most))
	case ir.I8:
		return shifted(24)
	case ir.I16:
		return shifted(16)
	}
	return b.Narrow(t, v)
}

// count adds to the work of flattening and refuses large bodies.
func (f *flattener) count(n int) {
	const mostWork = 1 << 16
	if f.work += n; f.work > mostWork || len(f.b.Exprs()) > 2*mostExprs {
		refuse(tooMany)
	}
}

// finish collects carries and results.
func (f *flattener) finish() *launch.Resident {
	r := &launch.Resident{Lanes: f.lanes, Condition: -1}
	for slot := range f.l.Wires {
		switch w := &f.l.Wires[slot]; {
		case w.Route == CarryOut:
			f.carry(r, slot, w)
		case w.Route == Advances && w.Operand < 0:
			f.covers(slot, w)
			f.each(slot, func(at int64, c cell) {
				r.Stores = append(r.Stores, launch.ResidentStore{Port: f.out(w.Buf, at, c, w.Bytes), Val: c.val})
			})
		}
	}
	for i, p := range f.ports {
		if p.Carry && !slices.ContainsFunc(r.Carries, func(c launch.ResidentCarry) bool { return c.In == i }) {
			refuse("an element needs other elements of a carry or value")
		}
	}
	r.Ports = f.ports
	r.Exprs = slices.Clone(f.b.Exprs())
	r.Compact()
	if len(r.Exprs) > mostExprs {
		refuse(tooMany)
	}
	return r
}

// each calls do for the elements of a slot, in order.
func (f *flattener) each(slot int, do func(at int64, c cell)) {
	var order []int64
	for at := range f.slots[slot] {
		order = append(order, at)
	}
	slices.Sort(order)
	for _, at := range order {
		do(at, f.slots[slot][at])
	}
}

// covers checks that a slot's elements are all of the wire's.
func (f *flattener) covers(slot int, w *Wire) {
	bytes := int64(0)
	f.each(slot, func(_ int64, c cell) {
		n := int64(c.typ.Size())
		if c.lane != 0 {
			n *= f.lanes
		}
		bytes += n
		if c.typ != f.l.Uses[w.Buf].Type {
			refuse("the body reads a value as another dtype")
		}
	})
	if bytes != w.Bytes {
		refuse("an element needs other elements of a carry or value")
	}
}

// out adds a port that is written.
func (f *flattener) out(buf int, at int64, c cell, place int64) int {
	size := int64(c.typ.Size())
	f.ports = append(f.ports, launch.Port{Buf: buf, Operand: -1, Type: c.typ, At: at / size, Lane: c.lane / size,
		Place: place / size})
	f.b.Linear(f.b.Buf(c.typ, loopir.Write), -1)
	return len(f.ports) - 1
}

// carry adds the elements of a carry, which slot holds after an iteration.
func (f *flattener) carry(r *launch.Resident, slot int, w *Wire) {
	f.covers(slot, w)
	in := slices.IndexFunc(f.l.Wires, func(x Wire) bool { return x.Route == CarryIn && x.Carry == w.Carry })
	if in < 0 {
		refuse("a carry is not read")
	}
	f.each(slot, func(at int64, c cell) {
		f.load(in, c.typ, at, c.lane)
		x := &f.l.Wires[in]
		size := int64(c.typ.Size())
		from := slices.IndexFunc(f.ports, func(p launch.Port) bool {
			return p.Carry && p.Buf == x.Buf && p.Operand == x.Operand && p.At == at/size
		})
		if f.ports[from].Lane != c.lane/size {
			refuse("an element needs other elements of a carry or value")
		}
		n := launch.ResidentCarry{Number: w.Carry, In: from, Next: c.val, Kept: -1, Out: f.out(w.Buf, at, c, 0)}
		if x.Kept >= 0 {
			n.Kept = f.out(x.Kept, at, c, w.Bytes)
		}
		if f.l.While && w.Carry == 0 {
			if r.Condition = from; c.lane != 0 {
				refuse("the condition differs between elements")
			}
		}
		r.Carries = append(r.Carries, n)
	})
}
