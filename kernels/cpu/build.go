package cpu

// #include "vector/cpu.h"
import "C"

import (
	"cmp"
	"fmt"
	"slices"
	"unsafe"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

const (
	opDraw = C.TLK_DRAW
	opFma  = C.TLK_FMA
	opSum  = C.TLK_SUM
)

func sortBy(s []int, key func(int) int) {
	slices.SortStableFunc(s, func(a, b int) int { return cmp.Compare(key(a), key(b)) })
}

// program is a list of steps built in C memory.
type program struct {
	dev   *Device
	mem   arena
	prog  *C.tl_prog
	slots []*C.char // the C array of slot addresses
	steps int
	codes []codeUse // of its steps
	hot   bool      // no kernel of codes waits for machine code
	// joined maps a step to the joint launch that it runs if it also does the work of the step before it.
	joined map[int]launch.Op
	calls  []call     // the steps that run in Go, in order
	bodies []*program // of its loops
	loops  []*loopCode
	ffts   []*fftPlan // of its steps
}

func first[T any](s []T) *T {
	if len(s) == 0 {
		return nil
	}
	return &s[0]
}

// Release implements device.Program.
func (p *program) Release() {
	for _, f := range p.codes {
		p.dev.forget(f.kernelCode)
	}
	for _, f := range p.ffts {
		p.dev.dropFFT(f)
	}
	p.mem.release()
	for _, b := range p.bodies {
		b.Release()
	}
	for _, l := range p.loops {
		l.code.release()
	}
	p.codes, p.prog, p.slots, p.calls, p.bodies, p.loops, p.ffts = nil, nil, nil, nil, nil, nil, nil
}

// Build implements device.Device.
func (d *Device) Build(steps []device.Step, slots int) (_ device.Program, err error) {
	defer d.draft.Release()
	return d.build(steps, slots)
}

// build makes a program, or the body of a loop in one.
func (d *Device) build(steps []device.Step, slots int) (built *program, err error) {
	p := &program{dev: d, steps: len(steps)}
	defer func() {
		if err != nil {
			p.Release()
			built = nil
		}
	}()
	defer recovered(&err)
	p.prog = &array[C.tl_prog](&p.mem, 1)[0]
	p.slots = array[*C.char](&p.mem, max(slots, 1))[:slots]
	p.prog.nstep, p.prog.nslot, p.prog.slots = C.int32_t(len(steps)), C.int32_t(slots), first(p.slots)
	list := array[C.tl_step](&p.mem, len(steps))
	p.prog.step = first(list)
	all := make([]*kernelCode, len(steps))
	for i := range steps {
		if all[i], err = d.step(p, i, &steps[i], &list[i]); err != nil {
			return nil, err
		}
	}
	p.fuse(steps, list, all)
	if err := joinGradients(p, steps, list); err != nil {
		return nil, err
	}
	return p, nil
}

// recovered turns a panic with an *ir.Error into err; other panics go on.
func recovered(err *error) {
	if r := recover(); r != nil {
		e, ok := r.(*ir.Error)
		if !ok {
			panic(r)
		}
		*err = e
	}
}

// step makes the C form of step i. It returns the code of a kernel, or nil for other launches.
func (d *Device) step(p *program, i int, s *device.Step, c *C.tl_step) (*kernelCode, error) {
	bufs := array[C.int32_t](&p.mem, len(s.Bufs))
	for i, b := range s.Bufs {
		if b < 0 {
			panic(fmt.Sprintf("BUG: cpu: buffer slot %d", b))
		}
		bufs[i] = C.int32_t(b)
	}
	c.nbuf, c.slot, c.buf = C.int32_t(len(s.Bufs)), first(bufs), first(array[*C.char](&p.mem, len(s.Bufs)))
	par := array[C.int64_t](&p.mem, len(s.Params))
	c.npar, c.par = C.int32_t(len(s.Params)), first(par)
	d.dyn = d.dyn[:0]
	for i, x := range s.Params {
		par[i] = C.int64_t(x.Bits)
		switch x.From {
		case device.Offset:
			d.dyn = append(d.dyn, C.tl_dynpar{par: C.int32_t(i), offset: C.int32_t(x.Index), scalar: -1,
				bits: C.int64_t(x.Bits)})
		case device.Scalar:
			d.dyn = append(d.dyn, C.tl_dynpar{par: C.int32_t(i), offset: -1, scalar: C.int32_t(x.Index),
				bits: C.int64_t(x.Bits)})
		}
	}
	held := array[C.tl_dynpar](&p.mem, len(d.dyn))
	copy(held, d.dyn)
	if rerunnable(s) {
		c.rerunnable = 1
	}
	c.ndyn, c.dyn, c.event = C.int32_t(len(held)), first(held), C.uint32_t(s.Event)
	return d.generate(p, i, s, c)
}

// generate makes the code of step i. It is the device's only switch over the kinds of launch.
func (d *Device) generate(p *program, i int, s *device.Step, c *C.tl_step) (f *kernelCode, err error) {
	switch op := s.Op.(type) {
	case *loopir.Kernel:
		if f, err = d.codeOf(p, op, s, 0); err == nil {
			c.kind, c.kern = C.TLK_STEP_KERNEL, f.kern
		}
	case *launch.Gemm:
		c.kind = C.TLK_STEP_GEMM
		c.gemm, err = d.gemm(p, op, s)
	case *launch.Attention:
		c.kind = C.TLK_STEP_ATTENTION
		c.attention, err = attention(&p.mem, op, s.Params)
	case *launch.Factor:
		c.kind = C.TLK_STEP_FACTOR
		c.factor, err = factor(&p.mem, op, s)
	case *launch.Sort:
		c.kind = C.TLK_STEP_SORT
		c.sort, err = sortRows(&p.mem, op, s.Params)
	case *launch.FFT:
		c.kind = C.TLK_STEP_FFT
		c.fft, err = d.fft(p, op, s)
	case *launch.Quantized:
		c.kind = C.TLK_STEP_QUANTIZED
		c.quantized, err = quantized(&p.mem, op, s.Params)
	case *launch.QuantizedConv:
		c.kind, err = quantizedConv(op, s.Params)
	case *launch.ConvLast:
		c.kind, err = convLast(op, s.Params)
	case launch.Copy:
		c.kind = C.TLK_STEP_COPY
	case launch.Fill:
		c.kind = C.TLK_STEP_ZERO
	case *device.Loop:
		c.kind = C.TLK_STEP_LOOP
		c.loop, err = d.loop(p, op)
	case Generator:
		err = p.generateCall(i, op, s)
	default:
		err = ir.Errorf(ir.ErrKernelExecution, "cpu: no code for a launch of %T", op)
	}
	return f, err
}

func (e *emitter) layRegisters(mem *arena, k *C.tl_kern, a *allocation) {
	off := array[C.uint32_t](mem, len(a.offset))
	for i, o := range a.offset {
		off[i] = C.uint32_t(o)
	}
	k.nreg, k.regoff, k.arena = C.int32_t(len(off)), first(off), C.int64_t(a.arena)
	k.nuniform, k.nshared = C.int32_t(a.uniform), C.int32_t(a.shared)
	extra := array[C.int32_t](mem, len(e.extra))
	for i, r := range e.extra {
		extra[i] = -1
		if r >= 0 {
			extra[i] = C.int32_t(a.number[r])
		}
	}
	k.extra = first(extra)
}

func (e *emitter) laySpaces(k *C.tl_kern) {
	for g, to := range []*C.tl_space{&k.outer, &k.inner} {
		s := e.spaces[g]
		to.n, to.t = C.int32_t(len(s.size)), C.int32_t(s.t)
		for d, n := range s.size {
			to.size[d] = C.int64_t(n)
		}
		to.chunk, to.trail = C.int64_t(s.chunk), C.int64_t(s.trail)
		to.pieces, to.tiles, to.u, to.upieces = 1, 0, -1, 1
		if s.uchunk > 0 {
			to.u, to.uchunk, to.upieces = C.int32_t(s.u), C.int64_t(s.uchunk), C.int64_t(s.upieces())
		}
		if s.numel() > 0 {
			to.pieces, to.tiles = C.int64_t(s.pieces()), C.int64_t(s.tiles())
		}
	}
	k.rows = 1
	if e.bundle {
		k.rows = C.int64_t(e.capacity(laneOuter))
	}
	k.ocap, k.fcap = C.int64_t(e.capacity(laneOuter)), C.int64_t(e.capacity(laneTile))
}

func (e *emitter) layMaps(mem *arena, k *C.tl_kern) {
	maps := array[C.tl_affine](mem, len(e.maps))
	k.affine = first(maps)
	for i, m := range e.maps {
		c := &maps[i]
		c.buf, c._type, c.offset = C.int32_t(m.buf), C.int32_t(m.typ), C.int32_t(m.offset)
		c.base = C.int64_t(m.base)
		for d, v := range m.stride[outer] {
			c.ostride[d] = C.int64_t(v)
		}
		for d, v := range m.stride[inner] {
			c.istride[d] = C.int64_t(v)
		}
		for _, kind := range [...]int{laneOuter, laneTile} {
			w := e.walk(m, kind)
			c.walk[kind].nd = C.int32_t(len(w))
			for d, x := range w {
				c.walk[kind].d[d] = C.tl_dim{mul: C.int32_t(x.mul), dyn: C.int32_t(x.dyn), stride: C.int64_t(x.stride)}
			}
		}
	}
}

func (e *emitter) layAccs(mem *arena, k *C.tl_kern) {
	accs := array[C.tl_acc](mem, len(e.accs)+len(e.hidden))
	k.nacc, k.acc = C.int32_t(len(accs)), first(accs)
	lanes := int64(k.ocap)
	state := int64(0)
	for i := range accs {
		n, hidden := i, i >= len(e.accs)
		if hidden {
			n = e.hidden[i-len(e.accs)].of
		}
		a := e.accs[n]
		t := e.k.Exprs[a.Val].Type
		op, bytes := reductions[a.Op], t.Size()
		switch {
		case a.Op == loopir.Sum || a.Op == loopir.Prod || a.Op == loopir.LogSum:
			bytes = 8
		case hidden && a.Op == loopir.ArgMax:
			op = C.TLK_AMAX
		case hidden:
			op = C.TLK_AMIN
		}
		accs[i].op, accs[i]._type, accs[i].bytes = C.uint8_t(op), C.uint8_t(t), C.int32_t(bytes)
		state += (lanes*int64(bytes) + 63) &^ 63
		if a.Idx >= 0 && !hidden {
			accs[i].itype = C.uint8_t(e.k.Exprs[a.Idx].Type)
			state += (lanes*8 + 63) &^ 63
		}
		if a.Op == loopir.Sum && t == ir.F32 {
			state += (lanes*4 + 63) &^ 63
		}
	}
	k.state = C.int64_t(state)
}

func (e *emitter) layCode(mem *arena, k *C.tl_kern, a *allocation) {
	num := func(r int) C.int32_t {
		if r < 0 {
			return -1
		}
		return C.int32_t(a.number[r])
	}
	lay := func(s *segment, to *C.tl_seg) {
		code := array[C.tl_ins](mem, len(s.code))
		to.at, to.n = first(code), C.int32_t(len(code))
		for i, x := range s.code {
			if x.run != nil {
				x.imm = int64(x.run.address)
			}
			code[i] = C.tl_ins{op: C.uint8_t(x.op), _type: C.uint8_t(x.typ), _var: C.uint8_t(x.variant),
				lanes: C.uint8_t(x.lanes),
				d:     num(x.d), a: num(x.a), b: num(x.b), c: num(x.c), aux: C.int32_t(x.aux), imm: C.int64_t(x.imm)}
		}
	}
	lay(&e.uniform, &k.uniform)
	lay(&e.worker, &k.wpro)
	stages := array[C.tl_stage](mem, len(e.stages))
	k.nstage, k.stage = C.int32_t(len(stages)), first(stages)
	acc, hidden := 0, 0
	for i := range stages {
		st := &e.k.Stages[i]
		c := &stages[i]
		if st.OverInner {
			c.over_inner = 1
		}
		c.prefix = C.int32_t(e.stages[i].folds)
		if e.whole(st) {
			c.whole = 1
		}
		c.acc0, c.nacc = C.int32_t(acc), C.int32_t(len(st.Accs))
		acc += len(st.Accs)
		c.hidden0 = C.int32_t(len(e.accs) + hidden)
		for _, h := range e.hidden {
			if h.stage == i {
				hidden++
				c.nhidden++
			}
		}
		lay(&e.stages[i].outer, &c.outer)
		lay(&e.stages[i].prologue, &c.prologue)
		lay(&e.stages[i].inner, &c.inner)
		strides := e.strides(i)
		held := array[C.tl_stride](mem, len(strides))
		for n, r := range strides {
			held[n] = C.tl_stride{reg: num(r), bytes: C.int32_t(e.regs[r].step)}
		}
		c.stride, c.nstride = first(held), C.int32_t(len(held))
	}
}

// whole reports a stage whose inner space is not cut into chunks: running values over columns; and running values of an
// operation so expensive that computing the chunks' totals first costs more than a second thread gains.
func (e *emitter) whole(st *loopir.Stage) bool {
	return st.Prefix &&
		(e.columns || slices.ContainsFunc(st.Accs, func(a loopir.Acc) bool { return a.Op == loopir.LogSum }))
}

// Lane operations: of one claim from the thread pool, and the fewest for which waking the pool pays.
const (
	grainOps    = 1 << 16
	parallelOps = 1 << 17
)

// cost estimates the work of a segment for each lane, in simple operations.
func cost(s *segment) int64 {
	n := int64(0)
	for _, i := range s.code {
		switch i.op {
		case C.TLK_EXP, C.TLK_LOG, C.TLK_TANH, C.TLK_ERF, C.TLK_SIN, C.TLK_COS:
			n += 8
		case C.TLK_POW, C.TLK_DRAW, C.TLK_REM, C.TLK_LOGADD, C.TLK_LOGSUM:
			n += 32
		case C.TLK_DIRECT:
		case C.TLK_CODE:
			n += int64(len(i.run.reads)+len(i.run.writes)) + int64(len(i.run.code))/4
		default:
			n++
		}
		if i.typ == int(ir.F64) || i.typ == int(ir.I64) || i.typ == int(ir.U64) {
			n++
		}
	}
	return n + 1
}

// laySchedule decides how threads share the kernel.
func (e *emitter) laySchedule(k *C.tl_kern) {
	tileOuter, tileInner := int64(k.ocap), int64(k.fcap)
	perTile, inOneStage := int64(0), int64(0)
	for i := range e.stages {
		perTile += cost(&e.stages[i].outer) * tileOuter
		if st := &e.k.Stages[i]; st.OverInner {
			w := cost(&e.stages[i].inner) * tileInner * int64(k.inner.tiles)
			perTile += w
			if !e.whole(st) {
				inOneStage = max(inOneStage, w)
			}
		}
	}
	k.chunk_tiles = C.int64_t(e.chunkTiles(tileInner))
	tiles := int64(k.outer.tiles)
	k.grain = C.int64_t(max(1, grainOps/max(1, perTile)))
	if e.serial {
		return
	}
	splits := inOneStage >= 2*parallelOps && int64(k.inner.tiles) > int64(k.chunk_tiles)
	switch {
	case tiles < 8 && splits:
		k.parallel_inner = 1
	case tiles >= 2 && perTile*tiles >= parallelOps:
		k.parallel_outer = 1
	}
}

// missing names the instructions that have no function.
func (e *emitter) missing(k *C.tl_kern) string {
	var b []byte
	segs := []C.tl_seg{k.uniform, k.wpro}
	for _, s := range unsafe.Slice(k.stage, int(k.nstage)) {
		segs = append(segs, s.outer, s.prologue, s.inner)
	}
	for _, s := range segs {
		for _, i := range unsafe.Slice(s.at, int(s.n)) {
			if i.fn == nil {
				b = append(b, []byte(" op ")...)
				b = appendInts(b, int(i.op), int(i._type), int(i._var))
			}
		}
	}
	return string(b)
}
