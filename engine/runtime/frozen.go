package runtime

import (
	"unsafe"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// Frozen is a plan with constants and buffers bound. A run binds arguments and results, and calls the devices: it
// acquires no buffers and allocates nothing.
type Frozen struct {
	Plan *compile.Plan
	x    *Executor
	bind device.Binding
	args []port // by argument
	outs []port // by result
	kept int    // the last arguments and results, which are kept values
	temp []arenaPart
	held []heldBuffer
	// Packed is the memory of constant operands that were packed for this plan, beyond what earlier plans packed.
	Packed int64
	// InPlace lists the constants that the plan reads where they lie.
	InPlace []int
}

// Constants are the constants of a plan that is frozen. One is put in memory when it is packed or bound.
type Constants interface {
	// Key names the elements of constant i among those of all plans on the device.
	Key(i int) string
	// Load returns the memory of constant i.
	Load(i int) (device.Buffer, error)
	// Unload says that the plan does not read constant i any more, but packs of it.
	Unload(i int)
}

// port is the buffer of an argument or result.
type port struct {
	window device.Window // over the caller's memory; nil where the device cannot read that
	buf    device.Buffer
	pool   *DeviceState
	dtype  ir.DType
	bytes  int64 // of the dense value in canonical form
	slot   int   // of the plan
}

type heldBuffer struct {
	pool  *DeviceState
	buf   device.Buffer
	bytes int64
}

// Freeze prepares a plan whose first inputs are args arguments; constants are its other inputs. results names nodes
// whose values are whole and distinct. The plan writes to no input. The last kept arguments and results are kept
// values, whose buffers a run binds. packs: devices may pack constants.
func (x *Executor) Freeze(p *compile.Plan, args int, constants Constants, results []int, kept int,
	packs bool) (f *Frozen, err error) {
	if err := x.Prepare(p); err != nil {
		return nil, err
	}
	f = &Frozen{Plan: p, x: x, kept: kept}
	defer func(made *Frozen) {
		if err != nil {
			made.Release()
		}
	}(f)
	f.bind.Offsets, f.bind.Scalars = p.Program.Offsets, p.Program.Scalars
	f.args, f.outs = make([]port, args), make([]port, len(results))
	of := map[int]int{} // by slot: its result
	for k, local := range results {
		for _, r := range p.Results {
			if r.Local == local {
				of[r.Slot] = k
			}
		}
	}
	if len(of) < len(results) {
		return nil, ir.Errorf(ir.ErrInternal, "BUG: freeze: %d results in %d buffers", len(results), len(of))
	}
	if err := x.growArena(p.Arena.Bytes); err != nil {
		return nil, err
	}
	c := &constantSlots{f: f, of: constants, input: map[int]int{}, loaded: map[int]device.Buffer{}}
	for i := range p.Slots {
		s := &p.Slots[i]
		k, result := of[i]
		var b device.Buffer
		switch {
		case s.Kind == compile.External && s.Index < args:
			b, err = f.port(&f.args[s.Index], i, p.Program.Inputs[s.Index].Aval, s.Index >= args-kept)
		case s.Kind == compile.External:
			c.input[i] = s.Index - args // bound below
		case result:
			b, err = f.port(&f.outs[k], i, p.Program.Nodes[results[k]].Aval, k >= len(results)-kept)
		case s.Kind == compile.Temp && p.Arena.Bytes > 0:
			w := x.Devices[s.Dev].Dev.(device.Host).NewWindow()
			f.temp = append(f.temp, arenaPart{w, s.Offset, s.Bytes})
			b = w
		default:
			b, err = f.hold(s.Dev, s.Bytes)
		}
		if err != nil {
			return nil, err
		}
		f.bind.Bufs = append(f.bind.Bufs, b)
	}
	x.arena.join(f)
	if packs {
		c.countReads()
		if err := f.pack(c); err != nil {
			return nil, err
		}
	}
	return f, c.bind()
}

// hold acquires a buffer for the life of f.
func (f *Frozen) hold(dev ir.DeviceID, bytes int64) (device.Buffer, error) {
	pl := f.x.Devices[dev]
	b, err := pl.Pool.Acquire(bytes)
	if err != nil {
		return nil, f.x.wrap(pl, bytes, err)
	}
	f.held = append(f.held, heldBuffer{pl, b, bytes})
	return b, nil
}

// port makes the buffer of an argument or result in slot i; none for a kept value.
func (f *Frozen) port(q *port, i int, id ir.AvalID, kept bool) (device.Buffer, error) {
	av, s := ir.AvalOf(id), &f.Plan.Slots[i]
	q.pool, q.dtype, q.bytes = f.x.Devices[s.Dev], av.DType, av.Layout.Numel*int64(av.DType.Size())
	if q.slot = i; kept {
		return nil, nil
	}
	if h, ok := q.pool.Dev.(device.Host); ok {
		q.window = h.NewWindow()
		q.buf = q.window
		return q.buf, nil
	}
	b, err := f.hold(s.Dev, s.Bytes)
	q.buf = b
	return b, err
}

// pack lets the devices pack constant operands.
func (f *Frozen) pack(constants *constantSlots) error {
	for i := range f.Plan.Segments {
		s := &f.Plan.Segments[i]
		if s.Program == nil {
			continue
		}
		if h, ok := f.x.Devices[s.Dev].Dev.(device.Host); ok {
			before := h.Packed()
			if err := h.Pack(s.Program, &f.bind, constants); err != nil {
				return err
			}
			f.Packed += h.Packed() - before
		}
	}
	return nil
}

// Run runs the plan on dense arguments in canonical form and on kept values. It writes its results, in the same form,
// to out, and those of kept values to these. Memory of arguments and results must not overlap. A run that stop ends
// early returns device.ErrStopped, and may have written parts of the results.
func (f *Frozen) Run(in, out []unsafe.Pointer, kept []*Kept, stop *device.Stop) error {
	args, outs := f.args[:len(f.args)-f.kept], f.outs[:len(f.outs)-f.kept]
	for i := range args {
		if err := args[i].set(in[i]); err != nil {
			return err
		}
	}
	f.bindKept(kept)
	for k := range outs {
		if q := &outs[k]; q.window != nil {
			q.window.Set(out[k], q.bytes)
		}
	}
	x := f.x
	x.bind, f.bind = f.bind, x.bind
	x.bind.At, x.bind.Stop = device.Position{}, stop
	numbers, held := x.bind.Scalars, x.repeats
	x.repeats = nil
	x.beginRepeats(f.Plan)
	_, err := x.segments(f.Plan, 0)
	if err == nil && stop != nil {
		err = f.wait(stop)
	}
	x.bind.Scalars, x.repeats = numbers, held
	x.bind, f.bind = f.bind, x.bind
	if err != nil {
		return err
	}
	for k := range outs {
		if q := &outs[k]; q.window == nil && q.bytes > 0 {
			if err := q.pool.Dev.Read(q.buf, q.dtype, 0, unsafe.Slice((*byte)(out[k]), q.bytes)); err != nil {
				return err
			}
		}
	}
	x.Runs++
	f.Plan.Runs++
	return nil
}

// bindKept binds the buffers of kept values to the last arguments and results.
func (f *Frozen) bindKept(kept []*Kept) {
	for i, k := range kept {
		if q := &f.args[len(f.args)-f.kept+i]; q.pool != nil { // else the plan does not read it
			f.bind.Bufs[q.slot] = k.now
		}
		f.bind.Bufs[f.outs[len(f.outs)-f.kept+i].slot] = k.next
	}
}

// wait waits for the devices that the results are read from.
func (f *Frozen) wait(stop *device.Stop) error {
	for k := range f.outs {
		q := &f.outs[k]
		if q.window != nil || q.bytes == 0 {
			continue
		}
		if err := q.pool.Dev.Wait(q.pool.Dev.Submitted(), f.x.Timeout, stop.Asked); err != nil {
			if stop.Asked() {
				return device.ErrStopped
			}
			return err
		}
	}
	return nil
}

// set gives the device an argument.
func (q *port) set(p unsafe.Pointer) error {
	switch {
	case q.pool == nil || q.bytes == 0: // the plan does not read it, or nothing is to be read
		return nil
	case q.window != nil:
		q.window.Set(p, q.bytes)
		return nil
	}
	return q.pool.Dev.Upload(q.buf, q.dtype, 0, unsafe.Slice((*byte)(p), q.bytes))
}

// Scalars are the numbers of the plan's nodes. A caller may change those of draws between runs.
func (f *Frozen) Scalars() []uint64 { return f.bind.Scalars }

// Release returns what f holds.
func (f *Frozen) Release() {
	for _, h := range f.held {
		h.pool.Pool.Release(h.buf, h.bytes)
	}
	f.held = nil
	f.x.leaveArena(f)
	f.x.ReleasePlan(f.Plan)
}
