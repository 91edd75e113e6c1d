package dispatch

import (
	"slices"

	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// A rule is a function of its operands' abstract values: it never sees an element. So all calls with equal abstract
// operands record the same steps. A cached trace keeps these steps (primitives, views and draws, in order), with
// operands named by register. A replay skips the rule, promotion, broadcasting, shape inference and interning.
//
// Registers 1 to n are the rule's operands; each step appends its results. During a capture, op.Val.CaptureReg carries
// a value's register. A tensor without a register makes the call uncacheable. A number without one is a constant,
// because the key holds every number that the rule may read.
type cachedTrace struct {
	key   []uint64
	steps []traceStep
	outs  []op.Val // by CaptureReg; None for an absent result
	// checksIndex: a step checks the elements of an index when it is recorded.
	checksIndex bool
}

type stepKind uint8

const (
	stepEmit stepKind = iota
	stepView
	stepDetach
	stepDraw
)

// traceStep is one call of the Builder. in names registers in CaptureReg; bits holds the constants, already encoded.
type traceStep struct {
	kind   stepKind
	prim   *op.Prim
	attr   []int64
	attrID uint32
	in     []op.Val
	bits   []uint64   // of constant numbers, by operand
	types  []ir.DType // of numbers, by operand
	src    []uint16   // of in, by operand
	taped  bool       // the primitive has a VJP
	avals  []ir.AvalID
	layout ir.LayoutID
	offset int64 // the view's offset relative to its source
	view   op.ViewOp
}

const (
	maxTraces    = 1 << 13
	maxRegisters = 1 << 12
	seenSets     = 1 << 11
)

// seenCalls is a set of call hashes with two entries per hash bucket, so that calls made once are soon forgotten.
type seenCalls [seenSets][2]uint64

// seenBefore adds a hash and reports whether it was present.
func (s *seenCalls) seenBefore(hash uint64) bool {
	set := &s[hash%seenSets]
	if set[0] == hash || set[1] == hash {
		return true
	}
	set[0], set[1] = hash, set[0]
	return false
}

// traces holds the cached traces and the capture in progress.
type traces struct {
	byHash      map[uint64]*cachedTrace
	seen        seenCalls // only calls made twice are captured
	hash        uint64    // of the current key
	key         []uint64
	capture     *cachedTrace // nil: no capture
	next        int          // registers in use by the capture
	uncacheable bool
	regs        []op.Val
	in          []op.Val
	last        *cachedTrace // replayed by the last call; nil if that called the rule
	replayed    int64        // number of replayed calls
}

// find returns the cached trace of a key, nil for none. begin and end refer to the key of the last find.
func (t *traces) find(key []uint64) *cachedTrace {
	t.key, t.capture = key, nil
	t.hash = op.HashWords(key)
	t.last = t.byHash[t.hash]
	if t.last != nil && !slices.Equal(t.last.key, key) {
		t.last = nil
	}
	return t.last
}

// replay records the steps of a cached trace on the current registers.
func (d *Dispatcher) replay(c *cachedTrace) []op.Val {
	d.traces.replayed++
	for i := range c.steps {
		d.replayStep(&c.steps[i])
	}
	return d.traces.fetch(c.outs)
}

// fetch returns the values of refs: register contents, or constants. They are valid until the next call.
func (t *traces) fetch(refs []op.Val) []op.Val {
	if len(refs) == 1 && refs[0].CaptureReg != 0 {
		return t.regs[refs[0].CaptureReg-1 : refs[0].CaptureReg]
	}
	t.in = t.in[:0]
	for i := range refs {
		if src := refs[i].CaptureReg; src != 0 {
			t.in = append(t.in, t.regs[src-1])
		} else {
			t.in = append(t.in, refs[i])
		}
	}
	return t.in
}

// begin starts a capture if the call was made once before. Tensors get registers, and so do the numbers marked in
// passThrough. Other numbers are constants, because the key holds them.
func (t *traces) begin(operands, numbers []op.Val, passThrough uint32) {
	if !t.seen.seenBefore(t.hash) || len(operands)+len(numbers) > maxRegisters {
		return
	}
	t.capture, t.uncacheable, t.next = &cachedTrace{key: slices.Clone(t.key)}, false, 0
	for i := range operands {
		t.next++
		operands[i].CaptureReg = 0
		if operands[i].IsTensor() {
			operands[i].CaptureReg = uint16(t.next)
		}
	}
	for i := range numbers {
		t.next++
		if passThrough>>i&1 != 0 {
			numbers[i].CaptureReg = uint16(t.next)
		}
	}
}

// end stores the captured trace with the rule's results.
func (t *traces) end(outs []op.Val) {
	c := t.capture
	t.capture = nil
	if c == nil || t.uncacheable {
		return
	}
	for i := range outs {
		if outs[i].Kind == op.Tensor && outs[i].CaptureReg == 0 {
			return
		}
		o := op.Val{CaptureReg: outs[i].CaptureReg}
		if o.CaptureReg == 0 {
			o = outs[i]
		}
		c.outs = append(c.outs, o)
	}
	if len(t.byHash) >= maxTraces || t.byHash == nil {
		t.byHash = map[uint64]*cachedTrace{}
	}
	t.byHash[t.hash] = c
}

// newRegister allocates a register for a new value.
func (t *traces) newRegister() uint16 {
	if t.next++; t.next > maxRegisters {
		t.uncacheable = true
		return 0
	}
	return uint16(t.next)
}

// addEmission appends the step of the primitive just recorded and assigns registers to its results.
func (t *traces) addEmission(e *lazy.Emission, in []op.Val) {
	st := traceStep{prim: e.Prim, attr: slices.Clone(e.Attr), attrID: e.AttrID, in: slices.Clone(in),
		types: slices.Clone(e.Types), bits: make([]uint64, len(in)), taped: e.Prim.VJP != nil}
	for i := range in {
		st.src = append(st.src, in[i].CaptureReg)
		switch {
		case in[i].IsTensor():
			t.uncacheable = t.uncacheable || in[i].CaptureReg == 0
		case in[i].IsScalar():
			st.bits[i] = in[i].Encode(st.types[i])
		}
	}
	for i := range e.Outs {
		st.avals = append(st.avals, e.Outs[i].Aval)
		e.Outs[i].CaptureReg = t.newRegister()
	}
	t.capture.steps = append(t.capture.steps, st)
	t.capture.checksIndex = t.capture.checksIndex || e.Prim.IndexInput > 0
}

func (t *traces) addView(v op.Val, l *ir.Layout, offset int64, view op.ViewOp, out *op.Val) {
	t.uncacheable = t.uncacheable || v.CaptureReg == 0
	view.Dims = slices.Clone(view.Dims)
	t.capture.steps = append(t.capture.steps, traceStep{kind: stepView, in: []op.Val{v}, layout: l.ID,
		offset: offset - v.Offset, view: view})
	out.CaptureReg = t.newRegister()
}

func (t *traces) addDetach(v op.Val, out *op.Val) {
	t.uncacheable = t.uncacheable || v.CaptureReg == 0
	t.capture.steps = append(t.capture.steps, traceStep{kind: stepDetach, in: []op.Val{v}})
	out.CaptureReg = t.newRegister()
}

func (t *traces) addDraw(seed, drawOffset *op.Val) {
	t.capture.steps = append(t.capture.steps, traceStep{kind: stepDraw})
	seed.CaptureReg = t.newRegister()
	drawOffset.CaptureReg = t.newRegister()
}

// replayStep records one step on the current registers.
func (d *Dispatcher) replayStep(st *traceStep) {
	t, s := &d.traces, d.session
	switch st.kind {
	case stepEmit:
		d.replayEmission(st)
	case stepView:
		v := t.regs[st.in[0].CaptureReg-1]
		t.regs = append(t.regs, s.View(v, ir.LayoutOf(st.layout), v.Offset+st.offset, st.view))
	case stepDetach:
		t.regs = append(t.regs, s.Detach(t.regs[st.in[0].CaptureReg-1]))
	case stepDraw:
		seed, drawOffset := s.RNG()
		t.regs = append(t.regs, seed, drawOffset)
	}
}

func (d *Dispatcher) replayEmission(st *traceStep) {
	t, s := &d.traces, d.session
	d.edges, d.scalars = d.edges[:0], d.scalars[:0]
	taped := uint32(0)
	for i, src := range st.src {
		if src == 0 {
			if st.in[i].IsScalar() {
				d.edges = append(d.edges, ir.Edge{})
				d.scalars = append(d.scalars, st.bits[i])
			}
			continue
		}
		switch v := &t.regs[src-1]; {
		case v.IsTensor():
			d.edges = append(d.edges, ir.Edge{})
			e := &d.edges[len(d.edges)-1]
			e.Value, e.Layout, e.Offset = v.Value, v.Layout, v.Offset
			taped |= v.Tape
		case v.IsScalar():
			d.edges = append(d.edges, ir.Edge{})
			d.scalars = append(d.scalars, v.Encode(st.types[i]))
		}
	}
	tape := taped != 0 && st.taped && s.IsTaping()
	var in []op.Val
	if tape || st.prim.IndexInput > 0 || s.IsTracing() {
		in = t.fetch(st.in)
		if st.prim.IndexInput > 0 {
			s.CheckIndex(st.prim, st.attr, in)
		}
	}
	at := len(t.regs)
	t.regs = s.Add(t.regs, st.prim, st.attrID, st.avals, d.edges, d.scalars)
	if tape {
		s.RecordStep(st.prim, st.attrID, in, t.regs[at:])
	}
	if s.IsTracing() {
		s.NoteOperands(in, t.regs[at].Value)
	}
}
