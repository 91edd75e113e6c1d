package gpucode

import (
	"fmt"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// GroupOptions decide the form of the program of a loop that one workgroup runs.
type GroupOptions struct {
	Workgroup         int
	I64               bool
	MaxWorkgroupBytes int
}

// ChooseGroup picks the options of a loop.
func ChooseGroup(op *launch.GroupLoop, caps Caps) GroupOptions {
	caps = caps.withDefaults()
	return GroupOptions{Workgroup: max(32, min(op.Threads, rowWorkgroup(caps))), I64: caps.I64,
		MaxWorkgroupBytes: caps.MaxWorkgroupBytes}
}

// FromGroupLoop makes the program of a loop that one workgroup runs: the programs of its steps in turn, with workgroup
// arrays in place of buffers, and a barrier wherever a step touches what one before it has written or read.
func FromGroupLoop(op *launch.GroupLoop, o GroupOptions) (*gpuir.Program, error) {
	k := &loopir.Kernel{Name: "loop", Params: op.Parameters(), Bufs: op.Bufs, Checks: op.Checks()}
	w := &groupGen{gen: newGen(k, Options{Workgroup: o.Workgroup, I64: o.I64}), op: op, scratch: map[sharedKey]int{}}
	w.p.Groups = []gpuir.GroupFactor{{Params: nil, Per: 1}}
	for i := range op.Arrays {
		a := &op.Arrays[i]
		n := int(a.Numel+3) / 4
		if a.Two {
			n *= 2
		}
		w.p.Shared = append(w.p.Shared, gpuir.SharedArray{Type: w.typ(a.Type.ComputeType()), Len: n, Vec: 4})
	}
	w.clear()
	if err := w.run(); err != nil {
		return nil, err
	}
	return w.p, checkShared(w.p, o.MaxWorkgroupBytes)
}

// groupGen is the state of the generation of such a loop.
type groupGen struct {
	*gen
	op      *launch.GroupLoop
	place   *gpuir.Node       // of the iteration
	half    *gpuir.Node       // 0 or 1: where the old carries lie
	read    map[part]bool     // since the last barrier
	written map[part]bool     // since the last barrier
	scratch map[sharedKey]int // workgroup arrays of steps
}

// part is a workgroup array, or a half of one.
type part struct {
	array int
	turn  launch.Turn
}

func (w *groupGen) clear() { w.read, w.written = map[part]bool{}, map[part]bool{} }

// wait emits a barrier.
func (w *groupGen) wait() {
	w.barrier()
	w.clear()
}

// touch emits a barrier where reads or writes of these parts must wait, and notes them.
func (w *groupGen) touch(reads, writes []part) {
	wait := false
	for _, p := range reads {
		wait = wait || w.written[p]
	}
	for _, p := range writes {
		wait = wait || w.written[p] || w.read[p]
	}
	if wait {
		w.wait()
	}
	for _, p := range reads {
		w.read[p] = true
	}
	for _, p := range writes {
		w.written[p] = true
	}
}

func partOf(s *launch.GroupSlot) part { return part{s.Array, s.Turn} }

// run emits the loop.
func (w *groupGen) run() error {
	halfVar, half := w.variable(gpuir.NInt(0))
	w.half = half
	for i := range w.op.Slots { // what all iterations read, and the first carries
		if s := &w.op.Slots[i]; s.In >= 0 && s.Array >= 0 && !s.Moves {
			w.fetch(s)
		}
	}
	w.wait()
	var err error
	length := w.param(launch.GroupLength)
	end, endVar := length, -1
	if w.op.Condition >= 0 {
		endVar, end = w.variable(w.end(length))
	}
	w.loop(gpuir.NInt(0), end, gpuir.NInt(1), func(t *gpuir.Node) {
		w.place = t
		if w.op.Reverse {
			w.place = w.let(gpuir.NSub(gpuir.NSub(length, gpuir.NInt(1)), t))
		}
		if err = w.iteration(); err != nil {
			return
		}
		w.assign(halfVar, gpuir.NSub(gpuir.NInt(1), half))
		if endVar < 0 {
			w.wait()
			return
		}
		w.assign(endVar, w.end(length))
	})
	if err != nil {
		return err
	}
	w.half = w.let(gpuir.NSub(gpuir.NInt(1), half)) // the last new carries
	for i := range w.op.Slots {
		if s := &w.op.Slots[i]; s.Turn == launch.New && s.Out >= 0 {
			w.copyOut(s, s.Out, nil)
		}
	}
	return nil
}

// end is the number of the iteration before which the loop ends, as far as its condition says it now: all threads wait,
// and read the same.
func (w *groupGen) end(length *gpuir.Node) *gpuir.Node {
	s := &w.op.Slots[w.op.Condition]
	goes := w.p.NewVar(w.p.Shared[s.Array].Type, 1)
	w.emit(gpuir.Stmt{Op: gpuir.SUniform, Var: goes, Ref: s.Array, A: w.base(s)})
	w.clear()
	return gpuir.N(loopir.OpSelect, ir.I32, w.p.NVar(goes), length, gpuir.NInt(0))
}

// iteration emits one iteration.
func (w *groupGen) iteration() error {
	for i := range w.op.Slots {
		s := &w.op.Slots[i]
		if s.Moves && s.Array >= 0 {
			w.touch(nil, []part{partOf(s)})
			w.fetch(s)
		}
		if s.Kept >= 0 {
			w.touch([]part{partOf(s)}, nil)
			w.copyOut(s, s.Kept, w.place)
		}
	}
	for i := range w.op.Steps {
		if err := w.step(&w.op.Steps[i]); err != nil {
			return err
		}
	}
	for i := range w.op.Slots {
		if s := &w.op.Slots[i]; s.Out >= 0 && s.Array >= 0 && s.Turn != launch.New {
			w.touch([]part{partOf(s)}, nil)
			w.copyOut(s, s.Out, w.place)
		}
	}
	return nil
}

// base is the element of an array at which a slot begins; nil: the first one.
func (w *groupGen) base(s *launch.GroupSlot) *gpuir.Node {
	n := gpuir.NInt(int(s.Numel+3) &^ 3)
	switch s.Turn {
	case launch.Old:
		return w.let(gpuir.NMul(w.half, n))
	case launch.New:
		return w.let(gpuir.NMul(gpuir.NSub(gpuir.NInt(1), w.half), n))
	}
	return nil
}

// at is the element of buffer buf at which a slot begins, at a place; nil: it has no places.
func (w *groupGen) at(s *launch.GroupSlot, buf int, place *gpuir.Node) *gpuir.Node {
	n := gpuir.NInt(0)
	if buf < w.op.Operands {
		n = w.param(launch.GroupOffsets + buf)
	}
	if place != nil {
		n = gpuir.NAdd(n, gpuir.NMul(place, gpuir.NInt(int(s.Numel))))
	}
	return w.let(n)
}

// each emits a loop over the elements of a slot, which threads share.
func (w *groupGen) each(s *launch.GroupSlot, body func(e *gpuir.Node)) {
	w.loop(gpuir.NLocal(), gpuir.NInt(int(s.Numel)), gpuir.NInt(w.o.Workgroup), body)
}

// fetch copies a slot from its buffer to its array.
func (w *groupGen) fetch(s *launch.GroupSlot) {
	var place *gpuir.Node
	if s.Moves {
		place = w.place
	}
	from, to := w.at(s, s.In, place), w.base(s)
	w.each(s, func(e *gpuir.Node) {
		v := w.let(gpuir.NLoad(s.In, w.p.Shared[s.Array].Type, 1, w.let(gpuir.NAdd(from, e))))
		at := e
		if to != nil {
			at = gpuir.NAdd(to, e)
		}
		at = w.let(at)
		four := gpuir.NInt(4)
		w.emit(gpuir.Stmt{Op: gpuir.SSharedSet, Ref: s.Array, A: w.let(gpuir.NDiv(at, four)), B: v,
			C: w.let(gpuir.NRem(at, four))})
	})
}

// copyOut copies a slot from its array to a buffer.
func (w *groupGen) copyOut(s *launch.GroupSlot, buf int, place *gpuir.Node) {
	from, to := w.base(s), w.at(s, buf, place)
	w.each(s, func(e *gpuir.Node) {
		at := e
		if from != nil {
			at = gpuir.NAdd(from, e)
		}
		v := w.let(w.p.NSharedElement(s.Array, w.let(at)))
		w.emit(gpuir.Stmt{Op: gpuir.SStore, Ref: buf, A: w.let(gpuir.NAdd(to, e)), B: v})
	})
}

// step emits a step.
func (w *groupGen) step(s *launch.GroupStep) error {
	in := &gpuir.Inlining{Params: s.Params, Event: s.Event, Halves: w.halves(s)}
	var reads, writes []part
	arrays := true // all of its buffers are arrays that have vectors
	for k, use := range s.Op.Buffers() {
		slot := &w.op.Slots[s.Slots[k]]
		p := gpuir.Place{Array: slot.Array, Narrow: slot.Type}
		switch {
		case slot.Array >= 0:
			arrays = arrays && hasVectors(slot.Type)
			if p.At = w.base(slot); use.Access != loopir.Write {
				reads = append(reads, partOf(slot))
			}
			if use.Access != loopir.Read {
				writes = append(writes, partOf(slot))
			}
		case slot.In >= 0:
			arrays = false
			var place *gpuir.Node
			if slot.Moves {
				place = w.place
			}
			p.Buf, p.At = slot.In, w.at(slot, slot.In, place)
		default:
			arrays = false
			p.Buf, p.At = slot.Out, w.at(slot, slot.Out, w.place)
		}
		in.Places = append(in.Places, p)
	}
	var err error
	if in.From, err = w.program(s, in.Places, arrays); err != nil {
		return err
	}
	for n, a := range in.From.Shared {
		in.Arrays = append(in.Arrays, w.scratchArray(a, n))
		writes = append(writes, part{array: in.Arrays[n]})
	}
	w.touch(reads, writes)
	grid := in.From.Grid(s.Params)
	groups := int(grid[0]) * int(grid[1])
	w.eachOf(groups, func(group *gpuir.Node) {
		in.Group = group
		*w.out = append(*w.out, w.p.Inline(in)...)
	})
	return nil
}

// halves are the seed and the Philox offsets of a step that draws, in two words each.
func (w *groupGen) halves(s *launch.GroupStep) map[uint64]*gpuir.Node {
	list := map[uint64]*gpuir.Node{}
	half := func(param, h int) *gpuir.Node {
		return &gpuir.Node{Op: gpuir.PHalf, Type: ir.U32, Width: 1, Imm: uint64(param<<1 | h)}
	}
	set := func(param int, lo, hi *gpuir.Node) { list[uint64(param)<<1], list[uint64(param)<<1|1] = lo, hi }
	seed := w.op.Seed()
	for _, p := range s.Seeds {
		set(p, half(seed, 0), half(seed, 1))
	}
	for _, p := range s.Drawn {
		more := gpuir.NAdd(gpuir.NMul(w.place, gpuir.NInt(int(w.op.Drawn))), gpuir.NInt(int(s.Params[p])))
		lo := w.let(gpuir.N(loopir.OpAdd, ir.U32, half(seed+1, 0), gpuir.N(loopir.OpBitcast, ir.U32, more)))
		one, none := gpuir.NConst(ir.U32, 1), gpuir.NConst(ir.U32, 0)
		carried := gpuir.N(loopir.OpSelect, ir.U32, gpuir.N(loopir.OpLt, ir.Bool, lo, half(seed+1, 0)), one, none)
		set(p, lo, w.let(gpuir.N(loopir.OpAdd, ir.U32, half(seed+1, 1), carried)))
	}
	return list
}

// eachOf emits a body for each number below n.
func (w *groupGen) eachOf(n int, body func(i *gpuir.Node)) {
	switch n {
	case 0:
	case 1:
		body(gpuir.NInt(0))
	default:
		w.loop(gpuir.NInt(0), gpuir.NInt(n), gpuir.NInt(1), body)
	}
}

// scratchArray is an array like the n-th of a step; steps share them.
func (w *groupGen) scratchArray(a gpuir.SharedArray, n int) int {
	key := sharedKey{a.Type, n, a.Len, a.Vec}
	if s, ok := w.scratch[key]; ok {
		return s
	}
	w.p.Shared = append(w.p.Shared, a)
	w.scratch[key] = len(w.p.Shared) - 1
	return w.scratch[key]
}

// program is the program of a step for a workgroup of this many threads.
func (w *groupGen) program(s *launch.GroupStep, places []gpuir.Place, arrays bool) (*gpuir.Program, error) {
	switch op := s.Op.(type) {
	case *loopir.Kernel:
		return w.kernel(op, s.Params, arrays)
	case *launch.Gemm:
		if s.ByElement() {
			return w.kernel(dotKernel(op), s.Params, arrays)
		}
		l := op.Layout()
		o := groupTile(s.Params[l.M], s.Params[l.N], w.o.Workgroup)
		o.I64 = w.o.I64
		Align(op, &o, s.Params)
		o.VecA, o.VecB = o.VecA && places[l.BufA].Array >= 0, o.VecB && places[l.BufB].Array >= 0
		for k := range places {
			if k != l.BufA && k != l.BufB && k != l.BufBias {
				o.VecC = o.VecC && places[k].Array >= 0 && hasVectors(places[k].Narrow)
			}
		}
		return groupProduct(op, s.Params, o), nil
	case *launch.Iterate:
		return FromIterate(op, IterateOptions{Workgroup: w.o.Workgroup, I64: w.o.I64})
	case *launch.GroupLoop:
		return FromGroupLoop(op, GroupOptions{Workgroup: w.o.Workgroup, I64: w.o.I64, MaxWorkgroupBytes: 1 << 30})
	}
	return nil, fmt.Errorf("gpucode: loop: a workgroup does not run %s", s.Op.Label())
}

// kernel is the program of a loop kernel.
func (w *groupGen) kernel(k *loopir.Kernel, params []uint64, arrays bool) (*gpuir.Program, error) {
	o := Options{Workgroup: w.o.Workgroup, Vec: 1, Lanes: 1, I64: w.o.I64, MaxWorkgroupBytes: 1 << 30}
	if k.Inner == 0 && arrays && CanVec(k, params) {
		o.Vec = 4
	}
	if k.Inner > 0 {
		o.OuterFast = outerContiguous(k)
		outer, inner := product(params[:k.Outer]), product(params[k.Outer:k.Outer+k.Inner])
		for o.Lanes < o.Workgroup && uint64(2*o.Lanes) <= inner && uint64(o.Lanes)*outer < uint64(o.Workgroup) {
			o.Lanes *= 2
		}
	}
	list, err := FromKernel(k, o)
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// hasVectors reports a type of which workgroup arrays have vectors.
func hasVectors(t ir.DType) bool { return t != ir.Bool && t != ir.I64 }
