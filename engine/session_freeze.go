package engine

import (
	"errors"
	"slices"
	"time"
	"unsafe"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/engine/runtime"
	"github.com/torchlette/torchlette/engine/simplify"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// frozenShape is the frozen plan of a session for arguments of one shape each.
type frozenShape struct {
	plan   *runtime.Frozen
	shapes [][]int64   // of the arguments
	outs   []ir.AvalID // of the results
	values []uint32    // constants, one reference each
	reads  []*constant // that the plan reads where they lie
	first  []uint64    // by draw: its offset from the call's first one
	ports  []SessionPort
	open   bool // values decide how long a run takes
	brief  bool // the last run that was timed did not take long
}

// fits reports that the arguments have the shapes of the plan.
func (f *frozenShape) fits(in []SessionValue, order []int) bool {
	for i, want := range f.shapes {
		v := &in[order[i]]
		for d, n := range want {
			if v.Shape[d] != n {
				return false
			}
		}
	}
	return true
}

// describe fills in the description of result k.
func (f *frozenShape) describe(q *SessionPort, k int, v *SessionValue) {
	av := ir.AvalOf(f.outs[k])
	v.DType, v.Rank = uint8(av.DType), int32(av.Layout.Rank())
	if q.DType.IsComplex() { // a result of the plan is pairs of numbers
		v.DType, v.Rank = uint8(q.DType), v.Rank-1
	}
	copy(v.Shape[:], av.Layout.Shape[:v.Rank])
	v.Bytes = uint64(av.Layout.Numel) * uint64(av.DType.Size())
	v.Name[copy(v.Name[:MaxSessionName-1], q.Name)] = 0
}

// draw gives the draws of the next run new offsets.
func (f *frozenShape) draw(e *Engine, locks bool) *ir.Error {
	g := f.plan.Plan.Program
	if len(g.Draws) == 0 {
		return nil
	}
	var seed, first op.Val
	take := func() { seed, first = e.session.DrawMany(int64(g.Drawn)) }
	if locks {
		e.alone(take)
	} else {
		take()
	}
	scalars := f.plan.Scalars()
	for i, d := range g.Draws {
		scalars[d.Scalar-1], scalars[d.Scalar] = seed.Bits(), first.Bits()+f.first[i]
	}
	return nil
}

// freeze records the program on arguments of these shapes, and freezes its plan.
func (s *InferenceSession) freeze(in []SessionValue) (f *frozenShape, err *ir.Error) {
	f = &frozenShape{ports: s.out}
	for i := range s.in {
		f.shapes = append(f.shapes, slices.Clone(in[s.order[i]].shape()))
	}
	if err := s.inEngine(func() *ir.Error { return s.build(f) }); err != nil {
		s.e.alone(func() { f.release(s) })
		return nil, err
	}
	if len(s.shapes) == maxShapes {
		s.e.alone(func() { s.shapes[maxShapes-1].release(s) })
		s.shapes = s.shapes[:maxShapes-1]
	}
	s.shapes = slices.Insert(s.shapes, 0, f)
	return f, nil
}

// build is freeze within the engine's locks.
func (s *InferenceSession) build(f *frozenShape) *ir.Error {
	e := s.e
	c, err := s.capture(f)
	if err != nil {
		return err
	}
	defer e.session.Forget(c)
	g := c.Program.Clone()
	g.Stores, g.History = nil, nil
	for k := range g.Results {
		g.Results[k].Of = 0
	}
	values, err := e.session.Bound(c)
	f.values = values
	if err != nil {
		return err
	}
	if err := e.force(pendingOf(e, values), e.session.PendingEffects()); err != nil {
		return err
	}
	for _, id := range values {
		if err := e.lost(id); err != nil {
			return err
		}
	}
	constants := s.given(values)
	defer s.unloadUnread(constants)
	g, constants = s.simplify(g, constants)
	if err := s.stopped(); err != nil {
		return err
	}
	f.open = openEnded(g)
	if err := s.plan(f, g, constants); err != nil {
		return asError(err)
	}
	return nil
}

// pendingOf returns the values that are not computed yet.
func pendingOf(e *Engine, values []uint32) (pending []uint32) {
	for _, id := range values {
		if e.graph.Node(id).Op != ir.OpLeaf {
			pending = append(pending, id)
		}
	}
	return pending
}

// capture records the program in a trace of its own, with the modes of a new thread without gradients.
func (s *InferenceSession) capture(f *frozenShape) (*lazy.Captured, *ir.Error) {
	e := s.e
	if e.captures.tracing {
		return nil, ir.Errorf(ir.ErrBusy, "a session cannot run a new shape while a function is captured")
	}
	if e.backward.open > 0 {
		return nil, ir.Errorf(ir.ErrRuntime, "a session cannot run a new shape in a hook")
	}
	like := s.like(f)
	modes := lazy.ThreadState{ThreadModes: lazy.ThreadModes{DefaultDev: s.options.Device, DeviceSet: true,
		Autocast: [2]ir.DType{s.options.Precision, s.options.Precision}}}
	before := e.session.SwapThread(modes)
	defer func() { e.session.SwapThread(before) }()
	outs := make([]Out, len(like))
	if err := e.beginTrace(like, FenceTrace, outs); err != nil {
		return nil, err
	}
	var args, handles []uint64
	var err *ir.Error
	for i := range outs {
		args = append(args, outs[i].Handle)
	}
	defer func() {
		e.captures.tracing = false
		e.endFence(FenceTrace)
		e.session.EndTrace(true)
		for _, h := range slices.Concat(args, handles) {
			e.session.Release(h)
		}
	}()
	handles, err = s.program.record(e, args)
	if err != nil {
		return nil, err
	}
	results, err := e.resolveAll(handles)
	if err != nil {
		return nil, err
	}
	for k := range results {
		if d := s.resultDType(k); results[k].DType() != d {
			results[k] = prim.Cast(e.session, results[k], d) // of low precision
		}
		results[k] = lazy.Pairs(results[k])
	}
	results = e.session.Dense(results)
	for _, v := range results {
		f.outs = append(f.outs, ir.InternAval(v.DType(), s.options.Device, v.L()).ID)
	}
	c, _, err := e.session.CaptureTrace(results)
	if err == nil && c.WritesState() {
		e.session.Forget(c)
		return nil, ir.Errorf(ir.ErrNotImplemented, "session: the program writes to a constant that is not in its state: "+
			"register it as a buffer, or call the program's module()")
	}
	return c, err
}

// simplify rewrites the program. What only constants decide, it computes now.
func (s *InferenceSession) simplify(g *program.Program, constants []*constant) (*program.Program, []*constant) {
	args := s.arguments()
	s.fetched = map[*constant][]byte{}
	defer func() { s.fetched = nil }()
	if s.enabled("fold_numbers") {
		g = simplify.Numbers(g, args, s.contents(g, constants))
	}
	if s.enabled("find_norms") {
		g = simplify.Norms(g, args)
	}
	if s.enabled("fold_pads") {
		g = simplify.Pads(g, args)
	}
	if s.enabled("fold_constants") {
		g, constants = s.fold(g, constants)
	}
	if s.enabled("fold_numbers") {
		g = simplify.Numbers(g, args, s.contents(g, constants)) // those that were computed
	}
	if s.enabled("find_attention") {
		g, constants = s.attention(g, constants)
	}
	if s.enabled("move_cats") {
		g = simplify.Cats(g, args, s.contents(g, constants))
	}
	g, kept := simplify.Prune(g, args)
	var rest []*constant
	for _, i := range kept[args:] {
		rest = append(rest, constants[i-args])
	}
	return g, rest
}

// fold gives products and convolutions what scales, shifts and quantizes their weights. It computes what only constants
// decide.
func (s *InferenceSession) fold(g *program.Program, constants []*constant) (*program.Program, []*constant) {
	args := s.arguments()
	if s.own && s.enabled("keep_integers") {
		g = simplify.QuantizedConvs(g, args, s.contents(g, constants))
	}
	if s.own && s.enabled("keep_quantized") {
		g = simplify.Quantized(g, args, s.contents(g, constants))
	}
	if s.enabled("fold_scales") {
		g = simplify.Scales(g, args)
	}
	if s.enabled("fold_shifts") {
		g = simplify.Shifts(g, args)
	}
	if s.own && s.enabled("channels_last") {
		g = simplify.ChannelsLast(g, args)
	}
	return s.split(g, constants)
}

// attention finds attention, and masks that are causal.
func (s *InferenceSession) attention(g *program.Program, constants []*constant) (*program.Program, []*constant) {
	args := s.arguments()
	g = simplify.Attention(g, args, s.contents(g, constants))
	if s.enabled("fold_constants") { // masks that were rewritten
		g, constants = s.split(g, constants)
	}
	return simplify.Causal(g, args, s.contents(g, constants)), constants
}

// maxFetched bounds the constants that passes fetch from a device whose memory the host cannot read.
const maxFetched = 16 << 20

// contents gives passes the elements of the constant inputs of g; nil for one that is too large to be fetched.
func (s *InferenceSession) contents(g *program.Program, constants []*constant) func(input int) []byte {
	return func(i int) []byte {
		c := constants[i-s.arguments()]
		if s.load(c) != nil {
			return nil // the plan fails, if it needs the constant
		}
		if p := s.e.runtime.Mapped(c.store); p != nil {
			return unsafe.Slice((*byte)(p), s.e.runtime.Storage(c.store).Bytes)
		}
		if b, ok := s.fetched[c]; ok {
			return b
		}
		av := ir.AvalOf(g.Inputs[i].Aval)
		n := av.Layout.Numel * int64(av.DType.Size())
		if n == 0 || n > maxFetched {
			return nil
		}
		b := make([]byte, n)
		if s.e.runtime.Read(c.store, av.DType, 0, b, 0) != nil {
			b = nil
		}
		s.fetched[c] = b
		return b
	}
}

// enabled reports that a pass of sessions is not left out by TORCHLETTE_DISABLE.
func (s *InferenceSession) enabled(pass string) bool {
	return !slices.Contains(s.e.planner.debug.Off, pass)
}

// runOnce runs a program of constants, and returns the storages of its results. stop, if not nil, ends it early.
func (e *Engine) runOnce(g *program.Program, constants []*constant, stop *device.Stop) (stores []uint32,
	err *ir.Error) {
	b := compile.Builder{Program: g, Caps: e.devices.caps, TileFuser: e.runtime.TileFuser,
		Lowered: &e.planner.cache.Lowered, Debug: compile.Debug{Off: e.planner.debug.Off}}
	p, x := b.Build()
	if x == nil {
		x = e.runtime.Prepare(p)
	}
	if x != nil {
		return nil, asError(x)
	}
	defer e.runtime.ReleasePlan(p)
	var ext []uint32
	for _, c := range constants {
		ext = append(ext, c.store)
	}
	e.runtime.Deadline = time.Time{}
	if stop != nil {
		old := e.runtime.Stop
		e.runtime.Stop = stop
		defer func() { e.runtime.Stop = old }()
	}
	made, x := e.runtime.Run(p, ext, g.Offsets, g.Scalars, nil)
	if errors.Is(x, device.ErrStopped) {
		e.runtime.GiveUp()
		_, _, _ = e.runtime.TakeFault()
		return nil, errInterrupted
	}
	if x != nil {
		return nil, asError(x)
	}
	stores = make([]uint32, len(g.Results))
	for k, r := range g.Results {
		for i, q := range p.Results {
			if q.Local == r.Value.Index() {
				stores[k] = made[i]
			}
		}
	}
	fault, found, x := e.runtime.TakeFault()
	if x == nil && !found {
		return stores, nil
	}
	for _, id := range stores {
		e.runtime.Drop(id)
	}
	if x != nil {
		return nil, asError(x)
	}
	return nil, g.DataError(int(fault.Event), fault.Element)
}

// plan compiles the program and freezes its plan.
func (s *InferenceSession) plan(f *frozenShape, g *program.Program, constants []*constant) error {
	caps := s.e.devices.caps
	if s.own {
		caps = s.x.Caps
		for i := range g.Nodes {
			if d := ir.AvalOf(g.Nodes[i].Aval).Device; d != ir.CPU {
				return ir.Errorf(ir.ErrNotImplemented, "session: the program moves values to %s, and the session is on the CPU",
					ir.DeviceName(d))
			}
		}
	}
	b := compile.Builder{Program: g, Caps: caps, TileFuser: s.x.TileFuser, Lowered: &s.e.planner.cache.Lowered,
		Debug: s.e.planner.debug, Often: true, Fixed: true, Arena: s.own}
	p, err := b.Build()
	if err != nil {
		return err
	}
	var results []int
	for _, r := range g.Results {
		results = append(results, r.Value.Index())
	}
	if f.plan, err = s.x.Freeze(p, s.arguments(), planConstants{s, constants}, results, len(s.kept),
		s.enabled("pack_weights")); err != nil {
		return err
	}
	for _, i := range f.plan.InPlace {
		f.reads = append(f.reads, constants[i])
	}
	s.hold(f)
	for _, d := range p.Program.Draws {
		f.first = append(f.first, p.Program.Scalars[d.Scalar])
	}
	return nil
}

// release returns what f holds. The caller has the engine's lock.
func (f *frozenShape) release(s *InferenceSession) {
	if f.plan != nil {
		f.plan.Release()
	}
	for _, id := range f.values {
		s.e.graph.Release(id)
	}
	for _, c := range f.reads {
		c.readers--
		s.unload(c)
	}
	*f = frozenShape{}
}
