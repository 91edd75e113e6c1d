package engine

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/runtime"
	"github.com/torchlette/torchlette/ir"
)

// Engine is one runtime. All methods may be called from any thread.
type Engine struct {
	mu      sync.Mutex
	lock    execLock
	cfg     Config
	session *lazy.Session
	runtime *runtime.Executor
	window  *lazy.Window
	cache   *compile.Cache
	debug   compile.Debug
	// verify, which tests set, makes every new plan from its program's text form, after a proof that this loses nothing.
	verify     bool
	sourceLocs sourceLocTable

	args op.Args

	finMu    sync.Mutex
	finalize []uint64
	drained  []uint64    // of the last drain; guarded by mu
	queued   atomic.Bool // finalize is not empty

	poison        *ir.Error
	undone        []undone
	faults        []*ir.Failure // since the last Flush or MarkStep
	inNet         bool          // the safety net runs
	trap          func()        // of tests: called at the begin of each call
	passTrap      func(string)  // of tests: called before each pass of planning
	walks         []walked
	sessions      map[uint64]*session
	nodes         map[uint64]*heldNode // by the step's Seq
	exports       map[uint64]uint32    // values that ExportBuffer holds
	calls         uint64               // operator calls and labelled blocks so far
	label         []autograd.Source    // of the labelled blocks around, the innermost last
	nextID        uint64
	hooks         map[uint64]hookPlace
	deadHooks     []uint64 // hooks whose step is gone, until DeadHooks tells them
	jobs          jobs
	held          *heldWindow // a window whose run has stopped midway; see stop.go
	pausable      bool        // the caller can wait for a job
	read          readCache
	word          [8]byte   // the bytes of one number; see Numbers
	pendingError  *ir.Error // of a deferred call or of the safety net, raised at the next boundary
	recentWindows []ranWindow
	uploads       map[uint32]*uploaded // integers from the host, by storage
	autoFlushAt   int
	byteBudget    int64
	inBackward    int
	stats         counters
	profile       profile
	defaultSet    bool
	firstDevice   ir.DeviceID        // the default of threads that have set none
	deviceSet     bool               // the present thread has set one
	thread        uint64             // whose calls these are; see Thread
	threads       map[uint64]*thread // the others
	deferredCalls deferredCalls
	fences        []fence // of all threads, the innermost of each last
	factories     []int   // by operator: its requires_grad parameter, -1 for none
	decodings     [][]decoding
	passThrough   []uint32 // by operator: its numbers that Eval only passes on
}

// counters feed Info("stats").
type counters struct {
	windows, built, replayed, executed, faults, inPlace, through int64
	keyNanos, runNanos                                           int64
}

// ranWindow remembers what a fault's event number meant.
type ranWindow struct {
	sourceLocs []uint32
	ops        []uint16
	attrs      []uint32
}

type hookPlace struct {
	edge uint32
	seq  uint64
}

// Scalar is a number in a call.
type Scalar struct {
	Kind op.ValKind
	Bits uint64
}

// Call is one operator call; capi decodes tl_call into it without copying.
type Call struct {
	Op        op.OpID
	Mode      uint8 // 0 functional, 1 in place, 2 out=
	SourceLoc uint32
	In        []uint64
	Ints      []int64
	Scalars   []Scalar
	Outs      []uint64
	Drop      []uint64
	Deferred  []DeferredCall // deferred calls made before this one
}

// The modes of a Call.
const (
	ModeFunctional uint8 = iota
	ModeInPlace
	ModeOut
)

// MaxRank bounds the dims of a tensor.
const MaxRank = 16

// Flags of an Out.
const (
	OutRequiresGrad = 1
	OutLeaf         = 2
	OutIsInput      = 4
)

// Out describes a result; it has the memory layout of tl_out.
type Out struct {
	Handle                     uint64
	DType, Device, Rank, Flags uint8
	Layout                     ir.LayoutID // sizes and strides; 0 in no tensor
	Numel                      int64
	DeferID                    uint32 // not 0: what Record can do again; see Queued
	_                          uint32
	Shape                      [MaxRank]int64
}

// operandMarker in Call.In says that the next scalar is the operand.
const operandMarker = uint64(1) << 63

// drain releases the handles whose owners are gone: cleanup only, never execution.
func (e *Engine) drain() {
	for _, h := range e.takeQueued() {
		e.session.Release(h)
	}
}

// takeQueued gives the handles that Release has queued. They are in a list of their own: more may be queued meanwhile.
func (e *Engine) takeQueued() []uint64 {
	e.finMu.Lock()
	defer e.finMu.Unlock()
	e.finalize, e.drained = e.drained[:0], e.finalize
	e.queued.Store(false)
	return e.drained
}

// queueRelease adds to what drain releases.
func (e *Engine) queueRelease(hs []uint64) {
	e.finMu.Lock()
	defer e.finMu.Unlock()
	e.finalize = append(e.finalize, hs...)
	e.queued.Store(true)
}

func (e *Engine) poisoned() *ir.Error {
	if e.poison == nil {
		return nil
	}
	return ir.Errorf(ir.ErrPoisoned, "the engine is poisoned since an earlier failure: %s (call torchlette.reset() to "+
		"start anew)", e.poison.Msg)
}

// Op records an operator.
func (e *Engine) Op(c *Call, outs []Out) (n int, err *ir.Error) {
	defer e.leaveOp(c.SourceLoc, &err)
	e.enter()
	if len(c.Deferred) > 0 {
		e.record(c.Deferred)
	}
	n, err = e.op(c, outs)
	e.recorded()
	return n, err
}

// op is Op inside the lock.
func (e *Engine) op(c *Call, outs []Out) (int, *ir.Error) {
	for _, h := range c.Drop {
		e.session.Release(h)
	}
	if e.poison != nil {
		return 0, e.poisoned()
	}
	d := op.DefOf(c.Op)
	if d == nil {
		return 0, ir.Errorf(ir.ErrHandle, "operator number %d: want 1 to %d", c.Op, len(op.Defs()))
	}
	e.atSourceLoc(c.SourceLoc)
	if err := e.decode(c, d); err != nil {
		return 0, err
	}
	e.session.Taping(e.session.GradMode && !e.session.Inference)
	if numbersOnly(c.In) {
		switch {
		case d.ScalarOverload && c.Mode != ModeInPlace:
			e.args.In[0] = prim.Fill(e.session, e.args.In[0], numberDType(e.session, e.args.In[0]), e.session.DefaultDevice(),
				nil)
		case d.Where&op.Hidden == 0:
			return 0, ir.Errorf(ir.ErrType, "%s() received an invalid combination of arguments: got numbers only, want a "+
				"Tensor among the operands", d.Parsed.Name)
		}
	}
	inPlace := c.Mode == ModeInPlace || d.InPlaceOnly
	e.session.Tape.From = e.source(c, inPlace)
	if inPlace && len(e.args.In) > 0 {
		if e.args.In[0].IsScalar() {
			return 0, ir.Errorf(ir.ErrType, "%s(): argument 'input' (position 1) must be Tensor, not a number", d.Parsed.Name)
		}
		e.args.In[0].Overwritten = true
	}
	vals := e.eval(c, d)
	switch {
	case inPlace:
		return e.storeInPlace(c, d, vals, outs)
	case c.Mode == ModeOut:
		return e.storeOut(c, d, vals, outs)
	}
	if len(vals) > len(outs) {
		return len(vals), ir.Errorf(ir.ErrValue, "%s: results: got room for %d, want %d", d.Parsed.Name, len(outs), len(vals))
	}
	promise := e.deferCall(c, d)
	for i := range vals {
		if vals[i].Base != 0 && e.returnsInput(d, &vals[i]) {
			e.describe(c.In[0], &outs[i])
			outs[i].Flags |= OutIsInput
			continue
		}
		hd := e.session.Wrap(&vals[i], c.In)
		if e.factories[d.ID] >= 0 {
			if err := e.applyRequiresGrad(c, d, hd); err != nil {
				e.session.Release(hd)
				return 0, err
			}
		}
		e.describe(hd, &outs[i])
		outs[i].DeferID = promise
	}
	return len(vals), nil
}

// atSite makes site the line that records.
func (e *Engine) atSourceLoc(sourceLoc uint32) {
	e.session.SourceLoc = sourceLoc
	if e.runtime.Profiling {
		e.session.SourceLoc = e.profile.forward(sourceLoc)
	}
}

// eval calls the operator's rule, or does again what it recorded for equal operands.
func (e *Engine) eval(c *Call, d *op.Def) []op.Val {
	a, unread := &e.args, e.passThrough[d.ID]
	key := e.session.Key(uint64(d.ID) | uint64(len(a.In))<<16 | uint64(len(c.Ints))<<32)
	for i := range a.In {
		key = op.AppendOperand(key, &a.In[i], false)
	}
	for _, v := range c.Ints {
		key = append(key, uint64(v))
	}
	for i := range a.Scalars {
		key = op.AppendOperand(key, &a.Scalars[i], unread>>i&1 != 0)
	}
	vals, ok := e.session.Lookup(key, a.In, a.Scalars)
	if ok {
		return vals
	}
	e.session.BeginCapture(a.In, a.Scalars, unread)
	in := a.In
	a.In = e.autocast(c, d, in)
	vals = d.Eval(a)
	a.In = in
	e.session.EndCapture(vals)
	return vals
}

// returnsInput reports a result that is the first operand itself: the caller returns the
// operand. A view operator's result is another tensor all the same, with a step on the tape.
func (e *Engine) returnsInput(d *op.Def, v *op.Val) bool {
	v.OwnWrites = d.OwnWrites
	if len(e.args.In) == 0 {
		return false
	}
	x := &e.args.In[0]
	if v.Detached || x.Base != v.Base || x.Layout != v.Layout || x.Offset != v.Offset || x.Tape != v.Tape {
		return false
	}
	if !d.NewView && len(d.Parsed.Results) == 1 && !d.Parsed.Results[0].List {
		return true
	}
	if v.Tape != 0 {
		*v = e.session.View(*v, v.L(), v.Offset, op.ViewOp{Kind: op.ViewReshape})
	}
	return false
}

// recorded ends what a call has recorded: the safety net runs what is pending when that is much.
func (e *Engine) recorded() {
	e.session.Tape.From = autograd.Source{}
	e.session.Drain()
	if len(e.session.Graph.Pending) >= e.autoFlushAt || e.session.PendingBytes > e.byteBudget/2 {
		if atomic.LoadInt32(&e.cfg.State.Defer) != 0 {
			atomic.StoreInt32(&e.cfg.State.Due, 1)
		} else {
			e.autoFlush()
		}
	}
}

// numbersOnly reports operands of which some are numbers and none is a tensor.
func numbersOnly(in []uint64) bool {
	return slices.Contains(in, operandMarker) && !slices.ContainsFunc(in, func(h uint64) bool {
		return h != 0 &&
			h != operandMarker
	})
}

// numberDType is that of a tensor made of a number.
func numberDType(b op.Builder, v op.Val) ir.DType {
	switch v.Kind {
	case op.ScalarBool:
		return ir.Bool
	case op.ScalarInt:
		return ir.I64
	}
	return b.DefaultDType()
}

// paramKind is what decode must know of a parameter; the others are integers.
type paramKind uint8

const (
	tensorParam paramKind = iota
	listParam
	scalarParam
)

// decoding lists the operand and scalar parameters of an operator in order; at is the
// parameter's number.
type decoding struct {
	kind paramKind
	at   int
}

func decodings() [][]decoding {
	out := make([][]decoding, len(op.Defs())+1)
	for _, d := range op.Defs() {
		for i := range d.Parsed.Params {
			switch p := &d.Parsed.Params[i]; p.Type {
			case "Tensor", "Operand":
				k := tensorParam
				if p.List {
					k = listParam
				}
				out[d.ID] = append(out[d.ID], decoding{k, i})
			case "float", "Scalar":
				out[d.ID] = append(out[d.ID], decoding{scalarParam, i})
			}
		}
	}
	return out
}

// unreadNumbers finds, by operator, which of its Scalar parameters Def.Unread names.
func passThroughNumbers() []uint32 {
	out := make([]uint32, len(op.Defs())+1)
	for _, d := range op.Defs() {
		k := 0
		for i := range d.Parsed.Params {
			if p := &d.Parsed.Params[i]; p.Type == "float" || p.Type == "Scalar" {
				if slices.Contains(d.PassThrough, p.Name) {
					out[d.ID] |= 1 << k
				}
				k++
			}
		}
	}
	return out
}

// decode resolves the operands of a call. Operands that are numbers and Scalar
// parameters share the list of scalars, in the signature's order.
func (e *Engine) decode(c *Call, d *op.Def) *ir.Error {
	a := &e.args
	a.B, a.Op = e.session, d
	a.In, a.Scalars, a.Ints = a.In[:0], a.Scalars[:0], c.Ints
	a.Reset()
	si, ti := 0, 0
	for _, p := range e.decodings[d.ID] {
		switch p.kind {
		case scalarParam:
			if si >= len(c.Scalars) {
				return tooFew(d, "scalars", len(c.Scalars))
			}
			a.Scalars = append(a.Scalars, op.Number(c.Scalars[si].Kind, c.Scalars[si].Bits))
			si++
			continue
		case listParam:
			k := intIndex(c, d, p.at)
			if k < 0 {
				return tooFew(d, "integers", len(c.Ints))
			}
			for n := c.Ints[k]; n > 1; n-- {
				if err := e.operand(c, d, &ti, &si); err != nil {
					return err
				}
			}
			if c.Ints[k] < 1 {
				continue
			}
		}
		if err := e.operand(c, d, &ti, &si); err != nil {
			return err
		}
	}
	return nil
}

func tooFew(d *op.Def, what string, got int) *ir.Error {
	return ir.Errorf(ir.ErrType, "%s: %s: got %d, want more", d.Parsed.Name, what, got)
}

// operand decodes the next tensor operand.
func (e *Engine) operand(c *Call, d *op.Def, ti, si *int) *ir.Error {
	a := &e.args
	if *ti >= len(c.In) {
		return tooFew(d, "operands", len(c.In))
	}
	h := c.In[*ti]
	*ti++
	switch h {
	case 0:
		a.In = append(a.In, op.Val{})
	case operandMarker:
		if *si >= len(c.Scalars) {
			return tooFew(d, "scalars", len(c.Scalars))
		}
		a.In = append(a.In, op.Number(c.Scalars[*si].Kind, c.Scalars[*si].Bits))
		*si++
	default:
		a.In = append(a.In, op.Val{})
		return e.session.ResolveTo(h, &a.In[len(a.In)-1])
	}
	return nil
}

// intIndex finds the first integer of parameter i by walking those before it; -1 when
// the call has too few.
func intIndex(c *Call, d *op.Def, i int) int {
	k := 0
	for j := 0; j < i; j++ {
		p := &d.Parsed.Params[j]
		switch {
		case p.List:
			if k >= len(c.Ints) {
				return -1
			}
			if n := c.Ints[k]; n > 0 && p.Type != "Tensor" {
				k += int(n)
			}
			k++
		case p.Type == "int" || p.Type == "bool":
			k++
			if p.Opt {
				k++
			}
		case p.Type == "str" || p.Type == "dtype" || p.Type == "device":
			k++
		}
	}
	if k >= len(c.Ints) {
		return -1
	}
	return k
}

// applyRequiresGrad, for operators that have the parameter, honours a factory's requires_grad argument.
func (e *Engine) applyRequiresGrad(c *Call, d *op.Def, hd uint64) *ir.Error {
	if k := intIndex(c, d, e.factories[d.ID]); k >= 0 && c.Ints[k] != 0 {
		return e.session.SetRequiresGrad(hd, true)
	}
	return nil
}

// factoryParams finds the requires_grad parameter of each operator, -1 for none.
func factoryParams() []int {
	out := make([]int, len(op.Defs())+1)
	for i := range out {
		out[i] = -1
	}
	for _, d := range op.Defs() {
		out[d.ID] = d.Parsed.RequiresGrad()
	}
	return out
}

// describe fills an Out for a handle.
func (e *Engine) describe(hd uint64, o *Out) {
	h, err := e.session.Handle(hd)
	if err != nil {
		panic(err)
	}
	av := ir.AvalOf(e.session.Base(h.Base).Aval)
	l := ir.LayoutOf(h.Layout)
	if len(l.Shape) > MaxRank {
		e.session.Release(hd)
		panic(ir.Errorf(ir.ErrRuntime, "tensors have at most %d dims, got %d", MaxRank, len(l.Shape)))
	}
	if slices.ContainsFunc(l.Shape, func(n int64) bool { return n < 0 }) {
		e.session.Release(hd)
		panic(ir.Errorf(ir.ErrRuntime, "a shape is too large: its sizes overflow: got %s", ir.ShapeString(l.Shape)))
	}
	o.Handle, o.DType, o.Device, o.Rank, o.Flags, o.Numel, o.Layout = hd, uint8(av.DType), uint8(av.Device),
		uint8(len(l.Shape)), OutLeaf, l.Numel, h.Layout
	o.DeferID = 0
	copy(o.Shape[:], l.Shape)
	if e.session.RequiresGrad(h) {
		o.Flags |= OutRequiresGrad
		if !e.session.IsLeaf(h) {
			o.Flags &^= OutLeaf
		}
	}
}

// gradName gives the name of a handle's grad_fn, "" for leaves.
func (e *Engine) gradName(h *lazy.Handle) string {
	if e.session.IsLeaf(h) {
		return ""
	}
	return e.session.Tape.Name(h.Tape)
}
