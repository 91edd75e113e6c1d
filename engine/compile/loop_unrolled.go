package compile

import (
	"fmt"
	"iter"
	"slices"

	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// MostUnrolled bounds the steps of a loop on a GPU whose iterations are all unrolled. The iterations of a longer one
// repeat. Making a plan takes about 10 us for each step. Tests make it small.
var MostUnrolled int64 = 1 << 12

// An iteration that repeats has at most mostIn steps. A loop in a body, which the loop around it multiplies, has at
// most MostUnrolled/innerShare steps that are unrolled.
const (
	mostIn     = 1 << 14
	innerShare = 8
)

// oftenRun is a number of iterations from which on compiling kernels for a body of their own pays.
const oftenRun = 8

// unrolling makes the steps of all iterations of a loop on a GPU, as steps of the plan around it. A step of the body's
// plan differs from iteration to iteration in its buffers, where it reads or writes carries, and in its offsets, where
// it reads places of xs. Kernels write whole buffers, so copies put results at their places.
type unrolling struct {
	*loopLowering
	plan *Plan // of the body on the device
	body *program.Program
	// By slot of the body's plan: its buffer in all iterations, -1 for what moves; the carry or result that is written
	// there, -1 for none.
	fixed, written []int
	spare          [][2]int // by result: the buffers that take turns
	carries        []int    // buffers of the carries before the iteration; nil before the first one
	copies         map[ir.DType]*loopir.Kernel
	repeats        bool             // iterations are the run of a repeat; see loop_repeat.go
	own            int              // the repeat of the iterations that are made, -1 for none
	runs           int64            // the iterations of a run
	scalars        int              // of the node; its moving numbers follow
	moves          map[movement]int // the moving numbers of the own repeat
	within         map[int]int      // by moving number of the body's plan: that of the iteration that is made
}

// newBody plans the body for a device, and returns the reason why the device cannot run it; "" if it can.
func (k *loopLowering) newBody(dev ir.DeviceID) (u *unrolling, reason string) {
	plan, err := k.planBody(dev)
	if err != nil {
		return nil, err.Error()
	}
	return &unrolling{loopLowering: k, plan: plan, body: plan.Program, copies: map[ir.DType]*loopir.Kernel{}, own: -1,
		scalars: k.scalars()}, ""
}

// unrolls returns the reason why the device cannot run the loop with at most so many steps in its iterations; "" if it
// can.
func (u *unrolling) unrolls(most int) (reason string) {
	n, unrolled := u.perIteration(), MostUnrolled
	if u.b.Moving {
		unrolled /= innerShare
	}
	switch {
	case u.l.While:
		u.repeats = u.l.Length > 1 || u.checks() || u.waits()
	case u.l.Length > 2:
		u.repeats = u.l.Length > unrolled/int64(max(n, 1))
	}
	if u.repeats && n > most {
		return fmt.Sprintf("an iteration has %d kernels, want at most %d", n, most)
	}
	for s := range u.steps() {
		if why := u.refuses(s); why != "" {
			return why
		}
	}
	return ""
}

// steps returns the steps of the body's plan.
func (u *unrolling) steps() iter.Seq[*device.Step] {
	return func(yield func(*device.Step) bool) {
		for i := range u.plan.Segments {
			for k := range u.plan.Segments[i].Steps {
				if !yield(&u.plan.Segments[i].Steps[k]) {
					return
				}
			}
		}
	}
}

// checks reports that the body may report an error.
func (u *unrolling) checks() bool {
	for s := range u.steps() {
		if checksData(s.Op) {
			return true
		}
	}
	return false
}

// waits reports that the body has a loop that runs again while a condition is true.
func (u *unrolling) waits() bool {
	return slices.ContainsFunc(u.plan.Segments, func(s Segment) bool { return s.Repeat != nil && s.Repeat.Flag >= 0 })
}

// perIteration counts the steps of an iteration.
func (u *unrolling) perIteration() int {
	n := len(u.body.Results) - u.l.Carries
	for range u.steps() {
		n++
	}
	if u.l.Keep {
		n += u.l.Carries
	}
	return n
}

// refuses returns the reason why a step of the body's plan cannot be a step of the outer plan; "" if it can.
func (u *unrolling) refuses(s *device.Step) string {
	switch s.Op.(type) {
	case *loopir.Kernel, *launch.Gemm, *launch.Attention, *launch.Sort, *launch.FactorBlock, *launch.Iterate,
		*launch.GroupLoop, launch.Copy, launch.Fill:
	default:
		return "the body has a step that a GPU does not unroll: " + s.Op.Label()
	}
	for _, b := range s.Bufs {
		if b < len(u.plan.Slots) && u.plan.Slots[b].Kind == External && !u.offset(s, u.plan.Slots[b].Index) {
			return "the body has a step that reads an operand from its beginning only: " + s.Op.Label()
		}
	}
	return ""
}

// checksData reports a step that may report an error.
func checksData(o launch.Op) bool {
	switch o := o.(type) {
	case *loopir.Kernel:
		return o.Checks
	case *launch.GroupLoop:
		return o.Checks()
	}
	_, ok := o.(*launch.FactorBlock)
	return ok
}

// offset reports that a step has a parameter for the offset of operand i of the body.
func (u *unrolling) offset(s *device.Step, i int) bool {
	for _, q := range s.Params {
		if k := int(q.Index) - len(u.body.Scalars); q.From == device.Scalar && k >= 0 {
			q = u.plan.Moving[k]
		}
		if q.From == device.Offset && u.body.Edges[q.Index].Value == program.InputRef(i) {
			return true
		}
	}
	return false
}

// lower makes the steps.
func (u *unrolling) lower() *lower.Result {
	u.buffers()
	switch {
	case u.repeats && u.l.While:
		u.until()
		return &u.res
	case u.repeats:
		u.times()
		return &u.res
	}
	for t := range u.l.Length {
		u.iteration(t, u.op.Place(t))
	}
	for r := range u.l.Carries {
		if u.l.While {
			u.choose(r)
		}
	}
	return &u.res
}

// choose adds the step that makes the last value of carry r of a loop of one iteration with a condition: what the
// iteration has computed, or the operand.
func (u *unrolling) choose(r int) {
	o := &u.n.Out[r]
	b := loopir.NewBuilder("choose_"+o.DType.String(), 1, 0)
	flag := b.Access(b.Buf(ir.Bool, loopir.Read), b.Offset(), loopir.Broadcast)
	old, next := b.Linear(b.Buf(o.DType, loopir.Read), b.Offset()), b.Linear(b.Buf(o.DType, loopir.Read), -1)
	to := b.Linear(b.Buf(o.DType, loopir.Write), -1)
	b.Map()
	b.Store(to, b.Select(b.Load(flag), b.Load(next), b.Load(old)))
	u.res.Launches = append(u.res.Launches, device.Step{Op: b.Kernel(),
		Bufs:   []int{u.n.In[0].Buf, u.n.In[r].Buf, u.carries[r], o.Buf},
		Params: []device.Param{device.Const(o.Layout.Numel), device.OffsetOf(0), device.OffsetOf(r)}})
}

// words adds a temporary of so many bytes on the device.
func (u *unrolling) words(bytes int64) int {
	u.res.Temps = append(u.res.Temps, lower.Temp{DType: ir.I32, Numel: (bytes + 3) / 4})
	return u.n.Bufs + len(u.res.Temps) - 1
}

// buffers gives slots and results their buffers.
func (u *unrolling) buffers() {
	results := u.outputs(u.plan, u.body)
	u.spare = make([][2]int, len(u.body.Results))
	for n := range u.plan.Slots {
		s := &u.plan.Slots[n]
		u.fixed, u.written = append(u.fixed, -1), append(u.written, -1)
		r, is := results[n]
		switch {
		case s.Kind == External && s.Index >= u.l.Carries:
			u.fixed[n] = u.n.In[s.Index].Buf
		case s.Kind == External && u.repeats && u.l.While:
			u.fixed[n] = u.n.Out[s.Index].Buf
		case s.Kind == External:
		case !is:
			u.fixed[n] = u.words(s.Bytes)
		case r < u.l.Carries && u.l.While:
			u.written[n], u.spare[r] = r, both(u.words(s.Bytes))
		case r < u.l.Carries:
			u.written[n], u.spare[r] = r, [2]int{u.n.Out[r].Buf, u.n.Out[r].Buf}
			if u.l.Length > 1 {
				u.spare[r][1] = u.words(s.Bytes)
			}
		default:
			u.written[n], u.spare[r] = r, [2]int{u.words(s.Bytes), u.words(s.Bytes)}
		}
	}
}

// result is the buffer that iteration t writes result r to: the last carries are written to the loop's results.
func (u *unrolling) result(r int, t int64) int { return u.spare[r][(u.l.Length-1-t)%2] }

// iteration makes the steps of iteration t at a place of xs and ys.
func (u *unrolling) iteration(t, place int64) {
	u.within = map[int]int{}
	if u.l.Keep {
		for i := range u.l.Carries {
			if t == 0 {
				u.put(device.OffsetOf(i), u.n.In[i].Buf, len(u.body.Results)+i, place)
			} else {
				u.put(device.Const(0), u.carries[i], len(u.body.Results)+i, place)
			}
		}
	}
	for i := range u.plan.Segments {
		s := &u.plan.Segments[i]
		if s.Repeat != nil {
			u.inner(s.Repeat, i, t, place)
		}
		for k := range s.Steps {
			u.step(&s.Steps[k], t, place)
		}
	}
	u.carries = u.carries[:0]
	for r := range u.body.Results {
		if r < u.l.Carries {
			u.carries = append(u.carries, u.result(r, t))
		} else {
			u.put(device.Const(0), u.result(r, t), r, place)
		}
	}
}

// step adds a step of the body's plan.
func (u *unrolling) step(s *device.Step, t, place int64) {
	st := device.Step{Op: s.Op, Inner: u.event(s), Bufs: make([]int, len(s.Bufs)),
		Params: make([]device.Param, len(s.Params))}
	for i, b := range s.Bufs {
		st.Bufs[i] = u.at(b, t)
	}
	for i, q := range s.Params {
		st.Params[i] = u.param(q, t, place)
	}
	u.res.Launches = append(u.res.Launches, st)
}

// at is the buffer of a slot of the body's plan in iteration t.
func (u *unrolling) at(slot int, t int64) int {
	switch {
	case u.fixed[slot] >= 0:
		return u.fixed[slot]
	case u.written[slot] >= 0:
		return u.result(u.written[slot], t)
	}
	return u.carry(u.plan.Slots[slot].Index, t)
}

func both(buf int) [2]int { return [2]int{buf, buf} }

// carry is the buffer of carry i before iteration t.
func (u *unrolling) carry(i int, t int64) int {
	if t == 0 {
		return u.n.In[i].Buf
	}
	return u.carries[i]
}

// param is a parameter of the body's plan as one of the plan around it.
func (u *unrolling) param(q device.Param, t, place int64) device.Param {
	if k := int(q.Index) - len(u.body.Scalars); q.From == device.Scalar && k >= 0 {
		return device.ScalarOf(u.scalars + u.inBody(k, t, place)).Plus(int64(q.Bits))
	}
	return u.moved(u.fixedParam(q, t, place))
}

// fixedParam is a parameter of the body's plan in iteration t, at a place, and how much it is more at the next place.
func (u *unrolling) fixedParam(q device.Param, t, place int64) (p device.Param, next int64) {
	switch q.From {
	case device.Offset:
		at := int64(q.Bits) + u.body.Offsets[q.Index]
		e := u.body.Edges[q.Index].Value
		if !e.IsInput() || e.Index() < u.l.Carries && (t > 0 || u.repeats && u.l.While) {
			return device.Const(at), 0
		}
		if i := e.Index(); i >= u.l.Carries && i < u.l.Carries+u.l.Xs {
			next = ir.AvalOf(u.body.Inputs[i].Aval).Layout.Numel
		}
		return device.OffsetOf(e.Index()).Plus(at + place*next), next
	case device.Scalar:
		at := int64(q.Bits + u.body.Scalars[q.Index])
		for _, d := range u.op.Draws {
			switch int(q.Index) {
			case d - 1: // the seed
				return device.ScalarOf(0), 0
			case d:
				return device.ScalarOf(1).Plus(at + place*u.op.Drawn), u.op.Drawn
			}
		}
		return device.Const(at), 0
	}
	return q, 0
}

// put adds a copy from a buffer to a place of the loop's result r.
func (u *unrolling) put(offset device.Param, from, r int, place int64) {
	n := u.n.Out[r].Layout.Numel / u.l.Length
	u.copy(r, n, offset, from, u.moved(device.Const(place*n), n))
}

// copy adds a copy of n elements to element at of the loop's result r.
func (u *unrolling) copy(r int, n int64, offset device.Param, from int, at device.Param) {
	if n == 0 {
		return
	}
	o := &u.n.Out[r]
	k := u.copies[o.DType]
	if k == nil {
		b := loopir.NewBuilder("place_"+o.DType.String(), 1, 0)
		src, dst := b.Linear(b.Buf(o.DType, loopir.Read), b.Offset()), b.Linear(b.Buf(o.DType, loopir.Write), b.Offset())
		b.Map()
		b.Store(dst, b.Load(src))
		k = b.Kernel()
		u.copies[o.DType] = k
	}
	u.res.Launches = append(u.res.Launches, device.Step{Op: k, Bufs: []int{from, o.Buf},
		Params: []device.Param{device.Const(n), offset, at}})
}
