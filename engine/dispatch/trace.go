package dispatch

import (
	"slices"

	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// A rule is a function of its operands' abstract values: it never sees an element. What it records for one call is
// therefore what it records for every call with equal abstract operands. A cached trace keeps that: the primitives,
// views and draws in order, with operands named by register. Its replay needs no rule, no promotion, no broadcasting,
// no inference of shapes and no interning.
//
// Registers 1 to n are the rule's operands; each step appends its results. op.Val.CaptureReg carries a value's register
// during a capture. A tensor without a register makes the call uncacheable. A number without one is a constant, because
// the key holds every number that the rule may look at.
type cachedTrace struct {
	key   []uint64
	steps []traceStep
	outs  []op.Val // by CaptureReg; None where there is no result
}

type stepKind uint8

const (
	stepEmit stepKind = iota
	stepView
	stepDetach
	stepDraw
)

// traceStep is one call of the Builder. in holds registers as CaptureReg; constants are encoded already, in bits.
type traceStep struct {
	kind   stepKind
	prim   *op.Prim
	attr   []int64
	attrID uint32
	in     []op.Val
	bits   []uint64   // of constant numbers, by operand
	types  []ir.DType // of numbers, by operand
	src    []uint8    // of in, by operand
	taped  bool       // the primitive has a VJP
	avals  []ir.AvalID
	layout ir.LayoutID
	offset int64 // of the view, past its source's
	view   op.ViewOp
}

const (
	maxTraces    = 1 << 13
	maxRegisters = 250 // op.Val.Src is a byte
	seenSets     = 1 << 11
)

// seenCalls remembers hashes of calls, the newest two of each set: calls made once are forgotten when others come.
type seenCalls [seenSets][2]uint64

// seenBefore notes a hash, and reports that it was there.
func (s *seenCalls) seenBefore(hash uint64) bool {
	set := &s[hash%seenSets]
	if set[0] == hash || set[1] == hash {
		return true
	}
	set[0], set[1] = hash, set[0]
	return false
}

// traces are the cached traces, and the capture in progress.
type traces struct {
	byHash      map[uint64]*cachedTrace
	seen        seenCalls // only calls made twice are captured
	hash        uint64    // of the key in hand
	key         []uint64
	capture     *cachedTrace // being made, nil otherwise
	next        int          // registers in use by the capture
	uncacheable bool
	regs        []op.Val
	in          []op.Val
	last        *cachedTrace // the one that the last call replayed; nil when it called the rule
	replayed    int64        // calls that were replayed
}

// find gives the cached trace of a key, nil where there is none. The key is the one that begin and end are about.
func (t *traces) find(key []uint64) *cachedTrace {
	t.key, t.capture = key, nil
	t.hash = op.HashWords(key)
	t.last = t.byHash[t.hash]
	if t.last != nil && !slices.Equal(t.last.key, key) {
		t.last = nil
	}
	return t.last
}

// replay does a cached trace's steps with the registers in hand.
func (d *Dispatcher) replay(c *cachedTrace) []op.Val {
	d.traces.replayed++
	for i := range c.steps {
		d.replayStep(&c.steps[i])
	}
	return d.traces.fetch(c.outs)
}

// fetch gives the values that refs name: what is in their registers, and constants themselves. They are
// valid until the next call.
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

// begin starts a capture of what the rule records, if the call was made before. Tensors get registers, and so do the
// numbers whose bit is set in passThrough. Other numbers are constants, because the key holds them.
func (t *traces) begin(operands, numbers []op.Val, passThrough uint32) {
	if !t.seen.seenBefore(t.hash) || len(operands)+len(numbers) > maxRegisters {
		return
	}
	t.capture, t.uncacheable, t.next = &cachedTrace{key: slices.Clone(t.key)}, false, 0
	for i := range operands {
		t.next++
		operands[i].CaptureReg = 0
		if operands[i].IsTensor() {
			operands[i].CaptureReg = uint8(t.next)
		}
	}
	for i := range numbers {
		t.next++
		if passThrough>>i&1 != 0 {
			numbers[i].CaptureReg = uint8(t.next)
		}
	}
}

// end keeps what was captured, with the rule's results.
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

// newRegister names a new value of the captured rule.
func (t *traces) newRegister() uint8 {
	if t.next++; t.next > maxRegisters {
		t.uncacheable = true
		return 0
	}
	return uint8(t.next)
}

// addEmission adds the step of a primitive just recorded, and names its results.
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

// replayStep does a step with the registers in hand.
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
	if tape || st.prim.IndexInput > 0 {
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
}
